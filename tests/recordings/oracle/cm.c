/* The scenarios of src/bin/scenario_cm.rs with librdmacm, to be recorded and compared: scenario-cm ADDRESS NAME.
 * Both ends are in this process, each with a channel of its own. */

#include <arpa/inet.h>
#include <rdma/rdma_cma.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PORT 7700
#define STEP 5000

static struct sockaddr_in here;
static struct rdma_event_channel *passive, *active;

static void check(int failed, const char *what)
{
	if (failed) {
		perror(what);
		exit(1);
	}
}

#define OK(call) check((call) != 0, #call)
#define MADE(call) ({ __typeof__(call) made = (call); check(!made, #call); made; })

static struct sockaddr *at(uint16_t port)
{
	here.sin_port = htons(port);
	return (struct sockaddr *)&here;
}

static struct rdma_cm_id *id(struct rdma_event_channel *channel, enum rdma_port_space space)
{
	struct rdma_cm_id *made;

	OK(rdma_create_id(channel, &made, NULL, space));
	return made;
}

/* The next event, which is this one; for a request, its id. */
static struct rdma_cm_id *next(struct rdma_event_channel *channel, enum rdma_cm_event_type type)
{
	struct rdma_cm_event *event;
	struct rdma_cm_id *of;

	OK(rdma_get_cm_event(channel, &event));
	if (event->event != type) {
		fprintf(stderr, "%s, not %s\n", rdma_event_str(event->event), rdma_event_str(type));
		exit(1);
	}
	of = event->id;
	OK(rdma_ack_cm_event(event));
	return of;
}

static struct rdma_cm_id *listener(enum rdma_port_space space)
{
	struct rdma_cm_id *made = id(passive, space);

	OK(rdma_bind_addr(made, at(PORT)));
	OK(rdma_listen(made, 1024));
	return made;
}

static struct rdma_cm_id *resolved(enum rdma_port_space space)
{
	struct rdma_cm_id *made = id(active, space);

	OK(rdma_resolve_addr(made, NULL, at(PORT), STEP));
	next(active, RDMA_CM_EVENT_ADDR_RESOLVED);
	OK(rdma_resolve_route(made, STEP));
	next(active, RDMA_CM_EVENT_ROUTE_RESOLVED);
	return made;
}

static struct ibv_pd *pd;
static struct ibv_cq *cq;

static void queue_pair(struct rdma_cm_id *of)
{
	struct ibv_qp_init_attr attr = {
		.cap = { .max_send_wr = 16, .max_recv_wr = 8, .max_send_sge = 1, .max_recv_sge = 1 },
		.qp_type = of->ps == RDMA_PS_UDP ? IBV_QPT_UD : IBV_QPT_RC,
	};

	if (!pd) {
		pd = MADE(ibv_alloc_pd(of->verbs));
		cq = MADE(ibv_create_cq(of->verbs, 32, NULL, NULL, 0));
	}
	attr.send_cq = attr.recv_cq = cq;
	OK(rdma_create_qp(of, pd, &attr));
}

static void destroy(struct rdma_cm_id *gone)
{
	if (gone->qp)
		rdma_destroy_qp(gone);
	OK(rdma_destroy_id(gone));
}

static struct rdma_conn_param said(const char *data)
{
	return (struct rdma_conn_param){
		.private_data = data,
		.private_data_len = strlen(data),
		.responder_resources = 1,
		.initiator_depth = 1,
		.retry_count = 6,
		.rnr_retry_count = 6,
	};
}

/* Datagrams have no connection to describe. */
static struct rdma_conn_param told(const char *data)
{
	return (struct rdma_conn_param){ .private_data = data, .private_data_len = strlen(data) };
}

static void connect_and_disconnect(void)
{
	struct rdma_cm_id *listening = listener(RDMA_PS_TCP), *ours = resolved(RDMA_PS_TCP), *theirs;
	struct rdma_conn_param asks = said("hello"), answers = said("welcome");

	queue_pair(ours);
	OK(rdma_connect(ours, &asks));
	theirs = next(passive, RDMA_CM_EVENT_CONNECT_REQUEST);
	queue_pair(theirs);
	OK(rdma_accept(theirs, &answers));
	next(active, RDMA_CM_EVENT_ESTABLISHED);
	next(passive, RDMA_CM_EVENT_ESTABLISHED);
	OK(rdma_disconnect(ours));
	next(passive, RDMA_CM_EVENT_DISCONNECTED);
	OK(rdma_disconnect(theirs));
	next(active, RDMA_CM_EVENT_DISCONNECTED);
	next(active, RDMA_CM_EVENT_TIMEWAIT_EXIT);
	next(passive, RDMA_CM_EVENT_TIMEWAIT_EXIT);
	destroy(ours);
	destroy(theirs);
	destroy(listening);
}

static void reject(void)
{
	struct rdma_cm_id *listening = listener(RDMA_PS_TCP), *ours = resolved(RDMA_PS_TCP), *theirs;
	struct rdma_conn_param asks = said("hello");

	queue_pair(ours);
	OK(rdma_connect(ours, &asks));
	theirs = next(passive, RDMA_CM_EVENT_CONNECT_REQUEST);
	OK(rdma_reject(theirs, "busy", 4));
	next(active, RDMA_CM_EVENT_REJECTED);
	destroy(ours);
	destroy(theirs);
	destroy(listening);
}

