/* Listens until its device is removed. */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <rdma/rdma_cma.h>
#include <stdio.h>
#include <string.h>

static struct rdma_event_channel *channel;
static struct rdma_cm_id *id;

static int listens(void)
{
	struct sockaddr_in address = { .sin_family = AF_INET };

	inet_pton(AF_INET, "10.1.0.1", &address.sin_addr);
	if (rdma_create_id(channel, &id, NULL, RDMA_PS_TCP))
		return 0;
	if (!rdma_bind_addr(id, (struct sockaddr *)&address) && !rdma_listen(id, 1) && id->verbs)
		return 1;
	return 0;
}

int main(void)
{
	struct rdma_cm_event *event;

	channel = rdma_create_event_channel();
	if (!channel || !listens())
		return 1;
	printf("listening\n");
	fflush(stdout);
	if (rdma_get_cm_event(channel, &event))
		return 2;
	printf("%s %d, ", rdma_event_str(event->event), event->status);
	rdma_ack_cm_event(event);
	printf("%d, ", rdma_destroy_id(id));
	if (listens())
		return 3;
	printf("%s\n", strerror(errno));
	rdma_destroy_id(id);
	rdma_destroy_event_channel(channel);
	return 0;
}
