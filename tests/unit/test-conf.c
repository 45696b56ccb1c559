// SPDX-License-Identifier: Apache-2.0
/* Configuration files: the parsed settings, and errors with their place. */
#include "util/io.h"
#include "util/option.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))

/* Each setting is stored as "section|key|value;", a header as "section:". */
static char seen[4096];

static int note(void *arg, const char *section, const char *key, const char *value, struct err *e)
{
	size_t n = strlen(seen);

	(void)arg;
	(void)e;
	if (key)
		snprintf(seen + n, sizeof(seen) - n, "%s|%s|%s;", section, key, value);
	else
		snprintf(seen + n, sizeof(seen) - n, "%s:", section);
	return 0;
}

static int parse(const char *text, struct err *e)
{
	struct conf_reader r = { .fn = note };

	seen[0] = '\0';
	return conf_parse("x.conf", text, &r, e);
}

static int read_noted(const char *path, struct err *e)
{
	struct conf_reader r = { .fn = note };

	return conf_read_with(path, &r, e);
}

static void test_good(void **state)
{
	static const struct {
		const char *text, *seen;
	} cases[] = {
		{ "", "" },
		{ "\n\n  \n# only words\n\t# more\n", "" },
		{ "key value\n", "|key|value;" },
		{ "key = value", "|key|value;" },
		{ "key=value", "|key|value;" },
		{ "\tkey\t=\tvalue \t\n", "|key|value;" },
		{ "key value\r\nother thing\r\n", "|key|value;|other|thing;" },
		{ "key several words here  # and why\n", "|key|several words here;" },
		{ "key a#b", "|key|a#b;" },
		{ "key a=b", "|key|a=b;" },
		{ "key == b", "|key|= b;" },
		{ "key \"quoted # value \"", "|key|quoted # value ;" },
		{ "key=\"\"", "|key|;" },
		{ "key \"a \\\"b\\\" \\\\c\"  # why", "|key|a \"b\" \\c;" },
		{ "key a\"b\"", "|key|a\"b\";" },
		{ "key \\n", "|key|\\n;" },
		{ "a 1\n[one]\nb 2\n [ two words ] # why\nc 3\n",
		  "|a|1;one:one|b|2;two words:two words|c|3;" },
		{ "[empty]\n", "empty:" },
		{ "a 1\na 2\n", "|a|1;|a|2;" },
	};
	struct err e = ERR_INIT;
	size_t i;

	(void)state;
	for (i = 0; i < COUNT(cases); i++) {
		if (parse(cases[i].text, &e))
			fail_msg("%s: %s", cases[i].text, e.text);
		assert_string_equal(seen, cases[i].seen);
	}
}

static void test_bad(void **state)
{
	static const struct {
		const char *text, *where;
	} cases[] = {
		{ "key", "x.conf:1: " },
		{ "key =", "x.conf:1: " },
		{ "key = # nothing", "x.conf:1: " },
		{ "a 1\n\n= value\n", "x.conf:3: " },
		{ "a 1\n#\n#\nb \"open\n", "x.conf:4: " },
		{ "b \"open\\", "x.conf:1: " },
		{ "b \"open\\\"", "x.conf:1: " },
		{ "b \"bad \\n escape\"", "x.conf:1: " },
		{ "b \"one\" two", "x.conf:1: " },
		{ "[open\n", "x.conf:1: " },
		{ "[]\n", "x.conf:1: " },
		{ "[  ]\n", "x.conf:1: " },
		{ "[a] b\n", "x.conf:1: " },
	};
	size_t i;

	(void)state;
	for (i = 0; i < COUNT(cases); i++) {
		struct err e = ERR_INIT;

		assert_int_equal(parse(cases[i].text, &e), -EINVAL);
		assert_int_equal(e.code, -EINVAL);
		if (strncmp(e.text, cases[i].where, strlen(cases[i].where)) != 0)
			fail_msg("%s: %s", cases[i].text, e.text);
		assert_true(strlen(e.text) > strlen(cases[i].where));
		assert_int_equal(parse(cases[i].text, NULL), -EINVAL);
	}
}

static int refuse(void *arg, const char *section, const char *key, const char *value,
		  struct err *e)
{
	int *calls = arg;

	++*calls;
	if (!key)
		return strcmp(section, "bad") ? 0 : -EDOM;
	if (strcmp(key, "silent") == 0)
		return -ERANGE;
	if (strcmp(key, "bad") == 0)
		return err_set(e, -EDOM, "\"%s\" is no good", value);
	return 0;
}

