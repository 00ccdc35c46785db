/* The scenarios of src/bin/scenario/objects.rs: objects that few devices have. */

#include <infiniband/mlx5dv.h>
#include <stdint.h>
#include <string.h>

#include "scenario.h"

#define ACCESS_KEY 0xfeed

static struct ibv_wq *work_queue(struct ibv_pd *pd, struct ibv_cq *cq)
{
	struct ibv_wq_init_attr init = { .wq_type = IBV_WQT_RQ, .max_wr = 16, .max_sge = 1, .pd = pd, .cq = cq };
	struct ibv_wq_attr attr = { .attr_mask = IBV_WQ_ATTR_STATE | IBV_WQ_ATTR_CURR_STATE, .wq_state = IBV_WQS_RDY,
		.curr_wq_state = IBV_WQS_RESET };
	struct ibv_wq *queue = MADE(ibv_create_wq(context, &init));

	OK(ibv_modify_wq(queue, &attr));
	return queue;
}

/* Work queues, a table of them, and what spreads over it. */
void work_queues(void)
{
	static uint8_t key[40] = { 1, 2, 3 };
	struct ibv_pd *pd = MADE(ibv_alloc_pd(context));
	struct ibv_cq *cq = MADE(ibv_create_cq(context, 64, NULL, NULL, 0));
	struct ibv_wq *queues[2] = { work_queue(pd, cq), work_queue(pd, cq) };
	struct ibv_rwq_ind_table_init_attr table_init = { .log_ind_tbl_size = 1, .ind_tbl = queues };
	struct ibv_rwq_ind_table *table = MADE(ibv_create_rwq_ind_table(context, &table_init));
	struct ibv_qp_init_attr_ex init = {
		.qp_type = IBV_QPT_RAW_PACKET, .pd = pd, .rwq_ind_tbl = table,
		.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_RX_HASH | IBV_QP_INIT_ATTR_IND_TABLE,
		.rx_hash_conf = { .rx_hash_function = IBV_RX_HASH_FUNC_TOEPLITZ, .rx_hash_key_len = sizeof(key),
			.rx_hash_key = key, .rx_hash_fields_mask = IBV_RX_HASH_SRC_IPV4 | IBV_RX_HASH_DST_PORT_UDP },
	};
	struct ibv_qp *qp = MADE(ibv_create_qp_ex(context, &init));

	OK(ibv_destroy_qp(qp));
	OK(ibv_destroy_rwq_ind_table(table));
	OK(ibv_destroy_wq(queues[0]));
	OK(ibv_destroy_wq(queues[1]));
	OK(ibv_destroy_cq(cq));
	OK(ibv_dealloc_pd(pd));
}

/* Both ends of extended reliable connections. */
void extended(void)
{
	struct ibv_pd *pd = MADE(ibv_alloc_pd(context));
	struct ibv_cq *cq = MADE(ibv_create_cq(context, 32, NULL, NULL, 0));
	struct ibv_xrcd_init_attr domain_init = { .comp_mask = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS,
		.fd = -1 };
	struct ibv_xrcd *domain = MADE(ibv_open_xrcd(context, &domain_init));
	struct ibv_srq_init_attr_ex srq_init = { .attr = { .max_wr = 64, .max_sge = 1 }, .srq_type = IBV_SRQT_XRC,
		.comp_mask = IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD | IBV_SRQ_INIT_ATTR_XRCD | IBV_SRQ_INIT_ATTR_CQ,
		.pd = pd, .xrcd = domain, .cq = cq };
	struct ibv_srq *srq = MADE(ibv_create_srq_ex(context, &srq_init));
	struct ibv_qp_init_attr_ex init = { .qp_type = IBV_QPT_XRC_SEND, .send_cq = cq, .pd = pd,
		.comp_mask = IBV_QP_INIT_ATTR_PD, .cap = { .max_send_wr = 16, .max_send_sge = 2, .max_inline_data = 64 } };
	struct ibv_qp_init_attr_ex target_init = { .qp_type = IBV_QPT_XRC_RECV, .xrcd = domain,
		.comp_mask = IBV_QP_INIT_ATTR_XRCD };
	struct ibv_qp *initiator = MADE(ibv_create_qp_ex(context, &init));
	struct ibv_qp *target = MADE(ibv_create_qp_ex(context, &target_init));

	OK(ibv_destroy_qp(target));
	OK(ibv_destroy_qp(initiator));
	OK(ibv_destroy_srq(srq));
	OK(ibv_close_xrcd(domain));
	OK(ibv_destroy_cq(cq));
	OK(ibv_dealloc_pd(pd));
}

