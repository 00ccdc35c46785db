/* What src/bin/post_qos.rs asks for, asked of libmlx5: qos DEVICE */

#include <errno.h>
#include <infiniband/mlx5dv.h>
#include <infiniband/verbs.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SHARE MLX5DV_SCHED_ELEM_ATTR_FLAGS_BW_SHARE
#define CAP MLX5DV_SCHED_ELEM_ATTR_FLAGS_MAX_AVG_BW

/* Of mlx5_user_ioctl_verbs.h: an index of the table of rates that nobody else has. */
#define DEDICATED 1

static void check(int good, const char *what)
{
	if (good)
		return;
	perror(what);
	exit(1);
}

static struct ibv_context *open_device(const char *name)
{
	struct mlx5dv_context_attr attr = { .flags = MLX5DV_CONTEXT_FLAGS_DEVX };
	struct ibv_device **list = ibv_get_device_list(NULL);

	for (int n = 0; list && list[n]; n++)
		if (!strcmp(ibv_get_device_name(list[n]), name))
			return mlx5dv_open_device(list[n], &attr);
	return NULL;
}

static struct mlx5dv_sched_attr element(struct mlx5dv_sched_node *parent, uint32_t flags, uint32_t share, uint32_t cap)
{
	return (struct mlx5dv_sched_attr){ .parent = parent, .flags = flags, .bw_share = share, .max_avg_bw = cap };
}

static struct ibv_qp *create(struct ibv_pd *pd, struct ibv_cq *cq, enum ibv_qp_type type)
{
	struct ibv_qp_init_attr init = {
		.send_cq = cq, .recv_cq = cq, .qp_type = type,
		.cap = { .max_send_wr = 16, .max_recv_wr = 16, .max_send_sge = 1, .max_recv_sge = 1 },
	};
	struct ibv_qp *qp = ibv_create_qp(pd, &init);

	check(qp != NULL, "ibv_create_qp");
	return qp;
}

static void to_init(struct ibv_qp *qp)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_INIT, .port_num = 1 };
	int mask = IBV_QP_STATE | IBV_QP_PORT;

	if (qp->qp_type != IBV_QPT_RAW_PACKET)
		mask |= IBV_QP_PKEY_INDEX | IBV_QP_ACCESS_FLAGS;
	check(!ibv_modify_qp(qp, &attr, mask), "INIT");
}

/* To itself. */
static void connect(struct ibv_qp *qp)
{
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_RTR, .path_mtu = IBV_MTU_1024, .dest_qp_num = qp->qp_num, .max_dest_rd_atomic = 1,
		.min_rnr_timer = 12, .ah_attr = { .port_num = 1 },
	};
	struct ibv_port_attr port;

	check(!ibv_query_port(qp->context, 1, &port), "port");
	attr.ah_attr.dlid = port.lid;
	if (port.link_layer == IBV_LINK_LAYER_ETHERNET) {
		attr.ah_attr.is_global = 1;
		attr.ah_attr.grh.sgid_index = 1;
		attr.ah_attr.grh.hop_limit = 64;
		check(!ibv_query_gid(qp->context, 1, 1, &attr.ah_attr.grh.dgid), "GID");
	}
	check(!ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
			     IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER), "RTR");
	attr.qp_state = IBV_QPS_RTS;
	attr.timeout = 14;
	attr.retry_cnt = attr.rnr_retry = 7;
	attr.max_rd_atomic = 1;
	check(!ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
			     IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC), "RTS");
}

static void tree(struct ibv_context *context, struct ibv_qp *initialized, struct ibv_qp *connected)
{
	struct mlx5dv_sched_attr attr = element(NULL, 0, 0, 0);
	struct mlx5dv_sched_node *root = mlx5dv_sched_node_create(context, &attr);
	check(root != NULL, "root");

	attr = element(root, SHARE | CAP, 2, 20000);
	struct mlx5dv_sched_node *node = mlx5dv_sched_node_create(context, &attr);
	check(node != NULL, "node");

	attr = element(node, SHARE, 7, 0);
	struct mlx5dv_sched_leaf *one = mlx5dv_sched_leaf_create(context, &attr);
	attr = element(root, CAP, 0, 4096);
	struct mlx5dv_sched_leaf *two = mlx5dv_sched_leaf_create(context, &attr);
	attr = element(root, 0, 0, 0);
	struct mlx5dv_sched_leaf *plain = mlx5dv_sched_leaf_create(context, &attr);
	check(one && two && plain, "leaves");

	attr = element(root, SHARE, 5, 0);
	check(!mlx5dv_sched_node_modify(node, &attr), "node's share");
	attr = element(node, CAP, 0, 100);
	check(!mlx5dv_sched_leaf_modify(one, &attr), "leaf's cap");
	attr = element(root, SHARE | CAP, 9, 0);
	check(!mlx5dv_sched_leaf_modify(two, &attr), "leaf's share and cap");

	check(!mlx5dv_modify_qp_sched_elem(initialized, one, NULL), "attached before it is connected");
	check(!mlx5dv_modify_qp_sched_elem(connected, one, two), "attached");
	check(!mlx5dv_modify_qp_sched_elem(connected, two, NULL), "attached to another");
	check(!mlx5dv_modify_qp_sched_elem(connected, NULL, NULL), "detached");
	check(!mlx5dv_modify_qp_sched_elem(initialized, NULL, NULL), "detached before it is connected");

	check(!mlx5dv_sched_leaf_destroy(plain) && !mlx5dv_sched_leaf_destroy(two) && !mlx5dv_sched_leaf_destroy(one),
	      "leaves go");
	check(!mlx5dv_sched_node_destroy(node) && !mlx5dv_sched_node_destroy(root), "nodes go");
}

