// SPDX-License-Identifier: Apache-2.0
/* Queries to a model: near nodes, classes, and whether it matches a machine. */
#include "tests/support/model-text.h"
#include "tests/support/sysfs.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

/* Published RDMA bandwidths for a device on node 7 of eight (Gbit/s). */
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
	near_are(m, 3, MODEL_READ, "3"); /* node 3 is not a target */
	near_are(NULL, 5, MODEL_WRITE, "5");
	model_free(m);
	topo_free(t);
}

/* All nodes are equally fast, so all are near. */
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

/* ---- the model's machine ---- */

static json_t *model_node(const struct model *m, size_t i)
{
	return json_array_get(json_object_get(m->root, "nodes"), i);
}

static void test_fits(void **state)
{
	struct topo *eight = sysfs_topo("eight"), *two = sysfs_topo("two");
	struct topo *four = sysfs_topo("four");
	struct model *m = model_of(eight), *of_two = parsed(two, 1, &same, &same);
	struct err e = ERR_INIT;
	json_int_t distance, memory;
	json_t *distances;

	(void)state;
	assert_int_equal(model_fits(m, eight, &e), 0);
	assert_int_equal(model_fits(m, two, &e), -ESTALE);
	assert_non_null(strstr(e.text, "8 nodes, and has 2 now"));
	assert_int_equal(model_fits(of_two, four, &e), -ESTALE);
	distances = json_object_get(model_node(m, 3), "distances");
	distance = json_integer_value(json_array_get(distances, 2));
	json_array_set_new(distances, 2, json_integer(distance + 1));
	assert_int_equal(model_fits(m, eight, &e), -ESTALE);
	assert_non_null(strstr(e.text, "distance of node 3"));
	json_array_set_new(distances, 2, json_integer(distance));
	json_object_set_new(model_node(m, 5), "cpus", json_string("20-23,99"));
	assert_int_equal(model_fits(m, eight, &e), -ESTALE);
	assert_non_null(strstr(e.text, "\"20-23,99\""));
	json_object_set_new(model_node(m, 5), "cpus", json_string("20-23"));
	assert_int_equal(model_fits(m, eight, &e), 0);
	json_object_set_new(model_node(m, 7), "id", json_integer(9));
	assert_int_equal(model_fits(m, eight, &e), -ESTALE);
	/* Another kernel may reserve 10 % more memory; three times the memory is another
	 * machine. */
	assert_int_equal(model_fits(of_two, two, &e), 0);
	memory = json_integer_value(json_object_get(model_node(of_two, 1), "memory"));
	memory -= memory / 10;
	json_object_set_new(model_node(of_two, 1), "memory", json_integer(memory));
	assert_int_equal(model_fits(of_two, two, &e), 0);
	json_object_set_new(model_node(of_two, 1), "memory", json_integer(memory * 3));
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
