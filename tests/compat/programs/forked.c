/* A child uses the device and the protection domain that its parent opened. Prints what the child
   and the parent could not do. */
#include <errno.h>
#include <infiniband/verbs.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static char memory[8192] __attribute__((aligned(4096)));

/* A write from the first page to the second, by a connection to itself. */
static int write_to_itself(struct ibv_context *context, struct ibv_pd *pd)
{
	int access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE;
	struct ibv_mr *mr = ibv_reg_mr(pd, memory, sizeof(memory), access);
	struct ibv_cq *cq = ibv_create_cq(context, 16, NULL, NULL, 0);
	struct ibv_qp_init_attr init = {
		.send_cq = cq, .recv_cq = cq, .qp_type = IBV_QPT_RC, .sq_sig_all = 1,
		.cap = { .max_send_wr = 4, .max_recv_wr = 4, .max_send_sge = 1, .max_recv_sge = 1 },
	};
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_INIT, .port_num = 1, .qp_access_flags = access,
		.path_mtu = IBV_MTU_1024, .max_dest_rd_atomic = 1, .max_rd_atomic = 1,
		.min_rnr_timer = 12, .timeout = 14, .retry_cnt = 7, .rnr_retry = 7,
	};
	struct ibv_sge sge = { .addr = (uintptr_t)memory, .length = 64 };
	struct ibv_send_wr *bad, wr = { .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_RDMA_WRITE };
	struct ibv_port_attr port;
	struct ibv_qp *qp;
	struct ibv_wc wc;
	int found;

	if (!mr || !cq || !(qp = ibv_create_qp(pd, &init)) || ibv_query_port(context, 1, &port))
		return 1;
	if (ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT |
			  IBV_QP_ACCESS_FLAGS))
		return 2;
	attr.qp_state = IBV_QPS_RTR;
	attr.dest_qp_num = qp->qp_num;
	attr.ah_attr.dlid = port.lid;
	attr.ah_attr.port_num = 1;
	if (ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
			  IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER))
		return 3;
	attr.qp_state = IBV_QPS_RTS;
	if (ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT |
			  IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC))
		return 4;
	sge.lkey = mr->lkey;
	wr.wr.rdma.remote_addr = (uintptr_t)memory + 4096;
	wr.wr.rdma.rkey = mr->rkey;
	memset(memory, 'x', 64);
	memset(memory + 4096, 0, 64);
	if (ibv_post_send(qp, &wr, &bad))
		return 5;
	while (!(found = ibv_poll_cq(cq, 1, &wc)))
		;
	if (found != 1 || wc.status || memcmp(memory, memory + 4096, 64))
		return 6;
	if (ibv_destroy_qp(qp) || ibv_destroy_cq(cq) || ibv_dereg_mr(mr))
		return 7;
	return 0;
}

int main(void)
{
	struct ibv_device **list = ibv_get_device_list(NULL);
	struct ibv_context *context = list && list[0] ? ibv_open_device(list[0]) : NULL;
	struct ibv_pd *pd = context ? ibv_alloc_pd(context) : NULL;
	struct ibv_cq *cq = context ? ibv_create_cq(context, 4, NULL, NULL, 0) : NULL;
	struct ibv_device_attr attr;
	struct ibv_pd *other;
	int status, failed;
	pid_t child;

	if (!pd || !cq || (failed = write_to_itself(context, pd)))
		return 1;
	child = fork();
	if (!child) {
		failed = write_to_itself(context, pd);
		if (!failed && ibv_query_device(context, &attr))
			failed = 20;
		if (!failed && (!(other = ibv_alloc_pd(context)) || ibv_dealloc_pd(other)))
			failed = 21;
		/* What is its parent's stays. */
		if (!failed && (ibv_destroy_cq(cq) != EINVAL || ibv_dealloc_pd(pd) != EINVAL))
			failed = 22;
		_exit(failed);
	}
	if (waitpid(child, &status, 0) != child || !WIFEXITED(status))
		return 2;
	failed = write_to_itself(context, pd);
	if (!failed && (ibv_destroy_cq(cq) || ibv_dealloc_pd(pd) || ibv_close_device(context)))
		failed = 30;
	ibv_free_device_list(list);
	printf("child %d, parent %d\n", WEXITSTATUS(status), failed);
	return 0;
}
