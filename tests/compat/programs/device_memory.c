/* Memory on the device: what its kinds are, what operations on it do, and what a queue pair writes to
   it and reads from it. The same over any library. */
#include <errno.h>
#include <infiniband/mlx5dv.h>
#include <infiniband/verbs.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define SAY(...) printf(__VA_ARGS__)
/* One number for what is not supported: this library has no other. */
#define ERRNO(made) ((made) ? 0 : errno == EPROTONOSUPPORT ? EOPNOTSUPP : errno)
#define LOCAL (IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ)

static char memory[8192] __attribute__((aligned(4096)));
static struct ibv_context *context;
static struct ibv_pd *pd;
static struct ibv_cq *cq;
static struct ibv_mr *mr;
static struct ibv_qp *qp;

static int routed(void)
{
	struct ibv_gid_entry entry;

	for (int i = 0; i < 16; i++)
		if (!ibv_query_gid_ex(context, 1, i, &entry, 0) &&
		    entry.gid_type == IBV_GID_TYPE_ROCE_V2)
			return i;
	return 0;
}

/* A connection to itself. */
static int connected(void)
{
	struct ibv_qp_init_attr init = {
		.send_cq = cq, .recv_cq = cq, .qp_type = IBV_QPT_RC, .sq_sig_all = 1,
		.cap = { .max_send_wr = 4, .max_recv_wr = 4, .max_send_sge = 1, .max_recv_sge = 1 },
	};
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_INIT, .port_num = 1, .path_mtu = IBV_MTU_1024,
		.timeout = 14, .retry_cnt = 7, .rnr_retry = 7, .max_rd_atomic = 1,
		.max_dest_rd_atomic = 1, .qp_access_flags = LOCAL,
		.ah_attr = { .is_global = 1, .port_num = 1, .grh = { .hop_limit = 64 } },
	};

	qp = ibv_create_qp(pd, &init);
	if (!qp || ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT |
				 IBV_QP_ACCESS_FLAGS))
		return 0;
	attr.qp_state = IBV_QPS_RTR;
	attr.dest_qp_num = qp->qp_num;
	attr.ah_attr.grh.sgid_index = routed();
	ibv_query_gid(context, 1, routed(), &attr.ah_attr.grh.dgid);
	if (ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
			  IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER))
		return 0;
	attr.qp_state = IBV_QPS_RTS;
	return !ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT |
			      IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC);
}

/* The status of a request between this process's memory and a region. */
static int moved(enum ibv_wr_opcode opcode, char *here, uint64_t there, uint32_t rkey, int length)
{
	struct ibv_sge sge = { (uintptr_t)here, length, mr->lkey };
	struct ibv_send_wr *bad, wr = { .sg_list = &sge, .num_sge = 1, .opcode = opcode };
	struct ibv_wc wc = {};
	int found;

	wr.wr.rdma.remote_addr = there;
	wr.wr.rdma.rkey = rkey;
	if (ibv_post_send(qp, &wr, &bad))
		return -1;
	while (!(found = ibv_poll_cq(cq, 1, &wc)))
		;
	return found == 1 ? (int)wc.status : -2;
}

static struct ibv_dm *alloc(uint32_t type, size_t length, uint32_t log_align, uint32_t mask,
			    uint64_t vendor_mask)
{
	struct ibv_alloc_dm_attr attr = { length, log_align, mask };
	struct mlx5dv_alloc_dm_attr vendor = { type, vendor_mask };

	return mlx5dv_alloc_dm(context, &attr, &vendor);
}

static void refused(void)
{
	struct ibv_device_attr_ex attr = {};

	ibv_query_device_ex(context, NULL, &attr);
	SAY("refused: %d", ERRNO(alloc(MLX5DV_DM_TYPE_MEMIC, 0, 6, 0, 0)));
	SAY(" %d", ERRNO(alloc(MLX5DV_DM_TYPE_MEMIC, attr.max_dm_size + 64, 6, 0, 0)));
	SAY(" %d", ERRNO(alloc(MLX5DV_DM_TYPE_MEMIC, 64, 20, 0, 0)));
	SAY(" %d", ERRNO(alloc(MLX5DV_DM_TYPE_MEMIC, 64, 6, 1, 0)));
	SAY(" %d", ERRNO(alloc(MLX5DV_DM_TYPE_MEMIC, 64, 6, 0, 1)));
	SAY(" %d", ERRNO(alloc(17, 64, 6, 0, 0)));
	SAY(" %d", ERRNO(alloc(MLX5DV_DM_TYPE_STEERING_SW_ICM, 0, 12, 0, 0)));
	SAY(" %d\n", ERRNO(alloc(MLX5DV_DM_TYPE_STEERING_SW_ICM, (size_t)1 << 40, 12, 0, 0)));
}

