/* The loops of src/main.rs and of ../downstream with libibverbs, to be compared: cost DEVICE ROUNDS [time]. Functions named
   counted_* are counted. */

#include "common.h"

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

APART int counted_send(struct ibv_qp *qp, struct ibv_mr *mr, const char *memory)
{
	for (int n = 0; n < MANY; n++) {
		struct ibv_sge sge = piece(memory, mr, 0, PIECE);
		struct ibv_send_wr *bad, wr = {
			.wr_id = n, .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND,
			.send_flags = IBV_SEND_SIGNALED,
		};
		if (ibv_post_send(qp, &wr, &bad))
			return -1;
	}
	return 0;
}

APART int counted_read(struct ibv_qp *qp, struct ibv_mr *mr, const char *memory)
{
	for (int n = 0; n < MANY; n++) {
		struct ibv_sge sge = piece(memory, mr, 0, PIECE);
		struct ibv_send_wr *bad, wr = {
			.wr_id = n, .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_RDMA_READ,
			.send_flags = IBV_SEND_SIGNALED,
			.wr.rdma = { .remote_addr = (uintptr_t)memory + BUFFER / 2, .rkey = mr->rkey },
		};
		if (ibv_post_send(qp, &wr, &bad))
			return -1;
	}
	return 0;
}

APART int counted_atomic(struct ibv_qp *qp, struct ibv_mr *mr, const char *memory)
{
	for (int n = 0; n < MANY; n++) {
		struct ibv_sge sge = piece(memory, mr, 0, 8);
		struct ibv_send_wr *bad, wr = {
			.wr_id = n, .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_ATOMIC_FETCH_AND_ADD,
			.send_flags = IBV_SEND_SIGNALED,
			.wr.atomic = { .remote_addr = (uintptr_t)memory + BUFFER / 2, .rkey = mr->rkey, .compare_add = 1 },
		};
		if (ibv_post_send(qp, &wr, &bad))
			return -1;
	}
	return 0;
}

APART int counted_one_of_data(struct ibv_qp *qp, struct ibv_mr *mr, const struct posting *data)
{
	for (int n = 0; n < MANY; n++) {
		struct ibv_sge sge = { .addr = data[n].address, .length = data[n].length, .lkey = mr->lkey };
		struct ibv_send_wr *bad, wr = {
			.wr_id = data[n].wr_id, .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_RDMA_WRITE,
			.send_flags = IBV_SEND_SIGNALED,
			.wr.rdma = { .remote_addr = data[n].remote, .rkey = mr->rkey },
		};
		if (ibv_post_send(qp, &wr, &bad))
			return -1;
	}
	return 0;
}

APART int counted_list_of_data(struct ibv_qp *qp, struct ibv_mr *mr, const struct posting *data,
			       struct ibv_send_wr *chain, struct ibv_sge *pieces)
{
	struct ibv_send_wr *bad;

	for (int n = 0; n < MANY; n++) {
		struct ibv_send_wr *wr = &chain[n];

		pieces[n] = (struct ibv_sge){ .addr = data[n].address, .length = data[n].length, .lkey = mr->lkey };
		wr->wr_id = data[n].wr_id;
		wr->next = n + 1 < MANY ? wr + 1 : NULL;
		wr->sg_list = &pieces[n];
		wr->num_sge = 1;
		wr->opcode = IBV_WR_RDMA_WRITE;
		wr->send_flags = IBV_SEND_SIGNALED;
		wr->wr.rdma.remote_addr = data[n].remote;
		wr->wr.rdma.rkey = mr->rkey;
	}
	return ibv_post_send(qp, chain, &bad);
}

APART int counted_receive_batch(struct ibv_qp *qp, struct ibv_mr *mr, const char *memory, struct ibv_recv_wr *chain,
				struct ibv_sge *pieces)
{
	struct ibv_recv_wr *bad;

