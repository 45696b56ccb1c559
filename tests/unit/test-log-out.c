// SPDX-License-Identifier: Apache-2.0
/* Destinations of log lines: rotated files, the journal, JSON with hostile text, and other
 * processes that may send anything. */
#include "util/base.h"
#include "util/io.h"
#include "util/log.h"

#include <errno.h>
#include <jansson.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

static char dir[64], file[80];

static int begin(void **state)
{
	snprintf(dir, sizeof(dir), "/tmp/rftp-test-XXXXXX");
	assert_non_null(mkdtemp(dir));
	snprintf(file, sizeof(file), "%s/log", dir);
	log_init("prog", LOG_LV_INFO, true);
	return 0;
}

static int end(void **state)
{
	char old[96];

	log_set_sink(NULL, NULL);
	log_open(LOG_TO_STDERR, NULL, LOG_AS_TEXT, NULL);
	snprintf(old, sizeof(old), "%s.1", file);
	unlink(file);
	unlink(old);
	rmdir(dir);
	return 0;
}

static char *content(const char *path)
{
	char *text = NULL;

	assert_int_equal(read_file(path, 1 << 20, &text, NULL), 0);
	return text;
}

static void to_file(enum log_format format)
{
	struct err e = ERR_INIT;

	assert_int_equal(log_open(LOG_TO_FILE, file, format, &e), 0);
}

static void test_file(void **state)
{
	CLEANUP_FREE char *text = NULL, *old = NULL;
	struct err e = ERR_INIT;
	char before[96];
	struct stat st;

	to_file(LOG_AS_TEXT);
	log_info("one");
	snprintf(before, sizeof(before), "%s.1", file);
	assert_int_equal(rename(file, before), 0);
	log_info("two"); /* to the old file, until log_open() opens it again */
	to_file(LOG_AS_TEXT);
	log_info("three");
	/* If a file cannot be opened, the old destination stays. */
	assert_int_equal(log_open(LOG_TO_FILE, "/nonexistent/log", LOG_AS_JSON, &e), -ENOENT);
	assert_non_null(strstr(e.text, "/nonexistent/log"));
	log_info("four");
	old = content(before);
	text = content(file);
	assert_non_null(strstr(old, "]: info: one\n"));
	assert_non_null(strstr(old, "]: info: two\n"));
	assert_null(strstr(old, "three"));
	assert_non_null(strstr(text, "]: info: three\n"));
	assert_non_null(strstr(text, "]: info: four\n"));
	assert_int_equal(stat(file, &st), 0);
	assert_int_equal(st.st_mode & 07777 & ~0640, 0);
}

/* Returns the only line as a JSON object. */
static json_t *only_line(void)
{
	CLEANUP_FREE char *text = content(file);
	json_error_t error;
	json_t *line = json_loads(text, 0, &error);

	if (!line)
		fail_msg("%s: %s", text, error.text);
	assert_ptr_equal(strchr(text, '\n'), text + strlen(text) - 1);
	return line;
}

static const char *member(const json_t *line, const char *key)
{
	const char *value = json_string_value(json_object_get(line, key));

	return value ? value : "(none)";
}

static const char hostile[] = "a\n\"}\\\r\x1b[2J\xff{\t\x01";

static void test_json(void **state)
{
	struct log_field fields[] = {
		LOG_NAME("path", hostile), LOG_NAME("user", NULL), LOG_NUMBER("bytes", 1ull << 40),
		LOG_REAL("seconds", 0.25),
	};
	json_t *line;

	to_file(LOG_AS_JSON);
	log_event(LOG_LV_WARN, fields, 4, "got \"%s\"", hostile);
	log_event(LOG_LV_DEBUG, fields, 4, "not logged");
	line = only_line();
	assert_string_equal(member(line, "level"), "warning");
	assert_string_equal(member(line, "ident"), "prog");
	assert_string_equal(member(line, "path"), "a\n\"}\\\r\x1b[2J\xef\xbf\xbd{\t\x01");
	assert_string_equal(member(line, "path_hex"), "610a227d5c0d1b5b324aff7b0901");
	assert_null(json_object_get(line, "user"));
	assert_int_equal(json_integer_value(json_object_get(line, "bytes")), 1ull << 40);
	assert_true(json_real_value(json_object_get(line, "seconds")) == 0.25);
	assert_int_equal(json_integer_value(json_object_get(line, "pid")), getpid());
	assert_int_equal(strlen(member(line, "time")), strlen("2000-01-01T00:00:00.000Z"));
	json_decref(line);
}

