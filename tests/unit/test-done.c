// SPDX-License-Identifier: Apache-2.0
/* Ids in any order become the fewest ranges; each id is reported once, and none is lost. */
#include "transfer/sets.h"

#include "util/util.h"

#include <errno.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

struct told {
	uint64_t first[64], last[64];
	int n, calls, fail_at;
};

static int note(void *arg, uint64_t first, uint64_t last)
{
	struct told *t = arg;

	if (++t->calls == t->fail_at)
		return -EPIPE;
	assert_true(t->n < 64);
	t->first[t->n] = first;
	t->last[t->n++] = last;
	return 0;
}

static void add_all(struct done *d, const uint64_t *ids, size_t n)
{
	for (size_t i = 0; i < n; i++)
		assert_int_equal(done_add(d, ids[i]), 0);
}

static void test_ranges(void **state)
{
	static const uint64_t ids[] = { 9, 3, 1, 2, UINT64_MAX - 1, 7, 10, 0, 5 };
	static const uint64_t want[][2] = { { 0, 3 }, { 5, 5 }, { 7, 7 }, { 9, 10 },
					    { UINT64_MAX - 1, UINT64_MAX - 1 } };
	struct told t = { 0 };
	struct done d;

	(void)state;
	assert_int_equal(done_init(&d), 0);
	add_all(&d, ids, sizeof(ids) / sizeof(ids[0]));
	assert_int_equal(done_flush(&d, note, &t), 0);
	assert_int_equal(t.n, 5);
	for (int i = 0; i < t.n; i++) {
		assert_int_equal(t.first[i], want[i][0]);
		assert_int_equal(t.last[i], want[i][1]);
	}
	t.n = 0;
	assert_int_equal(done_flush(&d, note, &t), 0);
	assert_int_equal(t.n, 0); /* reported once */
	assert_int_equal(done_add(&d, 42), 0);
	assert_int_equal(done_flush(&d, note, &t), 0);
	assert_int_equal(t.n, 1);
	done_destroy(&d);
}

static void test_duplicates(void **state)
{
	static const uint64_t ids[] = { 4, 4, 5, 4, 5, 9, 9 };
	struct told t = { 0 };
	struct done d;

	(void)state;
	done_init(&d);
	add_all(&d, ids, sizeof(ids) / sizeof(ids[0]));
	assert_int_equal(done_flush(&d, note, &t), 0);
	assert_int_equal(t.n, 2);
	assert_int_equal(t.first[0], 4);
	assert_int_equal(t.last[0], 5);
	assert_int_equal(t.first[1], 9);
	assert_int_equal(t.last[1], 9);
	done_destroy(&d);
}

static void test_failure_ends_it(void **state)
{
	static const uint64_t ids[] = { 1, 3, 5 };
	struct told t = { .fail_at = 2 };
	struct done d;

	(void)state;
	done_init(&d);
	add_all(&d, ids, 3);
	assert_int_equal(done_flush(&d, note, &t), -EPIPE);
	assert_int_equal(t.calls, 2);
	done_destroy(&d);
}

#define THREADS 4
#define EACH 20000

struct crowd {
	struct done d;
	atomic_uint turn, running;
	uint8_t *told;       /* [THREADS * EACH], used by the flusher only */
};

/* Thread t adds the ids t, t + THREADS, ... so that each range needs ids of all threads. */
static void *adder(void *arg)
{
	struct crowd *c = arg;
	uint64_t t = atomic_fetch_add(&c->turn, 1);

	for (uint64_t i = 0; i < EACH; i++)
		if (done_add(&c->d, i * THREADS + t))
			abort();
	atomic_fetch_sub(&c->running, 1);
	return NULL;
}

static int mark(void *arg, uint64_t first, uint64_t last)
{
	struct crowd *c = arg;

	for (uint64_t i = first; i <= last; i++)
		c->told[i]++;
	return 0;
}

static void test_threads(void **state)
{
	struct crowd c = { 0 };
	uint8_t *want = malloc(THREADS * EACH);
	pthread_t t[THREADS];

	(void)state;
	done_init(&c.d);
	c.told = calloc(THREADS, EACH);
	atomic_store(&c.running, THREADS);
	for (int i = 0; i < THREADS; i++)
		assert_int_equal(thread_start(&t[i], "adder", adder, &c), 0);
	while (atomic_load(&c.running)) {
		assert_int_equal(done_flush(&c.d, mark, &c), 0);
		sched_yield();
	}
	for (int i = 0; i < THREADS; i++)
		pthread_join(t[i], NULL);
	assert_int_equal(done_flush(&c.d, mark, &c), 0);
	memset(want, 1, THREADS * EACH);
	assert_memory_equal(c.told, want, THREADS * EACH);
	free(want);
	free(c.told);
	done_destroy(&c.d);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_ranges),
		cmocka_unit_test(test_duplicates),
		cmocka_unit_test(test_failure_ends_it),
		cmocka_unit_test(test_threads),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
