// SPDX-License-Identifier: Apache-2.0
/* Readings of counters, and counted memory walks with an event that any kernel can count. */
#include "numa/measure.h"

#include <errno.h>
#include <linux/perf_event.h>
#include <setjmp.h>
#include <stdarg.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

/* ---- readings ---- */

static void test_scale(void **state)
{
	static const struct { struct perf_reading r; int code; double count; } all[] = {
		{ { 100, 50, 50 }, 0, 100 },
		{ { 100, 100, 25 }, 0, 400 },         /* counted a quarter of the time */
		{ { 0, 100, 25 }, 0, 0 },
		{ { 100, 100, 0 }, -ENODATA, 0 },     /* never counted */
		{ { 0, 0, 0 }, -ENODATA, 0 },
		{ { 100, 40, 50 }, 0, 100 },          /* inconsistent times */
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

/* Page faults of a thread, which any kernel can count. */
static const struct perf_event faults = {
	.type = PERF_TYPE_SOFTWARE, .config = { PERF_COUNT_SW_PAGE_FAULTS },
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
		skip(); /* not permitted here */
	}
	p = mmap(NULL, 3 * pages * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1,
		 0);
	assert_true(p != MAP_FAILED);
	madvise(p, 3 * pages * page, MADV_NOHUGEPAGE);
	for (size_t i = 0; i < pages; i++) /* the counters are not started */
		p[i * page] = 1;
	perf_start(&c);
	for (size_t i = pages; i < 2 * pages; i++)
		p[i * page] = 1;
	assert_int_equal(perf_stop(&c, &count), 0);
	/* Both counters, plus a few faults of the program's own. */
	assert_true(count >= 2.0 * (double)pages && count < 2.0 * (double)pages + 40);
	for (size_t i = 2 * pages; i < 3 * pages; i++)
		p[i * page] = 1;
	perf_start(&c); /* restarts from 0 */
	assert_int_equal(perf_stop(&c, &count), 0);
	assert_true(count < 40);
	munmap(p, 3 * pages * page);
	perf_close(&c);
	assert_null(c.fd);
}

static void test_none(void **state)
{
	const struct perf_event none = { .type = 4711 };
	struct perf_counters c;
	int r = perf_open(&none, 1, &c);

	(void)state;
	assert_true(r < 0);
	perf_close(&c);
	assert_int_equal(perf_open(NULL, 0, &c), 0);
	perf_close(&c);
}

/* ---- walks ---- */

/* The list has three numbers, all between low and high. */
static void three_within(const json_t *list, double low, double high)
{
	assert_int_equal(json_array_size(list), 3);
	for (size_t i = 0; i < 3; i++) {
		double v = json_number_value(json_array_get(list, i));

		assert_true(v > low && v < high);
	}
}

/* A thread on each node walks over memory of each node. */
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
			struct perf_event event = faults;
			json_t *found;

			assert_int_equal(place_cpus(&allowed), 0);
			ids_intersect(&cpus, &allowed);
			if (!ids_count(&cpus))
				continue;
			w.cpu = ids_next(&cpus, 0);
			w.count[0] = (struct walk_count){ &event, 1 };
			w.counts = 1;
			found = walk_run(&w, &e);
			if (!found && (e.code == -ENOSYS || e.code == -EPERM ||
				       e.code == -EACCES)) {
				topo_free(t);
				skip();
			}
			if (!found)
				fail_msg("%s", e.text);
			assert_int_equal(json_integer_value(json_object_get(found, "lines")),
					 (8u << 20) / WALK_LINE);
			three_within(json_object_get(found, "prefetch_ns"), 0.01, 1e5);
			three_within(json_object_get(found, "load_ns"), 0.01, 1e6);
			/* All memory has been touched before the run. */
			three_within(json_array_get(json_object_get(found, "counts"), 0), -0.1,
				     100);
			json_decref(found);
			assert_int_equal(place_thread(&allowed), 0); /* back to all CPUs */
		}
	}
	topo_free(t);
}

static void test_bad_walks(void **state)
{
	struct perf_event none = { .type = 4711 };
	struct walk w = { .cpu = IDS_MAX - 1, .bytes = 1u << 20, .runs = 1 };
	struct err e = ERR_INIT;
	struct ids cpus;

	(void)state;
	assert_null(walk_run(&w, &e));
	assert_true(e.code < 0);
	assert_non_null(strstr(e.text, "a thread on CPU"));
	assert_int_equal(place_cpus(&cpus), 0);
	w.cpu = ids_next(&cpus, 0);
	w.node = 1000;
	assert_null(walk_run(&w, &e));
	assert_true(e.code < 0);
	assert_non_null(strstr(e.text, "node 1000's memory"));
	w.node = 0;
	w.count[0] = (struct walk_count){ &none, 1 };
	w.counts = 1;
	assert_null(walk_run(&w, &e));
	assert_true(e.code < 0);
	assert_true(strstr(e.text, "counter 0") || strstr(e.text, "node 0's memory"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_scale),
		cmocka_unit_test(test_counts),
		cmocka_unit_test(test_none),
		cmocka_unit_test(test_walks),
		cmocka_unit_test(test_bad_walks),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
