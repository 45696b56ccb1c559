// SPDX-License-Identifier: Apache-2.0
/* What kind of storage a descriptor lies on: by its filesystem, then by what sysfs tells
 * of the device below. */
#include "storage/device.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sysmacros.h>
#include <sys/vfs.h>
#include <unistd.h>

/* ---- the filesystem ---- */

/* f_type, see statfs(2); some have no name in <linux/magic.h>. */
static const struct {
	uint32_t magic;
	enum storage_class class;
} known[] = {
	{ 0x01021994, STORAGE_MEMORY },  /* tmpfs */
	{ 0x858458f6, STORAGE_MEMORY },  /* ramfs */
	{ 0x958458f6, STORAGE_MEMORY },  /* hugetlbfs */
	{ 0x00006969, STORAGE_NETWORK }, /* NFS */
	{ 0x0000517b, STORAGE_NETWORK }, /* SMB */
	{ 0xff534d42, STORAGE_NETWORK }, /* CIFS */
	{ 0xfe534d42, STORAGE_NETWORK }, /* SMB2 */
	{ 0x00c36400, STORAGE_NETWORK }, /* Ceph */
	{ 0x5346414f, STORAGE_NETWORK }, /* OpenAFS */
	{ 0x6b414653, STORAGE_NETWORK }, /* kAFS */
	{ 0x01021997, STORAGE_NETWORK }, /* 9p */
	{ 0x0bd00bd0, STORAGE_NETWORK }, /* Lustre */
	{ 0x47504653, STORAGE_NETWORK }, /* GPFS */
	{ 0x19830326, STORAGE_NETWORK }, /* BeeGFS */
	{ 0x7461636f, STORAGE_NETWORK }, /* OCFS2 */
	{ 0x01161970, STORAGE_NETWORK }, /* GFS2 */
};

enum storage_class class_by_magic(int fd)
{
	struct statfs fs;
	struct stat st;

	/* A block device's node lies on devtmpfs, which says nothing about the device. */
	if (fstat(fd, &st) < 0 || S_ISBLK(st.st_mode) || fstatfs(fd, &fs) < 0)
		return STORAGE_UNKNOWN;
	for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++)
		if (known[i].magic == (uint32_t)fs.f_type)
			return known[i].class;
	return STORAGE_UNKNOWN;
}

/* ---- its device ---- */

#define FDINFO_MAX 4096u
#define MOUNTINFO_MAX (8u << 20)

/* The number of the mount that fd is below; 0: not known. */
static unsigned long long mount_of(int fd)
{
	CLEANUP_FREE char *info = NULL;
	unsigned long long id = 0;
	const char *at = NULL;
	char path[64];

	snprintf(path, sizeof(path), "/proc/self/fdinfo/%d", fd);
	if (!read_file(path, FDINFO_MAX, &info, NULL))
		at = strstr(info, "mnt_id:");
	return at && sscanf(at, "mnt_id: %llu", &id) == 1 ? id : 0;
}

bool mount_find(const char *mountinfo, unsigned long long id, struct mount_source *m)
{
	for (const char *line = mountinfo; *line; line += strcspn(line, "\n") + 1) {
		CLEANUP_FREE char *one = strndup(line, strcspn(line, "\n"));
		const char *rest = one ? strstr(one, " - ") : NULL;
		unsigned long long this;

		if (rest && sscanf(one, "%llu", &this) == 1 && this == id)
			return sscanf(rest, " - %63s %255s %1023s", m->type, m->source,
				      m->options) == 3;
		if (!line[strcspn(line, "\n")])
			break;
	}
	return false;
}

static bool mounted_from(int fd, struct mount_source *m)
{
	CLEANUP_FREE char *mountinfo = NULL;
	unsigned long long id = mount_of(fd);

	return id && !read_file("/proc/self/mountinfo", MOUNTINFO_MAX, &mountinfo, NULL) &&
	       mount_find(mountinfo, id, m);
}

/* Of a filesystem whose st_dev is none (btrfs); 0: it is on no device. */
static dev_t mounted_device(int fd)
{
	struct mount_source m;
	struct stat st;

	if (!mounted_from(fd, &m) || m.source[0] != '/' || stat(m.source, &st) < 0 ||
	    !S_ISBLK(st.st_mode))
		return 0;
	return st.st_rdev;
}

