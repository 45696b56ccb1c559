// SPDX-License-Identifier: Apache-2.0
/* How the I/O model is measured: sizes and CPUs by rule, copies on this machine. */
#include "numa/crew.h"
#include "numa/measure.h"
#include "tests/support/sysfs.h"

#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>

#include <cmocka.h>

#define MIB (1ull << 20)

static struct stop stop;

static void test_bytes(void **state)
{
	static const struct { unsigned all, biggest, threads, want; } cases[] = { /* MiB */
		{ 0, 0, 4, 32 },        /* nobody tells */
		{ 8, 8, 4, 32 },        /* the least */
		{ 48, 24, 12, 32 },
		{ 105, 105, 2, 210 },   /* four times a thread's part */
		{ 105, 105, 8, 54 },    /* 52.5, whole huge pages */
		{ 504, 504, 64, 252 },  /* half of a cache */
		{ 256, 32, 64, 32 },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct caches c = { cases[i].all * MIB, cases[i].biggest * MIB };
		uint64_t got = measure_bytes(&c, cases[i].threads);

		if (got != cases[i].want * MIB)
			fail_msg("%u MiB for %u threads: %llu", cases[i].all, cases[i].threads,
				 (unsigned long long)got);
	}
}

static void test_fit(void **state)
{
	(void)state;
	assert_int_equal(measure_fit(1024 * MIB, 8), 58 * MIB);
	assert_int_equal(measure_fit(1024 * MIB, 16), 26 * MIB);
	assert_int_equal(measure_fit(1024 * MIB, 7), 66 * MIB); /* 73.1, whole huge pages: 72 */
	assert_int_equal(measure_fit(128 * MIB, 8), 2 * MIB);
	assert_int_equal(measure_fit(96 * MIB, 8), 0);
	assert_int_equal(measure_fit(2 * MIB, 1), 0);
	assert_int_equal(measure_fit(0, 1), 0);
}

static void test_cpus(void **state)
{
	static const struct { const char *allowed; unsigned threads, want[16]; } cases[] = {
		{ "0-7,16-23", 4, { 0, 1, 2, 3 } },
		{ "0-7,16-23", 10, { 0, 1, 2, 3, 4, 5, 6, 7, 16, 17 } },
		{ "2,18-19", 3, { 2, 19, 18 } },
		{ "18,19", 2, { 18, 19 } },
		{ "0-1", 3, { 0 } }, /* too few */
		{ "", 1, { 0 } },
	};
	struct topo *t = topo_read(sysfs_make("two"), NULL);

	(void)state;
	assert_non_null(t);
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		unsigned cpus[16] = { 0 };
		struct ids allowed;

		assert_int_equal(ids_parse(cases[i].allowed, &allowed), 0);
		assert_int_equal(measure_cpus(t, &allowed, cases[i].threads, cpus), i < 4);
		for (unsigned k = 0; i < 4 && k < cases[i].threads; k++)
			assert_int_equal(cpus[k], cases[i].want[k]);
	}
	topo_free(t);
}

/* ---- this machine ---- */

static void test_this(void **state)
{
	struct measure_config c = {
		.target = NODE_UNKNOWN, .bytes = 4 * MIB, .copies = 2, .rounds = 5, .stop = &stop,
	};
	struct err e = ERR_INIT;
	struct topo *t = topo_read(NULL, &e);
	const json_t *targets, *cell;
	json_t *found;

	(void)state;
	assert_non_null(t);
	found = measure(t, &c, &e);
	if (!found)
		fail_msg("%s", e.text);
	targets = json_object_get(found, "targets");
	assert_true(json_array_size(targets) >= 1 && json_array_size(targets) <= topo_nodes(t));
	for (size_t i = 0; i < json_array_size(targets); i++) {
		const json_t *target = json_array_get(targets, i);
		const json_t *rows[] = { json_object_get(target, "write"),
					 json_object_get(target, "read") };
		json_int_t placed = json_integer_value(json_object_get(target, "placed"));
		json_int_t threads = json_integer_value(json_object_get(target, "threads"));

		assert_int_equal(json_integer_value(json_object_get(target, "buffer")), 4 * MIB);
		assert_int_equal(json_integer_value(json_object_get(target, "copies")), 2);
		/* On one node without libnuma nobody looks. */
		assert_true(placed == (json_int_t)(4 * MIB * (json_array_size(rows[0]) + 1)) *
			    threads || (topo_nodes(t) == 1 && !placed));
		for (int op = 0; op < MODEL_OPS; op++)
			for (size_t k = 0; k < json_array_size(rows[op]); k++) {
				cell = json_object_get(json_array_get(rows[op], k), "rounds");
				assert_int_equal(json_array_size(cell), 5);
				for (size_t r = 0; r < 5; r++)
					assert_true(json_real_value(json_array_get(cell, r)) > 0);
			}
	}
	json_decref(found);
	topo_free(t);
}

