/* The scenarios of src/bin/scenario/{firmware,shaping,raw_packets}.rs with libmlx5. */

#include <endian.h>
#include <fcntl.h>
#include <infiniband/mlx5dv.h>
#include <stdint.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "scenario.h"

/* The software ConnectX. */
#define MODEL "/dev/virtio-ports/testbed.connectx"

#define QUERY_HCA_CAP 0x100
#define CREATE_CQ 0x400
#define QUERY_CQ 0x402
#define MODIFY_CQ 0x403
#define ALLOC_FLOW_COUNTER 0x939
#define QUERY_FLOW_COUNTER 0x93b

#define PORT_CHANGE 9
#define CQ_ERROR 4
#define COOKIE 0x77

/* What a peer's device can do, and what both can. */
#define PEER 0x10000035
#define AGREED 0x10000005

#define SHARE MLX5DV_SCHED_ELEM_ATTR_FLAGS_BW_SHARE
#define CAP MLX5DV_SCHED_ELEM_ATTR_FLAGS_MAX_AVG_BW
/* Of mlx5_user_ioctl_verbs.h: an index of the table of rates that nobody else has. */
#define DEDICATED 1

/* A command, as big-endian words. */
static void word(uint32_t *command, int at, uint32_t value)
{
	command[at / 4] |= htobe32(value);
}

static void opcode(uint32_t *command, size_t bytes, uint16_t opcode, uint16_t modifier)
{
	memset(command, 0, bytes);
	word(command, 0, opcode << 16);
	word(command, 4, modifier);
}

/* Has the model tell the first function's port that its clients should register again. */
static void change_of_the_port(void)
{
	static const char wish[] = "event 0 client-reregister 0\n";
	int model = open(MODEL, O_RDWR);
	char said = 0;

	check(model < 0, MODEL);
	check(write(model, wish, sizeof(wish) - 1) < 0, "write");
	while (said != '\n')
		check(read(model, &said, 1) < 0, "read");
	OK(close(model));
}

static uint32_t number(const uint32_t *reply)
{
	return be32toh(reply[2]) & 0xffffff;
}

/* Capabilities, a completion queue by commands, later replies, events. */
static void firmware(void)
{
	uint32_t ask[4], caps[(16 + 4096) / 4] = {0}, create[0x110 / 4], reply[0x110 / 4] = {0}, eqn;
	struct mlx5dv_devx_umem *umem;
	struct mlx5dv_devx_uar *uar;
	struct mlx5dv_devx_obj *cq;
	struct mlx5dv_devx_cmd_comp *replies;
	struct mlx5dv_devx_event_channel *channel, *silent;
	uint16_t cq_error = CQ_ERROR, port_change = PORT_CHANGE;
	char later[sizeof(struct mlx5dv_devx_async_cmd_hdr) + 64], event[sizeof(struct mlx5dv_devx_async_event_hdr) + 64];
	int descriptor = eventfd(0, 0);

	/* What ethernet ports can do, now. */
	opcode(ask, sizeof(ask), QUERY_HCA_CAP, 1 << 1 | 1);
	OK(mlx5dv_devx_general_cmd(context, ask, sizeof(ask), caps, sizeof(caps)));
	OK(mlx5dv_devx_query_eqn(context, 0, &eqn));
	umem = MADE(mlx5dv_devx_umem_reg(context, memory, 8192, IBV_ACCESS_LOCAL_WRITE));
	uar = MADE(mlx5dv_devx_alloc_uar(context, MLX5DV_UAR_ALLOC_TYPE_NC));

	/* 64 entries, the record behind them. */
	opcode(create, sizeof(create), CREATE_CQ, 0);
	word(create, 0x10, 1 << 25);
	word(create, 0x14, umem->umem_id);
	word(create, 0x1c, 6 << 24 | uar->page_id);
	word(create, 0x24, eqn);
	word(create, 0x4c, 4096);
	word(create, 0x58, umem->umem_id);
	word(create, 0x5c, 1u << 31);
	cq = MADE(mlx5dv_devx_obj_create(context, create, sizeof(create), reply, 16));
	uint32_t cqn = number(reply);

	opcode(ask, sizeof(ask), QUERY_CQ, 0);
	word(ask, 8, cqn);
	OK(mlx5dv_devx_obj_query(cq, ask, sizeof(ask), reply, sizeof(reply)));
	/* Moderation. */
	opcode(create, sizeof(create), MODIFY_CQ, 0);
	word(create, 0x08, cqn);
	word(create, 0x0c, 3);
	word(create, 0x20, 5 << 16 | 4);
	OK(mlx5dv_devx_obj_modify(cq, create, sizeof(create), reply, 16));

	replies = MADE(mlx5dv_devx_create_cmd_comp(context));
	OK(mlx5dv_devx_obj_query_async(cq, ask, sizeof(ask), 64, COOKIE, replies));
	OK(mlx5dv_devx_get_async_cmd_comp(replies, (void *)later, sizeof(later)));
	mlx5dv_devx_destroy_cmd_comp(replies);

	channel = MADE(mlx5dv_devx_create_event_channel(context, 0));
	silent = MADE(mlx5dv_devx_create_event_channel(context, MLX5DV_DEVX_CREATE_EVENT_CHANNEL_FLAGS_OMIT_EV_DATA));
	OK(mlx5dv_devx_subscribe_devx_event(channel, cq, sizeof(cq_error), &cq_error, COOKIE));
	OK(mlx5dv_devx_subscribe_devx_event(channel, NULL, sizeof(port_change), &port_change, COOKIE + 1));
	OK(mlx5dv_devx_subscribe_devx_event(silent, NULL, sizeof(port_change), &port_change, COOKIE + 2));
	OK(mlx5dv_devx_subscribe_devx_event_fd(silent, descriptor, cq, CQ_ERROR));
	change_of_the_port();
	check(mlx5dv_devx_get_event(channel, (void *)event, sizeof(event)) < 0, "mlx5dv_devx_get_event");
	check(mlx5dv_devx_get_event(silent, (void *)event, 8) < 0, "mlx5dv_devx_get_event");
	mlx5dv_devx_destroy_event_channel(silent);
	mlx5dv_devx_destroy_event_channel(channel);

	OK(mlx5dv_devx_obj_destroy(cq));
	mlx5dv_devx_free_uar(uar);
	OK(mlx5dv_devx_umem_dereg(umem));
}

