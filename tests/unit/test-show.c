// SPDX-License-Identifier: Apache-2.0
/* The output of rftp ls and rftp stat: modes, long lines, columns, JSON objects. */
#include "client/names.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))

/* 2001-09-09 01:46:40 in the time zone that main() sets. */
#define BILLION 1000000000

static void test_modes(void **state)
{
	static const struct {
		char type;
		uint32_t mode;
		const char *text;
	} cases[] = {
		{ 'f', 0, "----------" },
		{ 'f', 0644, "-rw-r--r--" },
		{ 'd', 0755, "drwxr-xr-x" },
		{ 'l', 0777, "lrwxrwxrwx" },
		{ 'o', 0600, "?rw-------" },
		{ 'f', 04711, "-rws--x--x" }, { 'f', 04644, "-rwSr--r--" },
		{ 'f', 02755, "-rwxr-sr-x" }, { 'f', 02745, "-rwxr-Sr-x" },
		{ 'd', 01777, "drwxrwxrwt" }, { 'd', 01776, "drwxrwxrwT" },
		{ 'f', 07777, "-rwsrwsrwt" },
	};
	char out[11];

	for (size_t i = 0; i < COUNT(cases); i++) {
		struct ftp_facts f = {
			.type = cases[i].type, .has_mode = true, .mode = cases[i].mode,
		};

		show_mode(out, &f);
		assert_string_equal(out, cases[i].text);
	}
	show_mode(out, &(struct ftp_facts){ .type = 'd' });
	assert_string_equal(out, "d?????????");
}

static const struct ftp_facts file = {
	.type = 'f', .has_size = true, .has_mode = true, .has_mtime = true, .has_owner = true,
	.size = 5000000000, .mode = 0640, .uid = 1000, .gid = 100, .mtime_s = BILLION,
	.mtime_ns = 5,
};

static const char *long_line(const struct ftp_facts *f, const char *name, bool raw)
{
	static char text[1024];
	FILE *out = fmemopen(text, sizeof(text), "w");

	show_long(out, f, name, raw, false);
	fclose(out);
	return text;
}

static const char *long_human(const struct ftp_facts *f)
{
	static char text[1024];
	FILE *out = fmemopen(text, sizeof(text), "w");

	show_long(out, f, "x", true, true);
	fclose(out);
	return text;
}

static void test_long(void **state)
{
	struct ftp_facts link = file, none = { .type = 'f' };
	char target[] = "to\xff";

	assert_string_equal(long_line(&file, "a b", true),
			    "-rw-r-----  1000   100   5000000000 2001-09-09 01:46 a b\n");
	/* Unknown facts still fill their columns. */
	assert_string_equal(long_line(&none, "x", true),
			    "-?????????     ?     ?            ?                ? x\n");
	assert_non_null(strstr(long_human(&file), "      4.7 GiB 2001"));
	assert_non_null(strstr(long_human(&none), "            ?  "));
	link.type = 'l';
	link.has_size = false;
	link.target = target;
	/* Only files have a size: other types show "-", not "?". */
	assert_string_equal(long_line(&link, "n\n", false), "lrw-r-----  1000   100"
			    "            - 2001-09-09 01:46 n\\x0a -> to\\xff\n");
	assert_string_equal(long_line(&link, "n\n", true), "lrw-r-----  1000   100"
			    "            - 2001-09-09 01:46 n\n -> to\xff\n");
}

static void test_stat(void **state)
{
	struct ftp_facts none = { .type = 'd' };
	char *text = NULL;
	size_t len;
	FILE *out = open_memstream(&text, &len);

	show_stat(out, &file, "/f");
	show_stat(out, &none, "/d\x1b");
	fclose(out);
	assert_string_equal(text, "/f\n"
			    "  type      file\n"
			    "  size      5000000000 (4.7 GiB)\n"
			    "  mode      0640 (-rw-r-----)\n"
			    "  owner     1000\n"
			    "  group     100\n"
			    "  modified  2001-09-09 01:46:40 +0000\n"
			    "/d\\x1b\n"
			    "  type      directory\n");
	free(text);
}

static void json_is(json_t *obj, const char *want)
{
	char *text = json_dumps(obj, JSON_COMPACT);

	assert_string_equal(text, want);
	free(text);
	json_decref(obj);
}

/* JSON has keys for known facts only. */
static void test_json(void **state)
{
	struct ftp_facts link = { .type = 'l' };
	char target[] = "a";

	json_is(show_json("stat", &file, "/f"),
		"{\"event\":\"stat\",\"type\":\"file\",\"name\":\"/f\",\"size\":5000000000,"
		"\"mode\":\"0640\",\"uid\":1000,\"gid\":100,\"mtime\":1000000000,\"mtime_ns\":5}");
	link.target = target;
	json_is(show_json("entry", &link, "\xff"),
		"{\"event\":\"entry\",\"type\":\"link\",\"name\":\"\xef\xbf\xbd\","
		"\"name_hex\":\"ff\",\"target\":\"a\"}");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_modes),
		cmocka_unit_test(test_long),
		cmocka_unit_test(test_stat),
		cmocka_unit_test(test_json),
	};

	setenv("TZ", "UTC0", 1);
	tzset();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
