// SPDX-License-Identifier: Apache-2.0
/* sysfs' holders and loop devices, /proc's mountinfo, swaps and descriptors, and last an open that
 * nobody else may have. */
#include "iser_setup/holders.h"

#include "iser_setup/sessions.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#define PROC_MAX (16u << 20)

/* ---- what stands on a device ---- */

static void add(struct holders_stack *s, const char *name)
{
	for (unsigned i = 0; i < s->n; i++)
		if (!strcmp(s->name[i], name))
			return;
	if (s->n < HOLDERS_MOST && strlen(name) < sizeof(s->name[0]))
		strcpy(s->name[s->n++], name);
	else
		s->more = true;
}

/* Is the entry of dir on the device? */
typedef bool on_fn(const char *sysfs, const char *dir, const char *entry, const char *name);

static bool is_holder(const char *sysfs, const char *dir, const char *entry, const char *name)
{
	(void)sysfs;
	(void)dir;
	(void)name;
	return *entry != '.';
}

static bool is_partition(const char *sysfs, const char *dir, const char *entry, const char *name)
{
	char file[PATH_MAX + 300];

	(void)sysfs;
	(void)name;
	snprintf(file, sizeof(file), "%s/%s/partition", dir, entry);
	return *entry != '.' && !access(file, F_OK);
}

/* The kernel counts it to nobody's holders, and lets others open the device all the same. */
static bool is_loop(const char *sysfs, const char *dir, const char *entry, const char *name)
{
	char file[PATH_MAX], path[64], number[32], own[32];
	struct stat st;

	(void)dir;
	if (strncmp(entry, "loop", 4))
		return false;
	sysfs_text(sysfs, file, sizeof(file), "class/block/%s/loop/backing_file", entry);
	snprintf(path, sizeof(path), "/dev/%s", name);
	if (!strcmp(file, path))
		return true;
	if (!*file || stat(file, &st) || !S_ISBLK(st.st_mode))
		return false;
	sysfs_text(sysfs, number, sizeof(number), "class/block/%s/dev", name);
	snprintf(own, sizeof(own), "%u:%u", major(st.st_rdev), minor(st.st_rdev));
	return !strcmp(number, own);
}

/* The entries of a directory of sysfs that are on the device called name. */
static void add_entries(const char *sysfs, struct holders_stack *s, const char *below, on_fn *on,
			const char *name)
{
	char dir[PATH_MAX];
	struct dirent *d;
	DIR *dirp;

	snprintf(dir, sizeof(dir), "%.2000s/%s", sysfs_or(sysfs), below);
	dirp = opendir(dir);
	while (dirp && (d = readdir(dirp)))
		if (on(sysfs, dir, d->d_name, name))
			add(s, d->d_name);
	if (dirp)
		closedir(dirp);
}

void holders_stack(const char *sysfs, const char *name, struct holders_stack *s)
{
	char below[128];

	*s = (struct holders_stack){ 0 };
	add(s, name);
	/* It grows while it is gone through. */
	for (unsigned i = 0; i < s->n; i++) {
		snprintf(below, sizeof(below), "class/block/%s/holders", s->name[i]);
		add_entries(sysfs, s, below, is_holder, s->name[i]);
		snprintf(below, sizeof(below), "class/block/%s", s->name[i]);
		add_entries(sysfs, s, below, is_partition, s->name[i]);
		add_entries(sysfs, s, "class/block", is_loop, s->name[i]);
	}
}

bool holders_is_partition(const char *sysfs, const char *name)
{
	char dir[PATH_MAX];

	snprintf(dir, sizeof(dir), "%.2000s/class/block", sysfs_or(sysfs));
	return is_partition(sysfs, dir, name, name);
}

const char *holders_above(const char *sysfs, const struct holders_stack *s)
{
	for (unsigned i = 1; i < s->n; i++)
		if (!holders_is_partition(sysfs, s->name[i]))
			return s->name[i];
	return NULL;
}

void holders_dm_name(const char *sysfs, const char *name, char out[128])
{
	sysfs_text(sysfs, out, 128, "class/block/%s/dm/name", name);
}

/* ---- mounts and swap ---- */

bool holders_mounted(const char *mountinfo, dev_t dev, char *out, size_t room)
{
	char number[32];

	snprintf(number, sizeof(number), "%u:%u", major(dev), minor(dev));
	/* "36 35 98:0 /root /mnt/point ..." */
	for (const char *at = mountinfo; at && *at;) {
		char found[32], where[PATH_MAX];

		if (sscanf(at, "%*u %*u %31s %*s %4095s", found, where) == 2 &&
		    !strcmp(found, number)) {
			snprintf(out, room, "%s", where);
			return true;
		}
		at = strchr(at, '\n');
		at = at ? at + 1 : NULL;
	}
	return false;
}

bool holders_swapped(const char *swaps, const char *path)
{
	size_t n = strlen(path);

	for (const char *at = swaps; at && *at;) {
		if (!strncmp(at, path, n) && (at[n] == ' ' || at[n] == '\t'))
			return true;
		at = strchr(at, '\n');
		at = at ? at + 1 : NULL;
	}
	return false;
}

