/*
 * The table of `uverbs rings`, posted by libmlx5, and what stands in its queues then, as `uverbs rings` shows it.
 *
 *     cc -o rings rings.c -libverbs -lmlx5
 *     ./rings DEVICE [PORT [GID-INDEX]]
 *
 * What differs from run to run is left out: numbers of queues, keys, addresses, times. Layouts: the adapters' Programmer's
 * Reference Manual, and linux/mlx5/qp.h and device.h.
 */

#include <infiniband/mlx5dv.h>
#include <infiniband/verbs.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define ROOM 64
#define INLINE 60
#define DEPTH 64
#define IMMEDIATE 0x01020304
#define PATIENCE 5
#define MASKED "\xe2\x80\xa6"

enum kind { SEND, SEND_IMM, IN_REQUEST, WRITE, WRITE_IMM, READ, COMPARE_SWAP, FETCH_ADD, WRONG_KEY };

struct step {
	enum kind kind;
	uint32_t length;
	int flags;
};

/* Row by row as src/cli/src/commands/rings.rs has it. */
static const struct step table[] = {
	{ SEND, 16, 0 },
	{ SEND_IMM, 1, 0 },
	{ SEND, 0, 0 },
	{ SEND, 64, IBV_SEND_SOLICITED },
	{ IN_REQUEST, 0, 0 },
	{ IN_REQUEST, 1, 0 },
	{ IN_REQUEST, 11, 0 },
	{ IN_REQUEST, 12, 0 },
	{ IN_REQUEST, 13, 0 },
	{ IN_REQUEST, 28, 0 },
	{ IN_REQUEST, 43, 0 },
	{ IN_REQUEST, 44, 0 },
	{ IN_REQUEST, 45, 0 },
	{ IN_REQUEST, 60, 0 },
	{ WRITE, 64, 0 },
	{ WRITE_IMM, 32, 0 },
	{ READ, 64, 0 },
	{ SEND, 8, IBV_SEND_FENCE },
	{ COMPARE_SWAP, 8, 0 },
	{ FETCH_ADD, 8, 0 },
	{ WRONG_KEY, 8, 0 },
};

/* One of two connected queue pairs, and how far its rings were shown. */
struct end {
	struct ibv_cq *cq;
	struct ibv_qp *qp;
	struct mlx5dv_cq entries;
	struct mlx5dv_qp rings;
	uint32_t block;
	uint32_t receive;
	uint32_t entry;
};

static void check(int good, const char *what)
{
	if (good)
		return;
	perror(what);
	exit(1);
}

/* A big-endian number of so many bytes. */
static uint64_t number(const uint8_t *bytes, int count)
{
	uint64_t value = 0;

	while (count--)
		value = value << 8 | *bytes++;
	return value;
}

static void show_number(const char *name, uint64_t value)
{
	printf(value < 1 << 20 ? " %s=%llu" : " %s=0x%llx", name, (unsigned long long)value);
}

static void show_hex(const char *name, uint64_t value)
{
	printf(" %s=0x%llx", name, (unsigned long long)value);
}

static void show_if_any(const char *name, uint64_t value)
{
	if (value)
		show_hex(name, value);
}

static void show_masked(const char *name)
{
	printf(" %s=" MASKED, name);
}

static void show_bytes(const char *name, const uint8_t *bytes, uint32_t count)
{
	printf(" %s=", name);
	for (uint32_t at = 0; at < count && at < 32; at++)
		printf("%02x", bytes[at]);
	if (count > 32)
		printf(MASKED "[%u]", count);
}

static void show_flags(uint8_t flags)
{
	static const struct { uint8_t bit; const char *name; } names[] = {
		{ 8, "signaled" }, { 2, "solicited" }, { 0x80, "fence" }, { 0x20, "small_fence" },
	};
	const char *before = "";

	printf(" flags=");
	for (int at = 0; at < 4; at++) {
		if (flags & names[at].bit) {
			printf("%s%s", before, names[at].name);
			before = "|";
		}
	}
	if (!*before)
		printf("none");
	show_if_any("other_flags", flags & ~0xaa);
}

