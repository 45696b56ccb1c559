// SPDX-License-Identifier: Apache-2.0
/* Block queues: order, limit, ends with and without an error, wake-ups, random operations against a
 * model, and many threads at once. */
#include "tests/support/block.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

enum { BLOCKS = 16 };

static struct pool *pool;

static int setup(void **state)
{
	(void)state;
	pool = make_pool(BLOCKS, BLOCK_MIN);
	return 0;
}

/* Fails if a test has not returned its blocks to the pool. */
static int free_pool(void **state)
{
	int missing = (int)(pool_blocks(pool) - pool_free_blocks(pool));

	(void)state;
	if (!missing)
		pool_free(pool);
	return missing;
}

static struct block *numbered(uint64_t n)
{
	struct block *b = pool_get(pool);

	b->number = n;
	return b;
}

static void push(struct bq *q, uint64_t n)
{
	assert_int_equal(bq_push(q, numbered(n)), 0);
}

static void expect_pop(struct bq *q, uint64_t n)
{
	struct block *b;

	assert_int_equal(bq_pop(q, &b), 0);
	assert_int_equal(b->number, n);
	assert_null(b->next);
	pool_put(b);
}

/* ---- one thread ---- */

static void test_order(void **state)
{
	struct bq *q = bq_new();
	struct block *b;
	uint64_t i;

	(void)state;
	for (i = 0; i < BLOCKS; i++)
		push(q, i);
	for (i = 0; i < BLOCKS; i++)
		expect_pop(q, i);
	assert_int_equal(bq_try_pop(q, &b), -EAGAIN);
	assert_null(b);
	push(q, 99);
	assert_int_equal(bq_try_pop(q, &b), 0);
	assert_int_equal(b->number, 99);
	pool_put(b);
	bq_free(q);
	bq_free(NULL);
}

static void test_clean_close_drains(void **state)
{
	struct bq *q = bq_new();
	struct block *b = numbered(3);

	(void)state;
	push(q, 1);
	push(q, 2);
	bq_close(q, 0);
	assert_int_equal(bq_push(q, b), -EPIPE);
	pool_put(b); /* a failed push leaves the block to the caller */
	expect_pop(q, 1);
	assert_int_equal(bq_try_pop(q, &b), 0);
	pool_put(b);
	assert_int_equal(bq_pop(q, &b), 1);
	assert_null(b);
	assert_int_equal(bq_try_pop(q, &b), 1);
	assert_int_equal(bq_pop(q, &b), 1);
	bq_free(q);
}

static void test_error_comes_at_once(void **state)
{
	struct bq *q = bq_new();
	struct block *b;

	(void)state;
	push(q, 1);
	bq_close(q, -EIO);
	assert_int_equal(bq_pop(q, &b), -EIO);
	assert_null(b);
	assert_int_equal(bq_try_pop(q, &b), -EIO);
	bq_free(q); /* returns the block to its pool */
	assert_int_equal(pool_free_blocks(pool), BLOCKS);
}

static void test_first_cause_stays(void **state)
{
	static const struct {
		int causes[3], rc;
	} cases[] = {
		{ { -EIO, -EPIPE, 0 }, -EIO },
		{ { -EIO, 0, 0 }, -EIO },
		{ { 0, 0, 0 }, 1 },
		/* A clean end is not a reason to stop: a later abort must still stop the work. */
		{ { 0, -EIO, -EPIPE }, -EIO },
	};
	struct block *b;
	size_t i, k;

	(void)state;
	for (i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct bq *q = bq_new();

		for (k = 0; k < 3; k++)
			bq_close(q, cases[i].causes[k]);
		assert_int_equal(bq_pop(q, &b), cases[i].rc);
		assert_int_equal(bq_try_pop(q, &b), cases[i].rc);
		bq_free(q);
	}
}

static void test_free_returns_blocks(void **state)
{
	struct bq *q = bq_new();

	(void)state;
	push(q, 1);
	push(q, 2);
	push(q, 3);
	assert_int_equal(pool_free_blocks(pool), BLOCKS - 3);
	bq_free(q);
	assert_int_equal(pool_free_blocks(pool), BLOCKS);
}

static void count(void *arg)
{
	++*(int *)arg;
}

static void test_notify(void **state)
{
	struct bq *q = bq_new();
	int calls = 0;

	(void)state;
	bq_set_notify(q, count, &calls);
	push(q, 1);
	assert_int_equal(calls, 1);
	push(q, 2); /* no notice: it was not empty */
	assert_int_equal(calls, 1);
	expect_pop(q, 1);
	push(q, 3);
	assert_int_equal(calls, 1);
	expect_pop(q, 2);
	expect_pop(q, 3);
	push(q, 4);
	assert_int_equal(calls, 2);
	bq_close(q, 0);
	assert_int_equal(calls, 3);
	bq_free(q);
}

