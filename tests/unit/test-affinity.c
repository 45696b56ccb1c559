// SPDX-License-Identifier: Apache-2.0
/* Placements, medians, and what fio prints: recorded from fio 3.33, and damaged. */
#include "numa/affinity.h"
#include "tests/support/sysfs.h"

#include <errno.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

#define FILE_MAX 65536u

/* What fio has printed; the caller frees it. */
static char *recorded(const char *name)
{
	const char *top = getenv("top_srcdir");
	char path[4096], *text;

	snprintf(path, sizeof(path), "%s/tests/unit/fio/%s", top ? top : ".", name);
	assert_int_equal(read_file(path, FILE_MAX, &text, NULL), 0);
	return text;
}

/* ---- fio's output ---- */

static void test_recorded(void **state)
{
	CLEANUP_FREE char *read = recorded("read"), *write = recorded("write");
	struct err e = ERR_INIT;
	struct fio_result r;

	(void)state;
	assert_int_equal(fio_parse(read, false, &r, &e), 0);
	assert_true(r.bytes_per_second == 1194037141);
	assert_true(fabs(r.mean_ns - 1753113.091148) < 1e-5);
	assert_true(r.p99_ns == 8454144);
	assert_int_equal(fio_parse(write, true, &r, &e), 0);
	assert_true(fabs(r.mean_ns - 671793.592920) < 1e-5);
	assert_true(r.p99_ns == 1036288);
	/* Of what was not done there are only zeros, and they are no result. */
	assert_int_equal(fio_parse(read, true, &r, &e), -EBADMSG);
	assert_non_null(strstr(e.text, "write"));
	assert_true(r.bytes_per_second == 0);
}

/* Warnings before the object, and after it. */
static void test_around(void **state)
{
	CLEANUP_FREE char *read = recorded("read"), *more = NULL;
	struct err e = ERR_INIT;
	struct fio_result r;

	(void)state;
	assert_true(asprintf(&more, "fio: a warning {\n%s\nfio: another }\n", read) > 0);
	assert_int_equal(fio_parse(more, false, &r, &e), 0);
	assert_true(r.bytes_per_second == 1194037141);
}

static void test_failed(void **state)
{
	CLEANUP_FREE char *text = recorded("failed");
	struct err e = ERR_INIT;
	struct fio_result r;

	(void)state;
	assert_int_equal(fio_parse(text, false, &r, &e), -EIO);
	assert_non_null(strstr(e.text, "Invalid argument"));
}

static void damaged(const char *text, int code)
{
	struct fio_result r = { 1, 2, 3 };
	struct err e = ERR_INIT;

	if (fio_parse(text, false, &r, &e) != code)
		fail_msg("%d (%s): %.60s", e.code, e.text, text);
	if (!*e.text || r.bytes_per_second != 0 || r.mean_ns != 0 || r.p99_ns != 0)
		fail_msg("no text, or a result: %.60s", text);
}

/* As it is cut anywhere. */
static void test_cut(void **state)
{
	CLEANUP_FREE char *text = recorded("read");
	size_t end = (size_t)(strrchr(text, '}') - text);

	(void)state;
	for (size_t n = end; n > 0; n -= n > 97 ? 97 : n) {
		text[n] = '\0';
		damaged(text, -EBADMSG);
	}
}

#define JOB(error, rest) "{\"jobs\":[{\"error\":" error ",\"read\":{" rest "}}]}"
#define LAT(mean, p99) "\"lat_ns\":{\"mean\":" mean ",\"percentile\":{\"99.000000\":" p99 "}}"

static void test_damaged(void **state)
{
	static const struct { const char *text; int code; } bad[] = {
		{ "", -EBADMSG },
		{ "fio: no output {}", -EBADMSG },
		{ "{}", -EBADMSG },
		{ "{\"jobs\":{}}", -EBADMSG },
		{ "{\"jobs\":[]}", -EBADMSG },
		{ "{\"jobs\":[7]}", -EBADMSG },
		{ JOB("\"0\"", "\"bw_bytes\":5," LAT("1", "2")), -EBADMSG },
		{ JOB("28", "\"bw_bytes\":5," LAT("1", "2")), -EIO },
		{ JOB("-1", "\"bw_bytes\":5," LAT("1", "2")), -EIO },
		{ JOB("0", LAT("1", "2")), -EBADMSG },
		{ JOB("0", "\"bw_bytes\":\"5\"," LAT("1", "2")), -EBADMSG },
		{ JOB("0", "\"bw_bytes\":-5," LAT("1", "2")), -EBADMSG },
		{ JOB("0", "\"bw_bytes\":0," LAT("1", "2")), -EBADMSG },
		{ JOB("0", "\"bw_bytes\":1e999," LAT("1", "2")), -EBADMSG },
		{ JOB("0", "\"bw_bytes\":5,\"lat_ns\":3"), -EBADMSG },
		{ JOB("0", "\"bw_bytes\":5," LAT("null", "2")), -EBADMSG },
		{ JOB("0", "\"bw_bytes\":5," LAT("1", "[]")), -EBADMSG },
		{ JOB("0", "\"bw_bytes\":5,\"lat_ns\":{\"mean\":1}"), -EBADMSG },
	};
	struct err e = ERR_INIT;
	struct fio_result r;

	(void)state;
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		damaged(bad[i].text, bad[i].code);
	/* They are bad by what is wrong with each. */
	assert_int_equal(fio_parse(JOB("0", "\"bw_bytes\":5," LAT("1", "2")), false, &r, &e), 0);
}

