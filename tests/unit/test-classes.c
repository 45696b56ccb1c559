// SPDX-License-Identifier: Apache-2.0
/* Classes of nodes: the published tables come out, and noise does not. */
#include "numa/classes.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#define NODES 8
#define GBIT 125e6

/* ---- random numbers, the same in each run ---- */

static uint64_t seed;

static double uniform(double from, double to)
{
	/* splitmix64 */
	uint64_t z = seed += 0x9e3779b97f4a7c15u;

	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
	z = (z ^ z >> 27) * 0x94d049bb133111ebu;
	return from + (to - from) * ((double)((z ^ z >> 31) >> 11) * 0x1p-53);
}

/* Twelve of uniform distribution: deviation 1, no tail beyond 6. */
static double normal(double mean, double deviation)
{
	double sum = -6;

	for (int i = 0; i < 12; i++)
		sum += uniform(0, 1);
	return mean + deviation * sum;
}

/* ---- cells and what they become ---- */

static struct cell exact(int node, double gbit, double spread)
{
	return (struct cell){
		.node = node, .rounds = 10, .median = gbit * GBIT,
		.low = gbit * (1 - spread / 2) * GBIT, .high = gbit * (1 + spread / 2) * GBIT,
	};
}

/* "6,7 | 0-1,4-5 | 2-3": the members of each class in order. */
static void classes_text(char out[128], const struct cell *v, unsigned n, unsigned classes)
{
	size_t len = 0;

	out[0] = '\0';
	for (unsigned class = 1; class <= classes; class++) {
		struct ids s = { 0 };
		char one[64];

		for (unsigned i = 0; i < n; i++)
			if (v[i].class == class)
				ids_add(&s, (unsigned)v[i].node);
		len += (size_t)snprintf(out + len, 128 - len, "%s%s", len ? " | " : "",
					ids_format(one, sizeof(one), &s));
	}
}

static struct class_sight classify(struct cell *v, unsigned n, int target, const char *near,
				   const char *want)
{
	struct class_sight s;
	struct ids ids;
	char text[128];

	assert_int_equal(ids_parse(near, &ids), 0);
	assert_int_equal(classes_find(v, n, target, &ids, &s), 0);
	classes_text(text, v, n, s.classes);
	if (strcmp(text, want))
		fail_msg("classes %s, not %s", text, want);
	assert_int_equal(s.view == CLASSES_SEEN, strchr(want, '|') != NULL);
	return s;
}

/* ---- the published tables ---- */

struct range {
	double from, to; /* Gbit/s */
};

static const struct range write_ranges[NODES] = {
	[6] = { 46.5, 55.9 }, [7] = { 46.5, 55.9 },
	[0] = { 42.9, 46.9 }, [1] = { 42.9, 46.9 }, [4] = { 42.9, 46.9 }, [5] = { 42.9, 46.9 },
	[2] = { 26.0, 27.3 }, [3] = { 26.0, 27.3 },
};
static const struct range read_ranges[NODES] = {
	[6] = { 47.1, 51.2 }, [7] = { 47.1, 51.2 }, [2] = { 46.9, 50.3 }, [3] = { 46.9, 50.3 },
	[0] = { 39.9, 40.9 }, [1] = { 39.9, 40.9 }, [5] = { 39.9, 40.9 }, [4] = { 27.9, 27.9 },
};

static void draw(struct cell *v, const struct range *ranges, double spread)
{
	for (int i = 0; i < NODES; i++)
		v[i] = exact(i, uniform(ranges[i].from, ranges[i].to), spread);
}

static void test_published(void **state)
{
	struct cell v[NODES];

	(void)state;
	seed = 1;
	for (int turn = 0; turn < 5000; turn++) {
		double noise = uniform(0, 0.04);

		draw(v, write_ranges, noise);
		classify(v, NODES, 7, "6-7", "6-7 | 0-1,4-5 | 2-3");
		draw(v, read_ranges, noise);
		classify(v, NODES, 7, "6-7", "6-7 | 2-3 | 0-1,5 | 4");
	}
}

