// SPDX-License-Identifier: Apache-2.0
/* The model's file: reading it, and a file that is absent, damaged or from another machine. */
#include "tests/support/model-text.h"
#include "tests/support/sysfs.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static struct topo *topo, *other;
static char path[8192];

static int setup(void **state)
{
	if (tmp_setup(state))
		return -1;
	topo = topo_read(sysfs_make("two"), NULL);
	other = topo_read(sysfs_make("four"), NULL);
	snprintf(path, sizeof(path), "%s/model.json", tmp_dir);
	return topo && other ? 0 : -1;
}

static int teardown(void **state)
{
	topo_free(topo);
	topo_free(other);
	return tmp_teardown(state);
}

/* A model of two nodes: writes to the remote one are half as fast, reads are equally fast. The
 * caller frees it. */
static char *two_nodes(void)
{
	static const struct text_row write = { { 40.4, 80.8 }, { 2, 1 } },
				     read = { { 80.8, 80.8 }, { 1, 1 } };

	return model_text(topo, 1, &write, &read);
}

static void write_two_nodes(void)
{
	CLEANUP_FREE char *text = two_nodes();
	struct err e = ERR_INIT;

	assert_int_equal(write_file_atomic(path, text, strlen(text), 0644, &e), 0);
}

/* ---- reading ---- */

static void test_read(void **state)
{
	struct err e = ERR_INIT;
	struct model *m;
	json_int_t bytes, placed, median;
	int rounds;

	(void)state;
	write_two_nodes();
	m = model_read(path, topo, &e);
	if (!m)
		fail_msg("%s", e.text);
	assert_int_equal(model_class(m, 1, MODEL_WRITE, 0), 2);
	assert_int_equal(model_class(m, 1, MODEL_READ, 0), 1);
	assert_int_equal(json_unpack(m->root, "{s:[{s:I, s:I, s:[{s:I}], s:[{}, {s:i}]}]}",
				     "targets", "buffer", &bytes, "placed", &placed, "write",
				     "median", &median, "read", "rounds", &rounds), 0);
	assert_int_equal(median, 5050000000);
	assert_int_equal(rounds, 5);
	assert_int_equal(bytes, 1 << 25);
	assert_int_equal(placed, 3 << 25);
	model_free(m);
}

static void test_default(void **state)
{
	struct err e = ERR_INIT;
	struct model *m;

	(void)state;
	write_two_nodes();
	unsetenv("RFTP_NUMA_MODEL");
	assert_string_equal(model_default(), MODEL_FILE);
	assert_int_equal(setenv("RFTP_NUMA_MODEL", path, 1), 0);
	m = model_read(NULL, topo, &e);
	assert_non_null(m);
	model_free(m);
	unlink(path);
	assert_null(model_read(NULL, topo, &e));
	assert_int_equal(e.code, -ENOENT);
	assert_null(model_read(NULL, topo, NULL));
	unsetenv("RFTP_NUMA_MODEL");
}

static void test_other_machine(void **state)
{
	struct err e = ERR_INIT;

	(void)state;
	write_two_nodes();
	assert_null(model_read(path, other, &e));
	assert_int_equal(e.code, -ESTALE);
	assert_non_null(strstr(e.text, "another machine"));
	assert_non_null(strstr(e.text, path));
}

/* ---- damage ---- */

static void refused(const char *text, size_t len, const char *what)
{
	struct err e = ERR_INIT;
	struct model *m = model_parse("file", text, len, &e);

	if (m || e.code != -EBADMSG || strncmp(e.text, "file: ", 6))
		fail_msg("%s: %s", what, m ? "is taken" : e.text);
}

/* The complete text is valid; every shorter prefix is refused. */
static void test_cut(void **state)
{
	CLEANUP_FREE char *text = two_nodes();
	size_t len = strlen(text) - 1;

	(void)state;
	for (size_t n = 0; n < len; n++)
		refused(text, n, "cut");
}

