/* Passes NULL and wrong sizes to functions, of which Debian's library looks for neither. Prints how
   many were refused as they should be, and the answers of those that were not. */
#include <errno.h>
#include <infiniband/mlx5dv.h>
#include <infiniband/verbs.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

static int count, wrong;

static void expect(const char *what, int answer, int wanted)
{
	count++;
	if (answer != wanted) {
		printf("%s: %d instead of %d\n", what, answer, wanted);
		wrong++;
	}
	errno = 0;
}

#define CODE(wanted, call) expect(#call, (call), (wanted))
#define MADE(wanted, call) expect(#call, (call) ? 0 : errno, (wanted))

int main(void)
{
	struct ibv_device **list = ibv_get_device_list(NULL);
	struct mlx5dv_context_attr open = { .flags = MLX5DV_CONTEXT_FLAGS_DEVX };
	struct ibv_context *context = list && list[0] ? mlx5dv_open_device(list[0], &open) : NULL;
	struct ibv_pd *pd = context ? ibv_alloc_pd(context) : NULL;
	struct ibv_cq *cq = context ? ibv_create_cq(context, 4, NULL, NULL, 0) : NULL;
	struct ibv_ah_attr address = { .port_num = 1, .is_global = 1 };
	struct ibv_wq_init_attr queue = { .wq_type = IBV_WQT_RQ, .max_wr = 1, .max_sge = 1,
					  .pd = pd, .cq = cq };
	struct mlx5dv_wq_init_attr vendor = { 0 };
	struct mlx5dv_ctx_allocators none = { 0 };
	struct ibv_alloc_dm_attr memory = { .length = 4096 };
	struct mlx5dv_alloc_dm_attr kind = { 0 };
	struct ibv_dm *dm;
	uint8_t mac[8];
	uint16_t vlan;
	char path[1] = { 0x5a };

	if (!pd || !cq)
		return 1;
	CODE(-EINVAL, ibv_resolve_eth_l2_from_gid(NULL, &address, mac, &vlan));
	CODE(-EINVAL, ibv_resolve_eth_l2_from_gid(context, NULL, mac, &vlan));
	CODE(-EINVAL, ibv_resolve_eth_l2_from_gid(context, &address, NULL, &vlan));
	address.port_num = 9;
	CODE(-EINVAL, ibv_resolve_eth_l2_from_gid(context, &address, mac, &vlan));
	MADE(EINVAL, mlx5dv_create_wq(NULL, &queue, &vendor));
	MADE(EINVAL, mlx5dv_create_wq(context, NULL, &vendor));
	queue.cq = NULL;
	MADE(EINVAL, mlx5dv_create_wq(context, &queue, &vendor));
	queue.cq = cq;
	queue.max_wr = 1 << 30;
	MADE(EINVAL, mlx5dv_create_wq(context, &queue, &vendor));
	queue.max_wr = 1;
	queue.max_sge = UINT32_MAX;
	MADE(EINVAL, mlx5dv_create_wq(context, &queue, &vendor));
	vendor.comp_mask = MLX5DV_WQ_INIT_ATTR_MASK_STRIDING_RQ;
	MADE(EINVAL, mlx5dv_create_wq(context, &queue, &vendor));
	CODE(EINVAL, mlx5dv_get_data_direct_sysfs_path(NULL, path, 1));
	MADE(EINVAL, mlx5dv_reg_dmabuf_mr(NULL, 0, 1, 0, 0, 0, 0));
	MADE(EBADF, mlx5dv_reg_dmabuf_mr(pd, 0, 1, 0, -1, 0, 0));
	MADE(EINVAL, mlx5dv_reg_dmabuf_mr(pd, 0, 1, 0, 0, 0, 2));
	CODE(EINVAL, mlx5dv_set_context_attr(NULL, MLX5DV_CTX_ATTR_BUF_ALLOCATORS, &none));
	CODE(EINVAL, mlx5dv_set_context_attr(context, MLX5DV_CTX_ATTR_BUF_ALLOCATORS, NULL));
	CODE(EOPNOTSUPP, mlx5dv_set_context_attr(context, 0, &none));
	/* No functions: the library's own again. */
	CODE(0, mlx5dv_set_context_attr(context, MLX5DV_CTX_ATTR_BUF_ALLOCATORS, &none));
	MADE(EINVAL, mlx5dv_alloc_dm(NULL, &memory, &kind));
	MADE(EINVAL, mlx5dv_alloc_dm(context, NULL, &kind));
	MADE(EINVAL, mlx5dv_alloc_dm(context, &memory, NULL));
	MADE(EINVAL, mlx5dv_dm_map_op_addr(NULL, 0));
	kind.type = MLX5DV_DM_TYPE_STEERING_SW_ICM;
	dm = mlx5dv_alloc_dm(context, &memory, &kind);
	MADE(0, dm);
	if (dm) {
		/* The kernel would take it for memory that has operations. */
		MADE(EOPNOTSUPP, mlx5dv_dm_map_op_addr(dm, 0));
		CODE(EOPNOTSUPP, ibv_memcpy_to_dm(dm, 0, mac, 4));
		CODE(EOPNOTSUPP, ibv_memcpy_from_dm(mac, dm, 0, 4));
		CODE(0, ibv_free_dm(dm));
	}
	CODE(0, ibv_destroy_cq(cq));
	CODE(0, ibv_dealloc_pd(pd));
	CODE(0, ibv_close_device(context));
	printf("%d refused, %d not\n", count - wrong, wrong);
	return 0;
}
