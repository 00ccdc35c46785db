/* Peers of a socket that say what is not so, each by a connection of its own. */
#include <arpa/inet.h>
#include <endian.h>
#include <errno.h>
#include <pthread.h>
#include <rdma/rdma_cma.h>
#include <rdma/rsocket.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define EXPECT(what) \
	do { \
		errno = 0; \
		if (!(what)) { \
			printf("line %d: not %s (%s)\n", __LINE__, #what, strerror(errno)); \
			exit(1); \
		} \
	} while (0)

#define DATA 0u
#define CREDITS (4u << 29)
#define MAP (6u << 29)
#define CONTROL (7u << 29)
#define SHUT_DOWN (CONTROL | 2)

/* The private data of the handshake. */
struct entry {
	uint64_t address;
	uint32_t key, length;
} __attribute__((packed));
struct hello {
	uint8_t version, flags;
	uint16_t credits;
	uint8_t reserved[3], maps;
	struct entry targets, buffer;
} __attribute__((packed));

static struct sockaddr_in address = { .sin_family = AF_INET };
static int listener;
static struct rdma_cm_id *id;
static struct hello hello;
static struct entry list[2];
static struct ibv_mr *region;
static int refused;

static void *asks(void *unused)
{
	struct rdma_conn_param param = { .private_data = &hello, .private_data_len = sizeof(hello),
					 .retry_count = 7, .rnr_retry_count = 7 };
	struct ibv_qp_init_attr attr = { .cap = { 64, 64, 1, 1, 0 }, .qp_type = IBV_QPT_RC,
					 .sq_sig_all = 1 };

	EXPECT(!rdma_create_id(NULL, &id, NULL, RDMA_PS_TCP));
	EXPECT(!rdma_resolve_addr(id, NULL, (void *)&address, 2000));
	EXPECT(!rdma_resolve_route(id, 2000));
	EXPECT(!rdma_create_qp(id, NULL, &attr));
	for (int at = 0; at < 64; at++) {
		struct ibv_recv_wr wr = { 0 }, *bad;

		EXPECT(!ibv_post_recv(id->qp, &wr, &bad));
	}
	region = ibv_reg_mr(id->pd, list, sizeof(list), IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
	EXPECT(region);
	if (!hello.targets.address) {
		hello.targets.address = htobe64((uintptr_t)list);
		hello.targets.key = htobe32(region->rkey);
	}
	refused = rdma_connect(id, &param) ? errno : 0;
	return NULL;
}

static void prepare(void)
{
	memset(&hello, 0, sizeof(hello));
	hello.version = 1;
	hello.flags = 2;
	hello.credits = htobe16(64);
	hello.targets.length = htobe32(2);
}

static int connected(void)
{
	pthread_t thread;
	int socket;

	EXPECT(!pthread_create(&thread, NULL, asks, NULL));
	socket = raccept(listener, NULL, NULL);
	pthread_join(thread, NULL);
	EXPECT(socket >= 0 && !refused);
	return socket;
}

static void say(uint32_t what)
{
	struct ibv_send_wr wr = { .opcode = IBV_WR_RDMA_WRITE_WITH_IMM, .imm_data = htobe32(what) };
	struct ibv_send_wr *bad;

	EXPECT(!ibv_post_send(id->qp, &wr, &bad));
}

static void leave(int socket)
{
	EXPECT(!rclose(socket));
	rdma_destroy_qp(id);
	EXPECT(!ibv_dereg_mr(region) && !rdma_destroy_id(id));
}

/* It cannot be, so the connection ends. */
static void breaks(int socket)
{
	char bytes[16];
	int code;
	socklen_t length = sizeof(code);

	EXPECT(rrecv(socket, bytes, sizeof(bytes), 0) == -1 && errno == ECONNRESET);
	EXPECT(!rgetsockopt(socket, SOL_SOCKET, SO_ERROR, &code, &length) && code == EPROTO);
	EXPECT(rsend(socket, bytes, 1, 0) == -1 && errno == ECONNRESET);
}

static void *disconnects(void *unused)
{
	EXPECT(!rdma_disconnect(id));
	return NULL;
}

/* Its last words, and then nothing. */
static void vanishes(int socket, uint32_t last, int ends)
{
	char bytes[16];
	int code;
	socklen_t length = sizeof(code);
	struct ibv_wc wc;
	pthread_t thread;

	say(DATA | 4);
	say(last);
	for (int left = 2; left > 0;)
		left -= ibv_poll_cq(id->send_cq, 1, &wc);
	EXPECT(!pthread_create(&thread, NULL, disconnects, NULL));
	EXPECT(rrecv(socket, bytes, 4, MSG_WAITALL) == 4);
	EXPECT(rrecv(socket, bytes, sizeof(bytes), 0) == (ends ? 0 : -1) && errno == (ends ? 0 : ECONNRESET));
	EXPECT(!rgetsockopt(socket, SOL_SOCKET, SO_ERROR, &code, &length) && code == (ends ? 0 : ECONNRESET));
	EXPECT(!rclose(socket));
	pthread_join(thread, NULL);
	rdma_destroy_qp(id);
	EXPECT(!ibv_dereg_mr(region) && !rdma_destroy_id(id));
}

int main(void)
{
	static char bytes[1 << 20];
	int socket, on = 1, size = 4096;

	alarm(60);
	setvbuf(stdout, NULL, _IOLBF, 0);
	EXPECT(inet_aton("10.1.0.1", &address.sin_addr));
	address.sin_port = htons(7501);
	listener = rsocket(AF_INET, SOCK_STREAM, 0);
	EXPECT(!rsetsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)));
	EXPECT(!rsetsockopt(listener, SOL_SOCKET, SO_RCVBUF, &size, sizeof(size)));
	EXPECT(!rsetsockopt(listener, SOL_RDMA, RDMA_IOMAPSIZE, &on, sizeof(on)));
	EXPECT(!rbind(listener, (void *)&address, sizeof(address)));
	EXPECT(!rlisten(listener, 5));

	/* More than its buffers have. */
	prepare();
	socket = connected();
	say(DATA | 0x1fffffff);
	breaks(socket);
	leave(socket);
	prepare();
	socket = connected();
	say(DATA | 4096);
	EXPECT(rrecv(socket, bytes, sizeof(bytes), 0) == 4096);
	for (int at = 0; at < 3; at++)
		say(DATA | 4096);
	for (int at = 0; at < 2; at++)
		EXPECT(rrecv(socket, bytes, 4096, MSG_WAITALL) == 4096 || errno == ECONNRESET);
	leave(socket);
	puts("too much");

	/* Messages with nothing in them, with numbers of nothing, and of no kind. */
	prepare();
	socket = connected();
	for (uint32_t kind = 1; kind < 7; kind++)
		say(kind << 29 | 0x1fffffff);
	say(CONTROL | 77);
	say(MAP | 0xffff);
	for (int at = 0; at < 20; at++)
		say(DATA);
	say(DATA | 4);
	EXPECT(rrecv(socket, bytes, sizeof(bytes), 0) == 4);
	EXPECT(riowrite(socket, bytes, 10, 0, 0) == 0);
	leave(socket);
	puts("nothing");

	/* A peer that leaves without a word, and one that has said that this was all. */
	prepare();
	vanishes(connected(), CONTROL | 1, 0);
	prepare();
	vanishes(connected(), SHUT_DOWN, 1);
	puts("vanished");

	/* Credits for a buffer that is not there: the first write fails. */
	prepare();
	hello.buffer.address = htobe64(0x1000);
	hello.buffer.length = htobe32(0xffffffff);
	socket = connected();
	say(CREDITS | 0xffff);
	while (rsend(socket, bytes, sizeof(bytes), 0) > 0)
		;
	EXPECT(rsend(socket, bytes, 1, 0) == -1 && errno == ECONNRESET);
	leave(socket);
	puts("nowhere");

	/* Entries at odd places, and none. */
	prepare();
	hello.targets.address = htobe64(~0ull);
	hello.targets.length = 0;
	hello.maps = 0xff;
	socket = connected();
	EXPECT(rrecv(socket, bytes, 1, MSG_DONTWAIT) == -1);
	EXPECT(riomap(socket, bytes, sizeof(bytes), 2, 0, -1) != -1);
	EXPECT(rsend(socket, bytes, 1, MSG_DONTWAIT) == -1);
	leave(socket);
	puts("odd");

	/* Another version. */
	prepare();
	hello.version = 2;
	asks(NULL);
	EXPECT(refused == ECONNREFUSED);
	rdma_destroy_qp(id);
	EXPECT(!ibv_dereg_mr(region) && !rdma_destroy_id(id));
	EXPECT(!rclose(listener));
	puts("done");
	return 0;
}
