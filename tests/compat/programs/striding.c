/* Prints what functions of mlx5dv.h return that no other program here calls, on the first device.
   The same over any library. */
#include <errno.h>
#include <infiniband/mlx5dv.h>
#include <infiniband/verbs.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

static struct ibv_context *context;
static struct ibv_pd *pd;

#define SAY(...) printf(__VA_ARGS__)
/* One number for what is not supported: this library has no other. */
#define ERRNO(made) (errno = 0, (made) ? 0 : errno == EPROTONOSUPPORT ? EOPNOTSUPP : errno)
#define NUMBER(answer) ((answer) == EPROTONOSUPPORT ? EOPNOTSUPP : (answer))

static void strides(struct ibv_cq *cq)
{
	struct mlx5dv_context caps = { .comp_mask = MLX5DV_CONTEXT_MASK_STRIDING_RQ };
	struct mlx5dv_striding_rq_caps *limits = &caps.striding_rq_caps;
	struct ibv_wq_init_attr attr = {
		.wq_type = IBV_WQT_RQ, .max_wr = 8, .max_sge = 1, .pd = pd, .cq = cq,
	};
	struct mlx5dv_wq_init_attr vendor = { 0 };
	struct ibv_wq *wq;

	SAY("strides: %d", mlx5dv_query_device(context, &caps));
	SAY(" %d to %d bytes, %d to %d in a request, types %x",
	    limits->min_single_stride_log_num_of_bytes, limits->max_single_stride_log_num_of_bytes,
	    limits->min_single_wqe_log_num_of_strides, limits->max_single_wqe_log_num_of_strides,
	    limits->supported_qpts);
	SAY(", plain %d", ERRNO(wq = mlx5dv_create_wq(context, &attr, &vendor)));
	if (wq)
		SAY(" and %d", ibv_destroy_wq(wq));
	vendor.comp_mask = MLX5DV_WQ_INIT_ATTR_MASK_STRIDING_RQ;
	vendor.striding_rq_attrs.single_stride_log_num_of_bytes =
		limits->min_single_stride_log_num_of_bytes;
	vendor.striding_rq_attrs.single_wqe_log_num_of_strides =
		limits->min_single_wqe_log_num_of_strides;
	SAY(", the least %d", ERRNO(wq = mlx5dv_create_wq(context, &attr, &vendor)));
	if (wq)
		SAY(" and %d", ibv_destroy_wq(wq));
	vendor.striding_rq_attrs.single_stride_log_num_of_bytes =
		limits->max_single_stride_log_num_of_bytes + 1;
	SAY(", too long %d", ERRNO(mlx5dv_create_wq(context, &attr, &vendor)));
	vendor.striding_rq_attrs.single_stride_log_num_of_bytes =
		limits->min_single_stride_log_num_of_bytes;
	vendor.striding_rq_attrs.single_wqe_log_num_of_strides =
		limits->max_single_wqe_log_num_of_strides + 1;
	SAY(", too many %d", ERRNO(mlx5dv_create_wq(context, &attr, &vendor)));
	vendor.comp_mask = 1 << 7;
	SAY(", unknown %d\n", ERRNO(mlx5dv_create_wq(context, &attr, &vendor)));
}

static void formats(void)
{
	struct ibv_cq_init_attr_ex attr = { .cqe = 16 };
	struct mlx5dv_cq_init_attr vendor = {
		.comp_mask = MLX5DV_CQ_INIT_ATTR_MASK_COMPRESSED_CQE,
	};
	struct mlx5dv_context caps = { .comp_mask = MLX5DV_CONTEXT_MASK_CQE_COMPRESION };

	mlx5dv_query_device(context, &caps);
	SAY("compressed: %d, formats %x:", caps.cqe_comp_caps.max_num,
	    caps.cqe_comp_caps.supported_format);
	for (int format = 1; format <= 16; format <<= 1) {
		struct ibv_cq_ex *cq;

		vendor.cqe_comp_res_format = format;
		SAY(" %d", ERRNO(cq = mlx5dv_create_cq(context, &attr, &vendor)) != 0);
		if (cq)
			ibv_destroy_cq(ibv_cq_ex_to_cq(cq));
	}
	SAY("\n");
}

static void interrupts(void)
{
	uint32_t in[64] = { 0 }, out[64] = { 0 };

	SAY("interrupts: %d", ERRNO(mlx5dv_devx_alloc_msi_vector(context)));
	SAY(" %d\n", ERRNO(mlx5dv_devx_create_eq(context, in, sizeof(in), out, sizeof(out))));
}

