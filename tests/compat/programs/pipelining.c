/* A send queue that drains at a wrong signature, and requests that are cancelled meanwhile. The same over
   any library. */
#include <errno.h>
#include <infiniband/mlx5dv.h>
#include <infiniband/verbs.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#define SAY(...) printf(__VA_ARGS__)
#define LENGTH 4096
#define THERE (memory + 2048)

static char memory[LENGTH];
static struct ibv_context *context;
static struct ibv_pd *pd;
static struct ibv_cq *cq;
static struct ibv_mr *mr;
static struct ibv_qp *qp;
static struct ibv_qp_ex *ex;
static struct mlx5dv_qp_ex *dv;
static struct mlx5dv_mkey *key;

static struct ibv_context *opened(void)
{
	struct ibv_device **list = ibv_get_device_list(NULL);
	struct mlx5dv_context_attr attr = { .flags = MLX5DV_CONTEXT_FLAGS_DEVX };
	struct ibv_context *found = list && list[0] ? mlx5dv_open_device(list[0], &attr) : NULL;

	ibv_free_device_list(list);
	return found;
}

static struct ibv_qp *created(void)
{
	struct ibv_qp_init_attr_ex init = {
		.send_cq = cq, .recv_cq = cq, .qp_type = IBV_QPT_RC, .pd = pd,
		.cap = { .max_send_wr = 32, .max_recv_wr = 1, .max_send_sge = 2, .max_recv_sge = 1,
			 .max_inline_data = 256 },
		.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS,
		.send_ops_flags = IBV_QP_EX_WITH_RDMA_WRITE | IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD,
	};
	struct mlx5dv_qp_init_attr vendor = {
		.comp_mask = MLX5DV_QP_INIT_ATTR_MASK_SEND_OPS_FLAGS |
			     MLX5DV_QP_INIT_ATTR_MASK_QP_CREATE_FLAGS,
		.create_flags = MLX5DV_QP_CREATE_SIG_PIPELINING,
		.send_ops_flags = MLX5DV_QP_EX_WITH_MKEY_CONFIGURE,
	};

	return mlx5dv_create_qp(context, &init, &vendor);
}

/* A connection to itself. */
static int connect(void)
{
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_INIT, .port_num = 1, .path_mtu = IBV_MTU_1024, .timeout = 14,
		.retry_cnt = 7, .rnr_retry = 7, .max_rd_atomic = 1, .max_dest_rd_atomic = 1,
		.ah_attr = { .port_num = 1 }, .dest_qp_num = qp->qp_num,
		.qp_access_flags = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC,
	};
	struct ibv_port_attr port;
	int done;

	ibv_query_port(context, 1, &port);
	attr.ah_attr.dlid = port.lid;
	done = ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT |
			     IBV_QP_ACCESS_FLAGS);
	if (done)
		return done;
	attr.qp_state = IBV_QPS_RTR;
	done = ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU |
			     IBV_QP_DEST_QPN | IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC |
			     IBV_QP_MIN_RNR_TIMER);
	attr.qp_state = IBV_QPS_RTS;
	return done ? done : ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_TIMEOUT |
					   IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN |
					   IBV_QP_MAX_QP_RD_ATOMIC);
}

/* Completions until none has come for long. */
static int completions(int wanted)
{
	struct ibv_wc wc;
	int found = 0;

	for (long i = 0; i < 500000 && found < wanted; i++)
		if (ibv_poll_cq(cq, 1, &wc) > 0) {
			SAY(" (%d: %d, %d)", (int)wc.wr_id, wc.status, (int)wc.opcode);
			found++;
		}
	return found;
}

/* CRC32 of 512 bytes of memory, which is checked. */
static void sign(void)
{
	struct mlx5dv_sig_crc crc = { MLX5DV_SIG_CRC_TYPE_CRC32, UINT32_MAX };
	struct mlx5dv_sig_block_domain mem = {
		.sig_type = MLX5DV_SIG_TYPE_CRC, .sig.crc = &crc,
		.block_size = MLX5DV_BLOCK_SIZE_512,
	};
	struct mlx5dv_sig_block_attr attr = { .mem = &mem, .check_mask = MLX5DV_SIG_MASK_CRC32 };
	struct mlx5dv_mkey_conf_attr conf = {};
	struct ibv_sge sge = { (uintptr_t)memory, 516, mr->lkey };

	ibv_wr_start(ex);
	ex->wr_id = 50;
	ex->wr_flags = IBV_SEND_SIGNALED | IBV_SEND_INLINE;
	mlx5dv_wr_mkey_configure(dv, key, 3, &conf);
	mlx5dv_wr_set_mkey_access_flags(dv, IBV_ACCESS_LOCAL_WRITE);
	mlx5dv_wr_set_mkey_layout_list(dv, 1, &sge);
	mlx5dv_wr_set_mkey_sig_block(dv, &attr);
	SAY("signed %d", ibv_wr_complete(ex));
	completions(1);
	SAY("\n");
}

