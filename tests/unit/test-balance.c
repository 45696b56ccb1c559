// SPDX-License-Identifier: Apache-2.0
/* When the balancer spreads blocks over the links of all nodes: a replay of the experiment in
 * section 6.3 of the Tyche paper, and loads under which it must not flap. */
#include "numa/numa.h"
#include "transfer/placement/sched.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define US 1000ull
#define MS 1000000ull
#define GBIT 125000000.0 /* bytes per second */

/* Fifty times as fast as in the paper: intervals of 1.2 s instead of 60 s, checks every 100 ms. */
#define INTERVAL (1200 * MS)
#define CHECK (100 * MS)

#define LINKS 4
#define THREADS 32
static const int node_of[LINKS] = { 0, 0, 0, 1 };
static const int nodes[] = { 0, 1, 2 };
static const uint64_t rates[] = { 1000000, 1000000, 1000000, 1000000, 1000000 };
static const bool all[] = { true, true, true, true, true };

struct link {
	uint64_t busy_until;
	uint64_t out;             /* bytes */
	struct sched_rate rate;
};

/* A thread has one request at a time and pauses after each. */
struct thread {
	int node;
	uint32_t bytes;
	uint64_t pause;
	uint64_t ready;           /* end of the request or of the pause */
	int link;                 /* of the current request; -1: no request */
};

struct machine {
	struct link link[LINKS];
	struct thread thread[THREADS];
	struct balance balance;
	bool dynamic;
	double sink;              /* bytes per second that the receiver takes; 0: no limit */
	uint64_t sink_until;
	uint64_t now, done;       /* done: bytes */
	unsigned turns;           /* number of changed decisions */
	uint64_t spread_ns;
};

static void begin(struct machine *m, bool dynamic)
{
	memset(m, 0, sizeof(*m));
	m->dynamic = dynamic;
	balance_init(&m->balance, node_of, LINKS, 0, CHECK, 0);
	for (unsigned i = 0; i < LINKS; i++)
		sched_rate_init(&m->link[i].rate, 10000, 0);
	for (unsigned i = 0; i < THREADS; i++)
		m->thread[i].link = -1;
}

/* The first on_one threads read on node 1, the rest on node 0. */
static void load(struct machine *m, unsigned on_one, uint32_t bytes_one, uint64_t pause_one,
		 uint32_t bytes_zero, uint64_t pause_zero)
{
	for (unsigned i = 0; i < THREADS; i++) {
		struct thread *t = &m->thread[i];

		t->node = i < on_one;
		t->bytes = i < on_one ? bytes_one : bytes_zero;
		t->pause = i < on_one ? pause_one : pause_zero;
	}
}

static uint32_t choose(struct machine *m, const struct thread *t)
{
	struct sched_load l[LINKS];
	uint64_t shares[LINKS];

	for (uint32_t i = 0; i < LINKS; i++) {
		l[i] = (struct sched_load){ m->link[i].out, atomic_load(&m->link[i].rate.rate), true,
					    true, node_of[i] == t->node ? SCHED_LOCAL : SCHED_FAR };
		shares[i] = balance_share(&m->balance, i);
	}
	if (atomic_load(&m->balance.spread))
		return sched_spread(l, LINKS, shares, t->bytes);
	return sched_choose(l, LINKS, t->bytes);
}

static void issue(struct machine *m, struct thread *t)
{
	uint32_t i = choose(m, t);
	struct link *k = &m->link[i];
	uint64_t start = k->busy_until > m->now ? k->busy_until : m->now;

	assert_true(i < LINKS);
	balance_chosen(&m->balance, i, node_of[i] == t->node, t->bytes);
	k->busy_until = start + (uint64_t)(t->bytes * 1e9 / (10 * GBIT));
	t->ready = k->busy_until;
	if (m->sink > 0) {
		start = m->sink_until > t->ready ? m->sink_until : t->ready;
		m->sink_until = t->ready = start + (uint64_t)(t->bytes * 1e9 / m->sink);
	}
	t->link = (int)i;
	k->out += t->bytes;
}

static void end_of(struct machine *m, struct thread *t)
{
	struct link *k = &m->link[t->link];

	k->out -= t->bytes;
	m->done += t->bytes;
	balance_acked(&m->balance, (uint32_t)t->link, t->bytes);
	sched_rate_acked(&k->rate, t->bytes, k->out, m->now);
	t->link = -1;
	t->ready = m->now + t->pause;
}

