// SPDX-License-Identifier: Apache-2.0
/* Sender and receiver over a path, with injected faults: every block is acknowledged or handed on,
 * and none is lost. */
#include "tests/support/block.h"
#include "tests/support/faults.h"
#include "transport/transport.h"

#include <errno.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define PAYLOAD BLOCK_MIN
#define CHANNELS 4u
#define INFLIGHT 8u
#define NUMBERS 2000u

/* All stages between the thread that fills blocks and the thread that checks them. */
struct run {
	struct pool *source_pool, *sink_pool;
	struct path *source_path, *sink_path;
	struct bq *source_q, *sink_q;
	struct stage *sender;
	struct stage *receiver;
	pthread_t filler, writer;
	struct pace pace; /* test_rate */
	bool paced;
	uint64_t numbers;
	bool refuse_all;
	int close_cause;          /* error that closes the source's queue half way; 0: none */

	unsigned seen[NUMBERS];   /* how often the writer got each number intact */
	unsigned bad;
	int failed_with;          /* the sender's thread writes it and the next ones */
	unsigned failures;
	atomic_uint acked, returned, source_downs, sink_downs;
	int returned_says;
	struct bq *others;        /* queue for returned blocks */
};

static void fill(struct block *b, uint64_t number)
{
	hand_block(b, number);
	hand_block_add(b, 1, number, (uint8_t)number, PAYLOAD);
	hand_block_end(b, crypto_crc32c(0, block_payload(b), PAYLOAD));
}

static void *filler_main(void *arg)
{
	struct run *r = arg;
	uint64_t i;

	for (i = 0; i < r->numbers; i++) {
		struct block *b = pool_get(r->source_pool);

		if (!b)
			return NULL;
		if (r->close_cause && i == r->numbers / 2)
			bq_close(r->source_q, r->close_cause);
		fill(b, i);
		if (bq_push(r->source_q, b)) {
			pool_put(b);
			return NULL;
		}
	}
	bq_close(r->source_q, 0);
	return NULL;
}

static void *writer_main(void *arg)
{
	struct run *r = arg;
	struct block *b;

	while (bq_pop(r->sink_q, &b) == 0) {
		struct block_head h;
		bool good = block_head_get(b->base, PAYLOAD, &h) == 0 && b->number < NUMBERS &&
			    crypto_crc32c(0, block_payload(b), b->len) == h.crc && !r->refuse_all;

		if (good)
			r->seen[b->number]++;
		else
			r->bad++;
		r->sink_path->ops->release(r->sink_path, b, good ? 0 : EBADMSG);
	}
	return NULL;
}

static void on_acked(void *arg, struct block *b)
{
	struct run *r = arg;

	assert_true(b->number < NUMBERS);
	atomic_fetch_add(&r->acked, 1);
}

static int on_returned(void *arg, struct block *b)
{
	struct run *r = arg;

	if (r->returned_says)
		return r->returned_says;
	atomic_fetch_add(&r->returned, 1);
	return bq_push(r->others, b);
}

static void on_failed(void *arg, int error)
{
	struct run *r = arg;

	r->failed_with = error;
	r->failures++;
}

static void on_source_down(void *arg, uint32_t channel, int error)
{
	struct run *r = arg;

	assert_true(channel < CHANNELS && error);
	atomic_fetch_add(&r->source_downs, 1);
}

static void on_sink_down(void *arg, uint32_t channel, int error)
{
	struct run *r = arg;

	(void)error;
	assert_true(channel < CHANNELS);
	atomic_fetch_add(&r->sink_downs, 1);
}

