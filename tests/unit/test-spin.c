// SPDX-License-Identifier: Apache-2.0
/* Polling or sleeping between completions: the three modes, and the adaptation of POLL_AUTO. */
#include "rdma/path.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#define US 1000u
#define MS 1000000u

static uint64_t now = 1000 * MS;

/* Waits for a completion that arrives after gap. Returns the time spent polling, ns. */
static uint64_t wait_for(struct spin *s, uint64_t gap)
{
	uint64_t begin = now, awake = 0;

	while (now - begin < gap && spin_on(s, now)) {
		now += US;
		awake = now - begin;
	}
	now = begin + gap;
	spin_found(s, now);
	return awake;
}

static void test_never(void **state)
{
	struct spin s;

	spin_init(&s, POLL_NEVER, 64, 2);
	for (int i = 0; i < 100; i++)
		assert_int_equal(wait_for(&s, 5 * US), 0);
}

static void test_always(void **state)
{
	struct spin s;

	spin_init(&s, POLL_ALWAYS, 1, 4);
	for (int i = 0; i < 100; i++) {
		assert_int_equal(wait_for(&s, 300 * US), 300 * US);
		assert_int_equal(wait_for(&s, 5 * MS), SPIN_ALWAYS_NS);
	}
}

static void test_few_processors(void **state)
{
	struct spin s;

	spin_init(&s, POLL_AUTO, 4, 4);
	assert_int_equal(wait_for(&s, 5 * US), 0);
	spin_init(&s, POLL_AUTO, 5, 4);
	assert_int_equal(wait_for(&s, 5 * US), 5 * US);
}

/* The thread polls for quick completions. When they become slow it soon sleeps, and when they
 * become quick again it polls again. */
static void test_learns(void **state)
{
	struct spin s;
	uint64_t awake = 0;
	int i;

	spin_init(&s, POLL_AUTO, 8, 4);
	for (i = 0; i < 100; i++)
		assert_int_equal(wait_for(&s, 20 * US), 20 * US);
	for (i = 0; i < 1000; i++)
		awake += wait_for(&s, 500 * US);
	assert_true(awake > 0 && awake < 20ull * SPIN_NS);
	assert_int_equal(wait_for(&s, 500 * US), 0);
	for (i = 0; i < 40 && !wait_for(&s, 10 * US); i++)
		;
	assert_in_range(i, 1, 30);
	for (i = 0; i < 100; i++)
		assert_int_equal(wait_for(&s, 10 * US), 10 * US);
}

/* One pause, of any length, does not end polling. */
static void test_one_pause(void **state)
{
	struct spin s;
	int i;

	spin_init(&s, POLL_AUTO, 8, 4);
	for (i = 0; i < 100; i++)
		wait_for(&s, 10 * US);
	assert_int_equal(wait_for(&s, 3600000ull * MS), SPIN_NS);
	for (i = 0; i < 4; i++)
		assert_int_equal(wait_for(&s, 10 * US), 10 * US);
}

/* If the kernel preempts the polling thread, another thread needs the CPU: stop polling. */
static void test_put_off(void **state)
{
	struct spin s;

	spin_init(&s, POLL_AUTO, 8, 4);
	for (int i = 0; i < 100; i++)
		wait_for(&s, 10 * US);
	assert_true(spin_on(&s, now));
	now += 4 * MS;
	assert_false(spin_on(&s, now));
	spin_found(&s, now);
	assert_int_equal(wait_for(&s, 10 * US), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_never),
		cmocka_unit_test(test_always),
		cmocka_unit_test(test_few_processors),
		cmocka_unit_test(test_learns),
		cmocka_unit_test(test_one_pause),
		cmocka_unit_test(test_put_off),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
