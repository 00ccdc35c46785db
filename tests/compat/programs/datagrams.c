/* Sockets for datagrams: what they do with good peers, with bad arguments, and with peers that say
 * what is not so, by UDP and by queue pairs. Prints what it has found as it should be. */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <rdma/rdma_cma.h>
#include <rdma/rdma_verbs.h>
#include <rdma/rsocket.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/uio.h>
#include <unistd.h>

#define EXPECT(what) \
	do { \
		errno = 0; \
		if (!(what)) { \
			printf("line %d: not %s (%s)\n", __LINE__, #what, strerror(errno)); \
			exit(1); \
		} \
	} while (0)
#define FAILS(what, code) EXPECT((what) == -1 && errno == (code))

static struct sockaddr_in address = { .sin_family = AF_INET };
static struct sockaddr_in stranger = { .sin_family = AF_INET };
static int server, client;
static char bytes[4096], copy[4096];
static uint32_t server_qp;

static void opened(void)
{
	struct sockaddr_in name, peer;
	socklen_t length = sizeof(name);

	server = rsocket(AF_INET, SOCK_DGRAM, IPPROTO_UDP);
	client = rsocket(AF_INET, SOCK_DGRAM, 0);
	EXPECT(server >= 0 && client >= 0);
	FAILS(rrecv(client, copy, 1, MSG_DONTWAIT), EINVAL);
	FAILS(rsend(client, "a", 1, 0), EDESTADDRREQ);
	FAILS(rgetpeername(client, (void *)&peer, &length), ENOTCONN);
	EXPECT(!rbind(server, (void *)&address, sizeof(address)));
	EXPECT(!rconnect(client, (void *)&address, sizeof(address)));
	EXPECT(!rgetsockname(server, (void *)&name, &length) && length == sizeof(name));
	EXPECT(name.sin_port == address.sin_port && name.sin_addr.s_addr == address.sin_addr.s_addr);
	EXPECT(!rgetpeername(client, (void *)&peer, &length));
	EXPECT(!memcmp(&peer, &address, sizeof(peer)));
	FAILS(rrecv(server, copy, 1, MSG_DONTWAIT), EAGAIN);
	puts("opened");
}

/* How many packets the device has sent. */
static long sent(void)
{
	FILE *file = fopen("/sys/class/infiniband/rxe0/ports/1/hw_counters/sent_pkts", "r");
	long count = -1;

	EXPECT(file && fscanf(file, "%ld", &count) == 1);
	fclose(file);
	return count;
}

/* Each datagram arrives whole, first over UDP, then between queue pairs, and nothing but it. */
static void there_and_back(void)
{
	struct sockaddr_in source, own;
	socklen_t length;
	long before = sent();

	for (int at = 0; at < 200; at++) {
		size_t count = at * 5;

		memset(bytes, at, sizeof(bytes));
		EXPECT(rsend(client, bytes, count, 0) == (ssize_t)count);
		length = sizeof(source);
		EXPECT(rrecvfrom(server, copy, sizeof(copy), 0, (void *)&source, &length) == (ssize_t)count);
		EXPECT(!memcmp(copy, bytes, count) && length == sizeof(source));
		EXPECT(!rgetsockname(client, (void *)&own, &length));
		EXPECT(!memcmp(&source, &own, sizeof(own)));
		EXPECT(rsendto(server, copy, count, 0, (void *)&source, sizeof(source)) == (ssize_t)count);
		EXPECT(rrecv(client, copy, sizeof(copy), 0) == (ssize_t)count);
		if (at < 5)
			usleep(200000);
	}
	EXPECT(sent() - before >= 390);
	puts("there and back");
}

static void parts(void)
{
	struct iovec out[3] = { { "ab", 2 }, { "", 0 }, { "cdef", 4 } };
	struct iovec in[2] = { { copy, 4 }, { copy + 100, 100 } };
	struct msghdr sends = { .msg_iov = out, .msg_iovlen = 3 };
	struct msghdr receives = { .msg_iov = in, .msg_iovlen = 2 };

	EXPECT(rsendmsg(client, &sends, 0) == 6);
	EXPECT(rrecv(server, copy, 3, MSG_PEEK) == 3 && !memcmp(copy, "abc", 3));
	EXPECT(rrecvmsg(server, &receives, 0) == 6);
	EXPECT(!memcmp(copy, "abcd", 4) && !memcmp(copy + 100, "ef", 2));
	EXPECT(rwritev(client, out, 3) == 6);
	EXPECT(rread(server, copy, 1) == 1);
	/* The rest of it is lost. */
	FAILS(rrecv(server, copy, 1, MSG_DONTWAIT), EAGAIN);
	EXPECT(rsend(client, NULL, 0, 0) == 0);
	EXPECT(rrecv(server, copy, 10, 0) == 0);
	puts("parts");
}

static void events(void)
{
	struct pollfd fds[2] = { { server, POLLIN, 0 }, { client, POLLIN | POLLOUT, 0 } };

	EXPECT(rpoll(fds, 1, 100) == 0);
	EXPECT(rpoll(fds, 2, -1) == 1 && fds[1].revents == POLLOUT);
	EXPECT(rsend(client, "a", 1, 0) == 1);
	EXPECT(rpoll(fds, 1, 20000) == 1 && fds[0].revents == POLLIN);
	EXPECT(rrecv(server, copy, 10, 0) == 1);
	EXPECT(!rfcntl(server, F_SETFL, O_NONBLOCK));
	EXPECT(rfcntl(server, F_GETFL) & O_NONBLOCK);
	FAILS(rread(server, copy, 1), EAGAIN);
	EXPECT(!rfcntl(server, F_SETFL, 0));
	puts("events");
}

/* Names that Debian's library has not yet. */
static void sets(void)
{
	int (*create)(int) = dlsym(RTLD_DEFAULT, "repoll_create");
	int (*change)(int, int, int, struct epoll_event *) = dlsym(RTLD_DEFAULT, "repoll_ctl");
	int (*waits)(int, struct epoll_event *, int, int) = dlsym(RTLD_DEFAULT, "repoll_wait");
	struct epoll_event event = { .events = EPOLLIN, .data.u64 = 77 }, found[3];
	int set;

	EXPECT(create && change && waits);
	set = create(0);
	EXPECT(set >= 0);
	EXPECT(!change(set, EPOLL_CTL_ADD, server, &event));
	EXPECT(change(set, EPOLL_CTL_ADD, server, &event) == EEXIST);
	EXPECT(change(set, EPOLL_CTL_ADD, client, NULL) == EINVAL);
	EXPECT(waits(set, found, 3, 100) == 0);
	EXPECT(rsend(client, "a", 1, 0) == 1);
	EXPECT(waits(set, found, 3, -1) == 1);
	EXPECT(found[0].events == EPOLLIN && found[0].data.u64 == 77);
	EXPECT(waits(set, found, 3, -1) == 1);
	EXPECT(rrecv(server, copy, 10, 0) == 1);
	FAILS(waits(set, found, 0, 0), EINVAL);
	FAILS(waits(server, found, 3, 0), EINVAL);
	FAILS(rclose(set), EBUSY);
	EXPECT(!change(set, EPOLL_CTL_DEL, server, NULL));
	EXPECT(!rclose(set));
	FAILS(rclose(set), EBADF);
	puts("sets");
}

static void arguments(void)
{
	struct sockaddr_in6 other = { .sin6_family = AF_INET6, .sin6_port = 9 };
	struct sockaddr_in nobody = address;
	int number = 10000, on = 1, socket = rsocket(AF_INET, SOCK_DGRAM | SOCK_NONBLOCK, 0);
	socklen_t length = sizeof(number);

	FAILS(rsocket(AF_INET, SOCK_DGRAM, IPPROTO_TCP), EOPNOTSUPP);
	FAILS(rsocket(AF_UNIX, SOCK_DGRAM, 0), EOPNOTSUPP);
	EXPECT(!rsetsockopt(socket, SOL_SOCKET, SO_RCVBUF, &number, sizeof(number)));
	EXPECT(!rsetsockopt(socket, SOL_RDMA, RDMA_RQSIZE, &on, sizeof(on)));
	EXPECT(!rgetsockopt(socket, SOL_RDMA, RDMA_RQSIZE, &number, &length) && number == 1);
	FAILS(rsetsockopt(socket, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on)), ENOPROTOOPT);
	FAILS(rsetsockopt(socket, SOL_SOCKET, SO_REUSEADDR, NULL, 4), EINVAL);
	FAILS(rsetsockopt(socket, SOL_SOCKET, SO_REUSEADDR, &on, 1), EINVAL);
	FAILS(rbind(socket, (void *)&address, 3), EINVAL);
	FAILS(rbind(socket, (void *)&address, sizeof(address)), EADDRINUSE);
	FAILS(rconnect(socket, (void *)&other, sizeof(other)), EAFNOSUPPORT);
	FAILS(rconnect(socket, NULL, 16), EINVAL);
	FAILS(rsendto(socket, "a", 1, 0, (void *)&other, sizeof(other)), EAFNOSUPPORT);
	FAILS(rsendto(socket, "a", 1, 0, NULL, 16), EINVAL);
	FAILS(rsetsockopt(socket, SOL_RDMA, RDMA_RQSIZE, &on, sizeof(on)), EINVAL);
	FAILS(rsend(client, NULL, 1, 0), EINVAL);
	FAILS(rsend(client, bytes, sizeof(bytes), 0), EMSGSIZE);
	FAILS(rwritev(client, NULL, -1), EINVAL);
	FAILS(rlisten(socket, 1), EOPNOTSUPP);
	FAILS(raccept(socket, NULL, NULL), EOPNOTSUPP);
	FAILS(rshutdown(socket, SHUT_RDWR), EOPNOTSUPP);
	FAILS(riomap(socket, bytes, 10, 0, 0, 0), EOPNOTSUPP);
	nobody.sin_addr.s_addr = htonl(0x0a010063);
	/* Nobody is there, and nobody knows. */
	EXPECT(rsendto(socket, "a", 1, 0, (void *)&nobody, sizeof(nobody)) == 1);
	EXPECT(!rclose(socket));
	FAILS(rclose(socket), EBADF);
	FAILS(rsend(socket, "a", 1, 0), EBADF);
	FAILS(rrecvfrom(socket, copy, 1, 0, NULL, NULL), EBADF);
	FAILS(rbind(-1, (void *)&address, sizeof(address)), EBADF);
	puts("arguments");
}