static const char *request_name(uint8_t opcode)
{
	switch (opcode) {
	case MLX5_OPCODE_RDMA_WRITE:
		return "RDMA_WRITE";
	case MLX5_OPCODE_RDMA_WRITE_IMM:
		return "RDMA_WRITE_IMM";
	case MLX5_OPCODE_SEND:
		return "SEND";
	case MLX5_OPCODE_SEND_IMM:
		return "SEND_IMM";
	case MLX5_OPCODE_RDMA_READ:
		return "RDMA_READ";
	case MLX5_OPCODE_ATOMIC_CS:
		return "ATOMIC_CS";
	case MLX5_OPCODE_ATOMIC_FA:
		return "ATOMIC_FA";
	default:
		return "unknown";
	}
}

static void show_piece(const uint8_t *unit)
{
	show_number("length", number(unit, 4));
	show_masked("lkey");
	show_masked("address");
}

/* What is behind the control segment. */
static void show_segments(uint8_t opcode, const uint8_t *at, const uint8_t *end)
{
	switch (opcode) {
	case MLX5_OPCODE_RDMA_WRITE:
	case MLX5_OPCODE_RDMA_WRITE_IMM:
	case MLX5_OPCODE_RDMA_READ:
	case MLX5_OPCODE_ATOMIC_CS:
	case MLX5_OPCODE_ATOMIC_FA:
		show_masked("remote_address");
		show_masked("rkey");
		at += 16;
	}
	if (opcode == MLX5_OPCODE_ATOMIC_CS) {
		show_hex("swap", number(at, 8));
		show_hex("compare", number(at + 8, 8));
		at += 16;
	} else if (opcode == MLX5_OPCODE_ATOMIC_FA) {
		show_hex("add", number(at, 8));
		at += 16;
	}
	while (at < end) {
		uint32_t length = number(at, 4);

		if (length >> 31) {
			length &= 0x7fffffff;
			show_bytes("inline", at + 4, length);
			at += (length + 4 + 15) / 16 * 16;
		} else {
			show_piece(at);
			at += 16;
		}
	}
}

static void show_send(struct end *end)
{
	const struct mlx5dv_qp *rings = &end->rings;
	uint8_t wqe[64 * 16];
	uint32_t place = end->block % rings->sq.wqe_cnt;
	uint32_t units;

	/* It may wrap; 16 blocks are the longest. */
	for (uint32_t block = 0; block < 16; block++)
		memcpy(wqe + block * 64, (uint8_t *)rings->sq.buf + (end->block + block) % rings->sq.wqe_cnt * 64, 64);
	units = number(wqe + 7, 1) & 0x3f;
	printf("sq 0x0[%u] %s", place, request_name(wqe[3]));
	if (!strcmp(request_name(wqe[3]), "unknown"))
		show_hex("opcode", wqe[3]);
	show_if_any("modifier", wqe[0]);
	show_number("index", number(wqe + 1, 2));
	show_masked("qpn");
	show_number("units", number(wqe + 7, 1));
	show_if_any("signature", wqe[8]);
	show_if_any("stream", number(wqe + 9, 2));
	show_flags(wqe[11]);
	if (wqe[3] == MLX5_OPCODE_SEND_IMM || wqe[3] == MLX5_OPCODE_RDMA_WRITE_IMM)
		show_hex("immediate", number(wqe + 12, 4));
	else
		show_if_any("immediate", number(wqe + 12, 4));
	show_segments(wqe[3], wqe + 16, wqe + units * 16);
	printf("\n");
	end->block += (units + 3) / 4;
}

static void show_receive(struct end *end)
{
	const struct mlx5dv_qp *rings = &end->rings;
	uint32_t place = end->receive++ % rings->rq.wqe_cnt;
	const uint8_t *wqe = (uint8_t *)rings->rq.buf + place * rings->rq.stride;

	printf("rq 0x0[%u] RECEIVE", place);
	for (uint32_t at = 0; at < rings->rq.stride; at += 16) {
		if (!number(wqe + at, 4) && number(wqe + at + 4, 4) == 0x100)
			break;
		show_piece(wqe + at);
	}
	printf("\n");
}

