/* Exports objects of one context and imports them into another, of the same descriptor. These
   functions are newer than Debian's headers and library. Prints what they return. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <infiniband/mlx5dv.h>
#include <infiniband/verbs.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

struct sizes {
	uint32_t var, umem, object;
};

static void (*sizes)(struct sizes *, size_t);
static int (*export_object)(struct mlx5dv_devx_obj *, void *);
static struct mlx5dv_devx_obj *(*import_object)(struct ibv_context *, void *);
static void (*unimport_object)(struct mlx5dv_devx_obj *);
static int (*export_memory)(struct mlx5dv_devx_umem *, void *);
static struct mlx5dv_devx_umem *(*import_memory)(struct ibv_context *, void *);
static void (*unimport_memory)(struct mlx5dv_devx_umem *);
static int (*export_page)(struct mlx5dv_var *, void *);
static struct mlx5dv_var *(*import_page)(struct ibv_context *, void *);

static int find(void)
{
	sizes = dlsym(RTLD_DEFAULT, "_mlx5dv_get_export_sizes");
	export_object = dlsym(RTLD_DEFAULT, "mlx5dv_devx_obj_export");
	import_object = dlsym(RTLD_DEFAULT, "mlx5dv_devx_obj_import");
	unimport_object = dlsym(RTLD_DEFAULT, "mlx5dv_devx_obj_unimport");
	export_memory = dlsym(RTLD_DEFAULT, "mlx5dv_devx_umem_export");
	import_memory = dlsym(RTLD_DEFAULT, "mlx5dv_devx_umem_import");
	unimport_memory = dlsym(RTLD_DEFAULT, "mlx5dv_devx_umem_unimport");
	export_page = dlsym(RTLD_DEFAULT, "mlx5dv_var_export");
	import_page = dlsym(RTLD_DEFAULT, "mlx5dv_var_import");
	return sizes && export_object && import_object && unimport_object && export_memory &&
	       import_memory && unimport_memory && export_page && import_page;
}

static struct mlx5dv_devx_obj *key(struct ibv_context *context, struct ibv_pd *pd, uint8_t *number)
{
	uint8_t in[0x110] = { 0x02, 0x00 }, out[16] = { 0 };
	struct mlx5dv_pd own;
	struct mlx5dv_obj obj = { .pd = { .in = pd, .out = &own } };
	struct mlx5dv_devx_obj *made;

	mlx5dv_init_obj(&obj, MLX5DV_OBJ_PD);
	in[16] = 0x40, in[18] = 0x86, in[20] = in[21] = in[22] = 0xff;
	in[29] = own.pdn >> 16, in[30] = own.pdn >> 8, in[31] = own.pdn;
	in[0x47] = 4;
	made = mlx5dv_devx_obj_create(context, in, sizeof(in), out, sizeof(out));
	memcpy(number, out + 8, 4);
	return made;
}

static char memory[4096] __attribute__((aligned(4096)));

int main(void)
{
	struct ibv_device **list = ibv_get_device_list(NULL);
	struct mlx5dv_context_attr attr = { .flags = MLX5DV_CONTEXT_FLAGS_DEVX };
	struct ibv_context *context = list && list[0] ? mlx5dv_open_device(list[0], &attr) : NULL;
	struct ibv_context *other = context ? ibv_import_device(dup(context->cmd_fd)) : NULL;
	struct ibv_pd *pd = context ? ibv_alloc_pd(context) : NULL;
	uint8_t query[16] = { 0x02, 0x01 }, reply[0x110], data[64] = { 0 };
	struct sizes size = { 0 };
	struct mlx5dv_devx_obj *made, *seen;
	struct mlx5dv_devx_umem *own, *theirs;

	if (!other || !pd || !find())
		return 1;
	sizes(&size, sizeof(size));
	sizes(NULL, sizeof(size));
	printf("sizes %d", size.var && size.umem && size.object && size.var <= sizeof(data));

	made = key(context, pd, query + 8);
	printf(", export %d", export_object(made, data));
	seen = import_object(other, data);
	printf(", import %d", seen != NULL);
	printf(", query %d", mlx5dv_devx_obj_query(seen, query, sizeof(query), reply, sizeof(reply)));
	printf(", destroy %d", mlx5dv_devx_obj_destroy(seen));
	unimport_object(seen);
	printf(", own query %d", mlx5dv_devx_obj_query(made, query, sizeof(query), reply,
						       sizeof(reply)));
	printf(", own destroy %d", mlx5dv_devx_obj_destroy(made));
	seen = import_object(other, data);
	printf(", query of none %d\n",
	       mlx5dv_devx_obj_query(seen, query, sizeof(query), reply, sizeof(reply)));
	unimport_object(seen);

	own = mlx5dv_devx_umem_reg(context, memory, sizeof(memory), IBV_ACCESS_LOCAL_WRITE);
	printf("memory: export %d", export_memory(own, data));
	theirs = import_memory(other, data);
	printf(", same %d, dereg %d", theirs && theirs->umem_id == own->umem_id,
	       mlx5dv_devx_umem_dereg(theirs));
	unimport_memory(theirs);
	printf(", own dereg %d\n", mlx5dv_devx_umem_dereg(own));

	printf("NULL: %d %d %d", export_object(NULL, data), export_memory(NULL, data),
	       export_page(NULL, data));
	printf(" %d %d %d\n", !import_object(other, NULL), !import_memory(NULL, data),
	       !import_page(other, NULL));
	unimport_object(NULL);
	unimport_memory(NULL);
	return ibv_dealloc_pd(pd) || ibv_close_device(other) || ibv_close_device(context);
}
