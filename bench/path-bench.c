// SPDX-License-Identifier: Apache-2.0
/* How fast blocks cross a path, by TCP over loopback or by RDMA, with nothing at either end:
 * two processes, a source that fills nothing and a sink that gives each block back at once. */
#include "transport/transport.h"
#ifdef HAVE_VERBS
#include "rdma/rdma.h"
#endif

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

struct options {
	uint64_t channels, block, inflight, warm_ms, ms, runs;
	uint8_t op;        /* of RDMA; 0: TCP */
	const char *addr;  /* of the RDMA device that the sink listens on */
	bool check;        /* CRC32C of each block at both ends, as `--prot clear` has it */
};

static struct options opt = { .channels = 4, .block = 1 << 20, .inflight = 8, .warm_ms = 500,
			      .ms = 3000, .runs = 1 };

static void die(const char *what, int code)
{
	fprintf(stderr, "path-bench: %s: %s\n", what, strerror(-code));
	exit(1);
}

static struct pool *new_pool(const struct pool_hooks *hooks)
{
	const struct pool_config c = { .blocks = (uint32_t)opt.inflight,
				       .payload = (uint32_t)opt.block, .pages = PAGES_AUTO,
				       .hooks = hooks };
	struct err e = ERR_INIT;
	struct pool *p = pool_new(&c, &e);

	if (!p)
		die(e.text, e.code);
	memset(pool_base(p), 0x5a, pool_bytes(p));
	return p;
}

static struct path_config path_config(bool source, struct pool *pool)
{
	return (struct path_config){ .source = source, .pool = pool,
				     .payload = (uint32_t)opt.block,
				     .inflight = (uint32_t)opt.inflight };
}

static struct path *new_path(bool source, struct pool *pool, const int *fds)
{
	const struct path_config c = path_config(source, pool);
	struct err e = ERR_INIT;
	struct path *p = tcp_path_new(&c, fds, (uint32_t)opt.channels, &e);

	if (!p)
		die(e.text, e.code);
	return p;
}

static int drink(struct path *p)
{
	struct path_event ev[64];
	uint32_t left = (uint32_t)opt.channels, sum = 0;

	while (left) {
		int i, n = p->ops->poll(p, ev, 64, -1);

		if (n < 0)
			die("sink", n);
		for (i = 0; i < n; i++) {
			if (ev[i].kind == PATH_DOWN) {
				left--;
				continue;
			}
			if (opt.check)
				sum += crypto_crc32c(0, block_payload(ev[i].block),
						     ev[i].block->len);
			p->ops->release(p, ev[i].block, 0);
		}
	}
	return sum == 1;
}

static void fill(struct block *b, uint64_t number)
{
	struct block_head h = { .extents = 1, .number = number };

	b->number = number;
	block_add(b, 1, number * opt.block, (uint32_t)opt.block);
	h.payload = b->len;
	if (opt.check)
		h.crc = crypto_crc32c(0, block_payload(b), b->len);
	block_head_put(b->base, &h);
	block_extent_put(b->base + BLOCK_WIRE_HEAD, 1, number * opt.block, b->len);
}

/* Keep the path full until end. Payload bytes acknowledged. */
static uint64_t pump(struct path *p, uint64_t *number, uint64_t end)
{
	struct path_event ev[64];
	struct block *b = NULL;
	uint64_t bytes = 0;
	bool more = true;

	while (more || pool_free_blocks(p->pool) < pool_blocks(p->pool) || b) {
		int i, n, r = 0;

		more = now_ns() < end;
		while (!r && (b || (more && (b = pool_try_get(p->pool))))) {
			if (!b->len)
				fill(b, (*number)++);
			r = p->ops->post(p, b);
			if (!r)
				b = NULL;
			else if (r != -EAGAIN)
				die("post", r);
		}
		if (!more && !b && pool_free_blocks(p->pool) == pool_blocks(p->pool))
			break;
		n = p->ops->poll(p, ev, 64, -1);
		if (n < 0)
			die("source", n);
		for (i = 0; i < n; i++) {
			if (ev[i].kind != PATH_ACKED)
				die("a channel went down", ev[i].error);
			bytes += ev[i].block->len;
			pool_put(ev[i].block);
		}
	}
	return bytes;
}

static void measure(struct path *p)
{
	uint64_t number = 0, begin, bytes, run;

	pump(p, &number, now_ns() + opt.warm_ms * 1000000);
	for (run = 0; run < opt.runs; run++) {
		begin = now_ns();
		bytes = pump(p, &number, begin + opt.ms * 1000000);
		printf("%.3f\n", (double)bytes / (double)(now_ns() - begin) * 8);
		fflush(stdout);
	}
	p->ops->finish(p, 5000);
}

/* ---- TCP ---- */

static void tcp_end(bool is_source, const int *fds)
{
	struct pool *pool = new_pool(NULL);
	struct path *p = new_path(is_source, pool, fds);
	int status = 0;

	if (is_source)
		measure(p);
	else
		status = drink(p);
	p->ops->free(p);
	pool_free(pool);
	if (!is_source)
		_exit(status);
}

static void make_channels(int *ours, int *theirs)
{
	struct err e = ERR_INIT;
	uint16_t port;
	int lfd = tcp_listen("127.0.0.1", AF_INET, 0, 0, &port, &e);
	uint64_t i;

	if (lfd < 0)
		die(e.text, e.code);
	for (i = 0; i < opt.channels; i++) {
		ours[i] = tcp_connect("127.0.0.1", port, -1, 5000, &e);
		theirs[i] = accept(lfd, NULL, NULL);
		if (ours[i] < 0 || theirs[i] < 0)
			die("connecting", ours[i] < 0 ? ours[i] : -errno);
	}
	close(lfd);
}