/* What a message came with, and which way. */
static void show_message(const uint8_t *cqe, uint8_t kind)
{
	show_number("byte_count", number(cqe + 44, 4));
	if (kind == MLX5_CQE_RESP_SEND)
		show_number("pkey_index", number(cqe + 38, 2));
	else if (kind == MLX5_CQE_RESP_SEND_INV)
		show_masked("invalidate");
	else
		show_hex("immediate", number(cqe + 36, 4));
	show_if_any("hash", number(cqe + 12, 4));
	show_if_any("hash_type", cqe[16]);
	show_if_any("path_bits", cqe[17]);
	show_if_any("checksum", number(cqe + 20, 2));
	show_if_any("slid", number(cqe + 22, 2));
	show_masked("source_qpn");
	show_if_any("sl", cqe[24] & 0xf);
	show_if_any("route", cqe[24] >> 4 & 3);
	show_if_any("checked", cqe[28]);
	show_if_any("headers", cqe[29]);
	show_if_any("vlan", number(cqe + 30, 2));
	show_masked("timestamp");
}

static void show_failure(const uint8_t *cqe, uint8_t kind)
{
	static const struct { uint8_t value; const char *name; } names[] = {
		{ 0x01, "LOCAL_LENGTH" }, { 0x02, "LOCAL_QP_OP" }, { 0x04, "LOCAL_PROT" }, { 0x05, "WR_FLUSH" },
		{ 0x06, "MW_BIND" }, { 0x10, "BAD_RESP" }, { 0x11, "LOCAL_ACCESS" }, { 0x12, "REMOTE_INVAL_REQ" },
		{ 0x13, "REMOTE_ACCESS" }, { 0x14, "REMOTE_OP" }, { 0x15, "TRANSPORT_RETRY_EXC" },
		{ 0x16, "RNR_RETRY_EXC" }, { 0x22, "REMOTE_ABORTED" },
	};
	const char *name = NULL;

	for (size_t at = 0; at < sizeof(names) / sizeof(*names); at++) {
		if (names[at].value == cqe[55])
			name = names[at].name;
	}
	if (name)
		printf(" syndrome=%s", name);
	else
		show_hex("syndrome", cqe[55]);
	show_hex("vendor_syndrome", cqe[54]);
	show_hex("hardware_syndrome", cqe[52]);
	show_hex("hardware_syndrome_type", cqe[53] >> 4);
	if (kind == MLX5_CQE_REQ_ERR)
		printf(" request=%s", request_name(cqe[56]));
}

static const char *entry_name(uint8_t kind)
{
	switch (kind) {
	case MLX5_CQE_REQ:
		return "REQ";
	case MLX5_CQE_RESP_WR_IMM:
		return "RESP_WR_IMM";
	case MLX5_CQE_RESP_SEND:
		return "RESP_SEND";
	case MLX5_CQE_RESP_SEND_IMM:
		return "RESP_SEND_IMM";
	case MLX5_CQE_RESP_SEND_INV:
		return "RESP_SEND_INV";
	case MLX5_CQE_REQ_ERR:
		return "REQ_ERR";
	case MLX5_CQE_RESP_ERR:
		return "RESP_ERR";
	default:
		return "unknown";
	}
}

static void show_entry(struct end *end)
{
	const struct mlx5dv_cq *entries = &end->entries;
	uint32_t place = end->entry++ % entries->cqe_cnt;
	/* Of a long entry, the second half means something. */
	const uint8_t *cqe = (uint8_t *)entries->buf + (place + 1) * entries->cqe_size - 64;
	uint8_t kind = cqe[63] >> 4;

	printf("cq 0x0[%u] %s", place, entry_name(kind));
	switch (kind) {
	case MLX5_CQE_REQ:
		printf(" request=%s", request_name(cqe[56]));
		show_number("byte_count", number(cqe + 44, 4));
		show_masked("timestamp");
		break;
	case MLX5_CQE_REQ_ERR:
	case MLX5_CQE_RESP_ERR:
		show_failure(cqe, kind);
		break;
	case MLX5_CQE_RESP_WR_IMM:
	case MLX5_CQE_RESP_SEND:
	case MLX5_CQE_RESP_SEND_IMM:
	case MLX5_CQE_RESP_SEND_INV:
		show_message(cqe, kind);
		break;
	default:
		show_hex("opcode", kind);
	}
	show_masked("qpn");
	show_number("counter", number(cqe + 60, 2));
	show_masked("user_index");
	show_masked("signature");
	show_if_any("solicited", cqe[63] >> 1 & 1);
	show_number("owner", cqe[63] & 1);
	printf("\n");
}