static void test_callback_refuses(void **state)
{
	int calls = 0;
	struct conf_reader r = { .fn = refuse, .arg = &calls };
	struct err e = ERR_INIT;

	(void)state;
	assert_int_equal(conf_parse("f", "a 1\nbad 2\nc 3\n", &r, &e), -EDOM);
	assert_string_equal(e.text, "f:2: \"2\" is no good");
	assert_int_equal(calls, 2);

	e = (struct err)ERR_INIT;
	assert_int_equal(conf_parse("f", "[good]\n[bad]\n", &r, &e), -EDOM);
	assert_memory_equal(e.text, "f:2: bad: ", 10);

	e = (struct err)ERR_INIT;
	assert_int_equal(conf_parse("f", "silent 1\n", &r, &e), -ERANGE);
	assert_int_equal(e.code, -ERANGE);
	assert_memory_equal(e.text, "f:1: silent: ", 13);
}

/* ---- files ---- */

static void test_no_file(void **state)
{
	struct err e = ERR_INIT;

	(void)state;
	assert_int_equal(read_noted("/does/not/exist", &e), -ENOENT);
	assert_int_equal(e.code, 0);
	assert_string_equal(e.text, "");
}

static void test_file(void **state)
{
	static const char nul[] = "a 1\n\0b 2\n";
	char path[] = "/tmp/rftp-test-conf-XXXXXX", want[128];
	struct err e = ERR_INIT;
	int fd = mkstemp(path);

	(void)state;
	assert_true(fd >= 0);
	assert_int_equal(write_full(fd, "[s]\nkey value\n", 14), 0);
	seen[0] = '\0';
	assert_int_equal(read_noted(path, &e), 0);
	assert_string_equal(seen, "s:s|key|value;");

	assert_int_equal(write_full(fd, "key\n", 4), 0);
	assert_int_equal(read_noted(path, &e), -EINVAL);
	snprintf(want, sizeof(want), "%s:3: ", path);
	assert_memory_equal(e.text, want, strlen(want));

	assert_int_equal(ftruncate(fd, 0), 0);
	assert_int_equal(pwrite_full(fd, nul, sizeof(nul) - 1, 0), 0);
	assert_int_equal(read_noted(path, &e), -EINVAL);
	assert_non_null(strstr(e.text, "NUL"));
	close(fd);
	unlink(path);
}

struct all {
	struct conf_reader r;
	char bad[512], lines[64];
};

static int note_line(void *arg, const char *section, const char *key, const char *value,
		     struct err *e)
{
	struct all *a = arg;
	size_t n = strlen(a->lines);

	snprintf(a->lines + n, sizeof(a->lines) - n, "%u ", a->r.line);
	return key && !strcmp(key, "wrong") ? err_set(e, -EINVAL, "no such key") : 0;
}

static void note_bad(void *arg, const struct err *e)
{
	struct all *a = arg;
	size_t n = strlen(a->bad);

	snprintf(a->bad + n, sizeof(a->bad) - n, "%s;", strchr(e->text, ':'));
}

/* One pass reports all errors and reads all correct lines. */
static void test_all_errors(void **state)
{
	static const char text[] = "[s\nkey 1\nkey\nwrong 2\n[t]\nlast 3";
	struct all a = { .r = { .fn = note_line, .bad = note_bad } };
	char path[] = "/tmp/rftp-test-conf-XXXXXX";
	int fd = mkstemp(path);

	(void)state;
	a.r.arg = &a;
	assert_int_equal(write_full(fd, text, sizeof(text) - 1), 0);
	assert_int_equal(conf_read_with(path, &a.r, NULL), 0);
	assert_string_equal(a.lines, "2 4 5 6 ");
	assert_string_equal(a.bad, ":1: the closing ] is missing;:3: \"key\" has no value (for an "
			    "empty one write \"\");:4: no such key;");
	close(fd);
	unlink(path);
}

static void test_directory(void **state)
{
	struct err e = ERR_INIT;

	(void)state;
	assert_int_equal(read_noted("/", &e), -EISDIR);
	assert_string_equal(e.text, "/: cannot be read: Is a directory");
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_good),
		cmocka_unit_test(test_bad),
		cmocka_unit_test(test_callback_refuses),
		cmocka_unit_test(test_no_file),
		cmocka_unit_test(test_file),
		cmocka_unit_test(test_all_errors),
		cmocka_unit_test(test_directory),
	};

	return cmocka_run_group_tests_name("conf", tests, NULL, NULL);
}
