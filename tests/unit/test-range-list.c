// SPDX-License-Identifier: Apache-2.0
/* The ranges of sparse files: all of them or, if there are too many, ranges that cover all data
 * with few zeros. */
#include "transfer/sets.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

#define KIB 1024ull
#define GIB (1ull << 30)

/* Rules for every list. */
static void check(const struct range_list *g)
{
	uint64_t bytes = 0;

	assert_true(g->n <= BULK_RANGES_MAX);
	for (uint32_t i = 0; i < g->n; i++) {
		bytes += g->v[i].length;
		if (i)
			assert_true(g->v[i].offset >
				    g->v[i - 1].offset + g->v[i - 1].length + g->gap);
	}
	assert_int_equal(bytes, g->bytes);
}

/* Whether one range covers off .. off + len. */
static bool holds(const struct range_list *g, uint64_t off, uint64_t len)
{
	for (uint32_t i = 0; i < g->n; i++)
		if (off >= g->v[i].offset && off + len <= g->v[i].offset + g->v[i].length)
			return true;
	return false;
}

static void test_few(void **state)
{
	struct range_list g = { .most = BULK_RANGES_MAX };

	(void)state;
	assert_int_equal(range_list_add(&g, 4096, 4096), 0);
	assert_int_equal(range_list_add(&g, 3 * 4096, 4096), 0);
	assert_int_equal(range_list_add(&g, 4 * 4096, 1), 0); /* touches the range before */
	check(&g);
	assert_int_equal(g.n, 2);
	assert_int_equal(g.bytes, 2 * 4096 + 1);
	assert_true(g.v[0].offset == 4096 && g.v[0].length == 4096);
	assert_true(g.v[1].offset == 3 * 4096 && g.v[1].length == 4097);
	free(g.v);
}

static void test_as_many_as_go(void **state)
{
	struct range_list g = { .most = BULK_RANGES_MAX };

	(void)state;
	for (uint64_t i = 0; i < BULK_RANGES_MAX; i++)
		assert_int_equal(range_list_add(&g, i * 8 * KIB, 4 * KIB), 0);
	check(&g);
	assert_int_equal(g.n, BULK_RANGES_MAX);
	assert_int_equal(g.bytes, BULK_RANGES_MAX * 4 * KIB);
	free(g.v);
}

/* Small holes are filled, the later large ones are not. */
static void test_too_many(void **state)
{
	struct range_list g = { .most = BULK_RANGES_MAX };
	uint64_t at = 0;

	(void)state;
	for (uint32_t i = 0; i < BULK_RANGES_MAX; i++, at += 8 * KIB)
		assert_int_equal(range_list_add(&g, at, 4 * KIB), 0);
	for (uint32_t i = 0; i < 1000; i++, at += GIB)
		assert_int_equal(range_list_add(&g, at, 4 * KIB), 0);
	check(&g);
	assert_true(g.bytes <= (BULK_RANGES_MAX * 8 + 1000 * 4) * KIB);
	assert_true(holds(&g, 0, 4 * KIB) && holds(&g, at - GIB, 4 * KIB));
	free(g.v);
}

/* Ranges at random offsets with holes of random sizes: no data is lost. */
static void test_far_too_many(void **state)
{
	struct range_list g = { .most = BULK_RANGES_MAX };
	uint64_t n = 10 * BULK_RANGES_MAX, *at = calloc(n, sizeof(*at)), end = 0;

	(void)state;
	assert_non_null(at);
	srandom(5);
	for (uint64_t i = 0; i < n; i++) {
		at[i] = end + (((uint64_t)random() % 4096 + 1) << 12);
		end = at[i] + 4096;
		assert_int_equal(range_list_add(&g, at[i], 4096), 0);
	}
	check(&g);
	for (uint64_t i = 0; i < n; i += 997)
		assert_true(holds(&g, at[i], 4096));
	/* Many of the possible ranges are used. */
	assert_true(g.n > BULK_RANGES_MAX / 4);
	assert_true(g.bytes < end);
	free(g.v);
	free(at);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_few),
		cmocka_unit_test(test_as_many_as_go),
		cmocka_unit_test(test_too_many),
		cmocka_unit_test(test_far_too_many),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
