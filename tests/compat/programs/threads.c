/* Threads that make ids, have them look for an address, and destroy them at once or a little later,
   while two others read and acknowledge the events of all. */
#include <netinet/in.h>
#include <arpa/inet.h>
#include <pthread.h>
#include <rdma/rdma_cma.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define THREADS 4
#define TIMES 100

static struct rdma_event_channel *channel;
static int events, failures;

static void *reads(void *unused)
{
	struct rdma_cm_event *event;

	while (!rdma_get_cm_event(channel, &event)) {
		__atomic_fetch_add(&events, 1, __ATOMIC_RELAXED);
		if (event->id->context != &channel)
			__atomic_fetch_add(&failures, 1, __ATOMIC_RELAXED);
		rdma_ack_cm_event(event);
	}
	return NULL;
}

static void *makes(void *seed)
{
	struct sockaddr_in address = { .sin_family = AF_INET };
	unsigned int random = (unsigned int)(size_t)seed;
	struct rdma_cm_id *id;

	inet_pton(AF_INET, "10.1.0.1", &address.sin_addr);
	for (int i = 0; i < TIMES; i++) {
		if (rdma_create_id(channel, &id, &channel, RDMA_PS_TCP) ||
		    rdma_resolve_addr(id, NULL, (struct sockaddr *)&address, 1000)) {
			__atomic_fetch_add(&failures, 1, __ATOMIC_RELAXED);
			continue;
		}
		if (rand_r(&random) % 2)
			usleep(rand_r(&random) % 2000);
		if (rdma_destroy_id(id))
			__atomic_fetch_add(&failures, 1, __ATOMIC_RELAXED);
	}
	return NULL;
}

int main(void)
{
	pthread_t readers[2], makers[THREADS];

	channel = rdma_create_event_channel();
	if (!channel)
		return 1;
	for (int i = 0; i < 2; i++)
		pthread_create(&readers[i], NULL, reads, NULL);
	for (size_t i = 0; i < THREADS; i++)
		pthread_create(&makers[i], NULL, makes, (void *)(i + 1));
	for (int i = 0; i < THREADS; i++)
		pthread_join(makers[i], NULL);
	for (int i = 0; i < 2; i++) {
		pthread_cancel(readers[i]);
		pthread_join(readers[i], NULL);
	}
	rdma_destroy_event_channel(channel);
	printf("%d failures, %s\n", failures, events > 20 ? "many events" : "few events");
	return 0;
}
