// SPDX-License-Identifier: Apache-2.0
/* Files with secrets: which are taken, and what is said of those that are not. */
#include "iser_setup/secrets.h"

#include "iser_setup/secret_file.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#define IQN "iqn.2026-01.org.example:node0"
#define ME "iqn.2026-01.org.example:me"

static char top[64], one[80], two[80];

static int setup(void **state)
{
	(void)state;
	snprintf(top, sizeof(top), "/tmp/test-iser-secrets.XXXXXX");
	if (!mkdtemp(top))
		return -1;
	snprintf(one, sizeof(one), "%s/one", top);
	snprintf(two, sizeof(two), "%s/two", top);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	unlink(one);
	unlink(two);
	return rmdir(top);
}

static void put(const char *path, const char *text, mode_t mode)
{
	assert_int_equal(write_file_atomic(path, text, strlen(text), mode, NULL), 0);
}

/* A plan that names both files. */
static struct iser_plan *plan(void)
{
	CLEANUP_FREE char *text = NULL;
	struct err e = ERR_INIT;
	struct iser_plan *p;

	assert_true(asprintf(&text, "{\"rftp-iser-plan\": 1, \"name\": \"p\", \"targets\": [{\"iqn\": "
			     "\"" IQN "\", \"portals\": [{\"address\": \"192.0.2.1\"}], "
			     "\"initiators\": [{\"name\": \"" ME "\", \"chap\": {\"user\": \"me\", "
			     "\"secret-file\": \"%s\"}, \"mutual-chap\": {\"user\": \"it\", "
			     "\"secret-file\": \"%s\"}}], \"luns\": [{\"lun\": 0, \"name\": \"r\", "
			     "\"kind\": \"ramdisk\", \"size\": 1048576, \"serial\": "
			     "\"00000000-0000-4000-8000-000000000001\"}]}]}", one, two) > 0);
	p = iser_plan_parse("test", text, &e);
	if (!p)
		fail_msg("%s", e.text);
	return p;
}

/* words: of the only problem; NULL: there is none. */
static void reads(const char *words, const char *what)
{
	CLEANUP_ISER_PLAN struct iser_plan *p = plan();
	struct lines problems = { 0 };
	struct iser_secrets s;

	assert_int_equal(iser_secrets_read(p, &s, &problems), 0);
	if (problems.n != (words ? 1 : 0))
		fail_msg("%s: %zu problems", what, problems.n);
	if (words && !strstr(problems.v[0], words))
		fail_msg("%s: %s", what, problems.v[0]);
	/* What it is, is never said. */
	if (words && strstr(problems.v[0], "0123"))
		fail_msg("%s: %s", what, problems.v[0]);
	if (!words) {
		assert_string_equal(iser_secret(&s, IQN, ME)->secret, "0123456789ab");
		assert_string_equal(iser_secret(&s, IQN, ME)->mutual, "cd0123456789");
		assert_null(iser_secret(&s, IQN, "iqn.2026-01.org.example:you"));
	}
	lines_clear(&problems);
	iser_secrets_clear(&s);
}

static void test_secrets(void **state)
{
	static const struct {
		const char *text, *words;
		mode_t mode;
	} table[] = {
		{ "0123456789ab\n", NULL, 0600 }, { "0123456789ab", NULL, 0400 },
		{ "0123456789ab\nand more\n", NULL, 0600 },
		{ "0123456789ab\n", "may be read by others", 0640 },
		{ "0123456789ab\n", "may be read by others", 0604 },
		{ "0123456789a\n", "is shorter than 12", 0600 },
		{ "", "is shorter than 12", 0600 }, { "\n0123456789ab", "is shorter than 12", 0600 },
		{ "0123456789 ab\n", "visible ASCII", 0600 },
		{ "0123456789ab\r\n", "visible ASCII", 0600 },
		{ "NULL0123456789ab\n", "begins with NULL", 0600 },
		{ "cd0123456789\n", "by the same secret", 0600 },
	};
	char longest[300];

	(void)state;
	put(two, "cd0123456789\n", 0600);
	for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
		put(one, table[i].text, table[i].mode);
		reads(table[i].words, table[i].text);
	}
	memset(longest, 'x', sizeof(longest));
	longest[256] = '\0';
	put(one, longest, 0600);
	reads("is longer than 255", "256 characters");
	unlink(one);
	reads("No such file", "none");
	assert_int_equal(mkdir(one, 0700), 0);
	reads("is no file", "a directory");
	assert_int_equal(rmdir(one), 0);
}

/* Who owns the directory could take one away, and put another there. */
static void test_directory(void **state)
{
	struct err e = ERR_INIT;
	char path[sizeof(one) + 8];
	bool made;

	(void)state;
	if (geteuid())
		skip();
	snprintf(path, sizeof(path), "%s.d/s", one);
	assert_int_equal(secret_make(path, &made, &e), 0);
	assert_true(made);
	unlink(path);
	path[strlen(path) - 2] = '\0';
	assert_int_equal(chown(path, 1, 1), 0);
	path[strlen(path)] = '/';
	assert_int_equal(secret_make(path, &made, &e), -EPERM);
	assert_false(made);
	assert_non_null(strstr(e.text, "belongs to somebody else"));
	assert_int_equal(access(path, F_OK), -1);
	path[strlen(path) - 2] = '\0';
	assert_int_equal(rmdir(path), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_secrets, setup, teardown),
		cmocka_unit_test_setup_teardown(test_directory, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
