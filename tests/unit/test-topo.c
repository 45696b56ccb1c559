// SPDX-License-Identifier: Apache-2.0
/* Machines of one, two, four and eight nodes, as sysfs describes them. */
#include "numa/topo.h"
#include "tests/support/sysfs.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include <cmocka.h>

static void cpus_are(const struct topo *t, int id, const char *want)
{
	char text[64];

	assert_non_null(topo_find(t, id));
	assert_string_equal(ids_format(text, sizeof(text), &topo_find(t, id)->cpus), want);
}

static void test_one(void **state)
{
	struct topo *t = sysfs_topo("one");

	(void)state;
	assert_int_equal(topo_nodes(t), 1);
	cpus_are(t, 0, "0-3");
	assert_int_equal(topo_distance(t, 0, 0), 10);
	assert_int_equal(topo_netdev(t, "eth0"), NODE_UNKNOWN); /* the firmware gives no node */
	assert_int_equal(topo_netdev(t, "lo"), NODE_UNKNOWN);
	assert_int_equal(topo_netdev(t, "none"), NODE_UNKNOWN);
	assert_int_equal(topo_rdma(t, "mlx5_0"), NODE_UNKNOWN);
	assert_null(topo_find(t, 1));
	topo_free(t);
}

static void test_two(void **state)
{
	static const struct { const char *name; int node; } netdevs[] = {
		{ "ens1f0", 0 }, { "ens2f0", 1 }, { "eth0", 1 }, { "ens3", 1 },
		{ "ens4", NODE_UNKNOWN }, { "ens2f0.100", 1 }, { "bond1", 1 },
		{ "bond0", NODE_UNKNOWN }, { "br1", 1 }, { "lo", NODE_UNKNOWN },
		{ "snake", NODE_UNKNOWN }, { "../../devices", NODE_UNKNOWN },
	}, rdma[] = {
		{ "mlx5_0", 0 }, { "mlx5_1", 1 }, { "rxe0", 1 }, { "siw0", 1 },
		{ "rxe1", NODE_UNKNOWN },
	};
	struct topo *t = sysfs_topo("two");

	(void)state;
	assert_int_equal(topo_nodes(t), 2);
	cpus_are(t, 0, "0-7,16-23");
	cpus_are(t, 1, "8-15,24-31");
	assert_int_equal(topo_distance(t, 0, 1), 21);
	for (size_t i = 0; i < sizeof(netdevs) / sizeof(netdevs[0]); i++)
		if (topo_netdev(t, netdevs[i].name) != netdevs[i].node)
			fail_msg("%s is on node %d", netdevs[i].name,
				 topo_netdev(t, netdevs[i].name));
	for (size_t i = 0; i < sizeof(rdma) / sizeof(rdma[0]); i++)
		if (topo_rdma(t, rdma[i].name) != rdma[i].node)
			fail_msg("%s is on node %d", rdma[i].name, topo_rdma(t, rdma[i].name));
	topo_free(t);
}

static void test_rdma_of(void **state)
{
	static const struct { const char *machine, *netdev, *device; } cases[] = {
		{ "two", "ens1f0", "mlx5_0" },
		{ "two", "ens2f0", "mlx5_1" }, /* not rxe0, which uses the same interface */
		{ "two", "bond1", "siw0" },    /* found by its GID */
		{ "two", "lo", "rxe1" },
		{ "two", "eth0", "" }, { "two", "ens2f0.100", "" }, { "two", "none", "" },
		{ "two", "..", "" }, { "two", "", "" },
		{ "eight", "eth4", "mlx4_0" }, { "one", "eth0", "" }, { "four", "p1", "" },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct topo *t = sysfs_topo(cases[i].machine);
		char device[RDMA_NAME] = "?";
		int r = topo_netdev_rdma(t, cases[i].netdev, NULL, device);

		if (strcmp(device, cases[i].device) != 0)
			fail_msg("%s of %s has \"%s\"", cases[i].netdev, cases[i].machine, device);
		/* Only the machines "two" and "eight" have RDMA devices. */
		assert_int_equal(r, *device ? 0 : strcmp(cases[i].machine, "two") ? -ENODEV :
				 -ENOENT);
		topo_free(t);
	}
}

static void nodes_are(const struct ids *s, const char *what, const char *want)
{
	char text[64];

	if (strcmp(ids_format(text, sizeof(text), s), want))
		fail_msg("%s is on \"%s\"", what, text);
}

