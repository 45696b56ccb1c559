// SPDX-License-Identifier: Apache-2.0
/* A TCP path between two threads, and each end of it against a peer that the test plays. */
#include "tests/support/block.h"
#include "transport/credit.h"
#include "transport/tcp.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define PAYLOAD BLOCK_MIN
#define CHANNELS 3u
#define INFLIGHT 7u

static void tcp_pair(int fds[2])
{
	uint16_t port;
	int lfd = tcp_listen("127.0.0.1", AF_INET, 0, 0, &port, NULL);

	fds[0] = tcp_connect("127.0.0.1", port, -1, 5000, NULL);
	fds[1] = accept(lfd, NULL, NULL);
	assert_true(fds[0] >= 0 && fds[1] >= 0);
	close(lfd);
}

/* Of three connections the first has a small send buffer, so that every write is cut short; the
 * last is a TCP connection. */
static void make_sockets(int *ours, int *theirs, uint32_t n)
{
	int fds[2], small = 4096;
	uint32_t i;

	for (i = 0; i < n; i++) {
		if (i == 2)
			tcp_pair(fds);
		else
			assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, fds), 0);
		if (n > 1 && i == 0)
			assert_int_equal(setsockopt(fds[0], SOL_SOCKET, SO_SNDBUF, &small,
						    sizeof(small)), 0);
		ours[i] = fds[0];
		theirs[i] = fds[1];
	}
}

static struct path *make_path(bool source, struct pool *pool, const int *fds, uint32_t n,
			      uint32_t inflight)
{
	const struct path_config c = { .source = source, .pool = pool, .payload = PAYLOAD,
				       .inflight = inflight };
	struct err e = ERR_INIT;
	struct path *p = tcp_path_new(&c, fds, n, &e);

	assert_non_null(p);
	return p;
}

/* ---- blocks with content computed from their number ---- */

static uint32_t mix(uint64_t x)
{
	x = (x ^ (x >> 31)) * 0x9e3779b97f4a7c15u;
	return (uint32_t)(x >> 32);
}

static uint32_t want_extents(uint64_t number)
{
	return number % 11 == 0 ? 0 : number % 7 == 0 ? BLOCK_EXTENTS : 1 + mix(number) % 9;
}

static uint32_t want_length(uint64_t number, uint32_t extent)
{
	uint32_t n = want_extents(number);

	if (n == 1 && number % 5 == 0)
		return PAYLOAD;
	return mix(number * 1000 + extent) % (PAYLOAD / n + 1);
}

static void fill(struct block *b, uint64_t number)
{
	uint32_t i, n = want_extents(number);

	hand_block(b, number);
	for (i = 0; i < n; i++)
		hand_block_add(b, number, i, (uint8_t)mix(number + i), want_length(number, i));
	hand_block_end(b, 0);
}

/* Returns NULL, or the wrong part of a received block. */
static const char *check(const struct block *b)
{
	struct block_head h;
	uint32_t i, k, pos = 0;

	if (block_head_get(b->base, PAYLOAD, &h) < 0 || h.number != b->number)
		return "head";
	if (h.extents != want_extents(b->number) || h.payload != b->len)
		return "extents";
	for (i = 0; i < h.extents; i++) {
		uint64_t file, offset;
		uint32_t len;

		block_extent_get(b->base + BLOCK_WIRE_HEAD + i * BLOCK_WIRE_EXTENT, &file, &offset,
				 &len);
		if (file != b->number || offset != i || len != want_length(b->number, i))
			return "table";
		for (k = 0; k < len; k++)
			if (block_payload(b)[pos + k] != (uint8_t)mix(b->number + i))
				return "payload";
		pos += len;
	}
	return pos == b->len ? NULL : "length";
}

/* ---- a sink in its own thread ---- */

struct sink {
	struct path *path;
	struct pool *pool;
	pthread_t thread, releaser;
	bool late;               /* a second thread releases, in another order */
	struct bq *q;
	uint64_t numbers;
	unsigned *seen;          /* how often each number arrived */
	uint64_t refuse;         /* refuse every n-th block once; 0: none */
	uint64_t cut_after;      /* number of blocks after which cut_fd is shut down */
	int cut_fd;
	const char *wrong;
	uint32_t downs;
	int down_error;
};

static void sink_release(struct sink *s, struct block *b)
{
	bool refuse = s->refuse && b->number % s->refuse == 0 && s->seen[b->number] == 1;

	s->path->ops->release(s->path, b, refuse ? EBADMSG : 0);
}

/* Releases up to five blocks at a time, the last one first. */
static void *releaser_main(void *arg)
{
	struct sink *s = arg;
	struct block *held[5];
	int n = 0, r;

	for (;;) {
		r = n ? bq_try_pop(s->q, &held[n]) : bq_pop(s->q, &held[n]);
		if (r == 0 && ++n < 5)
			continue;
		while (n)
			sink_release(s, held[--n]);
		if (r == 1)
			return NULL;
	}
}

static void sink_block(struct sink *s, struct block *b)
{
	const char *wrong = check(b);

	if (wrong || b->number >= s->numbers) {
		s->wrong = wrong ? wrong : "number";
		s->path->ops->release(s->path, b, 0);
		return;
	}
	s->seen[b->number]++;
	if (s->cut_after && --s->cut_after == 0)
		shutdown(s->cut_fd, SHUT_RDWR);
	if (!s->late || bq_push(s->q, b) < 0)
		sink_release(s, b);
}

static void *sink_main(void *arg)
{
	struct sink *s = arg;
	struct path_event ev[4];

	while (s->downs < s->path->nchannels) {
		int i, n = s->path->ops->poll(s->path, ev, 4, -1);

		if (n < 0) {
			s->wrong = "poll";
			break;
		}
		for (i = 0; i < n; i++) {
			if (ev[i].kind == PATH_DOWN) {
				s->downs++;
				if (ev[i].error)
					s->down_error = ev[i].error;
			} else {
				sink_block(s, ev[i].block);
			}
		}
	}
	return NULL;
}