static void run_start(struct run *r)
{
	int ours[CHANNELS], theirs[CHANNELS], fds[2];
	struct path_config c = { .payload = PAYLOAD, .inflight = INFLIGHT };
	uint32_t i;

	for (i = 0; i < CHANNELS; i++) {
		assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds), 0);
		ours[i] = fds[0];
		theirs[i] = fds[1];
	}
	c.pool = r->sink_pool = make_pool(INFLIGHT, PAYLOAD);
	r->sink_path = tcp_path_new(&c, theirs, CHANNELS, NULL);
	c.source = true;
	c.pool = r->source_pool = make_pool(INFLIGHT, PAYLOAD);
	r->source_path = tcp_path_new(&c, ours, CHANNELS, NULL);
	r->source_q = bq_new();
	r->sink_q = bq_new();
	r->others = bq_new();
	if (!r->numbers)
		r->numbers = NUMBERS;
	const struct stage_config rc = { .path = r->sink_path, .q = r->sink_q,
					    .down = on_sink_down, .arg = r };
	const struct stage_config sc = { .path = r->source_path, .q = r->source_q,
					  .pace = r->paced ? &r->pace : NULL, .acked = on_acked,
					  .returned = on_returned, .down = on_source_down,
					  .failed = on_failed, .arg = r };
	r->receiver = receiver_start(&rc, "receiver", NULL);
	r->sender = sender_start(&sc, "sender", NULL);
	assert_true(r->receiver && r->sender);
	assert_int_equal(thread_start(&r->writer, "writer", writer_main, r), 0);
	assert_int_equal(thread_start(&r->filler, "filler", filler_main, r), 0);
}

static void filler_join(struct run *r)
{
	pool_close(r->source_pool);
	bq_close(r->source_q, 0);
	pthread_join(r->filler, NULL);
}

static void run_end(struct run *r)
{
	if (r->source_path)
		filler_join(r);
	bq_close(r->sink_q, 0);
	pthread_join(r->writer, NULL);
	bq_free(r->others);
	bq_free(r->source_q);
	bq_free(r->sink_q);
	if (r->source_path)
		r->source_path->ops->free(r->source_path);
	r->sink_path->ops->free(r->sink_path);
	assert_int_equal(pool_free_blocks(r->source_pool), INFLIGHT);
	assert_int_equal(pool_free_blocks(r->sink_pool), INFLIGHT);
	pool_free(r->source_pool);
	pool_free(r->sink_pool);
	stage_free(r->sender);
	stage_free(r->receiver);
	free(r);
	set_faults(NULL);
}

/* After an error the source closes its path, and the receiver ends by itself: with an error, unless
 * no acknowledgement was outstanding. */
static void run_abandon(struct run *r)
{
	filler_join(r);
	r->source_path->ops->free(r->source_path);
	r->source_path = NULL;
	assert_true(stage_join(r->receiver) <= 0);
	run_end(r);
}

static struct run *run_new(const char *faults)
{
	if (faults)
		need_faults();
	set_faults(faults);
	return calloc(1, sizeof(struct run));
}

static void expect_seen(const struct run *r, unsigned lo, unsigned hi)
{
	uint64_t i;

	for (i = 0; i < r->numbers; i++)
		assert_in_range(r->seen[i], lo, hi);
}

/* Runs a transfer that must succeed. */
static void run_well(struct run *r)
{
	run_start(r);
	assert_int_equal(stage_join(r->sender), 0);
	assert_int_equal(stage_join(r->receiver), 0);
	assert_int_equal(r->acked, r->numbers);
	assert_int_equal(r->returned, 0);
}

static void test_plain(void **state)
{
	struct run *r = run_new(NULL);

	(void)state;
	run_well(r);
	expect_seen(r, 1, 1);
	assert_int_equal(r->bad, 0);
	assert_int_equal(r->source_downs, 0);
	assert_int_equal(r->sink_downs, CHANNELS);
	run_end(r);
}

static void test_corrupt(void **state)
{
	struct run *r = run_new("corrupt:rate=0.05");

	(void)state;
	run_well(r);
	expect_seen(r, 1, 1);
	assert_in_range(r->bad, NUMBERS / 50, NUMBERS / 5);
	run_end(r);
}

static void test_cut(void **state)
{
	struct run *r = run_new("cut:after=10M:count=1;cut:after=30M:count=1");

	(void)state;
	run_well(r);
	expect_seen(r, 1, 3);
	assert_int_equal(r->source_downs, 2);
	run_end(r);
}

