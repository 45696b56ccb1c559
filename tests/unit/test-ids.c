// SPDX-License-Identifier: Apache-2.0
/* CPU and node lists, as text and as sets. */
#include "numa/numa.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

static void test_text(void **state)
{
	static const struct { const char *in, *out; unsigned n; } good[] = {
		{ "", "", 0 }, { "\n", "", 0 }, { "0", "0", 1 }, { "0-3\n", "0-3", 4 },
		{ "0,2,4", "0,2,4", 3 }, { "8-9,0-1", "0-1,8-9", 4 }, { "1,2,3", "1-3", 3 },
		{ "63-64", "63-64", 2 }, { "8191", "8191", 1 }, { "0-8191", "0-8191", 8192 },
		{ "5,5", "5", 1 },
	};
	struct ids s;
	char text[64];

	(void)state;
	for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
		assert_int_equal(ids_parse(good[i].in, &s), 0);
		assert_int_equal(ids_count(&s), good[i].n);
		assert_string_equal(ids_format(text, sizeof(text), &s), good[i].out);
	}
}

static void test_nonsense(void **state)
{
	static const char *const bad[] = {
		"x", "-1", "1-", "3-1", "1,,2", "1,", ",1", "1 2", "0x10", "1-2-3", "1;2", "+1",
	};
	struct ids s;

	(void)state;
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		if (ids_parse(bad[i], &s) != -EINVAL)
			fail_msg("%s", bad[i]);
		assert_int_equal(ids_count(&s), 0);
	}
	assert_int_equal(ids_parse("8192", &s), -ERANGE);
	assert_int_equal(ids_parse("0-99999999999999999999", &s), -ERANGE);
	assert_int_equal(ids_count(&s), 0);
}

static void test_little_room(void **state)
{
	struct ids s;
	char text[12];

	(void)state;
	assert_int_equal(ids_parse("0,2,4,6,8,10", &s), 0);
	assert_string_equal(ids_format(text, sizeof(text), &s), "0,2,4,6...");
	assert_int_equal(ids_parse("0,2,4,6,8,1", &s), 0);
	assert_string_equal(ids_format(text, sizeof(text), &s), "0-2,4,6,8");
}

static void test_sets(void **state)
{
	struct ids a, b, c;

	(void)state;
	ids_parse("0-3,100", &a);
	ids_parse("2-5", &b);
	c = a;
	ids_unite(&c, &b);
	assert_int_equal(ids_count(&c), 7);
	c = a;
	ids_intersect(&c, &b);
	assert_int_equal(ids_count(&c), 2);
	assert_int_equal(ids_next(&a, 0), 0);
	assert_int_equal(ids_next(&a, 4), 100);
	assert_int_equal(ids_next(&a, 101), -1);
	assert_int_equal(ids_next(&a, IDS_MAX), -1);
	assert_int_equal(ids_only(&a), -1);
	ids_parse("77", &a);
	assert_int_equal(ids_only(&a), 77);
	ids_parse("", &a);
	assert_int_equal(ids_only(&a), -1);
	assert_false(ids_has(&b, IDS_MAX + 2));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_text),
		cmocka_unit_test(test_nonsense),
		cmocka_unit_test(test_little_room),
		cmocka_unit_test(test_sets),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
