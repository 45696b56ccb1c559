// SPDX-License-Identifier: Apache-2.0
/* Sets of byte ranges that refuse overlaps: single cases, random ranges against a bitmap, the
 * ranges taken from the budget, and orders of insertion that degrade a tree. */
#include "transfer/sets.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define BUDGET 100000

static spans_budget budget = BUDGET;

static uint32_t count(const struct spans *s)
{
	struct span g = { 0 };
	uint32_t n = 0;

	while (spans_next(s, g.end, &g))
		n++;
	return n;
}

static void test_cases(void **state)
{
	static const struct {
		const char *what;
		struct { uint64_t at, end; int want; } add[6];
		struct span is[4];
	} cases[] = {
		{ "one", { { 5, 9, 0 } }, { { 5, 9 } } },
		{ "in order", { { 0, 5, 0 }, { 5, 9, 0 }, { 9, 10, 0 } }, { { 0, 10 } } },
		{ "backwards", { { 9, 10, 0 }, { 5, 9, 0 }, { 0, 5, 0 } }, { { 0, 10 } } },
		{ "a gap", { { 0, 5, 0 }, { 6, 9, 0 } }, { { 0, 5 }, { 6, 9 } } },
		{ "a gap before", { { 6, 9, 0 }, { 0, 5, 0 } }, { { 0, 5 }, { 6, 9 } } },
		{ "a gap that is filled", { { 0, 5, 0 }, { 6, 9, 0 }, { 5, 6, 0 } }, { { 0, 9 } } },
		{ "all of it twice", { { 0, 5, 0 }, { 0, 5, -EEXIST } }, { { 0, 5 } } },
		{ "its first byte", { { 5, 9, 0 }, { 4, 6, -EEXIST } }, { { 5, 9 } } },
		{ "its last byte", { { 5, 9, 0 }, { 8, 10, -EEXIST } }, { { 5, 9 } } },
		{ "inside", { { 5, 9, 0 }, { 6, 7, -EEXIST } }, { { 5, 9 } } },
		{ "around", { { 5, 9, 0 }, { 4, 10, -EEXIST } }, { { 5, 9 } } },
		{ "of several: the first", { { 0, 2, 0 }, { 4, 6, 0 }, { 8, 9, 0 }, { 1, 3, -EEXIST } },
		  { { 0, 2 }, { 4, 6 }, { 8, 9 } } },
		{ "of several: the next", { { 0, 2, 0 }, { 4, 6, 0 }, { 8, 9, 0 }, { 2, 5, -EEXIST } },
		  { { 0, 2 }, { 4, 6 }, { 8, 9 } } },
		{ "of several: two", { { 0, 2, 0 }, { 4, 6, 0 }, { 8, 9, 0 }, { 5, 9, -EEXIST } },
		  { { 0, 2 }, { 4, 6 }, { 8, 9 } } },
		{ "of several: all", { { 1, 2, 0 }, { 4, 6, 0 }, { 8, 9, 0 }, { 0, 10, -EEXIST } },
		  { { 1, 2 }, { 4, 6 }, { 8, 9 } } },
		{ "of several: the last", { { 0, 2, 0 }, { 4, 6, 0 }, { 8, 9, 0 }, { 8, 11, -EEXIST } },
		  { { 0, 2 }, { 4, 6 }, { 8, 9 } } },
		{ "joins to the left", { { 0, 2, 0 }, { 4, 6, 0 }, { 2, 3, 0 } },
		  { { 0, 3 }, { 4, 6 } } },
		{ "joins to the right", { { 0, 2, 0 }, { 4, 6, 0 }, { 3, 4, 0 } },
		  { { 0, 2 }, { 3, 6 } } },
		{ "joins two", { { 0, 2, 0 }, { 4, 6, 0 }, { 8, 9, 0 }, { 2, 4, 0 } },
		  { { 0, 6 }, { 8, 9 } } },
		{ "again what was joined", { { 0, 2, 0 }, { 4, 6, 0 }, { 2, 4, 0 }, { 3, 4, -EEXIST } },
		  { { 0, 6 } } },
		{ "the end of all", { { INT64_MAX - 1, INT64_MAX, 0 }, { 0, 1, 0 },
				      { INT64_MAX - 2, INT64_MAX, -EEXIST } },
		  { { 0, 1 }, { INT64_MAX - 1, INT64_MAX } } },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct spans s = { 0 };
		struct span g = { 0 };

		assert_true(spans_empty(&s));
		for (int k = 0; k < 6 && cases[i].add[k].end; k++)
			if (spans_add(&s, cases[i].add[k].at, cases[i].add[k].end, &budget) !=
			    cases[i].add[k].want)
				fail_msg("%s: number %d", cases[i].what, k);
		assert_false(spans_empty(&s));
		for (int k = 0; k < 4 && cases[i].is[k].end; k++) {
			assert_true(spans_next(&s, g.end, &g));
			if (memcmp(&g, &cases[i].is[k], sizeof(g)))
				fail_msg("%s: is number %d", cases[i].what, k);
		}
		assert_false(spans_next(&s, g.end, &g));
		spans_clear(&s, &budget);
		assert_true(spans_empty(&s));
	}
	assert_int_equal(budget, BUDGET);
}