/* ---- random operations ---- */

enum { SEEDS = 200, STEPS = 400 };

struct model {
	uint64_t in[BLOCKS]; /* numbers in the queue, oldest first */
	uint32_t len;
	int state;           /* as bq_close() left it; 1: clean */
	uint64_t next;
	int notified, expected;
};

static uint64_t seed;

static uint32_t rnd(uint32_t below)
{
	seed ^= seed << 13;
	seed ^= seed >> 7;
	seed ^= seed << 17;
	return (uint32_t)(seed >> 32) % below;
}

static void random_push(struct bq *q, struct model *m)
{
	struct block *b;

	if (m->len == BLOCKS)
		return;
	b = numbered(m->next);
	if (m->state) {
		assert_int_equal(bq_push(q, b), -EPIPE);
		pool_put(b);
		return;
	}
	assert_int_equal(bq_push(q, b), 0);
	m->expected += m->len == 0;
	m->in[m->len++] = m->next++;
}

static int pop_expected(const struct model *m)
{
	if (m->state < 0)
		return m->state;
	if (m->len)
		return 0;
	return m->state ? 1 : -EAGAIN;
}

static void random_pop(struct bq *q, struct model *m)
{
	int want = pop_expected(m), rc;
	struct block *b;

	rc = want != -EAGAIN && rnd(2) ? bq_pop(q, &b) : bq_try_pop(q, &b);
	assert_int_equal(rc, want);
	if (rc) {
		assert_null(b);
		return;
	}
	assert_int_equal(b->number, m->in[0]);
	memmove(m->in, m->in + 1, --m->len * sizeof(m->in[0]));
	pool_put(b);
}

static void random_close(struct bq *q, struct model *m)
{
	static const int causes[] = { 0, -EIO, -ENOSPC };
	int cause = causes[rnd(3)];

	bq_close(q, cause);
	m->expected++;
	if (m->state >= 0 && cause < 0)
		m->state = cause;
	else if (!m->state)
		m->state = 1;
}

static void random_step(struct bq *q, struct model *m)
{
	uint32_t pick = rnd(STEPS);

	if (pick < 2)
		random_close(q, m);
	else if (pick % 2)
		random_push(q, m);
	else
		random_pop(q, m);
}

static void test_random_operations(void **state)
{
	struct model m;
	struct bq *q;
	int i, step;

	(void)state;
	for (i = 1; i <= SEEDS; i++) {
		seed = (uint64_t)i * 0x9e3779b97f4a7c15;
		m = (struct model){ 0 };
		q = bq_new();
		bq_set_notify(q, count, &m.notified);
		for (step = 0; step < STEPS; step++) {
			random_step(q, &m);
			assert_int_equal(m.notified, m.expected);
			assert_int_equal(pool_free_blocks(pool), BLOCKS - m.len);
		}
		bq_free(q);
		assert_int_equal(pool_free_blocks(pool), BLOCKS);
	}
}

/* ---- sleepers ---- */

struct sleeper {
	struct bq *q;
	struct block *b;
	int rc;
	int done;
};

static void *pop_one(void *arg)
{
	struct sleeper *s = arg;

	s->rc = bq_pop(s->q, &s->b);
	__atomic_store_n(&s->done, 1, __ATOMIC_RELEASE);
	return NULL;
}

static void start_sleeper(pthread_t *t, struct sleeper *s, void *(*fn)(void *))
{
	assert_int_equal(thread_start(t, "sleeper", fn, s), 0);
	usleep(20000);
	assert_int_equal(__atomic_load_n(&s->done, __ATOMIC_ACQUIRE), 0);
}

static void test_push_wakes_popper(void **state)
{
	struct sleeper s = { .q = bq_new() };
	pthread_t t;

	(void)state;
	start_sleeper(&t, &s, pop_one);
	push(s.q, 5);
	pthread_join(t, NULL);
	assert_int_equal(s.rc, 0);
	assert_int_equal(s.b->number, 5);
	pool_put(s.b);
	bq_free(s.q);
}

static void check_close_wakes(int cause, int rc)
{
	struct sleeper s[3];
	pthread_t t[3];
	struct bq *q = bq_new();
	int i;

	for (i = 0; i < 3; i++) {
		s[i] = (struct sleeper){ .q = q };
		start_sleeper(&t[i], &s[i], pop_one);
	}
	bq_close(q, cause);
	for (i = 0; i < 3; i++) {
		pthread_join(t[i], NULL);
		assert_int_equal(s[i].rc, rc);
	}
	bq_free(q);
}

