/* The loops of cost.c with the newer functions, ibv_wr_* and ibv_start_poll: cost-extended DEVICE ROUNDS [time]. */

#include "common.h"

/* One request between start and complete. */
#define POST(name, arguments, wr, payload)                                                \
	APART int counted_##name arguments                                                \
	{                                                                                 \
		for (int n = 0; n < MANY; n++) {                                          \
			ibv_wr_start(qp);                                                 \
			qp->wr_id = n;                                                    \
			qp->wr_flags = IBV_SEND_SIGNALED;                                 \
			wr;                                                               \
			payload;                                                          \
			if (ibv_wr_complete(qp))                                          \
				return -1;                                                \
		}                                                                         \
		return 0;                                                                 \
	}

#define MEMORY (struct ibv_qp_ex *qp, struct ibv_mr *mr, const char *memory)
#define REMOTE mr->rkey, (uintptr_t)memory + BUFFER / 2
#define GATHER(length) ibv_wr_set_sge(qp, mr->lkey, (uintptr_t)memory, length)

POST(write, MEMORY, ibv_wr_rdma_write(qp, REMOTE), GATHER(PIECE))
POST(read, MEMORY, ibv_wr_rdma_read(qp, REMOTE), GATHER(PIECE))
POST(send, MEMORY, ibv_wr_send(qp), GATHER(PIECE))
POST(atomic, MEMORY, ibv_wr_atomic_fetch_add(qp, REMOTE, 1), GATHER(8))
POST(inline, (struct ibv_qp_ex *qp, const char *bytes), ibv_wr_send(qp),
     ibv_wr_set_inline_data(qp, (void *)bytes, INLINE))

APART int counted_batch MEMORY
{
	ibv_wr_start(qp);
	for (int n = 0; n < MANY; n++) {
		qp->wr_id = n;
		qp->wr_flags = IBV_SEND_SIGNALED;
		ibv_wr_rdma_write(qp, REMOTE);
		GATHER(PIECE);
	}
	return ibv_wr_complete(qp);
}

static void write_of_data(struct ibv_qp_ex *qp, struct ibv_mr *mr, const struct posting *data)
{
	qp->wr_id = data->wr_id;
	qp->wr_flags = IBV_SEND_SIGNALED;
	ibv_wr_rdma_write(qp, mr->rkey, data->remote);
	ibv_wr_set_sge(qp, mr->lkey, data->address, data->length);
}

APART int counted_one_of_data(struct ibv_qp_ex *qp, struct ibv_mr *mr, const struct posting *data)
{
	for (int n = 0; n < MANY; n++) {
		ibv_wr_start(qp);
		write_of_data(qp, mr, &data[n]);
		if (ibv_wr_complete(qp))
			return -1;
	}
	return 0;
}

APART int counted_list_of_data(struct ibv_qp_ex *qp, struct ibv_mr *mr, const struct posting *data)
{
	ibv_wr_start(qp);
	for (int n = 0; n < MANY; n++)
		write_of_data(qp, mr, &data[n]);
	return ibv_wr_complete(qp);
}

/* A function and its copies, so that each use is counted apart. */
#define POLL(name)                                                                        \
	APART int name(struct ibv_cq_ex *cq, uint64_t *sum)                               \
	{                                                                                 \
		for (int n = 0; n < MANY; n++) {                                          \
			struct ibv_poll_cq_attr attr = { 0 };                             \
			if (ibv_start_poll(cq, &attr) || cq->status != IBV_WC_SUCCESS)    \
				return -1;                                                \
			*sum += cq->wr_id;                                                \
			ibv_end_poll(cq);                                                 \
		}                                                                         \
		return 0;                                                                 \
	}

POLL(counted_poll)
POLL(counted_poll_received)