dev_t device_of(int fd)
{
	struct stat st;

	if (fstat(fd, &st) < 0)
		return 0;
	if (S_ISBLK(st.st_mode))
		return st.st_rdev;
	return major(st.st_dev) ? st.st_dev : mounted_device(fd);
}

/* ---- sysfs ---- */

enum { STACK_DEPTH = 8 }; /* a partition on LVM on RAID on partitions needs 3 */

/* The directory of a block device; of a partition: its disk's, which has the queue.
 * A descriptor; negative: there is none. */
static int open_disk(int at, const char *name)
{
	CLEANUP_CLOSE int fd = openat(at, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	if (fd < 0 || faccessat(fd, "queue", F_OK, 0) == 0)
		return steal_fd(&fd);
	/* name was a link into the tree of devices, where the disk is right above. */
	return openat(fd, "..", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
}

static int open_device(const char *sysfs, dev_t dev)
{
	char path[512];

	if (!dev)
		return -1;
	snprintf(path, sizeof(path), "%s/dev/block/%u:%u", sysfs, major(dev), minor(dev));
	return open_disk(AT_FDCWD, path);
}

static long number_at(int disk, const char *name)
{
	char path[64], text[32];
	CLEANUP_CLOSE int fd = -1;
	ssize_t n;
	char *end;
	long v;

	snprintf(path, sizeof(path), "queue/%s", name);
	fd = openat(disk, path, O_RDONLY | O_CLOEXEC);
	n = fd < 0 ? -1 : read(fd, text, sizeof(text) - 1);
	if (n <= 0)
		return -1;
	text[n] = '\0';
	v = strtol(text, &end, 10);
	return end == text ? -1 : v;
}

static int disk_rotates(int disk, unsigned depth);

/* Of what the disk is made of, does anything rotate? -1: it is made of nothing, or nothing
 * is told. */
static int slaves_rotate(int disk, unsigned depth)
{
	CLEANUP_CLOSE int fd = openat(disk, "slaves", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *dir = fd < 0 || !depth ? NULL : fdopendir(fd);
	const struct dirent *de;
	int any = -1;

	if (!dir)
		return -1;
	steal_fd(&fd);
	while (any < 1 && (de = readdir(dir))) {
		CLEANUP_CLOSE int slave = -1;
		int one;

		if (de->d_name[0] == '.')
			continue;
		slave = open_disk(dirfd(dir), de->d_name);
		one = slave < 0 ? -1 : disk_rotates(slave, depth - 1);
		any = one > any ? one : any;
	}
	closedir(dir);
	return any;
}

static int disk_rotates(int disk, unsigned depth)
{
	int r = slaves_rotate(disk, depth);

	return r < 0 ? (int)number_at(disk, "rotational") : r;
}

long queue_number(const char *sysfs, dev_t dev, const char *name)
{
	CLEANUP_CLOSE int disk = open_device(sysfs, dev);

	return disk < 0 ? -1 : number_at(disk, name);
}

int device_rotates(const char *sysfs, dev_t dev)
{
	CLEANUP_CLOSE int disk = open_device(sysfs, dev);

	return disk < 0 ? -1 : disk_rotates(disk, STACK_DEPTH);
}

/* ---- both ---- */

const char *storage_class_text(unsigned class)
{
	static const char *const texts[] = {
		[STORAGE_MEMORY] = "memory", [STORAGE_SSD] = "an SSD",
		[STORAGE_ROTATING] = "a rotating disk", [STORAGE_NETWORK] = "a network filesystem",
	};

	return class && class < sizeof(texts) / sizeof(texts[0]) ? texts[class] :
	       "storage of unknown kind";
}

enum storage_class storage_class_of(int fd)
{
	enum storage_class class = class_by_magic(fd);

	if (class != STORAGE_UNKNOWN)
		return class;
	switch (device_rotates(SYSFS, device_of(fd))) {
	case 0:
		return STORAGE_SSD;
	case 1:
		return STORAGE_ROTATING;
	default:
		return STORAGE_UNKNOWN;
	}
}

struct ids storage_nodes(const struct topo *t, int fd)
{
	struct ids none = { 0 };
	struct mount_source m;
	dev_t dev = device_of(fd);

	if (dev)
		return topo_device(t, dev);
	return mounted_from(fd, &m) && !strcmp(m.type, "tmpfs") ? tmpfs_nodes(m.options) : none;
}
