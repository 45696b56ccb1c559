// SPDX-License-Identifier: Apache-2.0
/* Machines of one, two, four and eight nodes, as sysfs describes them. */
#include "numa/topo.h"
#include "tests/support/sysfs.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <sys/sysmacros.h>

#include <cmocka.h>

static struct topo *machine(const char *name)
{
	struct err e = ERR_INIT;
	struct topo *t = topo_read(sysfs_make(name), &e);

	if (!t)
		fail_msg("%s", e.text);
	return t;
}

static void cpus_are(const struct topo *t, int id, const char *want)
{
	char text[64];

	assert_non_null(topo_find(t, id));
	assert_string_equal(ids_format(text, sizeof(text), &topo_find(t, id)->cpus), want);
}

static void test_one(void **state)
{
	struct topo *t = machine("one");

	(void)state;
	assert_int_equal(topo_nodes(t), 1);
	cpus_are(t, 0, "0-3");
	assert_int_equal(topo_node(t, 0)->memory, 16384000ull << 10);
	assert_int_equal(topo_node(t, 0)->memory_free, 8192000ull << 10);
	assert_int_equal(topo_distance(t, 0, 0), 10);
	assert_int_equal(topo_netdev(t, "eth0"), NODE_UNKNOWN); /* the firmware says nothing */
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
	struct topo *t = machine("two");

	(void)state;
	assert_int_equal(topo_nodes(t), 2);
	cpus_are(t, 0, "0-7,16-23");
	cpus_are(t, 1, "8-15,24-31");
	assert_int_equal(topo_distance(t, 0, 1), 21);
	assert_int_equal(topo_node(t, 1)->memory, 262144ull << 10);
	for (size_t i = 0; i < sizeof(netdevs) / sizeof(netdevs[0]); i++)
		if (topo_netdev(t, netdevs[i].name) != netdevs[i].node)
			fail_msg("%s is on node %d", netdevs[i].name,
				 topo_netdev(t, netdevs[i].name));
	for (size_t i = 0; i < sizeof(rdma) / sizeof(rdma[0]); i++)
		if (topo_rdma(t, rdma[i].name) != rdma[i].node)
			fail_msg("%s is on node %d", rdma[i].name, topo_rdma(t, rdma[i].name));
	topo_free(t);
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
		{ "none", "" },
	};
	struct topo *t = machine("two");

	(void)state;
	for (size_t i = 0; i < sizeof(disks) / sizeof(disks[0]); i++) {
		struct ids s = topo_block(t, disks[i].name);

		nodes_are(&s, disks[i].name, disks[i].nodes);
	}
	topo_free(t);
}

static void test_mounts(void **state)
{
	static const char mountinfo[] =
		"22 1 259:1 / / rw,relatime shared:1 - xfs /dev/nvme0n1p1 rw,attr2\n"
		"23 22 0:21 / /dev/shm rw shared:2 - tmpfs tmpfs rw,size=64k\n"
		"24 22 0:22 / /t1 rw shared:3 - tmpfs tmpfs rw,size=1g,mpol=bind:1\n"
		"25 22 0:23 / /t2 rw shared:4 - tmpfs tmpfs rw,mpol=interleave:0-1,size=1g\n"
		"26 22 0:24 / /t3 rw - tmpfs tmpfs rw,mpol=bind=static:0,1,noswap\n"
		"27 22 0:25 / /t4 rw - tmpfs tmpfs rw,mpol=local\n"
		"28 22 0:26 / /t\\0405 rw - tmpfs none rw,mpol=prefer:1\n"
		"29 22 0:27 / /b rw - btrfs /dev/none rw\n";
	static const struct { unsigned major, minor; const char *nodes; } devs[] = {
		{ 0, 21, "" }, { 0, 22, "1" }, { 0, 23, "0-1" }, { 0, 24, "0-1" }, { 0, 25, "" },
		{ 0, 26, "1" }, { 0, 27, "" }, { 0, 99, "" },
	};
	struct topo *t = machine("two");

	(void)state;
	for (size_t i = 0; i < sizeof(devs) / sizeof(devs[0]); i++) {
		struct ids s = mount_nodes(t, mountinfo, makedev(devs[i].major, devs[i].minor));

		nodes_are(&s, "a mount", devs[i].nodes);
	}
	topo_free(t);
}

