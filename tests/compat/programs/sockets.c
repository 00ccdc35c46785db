/* Sockets of librdmacm: two ends in one process, each call with what it is to do. Prints what it
 * finds, which is the same over every library. */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <rdma/rsocket.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <sys/wait.h>
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
static int listener, one, other;
static char bytes[1 << 20], copy[1 << 20];

static void *connects(void *unused)
{
	one = rsocket(AF_INET, SOCK_STREAM, 0);
	EXPECT(one >= 0);
	EXPECT(!rconnect(one, (void *)&address, sizeof(address)));
	return NULL;
}

static void *sends(void *unused)
{
	EXPECT(rsend(one, bytes, sizeof(bytes), 0) == sizeof(bytes));
	return NULL;
}

static void *sends_back(void *unused)
{
	EXPECT(rwrite(other, bytes, sizeof(bytes)) == sizeof(bytes));
	return NULL;
}

static void *receives(void *unused)
{
	char *all = malloc(sizeof(bytes));

	EXPECT(rrecv(one, all, sizeof(bytes), MSG_WAITALL) == sizeof(bytes));
	EXPECT(!memcmp(all, bytes, sizeof(bytes)));
	free(all);
	return NULL;
}

static void *sends_late(void *unused)
{
	usleep(300000);
	EXPECT(rsend(one, "late", 4, 0) == 4);
	return NULL;
}

static void *writes_late(void *fd)
{
	usleep(300000);
	EXPECT(write(*(int *)fd, "x", 1) == 1);
	return NULL;
}

static pthread_t start(void *(*function)(void *), void *argument)
{
	pthread_t thread;

	EXPECT(!pthread_create(&thread, NULL, function, argument));
	return thread;
}

static void connected(void)
{
	struct sockaddr_in peer, own;
	socklen_t length = sizeof(peer);
	pthread_t thread = start(connects, NULL);

	other = raccept(listener, (void *)&peer, &length);
	EXPECT(other >= 0);
	pthread_join(thread, NULL);
	EXPECT(length == sizeof(peer) && peer.sin_family == AF_INET);
	EXPECT(!rgetsockname(one, (void *)&own, &length));
	EXPECT(own.sin_addr.s_addr == peer.sin_addr.s_addr && own.sin_port == peer.sin_port);
	EXPECT(!rgetpeername(one, (void *)&peer, &length));
	EXPECT(peer.sin_addr.s_addr == address.sin_addr.s_addr && peer.sin_port == address.sin_port);
}

static void parts(void)
{
	struct iovec out[3] = { { "ab", 2 }, { "", 0 }, { "cdef", 4 } };
	struct iovec in[1] = { { copy, 6 } };
	struct msghdr message = { .msg_iov = out, .msg_iovlen = 3 };

	EXPECT(rwritev(one, out, 3) == 6);
	EXPECT(rrecv(other, copy, 3, MSG_PEEK | MSG_WAITALL) == 3 && !memcmp(copy, "abc", 3));
	EXPECT(rrecv(other, copy, 6, MSG_PEEK | MSG_WAITALL) == 6);
	EXPECT(rreadv(other, in, 1) == 6 && !memcmp(copy, "abcdef", 6));
	EXPECT(rsendmsg(other, &message, 0) == 6);
	EXPECT(rrecvfrom(one, copy, 6, MSG_WAITALL, NULL, NULL) == 6 && !memcmp(copy, "abcdef", 6));
	FAILS(rsendto(one, "a", 1, 0, (void *)&address, sizeof(address)), EISCONN);
	FAILS(rrecv(one, copy, 1, MSG_DONTWAIT), EAGAIN);
	EXPECT(!rfcntl(one, F_SETFL, O_NONBLOCK));
	EXPECT(rfcntl(one, F_GETFL) & O_NONBLOCK);
	FAILS(rread(one, copy, 1), EAGAIN);
	EXPECT(!rfcntl(one, F_SETFL, 0));
	puts("parts");
}

/* Four threads at a time, more than a ring in both directions. */
static void both_ways(void)
{
	pthread_t threads[3];

	for (size_t at = 0; at < sizeof(bytes); at++)
		bytes[at] = at * 7 + (at >> 9);
	threads[0] = start(sends, NULL);
	threads[1] = start(sends_back, NULL);
	threads[2] = start(receives, NULL);
	EXPECT(rrecv(other, copy, sizeof(copy), MSG_WAITALL) == sizeof(copy));
	EXPECT(!memcmp(copy, bytes, sizeof(bytes)));
	for (int at = 0; at < 3; at++)
		pthread_join(threads[at], NULL);
	puts("both ways");
}

