// SPDX-License-Identifier: Apache-2.0
/* What is asked of a model: near nodes, classes, predictions, and whether it fits a machine. */
#include "numa/model.h"
#include "tests/support/sysfs.h"

#include <errno.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

#define GBIT 125e6

/* The published bandwidths for a device on node 7 of eight, as RDMA has them (Gbit/s). */
static const double rdma_write[8] = { 23.2, 23.2, 17.0, 17.1, 23.3, 23.3, 23.3, 23.3 };
static const double rdma_read[8] = { 18.036, 18.036, 21.998, 21.998, 16.1, 18.036, 22, 22 };

static void fill(struct row *r, const double *gbit)
{
	r->n = 8;
	for (int i = 0; i < 8; i++)
		r->cell[i] = (struct cell){
			.node = i, .rounds = 10, .median = gbit[i] * GBIT,
			.low = gbit[i] * 0.99 * GBIT, .high = gbit[i] * 1.01 * GBIT,
		};
}

static struct model *model_of(const struct topo *t)
{
	struct model *m = model_new(t);
	struct target *target;

	assert_non_null(m);
	target = model_add(m, 7);
	assert_non_null(target);
	fill(&target->row[MODEL_WRITE], rdma_write);
	fill(&target->row[MODEL_READ], rdma_read);
	assert_int_equal(model_classify(m, t), 0);
	return m;
}

static void near_are(const struct model *m, int node, enum model_op op, const char *want)
{
	struct ids s = model_near(m, node, op);
	char text[64];

	assert_string_equal(ids_format(text, sizeof(text), &s), want);
}

static void test_near(void **state)
{
	struct topo *t = sysfs_topo("eight");
	struct model *m = model_of(t);

	(void)state;
	near_are(m, 7, MODEL_WRITE, "6-7");
	near_are(m, 7, MODEL_READ, "6-7");
	near_are(m, 3, MODEL_READ, "3"); /* no target */
	near_are(NULL, 5, MODEL_WRITE, "5");
	model_free(m);
	topo_free(t);
}

/* All the same: any node will do. */
static void test_near_all(void **state)
{
	static const double same[8] = { 20, 20.1, 20, 20, 19.9, 20, 20, 20 };
	struct topo *t = sysfs_topo("eight");
	struct model *m = model_of(t);

	(void)state;
	fill(&m->target[0].row[MODEL_READ], same);
	assert_int_equal(model_classify(m, t), 0);
	near_are(m, 7, MODEL_READ, "0-7");
	near_are(m, 7, MODEL_WRITE, "6-7");
	model_free(m);
	topo_free(t);
}

static void test_class(void **state)
{
	static const unsigned want[MODEL_OPS][8] = {
		[MODEL_WRITE] = { 2, 2, 3, 3, 2, 2, 1, 1 },
		[MODEL_READ] = { 3, 3, 2, 2, 4, 3, 1, 1 },
	};
	struct topo *t = sysfs_topo("eight");
	struct model *m = model_of(t);

	(void)state;
	for (int op = 0; op < MODEL_OPS; op++)
		for (int i = 0; i < 8; i++)
			assert_int_equal(model_class(m, 7, (enum model_op)op, i), want[op][i]);
	assert_int_equal(model_class(m, 7, MODEL_READ, 8), 0);
	assert_int_equal(model_class(m, 6, MODEL_READ, 7), 0);
	assert_int_equal(model_class(NULL, 7, MODEL_READ, 7), 0);
	model_free(m);
	topo_free(t);
}

/* ---- mixed access ---- */

static double predict(const struct model *m, enum model_op op, const char *text)
{
	struct err e = ERR_INIT;
	struct share v[SHARES_MAX];
	unsigned n;
	double bw = 0;

	if (shares_parse(text, v, &n, &e) ||
	    shares_predict(&m->target[0].row[op], v, n, &bw, &e))
		fail_msg("%s", e.text);
	return bw / GBIT;
}