/* ---- programs ---- */

/* As it is known here: to ask a file server that has died would take for ever. */
static bool is_device(const char *path, dev_t dev)
{
	struct statx st;

	return !statx(AT_FDCWD, path, AT_STATX_DONT_SYNC | AT_NO_AUTOMOUNT, STATX_TYPE, &st) &&
	       S_ISBLK(st.stx_mode) && makedev(st.stx_rdev_major, st.stx_rdev_minor) == dev;
}

static bool has_open(const char *pid, dev_t dev)
{
	char dir[64], path[400];
	bool found = false;
	struct dirent *d;
	DIR *dirp;

	snprintf(dir, sizeof(dir), "/proc/%.20s/fd", pid);
	dirp = opendir(dir);
	while (dirp && !found && (d = readdir(dirp))) {
		snprintf(path, sizeof(path), "%s/%s", dir, d->d_name);
		found = is_device(path, dev);
	}
	if (dirp)
		closedir(dirp);
	return found;
}

/* "fio (pid 123)". */
static bool find_program(dev_t dev, char *out, size_t room)
{
	DIR *proc = opendir("/proc");
	bool found = false;
	struct dirent *d;

	while (proc && !found && (d = readdir(proc))) {
		CLEANUP_FREE char *comm = NULL;
		char path[64];

		if (d->d_name[strspn(d->d_name, "0123456789")] || !has_open(d->d_name, dev))
			continue;
		found = true;
		snprintf(path, sizeof(path), "/proc/%.20s/comm", d->d_name);
		if (!read_file(path, 256, &comm, NULL))
			comm[strcspn(comm, "\n")] = '\0';
		snprintf(out, room, "%s (pid %s)", comm ? printable(comm) : "a program", d->d_name);
	}
	if (proc)
		closedir(proc);
	return found;
}

/* ---- all of it ---- */

struct tables {
	const char *mounts, *swaps;
};

static int check_one(const char *sysfs, const char *name, bool top, const struct tables *t,
		     struct err *e)
{
	char path[64], number[32], who[PATH_MAX];
	unsigned maj, min;
	dev_t dev;
	int fd;

	snprintf(path, sizeof(path), "/dev/%s", name);
	sysfs_text(sysfs, number, sizeof(number), "class/block/%s/dev", name);
	if (sscanf(number, "%u:%u", &maj, &min) != 2)
		return 0;
	dev = makedev(maj, min);
	if (holders_mounted(t->mounts, dev, who, sizeof(who)))
		return err_set(e, -EBUSY, "%s is mounted on %s: umount it first", path,
			       printable(who));
	if (holders_swapped(t->swaps, path))
		return err_set(e, -EBUSY, "%s is used for swap: swapoff it first", path);
	if (find_program(dev, who, sizeof(who)))
		return err_set(e, -EBUSY, "%s is open in %s: end it first", path, who);
	if (!top)
		return 0;
	fd = open(path, O_RDONLY | O_EXCL | O_CLOEXEC);
	if (fd >= 0)
		close(fd);
	else if (errno == EBUSY)
		return err_set(e, -EBUSY, "%s is held by the kernel: mounted in another namespace, "
			       "or served on by a target; release it first", path);
	else if (errno != ENXIO && errno != ENODEV && errno != EIO && errno != ENOMEDIUM)
		return err_sys(e, -errno, "%s: whether it is in use cannot be told", path);
	return 0; /* or the device is dead */
}

static bool has_holder(const char *sysfs, const char *name)
{
	struct holders_stack s;

	holders_stack(sysfs, name, &s);
	return s.n > 1;
}

int holders_check(const char *sysfs, const struct holders_stack *s, struct err *e)
{
	CLEANUP_FREE char *mounts = NULL, *swaps = NULL;
	struct tables t;
	int r;

	if (s->more)
		return err_set(e, -EBUSY, "more than %d devices stand on /dev/%s, and who uses "
			       "them cannot be told: stop some first", HOLDERS_MOST - 1,
			       s->name[0]);
	r = read_file("/proc/self/mountinfo", PROC_MAX, &mounts, NULL);

	if (r)
		return err_sys(e, r, "/proc/self/mountinfo");
	read_file("/proc/swaps", PROC_MAX, &swaps, NULL);
	t = (struct tables){ mounts, swaps ? swaps : "" };
	for (unsigned i = 0; !r && i < s->n; i++)
		r = check_one(sysfs, s->name[i], !has_holder(sysfs, s->name[i]), &t, e);
	return r;
}

int holders_free(const char *sysfs, const char *name, struct err *e)
{
	struct holders_stack s;
	const char *above;

	holders_stack(sysfs, name, &s);
	above = holders_above(sysfs, &s);
	if (above)
		return err_set(e, -EBUSY, "/dev/%s is part of /dev/%s: stop that first", name,
			       above);
	return holders_check(sysfs, &s, e);
}
