// SPDX-License-Identifier: Apache-2.0
/* A staged problem out of the I/O model: which bandwidth goes where, and a plan by hand. */
#include "numa/plan_problem.h"
#include "tests/support/sysfs.h"

#include <errno.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

#define CORES 8  /* of each of the two nodes, with two CPUs each */
#define GB 1e9

static struct staged_problem problem;
static struct plan_lacks all_lacking = { true, true, true, true, true, true };
static struct topo *topo;

static int setup(void **state)
{
	if (tmp_setup(state))
		return -1;
	topo = topo_read(sysfs_make("two"), NULL);
	return topo ? 0 : -1;
}

static int teardown(void **state)
{
	topo_free(topo);
	return tmp_teardown(state);
}

/* Bandwidths of all threads with nodes 0 and 1, in GB/s. */
static void add(struct model *m, int node, unsigned threads, const double *write,
		const double *read)
{
	struct target *t = model_add(m, node);

	assert_non_null(t);
	t->threads = threads;
	for (int op = 0; op < MODEL_OPS; op++)
		for (int i = 0; i < 2; i++) {
			struct row *r = &t->row[op];

			r->cell[i].node = i;
			r->cell[i].median = GB * (op == MODEL_WRITE ? write[i] : read[i]);
			r->n = 2;
		}
}

/* No two alike. */
static const double write0[] = { 40, 12 }, read0[] = { 36, 24 };
static const double write1[] = { 20, 44 }, read1[] = { 16, 48 };

static struct model *model_of(unsigned threads0, unsigned threads1)
{
	struct model *m = model_new(topo);

	assert_non_null(m);
	if (threads0)
		add(m, 0, threads0, write0, read0);
	if (threads1)
		add(m, 1, threads1, write1, read1);
	return m;
}

/* Both nodes, with data and cards on each, and no limits. */
static void both(void)
{
	problem = (struct staged_problem){ .n = 2, .id = { 0, 1 }, .data = { 1, 1 },
					   .threads = { 16, 16 } };
	plan_unlimited(&problem);
}

static void take(struct model *m, const struct plan_lacks *lacks)
{
	struct err e = ERR_INIT;

	if (plan_model(m, topo, lacks, &problem, &e))
		fail_msg("%s", e.text);
	model_free(m);
}

static void fails(struct model *m, int code, const char *words)
{
	struct err e = ERR_INIT;

	assert_int_equal(plan_model(m, topo, &all_lacking, &problem, &e), code);
	if (!strstr(e.text, words))
		fail_msg("\"%s\" does not say \"%s\"", e.text, words);
	model_free(m);
}

static void are(double got[STAGED_NODES][STAGED_NODES], const double want[4], const char *what)
{
	for (int i = 0; i < 4; i++) {
		double v = got[i / 2][i % 2] / GB;

		if (!(isinf(want[i]) ? isinf(v) : fabs(v - want[i]) < 1e-9))
			fail_msg("%s[%d][%d] is %g GB/s, not %g", what, i / 2, i % 2, v, want[i]);
	}
}

/* From the storage's target, to the cards' target, for one of its threads; links by the better
 * one of both ends. */
static void test_matrices(void **state)
{
	(void)state;
	both();
	take(model_of(CORES, CORES), &all_lacking);
	are(problem.disk, (double []){ 36 / 8.0, 24 / 8.0, 16 / 8.0, 48 / 8.0 }, "disk");
	are(problem.network, (double []){ 40 / 8.0, 20 / 8.0, 12 / 8.0, 44 / 8.0 }, "network");
	are(problem.link_limit, (double []){ 40, 24, 16, 48 }, "link_limit");
	assert_true(isinf(problem.disk_limit[0]) && isinf(problem.network_limit[1]));
}

/* Nodes go by their place in the problem. */
static void test_order(void **state)
{
	(void)state;
	both();
	problem.id[0] = 1;
	problem.id[1] = 0;
	take(model_of(CORES, 2 * CORES), &all_lacking);
	are(problem.disk, (double []){ 48 / 16.0, 16 / 16.0, 24 / 8.0, 36 / 8.0 }, "disk");
	are(problem.network, (double []){ 44 / 16.0, 12 / 8.0, 20 / 16.0, 40 / 8.0 }, "network");
	are(problem.link_limit, (double []){ 48, 16, 24, 40 }, "link_limit");
}

