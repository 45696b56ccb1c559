// SPDX-License-Identifier: Apache-2.0
/* Passwords from files in the format of ~/.netrc. */
#include "client/credentials.h"

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
	"machine ported login one password p7321\n"
	"machine ported:7322 login two password p7322\n"
	"machine other:7322 login x password y\n"
	"machine [::1] login six password p6 machine [::1]:7322 login seven password p7\n"
	"machine fe80::1 login bare password p8\n"
	"default login anonymous password me@here\n";

static void test_lookup(void **state)
{
	static const struct {
		const char *host, *user;
		int rc;
		const char *login, *password;
		uint16_t port; /* 0: default, 7321 */
	} cases[] = {
		{ "a.example", NULL, 1, "bob", "secret", 0 },
		{ "A.EXAMPLE", "bob", 1, "bob", "secret", 0 },
		{ "a.example", "eve", 1, "eve", "#2", 0 },
		{ "a.example", "mallory", 0, NULL, NULL, 0 },
		{ "quoted", NULL, 1, "the user", "two words \"\\", 0 },
		{ "nologin", "anyone", 1, NULL, "open", 0 },
		{ "macro", NULL, 1, "m", NULL, 0 },
		{ "after", NULL, 1, "late", "fine", 0 },
		/* "default" without a requested user gives no login */
		{ "elsewhere", NULL, 0, NULL, NULL, 0 },
		{ "elsewhere", "bob", 0, NULL, NULL, 0 },
		{ "elsewhere", "anonymous", 1, "anonymous", "me@here", 0 },
		{ "a.example", NULL, 1, "bob", "secret", 7322 },
		/* an entry with the port takes precedence over one with the host only, in any
		 * order */
		{ "ported", NULL, 1, "one", "p7321", 0 },
		{ "ported", NULL, 1, "two", "p7322", 7322 },
		{ "ported", "one", 0, NULL, NULL, 7322 },
		/* if another entry names a port, an entry without one is for the default port */
		{ "ported", NULL, 0, NULL, NULL, 7323 },
		{ "other", NULL, 0, NULL, NULL, 0 },
		{ "::1", NULL, 1, "six", "p6", 0 },
		{ "::1", NULL, 1, "seven", "p7", 7322 },
		{ "fe80::1", NULL, 1, "bare", "p8", 0 },
	};
	struct login l;
	struct err e = ERR_INIT;

	for (size_t i = 0; i < COUNT(cases); i++) {
		struct netrc_server server = { cases[i].host, cases[i].port ? cases[i].port : 7321,
					       !cases[i].port, cases[i].user };
		int rc = netrc_parse("netrc", text, &server, &l, &e);

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

/* No error text contains a part of a password. */
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
	static const struct netrc_server x = { "x", 7321, true, NULL };
	struct login l;
	struct err e;

	for (size_t i = 0; i < COUNT(bad); i++) {
		e = (struct err)ERR_INIT;
		assert_int_equal(netrc_parse("f", bad[i], &x, &l, &e), -EINVAL);
		assert_null(l.password);
		assert_null(strstr(e.text, "words"));
		assert_int_equal(strncmp(e.text, "f:1: ", 5), 0);
	}
	e = (struct err)ERR_INIT;
	assert_int_equal(netrc_parse("f", "machine h\n\n login u\nwhat\n", &x, &l, &e),
			 -EINVAL);
	assert_int_equal(strncmp(e.text, "f:4: ", 5), 0);
	assert_int_equal(netrc_parse("f", "", &x, &l, &e), 0);
	assert_int_equal(netrc_parse("f", " # only this", &x, &l, &e), 0);
}

static void test_modes(void **state)
{
	char path[] = "/tmp/test-netrc.XXXXXX";
	int fd = mkstemp(path);
	struct netrc_server server = { "a.example", 7321, true, NULL };
	struct login l;
	struct err e = ERR_INIT;

	assert_true(fd >= 0);
	assert_int_equal(write_full(fd, text, strlen(text)), 0);
	close(fd);

	assert_int_equal(chmod(path, 0640), 0);
	assert_int_equal(netrc_find(path, &server, &l, &e), -EACCES);
	assert_null(l.password);
	assert_non_null(strstr(e.text, "chmod 600"));

	assert_int_equal(chmod(path, 0600), 0);
	assert_int_equal(netrc_find(path, &server, &l, &e), 1);
	assert_string_equal(l.password, "secret");
	login_clear(&l);
	server.user = "nobody";
	assert_int_equal(netrc_find(path, &server, &l, &e), 0);
	/* /dev/null is readable by all users, but it holds no password, so it is not refused. */
	assert_int_equal(netrc_find("/dev/null", &server, &l, &e), 0);

	unlink(path);
	assert_int_equal(netrc_find(path, &server, &l, &e), -ENOENT);
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
