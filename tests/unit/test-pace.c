// SPDX-License-Identifier: Apache-2.0
/* The token bucket: its mean rate, burst and debt, at rates from bytes to terabits. */
#include "transport/transport.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>

#include <cmocka.h>

#define SECOND 1000000000ull

static void test_no_limit(void **state)
{
	struct pace p;
	int i;

	(void)state;
	pace_init(&p);
	pace_start(&p, 0, 5);
	for (i = 0; i < 1000; i++) {
		pace_take(&p, 1u << 30);
		assert_int_equal(pace_wait_ns(&p, 5), 0);
	}
}

/* A sender that waits exactly as long as told sends at the rate, plus the burst at the start and
 * one block at the end. */
static void test_mean(void **state)
{
	static const struct {
		uint64_t rate, block;
		int blocks;
	} cases[] = {
		{ 1000, 1 << 20, 20 },
		{ 1 << 20, 4096, 2000 },
		{ 100 << 20, 1 << 20, 5000 },
		{ 1250000000, 1 << 20, 100000 },      /* 10 Gbit/s */
		{ 50000000000, 64 << 20, 100000 },    /* 400 Gbit/s */
		{ 999999937, 777777, 100000 },        /* nothing divides evenly */
	};
	size_t i;
	int k;

	(void)state;
	for (i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		uint64_t start = 12345, now = start, sent = 0;
		long double allowed;
		struct pace p;

		pace_init(&p);
		pace_start(&p, cases[i].rate, now);
		for (k = 0; k < cases[i].blocks; k++) {
			uint64_t wait = pace_wait_ns(&p, now);

			if (wait) {
				/* The wait is exact: one nanosecond earlier is too early. */
				struct pace early = p;

				assert_true(pace_wait_ns(&early, now + wait - 1) > 0);
				now += wait;
				assert_int_equal(pace_wait_ns(&p, now), 0);
			}
			pace_take(&p, cases[i].block);
			sent += cases[i].block;
		}
		allowed = (long double)cases[i].rate * (now - start) / SECOND;
		assert_true(sent <= allowed + p.burst + cases[i].block);
		assert_true(sent + cases[i].block >= allowed);
	}
}

static void test_burst_after_pause(void **state)
{
	struct pace p;
	uint64_t now = 0, sent = 0;

	(void)state;
	pace_init(&p);
	pace_start(&p, 100 << 20, now);
	now = 3600 * SECOND;             /* an hour saves up no more than the bucket */
	while (!pace_wait_ns(&p, now)) {
		pace_take(&p, 4096);
		sent += 4096;
	}
	assert_in_range(sent, p.burst, p.burst + 4096);
	assert_in_range(p.burst, 1 << 20, 4 << 20);
}

/* At low rates, too, the burst is a fraction of a second's bytes. */
static void test_low_rates(void **state)
{
	static const struct {
		uint64_t rate, least, most;
	} cases[] = {
		{ 1, 1, 1 },
		{ 1 << 10, 100, 103 },
		{ 100 << 10, 10 << 10, (10 << 10) + 1 },
		{ 1 << 20, 64 << 10, 64 << 10 },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		uint64_t sent = 0;
		struct pace p;

		pace_init(&p);
		pace_start(&p, cases[i].rate, 0);
		while (!pace_wait_ns(&p, 0)) {
			pace_take(&p, 1);
			sent++;
		}
		assert_in_range(sent, cases[i].least, cases[i].most);
	}
}

static void test_debt(void **state)
{
	struct pace p;

	(void)state;
	pace_init(&p);
	pace_start(&p, 1 << 20, 0);
	pace_take(&p, p.burst + (1 << 20));
	/* A debt of one second, plus the time for one byte. */
	assert_in_range(pace_wait_ns(&p, 0), SECOND, SECOND + 1000);
	/* A clock that runs backwards changes nothing. */
	assert_in_range(pace_wait_ns(&p, SECOND / 2), SECOND / 2, SECOND / 2 + 1000);
	assert_in_range(pace_wait_ns(&p, 0), SECOND / 2, SECOND / 2 + 1000);
}

/* Frequent calls lose nothing to rounding: between two calls here the bucket gains a tenth of a
 * byte. */
static void test_fine_steps(void **state)
{
	uint64_t now = 0, sent = 0;
	struct pace p;

	(void)state;
	pace_init(&p);
	pace_start(&p, 1000, now);
	pace_take(&p, p.burst);
	for (now = 0; now < 10 * SECOND; now += SECOND / 10000) {
		if (pace_wait_ns(&p, now))
			continue;
		pace_take(&p, 1);
		sent++;
	}
	assert_in_range(sent, 9990, 10000);
}

struct crowd {
	struct pace p;
	_Atomic uint64_t now, sent;
};

#define CROWD 4
#define CROWD_BLOCK 65536ull

/* Sends if allowed; otherwise advances the shared clock by the wait. */
static void *one_of_crowd(void *arg)
{
	struct crowd *c = arg;

	for (int i = 0; i < 5000; i++) {
		uint64_t now = atomic_load(&c->now), wait = pace_wait_ns(&c->p, now);

		if (wait) {
			atomic_compare_exchange_strong(&c->now, &now, now + wait);
		} else {
			pace_take(&c->p, CROWD_BLOCK);
			atomic_fetch_add(&c->sent, CROWD_BLOCK);
		}
	}
	return NULL;
}

/* Together the threads keep to the rate, and use all of it. */
static void test_shared(void **state)
{
	struct crowd c = { .now = 1 };
	pthread_t t[CROWD];
	double allowed;

	(void)state;
	pace_init(&c.p);
	pace_start(&c.p, 10 << 20, 1);
	for (int i = 0; i < CROWD; i++)
		assert_int_equal(pthread_create(&t[i], NULL, one_of_crowd, &c), 0);
	for (int i = 0; i < CROWD; i++)
		pthread_join(t[i], NULL);
	allowed = (double)(10 << 20) * (double)c.now / SECOND;
	assert_true((double)c.sent <= allowed + (double)(c.p.burst + CROWD * CROWD_BLOCK));
	assert_true((double)c.sent + CROWD * CROWD_BLOCK >= allowed);
	pace_destroy(&c.p);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_no_limit),
		cmocka_unit_test(test_mean),
		cmocka_unit_test(test_burst_after_pause),
		cmocka_unit_test(test_low_rates),
		cmocka_unit_test(test_debt),
		cmocka_unit_test(test_shared),
		cmocka_unit_test(test_fine_steps),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
