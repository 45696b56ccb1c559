// SPDX-License-Identifier: Apache-2.0
/* The choice of a path for the next block: single choices from a table, rates estimated from
 * acknowledgements, and simulated runs on paths of known speed. */
#include "transfer/placement/sched.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#define MIB (1ull << 20)
#define L SCHED_LOCAL
#define MS 1000000ull
#define SECOND 1000000000ull

static void test_choice(void **state)
{
	static const struct {
		const char *what;
		uint32_t n;
		struct sched_load l[3];
		uint32_t best;
	} cases[] = {
		{ "one", 1, { { 0, 0, true, true, L } }, 0 },
		{ "nothing known: the emptiest", 2,
		  { { 4 * MIB, 0, true, true, L }, { 2 * MIB, 0, true, true, L } }, 1 },
		{ "ten times as fast, with five times as much", 2,
		  { { 5 * MIB, 10000 * MIB, true, true, L }, { MIB, 1000 * MIB, true, true, L } }, 0 },
		{ "and with thirty times as much", 2,
		  { { 30 * MIB, 10000 * MIB, true, true, L }, { MIB, 1000 * MIB, true, true, L } }, 1 },
		{ "dead ones do not count", 2,
		  { { 0, 10000 * MIB, false, true, L }, { 9 * MIB, 10 * MIB, true, true, L } }, 1 },
		{ "all dead", 2, { { 0, 0, false, true, L }, { 0, 0, false, true, L } }, 2 },
		{ "the best is full: the next", 2,
		  { { 2 * MIB, 1000 * MIB, true, false, L }, { 3 * MIB, 1000 * MIB, true, true, L } }, 1 },
		{ "the best is full, the other much slower: wait", 2,
		  { { 2 * MIB, 1000 * MIB, true, false, L }, { 3 * MIB, 10 * MIB, true, true, L } }, 2 },
		{ "all full", 2,
		  { { MIB, 0, true, false, L }, { MIB, 0, true, false, L } }, 2 },
		{ "the new one is tried", 3,
		  { { 8 * MIB, 100 * MIB, true, true, L }, { 8 * MIB, 1000 * MIB, true, true, L },
		    { 0, 0, true, true, L } }, 2 },
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		uint32_t best = sched_choose(cases[i].l, cases[i].n, MIB);

		if (best != cases[i].best)
			fail_msg("%s: %u instead of %u", cases[i].what, best, cases[i].best);
	}
}

static uint64_t rate_of(struct sched_rate *r)
{
	return atomic_load(&r->rate);
}

/* Acknowledges bytes at rate for ns nanoseconds, once per millisecond. Returns the new time. */
static uint64_t deliver(struct sched_rate *r, uint64_t rate, uint64_t ns, bool busy, uint64_t now)
{
	uint64_t end = now + ns;

	for (; now < end; now += MS)
		sched_rate_acked(r, rate / 1000, busy, now);
	return now;
}

static void test_rate(void **state)
{
	struct sched_rate r;
	uint64_t now = SECOND;

	sched_rate_init(&r, 10000, now);
	assert_true(rate_of(&r) == 10000 * 125000ull);
	sched_rate_init(&r, 0, now);
	assert_true(rate_of(&r) == 0);
	now = deliver(&r, 100 * MIB, 200 * MS, true, now);
	assert_true(rate_of(&r) > 99 * MIB && rate_of(&r) < 101 * MIB);
	/* An idle path keeps its rate. */
	now = deliver(&r, MIB, SECOND, true, now);
	assert_true(rate_of(&r) > 99 * MIB);
	/* A busy path loses its rate only after SCHED_MEMORY_NS. */
	now = deliver(&r, 10 * MIB, 3 * SCHED_MEMORY_NS, true, now);
	assert_true(rate_of(&r) > 9 * MIB && rate_of(&r) < 11 * MIB);
	/* A higher rate counts at once. */
	deliver(&r, 50 * MIB, 200 * MS, true, now);
	assert_true(rate_of(&r) > 49 * MIB);
}

/* A path without blocks in flight gives no estimate. */
static void test_idle(void **state)
{
	struct sched_rate r;

	sched_rate_init(&r, 0, 0);
	deliver(&r, 100 * MIB, SECOND, false, SECOND);
	assert_true(rate_of(&r) == 0);
}

struct link {
	uint64_t rate;          /* bytes per second */
	uint32_t room;          /* blocks */
	uint32_t out;
	uint64_t done_at;       /* when the block on the wire is complete, ns */
	uint64_t bytes;         /* delivered */
	struct sched_rate seen;
};

#define BLOCK MIB

/* Simulates the links from time 0 to end, with a source that is faster than all of them together.
 * Returns bytes per second. */
static double run(struct link *l, uint32_t n, uint64_t end)
{
	uint64_t all = 0;

	for (uint32_t i = 0; i < n; i++)
		sched_rate_init(&l[i].seen, 0, 0);
	for (uint64_t now = 0; now < end; now += MS / 10) {
		for (uint32_t i = 0; i < n; i++) {
			while (l[i].out && l[i].done_at <= now) {
				l[i].out--;
				l[i].bytes += BLOCK;
				sched_rate_acked(&l[i].seen, BLOCK, l[i].out, now);
				l[i].done_at += BLOCK * SECOND / l[i].rate;
			}
		}
		for (;;) {
			struct sched_load load[8];
			uint32_t at;

			for (uint32_t i = 0; i < n; i++)
				load[i] = (struct sched_load){ l[i].out * BLOCK,
							       atomic_load(&l[i].seen.rate), true,
							       l[i].out < l[i].room, L };
			at = sched_choose(load, n, BLOCK);
			if (at == n)
				break;
			if (!l[at].out++)
				l[at].done_at = now + BLOCK * SECOND / l[at].rate;
		}
	}
	for (uint32_t i = 0; i < n; i++)
		all += l[i].bytes;
	return (double)all * 1e9 / (double)end;
}

/* Links of 10 and 100 Gbit/s give 110 Gbit/s together. */
static void test_unequal_links(void **state)
{
	struct link l[2] = { { .rate = 1250000000, .room = 64 },
			     { .rate = 12500000000, .room = 64 } };
	double rate = run(l, 2, 5 * SECOND);

	if (rate < 0.97 * 13750000000.0)
		fail_msg("%.0f bytes per second", rate);
}

/* A link that slows down, as with packet loss, does not slow down the other link. */
static void test_slow_link(void **state)
{
	struct link l[2] = { { .rate = 2000000, .room = 64 }, { .rate = 1250000000, .room = 64 } };
	double rate = run(l, 2, 60 * SECOND);

	if (rate < 0.97 * 1250000000.0)
		fail_msg("%.0f bytes per second", rate);
	/* The slow link gets only the blocks it held before its rate was known. */
	assert_true(l[0].out <= 2);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_choice),
		cmocka_unit_test(test_rate),
		cmocka_unit_test(test_idle),
		cmocka_unit_test(test_unequal_links),
		cmocka_unit_test(test_slow_link),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
