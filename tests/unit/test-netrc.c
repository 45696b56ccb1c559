// SPDX-License-Identifier: Apache-2.0
/* Passwords from files like ~/.netrc. */
#include "client/passwords.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))

static const char text[] =
	"# a comment with machine and login in it\n"
	"machine a.example login bob password secret\n"
	"machine A.example login eve account x password #2\n"
	"machine quoted password \"two words \\\"\\\\\" login \"the user\"\n"
	"machine nologin password open\n"
	"machine macro login m macdef init\nmachine a.example\nlogin wrong\n\n"
	"machine after\tlogin\n  late\n  password fine\n"
	"default login anonymous password me@here\n";

static void test_lookup(void **state)
{
	static const struct {
		const char *host, *user;
		int rc;
		const char *login, *password;
	} cases[] = {
		{ "a.example", NULL, 1, "bob", "secret" },
		{ "A.EXAMPLE", "bob", 1, "bob", "secret" },
		{ "a.example", "eve", 1, "eve", "#2" },
		{ "a.example", "mallory", 0, NULL, NULL },
		{ "quoted", NULL, 1, "the user", "two words \"\\" },
		{ "nologin", "anyone", 1, NULL, "open" },
		{ "macro", NULL, 1, "m", NULL },
		{ "after", NULL, 1, "late", "fine" },
		{ "elsewhere", NULL, 1, "anonymous", "me@here" },
		{ "elsewhere", "bob", 0, NULL, NULL },
	};
	struct login l;
	struct err e = ERR_INIT;

	for (size_t i = 0; i < COUNT(cases); i++) {
		int rc = netrc_parse("netrc", text, cases[i].host, cases[i].user, &l, &e);

		if (rc != cases[i].rc)
			fail_msg("case %zu: %d %s", i, rc, e.text);
		if (!!l.user != !!cases[i].login || !!l.password != !!cases[i].password)
			fail_msg("case %zu: %s %s", i, l.user, l.password);
		if (l.user)
			assert_string_equal(l.user, cases[i].login);
		if (l.password)
			assert_string_equal(l.password, cases[i].password);
		login_clear(&l);
	}
}

/* No error tells a part of a password. */
static void test_errors(void **state)
{
	static const char *const bad[] = {
		"machine",
		"machine h login",
		"machine h login u password",
		"machine h login u password two words",
		"machine h login u password \"words",
		"words",
	};
	struct login l;
	struct err e;

	for (size_t i = 0; i < COUNT(bad); i++) {
		e = (struct err)ERR_INIT;
		assert_int_equal(netrc_parse("f", bad[i], "x", NULL, &l, &e), -EINVAL);
		assert_null(l.password);
		assert_null(strstr(e.text, "words"));
		assert_int_equal(strncmp(e.text, "f:1: ", 5), 0);
	}
	e = (struct err)ERR_INIT;
	assert_int_equal(netrc_parse("f", "machine h\n\n login u\nwhat\n", "h", NULL, &l, &e),
			 -EINVAL);
	assert_int_equal(strncmp(e.text, "f:4: ", 5), 0);
	assert_int_equal(netrc_parse("f", "", "h", NULL, &l, &e), 0);
	assert_int_equal(netrc_parse("f", " # only this", "h", NULL, &l, &e), 0);
}

static void test_modes(void **state)
{
	char path[] = "/tmp/test-netrc.XXXXXX";
	int fd = mkstemp(path);
	struct login l;
	struct err e = ERR_INIT;

	assert_true(fd >= 0);
	assert_int_equal(write_full(fd, text, strlen(text)), 0);
	close(fd);

	assert_int_equal(chmod(path, 0640), 0);
	assert_int_equal(netrc_find(path, "a.example", NULL, &l, &e), -EACCES);
	assert_null(l.password);
	assert_non_null(strstr(e.text, "chmod 600"));

	assert_int_equal(chmod(path, 0600), 0);
	assert_int_equal(netrc_find(path, "a.example", NULL, &l, &e), 1);
	assert_string_equal(l.password, "secret");
	login_clear(&l);
	assert_int_equal(netrc_find(path, "a.example", "nobody", &l, &e), 0);

	unlink(path);
	assert_int_equal(netrc_find(path, "a.example", NULL, &l, &e), -ENOENT);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_lookup),
		cmocka_unit_test(test_errors),
		cmocka_unit_test(test_modes),
	};

	return cmocka_run_group_tests_name("netrc", tests, NULL, NULL);
}