	for (int n = 0; n < MANY; n++) {
		pieces[n] = piece(memory, mr, BUFFER / 2, PIECE);
		chain[n].wr_id = n;
		chain[n].next = n + 1 < MANY ? &chain[n + 1] : NULL;
		chain[n].sg_list = &pieces[n];
		chain[n].num_sge = 1;
	}
	return ibv_post_recv(qp, chain, &bad);
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

#define POLL_MANY(name)                                                                    \
	APART int name(struct ibv_cq *cq, struct ibv_wc *done, uint64_t *sum)              \
	{                                                                                  \
		for (int n = 0; n < MANY / AT_ONCE; n++) {                                 \
			if (ibv_poll_cq(cq, AT_ONCE, done) != AT_ONCE)                     \
				return -1;                                                 \
			for (int at = 0; at < AT_ONCE; at++) {                             \
				if (done[at].status != IBV_WC_SUCCESS)                     \
					return -1;                                         \
				*sum += done[at].wr_id;                                    \
			}                                                                  \
		}                                                                          \
		return 0;                                                                  \
	}

POLL_MANY(counted_poll_many)
POLL_MANY(counted_poll_many_received)

APART int counted_whole(struct ibv_cq *cq, struct ibv_wc *kept)
{
	for (int n = 0; n < MANY; n++)
		if (ibv_poll_cq(cq, 1, &kept[n]) != 1)
			return -1;
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

APART int counted_poll_into_empty(struct ibv_cq *cq, struct ibv_wc *done)
{
	for (int n = 0; n < MANY; n++)
		if (ibv_poll_cq(cq, AT_ONCE, done) != 0)
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
			give_way();
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

/* Lets what was posted arrive, and takes the completions of sends that are not counted. */
static void finish(struct ibv_qp *sender, struct ibv_qp *receiver)
{
	mark(sender, receiver, receiver->recv_cq);
	take(sender->send_cq, MANY);
}

int main(int argc, char **argv)
{
	static char memory[BUFFER] __attribute__((aligned(4096)));
	static struct ibv_send_wr chain[MANY];
	static struct ibv_recv_wr receives[MANY];
	static struct ibv_sge pieces[MANY];
	static struct ibv_wc done[AT_ONCE], kept[MANY];
	static struct posting data[MANY];
	struct ibv_context *context = begin(argc, argv);
	struct ibv_port_attr port;
	uint64_t sum = 0;

	if (ibv_query_port(context, 1, &port))
		fail("ibv_query_port");
	struct ibv_pd *pd = ibv_alloc_pd(context);
	struct ibv_mr *mr = ibv_reg_mr(pd, memory, BUFFER, ACCESS);
	struct ibv_cq *send_cq = ibv_create_cq(context, 4 * MANY, NULL, NULL, 0);
	struct ibv_cq *recv_cq = ibv_create_cq(context, 4 * MANY, NULL, NULL, 0);

	if (!mr || !send_cq || !recv_cq)
		fail("objects");
	struct ibv_qp *sender = create(pd, send_cq, send_cq), *receiver = create(pd, recv_cq, recv_cq);
	connect(receiver, sender->qp_num, port.lid);
	connect(sender, receiver->qp_num, port.lid);
	describe(data, memory);

	for (int round = 0; round < rounds; round++) {
		if (RUN(counted_receive, receiver, mr, memory))
			fail("receive");
		if (RUN(counted_inline, sender, memory))
			fail("inline");
		take(send_cq, MANY);
		if (RUN(counted_poll_received, recv_cq, &sum))
			fail("poll received");
		if (RUN(counted_receive_batch, receiver, mr, memory, receives, pieces))
			fail("receives");
		if (RUN(counted_send, sender, mr, memory))
			fail("send");
		take(send_cq, MANY);
		if (RUN(counted_poll_many_received, recv_cq, done, &sum))
			fail("poll of many received");
		if (RUN(counted_write, sender, mr, memory))
			fail("write");
		mark(sender, receiver, recv_cq);
		if (RUN(counted_poll, send_cq, &sum))
			fail("poll");
		if (RUN(counted_read, sender, mr, memory))
			fail("read");
		mark(sender, receiver, recv_cq);
		if (RUN(counted_whole, send_cq, kept))
			fail("poll of whole");
		if (RUN(counted_batch, sender, mr, memory, chain, pieces))
			fail("batch");
		mark(sender, receiver, recv_cq);
		if (RUN(counted_poll_many, send_cq, done, &sum))
			fail("poll of many");
		if (RUN(counted_poll_empty, send_cq) || RUN(counted_poll_into_empty, send_cq, done))
			fail("poll of nothing");
		if (RUN(counted_list_of_data, sender, mr, data, chain, pieces))
			fail("list");
		finish(sender, receiver);
		if (RUN(counted_one_of_data, sender, mr, data))
			fail("data");
		finish(sender, receiver);
		if (RUN(counted_atomic, sender, mr, memory))
			fail("atomic");
		finish(sender, receiver);
	}
	printf("%llu\n", (unsigned long long)(sum + kept[0].wr_id));
	if (argc == 4)
		print_times();
	return 0;
}
