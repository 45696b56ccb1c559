// SPDX-License-Identifier: Apache-2.0
/* Events as sysfs describes them, readings, and walks that are counted with what any kernel
 * has. */
#include "numa/walk.h"
#include "tests/support/sysfs.h"

#include <errno.h>
#include <limits.h>
#include <linux/perf_event.h>
#include <setjmp.h>
#include <stdarg.h>
#include <sys/mman.h>

#include <cmocka.h>

static struct topo *topo;
static struct perf_event events[PERF_EVENTS_MAX];

static int begin(void **state)
{
	struct err e = ERR_INIT;

	if (tmp_setup(state))
		return -1;
	topo = topo_read(sysfs_make("pmu"), &e);
	return topo ? 0 : -1;
}

static int end(void **state)
{
	topo_free(topo);
	return tmp_teardown(state);
}

/* ---- names ---- */

static void test_terms(void **state)
{
	static const struct { const char *text; uint64_t config[3]; } good[] = {
		{ "cpu/event=0xb7,umask=1/", { 0x1b7 } },
		{ "cpu/event=183,edge/", { 0x400b7 } },
		{ "cpu/cache-misses/", { 0x412e } },
		{ "cpu/event=0xb7,umask=0x1,offcore_rsp=0xffffffffffffffff/",
		  { 0x1b7, UINT64_MAX } },
		{ "cpu/wide=0xa5/", { 0xa00000005 } },
		{ "cpu/far=0xf/", { 0, 0, 0xf000000000000000 } },
		{ "cpu/config=0x1234,config1=5,config2=6/", { 0x1234, 5, 6 } },
		{ "cpu/umask=0xff,umask=1/", { 0x100 } }, /* the last one holds */
	};
	struct err e = ERR_INIT;

	(void)state;
	for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
		if (perf_parse(topo, good[i].text, events, &e) != 1)
			fail_msg("%s: %s", good[i].text, e.text);
		if (memcmp(events[0].config, good[i].config, sizeof(good[i].config)))
			fail_msg("%s: %llx %llx %llx", good[i].text,
				 (unsigned long long)events[0].config[0],
				 (unsigned long long)events[0].config[1],
				 (unsigned long long)events[0].config[2]);
		assert_int_equal(events[0].type, 4);
		assert_int_equal(ids_count(&events[0].cpus), 0);
		assert_string_equal(events[0].name, good[i].text);
	}
}

static void test_bad_terms(void **state)
{
	static const struct { const char *text; int code; const char *word; } bad[] = {
		{ "", -EINVAL, "no event" }, { "cpu", -EINVAL, "no event" },
		{ "cpu/", -EINVAL, "no event" }, { "cpu//", -EINVAL, "no event" },
		{ "/event=1/", -EINVAL, "no event" }, { "cpu/event=1", -EINVAL, "no event" },
		{ "cpu/,/", -EINVAL, "no event is named" },
		{ "gpu/event=1/", -ENOENT, "no PMU gpu" },
		{ "uncore_cbo*/event=1/", -ENOENT, "no PMU uncore_cbo" },
		{ "../event=1/", -EINVAL, "no event" },
		{ "cpu/none/", -ENOENT, "\"none\"" }, { "cpu/../type/", -ENOENT, "\"../type\"" },
		{ "cpu/event=0x100/", -ERANGE, "does not fit" },
		{ "cpu/edge=2/", -ERANGE, "does not fit" },
		{ "cpu/far=16/", -ERANGE, "does not fit" },
		{ "cpu/event=/", -EINVAL, "no number" }, { "cpu/event=x/", -EINVAL, "no number" },
		{ "cpu/event=-1/", -EINVAL, "no number" },
		{ "cpu/event=0x10000000000000000/", -EINVAL, "no number" },
		{ "cpu/broken/", -EINVAL, "no number" },
		{ "cpu/odd=1/", -EINVAL, "its format" }, { "cpu/worse=1/", -EINVAL, "its format" },
		{ "uncore_imc_0/event=1/", -EBADMSG, "cpumask" },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		struct err e = ERR_INIT;
		int r = perf_parse(topo, bad[i].text, events, &e);

		if (r != bad[i].code || !strstr(e.text, bad[i].word))
			fail_msg("\"%s\": %d, %s", bad[i].text, r, e.text);
	}
}

