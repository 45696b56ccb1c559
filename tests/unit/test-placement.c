// SPDX-License-Identifier: Apache-2.0
/* The node of each part of a transfer. The machine has two nodes: the first one has the first CPU
 * allowed to this process, the second one the second. */
#include "transfer/setup.h"
#include "transfer/placement/placement.h"
#include "tests/support/model-text.h"
#include "tests/support/sysfs.h"

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <sys/sysmacros.h>

#include <cmocka.h>

static struct offer own;
static struct agreement agr;
static char top[8192];
static int cpu[2];
static bool source;

static void write_cpus(unsigned node, int id)
{
	char path[sizeof(top) + 64], text[16] = "\n";

	snprintf(path, sizeof(path), "%s/devices/system/node/node%u/cpulist", top, node);
	if (id >= 0)
		snprintf(text, sizeof(text), "%d\n", id);
	assert_int_equal(write_file_atomic(path, text, strlen(text), 0644, NULL), 0);
}

static int set_up(void **state)
{
	struct ids allowed;

	if (tmp_setup(state) || place_cpus(&allowed))
		return -1;
	cpu[0] = ids_next(&allowed, 0);
	cpu[1] = ids_next(&allowed, (unsigned)cpu[0] + 1);
	snprintf(top, sizeof(top), "%s", sysfs_make("two"));
	setenv("RFTP_SYSFS", top, 1);
	/* Three NICs: on node 0, on node 1, and on an unknown node. */
	own.nnics = 3;
	for (unsigned i = 0; i < 3; i++) {
		snprintf(own.nics[i].name, sizeof(own.nics[i].name), "eth%u", i);
		own.nics[i].node = (int16_t)(i < 2 ? (int)i : NODE_UNKNOWN);
		agr.client_nic[i] = (uint8_t)i;
		agr.server_nic[i] = (uint8_t)(2 - i);
	}
	agr.transport = TRANSPORT_TCP;
	agr.paths = 3;
	agr.channels = 1;
	return 0;
}

static int take_down(void **state)
{
	unsetenv("RFTP_SYSFS");
	return tmp_teardown(state);
}

static struct placement *made(const struct place_wish *w, bool client, int storage)
{
	struct placement_config c = { .wish = w, .own = &own, .agr = &agr, .client = client,
				      .source = source, .storage = storage };
	struct err e = ERR_INIT;
	struct placement *p = placement_new(&c, &e);

	if (!p)
		fail_msg("%s", e.text);
	return p;
}

static void test_modes(void **state)
{
	static const struct {
		struct place_wish wish;
		bool client;
		int node[4]; /* of paths 0 to 2, and of a path that does not exist */
	} cases[] = {
		{ { .mode = PLACE_AUTO }, true, { 0, 1, -1, -1 } },
		{ { .mode = PLACE_AUTO }, false, { -1, 1, 0, -1 } },
		{ { .mode = PLACE_OFF }, true, { -1, -1, -1, -1 } },
		{ { .mode = PLACE_OFF, .cores = true }, true, { -1, -1, -1, -1 } },
		{ { .mode = PLACE_NODE, .node = 1 }, true, { 1, 1, 1, -1 } },
		{ { .mode = PLACE_NIC }, true, { 0, 1, -1, -1 } },
		{ { .mode = PLACE_STORAGE }, true, { 0, 1, -1, -1 } }, /* unknown storage */
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct placement *p = made(&cases[i].wish, cases[i].client, -1);

		for (uint32_t k = 0; k < 4; k++)
			if (placement_node(p, k) != cases[i].node[k])
				fail_msg("case %zu: path %u is on %d, not %d", i, k,
					 placement_node(p, k), cases[i].node[k]);
		placement_free(p);
	}
}

static void storage_is(const struct placement *p, const char *want)
{
	char text[64];

	assert_string_equal(ids_format(text, sizeof(text), placement_storage(p)), want);
}

static void test_storage(void **state)
{
	struct place_wish w = { .mode = PLACE_NIC };
	struct placement *p = made(&w, true, -1);

	(void)state;
	storage_is(p, "0-1");
	placement_free(p);
	w = (struct place_wish){ .mode = PLACE_NODE, .node = 1 };
	p = made(&w, true, -1);
	storage_is(p, "1");
	placement_free(p);
	w.mode = PLACE_AUTO;
	p = made(&w, true, -1);
	storage_is(p, "");
	placement_free(p);
}