#define POLL_MANY(name)                                                                   \
	APART int name(struct ibv_cq_ex *cq, uint64_t *sum)                               \
	{                                                                                 \
		for (int n = 0; n < MANY / AT_ONCE; n++) {                                \
			struct ibv_poll_cq_attr attr = { 0 };                             \
			for (int at = 0; at < AT_ONCE; at++) {                            \
				if (at ? ibv_next_poll(cq) : ibv_start_poll(cq, &attr))   \
					return -1;                                        \
				if (cq->status != IBV_WC_SUCCESS)                         \
					return -1;                                        \
				*sum += cq->wr_id;                                        \
			}                                                                 \
			ibv_end_poll(cq);                                                 \
		}                                                                         \
		return 0;                                                                 \
	}

POLL_MANY(counted_poll_many)
POLL_MANY(counted_poll_many_received)

APART int counted_whole(struct ibv_cq_ex *cq, struct ibv_wc *kept)
{
	for (int n = 0; n < MANY; n++) {
		struct ibv_poll_cq_attr attr = { 0 };

		if (ibv_start_poll(cq, &attr))
			return -1;
		kept[n] = (struct ibv_wc){
			.wr_id = cq->wr_id, .status = cq->status, .opcode = ibv_wc_read_opcode(cq),
			.vendor_err = ibv_wc_read_vendor_err(cq), .byte_len = ibv_wc_read_byte_len(cq),
			.qp_num = ibv_wc_read_qp_num(cq), .wc_flags = ibv_wc_read_wc_flags(cq),
		};
		ibv_end_poll(cq);
	}
	return 0;
}

APART int counted_poll_empty(struct ibv_cq_ex *cq)
{
	struct ibv_poll_cq_attr attr = { 0 };

	for (int n = 0; n < MANY; n++)
		if (ibv_start_poll(cq, &attr) != ENOENT)
			return -1;
	return 0;
}

static struct ibv_cq_ex *create_queue(struct ibv_context *context)
{
	struct ibv_cq_init_attr_ex attr = {
		.cqe = 4 * MANY, .wc_flags = IBV_WC_STANDARD_FLAGS,
		.comp_mask = IBV_CQ_INIT_ATTR_MASK_FLAGS, .flags = IBV_CREATE_CQ_ATTR_SINGLE_THREADED,
	};
	struct ibv_cq_ex *cq = ibv_create_cq_ex(context, &attr);

	if (!cq)
		fail("ibv_create_cq_ex");
	return cq;
}

static struct ibv_qp *create(struct ibv_context *context, struct ibv_pd *pd, struct ibv_cq_ex *cq)
{
	struct ibv_qp_init_attr_ex attr = {
		.send_cq = ibv_cq_ex_to_cq(cq), .recv_cq = ibv_cq_ex_to_cq(cq), .qp_type = IBV_QPT_RC, .pd = pd,
		.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS,
		.send_ops_flags = IBV_QP_EX_WITH_RDMA_WRITE | IBV_QP_EX_WITH_RDMA_READ | IBV_QP_EX_WITH_SEND |
				  IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD,
		.cap = { .max_send_wr = 2 * MANY, .max_recv_wr = 2 * MANY, .max_send_sge = 1, .max_recv_sge = 1,
			 .max_inline_data = INLINE },
	};
	struct ibv_qp *qp = ibv_create_qp_ex(context, &attr);

	if (!qp)
		fail("ibv_create_qp_ex");
	return qp;
}

static void receive(struct ibv_qp *qp, struct ibv_mr *mr, const char *memory)
{
	for (int n = 0; n < MANY; n++) {
		struct ibv_sge sge = piece(memory, mr, BUFFER / 2, PIECE);
		struct ibv_recv_wr *bad, wr = { .wr_id = n, .sg_list = &sge, .num_sge = 1 };

		if (ibv_post_recv(qp, &wr, &bad))
			fail("ibv_post_recv");
	}
}