/* Of registers, with and without write combining. */
static void pages(void)
{
	struct mlx5dv_devx_uar *plain = MADE(mlx5dv_devx_alloc_uar(context, MLX5DV_UAR_ALLOC_TYPE_NC));
	struct mlx5dv_devx_uar *combining = mlx5dv_devx_alloc_uar(context, MLX5DV_UAR_ALLOC_TYPE_BF);

	if (combining)
		mlx5dv_devx_free_uar(combining);
	mlx5dv_devx_free_uar(plain);
}

static struct mlx5dv_sched_attr element(struct mlx5dv_sched_node *parent, uint32_t flags, uint32_t share, uint32_t cap)
{
	return (struct mlx5dv_sched_attr){ .parent = parent, .flags = flags, .bw_share = share, .max_avg_bw = cap };
}

static void scheduling(void)
{
	struct ibv_pd *pd = MADE(ibv_alloc_pd(context));
	struct ibv_cq *cq = MADE(ibv_create_cq(context, 32, NULL, NULL, 0));
	struct ibv_qp *qp = queue_pair(pd, cq, NULL, IBV_QPT_RC);
	struct ibv_qp_attr init = { .qp_state = IBV_QPS_INIT, .port_num = PORT };
	struct mlx5dv_sched_attr attr = element(NULL, 0, 0, 0);
	struct mlx5dv_sched_node *root = MADE(mlx5dv_sched_node_create(context, &attr)), *node;
	struct mlx5dv_sched_leaf *one, *two;
	struct ibv_qp *early = queue_pair(pd, cq, NULL, IBV_QPT_RC);

	attr = element(root, SHARE | CAP, 2, 20000);
	node = MADE(mlx5dv_sched_node_create(context, &attr));
	attr = element(node, SHARE, 7, 0);
	one = MADE(mlx5dv_sched_leaf_create(context, &attr));
	attr = element(root, CAP, 0, 4096);
	two = MADE(mlx5dv_sched_leaf_create(context, &attr));
	attr = element(root, SHARE, 5, 0);
	OK(mlx5dv_sched_node_modify(node, &attr));
	attr = element(node, CAP, 0, 100);
	OK(mlx5dv_sched_leaf_modify(one, &attr));
	OK(ibv_modify_qp(early, &init, IBV_QP_STATE | IBV_QP_PORT | IBV_QP_PKEY_INDEX | IBV_QP_ACCESS_FLAGS));
	connect_to_itself(qp, IBV_QPT_RC);
	OK(mlx5dv_modify_qp_sched_elem(early, one, NULL));
	OK(mlx5dv_modify_qp_sched_elem(qp, one, two));
	OK(mlx5dv_modify_qp_sched_elem(qp, NULL, NULL));
	OK(mlx5dv_modify_qp_sched_elem(early, NULL, NULL));
	OK(ibv_destroy_qp(early));
	OK(ibv_destroy_qp(qp));
	OK(mlx5dv_sched_leaf_destroy(two));
	OK(mlx5dv_sched_leaf_destroy(one));
	OK(mlx5dv_sched_node_destroy(node));
	OK(mlx5dv_sched_node_destroy(root));
	OK(ibv_destroy_cq(cq));
	OK(ibv_dealloc_pd(pd));
}

