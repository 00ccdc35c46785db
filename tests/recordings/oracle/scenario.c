/* The scenarios of src/bin/scenario with libibverbs, to be recorded and compared: scenario DEVICE NAME. */

#include <arpa/inet.h>
#include <stdint.h>
#include <string.h>

#include "scenario.h"

#define PAGES 16384
#define PSN 0x1234
#define QKEY 0x11111111

struct ibv_context *context;
char *memory;

void check(int failed, const char *what)
{
	if (failed) {
		perror(what);
		exit(1);
	}
}

static uint8_t gid_index(union ibv_gid *gid)
{
	struct ibv_gid_entry entries[64];
	int count = ibv_query_gid_table(context, entries, 64, 0);
	uint8_t index = 0;

	check(count <= 0, "ibv_query_gid_table");
	/* The last of the first port: of an IP address where there is one. */
	for (int at = 0; at < count; at++)
		if (entries[at].port_num == PORT) {
			index = entries[at].gid_index;
			*gid = entries[at].gid;
		}
	return index;
}

static int is_ethernet(void)
{
	struct ibv_port_attr port;

	OK(ibv_query_port(context, PORT, &port));
	return port.link_layer == IBV_LINK_LAYER_ETHERNET;
}

static uint16_t lid(void)
{
	struct ibv_port_attr port;

	OK(ibv_query_port(context, PORT, &port));
	return port.lid;
}

static void queries(void)
{
	struct ibv_device_attr_ex attr;
	struct ibv_gid_entry entries[64], entry;
	struct ibv_port_attr port;

	OK(ibv_query_device_ex(context, NULL, &attr));
	OK(ibv_query_port(context, PORT, &port));
	check(ibv_query_gid_table(context, entries, 64, 0) <= 0, "ibv_query_gid_table");
	OK(ibv_query_gid_ex(context, PORT, 0, &entry, 0));
}

static void regions(void)
{
	struct ibv_pd *pd = MADE(ibv_alloc_pd(context));
	struct ibv_pd *other = MADE(ibv_alloc_pd(context));
	struct ibv_mr *mr = MADE(ibv_reg_mr(pd, memory, 4096, IBV_ACCESS_LOCAL_WRITE));
	struct ibv_mr *open = MADE(ibv_reg_mr(pd, memory + 4096, 5000,
		IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC));
	struct ibv_mr *moved = MADE(ibv_reg_mr_iova(pd, memory, 8192, 0x10000000, IBV_ACCESS_LOCAL_WRITE));
	struct ibv_mr *relaxed = MADE(ibv_reg_mr(pd, memory, 4096, IBV_ACCESS_RELAXED_ORDERING));
	OK(ibv_dereg_mr(relaxed));
	OK(ibv_dereg_mr(moved));
	/* Not all kernels and devices can; how they refuse is compared. */
	ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0,
		IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ);
	ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_PD, other, NULL, 0, 0);
	OK(ibv_dereg_mr(open));
	OK(ibv_dereg_mr(mr));
	OK(ibv_dealloc_pd(other));
	OK(ibv_dealloc_pd(pd));
}

static void windows(void)
{
	struct ibv_pd *pd = MADE(ibv_alloc_pd(context));
	struct ibv_mw *one = MADE(ibv_alloc_mw(pd, IBV_MW_TYPE_1));
	struct ibv_mw *two = MADE(ibv_alloc_mw(pd, IBV_MW_TYPE_2));
	OK(ibv_dealloc_mw(one));
	OK(ibv_dealloc_mw(two));
	OK(ibv_dealloc_pd(pd));
}

static void completion_queues(void)
{
	struct ibv_comp_channel *channel = MADE(ibv_create_comp_channel(context));
	struct ibv_cq *plain = MADE(ibv_create_cq(context, 100, NULL, NULL, 0));
	struct ibv_cq *waking = MADE(ibv_create_cq(context, 1, NULL, channel, 0));
	OK(ibv_req_notify_cq(waking, 0));
	OK(ibv_req_notify_cq(waking, 1));
	OK(ibv_resize_cq(plain, 200));
	OK(ibv_destroy_cq(waking));
	OK(ibv_destroy_cq(plain));
	OK(ibv_destroy_comp_channel(channel));
}

struct ibv_qp *queue_pair(struct ibv_pd *pd, struct ibv_cq *cq, struct ibv_srq *srq, enum ibv_qp_type type)
{
	struct ibv_qp_init_attr init = {
		.send_cq = cq, .recv_cq = cq, .srq = srq, .qp_type = type,
		.cap = { .max_send_wr = 16, .max_recv_wr = srq ? 0 : 8, .max_send_sge = 2, .max_recv_sge = srq ? 0 : 1,
			 .max_inline_data = 64 },
	};
	return MADE(ibv_create_qp(pd, &init));
}