static void test_hold(void **state)
{
	struct spans s = { 0 };

	(void)state;
	assert_false(spans_hold(&s, 0, 1));
	assert_true(spans_hold(&s, 5, 5));
	for (int tree = 0; tree < 2; tree++) {
		assert_int_equal(spans_add(&s, tree ? 20 : 5, tree ? 30 : 10, &budget), 0);
		assert_true(spans_hold(&s, 5, 10));
		assert_true(spans_hold(&s, 6, 9));
		assert_false(spans_hold(&s, 4, 6));
		assert_false(spans_hold(&s, 9, 11));
		assert_false(spans_hold(&s, 0, 1));
		assert_false(spans_hold(&s, 10, 11));
		assert_false(spans_hold(&s, 5, 25));
	}
	assert_true(spans_hold(&s, 20, 30));
	spans_clear(&s, &budget);
}

/* Ranges in order need no memory, and memory of filled gaps is reused. */
static void test_memory(void **state)
{
	struct spans s = { 0 };

	(void)state;
	for (uint64_t i = 0; i < 100000; i++)
		assert_int_equal(spans_add(&s, i * 10, i * 10 + 10, &budget), 0);
	assert_null(s.others);
	assert_int_equal(budget, BUDGET);
	/* Groups of sixteen ranges, the last of each group first. */
	for (uint64_t i = 100000; i < 200000; i += 16)
		for (uint64_t k = 16; k--;)
			assert_int_equal(spans_add(&s, (i + k) * 10, (i + k) * 10 + 10, &budget), 0);
	for (uint64_t i = 200000; i < 300000; i += 16)
		for (uint64_t k = 0; k < 16; k++)
			assert_int_equal(spans_add(&s, (i + k * 7 % 16) * 10,
						   (i + k * 7 % 16) * 10 + 10, &budget), 0);
	assert_int_equal(count(&s), 1);
	assert_int_equal(budget, BUDGET);
	/* When many gaps are filled, all memory is returned. */
	for (uint64_t i = 300001; i < 302000; i += 2)
		assert_int_equal(spans_add(&s, i * 10, i * 10 + 10, &budget), 0);
	assert_int_equal(budget, BUDGET - 1000);
	for (uint64_t i = 300000; i < 302000; i += 2)
		assert_int_equal(spans_add(&s, i * 10, i * 10 + 10, &budget), 0);
	assert_null(s.others);
	assert_int_equal(budget, BUDGET);
	assert_true(spans_hold(&s, 0, 3020000));
	assert_int_equal(spans_add(&s, 0, 1, &budget), -EEXIST);
	spans_clear(&s, &budget);
	assert_int_equal(budget, BUDGET);
}

/* Without budget a new range is refused, and the set stays valid. */
static void test_budget(void **state)
{
	struct spans a = { 0 }, b = { 0 };
	spans_budget few = 1000;
	uint64_t n = 0;

	(void)state;
	while (!spans_add(&a, 2 * n, 2 * n + 1, &few))
		n++;
	assert_int_equal(n, 1001);
	assert_int_equal(spans_add(&a, 2 * n, 2 * n + 1, &few), -ENOBUFS);
	assert_int_equal(count(&a), 1001);
	/* A range that joins two others still fits. */
	assert_int_equal(spans_add(&a, 7, 8, &few), 0);
	assert_int_equal(spans_add(&a, 2 * n, 2 * n + 1, &few), 0);
	assert_int_equal(spans_add(&a, 7, 8, &few), -EEXIST);
	/* Another set uses the rest of the budget. */
	assert_int_equal(spans_add(&a, 21, 22, &few), 0);
	assert_int_equal(spans_add(&b, 0, 1, &few), 0);
	for (n = 1; !spans_add(&b, 2 * n, 2 * n + 1, &few);)
		n++;
	assert_int_equal(n, 2);
	spans_clear(&a, &few);
	assert_int_equal(spans_add(&b, 2 * n, 2 * n + 1, &few), 0);
	spans_clear(&b, &few);
	assert_int_equal(few, 1000);
	few = 0;
	assert_int_equal(spans_add(&a, 0, 1, &few), 0);
	assert_int_equal(spans_add(&a, 2, 3, &few), -ENOBUFS);
	assert_int_equal(spans_add(&a, 0, 1, &few), -EEXIST);
	assert_int_equal(spans_add(&a, 1, 2, &few), 0);
	assert_int_equal(few, 0);
}