/* The ends of the ranges, where classes are closest and members farthest apart. */
static void test_published_ends(void **state)
{
	(void)state;
	for (unsigned ends = 0; ends < 1u << NODES; ends++) {
		struct cell w[NODES], r[NODES];

		for (int i = 0; i < NODES; i++) {
			bool top = ends >> i & 1;

			w[i] = exact(i, top ? write_ranges[i].to : write_ranges[i].from, 0.02);
			r[i] = exact(i, top ? read_ranges[i].to : read_ranges[i].from, 0.02);
		}
		classify(w, NODES, 7, "6-7", "6-7 | 0-1,4-5 | 2-3");
		classify(r, NODES, 7, "6-7", "6-7 | 2-3 | 0-1,5 | 4");
	}
}

/* Bandwidth of node 1 ÷ that of each, on a ring of four packages. */
static void test_ring(void **state)
{
	static const double ratios[][4] = {
		{ 1.8, 1, 1.81, 2.37 },    /* the model */
		{ 5.94, 1, 5.89, 6.63 },   /* STREAM */
		{ 2.0, 1, 2.09, 2.36 },    /* TCP */
		{ 1.009, 1, 1.002, 1.314 }, /* RDMA_WRITE: the neighbours are as good as local */
	};

	(void)state;
	for (size_t k = 0; k < sizeof(ratios) / sizeof(ratios[0]); k++) {
		struct cell v[4];

		for (int i = 0; i < 4; i++)
			v[i] = exact(i, 100 / ratios[k][i], 0.01);
		classify(v, 4, 1, "1", "1 | 0,2 | 3");
	}
}

/* ---- the rule, case by case ---- */

static void test_rule(void **state)
{
	static const struct {
		const char *what;
		double gbit[4], spread[4];
		const char *near, *want;
		enum class_view view;
	} cases[] = { /* the target is node 0 */
		{ "all alike", { 50, 50, 50, 50 }, { 0 }, "0", "0-3", CLASSES_ALIKE },
		{ "local and remote", { 50, 40, 40, 40 }, { 0 }, "0", "0 | 1-3", CLASSES_SEEN },
		{ "remote is faster", { 40, 50, 50, 50 }, { 0 }, "0", "0 | 1-3", CLASSES_SEEN },
		{ "in their midst", { 50, 52, 51, 48 }, { 0 }, "0", "0-3", CLASSES_ALIKE },
		{ "just a tenth", { 50, 45, 45, 45 }, { 0 }, "0", "0 | 1-3", CLASSES_SEEN },
		{ "not quite", { 50, 45.1, 45.1, 45.1 }, { 0 }, "0", "0-3", CLASSES_ALIKE },
		{ "two borders", { 50, 40, 30, 20 }, { 0 }, "0", "0 | 1 | 2 | 3", CLASSES_SEEN },
		{ "near by definition", { 50, 20, 40, 40 }, { 0 }, "0-1", "0-1 | 2-3",
		  CLASSES_SEEN },
		{ "as good as local", { 50, 50, 50, 40 }, { 0 }, "0", "0 | 1-2 | 3", CLASSES_SEEN },
		{ "none but near ones", { 50, 20, 30, 40 }, { 0 }, "0-3", "0-3", CLASSES_ALONE },
		{ "the upper one is noisy", { 50, 50, 50, 40 }, { 0, 0.25, 0.25, 0 }, "0", "0-3",
		  CLASSES_NOISE },
		{ "the lower one is noisy", { 50, 50, 50, 40 }, { 0, 0, 0, 0.3 }, "0", "0-3",
		  CLASSES_NOISE },
		{ "the local one is noisy", { 50, 40, 40, 40 }, { 0.3, 0, 0, 0 }, "0", "0-3",
		  CLASSES_NOISE },
		{ "one farther up reaches over", { 50, 52, 50, 40 }, { 0, 0.4, 0, 0 }, "0", "0-3",
		  CLASSES_NOISE },
		{ "one farther down reaches over", { 50, 50, 40, 38 }, { 0, 0, 0, 0.5 }, "0", "0-3",
		  CLASSES_NOISE },
		{ "noise that is elsewhere", { 50, 50, 30, 20 }, { 0, 0, 0.7, 0 }, "0", "0-3",
		  CLASSES_NOISE },
		{ "a border all the same", { 50, 50, 30, 20 }, { 0, 0, 0.4, 0.4 }, "0",
		  "0 | 1 | 2-3", CLASSES_SEEN },
	};

	(void)state;
	for (size_t k = 0; k < sizeof(cases) / sizeof(cases[0]); k++) {
		struct class_sight s;
		struct cell v[4];

		for (int i = 0; i < 4; i++)
			v[i] = exact(i, cases[k].gbit[i], cases[k].spread[i]);
		print_message("%s\n", cases[k].what);
		s = classify(v, 4, 0, cases[k].near, cases[k].want);
		assert_int_equal(s.view, cases[k].view);
	}
}

