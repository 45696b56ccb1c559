// SPDX-License-Identifier: Apache-2.0
/* Part files come into being here, locked or unnamed, and get their names.
 *
 * A named part is locked (flock) by its writer for as long as its descriptor is open.
 * Another writer may take over or unlink an unlocked part, but only while it holds the
 * lock and after a check that the name still means the locked file. So no writer loses
 * the part that it writes to.
 *
 * Other processes may replace a part's name at any time, also by a symbolic link that
 * leads out of the root. So no call here follows a link at that name, and attributes are
 * changed by descriptor only. */
#include "storage/part.h"
#include "storage/tree.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

#define MAX_TRIES 32

int part_lock(int fd)
{
	if (flock(fd, LOCK_EX | LOCK_NB) == 0)
		return 0;
	switch (errno) {
	case EWOULDBLOCK:
		return -EBUSY;
	case ENOLCK:
	case ENOSYS:
	case EOPNOTSUPP:
		log_debug("no file locks here: a second writer will not be noticed");
		return 0;
	default:
		return -errno;
	}
}

int part_open_unnamed(const struct part_spec *s, int dirfd, mode_t mode)
{
	int fd;

	if (dir_no_tmpfile(s->dir))
		return -EOPNOTSUPP;
	fd = openat(dirfd, ".", O_TMPFILE | O_RDWR | O_CLOEXEC, mode);
	if (fd >= 0)
		return fd;
	/* EISDIR: a kernel that does not know the flag; EINVAL, ENOSYS: some FUSE */
	if (errno != EOPNOTSUPP && errno != EISDIR && errno != EINVAL && errno != ENOSYS)
		return -errno;
	dir_set_no_tmpfile(s->dir);
	return -EOPNOTSUPP;
}

/* ---- named parts ---- */

/* Whether part is still the name of fd, of which *st is told. */
static bool is_named(int fd, int dirfd, const char *part, struct stat *st)
{
	struct stat named;

	return fstat(fd, st) == 0 && fstatat(dirfd, part, &named, AT_SYMLINK_NOFOLLOW) == 0 &&
	       named.st_dev == st->st_dev && named.st_ino == st->st_ino;
}

/* Made by this user, and with no second name: another user cannot hold it open. */
static bool trustworthy(const struct stat *st)
{
	return S_ISREG(st->st_mode) && st->st_uid == geteuid() && st->st_nlink == 1;
}

/* A part that got its final mode, which may forbid writing, before its commit failed.
 * -ENXIO: it is no part of ours. */
static int open_forbidden(int dirfd, const char *part)
{
	int fd CLEANUP_CLOSE = openat(dirfd, part, O_PATH | O_NOFOLLOW | O_CLOEXEC);
	char proc[FD_PATH_MAX];
	struct stat st;
	int r;

	if (fd < 0 || fstat(fd, &st))
		return -errno;
	if (!trustworthy(&st))
		return -ENXIO;
	r = fd_chmod(fd, 0600);
	if (r)
		return r;
	r = open(fd_path(proc, fd), O_RDWR | O_NONBLOCK | O_CLOEXEC);
	return r < 0 ? -errno : r;
}

/* An existing part. -ENOENT: it is gone; -ELOOP, -ENXIO: the name means something else. */
static int open_existing(int dirfd, const char *part)
{
	int fd = openat(dirfd, part, O_RDWR | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);

	if (fd >= 0)
		return fd;
	return errno == EACCES ? open_forbidden(dirfd, part) : -errno;
}

/* One try; -EAGAIN: the part changed under us. */
static int try_named(int dirfd, const char *part, mode_t mode, bool *fresh)
{
	struct stat st;
	int r, fd CLEANUP_CLOSE = openat(dirfd, part, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW |
					 O_CLOEXEC, mode);

	*fresh = fd >= 0;
	if (fd < 0 && errno != EEXIST)
		return -errno;
	if (fd < 0)
		fd = open_existing(dirfd, part);
	if (fd == -ELOOP || fd == -ENXIO) /* a symlink, a socket: not a part */
		return unlinkat(dirfd, part, 0) ? -errno : -EAGAIN;
	if (fd < 0)
		return fd == -ENOENT ? -EAGAIN : fd;
	r = part_lock(fd);
	if (r)
		return r;
	if (!is_named(fd, dirfd, part, &st))
		return -EAGAIN;
	if (!*fresh && !trustworthy(&st))
		return unlinkat(dirfd, part, 0) ? -errno : -EAGAIN;
	return steal_fd(&fd);
}

int part_open_named(int dirfd, const char *part, mode_t mode, bool *fresh)
{
	int fd = -EAGAIN;

	for (int i = 0; i < MAX_TRIES && fd == -EAGAIN; i++)
		fd = try_named(dirfd, part, mode, fresh);
	if (fd >= 0 && !*fresh) {
		/* A killed process may have left the part while it held it for a link. */
		char temporary[PART_NAME_MAX];

		link_temporary(temporary, part);
		unlinkat(dirfd, temporary, 0);
	}
	return fd == -EAGAIN ? -EBUSY : fd;
}

