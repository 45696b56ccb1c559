// SPDX-License-Identifier: Apache-2.0
/* Creates part files, locked or unnamed, and gives them their final names.
 *
 * A named part is locked (flock) by its writer for as long as its descriptor is open. Another
 * writer may take over or unlink an unlocked part, but only while it holds the lock and after a
 * check that the name still means the locked file. So a writer never loses its part.
 *
 * Another process may replace a part at any time, even by a symbolic link to a file outside the
 * root. So no call here follows a link at that name, and attributes are changed by descriptor
 * only. */
#include "storage/internal.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <sys/file.h>

#define MAX_TRIES 32

static int lock(int fd, int how)
{
	if (flock(fd, how | LOCK_NB) == 0)
		return 0;
	switch (errno) {
	case EWOULDBLOCK:
		return -EBUSY;
	case ENOLCK:
	case ENOSYS:
	case EOPNOTSUPP:
		if (how == LOCK_SH)
			return -ENOLCK;
		log_debug("no file locks here: a second writer will not be noticed");
		return 0;
	default:
		return -errno;
	}
}

int part_lock(int fd)
{
	return lock(fd, LOCK_EX);
}

int part_open_unnamed(const struct part_spec *s, int dirfd, mode_t mode)
{
	int fd;

	if (dir_no_tmpfile(s->dir))
		return -EOPNOTSUPP;
	fd = openat(dirfd, ".", O_TMPFILE | O_RDWR | O_CLOEXEC, mode);
	if (fd >= 0)
		return fd;
	/* EISDIR: the kernel does not know the flag; EINVAL, ENOSYS: some FUSE filesystems */
	if (errno != EOPNOTSUPP && errno != EISDIR && errno != EINVAL && errno != ENOSYS)
		return -errno;
	dir_set_no_tmpfile(s->dir);
	return -EOPNOTSUPP;
}

/* ---- named parts ---- */

/* True: part is still a name of fd's file. *st gets the file's attributes. */
static bool is_named(int fd, int dirfd, const char *part, struct stat *st)
{
	struct stat named;

	return fstat(fd, st) == 0 && fstatat(dirfd, part, &named, AT_SYMLINK_NOFOLLOW) == 0 &&
	       named.st_dev == st->st_dev && named.st_ino == st->st_ino;
}

/* True: a regular file of this user without a second name, so no other user can have it open. */
static bool trustworthy(const struct stat *st)
{
	return S_ISREG(st->st_mode) && st->st_uid == geteuid() && st->st_nlink == 1;
}

/* Open a part with a mode that forbids writing: its commit failed after the final mode was set.
 * -ENXIO: it is not our part. */
static int open_forbidden(int dirfd, const char *part)
{
	int fd CLEANUP_CLOSE = openat(dirfd, part, O_PATH | O_NOFOLLOW | O_CLOEXEC);
	struct stat st;
	int r;

	if (fd < 0 || fstat(fd, &st))
		return -errno;
	if (!trustworthy(&st))
		return -ENXIO;
	r = fd_chmod(fd, 0600);
	return r ? r : fd_reopen(fd, O_RDWR);
}

/* Open an existing part. -ENOENT: it does not exist; -ELOOP, -ENXIO: the name belongs to a symlink,
 * a socket or the like. */
static int open_existing(int dirfd, const char *part)
{
	int fd = openat(dirfd, part, O_RDWR | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);

	if (fd >= 0)
		return fd;
	return errno == EACCES ? open_forbidden(dirfd, part) : -errno;
}

/* One try; -EAGAIN: another process changed the part meanwhile. */
static int try_named(int dirfd, const char *part, mode_t mode, int how, bool *fresh)
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
	r = lock(fd, how);
	if (r)
		return r;
	if (!is_named(fd, dirfd, part, &st))
		return -EAGAIN;
	if (!*fresh && !trustworthy(&st))
		return unlinkat(dirfd, part, 0) ? -errno : -EAGAIN;
	return steal_fd(&fd);
}

static int open_locked(int dirfd, const char *part, mode_t mode, int how, bool *fresh)
{
	int fd = -EAGAIN;

	for (int i = 0; i < MAX_TRIES && fd == -EAGAIN; i++)
		fd = try_named(dirfd, part, mode, how, fresh);
	if (fd >= 0 && !*fresh) {
		/* A killed process may have left a link's temporary with this part. */
		char temporary[PART_NAME_MAX];

		link_temporary(temporary, part);
		unlinkat(dirfd, temporary, 0);
	}

	return fd == -EAGAIN ? -EBUSY : fd;
}

