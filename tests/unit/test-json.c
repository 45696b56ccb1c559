// SPDX-License-Identifier: Apache-2.0
/* JSON lines: names of any bytes, and one object per line, also from many threads. */
#include "util/json.h"
#include "util/thread.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static void test_names(void **state)
{
	static const struct {
		const char *name, *text, *hex;
	} cases[] = {
		{ "", "", NULL },
		{ "plain", "plain", NULL },
		{ "gr\xc3\xbc\xc3\x9f", "gr\xc3\xbc\xc3\x9f", NULL },
		{ "new\nline\x01", "new\nline\x01", NULL },
		{ "a\xff" "b", "a\xef\xbf\xbd" "b", "61ff62" },
		{ "\xe2\x82", "\xef\xbf\xbd\xef\xbf\xbd", "e282" },
		{ "\xed\xa0\x80", "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd", "eda080" },
		{ "\xc0\x80", "\xef\xbf\xbd\xef\xbf\xbd", "c080" },
		{ "\xc3\xbc\xc3", "\xc3\xbc\xef\xbf\xbd", "c3bcc3" },
	};
	json_t *obj, *name;
	char *back;
	size_t i;

	(void)state;
	for (i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		name = json_name(cases[i].name);
		assert_non_null(name);
		assert_string_equal(json_string_value(name), cases[i].text);
		json_decref(name);

		obj = json_object();
		assert_int_equal(json_set_name(obj, "file", cases[i].name), 0);
		assert_string_equal(json_string_value(json_object_get(obj, "file")),
				    cases[i].text);
		name = json_object_get(obj, "file_hex");
		assert_int_equal(name != NULL, cases[i].hex != NULL);
		if (name)
			assert_string_equal(json_string_value(name), cases[i].hex);
		assert_int_equal(json_get_name(obj, "file", &back), 0);
		assert_string_equal(back, cases[i].name);
		free(back);
		assert_int_equal(json_get_name(obj, "other", &back), -EBADMSG);
		json_object_set_new(obj, "file_hex", json_string("610062"));
		assert_int_equal(json_get_name(obj, "file", &back), -EBADMSG);
		json_decref(obj);
	}
}

static void test_emit(void **state)
{
	char *text = NULL;
	size_t len;
	FILE *out = open_memstream(&text, &len);
	json_t *obj = json_object();

	(void)state;
	json_object_set_new(obj, "event", json_string("file"));
	assert_int_equal(json_set_name(obj, "name", "a\n\"b"), 0);
	json_object_set_new(obj, "bytes", json_integer(5000000000));
	json_object_set_new(obj, "seconds", json_real(0.1));
	json_incref(obj);
	assert_int_equal(json_emit(out, obj), 0);
	assert_int_equal(obj->refcount, 1); /* json_emit() dropped its reference */
	json_decref(obj);
	/* The text is complete before fclose(), because json_emit() flushes. */
	assert_string_equal(text, "{\"event\":\"file\",\"name\":\"a\\n\\\"b\","
				  "\"bytes\":5000000000,\"seconds\":0.1}\n");
	fclose(out);
	free(text);
}

static void test_emit_fails(void **state)
{
	FILE *full = fopen("/dev/full", "w");

	(void)state;
	if (!full)
		skip();
	assert_int_equal(json_emit(full, json_object()), -ENOSPC);
	fclose(full);
}

enum { WRITERS = 4, LINES = 500 };

static void *emit_many(void *arg)
{
	json_t *obj;
	int i;

	for (i = 0; i < LINES; i++) {
		obj = json_object();
		json_object_set_new(obj, "n", json_integer(i));
		json_emit(arg, obj);
	}
	return NULL;
}

static void test_lines_stay_whole(void **state)
{
	pthread_t t[WRITERS];
	char line[128];
	json_t *obj;
	FILE *out = tmpfile();
	int i, lines = 0;

	(void)state;
	assert_non_null(out);
	json_object_seed(1); /* otherwise the first thread that needs the seed would set it */
	for (i = 0; i < WRITERS; i++)
		assert_int_equal(thread_start(&t[i], "emit", emit_many, out), 0);
	for (i = 0; i < WRITERS; i++)
		pthread_join(t[i], NULL);
	rewind(out);
	for (; fgets(line, sizeof(line), out); lines++) {
		obj = json_loads(line, 0, NULL);
		assert_non_null(obj);
		json_decref(obj);
	}
	assert_int_equal(lines, WRITERS * LINES);
	fclose(out);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_names),
		cmocka_unit_test(test_emit),
		cmocka_unit_test(test_emit_fails),
		cmocka_unit_test(test_lines_stay_whole),
	};

	return cmocka_run_group_tests_name("json", tests, NULL, NULL);
}
