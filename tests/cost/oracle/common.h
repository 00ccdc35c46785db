/* What both programs do around their loops. */

#include <errno.h>
#include <infiniband/verbs.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define MANY 64
#define BUFFER 8192
#define PIECE 64
#define INLINE 32
#define AT_ONCE 16
#define ACCESS (IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC)

#define APART __attribute__((noinline, noclone))

/* A request that is data. */
struct posting {
	uint64_t wr_id, address, remote;
	uint32_t length;
};

static void fail(const char *what)
{
	perror(what);
	exit(1);
}

/* Of a device in this process, which works when it is told to (../preload): absent if the device is elsewhere. */
extern void device_works(void) __attribute__((weak));

/* Lets the device work before the next look at a queue. */
static inline void give_way(void)
{
	if (device_works)
		device_works();
	else
		usleep(500);
}

/* How long each run of a loop took, in nanoseconds for an operation. */
static struct loop {
	const char *name;
	double *each;
	int count;
} loops[MANY];

static int rounds;

static struct loop *loop_of(const char *name)
{
	struct loop *loop = loops;

	while (loop->name && strcmp(loop->name, name))
		loop++;
	if (!loop->name) {
		loop->name = name;
		loop->each = calloc(rounds, sizeof(*loop->each));
		if (!loop->each)
			fail("calloc");
	}
	return loop;
}

/* Runs a loop, timed under its name. */
#define RUN(function, ...)                                                                                   \
	({                                                                                                   \
		struct loop *loop = loop_of(#function);                                                      \
		struct timespec start, end;                                                                  \
		clock_gettime(CLOCK_MONOTONIC, &start);                                                      \
		int result = function(__VA_ARGS__);                                                          \
		clock_gettime(CLOCK_MONOTONIC, &end);                                                        \
		loop->each[loop->count++] =                                                                  \
			((end.tv_sec - start.tv_sec) * 1e9 + (end.tv_nsec - start.tv_nsec)) / MANY;          \
		result;                                                                                      \
	})

static int by_size(const void *one, const void *other)
{
	double a = *(const double *)one, b = *(const double *)other;

	return (a > b) - (a < b);
}

/* Prints the least and the median time of each loop. */
static void print_times(void)
{
	for (struct loop *loop = loops; loop->name; loop++) {
		qsort(loop->each, loop->count, sizeof(*loop->each), by_size);
		printf("%s %.2f %.2f\n", loop->name, loop->each[0], loop->each[loop->count / 2]);
	}
}

static struct ibv_sge piece(const char *memory, const struct ibv_mr *mr, int at, int length)
{
	return (struct ibv_sge){ .addr = (uintptr_t)memory + at, .length = length, .lkey = mr->lkey };
}

static void connect(struct ibv_qp *qp, uint32_t peer, int lid)
{
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_INIT, .port_num = 1,
		.qp_access_flags = ACCESS,
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

/* DEVICE ROUNDS [time] */
static struct ibv_context *begin(int argc, char **argv)
{
	struct ibv_context *context = argc == 3 || argc == 4 ? open_device(argv[1]) : NULL;

	if (!context || (rounds = atoi(argv[2])) < 1 || (argc == 4 && strcmp(argv[3], "time")))
		fail("DEVICE ROUNDS [time]");
	return context;
}

static inline void describe(struct posting *data, const char *memory)
{
	for (int n = 0; n < MANY; n++)
		data[n] = (struct posting){ .wr_id = n, .address = (uintptr_t)memory, .length = PIECE,
					    .remote = (uintptr_t)memory + BUFFER / 2 };
}
