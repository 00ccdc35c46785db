/* Streams of a dynamically connected initiator: one that fails is flushed alone, until it is reset, and
   one too many stops all. The same over any library. */
#include <errno.h>
#include <infiniband/mlx5dv.h>
#include <infiniband/verbs.h>
#include <stdint.h>
#include <stdio.h>

#define SAY(...) printf(__VA_ARGS__)
#define LOCAL (IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE)
#define KEY 0xfeed

static char memory[128];
static struct ibv_context *context;
static struct ibv_pd *pd;
static struct ibv_cq *cq;
static struct ibv_mr *mr;
static struct ibv_ah *ah;
static struct ibv_qp *target, *initiator;

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
		.retry_cnt = 7, .rnr_retry = 7, .min_rnr_timer = 1, .qp_access_flags = LOCAL,
		.ah_attr = { .port_num = 1 },
	};

	ibv_query_port(context, 1, &port);
	attr.ah_attr.dlid = port.lid;
	return ibv_modify_qp(qp, &attr, mask | IBV_QP_STATE);
}

static struct ibv_qp *dynamic(struct ibv_srq *srq, enum mlx5dv_dc_type type)
{
	struct ibv_qp_init_attr_ex attr = {
		.qp_type = IBV_QPT_DRIVER, .send_cq = cq, .recv_cq = cq, .srq = srq, .pd = pd,
		.comp_mask = IBV_QP_INIT_ATTR_PD, .sq_sig_all = 1,
		.cap = { .max_send_wr = 16, .max_send_sge = 1 },
	};
	struct mlx5dv_qp_init_attr vendor = {
		.comp_mask = MLX5DV_QP_INIT_ATTR_MASK_DC, .dc_init_attr = { .dc_type = type },
	};

	if (type == MLX5DV_DCTYPE_DCT) {
		attr.cap.max_send_wr = attr.cap.max_send_sge = 0;
		vendor.dc_init_attr.dct_access_key = KEY;
	} else {
		attr.srq = NULL;
		attr.comp_mask |= IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
		attr.send_ops_flags = IBV_QP_EX_WITH_RDMA_WRITE;
		vendor.comp_mask |= MLX5DV_QP_INIT_ATTR_MASK_DCI_STREAMS;
		vendor.dc_init_attr.dci_streams.log_num_concurent = 2;
		vendor.dc_init_attr.dci_streams.log_num_errored = 1;
	}
	return mlx5dv_create_qp(context, &attr, &vendor);
}

static void post(int stream, int fails)
{
	struct ibv_qp_ex *qp = ibv_qp_to_qp_ex(initiator);

	ibv_wr_start(qp);
	qp->wr_id = stream;
	qp->wr_flags = IBV_SEND_SIGNALED;
	ibv_wr_rdma_write(qp, mr->rkey ^ (fails ? 0x5500 : 0), (uintptr_t)memory + 64);
	ibv_wr_set_sge(qp, mr->lkey, (uintptr_t)memory, 8);
	mlx5dv_wr_set_dc_addr_stream(mlx5dv_qp_ex_from_ibv_qp_ex(qp), ah, target->qp_num, KEY,
				     stream);
	SAY("%d", ibv_wr_complete(qp));
}

/* The stream and the status of each completion, and the state then. */
static void told(int count)
{
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr = {};
	struct ibv_wc wc;

	while (count--) {
		while (!ibv_poll_cq(cq, 1, &wc))
			;
		SAY(", %d: %d", (int)wc.wr_id, wc.status);
	}
	SAY(", queried %d", ibv_query_qp(initiator, &attr, IBV_QP_STATE, &init));
	SAY(", state %d\n", attr.qp_state);
}

int main(void)
{
	struct ibv_srq_init_attr srq_attr = { .attr = { .max_wr = 4, .max_sge = 1 } };
	struct mlx5dv_context caps = { .comp_mask = MLX5DV_CONTEXT_MASK_DCI_STREAMS };
	struct ibv_ah_attr path = { .port_num = 1 };
	struct ibv_port_attr port;
	struct ibv_srq *srq;

	context = opened();
	pd = context ? ibv_alloc_pd(context) : NULL;
	cq = context ? ibv_create_cq(context, 32, NULL, NULL, 0) : NULL;
	mr = pd ? ibv_reg_mr(pd, memory, sizeof(memory), LOCAL) : NULL;
	if (!cq || !mr || ibv_query_port(context, 1, &port))
		return 1;
	mlx5dv_query_device(context, &caps);
	SAY("streams %d, failed %d\n", caps.dci_streams_caps.max_log_num_concurent,
	    caps.dci_streams_caps.max_log_num_errored);
	path.dlid = port.lid;
	ah = ibv_create_ah(pd, &path);
	srq = ibv_create_srq(pd, &srq_attr);
	target = dynamic(srq, MLX5DV_DCTYPE_DCT);
	initiator = dynamic(srq, MLX5DV_DCTYPE_DCI);
	if (!ah || !target || !initiator)
		return 2;
	SAY("not ready %d, ", mlx5dv_dci_stream_id_reset(initiator, 1));
	SAY("%d ", moved(target, IBV_QPS_INIT, IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS));
	SAY("%d ", moved(target, IBV_QPS_RTR, IBV_QP_PATH_MTU | IBV_QP_AV | IBV_QP_MIN_RNR_TIMER));
	SAY("%d ", moved(initiator, IBV_QPS_INIT, IBV_QP_PKEY_INDEX | IBV_QP_PORT));
	SAY("%d ", moved(initiator, IBV_QPS_RTR, IBV_QP_PATH_MTU | IBV_QP_AV));
	SAY("%d\n", moved(initiator, IBV_QPS_RTS, IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT |
					IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN |
					IBV_QP_MAX_QP_RD_ATOMIC));
	post(1, 1), post(1, 0), post(2, 0);
	told(3);
	post(1, 0), post(0, 0);
	told(2);
	SAY("reset %d, without an error %d\n", mlx5dv_dci_stream_id_reset(initiator, 1),
	    mlx5dv_dci_stream_id_reset(initiator, 4));
	post(1, 0);
	told(1);
	post(3, 1), post(1, 0), post(2, 1), post(1, 0);
	told(4);
	SAY("stopped %d\n", mlx5dv_dci_stream_id_reset(initiator, 3));
	SAY("ends %d", ibv_destroy_qp(initiator));
	SAY(" %d", ibv_destroy_qp(target));
	SAY(" %d", ibv_destroy_srq(srq));
	SAY(" %d", ibv_destroy_ah(ah));
	SAY(" %d", ibv_dereg_mr(mr));
	SAY(" %d", ibv_destroy_cq(cq));
	SAY(" %d", ibv_dealloc_pd(pd));
	SAY(" %d\n", ibv_close_device(context));
	return 0;
}