/* Entries of the table of rates. */
static void entries(void)
{
	/* set_pp_rate_limit_context: kb/s, burst, and the packet in half of a word. */
	uint32_t rate[12] = { htobe32(100000), htobe32(20000), htobe32(1024) };
	struct mlx5dv_pp *shared = MADE(mlx5dv_pp_alloc(context, sizeof(rate), rate, 0));
	struct mlx5dv_pp *alone = MADE(mlx5dv_pp_alloc(context, sizeof(rate), rate, DEDICATED));

	mlx5dv_pp_free(shared);
	mlx5dv_pp_free(alone);
}

static struct ibv_qp *raw(struct ibv_pd *pd, struct ibv_cq *cq)
{
	struct ibv_qp *qp = queue_pair(pd, cq, NULL, IBV_QPT_RAW_PACKET);
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_INIT, .port_num = PORT };

	OK(ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_PORT));
	attr.qp_state = IBV_QPS_RTR;
	OK(ibv_modify_qp(qp, &attr, IBV_QP_STATE));
	attr.qp_state = IBV_QPS_RTS;
	OK(ibv_modify_qp(qp, &attr, IBV_QP_STATE));
	return qp;
}

static void limit(struct ibv_qp *qp, uint32_t rate, uint32_t burst, uint16_t packet)
{
	struct ibv_qp_rate_limit_attr attr = { .rate_limit = rate, .max_burst_sz = burst, .typical_pkt_sz = packet };

	OK(ibv_modify_qp_rate_limit(qp, &attr));
}

static void pacing(void)
{
	struct ibv_pd *pd = MADE(ibv_alloc_pd(context));
	struct ibv_cq *cq = MADE(ibv_create_cq(context, 32, NULL, NULL, 0));
	struct ibv_qp *qp = raw(pd, cq);

	limit(qp, 100000, 0, 0);
	limit(qp, 100000, 20000, 0);
	limit(qp, 200000, 20000, 1500);
	limit(qp, 0, 0, 0);
	OK(ibv_destroy_qp(qp));
	OK(ibv_destroy_cq(cq));
	OK(ibv_dealloc_pd(pd));
}

/* Of a send queue. */
static void raw_scheduling(void)
{
	struct ibv_pd *pd = MADE(ibv_alloc_pd(context));
	struct ibv_cq *cq = MADE(ibv_create_cq(context, 32, NULL, NULL, 0));
	struct ibv_qp *qp = raw(pd, cq);
	struct mlx5dv_sched_attr attr = element(NULL, 0, 0, 0);
	struct mlx5dv_sched_node *root = MADE(mlx5dv_sched_node_create(context, &attr));
	struct mlx5dv_sched_leaf *leaf;

	attr = element(root, CAP, 0, 4096);
	leaf = MADE(mlx5dv_sched_leaf_create(context, &attr));
	OK(mlx5dv_modify_qp_sched_elem(qp, leaf, NULL));
	OK(mlx5dv_modify_qp_sched_elem(qp, NULL, NULL));
	OK(ibv_destroy_qp(qp));
	OK(mlx5dv_sched_leaf_destroy(leaf));
	OK(mlx5dv_sched_node_destroy(root));
	OK(ibv_destroy_cq(cq));
	OK(ibv_dealloc_pd(pd));
}