struct ibv_ah_attr path(void)
{
	struct ibv_ah_attr attr = { .port_num = PORT };

	if (is_ethernet()) {
		attr.is_global = 1;
		attr.grh.hop_limit = 64;
		attr.grh.sgid_index = gid_index(&attr.grh.dgid);
	} else {
		attr.dlid = lid();
	}
	return attr;
}

void connect_to_itself(struct ibv_qp *qp, enum ibv_qp_type type)
{
	int mask = IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT;
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_INIT, .port_num = PORT };

	if (type == IBV_QPT_UD) {
		attr.qkey = QKEY;
		mask |= IBV_QP_QKEY;
	} else {
		attr.qp_access_flags = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE;
		mask |= IBV_QP_ACCESS_FLAGS;
	}
	OK(ibv_modify_qp(qp, &attr, mask));

	attr = (struct ibv_qp_attr){ .qp_state = IBV_QPS_RTR };
	mask = IBV_QP_STATE;
	if (type != IBV_QPT_UD) {
		attr.ah_attr = path();
		attr.path_mtu = IBV_MTU_1024;
		attr.dest_qp_num = qp->qp_num;
		attr.rq_psn = PSN;
		mask |= IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN;
	}
	if (type == IBV_QPT_RC) {
		attr.max_dest_rd_atomic = 1;
		attr.min_rnr_timer = 12;
		mask |= IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
	}
	OK(ibv_modify_qp(qp, &attr, mask));

	attr = (struct ibv_qp_attr){ .qp_state = IBV_QPS_RTS, .sq_psn = PSN };
	mask = IBV_QP_STATE | IBV_QP_SQ_PSN;
	if (type == IBV_QPT_RC) {
		attr.timeout = 14;
		attr.retry_cnt = 7;
		attr.rnr_retry = 7;
		attr.max_rd_atomic = 1;
		mask |= IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC;
	}
	OK(ibv_modify_qp(qp, &attr, mask));
}

static void ask(struct ibv_qp *qp)
{
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr;
	/* All that a kernel can be asked by this command. */
	int mask = (1 << 21) - 1;

	OK(ibv_query_qp(qp, &attr, mask, &init));
}

static void to_state(struct ibv_qp *qp, enum ibv_qp_state state)
{
	struct ibv_qp_attr attr = { .qp_state = state };

	OK(ibv_modify_qp(qp, &attr, IBV_QP_STATE));
}

static void states(enum ibv_qp_type type)
{
	struct ibv_pd *pd = MADE(ibv_alloc_pd(context));
	struct ibv_cq *cq = MADE(ibv_create_cq(context, 32, NULL, NULL, 0));
	struct ibv_qp *qp = queue_pair(pd, cq, NULL, type);

	ask(qp);
	connect_to_itself(qp, type);
	ask(qp);
	to_state(qp, IBV_QPS_ERR);
	ask(qp);
	to_state(qp, IBV_QPS_RESET);
	OK(ibv_destroy_qp(qp));
	OK(ibv_destroy_cq(cq));
	OK(ibv_dealloc_pd(pd));
}

static struct ibv_srq *shared_queue(struct ibv_pd *pd)
{
	struct ibv_srq_init_attr init = { .attr = { .max_wr = 64, .max_sge = 2 } };

	return MADE(ibv_create_srq(pd, &init));
}

static void shared_queues(int can_grow)
{
	struct ibv_pd *pd = MADE(ibv_alloc_pd(context));
	struct ibv_cq *cq = MADE(ibv_create_cq(context, 32, NULL, NULL, 0));
	struct ibv_srq *srq = shared_queue(pd);
	struct ibv_srq_attr attr = { .srq_limit = 4 };
	struct ibv_qp *qp;

	OK(ibv_modify_srq(srq, &attr, IBV_SRQ_LIMIT));
	OK(ibv_query_srq(srq, &attr));
	if (can_grow) {
		attr = (struct ibv_srq_attr){ .max_wr = 120 };
		OK(ibv_modify_srq(srq, &attr, IBV_SRQ_MAX_WR));
		OK(ibv_query_srq(srq, &attr));
	}
	qp = queue_pair(pd, cq, srq, IBV_QPT_RC);
	OK(ibv_destroy_qp(qp));
	OK(ibv_destroy_srq(srq));
	OK(ibv_destroy_cq(cq));
	OK(ibv_dealloc_pd(pd));
}

static void addresses(void)
{
	struct ibv_pd *pd = MADE(ibv_alloc_pd(context));
	struct ibv_ah_attr attr = path();
	struct ibv_ah *ah;

	attr.sl = 3;
	if (attr.is_global)
		attr.grh.traffic_class = 8;
	ah = MADE(ibv_create_ah(pd, &attr));
	OK(ibv_destroy_ah(ah));
	OK(ibv_dealloc_pd(pd));
}

