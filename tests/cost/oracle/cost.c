/* The loops of src/main.rs with libibverbs, to be compared: cost DEVICE ROUNDS. Functions named counted_* are counted. */

#include <infiniband/verbs.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MANY 64
#define BUFFER 8192
#define PIECE 64
#define INLINE 32
#define AT_ONCE 16

#define APART __attribute__((noinline, noclone))

static void fail(const char *what)
{
	perror(what);
	exit(1);
}

static struct ibv_sge piece(const char *memory, const struct ibv_mr *mr, int at, int length)
{
	return (struct ibv_sge){ .addr = (uintptr_t)memory + at, .length = length, .lkey = mr->lkey };
}

APART int counted_write(struct ibv_qp *qp, struct ibv_mr *mr, const char *memory)
{
	for (int n = 0; n < MANY; n++) {
		struct ibv_sge sge = piece(memory, mr, 0, PIECE);
		struct ibv_send_wr *bad, wr = {
			.wr_id = n, .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_RDMA_WRITE,
			.send_flags = IBV_SEND_SIGNALED,
			.wr.rdma = { .remote_addr = (uintptr_t)memory + BUFFER / 2, .rkey = mr->rkey },
		};
		if (ibv_post_send(qp, &wr, &bad))
			return -1;
	}
	return 0;
}

APART int counted_inline(struct ibv_qp *qp, const char *bytes)
{
	for (int n = 0; n < MANY; n++) {
		struct ibv_sge sge = { .addr = (uintptr_t)bytes, .length = INLINE };
		struct ibv_send_wr *bad, wr = {
			.wr_id = n, .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND,
			.send_flags = IBV_SEND_SIGNALED | IBV_SEND_INLINE,
		};
		if (ibv_post_send(qp, &wr, &bad))
			return -1;
	}
	return 0;
}

APART int counted_batch(struct ibv_qp *qp, struct ibv_mr *mr, const char *memory, struct ibv_send_wr *chain,
			struct ibv_sge *pieces)
{
	struct ibv_send_wr *bad;

	for (int n = 0; n < MANY; n++) {
		struct ibv_send_wr *wr = &chain[n];

		pieces[n] = piece(memory, mr, 0, PIECE);
		wr->wr_id = n;
		wr->next = n + 1 < MANY ? wr + 1 : NULL;
		wr->sg_list = &pieces[n];
		wr->num_sge = 1;
		wr->opcode = IBV_WR_RDMA_WRITE;
		wr->send_flags = IBV_SEND_SIGNALED;
		wr->wr.rdma.remote_addr = (uintptr_t)memory + BUFFER / 2;
		wr->wr.rdma.rkey = mr->rkey;
	}
	return ibv_post_send(qp, chain, &bad);
}

APART int counted_receive(struct ibv_qp *qp, struct ibv_mr *mr, const char *memory)
{
	for (int n = 0; n < MANY; n++) {
		struct ibv_sge sge = piece(memory, mr, BUFFER / 2, PIECE);
		struct ibv_recv_wr *bad, wr = { .wr_id = n, .sg_list = &sge, .num_sge = 1 };
		if (ibv_post_recv(qp, &wr, &bad))
			return -1;
	}
	return 0;
}

/* A function and its copies, so that each use is counted apart. */
#define POLL(name)                                                                         \
	APART int name(struct ibv_cq *cq, uint64_t *sum)                                   \
	{                                                                                  \
		for (int n = 0; n < MANY; n++) {                                           \
			struct ibv_wc wc;                                                  \
			if (ibv_poll_cq(cq, 1, &wc) != 1 || wc.status != IBV_WC_SUCCESS)   \
				return -1;                                                 \
			*sum += wc.wr_id;                                                  \
		}                                                                          \
		return 0;                                                                  \
	}

POLL(counted_poll)
POLL(counted_poll_received)

APART int counted_poll_many(struct ibv_cq *cq, struct ibv_wc *done, uint64_t *sum)
{
	for (int n = 0; n < MANY / AT_ONCE; n++) {
		if (ibv_poll_cq(cq, AT_ONCE, done) != AT_ONCE)
			return -1;
		for (int at = 0; at < AT_ONCE; at++) {
			if (done[at].status != IBV_WC_SUCCESS)
				return -1;
			*sum += done[at].wr_id;
		}
	}
	return 0;
}

APART int counted_poll_empty(struct ibv_cq *cq)
{
	struct ibv_wc wc;

	for (int n = 0; n < MANY; n++)
		if (ibv_poll_cq(cq, 1, &wc) != 0)
			return -1;
	return 0;
}

