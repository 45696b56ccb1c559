// SPDX-License-Identifier: Apache-2.0
/* What is asked of a model: near nodes, classes, and whether it fits a machine. */
#include "tests/support/model-text.h"
#include "tests/support/sysfs.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

/* The published bandwidths for a device on node 7 of eight, as RDMA has them (Gbit/s). */
static const struct text_row
	rdma_write = { { 23.2, 23.2, 17.0, 17.1, 23.3, 23.3, 23.3, 23.3 },
		       { 2, 2, 3, 3, 2, 2, 1, 1 } },
	rdma_read = { { 18.036, 18.036, 21.998, 21.998, 16.1, 18.036, 22, 22 },
		      { 3, 3, 2, 2, 4, 3, 1, 1 } },
	same = { { 20, 20.1, 20, 20, 19.9, 20, 20, 20 }, { 1, 1, 1, 1, 1, 1, 1, 1 } };

static struct model *parsed(const struct topo *t, int target, const struct text_row *write,
			    const struct text_row *read)
{
	CLEANUP_FREE char *text = model_text(t, target, write, read);
	struct err e = ERR_INIT;
	struct model *m = model_parse("it", text, strlen(text), &e);

	if (!m)
		fail_msg("%s", e.text);
	return m;
}

static struct model *model_of(const struct topo *t)
{
	return parsed(t, 7, &rdma_write, &rdma_read);
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
	struct topo *t = sysfs_topo("eight");
	struct model *m = parsed(t, 7, &rdma_write, &same);

	(void)state;
	near_are(m, 7, MODEL_READ, "0-7");
	near_are(m, 7, MODEL_WRITE, "6-7");
	model_free(m);
	topo_free(t);
}

static void test_class(void **state)
{
	struct topo *t = sysfs_topo("eight");
	struct model *m = model_of(t);

	(void)state;
	for (int op = 0; op < MODEL_OPS; op++)
		for (int i = 0; i < 8; i++)
			assert_int_equal(model_class(m, 7, (enum model_op)op, i),
					 (op == MODEL_WRITE ? rdma_write : rdma_read).class[i]);
	assert_int_equal(model_class(m, 7, MODEL_READ, 8), 0);
	assert_int_equal(model_class(m, 6, MODEL_READ, 7), 0);
	assert_int_equal(model_class(NULL, 7, MODEL_READ, 7), 0);
	model_free(m);
	topo_free(t);
}

/* ---- its machine ---- */

static void test_fits(void **state)
{
	struct topo *eight = sysfs_topo("eight"), *two = sysfs_topo("two");
	struct topo *four = sysfs_topo("four");
	struct model *m = model_of(eight), *of_two = parsed(two, 1, &same, &same);
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
		cmocka_unit_test(test_fits),
	};

	return cmocka_run_group_tests(tests, tmp_setup, tmp_teardown);
}