/* ---- names for what has none ---- */

static int link_by_proc(int fd, int dirfd, const char *name)
{
	char proc[FD_PATH_MAX];

	return linkat(AT_FDCWD, fd_path(proc, fd), dirfd, name, AT_SYMLINK_FOLLOW) ? -errno : 0;
}

int link_fd(int fd, int dirfd, const char *name)
{
	/* AT_EMPTY_PATH is quicker, but older kernels want CAP_DAC_READ_SEARCH for it
	 * and say ENOENT, which can mean other things too. */
	static atomic_bool by_proc;
	int r;

	if (!atomic_load_explicit(&by_proc, memory_order_relaxed)) {
		if (linkat(fd, "", dirfd, name, AT_EMPTY_PATH) == 0)
			return 0;
		if (errno != ENOENT && errno != EPERM && errno != EINVAL)
			return -errno;
	}
	r = link_by_proc(fd, dirfd, name);
	if (r == 0 || r == -EEXIST)
		atomic_store_explicit(&by_proc, true, memory_order_relaxed);
	return r;
}

/* Make sure that no writer holds name. 0 with its lock in *lock, or with -1 for a name that no writer
 * can hold: none, or no regular file. -EBUSY: a writer holds it; -EACCES: another user's, which
 * cannot be locked. */