static void test_errors(void **state)
{
	struct run *r = run_new("send:EHOSTUNREACH:after=20M:count=1;"
				"recv:EIO:after=5000M:count=1;stall:count=3");

	(void)state;
	run_well(r);
	expect_seen(r, 1, 2);
	assert_in_range(r->source_downs, 1, 2);
	run_end(r);
}

/* With no channel left, unacknowledged blocks go to another sender. */
static void test_all_die(void **state)
{
	struct run *r = run_new("send:EPIPE:after=50M");
	unsigned char handed[NUMBERS] = { 0 };
	struct block *b;
	uint32_t i, n = 0;

	(void)state;
	run_start(r);
	while (r->acked + n < NUMBERS) {
		if (bq_try_pop(r->others, &b)) {
			usleep(100);
			continue;
		}
		handed[b->number] = 1;
		n++;
		pool_put(b);
	}
	assert_int_equal(stage_join(r->sender), 0);
	assert_true(stage_join(r->receiver) <= 0);
	assert_int_equal(r->source_downs, CHANNELS);
	assert_int_equal(r->acked + r->returned, NUMBERS);
	assert_in_range(n, INFLIGHT, NUMBERS - 1);
	for (i = 0; i < NUMBERS; i++)
		assert_true(handed[i] || r->seen[i]);
	run_end(r);
}

/* With no other sender, the transfer fails. */
static void test_nobody_left(void **state)
{
	struct run *r = run_new("send:EPIPE:after=50M");

	(void)state;
	r->returned_says = -ENETDOWN;
	run_start(r);
	assert_int_equal(stage_join(r->sender), -ENETDOWN);
	assert_int_equal(r->failed_with, -ENETDOWN);
	assert_int_equal(r->failures, 1);
	assert_true(stage_join(r->receiver) <= 0);
	assert_true(r->acked < NUMBERS);
	run_end(r);
}

/* A sink that refuses all blocks makes the sender give up. */
static void test_refusal(void **state)
{
	struct run *r = run_new(NULL);

	(void)state;
	r->refuse_all = true;
	run_start(r);
	assert_int_equal(stage_join(r->sender), -EIO);
	assert_int_equal(r->failed_with, -EIO);
	assert_int_equal(r->failures, 1);
	run_abandon(r);
}

/* When the queue closes with an error, the sender stops at once with that error. */
static void test_abort(void **state)
{
	struct run *r = run_new(NULL);

	(void)state;
	r->close_cause = -ECANCELED;
	run_start(r);
	assert_int_equal(stage_join(r->sender), -ECANCELED);
	assert_int_equal(r->failures, 0);
	run_abandon(r);
}

static void test_rate(void **state)
{
	struct run *r = run_new(NULL);
	uint64_t begin = now_ns(), ns;
	double rate;

	(void)state;
	r->numbers = 400;
	r->paced = true;
	pace_init(&r->pace);
	pace_start(&r->pace, 50 << 20, now_ns()); /* half a second */
	run_well(r);
	ns = now_ns() - begin;
	rate = 400.0 * PAYLOAD / (double)ns * 1e9;
	/* A slow machine may stay below the rate. */
	assert_true(rate < 1.15 * (50 << 20));
	run_end(r);
}

/* A path with room for three blocks. It returns its first three once, the last one first. */
struct fickle {
	struct path path;
	struct block *out[3];
	unsigned nout;
	bool gave_back;
	uint64_t order[20];
	unsigned n;
};

static int fickle_post(struct path *path, struct block *b)
{
	struct fickle *f = (struct fickle *)path;

	if (f->nout == 3)
		return -EAGAIN;
	f->out[f->nout++] = b;
	f->order[f->n++] = b->number;
	return 0;
}

static int fickle_poll(struct path *path, struct path_event *ev, int max, int timeout_ms)
{
	struct fickle *f = (struct fickle *)path;
	bool back = !f->gave_back && f->nout == 3;
	int n = 0;

	(void)timeout_ms;
	while (f->nout && n < max)
		ev[n++] = (struct path_event){ .kind = back ? PATH_RETURNED : PATH_ACKED,
					       .block = f->out[--f->nout] };
	f->gave_back |= back;
	return n;
}

