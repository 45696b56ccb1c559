// SPDX-License-Identifier: Apache-2.0
/* Filters: patterns, lists of rules, limits. tests/e2e/filter.sh compares with rsync. */
#include "util/util.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <time.h>

#include <cmocka.h>

static bool admits(const char *rule, const char *path, bool is_dir)
{
	struct filter f = { 0 };
	struct err e = ERR_INIT;
	bool yes;

	assert_int_equal(filter_add_text(&f, false, rule, &e), 0);
	yes = filter_admits(&f, path, is_dir);
	filter_clear(&f);
	return yes;
}

static void test_patterns(void **state)
{
	static const struct { const char *pattern, *path; bool dir, matches; } cases[] = {
		{ "a", "a", false, true }, { "a", "b/a", false, true }, { "a", "b/ab", false, false },
		{ "/a", "a", false, true }, { "/a", "b/a", false, false },
		{ "a/", "a", true, true }, { "a/", "a", false, false },
		{ "b/a", "x/b/a", false, true }, { "b/a", "xb/a", false, false },
		{ "/b/a", "x/b/a", false, false },
		{ "*.o", "x/y.o", false, true }, { "x*z", "x/z", false, false },
		{ "x**z", "x/y/z", false, true }, { "**/z", "z", false, true },
		{ "a/***", "a", true, true }, { "a/***", "a/b/c", false, true },
		{ "a?c", "abc", false, true }, { "a?c", "a/c", false, false },
		{ "[!a]", "b", false, true }, { "[!a]", "a", false, false },
		{ "[]-]x", "-x", false, true }, { "[[:digit:]]", "7", false, true },
		{ "a\\*", "a*", false, true }, { "a\\*", "ab", false, false },
		{ "a\\b", "a\\b", false, true }, /* no wildcard: the backslash is itself */
		{ "- a", "a", false, true }, { "+ a", "a", false, false },
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		if (admits(cases[i].pattern, cases[i].path, cases[i].dir) == cases[i].matches)
			fail_msg("%s and %s", cases[i].pattern, cases[i].path);
}

static void test_first_rule_decides(void **state)
{
	struct filter f = { 0 }, copy;
	struct err e = ERR_INIT;

	assert_int_equal(filter_add_text(&f, false, "x", &e), 0);
	assert_int_equal(filter_add_text(&f, false, "!", &e), 0);
	assert_int_equal(filter_add(&f, true, "*.c", &e), 0);
	assert_int_equal(filter_add(&f, false, "*.?", &e), 0);
	assert_int_equal(filter_copy(&copy, &f), 0);
	filter_clear(&f);
	assert_true(filter_admits(&copy, "x", false));
	assert_true(filter_admits(&copy, "a.c", false));
	assert_false(filter_admits(&copy, "a.o", false));
	assert_true(filter_is_set(&copy));
	filter_clear(&copy);
	assert_false(filter_is_set(&copy));
}

/* A matcher that backtracks needs more than the age of the universe for this. */
static void test_no_backtracking(void **state)
{
	char pattern[FILTER_PATTERN_MAX + 2] = "", path[4001];
	struct filter f = { 0 };
	struct err e = ERR_INIT;

	for (unsigned i = 0; i < FILTER_PATTERN_MAX / 2 - 1; i++)
		memcpy(pattern + 2 * i, "*a", 3);
	memset(path, 'a', 4000);
	strcpy(path + 3999, "b");
	assert_int_equal(filter_add(&f, false, pattern, &e), 0);
	assert_true(filter_admits(&f, path, false));
	filter_clear(&f);

	memset(pattern, 'a', FILTER_PATTERN_MAX + 1);
	pattern[FILTER_PATTERN_MAX + 1] = '\0';
	assert_int_equal(filter_add(&f, false, pattern, &e), -EINVAL);
	pattern[FILTER_PATTERN_MAX] = '\0';
	for (unsigned i = 0; i < FILTER_BYTES_MAX / FILTER_PATTERN_MAX; i++)
		assert_int_equal(filter_add(&f, false, pattern, &e), 0);
	assert_int_equal(filter_add(&f, false, "b", &e), -E2BIG);
	filter_clear(&f);
}

static void test_limits(void **state)
{
	const struct filter f = { .size_least = 10, .size_most = 20, .newer_s = 100 };

	assert_true(filter_admits_file(&f, 10, 101) && filter_admits_file(&f, 20, 101));
	assert_false(filter_admits_file(&f, 9, 101) || filter_admits_file(&f, 21, 101) ||
		     filter_admits_file(&f, 15, 99));
}

static void test_moments(void **state)
{
	int64_t t = 0;

	setenv("TZ", "XYZ-2", 1);
	tzset();
	assert_int_equal(parse_moment("2026-01-31T12:00:30Z", 0, &t), 0);
	assert_int_equal(t, 1769860830);
	assert_int_equal(parse_moment("2026-01-31 12:00:30", 0, &t), 0);
	assert_int_equal(t, 1769860830 - 7200);
	assert_int_equal(parse_moment("2026-01-31", 0, &t), 0);
	assert_int_equal(t, 1769817600 - 7200);
	assert_int_equal(parse_moment("@-77", 0, &t), 0);
	assert_int_equal(t, -77);
	assert_int_equal(parse_moment("@77", 0, &t), 0);
	assert_int_equal(t, 77);
	assert_int_equal(parse_moment("2d", 1000000, &t), 0);
	assert_int_equal(t, 1000000 - 2 * 86400);
	assert_int_equal(parse_moment("20260131", 0, &t), -EINVAL);
	assert_int_equal(parse_moment("2026-02-30", 0, &t), -EINVAL);
	assert_int_equal(parse_moment("yesterday", 0, &t), -EINVAL);
	assert_int_equal(parse_moment("2026-01-31x", 0, &t), -EINVAL);
	assert_int_equal(parse_moment("", 0, &t), -EINVAL);
}

static void test_list_has(void **state)
{
	assert_true(list_has("cpu,memory", "memory") && list_has("a, bob ,c", "bob"));
	assert_true(list_has("bob", "bob") && list_has("x,bob", "bob"));
	assert_false(list_has("bobby", "bob") || list_has("", "bob") || list_has(NULL, "bob"));
	assert_false(list_has("a,,b", ""));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_patterns), cmocka_unit_test(test_first_rule_decides),
		cmocka_unit_test(test_no_backtracking), cmocka_unit_test(test_limits),
		cmocka_unit_test(test_moments), cmocka_unit_test(test_list_has),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
