/* What objects take of libibverbs' heap: heap DEVICE. Those of ../../hostile/tests/growth.rs. */

#include <infiniband/verbs.h>
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define COUNT 1000
#define LENGTH 64

static void fail(const char *what)
{
	perror(what);
	exit(1);
}

static struct ibv_context *open_device(const char *name)
{
	struct ibv_device **list = ibv_get_device_list(NULL);

	for (int n = 0; list && list[n]; n++)
		if (!strcmp(ibv_get_device_name(list[n]), name))
			return ibv_open_device(list[n]);
	return NULL;
}

/* Creates many, and prints how many bytes of the heap one takes. */
#define TAKES(name, create)                                                        \
	do {                                                                       \
		size_t before = mallinfo2().uordblks;                              \
		for (int n = 0; n < COUNT; n++)                                    \
			if (!(create))                                             \
				fail(name);                                        \
		printf("%s:%zu\n", name, (mallinfo2().uordblks - before) / COUNT); \
	} while (0)

int main(int argc, char **argv)
{
	struct ibv_context *context = argc == 2 ? open_device(argv[1]) : NULL;
	struct ibv_srq_init_attr shared = { .attr = { .max_wr = 4, .max_sge = 1 } };
	struct ibv_ah_attr path = { .dlid = 1, .port_num = 1 };
	static char memory[LENGTH];

	if (!context)
		fail("DEVICE");
	struct ibv_pd *pd = ibv_alloc_pd(context);
	struct ibv_cq *cq = ibv_create_cq(context, 4, NULL, NULL, 0);
	struct ibv_qp_init_attr attr = {
		.send_cq = cq, .recv_cq = cq, .qp_type = IBV_QPT_RC,
		.cap = { .max_send_wr = 1, .max_recv_wr = 1, .max_send_sge = 1, .max_recv_sge = 1 },
	};

	if (!pd || !cq)
		fail("objects");
	TAKES("completion queue", ibv_create_cq(context, 4, NULL, NULL, 0));
	TAKES("queue pair", ibv_create_qp(pd, &attr));
	TAKES("shared receive queue", ibv_create_srq(pd, &shared));
	TAKES("memory region", ibv_reg_mr(pd, memory, LENGTH, IBV_ACCESS_LOCAL_WRITE));
	TAKES("address handle", ibv_create_ah(pd, &path));
	return 0;
}