static void test_refused(void **state)
{
	struct measure_config base = { .bytes = 4 * MIB, .copies = 1, .rounds = 5, .stop = &stop };
	struct topo *t = topo_read(NULL, NULL), *four = topo_read(sysfs_make("four"), NULL);
	struct measure_config c = base;
	struct err e = ERR_INIT;

	(void)state;
	c.target = 1000;
	assert_null(measure(t, &c, &e));
	assert_non_null(strstr(e.text, "no node 1000"));
	c.target = 4;
	assert_null(measure(four, &c, &e));
	assert_non_null(strstr(e.text, "no CPUs"));
	c = base;
	c.target = topo_node(t, 0)->id;
	c.threads = IDS_MAX;
	assert_null(measure(t, &c, &e));
	assert_non_null(strstr(e.text, "--threads"));
	c = base;
	c.target = topo_node(t, 0)->id;
	c.threads = 1;
	c.bytes = 1ull << 50;
	assert_null(measure(t, &c, &e));
	assert_non_null(strstr(e.text, "--size"));
	topo_free(t);
	topo_free(four);
}

/* ---- the copying itself ---- */

/* Buffers that are bound to a node where there is none, or to that of nobody's choice. */
static void test_crew_fails(void **state)
{
	struct ids allowed;
	unsigned cpu;
	int nodes[] = { 1023 };
	struct crew_config c = {
		.cpus = &cpu, .threads = 1, .nodes = nodes, .n = 1, .bytes = MIB, .copies = 1,
		.bind = true, .stop = &stop,
	};
	struct topo *t = topo_read(NULL, NULL);
	struct err e = ERR_INIT;

	(void)state;
	assert_int_equal(place_cpus(&allowed), 0);
	cpu = (unsigned)ids_next(&allowed, 0);
	c.target = topo_node(t, 0)->id;
	assert_null(crew_start(&c, &e));
	assert_true(e.text[0] && e.code);
	c.bind = false;
	cpu = IDS_MAX - 1;
	assert_null(crew_start(&c, &e));
	assert_non_null(strstr(e.text, "CPU 8191"));
	topo_free(t);
}

static void test_crew_looks(void **state)
{
	const struct place_count all = { .there = MIB },
		some = { .there = MIB / 2, .elsewhere = MIB / 2 },
		gone = { .there = MIB - 4096, .untouched = 4096 };
	struct err e = ERR_INIT;

	(void)state;
	assert_int_equal(crew_check(&all, 3, MIB, &e), 0);
	assert_int_equal(crew_check(&some, 3, MIB, &e), -EIO);
	assert_non_null(strstr(e.text, "node 3, 512 KiB of 1.0 MiB are there"));
	assert_int_equal(crew_check(&gone, 3, MIB, &e), -EIO);
}

/* A signal ends it between two copies: these would take days. */
static void test_interrupted(void **state)
{
	struct measure_config c = {
		.target = NODE_UNKNOWN, .threads = 1, .bytes = 4 * MIB, .copies = 1000000000,
		.rounds = 1000, .stop = &stop,
	};
	struct topo *t = topo_read(NULL, NULL);
	struct err e = ERR_INIT;
	struct stop mine;
	sigset_t set;
	int sig;

	(void)state;
	stop_begin(&mine);
	c.stop = &mine;
	assert_false(stop_asked(&mine));
	assert_int_equal(kill(getpid(), SIGINT), 0);
	assert_true(stop_asked(&mine));
	assert_null(measure(t, &c, &e));
	assert_int_equal(e.code, -EINTR);
	sigemptyset(&set);
	sigaddset(&set, SIGINT);
	assert_int_equal(sigwait(&set, &sig), 0);
	assert_false(stop_asked(&mine));
	stop_end(&mine);
	topo_free(t);
}

/* Who ignored it goes on. */
static void test_ignored(void **state)
{
	struct stop mine;

	(void)state;
	assert_true(signal(SIGINT, SIG_IGN) != SIG_ERR);
	stop_begin(&mine);
	assert_int_equal(kill(getpid(), SIGINT), 0);
	assert_false(stop_asked(&mine));
	stop_end(&mine);
	signal(SIGINT, SIG_DFL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_bytes),
		cmocka_unit_test(test_fit),
		cmocka_unit_test(test_cpus),
		cmocka_unit_test(test_this),
		cmocka_unit_test(test_refused),
		cmocka_unit_test(test_crew_fails),
		cmocka_unit_test(test_crew_looks),
		cmocka_unit_test(test_interrupted),
		cmocka_unit_test(test_ignored),
	};

	return cmocka_run_group_tests(tests, tmp_setup, tmp_teardown);
}