static void test_journal(void **state)
{
	CLEANUP_FREE char *text = NULL;
	char stream[64];
	struct err e = ERR_INIT;
	struct stat st;
	FILE *f = fopen(file, "w");
	int old = dup(STDERR_FILENO);

	unsetenv("JOURNAL_STREAM");
	assert_int_equal(log_open(LOG_TO_JOURNAL, NULL, LOG_AS_TEXT, &e), -ENOTCONN);
	assert_int_equal(fstat(fileno(f), &st), 0);
	snprintf(stream, sizeof(stream), "%llu:%llu", (unsigned long long)st.st_dev,
		 (unsigned long long)st.st_ino);
	setenv("JOURNAL_STREAM", stream, 1);
	/* JOURNAL_STREAM is inherited, but stderr is a different file. */
	assert_int_equal(log_open(LOG_TO_JOURNAL, NULL, LOG_AS_TEXT, &e), -ENOTCONN);
	dup2(fileno(f), STDERR_FILENO);
	assert_int_equal(log_open(LOG_TO_STDERR, NULL, LOG_AS_TEXT, &e), 0);
	log_error("bad");
	assert_int_equal(log_open(LOG_TO_JOURNAL, NULL, LOG_AS_TEXT, &e), 0);
	log_info("so so");
	dup2(old, STDERR_FILENO);
	close(old);
	fclose(f);
	unsetenv("JOURNAL_STREAM");
	text = content(file);
	assert_string_equal(text, "<3>bad\n<6>so so\n");
}

/* ---- through another process ---- */

static uint8_t record[LOG_RECORD_MAX];
static size_t record_len;

static void keep(void *arg, const void *bytes, size_t len)
{
	memcpy(record, bytes, len);
	record_len = len;
}

static void test_relay(void **state)
{
	struct log_field fields[] = {
		LOG_NAME("path", hostile), LOG_NAME("user", NULL), LOG_NUMBER("bytes", 7),
		LOG_REAL("seconds", 1.5),
	};
	json_t *line;

	to_file(LOG_AS_JSON);
	log_set_sink(keep, NULL);
	log_event(LOG_LV_ERROR, fields, 4, "it is %s", hostile);
	log_set_sink(NULL, NULL);
	assert_int_equal(log_relay(4711, NULL, record, record_len), 0);
	line = only_line();
	assert_int_equal(json_integer_value(json_object_get(line, "pid")), 4711);
	assert_string_equal(member(line, "level"), "error");
	assert_string_equal(member(line, "path_hex"), "610a227d5c0d1b5b324aff7b0901");
	assert_int_equal(json_integer_value(json_object_get(line, "bytes")), 7);
	assert_true(json_real_value(json_object_get(line, "seconds")) == 1.5);
	json_decref(line);
}

/* The relaying process knows the peer of a line, so it overrides the peer field of the record. */
static void test_relay_of_a_peer(void **state)
{
	struct log_field fields[] = { LOG_NAME("peer", "192.0.2.1:1"), LOG_NAME("user", "bob") };
	CLEANUP_FREE char *text = NULL;
	json_t *line;

	to_file(LOG_AS_JSON);
	log_set_sink(keep, NULL);
	log_event(LOG_LV_ERROR, fields, 2, "from 192.0.2.1:1");
	log_set_sink(NULL, NULL);
	assert_int_equal(log_relay(1, "[::1]:9", record, record_len), 0);
	line = only_line();
	assert_string_equal(member(line, "peer"), "[::1]:9");
	assert_string_equal(member(line, "user"), "bob");
	assert_string_equal(member(line, "message"), "[::1]:9: from 192.0.2.1:1");
	json_decref(line);
	to_file(LOG_AS_TEXT);
	assert_int_equal(log_relay(1, "192.0.2.1:1", record, record_len), 0);
	text = content(file);
	assert_non_null(strstr(text, ": from 192.0.2.1:1\n"));
	assert_null(strstr(text, "192.0.2.1:1: "));
}