/* The same as mark and take of queues that are polled by the other functions. */
static void take_all(struct ibv_cq_ex *cq, int count)
{
	struct ibv_poll_cq_attr attr = { 0 };

	while (count) {
		int none = ibv_start_poll(cq, &attr);

		if (none == ENOENT) {
			give_way();
			continue;
		}
		if (none || cq->status != IBV_WC_SUCCESS)
			fail("completion");
		ibv_end_poll(cq);
		count--;
	}
}

static void mark_end(struct ibv_qp_ex *sender, struct ibv_qp *receiver, struct ibv_cq_ex *recv_cq)
{
	struct ibv_recv_wr *bad, recv = { .num_sge = 0 };

	if (ibv_post_recv(receiver, &recv, &bad))
		fail("mark");
	ibv_wr_start(sender);
	sender->wr_flags = 0;
	ibv_wr_send(sender);
	ibv_wr_set_sge_list(sender, 0, NULL);
	if (ibv_wr_complete(sender))
		fail("mark");
	take_all(recv_cq, 1);
}

int main(int argc, char **argv)
{
	static char memory[BUFFER] __attribute__((aligned(4096)));
	static struct ibv_wc kept[MANY];
	static struct posting data[MANY];
	struct ibv_context *context = begin(argc, argv);
	struct ibv_port_attr port;
	uint64_t sum = 0;

	if (ibv_query_port(context, 1, &port))
		fail("ibv_query_port");
	struct ibv_pd *pd = ibv_alloc_pd(context);
	struct ibv_mr *mr = ibv_reg_mr(pd, memory, BUFFER, ACCESS);
	struct ibv_cq_ex *send_cq = create_queue(context), *recv_cq = create_queue(context);

	if (!mr)
		fail("ibv_reg_mr");
	struct ibv_qp *first = create(context, pd, send_cq), *receiver = create(context, pd, recv_cq);
	struct ibv_qp_ex *sender = ibv_qp_to_qp_ex(first);
	connect(receiver, first->qp_num, port.lid);
	connect(first, receiver->qp_num, port.lid);
	describe(data, memory);

	for (int round = 0; round < rounds; round++) {
		receive(receiver, mr, memory);
		if (RUN(counted_inline, sender, memory))
			fail("inline");
		take_all(send_cq, MANY);
		if (RUN(counted_poll_received, recv_cq, &sum))
			fail("poll received");
		receive(receiver, mr, memory);
		if (RUN(counted_send, sender, mr, memory))
			fail("send");
		take_all(send_cq, MANY);
		if (RUN(counted_poll_many_received, recv_cq, &sum))
			fail("poll of many received");
		if (RUN(counted_write, sender, mr, memory))
			fail("write");
		mark_end(sender, receiver, recv_cq);
		if (RUN(counted_poll, send_cq, &sum))
			fail("poll");
		if (RUN(counted_read, sender, mr, memory))
			fail("read");
		mark_end(sender, receiver, recv_cq);
		if (RUN(counted_whole, send_cq, kept))
			fail("poll of whole");
		if (RUN(counted_batch, sender, mr, memory))
			fail("batch");
		mark_end(sender, receiver, recv_cq);
		if (RUN(counted_poll_many, send_cq, &sum))
			fail("poll of many");
		if (RUN(counted_poll_empty, send_cq))
			fail("poll of nothing");
		if (RUN(counted_list_of_data, sender, mr, data))
			fail("list");
		mark_end(sender, receiver, recv_cq);
		take_all(send_cq, MANY);
		if (RUN(counted_one_of_data, sender, mr, data))
			fail("data");
		mark_end(sender, receiver, recv_cq);
		take_all(send_cq, MANY);
		if (RUN(counted_atomic, sender, mr, memory))
			fail("atomic");
		mark_end(sender, receiver, recv_cq);
		take_all(send_cq, MANY);
	}
	printf("%llu\n", (unsigned long long)(sum + kept[0].wr_id));
	if (argc == 4)
		print_times();
	return 0;
}