static void test_four(void **state)
{
	struct topo *t = machine("four");

	(void)state;
	assert_int_equal(topo_nodes(t), 4);
	assert_null(topo_find(t, 1));
	cpus_are(t, 3, "12-17");
	cpus_are(t, 4, "");
	/* The kernel lists distances of the nodes there are. */
	assert_int_equal(topo_distance(t, 0, 4), 17);
	assert_int_equal(topo_distance(t, 3, 0), 31);
	assert_int_equal(topo_distance(t, 2, 1), DISTANCE_UNKNOWN);
	assert_int_equal(topo_netdev(t, "p1"), 3);
	topo_free(t);
}

static void test_eight(void **state)
{
	struct topo *t = machine("eight");

	(void)state;
	assert_int_equal(topo_nodes(t), 8);
	assert_int_equal(topo_distance(t, 7, 6), 16);
	assert_int_equal(topo_distance(t, 7, 4), 22);
	assert_int_equal(topo_rdma(t, "mlx4_0"), 7);
	assert_int_equal(topo_netdev(t, "eth4"), 7);
	topo_free(t);
}

/* A kernel that knows nothing of nodes, and none at all. */
static void test_none(void **state)
{
	struct err e = ERR_INIT;
	struct topo *t;
	char path[5000];

	(void)state;
	snprintf(path, sizeof(path), "%s/empty/devices/system/cpu", tmp_dir);
	assert_int_equal(make_dirs(path, 0755), 0);
	snprintf(path, sizeof(path), "%s/empty/devices/system/cpu/online", tmp_dir);
	assert_int_equal(write_file_atomic(path, "0-1\n", 4, 0644), 0);
	snprintf(path, sizeof(path), "%s/empty", tmp_dir);
	assert_int_equal(setenv("RFTP_SYSFS", path, 1), 0);
	t = topo_read(NULL, &e);
	assert_non_null(t);
	assert_int_equal(topo_nodes(t), 1);
	cpus_are(t, 0, "0-1");
	assert_true(topo_node(t, 0)->memory > 0);
	assert_int_equal(topo_distance(t, 0, 0), 10);
	topo_free(t);
	unsetenv("RFTP_SYSFS");
	snprintf(path, sizeof(path), "%s/nowhere", tmp_dir);
	assert_null(topo_read(path, &e));
	assert_int_equal(e.code, -ENOENT);
}

/* This one, whatever it is. */
static void test_this(void **state)
{
	struct err e = ERR_INIT;
	struct topo *t = topo_read(NULL, &e);
	unsigned cpus = 0;
	struct ids s;

	(void)state;
	assert_non_null(t);
	for (unsigned i = 0; i < topo_nodes(t); i++)
		cpus += ids_count(&topo_node(t, i)->cpus);
	assert_true(cpus >= cpus_allowed());
	assert_int_equal(topo_distance(t, topo_node(t, 0)->id, topo_node(t, 0)->id), 10);
	s = topo_path(t, tmp_dir);
	if (getenv("TEST_NODES"))
		nodes_are(&s, tmp_dir, getenv("TEST_NODES"));
	for (int id = -1; (id = ids_next(&s, (unsigned)(id + 1))) >= 0;)
		assert_non_null(topo_find(t, id));
	s = topo_path(t, "/nowhere/at/all");
	assert_int_equal(ids_count(&s), 0);
	topo_free(t);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_one),
		cmocka_unit_test(test_two),
		cmocka_unit_test(test_disks),
		cmocka_unit_test(test_mounts),
		cmocka_unit_test(test_four),
		cmocka_unit_test(test_eight),
		cmocka_unit_test(test_none),
		cmocka_unit_test(test_this),
	};

	return cmocka_run_group_tests(tests, tmp_setup, tmp_teardown);
}