static void close_all(int *fds)
{
	uint64_t i;

	for (i = 0; i < opt.channels; i++)
		close(fds[i]);
}

/* ---- RDMA ---- */

#ifdef HAVE_VERBS
static void fill_address(struct sockaddr_storage *a, socklen_t *len, uint16_t port)
{
	struct sockaddr_in *in = (struct sockaddr_in *)a;
	struct sockaddr_in6 *in6 = (struct sockaddr_in6 *)a;

	memset(a, 0, sizeof(*a));
	if (inet_pton(AF_INET, opt.addr, &in->sin_addr) == 1) {
		in->sin_family = AF_INET;
		in->sin_port = htons(port);
		*len = sizeof(*in);
	} else if (inet_pton(AF_INET6, opt.addr, &in6->sin6_addr) == 1) {
		in6->sin6_family = AF_INET6;
		in6->sin6_port = htons(port);
		*len = sizeof(*in6);
	} else {
		die("addr=", -EINVAL);
	}
}

static void rdma_end(bool is_source, int to_source[2])
{
	const struct agreement agr = {
		.op = opt.op, .channels = (uint16_t)opt.channels, .block = (uint32_t)opt.block,
		.inflight = (uint32_t)opt.inflight, .source_blocks = (uint32_t)opt.inflight,
		.sink_blocks = (uint32_t)opt.inflight,
	};
	const struct channel_auth auth = { .session = 1 };
	const struct endpoint_config c = { .source = is_source, .agr = &agr, .auth = &auth,
					   .tos = -1 };
	struct err e = ERR_INIT;
	struct endpoint *ep = verbs_transport.endpoint(&c, &e);
	struct sockaddr_storage a;
	socklen_t len;
	uint16_t port = 0;
	struct path_config pc;
	struct pool *pool;
	struct path *p;
	int status = 0;

	if (!ep)
		die(e.text, e.code);
	fill_address(&a, &len, 0);
	if (!is_source) {
		if (ep->ops->listen(ep, &a, 0, 0, &port, &e))
			die(e.text, e.code);
		pool = new_pool(ep->ops->hooks(ep));
		if (write(to_source[1], &port, sizeof(port)) != sizeof(port))
			die("pipe", -errno);
	} else {
		if (read(to_source[0], &port, sizeof(port)) != sizeof(port))
			die("the sink went away", -EPIPE);
		fill_address(&a, &len, port);
		if (ep->ops->resolve(ep, &a, len, -1, 5000, &e))
			die(e.text, e.code);
		pool = new_pool(ep->ops->hooks(ep));
	}
	pc = path_config(is_source, pool);
	p = ep->ops->open(ep, &pc, -1, 10000, &e);
	if (!p)
		die(e.text, e.code);
	if (is_source)
		measure(p);
	else
		status = drink(p);
	p->ops->free(p);
	pool_free(pool);
	ep->ops->free(ep);
	if (!is_source)
		_exit(status);
}
#else
static void rdma_end(bool is_source, int to_source[2])
{
	die("built without libibverbs", -ENOSYS);
}
#endif

static void set_option(const char *word)
{
	static const struct {
		const char *name;
		uint64_t *to;
	} sizes[] = {
		{ "channels=", &opt.channels }, { "block=", &opt.block },
		{ "inflight=", &opt.inflight }, { "warm-ms=", &opt.warm_ms },
		{ "ms=", &opt.ms }, { "runs=", &opt.runs },
	};
	size_t i;

	for (i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		size_t n = strlen(sizes[i].name);

		if (strncmp(word, sizes[i].name, n) == 0 && !parse_size(word + n, sizes[i].to))
			return;
	}
	if (strcmp(word, "crc") == 0) {
		opt.check = true;
		return;
	}
	if (strcmp(word, "write") == 0 || strcmp(word, "read") == 0) {
		opt.op = word[0] == 'w' ? OP_WRITE : OP_READ;
		return;
	}
	if (strncmp(word, "addr=", 5) == 0) {
		opt.addr = word + 5;
		return;
	}
	fprintf(stderr, "usage: path-bench [channels=4] [block=1M] [inflight=8] [warm-ms=500] "
		"[ms=3000] [runs=1] [crc] [write|read addr=A]\nPrints Gbit/s of each run.\n");
	exit(2);
}

int main(int argc, char **argv)
{
	int ours[CHANNELS_MAX], theirs[CHANNELS_MAX], status = 0;
	pid_t child;
	int i;

	for (i = 1; i < argc; i++)
		set_option(argv[i]);
	if (!opt.channels || opt.channels > CHANNELS_MAX)
		set_option("channels");
	log_init("path-bench", getenv("DEBUG") ? LOG_LV_DEBUG : LOG_LV_INFO, false);
	signal(SIGPIPE, SIG_IGN);
	if (opt.op && !opt.addr)
		set_option("addr");
	if (opt.op ? pipe(ours) : (make_channels(ours, theirs), 0))
		die("pipe", -errno);
	fflush(NULL);
	child = fork(); /* before any call of verbs */
	if (child < 0)
		die("fork", -errno);
	if (opt.op) {
		rdma_end(child, ours);
	} else {
		close_all(child ? theirs : ours);
		tcp_end(child, child ? ours : theirs);
	}
	waitpid(child, &status, 0);
	return status != 0;
}
