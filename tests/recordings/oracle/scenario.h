/* What the scenarios share. */

#include <infiniband/verbs.h>
#include <stdio.h>
#include <stdlib.h>

#define PORT 1

extern struct ibv_context *context;
/* 16 KiB, from the start of a page on. */
extern char *memory;

void check(int failed, const char *what);

#define OK(call) check((call) != 0, #call)
#define MADE(call) ({ __typeof__(call) made = (call); check(!made, #call); made; })

struct ibv_qp *queue_pair(struct ibv_pd *pd, struct ibv_cq *cq, struct ibv_srq *srq, enum ibv_qp_type type);
void connect_to_itself(struct ibv_qp *qp, enum ibv_qp_type type);

/* To this port itself. */
struct ibv_ah_attr path(void);

/* In objects.c. */
void work_queues(void);
void extended(void);
void device_memory(void);
void dynamic(void);

/* Of mlx5 alone; whether there is one of that name. */
int play_mlx5(const char *name);
