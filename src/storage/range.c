// SPDX-License-Identifier: Apache-2.0
/* Ranges: several transfers, perhaps on several hosts with one filesystem, write one file. They
 * share its part, each with a journal of its own, whose lock excludes a second writer of the
 * same range. When all ranges are complete, the part gets its name.
 *
 * The part is not that of a transfer of the whole file: its name is made of the set of transfers
 * that share it, and of the file's size and time, so all its journals have the same cuts.
 * Writers of ranges hold the part's lock together; it is held alone to prepare, join or remove
 * the part. A part of size 0 is not prepared: journals of this name are older, and are removed
 * before the part gets its size. */
#include "storage/internal.h"

#include <fcntl.h>
#include <libgen.h>
#include <sys/stat.h>

/* A range is prepared in milliseconds; joining may take longer. */
enum { OPEN_TRIES = 100, OPEN_PAUSE_US = 5000 };
#define READ_BYTES (1u << 20)

static int forget_one(void *arg, int dirfd, const char *name)
{
	char part[PART_NAME_MAX];

	part_of(part, name);
	return strcmp(part, arg) || !strcmp(part, name) || !unlinkat(dirfd, name, 0) ||
	       errno == ENOENT ? 0 : -errno;
}

/* Remove the journals of part, which the caller holds alone. 0 or a negative errno. */
static int ranges_forget(int dirfd, const char *part)
{
	return parts_scan(dirfd, SIZE_MAX, forget_one, (void *)(uintptr_t)part);
}

/* Make part empty and as large as s. 0, also if another process has done it; or a negative
 * errno. */
static int range_prepare(const struct part_spec *s, int dirfd, const char *part)
{
	bool fresh;
	int fd CLEANUP_CLOSE = part_open_named(dirfd, part, 0600, &fresh), r;
	struct stat st;

	if (fd < 0)
		return fd;
	if (fstat(fd, &st))
		return -errno;
	if ((uint64_t)st.st_size == s->meta.size)
		return 0;
	r = ranges_forget(dirfd, part);
	if (!r)
		r = sync_dir(dirfd);
	if (!r && (ftruncate(fd, 0) || ftruncate(fd, (off_t)s->meta.size)))
		r = -errno;
	return r;
}

int range_open(const struct part_spec *s, int dirfd, const char *part)
{
	int r = -EBUSY;

	for (int i = 0; i < OPEN_TRIES && r == -EBUSY; i++) {
		int fd CLEANUP_CLOSE = -1;
		struct stat st;

		if (i)
			usleep(OPEN_PAUSE_US);
		r = fd = part_open_shared(dirfd, part);
		if (fd < 0)
			continue;
		if (fstat(fd, &st))
			return -errno;
		if ((uint64_t)st.st_size == s->meta.size)
			return steal_fd(&fd);
		cleanup_close(&fd); /* a lock that is exchanged for another may be lost */
		r = range_prepare(s, dirfd, part);
		if (!r)
			r = -EBUSY;
	}
	return r;
}

/* ---- the whole file ---- */

static int range_differs(const struct part_spec *s, const struct part_range *want, uint32_t sum,
			 struct err *e)
{
	char *path CLEANUP_FREE = dir_path(s->dir, s->name);

	return err_sys(e, -ENODATA, "%s: bytes %llu+%llu have the CRC32C %08x, those of the source "
		       "%08x", printable(path ? path : s->name), (unsigned long long)want->offset,
		       (unsigned long long)want->length, sum, want->sum);
}

static bool ranges_cover(const struct part_ranges *g, uint64_t size)
{
	const struct part_range *v = g->v;
	uint64_t at = 0;

	for (size_t i = 0; i < g->n && v[i].offset == at && v[i].length <= size - at; i++)
		at += v[i].length;
	return at == size;
}

/* Are the ranges complete, according to their journals? s gets owner, mode, keep_old and keep_newer
 * of the first one. */
static int ranges_check(struct part_spec *s, int dirfd, const char *part, int fd,
			const struct part_ranges *g, struct err *e)
{
	const struct part_range *v = g->v;
	struct part_spec one = *s;
	int r;

	for (size_t i = 0; i < g->n; i++) {
		one.range = v[i];
		r = journal_completed(dirfd, part, fd, &one);
		if (r)
			return part_err(e, r, s, r == -ENODATA ? "a range is not complete" :
					"the journal of a range " CANNOT_READ);
		if (one.range.sum != v[i].sum)
			return range_differs(s, &v[i], one.range.sum, e);
		if (!i) {
			s->set_mode = one.set_mode;
			s->set_owner = one.set_owner;
			s->keep_old = one.keep_old;
			s->keep_newer = one.keep_newer;
			s->meta.mode = one.meta.mode;
			s->meta.uid = one.meta.uid;
			s->meta.gid = one.meta.gid;
		}
	}
	return 0;
}

static int range_compare(const struct part_spec *s, int fd, uint8_t *room,
			 const struct part_range *want, const struct part_ranges *g, struct err *e)
{
	uint64_t at = want->offset, end = at + want->length;
	uint32_t sum = 0;

	while (at < end) {
		size_t most = end - at < READ_BYTES ? (size_t)(end - at) : READ_BYTES;
		ssize_t got = pread_full(fd, room, most, (off_t)at);
		int r = g->poll ? g->poll(g->arg) : 0;

		if (r)
			return part_err(e, r, s, "is not compared with its ranges");
		if (got <= 0)
			return part_err(e, got ? (int)got : -ENODATA, s, CANNOT_READ);
		sum = crypto_crc32c(sum, room, (size_t)got);
		at += (uint64_t)got;
	}
	return sum == want->sum ? 0 : range_differs(s, want, sum, e);
}