static void check(struct machine *m)
{
	uint64_t rate[LINKS];
	const char *why;

	for (unsigned i = 0; i < LINKS; i++)
		rate[i] = atomic_load(&m->link[i].rate.rate);
	m->turns += balance_check(&m->balance, rate, all, m->now, &why);
}

/* Runs the machine for ns; returns its rate in Gbit/s. */
static double run(struct machine *m, uint64_t ns)
{
	uint64_t end = m->now + ns, before = m->done;

	for (;;) {
		struct thread *next = &m->thread[0];

		for (unsigned i = 1; i < THREADS; i++)
			if (m->thread[i].ready < next->ready)
				next = &m->thread[i];
		if (next->ready >= end)
			break;
		if (atomic_load(&m->balance.spread) && next->ready > m->now)
			m->spread_ns += next->ready - m->now;
		m->now = next->ready > m->now ? next->ready : m->now;
		if (m->dynamic)
			check(m);
		if (next->link < 0)
			issue(m, next);
		else
			end_of(m, next);
	}
	m->now = end;
	return (double)(m->done - before) * 1e9 / (double)ns / GBIT;
}

/* ---- the experiment ---- */

#define BIG 131072u
#define SMALL 4096u
#define QUICK (20 * US)
/* With these pauses, 8 threads of 4 KiB use 45 % or 35 % of 10 Gbit/s. */
#define PAUSE_45 (55 * US)
#define PAUSE_35 (72 * US)

static const struct interval {
	const char *what;
	unsigned on_one;
	uint32_t bytes_one;
	uint64_t pause_one;
	uint32_t bytes_zero;
	uint64_t pause_zero;
	double affine, affine_most, dynamic; /* Gbit/s of 40: minimum and maximum; minimum */
} intervals[] = {
	{ "1: even", 16, BIG, QUICK, BIG, QUICK, 39, 40.1, 39 },
	{ "2: all on node 1", 32, BIG, QUICK, BIG, QUICK, 9.5, 10.1, 35 },
	{ "3: all on node 0", 0, BIG, QUICK, BIG, QUICK, 29, 30.1, 38 },
	{ "4: all on node 1", 32, BIG, QUICK, BIG, QUICK, 9.5, 10.1, 35 },
	{ "5: three quarters on node 0", 8, BIG, QUICK, BIG, QUICK, 38, 40.1, 38 },
	{ "6: three quarters on node 1, the rest small", 24, BIG, QUICK, SMALL, PAUSE_45, 13, 15, 35 },
	{ "7: even", 16, BIG, QUICK, BIG, QUICK, 38, 40.1, 38 },
	{ "8: as 5, the rest small, and nearly as busy", 8, SMALL, PAUSE_45, BIG, QUICK, 33, 35, 33 },
	{ "8: and less so", 8, SMALL, PAUSE_35, BIG, QUICK, 32, 34.5, 37 },
};

static void test_experiment(void **state)
{
	struct machine *affine = malloc(sizeof(*affine)), *dynamic = malloc(sizeof(*dynamic));

	(void)state;
	assert_true(affine && dynamic);
	begin(affine, false);
	begin(dynamic, true);
	for (size_t i = 0; i < sizeof(intervals) / sizeof(intervals[0]); i++) {
		const struct interval *v = &intervals[i];
		uint64_t ns = v->what[0] == '8' ? INTERVAL / 2 : INTERVAL;
		double a, d;

		load(affine, v->on_one, v->bytes_one, v->pause_one, v->bytes_zero, v->pause_zero);
		load(dynamic, v->on_one, v->bytes_one, v->pause_one, v->bytes_zero, v->pause_zero);
		a = run(affine, ns);
		d = run(dynamic, ns);
		print_message("%-45s affinity %5.1f, dynamic %5.1f Gbit/s, %u turns\n", v->what, a, d,
			      dynamic->turns);
		if (a < v->affine || a > v->affine_most)
			fail_msg("%s: %.1f Gbit/s by affinity alone", v->what, a);
		if (d < v->dynamic)
			fail_msg("%s: %.1f Gbit/s", v->what, d);
	}
	/* Intervals 5 and 7 need no spreading because affinity alone fills the links. That leaves
	 * eight decisions, and one or two more when the load moves. */
	assert_true(dynamic->turns >= 5 && dynamic->turns <= 12);
	free(affine);
	free(dynamic);
}

/* ---- steady loads ---- */