/* Waits for a completion, and shows its entry: it is there until the ring has gone around. */
static void take(struct end *end)
{
	struct ibv_wc wc;
	time_t until = time(NULL) + PATIENCE;
	int found;

	while (!(found = ibv_poll_cq(end->cq, 1, &wc)))
		check(time(NULL) <= until, "no completion");
	check(found == 1, "ibv_poll_cq");
	show_entry(end);
}

static struct ibv_context *open_device(const char *name)
{
	struct ibv_device **list = ibv_get_device_list(NULL);

	for (int n = 0; list && list[n]; n++)
		if (!strcmp(ibv_get_device_name(list[n]), name))
			return ibv_open_device(list[n]);
	return NULL;
}

static void create(struct end *end, struct ibv_pd *pd)
{
	struct ibv_qp_init_attr init = { .qp_type = IBV_QPT_RC, .cap = {
		.max_send_wr = DEPTH, .max_recv_wr = DEPTH, .max_send_sge = 1, .max_recv_sge = 1, .max_inline_data = INLINE,
	} };
	struct mlx5dv_obj objects = { 0 };

	end->cq = ibv_create_cq(pd->context, DEPTH, NULL, NULL, 0);
	check(end->cq != NULL, "ibv_create_cq");
	init.send_cq = init.recv_cq = end->cq;
	end->qp = ibv_create_qp(pd, &init);
	check(end->qp != NULL, "ibv_create_qp");
	objects.cq.in = end->cq;
	objects.cq.out = &end->entries;
	objects.qp.in = end->qp;
	objects.qp.out = &end->rings;
	check(!mlx5dv_init_obj(&objects, MLX5DV_OBJ_CQ | MLX5DV_OBJ_QP), "mlx5dv_init_obj");
}

static void connect(struct ibv_qp *qp, uint32_t peer, uint8_t port_num, uint8_t gid_index)
{
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_INIT, .port_num = port_num, .path_mtu = IBV_MTU_1024, .dest_qp_num = peer,
		.max_dest_rd_atomic = 1, .min_rnr_timer = 12, .timeout = 16, .retry_cnt = 7, .rnr_retry = 7, .max_rd_atomic = 1,
		.qp_access_flags = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE |
				   IBV_ACCESS_REMOTE_ATOMIC,
		.ah_attr = { .port_num = port_num },
	};
	struct ibv_port_attr port;

	check(!ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS), "INIT");
	check(!ibv_query_port(qp->context, port_num, &port), "port");
	attr.ah_attr.dlid = port.lid;
	if (port.link_layer == IBV_LINK_LAYER_ETHERNET) {
		attr.ah_attr.is_global = 1;
		attr.ah_attr.grh.sgid_index = gid_index;
		attr.ah_attr.grh.hop_limit = 64;
		check(!ibv_query_gid(qp->context, port_num, gid_index, &attr.ah_attr.grh.dgid), "GID");
	}
	attr.qp_state = IBV_QPS_RTR;
	check(!ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
			     IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER), "RTR");
	attr.qp_state = IBV_QPS_RTS;
	check(!ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
			     IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC), "RTS");
}

