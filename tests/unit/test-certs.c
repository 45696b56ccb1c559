// SPDX-License-Identifier: Apache-2.0
/* The map of certificates: its syntax, which certificate may log in as which user, and refused
 * lines. */
#include "server/auth/auth.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#define PIN "SHA256:AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"
#define PIN2 "SHA256:BBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBA"
#define LONG_NAME "0123456789012345678901234567890123456789012345678901234567890123"

static void test_lines(void **state)
{
	static const struct { const char *line; int rc; const char *subject; } table[] = {
		{ "", 0, NULL }, { "   ", 0, NULL }, { "# " PIN " alice", 0, NULL },
		{ PIN " alice", 1, NULL }, { "  " PIN " \t alice\r", 1, NULL },
		{ "subject \"CN=a b,O=E\" alice", 1, "CN=a b,O=E" },
		{ "subject\t\"CN=\\\"x\\\"\"\talice", 1, "CN=\\\"x\\\"" },
		{ "subject \"CN=x\\\\\" alice", 1, "CN=x\\\\" },
		{ PIN, -EINVAL, NULL }, { PIN " alice bob", -EINVAL, NULL },
		{ PIN "=" " alice", -EINVAL, NULL }, { "SHA256:AAAA alice", -EINVAL, NULL },
		{ "alice " PIN, -EINVAL, NULL }, { PIN " " LONG_NAME, -EINVAL, NULL },
		{ "subject CN=a alice", -EINVAL, NULL }, { "subject \"CN=a alice", -EINVAL, NULL },
		{ "subject \"CN=a\"alice", -EINVAL, NULL }, { "subject \"\" alice", -EINVAL, NULL },
		{ "subject \"CN=a\"", -EINVAL, NULL }, { "subject \"CN=a\" ", -EINVAL, NULL },
		{ "subject \"CN=a\" alice bob", -EINVAL, NULL }, { "subject", -EINVAL, NULL },
		{ "subject \"CN=a\\\" alice", -EINVAL, NULL }, { "Subject \"CN=a\" b", -EINVAL, NULL },
	};

	for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
		struct err e = ERR_INIT;
		struct cert_line c;
		int rc = cert_line_parse(table[i].line, &c, &e);

		if (rc != table[i].rc)
			fail_msg("%s: %d", table[i].line, rc);
		assert_int_equal(!!*e.text, rc < 0);
		if (rc == 1) {
			assert_string_equal(c.user, "alice");
			if (table[i].subject)
				assert_string_equal(c.subject, table[i].subject);
			else
				assert_string_equal(c.pin, PIN);
			assert_true(!c.pin != !c.subject);
		}
		cert_line_clear(&c);
	}
}

static int make_file(void **state)
{
	static char path[64];
	FILE *out;
	int fd;

	snprintf(path, sizeof(path), "/tmp/test-certs.XXXXXX");
	fd = mkstemp(path);
	assert_true(fd >= 0);
	out = fdopen(fd, "w");
	fprintf(out, "# map\n\n%s alice\nnonsense\n%s bob\nsubject \"CN=c\" carol\n%s carol", PIN,
		PIN, PIN2);
	assert_int_equal(fclose(out), 0);
	*state = path;
	return 0;
}

static int remove_file(void **state)
{
	unlink(*state);
	return 0;
}

static void test_allow(void **state)
{
	static const struct { const char *pin, *subject, *user; int rc; } table[] = {
		{ PIN, NULL, "alice", 1 }, { PIN, NULL, "bob", 1 }, { PIN, NULL, "carol", 0 },
		{ PIN, NULL, "", 0 }, { PIN2, NULL, "alice", 0 }, { PIN2, NULL, "carol", 1 },
		{ NULL, "CN=c", "carol", 1 }, { NULL, "CN=C", "carol", 0 },
		{ PIN, "CN=c", "carol", 1 }, { PIN2, "CN=x", "carol", 1 },
		{ NULL, "CN=c", "alice", 0 }, { NULL, PIN, "alice", 0 }, { NULL, NULL, "alice", 0 },
		{ "nonsense", NULL, "nonsense", 0 },
	};

	log_init("test", LOG_LV_ERROR, false);
	for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
		struct err e = ERR_INIT;

		if (certs_allow(*state, table[i].pin, table[i].subject, table[i].user, &e) !=
		    table[i].rc)
			fail_msg("%zu", i);
		assert_string_equal(e.text, "");
	}
}

static void test_verify(void **state)
{
	const char *file = *state;
	struct err e = ERR_INIT;
	FILE *out;

	assert_int_equal(certs_verify(file, true, &e), -EINVAL);
	assert_non_null(strstr(e.text, ":4: "));
	out = fopen(file, "w");
	fprintf(out, "%s alice\nsubject \"CN=c\" carol\n", PIN);
	assert_int_equal(fclose(out), 0);
	assert_int_equal(certs_verify(file, true, &e), 0);
	assert_int_equal(certs_verify(file, false, &e), -EINVAL);
	assert_non_null(strstr(e.text, ":2: "));
	assert_non_null(strstr(e.text, "--ca"));
	for (mode_t m = 0620; m; m = m == 0620 ? 0602 : 0) {
		assert_int_equal(chmod(file, m), 0);
		assert_int_equal(certs_verify(file, true, &e), -EPERM);
		assert_non_null(strstr(e.text, "chmod go-w"));
	}
	assert_int_equal(certs_verify("/nonexistent", true, &e), -ENOENT);
	assert_int_equal(certs_allow("/nonexistent", PIN, NULL, "alice", &e), -ENOENT);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_lines),
		cmocka_unit_test_setup_teardown(test_allow, make_file, remove_file),
		cmocka_unit_test_setup_teardown(test_verify, make_file, remove_file),
	};

	return cmocka_run_group_tests_name("map of certificates", tests, NULL, NULL);
}