/* The receiver is no faster than one link. The balancer tries spreading, then tries it less and
 * less often, and gives up. */
static void test_slow_sink(void **state)
{
	struct machine *m = malloc(sizeof(*m));
	double rate;

	(void)state;
	assert_non_null(m);
	begin(m, true);
	m->sink = 10 * GBIT;
	load(m, 32, BIG, QUICK, BIG, QUICK);
	rate = run(m, 100 * CHECK);
	print_message("%.1f Gbit/s, %u turns, spread for %.0f %%\n", rate, m->turns,
		      100.0 * (double)m->spread_ns / (double)m->now);
	assert_true(rate > 9.8);
	assert_true(m->turns >= 2 && m->turns <= 30);
	assert_true(m->spread_ns < m->now / 5);
	free(m);
}

/* Spreading pays all the time, so the balancer keeps it. */
static void test_steady(void **state)
{
	struct machine *m = malloc(sizeof(*m));
	double rate;

	(void)state;
	assert_non_null(m);
	begin(m, true);
	load(m, 32, BIG, QUICK, BIG, QUICK);
	rate = run(m, 100 * CHECK);
	assert_int_equal(m->turns, 1);
	assert_true(rate > 39);
	free(m);
}

/* The links have room for all requests, so the balancer never spreads. */
static void test_idle(void **state)
{
	struct machine *m = malloc(sizeof(*m));

	(void)state;
	assert_non_null(m);
	begin(m, true);
	load(m, 32, SMALL, 200 * US, SMALL, 200 * US);
	run(m, 50 * CHECK);
	assert_int_equal(m->turns, 0);
	assert_int_equal(m->spread_ns, 0);
	free(m);
}

/* The balancer also spreads loads that are shorter than an interval. */
static void test_short(void **state)
{
	struct machine *m = malloc(sizeof(*m));

	(void)state;
	assert_non_null(m);
	begin(m, true);
	load(m, 32, BIG, QUICK, BIG, QUICK);
	assert_true(run(m, CHECK) > 33);
	free(m);
}

/* ---- the decision after a trial ---- */

/* One path on each of two nodes, the first one full. In each millisecond the first path carries
 * pace() blocks; while blocks are spread, the second carries as many. */
struct course {
	int node;              /* of the first path */
	unsigned ms;
	unsigned (*pace)(unsigned ms, unsigned changed); /* blocks; changed: last turn; 0: none */
	unsigned turns, spread; /* decisions; ms of spreading */
};

static void take(struct balance *b, uint32_t path, unsigned blocks)
{
	for (; blocks; blocks--) {
		balance_chosen(b, path, path == 0, 1000);
		balance_full(b, path);
		balance_acked(b, path, 1000);
	}
}

static void follow(struct course *c)
{
	const int of[] = { c->node, 1 };
	unsigned changed = 0;
	struct balance b;
	const char *why;

	balance_init(&b, of, 2, 0, 500 * MS, 0);
	for (unsigned ms = 0; ms < c->ms; ms++) {
		bool spread = atomic_load(&b.spread);
		unsigned blocks = c->pace(ms, changed);

		take(&b, 0, blocks);
		if (spread)
			take(&b, 1, blocks);
		c->spread += spread;
		if (balance_check(&b, rates, all, (ms + 1) * MS, &why)) {
			c->turns++;
			changed = ms + 1;
		}
	}
}

static unsigned even(unsigned ms, unsigned changed)
{
	(void)ms, (void)changed;
	return 1;
}

/* After a decision, 50 ms pass before the first new block is acknowledged. */
static unsigned filling(unsigned ms, unsigned changed)
{
	return changed && ms - changed < 50 ? 0 : 1;
}

static unsigned hiccup(unsigned ms, unsigned changed)
{
	return changed && ms - changed >= 60 && ms - changed < 160 ? 0 : 1;
}

/* The first 50 ms are three times as fast, because they only fill buffers. */
static unsigned burst(unsigned ms, unsigned changed)
{
	(void)changed;
	return ms < 50 ? 3 : 1;
}

static void test_judged(void **state)
{
	const struct {
		const char *what;
		unsigned (*pace)(unsigned ms, unsigned changed);
		unsigned turns, spread; /* maximum; minimum */
	} cases[] = {
		{ "even", even, 1, 4900 },
		{ "the change takes time", filling, 1, 4900 },
		{ "a hiccup", hiccup, 1, 4900 },
		{ "a start that was faster", burst, 3, 4000 },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct course c = { .ms = 5000, .pace = cases[i].pace };

		follow(&c);
		print_message("%s: %u turns, spread for %u ms\n", cases[i].what, c.turns, c.spread);
		if (c.turns > cases[i].turns || c.spread < cases[i].spread)
			fail_msg("%s", cases[i].what);
	}
}