/* Bytes that are counted, and tested and set, by the processor's accesses. */
static void operations(void)
{
	struct ibv_dm *dm = alloc(MLX5DV_DM_TYPE_MEMIC, 4096, 6, 0, 0);
	volatile uint8_t *count, *test, *again;
	uint32_t words[2] = {}, read[2] = { 7, 7 };
	struct mlx5dv_dm known = { .comp_mask = MLX5DV_DM_MASK_REMOTE_VA, .remote_va = 5 };
	struct mlx5dv_obj obj = { .dm = { .in = dm, .out = &known } };

	SAY("memory %d", ERRNO(dm));
	if (!dm)
		return;
	SAY(" %d", mlx5dv_init_obj(&obj, MLX5DV_OBJ_DM));
	SAY(" there %d, %lu bytes, mask %lu, at %lu\n", !!known.buf, (unsigned long)known.length,
	    (unsigned long)known.comp_mask, (unsigned long)known.remote_va);
	SAY("copies %d %d %d", ibv_memcpy_to_dm(dm, 0, words, 8), ibv_memcpy_to_dm(dm, 2, words, 4),
	    ibv_memcpy_to_dm(dm, 0, words, 3));
	count = mlx5dv_dm_map_op_addr(dm, 0);
	SAY(", counts %d", ERRNO(count));
	test = mlx5dv_dm_map_op_addr(dm, 1);
	SAY(", tests %d", ERRNO(test));
	again = mlx5dv_dm_map_op_addr(dm, 0);
	SAY(", again %d", ERRNO(again));
	SAY(", others %d", ERRNO(mlx5dv_dm_map_op_addr(dm, 2)));
	SAY(" %d\n", ERRNO(mlx5dv_dm_map_op_addr(dm, 255)));
	if (!count || !test || !again)
		return;
	count[0] = 1;
	count[0] = 5;
	again[0] = 100;
	count[5] = 9;
	SAY("was %d", test[0]);
	SAY(", then %d", test[0]);
	SAY(", other %d\n", test[5]);
	*(volatile uint32_t *)count = 0x01020304;
	SAY("copy %d: ", ibv_memcpy_from_dm(read, dm, 0, 8));
	SAY("%08x %08x\n", read[0], read[1]);
	SAY("unmapped %d", munmap((void *)((uintptr_t)count & -4096), 4096));
	again[0] = 1;
	SAY(", still one more: %d", test[0]);
	SAY(", free %d", ibv_free_dm(dm));
	SAY(", unmapped %d", munmap((void *)((uintptr_t)again & -4096), 4096));
	SAY(" %d\n", munmap((void *)((uintptr_t)test & -4096), 4096));
}

/* A queue pair writes to it and reads from it; it cannot be freed meanwhile. */
static void kind(uint32_t type, uint64_t *last)
{
	struct ibv_dm *dm = alloc(type, 5000, 13, 0, 0);
	struct mlx5dv_dm known = { .comp_mask = MLX5DV_DM_MASK_REMOTE_VA };
	struct mlx5dv_obj obj = { .dm = { .in = dm, .out = &known } };
	struct ibv_mr *region;

	SAY("kind %u: %d", type, ERRNO(dm));
	if (!dm) {
		SAY("\n");
		return;
	}
	SAY(" %d", mlx5dv_init_obj(&obj, MLX5DV_OBJ_DM));
	SAY(" there %d, %lu bytes, mask %lu, at %lx of a page, new %d", !!known.buf,
	    (unsigned long)known.length, (unsigned long)known.comp_mask,
	    (unsigned long)known.remote_va & 0x1fff, known.remote_va != *last);
	*last = known.remote_va;
	region = ibv_reg_dm_mr(pd, dm, 0, 4096, LOCAL | IBV_ACCESS_ZERO_BASED);
	SAY(", region %d", ERRNO(region));
	if (!region)
		return;
	for (int i = 0; i < 512; i++)
		memory[i] = i * type;
	memset(memory + 4096, 0, 4096);
	SAY(", write %d", moved(IBV_WR_RDMA_WRITE, memory, 64, region->rkey, 512));
	SAY(", read %d", moved(IBV_WR_RDMA_READ, memory + 4096, 64, region->rkey, 512));
	SAY(", same %d", !memcmp(memory, memory + 4096, 512));
	SAY(", free %d", ibv_free_dm(dm));
	SAY(" %d", ibv_dereg_mr(region));
	SAY(" %d\n", ibv_free_dm(dm));
}

int main(void)
{
	struct ibv_device **list = ibv_get_device_list(NULL);
	uint64_t last = 0;

	context = list && list[0] ? ibv_open_device(list[0]) : NULL;
	pd = context ? ibv_alloc_pd(context) : NULL;
	cq = context ? ibv_create_cq(context, 16, NULL, NULL, 0) : NULL;
	mr = pd ? ibv_reg_mr(pd, memory, sizeof(memory), LOCAL) : NULL;
	if (!cq || !mr || !connected())
		return 1;
	refused();
	operations();
	for (uint32_t type = MLX5DV_DM_TYPE_MEMIC; type <= 4; type++)
		kind(type, &last);
	SAY("ends %d", ibv_destroy_qp(qp));
	SAY(" %d", ibv_destroy_cq(cq));
	SAY(" %d", ibv_dereg_mr(mr));
	SAY(" %d", ibv_dealloc_pd(pd));
	SAY(" %d\n", ibv_close_device(context));
	ibv_free_device_list(list);
	return 0;
}
