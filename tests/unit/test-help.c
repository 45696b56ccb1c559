// SPDX-License-Identifier: Apache-2.0
/* --help from the tables: it shows every entry under the right heading, within the width of a
 * terminal. */
#include "client/client.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static char *text;
static size_t len;

static FILE *begin(void)
{
	free(text);
	text = NULL;
	return open_memstream(&text, &len);
}

/* The help line of the option; NULL: none. */
static const char *line_of(const struct option_def *def)
{
	char want[100];
	const char *at = text;

	snprintf(want, sizeof(want), "--%s", def->name);
	while ((at = strstr(at, want))) {
		const char *end = at + strlen(want);

		/* at the start of a line, after "  -x, " or six blanks */
		if (at - text >= 7 && at[-7] == '\n' && (*end == ' ' || *end == '\n'))
			return at - 6;
		at = end;
	}
	return NULL;
}

static void fits_terminal(void)
{
	for (const char *at = text; *at;) {
		size_t n = strcspn(at, "\n");

		if (n > 100)
			fail_msg("%.*s", (int)n, at);
		at += n + (at[n] != '\0');
	}
}

/* Help shows the options of `bits` and no others. */
static void tells_options(unsigned bits)
{
	for (const struct option_def *def = rftp_options; def->name || def->help; def++) {
		const char *line = def->name ? line_of(def) : NULL;

		if (!def->name)
			continue;
		if (!line != !(def->where & bits))
			fail_msg("--%s: %s", def->name, line ? "is told" : "is not told");
		if (!line)
			continue;
		assert_non_null(strstr(line, def->help));
		if (def->letter)
			assert_true(line[2] == '-' && line[3] == def->letter && line[4] == ',');
		for (int i = 0; def->words && def->words[i]; i++)
			assert_non_null(strstr(line, def->words[i]));
	}
}

static void test_program(void **state)
{
	FILE *out = begin();

	(void)state;
	help_program(out);
	fclose(out);
	assert_true(strstr(text, "usage: rftp COMMAND") == text);
	for (const struct command *c = commands; c->name; c++) {
		char line[200];

		snprintf(line, sizeof(line), "\n  %-7s  %s\n", c->name, c->help);
		assert_non_null(strstr(text, line));
	}
	tells_options(ON_ALL);
	fits_terminal();
}

/* A command's help shows its own options only, and no empty section. */
static void test_commands(void **state)
{
	(void)state;
	for (const struct command *c = commands; c->name; c++) {
		FILE *out = begin();
		char usage[200];

		help_command(out, c);
		fclose(out);
		snprintf(usage, sizeof(usage), "usage: rftp %s [OPTION...] %s\n", c->name, c->usage);
		assert_true(strstr(text, usage) == text);
		assert_non_null(strstr(text, c->help));
		tells_options(c->bit);
		fits_terminal();
		assert_null(strstr(text, ":\n\n"));
		assert_true(text[len - 1] == '\n' && text[len - 2] != ':');
	}
}

static void test_version(void **state)
{
	FILE *out = begin();

	(void)state;
	help_version(out);
	fclose(out);
	assert_string_equal(text, "rftp " PACKAGE_VERSION "\nfeatures: " RFTP_FEATURES "\n");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_program),
		cmocka_unit_test(test_commands),
		cmocka_unit_test(test_version),
	};
	int failed = cmocka_run_group_tests(tests, NULL, NULL);

	free(text);
	return failed;
}