/* Fewer threads than cores have not filled a link; those of its other end may have. */
static void test_partial(void **state)
{
	(void)state;
	both();
	take(model_of(CORES - 1, CORES), &all_lacking);
	are(problem.disk, (double []){ 36 / 7.0, 24 / 7.0, 16 / 8.0, 48 / 8.0 }, "disk");
	are(problem.link_limit, (double []){ INFINITY, 24, 16, 48 }, "link_limit");
	both();
	take(model_of(1, 1), &all_lacking);
	are(problem.link_limit, (double []){ INFINITY, INFINITY, INFINITY, INFINITY },
	    "link_limit");
}

/* What is not lacking stays as it is. */
static void test_given(void **state)
{
	struct plan_lacks lacks = { .network = true };

	(void)state;
	both();
	problem.disk[0][1] = 7 * GB;
	problem.link_limit[1][0] = 3 * GB;
	take(model_of(CORES, CORES), &lacks);
	are(problem.disk, (double []){ 0, 7, 0, 0 }, "disk");
	are(problem.link_limit, (double []){ INFINITY, INFINITY, 3, INFINITY }, "link_limit");
	are(problem.network, (double []){ 5, 2.5, 1.5, 5.5 }, "network");
	lacks = (struct plan_lacks){ .link_limit = true };
	take(model_of(CORES, CORES), &lacks);
	are(problem.disk, (double []){ 0, 7, 0, 0 }, "disk");
	are(problem.link_limit, (double []){ 40, 24, 16, 48 }, "link_limit");
}

/* Of a node that was not measured nothing may be wanted; its memory is used all the same. */
static void test_not_measured(void **state)
{
	struct model *m;

	(void)state;
	both();
	fails(model_of(CORES, 0), -ENOENT, "device reads of node 1, where data is");
	problem.data[1] = 0;
	fails(model_of(CORES, 0), -ENOENT, "device writes of node 1, where network cards are");
	problem.network_limit[1] = 0;
	take(model_of(CORES, 0), &all_lacking);
	are(problem.disk, (double []){ 4.5, 3, 0, 0 }, "disk");
	are(problem.network, (double []){ 5, 0, 1.5, 0 }, "network");
	are(problem.link_limit, (double []){ 40, 24, 12, INFINITY }, "link_limit");
	both();
	m = model_of(CORES, CORES);
	m->target[1].row[MODEL_READ].n = 0;
	fails(m, -ENOENT, "device reads of node 1");
}

/* A cell alone that is not there: no way. */
static void test_no_cell(void **state)
{
	struct model *m = model_of(CORES, CORES);

	(void)state;
	both();
	m->target[0].row[MODEL_READ].n = 1;
	take(m, &all_lacking);
	are(problem.disk, (double []){ 4.5, 0, 2, 6 }, "disk");
	are(problem.link_limit, (double []){ 40, 20, 16, 48 }, "link_limit");
}

static void test_beyond(void **state)
{
	struct model *m = model_of(CORES, CORES);

	(void)state;
	both();
	m->target[1].row[MODEL_WRITE].cell[0].median = 1e17;
	fails(m, -EBADMSG, "network[0][1] is 1.25e+16");
}

static double solve(unsigned threads)
{
	struct staged_plan plan;
	struct staged_state found;
	struct err e = ERR_INIT;

	problem.threads[0] = problem.threads[1] = threads;
	if (staged_solve(&problem, STAGED_MAKESPAN, NULL, NULL, &plan, &found, &e))
		fail_msg("%s", e.text);
	assert_true(found.proven);
	return found.best;
}

/* 120 GB on node 1, cards on node 0: all of it crosses from 1 to 0 once, by a disk thread at
 * 2 GB/s or by a network thread at 1.5.
 * With three threads a node: by memory 0 two read 4 and one sends 5; by memory 1 one reads 6
 * and two send 3: 7 GB/s. With two: 2 and 1.5. With sixteen the link is full at 16: 7.5 s. */
static void test_plan(void **state)
{
	(void)state;
	if (!staged_can_solve())
		skip();
	both();
	problem.data[0] = 0;
	problem.data[1] = 120 * GB;
	problem.network_limit[1] = 0;
	take(model_of(CORES, CORES), &all_lacking);
	assert_true(fabs(solve(3) - 120 / 7.0) < 1e-4);
	assert_true(fabs(solve(2) - 120 / 3.5) < 1e-4);
	assert_true(fabs(solve(16) - 7.5) < 1e-4);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_matrices),
		cmocka_unit_test(test_order),
		cmocka_unit_test(test_partial),
		cmocka_unit_test(test_given),
		cmocka_unit_test(test_not_measured),
		cmocka_unit_test(test_no_cell),
		cmocka_unit_test(test_beyond),
		cmocka_unit_test(test_plan),
	};

	return cmocka_run_group_tests(tests, setup, teardown);
}