/* One name, several units, each of which counts on the CPUs that it says. */
static void test_units(void **state)
{
	struct err e = ERR_INIT;

	(void)state;
	assert_int_equal(perf_parse(topo, "uncore_upi_*/event=2/", events, &e), 3);
	assert_int_equal(events[0].type, 20);
	assert_int_equal(events[1].type, 21);
	assert_int_equal(events[2].type, 22); /* 10 comes after 2 */
	assert_int_equal(events[2].config[0], 2);
	assert_int_equal(ids_count(&events[1].cpus), 2);
	assert_true(ids_has(&events[1].cpus, 16));
	/* Without the star it is that one. */
	assert_int_equal(perf_parse(topo, "uncore_upi_2/event=2/", events, &e), 1);
	assert_int_equal(events[0].type, 21);
	assert_int_equal(perf_parse(topo, "uncore_upi_/event=2/", events, &e), -ENOENT);
}

static void test_snoops(void **state)
{
	struct err e = ERR_INIT;
	struct topo *none;

	(void)state;
	assert_int_equal(perf_find_snoops(topo, events, &e), 3);
	assert_string_equal(events[0].name, "uncore_upi_0/rx_snp_code/");
	assert_int_equal(events[0].config[0], 5);
	none = topo_read(sysfs_make("two"), &e);
	assert_non_null(none);
	assert_int_equal(perf_find_snoops(none, events, &e), 0);
	topo_free(none);
}

/* ---- readings ---- */

static void test_scale(void **state)
{
	static const struct { struct perf_reading r; int code; double count; } all[] = {
		{ { 100, 50, 50 }, 0, 100 },
		{ { 100, 100, 25 }, 0, 400 },         /* a quarter of the time */
		{ { 0, 100, 25 }, 0, 0 },
		{ { 100, 100, 0 }, -ENODATA, 0 },     /* never */
		{ { 0, 0, 0 }, -ENODATA, 0 },
		{ { 100, 40, 50 }, 0, 100 },          /* clocks that do not agree */
		{ { 1ull << 63, 1ull << 62, 1ull << 60 }, 0, 36893488147419103232.0 },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
		double count = -1;

		assert_int_equal(perf_scale(&all[i].r, &count), all[i].code);
		if (count < all[i].count || count > all[i].count)
			fail_msg("%zu: %g", i, count);
	}
}

/* Pages that a thread touches for the first time: what any kernel can count. */
static const struct perf_event faults = {
	.name = "faults", .type = PERF_TYPE_SOFTWARE, .config = { PERF_COUNT_SW_PAGE_FAULTS },
};

static void test_counts(void **state)
{
	const size_t pages = 64, page = (size_t)sysconf(_SC_PAGESIZE);
	struct perf_event two[] = { faults, faults };
	struct perf_counters c;
	double count;
	char *p;
	int r = perf_open(two, 2, &c);

	(void)state;
	if (r) {
		perf_close(&c);
		skip(); /* not allowed here */
	}
	p = mmap(NULL, 3 * pages * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1,
		 0);
	assert_true(p != MAP_FAILED);
	madvise(p, 3 * pages * page, MADV_NOHUGEPAGE);
	for (size_t i = 0; i < pages; i++) /* it does not count yet */
		p[i * page] = 1;
	perf_start(&c);
	for (size_t i = pages; i < 2 * pages; i++)
		p[i * page] = 1;
	assert_int_equal(perf_stop(&c, &count), 0);
	/* Both of them; and a few of the program's own. */
	assert_true(count >= 2.0 * (double)pages && count < 2.0 * (double)pages + 40);
	for (size_t i = 2 * pages; i < 3 * pages; i++)
		p[i * page] = 1;
	perf_start(&c); /* from nothing, again */
	assert_int_equal(perf_stop(&c, &count), 0);
	assert_true(count < 40);
	munmap(p, 3 * pages * page);
	perf_close(&c);
	assert_null(c.fd);
}

