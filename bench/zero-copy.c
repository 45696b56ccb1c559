// SPDX-License-Identifier: Apache-2.0
/* What a byte costs on its way out of a process through TCP: sent from memory with the
 * kernel's copy (copy) or without (zerocopy: MSG_ZEROCOPY, its notifications waited for
 * before memory is used again), and from a file in memory read and sent (read) or not
 * (sendfile). CPU seconds of both ends per GiB, by turns, over loopback and over a pair of
 * veth devices between two network namespaces of our own. */
#include "transport/transport.h"

#include <errno.h>
#include <linux/errqueue.h>
#include <netinet/in.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/sendfile.h>
#include <sys/wait.h>
#include <unistd.h>

#define GIB ((double)(1u << 30))

enum { RUNS_MAX = 99, FILE_BYTES = 64 << 20, RECEIVE_BYTES = 1 << 20 };
enum mode { COPY, ZEROCOPY, READ, SENDFILE, MODES };

static const char *const mode_names[] = { "copy", "zerocopy", "read", "sendfile" };
/* What each is compared with. */
static const enum mode beside[] = { COPY, COPY, READ, READ };

struct options {
	uint64_t bytes, runs, blocks; /* per run; counted ones; of memory */
};

static struct options opt = { .bytes = 1ull << 30, .runs = 5, .blocks = 16 };

/* Our end; the other one is a process of its own. */
struct net {
	const char *name, *addr;
	uint16_t port;
	pid_t pid;
	int say, hear;         /* pipes to and from it */
	struct pool *pool;
	struct block **blocks; /* all of the pool's */
	int file;              /* FILE_BYTES in memory */
	uint64_t sent, copied; /* sendmsg calls with MSG_ZEROCOPY; those copied all the same */
};

static void die(const char *what, int code)
{
	fprintf(stderr, "zero-copy: %s: %s\n", what, strerror(-code));
	exit(1);
}

static double cpu_seconds(void)
{
	struct rusage u;

	getrusage(RUSAGE_SELF, &u);
	return (double)(u.ru_utime.tv_sec + u.ru_stime.tv_sec) +
	       (double)(u.ru_utime.tv_usec + u.ru_stime.tv_usec) / 1e6;
}

static void tell(int fd, const void *p, size_t len)
{
	int r = write_full(fd, p, len);

	if (r)
		die("pipe", r);
}

static void hear(int fd, void *p, size_t len)
{
	ssize_t n = read_full(fd, p, len);

	if (n != (ssize_t)len)
		die("the other end", n < 0 ? (int)n : -EPIPE);
}

/* ---- two namespaces ---- */

__attribute__((format(printf, 1, 2)))
static void command(const char *fmt, ...)
{
	char line[256];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(line, sizeof(line), fmt, ap);
	va_end(ap);
	if (system(line) != 0) {
		fprintf(stderr, "zero-copy: failed: %s\n", line);
		exit(1);
	}
}

static void own_network(void)
{
	if (unshare(CLONE_NEWNET) < 0 && unshare(CLONE_NEWUSER | CLONE_NEWNET) < 0)
		die("a network namespace", -errno);
}

/* Both devices are gone with the namespaces, and those with us. */
static void veth_ours(pid_t peer)
{
	command("ip link add rftp0 type veth peer name rftp1 netns %d", (int)peer);
	command("ip addr add 192.0.2.1/24 dev rftp0 && ip link set rftp0 up");
}

static void veth_theirs(void)
{
	command("ip addr add 192.0.2.2/24 dev rftp1 && ip link set rftp1 up");
}

/* ---- the receiver ---- */

/* Take one connection to its end; CPU seconds. */
static double receive(int lfd, void *buf)
{
	double begin = cpu_seconds();
	int fd = accept(lfd, NULL, NULL);

	if (fd < 0)
		die("accept", -errno);
	while (recv(fd, buf, RECEIVE_BYTES, 0) > 0)
		;
	close(fd);
	return cpu_seconds() - begin;
}

static void receiver(const struct net *n, bool veth, int from, int to)
{
	void *buf = aligned_alloc(4096, RECEIVE_BYTES);
	struct err e = ERR_INIT;
	uint16_t port;
	char go;
	int lfd;

	memset(buf, 0, RECEIVE_BYTES);
	if (veth) {
		own_network();
		tell(to, "r", 1);
		hear(from, &go, 1);
		veth_theirs();
	}
	lfd = tcp_listen(n->addr, AF_INET, 0, 0, &port, &e);
	if (lfd < 0)
		die(e.text, e.code);
	tell(to, &port, sizeof(port));
	while (read_full(from, &go, 1) == 1) {
		double cpu = receive(lfd, buf);

		tell(to, &cpu, sizeof(cpu));
	}
	_exit(0);
}