static void take(struct ibv_cq *cq, int count)
{
	while (count) {
		struct ibv_wc wc;
		int got = ibv_poll_cq(cq, 1, &wc);

		if (got < 0 || (got && wc.status != IBV_WC_SUCCESS))
			fail("completion");
		count -= got;
		if (!got)
			usleep(500);
	}
}

/* Sends something behind the requests of a loop: when it arrives, their completions are there. */
static void mark(struct ibv_qp *sender, struct ibv_qp *receiver, struct ibv_cq *recv_cq)
{
	struct ibv_recv_wr *bad_recv, recv = { .num_sge = 0 };
	struct ibv_send_wr *bad_send, send = { .opcode = IBV_WR_SEND };

	if (ibv_post_recv(receiver, &recv, &bad_recv) || ibv_post_send(sender, &send, &bad_send))
		fail("mark");
	take(recv_cq, 1);
}

static struct ibv_qp *create(struct ibv_pd *pd, struct ibv_cq *send, struct ibv_cq *recv)
{
	struct ibv_qp_init_attr attr = {
		.send_cq = send, .recv_cq = recv, .qp_type = IBV_QPT_RC,
		.cap = { .max_send_wr = 2 * MANY, .max_recv_wr = 2 * MANY, .max_send_sge = 1, .max_recv_sge = 1,
			 .max_inline_data = INLINE },
	};
	struct ibv_qp *qp = ibv_create_qp(pd, &attr);

	if (!qp)
		fail("ibv_create_qp");
	return qp;
}

static void connect(struct ibv_qp *qp, uint32_t peer, int lid)
{
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_INIT, .port_num = 1,
		.qp_access_flags = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE,
	};
	if (ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS))
		fail("INIT");
	attr.qp_state = IBV_QPS_RTR;
	attr.path_mtu = IBV_MTU_1024;
	attr.dest_qp_num = peer;
	attr.max_dest_rd_atomic = 1;
	attr.min_rnr_timer = 12;
	attr.ah_attr = (struct ibv_ah_attr){ .dlid = lid, .port_num = 1 };
	if (ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
			  IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER))
		fail("RTR");
	attr.qp_state = IBV_QPS_RTS;
	attr.timeout = 18;
	attr.retry_cnt = attr.rnr_retry = 7;
	attr.max_rd_atomic = 1;
	if (ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
			  IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC))
		fail("RTS");
}

static struct ibv_context *open_device(const char *name)
{
	struct ibv_device **list = ibv_get_device_list(NULL);

	for (int n = 0; list && list[n]; n++)
		if (!strcmp(ibv_get_device_name(list[n]), name))
			return ibv_open_device(list[n]);
	return NULL;
}

int main(int argc, char **argv)
{
	static char memory[BUFFER] __attribute__((aligned(4096)));
	static struct ibv_send_wr chain[MANY];
	static struct ibv_sge pieces[MANY];
	static struct ibv_wc done[AT_ONCE];
	struct ibv_context *context = argc == 3 ? open_device(argv[1]) : NULL;
	struct ibv_port_attr port;
	uint64_t sum = 0;

	if (!context || ibv_query_port(context, 1, &port))
		fail("cost DEVICE ROUNDS");
	struct ibv_pd *pd = ibv_alloc_pd(context);
	struct ibv_mr *mr = ibv_reg_mr(pd, memory, BUFFER, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
	struct ibv_cq *send_cq = ibv_create_cq(context, 4 * MANY, NULL, NULL, 0);
	struct ibv_cq *recv_cq = ibv_create_cq(context, 4 * MANY, NULL, NULL, 0);

	if (!mr || !send_cq || !recv_cq)
		fail("objects");
	struct ibv_qp *sender = create(pd, send_cq, send_cq), *receiver = create(pd, recv_cq, recv_cq);
	connect(receiver, sender->qp_num, port.lid);
	connect(sender, receiver->qp_num, port.lid);

	for (int round = atoi(argv[2]); round > 0; round--) {
		if (counted_receive(receiver, mr, memory))
			fail("receive");
		if (counted_inline(sender, memory))
			fail("inline");
		take(send_cq, MANY);
		if (counted_poll_received(recv_cq, &sum))
			fail("poll received");
		if (counted_write(sender, mr, memory))
			fail("write");
		mark(sender, receiver, recv_cq);
		if (counted_poll(send_cq, &sum))
			fail("poll");
		if (counted_batch(sender, mr, memory, chain, pieces))
			fail("batch");
		mark(sender, receiver, recv_cq);
		if (counted_poll_many(send_cq, done, &sum))
			fail("poll of many");
		if (counted_poll_empty(send_cq))
			fail("poll of nothing");
	}
	printf("%llu\n", (unsigned long long)sum);
	return 0;
}