static void sink_start(struct sink *s, const int *fds, uint64_t numbers)
{
	s->pool = make_pool(INFLIGHT, PAYLOAD);
	s->path = make_path(false, s->pool, fds, CHANNELS, INFLIGHT);
	s->numbers = numbers;
	s->seen = calloc(numbers, sizeof(*s->seen));
	s->q = bq_new();
	assert_int_equal(thread_start(&s->thread, "sink", sink_main, s), 0);
	if (s->late)
		assert_int_equal(thread_start(&s->releaser, "releaser", releaser_main, s), 0);
}

static void sink_join(struct sink *s)
{
	pthread_join(s->thread, NULL);
}

static void sink_free(struct sink *s)
{
	bq_close(s->q, 0);
	if (s->late)
		pthread_join(s->releaser, NULL);
	if (s->wrong)
		fail_msg("sink: %s", s->wrong);
	s->path->ops->free(s->path);
	assert_int_equal(pool_free_blocks(s->pool), INFLIGHT);
	pool_free(s->pool);
	bq_free(s->q);
	free(s->seen);
}

/* ---- a source ---- */

struct source {
	struct path *path;
	struct pool *pool;
	uint64_t next, numbers, acked, returned, unacked, most;
	struct block *again;     /* returned blocks, posted again first */
	uint32_t downs;
};

static struct block *next_to_post(struct source *s)
{
	struct block *b = s->again;

	if (b) {
		s->again = b->next;
		return b;
	}
	if (s->next == s->numbers)
		return NULL;
	b = pool_try_get(s->pool);
	if (b)
		fill(b, s->next++);
	return b;
}

static void source_event(struct source *s, const struct path_event *ev)
{
	if (ev->kind == PATH_DOWN) {
		s->downs++;
		return;
	}
	s->unacked--;
	if (ev->kind == PATH_ACKED) {
		s->acked++;
		pool_put(ev->block);
		return;
	}
	assert_int_equal(ev->kind, PATH_RETURNED);
	s->returned++;
	ev->block->next = s->again;
	s->again = ev->block;
}

/* Sends all numbers until all are acknowledged, or the path is dead. */
static void source_run(struct source *s, uint64_t numbers)
{
	struct path_event ev[3];

	s->numbers = numbers;
	while (s->acked < numbers && s->downs < s->path->nchannels) {
		struct block *b;
		int i, n;

		while ((b = next_to_post(s))) {
			int r = s->path->ops->post(s->path, b);

			if (r == -EAGAIN || r == -EPIPE) {
				b->next = s->again;
				s->again = b;
				break;
			}
			assert_int_equal(r, 0);
			if (++s->unacked > s->most)
				s->most = s->unacked;
		}
		n = s->path->ops->poll(s->path, ev, 3, -1);
		assert_true(n >= 0);
		for (i = 0; i < n; i++)
			source_event(s, &ev[i]);
	}
}

static void source_free(struct source *s)
{
	uint32_t all = pool_blocks(s->pool);

	while (s->again)
		pool_put(next_to_post(s));
	s->path->ops->free(s->path);
	assert_int_equal(pool_free_blocks(s->pool), all);
	pool_free(s->pool);
}

/* The pool is larger than the credits, so post must refuse at times. */
static void source_init(struct source *s, const int *fds, uint32_t n)
{
	memset(s, 0, sizeof(*s));
	s->pool = make_pool(INFLIGHT + 5, PAYLOAD);
	s->path = make_path(true, s->pool, fds, n, INFLIGHT);
}

/* ---- whole paths ---- */

#define NUMBERS 3000u

static void whole_path(struct sink *sink, uint64_t *returned)
{
	int ours[CHANNELS], theirs[CHANNELS];
	struct source source;
	uint64_t bytes = 0;
	uint32_t i;

	make_sockets(ours, theirs, CHANNELS);
	source_init(&source, ours, CHANNELS);
	sink_start(sink, theirs, NUMBERS);
	source_run(&source, NUMBERS);
	assert_int_equal(source.acked, NUMBERS);
	assert_int_equal(source.most, INFLIGHT);
	assert_int_equal(source.path->ops->finish(source.path, 5000), 0);
	sink_join(sink);
	for (i = 0; i < NUMBERS; i++)
		assert_int_equal(sink->seen[i],
				 sink->refuse && i % sink->refuse == 0 ? 2 : 1);
	for (i = 0; i < CHANNELS; i++) {
		/* All channels carried a share. */
		assert_true(source.path->channel_bytes[i] > 0);
		bytes += source.path->channel_bytes[i] - sink->path->channel_bytes[i];
	}
	assert_int_equal(bytes, 0);
	assert_int_equal(sink->down_error, 0);
	*returned = source.returned;
	source_free(&source);
	sink_free(sink);
}

static void test_all_arrive(void **state)
{
	struct sink sink = { 0 };
	uint64_t returned;

	(void)state;
	whole_path(&sink, &returned);
	assert_int_equal(returned, 0);
}

static void test_late_release(void **state)
{
	struct sink sink = { .late = true };
	uint64_t returned;

	(void)state;
	whole_path(&sink, &returned);
	assert_int_equal(returned, 0);
}

/* Refused blocks come back with the sink's reason, and the source sends them again. */
static void test_refused(void **state)
{
	struct sink sink = { .refuse = 10, .late = true };
	uint64_t returned;

	(void)state;
	whole_path(&sink, &returned);
	assert_int_equal(returned, NUMBERS / 10);
}

