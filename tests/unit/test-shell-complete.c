// SPDX-License-Identifier: Apache-2.0
/* Completion in the shell: commands, options, values and local names; and the prompt. */
#include "client/shell/shell.h"
#include "tests/support/tmptree.h"

#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

static const struct option_args none;
static struct shell *sh;

/* Returns text with its completion, with "-" before it if there is no completion. malloc'd. */
static char *completed(const char *text)
{
	CLEANUP_FREE char *with = NULL;
	struct err e = ERR_INIT;
	struct completion m;
	char *out;

	if (shell_complete(sh, text, &m, &e))
		return strdup("-");
	assert_in_range(m.start, 0, strlen(text));
	with = completion_text(&m);
	assert_true(asprintf(&out, "%.*s%s", (int)m.start, text,
			     with ? with : text + m.start) >= 0);
	completion_clear(&m);
	return out;
}

struct row {
	const char *text, *want;
};

static void check(const struct row *rows, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		CLEANUP_FREE char *got = completed(rows[i].text);

		if (strcmp(got, rows[i].want))
			fail_msg("%s becomes %s, not %s", rows[i].text, got, rows[i].want);
	}
}

static void test_words(void **state)
{
	static const struct row rows[] = {
		{ "lp", "lpwd " },
		{ "", "" },
		{ "m", "m" },
		{ "mk", "mkdir " },
		{ "zz", "zz" },
		{ "cd x; lp", "cd x; lpwd " },
		{ "cd x;lp", "cd x;lpwd " },
		{ "help mk", "help mkdir " },
		{ "ls --nam", "ls --names " },
		{ "ls --chan", "ls --chan" },
		{ "get x --transp", "get x --transport " },
		{ "get --transport r", "get --transport rdma " },
		{ "get --ack wri", "get --ack written " },
		{ "bench --crc o", "bench --crc o" },
		{ "bench --crc of", "bench --crc off " },
		{ "set transp", "set transport " },
		{ "set transport t", "set transport tcp " },
		{ "set transport tcp r", "set transport tcp r" },
		{ "set json y", "set json yes " },
		{ "set overwrite n", "set overwrite no " },
		{ "set verbose y", "set verbose yes " },
		{ "set rate y", "set rate y" },
		{ "unset ack transp", "unset ack transport " },
		{ "set hel", "set hel" },
		{ "pwd x", "pwd x" },
		{ "nonsense x", "-" },
		{ "!l", "-" },
		{ "ls | le", "-" },
		{ "ls # le", "-" },
	};

	(void)state;
	check(rows, sizeof(rows) / sizeof(rows[0]));
}

static void test_names(void **state)
{
	static const struct row rows[] = {
		{ "put al", "put alpha " },
		{ "put -r al", "put -r alpha " },
		{ "put -- al", "put -- alpha " },
		{ "put b", "put beta-" },
		{ "put beta-o", "put beta-one " },
		{ "put di", "put dir/" },
		{ "put dir/", "put dir/in " },
		{ "put ./dir/i", "put ./dir/in " },
		{ "put with", "put \"with blank\" " },
		{ "put \"with ", "put \"with blank\" " },
		{ "put 'with b", "put \"with blank\" " },
		{ "put with\\ b", "put \"with blank\" " },
		{ "put st", "put \"st*r\" " },
		{ "put .h", "put .hidden " },
		{ "lcd ", "lcd dir/" },
		{ "put /no/such/", "put /no/such/" },
		{ "mput alpha be", "mput alpha beta-" },
		/* Remote names need a server, which is missing here. */
		{ "get al", "-" },
		{ "put alpha x", "-" },
	};
	static const char *const files[] = { "alpha", "beta-one", "beta-two", "with blank", "st*r",
					     ".hidden", "dir/in" };

	(void)state;
	assert_int_equal(chdir(tmp_dir), 0);
	assert_int_equal(mkdir("dir", 0700), 0);
	for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++)
		assert_int_equal(close(open(files[i], O_CREAT | O_WRONLY, 0600)), 0);
	check(rows, sizeof(rows) / sizeof(rows[0]));
	setenv("HOME", tmp_dir, 1);
	check(&(const struct row){ "put ~/al", "put ~/alpha " }, 1);
}

