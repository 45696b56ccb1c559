// SPDX-License-Identifier: Apache-2.0
/* The progress line's text at any width, its rate, and exit statuses. */
#include "client/engine.h"
#include "client/report.h"

#include <errno.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#define MIB (1ull << 20)

static const struct transfer_progress full = {
	.bytes = 512 * MIB, .bytes_known = 1024 * MIB, .walked = true,
	.files_done = 1234, .files_failed = 2, .entries = 3000,
	.bottleneck = "sink disk",
};

static double rate = 64.0 * MIB;

static const char *line(const struct transfer_progress *v, unsigned width)
{
	static char out[256];
	size_t n = progress_line(out, sizeof(out), v, rate, width);

	assert_int_equal(n, strlen(out));
	return out;
}

static void test_text(void **state)
{
	struct transfer_progress v = full;

	assert_string_equal(line(&v, 200), " 50%  512 MiB of 1.0 GiB  64.0 MiB/s  0:08 left  "
			    "2 failed  1234 files  (sink disk)");
	v.walked = false; /* total still unknown: no percentage, no remaining time */
	v.files_failed = 0;
	v.bottleneck = NULL;
	assert_string_equal(line(&v, 200), "512 MiB of at least 1.0 GiB  64.0 MiB/s  1234 files");
	v.files_done = 0; /* the first file is in progress */
	assert_string_equal(line(&v, 200), "512 MiB of at least 1.0 GiB  64.0 MiB/s");
	v.walked = true;
	rate = 0;
	assert_non_null(strstr(line(&v, 200), "-:-- left"));
	rate = 64.0 * MIB;
}

static void test_width(void **state)
{
	size_t last = SIZE_MAX;

	for (unsigned width = 200; width > 0; width--) {
		size_t n = strlen(line(&full, width));

		assert_true(n <= width);
		assert_true(n <= last);
		last = n;
	}
	/* The most important fields stay longest. */
	assert_string_equal(line(&full, 20), " 50%  64.0 MiB/s");
	assert_string_equal(line(&full, 5), " 50%");
	assert_string_equal(line(&full, 3), "");
}

static void test_small_buffer(void **state)
{
	char out[12] = "...........";

	assert_true(progress_line(out, 10, &full, rate, 200) < 10);
	assert_true(strlen(out) < 10);
	assert_int_equal(out[10], '.');
}

static void test_percent(void **state)
{
	struct transfer_progress v = { .bytes = 999, .bytes_known = 1000, .walked = true };

	assert_int_equal(strncmp(line(&v, 80), " 99%", 4), 0); /* not 100 before the end */
	v.bytes = 1000;
	assert_int_equal(strncmp(line(&v, 80), "100%", 4), 0);
	v.bytes = 2000;                                        /* a file that grew */
	assert_int_equal(strncmp(line(&v, 80), "100%", 4), 0);
	v = (struct transfer_progress){ .walked = true, .files_done = 1, .entries = 4 }; /* empty files */
	assert_int_equal(strncmp(line(&v, 80), " 25%", 4), 0);
	v = (struct transfer_progress){ .walked = true };
	assert_int_equal(strncmp(line(&v, 80), "  0%", 4), 0);
	v = (struct transfer_progress){ .walked = true, .bytes = 3 << 20 }; /* a pipe */
	assert_null(strchr(line(&v, 80), '%'));
	assert_non_null(strstr(line(&v, 80), "3.0 MiB"));
	assert_null(strstr(line(&v, 80), " of "));
}

static void test_rate(void **state)
{
	struct rate_meter m = { 0 };
	double r = 0;

	assert_true(rate_meter_feed(&m, 0, 0) == 0);
	/* The time before the first byte does not count; from then on the rate is right. */
	assert_true(rate_meter_feed(&m, 2, 0) == 0);
	for (int i = 1; i <= 5; i++)
		assert_true(fabs(rate_meter_feed(&m, 2 + i * 0.2, (uint64_t)i * 200) - 1000) < 1);
	m = (struct rate_meter){ 0 };
	for (int i = 1; i <= 200; i++)
		r = rate_meter_feed(&m, i * 0.2, (uint64_t)i * 200);
	assert_true(fabs(r - 1000) < 1);
	/* A stall shows within seconds, but one missed update changes little. */
	r = rate_meter_feed(&m, 40.2, 40000);
	assert_true(r > 800);
	for (int i = 0; i < 50; i++)
		r = rate_meter_feed(&m, 40.4 + i * 0.2, 40000);
	assert_true(r < 100);
	/* The same time twice, or a new transfer, must not divide by 0. */
	assert_true(isfinite(rate_meter_feed(&m, 50.2, 40000)));
	assert_true(isfinite(rate_meter_feed(&m, 0, 0)));
}

static void test_exit(void **state)
{
	static const struct {
		int code;
		enum exit_status early, begun;
		bool lost;
	} cases[] = {
		{ 0, EXIT_DONE, EXIT_DONE, false },
		{ -EINTR, EXIT_INTERRUPTED, EXIT_INTERRUPTED, false },
		{ -EPIPE, EXIT_CONNECT, EXIT_INTERRUPTED, true },
		{ -ETIMEDOUT, EXIT_CONNECT, EXIT_INTERRUPTED, true },
		{ -ECONNRESET, EXIT_CONNECT, EXIT_INTERRUPTED, true },
		{ -ENETDOWN, EXIT_CONNECT, EXIT_INTERRUPTED, false },
		{ -ENODEV, EXIT_CONNECT, EXIT_INTERRUPTED, false },
		{ -EPROTONOSUPPORT, EXIT_CONNECT, EXIT_CONNECT, false },
		{ -EACCES, EXIT_SOME_FAILED, EXIT_SOME_FAILED, false },
		{ -ENOSPC, EXIT_SOME_FAILED, EXIT_SOME_FAILED, false },
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		assert_int_equal(exit_of(cases[i].code, false), cases[i].early);
		assert_int_equal(exit_of(cases[i].code, true), cases[i].begun);
		assert_int_equal(error_is_lost(cases[i].code), cases[i].lost);
	}
	assert_int_equal(exit_worse(EXIT_SOME_FAILED, EXIT_CONNECT), EXIT_CONNECT);
	assert_int_equal(exit_worse(EXIT_SOME_FAILED, EXIT_DONE), EXIT_SOME_FAILED);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_text),
		cmocka_unit_test(test_width),
		cmocka_unit_test(test_small_buffer),
		cmocka_unit_test(test_percent),
		cmocka_unit_test(test_rate),
		cmocka_unit_test(test_exit),
	};

	return cmocka_run_group_tests_name("progress", tests, NULL, NULL);
}