/* A rule of verbs, and rules by match words. */
static void raw_packets(void)
{
	static const uint8_t mac[6] = { 2, 0, 0, 0, 0, 7 };
	struct {
		struct ibv_flow_attr attr;
		struct ibv_flow_spec_eth eth;
	} rule = {
		.attr = { .type = IBV_FLOW_ATTR_NORMAL, .size = sizeof(rule), .num_of_specs = 1, .port = PORT },
		.eth = { .type = IBV_FLOW_SPEC_ETH, .size = sizeof(rule.eth), .val.ether_type = htobe16(0x88b5),
			 .mask = { .dst_mac = "\xff\xff\xff\xff\xff\xff", .ether_type = 0xffff } },
	};
	/* The first group: outer headers. */
	struct { size_t size; uint8_t words[64]; } mask = { .size = 64 }, value = { .size = 64 };
	struct mlx5dv_flow_matcher_attr init = { .type = IBV_FLOW_ATTR_NORMAL, .match_criteria_enable = 1,
		.match_mask = (void *)&mask, .comp_mask = MLX5DV_FLOW_MATCHER_MASK_FT_TYPE,
		.ft_type = MLX5DV_FLOW_TABLE_TYPE_NIC_RX };
	struct mlx5dv_flow_action_attr actions[3] = { { .type = MLX5DV_FLOW_ACTION_DEST_IBV_QP },
		{ .type = MLX5DV_FLOW_ACTION_TAG, .tag_value = 0x7777 }, { .type = MLX5DV_FLOW_ACTION_COUNTERS_DEVX } };
	struct mlx5dv_flow_action_attr drop = { .type = MLX5DV_FLOW_ACTION_DROP };
	struct ibv_pd *pd = MADE(ibv_alloc_pd(context));
	struct ibv_cq *cq = MADE(ibv_create_cq(context, 32, NULL, NULL, 0));
	struct ibv_qp *qp = raw(pd, cq);
	struct mlx5dv_flow_matcher *matcher;
	struct mlx5dv_devx_obj *counter;
	struct ibv_flow *flow, *dropping;
	uint32_t ask[8], reply[8] = {0};

	memcpy(rule.eth.val.dst_mac, mac, 6);
	flow = MADE(ibv_create_flow(qp, &rule.attr));
	OK(ibv_destroy_flow(flow));

	memset(mask.words + 6, 0xff, 8);
	memcpy(value.words + 6, "\x88\xb5", 2);
	memcpy(value.words + 8, mac, 6);
	matcher = MADE(mlx5dv_create_flow_matcher(context, &init));
	opcode(ask, sizeof(ask), ALLOC_FLOW_COUNTER, 0);
	counter = MADE(mlx5dv_devx_obj_create(context, ask, 16, reply, 16));
	actions[0].qp = qp;
	actions[2].obj = counter;
	flow = MADE(mlx5dv_create_flow(matcher, (void *)&value, 3, actions));
	value.words[7] = 0xb6;
	dropping = MADE(mlx5dv_create_flow(matcher, (void *)&value, 1, &drop));
	opcode(ask, sizeof(ask), QUERY_FLOW_COUNTER, 0);
	word(ask, 0x1c, be32toh(reply[2]));
	OK(mlx5dv_devx_obj_query(counter, ask, sizeof(ask), reply, sizeof(reply)));
	OK(ibv_destroy_flow(dropping));
	OK(ibv_destroy_flow(flow));
	OK(mlx5dv_devx_obj_destroy(counter));
	OK(mlx5dv_destroy_flow_matcher(matcher));
	OK(ibv_destroy_qp(qp));
	OK(ibv_destroy_cq(cq));
	OK(ibv_dealloc_pd(pd));
}

/* What the device offers, the peer's, and what is agreed to by the change to RTR. */
static void establishment(void)
{
	struct ibv_pd *pd = MADE(ibv_alloc_pd(context));
	struct ibv_cq *cq = MADE(ibv_create_cq(context, 32, NULL, NULL, 0));
	struct ibv_qp *qp = queue_pair(pd, cq, NULL, IBV_QPT_UC);
	struct ibv_qp_attr init = { .qp_state = IBV_QPS_INIT, .port_num = PORT };
	struct ibv_qp_attr rtr = { .qp_state = IBV_QPS_RTR, .path_mtu = IBV_MTU_1024, .dest_qp_num = qp->qp_num,
		.ah_attr = path() };
	struct ibv_qp_attr rts = { .qp_state = IBV_QPS_RTS };
	struct ibv_ece ece;

	OK(ibv_query_ece(qp, &ece));
	OK(ibv_modify_qp(qp, &init, IBV_QP_STATE | IBV_QP_PORT | IBV_QP_PKEY_INDEX | IBV_QP_ACCESS_FLAGS));
	ece.options = PEER;
	OK(ibv_set_ece(qp, &ece));
	OK(ibv_modify_qp(qp, &rtr, IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN));
	OK(ibv_modify_qp(qp, &rts, IBV_QP_STATE | IBV_QP_SQ_PSN));
	OK(ibv_query_ece(qp, &ece));
	check(ece.options != AGREED, "what was agreed to");
	OK(ibv_destroy_qp(qp));
	OK(ibv_destroy_cq(cq));
	OK(ibv_dealloc_pd(pd));
}

int play_mlx5(const char *name)
{
	static const struct { const char *name; void (*play)(void); } scenarios[] = {
		{ "firmware", firmware }, { "pages", pages }, { "scheduling", scheduling },
		{ "pacing-entries", entries }, { "pacing", pacing }, { "raw-packets", raw_packets },
		{ "raw-scheduling", raw_scheduling }, { "work-queues", work_queues }, { "extended", extended },
		{ "device-memory", device_memory }, { "dynamic", dynamic }, { "establishment", establishment },
	};

	for (size_t at = 0; at < sizeof(scenarios) / sizeof(*scenarios); at++)
		if (!strcmp(name, scenarios[at].name)) {
			scenarios[at].play();
			return 1;
		}
	return 0;
}
