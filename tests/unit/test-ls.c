// SPDX-License-Identifier: Apache-2.0
/* The text of LIST: options, patterns, lines. */
#include "control/server/session.h"
#include "proto/proto.h"
#include "util/util.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static void test_options(void **state)
{
	static const struct {
		const char *arg, *path;
		struct ls_options o;
	} table[] = {
		{ "", "", { 0 } },
		{ "dir", "dir", { 0 } },
		{ "-a", "", { .all = true } },
		{ "-la dir", "dir", { .all = true } },
		{ "-l -a -R a b", "a b", { .all = true, .recursive = true } },
		{ "-d *", "*", { .itself = true } },
		{ "-1", "", { .names = true } },
		{ "-1l x", "x", { 0 } },
		{ "-tSrh x", "x", { 0 } },
		{ "-a ", "", { .all = true } },
		{ "-l  x", " x", { 0 } },
		{ "-", "-", { 0 } },
		{ "-- -a", "-a", { 0 } },
		{ "--", "", { 0 } },
		{ "./-a", "./-a", { 0 } },
		{ "-a.txt", "-a.txt", { 0 } },
		{ "-a-b", "-a-b", { 0 } },
		{ " x", " x", { 0 } },
	};

	for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
		struct ls_options o = { 0 };
		char *arg = strdup(table[i].arg);

		assert_non_null(arg);
		assert_string_equal(ls_options_take(arg, &o), table[i].path);
		assert_int_equal(o.all, table[i].o.all);
		assert_int_equal(o.itself, table[i].o.itself);
		assert_int_equal(o.recursive, table[i].o.recursive);
		assert_int_equal(o.names, table[i].o.names);
		free(arg);
	}
}

static void test_patterns(void **state)
{
	static const struct {
		const char *pattern, *name;
		bool match;
	} table[] = {
		{ "*", "a", true }, { "*", "", true }, { "*", ".a", false }, { ".*", ".a", true },
		{ "\\.*", ".a", true }, { "?a", ".a", false }, { "[.]a", ".a", false },
		{ "*.c", "x.c", true }, { "*.c", "x.h", false }, { "*.c", "x.c.c", true },
		{ "a*b*c", "aXbYc", true }, { "a*b*c", "abcb", false }, { "a**", "a", true },
		{ "?", "", false }, { "?", "a", true }, { "?", "ab", false },
		{ "[abc]", "b", true }, { "[abc]", "d", false }, { "[a-c]x", "bx", true },
		{ "[!a-c]", "b", false }, { "[^a-c]", "d", true }, { "[]]", "]", true },
		{ "[!]]", "]", false }, { "[a-]", "-", true }, { "[", "[", true },
		{ "[a", "[a", true }, { "[a", "a", false }, { "\\*", "*", true },
		{ "\\*", "a", false }, { "a\\", "a\\", true }, { "a", "a", true },
		{ "a", "b", false }, { "", "a", false }, { "", "", true },
		{ "[\x80-\xff]", "\xe4", true },
	};

	for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++)
		if (ls_match(table[i].pattern, table[i].name) != table[i].match)
			fail_msg("\"%s\" \"%s\"", table[i].pattern, table[i].name);
	assert_true(ls_is_pattern("a*") && ls_is_pattern("?") && ls_is_pattern("[a]"));
	assert_false(ls_is_pattern("a\\b]"));
}

/* Exponential matching takes years for this pattern (CVE-2011-0762). */
static void test_costly_pattern(void **state)
{
	char pattern[LS_PATTERN_MOST + 2], name[256];
	uint64_t began = now_ns();

	for (size_t i = 0; i < LS_PATTERN_MOST; i++)
		pattern[i] = i % 2 ? 'a' : '*';
	pattern[LS_PATTERN_MOST] = '\0';
	memset(name, 'a', 254);
	memcpy(name + 254, "b", 2);
	assert_false(ls_match(pattern, name));
	memcpy(pattern + 100, "*c", 3);
	assert_false(ls_match(pattern, name));

	/* Brackets that do not close are looked for again and again. */
	memset(pattern, '[', LS_PATTERN_MOST);
	*pattern = '*';
	memset(name, '[', 255);
	assert_false(ls_match(pattern, name));
	memset(pattern + 1, '*', LS_PATTERN_MOST);
	pattern[LS_PATTERN_MOST + 1] = '\0';
	assert_false(ls_match(pattern, name));
	assert_true(ls_match(pattern + 1, name));
	assert_true(now_ns() - began < 5000000000u);
}

static void line_is(mode_t mode, int64_t mtime, int64_t now, const char *want)
{
	struct stat st = { .st_mode = mode, .st_nlink = 1, .st_uid = 1000, .st_gid = 100,
			   .st_size = 6, .st_mtim.tv_sec = mtime };
	char line[LS_LINE];

	ls_line(line, &st, now);
	assert_string_equal(line, want);
}

static void test_lines(void **state)
{
	enum { NOW = 1800000000 }; /* 2027-01-15 08:00 */

	line_is(S_IFREG | 0644, NOW - 60, NOW,
		"-rw-r--r--    1 1000     100                 6 Jan 15 07:59 ");
	line_is(S_IFDIR | 01777, NOW - 366 * 86400, NOW,
		"drwxrwxrwt    1 1000     100                 6 Jan 14  2026 ");
	line_is(S_IFREG | 06755, NOW + 7 * 86400, NOW,
		"-rwsr-sr-x    1 1000     100                 6 Jan 22  2027 ");
	line_is(S_IFREG | 07644, 0, NOW,
		"-rwSr-Sr-T    1 1000     100                 6 Jan  1  1970 ");
	line_is(S_IFIFO, NOW - 8 * 86400, NOW,
		"p---------    1 1000     100                 6 Jan  7 08:00 ");
}

/* rftp's client parses the lines of its server. */
static void test_read_back(void **state)
{
	struct stat st = { .st_mode = S_IFREG | 0640, .st_nlink = 3, .st_uid = 4294967294,
			   .st_gid = 7, .st_size = INT64_MAX, .st_mtim.tv_sec = 1799999940 };
	char line[LS_LINE], whole[LS_LINE + 32];
	struct ftp_facts f;

	ls_line(line, &st, 1800000000);
	snprintf(whole, sizeof(whole), "%s%s", line, " a name");
	assert_int_equal(ftp_list_parse(whole, 1800000000, &f), 1);
	assert_int_equal(f.type, 'f');
	assert_int_equal(f.mode, 0640);
	assert_int_equal(f.size, INT64_MAX);
	assert_int_equal(f.uid, 4294967294);
	assert_int_equal(f.mtime_s, 1799999940);
	assert_string_equal(f.name, " a name");
	ftp_facts_clear(&f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_options),
		cmocka_unit_test(test_patterns),
		cmocka_unit_test(test_costly_pattern),
		cmocka_unit_test(test_lines),
		cmocka_unit_test(test_read_back),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