/* The node of the full card is not known: paths of other nodes still help it. */
static void test_unknown(void **state)
{
	struct course c = { .node = NODE_UNKNOWN, .ms = 5000, .pace = even };

	(void)state;
	follow(&c);
	assert_int_equal(c.turns, 1);
	assert_true(c.spread >= 4900);
}

/* The paths carry four blocks at a time in 128 ms, so acknowledgements come in bursts. An interval
 * of 500 ms holds few bursts, and their number depends on its start. */
static unsigned heaps(unsigned ms, unsigned changed)
{
	(void)changed;
	return ms % 128 ? 0 : 4;
}

static void test_slow(void **state)
{
	struct course c = { .ms = 60000, .pace = heaps };

	(void)state;
	follow(&c);
	print_message("%u turns, spread for %u ms\n", c.turns, c.spread);
	assert_int_equal(c.turns, 1);
	assert_true(c.spread > 50000);
}

/* Whether one check spreads blocks. In a tenth of a check interval a path of node 0 carries `went`
 * bytes; its best rate is `best`; in `waits` of ten choices it had no room. TIMES repeats the ten
 * choices four times. `other`: the path of node 1 is alive. */
#define TIMES 4
static bool spreads(uint64_t went, uint64_t best, unsigned waits, bool other)
{
	const bool alive[] = { true, other };
	uint64_t rate[] = { best, best };
	struct balance b;
	const char *why;

	balance_init(&b, nodes, 2, 0, SCHED_MEMORY_NS, 0);
	for (unsigned i = 0; i < 10 * TIMES; i++)
		balance_chosen(&b, 0, true, went / 10 / TIMES);
	for (unsigned i = 0; i < waits * TIMES; i++)
		balance_full(&b, 0);
	balance_acked(&b, 0, went);
	return balance_check(&b, rate, alive, SCHED_MEMORY_NS / 10, &why);
}

/* Four paths of node 0 carry half of their rate. For `waits` of every four blocks, all four paths
 * had no room. */
static bool four_spread(unsigned waits)
{
	static const int of[] = { 0, 0, 0, 0, 1 };
	struct balance b;
	const char *why;

	balance_init(&b, of, 5, 0, 2000 * MS, 0);
	for (unsigned turn = 0; turn < 100; turn++)
		for (uint32_t i = 0; i < 4; i++) {
			balance_chosen(&b, i, true, 1000);
			balance_acked(&b, i, 1000);
			for (uint32_t k = 0; k < 4 && i < waits; k++)
				balance_full(&b, k);
		}
	return balance_check(&b, rates, all, 200 * MS, &why);
}

/* A path without room counts as full, even if it was faster for a moment. The use of a path with
 * room is measured against its best rate. */
static void test_full(void **state)
{
	const uint64_t second = 10000000000ull / SCHED_MEMORY_NS;

	(void)state;
	assert_false(spreads(100000, 200000 * second, 0, true));
	assert_false(spreads(100000, 200000 * second, 4, true));
	assert_true(spreads(100000, 200000 * second, 5, true));
	assert_true(spreads(100000, 200000 * second, 30, true));
	assert_true(spreads(100000, 150000 * second, 0, true));
	/* The other node has no live path. */
	assert_false(spreads(100000, 150000 * second, 30, false));
	/* A block that finds no room on several paths counts as one wait. */
	assert_false(four_spread(0));
	assert_false(four_spread(1));
	assert_true(four_spread(2));
}

/* The number of decisions while the links of two nodes carry 1 MB/s each of local blocks. rate0 and
 * rate1 are their best recent rates. */
static unsigned turns_at(unsigned percent, uint64_t rate0, uint64_t rate1)
{
	const uint64_t rate[] = { rate0, rate1 };
	unsigned turns = 0;
	struct balance b;
	const char *why;

	balance_init(&b, nodes, 2, percent, 500 * MS, 0);
	for (unsigned ms = 1; ms <= 5000; ms++) {
		for (uint32_t i = 0; i < 2; i++) {
			balance_chosen(&b, i, true, 1000);
			balance_acked(&b, i, 1000);
		}
		turns += balance_check(&b, rate, all, ms * MS, &why);
	}
	return turns;
}

