// SPDX-License-Identifier: Apache-2.0
/* The scheduling factor: its units, what makes it larger, what has none, and ranks. */
#include "numa/factor.h"
#include "numa/stats.h"

#include <errno.h>
#include <float.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>

#include <cmocka.h>

#define GIGA 1000000000u

static double factor(double snoops, double lines, double ns, uint64_t link)
{
	struct factor_counts c = { snoops, lines, ns };
	double f = -1;

	assert_int_equal(factor_of(&c, link, &f), 0);
	return f;
}

static bool near(double a, double b)
{
	return fabs(a - b) <= 1e-12 * fabs(b);
}

/* Snoops per line × ns ÷ GB/s. */
static void test_units(void **state)
{
	(void)state;
	assert_true(near(factor(1000, 1000, 1, GIGA), 1));
	assert_true(near(factor(500, 1000, 8, 20ull * GIGA), 0.2));
	assert_true(near(factor(3000, 1000, 8, 10ull * GIGA), 2.4));
	/* Twice the walk with twice the snoops is the same machine. */
	assert_true(near(factor(6000, 2000, 8, 10ull * GIGA), 2.4));
	/* 1 GB/s stands for a width that is not known. */
	assert_true(near(factor(3000, 1000, 8, 0), 24));
	assert_true(near(factor(3000, 1000, 8, 0), factor(3000, 1000, 8, GIGA)));
}

/* Larger means worse: more traffic, more latency, less width. */
static void test_worse(void **state)
{
	double f = factor(1000, 1000, 5, 20ull * GIGA);

	(void)state;
	/* The traffic that was seen on remote nodes: 5 to 7 times. */
	assert_true(near(factor(5000, 1000, 5, 20ull * GIGA), 5 * f));
	assert_true(near(factor(7000, 1000, 5, 20ull * GIGA), 7 * f));
	assert_true(near(factor(1000, 1000, 7.5, 20ull * GIGA), 1.5 * f));
	assert_true(near(factor(1000, 1000, 5, 10ull * GIGA), 2 * f));
	/* A walk that causes none is as good as it gets. */
	assert_true(factor(0, 1000, 5, 20ull * GIGA) <= 0);
}

static void test_none(void **state)
{
	static const struct { struct factor_counts c; uint64_t link; int code; } bad[] = {
		{ { 1, 0, 1 }, GIGA, -EINVAL },         /* no line was read */
		{ { 0, 0, 0 }, GIGA, -EINVAL },
		{ { 1, 1, 0 }, GIGA, -EINVAL },         /* in no time */
		{ { -1, 1, 1 }, GIGA, -EINVAL },
		{ { 1, -1, 1 }, GIGA, -EINVAL },
		{ { 1, 1, -1 }, GIGA, -EINVAL },
		{ { NAN, 1, 1 }, GIGA, -EINVAL },
		{ { 1, NAN, 1 }, GIGA, -EINVAL },
		{ { 1, 1, INFINITY }, GIGA, -EINVAL },
		{ { DBL_MAX, 1, DBL_MAX }, GIGA, -ERANGE },
		{ { DBL_MAX, 0.5, 1 }, GIGA, -ERANGE },
		{ { DBL_MAX, 1, 1 }, 1, -ERANGE },      /* a link of one byte per second */
	};

	(void)state;
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		double f = 7;

		if (factor_of(&bad[i].c, bad[i].link, &f) != bad[i].code)
			fail_msg("%zu", i);
		assert_true(f <= 0 && f >= 0);
	}
	/* The most that counters can hold has one. */
	assert_true(isfinite(factor(18446744073709551615.0, 1, 1e9, 1)));
}

static void test_ranks(void **state)
{
	unsigned rank[5];

	(void)state;
	/* The second is local. */
	factor_ranks((double []){ 3, -1, 0.5, 3, 9 }, 5, rank);
	assert_int_equal(rank[0], 2);
	assert_int_equal(rank[1], 0);
	assert_int_equal(rank[2], 1);
	assert_int_equal(rank[3], 2);
	assert_int_equal(rank[4], 4);
	factor_ranks((double []){ 0 }, 1, rank);
	assert_int_equal(rank[0], 1);
	factor_ranks((double []){ -1 }, 1, rank);
	assert_int_equal(rank[0], 0);
}

static void test_median(void **state)
{
	(void)state;
	assert_true(near(stats_median((double []){ 9, 1, 4 }, 3), 4));
	assert_true(near(stats_median((double []){ 9, 1, 4, 6 }, 4), 5));
	assert_true(near(stats_median((double []){ 2 }, 1), 2));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_units),
		cmocka_unit_test(test_worse),
		cmocka_unit_test(test_none),
		cmocka_unit_test(test_ranks),
		cmocka_unit_test(test_median),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
