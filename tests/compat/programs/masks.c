/* Sets bits that no function knows, passes sizes of older and of no headers, and destroys what is in
   use. Prints how many were refused as they should be, and the numbers of those that were not. */
#include <errno.h>
#include <infiniband/mlx5dv.h>
#include <infiniband/verbs.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

static int count, wrong;
static char memory[4096] __attribute__((aligned(4096)));

/* EINVAL or EOPNOTSUPP. */
static void refused(const char *what, int code)
{
	count++;
	if (code < 0)
		code = code == -1 ? errno : -code;
	if (code != EINVAL && code != EOPNOTSUPP) {
		printf("%s: %d\n", what, code);
		wrong++;
	}
	errno = 0;
}

static void busy(const char *what, int code)
{
	count++;
	if (code != EBUSY) {
		printf("%s: %d instead of EBUSY\n", what, code);
		wrong++;
	}
}

static void unchanged(const char *what, const uint8_t *bytes, int length)
{
	count++;
	for (int i = 0; i < length; i++)
		if (bytes[i] != 0x5a) {
			printf("%s: byte %d was written\n", what, i);
			wrong++;
			return;
		}
}

#define MADE(call) (errno = 0, refused(#call, (call) ? 0 : errno))
#define CODE(call) (errno = 0, refused(#call, (call)))
#define WITH(kind, ...) (&(struct kind){ __VA_ARGS__ })

static void queues(struct ibv_context *context, struct ibv_pd *pd, struct ibv_cq *cq)
{
	struct ibv_qp_cap cap = { 1, 1, 1, 1, 0 };
	struct ibv_qp_init_attr_ex qp = { .send_cq = cq, .recv_cq = cq, .cap = cap, .pd = pd,
					  .qp_type = IBV_QPT_RC, .comp_mask = IBV_QP_INIT_ATTR_PD | 1 << 30 };
	struct ibv_cq_ex *extended = ibv_create_cq_ex(context, WITH(ibv_cq_init_attr_ex, .cqe = 4));
	struct mlx5dv_qp_init_attr vendor = {};

	MADE(ibv_create_qp_ex(context, &qp));
	qp.comp_mask = 0;
	MADE(ibv_create_qp_ex(context, &qp));
	qp.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
	qp.send_ops_flags = 1ull << 60;
	MADE(ibv_create_qp_ex(context, &qp));
	qp.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_CREATE_FLAGS;
	qp.create_flags = 1u << 31;
	MADE(ibv_create_qp_ex(context, &qp));
	qp.comp_mask = IBV_QP_INIT_ATTR_PD;
	vendor.comp_mask = 1ull << 40;
	MADE(mlx5dv_create_qp(context, &qp, &vendor));
	vendor.comp_mask = MLX5DV_QP_INIT_ATTR_MASK_QP_CREATE_FLAGS, vendor.create_flags = 1u << 31;
	MADE(mlx5dv_create_qp(context, &qp, &vendor));
	vendor.comp_mask = MLX5DV_QP_INIT_ATTR_MASK_SEND_OPS_FLAGS, vendor.send_ops_flags = 1ull << 40;
	MADE(mlx5dv_create_qp(context, &qp, &vendor));
	MADE(ibv_create_cq_ex(context, WITH(ibv_cq_init_attr_ex, .cqe = 4, .comp_mask = 1 << 30)));
	MADE(ibv_create_cq_ex(context, WITH(ibv_cq_init_attr_ex, .cqe = 4, .wc_flags = 1ull << 60)));
	MADE(ibv_create_cq_ex(context, WITH(ibv_cq_init_attr_ex, .cqe = 4, .flags = 1u << 30,
					    .comp_mask = IBV_CQ_INIT_ATTR_MASK_FLAGS)));
	MADE(mlx5dv_create_cq(context, WITH(ibv_cq_init_attr_ex, .cqe = 4),
			      WITH(mlx5dv_cq_init_attr, .comp_mask = 1ull << 40)));
	MADE(mlx5dv_create_cq(context, WITH(ibv_cq_init_attr_ex, .cqe = 4),
			      WITH(mlx5dv_cq_init_attr, .comp_mask = MLX5DV_CQ_INIT_ATTR_MASK_CQE_SIZE,
				   .cqe_size = 77)));
	MADE(ibv_create_srq_ex(context, WITH(ibv_srq_init_attr_ex, .pd = pd, .comp_mask = 1 << 30)));
	MADE(ibv_create_srq_ex(context, WITH(ibv_srq_init_attr_ex, .pd = pd, .srq_type = 99,
					     .attr = { 1, 1, 0 },
					     .comp_mask = IBV_SRQ_INIT_ATTR_PD | IBV_SRQ_INIT_ATTR_TYPE)));
	MADE(ibv_create_wq(context, WITH(ibv_wq_init_attr, .max_wr = 1, .max_sge = 1, .pd = pd, .cq = cq,
					 .comp_mask = 1 << 30)));
	MADE(ibv_create_wq(context, WITH(ibv_wq_init_attr, .max_wr = 1, .max_sge = 1, .pd = pd, .cq = cq,
					 .wq_type = 9)));
	MADE(mlx5dv_create_wq(context, WITH(ibv_wq_init_attr, .max_wr = 1, .max_sge = 1, .pd = pd, .cq = cq),
			      WITH(mlx5dv_wq_init_attr, .comp_mask = 1ull << 40)));
	MADE(ibv_create_rwq_ind_table(context, WITH(ibv_rwq_ind_table_init_attr, .comp_mask = 1 << 30)));
	MADE(ibv_open_xrcd(context, WITH(ibv_xrcd_init_attr, .comp_mask = 1 << 30)));
	MADE(ibv_open_qp(context, WITH(ibv_qp_open_attr, .comp_mask = 1 << 30)));
	CODE(ibv_modify_cq(cq, WITH(ibv_modify_cq_attr, .attr_mask = 1 << 30)));
	CODE(ibv_start_poll(extended, WITH(ibv_poll_cq_attr, .comp_mask = 1 << 30)));
	ibv_destroy_cq(ibv_cq_ex_to_cq(extended));
}

