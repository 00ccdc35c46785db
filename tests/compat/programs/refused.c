/* Calls functions with NULL, and out of order. Prints how many were refused as they should be, and
   the numbers of those that were not. */
#include <errno.h>
#include <netinet/in.h>
#include <rdma/rdma_cma.h>
#include <rdma/rdma_verbs.h>
#include <stdio.h>
#include <string.h>

static int count, wrong;

static void expect(int result, int expected)
{
	count++;
	if (result != -1 || errno != expected) {
		printf("number %d: %d, %s\n", count, result, strerror(errno));
		wrong++;
	}
	errno = 0;
}

#define EXPECT(call, code) (errno = 0, expect(call, code))

int main(void)
{
	struct sockaddr_in address = { .sin_family = AF_INET }, nowhere = address;
	struct rdma_event_channel *channel = rdma_create_event_channel();
	/* RAI_SA of newer headers. */
	struct rdma_addrinfo hints = { .ai_flags = 0x10 }, *info;
	struct ibv_qp_init_attr attr = { .qp_type = IBV_QPT_RC };
	struct rdma_conn_param param = { .qp_num = 1 };
	struct ibv_qp_attr state = { .qp_state = IBV_QPS_INIT };
	struct ibv_ece ece = {};
	struct rdma_cm_id *id, *other;
	char tos = 1;
	int mask;

	if (!channel || rdma_create_id(channel, &id, NULL, RDMA_PS_TCP))
		return 1;
	EXPECT(rdma_create_id(channel, NULL, NULL, RDMA_PS_TCP), EINVAL);
	EXPECT(rdma_create_id(channel, &other, NULL, 7), EINVAL);
	EXPECT(rdma_destroy_id(NULL), EINVAL);
	EXPECT(rdma_bind_addr(NULL, (struct sockaddr *)&address), EINVAL);
	EXPECT(rdma_bind_addr(id, NULL), EINVAL);
	EXPECT(rdma_resolve_addr(NULL, NULL, (struct sockaddr *)&address, 1), EINVAL);
	EXPECT(rdma_resolve_addr(id, NULL, NULL, 1), EINVAL);
	nowhere.sin_family = 99;
	EXPECT(rdma_resolve_addr(id, NULL, (struct sockaddr *)&nowhere, 1), EINVAL);
	EXPECT(rdma_resolve_route(NULL, 1), EINVAL);
	EXPECT(rdma_resolve_route(id, 1), ENODEV);
	EXPECT(rdma_listen(NULL, 1), EINVAL);
	EXPECT(rdma_connect(NULL, &param), EINVAL);
	EXPECT(rdma_connect(id, &param), ENODEV);
	EXPECT(rdma_accept(NULL, &param), EINVAL);
	EXPECT(rdma_accept(id, NULL), ENODEV);
	EXPECT(rdma_establish(NULL), EINVAL);
	EXPECT(rdma_establish(id), EINVAL);
	EXPECT(rdma_reject(NULL, NULL, 0), EINVAL);
	EXPECT(rdma_reject_ece(NULL, NULL, 0), EINVAL);
	EXPECT(rdma_disconnect(NULL), EINVAL);
	EXPECT(rdma_disconnect(id), EINVAL);
	EXPECT(rdma_notify(NULL, IBV_EVENT_COMM_EST), EINVAL);
	EXPECT(rdma_notify(id, IBV_EVENT_QP_FATAL), EINVAL);
	EXPECT(rdma_create_qp(NULL, NULL, &attr), EINVAL);
	EXPECT(rdma_create_qp(id, NULL, NULL), EINVAL);
	EXPECT(rdma_create_qp(id, NULL, &attr), ENODEV);
	EXPECT(rdma_create_qp_ex(id, NULL), EINVAL);
	EXPECT(rdma_create_srq(id, NULL, NULL), EINVAL);
	EXPECT(rdma_create_srq_ex(id, NULL), EINVAL);
	EXPECT(rdma_init_qp_attr(NULL, &state, &mask), EINVAL);
	EXPECT(rdma_init_qp_attr(id, NULL, &mask), EINVAL);
	EXPECT(rdma_init_qp_attr(id, &state, NULL), EINVAL);
	EXPECT(rdma_init_qp_attr(id, &state, &mask), EINVAL);
	EXPECT(rdma_set_option(NULL, RDMA_OPTION_ID, RDMA_OPTION_ID_TOS, &tos, 1), EINVAL);
	EXPECT(rdma_set_option(id, RDMA_OPTION_ID, RDMA_OPTION_ID_TOS, NULL, 1), EINVAL);
	EXPECT(rdma_set_option(id, RDMA_OPTION_ID, RDMA_OPTION_ID_TOS, &tos, 4), EINVAL);
	EXPECT(rdma_set_option(id, 9, 9, &tos, 1), ENOSYS);
	EXPECT(rdma_join_multicast(NULL, (struct sockaddr *)&address, NULL), EINVAL);
	EXPECT(rdma_join_multicast(id, NULL, NULL), EINVAL);
	EXPECT(rdma_join_multicast_ex(id, NULL, NULL), EINVAL);
	EXPECT(rdma_leave_multicast(id, (struct sockaddr *)&address), EADDRNOTAVAIL);
	EXPECT(rdma_migrate_id(NULL, channel), EINVAL);
	EXPECT(rdma_get_cm_event(NULL, NULL), EINVAL);
	EXPECT(rdma_get_cm_event(channel, NULL), EINVAL);
	EXPECT(rdma_ack_cm_event(NULL), EINVAL);
	EXPECT(rdma_get_request(NULL, &other), EINVAL);
	EXPECT(rdma_get_request(id, &other), EINVAL);
	EXPECT(rdma_create_ep(&other, NULL, NULL, NULL), EINVAL);
	EXPECT(rdma_create_ep(NULL, &hints, NULL, NULL), EINVAL);
	EXPECT(rdma_getaddrinfo(NULL, NULL, NULL, &info), EINVAL);
	EXPECT(rdma_getaddrinfo("127.0.0.1", NULL, NULL, NULL), EINVAL);
	EXPECT(rdma_getaddrinfo(NULL, "1", &hints, &info), EOPNOTSUPP);
	EXPECT(rdma_set_local_ece(NULL, &ece), EINVAL);
	EXPECT(rdma_set_local_ece(id, &ece), EINVAL);
	EXPECT(rdma_get_remote_ece(id, NULL), EINVAL);
	rdma_destroy_qp(NULL);
	rdma_destroy_srq(NULL);
	rdma_destroy_ep(NULL);
	rdma_destroy_event_channel(NULL);
	rdma_free_devices(NULL);
	rdma_freeaddrinfo(NULL);
	if (rdma_destroy_id(id))
		return 2;
	rdma_destroy_event_channel(channel);
	printf("%d refused, %d not\n", count - wrong, wrong);
	return 0;
}
