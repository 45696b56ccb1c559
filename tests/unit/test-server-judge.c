// SPDX-License-Identifier: Apache-2.0
/* What a process that nobody believes says of a certificate: taken, or not. */
#include "server/judge.h"

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

static struct judged *new_judged(const char *pin, const char *subject)
{
	struct judged *j = calloc(1, sizeof(*j));

	assert_non_null(j);
	strcpy(j->pin, pin);
	strcpy(j->subject, subject);
	return j;
}

static void check_refused(struct judged *j)
{
	struct tls_proven shown = { .pin = NULL };

	assert_int_equal(judged_read(j, &shown), -EPROTO);
	assert_null(shown.pin);
	assert_null(shown.subject);
	free(j);
}

static void check_taken(struct judged *j, const char *pin, const char *subject)
{
	struct tls_proven shown = { .pin = NULL };

	assert_int_equal(judged_read(j, &shown), 0);
	if (pin)
		assert_string_equal(shown.pin, pin);
	else
		assert_null(shown.pin);
	if (subject)
		assert_string_equal(shown.subject, subject);
	else
		assert_null(shown.subject);
	tls_proven_clear(&shown);
	free(j);
}

static void test_taken(void **state)
{
	struct judged *j = new_judged(PIN, "");

	(void)state;
	check_taken(new_judged(PIN, SUBJECT), PIN, SUBJECT);
	check_taken(new_judged(PIN, ""), PIN, NULL);
	check_taken(new_judged("", ""), NULL, NULL);
	memset(j->subject, 'x', sizeof(j->subject) - 1);
	check_taken(j, PIN, strdupa(j->subject));
	/* What is behind the end is nothing. */
	j = new_judged(PIN, SUBJECT);
	memset(j->pin + sizeof(PIN), '\n', sizeof(j->pin) - sizeof(PIN));
	check_taken(j, PIN, SUBJECT);
}

static void test_without_end(void **state)
{
	struct judged *j = new_judged(PIN, "");

	(void)state;
	memset(j->subject, 'x', sizeof(j->subject));
	check_refused(j);
	j = new_judged("", SUBJECT);
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
		check_refused(new_judged(PIN, subjects[i]));
	check_refused(new_judged(PIN "\n", SUBJECT));
}

static void test_no_pin(void **state)
{
	(void)state;
	check_refused(new_judged("alice", ""));
	check_refused(new_judged("SHA256:AAEC", ""));
	check_refused(new_judged(PIN "AAAA", ""));
	check_refused(new_judged("%n%s", ""));
	check_refused(new_judged("", SUBJECT)); /* nobody has one of these alone */
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_taken), cmocka_unit_test(test_without_end),
		cmocka_unit_test(test_no_text), cmocka_unit_test(test_no_pin),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