/* What the true peer sends arrives, after all that others have sent. */
static void still_hears(int most)
{
	int drained = 0;

	while (rrecv(server, copy, sizeof(copy), MSG_DONTWAIT) >= 0)
		drained++;
	EXPECT(drained <= most);
	EXPECT(rsend(client, "peer", 4, 0) == 4);
	EXPECT(rrecv(server, copy, 10, 0) == 4 && !memcmp(copy, "peer", 4));
}

static int udp(void)
{
	int fd = socket(AF_INET, SOCK_DGRAM, 0);
	struct sockaddr_in own = address;

	own.sin_port = 0;
	EXPECT(fd >= 0 && !bind(fd, (void *)&own, sizeof(own)));
	EXPECT(!connect(fd, (void *)&address, sizeof(address)));
	return fd;
}

static void liars_by_udp(void)
{
	unsigned char good[20] = { 0x55, 0x55, 0x55, 0x55, 4, 0, 16, 0, 0, 0xff, 0xff, 0xff, 10, 1, 0, 1,
				   'g', 'o', 'o', 'd' };
	unsigned char bad[3000], answer[100];
	int fd = udp();
	int tried[][2] = { { 0, 1 }, { 4, 6 }, { 4, 0 }, { 5, 1 }, { 5, 255 }, { 6, 0 }, { 6, 15 }, { 6, 28 },
			   { 6, 255 } };

	for (size_t at = 0; at < sizeof(tried) / sizeof(*tried); at++) {
		memcpy(bad, good, sizeof(good));
		bad[tried[at][0]] = tried[at][1];
		EXPECT(send(fd, bad, sizeof(good), 0) == sizeof(good));
	}
	for (int length = 0; length < 16; length++)
		EXPECT(send(fd, good, length, 0) == length);
	/* Longer than any datagram is. */
	memcpy(bad, good, sizeof(good));
	EXPECT(send(fd, bad, sizeof(bad), 0) == sizeof(bad));
	memset(bad, 0x55, sizeof(bad));
	EXPECT(send(fd, bad, 2000, 0) == 2000);
	usleep(300000);
	still_hears(0);
	/* The first that is as it should be; it says where the server's queue pair is. */
	EXPECT(send(fd, good, sizeof(good), 0) == sizeof(good));
	EXPECT(rrecv(server, copy, 100, 0) == 4 && !memcmp(copy, "good", 4));
	EXPECT(recv(fd, answer, sizeof(answer), 0) == 16 && answer[4] == 4 && answer[5] == 7);
	server_qp = answer[9] << 16 | answer[10] << 8 | answer[11];
	/* Answers, with other numbers each time. */
	good[5] = 7;
	for (int at = 0; at < 300; at++) {
		good[9] = at >> 8;
		good[10] = at;
		EXPECT(send(fd, good, 16, 0) == 16);
	}
	still_hears(0);
	/* Hosts without number, whom nobody reads. */
	good[5] = 0;
	for (int at = 0; at < 400; at++) {
		int other = udp();

		for (int times = 0; times < 20; times++)
			send(other, good, sizeof(good), 0);
		close(other);
	}
	usleep(500000);
	still_hears(64);
	close(fd);
	puts("liars by UDP");
}