static void test_big_relay(void **state)
{
	static char big[20000];
	struct log_field fields[LOG_FIELDS_MAX];
	json_t *line;

	memset(big, 'x', sizeof(big) - 1);
	for (size_t i = 0; i < LOG_FIELDS_MAX; i++)
		fields[i] = (struct log_field)LOG_NAME(i ? "other" : "path", big);
	to_file(LOG_AS_JSON);
	log_set_sink(keep, NULL);
	log_event(LOG_LV_ERROR, fields, LOG_FIELDS_MAX, "%s", big);
	log_set_sink(NULL, NULL);
	assert_true(record_len <= LOG_RECORD_MAX);
	assert_int_equal(log_relay(1, NULL, record, record_len), 0);
	line = only_line();
	assert_int_equal(strlen(member(line, "path")), 5000);
	json_decref(line);
}

static void test_bad_records(void **state)
{
	static const struct {
		const char *bytes;
		size_t len;
	} bad[] = {
		{ "", 0 }, { "\0", 1 }, { "\0\0", 2 }, { "\4\0x\0", 4 },     /* no such level */
		{ "\0\0xy", 4 }, { "\0\0x\0y", 5 }, { "\0\0x\0\0", 5 }, { "\0\21\0", 3 },
		{ "\0\1\0a\0xb\0", 8 }, { "\0\1\0a\0\0", 6 },              /* no such type */
		{ "\0\1\0a\0nb", 7 }, { "\0\1\0a\0u1234567", 13 }, { "\0\1\0a\0u\0", 7 },
		{ "\0\1\0a\0u-1\0", 9 }, { "\0\1\0a\0u1x\0", 9 }, { "\0\1\0a\0r\0", 7 },
		{ "\0\1\0a\0r1x\0", 9 }, { "\0\1\0\0nb\0", 7 }, { "\0\1\0A\0nb\0", 8 },
		{ "\0\1\0pid\0nb\0", 10 }, { "\0\2\0a\0nb\0", 8 },
	};
	CLEANUP_FREE char *text = NULL;

	to_file(LOG_AS_TEXT);
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		if (log_relay(1, NULL, bad[i].bytes, bad[i].len) != -EPROTO)
			fail_msg("record %zu was taken", i);
	/* A relayed record of a level that is not logged; and a line end in a relayed text. */
	assert_int_equal(log_relay(1, NULL, "\3\0x\0", 4), 0);
	assert_int_equal(log_relay(99, NULL, "\2\0x\n\033y\0", 7), 0);
	text = content(file);
	assert_non_null(strstr(text, " prog[99]: info: x  y\n"));
	assert_ptr_equal(strchr(text, '\n'), text + strlen(text) - 1);
}

/* A record cut at any byte is refused without reading beyond its end. */
static void test_cut_records(void **state)
{
	struct log_field fields[] = { LOG_NAME("path", "p"), LOG_NUMBER("bytes", 7) };

	log_set_sink(keep, NULL);
	log_event(LOG_LV_ERROR, fields, 2, "text");
	log_set_sink(NULL, NULL);
	to_file(LOG_AS_TEXT);
	for (size_t len = 0; len < record_len; len++) {
		void *copy = malloc(len ? len : 1);

		memcpy(copy, record, len);
		assert_int_equal(log_relay(1, NULL, copy, len), -EPROTO);
		free(copy);
	}
}

#define TEST(fn) cmocka_unit_test_setup_teardown(fn, begin, end)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_file), TEST(test_json), TEST(test_journal), TEST(test_relay),
		TEST(test_relay_of_a_peer),
		TEST(test_big_relay), TEST(test_bad_records), TEST(test_cut_records),
	};

	return cmocka_run_group_tests_name("log-out", tests, NULL, NULL);
}
