// SPDX-License-Identifier: Apache-2.0
/* The output of --json for transfers: the events and their totals. */
#include "client/report.h"

#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

static const struct agreement agreed = {
	.transport = TRANSPORT_TCP, .op = OP_WRITE, .prot = PROT_SAFE, .ack = ACK_WRITTEN,
	.crc = true, .paths = 1, .channels = 32, .channels_first = 2, .block = 65536,
	.inflight = 16,
};

static void json_is(json_t *obj, const char *want)
{
	char *text = json_dumps(obj, JSON_COMPACT | JSON_REAL_PRECISION(15));

	assert_string_equal(text, want);
	free(text);
	json_decref(obj);
}

static void test_events(void **state)
{
	struct transfer_progress p = {
		.entries = 5, .files_done = 4, .files_failed = 1, .files_skipped = 2,
		.bytes = 5000000000, .bytes_known = 6000000000, .ns = 1500000000,
	};

	json_is(event_started(&agreed),
		"{\"event\":\"started\",\"transport\":\"tcp\",\"op\":\"write\",\"prot\":\"safe\","
		"\"ack\":\"written\",\"crc\":true,\"paths\":1,\"channels\":2,\"channels_most\":32,"
		"\"block\":65536,"
		"\"inflight\":16,\"pool_source\":0,\"pool_sink\":0}");
	json_is(event_progress(&p),
		"{\"event\":\"progress\",\"seconds\":1.5,\"bytes\":5000000000,"
		"\"bytes_kept\":0,\"bytes_known\":6000000000,\"walked\":false,\"entries\":5,\"files\":4,"
		"\"failed\":1,\"skipped\":2}");
	json_is(event_file("a\xff", 3, FILE_LEFT),
		"{\"event\":\"file\",\"bytes\":3,\"skipped\":true,\"corrected\":false,\"path\":\"a\xef\xbf\xbd\","
		"\"path_hex\":\"61ff\"}");
	json_is(event_file("a", 3, FILE_REMOVED),
		"{\"event\":\"removed\",\"bytes\":3,\"path\":\"a\"}");
	json_is(event_file_failed("a", -ENOSPC, "a: full"),
		"{\"event\":\"file_failed\",\"path\":\"a\",\"error\":\"ENOSPC\",\"text\":\"a: full\"}");
	json_is(event_file_failed("a", -99999, ""),
		"{\"event\":\"file_failed\",\"path\":\"a\",\"error\":\"EIO\",\"text\":\"\"}");
	json_is(event_retry(2, 4, "gone"),
		"{\"event\":\"retry\",\"attempt\":2,\"wait_seconds\":4,\"text\":\"gone\"}");
	json_is(event_interval("put", 2, 0.5, 1000),
		"{\"event\":\"interval\",\"way\":\"put\",\"at\":2.0,\"seconds\":0.5,\"bytes\":1000,"
		"\"bytes_per_second\":2000.0}");
}

/* Two transfers of one command: the numbers are added, the channels are listed one after
 * another. */
static void test_totals(void **state)
{
	struct transfer_result r = {
		.agreement = agreed, .bytes = 1000, .files = 3, .failed = 1, .skipped = 2,
		.resumed = 10, .wall_ns = 2000000000, .nchannels = 2, .channels_lost = 1,
		.local.cpu_ns = 500000000, .remote.cpu_ns = 250000000,
		.corrected = 1, .removed = 2, .removed_bytes = 5,
		.stages = { [STAGE_NETWORK] = 3, [STAGE_RATE] = 1 },
	};
	struct totals t = { .retries = 1, .plan = true, .plan_files = 7, .plan_bytes = 8 };

	r.channel_bytes[0] = 600;
	r.channel_bytes[1] = 400;
	totals_add(&t, &r);
	totals_add(&t, &r);
	json_is(event_summary(&t, 1, NULL),
		"{\"event\":\"summary\",\"exit\":1,\"bytes\":2000,\"seconds\":4.0,"
		"\"bytes_per_second\":500.0,\"files\":6,\"failed\":2,\"skipped\":4,"
		"\"cpu_seconds_local\":1.0,\"transport\":\"tcp\","
		"\"op\":\"write\",\"prot\":\"safe\",\"ack\":\"written\","
		"\"resumed\":20,\"left_out\":0,\"cpu_seconds_remote\":0.5,"
		"\"channels\":[600,400,600,400],\"channels_lost\":2,"
		"\"fell_back\":false,\"retries\":1,\"corrected\":2,\"removed\":4,"
		"\"removed_bytes\":10,\"stages\":{\"names\":0.0,\"source_storage\":0.0,"
		"\"source_cpu\":0.0,\"credits\":0.0,\"network\":0.75,\"sink_cpu\":0.0,"
		"\"sink_storage\":0.0,\"rate\":0.25},\"plan_files\":7,\"plan_bytes\":8}");
	totals_clear(&t);
}