/* A channel dies during the transfer: its unacknowledged blocks go over the other channels, and may
 * arrive twice. */
static void channel_dies(bool late)
{
	int ours[CHANNELS], theirs[CHANNELS];
	struct sink sink = { .late = late, .cut_after = 500 };
	struct source source;
	uint32_t i;

	make_sockets(ours, theirs, CHANNELS);
	sink.cut_fd = dup(theirs[1]);
	source_init(&source, ours, CHANNELS);
	sink_start(&sink, theirs, NUMBERS);
	source_run(&source, NUMBERS);
	assert_int_equal(source.acked, NUMBERS);
	assert_int_equal(source.downs, 1);
	assert_int_equal(source.path->alive, CHANNELS - 1);
	assert_int_equal(source.path->ops->finish(source.path, 5000), 0);
	source_free(&source);
	sink_join(&sink);
	for (i = 0; i < NUMBERS; i++)
		assert_in_range(sink.seen[i], 1, 2);
	sink_free(&sink);
	close(sink.cut_fd);
}

static void test_channel_dies(void **state)
{
	(void)state;
	channel_dies(false);
	channel_dies(true);
}

/* ---- a source against a phony sink ---- */

static void read_bytes(int fd, void *p, size_t len)
{
	assert_int_equal(read_full(fd, p, len), len);
}

static void take_block(int fd, struct block_head *h)
{
	static uint8_t bytes[BLOCK_HEAD + PAYLOAD];

	read_bytes(fd, bytes, BLOCK_WIRE_HEAD);
	assert_int_equal(block_head_get(bytes, PAYLOAD, h), 0);
	read_bytes(fd, bytes, (size_t)h->extents * BLOCK_WIRE_EXTENT + h->payload);
}

/* Makes the next credit list of a sink's only channel, with the message counter of m. Returns its
 * length in bytes. */
static size_t make_list(struct messages *m, uint8_t *list, const struct credit *c, uint32_t n)
{
	size_t size;

	assert_int_equal(credit_list_put(m, list, c, n, &size), 0);
	return size;
}

static void send_credit(int fd, struct messages *m, uint64_t number, uint32_t status)
{
	const struct credit c = { .number = number, .status = status };
	uint8_t list[CREDIT_LIST_BYTES];

	assert_int_equal(write_full(fd, list, make_list(m, list, &c, 1)), 0);
}

/* Posts one block and flushes it. */
static struct block *post_one(struct source *s, uint64_t number)
{
	struct block *b = pool_try_get(s->pool);
	struct path_event ev;

	fill(b, number);
	assert_int_equal(s->path->ops->post(s->path, b), 0);
	assert_int_equal(s->path->ops->poll(s->path, &ev, 1, 0), 0);
	return b;
}

static struct path_event one_event(struct path *p)
{
	struct path_event ev = { .error = -1 };

	assert_int_equal(p->ops->poll(p, &ev, 1, 5000), 1);
	return ev;
}

static void expect_down(struct path *p, int error)
{
	struct path_event ev = one_event(p);

	assert_int_equal(ev.kind, PATH_DOWN);
	assert_int_equal(ev.error, error);
}

static void test_sink_answers(void **state)
{
	int ours[1], theirs[1];
	struct source s;
	struct block_head h;
	struct path_event ev;
	struct block *b;
	struct messages m = { 0 };

	(void)state;
	make_sockets(ours, theirs, 1);
	source_init(&s, ours, 1);
	b = post_one(&s, 4);
	take_block(theirs[0], &h);
	assert_int_equal(h.number, 4);
	send_credit(theirs[0], &m, 4, ENOSPC);
	ev = one_event(s.path);
	assert_int_equal(ev.kind, PATH_RETURNED);
	assert_int_equal(ev.status, ENOSPC);
	assert_ptr_equal(ev.block, b);
	pool_put(b);
	/* The credit list arrives byte by byte. */
	b = post_one(&s, 5);
	take_block(theirs[0], &h);
	{
		const struct credit c = { .number = 5 };
		uint8_t list[CREDIT_LIST_BYTES];
		size_t i, len = make_list(&m, list, &c, 1);

		for (i = 0; i < len; i++) {
			assert_int_equal(s.path->ops->poll(s.path, &ev, 1, 0), 0);
			assert_int_equal(write_full(theirs[0], list + i, 1), 0);
		}
	}
	ev = one_event(s.path);
	assert_int_equal(ev.kind, PATH_ACKED);
	assert_ptr_equal(ev.block, b);
	pool_put(b);
	/* The sink closes the channel in good order. */
	close(theirs[0]);
	expect_down(s.path, 0);
	b = pool_try_get(s.pool);
	fill(b, 6);
	assert_int_equal(s.path->ops->post(s.path, b), -EPIPE);
	pool_put(b);
	source_free(&s);
}

/* Many credits at once with little room for events: each is reported once. */
static void test_answers_need_no_room(void **state)
{
	int ours[1], theirs[1];
	struct credit c[INFLIGHT];
	uint8_t list[CREDIT_LIST_BYTES];
	struct messages m = { 0 };
	struct source s;
	struct block_head h;
	uint32_t i;

	(void)state;
	make_sockets(ours, theirs, 1);
	source_init(&s, ours, 1);
	for (i = 0; i < INFLIGHT; i++) {
		post_one(&s, i);
		take_block(theirs[0], &h);
		c[i] = (struct credit){ .number = i };
	}
	assert_int_equal(write_full(theirs[0], list, make_list(&m, list, c, 3)), 0);
	assert_int_equal(write_full(theirs[0], list, make_list(&m, list, c + 3, INFLIGHT - 3)),
			 0);
	for (i = 0; i < INFLIGHT; i++) {
		struct path_event ev = one_event(s.path);

		assert_int_equal(ev.kind, PATH_ACKED);
		assert_int_equal(ev.block->number, i);
		pool_put(ev.block);
	}
	close(theirs[0]);
	expect_down(s.path, 0);
	source_free(&s);
}