static void write_signed(int id)
{
	ex->wr_id = id;
	ex->wr_flags = 0;
	ibv_wr_rdma_write(ex, mr->rkey, (uintptr_t)THERE);
	ibv_wr_set_sge(ex, key->lkey, 0, 512);
}

static void write_byte(int id, int flags, char byte, int where)
{
	ex->wr_id = id;
	ex->wr_flags = flags | IBV_SEND_SIGNALED | IBV_SEND_INLINE;
	ibv_wr_rdma_write(ex, mr->rkey, (uintptr_t)memory + where);
	ibv_wr_set_inline_data(ex, &byte, 1);
}

static void add(int id)
{
	ex->wr_id = id;
	ex->wr_flags = IBV_SEND_SIGNALED;
	ibv_wr_atomic_fetch_add(ex, mr->rkey, (uintptr_t)memory + 1200, 5);
	ibv_wr_set_sge(ex, mr->lkey, (uintptr_t)memory + 1208, 8);
}

static void checked(void)
{
	struct mlx5dv_mkey_err found = {};

	SAY(", check %d", mlx5dv_mkey_check(key, &found));
	SAY(" type %d\n", found.err_type);
}

static int state(void)
{
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr = {};

	return ibv_query_qp(qp, &attr, IBV_QP_STATE, &init) ? -1 : (int)attr.qp_state;
}

static int cancel(int id)
{
	return mlx5dv_qp_cancel_posted_send_wrs(dv, id);
}

static int go_on(void)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_RTS, .cur_qp_state = IBV_QPS_SQD };

	return ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_CUR_STATE);
}

int main(void)
{
	struct mlx5dv_mkey_init_attr init = {
		.create_flags = MLX5DV_MKEY_INIT_ATTR_FLAGS_INDIRECT |
				MLX5DV_MKEY_INIT_ATTR_FLAGS_BLOCK_SIGNATURE,
		.max_entries = 1,
	};
	struct ibv_async_event event;
	int first, second, third;

	context = opened();
	if (!context)
		return 1;
	pd = ibv_alloc_pd(context);
	cq = ibv_create_cq(context, 32, NULL, NULL, 0);
	mr = ibv_reg_mr(pd, memory, LENGTH, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE |
			IBV_ACCESS_REMOTE_ATOMIC);
	errno = 0;
	qp = created();
	SAY("created: %s %d\n", qp ? "yes" : "no", errno);
	if (!qp)
		return 0;
	ex = ibv_qp_to_qp_ex(qp);
	dv = mlx5dv_qp_ex_from_ibv_qp_ex(ex);
	first = connect();
	SAY("connected %d\n", first);
	if (first)
		return 0;
	init.pd = pd;
	key = mlx5dv_create_mkey(&init);
	SAY("key %s\n", key ? "there" : "none");
	if (!key)
		return 0;
	sign();
	SAY("not drained: %d", cancel(1));

	for (int i = 0; i < 512; i++)
		memory[i] = i;
	ibv_wr_start(ex);
	write_signed(1);
	write_byte(2, 0, 'a', 1000);
	write_byte(1, IBV_SEND_FENCE, 'b', 1001);
	add(3);
	write_byte(1, 0, 'c', 1002);
	write_byte(4, 0, 'd', 1003);
	SAY(", posted %d", ibv_wr_complete(ex));
	first = ibv_get_async_event(context, &event);
	SAY(", event %d %d of the queue pair: %d", first, event.event_type, event.element.qp == qp);
	ibv_ack_async_event(&event);
	completions(2);
	SAY(", state %d", state());
	checked();

	first = cancel(9);
	second = cancel(1);
	third = cancel(3);
	SAY("cancelled %d, %d, %d\n", first, second, third);
	first = go_on();
	SAY("on: %d, state %d:", first, state());
	completions(5);
	SAY(" wrote %d %d %d %d, added %d\n", memory[1000], memory[1001], memory[1002], memory[1003],
	    memory[1200]);

	sign();
	ibv_wr_start(ex);
	write_signed(5);
	write_byte(6, IBV_SEND_FENCE, 'e', 1004);
	SAY("once more: posted %d", ibv_wr_complete(ex));
	first = ibv_get_async_event(context, &event);
	ibv_ack_async_event(&event);
	SAY(", event %d %d", first, event.event_type);
	checked();
	ibv_wr_start(ex);
	write_byte(7, 0, 'f', 1005);
	SAY("posted while drained: %d", ibv_wr_complete(ex));
	completions(1);
	first = cancel(6);
	second = go_on();
	SAY("\ncancelled %d, on: %d:", first, second);
	completions(3);
	SAY(" wrote %d %d\n", memory[1004], memory[1005]);
	first = mlx5dv_destroy_mkey(key);
	second = ibv_destroy_qp(qp);
	third = ibv_dereg_mr(mr);
	SAY("gone: %d %d %d", first, second, third);
	first = ibv_destroy_cq(cq);
	SAY(" %d %d\n", first, ibv_dealloc_pd(pd));
	return ibv_close_device(context);
}
