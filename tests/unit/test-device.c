// SPDX-License-Identifier: Apache-2.0
/* Whether a device rotates, from trees in the form of sysfs; its NUMA node; and the disk address of
 * a file. */
#include "storage/internal.h"
#include "tests/support/tmptree.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <sys/mman.h>
#include <sys/sysmacros.h>

#include <cmocka.h>

static char sysfs[sizeof(tmp_dir) + 8];

/* Makes path and its parent directories. */
static void make_path(const char *path)
{
	assert_int_equal(make_dirs(path, 0755), 0);
}

/* Makes the disk devices/WHERE; rotational: the content of queue/rotational, NULL: no such file. */
static void disk(const char *where, const char *rotational)
{
	char path[sizeof(sysfs) + 256];

	snprintf(path, sizeof(path), "%s/devices/%s/slaves", sysfs, where);
	make_path(path);
	snprintf(path, sizeof(path), "%s/devices/%s/queue", sysfs, where);
	make_path(path);
	if (!rotational)
		return;
	strcat(path, "/rotational");
	assert_int_equal(write_file_atomic(path, rotational, strlen(rotational), 0644, NULL), 0);
}

static void partition(const char *where)
{
	char path[sizeof(sysfs) + 256];

	snprintf(path, sizeof(path), "%s/devices/%s", sysfs, where);
	make_path(path);
}

/* Links dev/block/NUMBERS to devices/WHERE, as the kernel does. */
static void number(const char *numbers, const char *where)
{
	char path[sizeof(sysfs) + 256], to[256];

	snprintf(path, sizeof(path), "%s/dev/block", sysfs);
	make_path(path);
	snprintf(path, sizeof(path), "%s/dev/block/%s", sysfs, numbers);
	snprintf(to, sizeof(to), "../../devices/%s", where);
	assert_int_equal(symlink(to, path), 0);
}

/* Makes devices/TO a slave of devices/WHERE; both are two directories deep. */
static void slave(const char *where, const char *name, const char *to)
{
	char path[sizeof(sysfs) + 256], link[300];

	snprintf(path, sizeof(path), "%s/devices/%s/slaves/%s", sysfs, where, name);
	snprintf(link, sizeof(link), "../../../../%s", to);
	assert_int_equal(symlink(link, path), 0);
}

/* sda rotates and has a partition, sdb does not rotate; LVM over sda1, RAID 1 of both, LVM over a
 * partition of that RAID, a stripe of flash only. */
static int set_up(void **state)
{
	if (tmp_setup(state))
		return -1;
	snprintf(sysfs, sizeof(sysfs), "%s/sys", tmp_dir);
	disk("ata1/block/sda", "1\n");
	partition("ata1/block/sda/sda1");
	disk("ata2/block/sdb", "0\n");
	partition("ata2/block/sdb/sdb1");
	disk("pci/block/odd", NULL);
	disk("pci/block/text", "fast\n");
	disk("virtual/block/dm-0", "0\n");
	slave("virtual/block/dm-0", "sda1", "ata1/block/sda/sda1");
	disk("virtual/block/md0", "0\n");
	slave("virtual/block/md0", "sdb", "ata2/block/sdb");
	slave("virtual/block/md0", "sda", "ata1/block/sda");
	partition("virtual/block/md0/md0p1");
	disk("virtual/block/dm-1", "0\n");
	slave("virtual/block/dm-1", "md0p1", "virtual/block/md0/md0p1");
	disk("virtual/block/dm-2", "1\n");
	slave("virtual/block/dm-2", "sdb1", "ata2/block/sdb/sdb1");
	disk("virtual/block/dm-3", "1\n");
	slave("virtual/block/dm-3", "odd", "pci/block/odd");
	disk("virtual/block/dm-4", "0\n");
	slave("virtual/block/dm-4", "dm-4", "virtual/block/dm-4");
	number("8:0", "ata1/block/sda");
	number("8:1", "ata1/block/sda/sda1");
	number("8:16", "ata2/block/sdb");
	number("8:17", "ata2/block/sdb/sdb1");
	number("252:0", "pci/block/odd");
	number("252:1", "pci/block/text");
	number("253:0", "virtual/block/dm-0");
	number("253:1", "virtual/block/dm-1");
	number("253:2", "virtual/block/dm-2");
	number("253:3", "virtual/block/dm-3");
	number("253:4", "virtual/block/dm-4");
	number("9:0", "virtual/block/md0");
	number("259:0", "virtual/block/md0/md0p1");
	return 0;
}

static void test_rotates(void **state)
{
	static const struct {
		unsigned major, minor;
		int rotates;
	} cases[] = {
		{ 8, 0, 1 },
		{ 8, 1, 1 },    /* a partition has its disk's value */
		{ 8, 16, 0 },
		{ 8, 17, 0 },
		{ 252, 0, -1 }, /* no such file */
		{ 252, 1, -1 }, /* not a number */
		{ 253, 0, 1 },  /* the mapper's own value is ignored */
		{ 9, 0, 1 },    /* one of its two disks rotates */
		{ 259, 0, 1 },
		{ 253, 1, 1 },  /* through a partition of the RAID */
		{ 253, 2, 0 },
		{ 253, 3, 1 },  /* unknown below: its own value */
		{ 253, 4, 0 },  /* a loop of slaves must not hang */
		{ 8, 32, -1 },  /* no such device */
		{ 0, 0, -1 },   /* tmpfs and the like have no device */
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		dev_t dev = makedev(cases[i].major, cases[i].minor);
		int r = device_rotates(sysfs, dev);

		if (r != cases[i].rotates)
			fail_msg("%u:%u is %d, not %d", cases[i].major, cases[i].minor, r,
				 cases[i].rotates);
	}
	assert_int_equal(device_rotates("/nonexistent", makedev(8, 0)), -1);
}