/* Opens the fixture's disk 259:1, on node 0. Negative without root, which mknod() needs. */
static int open_disk(void)
{
	mknod(tmp_at("disk"), S_IFBLK | 0600, makedev(259, 1));
	return open(tmp_at("disk"), O_PATH);
}

static void distances_are(const struct placement *p, enum sched_distance zero,
			  enum sched_distance one)
{
	assert_int_equal(placement_distance(p, 0), zero);
	assert_int_equal(placement_distance(p, 1), one);
	assert_int_equal(placement_distance(p, 2), SCHED_LOCAL); /* node unknown */
	assert_int_equal(placement_distance(p, 3), SCHED_LOCAL); /* the standby path */
}

static void test_known_storage(void **state)
{
	struct place_wish w = { .mode = PLACE_AUTO };
	int fd = open_disk();
	struct placement *p;

	(void)state;
	if (fd < 0)
		skip();
	write_cpus(0, cpu[0]);
	p = made(&w, true, fd);
	storage_is(p, "0");
	distances_are(p, SCHED_LOCAL, SCHED_FAR);
	assert_int_equal(placement_io_width(p), 1);
	placement_free(p);
	/* All paths run on the storage's node, also those with an unknown node. */
	w.mode = PLACE_STORAGE;
	p = made(&w, true, fd);
	for (uint32_t i = 0; i < 3; i++)
		assert_int_equal(placement_node(p, i), 0);
	distances_are(p, SCHED_LOCAL, SCHED_LOCAL);
	placement_free(p);
	w.mode = PLACE_OFF;
	p = made(&w, true, fd);
	storage_is(p, "");
	placement_free(p);
	close(fd);
}

/* In the model, reads from node 0's disk into node 1 are as fast as into node 0; writes are
 * slower. */
static void test_near(void **state)
{
	struct place_wish w = { .mode = PLACE_AUTO };
	struct err e = ERR_INIT;
	struct topo *t = topo_read(NULL, &e);
	static const struct text_row write = { { 8, .8 }, { 1, 2 } }, read = { { 8, 8 }, { 1, 1 } };
	CLEANUP_FREE char *text = model_text(t, 0, &write, &read);
	int fd = open_disk();
	struct placement *p;

	(void)state;
	assert_int_equal(write_file_atomic(tmp_at("model"), text, strlen(text), 0644, &e), 0);
	topo_free(t);
	setenv("RFTP_NUMA_MODEL", tmp_at("model"), 1);
	source = true;
	p = fd < 0 ? NULL : made(&w, true, fd);
	if (p)
		distances_are(p, SCHED_LOCAL, SCHED_NEAR);
	placement_free(p);
	source = false;
	p = fd < 0 ? NULL : made(&w, true, fd);
	if (p)
		distances_are(p, SCHED_LOCAL, SCHED_FAR);
	placement_free(p);
	unsetenv("RFTP_NUMA_MODEL");
	if (fd < 0)
		skip();
	close(fd);
}

/* want -1: no CPU is set */
static void on_cpu(struct ids got, int want)
{
	assert_int_equal(ids_count(&got), want >= 0);
	assert_int_equal(ids_only(&got), want);
}

static void test_cpus(void **state)
{
	struct place_wish w = { .mode = PLACE_AUTO };
	struct placement *p;

	(void)state;
	if (cpu[1] < 0)
		skip();
	write_cpus(0, cpu[0]);
	write_cpus(1, cpu[1]);
	p = made(&w, true, -1);
	on_cpu(placement_path_cpus(p, 0), cpu[0]);
	on_cpu(placement_path_cpus(p, 1), cpu[1]);
	on_cpu(placement_path_cpus(p, 2), -1); /* node unknown */
	on_cpu(placement_path_cpus(p, 3), -1); /* the standby path */
	on_cpu(placement_io_cpus(p), -1);
	placement_free(p);
	w.mode = PLACE_NODE;
	w.node = 1;
	p = made(&w, true, -1);
	on_cpu(placement_path_cpus(p, 0), cpu[1]);
	on_cpu(placement_io_cpus(p), cpu[1]);
	placement_free(p);
}