/* Bytes from a broken or hostile sink, after it received one block (number 4). */
static void bad_answer(const void *bytes, size_t len, int error)
{
	int ours[1], theirs[1];
	struct source s;
	struct block_head h;
	struct path_event ev;

	make_sockets(ours, theirs, 1);
	source_init(&s, ours, 1);
	post_one(&s, 4);
	take_block(theirs[0], &h);
	assert_int_equal(write_full(theirs[0], bytes, len), 0);
	close(theirs[0]);
	ev = one_event(s.path);
	assert_int_equal(ev.kind, PATH_RETURNED);
	assert_int_equal(ev.status, 0);
	assert_int_equal(ev.block->number, 4);
	pool_put(ev.block);
	expect_down(s.path, error);
	assert_int_equal(s.path->alive, 0);
	source_free(&s);
}

static void test_bad_answers(void **state)
{
	const struct credit other = { .number = 5 };
	struct messages m = { 0 };
	uint8_t list[CREDIT_LIST_BYTES];
	size_t len;

	(void)state;
	bad_answer("", 0, -ECONNRESET);
	bad_answer("RFTC\0\0", 6, -ECONNRESET);
	bad_answer("RFTX\0\0\0\0\0\0\0\0\0\0\0\0", 16, -EBADMSG);
	bad_answer("RFTC\0\0\1\1\0\0\0\0\0\0\0\0", 16, -EBADMSG);
	len = make_list(&m, list, &other, 1);
	bad_answer(list, len, -EPROTO);
}

/* A sink that sends no credit: in turn 0 silently; in turn 1 while it reports that its writers hold
 * the block, which extends the time; in turn 2 it gives the channel up; in turn 3 it keeps
 * reporting, which does not extend the time for ever. */
static void test_no_answer(void **state)
{
	struct source s;
	struct block_head h;
	struct path_event ev;
	int ours[2], theirs[2];

	(void)state;
	alarm(60);
	for (int turn = 0; turn < 4; turn++) {
		uint64_t begin;

		make_sockets(ours, theirs, 1);
		source_init(&s, ours, 1);
		s.path->watch.limit_ns = turn == 3 ? 5000000 : 200000000;
		assert_int_equal(s.path->ops->poll(s.path, &ev, 1, 500), 0); /* nothing in flight */
		post_one(&s, 4);
		take_block(theirs[0], &h);
		begin = now_ns();
		if (turn == 1) {
			path_report(s.path, 0, 100, 1);
			assert_int_equal(s.path->ops->poll(s.path, &ev, 1, 1000), 0);
			path_report(s.path, 0, 100, 0);
		} else if (turn == 2) {
			path_lose(s.path, 0);
		} else if (turn == 3) {
			path_report(s.path, 0, 100, 1);
		}
		ev = one_event(s.path);
		assert_int_equal(ev.kind, PATH_RETURNED);
		pool_put(ev.block);
		expect_down(s.path, turn == 2 ? CHANNEL_GIVEN_UP : -ETIMEDOUT);
		if (turn == 1 || turn == 3)
			assert_true(now_ns() - begin > 500000000);
		close(theirs[0]);
		source_free(&s);
	}
	alarm(0);
}

/* A channel that is given up must not look like one closed in good order, even when neither side
 * owes the other anything: the peer must learn that the channel is lost. */
static void test_given_up_is_told(void **state)
{
	struct block_head h;
	struct path_event ev;
	struct source s;
	int fds[2];
	char c;

	(void)state;
	tcp_pair(fds);
	source_init(&s, &fds[0], 1);
	post_one(&s, 4);
	take_block(fds[1], &h);
	send_credit(fds[1], &(struct messages){ 0 }, 4, 0);
	ev = one_event(s.path);
	assert_int_equal(ev.kind, PATH_ACKED);
	pool_put(ev.block);
	assert_int_equal(write_full(fds[1], "RFTX\0\0\0\0\0\0\0\0\0\0\0\0", 16), 0);
	expect_down(s.path, -EBADMSG);
	assert_int_equal(recv(fds[1], &c, 1, 0), -1);
	assert_int_equal(errno, ECONNRESET);
	close(fds[1]);
	source_free(&s);
}

/* A credit for a block that is still being sent: accepting it would free memory that the kernel
 * still reads. */
static void test_early_answer(void **state)
{
	int ours[1], theirs[1], small = 4096;
	struct source s;
	struct path_event ev;

	(void)state;
	make_sockets(ours, theirs, 1);
	assert_int_equal(setsockopt(ours[0], SOL_SOCKET, SO_SNDBUF, &small, sizeof(small)), 0);
	source_init(&s, ours, 1);
	post_one(&s, 5); /* PAYLOAD bytes, more than the socket takes at once */
	send_credit(theirs[0], &(struct messages){ 0 }, 5, 0);
	ev = one_event(s.path);
	assert_int_equal(ev.kind, PATH_RETURNED);
	pool_put(ev.block);
	expect_down(s.path, -EPROTO);
	close(theirs[0]);
	source_free(&s);
}

static void *read_late(void *arg)
{
	struct block_head h;
	int i;

	usleep(30000);
	for (i = 0; i < 3; i++)
		take_block(*(int *)arg, &h);
	return NULL;
}

