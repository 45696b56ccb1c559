// SPDX-License-Identifier: Apache-2.0
/* Staged plans: cases solved by hand, and all choices tried one by one. Rates are bytes per
 * second, so small ones make small times. */
#include "numa/staged_lp.h"

#include <errno.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define NEAR 1e-5

static struct staged_problem problem;
static struct staged_plan plan;
static struct staged_state found;

static void near(double got, double want, const char *what)
{
	if (!(fabs(got - want) <= NEAR * fabs(want)))
		fail_msg("%s is %.9g, not %.9g", what, got, want);
}

/* n nodes with so many threads, no data, no bandwidth and no limit. */
static struct staged_problem *nodes(unsigned n, unsigned threads)
{
	memset(&problem, 0, sizeof(problem));
	problem.n = n;
	for (unsigned i = 0; i < n; i++) {
		problem.id[i] = (int)i;
		problem.threads[i] = threads;
		problem.disk_limit[i] = problem.network_limit[i] = INFINITY;
		for (unsigned k = 0; k < n; k++)
			problem.link_limit[i][k] = INFINITY;
	}
	return &problem;
}

static void solve(enum staged_objective objective)
{
	struct err e = ERR_INIT;

	if (!staged_can_solve())
		skip();
	if (staged_solve(&problem, objective, NULL, NULL, &plan, &found, &e))
		fail_msg("%s", e.text);
	assert_true(found.proven);
	near(objective == STAGED_SUM ? staged_sum(&problem, &plan) :
	     staged_makespan(&problem, &plan), found.best, "the plan's own time");
}

/* What every plan must be: all data leaves, no node has more threads than it has. */
static void is_whole(void)
{
	for (unsigned i = 0; i < problem.n; i++) {
		double read = 0, in = 0, out = 0, threads = 0;

		for (unsigned k = 0; k < problem.n; k++) {
			read += plan.disk[i][k].bytes;
			in += plan.disk[k][i].bytes;
			out += plan.network[i][k].bytes;
			threads += plan.disk[k][i].threads + plan.network[i][k].threads;
			assert_true(plan.disk[i][k].threads == floor(plan.disk[i][k].threads));
			assert_true(plan.disk[i][k].bytes <= 0 || plan.disk[i][k].threads >= 1);
			assert_true(plan.network[i][k].bytes <= 0 ||
				    plan.network[i][k].threads >= 1);
		}
		assert_true(fabs(read - problem.data[i]) <= NEAR * problem.data[i]);
		assert_true(fabs(in - out) <= NEAR * (in + 1));
		assert_true(threads <= problem.threads[i]);
	}
}

static void fails(int code, const char *words)
{
	struct err e = ERR_INIT;

	if (!staged_can_solve())
		skip();
	assert_int_equal(staged_solve(&problem, STAGED_SUM, NULL, NULL, &plan, &found, &e), code);
	assert_int_equal(e.code, code);
	if (!strstr(e.text, words))
		fail_msg("\"%s\" does not say \"%s\"", e.text, words);
}

/* ---- by hand ---- */

/* One node, 100 bytes, a disk thread 2/s, a network thread 1/s. With 6 threads, d of them for
 * the disk: max(100 / 2d, 100 / (6 - d)) is 25 at d = 2, and 33.3 and 50 beside it. A seventh
 * thread is of no use: d = 2 leaves the disk at 25, d = 3 the network. An eighth neither: 5 of
 * the network would need 20 of the disk. Nine: 100 / 2d and 100 / (9 - d) at d = 3 are 16.7. */
static void test_one_node(void **state)
{
	static const struct { unsigned threads, disk, network; double time; } cases[] = {
		{ 2, 1, 1, 100 }, { 3, 1, 2, 50 }, { 6, 2, 4, 25 }, { 7, 2, 4, 25 },
		{ 8, 3, 5, 20 }, { 9, 3, 6, 100 / 6.0 },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		nodes(1, cases[i].threads);
		problem.data[0] = 100;
		problem.disk[0][0] = 2;
		problem.network[0][0] = 1;
		for (int objective = STAGED_SUM; objective <= STAGED_MAKESPAN; objective++) {
			solve((enum staged_objective)objective);
			is_whole();
			near(staged_sum(&problem, &plan), cases[i].time, "the sum");
			near(staged_makespan(&problem, &plan), cases[i].time, "the makespan");
			near(plan.disk[0][0].threads, cases[i].disk, "disk threads");
			near(plan.network[0][0].threads, cases[i].network, "network threads");
		}
	}
}