/* The request of a row. */
static void post(struct end *sender, const struct step *step, struct ibv_mr *here, struct ibv_mr *there)
{
	struct ibv_sge piece = { .addr = (uintptr_t)here->addr, .length = step->length, .lkey = here->lkey };
	struct ibv_send_wr wr = { .sg_list = &piece, .num_sge = 1, .send_flags = IBV_SEND_SIGNALED | step->flags };
	struct ibv_send_wr *bad;

	switch (step->kind) {
	case SEND:
		wr.opcode = IBV_WR_SEND;
		break;
	case IN_REQUEST:
		wr.opcode = IBV_WR_SEND;
		wr.send_flags |= IBV_SEND_INLINE;
		break;
	case SEND_IMM:
		wr.opcode = IBV_WR_SEND_WITH_IMM;
		break;
	case WRITE:
	case WRONG_KEY:
		wr.opcode = IBV_WR_RDMA_WRITE;
		break;
	case WRITE_IMM:
		wr.opcode = IBV_WR_RDMA_WRITE_WITH_IMM;
		break;
	case READ:
		wr.opcode = IBV_WR_RDMA_READ;
		break;
	case COMPARE_SWAP:
		wr.opcode = IBV_WR_ATOMIC_CMP_AND_SWP;
		break;
	case FETCH_ADD:
		wr.opcode = IBV_WR_ATOMIC_FETCH_AND_ADD;
	}
	wr.imm_data = htobe32(IMMEDIATE);
	if (step->kind == COMPARE_SWAP || step->kind == FETCH_ADD) {
		wr.wr.atomic.remote_addr = (uintptr_t)there->addr;
		wr.wr.atomic.rkey = there->rkey;
		wr.wr.atomic.compare_add = step->kind == FETCH_ADD ? 3 : 1;
		wr.wr.atomic.swap = 2;
	} else {
		wr.wr.rdma.remote_addr = (uintptr_t)there->addr;
		wr.wr.rdma.rkey = step->kind == WRONG_KEY ? 0 : there->rkey;
	}
	check(!ibv_post_send(sender->qp, &wr, &bad), "ibv_post_send");
	show_send(sender);
}

static void carry_out(struct end *ends, const struct step *step, struct ibv_mr *here, struct ibv_mr *there)
{
	int received = step->kind == SEND || step->kind == SEND_IMM || step->kind == IN_REQUEST || step->kind == WRITE_IMM ||
		       step->kind == WRONG_KEY;
	struct ibv_sge piece = { .addr = (uintptr_t)there->addr + ROOM, .length = ROOM, .lkey = there->lkey };
	struct ibv_recv_wr wr = { .sg_list = &piece, .num_sge = 1 };
	struct ibv_recv_wr *bad;
	uint8_t *bytes = here->addr;

	for (int at = 0; at < ROOM; at++)
		bytes[at] = at + 1;
	if (received) {
		check(!ibv_post_recv(ends[1].qp, &wr, &bad), "ibv_post_recv");
		show_receive(&ends[1]);
	}
	post(&ends[0], step, here, there);
	take(&ends[0]);
	if (received)
		take(&ends[1]);
}

int main(int argc, char **argv)
{
	static uint8_t memory[2][2 * ROOM] __attribute__((aligned(4096)));
	uint8_t port = argc > 2 ? atoi(argv[2]) : 1, gid_index = argc > 3 ? atoi(argv[3]) : 0;
	int access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC;
	struct ibv_context *context;
	struct end ends[2] = { 0 };
	struct ibv_mr *mr[2];

	/* Small messages go where they are asked for, as this library has it. */
	setenv("MLX5_SCATTER_TO_CQE", "0", 1);
	context = argc > 1 ? open_device(argv[1]) : NULL;
	check(context != NULL, "rings DEVICE [PORT [GID-INDEX]]");
	struct ibv_pd *pd = ibv_alloc_pd(context);
	check(pd != NULL, "ibv_alloc_pd");
	for (int at = 0; at < 2; at++) {
		create(&ends[at], pd);
		mr[at] = ibv_reg_mr(pd, memory[at], sizeof(memory[at]), access);
		check(mr[at] != NULL, "ibv_reg_mr");
	}
	connect(ends[0].qp, ends[1].qp->qp_num, port, gid_index);
	connect(ends[1].qp, ends[0].qp->qp_num, port, gid_index);
	for (size_t at = 0; at < sizeof(table) / sizeof(*table); at++)
		carry_out(ends, &table[at], mr[0], mr[1]);
	return 0;
}