static void others(struct ibv_context *context, struct ibv_pd *pd, struct ibv_mr *mr)
{
	struct ibv_sge sge = { (uintptr_t)memory, 64, mr->lkey };
	struct ibv_gid_entry gid;
	struct mlx5dv_obj obj = {};
	uint8_t in[16] = { 1 }, out[16];

	MADE(ibv_alloc_td(context, WITH(ibv_td_init_attr, .comp_mask = 1 << 30)));
	MADE(ibv_alloc_parent_domain(context, WITH(ibv_parent_domain_init_attr, .pd = pd,
						   .comp_mask = 1 << 30)));
	MADE(ibv_alloc_dm(context, WITH(ibv_alloc_dm_attr, .length = 64, .comp_mask = 1 << 30)));
	MADE(ibv_create_counters(context, WITH(ibv_counters_init_attr, .comp_mask = 1 << 30)));
	CODE(ibv_advise_mr(pd, 99, 0, &sge, 1));
	CODE(ibv_advise_mr(pd, IBV_ADVISE_MR_ADVICE_PREFETCH, 1u << 30, &sge, 1));
	CODE(ibv_query_rt_values_ex(context, WITH(ibv_values_ex, .comp_mask = 1 << 30)));
	CODE(ibv_query_device_ex(context, WITH(ibv_query_device_ex_input, .comp_mask = 1),
				 WITH(ibv_device_attr_ex, .comp_mask = 0)));
	CODE(_ibv_query_gid_ex(context, 1, 0, &gid, 1u << 30, sizeof(gid)));
	CODE(_ibv_query_gid_ex(context, 99, 0, &gid, 0, sizeof(gid)));
	CODE((int)_ibv_query_gid_table(context, &gid, 1, 1u << 30, sizeof(gid)));
	CODE((int)_ibv_query_gid_table(context, &gid, 1, 0, 1));
	MADE(mlx5dv_create_mkey(WITH(mlx5dv_mkey_init_attr, .pd = pd, .create_flags = 1u << 30)));
	MADE(mlx5dv_create_flow_matcher(context, WITH(mlx5dv_flow_matcher_attr, .comp_mask = 1ull << 40)));
	MADE(mlx5dv_create_steering_anchor(context, WITH(mlx5dv_steering_anchor_attr,
							 .comp_mask = 1ull << 40)));
	MADE(mlx5dv_devx_umem_reg_ex(context, WITH(mlx5dv_devx_umem_in, .addr = memory, .size = 4096,
						   .comp_mask = 1ull << 40)));
	MADE(mlx5dv_sched_node_create(context, WITH(mlx5dv_sched_attr, .flags = 1u << 30)));
	MADE(mlx5dv_alloc_var(context, 1u << 30));
	CODE(mlx5dv_init_obj(&obj, MLX5DV_OBJ_QP));
	CODE(mlx5dv_devx_general_cmd(context, in, 4, out, sizeof(out)));
	CODE(mlx5dv_devx_general_cmd(context, in, sizeof(in), out, 4));
}