/* There is no part: has an earlier call given the file its name? */
static int ranges_compare(const struct part_spec *s, int dirfd, const struct part_ranges *g,
			  struct err *e)
{
	uint8_t *room CLEANUP_FREE = NULL;
	int fd CLEANUP_CLOSE = -1, r = 0;
	struct stat st;

	if (fstatat(dirfd, s->name, &st, AT_SYMLINK_NOFOLLOW) || !S_ISREG(st.st_mode) ||
	    (uint64_t)st.st_size != s->meta.size ||
	    (g->unseen && (st.st_mtim.tv_sec != s->meta.mtime_s ||
			   (uint32_t)st.st_mtim.tv_nsec != s->meta.mtime_ns)))
		return part_err(e, -ENODATA, s, "its ranges are missing");
	if (g->unseen)
		return 0;
	room = malloc(READ_BYTES);
	if (!room)
		return err_nomem(e);
	fd = openat(dirfd, s->name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	if (fd < 0)
		return part_err(e, -errno, s, CANNOT_READ);
	for (size_t i = 0; !r && i < g->n; i++)
		r = range_compare(s, fd, room, &g->v[i], g, e);
	return r;
}

/* The ranges are on stable storage. A part with another owner would not be ours: it has that owner
 * only between here and its name, or until an error. */
static int join_part(struct part_spec *s, int dirfd, const char *part, int fd, struct err *e)
{
	struct stat old;
	int r = part_may_replace(s, dirfd);

	if (!r && s->keep_newer && !fstatat(dirfd, s->name, &old, AT_SYMLINK_NOFOLLOW) &&
	    stat_not_older(&old, &s->meta))
		return part_err(e, -EPERM, s, PART_KEPT_WHY);
	if (r)
		return part_name_err(e, r, s);
	r = attrs_set(fd, s, attrs_mode(s, s->set_mode ? -1 : mode_there(dirfd, s->name)));
	if (r) {
		part_err(e, r, s, "cannot be completed");
	} else {
		r = FAULT("rename", 0);
		if (!r)
			r = part_rename(s, dirfd, part);
		r = part_name_err(e, r, s);
	}
	if (r && s->set_owner && fchown(fd, geteuid(), getegid()))
		log_warn("%s: its part cannot be given back to this user, so its ranges must be "
			 "copied again: %s", printable(s->name), strerror(errno));
	if (!r && fsync(fd))
		r = part_err(e, -errno, s, PART_UNSYNCED_WHY);
	return r;
}

static int join_at(struct part_spec *s, int dirfd, const struct part_ranges *g, struct err *e)
{
	char part[PART_NAME_MAX];
	int fd CLEANUP_CLOSE = -1, r = 0;
	struct stat st;
	bool fresh, there;

	if (g->n && !ranges_cover(g, s->meta.size))
		return part_err(e, -EINVAL, s, "the ranges do not cover the file");
	range_part_name(part, s);
	fd = part_open_named(dirfd, part, 0600, &fresh);
	if (fd < 0)
		return part_name_err(e, fd, s);
	if (fstat(fd, &st))
		return part_err(e, -errno, s, "cannot be examined");
	there = g->n && st.st_size && (uint64_t)st.st_size == s->meta.size;
	if (there) {
		r = ranges_check(s, dirfd, part, fd, g, e);
		if (!r)
			r = join_part(s, dirfd, part, fd, e);
	} else {
		r = ranges_forget(dirfd, part);
		if (!r && unlinkat(dirfd, part, 0))
			r = -errno;
		if (r)
			return part_err(e, r, s, "its part cannot be removed");
		if (g->n)
			r = ranges_compare(s, dirfd, g, e);
	}
	if (r)
		return r;
	if (there) {
		ranges_forget(dirfd, part); /* journals without their part count for nothing */
		part_clear(s->dir, dirfd, s->name);
	}
	r = sync_dir(dirfd);
	return r ? part_err(e, r, s, "its directory cannot be synced") : 0;
}

int part_join(const struct part_spec *s, const struct part_ranges *g, struct err *e)
{
	struct part_spec own = *s;
	int dirfd, r = part_check_name(s, e);

	if (r)
		return r;
	dirfd = part_pin_dir(s, e);
	if (dirfd < 0)
		return dirfd;
	r = join_at(&own, dirfd, g, e);
	dir_unpin(s->dir);
	return r;
}

int root_join(struct root *root, struct dirs *dirs, const char *path, struct part_spec *s,
	      const struct part_ranges *g, struct err *e)
{
	CLEANUP_FREE char *dir = strdup(path);
	char name[256];
	int r, parent = root_open_parent(root, path, name);

	if (!g->n && (parent == -ENOENT || parent == -ENOTDIR))
		return 0; /* without its directory there is no part to be removed */
	if (parent < 0)
		return err_set(e, parent, "%s: %s", printable(path), root_why(parent));
	root_rules_dirs(root, dirs);
	s->dir = dir_top(dirs, parent, dir ? dirname(dir) : path);
	s->name = name;
	if (!s->dir)
		return err_nomem(e);
	r = part_join(s, g, e);
	dir_put(s->dir);
	return r;
}