static void liars_by_queue_pair(void)
{
	struct ibv_qp_init_attr attr = { .cap = { 16, 16, 1, 1, 0 }, .qp_type = IBV_QPT_UD, .sq_sig_all = 1 };
	/* Version, length, port, address. */
	unsigned char good[12] = { 4, 8, 1, 2, 10, 1, 0, 1, 'g', 'o', 'o', 'd' };
	int tried[][3] = { { 4, 8, 0 }, { 4, 8, 1 }, { 4, 8, 7 }, { 6, 24, 12 }, { 4, 9, 12 }, { 4, 7, 12 },
			   { 4, 255, 12 }, { 0, 8, 12 }, { 6, 8, 12 }, { 4, 8, 12 } };
	struct ibv_ah_attr way = { .is_global = 1, .port_num = 1 };
	struct sockaddr_in source;
	socklen_t length = sizeof(source);
	struct rdma_cm_id *id;
	struct ibv_mr *mr;
	struct ibv_ah *ah;
	struct ibv_wc wc;

	EXPECT(!rdma_create_id(NULL, &id, NULL, RDMA_PS_UDP));
	EXPECT(!rdma_bind_addr(id, (void *)&stranger));
	EXPECT(!rdma_create_qp(id, NULL, &attr));
	mr = ibv_reg_mr(id->pd, bytes, sizeof(bytes), IBV_ACCESS_LOCAL_WRITE);
	EXPECT(mr);
	EXPECT(!ibv_query_gid(id->verbs, 1, way.grh.sgid_index = 1, &way.grh.dgid));
	way.grh.hop_limit = 64;
	ah = ibv_create_ah(id->pd, &way);
	EXPECT(ah);
	for (size_t at = 0; at < sizeof(tried) / sizeof(*tried); at++) {
		struct ibv_sge part = { (uintptr_t)bytes, tried[at][2], mr->lkey };
		struct ibv_send_wr wr = { .sg_list = &part, .num_sge = 1, .opcode = IBV_WR_SEND }, *bad;

		memcpy(bytes, good, sizeof(good));
		bytes[0] = tried[at][0];
		bytes[1] = tried[at][1];
		wr.wr.ud.ah = ah;
		wr.wr.ud.remote_qpn = server_qp;
		wr.wr.ud.remote_qkey = RDMA_UDP_QKEY;
		EXPECT(!ibv_post_send(id->qp, &wr, &bad));
		EXPECT(rdma_get_send_comp(id, &wc) == 1 && !wc.status);
	}
	/* Only the last one is good. */
	EXPECT(rrecvfrom(server, copy, 100, 0, (void *)&source, &length) == 4);
	EXPECT(!memcmp(copy, "good", 4) && source.sin_port == htons(0x0102));
	still_hears(0);
	EXPECT(!ibv_destroy_ah(ah) && !ibv_dereg_mr(mr));
	rdma_destroy_qp(id);
	EXPECT(!rdma_destroy_id(id));
	puts("liars by queue pair");
}

int main(void)
{
	alarm(80);
	setvbuf(stdout, NULL, _IOLBF, 0);
	EXPECT(inet_aton("10.1.0.1", &address.sin_addr));
	stranger.sin_addr = address.sin_addr;
	address.sin_port = htons(7600);
	opened();
	there_and_back();
	parts();
	events();
	sets();
	arguments();
	liars_by_udp();
	liars_by_queue_pair();
	EXPECT(!rclose(client) && !rclose(server));
	puts("done");
	return 0;
}