/* The disk on node 0, the card on 1; a thread moves 2/s within a node and 1/s across, whatever
 * it does. With 3 threads a node, memory on 0: one reads 2/s, two send 1/s each; memory on 1:
 * two read, one sends. Either is 2/s, so 120 bytes are 60 s by one, and by both, too, as a sum:
 * x/2 + (120 - x)/2. Side by side they are 30 s each. */
static void test_either_memory(void **state)
{
	(void)state;
	nodes(2, 3);
	problem.data[0] = 120;
	problem.disk[0][0] = 2;
	problem.disk[0][1] = 1;
	problem.network[0][1] = 1;
	problem.network[1][1] = 2;
	solve(STAGED_SUM);
	is_whole();
	near(found.best, 60, "the sum");
	solve(STAGED_MAKESPAN);
	is_whole();
	near(found.best, 30, "the makespan");
	near(plan.disk[0][0].bytes, 60, "bytes by memory 0");
	near(plan.disk[0][1].threads, 2, "threads that read across");
	near(plan.network[0][1].threads, 2, "threads that send across");
	near(staged_path_bytes(&plan, 2, 0, 1, 1), 60, "bytes by memory 1");
}

/* The same places, where sending across costs more than reading across: a node's two threads
 * are one that reads and one that sends. By memory 0: max(180/2, 180/0.5) = 360. By memory 1:
 * max(180/1.8, 180/2) = 100. Both side by side: 0.5/s and 1.8/s, so 180/2.3. And the other way
 * round, memory 0 is the one. */
static void test_where_to_cross(void **state)
{
	(void)state;
	nodes(2, 2);
	problem.data[0] = 180;
	problem.disk[0][0] = 2;
	problem.disk[0][1] = 1.8;
	problem.network[0][1] = 0.5;
	problem.network[1][1] = 2;
	solve(STAGED_SUM);
	is_whole();
	near(found.best, 100, "the sum");
	near(plan.disk[0][1].bytes, 180, "bytes read across");
	assert_true(plan.disk[0][0].threads <= 0);
	solve(STAGED_MAKESPAN);
	is_whole();
	near(found.best, 180 / 2.3, "the makespan");
	near(plan.disk[0][1].bytes, 180 * 1.8 / 2.3, "bytes read across");
	problem.disk[0][1] = 0.5;
	problem.network[0][1] = 1.8;
	solve(STAGED_SUM);
	near(found.best, 100, "the sum");
	near(plan.network[0][1].bytes, 180, "bytes sent across");
}

/* Two storages into one memory: three threads, at least. With three: max(60/1, 30/1, 90/1), for
 * each of the two paths. */
static void test_few_threads(void **state)
{
	(void)state;
	nodes(2, 1);
	problem.data[0] = 60;
	problem.disk[0][0] = problem.network[0][0] = 1;
	fails(-EDOM, "two threads");
	problem.threads[0] = 2;
	problem.data[1] = 30;
	problem.disk[1][0] = 1;
	fails(-EDOM, "too few threads");
	problem.threads[0] = 3;
	solve(STAGED_SUM);
	is_whole();
	near(found.best, 180, "the sum");
	near(staged_makespan(&problem, &plan), 90, "the makespan");
}

/* A card of 2.5/s, network threads of 1/s: the third brings 2.5 and not 3, a fourth nothing; the
 * disk keeps up with two threads of 2/s. */
