// SPDX-License-Identifier: Apache-2.0
/* Error texts, and printable forms of names with any bytes. */
#include "util/err.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static void test_set(void **state)
{
	struct err e = ERR_INIT;

	(void)state;
	assert_string_equal(e.text, "");
	assert_int_equal(err_set(&e, -EIO, "%s at %d", "bad", 7), -EIO);
	assert_int_equal(e.code, -EIO);
	assert_string_equal(e.text, "bad at 7");
}

static void test_sys(void **state)
{
	struct err e = ERR_INIT;

	(void)state;
	assert_int_equal(err_sys(&e, -ENOENT, "open %s", "x"), -ENOENT);
	assert_int_equal(e.code, -ENOENT);
	assert_string_equal(e.text, "open x: No such file or directory");
}

static void test_prefix(void **state)
{
	struct err e = ERR_INIT;

	(void)state;
	err_set(&e, -EINVAL, "no value");
	assert_int_equal(err_prefix(&e, "%s:%d", "rftp.conf", 3), -EINVAL);
	assert_string_equal(e.text, "rftp.conf:3: no value");
}

static void test_null_is_harmless(void **state)
{
	(void)state;
	assert_int_equal(err_set(NULL, -EIO, "x"), -EIO);
	assert_int_equal(err_sys(NULL, -EPERM, "x"), -EPERM);
	assert_int_equal(err_prefix(NULL, "x"), 0);
}

static void test_own_text_as_argument(void **state)
{
	struct err e = ERR_INIT;

	(void)state;
	err_set(&e, -EIO, "inner");
	err_set(&e, -EPIPE, "outer (%s)", e.text);
	assert_string_equal(e.text, "outer (inner)");
	err_prefix(&e, "%s", e.text);
	assert_string_equal(e.text, "outer (inner): outer (inner)");
}

static void test_one_line(void **state)
{
	struct err e = ERR_INIT;

	(void)state;
	err_set(&e, -EIO, "%s", "two\nlines\x1b[2J");
	assert_string_equal(e.text, "two lines [2J");
}

static void test_long_text_is_cut(void **state)
{
	struct err e = ERR_INIT;
	char big[3 * ERR_TEXT];

	(void)state;
	memset(big, 'x', sizeof(big) - 1);
	big[sizeof(big) - 1] = '\0';
	err_set(&e, -EIO, "%s", big);
	assert_int_equal(strlen(e.text), ERR_TEXT - 1);
	err_prefix(&e, "front");
	assert_int_equal(strlen(e.text), ERR_TEXT - 1);
	assert_memory_equal(e.text, "front: xxx", 10);
}