/* Copies text to out, with the first `from` replaced by `to`. */
static void replaced(const char *text, const char *from, const char *to, char *out, size_t room)
{
	const char *at = strstr(text, from);

	if (!at)
		fail_msg("no %s in %s", from, text);
	snprintf(out, room, "%.*s%s%s", (int)(at - text), text, to, at + strlen(from));
}

static void test_damaged(void **state)
{
	static const struct { const char *from, *to, *said; } cases[] = {
		{ "\"rftp_numa_model\":1", "\"other\":1", "not a model" },
		{ "\"rftp_numa_model\":1", "\"rftp_numa_model\":2", "version 2" },
		{ "\"rftp_numa_model\":1", "\"rftp_numa_model\":\"1\"", "not a model" },
		{ "\"date\":\"", "\"date\":\"0123456789012345678901234567890123456789", "date" },
		{ "\"date\":\"", "\"date\":7,\"x\":\"", "date" },
		{ "\"date\":\"", "\"date\":\"a\",\"date\":\"", "line 1" },
		{ "\"nodes\":[", "\"nodes\":[1,", "nodes[0]" },
		{ "\"nodes\":[", "\"nodes\":{},\"x\":[", "\"nodes\" is not a list" },
		{ "\"nodes\":[", "\"nodes\":[],\"x\":[", "\"nodes\" is not a list" },
		{ "\"id\":1", "\"id\":0", "nodes[1]: \"id\"" },
		{ "\"id\":1", "\"id\":1024", "nodes[1]: \"id\"" },
		{ "\"id\":1", "\"id\":1.0", "nodes[1]: \"id\"" },
		{ "\"id\":0", "\"id\":-1", "nodes[0]: \"id\"" },
		{ "\"id\":0", "\"id\":99999999999999999999999", "line 1" },
		{ "\"cpus\":\"0", "\"cpus\":\"x", "nodes[0]: \"cpus\"" },
		{ "\"cpus\":\"0", "\"cpus\":\"9999999-0", "nodes[0]: \"cpus\"" },
		{ "\"memory\":", "\"memory\":-1,\"x\":", "nodes[0]: \"memory\"" },
		{ "[10,21]", "[10]", "1 distance for 2 nodes" },
		{ "[10,21]", "[10,21,31]", "\"distances\" is not a list" },
		{ "[10,21]", "[10,-1]", "distance 1" },
		{ "[10,21]", "[10,\"21\"]", "distance 1" },
		{ "[10,21]", "10", "\"distances\"" },
		{ "\"targets\":[", "\"targets\":[7,", "targets[0]" },
		{ "\"targets\":[", "\"targets\":[],\"x\":[", "\"targets\" is not a list" },
		{ "\"node\":1,\"threads\"", "\"node\":2,\"threads\"", "no node 2" },
		{ "\"threads\":8", "\"threads\":0", "\"threads\"" },
		{ "\"threads\":8", "\"threads\":8193", "\"threads\"" },
		{ "\"copies\":10", "\"copies\":null", "\"copies\"" },
		{ "\"buffer\":", "\"buffer\":0,\"x\":", "\"buffer\"" },
		{ "\"placed\":", "\"placed\":-1,\"x\":", "\"placed\"" },
		{ "\"write\":[", "\"write\":[],\"x\":[", "\"write\" is not a list" },
		{ "\"write\":[", "\"write\":[null,", "\"write\" is not a list" },
		{ "{\"node\":0,\"median\"", "{\"node\":3,\"median\"", "no node 3" },
		{ "{\"node\":0,\"median\"", "{\"node\":1,\"median\"", "write[1]: \"node\"" },
		{ "\"median\":5050000000", "\"median\":0", "\"median\"" },
		{ "\"median\":5050000000", "\"median\":1e300", "\"median\"" },
		{ "\"median\":5050000000", "\"median\":1e400", "line 1" },
		{ "\"median\":5050000000", "\"median\":\"fast\"", "\"median\"" },
		{ "\"median\":5050000000", "\"median\":9050000000", "do not rise" },
		{ "\"median\":5050000000", "\"median\":1", "do not rise" },
		{ "\"low\":", "\"low\":0,\"x\":", "\"low\"" },
		{ "\"high\":", "\"x\":", "\"high\"" },
		{ "\"rounds\":5", "\"rounds\":0", "\"rounds\"" },
		{ "\"rounds\":5", "\"rounds\":[]", "\"rounds\"" },
		{ "\"class\":2", "\"class\":3", "\"class\"" },
		{ "\"class\":2", "\"class\":0", "\"class\"" },
		{ "\"class\":1", "\"class\":2", "class 1" },
	};
	CLEANUP_FREE char *text = two_nodes();
	char out[4096];

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct err e = ERR_INIT;

		replaced(text, cases[i].from, cases[i].to, out, sizeof(out));
		refused(out, strlen(out), cases[i].to);
		assert_null(model_parse("file", out, strlen(out), &e));
		if (!strstr(e.text, cases[i].said))
			fail_msg("%s: %s", cases[i].to, e.text);
	}
}

