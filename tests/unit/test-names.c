// SPDX-License-Identifier: Apache-2.0
/* Lists of names, and names that mean a directory. */
#include "client/names.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

static char path[64];

static int read_list(const char *text, size_t len, bool nul, struct names *names, struct err *e)
{
	int fd, rc;

	strcpy(path, "/tmp/test-names.XXXXXX");
	fd = mkstemp(path);
	assert_true(fd >= 0);
	assert_int_equal(write_full(fd, text, len), 0);
	close(fd);
	*e = (struct err)ERR_INIT;
	rc = names_read(path, nul, names, e);
	unlink(path);
	return rc;
}

#define READ(text, nul, names, e) read_list(text, sizeof(text) - 1, nul, names, e)

static void test_lines(void **state)
{
	struct names n;
	struct err e;

	assert_int_equal(READ("a\n\n/b//c/\n./d/./e\n.\n-f\n...\n x ", false, &n, &e), 0);
	assert_int_equal(n.n, 6);
	assert_string_equal(n.all[0], "a");
	assert_string_equal(n.all[1], "b/c");
	assert_string_equal(n.all[2], "d/e");
	assert_string_equal(n.all[3], "-f");
	assert_string_equal(n.all[4], "...");
	assert_string_equal(n.all[5], " x ");
	assert_null(n.all[6]);
	names_clear(&n);
}

static void test_nul(void **state)
{
	struct names n;
	struct err e;

	assert_int_equal(READ("a\nb\0\xff\xfe\0last", true, &n, &e), 0);
	assert_int_equal(n.n, 3);
	assert_string_equal(n.all[0], "a\nb");
	assert_string_equal(n.all[1], "\xff\xfe");
	assert_string_equal(n.all[2], "last");
	names_clear(&n);
	/* A NUL-separated list read as lines would give wrong names. */
	assert_int_equal(READ("a\0b\0", false, &n, &e), -EINVAL);
}

static void test_climbing(void **state)
{
	static const char *const bad[] = { "..", "../x", "a/../b", "a/..", "/.." };
	struct names n;
	struct err e;

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		assert_int_equal(read_list(bad[i], strlen(bad[i]), false, &n, &e), -EINVAL);
		assert_non_null(strstr(e.text, bad[i]));
		assert_int_equal(n.n, 0);
	}
	assert_int_equal(names_read("/nonexistent/list", false, &n, &e), -ENOENT);
}

static void test_standard_input(void **state)
{
	struct names n;
	struct err e = ERR_INIT;
	int fds[2];

	assert_int_equal(pipe(fds), 0);
	assert_int_equal(write_full(fds[1], "a\n../x\n", 7), 0);
	close(fds[1]);
	assert_int_equal(dup2(fds[0], STDIN_FILENO), STDIN_FILENO);
	close(fds[0]);
	assert_int_equal(names_read("-", false, &n, &e), -EINVAL);
	assert_string_equal(e.text, "standard input: \"../x\" climbs out of the directory");
}

static void test_many(void **state)
{
	struct names n = { 0 };

	for (int i = 0; i < 1000; i++)
		assert_int_equal(names_add(&n, strdup("name")), 0);
	assert_int_equal(n.n, 1000);
	assert_null(n.all[1000]);
	assert_int_equal(names_add(&n, NULL), -ENOMEM);
	names_clear(&n);
}

static void test_directory(void **state)
{
	static const char *const yes[] = { "", ".", "..", "/", "a/", "a/.", "a/.." };
	static const char *const no[] = { "a", "a/b", "a.", "..." };
	char *s;

	for (size_t i = 0; i < sizeof(yes) / sizeof(yes[0]); i++)
		assert_true(names_directory(yes[i]));
	for (size_t i = 0; i < sizeof(no) / sizeof(no[0]); i++)
		assert_false(names_directory(no[i]));
	s = name_below("a", "b/c");
	assert_string_equal(s, "a/b/c");
	free(s);
	s = name_below("/", "b");
	assert_string_equal(s, "/b");
	free(s);
	s = name_below("", "b");
	assert_string_equal(s, "b");
	free(s);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_lines),
		cmocka_unit_test(test_nul),
		cmocka_unit_test(test_climbing),
		cmocka_unit_test(test_standard_input),
		cmocka_unit_test(test_many),
		cmocka_unit_test(test_directory),
	};

	return cmocka_run_group_tests_name("names", tests, NULL, NULL);
}
