/* Copies of local memory by the device: on a reliable connection and on an initiator of dynamic ones,
   refused ones and failed ones. The same over any library. */
#include <errno.h>
#include <infiniband/mlx5dv.h>
#include <infiniband/verbs.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#define SAY(...) printf(__VA_ARGS__)
#define LENGTH 10000

static char from[LENGTH], to[LENGTH];
static struct ibv_context *context;
static struct ibv_pd *pd;
static struct ibv_cq *cq;
static struct ibv_mr *source, *target;

static struct ibv_context *opened(void)
{
	struct ibv_device **list = ibv_get_device_list(NULL);
	struct mlx5dv_context_attr attr = { .flags = MLX5DV_CONTEXT_FLAGS_DEVX };
	struct ibv_context *found = list && list[0] ? mlx5dv_open_device(list[0], &attr) : NULL;

	ibv_free_device_list(list);
	return found;
}

static int moved(struct ibv_qp *qp, enum ibv_qp_state state, int mask)
{
	struct ibv_port_attr port;
	struct ibv_qp_attr attr = {
		.qp_state = state, .port_num = 1, .path_mtu = IBV_MTU_1024, .timeout = 14,
		.retry_cnt = 7, .rnr_retry = 7, .min_rnr_timer = 1, .dest_qp_num = qp->qp_num,
		.max_dest_rd_atomic = 1, .max_rd_atomic = 1, .ah_attr = { .port_num = 1 },
	};

	ibv_query_port(context, 1, &port);
	attr.ah_attr.dlid = port.lid;
	return ibv_modify_qp(qp, &attr, mask | IBV_QP_STATE);
}

static struct ibv_qp *created(enum ibv_qp_type type)
{
	struct ibv_qp_init_attr_ex attr = {
		.qp_type = type, .send_cq = cq, .recv_cq = cq, .pd = pd, .sq_sig_all = 0,
		.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS,
		.send_ops_flags = IBV_QP_EX_WITH_RDMA_WRITE,
		.cap = { .max_send_wr = 16, .max_send_sge = 1 },
	};
	struct mlx5dv_qp_init_attr vendor = {
		.comp_mask = MLX5DV_QP_INIT_ATTR_MASK_SEND_OPS_FLAGS,
		.send_ops_flags = MLX5DV_QP_EX_WITH_MEMCPY,
	};

	if (type == IBV_QPT_DRIVER) {
		vendor.comp_mask |= MLX5DV_QP_INIT_ATTR_MASK_DC;
		vendor.dc_init_attr.dc_type = MLX5DV_DCTYPE_DCI;
	}
	return mlx5dv_create_qp(context, &attr, &vendor);
}

static int ready(struct ibv_qp *qp, int dynamic)
{
	int init = IBV_QP_PKEY_INDEX | IBV_QP_PORT, rtr = IBV_QP_AV | IBV_QP_PATH_MTU;
	int rts = IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN |
		  IBV_QP_MAX_QP_RD_ATOMIC;

	if (!dynamic) {
		init |= IBV_QP_ACCESS_FLAGS;
		rtr |= IBV_QP_DEST_QPN | IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC |
		       IBV_QP_MIN_RNR_TIMER;
	}
	return moved(qp, IBV_QPS_INIT, init) || moved(qp, IBV_QPS_RTR, rtr) ||
	       moved(qp, IBV_QPS_RTS, rts);
}

static int copy(struct ibv_qp *qp, uint64_t id, int at, int into, size_t length, uint32_t wrong)
{
	struct ibv_qp_ex *ex = ibv_qp_to_qp_ex(qp);

	ibv_wr_start(ex);
	ex->wr_id = id;
	ex->wr_flags = IBV_SEND_SIGNALED;
	mlx5dv_wr_memcpy(mlx5dv_qp_ex_from_ibv_qp_ex(ex), target->lkey ^ wrong,
			 (uintptr_t)to + into, source->lkey, (uintptr_t)from + at, length);
	return ibv_wr_complete(ex);
}