/* Memory on the device. */
void device_memory(void)
{
	struct ibv_pd *pd = MADE(ibv_alloc_pd(context));
	struct ibv_alloc_dm_attr init = { .length = 4096, .log_align_req = 6 };
	struct ibv_dm *dm = MADE(ibv_alloc_dm(context, &init));
	struct ibv_mr *mr = MADE(ibv_reg_dm_mr(pd, dm, 0, 1024, IBV_ACCESS_ZERO_BASED | IBV_ACCESS_LOCAL_WRITE));

	OK(ibv_memcpy_to_dm(dm, 0, memory, 64));
	OK(ibv_dereg_mr(mr));
	OK(ibv_free_dm(dm));
	OK(ibv_dealloc_pd(pd));
}

static struct ibv_qp *dynamic_end(struct ibv_pd *pd, struct ibv_cq *cq, struct ibv_srq *srq, enum mlx5dv_dc_type type)
{
	struct ibv_qp_init_attr_ex init = { .qp_type = IBV_QPT_DRIVER, .send_cq = cq, .recv_cq = cq, .srq = srq, .pd = pd,
		.comp_mask = IBV_QP_INIT_ATTR_PD };
	struct mlx5dv_qp_init_attr special = { .comp_mask = MLX5DV_QP_INIT_ATTR_MASK_DC, .dc_init_attr.dc_type = type };

	if (type == MLX5DV_DCTYPE_DCT)
		special.dc_init_attr.dct_access_key = ACCESS_KEY;
	else
		init.cap = (struct ibv_qp_cap){ .max_send_wr = 16, .max_send_sge = 2, .max_inline_data = 64 };
	return MADE(mlx5dv_create_qp(context, &init, &special));
}

/* Both ends of dynamic connections. */
void dynamic(void)
{
	struct ibv_pd *pd = MADE(ibv_alloc_pd(context));
	struct ibv_cq *cq = MADE(ibv_create_cq(context, 32, NULL, NULL, 0));
	struct ibv_srq_init_attr srq_init = { .attr = { .max_wr = 64, .max_sge = 2 } };
	struct ibv_srq *srq = MADE(ibv_create_srq(pd, &srq_init));
	struct ibv_qp *target = dynamic_end(pd, cq, srq, MLX5DV_DCTYPE_DCT);
	struct ibv_qp *initiator = dynamic_end(pd, cq, NULL, MLX5DV_DCTYPE_DCI);
	struct ibv_qp_attr init = { .qp_state = IBV_QPS_INIT, .port_num = PORT };
	struct ibv_qp_attr rtr = { .qp_state = IBV_QPS_RTR, .path_mtu = IBV_MTU_1024, .min_rnr_timer = 12,
		.ah_attr = path() };

	init.qp_access_flags = IBV_ACCESS_REMOTE_WRITE;
	OK(ibv_modify_qp(target, &init, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS));
	OK(ibv_modify_qp(target, &rtr, IBV_QP_STATE | IBV_QP_PATH_MTU | IBV_QP_MIN_RNR_TIMER | IBV_QP_AV));
	OK(ibv_modify_qp(initiator, &init, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT));
	OK(ibv_modify_qp(initiator, &rtr, IBV_QP_STATE | IBV_QP_PATH_MTU | IBV_QP_AV));
	OK(ibv_destroy_qp(initiator));
	OK(ibv_destroy_qp(target));
	OK(ibv_destroy_srq(srq));
	OK(ibv_destroy_cq(cq));
	OK(ibv_dealloc_pd(pd));
}
