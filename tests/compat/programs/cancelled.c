/* Has one thread after another wait, cancels it, and expects that its handler has run. */
#include <infiniband/verbs.h>
#include <netinet/in.h>
#include <pthread.h>
#include <rdma/rdma_cma.h>
#include <stdio.h>
#include <unistd.h>

static struct rdma_event_channel *channel;
static struct rdma_cm_id *listener;
static struct ibv_comp_channel *completions;
static int handled;

static void handler(void *unused)
{
	handled++;
}

static void *event(void *unused)
{
	struct rdma_cm_event *event;

	pthread_cleanup_push(handler, NULL);
	rdma_get_cm_event(channel, &event);
	pthread_cleanup_pop(0);
	return NULL;
}

static void *request(void *unused)
{
	struct rdma_cm_id *id;

	pthread_cleanup_push(handler, NULL);
	rdma_get_request(listener, &id);
	pthread_cleanup_pop(0);
	return NULL;
}

static void *completion(void *unused)
{
	struct ibv_cq *cq;
	void *context;

	pthread_cleanup_push(handler, NULL);
	ibv_get_cq_event(completions, &cq, &context);
	pthread_cleanup_pop(0);
	return NULL;
}

static void *asynchronous(void *context)
{
	struct ibv_async_event event;

	pthread_cleanup_push(handler, NULL);
	ibv_get_async_event(context, &event);
	pthread_cleanup_pop(0);
	return NULL;
}

static int cancel(void *(*waits)(void *), void *arg)
{
	int before = handled;
	void *result = NULL;
	pthread_t thread;

	if (pthread_create(&thread, NULL, waits, arg))
		return 0;
	usleep(300000);
	return !pthread_cancel(thread) && !pthread_join(thread, &result) &&
	       result == PTHREAD_CANCELED && handled == before + 1;
}

int main(void)
{
	struct sockaddr_in address = { .sin_family = AF_INET };
	struct ibv_context **devices = rdma_get_devices(NULL);

	channel = rdma_create_event_channel();
	if (!devices || !channel || rdma_create_id(NULL, &listener, NULL, RDMA_PS_TCP) ||
	    rdma_bind_addr(listener, (struct sockaddr *)&address) || rdma_listen(listener, 1))
		return 1;
	completions = ibv_create_comp_channel(devices[0]);
	if (!completions)
		return 2;
	/* A thread that ends the program is the one after those that are told. */
	setvbuf(stdout, NULL, _IONBF, 0);
	printf("%d ", cancel(completion, NULL));
	printf("%d ", cancel(asynchronous, devices[0]));
	printf("%d ", cancel(event, NULL));
	printf("%d ", cancel(request, NULL));
	/* What waited can be used, and destroyed. */
	printf("%d\n", rdma_destroy_id(listener));
	ibv_destroy_comp_channel(completions);
	rdma_free_devices(devices);
	rdma_destroy_event_channel(channel);
	return 0;
}