static void start_receiver(struct net *n, bool veth)
{
	int down[2], up[2];
	char ready;

	if (veth)
		own_network();
	if (pipe(down) < 0 || pipe(up) < 0)
		die("pipe", -errno);
	n->pid = fork();
	if (n->pid < 0)
		die("fork", -errno);
	if (n->pid == 0) {
		close(down[1]);
		close(up[0]);
		receiver(n, veth, down[0], up[1]);
	}
	close(down[0]);
	close(up[1]);
	n->say = down[1];
	n->hear = up[0];
	if (veth) {
		hear(n->hear, &ready, 1);
		veth_ours(n->pid);
		tell(n->say, "g", 1);
	}
	hear(n->hear, &n->port, sizeof(n->port));
}

/* ---- the sender ---- */

static void send_all(int fd, const uint8_t *p, size_t len)
{
	while (len) {
		ssize_t n = send(fd, p, len, MSG_NOSIGNAL);

		if (n < 0)
			die("send", -errno);
		p += n;
		len -= (size_t)n;
	}
}

/* One notification: calls up to *done need their memory no more. False: there is none. */
static bool notified(struct net *n, int fd, uint64_t *done)
{
	uint8_t control[128];
	struct msghdr m = { .msg_control = control, .msg_controllen = sizeof(control) };
	const struct sock_extended_err *e;
	const struct cmsghdr *c;
	uint64_t calls;

	if (recvmsg(fd, &m, MSG_ERRQUEUE | MSG_DONTWAIT) < 0)
		return false;
	c = CMSG_FIRSTHDR(&m);
	e = c ? (const void *)CMSG_DATA(c) : NULL;
	if (!e || e->ee_origin != SO_EE_ORIGIN_ZEROCOPY)
		die("error queue", -EPROTO);
	calls = (uint64_t)(e->ee_data - e->ee_info) + 1;
	*done += calls; /* TCP completes them in their order */
	if (e->ee_code & SO_EE_CODE_ZEROCOPY_COPIED)
		n->copied += calls;
	return true;
}

static void wait_notified(struct net *n, int fd, uint64_t *done, uint64_t until)
{
	while (*done < until) {
		struct pollfd p = { .fd = fd }; /* POLLERR comes unasked */

		if (!notified(n, fd, done) && poll(&p, 1, 10000) <= 0)
			die("no notification", -ETIMEDOUT);
	}
}

static void send_zerocopy(struct net *n, int fd, uint32_t block)
{
	uint64_t calls = 0, done = 0, *last = calloc(opt.blocks, sizeof(*last));
	int one = 1;

	if (setsockopt(fd, SOL_SOCKET, SO_ZEROCOPY, &one, sizeof(one)) < 0)
		die("SO_ZEROCOPY", -errno);
	for (uint64_t at = 0, i = 0; at < opt.bytes; at += block, i = (i + 1) % opt.blocks) {
		const uint8_t *p = block_payload(n->blocks[i]);
		size_t left = block;

		wait_notified(n, fd, &done, last[i]);
		while (left) {
			ssize_t r = send(fd, p, left, MSG_ZEROCOPY | MSG_NOSIGNAL);

			if (r < 0 && errno == ENOBUFS && done < calls) {
				wait_notified(n, fd, &done, done + 1);
				continue;
			}
			if (r < 0)
				die("send", -errno);
			calls++;
			p += r;
			left -= (size_t)r;
		}
		last[i] = calls;
		while (notified(n, fd, &done))
			;
	}
	wait_notified(n, fd, &done, calls);
	n->sent += calls;
	free(last);
}

static void send_sendfile(const struct net *n, int fd, off_t at, size_t len)
{
	while (len) {
		ssize_t r = sendfile(fd, n->file, &at, len);

		if (r <= 0)
			die("sendfile", r ? -errno : -ENODATA);
		len -= (size_t)r;
	}
}

static void send_read(const struct net *n, int fd, void *buf, off_t at, size_t len)
{
	ssize_t r = pread_full(n->file, buf, len, at);

	if (r != (ssize_t)len)
		die("read", r < 0 ? (int)r : -ENODATA);
	send_all(fd, buf, len);
}

static void send_bytes(struct net *n, int fd, enum mode mode, uint32_t block)
{
	if (mode == ZEROCOPY) {
		send_zerocopy(n, fd, block);
		return;
	}
	for (uint64_t at = 0, i = 0; at < opt.bytes; at += block, i = (i + 1) % opt.blocks) {
		void *p = block_payload(n->blocks[i]);

		if (mode == COPY)
			send_all(fd, p, block);
		else if (mode == READ)
			send_read(n, fd, p, (off_t)(at % FILE_BYTES), block);
		else
			send_sendfile(n, fd, (off_t)(at % FILE_BYTES), block);
	}
}