static void events(void)
{
	int ends[2];
	struct timeval soon = { .tv_usec = 100000 }, late = { .tv_sec = 20 };
	fd_set reads, writes;
	pthread_t thread;

	EXPECT(!pipe(ends));
	struct pollfd fds[3] = { { one, POLLIN, 0 }, { other, POLLIN, 0 }, { ends[0], POLLIN, 0 } };
	EXPECT(rpoll(fds, 3, 0) == 0);
	EXPECT(rpoll(fds, 3, 100) == 0);
	thread = start(sends_late, NULL);
	EXPECT(rpoll(fds, 3, 20000) == 1);
	EXPECT(!fds[0].revents && fds[1].revents == POLLIN && !fds[2].revents);
	EXPECT(rrecv(other, copy, 10, 0) == 4);
	pthread_join(thread, NULL);
	thread = start(writes_late, &ends[1]);
	EXPECT(rpoll(fds, 3, -1) == 1);
	EXPECT(!fds[0].revents && !fds[1].revents && fds[2].revents == POLLIN);
	EXPECT(read(ends[0], copy, 1) == 1);
	pthread_join(thread, NULL);
	fds[0].events = POLLIN | POLLOUT;
	EXPECT(rpoll(fds, 1, 20000) == 1 && fds[0].revents == POLLOUT);

	FD_ZERO(&reads);
	FD_ZERO(&writes);
	FD_SET(other, &reads);
	FD_SET(ends[0], &reads);
	EXPECT(rselect(64, &reads, NULL, NULL, &soon) == 0);
	EXPECT(!FD_ISSET(other, &reads));
	FD_SET(other, &reads);
	FD_SET(ends[0], &reads);
	thread = start(sends_late, NULL);
	EXPECT(rselect(64, &reads, &writes, NULL, &late) == 1);
	EXPECT(FD_ISSET(other, &reads) && !FD_ISSET(ends[0], &reads));
	EXPECT(rrecv(other, copy, 10, 0) == 4);
	pthread_join(thread, NULL);
	puts("events");
}

static int option(int socket, int level, int name)
{
	int value = -1;
	socklen_t length = sizeof(value);

	EXPECT(!rgetsockopt(socket, level, name, &value, &length) && length == sizeof(value));
	return value;
}

static void options(void)
{
	int socket = rsocket(AF_INET, SOCK_STREAM, IPPROTO_TCP);
	int number = 10000, on = 1;

	EXPECT(socket >= 0);
	EXPECT(option(socket, SOL_SOCKET, SO_SNDBUF) == 1 << 17);
	EXPECT(option(socket, SOL_RDMA, RDMA_SQSIZE) == 384);
	EXPECT(!rsetsockopt(socket, SOL_SOCKET, SO_RCVBUF, &number, sizeof(number)));
	EXPECT(option(socket, SOL_SOCKET, SO_RCVBUF) == 20000);
	EXPECT(!rsetsockopt(socket, SOL_RDMA, RDMA_RQSIZE, &number, sizeof(number)));
	EXPECT(option(socket, SOL_RDMA, RDMA_RQSIZE) == 10000);
	EXPECT(!rsetsockopt(socket, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on)));
	EXPECT(option(socket, IPPROTO_TCP, TCP_NODELAY) == 1);
	EXPECT(!rsetsockopt(socket, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof(on)));
	EXPECT(!rsetsockopt(socket, IPPROTO_TCP, TCP_KEEPIDLE, &on, sizeof(on)));
	EXPECT(option(socket, SOL_SOCKET, SO_KEEPALIVE) == 1);
	FAILS(rsetsockopt(socket, SOL_SOCKET, SO_MARK, &on, sizeof(on)), EOPNOTSUPP);
	FAILS(rsocket(AF_UNIX, SOCK_STREAM, 0), EOPNOTSUPP);
	EXPECT(!rclose(socket));
	FAILS(rsetsockopt(socket, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof(on)), EBADF);
	puts("options");
}