static void test_printable(void **state)
{
	static const struct {
		const char *name, *text;
	} cases[] = {
		{ "", "" },
		{ "plain name-1.txt", "plain name-1.txt" },
		{ "back\\slash", "back\\x5cslash" },
		{ "a\nb\r\t\x7f", "a\\x0ab\\x0d\\x09\\x7f" },
		{ "\x1b[31m", "\\x1b[31m" },
		{ "gr\xc3\xbc\xc3\x9f", "gr\xc3\xbc\xc3\x9f" },
		{ "\xe2\x82\xac \xf0\x9f\x98\x80", "\xe2\x82\xac \xf0\x9f\x98\x80" },
		{ "\xff\xfe", "\\xff\\xfe" },
		{ "\xc3", "\\xc3" },                             /* truncated */
		{ "\xe2\x82", "\\xe2\\x82" },
		{ "\xf0\x9f\x98", "\\xf0\\x9f\\x98" },
		{ "\xe2\x82x", "\\xe2\\x82x" },
		{ "\xc0\xaf", "\\xc0\\xaf" },                    /* overlong */
		{ "\xe0\x80\xaf", "\\xe0\\x80\\xaf" },
		{ "\xf0\x80\x80\xaf", "\\xf0\\x80\\x80\\xaf" },
		{ "\xed\xa0\x80", "\\xed\\xa0\\x80" },           /* surrogate */
		{ "\xf4\x90\x80\x80", "\\xf4\\x90\\x80\\x80" },  /* beyond U+10FFFF */
		{ "\xf4\x8f\xbf\xbf", "\xf4\x8f\xbf\xbf" },
		{ "\xc2\x9b" "31m", "\\xc2\\x9b" "31m" },        /* C1: CSI in one character */
		{ "\xc2\xa0", "\xc2\xa0" },
		/* U+202E: a terminal would show "exe.txt" at the end of a name that ends in
		 * "txt.exe" */
		{ "\xe2\x80\xaetxt.exe", "\\xe2\\x80\\xaetxt.exe" },
		{ "\xe2\x81\xa6x\xe2\x81\xa9", "\\xe2\\x81\\xa6x\\xe2\\x81\\xa9" },
		{ "\xd8\x9c", "\\xd8\\x9c" },
		{ "\xe2\x80\xa8", "\\xe2\\x80\\xa8" },
		{ "\xd7\xa9\xe2\x80\xa6", "\xd7\xa9\xe2\x80\xa6" }, /* right-to-left letters */
	};
	size_t i;

	(void)state;
	for (i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		assert_string_equal(printable(cases[i].name), cases[i].text);
}

/* A peer's text in an error. */
static void test_text_is_one_line(void **state)
{
	struct err e = ERR_INIT;

	(void)state;
	err_set(&e, -EPROTO, "%s", "a\nb\x1b[2Jc\xc2\x9b" "d\xe2\x80\xae" "e\xc3\xa4\xff");
	assert_string_equal(e.text, "a b [2Jc  d   e\xc3\xa4\xff");
}

static void test_printable_rotates(void **state)
{
	const char *p[8];
	char name[2] = "a";
	int i;

	(void)state;
	for (i = 0; i < 8; i++) {
		name[0] = (char)('a' + i);
		p[i] = printable(name);
	}
	for (i = 0; i < 8; i++)
		assert_int_equal(p[i][0], 'a' + i);
	assert_ptr_equal(printable("again"), p[0]);
}

/* Fills name with "HEAD", at most len bytes of repeated units, and "TAIL". */
static void make_long(char *name, const char *unit, size_t len)
{
	size_t n = strlen(unit), i;

	strcpy(name, "HEAD");
	for (i = 0; i + n <= len; i += n)
		memcpy(name + 4 + i, unit, n);
	strcpy(name + 4 + i, "TAIL");
}

static void test_printable_cuts_the_middle(void **state)
{
	static const char *const units[] = { "x", "\xe2\x82\xac", "\xf0\x9f\x98\x80", "\n" };
	char name[5000];
	const char *p;
	size_t i, len;

	(void)state;
	for (i = 0; i < 4; i++) {
		for (len = 1020; len < 4900; len += 61) {
			make_long(name, units[i], len);
			p = printable(name);
			assert_true(strlen(p) < 800);
			assert_true(strlen(p) > 776);
			assert_memory_equal(p, "HEAD", 4);
			assert_string_equal(p + strlen(p) - 4, "TAIL");
			assert_non_null(strstr(p, "..."));
			/* The cut is between characters, so printable() of the result changes
			 * nothing. */
			if (units[i][0] != '\n')
				assert_string_equal(printable(p), p);
		}
	}
	make_long(name, "x", 791); /* the longest name that fits */
	assert_string_equal(printable(name), name);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_set),
		cmocka_unit_test(test_sys),
		cmocka_unit_test(test_prefix),
		cmocka_unit_test(test_null_is_harmless),
		cmocka_unit_test(test_own_text_as_argument),
		cmocka_unit_test(test_one_line),
		cmocka_unit_test(test_long_text_is_cut),
		cmocka_unit_test(test_printable),
		cmocka_unit_test(test_text_is_one_line),
		cmocka_unit_test(test_printable_rotates),
		cmocka_unit_test(test_printable_cuts_the_middle),
	};

	return cmocka_run_group_tests_name("err", tests, NULL, NULL);
}