static void test_close_wakes_all(void **state)
{
	(void)state;
	check_close_wakes(0, 1);
	check_close_wakes(-EIO, -EIO);
}

/* ---- many threads ---- */

enum { PUSHERS = 3, POPPERS = 3, EACH = 20000 };

struct crowd {
	struct bq *q;
	uint32_t id;
	uint64_t popped;          /* by this popper */
	uint64_t last[PUSHERS];   /* number seen last from each pusher, plus 1 */
	int disorder, rc;
};

static void *push_many(void *arg)
{
	struct crowd *c = arg;
	struct block *b;
	uint64_t i;

	for (i = 0; i < EACH; i++) {
		b = numbered(i);
		b->channel = c->id;
		c->rc |= bq_push(c->q, b);
	}
	return NULL;
}

/* Blocks of one pusher arrive in order, in any popper. */
static void *pop_many(void *arg)
{
	struct crowd *c = arg;
	struct block *b;

	while ((c->rc = bq_pop(c->q, &b)) == 0) {
		c->disorder += b->number < c->last[b->channel];
		c->last[b->channel] = b->number + 1;
		c->popped++;
		pool_put(b);
	}
	return NULL;
}

static void test_crowd(void **state)
{
	struct crowd in[PUSHERS], out[POPPERS];
	pthread_t tin[PUSHERS], tout[POPPERS];
	struct bq *q = bq_new();
	uint64_t sum = 0;
	uint32_t i;

	(void)state;
	for (i = 0; i < POPPERS; i++) {
		out[i] = (struct crowd){ .q = q };
		assert_int_equal(thread_start(&tout[i], "pop", pop_many, &out[i]), 0);
	}
	for (i = 0; i < PUSHERS; i++) {
		in[i] = (struct crowd){ .q = q, .id = i };
		assert_int_equal(thread_start(&tin[i], "push", push_many, &in[i]), 0);
	}
	for (i = 0; i < PUSHERS; i++) {
		pthread_join(tin[i], NULL);
		assert_int_equal(in[i].rc, 0);
	}
	bq_close(q, 0);
	for (i = 0; i < POPPERS; i++) {
		pthread_join(tout[i], NULL);
		assert_int_equal(out[i].rc, 1);
		assert_int_equal(out[i].disorder, 0);
		sum += out[i].popped;
	}
	assert_int_equal(sum, PUSHERS * EACH);
	bq_free(q);
}

static void ring(void *arg)
{
	eventfd_write(*(int *)arg, 1);
}

/* An event loop empties the queue and sleeps until the next notice. A missed notice would leave it
 * asleep with blocks in the queue. */
static void test_event_loop(void **state)
{
	int bell = eventfd(0, EFD_CLOEXEC), rc = -EAGAIN;
	struct crowd in[PUSHERS];
	pthread_t t[PUSHERS];
	struct bq *q = bq_new();
	eventfd_t rings;
	struct block *b;
	uint64_t got = 0;
	uint32_t i;

	(void)state;
	bq_set_notify(q, ring, &bell);
	for (i = 0; i < PUSHERS; i++) {
		in[i] = (struct crowd){ .q = q, .id = i };
		assert_int_equal(thread_start(&t[i], "push", push_many, &in[i]), 0);
	}
	while (got < PUSHERS * EACH) {
		assert_int_equal(poll_fd(bell, POLLIN, 20000), 1);
		eventfd_read(bell, &rings);
		for (; (rc = bq_try_pop(q, &b)) == 0; got++)
			pool_put(b);
		assert_int_equal(rc, -EAGAIN);
	}
	for (i = 0; i < PUSHERS; i++)
		pthread_join(t[i], NULL);
	bq_free(q);
	close(bell);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_order),
		cmocka_unit_test(test_clean_close_drains),
		cmocka_unit_test(test_error_comes_at_once),
		cmocka_unit_test(test_first_cause_stays),
		cmocka_unit_test(test_free_returns_blocks),
		cmocka_unit_test(test_notify),
		cmocka_unit_test(test_random_operations),
		cmocka_unit_test(test_push_wakes_popper),
		cmocka_unit_test(test_close_wakes_all),
		cmocka_unit_test(test_crowd),
		cmocka_unit_test(test_event_loop),
	};

	alarm(240); /* ends the test after a lost wake-up */
	return cmocka_run_group_tests_name("bq", tests, setup, free_pool);
}
