// SPDX-License-Identifier: Apache-2.0
/* Sizes, rates and durations: tables for parsing and formatting. */
#include "util/units.h"

#include <errno.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))
#define UNTOUCHED 0x5555u

struct parse_case {
	const char *text;
	int rc;
	uint64_t v;
};

static void check_parser(int (*parse)(const char *, uint64_t *), const struct parse_case *c,
			 size_t n)
{
	uint64_t v;

	for (; n--; c++) {
		v = UNTOUCHED;
		if (parse(c->text, &v) != c->rc || v != (c->rc ? UNTOUCHED : c->v))
			fail_msg("\"%s\": %d, %llu", c->text, parse(c->text, &v),
				 (unsigned long long)v);
	}
}

static void test_parse_size(void **state)
{
	static const struct parse_case cases[] = {
		{ "0", 0, 0 },
		{ "4096", 0, 4096 },
		{ "64K", 0, 65536 },
		{ "64k", 0, 65536 },
		{ "1M", 0, 1ull << 20 },
		{ "2G", 0, 2ull << 30 },
		{ "1T", 0, 1ull << 40 },
		{ "1P", 0, 1ull << 50 },
		{ "3KB", 0, 3072 },
		{ "3KiB", 0, 3072 },
		{ "3kib", 0, 3072 },
		{ "007", 0, 7 },
		{ "18446744073709551615", 0, UINT64_MAX },
		{ "18446744073709551616", -ERANGE, 0 },
		{ "184467440737095516150000", -ERANGE, 0 },
		{ "16383P", 0, 16383ull << 50 },
		{ "16384P", -ERANGE, 0 },
		{ "", -EINVAL, 0 },
		{ "K", -EINVAL, 0 },
		{ "-1", -EINVAL, 0 },
		{ "+1", -EINVAL, 0 },
		{ " 1", -EINVAL, 0 },
		{ "1 ", -EINVAL, 0 },
		{ "1 K", -EINVAL, 0 },
		{ "1.5K", -EINVAL, 0 },
		{ "0x10", -EINVAL, 0 },
		{ "1Kx", -EINVAL, 0 },
		{ "1bit", -EINVAL, 0 },
		{ "99999999999999999999x", -EINVAL, 0 },
	};

	(void)state;
	check_parser(parse_size, cases, COUNT(cases));
}

static void test_parse_tos(void **state)
{
	static const struct parse_case cases[] = {
		{ "0", 0, 0 },
		{ "255", 0, 255 },
		{ "256", -ERANGE, 0 },
		{ "cs0", 0, 0 },
		{ "cs1", 0, 0x20 },
		{ "cs7", 0, 0xe0 },
		{ "cs8", -EINVAL, 0 },
		{ "af11", 0, 0x28 },
		{ "af23", 0, 0x58 },
		{ "af41", 0, 0x88 },
		{ "af43", 0, 0x98 },
		{ "af40", -EINVAL, 0 },
		{ "af44", -EINVAL, 0 },
		{ "af51", -EINVAL, 0 },
		{ "af1", -EINVAL, 0 },
		{ "ef", 0, 0xb8 },
		{ "le", 0, 4 },
		{ "EF", -EINVAL, 0 },
		{ "cs", -EINVAL, 0 },
		{ "-1", -EINVAL, 0 },
		{ "", -EINVAL, 0 },
	};

	check_parser(parse_tos, cases, COUNT(cases));
}

static void test_parse_duration(void **state)
{
	static const struct parse_case cases[] = {
		{ "10", 0, 10000000000 },
		{ "30s", 0, 30000000000 },
		{ "5m", 0, 300000000000 },
		{ "1h", 0, 3600000000000 },
		{ "200ms", 0, 200000000 },
		{ "0", 0, 0 },
		{ "5124095h", 0, 5124095 * 3600000000000ull },
		{ "5124096h", -ERANGE, 0 },
		{ "14d", 0, 14 * 86400000000000 },
		{ "1w", -EINVAL, 0 },
		{ "s", -EINVAL, 0 },
		{ "-1s", -EINVAL, 0 },
		{ "", -EINVAL, 0 },
	};

	(void)state;
	check_parser(parse_duration, cases, COUNT(cases));
}

static void test_parse_rate(void **state)
{
	static const struct parse_case cases[] = {
		{ "100M", 0, 100ull << 20 },
		{ "10Gbit", 0, 1250000000 },
		{ "10gbit", 0, 1250000000 },
		{ "400Gbit", 0, 50000000000 },
		{ "8Kbit", 0, 1000 },
		{ "1bit", 0, 1 }, /* not 0, which may mean no limit */
		{ "9bit", 0, 2 },
		{ "0bit", 0, 0 },
		{ "0", 0, 0 },
		{ "18446744073709551615bit", 0, 2305843009213693952 },
		{ "18446744074Gbit", -ERANGE, 0 },
		{ "10Gib", 0, 10ull << 30 },
		{ "10Gbit/s", 0, 1250000000 },
		{ "812MiB/s", 0, 812ull << 20 },
		{ "10/s", 0, 10 },
		{ "/s", -EINVAL, 0 },
		{ "M/s", -EINVAL, 0 },
		{ "10M/s/s", -EINVAL, 0 },
		{ "Gbit", -EINVAL, 0 },
		{ "10Gbits", -EINVAL, 0 },
	};

	(void)state;
	check_parser(parse_rate, cases, COUNT(cases));
}