/* Credits are left but the socket is full: poll returns as soon as the socket takes bytes. */
static void test_room_without_answers(void **state)
{
	int ours[1], theirs[1], small = 4096, r;
	struct path_event ev;
	struct block *b = NULL;
	struct source s;
	pthread_t t;

	(void)state;
	make_sockets(ours, theirs, 1);
	assert_int_equal(setsockopt(ours[0], SOL_SOCKET, SO_SNDBUF, &small, sizeof(small)), 0);
	source_init(&s, ours, 1);
	do {
		b = pool_try_get(s.pool);
		fill(b, 155 + 35 * s.next++); /* none of them is small */
		r = s.path->ops->post(s.path, b);
		assert_int_equal(s.path->ops->poll(s.path, &ev, 1, 0), 0);
	} while (!r);
	assert_int_equal(r, -EAGAIN);
	assert_true(s.next < INFLIGHT);
	assert_int_equal(thread_start(&t, "reader", read_late, &theirs[0]), 0);
	assert_int_equal(s.path->ops->poll(s.path, &ev, 1, -1), 0);
	assert_int_equal(s.path->ops->post(s.path, b), 0);
	while (s.path->ops->poll(s.path, &ev, 1, 100))
		;
	pthread_join(t, NULL);
	close(theirs[0]);
	source_free(&s);
}

/* A head that does not match its block would desynchronize the stream. */
static void test_bad_post(void **state)
{
	int ours[1], theirs[1];
	struct source s;
	struct block *b;

	(void)state;
	make_sockets(ours, theirs, 1);
	source_init(&s, ours, 1);
	b = pool_try_get(s.pool);
	fill(b, 5);
	b->len--;
	assert_int_equal(s.path->ops->post(s.path, b), -EINVAL);
	fill(b, 5);
	b->number = 6;
	assert_int_equal(s.path->ops->post(s.path, b), -EINVAL);
	pool_put(b);
	close(theirs[0]);
	source_free(&s);
}

/* ---- a sink against a phony source ---- */

struct phony {
	struct path *path;
	struct pool *pool, *own;
	int fd;
	struct messages lists;       /* the sink's, not encrypted */
};

static void phony_init(struct phony *p, uint32_t inflight, uint32_t blocks)
{
	int ours[1], theirs[1];

	make_sockets(ours, theirs, 1);
	p->fd = ours[0];
	p->lists = (struct messages){ 0 };
	p->pool = make_pool(blocks, PAYLOAD);
	p->own = make_pool(1, PAYLOAD);
	p->path = make_path(false, p->pool, theirs, 1, inflight);
}

static void phony_free(struct phony *p)
{
	uint32_t all = pool_blocks(p->pool);

	if (p->fd >= 0)
		close(p->fd);
	p->path->ops->free(p->path);
	assert_int_equal(pool_free_blocks(p->pool), all);
	pool_free(p->pool);
	pool_free(p->own);
}

static void send_block(struct phony *p, uint64_t number)
{
	struct block *b = pool_try_get(p->own);

	fill(b, number);
	assert_int_equal(write_full(p->fd, b->base, BLOCK_WIRE_HEAD +
				    b->nextents * BLOCK_WIRE_EXTENT), 0);
	assert_int_equal(write_full(p->fd, block_payload(b), b->len), 0);
	pool_put(b);
}

static struct block *expect_block(struct phony *p, uint64_t number)
{
	struct path_event ev = one_event(p->path);

	assert_int_equal(ev.kind, PATH_RECEIVED);
	assert_int_equal(ev.block->number, number);
	assert_null(check(ev.block));
	return ev.block;
}

static void expect_credit(struct phony *p, uint64_t number, uint32_t status)
{
	uint8_t list[MESSAGE_HEAD + CREDIT_BYTES + MESSAGE_TAG];
	struct credit c;
	struct path_event ev;
	uint32_t n;

	assert_int_equal(p->path->ops->poll(p->path, &ev, 1, 0), 0);
	read_bytes(p->fd, list, sizeof(list));
	assert_int_equal(message_check(&p->lists, list, sizeof(list), CREDIT_MAGIC, CREDIT_BYTES,
				       CREDITS_MAX, &n), 0);
	assert_int_equal(n, 1);
	credit_list_at(list, 0, &c);
	assert_int_equal(c.number, number);
	assert_int_equal(c.status, status);
}

static void test_credit_rule(void **state)
{
	struct phony p;
	struct block *b, *held[2];

	(void)state;
	phony_init(&p, 2, 4);
	send_block(&p, 11); /* without extents or payload */
	b = expect_block(&p, 11);
	assert_int_equal(b->len, 0);
	p.path->ops->release(p.path, b, 0);
	expect_credit(&p, 11, 0);
	/* Two blocks in flight are allowed, again and again ... */
	send_block(&p, 1);
	held[0] = expect_block(&p, 1);
	send_block(&p, 2);
	held[1] = expect_block(&p, 2);
	p.path->ops->release(p.path, held[0], 0);
	expect_credit(&p, 1, 0);
	p.path->ops->release(p.path, held[1], EBADMSG);
	expect_credit(&p, 2, EBADMSG);
	send_block(&p, 3);
	held[0] = expect_block(&p, 3);
	send_block(&p, 4);
	held[1] = expect_block(&p, 4);
	/* ... but not three, although a buffer is free. */
	send_block(&p, 5);
	expect_down(p.path, -EPROTO);
	/* The writer still releases its blocks after that. */
	p.path->ops->release(p.path, held[0], 0);
	p.path->ops->release(p.path, held[1], 0);
	phony_free(&p);
}

/* A refused block takes its channel down, even while another thread sleeps in poll, and the path
 * sends no credit for it. */
static void *refuse_soon(void *arg)
{
	struct block *b = arg;
	struct path *path = b->user;

	usleep(50000);
	path->ops->refuse(path, b);
	return NULL;
}