int part_open_named(int dirfd, const char *part, mode_t mode, bool *fresh)
{
	return open_locked(dirfd, part, mode, LOCK_EX, fresh);
}

int part_open_shared(int dirfd, const char *part)
{
	bool fresh;

	return open_locked(dirfd, part, 0600, LOCK_SH, &fresh);
}

/* ---- names for unnamed files, and links ---- */

int link_fd(int fd, int dirfd, const char *name)
{
	/* AT_EMPTY_PATH is faster. Older kernels require CAP_DAC_READ_SEARCH for it and return
	 * ENOENT, which can have other causes, too. */
	static atomic_bool by_proc;
	char proc[FD_PATH_MAX];
	int r;

	if (!atomic_load_explicit(&by_proc, memory_order_relaxed)) {
		if (linkat(fd, "", dirfd, name, AT_EMPTY_PATH) == 0)
			return 0;
		if (errno != ENOENT && errno != EPERM && errno != EINVAL)
			return -errno;
	}
	r = linkat(AT_FDCWD, fd_path(proc, fd), dirfd, name, AT_SYMLINK_FOLLOW) ? -errno : 0;
	if (r == 0 || r == -EEXIST)
		atomic_store_explicit(&by_proc, true, memory_order_relaxed);
	return r;
}

/* Check that no writer holds name, and lock it. 0: *lock is the locked descriptor, or -1 if name
 * does not exist or is not a regular file. -EBUSY: a writer holds it; -EACCES: another user's file,
 * which cannot be locked. */
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

/* The lock of a part also guards its journal and its temporary. A transfer in place has no part: it
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

/* Remove a part that the caller holds, and its journal. The part is removed last, because it is the
 * lock. */
static int remove_held(int dirfd, const char *part)
{
	char journal[PART_NAME_MAX + 2];

	snprintf(journal, sizeof(journal), "%s.j", part);
	unlinkat(dirfd, journal, 0);
	return unlinkat(dirfd, part, 0) ? -errno : 0;
}

/* The same for a part that no writer holds. -EBUSY: a writer holds it. */
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

/* Create the link name to from. from_dfd < 0: a symbolic link. */
static int link_make(int from_dfd, const char *from, int dfd, const char *name)
{
	int r = from_dfd < 0 ? symlinkat(from, dfd, name) : linkat(from_dfd, from, dfd, name, 0);

	return r ? -errno : 0;
}

/* The temporary's name is derived from name: if a transfer is killed before the rename, the next
 * transfer of name removes the temporary. */
int link_put(int from_dfd, const char *from, struct dir *d, int dfd, const char *name,
	     bool keep_old)
{
	char part[PART_NAME_MAX], temporary[PART_NAME_MAX];
	int r, held = -EBUSY;
	struct stat st;
	bool fresh;

	if (part_is_ours(name))
		return -EINVAL;
	r = link_make(from_dfd, from, dfd, name);
	if (!r)
		part_clear(d, dfd, name);
	if (r != -EEXIST || keep_old)
		return r;

	/* Hold the part of name while a link replaces name: its lock also reserves the temporary's
	 * name. */
	part_name(part, name);
	link_temporary(temporary, part);
	for (int i = 0; i < MAX_TRIES && held == -EBUSY; i++) {
		if (i)
			usleep(1000); /* long enough for another process to rename its link */
		held = part_open_named(dfd, part, 0600, &fresh);
	}
	if (held < 0)
		return held;
	r = link_make(from_dfd, from, dfd, temporary);
	if (!r)
		r = FAULT("rename", 0);
	if (!r && renameat(dfd, temporary, dfd, name))
		r = -errno;

	unlinkat(dfd, temporary, 0); /* rename(2) between two names of one file keeps both */
	/* Remove part and journal if name is the new link, or if the part is empty. */
	if (!r || (fstat(held, &st) == 0 && st.st_size == 0))
		remove_held(dfd, part);
	close(held);
	return r;
}

static int link_part(int fd, int dirfd, const char *part)
{
	for (int i = 0; i < MAX_TRIES; i++) {
		int r = link_fd(fd, dirfd, part);

		if (r != -EEXIST)
			return r;
		r = clear_stale(dirfd, part);
		if (r == -EBUSY)
			usleep(1000); /* long enough for another process to rename its file */
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
	/* The filesystem does not know RENAME_NOREPLACE. */
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
	int r = part_lock(fd); /* before the file is visible */

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

/* ---- abandoned parts ---- */

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
	return recursive ? walk_tree(d, WALK_NAMES, NULL, clear_below, &c) : 0;
}