/* Repetitions that spread far, but away from the other node. */
static void test_one_sided(void **state)
{
	struct cell v[2] = { exact(0, 50, 0), exact(1, 40, 0) };

	(void)state;
	classify(v, 2, 0, "0", "0 | 1");
	v[0].high = 1.21 * v[0].median;
	assert_int_equal(classify(v, 2, 0, "0", "0-1").view, CLASSES_NOISE);
	v[0].high = v[0].median;
	v[1].low = 0.7 * v[1].median;
	assert_int_equal(classify(v, 2, 0, "0", "0-1").view, CLASSES_NOISE);
}

static void test_why(void **state)
{
	struct cell v[2] = { exact(0, 50, 0.02), exact(1, 40, 0.50) };
	struct class_sight s = classify(v, 2, 0, "0", "0-1");

	(void)state;
	assert_int_equal(s.view, CLASSES_NOISE);
	assert_int_equal(s.above, 0);
	assert_int_equal(s.below, 1);
	assert_true(fabs(s.gap - 0.2) < 1e-9);
	assert_true(fabs(s.spread - 0.4) < 1e-9); /* 20 of 50 */
	/* However far they are apart. */
	v[1] = exact(1, 20, 0.01);
	v[1].rounds = CLASS_ROUNDS_MIN - 1;
	assert_int_equal(classify(v, 2, 0, "0", "0-1").view, CLASSES_FEW);
	v[1].rounds = CLASS_ROUNDS_MIN;
	classify(v, 2, 0, "0", "0 | 1");
	assert_int_equal(classify(v, 1, 0, "0", "0").view, CLASSES_ALONE);
}

/* A border that is seen is not all there may be. */
static void test_hidden(void **state)
{
	struct cell v[4] = { exact(0, 50, 0), exact(1, 50, 0), exact(2, 30, 0.4),
			     exact(3, 24, 0.4) };
	struct class_sight s = classify(v, 4, 0, "0", "0 | 1 | 2-3");

	(void)state;
	assert_true(s.hidden);
	assert_int_equal(s.above, 2);
	assert_int_equal(s.below, 3);
	assert_true(fabs(s.gap - 0.2) < 1e-9);
	v[3] = exact(3, 29, 0.4);
	assert_false(classify(v, 4, 0, "0", "0 | 1 | 2-3").hidden);
	v[3] = exact(3, 24, 0.01);
	v[2] = exact(2, 30, 0.01);
	assert_false(classify(v, 4, 0, "0", "0 | 1 | 2 | 3").hidden);
}

/* ---- noise ---- */