static void test_refused_block(void **state)
{
	struct phony p;
	struct block *b;
	pthread_t t;
	char byte;

	(void)state;
	phony_init(&p, 2, 2);
	send_block(&p, 5);
	b = expect_block(&p, 5);
	b->number = 6;           /* as with a damaged head */
	b->user = p.path;
	assert_int_equal(thread_start(&t, "refuse", refuse_soon, b), 0);
	expect_down(p.path, -EBADMSG);
	pthread_join(t, NULL);
	assert_int_equal(read(p.fd, &byte, 1), 0);
	assert_int_equal(pool_free_blocks(p.pool), 2);
	phony_free(&p);
}

/* No buffer is free although the source keeps to its credits: the path waits, and continues by
 * itself when a buffer is released. */
static void *release_soon(void *arg)
{
	struct block *b = arg;

	usleep(50000);
	pool_put(b);
	return NULL;
}

static void test_waits_for_buffer(void **state)
{
	struct block *other, *b;
	struct phony p;
	struct path_event ev;
	pthread_t t;

	(void)state;
	phony_init(&p, 2, 2);
	other = pool_try_get(p.pool);
	send_block(&p, 5);
	b = expect_block(&p, 5);
	send_block(&p, 6);
	assert_int_equal(p.path->ops->poll(p.path, &ev, 1, 50), 0);
	p.path->ops->release(p.path, b, 0);
	b = expect_block(&p, 6);
	assert_int_equal(thread_start(&t, "late", release_soon, other), 0);
	p.path->ops->release(p.path, b, 0);
	pthread_join(t, NULL);
	phony_free(&p);
}

static void bad_stream(const void *bytes, size_t len, int error)
{
	struct phony p;

	phony_init(&p, 2, 2);
	assert_int_equal(write_full(p.fd, bytes, len), 0);
	close(p.fd);
	p.fd = -1;
	expect_down(p.path, error);
	assert_int_equal(p.path->alive, 0);
	phony_free(&p);
}

static void test_bad_streams(void **state)
{
	struct block_head h = { .number = 1, .extents = 1, .payload = 100 };
	uint8_t head[BLOCK_WIRE_HEAD + 200] = { 0 };

	(void)state;
	block_head_put(head, &h);
	bad_stream(head, 0, 0);
	bad_stream(head, 63, -ECONNRESET);
	bad_stream(head, 64, -ECONNRESET);
	bad_stream(head, 64 + 20 + 99, -ECONNRESET);
	memset(head, 'G', sizeof(head));
	bad_stream(head, 64, -EBADMSG);
	h.payload = PAYLOAD + 1;
	block_head_put(head, &h);
	bad_stream(head, 64, -EBADMSG);
	h = (struct block_head){ .extents = BLOCK_EXTENTS + 1 };
	block_head_put(head, &h);
	bad_stream(head, 64, -EBADMSG);
}

/* All bytes arrive one at a time. */
static void test_dribble(void **state)
{
	uint8_t bytes[BLOCK_WIRE_HEAD + 3 * BLOCK_WIRE_EXTENT + 10];
	struct block_head h = { .number = 77, .extents = 3, .payload = 10 };
	struct path_event ev;
	struct phony p;
	int round;
	size_t i;

	(void)state;
	phony_init(&p, 1, 1);
	for (i = 0; i < sizeof(bytes); i++)
		bytes[i] = (uint8_t)i;
	block_head_put(bytes, &h);
	for (round = 0; round < 2; round++) {
		for (i = 0; i < sizeof(bytes); i++) {
			assert_int_equal(p.path->ops->poll(p.path, &ev, 1, 0), 0);
			assert_int_equal(write_full(p.fd, bytes + i, 1), 0);
		}
		ev = one_event(p.path);
		assert_int_equal(ev.kind, PATH_RECEIVED);
		assert_memory_equal(ev.block->base, bytes, sizeof(bytes) - 10);
		assert_memory_equal(block_payload(ev.block), bytes + sizeof(bytes) - 10, 10);
		p.path->ops->release(p.path, ev.block, 0);
		expect_credit(&p, 77, 0);
	}
	phony_free(&p);
}

/* Both ends count the bytes of a partly transferred block, until it is complete or acknowledged. */
static void test_ahead(void **state)
{
	struct path_config c = { .source = true, .payload = PAYLOAD, .inflight = INFLIGHT,
				 .rate = 1234567 };
	struct messages lists = { 0 };
	struct source s = { .pool = make_pool(INFLIGHT, PAYLOAD) };
	struct phony p;
	struct path_event ev;
	struct err e = ERR_INIT;
	struct block_head h;
	uint64_t rate = 0;
	socklen_t len = sizeof(rate);
	struct block *b;
	int fds[2];

	(void)state;
	tcp_pair(fds);
	c.pool = s.pool;
	s.path = tcp_path_new(&c, fds, 1, &e);
	assert_non_null(s.path);
	assert_int_equal(getsockopt(fds[0], SOL_SOCKET, SO_MAX_PACING_RATE, &rate, &len), 0);
	assert_int_equal(rate, 1234567);
	b = post_one(&s, 5);
	assert_true(b->len > 0);
	for (int i = 0; i < 50 && !path_ahead(s.path); i++)
		assert_int_equal(s.path->ops->poll(s.path, &ev, 1, 100), 0);
	assert_int_equal(path_ahead(s.path), BLOCK_WIRE_HEAD +
			 (uint64_t)b->nextents * BLOCK_WIRE_EXTENT + b->len);
	take_block(fds[1], &h);
	send_credit(fds[1], &lists, 5, 0);
	ev = one_event(s.path);
	assert_int_equal(ev.kind, PATH_ACKED);
	assert_int_equal(path_ahead(s.path), 0);
	pool_put(ev.block);
	b = post_one(&s, 6);
	close(fds[1]);
	ev = one_event(s.path);
	assert_int_equal(ev.kind, PATH_RETURNED);
	s.again = ev.block;
	assert_int_equal(path_ahead(s.path), 0);
	expect_down(s.path, -ECONNRESET);
	source_free(&s);

	phony_init(&p, 1, 1);
	b = pool_try_get(p.own);
	fill(b, 5);
	assert_int_equal(write_full(p.fd, b->base, BLOCK_WIRE_HEAD + 16), 0);
	for (int i = 0; i < 2; i++)
		assert_int_equal(p.path->ops->poll(p.path, &ev, 1, 0), 0);
	assert_int_equal(path_ahead(p.path), 16);
	pool_put(b);
	close(p.fd);
	p.fd = -1;
	expect_down(p.path, -ECONNRESET);
	assert_int_equal(path_ahead(p.path), 0);
	phony_free(&p);
}

