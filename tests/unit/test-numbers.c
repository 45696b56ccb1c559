// SPDX-License-Identifier: Apache-2.0
/* The sliding window of block numbers, against a plain table of received numbers. */
#include "transfer/sets.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

static struct numbers *fresh(uint64_t low)
{
	struct numbers *n = calloc(1, sizeof(*n));

	assert_non_null(n);
	n->low = low;
	return n;
}

static void test_in_order(void **state)
{
	struct numbers *n = fresh(0);

	(void)state;
	for (uint64_t i = 0; i < 3 * NUMBERS_WINDOW + 100; i++) {
		assert_int_equal(numbers_add(n, i), 1);
		assert_int_equal(n->low, i + 1);
		assert_int_equal(numbers_add(n, i), 0);
	}
	assert_int_equal(numbers_add(n, 0), 0);
	free(n);
}

static void test_duplicate_ahead_of_a_gap(void **state)
{
	struct numbers *n = fresh(0);

	(void)state;
	assert_int_equal(numbers_add(n, 2), 1);
	assert_int_equal(numbers_add(n, 2), 0);
	assert_int_equal(n->low, 0);
	assert_int_equal(numbers_add(n, 0), 1);
	assert_int_equal(n->low, 1);
	assert_int_equal(numbers_add(n, 1), 1);
	assert_int_equal(n->low, 3);
	assert_int_equal(numbers_add(n, 1), 0);
	free(n);
}

static void test_edge_of_the_window(void **state)
{
	struct numbers *n = fresh(0);

	(void)state;
	assert_int_equal(numbers_add(n, NUMBERS_WINDOW), -EPROTO);
	assert_int_equal(numbers_add(n, UINT64_MAX), -EPROTO);
	assert_int_equal(numbers_add(n, NUMBERS_WINDOW - 1), 1);
	assert_int_equal(numbers_add(n, 0), 1);
	/* The bit of number 0 is free for the window's next number. */
	assert_int_equal(numbers_add(n, NUMBERS_WINDOW), 1);
	assert_int_equal(numbers_add(n, NUMBERS_WINDOW), 0);
	assert_int_equal(numbers_add(n, NUMBERS_WINDOW + 1), -EPROTO);
	for (uint64_t i = 1; i < NUMBERS_WINDOW - 1; i++)
		assert_int_equal(numbers_add(n, i), 1);
	assert_int_equal(n->low, NUMBERS_WINDOW + 1);
	free(n);
}

/* under_way blocks are in flight; any of them arrives next, some of them twice. Checks against a
 * table. */
static void random_order(uint32_t under_way, uint64_t total)
{
	uint64_t room = total + NUMBERS_WINDOW + 2ull * under_way, next = under_way, low = 0;
	uint64_t *pending = calloc(under_way, sizeof(*pending));
	bool *came = calloc(room, sizeof(*came));
	struct numbers *n = fresh(0);

	for (uint32_t k = 0; k < under_way; k++)
		pending[k] = k;
	while (low < total) {
		uint32_t k = (uint32_t)rand() % under_way;
		uint64_t i = rand() % 8 ? pending[k] : (uint64_t)rand() % next;
		int want = came[i] ? 0 : i >= low + NUMBERS_WINDOW ? -EPROTO : 1;

		assert_int_equal(numbers_add(n, i), want);
		if (want == 1)
			came[i] = true;
		if (came[pending[k]])
			pending[k] = next++;
		while (came[low])
			low++;
		assert_int_equal(n->low, low);
	}
	free(pending);
	free(came);
	free(n);
}

static void test_random_order(void **state)
{
	(void)state;
	srand(7);
	random_order(3, 20000);
	random_order(300, 100000);
	random_order(NUMBERS_WINDOW + 100, 200000);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_in_order),
		cmocka_unit_test(test_duplicate_ahead_of_a_gap),
		cmocka_unit_test(test_edge_of_the_window),
		cmocka_unit_test(test_random_order),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
