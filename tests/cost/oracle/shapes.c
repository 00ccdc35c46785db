/* The loops over queues of other shapes of ../downstream (shapes.rs, threads.rs) with libibverbs, on a device in this
   process: shapes DEVICE ROUNDS [time]. */

#include "common.h"
#include <pthread.h>

#define QKEY 0x1234
#define FEW 100
#define THOUSANDS 10000
/* How often a device of thousands of queue pairs is told to work until all of them have had a turn. */
#define TURNS 8

APART int counted_shared_receive(struct ibv_srq *srq, struct ibv_mr *mr, const char *memory)
{
	for (int n = 0; n < MANY; n++) {
		struct ibv_sge sge = piece(memory, mr, BUFFER / 2, PIECE);
		struct ibv_recv_wr *bad, wr = { .wr_id = n, .sg_list = &sge, .num_sge = 1 };
		if (ibv_post_srq_recv(srq, &wr, &bad))
			return -1;
	}
	return 0;
}

APART int counted_shared_batch(struct ibv_srq *srq, struct ibv_mr *mr, const char *memory, struct ibv_recv_wr *chain,
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
	return ibv_post_srq_recv(srq, chain, &bad);
}

APART int counted_datagram(struct ibv_qp *qp, struct ibv_ah *ah, struct ibv_mr *mr, const char *memory)
{
	for (int n = 0; n < MANY; n++) {
		struct ibv_sge sge = piece(memory, mr, 0, PIECE);
		struct ibv_send_wr *bad, wr = {
			.wr_id = n, .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND,
			.send_flags = IBV_SEND_SIGNALED,
			.wr.ud = { .ah = ah, .remote_qpn = qp->qp_num, .remote_qkey = QKEY },
		};
		if (ibv_post_send(qp, &wr, &bad))
			return -1;
	}
	return 0;
}

static int write_once(struct ibv_qp *qp, struct ibv_mr *mr, const char *memory, int n)
{
	struct ibv_sge sge = piece(memory, mr, 0, PIECE);
	struct ibv_send_wr *bad, wr = {
		.wr_id = n, .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_RDMA_WRITE,
		.send_flags = IBV_SEND_SIGNALED,
		.wr.rdma = { .remote_addr = (uintptr_t)memory + BUFFER / 2, .rkey = mr->rkey },
	};

	return ibv_post_send(qp, &wr, &bad);
}

APART int counted_post(struct ibv_qp *qp, struct ibv_mr *mr, const char *memory)
{
	for (int n = 0; n < MANY; n++)
		if (write_once(qp, mr, memory, n))
			return -1;
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

POLL(counted_shared_poll)
POLL(counted_among_100)
POLL(counted_among_10000)
POLL(counted_poll)

static void work(void)
{
	for (int turn = 0; turn < TURNS; turn++)
		device_works();
}

/* Takes the completions that are not counted. */
static void drain(struct ibv_cq *cq)
{
	struct ibv_wc wc;

	for (int n = 0; n < MANY; n++)
		if (ibv_poll_cq(cq, 1, &wc) != 1 || wc.status != IBV_WC_SUCCESS)
			fail("completion");
}

static struct ibv_qp *create(struct ibv_pd *pd, struct ibv_cq *send, struct ibv_cq *recv, struct ibv_srq *srq,
			     enum ibv_qp_type type, int depth)
{
	struct ibv_qp_init_attr attr = {
		.send_cq = send, .recv_cq = recv, .srq = srq, .qp_type = type,
		.cap = { .max_send_wr = depth, .max_recv_wr = srq ? 0 : 1, .max_send_sge = 1, .max_recv_sge = srq ? 0 : 1 },
	};
	struct ibv_qp *qp = ibv_create_qp(pd, &attr);

	if (!qp)
		fail("ibv_create_qp");
	return qp;
}

static void activate(struct ibv_qp *qp)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_INIT, .port_num = 1, .qkey = QKEY };

	if (ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY))
		fail("INIT");
	attr.qp_state = IBV_QPS_RTR;
	if (ibv_modify_qp(qp, &attr, IBV_QP_STATE))
		fail("RTR");
	attr.qp_state = IBV_QPS_RTS;
	if (ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_SQ_PSN))
		fail("RTS");
}

/* Queue pairs that complete in one queue, on a device of their own. */
struct crowd {
	struct ibv_cq *cq;
	struct ibv_mr *mr;
	struct ibv_qp **pairs;
	int count;
};

static char memory[BUFFER] __attribute__((aligned(4096)));

/* One write on each of as many queue pairs as a loop has turns, far from each other. */
static void write_each(struct crowd *crowd)
{
	for (int n = 0; n < MANY; n++)
		if (write_once(crowd->pairs[n * (crowd->count / MANY)], crowd->mr, memory, n))
			fail("write");
	work();
}

static struct crowd gather(struct ibv_pd *pd, struct ibv_mr *mr, int lid, int count)
{
	struct crowd crowd = {
		.cq = ibv_create_cq(pd->context, 4 * MANY, NULL, NULL, 0),
		.mr = mr, .pairs = calloc(count, sizeof(struct ibv_qp *)), .count = count,
	};