/* finish() sends the pending credits, then closes both directions. */
static void test_finish(void **state)
{
	struct phony p;
	struct block *b;
	uint8_t byte;

	(void)state;
	phony_init(&p, 2, 2);
	send_block(&p, 1);
	b = expect_block(&p, 1);
	p.path->ops->release(p.path, b, 0);
	assert_int_equal(p.path->ops->finish(p.path, 50), -ETIMEDOUT); /* the peer is open */
	expect_credit(&p, 1, 0);
	assert_int_equal(read_full(p.fd, &byte, 1), 0);
	close(p.fd);
	p.fd = -1;
	assert_int_equal(p.path->ops->finish(p.path, 5000), 0);
	phony_free(&p);
}

/* ---- sleeping ---- */

static void *wake_soon(void *arg)
{
	struct path *p = arg;

	usleep(30000);
	p->ops->wake(p);
	return NULL;
}

static void test_wake(void **state)
{
	uint64_t begin = now_ns();
	struct path_event ev;
	struct phony p;
	pthread_t t;

	(void)state;
	phony_init(&p, 2, 2);
	assert_int_equal(p.path->ops->poll(p.path, &ev, 1, 40), 0);
	assert_in_range(now_ns() - begin, 39000000, 5000000000u);
	assert_int_equal(thread_start(&t, "wake", wake_soon, p.path), 0);
	assert_int_equal(p.path->ops->poll(p.path, &ev, 1, -1), 0);
	pthread_join(t, NULL);
	/* A wake before the sleep is not lost, and several count once. */
	p.path->ops->wake(p.path);
	p.path->ops->wake(p.path);
	begin = now_ns();
	assert_int_equal(p.path->ops->poll(p.path, &ev, 1, 3000), 0);
	assert_in_range(now_ns() - begin, 0, 2000000000);
	begin = now_ns();
	assert_int_equal(p.path->ops->poll(p.path, &ev, 1, 40), 0);
	assert_in_range(now_ns() - begin, 39000000, 5000000000u);
	phony_free(&p);
}

/* After half a head or half a block the peer stops: the channel times out, and its buffer is freed.
 * A channel without a partial block may stay silent. */
static void test_half_a_block(void **state)
{
	static const size_t sizes[] = { 0, 10, BLOCK_WIRE_HEAD + 5 };

	(void)state;
	for (int i = 0; i < 3; i++) {
		struct pool *pool = make_pool(1, PAYLOAD);
		struct path_config c = { .pool = pool, .payload = PAYLOAD, .inflight = 1,
					 .stall_ms = 200 };
		uint8_t wire[BLOCK_WIRE_HEAD + 5] = { 0 };
		struct block_head h = { .number = 1, .extents = 1, .payload = 1000 };
		struct path_event ev;
		int ours[1], theirs[1];
		struct path *p;

		make_sockets(ours, theirs, 1);
		p = tcp_path_new(&c, theirs, 1, NULL);
		block_head_put(wire, &h);
		assert_int_equal(send(ours[0], wire, sizes[i], 0), sizes[i]);
		if (i) {
			alarm(20);
			expect_down(p, -ETIMEDOUT);
			alarm(0);
		} else {
			assert_int_equal(p->ops->poll(p, &ev, 1, 700), 0);
		}
		assert_int_equal(pool_free_blocks(pool), 1);
		p->ops->free(p);
		pool_free(pool);
		close(ours[0]);
	}
}

/* Another thread reads "alive" while the path's own thread clears it: for the thread sanitizer. */
static void *wait_until_dead(void *arg)
{
	struct path *p = arg;

	while (p->alive)
		usleep(1000);
	return NULL;
}

static void test_alive_is_for_all(void **state)
{
	struct phony p;
	pthread_t t;

	(void)state;
	phony_init(&p, 2, 2);
	assert_int_equal(thread_start(&t, "watch", wait_until_dead, p.path), 0);
	usleep(20000);
	shutdown(p.fd, SHUT_RDWR);
	expect_down(p.path, 0);
	pthread_join(t, NULL);
	phony_free(&p);
}

/* A channel that is added while the path works. */
struct arrival {
	struct path *path;
	int fd;
};

static void *arrive_soon(void *arg)
{
	struct arrival *a = arg;

	usleep(20000);
	tcp_path_add(a->path, 2, a->fd);
	return NULL;
}

static bool hung_up(int fd)
{
	char c;

	return poll_fd(fd, POLLIN, 5000) == 1 && recv(fd, &c, 1, 0) <= 0;
}