static void test_parse_uint(void **state)
{
	static const struct {
		const char *text;
		uint64_t lo, hi;
		int rc;
		uint64_t v;
	} cases[] = {
		{ "5", 5, 5, 0, 5 },
		{ "4", 5, 9, -ERANGE, 0 },
		{ "10", 5, 9, -ERANGE, 0 },
		{ "18446744073709551615", 0, UINT64_MAX, 0, UINT64_MAX },
		{ "18446744073709551616", 0, UINT64_MAX, -ERANGE, 0 },
		{ "", 0, 9, -EINVAL, 0 },
		{ "-1", 0, UINT64_MAX, -EINVAL, 0 },
		{ "1x", 0, 9, -EINVAL, 0 },
		{ "1K", 0, 9999, -EINVAL, 0 },
	};
	uint64_t v;
	size_t i;

	(void)state;
	for (i = 0; i < COUNT(cases); i++) {
		v = UNTOUCHED;
		assert_int_equal(parse_uint(cases[i].text, cases[i].lo, cases[i].hi, &v),
				 cases[i].rc);
		assert_true(v == (cases[i].rc ? UNTOUCHED : cases[i].v));
	}
}

static void test_parse_bool(void **state)
{
	static const char *const yes[] = { "on", "yes", "true", "1", "ON", "Yes" };
	static const char *const no[] = { "off", "no", "false", "0", "FALSE" };
	static const char *const bad[] = { "", "2", "y", "onn", " on", "o" };
	size_t i;
	bool v;

	(void)state;
	for (i = 0; i < COUNT(yes); i++) {
		v = false;
		assert_int_equal(parse_bool(yes[i], &v), 0);
		assert_true(v);
	}
	for (i = 0; i < COUNT(no); i++) {
		v = true;
		assert_int_equal(parse_bool(no[i], &v), 0);
		assert_false(v);
	}
	for (i = 0; i < COUNT(bad); i++)
		assert_int_equal(parse_bool(bad[i], &v), -EINVAL);
}

static void test_format_size(void **state)
{
	static const struct {
		uint64_t bytes;
		const char *text;
	} cases[] = {
		{ 0, "0 B" },
		{ 1023, "1023 B" },
		{ 1024, "1.0 KiB" },
		{ 1536ull << 20, "1.5 GiB" },
		{ 812ull << 20, "812 MiB" },
		{ 99ull << 20, "99.0 MiB" },
		{ 102399, "100 KiB" },
		{ (1ull << 20) - 1, "1.0 MiB" }, /* not "1024 KiB" */
		{ UINT64_MAX, "16.0 EiB" },
	};
	char out[32];
	size_t i;

	(void)state;
	for (i = 0; i < COUNT(cases); i++)
		assert_string_equal(format_size(out, sizeof(out), cases[i].bytes), cases[i].text);
}

static void test_format_rate(void **state)
{
	char out[32];

	(void)state;
	assert_string_equal(format_rate(out, sizeof(out), 812.0 * (1 << 20)), "812 MiB/s");
	assert_string_equal(format_rate(out, sizeof(out), 0.4), "0 B/s");
	assert_string_equal(format_rate(out, sizeof(out), -1), "0 B/s");
	assert_string_equal(format_rate(out, sizeof(out), NAN), "0 B/s");
	assert_string_equal(format_rate(out, sizeof(out), INFINITY), "0 B/s");
}

static void test_format_seconds(void **state)
{
	static const struct {
		double seconds;
		const char *text;
	} cases[] = {
		{ 0, "0:00" },
		{ 0.4, "0:00" },
		{ 59.6, "1:00" },
		{ 61, "1:01" },
		{ 3599.4, "59:59" },
		{ 3599.6, "1:00:00" },
		{ 3723, "1:02:03" },
		{ 100 * 3600, "100:00:00" },
		{ 1e300, "-:--" },
		{ -1, "-:--" },
		{ NAN, "-:--" },
		{ INFINITY, "-:--" },
	};
	char out[32];
	size_t i;

	(void)state;
	for (i = 0; i < COUNT(cases); i++)
		assert_string_equal(format_seconds(out, sizeof(out), cases[i].seconds),
				    cases[i].text);
}

static void test_format_cuts(void **state)
{
	char out[8] = "1234567";

	(void)state;
	format_size(out, 4, 812ull << 20);
	assert_string_equal(out, "812");
	assert_int_equal(out[4], '5');
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_parse_size),
		cmocka_unit_test(test_parse_tos),
		cmocka_unit_test(test_parse_duration),
		cmocka_unit_test(test_parse_rate),
		cmocka_unit_test(test_parse_uint),
		cmocka_unit_test(test_parse_bool),
		cmocka_unit_test(test_format_size),
		cmocka_unit_test(test_format_rate),
		cmocka_unit_test(test_format_seconds),
		cmocka_unit_test(test_format_cuts),
	};

	return cmocka_run_group_tests_name("units", tests, NULL, NULL);
}