static void ended(const char *what)
{
	struct ibv_wc wc = { .wr_id = 99 };
	int count = 0;

	while (count == 0)
		count = ibv_poll_cq(cq, 1, &wc);
	SAY("%s: %d, id %d, status %d", what, count, (int)wc.wr_id, wc.status);
	if (wc.status == IBV_WC_SUCCESS)
		SAY(", opcode %d", wc.opcode);
	SAY("\n");
}

static int differ(int at, int into, size_t length)
{
	return memcmp(from + at, to + into, length) != 0;
}

static void plays(struct ibv_qp *qp, const char *name)
{
	struct ibv_qp_attr attr;
	struct ibv_qp_init_attr init;
	int first, second;

	memset(to, 0, LENGTH);
	first = copy(qp, 1, 3, 17, 5, 0);
	second = copy(qp, 2, 100, 4000, 5000, 0);
	SAY("%s: posted %d, %d\n", name, first, second);
	ended("short");
	ended("long");
	SAY("differ: %d, %d, around %d %d %d\n", differ(3, 17, 5), differ(100, 4000, 5000), to[16],
	    to[22], to[3999]);
	first = copy(qp, 3, 0, 0, 0, 0);
	second = copy(qp, 3, 0, 0, (1 << 24) + 1, 0);
	SAY("none: %d, too long: %d\n", first, second);
	SAY("wrong key: %d\n", copy(qp, 4, 0, 0, 8, 0x5500));
	ended("failed");
	memset(&attr, 0, sizeof(attr));
	first = ibv_query_qp(qp, &attr, IBV_QP_STATE, &init);
	SAY("queried %d, state %d\n", first, attr.qp_state);
}

int main(void)
{
	struct mlx5dv_context caps = { .comp_mask = MLX5DV_CONTEXT_MASK_WR_MEMCPY_LENGTH };
	struct ibv_qp *qp;
	int first, second;

	for (int at = 0; at < LENGTH; at++)
		from[at] = at % 251 + 1;
	context = opened();
	if (!context)
		return 1;
	first = mlx5dv_query_device(context, &caps);
	SAY("caps %d: mask %d, most %d\n", first,
	    !!(caps.comp_mask & MLX5DV_CONTEXT_MASK_WR_MEMCPY_LENGTH), (int)caps.max_wr_memcpy_length);
	pd = ibv_alloc_pd(context);
	cq = ibv_create_cq(context, 32, NULL, NULL, 0);
	source = ibv_reg_mr(pd, from, LENGTH, 0);
	target = ibv_reg_mr(pd, to, LENGTH, IBV_ACCESS_LOCAL_WRITE);
	errno = 0;
	qp = created(IBV_QPT_UC);
	SAY("unreliable: %s, %d\n", qp ? "there" : "none", errno);
	errno = 0;
	qp = created(IBV_QPT_RC);
	SAY("reliable: %s, %d\n", qp ? "there" : "none", errno);
	if (!qp)
		return 0;
	SAY("ready: %d\n", ready(qp, 0));
	plays(qp, "reliable");
	first = moved(qp, IBV_QPS_RESET, 0);
	second = ready(qp, 0);
	SAY("reset: %d, ready: %d\n", first, second);
	plays(qp, "again");
	SAY("destroyed: %d\n", ibv_destroy_qp(qp));
	qp = created(IBV_QPT_DRIVER);
	SAY("dynamic: %s, ready: %d\n", qp ? "there" : "none", qp ? ready(qp, 1) : -1);
	if (qp) {
		plays(qp, "dynamic");
		SAY("destroyed: %d\n", ibv_destroy_qp(qp));
	}
	first = ibv_dereg_mr(source) | ibv_dereg_mr(target);
	second = ibv_destroy_cq(cq);
	SAY("gone: %d %d %d\n", first, second, ibv_dealloc_pd(pd));
	return ibv_close_device(context);
}