static void test_queue_number(void **state)
{
	(void)state;
	assert_int_equal(queue_number(sysfs, makedev(8, 1), "rotational"), 1);
	assert_int_equal(queue_number(sysfs, makedev(253, 0), "rotational"), 0); /* its own */
	assert_int_equal(queue_number(sysfs, makedev(8, 1), "logical_block_size"), -1);
	assert_int_equal(queue_number(sysfs, 0, "rotational"), -1);
}

/* Filesystems without a block device. */
static void test_no_device(void **state)
{
	int proc = open("/proc/self/status", O_RDONLY);
	int mem = memfd_create("test", MFD_CLOEXEC);

	(void)state;
	assert_int_equal(device_of(-1), 0);
	assert_int_equal(storage_class_of(mem), STORAGE_MEMORY);
	if (proc >= 0) {
		assert_int_equal(device_of(proc), 0);
		assert_int_equal(storage_class_of(proc), STORAGE_UNKNOWN);
	}
	close(proc);
	close(mem);
}

static void test_mounts(void **state)
{
	static const char mountinfo[] =
		"22 1 259:1 / / rw,relatime shared:1 - xfs /dev/nvme0n1p1 rw,attr2\n"
		"24 22 0:22 / /t1 rw shared:3 - tmpfs tmpfs rw,size=1g,mpol=bind:1\n"
		"29 22 0:27 / /b rw - btrfs /dev/sda1 rw\n"
		"30 22 0:28 / /torn";
	struct mount_source m;

	(void)state;
	assert_true(mount_find(mountinfo, 24, &m));
	assert_string_equal(m.type, "tmpfs");
	assert_string_equal(m.options, "rw,size=1g,mpol=bind:1");
	assert_true(mount_find(mountinfo, 29, &m));
	assert_string_equal(m.source, "/dev/sda1");
	assert_false(mount_find(mountinfo, 2, &m));
	assert_false(mount_find(mountinfo, 30, &m));
	assert_false(mount_find("", 0, &m));
}

/* The NUMA nodes of this machine's storage. TEST_NODES: the expected nodes of the test
 * directory. */
static void test_nodes(void **state)
{
	int fd = open(tmp_dir, O_RDONLY | O_DIRECTORY);
	const char *want = getenv("TEST_NODES");
	struct err e = ERR_INIT;
	struct topo *t = topo_read(NULL, &e);
	struct ids s, none;
	char text[64];

	(void)state;
	assert_non_null(t);
	assert_true(fd >= 0);
	s = storage_nodes(t, fd);
	if (want)
		assert_string_equal(ids_format(text, sizeof(text), &s), want);
	for (int id = -1; (id = ids_next(&s, (unsigned)(id + 1))) >= 0;)
		assert_non_null(topo_find(t, id));
	none = storage_nodes(t, -1);
	assert_int_equal(ids_count(&none), 0);
	close(fd);
	topo_free(t);
}

static int filled(const char *name, size_t len)
{
	static const uint8_t data[64 << 10] = { 1 };
	int fd = open(tmp_at(name), O_RDWR | O_CREAT | O_EXCL, 0600);

	assert_true(fd >= 0);
	assert_int_equal(pwrite_full(fd, data, len, 0), 0);
	assert_int_equal(fsync(fd), 0);
	return fd;
}

static void test_address(void **state)
{
	int a = filled("a", 64 << 10), b = filled("b", 64 << 10), empty = filled("empty", 0);
	int mem = memfd_create("test", MFD_CLOEXEC);
	uint64_t at = file_address(a);

	(void)state;
	assert_true(file_address(-1) == ADDRESS_UNKNOWN);
	assert_true(file_address(mem) == ADDRESS_UNKNOWN); /* tmpfs has no FIEMAP */
	assert_true(file_address(empty) == ADDRESS_UNKNOWN);
	close(mem);
	close(empty);
	if (at == ADDRESS_UNKNOWN) {
		close(a);
		close(b);
		skip();
	}
	/* Two files cannot begin at the same address, and a file's address does not change. */
	assert_true(file_address(b) != ADDRESS_UNKNOWN && file_address(b) != at);
	assert_true(file_address(a) == at);
	/* A leading hole has no address; the address is that of the first data. */
	assert_int_equal(ftruncate(b, 0), 0);
	assert_int_equal(ftruncate(b, 1 << 20), 0);
	assert_true(file_address(b) == ADDRESS_UNKNOWN);
	assert_int_equal(pwrite_full(b, "x", 1, 512 << 10), 0);
	assert_int_equal(fsync(b), 0);
	assert_true(file_address(b) != ADDRESS_UNKNOWN);
	/* The place of a byte: of the data, not of the hole before it. */
	assert_true(file_address_at(b, 512 << 10) == file_address(b));
	assert_true(file_address_at(b, 0) == ADDRESS_UNKNOWN);
	assert_true(file_address_at(a, 8192) == at + 8192);
	assert_true(file_address_at(a, 64 << 10) == ADDRESS_UNKNOWN);
	close(a);
	close(b);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_rotates),
		cmocka_unit_test(test_queue_number),
		cmocka_unit_test(test_no_device),
		cmocka_unit_test(test_mounts),
		cmocka_unit_test(test_nodes),
		cmocka_unit_test(test_address),
	};

	return cmocka_run_group_tests_name("device", tests, set_up, tmp_teardown);
}