/* The local node shares its class or is not in class 1; a key appears twice; a target has no
 * rows. */
static void test_not_local(void **state)
{
	static const struct { const char *from, *to, *said; } cases[] = {
		{ "\"class\":2}", "\"class\":1}", NULL },
		{ "\"class\":1}],\"read\"", "\"class\":2}],\"read\"", "no node is in class 1" },
		{ "\"threads\":8", "\"threads\":8,\"read\":[]", "line 1" },
	};
	CLEANUP_FREE char *text = two_nodes();
	char out[4096], again[4096];

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct err e = ERR_INIT;
		struct model *m;

		replaced(text, cases[i].from, cases[i].to, out, sizeof(out));
		m = model_parse("file", out, strlen(out), &e);
		assert_int_equal(!m, !!cases[i].said);
		if (cases[i].said && !strstr(e.text, cases[i].said))
			fail_msg("%s: %s", cases[i].to, e.text);
		model_free(m);
	}
	/* The local node is in class 2, the remote one in class 1. */
	replaced(text, "\"class\":2}", "\"class\":1}", out, sizeof(out));
	replaced(out, "\"class\":1}],\"read\"", "\"class\":2}],\"read\"", again, sizeof(again));
	refused(again, strlen(again), "the target in class 2");
	/* A target without rows. */
	replaced(text, "\"write\":[", "\"once\":[", out, sizeof(out));
	replaced(out, "\"read\":[", "\"then\":[", again, sizeof(again));
	refused(again, strlen(again), "a target with nothing");
}

static int target_node(const struct model *m)
{
	const json_t *targets = json_object_get(m->root, "targets");

	return (int)json_integer_value(json_object_get(json_array_get(targets, 0), "node"));
}

/* With any byte changed, the text is refused or gives a model that can be queried. */
static void test_bytes(void **state)
{
	static const char others[] = "\0 \"0-9,.:[]{}eEx\xff\x80\n";
	CLEANUP_FREE char *text = two_nodes();
	size_t len = strlen(text), taken = 0;

	(void)state;
	for (size_t i = 0; i < len; i++) {
		char was = text[i];

		for (size_t k = 0; k < sizeof(others) - 1; k++) {
			struct err e = ERR_INIT;
			struct model *m;
			int node;

			text[i] = others[k];
			m = model_parse("file", text, len, &e);
			assert_true(m || e.text[0]);
			if (!m)
				continue;
			taken++;
			node = target_node(m);
			assert_true(model_class(m, node, MODEL_READ, node) < 2);
			model_free(m);
		}
		text[i] = was;
	}
	assert_true(taken > 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_read),
		cmocka_unit_test(test_default),
		cmocka_unit_test(test_other_machine),
		cmocka_unit_test(test_cut),
		cmocka_unit_test(test_damaged),
		cmocka_unit_test(test_not_local),
		cmocka_unit_test(test_bytes),
	};

	return cmocka_run_group_tests(tests, setup, teardown);
}