/* Structs of older headers end earlier. */
static void sizes(struct ibv_context *context)
{
	struct verbs_context *slots = verbs_get_ctx(context);
	union {
		struct ibv_port_attr port;
		struct ibv_device_attr_ex device;
		uint8_t bytes[512];
	} room;

	for (int length = 0; length <= (int)sizeof(room.port); length += 8) {
		memset(&room, 0x5a, sizeof(room));
		slots->query_port(context, 1, &room.port, length);
		unchanged("query_port", room.bytes + length, sizeof(room) - length);
	}
	for (int length = 0; length <= (int)sizeof(room.device); length += 8) {
		memset(&room, 0x5a, sizeof(room));
		slots->query_device_ex(context, NULL, &room.device, length);
		unchanged("query_device_ex", room.bytes + length, sizeof(room) - length);
	}
	memset(&room, 0x5a, sizeof(room));
	(ibv_query_port)(context, 1, (struct _compat_ibv_port_attr *)&room);
	unchanged("ibv_query_port", room.bytes + 48, sizeof(room) - 48);
}

static void in_use(struct ibv_context *context, struct ibv_pd *pd, struct ibv_cq *cq, struct ibv_mr *mr)
{
	struct ibv_td *td = ibv_alloc_td(context, WITH(ibv_td_init_attr, 0));
	struct ibv_pd *parent = ibv_alloc_parent_domain(context, WITH(ibv_parent_domain_init_attr, .pd = pd,
								      .td = td));
	struct ibv_srq *srq = ibv_create_srq(pd, WITH(ibv_srq_init_attr, .attr = { 4, 1, 0 }));
	struct ibv_qp *qp = ibv_create_qp(pd, WITH(ibv_qp_init_attr, .send_cq = cq, .recv_cq = cq, .srq = srq,
						   .qp_type = IBV_QPT_RC, .cap = { 1, 0, 1, 0, 0 }));
	struct mlx5dv_mkey *key = mlx5dv_create_mkey(WITH(mlx5dv_mkey_init_attr, .pd = pd, .create_flags = 1,
							  .max_entries = 4));
	struct ibv_dm *dm = ibv_alloc_dm(context, WITH(ibv_alloc_dm_attr, .length = 4096));
	struct ibv_mr *of_dm = dm ? ibv_reg_dm_mr(pd, dm, 0, 4096, IBV_ACCESS_ZERO_BASED) : NULL;

	if (!parent || !qp || !key) {
		printf("objects: %p %p %p, %d\n", (void *)parent, (void *)qp, (void *)key, errno);
		wrong++;
		return;
	}
	busy("domain", ibv_dealloc_pd(pd));
	busy("thread domain", ibv_dealloc_td(td));
	busy("queue", ibv_destroy_cq(cq));
	busy("shared queue", ibv_destroy_srq(srq));
	if (of_dm) {
		busy("memory of the device", ibv_free_dm(dm));
		if (ibv_dereg_mr(of_dm) || ibv_free_dm(dm)) {
			printf("memory of the device does not end: %d\n", errno);
			wrong++;
		}
	}
	/* They live: what uses them can go, and then they can. */
	if (ibv_destroy_qp(qp) || ibv_destroy_srq(srq) || ibv_destroy_cq(cq) || ibv_dealloc_pd(parent) ||
	    ibv_dealloc_td(td) || ibv_dereg_mr(mr)) {
		printf("an object does not end: %d\n", errno);
		wrong++;
	}
	busy("domain of a key", ibv_dealloc_pd(pd));
	if (mlx5dv_destroy_mkey(key) || ibv_dealloc_pd(pd)) {
		printf("a domain does not end: %d\n", errno);
		wrong++;
	}
}

int main(void)
{
	struct ibv_device **list = ibv_get_device_list(NULL);
	struct mlx5dv_context_attr devx = { .flags = MLX5DV_CONTEXT_FLAGS_DEVX };
	struct mlx5dv_context_attr unknown = { .comp_mask = 1ull << 40 };
	struct ibv_context *context = list && list[0] ? mlx5dv_open_device(list[0], &devx) : NULL;
	struct ibv_pd *pd = context ? ibv_alloc_pd(context) : NULL;
	struct ibv_mr *mr = pd ? ibv_reg_mr(pd, memory, sizeof(memory), IBV_ACCESS_LOCAL_WRITE) : NULL;
	struct ibv_cq *cq = context ? ibv_create_cq(context, 4, NULL, NULL, 0) : NULL;

	if (!mr || !cq)
		return 1;
	MADE(mlx5dv_open_device(list[0], &unknown));
	queues(context, pd, cq);
	others(context, pd, mr);
	sizes(context);
	in_use(context, pd, cq, mr);
	ibv_free_device_list(list);
	if (ibv_close_device(context))
		return 2;
	printf("%d refused, %d not\n", count - wrong, wrong);
	return 0;
}