/* A link's use never counts as more than 100 %. */
static void test_most(void **state)
{
	(void)state;
	assert_int_equal(turns_at(0, 1000000, 1000000), 0);
	assert_int_equal(turns_at(0, 500000, 250000), 0);
	assert_int_equal(turns_at(100, 1000000, 100000), 0);
	assert_true(turns_at(60, 1000000, 4000000) > 0);
}

/* For one second the links of one node are used 15 points more than those of another, then all
 * equally. With a threshold of 10 the blocks become local again. */
static void test_low_threshold(void **state)
{
	unsigned turns = 0;
	struct balance b;
	const char *why;

	(void)state;
	balance_init(&b, nodes, 3, 10, 500 * MS, 0);
	for (unsigned ms = 1; ms <= 5000; ms++) {
		for (uint32_t i = 0; i < 3; i++) {
			uint64_t bytes = ms <= 1000 ? 450 + 75 * i : 600;

			balance_chosen(&b, i, true, bytes);
			balance_acked(&b, i, bytes);
		}
		turns += balance_check(&b, rates, all, ms * MS, &why);
		assert_true(ms != 1000 || turns == 1);
	}
	assert_int_equal(turns, 2);
}

/* ---- choices ---- */

static void test_distance(void **state)
{
	const enum sched_distance L = SCHED_LOCAL, N = SCHED_NEAR, F = SCHED_FAR;
	const struct {
		const char *what;
		struct sched_load l[3];
		uint32_t best;
	} cases[] = {
		{ "local, though it has more to do",
		  { { 9000, 1, true, true, L }, { 0, 1, true, true, N }, { 0, 1, true, true, F } }, 0 },
		{ "it is full: near",
		  { { 9000, 1, true, false, L }, { 0, 1, true, true, N }, { 0, 1, true, true, F } }, 1 },
		{ "both are: wait",
		  { { 9000, 1, true, false, L }, { 0, 1, true, false, N }, { 0, 1, true, true, F } }, 3 },
		{ "local is dead: near",
		  { { 0, 1, false, true, L }, { 0, 1, true, true, N }, { 0, 1, true, true, F } }, 1 },
		{ "only far ones live",
		  { { 0, 1, false, true, L }, { 0, 1, false, true, N }, { 0, 1, true, true, F } }, 2 },
		{ "near, dead, far: wait for the near one",
		  { { 0, 1, true, false, N }, { 0, 1, false, true, L }, { 0, 1, true, true, F } }, 3 },
	};
	const enum sched_distance nearest[] = { L, L, L, N, F, N };

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		uint32_t best = sched_choose(cases[i].l, 3, 100);

		if (best != cases[i].best)
			fail_msg("%s: %u", cases[i].what, best);
		assert_int_equal(sched_nearest(cases[i].l, 3), nearest[i]);
	}
}

/* Links of 10 and 100 Gbit/s get a tenth and nine tenths; a link without room gets its turn
 * later. */
static void test_round(void **state)
{
	struct sched_load l[3] = { { 0, 1250, true, true, SCHED_FAR },
				   { 0, 12500, true, true, SCHED_LOCAL },
				   { 0, 12500, false, true, SCHED_LOCAL } };
	uint64_t shares[3] = { 0 };

	(void)state;
	for (unsigned i = 0; i < 1100; i++)
		shares[sched_spread(l, 3, shares, 1000)] += 1000;
	assert_true(shares[0] >= 99000 && shares[0] <= 101000);
	assert_int_equal(shares[0] + shares[1], 1100000);
	l[1].room = false;
	assert_int_equal(sched_spread(l, 3, shares, 1000), 0);
	l[0].room = false;
	assert_int_equal(sched_spread(l, 3, shares, 1000), 3);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_distance),
		cmocka_unit_test(test_round),
		cmocka_unit_test(test_experiment),
		cmocka_unit_test(test_slow_sink),
		cmocka_unit_test(test_steady),
		cmocka_unit_test(test_idle),
		cmocka_unit_test(test_short),
		cmocka_unit_test(test_judged),
		cmocka_unit_test(test_slow),
		cmocka_unit_test(test_unknown),
		cmocka_unit_test(test_full),
		cmocka_unit_test(test_most),
		cmocka_unit_test(test_low_threshold),
	};

	return cmocka_run_group_tests_name("balance", tests, NULL, NULL);
}