/* Node 1 has no CPU allowed to this process: its threads run near it, its memory stays on it. */
static void test_no_cpus(void **state)
{
	struct place_wish w = { .mode = PLACE_AUTO };
	struct placement *p;

	(void)state;
	write_cpus(0, cpu[0]);
	write_cpus(1, -1);
	p = made(&w, true, -1);
	assert_int_equal(placement_node(p, 1), 1);
	on_cpu(placement_path_cpus(p, 1), cpu[0]);
	placement_free(p);
}

static void test_cores(void **state)
{
	struct place_wish w = { .mode = PLACE_OFF, .cores = true };
	struct ids all;
	struct placement *p = made(&w, true, -1);

	(void)state;
	assert_int_equal(place_cpus(&all), 0);
	/* Each allowed CPU once, then again from the first. */
	for (unsigned round = 0; round < 2; round++) {
		struct ids seen = { 0 };

		for (unsigned i = 0; i < ids_count(&all); i++) {
			struct ids one = i % 2 ? placement_io_cpus(p) : placement_path_cpus(p, 0);

			assert_int_equal(ids_count(&one), 1);
			assert_false(ids_has(&seen, (unsigned)ids_only(&one)));
			ids_unite(&seen, &one);
		}
	}
	placement_free(p);
}

/* Two transfers of one process share the CPUs. */
static void test_cores_together(void **state)
{
	struct place_wish w = { .mode = PLACE_OFF, .cores = true };
	struct placement *a = made(&w, true, -1), *b = made(&w, true, -1);
	struct ids x = placement_path_cpus(a, 0), y = placement_path_cpus(b, 0);

	(void)state;
	if (cpu[1] >= 0)
		assert_int_not_equal(ids_only(&x), ids_only(&y));
	placement_free(a);
	placement_free(b);
	a = made(&w, true, -1);
	on_cpu(placement_path_cpus(a, 0), cpu[0]); /* both have returned their CPUs */
	placement_free(a);
}

/* A path without a node gets an ordinary pool. */
static void test_pool(void **state)
{
	struct place_wish w = { .mode = PLACE_AUTO };
	struct placement *p = made(&w, true, -1);
	struct pool_config c = { .blocks = 2, .payload = BLOCK_MIN };
	struct err e = ERR_INIT;
	struct pool *pool = placement_pool(p, 2, &c, &e);

	(void)state;
	assert_non_null(pool);
	pool_free(pool);
	/* Also after a request for a path with a node: c is not changed. */
	pool = placement_pool(p, 0, &c, &e);
	assert_non_null(pool);
	pool_free(pool);
	assert_true(!c.bind && !c.bind_arg && c.pages == PAGES_SMALL);
	pool = placement_pool(p, 2, &c, &e);
	assert_non_null(pool);
	pool_free(pool);
	pool = placement_pool(NULL, 0, &c, &e);
	assert_non_null(pool);
	pool_free(pool);
	placement_free(p);
}

/* Threads for files: one per CPU of the storage, limited by the need of the paths and disks. */
static void test_threads(void **state)
{
	static const struct {
		unsigned cpus;
		uint32_t mbps;
		bool rotating;
		unsigned threads;
	} cases[] = {
		{ 1, 10000, false, 2 },
		{ 6, 10000, false, 6 },
		{ 64, 10000, false, 8 },
		{ 64, 0, false, 8 },
		{ 64, 400000, false, 18 },
		{ 12, 400000, false, 12 },
		{ 64, 400000, true, 4 },
		{ 1, 400000, true, 2 },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct agreement a = { .mbps = cases[i].mbps, .rotating = cases[i].rotating };

		assert_int_equal(tuning_threads(&a, cases[i].cpus), cases[i].threads);
	}
	/* 0 CPUs: no restriction, so all CPUs count. */
	assert_in_range(tuning_threads(&(struct agreement){ .mbps = 10000 }, 0), 2, 8);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_modes),
		cmocka_unit_test(test_storage),
		cmocka_unit_test(test_known_storage),
		cmocka_unit_test(test_near),
		cmocka_unit_test(test_cpus),
		cmocka_unit_test(test_no_cpus),
		cmocka_unit_test(test_cores),
		cmocka_unit_test(test_cores_together),
		cmocka_unit_test(test_pool),
		cmocka_unit_test(test_threads),
	};

	return cmocka_run_group_tests_name("placement", tests, set_up, take_down);
}
