// SPDX-License-Identifier: Apache-2.0
/* The result of a certificate check, from a process that an attacker may control. */
#include "server/auth/auth.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define PIN "SHA256:AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8"
#define SUBJECT "CN=alice a,O=Example"

static struct cert_result *new_result(const char *pin, const char *subject)
{
	struct cert_result *j = calloc(1, sizeof(*j));

	assert_non_null(j);
	strcpy(j->pin, pin);
	strcpy(j->subject, subject);
	return j;
}

static void check_refused(struct cert_result *j)
{
	assert_int_equal(cert_result_check(j), -EPROTO);
	free(j);
}

static void check_taken(struct cert_result *j)
{
	assert_int_equal(cert_result_check(j), 0);
	free(j);
}

static void test_taken(void **state)
{
	struct cert_result *j = new_result(PIN, "");

	(void)state;
	check_taken(new_result(PIN, SUBJECT));
	check_taken(new_result(PIN, ""));
	check_taken(new_result("", ""));
	memset(j->subject, 'x', sizeof(j->subject) - 1);
	check_taken(j);
	/* Bytes behind the terminating NUL are ignored. */
	j = new_result(PIN, SUBJECT);
	memset(j->pin + sizeof(PIN), '\n', sizeof(j->pin) - sizeof(PIN));
	check_taken(j);
}

static void test_without_end(void **state)
{
	struct cert_result *j = new_result(PIN, "");

	(void)state;
	memset(j->subject, 'x', sizeof(j->subject));
	check_refused(j);
	j = new_result("", SUBJECT);
	memset(j->pin, 'A', sizeof(j->pin));
	check_refused(j);
	j = calloc(1, sizeof(*j));
	assert_non_null(j);
	memset(j, 'A', sizeof(*j));
	check_refused(j);
}

static void test_no_text(void **state)
{
	const char *const subjects[] = { "CN=a\nforged line", "CN=\x1b[2J", "CN=\x7f",
					 "CN=\xc3\xa9", "\x01" };

	(void)state;
	for (size_t i = 0; i < sizeof(subjects) / sizeof(subjects[0]); i++)
		check_refused(new_result(PIN, subjects[i]));
	check_refused(new_result(PIN "\n", SUBJECT));
}

static void test_no_pin(void **state)
{
	(void)state;
	check_refused(new_result("alice", ""));
	check_refused(new_result("SHA256:AAEC", ""));
	check_refused(new_result(PIN "AAAA", ""));
	check_refused(new_result("%n%s", ""));
	check_refused(new_result("", SUBJECT)); /* a subject without a pin */
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_taken), cmocka_unit_test(test_without_end),
		cmocka_unit_test(test_no_text), cmocka_unit_test(test_no_pin),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
