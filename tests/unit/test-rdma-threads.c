// SPDX-License-Identifier: Apache-2.0
/* An RDMA path in threads, as in a transfer: a sender, a receiver, and two writers that release
 * blocks in another order; also with a failing channel. */
#include "tests/support/rdma-ends.h"

#define NUMBERS 1500u
#define WRITERS 2

struct run {
	struct ends x;
	struct bq *ready, *arrived;
	atomic_uint acked, wrong;
	atomic_uint got[NUMBERS];
	bool refuses;               /* every hundredth block, on first arrival */
	pthread_t writer[WRITERS];
};

static void on_acked(void *arg, struct block *b)
{
	struct run *r = arg;

	atomic_fetch_add(&r->acked, 1);
}

static void write_block(struct run *r, struct block *b)
{
	struct path *p = sink_end(&r->x)->path;
	const char *wrong = flow_check(b);
	unsigned before = 0;

	if (wrong || b->number >= NUMBERS)
		atomic_fetch_add(&r->wrong, 1);
	else
		before = atomic_fetch_add(&r->got[b->number], 1);
	p->ops->release(p, b, r->refuses && b->number % 100 == 0 && !before ? EBADMSG : 0);
}

/* Releases up to three blocks at a time, the last one first. */
static void *writer_main(void *arg)
{
	struct run *r = arg;
	struct block *held[3];
	int n = 0, rc;

	for (;;) {
		rc = n ? bq_try_pop(r->arrived, &held[n]) : bq_pop(r->arrived, &held[n]);
		if (rc == 0 && ++n < 3)
			continue;
		while (n)
			write_block(r, held[--n]);
		if (rc == 1)
			return NULL;
	}
}

static void fill_blocks(struct run *r)
{
	for (uint32_t i = 0; i < NUMBERS; i++) {
		struct block *b = pool_get(source_end(&r->x)->pool);

		flow_fill(b, i);
		assert_int_equal(bq_push(r->ready, b), 0);
	}
	bq_close(r->ready, 0);
}

static void start_writers(struct run *r)
{
	for (int i = 0; i < WRITERS; i++)
		assert_int_equal(thread_start(&r->writer[i], "writer", writer_main, r), 0);
}

static void end_run(struct run *r)
{
	bq_close(r->arrived, 0);
	for (int i = 0; i < WRITERS; i++)
		pthread_join(r->writer[i], NULL);
	assert_int_equal(r->wrong, 0);
	assert_int_equal(r->acked, NUMBERS);
	for (uint32_t i = 0; i < NUMBERS; i++)
		assert_true(r->got[i] > 0);
	ends_free(&r->x);
	bq_free(r->ready);
	bq_free(r->arrived);
	fake_end();
	free(r);
}

/* break_at: the work request at which a channel fails; 0: none. */
static void run(uint8_t op, bool refuses, unsigned break_at)
{
	struct run *r = calloc(1, sizeof(*r));
	struct stage_config rc = { .arg = r };
	struct stage_config sc = { .acked = on_acked, .arg = r };
	struct stage *to;
	struct stage *from;

	assert_non_null(r);
	fake_begin();
	ends_init(&r->x, op, 3, 12);
	ends_open_ok(&r->x);
	r->refuses = refuses;
	if (break_at)
		fake_break(break_at, IBV_WC_RETRY_EXC_ERR, false);
	r->ready = sc.q = bq_new();
	r->arrived = rc.q = bq_new();
	sc.path = source_end(&r->x)->path;
	rc.path = sink_end(&r->x)->path;
	start_writers(r);
	to = receiver_start(&rc, "receiver", NULL);
	from = sender_start(&sc, "sender", NULL);
	assert_true(to && from);
	fill_blocks(r);
	assert_int_equal(stage_join(from), 0);
	stage_stop(to);
	assert_int_equal(stage_join(to), 0);
	stage_free(from);
	stage_free(to);
	end_run(r);
}

static void test_write(void **state)
{
	(void)state;
	run(OP_WRITE, false, 0);
	run(OP_WRITE, true, 0);
}

static void test_read(void **state)
{
	(void)state;
	run(OP_READ, false, 0);
	run(OP_READ, true, 0);
}

static void test_channel_dies(void **state)
{
	(void)state;
	for (unsigned at = 1; at < 3000; at += 700) {
		run(OP_WRITE, false, at);
		run(OP_READ, false, at);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_write),
		cmocka_unit_test(test_read),
		cmocka_unit_test(test_channel_dies),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