static void test_limits(void **state)
{
	struct staged_part part[4];

	(void)state;
	for (unsigned threads = 5; threads < 40; threads += 17) {
		nodes(1, threads);
		problem.data[0] = 100;
		problem.disk[0][0] = 2;
		problem.network[0][0] = 1;
		problem.network_limit[0] = 2.5;
		solve(STAGED_SUM);
		is_whole();
		near(found.best, 40, "the sum");
		near(plan.disk[0][0].threads, 2, "disk threads");
		near(plan.network[0][0].threads, 3, "network threads");
		assert_int_equal(staged_bottlenecks(&problem, &plan, part, 4), 1);
		assert_int_equal(part[0].kind, STAGED_NETWORK);
	}
	problem.disk_limit[0] = 1.25;
	solve(STAGED_SUM);
	near(found.best, 80, "the sum");
	near(plan.disk[0][0].threads, 1, "disk threads");
	near(plan.network[0][0].threads, 2, "network threads");
	assert_int_equal(staged_bottlenecks(&problem, &plan, part, 4), 1);
	assert_int_equal(part[0].kind, STAGED_DISK);
	assert_int_equal(part[0].from, 0);
}

/* Disk on 0, card on 1, the link between them 0.5/s: all data crosses it, be it read across or
 * sent across, so both memories together are no quicker than one. */
static void test_link(void **state)
{
	struct staged_part part[4];

	(void)state;
	nodes(2, 8);
	problem.data[0] = 100;
	problem.disk[0][0] = problem.disk[0][1] = 1;
	problem.network[0][1] = problem.network[1][1] = 1;
	problem.link_limit[0][1] = 0.5;
	solve(STAGED_MAKESPAN);
	is_whole();
	near(found.best, 200, "the makespan");
	assert_int_equal(staged_bottlenecks(&problem, &plan, part, 4), 1);
	assert_int_equal(part[0].kind, STAGED_LINK);
	assert_int_equal(part[0].from, 0);
	assert_int_equal(part[0].to, 1);
	/* Nothing goes back, and node 1 has no disks. */
	problem.link_limit[1][0] = 0;
	problem.disk_limit[1] = 0;
	assert_true(staged_time(&problem, &plan, STAGED_DISK, 1, 1) == 0);
	solve(STAGED_MAKESPAN);
	near(found.best, 200, "the makespan");
	problem.link_limit[0][1] = 0;
	fails(-EDOM, "cannot leave");
}

static void test_no_data(void **state)
{
	(void)state;
	nodes(2, 4);
	for (unsigned i = 0; i < 4; i++)
		problem.disk[i / 2][i % 2] = problem.network[i / 2][i % 2] = 1;
	fails(-EDOM, "no data");
	problem.data[1] = 100;
	solve(STAGED_MAKESPAN);
	is_whole();
	/* 2 read and 2 send in each memory: 4/s. */
	near(found.best, 25, "the makespan");
	for (unsigned v = 0; v < 2; v++)
		assert_true(plan.disk[0][v].threads <= 0 && plan.disk[0][v].bytes <= 0);
	problem.data[0] = 1e-5;
	fails(-EDOM, "millionth");
}

static void test_no_way(void **state)
{
	(void)state;
	nodes(3, 4);
	problem.data[0] = problem.data[2] = 100;
	problem.disk[0][0] = problem.network[0][0] = 1;
	fails(-EDOM, "data of node 2 cannot be read");
	problem.disk[2][1] = 1;
	fails(-EDOM, "data of node 2 cannot leave");
	problem.network[1][2] = 1;
	solve(STAGED_SUM);
	problem.network_limit[2] = 0;
	fails(-EDOM, "data of node 2 cannot leave");
	problem.network_limit[2] = INFINITY;
	problem.disk_limit[0] = 0;
	fails(-EDOM, "data of node 0 cannot be read");
}

/* Without a plan: 100 bytes on node 0 of two, a thread 1/s, across half; 4 threads each, the
 * card on 1. 50 bytes to each memory by 2 threads: 25 s and 50 s; then 50 by 2 threads across
 * and within: 50 s and 25 s. A plan's makespan, in halves of 2 and 2 threads: 1/s by memory 0,
 * and by memory 1; with 1 that reads and 3 that send, 1/s, too: 50 s. */