static void test_arrivals(void **state)
{
	struct path_config c = { .payload = PAYLOAD, .inflight = 2 };
	struct phony p = { .pool = make_pool(4, PAYLOAD), .own = make_pool(1, PAYLOAD) };
	int theirs[3], ours[3], late[2];
	struct block *b;
	struct arrival a;
	pthread_t t;

	(void)state;
	make_sockets(ours, theirs, 3);
	c.pool = p.pool;
	/* The path starts with the second channel only. */
	p.lists.channel = 2;
	p.path = tcp_path_new(&c, (int[]){ -1, theirs[1], -1 }, 3, NULL);
	assert_non_null(p.path);
	assert_int_equal(p.path->alive, 1);
	a = (struct arrival){ p.path, theirs[2] };
	p.fd = ours[2];
	send_block(&p, 7);
	assert_int_equal(thread_start(&t, "arrive", arrive_soon, &a), 0);
	b = expect_block(&p, 7);
	pthread_join(t, NULL);
	assert_int_equal(b->channel, 2);
	assert_int_equal(p.path->alive, 2);
	p.path->ops->release(p.path, b, 0);
	expect_credit(&p, 7, 0);
	/* A second connection with the same channel number is refused, and the channel stays
	 * alive. */
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, late), 0);
	tcp_path_add(p.path, 2, late[1]);
	send_block(&p, 8);
	p.path->ops->release(p.path, expect_block(&p, 8), 0);
	expect_credit(&p, 8, 0);
	assert_true(hung_up(late[0]));
	close(late[0]);
	/* After the last channel is down, no new one is accepted. */
	close(ours[1]);
	expect_down(p.path, 0);
	shutdown(p.fd, SHUT_RDWR);
	expect_down(p.path, 0);
	tcp_path_add(p.path, 0, theirs[0]);
	assert_int_equal(p.path->ops->poll(p.path, &(struct path_event){ 0 }, 1, 0), 0);
	assert_true(hung_up(ours[0]));
	close(ours[0]);
	assert_int_equal(p.path->alive, 0);
	phony_free(&p);
}

/* A channel that is added when the path is older than the stall limit. */
static void test_arrives_late(void **state)
{
	struct pool *pool = make_pool(4, PAYLOAD);
	struct path_config c = { .source = true, .pool = pool, .payload = PAYLOAD, .inflight = 2,
				 .stall_ms = 300 };
	uint64_t until = now_ns() + 500000000;
	struct path_event ev;
	struct path *path;
	int fds[2], late[2];

	(void)state;
	tcp_pair(fds);
	tcp_pair(late);
	path = tcp_path_new(&c, (int[]){ fds[0], -1 }, 2, NULL);
	assert_non_null(path);
	while (now_ns() < until)
		assert_int_equal(path->ops->poll(path, &ev, 1, 10), 0);
	tcp_path_add(path, 1, late[0]);
	/* Both channels wait for credits, each with its own deadline. */
	for (uint64_t i = 0; i < 2; i++) {
		struct block *b = pool_try_get(pool);

		fill(b, i + 1);
		assert_int_equal(path->ops->poll(path, &ev, 1, 1), 0);
		assert_int_equal(path->ops->post(path, b), 0);
	}
	until = now_ns() + 150000000;
	while (now_ns() < until)
		assert_int_equal(path->ops->poll(path, &ev, 1, 10), 0);
	assert_int_equal(path->alive, 2);
	path->ops->free(path);
	close(fds[1]);
	close(late[1]);
	pool_free(pool);
}

/* A channel added just before the path is freed is closed, too. */
static void test_late_arrival(void **state)
{
	struct phony p;
	int fds[2];

	(void)state;
	phony_init(&p, 2, 2);
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, fds), 0);
	tcp_path_add(p.path, 0, fds[1]);
	phony_free(&p);
	assert_true(hung_up(fds[0]));
	close(fds[0]);
}

static void test_congestion(void **state)
{
	static const struct {
		const char *name;
		bool source, set;
	} cases[] = {
		{ "reno", true, true }, { "reno", false, false }, { "no-such", true, false },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct pool *pool = make_pool(2, PAYLOAD);
		struct path_config c = { .source = cases[i].source, .pool = pool,
					 .payload = PAYLOAD, .inflight = 1, .congestion = cases[i].name };
		char before[16] = "", after[16] = "";
		socklen_t n = sizeof(before), m = sizeof(after);
		struct path *path;
		int fds[2];

		tcp_pair(fds);
		assert_int_equal(getsockopt(fds[0], IPPROTO_TCP, TCP_CONGESTION, before, &n), 0);
		path = tcp_path_new(&c, fds, 1, NULL);
		assert_non_null(path);
		assert_int_equal(getsockopt(fds[0], IPPROTO_TCP, TCP_CONGESTION, after, &m), 0);
		assert_string_equal(after, cases[i].set ? cases[i].name : before);
		path->ops->free(path);
		close(fds[1]);
		pool_free(pool);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_all_arrive),
		cmocka_unit_test(test_late_release),
		cmocka_unit_test(test_refused),
		cmocka_unit_test(test_channel_dies),
		cmocka_unit_test(test_sink_answers),
		cmocka_unit_test(test_answers_need_no_room),
		cmocka_unit_test(test_bad_answers),
		cmocka_unit_test(test_no_answer),
		cmocka_unit_test(test_given_up_is_told),
		cmocka_unit_test(test_early_answer),
		cmocka_unit_test(test_room_without_answers),
		cmocka_unit_test(test_bad_post),
		cmocka_unit_test(test_credit_rule),
		cmocka_unit_test(test_refused_block),
		cmocka_unit_test(test_waits_for_buffer),
		cmocka_unit_test(test_bad_streams),
		cmocka_unit_test(test_dribble),
		cmocka_unit_test(test_ahead),
		cmocka_unit_test(test_finish),
		cmocka_unit_test(test_wake),
		cmocka_unit_test(test_alive_is_for_all),
		cmocka_unit_test(test_half_a_block),
		cmocka_unit_test(test_arrivals),
		cmocka_unit_test(test_arrives_late),
		cmocka_unit_test(test_late_arrival),
		cmocka_unit_test(test_congestion),
	};

	signal(SIGPIPE, SIG_IGN);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