static void resolve(void)
{
	struct rdma_cm_id *listening = id(passive, RDMA_PS_TCP), *ours;
	struct sockaddr_in source = here, nowhere = here;
	uint8_t tos = 0x20, timeout = 15;
	int yes = 1;

	OK(rdma_set_option(listening, RDMA_OPTION_ID, RDMA_OPTION_ID_REUSEADDR, &yes, sizeof yes));
	OK(rdma_bind_addr(listening, at(PORT)));
	OK(rdma_listen(listening, 5));
	ours = id(active, RDMA_PS_TCP);
	OK(rdma_set_option(ours, RDMA_OPTION_ID, RDMA_OPTION_ID_TOS, &tos, sizeof tos));
	OK(rdma_set_option(ours, RDMA_OPTION_ID, RDMA_OPTION_ID_ACK_TIMEOUT, &timeout, sizeof timeout));
	source.sin_port = 0;
	OK(rdma_resolve_addr(ours, (struct sockaddr *)&source, at(PORT), STEP));
	next(active, RDMA_CM_EVENT_ADDR_RESOLVED);
	OK(rdma_resolve_route(ours, STEP));
	next(active, RDMA_CM_EVENT_ROUTE_RESOLVED);
	destroy(ours);
	destroy(listening);
	/* An address that no route leads to. */
	inet_pton(AF_INET, "192.0.2.1", &nowhere.sin_addr);
	nowhere.sin_port = htons(PORT);
	ours = id(active, RDMA_PS_TCP);
	check(!rdma_resolve_addr(ours, NULL, (struct sockaddr *)&nowhere, STEP), "a route");
	destroy(ours);
}

static void datagrams(void)
{
	struct rdma_cm_id *listening = listener(RDMA_PS_UDP), *ours = resolved(RDMA_PS_UDP), *theirs;
	struct rdma_conn_param asks = told("who?"), answers = told("me");

	queue_pair(ours);
	OK(rdma_connect(ours, &asks));
	theirs = next(passive, RDMA_CM_EVENT_CONNECT_REQUEST);
	queue_pair(theirs);
	answers.qp_num = theirs->qp->qp_num;
	OK(rdma_accept(theirs, &answers));
	next(active, RDMA_CM_EVENT_ESTABLISHED);
	destroy(theirs);
	destroy(ours);
	ours = resolved(RDMA_PS_UDP);
	queue_pair(ours);
	OK(rdma_connect(ours, &asks));
	theirs = next(passive, RDMA_CM_EVENT_CONNECT_REQUEST);
	OK(rdma_reject(theirs, "busy", 4));
	next(active, RDMA_CM_EVENT_UNREACHABLE);
	destroy(theirs);
	destroy(ours);
	destroy(listening);
}

static void multicast(void)
{
	struct sockaddr_in group = { .sin_family = AF_INET };
	struct rdma_cm_join_mc_attr_ex only = {
		.comp_mask = RDMA_CM_JOIN_MC_ATTR_ADDRESS | RDMA_CM_JOIN_MC_ATTR_JOIN_FLAGS,
		.join_flags = RDMA_MC_JOIN_FLAG_SENDONLY_FULLMEMBER,
		.addr = (struct sockaddr *)&group,
	};
	struct rdma_cm_id *ours = id(active, RDMA_PS_UDP);

	inet_pton(AF_INET, "239.1.2.3", &group.sin_addr);
	OK(rdma_bind_addr(ours, at(0)));
	OK(rdma_join_multicast(ours, (struct sockaddr *)&group, NULL));
	next(active, RDMA_CM_EVENT_MULTICAST_JOIN);
	OK(rdma_leave_multicast(ours, (struct sockaddr *)&group));
	destroy(ours);
	ours = id(active, RDMA_PS_UDP);
	OK(rdma_bind_addr(ours, at(0)));
	OK(rdma_join_multicast_ex(ours, &only, NULL));
	next(active, RDMA_CM_EVENT_MULTICAST_JOIN);
	OK(rdma_leave_multicast(ours, (struct sockaddr *)&group));
	destroy(ours);
}

int main(int argc, char **argv)
{
	const char *name = argc == 3 ? argv[2] : "";

	here.sin_family = AF_INET;
	check(argc != 3 || inet_pton(AF_INET, argv[1], &here.sin_addr) != 1, "scenario-cm ADDRESS NAME");
	passive = MADE(rdma_create_event_channel());
	active = MADE(rdma_create_event_channel());
	if (!strcmp(name, "connect"))
		connect_and_disconnect();
	else if (!strcmp(name, "reject"))
		reject();
	else if (!strcmp(name, "resolve"))
		resolve();
	else if (!strcmp(name, "datagrams"))
		datagrams();
	else if (!strcmp(name, "multicast"))
		multicast();
	else
		check(1, "no such scenario");
	if (pd) {
		OK(ibv_destroy_cq(cq));
		OK(ibv_dealloc_pd(pd));
	}
	rdma_destroy_event_channel(active);
	rdma_destroy_event_channel(passive);
	return 0;
}