static int lock_unheld(int dirfd, const char *name, int *lock)
{
	int fd CLEANUP_CLOSE = open_existing(dirfd, name), r;
	struct stat st;

	*lock = -1;
	if (fd == -ENOENT || fd == -ELOOP)
		return 0;
	if (fd == -ENXIO)
		return fstatat(dirfd, name, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISREG(st.st_mode) ?
			       -EACCES : 0;
	if (fd < 0)
		return fd;
	r = part_lock(fd);
	if (r)
		return r;
	if (!is_named(fd, dirfd, name, &st))
		return -EBUSY; /* another writer has replaced it just now */
	*lock = steal_fd(&fd);
	return 0;
}

/* The lock of the part guards its journal and its temporary, too. A writer in place has no part; it
 * locks the journal. */
int part_unlink_stale(int dirfd, const char *name)
{
	char part[PART_NAME_MAX];
	int part_fd CLEANUP_CLOSE = -1, fd CLEANUP_CLOSE = -1, r;

	part_of(part, name);
	r = lock_unheld(dirfd, part, &part_fd);
	if (!r && strcmp(part, name))
		r = lock_unheld(dirfd, name, &fd);
	if (r)
		return r;
	return unlinkat(dirfd, name, 0) ? -errno : 0;
}

/* Remove a part that the caller holds, with its journal; the part last, for it is the lock. */
static int remove_held(int dirfd, const char *part)
{
	char journal[PART_NAME_MAX + 2];

	snprintf(journal, sizeof(journal), "%s.j", part);
	unlinkat(dirfd, journal, 0);
	return unlinkat(dirfd, part, 0) ? -errno : 0;
}

/* The same for a part that a writer left behind. -EBUSY: a writer holds it. */
static int clear_stale(int dirfd, const char *part)
{
	bool fresh;
	int fd CLEANUP_CLOSE = part_open_named(dirfd, part, 0600, &fresh);

	return fd < 0 ? fd : remove_held(dirfd, part);
}

int part_clear(struct dir *d, int dirfd, const char *name)
{
	char part[PART_NAME_MAX], journal[PART_NAME_MAX];
	struct stat st;

	if (dir_no_parts(d, dirfd))
		return 0;
	part_name(part, name);
	journal_name(journal, name);
	if (fstatat(dirfd, part, &st, AT_SYMLINK_NOFOLLOW) &&
	    fstatat(dirfd, journal, &st, AT_SYMLINK_NOFOLLOW))
		return 0;
	return clear_stale(dirfd, part);
}

int part_hold(int dirfd, const char *name, char temporary[PART_NAME_MAX])
{
	char part[PART_NAME_MAX];
	bool fresh;
	int fd = -EBUSY;

	part_name(part, name);
	link_temporary(temporary, part);
	for (int i = 0; i < MAX_TRIES && fd == -EBUSY; i++) {
		if (i)
			usleep(1000); /* another link on its way takes no longer */
		fd = part_open_named(dirfd, part, 0600, &fresh);
	}
	return fd;
}

void part_release(int dirfd, const char *name, int fd, bool replaced)
{
	char part[PART_NAME_MAX], temporary[PART_NAME_MAX];
	struct stat st;

	part_name(part, name);
	link_temporary(temporary, part);
	unlinkat(dirfd, temporary, 0);
	if (replaced || (fstat(fd, &st) == 0 && st.st_size == 0))
		remove_held(dirfd, part);
	close(fd);
}

static int link_part(int fd, int dirfd, const char *part)
{
	for (int i = 0; i < MAX_TRIES; i++) {
		int r = link_fd(fd, dirfd, part);

		if (r != -EEXIST)
			return r;
		r = clear_stale(dirfd, part);
		if (r == -EBUSY)
			usleep(1000); /* another whole file on its way takes no longer */
		else if (r)
			return r;
	}
	return -EBUSY;
}

int part_rename(const struct part_spec *s, int dirfd, const char *part)
{
	if (!s->keep_old)
		return renameat(dirfd, part, dirfd, s->name) ? -errno : 0;
	if (!renameat2(dirfd, part, dirfd, s->name, RENAME_NOREPLACE))
		return 0;
	if (errno != EINVAL && errno != ENOSYS)
		return -errno;
	/* A filesystem that does not know the flag. */
	if (linkat(dirfd, part, dirfd, s->name, 0))
		return -errno;
	return unlinkat(dirfd, part, 0) ? -errno : 0;
}

int part_may_replace(const struct part_spec *s, int dirfd)
{
	struct stat st;

	if (fstatat(dirfd, s->name, &st, AT_SYMLINK_NOFOLLOW))
		return errno == ENOENT ? 0 : -errno;
	if (S_ISDIR(st.st_mode))
		return -EISDIR;
	if (s->keep_old)
		return -EEXIST;
	return S_ISREG(st.st_mode) || S_ISLNK(st.st_mode) ? 0 : -EEXIST;
}

int link_fd_over(int fd, int dirfd, const char *part, const char *name)
{
	int r = part_lock(fd); /* before it can be seen */

	if (r == 0)
		r = link_part(fd, dirfd, part);
	if (r)
		return r;
	if (renameat(dirfd, part, dirfd, name) == 0)
		return 0;
	r = -errno;
	unlinkat(dirfd, part, 0);
	return r;
}

/* ---- parts that no transfer goes on with ---- */

int parts_scan(int dirfd, size_t most, part_scan_fn *fn, void *arg)
{
	int r = 0, fd = openat(dirfd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *list = fd < 0 ? NULL : fdopendir(fd);
	struct dirent *de;

	if (!list) {
		r = -errno;
		if (fd >= 0)
			close(fd);
		return r;
	}
	for (size_t n = 0; r == 0; n++) {
		errno = 0;
		de = readdir(list);
		if (!de) {
			r = -errno;
			break;
		}
		r = n >= most ? -E2BIG : part_is_ours(de->d_name) ? fn(arg, dirfd, de->d_name) : 0;
	}
	closedir(list);
	return r;
}

int part_age(int dirfd, const char *name, uint64_t *seconds)
{
	char part[PART_NAME_MAX];
	struct timespec now;
	struct stat st;

	part_of(part, name);
	if (fstatat(dirfd, part, &st, AT_SYMLINK_NOFOLLOW) &&
	    fstatat(dirfd, name, &st, AT_SYMLINK_NOFOLLOW))
		return -errno;
	clock_gettime(CLOCK_REALTIME, &now);
	*seconds = now.tv_sec > st.st_ctim.tv_sec ? (uint64_t)(now.tv_sec - st.st_ctim.tv_sec) : 0;
	return 0;
}

struct clearing {
	struct dir *dir;
	part_removed_fn *fn;
	void *arg;
};

static int clear_one(void *arg, int dirfd, const char *name)
{
	struct clearing *c = arg;
	int r = part_unlink_stale(dirfd, name);
	char *path CLEANUP_FREE = dir_path(c->dir, name);

	c->fn(c->arg, path ? path : name, r);
	return 0;
}

static void clear_directory(struct clearing *c, struct dir *d)
{
	int fd = dir_pin(d), r = fd;
	char *path CLEANUP_FREE = NULL;

	c->dir = d;
	if (fd >= 0) {
		r = parts_scan(fd, SIZE_MAX, clear_one, c);
		dir_unpin(d);
	}
	if (r >= 0)
		return;
	path = dir_path(d, NULL);
	c->fn(c->arg, path ? path : "?", r);
}

static int clear_below(void *arg, const struct walk_item *it)
{
	char *path CLEANUP_FREE = NULL;
	struct clearing *c = arg;

	if (it->meta.type != FT_DIR || it->leaving)
		return 0;
	if (it->dir && !it->error) {
		clear_directory(c, it->dir);
	} else if (it->parent) {
		path = dir_path(it->parent, it->name);
		c->fn(c->arg, path ? path : it->name, it->error);
	}
	return 0;
}

int parts_clear(struct dir *d, bool recursive, part_removed_fn *fn, void *arg)
{
	struct clearing c = { .fn = fn, .arg = arg };

	clear_directory(&c, d);
	return recursive ? tree_walk(d, TREE_NAMES, NULL, clear_below, &c) : 0;
}
