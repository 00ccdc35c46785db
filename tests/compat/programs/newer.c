/* dma-bufs of what is on the device, and hints for its DMA: functions that are newer than Debian's
   headers and library. Prints what they return on a kernel without them. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <infiniband/mlx5dv.h>
#include <infiniband/verbs.h>
#include <stdint.h>
#include <stdio.h>

struct hints {
	uint32_t mask, cpu;
	uint8_t processing, memory;
};

struct region {
	size_t length;
	int access;
	uint64_t mask, iova;
	void *addr;
	int fd;
	uint64_t fd_offset;
	void *hints;
};

static int (*export_memory)(struct ibv_dm *);
static int (*export_page)(struct mlx5dv_devx_uar *);
static void *(*alloc_hints)(struct ibv_context *, struct hints *);
static int (*free_hints)(void *);
static struct ibv_mr *(*reg)(struct ibv_pd *, struct region *);

static int find(void)
{
	export_memory = dlsym(RTLD_DEFAULT, "ibv_dm_export_dmabuf_fd");
	export_page = dlsym(RTLD_DEFAULT, "mlx5dv_devx_uar_export_dmabuf_fd");
	alloc_hints = dlsym(RTLD_DEFAULT, "ibv_alloc_dmah");
	free_hints = dlsym(RTLD_DEFAULT, "ibv_dealloc_dmah");
	reg = dlsym(RTLD_DEFAULT, "ibv_reg_mr_ex");
	return export_memory && export_page && alloc_hints && free_hints && reg;
}

static int hinted(struct ibv_context *context, uint32_t mask, uint8_t memory)
{
	struct hints wanted = { mask, 0, 1, memory };

	return alloc_hints(context, &wanted) ? 0 : errno;
}

static char memory[4096] __attribute__((aligned(4096)));

static int registered(struct ibv_pd *pd, uint64_t mask, int fd, int access)
{
	struct region wanted = { sizeof(memory), access, mask, 0x5000, memory, fd, 0, NULL };
	struct ibv_mr *mr = reg(pd, &wanted);

	if (!mr)
		return errno;
	if (mr->addr != memory || mr->length != sizeof(memory) || mr->pd != pd || !mr->lkey)
		return -1;
	return ibv_dereg_mr(mr);
}

int main(void)
{
	struct ibv_device **list = ibv_get_device_list(NULL);
	struct mlx5dv_context_attr open = { .flags = MLX5DV_CONTEXT_FLAGS_DEVX };
	struct ibv_context *context = list && list[0] ? mlx5dv_open_device(list[0], &open) : NULL;
	struct ibv_pd *pd = context ? ibv_alloc_pd(context) : NULL;
	struct ibv_alloc_dm_attr attr = { .length = 4096 };
	struct mlx5dv_devx_uar *page = context ? mlx5dv_devx_alloc_uar(context, 1) : NULL;
	struct ibv_dm *dm = context ? ibv_alloc_dm(context, &attr) : NULL;

	if (!find() || !pd || !dm || !page)
		return 1;
	printf("memory %d", export_memory(dm));
	printf(" %d, page", errno);
	printf(" %d", export_page(page));
	printf(" %d, NULL", errno);
	printf(" %d", export_memory(NULL));
	printf(" %d", errno);
	printf(" %d", export_page(NULL));
	printf(" %d\n", errno);
	printf("hints %d %d", hinted(context, 2, 0), hinted(context, 7, 1));
	printf(", wrong %d %d %d %d %d", hinted(context, 8, 0), hinted(context, 0, 0),
	       hinted(context, 3, 0), hinted(context, 6, 0), hinted(context, 7, 2));
	printf(", NULL %d", hinted(NULL, 2, 0));
	printf(" %d", alloc_hints(context, NULL) ? 0 : errno);
	printf(" %d\n", free_hints(NULL));
	printf("region %d %d", registered(pd, 2, 0, 1), registered(pd, 3, 0, 1));
	printf(", wrong %d %d %d %d %d %d", registered(pd, 0, 0, 1), registered(pd, 6, 0, 1),
	       registered(pd, 12, 0, 1), registered(pd, 13, -1, 1), registered(pd, 32, 0, 1),
	       registered(pd, 2, 0, 1 << 19));
	printf(", hints %d", registered(pd, 18, 0, 1));
	printf(", NULL %d", registered(NULL, 2, 0, 1));
	printf(" %d\n", reg(pd, NULL) ? 0 : errno);
	mlx5dv_devx_free_uar(page);
	printf("ends %d", ibv_free_dm(dm));
	printf(" %d", ibv_dealloc_pd(pd));
	printf(" %d\n", ibv_close_device(context));
	ibv_free_device_list(list);
	return 0;
}
