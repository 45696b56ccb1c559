// SPDX-License-Identifier: Apache-2.0
/* Splitting the shell's lines into commands and words. */
#include "client/shell/shell.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* All commands of line as one text: words in <>, a pattern behind "=", "~" before a word that may
 * be a home directory, " ; " between commands. malloc'd; on error NULL, with e set. */
static char *cut(const char *line, struct err *e)
{
	struct shell_line l;
	char *text = NULL;
	size_t size;
	FILE *out = open_memstream(&text, &size);
	int rc = 0;

	for (bool first = true; *line && rc == 0; first = false) {
		rc = shell_line_take(&line, false, &l, e);
		if (rc)
			break;
		if (!first)
			fputs(" ; ", out);
		if (l.outside)
			fprintf(out, "!{%s}", l.outside);
		for (size_t i = 0; i < l.n; i++) {
			fprintf(out, "%s<%s", l.words[i].tilde ? "~" : "", l.words[i].text);
			if (l.words[i].pattern)
				fprintf(out, "=%s", l.words[i].pattern);
			fputc('>', out);
		}
		if (l.pipe)
			fprintf(out, "|{%s}", l.pipe);
		shell_line_clear(&l);
	}
	fclose(out);
	if (!rc)
		return text;
	free(text);
	return NULL;
}

static void test_words(void **state)
{
	static const struct { const char *line, *want; } rows[] = {
		{ "", "" },
		{ "   \t ", "" },
		{ "ls", "<ls>" },
		{ "  get  a\tb \r\n", "<get><a><b>" },
		{ "get 'a b' \"c d\"", "<get><a b><c d>" },
		{ "a''b \"\" ''", "<ab><><>" },
		{ "x\\ y z\\'s", "<x y><z's>" },
		{ "\"a \\\"b\\\" \\\\ \\n\"", "<a \"b\" \\ \\n>" },
		{ "'it\\s'", "<it\\s>" },
		{ "pre'mid 1'\"mid 2\"post", "<premid 1mid 2post>" },
		{ "ls # all of it", "<ls>" },
		{ "# nothing", "" },
		{ "get a#b", "<get><a#b>" },
		{ "get '#a' \\#b", "<get><#a><#b>" },
		{ "cd a; ls -l ;pwd", "<cd><a> ; <ls><-l> ; <pwd>" },
		{ "cd 'a;b' c\\;d", "<cd><a;b><c;d>" },
		{ ";; ls", " ;  ; <ls>" },
		{ "cd a # ; ls", "<cd><a>" },
		{ "!", "!{}" },
		{ " !ls -l | wc; id # x", "!{ls -l | wc; id # x}" },
		{ "ls; !date", "<ls> ; !{date}" },
		{ "put a!b", "<put><a!b>" },
		{ "get f | gzip -c >x; ls", "<get><f>|{gzip -c >x; ls}" },
		{ "get f|less", "<get><f>|{less}" },
		{ "get 'f|less' g\\|h", "<get><f|less><g|h>" },
		{ "lcd ~ ~/x '~' \\~ a~", "<lcd>~<~>~<~/x><~><~><a~>" },
		{ "\303\251\377", "<\303\251\377>" },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct err e = ERR_INIT;
		char *got = cut(rows[i].line, &e);

		if (!got)
			fail_msg("%s: %s", rows[i].line, e.text);
		assert_string_equal(got, rows[i].want);
		free(got);
	}
}

static void test_patterns(void **state)
{
	static const struct { const char *line, *want; } rows[] = {
		{ "*", "<*=*>" },
		{ "a*b?c[x-z]", "<a*b?c[x-z]=a*b?c[x-z]>" },
		{ "'*' \"?\" \\[", "<*><?><[>" },
		{ "'*'*", "<**=\\**>" },
		{ "a\\**", "<a**=a\\**>" },
		{ "'[a]'[b]", "<[a][b]=\\[a\\][b]>" },
		{ "\"\\\\\"*", "<\\*=\\\\*>" },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct err e = ERR_INIT;
		char *got = cut(rows[i].line, &e);

		assert_non_null(got);
		assert_string_equal(got, rows[i].want);
		free(got);
	}
}

static void test_bad(void **state)
{
	static const struct { const char *line, *text; } rows[] = {
		{ "get 'a", "the quote ' is not closed: 'a" },
		{ "get \"a b", "the quote \" is not closed: \"a b" },
		{ "get \"a\\\"", "the quote \" is not closed" },
		{ "get 'a\033[1m", "not closed: 'a\\x1b" },
		{ "get a\\", "a backslash at the end" },
		{ "get a |", "| needs a command" },
		{ "| less", "| needs a command" },
		{ "ls; | less", "| needs a command" },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct err e = ERR_INIT;

		assert_null(cut(rows[i].line, &e));
		assert_int_equal(e.code, -EINVAL);
		if (!strstr(e.text, rows[i].text))
			fail_msg("%s: %s", rows[i].line, e.text);
	}
}

/* A quoted word is parsed as the same single word. */
static void test_quote(void **state)
{
	static const char *const words[] = {
		"a", "", "a b", "it's", "say \"x\"", "back\\slash", "*", "a?", "[x]", "~", "~/a",
		"a~",
		"!x", "#x", "a#", "a;b", "a|b", "tab\there", "-l", "\303\251\377",
	};

	(void)state;
	for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
		struct err e = ERR_INIT;
		char *quoted = shell_quote(words[i], false), *open = shell_quote(words[i], true);
		struct shell_line l;
		const char *at = quoted;

		assert_int_equal(shell_line_take(&at, false, &l, &e), 0);
		assert_int_equal(l.n, 1);
		assert_string_equal(l.words[0].text, words[i]);
		assert_null(l.words[0].pattern);
		assert_false(l.words[0].tilde);
		assert_memory_equal(quoted, open, strlen(open));
		assert_true(strlen(quoted) - strlen(open) <= 1);
		shell_line_clear(&l);
		free(quoted);
		free(open);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_words),
		cmocka_unit_test(test_patterns),
		cmocka_unit_test(test_bad),
		cmocka_unit_test(test_quote),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