/* All nodes are the same, the machine is more or less restless. */
static unsigned seen_in_noise(unsigned nodes, unsigned rounds, double deviation)
{
	struct ids near = { 0 };
	struct class_sight s;
	struct cell v[NODES];
	double bw[32];

	ids_add(&near, 0);
	for (unsigned i = 0; i < nodes; i++) {
		for (unsigned k = 0; k < rounds; k++) {
			bw[k] = normal(50, 50 * deviation);
			bw[k] = bw[k] < 1 ? 1 : bw[k];
		}
		v[i].node = (int)i;
		cell_sum(&v[i], bw, rounds);
	}
	assert_int_equal(classes_find(v, nodes, 0, &near, &s), 0);
	return s.view == CLASSES_SEEN;
}

static void test_noise(void **state)
{
	static const double deviations[] = { 0.001, 0.01, 0.03, 0.05, 0.1, 0.2, 0.4 };
	static const unsigned nodes[] = { 2, 4, 8 };
	const unsigned turns = 2000;
	unsigned seen = 0, rows = 0;

	(void)state;
	seed = 2;
	for (size_t d = 0; d < sizeof(deviations) / sizeof(deviations[0]); d++)
		for (size_t n = 0; n < sizeof(nodes) / sizeof(nodes[0]); n++)
			for (unsigned turn = 0; turn < turns; turn++, rows++)
				seen += seen_in_noise(nodes[n], 10, deviations[d]);
	print_message("%u of %u rows\n", seen, rows);
	assert_true(seen * 1000 < rows);
}

/* Real classes are seen through the same rule, with repetitions that are drawn, too; one round
 * of ten is disturbed. */
static void test_through_noise(void **state)
{
	(void)state;
	seed = 3;
	for (int turn = 0; turn < 2000; turn++) {
		struct cell v[NODES];

		for (int i = 0; i < NODES; i++) {
			double mean = uniform(write_ranges[i].from, write_ranges[i].to), bw[10];

			for (int k = 0; k < 10; k++)
				bw[k] = normal(mean, 0.005 * mean) * GBIT;
			bw[turn % 10] *= 0.8;
			v[i].node = i;
			cell_sum(&v[i], bw, 10);
		}
		classify(v, NODES, 7, "6-7", "6-7 | 0-1,4-5 | 2-3");
	}
}

static void test_sum(void **state)
{
	double ten[] = { 9, 1, 8, 2, 7, 3, 10, 4, 6, 5 }, one[] = { 4 }, two[] = { 8, 4 };
	struct cell c;

	(void)state;
	cell_sum(&c, ten, 10);
	assert_int_equal(c.rounds, 10);
	assert_true(fabs(c.median - 5.5) < 1e-9);
	assert_true(fabs(c.low - 1.9) < 1e-9);
	assert_true(fabs(c.high - 9.1) < 1e-9);
	cell_sum(&c, one, 1);
	assert_true(c.median == 4 && c.low == 4 && c.high == 4);
	cell_sum(&c, two, 2);
	assert_true(fabs(c.median - 6) < 1e-9);
	assert_true(fabs(c.low - 4.4) < 1e-9);
}

static void test_average(void **state)
{
	struct cell v[] = {
		{ .median = 10, .class = 1 }, { .median = 30, .class = 2 },
		{ .median = 20, .class = 1 },
	};

	(void)state;
	assert_true(fabs(class_average(v, 3, 1) - 15) < 1e-9);
	assert_true(fabs(class_average(v, 3, 2) - 30) < 1e-9);
	assert_true(class_average(v, 3, 3) == 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_published),
		cmocka_unit_test(test_published_ends),
		cmocka_unit_test(test_ring),
		cmocka_unit_test(test_rule),
		cmocka_unit_test(test_one_sided),
		cmocka_unit_test(test_why),
		cmocka_unit_test(test_hidden),
		cmocka_unit_test(test_noise),
		cmocka_unit_test(test_through_noise),
		cmocka_unit_test(test_sum),
		cmocka_unit_test(test_average),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