static void fickle_wake(struct path *path)
{
	(void)path;
}

static int fickle_finish(struct path *path, int timeout_ms)
{
	(void)path;
	(void)timeout_ms;
	return 0;
}

/* A sink that keeps early blocks needs the lowest number first, or its buffers fill up before that
 * block arrives. */
static void test_lowest_goes_first(void **state)
{
	static const struct path_ops ops = { .name = "fickle", .post = fickle_post,
					     .poll = fickle_poll, .wake = fickle_wake,
					     .finish = fickle_finish };
	static const uint64_t want[] = { 0, 1, 2, 0, 1, 2, 3, 4, 5 };
	struct fickle f = { .path = { .ops = &ops } };
	struct stage_config c = { .path = &f.path, .q = bq_new() };
	struct pool *pool = make_pool(INFLIGHT, PAYLOAD);
	struct stage *s;

	(void)state;
	for (uint64_t i = 0; i < 6; i++) {
		struct block *b = pool_get(pool);

		fill(b, i);
		assert_int_equal(bq_push(c.q, b), 0);
	}
	bq_close(c.q, 0);
	s = sender_start(&c, "sender", NULL);
	assert_int_equal(stage_join(s), 0);
	assert_int_equal(f.n, 9);
	assert_memory_equal(f.order, want, sizeof(want));
	stage_free(s);
	bq_free(c.q);
	pool_free(pool);
}

/* A path whose first post aborts the transfer: the queue ends as if all blocks had been sent. */
struct failing {
	struct path path;
	struct stage *_Atomic sender;
	struct bq *q;
	struct block *posted;
	unsigned finished;
};

static int failing_post(struct path *path, struct block *b)
{
	struct failing *f = (struct failing *)path;

	while (!atomic_load(&f->sender))
		usleep(1000);
	f->posted = b;
	stage_abort(f->sender);
	bq_close(f->q, 0);
	return 0;
}

static int failing_poll(struct path *path, struct path_event *ev, int max, int timeout_ms)
{
	struct failing *f = (struct failing *)path;

	(void)max;
	(void)timeout_ms;
	if (!f->posted)
		return 0;
	ev[0] = (struct path_event){ .kind = PATH_ACKED, .block = f->posted };
	f->posted = NULL;
	return 1;
}

static int failing_finish(struct path *path, int timeout_ms)
{
	(void)timeout_ms;
	((struct failing *)path)->finished++;
	return 0;
}

/* An aborted sender does not finish its path: the sink would wait for our END, and the sender for
 * the sink. */
static void test_abort_at_the_end(void **state)
{
	static const struct path_ops ops = { .name = "failing", .post = failing_post,
					     .poll = failing_poll, .wake = fickle_wake,
					     .finish = failing_finish };
	struct failing f = { .path = { .ops = &ops }, .q = bq_new() };
	struct stage_config c = { .path = &f.path, .q = f.q };
	struct pool *pool = make_pool(INFLIGHT, PAYLOAD);
	struct block *b = pool_get(pool);
	struct stage *s;

	(void)state;
	fill(b, 0);
	assert_int_equal(bq_push(f.q, b), 0);
	s = sender_start(&c, "sender", NULL);
	atomic_store(&f.sender, s);
	stage_join(s);
	assert_int_equal(f.finished, 0);
	stage_free(s);
	bq_free(f.q);
	pool_free(pool);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_plain),
		cmocka_unit_test(test_corrupt),
		cmocka_unit_test(test_cut),
		cmocka_unit_test(test_errors),
		cmocka_unit_test(test_all_die),
		cmocka_unit_test(test_nobody_left),
		cmocka_unit_test(test_refusal),
		cmocka_unit_test(test_abort),
		cmocka_unit_test(test_rate),
		cmocka_unit_test(test_lowest_goes_first),
		cmocka_unit_test(test_abort_at_the_end),
	};

	signal(SIGPIPE, SIG_IGN);
	log_init("test-stages", LOG_LV_ERROR, false);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
