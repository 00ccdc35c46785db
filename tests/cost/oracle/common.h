/* What both programs do around their loops. */

#include <errno.h>
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

static void describe(struct posting *data, const char *memory)
{
	for (int n = 0; n < MANY; n++)
		data[n] = (struct posting){ .wr_id = n, .address = (uintptr_t)memory, .length = PIECE,
					    .remote = (uintptr_t)memory + BUFFER / 2 };
}