/* Returns the last line that r prints; the caller frees it. */
static json_t *last_line(struct report *r, enum exit_status status)
{
	int out = dup(STDOUT_FILENO), pipes[2];
	char text[4096]; /* less than a pipe holds */
	json_t *obj;
	ssize_t n;

	assert_int_equal(pipe(pipes), 0);
	fflush(stdout);
	dup2(pipes[1], STDOUT_FILENO);
	close(pipes[1]);
	assert_int_equal(report_end(r, status), status);
	dup2(out, STDOUT_FILENO);
	close(out);
	n = read(pipes[0], text, sizeof(text));
	close(pipes[0]);
	assert_true(n > 0);
	obj = json_loadb(text, (size_t)n, 0, NULL);
	assert_non_null(obj);
	return obj;
}

static void burn(uint64_t ns)
{
	uint64_t end = cpu_ns() + ns;

	while (cpu_ns() < end)
		;
}

/* An interrupted transfer has no result: the summary has its last progress and its CPU time. */
static void test_broken_off(void **state)
{
	static const char *const unknown[] = { "resumed", "left_out", "cpu_seconds_remote",
					       "channels", "channels_lost", "fell_back" };
	struct transfer_progress p = { .bytes = 700, .files_done = 2, .ns = 3000000000 };
	struct options o = { .json = true, .quiet = true };
	struct report *r = report_new(&o);
	struct transfer_events ev = report_events(r);
	struct err e = ERR_INIT;
	json_t *obj;

	report_begin(r);
	/* Events print lines too, so they are off until the last line. */
	o.json = false;
	ev.started(ev.arg, &agreed);
	ev.progress(ev.arg, &p);
	burn(10000000);
	o.json = true;
	err_set(&e, -EINTR, "interrupted");
	report_error(r, &e);
	obj = last_line(r, EXIT_INTERRUPTED);
	assert_int_equal(json_integer_value(json_object_get(obj, "exit")), 4);
	assert_int_equal(json_integer_value(json_object_get(obj, "bytes")), 700);
	assert_int_equal(json_integer_value(json_object_get(obj, "files")), 2);
	assert_true(json_real_value(json_object_get(obj, "seconds")) == 3);
	assert_string_equal(json_string_value(json_object_get(obj, "error")), "interrupted");
	assert_string_equal(json_string_value(json_object_get(obj, "prot")), "safe");
	assert_true(json_real_value(json_object_get(obj, "cpu_seconds_local")) >= 0.01);
	for (size_t i = 0; i < sizeof(unknown) / sizeof(unknown[0]); i++)
		assert_null(json_object_get(obj, unknown[i]));
	json_decref(obj);
}

static uint64_t number_of(json_t *obj, const char *key)
{
	return (uint64_t)json_integer_value(json_object_get(obj, key));
}

/* The attempts of one command add up: the bytes of each attempt, and each file once. A file that an
 * earlier attempt has completed does not count as skipped in a later one. */