/* CPU seconds of both ends per GiB. */
static double one_run(struct net *n, enum mode mode, uint32_t block)
{
	struct err e = ERR_INIT;
	double ours = cpu_seconds(), theirs;
	int fd;

	tell(n->say, "g", 1);
	fd = tcp_connect(n->addr, n->port, -1, 5000, &e);
	if (fd < 0)
		die(e.text, e.code);
	send_bytes(n, fd, mode, block);
	close(fd);
	hear(n->hear, &theirs, sizeof(theirs));
	return (cpu_seconds() - ours + theirs) / ((double)opt.bytes / GIB);
}

/* ---- what came out ---- */

static int by_size(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return x < y ? -1 : x > y;
}

static void report(const struct net *n, uint32_t block, double cost[MODES][RUNS_MAX])
{
	double median[MODES];

	for (int m = 0; m < MODES; m++) {
		qsort(cost[m], opt.runs, sizeof(double), by_size);
		median[m] = cost[m][opt.runs / 2];
	}
	for (int m = 0; m < MODES; m++) {
		printf("%-9s %5u KiB  %-9s %.3f (%.3f..%.3f)  %.2f x %s", n->name, block >> 10,
		       mode_names[m], median[m], cost[m][0], cost[m][opt.runs - 1],
		       median[m] / median[beside[m]], mode_names[beside[m]]);
		if (m == ZEROCOPY)
			printf("; copied all the same: %.0f %%",
			       100.0 * (double)n->copied / (double)(n->sent ? n->sent : 1));
		printf("\n");
	}
	fflush(stdout);
}

static void measure(struct net *n, uint32_t block)
{
	static double cost[MODES][RUNS_MAX];

	n->sent = n->copied = 0;
	for (int m = 0; m < MODES; m++)
		one_run(n, m, block); /* warm */
	for (uint64_t run = 0; run < opt.runs; run++)
		for (uint64_t k = 0; k < MODES; k++) {
			enum mode m = (enum mode)((run + k) % MODES);

			cost[m][run] = one_run(n, m, block);
		}
	report(n, block, cost);
}

static void make_memory(struct net *n)
{
	const struct pool_config c = { .blocks = (uint32_t)opt.blocks, .payload = 1 << 20,
				       .pages = PAGES_AUTO };
	struct err e = ERR_INIT;

	n->pool = pool_new(&c, &e);
	if (!n->pool)
		die(e.text, e.code);
	memset(pool_base(n->pool), 0x5a, pool_bytes(n->pool));
	n->blocks = calloc(opt.blocks, sizeof(struct block *));
	for (uint64_t i = 0; i < opt.blocks; i++)
		n->blocks[i] = pool_get(n->pool);
	n->file = memfd_create("zero-copy", MFD_CLOEXEC);
	for (off_t at = 0; at < FILE_BYTES; at += 1 << 20)
		if (pwrite_full(n->file, block_payload(n->blocks[0]), 1 << 20, at))
			die("a file in memory", -EIO);
}

static void over(const char *name, const char *addr, bool veth)
{
	struct net n = { .name = name, .addr = addr };
	int status;

	start_receiver(&n, veth);
	make_memory(&n);
	measure(&n, 256 << 10);
	measure(&n, 1 << 20);
	close(n.say);
	waitpid(n.pid, &status, 0);
	exit(status != 0);
}

/* In a process of its own, whose namespaces go with it. */
static int over_apart(const char *name, const char *addr, bool veth)
{
	int status;
	pid_t pid;

	fflush(stdout);
	pid = fork();
	if (pid < 0)
		die("fork", -errno);
	if (pid == 0)
		over(name, addr, veth);
	waitpid(pid, &status, 0);
	return status != 0;
}

static void set_option(const char *word)
{
	static const struct {
		const char *name;
		uint64_t *to, low, high;
	} sizes[] = {
		{ "bytes=", &opt.bytes, 1 << 20, 1ull << 40 },
		{ "runs=", &opt.runs, 1, RUNS_MAX },
		{ "blocks=", &opt.blocks, 1, 1024 },
	};

	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		size_t n = strlen(sizes[i].name);

		if (strncmp(word, sizes[i].name, n) == 0 && !parse_size(word + n, sizes[i].to) &&
		    *sizes[i].to >= sizes[i].low && *sizes[i].to <= sizes[i].high)
			return;
	}
	fprintf(stderr, "usage: zero-copy [bytes=1G] [runs=5] [blocks=16]\nPrints CPU seconds of "
		"both ends per GiB: median (least..most), beside the other way.\n");
	exit(2);
}

int main(int argc, char **argv)
{
	for (int i = 1; i < argc; i++)
		set_option(argv[i]);
	opt.bytes &= ~((1ull << 20) - 1); /* whole blocks */
	signal(SIGPIPE, SIG_IGN);
	return over_apart("loopback", "127.0.0.1", false) | over_apart("veth", "192.0.2.2", true);
}