/* Names that look like options. */
static void test_dashes(void **state)
{
	static const struct row rows[] = {
		{ "put dashes/", "put dashes/-n " },
		{ "lcd dashes; put ", "lcd dashes; put " },
	};
	static const struct row there[] = {
		{ "put ", "put ./-n " },
		{ "put ./-", "put ./-n " },
		{ "put -- ", "put -- -n " },
		{ "put -- -", "put -- -n " },
		{ "put -", "put --" },
	};

	(void)state;
	assert_int_equal(chdir(tmp_dir), 0);
	assert_int_equal(mkdir("dashes", 0700), 0);
	assert_int_equal(close(open("dashes/-n", O_CREAT | O_WRONLY, 0600)), 0);
	check(rows, sizeof(rows) / sizeof(rows[0]));
	assert_int_equal(chdir("dashes"), 0);
	check(there, sizeof(there) / sizeof(there[0]));
	assert_int_equal(chdir(".."), 0);
}

static void test_prompt(void **state)
{
	struct shell at = { .here = { .kind = URL_RFTP } };
	char out[600];

	(void)state;
	assert_int_equal(shell_prompt_text(&at, 80, out, sizeof(out)), 6);
	assert_string_equal(out, "rftp> ");
	at.here.host = (char *)(uintptr_t)"host.example";
	at.here.path = (char *)(uintptr_t)"/data/run";
	shell_prompt_text(&at, 80, out, sizeof(out));
	assert_string_equal(out, "host.example:/data/run> ");
	shell_prompt_text(&at, 20, out, sizeof(out));
	assert_string_equal(out, "run> ");
	shell_prompt_text(&at, 8, out, sizeof(out));
	assert_string_equal(out, "> ");
	at.here.path = (char *)(uintptr_t)"/";
	shell_prompt_text(&at, 20, out, sizeof(out));
	assert_string_equal(out, "/> ");
	at.here.path = (char *)(uintptr_t)"/\033[31m";
	shell_prompt_text(&at, 80, out, sizeof(out));
	assert_null(strchr(out, '\033'));
}

/* Returns the number of candidates that equal wanted, or -1 without a completion. */
static int offered(const char *text, const char *wanted)
{
	struct err e = ERR_INIT;
	struct completion m;
	int found = 0;

	if (shell_complete(sh, text, &m, &e))
		return -1;
	for (size_t i = 0; i < m.names.n; i++)
		found += !strcmp(m.names.all[i], wanted);
	completion_clear(&m);
	return found;
}

/* Every settable option, and every word it accepts. */
static void test_every_option(void **state)
{
	int n = 0, words = 0;

	for (const struct option_def *d = rftp_options; d->name || d->help; d++) {
		char text[80];

		if (!d->name || !(d->where & OPTION_IN_FILE))
			continue;
		n++;
		snprintf(text, sizeof(text), "set %.3s", d->name);
		assert_int_equal(offered(text, d->name), 1);
		snprintf(text, sizeof(text), "unset ack %s", d->name);
		assert_int_equal(offered(text, d->name), 1);
		for (int i = 0; d->words && d->words[i]; i++, words++) {
			snprintf(text, sizeof(text), "set %s %.1s", d->name, d->words[i]);
			assert_int_equal(offered(text, d->words[i]), 1);
			snprintf(text, sizeof(text), "set %s zz", d->name);
			assert_int_equal(offered(text, d->words[i]), 0);
		}
	}
	assert_in_range(n, 30, 100);
	assert_in_range(words, 25, 200);
}

static void test_files_of_options(void **state)
{
	static const struct row rows[] = {
		{ "set ca al", "set ca alpha " },
		{ "get --ca al", "get --ca alpha " },
		{ "set rftpd-path al", "set rftpd-path al" },
		{ "set ca ~/", "set ca ~/" },
	};

	check(rows, sizeof(rows) / sizeof(rows[0]));
}

static int begin(void **state)
{
	(void)state;
	sh = shell_new(&none);
	return sh ? tmp_setup(state) : -1;
}

static int end(void **state)
{
	shell_free(sh);
	return tmp_teardown(state);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_words),
		cmocka_unit_test(test_names),
		cmocka_unit_test(test_dashes),
		cmocka_unit_test(test_every_option),
		cmocka_unit_test(test_files_of_options),
		cmocka_unit_test(test_prompt),
	};

	return cmocka_run_group_tests(tests, begin, end);
}
