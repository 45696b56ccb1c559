// SPDX-License-Identifier: Apache-2.0
/* Files and directories that apply makes itself. */
#include "iser_setup/local.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "tests/support/tmptree.h"

#define MIB (1 << 20)

static int do_it(const char *what, const char *path, long long size, bool fresh)
{
	struct err e = ERR_INIT;
	json_t *r = json_pack("{s:s, s:s, s:I, s:b}", "do", what, "path", tmp_at(path), "size",
			      (json_int_t)size, "new", (int)fresh);
	int code;

	assert_true(local_is(r));
	code = local_do(r, NULL, NODE_UNKNOWN, NULL, &e);
	json_decref(r);
	return code;
}

static long long size_of(const char *path)
{
	struct stat st;

	return stat(tmp_at(path), &st) ? -1 : (long long)st.st_size;
}

static void test_new_file(void **state)
{
	(void)state;
	assert_int_equal(do_it("make-file", "f", MIB, true), 0);
	assert_int_equal(size_of("f"), MIB);
	assert_int_equal(do_it("make-file", "f", 2 * MIB, false), 0);
	assert_int_equal(size_of("f"), 2 * MIB);
	assert_int_equal(do_it("make-file", "f", MIB, false), 0);
	assert_int_equal(size_of("f"), 2 * MIB);
	assert_int_equal(do_it("cut-file", "f", MIB, false), 0);
	assert_int_equal(size_of("f"), MIB);
	assert_int_equal(do_it("remove-file", "f", 0, false), 0);
	assert_int_equal(size_of("f"), -1);
}

/* It came between the look at what there is and the step. */
static void test_not_new(void **state)
{
	(void)state;
	tmp_put("g", "somebody's");
	assert_int_equal(do_it("make-file", "g", MIB, true), -EEXIST);
	assert_string_equal(tmp_get("g"), "somebody's");
}

static void test_links(void **state)
{
	(void)state;
	tmp_put("h", "somebody's");
	assert_int_equal(symlink("h", tmp_at("l")), 0);
	assert_true(do_it("make-file", "l", MIB, false) < 0);
	assert_string_equal(tmp_get("h"), "somebody's");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_new_file), cmocka_unit_test(test_not_new),
		cmocka_unit_test(test_links),
	};

	return cmocka_run_group_tests(tests, tmp_setup, tmp_teardown);
}