static void test_disks(void **state)
{
	static const struct { const char *name, *nodes; } disks[] = {
		{ "nvme0n1", "0" }, { "nvme0n1p1", "0" }, { "nvme1n1", "1" }, { "md0", "0-1" },
		{ "dm-0", "0" }, { "dm-1", "0-1" }, { "ram0", "" }, { "sdc", "1" }, { "sdd", "" },
		{ "sde", "" }, { "sdf", "" }, { "none", "" },
	};
	struct topo *t = sysfs_topo("two");

	(void)state;
	for (size_t i = 0; i < sizeof(disks) / sizeof(disks[0]); i++) {
		struct ids s = topo_block(t, disks[i].name);

		nodes_are(&s, disks[i].name, disks[i].nodes);
		assert_int_equal(topo_has_block(t, disks[i].name), !!strcmp(disks[i].name, "none"));
	}
	topo_free(t);
}

/* A saved copy of a sysfs tree has the name of its machine. */
static void test_copy(void **state)
{
	struct err e = ERR_INIT;
	char path[5000];
	struct ids s;
	struct topo *t;

	(void)state;
	snprintf(path, sizeof(path), "%s/host12/session3", tmp_dir);
	assert_int_equal(make_dirs(path, 0755), 0);
	snprintf(path, sizeof(path), "%s/host12/session3/sys", tmp_dir);
	assert_int_equal(rename(sysfs_make("two"), path), 0);
	t = topo_read(path, &e);
	assert_non_null(t);
	s = topo_block(t, "sdc");
	nodes_are(&s, "sdc", "1");
	topo_free(t);
}

/* In a copy of a sysfs tree, a loop device's backing file is not looked up on this machine. */
static void test_loop(void **state)
{
	char top[8192], path[9000], disk[9000];
	struct err e = ERR_INIT;
	struct stat st;
	struct topo *t;
	struct ids s;

	(void)state;
	snprintf(top, sizeof(top), "%s", sysfs_make("two"));
	snprintf(path, sizeof(path), "%s/class/block/loop9/loop", top);
	assert_int_equal(make_dirs(path, 0755), 0);
	snprintf(path, sizeof(path), "%s/class/block/loop9/loop/backing_file", top);
	assert_int_equal(write_file_atomic(path, tmp_dir, strlen(tmp_dir), 0644, NULL), 0);
	assert_int_equal(stat(tmp_dir, &st), 0);
	snprintf(path, sizeof(path), "%s/dev/block/%u:%u", top, major(st.st_dev),
		 minor(st.st_dev));
	snprintf(disk, sizeof(disk), "%s/class/block/nvme0n1", top);
	assert_int_equal(symlink(disk, path), 0);
	t = topo_read(top, &e);
	assert_non_null(t);
	s = topo_device(t, st.st_dev);
	nodes_are(&s, "the disk with its number", "0");
	s = topo_block(t, "loop9");
	nodes_are(&s, "loop9", "");
	topo_free(t);
}

static void test_tmpfs(void **state)
{
	static const struct { const char *options, *nodes; } cases[] = {
		{ "rw,size=64k", "" },
		{ "rw,size=1g,mpol=bind:1", "1" },
		{ "rw,mpol=interleave:0-1,size=1g", "0-1" },
		{ "rw,mpol=bind=static:0,1,noswap", "0-1" },
		{ "rw,mpol=local", "" },
		{ "mpol=prefer:1", "1" },
		{ "rw,nompol=prefer:1", "" },
		{ "rw,mpol=bind:", "" },
		{ "rw,mpol=bind:1-", "1" },
		{ "", "" },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct ids s = tmpfs_nodes(cases[i].options);

		nodes_are(&s, cases[i].options, cases[i].nodes);
	}
}

static void test_memory(void **state)
{
	struct topo *t = sysfs_topo("two");
	struct node_memory m;

	(void)state;
	assert_int_equal(topo_memory(t, 0, &m), 0);
	assert_int_equal(m.total, 128ull << 20);
	assert_int_equal(m.free, 64ull << 20);
	assert_int_equal(m.room, 64ull << 20);
	assert_int_equal(topo_memory(t, 1, &m), 0);
	assert_int_equal(m.total, 256ull << 20);
	assert_int_equal(m.free, 1ull << 20);
	assert_int_equal(m.room, 49ull << 20); /* includes the page cache */
	assert_int_equal(topo_memory(t, 2, &m), -ENOENT);
	assert_int_equal(m.total, 0);
	topo_free(t);
}

static void test_four(void **state)
{
	struct topo *t = sysfs_topo("four");
	struct ids cpus;

	(void)state;
	assert_int_equal(topo_nodes(t), 4);
	assert_null(topo_find(t, 1));
	cpus_are(t, 3, "12-17");
	cpus_are(t, 4, "");
	/* The kernel lists distances to existing nodes only. */
	assert_int_equal(topo_distance(t, 0, 4), 17);
	assert_int_equal(topo_distance(t, 3, 0), 31);
	assert_int_equal(topo_distance(t, 2, 1), DISTANCE_UNKNOWN);
	assert_int_equal(topo_netdev(t, "p1"), 3);
	assert_int_equal(ids_parse("0,13-14,999", &cpus), 0);
	cpus = topo_cores(t, &cpus);
	nodes_are(&cpus, "a core of three, of which two may be used", "0,13,999");
	topo_free(t);
}