/* Returns the i-th of n numbers (a power of two), in an order that degrades an unbalanced tree to a
 * list. */
static uint64_t upwards(uint64_t i, uint64_t n)
{
	(void)n;
	return i;
}

static uint64_t downwards(uint64_t i, uint64_t n)
{
	return n - 1 - i;
}

static uint64_t inwards(uint64_t i, uint64_t n)
{
	return i % 2 ? n - 1 - i / 2 : i / 2;
}

static uint64_t outwards(uint64_t i, uint64_t n)
{
	return i % 2 ? n / 2 + i / 2 : n / 2 - 1 - i / 2;
}

/* Ranges in the worst order are added and found in logarithmic time: a list would need minutes. */
static void test_orders(void **state)
{
	static uint64_t (*const order[])(uint64_t i, uint64_t n) = { upwards, downwards, inwards,
								     outwards };
	uint64_t n = 65536;

	(void)state;
	for (size_t k = 0; k < sizeof(order) / sizeof(order[0]); k++) {
		struct spans s = { 0 };
		uint64_t at;

		for (uint64_t i = 0; i < n; i++) {
			at = order[k](i, n);
			assert_int_equal(spans_add(&s, 2 * at, 2 * at + 1, &budget), 0);
		}
		for (uint64_t i = 0; i < n; i++) {
			at = order[k](i, n);
			assert_int_equal(spans_add(&s, 2 * at + 1, 2 * at + 2, &budget), 0);
		}
		assert_int_equal(count(&s), 1);
		assert_true(spans_hold(&s, 0, 2 * n));
		spans_clear(&s, &budget);
	}
	assert_int_equal(budget, BUDGET);
}

#define BYTES 4000u

struct model {
	struct spans s;
	bool has[BYTES];
};

static bool any(const struct model *m, uint32_t at, uint32_t end)
{
	for (; at < end; at++)
		if (m->has[at])
			return true;
	return false;
}

static void compare(const struct model *m)
{
	struct span g = { 0 };
	uint32_t at = 0;

	while (spans_next(&m->s, g.end, &g)) {
		assert_true(g.end <= BYTES);
		for (; at < g.at; at++)
			assert_false(m->has[at]);
		for (; at < g.end; at++)
			assert_true(m->has[at]);
		assert_true(at == BYTES || !m->has[at]); /* otherwise two ranges were not joined */
	}
	assert_false(any(m, at, BYTES));
}

/* Adds random pieces of up to most bytes until all bytes are there. */
static void random_pieces(uint32_t most)
{
	struct model m = { 0 };
	uint32_t left = BYTES;

	for (uint32_t round = 0; left; round++) {
		uint32_t at = (uint32_t)rand() % BYTES, end = at + 1 + (uint32_t)rand() % most;
		bool again;

		if (end > BYTES || round > 20 * BYTES) /* then only missing bytes, one at a time */
			end = at + 1;
		again = any(&m, at, end);
		assert_int_equal(spans_add(&m.s, at, end, &budget), again ? -EEXIST : 0);
		for (uint32_t i = at; i < end && !again; i++, left--)
			m.has[i] = true;
		assert_int_equal(spans_hold(&m.s, at, end), !again || !memchr(m.has + at, 0, end - at));
		if (round % 64 == 0 || !left)
			compare(&m);
	}
	assert_int_equal(count(&m.s), 1);
	spans_clear(&m.s, &budget);
}

static void test_random(void **state)
{
	(void)state;
	srand(7);
	for (int i = 0; i < 5; i++) {
		random_pieces(1);
		random_pieces(10);
		random_pieces(300);
	}
	assert_int_equal(budget, BUDGET);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_cases),
		cmocka_unit_test(test_hold),
		cmocka_unit_test(test_memory),
		cmocka_unit_test(test_budget),
		cmocka_unit_test(test_orders),
		cmocka_unit_test(test_random),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