static void data_direct(void)
{
	char path[4096];

	SAY("data direct: path %d", NUMBER(mlx5dv_get_data_direct_sysfs_path(context, path,
									     sizeof(path))));
	SAY(", region %d", ERRNO(mlx5dv_reg_dmabuf_mr(pd, 0, 4096, 0, 0, 0,
						      MLX5DV_REG_DMABUF_ACCESS_DATA_DIRECT)));
	SAY(", plain %d", ERRNO(mlx5dv_reg_dmabuf_mr(pd, 0, 4096, 0, 0, 0, 0)));
	SAY(", unknown %d\n", ERRNO(mlx5dv_reg_dmabuf_mr(pd, 0, 4096, 0, 0, 0, 1 << 7)));
}

static size_t allocated, freed;

static void *allocate(size_t size, void *data)
{
	allocated += *(size_t *)data;
	return aligned_alloc(4096, (size + 4095) & ~4095ul);
}

static void release(void *memory, void *data)
{
	freed += *(size_t *)data;
	free(memory);
}

static void allocators(void)
{
	size_t one = 1;
	struct mlx5dv_ctx_allocators functions = { allocate, release, &one };
	struct ibv_cq *cq;
	struct ibv_qp *qp;
	struct ibv_qp_init_attr init = {
		.qp_type = IBV_QPT_RC,
		.cap = { .max_send_wr = 1, .max_recv_wr = 1, .max_send_sge = 1, .max_recv_sge = 1 },
	};

	SAY("allocators: %d", mlx5dv_set_context_attr(context, MLX5DV_CTX_ATTR_BUF_ALLOCATORS,
						      &functions));
	SAY(", unknown %d", mlx5dv_set_context_attr(context, 77, &functions));
	cq = ibv_create_cq(context, 16, NULL, NULL, 0);
	init.send_cq = init.recv_cq = cq;
	qp = cq ? ibv_create_qp(pd, &init) : NULL;
	SAY(", queues %d, used %d", cq && qp, allocated >= 2);
	if (qp)
		ibv_destroy_qp(qp);
	if (cq)
		ibv_destroy_cq(cq);
	SAY(", freed %d\n", freed >= 2);
}

static void rules(struct ibv_cq *cq)
{
	struct {
		struct ibv_flow_attr attr;
		struct ibv_flow_spec_eth eth;
		struct ibv_flow_spec_action_handle action;
	} __attribute__((packed, aligned(8))) rule = {
		.attr = { .type = IBV_FLOW_ATTR_NORMAL, .size = sizeof(rule), .num_of_specs = 2,
			  .port = 1 },
		.eth = { .type = IBV_FLOW_SPEC_ETH, .size = sizeof(rule.eth) },
		.action = { .type = IBV_FLOW_SPEC_ACTION_HANDLE, .size = sizeof(rule.action) },
	};
	struct ibv_qp_init_attr init = {
		.qp_type = IBV_QPT_RAW_PACKET, .send_cq = cq, .recv_cq = cq,
		.cap = { .max_send_wr = 1, .max_recv_wr = 1, .max_send_sge = 1, .max_recv_sge = 1 },
	};
	/* Sets 16 bits of the destination address. */
	uint64_t changes[1] = { htobe64((1ull << 60) | (5ull << 48) | (0ull << 40) | 0x1234) };
	struct ibv_flow_action_esp_attr esp = { 0 };
	struct ibv_flow_action *action;
	struct ibv_qp *qp = ibv_create_qp(pd, &init);
	struct ibv_flow *flow;

	SAY("rules: queue pair %d", !qp);
	SAY(", of IPsec %d", ERRNO(ibv_create_flow_action_esp(context, &esp)));
	SAY(", of changes %d", ERRNO(action = mlx5dv_create_flow_action_modify_header(
		context, sizeof(changes), changes, MLX5DV_FLOW_TABLE_TYPE_NIC_RX)));
	if (qp && action) {
		rule.action.action = action;
		SAY(", rule %d", ERRNO(flow = ibv_create_flow(qp, (void *)&rule)));
		if (flow)
			SAY(", in use %d, destroy %d", ibv_destroy_flow_action(action),
			    ibv_destroy_flow(flow));
		SAY(", action %d", ibv_destroy_flow_action(action));
	}
	if (qp)
		ibv_destroy_qp(qp);
	SAY("\n");
}

int main(void)
{
	struct ibv_device **list = ibv_get_device_list(NULL);
	struct mlx5dv_context_attr attr = { .flags = MLX5DV_CONTEXT_FLAGS_DEVX };
	struct ibv_cq *cq;

	context = list && list[0] ? mlx5dv_open_device(list[0], &attr) : NULL;
	pd = context ? ibv_alloc_pd(context) : NULL;
	cq = context ? ibv_create_cq(context, 16, NULL, NULL, 0) : NULL;
	if (!pd || !cq)
		return 1;
	strides(cq);
	formats();
	interrupts();
	data_direct();
	rules(cq);
	allocators();
	return 0;
}
