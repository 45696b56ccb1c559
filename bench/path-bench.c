// SPDX-License-Identifier: Apache-2.0
/* How fast blocks cross a TCP path over loopback, with nothing at either end: two
 * processes, a source that fills nothing and a sink that gives each block back at once. */
#include "transport/transport.h"

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
	bool check;        /* CRC32C of each block at both ends, as `--prot clear` has it */
};

static struct options opt = { .channels = 4, .block = 1 << 20, .inflight = 8, .warm_ms = 500,
			      .ms = 3000, .runs = 1 };

static void die(const char *what, int code)
{
	fprintf(stderr, "path-bench: %s: %s\n", what, strerror(-code));
	exit(1);
}

static struct pool *new_pool(void)
{
	const struct pool_config c = { .blocks = (uint32_t)opt.inflight,
				       .payload = (uint32_t)opt.block, .hugepages = true };
	struct err e = ERR_INIT;
	struct pool *p = pool_new(&c, &e);

	if (!p)
		die(e.text, e.code);
	memset(pool_base(p), 0x5a, pool_bytes(p));
	return p;
}

static struct path *new_path(bool source, struct pool *pool, const int *fds)
{
	const struct path_config c = { .source = source, .pool = pool,
				       .payload = (uint32_t)opt.block,
				       .inflight = (uint32_t)opt.inflight };
	struct err e = ERR_INIT;
	struct path *p = tcp_path_new(&c, fds, (uint32_t)opt.channels, &e);

	if (!p)
		die(e.text, e.code);
	return p;
}

static void sink(const int *fds)
{
	struct pool *pool = new_pool();
	struct path *p = new_path(false, pool, fds);
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
	p->ops->free(p);
	pool_free(pool);
	_exit(sum == 1);
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

static void source(const int *fds)
{
	struct pool *pool = new_pool();
	struct path *p = new_path(true, pool, fds);
	uint64_t number = 0, begin, bytes, run;

	pump(p, &number, now_ns() + opt.warm_ms * 1000000);
	for (run = 0; run < opt.runs; run++) {
		begin = now_ns();
		bytes = pump(p, &number, begin + opt.ms * 1000000);
		printf("%.3f\n", (double)bytes / (double)(now_ns() - begin) * 8);
		fflush(stdout);
	}
	p->ops->finish(p, 5000);
	p->ops->free(p);
	pool_free(pool);
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
		ours[i] = tcp_connect("127.0.0.1", port, 5000, &e);
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
	fprintf(stderr, "usage: path-bench [channels=4] [block=1M] [inflight=8] [warm-ms=500] "
		"[ms=3000] [runs=1] [crc]\nPrints Gbit/s of each run.\n");
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
	signal(SIGPIPE, SIG_IGN);
	make_channels(ours, theirs);
	child = fork();
	if (child < 0)
		die("fork", -errno);
	if (child == 0) {
		close_all(ours);
		sink(theirs);
	}
	close_all(theirs);
	source(ours);
	waitpid(child, &status, 0);
	return status != 0;
}