static void test_eight(void **state)
{
	struct topo *t = sysfs_topo("eight");

	(void)state;
	assert_int_equal(topo_nodes(t), 8);
	assert_int_equal(topo_distance(t, 7, 6), 16);
	assert_int_equal(topo_distance(t, 7, 4), 22);
	assert_int_equal(topo_rdma(t, "mlx4_0"), 7);
	assert_int_equal(topo_netdev(t, "eth4"), 7);
	topo_free(t);
}

static void test_cores(void **state)
{
	static const struct { const char *cpus, *firsts; } cases[] = {
		{ "0-7,16-23", "0-7" }, { "16-23", "16-23" }, { "3,19", "3" }, { "4,18,20", "4,18" },
		{ "", "" }, { "100", "100" },
	};
	struct topo *t = sysfs_topo("two");
	struct ids cpus;

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		assert_int_equal(ids_parse(cases[i].cpus, &cpus), 0);
		cpus = topo_cores(t, &cpus);
		nodes_are(&cpus, cases[i].cpus, cases[i].firsts);
	}
	topo_free(t);
}

/* A kernel without NUMA support, and a missing sysfs. */
static void test_none(void **state)
{
	struct err e = ERR_INIT;
	struct node_memory m;
	struct topo *t;
	char path[5000];

	(void)state;
	snprintf(path, sizeof(path), "%s/empty/devices/system/cpu", tmp_dir);
	assert_int_equal(make_dirs(path, 0755), 0);
	snprintf(path, sizeof(path), "%s/empty/devices/system/cpu/online", tmp_dir);
	assert_int_equal(write_file_atomic(path, "0-1\n", 4, 0644, NULL), 0);
	snprintf(path, sizeof(path), "%s/empty", tmp_dir);
	assert_int_equal(setenv("RFTP_SYSFS", path, 1), 0);
	t = topo_read(NULL, &e);
	assert_non_null(t);
	assert_int_equal(topo_nodes(t), 1);
	cpus_are(t, 0, "0-1");
	assert_int_equal(topo_memory(t, 0, &m), -ENOENT); /* not this machine's memory */
	assert_int_equal(topo_distance(t, 0, 0), 10);
	topo_free(t);
	unsetenv("RFTP_SYSFS");
	snprintf(path, sizeof(path), "%s/nowhere", tmp_dir);
	assert_null(topo_read(path, &e));
	assert_int_equal(e.code, -ENOENT);
	assert_null(topo_read("", &e));
}

/* A missing or malformed sysfs is an error, not a machine with one node. */
static void test_no_sysfs(void **state)
{
	static const char *const nonsense[] = { "0-", "1-0\n", "0-9000\n", "nodes", "-1\n" };
	struct err e = ERR_INIT;
	char path[9000], top[8192];

	(void)state;
	assert_null(topo_read(tmp_dir, &e));
	assert_int_equal(e.code, -ENOENT);
	assert_non_null(strstr(e.text, "is not a sysfs"));
	snprintf(top, sizeof(top), "%s", sysfs_make("two"));
	snprintf(path, sizeof(path), "%s/devices/system/node/online", top);
	for (size_t i = 0; i < sizeof(nonsense) / sizeof(nonsense[0]); i++) {
		assert_int_equal(write_file_atomic(path, nonsense[i], strlen(nonsense[i]), 0644, NULL),
				 0);
		if (topo_read(top, &e))
			fail_msg("\"%s\" is a list of nodes", nonsense[i]);
		assert_non_null(strstr(e.text, "node/online is not a list of nodes"));
	}
}

/* The machine that runs the test. */
static void test_this(void **state)
{
	struct err e = ERR_INIT;
	struct topo *t = topo_read(NULL, &e);
	unsigned cpus = 0;

	(void)state;
	assert_non_null(t);
	for (unsigned i = 0; i < topo_nodes(t); i++)
		cpus += ids_count(&topo_node(t, i)->cpus);
	assert_true(cpus >= cpus_allowed());
	assert_int_equal(topo_distance(t, topo_node(t, 0)->id, topo_node(t, 0)->id), 10);
	topo_free(t);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_one),
		cmocka_unit_test(test_two),
		cmocka_unit_test(test_rdma_of),
		cmocka_unit_test(test_disks),
		cmocka_unit_test(test_copy),
		cmocka_unit_test(test_loop),
		cmocka_unit_test(test_tmpfs),
		cmocka_unit_test(test_memory),
		cmocka_unit_test(test_four),
		cmocka_unit_test(test_eight),
		cmocka_unit_test(test_cores),
		cmocka_unit_test(test_none),
		cmocka_unit_test(test_no_sysfs),
		cmocka_unit_test(test_this),
	};

	return cmocka_run_group_tests(tests, tmp_setup, tmp_teardown);
}