static void multicast(void)
{
	struct ibv_pd *pd = MADE(ibv_alloc_pd(context));
	struct ibv_cq *cq = MADE(ibv_create_cq(context, 32, NULL, NULL, 0));
	struct ibv_qp *qp = queue_pair(pd, cq, NULL, IBV_QPT_UD);
	union ibv_gid group;

	check(inet_pton(AF_INET6, "ff0e::7", group.raw) != 1, "inet_pton");
	connect_to_itself(qp, IBV_QPT_UD);
	OK(ibv_attach_mcast(qp, &group, 0xc007));
	OK(ibv_detach_mcast(qp, &group, 0xc007));
	OK(ibv_destroy_qp(qp));
	OK(ibv_destroy_cq(cq));
	OK(ibv_dealloc_pd(pd));
}

/* A message to itself out of a shared queue, which wakes the channel and goes below the limit. */
static void events(void)
{
	struct ibv_pd *pd = MADE(ibv_alloc_pd(context));
	struct ibv_comp_channel *channel = MADE(ibv_create_comp_channel(context));
	struct ibv_cq *cq = MADE(ibv_create_cq(context, 32, NULL, channel, 0));
	struct ibv_mr *mr = MADE(ibv_reg_mr(pd, memory, 4096, IBV_ACCESS_LOCAL_WRITE));
	struct ibv_srq *srq = shared_queue(pd);
	struct ibv_qp *qp = queue_pair(pd, cq, srq, IBV_QPT_RC);
	struct ibv_sge piece = { .addr = (uintptr_t)memory, .length = 64, .lkey = mr->lkey };
	struct ibv_recv_wr *bad_recv, recv = { .sg_list = &piece, .num_sge = 1 };
	struct ibv_send_wr *bad, send = { .sg_list = &piece, .num_sge = 1, .opcode = IBV_WR_SEND,
		.send_flags = IBV_SEND_SIGNALED };
	struct ibv_srq_attr limit = { .srq_limit = 2 };
	struct ibv_async_event event;
	struct ibv_cq *woken;
	struct ibv_wc wc;
	void *cookie;
	int left = 2;

	connect_to_itself(qp, IBV_QPT_RC);
	OK(ibv_post_srq_recv(srq, &recv, &bad_recv));
	OK(ibv_post_srq_recv(srq, &recv, &bad_recv));
	OK(ibv_modify_srq(srq, &limit, IBV_SRQ_LIMIT));
	OK(ibv_req_notify_cq(cq, 0));
	OK(ibv_post_send(qp, &send, &bad));
	OK(ibv_get_async_event(context, &event));
	check(event.event_type != IBV_EVENT_SRQ_LIMIT_REACHED, "the event");
	ibv_ack_async_event(&event);
	OK(ibv_get_cq_event(channel, &woken, &cookie));
	ibv_ack_cq_events(woken, 1);
	while (left > 0) {
		int count = ibv_poll_cq(cq, 1, &wc);
		check(count < 0 || (count && wc.status), "ibv_poll_cq");
		left -= count;
	}
	OK(ibv_destroy_qp(qp));
	OK(ibv_destroy_srq(srq));
	OK(ibv_dereg_mr(mr));
	OK(ibv_destroy_cq(cq));
	OK(ibv_destroy_comp_channel(channel));
	OK(ibv_dealloc_pd(pd));
}

int main(int argc, char **argv)
{
	struct ibv_device **list = MADE(ibv_get_device_list(NULL));
	const char *name = argc == 3 ? argv[2] : "";
	int at = 0;

	while (list[at] && argc == 3 && strcmp(ibv_get_device_name(list[at]), argv[1]))
		at++;
	check(!list[at] || argc != 3, "scenario DEVICE NAME");
	memory = aligned_alloc(4096, PAGES);
	memset(memory, 0, PAGES);
	context = MADE(ibv_open_device(list[at]));
	ibv_free_device_list(list);
	if (!strcmp(name, "queries"))
		queries();
	else if (!strcmp(name, "regions"))
		regions();
	else if (!strcmp(name, "windows"))
		windows();
	else if (!strcmp(name, "completion-queues"))
		completion_queues();
	else if (!strcmp(name, "rc"))
		states(IBV_QPT_RC);
	else if (!strcmp(name, "uc"))
		states(IBV_QPT_UC);
	else if (!strcmp(name, "ud"))
		states(IBV_QPT_UD);
	else if (!strcmp(name, "shared-queues"))
		shared_queues(!strncmp(argv[1], "rxe", 3));
	else if (!strcmp(name, "addresses"))
		addresses();
	else if (!strcmp(name, "multicast"))
		multicast();
	else if (!strcmp(name, "events"))
		events();
	else
		check(!play_mlx5(name), "no such scenario");
	OK(ibv_close_device(context));
	return 0;
}