/* Nobody listens there: as a call that waits, and as one that does not. */
static void refused(void)
{
	struct sockaddr_in nobody = address;
	int socket = rsocket(AF_INET, SOCK_STREAM, 0);
	struct pollfd fd = { .events = POLLOUT };

	nobody.sin_port = htons(9);
	FAILS(rconnect(socket, (void *)&nobody, sizeof(nobody)), ECONNREFUSED);
	EXPECT(!rclose(socket));
	fd.fd = socket = rsocket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
	FAILS(rconnect(socket, (void *)&nobody, sizeof(nobody)), EINPROGRESS);
	EXPECT(rpoll(&fd, 1, 20000) == 1 && fd.revents == (POLLOUT | POLLERR));
	EXPECT(option(socket, SOL_SOCKET, SO_ERROR) == ECONNREFUSED);
	EXPECT(!rclose(socket));
	puts("refused");
}

/* A peer is connected before its connection is taken, and what it has sent by then is there. */
static void early(void)
{
	struct pollfd fd = { listener, POLLIN, 0 };
	int early, taken;

	EXPECT(rpoll(&fd, 1, 100) == 0);
	EXPECT(!rfcntl(listener, F_SETFL, O_NONBLOCK));
	FAILS(raccept(listener, NULL, NULL), EAGAIN);
	early = rsocket(AF_INET, SOCK_STREAM, 0);
	EXPECT(!rconnect(early, (void *)&address, sizeof(address)));
	EXPECT(rsend(early, "early", 5, 0) == 5);
	EXPECT(rpoll(&fd, 1, 20000) == 1 && fd.revents == POLLIN);
	taken = raccept(listener, NULL, NULL);
	EXPECT(taken >= 0 && !rfcntl(taken, F_SETFL, 0));
	EXPECT(rrecv(taken, copy, 10, 0) == 5);
	EXPECT(!rclose(early) && !rclose(taken));
	EXPECT(!rfcntl(listener, F_SETFL, 0));
	/* Nobody takes these. */
	early = rsocket(AF_INET, SOCK_STREAM, 0);
	EXPECT(!rconnect(early, (void *)&address, sizeof(address)));
	puts("early");
}

/* A child has none of its parent's sockets, which stay as they are. */
static void forked(void)
{
	int status;
	pid_t child = fork();

	if (!child) {
		FAILS(rclose(listener), EBADF);
		FAILS(rsend(one, "a", 1, 0), EBADF);
		FAILS(rclose(one), EBADF);
		exit(0);
	}
	EXPECT(waitpid(child, &status, 0) == child && status == 0);
	EXPECT(rsend(one, "after", 5, 0) == 5);
	EXPECT(rrecv(other, copy, 5, MSG_WAITALL) == 5);
	puts("forked");
}

static void ends(void)
{
	struct pollfd fd = { .events = POLLIN };

	/* The other direction goes on. */
	EXPECT(!rshutdown(one, SHUT_WR));
	EXPECT(rrecv(other, copy, 1, 0) == 0);
	EXPECT(rsend(other, "back", 4, 0) == 4);
	EXPECT(rrecv(one, copy, 10, 0) == 4);
	FAILS(rsend(one, "a", 1, 0), ECONNRESET);
	EXPECT(!rclose(other));
	EXPECT(rrecv(one, copy, 1, 0) == 0);
	EXPECT(!rclose(one));

	/* What was sent before the end is read. */
	connected();
	EXPECT(rsend(one, "last", 4, 0) == 4);
	EXPECT(!rclose(one));
	fd.fd = other;
	EXPECT(rpoll(&fd, 1, 20000) == 1 && (fd.revents & POLLIN));
	EXPECT(rrecv(other, copy, 10, 0) == 4);
	EXPECT(rrecv(other, copy, 10, 0) == 0);
	FAILS(rsend(other, "a", 1, 0), ECONNRESET);
	EXPECT(!rclose(other));
	puts("ends");
}

int main(void)
{
	socklen_t length = sizeof(address);
	int on = 1;

	alarm(60);
	setvbuf(stdout, NULL, _IOLBF, 0);
	EXPECT(inet_aton("10.1.0.1", &address.sin_addr));
	address.sin_port = htons(7500);
	listener = rsocket(AF_INET, SOCK_STREAM, 0);
	EXPECT(listener >= 0);
	EXPECT(!rsetsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)));
	EXPECT(!rbind(listener, (void *)&address, length));
	EXPECT(!rlisten(listener, 5));
	connected();
	parts();
	both_ways();
	events();
	options();
	refused();
	forked();
	ends();
	early();
	/* Its port is free at once. */
	EXPECT(!rclose(listener));
	listener = rsocket(AF_INET, SOCK_STREAM, 0);
	EXPECT(!rbind(listener, (void *)&address, length) && !rlisten(listener, 5));
	EXPECT(!rclose(listener));
	puts("done");
	return 0;
}