static void test_again(void **state)
{
	struct transfer_progress first = { .bytes = 1000, .bytes_kept = 300, .files_done = 5,
					   .files_skipped = 1, .ns = 1000000000 };
	struct transfer_progress second = { .bytes = 900, .bytes_kept = 850, .files_done = 1,
					    .files_skipped = 6, .files_failed = 1, .ns = 1000000000 };
	struct transfer_result end = { .agreement = agreed, .wall_ns = 5, .files = 3,
				       .failed = 1, .skipped = 8, .bytes = 400,
				       .resumed = 900 };
	(void)state;
	for (int whole = 0; whole < 2; whole++) {
		struct options o = { .quiet = true, .retries = 5 };
		struct report *r = report_new(&o);
		struct transfer_events ev = report_events(r);
		struct err e = ERR_INIT;
		json_t *obj;

		err_set(&e, -EPIPE, "gone");
		report_begin(r);
		ev.started(ev.arg, &agreed);
		ev.progress(ev.arg, &first);
		report_retry(r, 1, 0, &e);
		/* An attempt that never started adds nothing. */
		report_retry(r, 2, 0, &e);
		ev.started(ev.arg, &agreed);
		ev.progress(ev.arg, &second);
		burn(10000000);
		if (whole) {
			report_retry(r, 3, 0, &e);
			ev.started(ev.arg, &agreed);
			report_result(r, &end);
		} else {
			report_error(r, &e);
		}
		o.json = true;
		obj = last_line(r, whole ? EXIT_SOME_FAILED : EXIT_INTERRUPTED);
		assert_int_equal(number_of(obj, "bytes"), whole ? 700 + 50 + 400 : 700 + 50);
		assert_int_equal(number_of(obj, "files"), whole ? 9 : 6);
		assert_int_equal(number_of(obj, "skipped"), whole ? 2 : 1);
		assert_int_equal(number_of(obj, "failed"), 1);
		assert_int_equal(number_of(obj, "retries"), whole ? 3 : 2);
		assert_int_equal(number_of(obj, "resumed"), whole ? 900 : 0);
		assert_true(json_real_value(json_object_get(obj, "seconds")) >= 0.01);
		assert_true(json_real_value(json_object_get(obj, "seconds")) < 60);
		assert_true(json_real_value(json_object_get(obj, "cpu_seconds_local")) >= 0.01);
		json_decref(obj);
	}
}

/* Returns the text on standard error for a failed file. */
static const char *says(const char *path, const char *why)
{
	struct options o = { .quiet = true };
	struct report *r = report_new(&o);
	struct transfer_events ev = report_events(r);
	int err = dup(STDERR_FILENO), pipes[2];
	static char text[4096];
	ssize_t n;

	assert_int_equal(pipe(pipes), 0);
	dup2(pipes[1], STDERR_FILENO);
	close(pipes[1]);
	ev.file_failed(ev.arg, path, -EACCES, why);
	dup2(err, STDERR_FILENO);
	close(err);
	n = read(pipes[0], text, sizeof(text) - 1);
	close(pipes[0]);
	text[n < 0 ? 0 : n] = '\0';
	report_end(r, EXIT_SOME_FAILED);
	return text;
}

/* The path precedes a reason that does not contain it, and is never repeated. */
static void test_names_of_failed(void **state)
{
	assert_string_equal(says("a/b", "No such file"), "test: a/b: No such file\n");
	assert_string_equal(says("a/b", "/root/a/b: No such file"),
			    "test: /root/a/b: No such file\n");
	assert_string_equal(says("a/b", "b: is busy"), "test: b: is busy\n");
	assert_string_equal(says("dir/", "cannot be made"), "test: dir/: cannot be made\n");
	assert_string_equal(says("dir/", "dir/: cannot be made"), "test: dir/: cannot be made\n");
	/* Compared in printable form: both have control characters escaped. */
	assert_string_equal(says("d/a\n", "full"), "test: d/a\\x0a: full\n");
	assert_string_equal(says("d/a\n", "a\\x0a: full"), "test: a\\x0a: full\n");
	/* An empty reason: the error of a parent directory was reported already. */
	assert_string_equal(says("a/b", ""), "");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_events),
		cmocka_unit_test(test_totals),
		cmocka_unit_test(test_broken_off),
		cmocka_unit_test(test_again),
		cmocka_unit_test(test_names_of_failed),
	};

	log_init("test", LOG_LV_ERROR, false);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