/* ---- placements ---- */

static void test_placements(void **state)
{
	static const struct placement want[] = {
		{ "TRLCPL", 3, 3 }, { "TRLCPR", 3, 5 }, { "TRRCPL", 5, 5 }, { "TRRCPR", 5, 3 },
		{ "none", NODE_UNKNOWN, NODE_UNKNOWN },
	};
	struct placement p[PLACEMENTS_MAX];

	(void)state;
	assert_int_equal(placements(3, 5, p), 5);
	for (unsigned i = 0; i < 5; i++) {
		assert_string_equal(p[i].name, want[i].name);
		assert_int_equal(p[i].memory_node, want[i].memory_node);
		assert_int_equal(p[i].cpu_node, want[i].cpu_node);
		if (i == 4)
			break;
		/* As the names say it. */
		assert_int_equal(p[i].name[2] == 'L', p[i].memory_node == 3);
		assert_int_equal(p[i].name[5] == 'L', p[i].memory_node == p[i].cpu_node);
	}
	assert_int_equal(placements(0, NODE_UNKNOWN, p), 2);
	assert_string_equal(p[0].name, "TRLCPL");
	assert_string_equal(p[1].name, "none");
}

static void farthest_is(const char *machine, int node, const char *cpus, const char *memory,
			int want)
{
	struct err e = ERR_INIT;
	struct topo *t = topo_read(sysfs_make(machine), &e);
	struct ids allowed, have;

	assert_non_null(t);
	assert_int_equal(ids_parse(cpus, &allowed), 0);
	assert_int_equal(ids_parse(memory, &have), 0);
	if (farthest_node(t, node, &allowed, &have) != want)
		fail_msg("%s, from %d with %s, memory of %s: %d", machine, node, cpus, memory,
			 farthest_node(t, node, &allowed, &have));
	topo_free(t);
}

static void test_farthest(void **state)
{
	(void)state;
	farthest_is("one", 0, "0-3", "0-4", NODE_UNKNOWN);
	farthest_is("two", 0, "0-31", "0-4", 1);
	farthest_is("two", 1, "0-31", "0-4", 0);
	/* Where no thread of ours can run. */
	farthest_is("two", 0, "0-7,16-23", "0-4", NODE_UNKNOWN);
	farthest_is("reach", 0, "0-15", "0-4", 1);
	farthest_is("reach", 1, "0-15", "0-4", 2);
	farthest_is("reach", 1, "0-7,12-15", "0-4", 0);
	farthest_is("reach", 3, "0-15", "0-4", 0);
	/* Where no memory is to be had. */
	farthest_is("two", 0, "0-31", "0", NODE_UNKNOWN);
	farthest_is("reach", 1, "0-15", "0-1,3-4", 0);
}

/* ---- medians ---- */

static void test_summary(void **state)
{
	static const struct fio_result runs[] = {
		{ 30, 1000, 7 }, { 10, 3000, 8 }, { 20, 2000, 90 }, { 40, 2200, 6 },
	};
	struct summary s = summarise(runs, 3);

	(void)state;
	assert_true(s.bytes_per_second == 20 && s.mean_ns == 2000 && s.p99_ns == 8);
	/* 10, 20, 30: the standard deviation of a sample is 10, the mean 20. */
	assert_true(fabs(s.deviation - 0.5) < 1e-12);
	s = summarise(runs, 4);
	assert_true(s.bytes_per_second == 25 && s.mean_ns == 2100 && s.p99_ns == 7.5);
	s = summarise(runs, 1);
	assert_true(s.bytes_per_second == 30 && s.deviation == 0);
	s = summarise((struct fio_result []){ { 5, 1, 1 }, { 5, 1, 1 }, { 5, 1, 1 } }, 3);
	assert_true(s.deviation == 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_recorded),
		cmocka_unit_test(test_around),
		cmocka_unit_test(test_failed),
		cmocka_unit_test(test_cut),
		cmocka_unit_test(test_damaged),
		cmocka_unit_test(test_placements),
		cmocka_unit_test(test_farthest),
		cmocka_unit_test(test_summary),
	};

	return cmocka_run_group_tests(tests, tmp_setup, tmp_teardown);
}