static void test_spread(void **state)
{
	(void)state;
	nodes(2, 4);
	problem.data[0] = 100;
	problem.disk[0][0] = problem.network[1][1] = 1;
	problem.disk[0][1] = problem.network[0][1] = 0.5;
	assert_int_equal(staged_spread(&problem, &plan), 0);
	near(staged_time(&problem, &plan, STAGED_DISK_THREADS, 0, 0), 25, "reading");
	near(staged_time(&problem, &plan, STAGED_DISK_THREADS, 0, 1), 50, "reading across");
	near(staged_time(&problem, &plan, STAGED_NETWORK_THREADS, 1, 1), 25, "sending");
	near(staged_makespan(&problem, &plan), 50, "the makespan");
	near(staged_sum(&problem, &plan), 100, "the sum");
	problem.network_limit[1] = 1;
	near(staged_makespan(&problem, &plan), 100, "the makespan");
	solve(STAGED_MAKESPAN);
	near(found.best, 100, "the makespan");
	problem.disk[0][1] = 0;
	assert_int_equal(staged_spread(&problem, &plan), -EDOM);
}

/* ---- all choices, one by one ---- */

static double drawn(unsigned *seed, const double *from, unsigned n)
{
	*seed = *seed * 1103515245u + 12345u;
	return from[(*seed >> 16) % n];
}

static void draw_problem(unsigned *seed, unsigned threads)
{
	static const double rates[] = { 0, 0.3, 0.5, 1, 1, 1.7, 2 };
	static const double limits[] = { 0.4, 1.3, 2, INFINITY, INFINITY, INFINITY };
	static const double data[] = { 0, 10, 25, 70 };
	static const double fewer[] = { 0, 0, 1 };

	nodes(2, 0);
	for (unsigned i = 0; i < 2; i++) {
		problem.threads[i] = threads - (unsigned)drawn(seed, fewer, 3);
		problem.data[i] = drawn(seed, data, 4);
		problem.disk_limit[i] = drawn(seed, limits, 6);
		problem.network_limit[i] = drawn(seed, limits, 6);
		for (unsigned k = 0; k < 2; k++) {
			problem.disk[i][k] = drawn(seed, rates, 7);
			problem.network[i][k] = drawn(seed, rates, 7);
			problem.link_limit[i][k] = drawn(seed, limits, 6);
		}
	}
}

/* The next choice of threads, all stages of which have 0 to most; false behind the last. */
static bool next_choice(unsigned *threads, unsigned stages, unsigned most)
{
	for (unsigned i = 0; i < stages; i++) {
		if (threads[i]++ < most)
			return true;
		threads[i] = 0;
	}
	return false;
}

static bool fits(const struct net *net, const unsigned *threads)
{
	unsigned sum[STAGED_NODES] = { 0 };

	for (unsigned i = 0; i < net->stages; i++) {
		sum[net->stage[i].memory] += threads[i];
		if (sum[net->stage[i].memory] > problem.threads[net->stage[i].memory])
			return false;
	}
	return true;
}

/* The least over all choices, each with its own linear programme; INFINITY: none is possible. */
static double try_all(enum staged_objective objective)
{
	static struct net net;
	unsigned threads[8] = { 0 };
	double bytes[8], needed[8], best = INFINITY;
	struct relaxed out = { 0, bytes, needed };

	net_make(&net, &problem, objective);
	assert_true(net.stages <= 8);
	do {
		struct ranges r = { threads, threads };
		int rc = fits(&net, threads) ? lp_relax(&net, &r, NULL, NULL, &out) : -EDOM;

		assert_true(!rc || rc == -EDOM);
		if (!rc)
			best = fmin(best, out.objective * net.seconds);
	} while (next_choice(threads, net.stages, problem.threads[0]));
	return best;
}

static void test_all_choices(void **state)
{
	unsigned seed = 7, possible = 0;

	(void)state;
	if (!staged_can_solve())
		skip();
	for (unsigned round = 0; round < 40; round++) {
		enum staged_objective objective = round % 2 ? STAGED_SUM : STAGED_MAKESPAN;
		struct err e = ERR_INIT;
		double best;
		int r;

		draw_problem(&seed, 3);
		problem.threads[0] = 3;
		r = staged_solve(&problem, objective, NULL, NULL, &plan, &found, &e);
		if (r == -EDOM && staged_check(&problem, NULL))
			continue;
		best = try_all(objective);
		assert_int_equal(r, isinf(best) ? -EDOM : 0);
		if (r)
			continue;
		possible++;
		is_whole();
		near(found.best, best, "the best of all");
		near(objective == STAGED_SUM ? staged_sum(&problem, &plan) :
		     staged_makespan(&problem, &plan), best, "the plan's own time");
	}
	assert_true(possible > 12);
}