static void entries(struct ibv_context *context)
{
	/* set_pp_rate_limit_context: kb/s, burst, and the packet in half of a word. */
	uint32_t rate[12] = { htobe32(100000), htobe32(20000), htobe32(1024) };
	struct mlx5dv_pp *shared = mlx5dv_pp_alloc(context, sizeof(rate), rate, 0);
	struct mlx5dv_pp *same = mlx5dv_pp_alloc(context, sizeof(rate), rate, 0);
	struct mlx5dv_pp *alone = mlx5dv_pp_alloc(context, sizeof(rate), rate, DEDICATED);

	check(shared && same && alone, "mlx5dv_pp_alloc");
	mlx5dv_pp_free(shared);
	mlx5dv_pp_free(same);
	mlx5dv_pp_free(alone);
}

static void limit(struct ibv_qp *qp, uint32_t rate, uint32_t burst, uint16_t packet)
{
	struct ibv_qp_rate_limit_attr attr = { .rate_limit = rate, .max_burst_sz = burst, .typical_pkt_sz = packet };

	errno = ibv_modify_qp_rate_limit(qp, &attr);
	check(!errno, "ibv_modify_qp_rate_limit");
}

/* Of raw packets, which every kernel paces. */
static void rates(struct ibv_pd *pd, struct ibv_cq *cq)
{
	struct ibv_qp *qp = create(pd, cq, IBV_QPT_RAW_PACKET);
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_RTR };

	to_init(qp);
	check(!ibv_modify_qp(qp, &attr, IBV_QP_STATE), "RTR");
	attr.qp_state = IBV_QPS_RTS;
	check(!ibv_modify_qp(qp, &attr, IBV_QP_STATE), "RTS");
	limit(qp, 100000, 0, 0);
	limit(qp, 100000, 20000, 0);
	limit(qp, 100000, 0, 1024);
	limit(qp, 200000, 20000, 1500);
	limit(qp, 0, 0, 0);

	struct mlx5dv_sched_attr none = element(NULL, 0, 0, 0);
	struct mlx5dv_sched_node *root = mlx5dv_sched_node_create(qp->context, &none);
	check(root != NULL, "root");
	none.parent = root;
	struct mlx5dv_sched_leaf *leaf = mlx5dv_sched_leaf_create(qp->context, &none);
	check(leaf && !mlx5dv_modify_qp_sched_elem(qp, leaf, NULL), "send queue attached");
	check(!mlx5dv_modify_qp_sched_elem(qp, NULL, NULL), "send queue detached");
	check(!mlx5dv_sched_leaf_destroy(leaf) && !mlx5dv_sched_node_destroy(root), "root goes");
	check(!ibv_destroy_qp(qp), "ibv_destroy_qp");
}

int main(int argc, char **argv)
{
	struct ibv_context *context = argc == 2 ? open_device(argv[1]) : NULL;
	struct ibv_port_attr port;

	check(context && !ibv_query_port(context, 1, &port), "qos DEVICE");
	struct ibv_pd *pd = ibv_alloc_pd(context);
	struct ibv_cq *cq = ibv_create_cq(context, 64, NULL, NULL, 0);
	check(pd && cq, "objects");

	struct ibv_qp *initialized = create(pd, cq, IBV_QPT_RC), *connected = create(pd, cq, IBV_QPT_RC);
	to_init(initialized);
	to_init(connected);
	connect(connected);
	tree(context, initialized, connected);
	entries(context);
	if (port.link_layer == IBV_LINK_LAYER_ETHERNET)
		rates(pd, cq);
	check(!ibv_destroy_qp(initialized) && !ibv_destroy_qp(connected), "ibv_destroy_qp");
	return 0;
}