static void test_none(void **state)
{
	const struct perf_event none = { .name = "none", .type = 4711 };
	char why[PERF_WHY];
	struct perf_counters c;
	int r = perf_open(&none, 1, &c);

	(void)state;
	assert_true(r < 0);
	perf_close(&c);
	assert_int_equal(perf_open(NULL, 0, &c), 0);
	perf_close(&c);
	assert_non_null(strstr(perf_why(-ENOENT, 2, why), "no such counter"));
	assert_non_null(strstr(perf_why(-EACCES, 3, why), "perf_event_paranoid is 3"));
	assert_null(strstr(perf_why(-EPERM, INT_MAX, why), "paranoid is"));
	assert_non_null(strstr(perf_why(-ENOSYS, 2, why), "container"));
	assert_non_null(strstr(perf_why(-EBUSY, 2, why), "busy"));
}

/* ---- walks ---- */

/* By a thread on each node, over memory of each. */
static void test_walks(void **state)
{
	struct err e = ERR_INIT;
	struct topo *t = topo_read(NULL, &e);

	(void)state;
	assert_non_null(t);
	for (unsigned i = 0; i < topo_nodes(t); i++) {
		for (unsigned k = 0; k < topo_nodes(t); k++) {
			struct ids allowed, cpus = topo_node(t, i)->cpus;
			struct walk w = { .node = topo_node(t, k)->id, .bytes = 8u << 20,
					  .runs = 3 };
			struct walk_result r = { 0 };
			int rc;

			assert_int_equal(place_cpus(&allowed), 0);
			ids_intersect(&cpus, &allowed);
			if (!ids_count(&cpus))
				continue;
			w.cpu = ids_next(&cpus, 0);
			w.counted[2] = (struct walk_counted){ &faults, 1 };
			rc = walk_run(&w, &r, &e);
			if (rc == -ENOSYS || rc == -EPERM || rc == -EACCES) {
				topo_free(t);
				skip();
			}
			if (rc)
				fail_msg("%s", e.text);
			assert_true(r.lines == (8u << 20) / WALK_LINE);
			assert_true(r.prefetch_ns > 0.01 && r.prefetch_ns < 1e5);
			assert_true(r.load_ns > 0.01 && r.load_ns < 1e6);
			assert_true(r.count[0] < 0 && r.count[1] < 0 && r.count[3] < 0);
			/* All its memory is there before. */
			assert_true(r.count[2] >= 0 && r.count[2] < 100);
		}
	}
	topo_free(t);
}

static void test_bad_walks(void **state)
{
	static const struct perf_event none = { .name = "none", .type = 4711 };
	struct walk w = { .cpu = IDS_MAX - 1, .bytes = 1u << 20, .runs = 1 };
	struct err e = ERR_INIT;
	struct walk_result r;
	struct ids cpus;

	(void)state;
	assert_true(walk_run(&w, &r, &e) < 0);
	assert_non_null(strstr(e.text, "a thread on CPU"));
	assert_int_equal(place_cpus(&cpus), 0);
	w.cpu = ids_next(&cpus, 0);
	w.node = 1000;
	assert_true(walk_run(&w, &r, &e) < 0);
	assert_non_null(strstr(e.text, "node 1000's memory"));
	w.node = 0;
	w.counted[0] = (struct walk_counted){ &none, 1 };
	assert_true(walk_run(&w, &r, &e) < 0);
	assert_true(strstr(e.text, "none: ") || strstr(e.text, "node 0's memory"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_terms),
		cmocka_unit_test(test_bad_terms),
		cmocka_unit_test(test_units),
		cmocka_unit_test(test_snoops),
		cmocka_unit_test(test_scale),
		cmocka_unit_test(test_counts),
		cmocka_unit_test(test_none),
		cmocka_unit_test(test_walks),
		cmocka_unit_test(test_bad_walks),
	};

	return cmocka_run_group_tests(tests, begin, end);
}