/* ---- without any linear programme ---- */

#define STEPS 500

/* One storage and one card's node leave a single number open, what goes by memory 0. */
static double try_grid(enum staged_objective objective)
{
	double best = INFINITY;
	unsigned t[4] = { 0 };

	do {
		if (t[0] + t[1] > problem.threads[0] || t[2] + t[3] > problem.threads[1])
			continue;
		for (unsigned i = 0; i <= STEPS; i++) {
			double by0 = problem.data[0] * i / STEPS, by1 = problem.data[0] - by0;
			double time;

			if ((by0 > 0 && (!t[0] || !t[1])) || (by1 > 0 && (!t[2] || !t[3])))
				continue;
			memset(&plan, 0, sizeof(plan));
			plan.disk[0][0] = (struct staged_flow){ t[0], by0 };
			plan.network[0][1] = (struct staged_flow){ t[1], by0 };
			plan.disk[0][1] = (struct staged_flow){ t[2], by1 };
			plan.network[1][1] = (struct staged_flow){ t[3], by1 };
			time = objective == STAGED_SUM ? staged_sum(&problem, &plan) :
			       staged_makespan(&problem, &plan);
			best = fmin(best, time);
		}
	} while (next_choice(t, 4, problem.threads[0]));
	return best;
}

static void test_grid(void **state)
{
	unsigned seed = 99;

	(void)state;
	for (unsigned round = 0; round < 40; round++) {
		enum staged_objective objective = round % 2 ? STAGED_SUM : STAGED_MAKESPAN;
		double best;

		draw_problem(&seed, 5);
		problem.threads[0] = 5;
		problem.data[0] = 100;
		problem.data[1] = 0;
		for (unsigned i = 0; i < 2; i++) {
			problem.disk[0][i] += 0.1;
			problem.network[i][1] += 0.1;
			problem.network[i][0] = 0;
		}
		solve(objective);
		is_whole();
		best = try_grid(objective);
		/* The grid misses the best bytes by half a step, at most. */
		if (found.best > best * (1 + NEAR) || found.best < best * (1 - 4.0 / STEPS))
			fail_msg("round %u: %g, and by the grid %g", round, found.best, best);
	}
}

/* ---- larger, and ended early ---- */

static void many_nodes(unsigned n, unsigned threads)
{
	nodes(n, threads);
	for (unsigned i = 0; i < n; i++) {
		problem.data[i] = i < 2 ? 100 + i : 0;
		for (unsigned k = 0; k < n; k++) {
			problem.disk[i][k] = i == k ? 2 : 1 + 0.07 * ((i * 5 + k * 3) % 7);
			problem.network[i][k] = k + 2 < n ? 0 : i == k ? 1.9 :
						0.9 + 0.05 * ((i * 3 + k * 5) % 11);
		}
	}
}

static bool few(void *arg, const struct staged_state *s)
{
	unsigned *left = arg;

	assert_true(s->bound <= s->best);
	return (*left)-- > 0;
}

static void test_ended_early(void **state)
{
	struct err e = ERR_INIT;
	unsigned left = 200;
	double best;

	(void)state;
	if (!staged_can_solve())
		skip();
	many_nodes(3, 6);
	assert_int_equal(staged_solve(&problem, STAGED_SUM, few, &left, &plan, &found, &e), 0);
	assert_false(found.proven);
	is_whole();
	assert_true(found.bound < found.best);
	best = found.best;
	solve(STAGED_SUM);
	assert_true(found.best <= best * (1 + NEAR));
	left = 0;
	assert_int_equal(staged_solve(&problem, STAGED_SUM, few, &left, &plan, &found, &e),
			 -ECANCELED);
	assert_non_null(strstr(e.text, "before any plan"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_one_node),
		cmocka_unit_test(test_either_memory),
		cmocka_unit_test(test_where_to_cross),
		cmocka_unit_test(test_few_threads),
		cmocka_unit_test(test_limits),
		cmocka_unit_test(test_link),
		cmocka_unit_test(test_no_data),
		cmocka_unit_test(test_no_way),
		cmocka_unit_test(test_spread),
		cmocka_unit_test(test_all_choices),
		cmocka_unit_test(test_grid),
		cmocka_unit_test(test_ended_early),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