	if (!crowd.cq || !crowd.pairs)
		fail("objects");
	for (int n = 0; n < count; n++) {
		crowd.pairs[n] = create(pd, crowd.cq, crowd.cq, NULL, IBV_QPT_RC, 2);
		connect(crowd.pairs[n], crowd.pairs[n]->qp_num, lid);
	}
	/* What is done once for each queue pair is not counted. */
	write_each(&crowd);
	drain(crowd.cq);
	return crowd;
}

/* The thread that polls, in turn with the one that posts. */
static pthread_barrier_t posted, polled;
static struct ibv_cq *shared_cq;
static uint64_t sum_of_poller;

static void *poller(void *unused)
{
	for (int round = 0; round < rounds; round++) {
		pthread_barrier_wait(&posted);
		if (RUN(counted_poll, shared_cq, &sum_of_poller))
			fail("poll");
		pthread_barrier_wait(&polled);
	}
	return unused;
}

int main(int argc, char **argv)
{
	static struct ibv_recv_wr receives[MANY];
	static struct ibv_sge pieces[MANY];
	struct ibv_context *context = begin(argc, argv);
	struct ibv_srq_init_attr srq_attr = { .attr = { .max_wr = 2 * MANY, .max_sge = 1 } };
	struct ibv_port_attr port;
	uint64_t sum = 0;
	pthread_t thread;

	if (!device_works)
		fail("a device in this process");
	if (ibv_query_port(context, 1, &port))
		fail("ibv_query_port");
	struct ibv_pd *pd = ibv_alloc_pd(context);
	struct ibv_mr *mr = ibv_reg_mr(pd, memory, BUFFER, ACCESS);
	struct ibv_cq *send_cq = ibv_create_cq(context, 4 * MANY, NULL, NULL, 0);
	struct ibv_cq *recv_cq = ibv_create_cq(context, 4 * MANY, NULL, NULL, 0);
	struct ibv_cq *datagram_cq = ibv_create_cq(context, 4 * MANY, NULL, NULL, 0);
	struct ibv_srq *srq = ibv_create_srq(pd, &srq_attr);
	struct ibv_ah_attr ah_attr = { .dlid = port.lid, .port_num = 1 };
	struct ibv_ah *ah = ibv_create_ah(pd, &ah_attr);

	shared_cq = ibv_create_cq(context, 4 * MANY, NULL, NULL, 0);
	if (!mr || !send_cq || !recv_cq || !datagram_cq || !srq || !ah || !shared_cq)
		fail("objects");
	struct ibv_qp *sender = create(pd, send_cq, recv_cq, srq, IBV_QPT_RC, 2 * MANY);
	struct ibv_qp *datagrams = create(pd, datagram_cq, datagram_cq, NULL, IBV_QPT_UD, 2 * MANY);
	struct ibv_qp *shared = create(pd, shared_cq, shared_cq, NULL, IBV_QPT_RC, 2 * MANY);
	connect(sender, sender->qp_num, port.lid);
	connect(shared, shared->qp_num, port.lid);
	activate(datagrams);

	pthread_barrier_init(&posted, NULL, 2);
	pthread_barrier_init(&polled, NULL, 2);
	/* Loops are entered in their table by one thread. */
	loop_of("counted_post");
	loop_of("counted_poll");
	if (pthread_create(&thread, NULL, poller, NULL))
		fail("pthread_create");
	for (int round = 0; round < rounds; round++) {
		if (RUN(counted_post, shared, mr, memory))
			fail("post");
		work();
		pthread_barrier_wait(&posted);
		pthread_barrier_wait(&polled);
	}
	pthread_join(thread, NULL);

	for (int round = 0; round < rounds; round++) {
		if (RUN(counted_shared_receive, srq, mr, memory))
			fail("receive");
		for (int batch = 0; batch < 2; batch++) {
			for (int n = 0; n < MANY; n++) {
				struct ibv_sge sge = piece(memory, mr, 0, PIECE);
				struct ibv_send_wr *bad, wr = {
					.sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND,
					.send_flags = IBV_SEND_SIGNALED,
				};
				if (ibv_post_send(sender, &wr, &bad))
					fail("send");
			}
			work();
			drain(send_cq);
			if (batch)
				drain(recv_cq);
			else if (RUN(counted_shared_poll, recv_cq, &sum) ||
				 RUN(counted_shared_batch, srq, mr, memory, receives, pieces))
				fail("shared");
		}
		if (RUN(counted_datagram, datagrams, ah, mr, memory))
			fail("datagram");
		work();
		drain(datagram_cq);
	}

	/* By themselves: thousands of queues displace the others from the processor's caches. */
	struct crowd few = gather(pd, mr, port.lid, FEW), thousands = gather(pd, mr, port.lid, THOUSANDS);

	for (int round = 0; round < rounds; round++) {
		write_each(&few);
		if (RUN(counted_among_100, few.cq, &sum))
			fail("poll of few");
		write_each(&thousands);
		if (RUN(counted_among_10000, thousands.cq, &sum))
			fail("poll of thousands");
	}
	printf("%llu\n", (unsigned long long)(sum + sum_of_poller));
	if (argc == 4)
		print_times();
	return 0;
}