static void test_predict(void **state)
{
	struct topo *t = sysfs_topo("eight");
	struct model *m = model_of(t);

	(void)state;
	/* The published case; measured there was 19.415. */
	assert_true(fabs(predict(m, MODEL_READ, "2:50,0:50") - 20.017) < 0.0005);
	assert_true(fabs(predict(m, MODEL_READ, "2:50,0:50") / 19.415 - 1.031) < 0.0005);
	assert_true(fabs(predict(m, MODEL_READ, "7:100") - 22) < 1e-9);
	/* A class's average, not the node's own. */
	assert_true(fabs(predict(m, MODEL_WRITE, "2:100") - 17.05) < 1e-9);
	assert_true(fabs(predict(m, MODEL_WRITE, "2:25.5,7:74.5") - (.255 * 17.05 + .745 * 23.3)) <
		    1e-9);
	assert_true(fabs(predict(m, MODEL_WRITE, "2:0,7:100") - 23.3) < 1e-9);
	model_free(m);
	topo_free(t);
}

static void test_shares(void **state)
{
	static const char *const good[] = {
		"0:100", "0:50,1:50", "0:33.3333,1:33.3333,2:33.3334", "1023:100.0000", "0:100.",
	}, *const bad[] = {
		"", "0", "0:", ":100", "0:50", "0:50,1:51", "0:100,", ",0:100", "0:50,0:50",
		"a:100",
		"0:-100", "0:+100", "0:1e2", "0: 100", "0:100 ", " 0:100", "1024:100", "0:101",
		"0:99999999999999999999,1:1", "99999999999999999999:100", "0:0x64", "0:nan",
		"0:33.33333,1:66.66667", "0:50;1:50", "0:50.1,1:50", "0:100,1:0.0001", "0:100.5",
	};
	struct share v[SHARES_MAX];
	unsigned n;

	(void)state;
	for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++)
		if (shares_parse(good[i], v, &n, NULL))
			fail_msg("\"%s\" is refused", good[i]);
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		struct err e = ERR_INIT;

		if (shares_parse(bad[i], v, &n, &e) != -EINVAL || !e.text[0])
			fail_msg("\"%s\" is taken", bad[i]);
	}
}

static void test_not_measured(void **state)
{
	struct topo *t = sysfs_topo("eight");
	struct model *m = model_of(t);
	struct share s = { 8, SHARE_ALL };
	struct err e = ERR_INIT;
	double bw;

	(void)state;
	assert_int_equal(shares_predict(&m->target[0].row[0], &s, 1, &bw, &e), -ENOENT);
	assert_non_null(strstr(e.text, "node 8"));
	model_free(m);
	topo_free(t);
}

/* ---- its machine ---- */

static void test_fits(void **state)
{
	struct topo *eight = sysfs_topo("eight"), *two = sysfs_topo("two");
	struct topo *four = sysfs_topo("four");
	struct model *m = model_of(eight), *of_two = model_new(two);
	struct err e = ERR_INIT;

	(void)state;
	assert_int_equal(model_fits(m, eight, &e), 0);
	assert_int_equal(model_fits(m, two, &e), -ESTALE);
	assert_non_null(strstr(e.text, "8 nodes, and there are 2"));
	assert_int_equal(model_fits(of_two, four, &e), -ESTALE);
	m->node[3].distance[2]++;
	assert_int_equal(model_fits(m, eight, &e), -ESTALE);
	assert_non_null(strstr(e.text, "distance of node 3"));
	m->node[3].distance[2]--;
	ids_add(&m->node[5].cpus, 99);
	assert_int_equal(model_fits(m, eight, &e), -ESTALE);
	assert_non_null(strstr(e.text, "\"20-23,99\""));
	m->node[5].cpus = topo_node(eight, 5)->cpus;
	m->node[7].id = 9;
	assert_int_equal(model_fits(m, eight, &e), -ESTALE);
	/* A kernel takes a bit more for itself; somebody adds memory. */
	assert_int_equal(model_fits(of_two, two, &e), 0);
	of_two->memory[1] -= of_two->memory[1] / 10;
	assert_int_equal(model_fits(of_two, two, &e), 0);
	of_two->memory[1] *= 3;
	assert_int_equal(model_fits(of_two, two, &e), -ESTALE);
	assert_non_null(strstr(e.text, "memory"));
	model_free(m);
	model_free(of_two);
	topo_free(eight);
	topo_free(two);
	topo_free(four);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_near),
		cmocka_unit_test(test_near_all),
		cmocka_unit_test(test_class),
		cmocka_unit_test(test_predict),
		cmocka_unit_test(test_shares),
		cmocka_unit_test(test_not_measured),
		cmocka_unit_test(test_fits),
	};

	return cmocka_run_group_tests(tests, tmp_setup, tmp_teardown);
}
