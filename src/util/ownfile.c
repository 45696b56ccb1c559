// SPDX-License-Identifier: Apache-2.0
/* Files that a program writes for itself: logs, state, keys, port numbers, models. An
 * administrator chooses the names; other users may own or write directories on the way. */
#include "util/io.h"

#include "util/cleanup.h"
#include "util/text.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/magic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

enum { STEPS_MAX = 1000, TEMP_TRIES = 100 };

/* A file by its directory, once all links on the way have been followed. */
struct found {
	int dir; /* O_PATH */
	char name[NAME_MAX + 1];
	bool magic; /* name is a link of procfs to an open file, to which /dev/stdout leads */
};

/* As fs.protected_symlinks (proc(5)), but in every directory: the owner of a directory could put
 * another file there anyway, others could not. */
static int check_link(const struct found *p, const struct stat *link, struct err *e)
{
	struct stat dir;

	if (fstat(p->dir, &dir))
		return -errno;
	if (!link->st_uid || link->st_uid == geteuid() || link->st_uid == dir.st_uid)
		return 0;
	return err_set(e, -EPERM, "the symbolic link %s belongs to another user",
		       printable(p->name));
}

static bool is_procfs(int dir)
{
	struct statfs s;

	return !fstatfs(dir, &s) && s.f_type == PROC_SUPER_MAGIC;
}

static int enter(struct found *p, int fd)
{
	if (fd < 0)
		return -errno;
	close(p->dir);
	p->dir = fd;
	return 0;
}

/* The target of the link comes before the rest of the path. */
static int follow(struct found *p, int link, char **todo, const char *rest)
{
	char text[PATH_MAX], *longer;
	ssize_t n = readlinkat(link, "", text, sizeof(text) - 1);

	if (n < 0)
		return -errno;
	text[n] = '\0';
	if (asprintf(&longer, "%s%s", text, rest) < 0)
		return -ENOMEM;
	free(*todo);
	*todo = longer;
	return *text == '/' ? enter(p, open("/", O_PATH | O_DIRECTORY | O_CLOEXEC)) : 0;
}

/* Take the next component of *todo. 1: it is the last one; 0: there are more. */
static int step(struct found *p, char **todo, struct err *e)
{
	size_t lead = strspn(*todo, "/"), len = strcspn(*todo + lead, "/");
	char *rest = *todo + lead + len;
	CLEANUP_CLOSE int fd = -1;
	struct stat st;
	int r;

	if (!len || len > NAME_MAX)
		return len ? -ENAMETOOLONG : lead ? -EISDIR : -ENOENT;
	memcpy(p->name, *todo + lead, len);
	p->name[len] = '\0';
	p->magic = false;
	fd = openat(p->dir, p->name, O_PATH | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0)
		return errno == ENOENT && !*rest ? 1 : -errno;
	if (fstat(fd, &st))
		return -errno;
	p->magic = S_ISLNK(st.st_mode) && is_procfs(p->dir);
	r = S_ISLNK(st.st_mode) ? check_link(p, &st, e) : 0;
	if (r || (S_ISLNK(st.st_mode) && !p->magic))
		return r ? r : follow(p, fd, todo, rest);
	if (!*rest)
		return 1;
	memmove(*todo, rest, strlen(rest) + 1);
	return enter(p, p->magic ? openat(p->dir, p->name, O_PATH | O_CLOEXEC) : steal_fd(&fd));
}

/* 0: the caller closes p->dir; the file need not be there. Or a negative errno. */
static int find(struct found *p, const char *path, struct err *e)
{
	CLEANUP_FREE char *todo = strdup(path);
	int r = 0;

	p->dir = todo ? open(*path == '/' ? "/" : ".", O_PATH | O_DIRECTORY | O_CLOEXEC) : -1;
	if (p->dir < 0)
		return todo ? -errno : -ENOMEM;
	for (int i = 0; i < STEPS_MAX && r == 0; i++)
		r = step(p, &todo, e);
	if (r == 1)
		return 0;
	close(steal_fd(&p->dir));
	return r < 0 ? r : -ELOOP;
}

static int not_regular(const struct stat *st, struct err *e)
{
	if (S_ISDIR(st->st_mode))
		return -EISDIR;
	return err_set(e, -EINVAL, "it is neither a regular file nor a character device");
}

static int failed(struct err *e, const struct err *why, int r, const char *path)
{
	if (r < 0 && why->code)
		return err_set(e, r, "cannot write %s: %s", printable(path), why->text);
	return r < 0 ? err_sys(e, r, "cannot write %s", printable(path)) : r;
}

/* ---- a file as a whole ---- */

static int fill(int fd, const void *data, size_t len)
{
	int r = write_full(fd, data, len);

	/* EINVAL: a pipe or the like, which cannot be synced. */
	return r ? r : fsync(fd) && errno != EINVAL ? -errno : 0;
}

static int write_in_place(const struct found *p, const void *data, size_t len)
{
	int flags = p->magic ? O_APPEND : O_NOFOLLOW;
	CLEANUP_CLOSE int fd = openat(p->dir, p->name, O_WRONLY | O_NOCTTY | O_CLOEXEC | flags);

	return fd < 0 ? -errno : fill(fd, data, len);
}

/* A new file beside it. The descriptor; temp has its name. */
static int make_temp(const struct found *p, char temp[NAME_MAX + 8])
{
	int fd = -1;

	errno = EEXIST;
	for (int i = 0; i < TEMP_TRIES && fd < 0 && errno == EEXIST; i++) {
		unsigned some;

		if (getentropy(&some, sizeof(some)))
			return -errno;
		snprintf(temp, NAME_MAX + 8, "%s.%06x", p->name, some & 0xffffff);
		fd = openat(p->dir, temp, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC,
			    0600);
	}
	return fd < 0 ? -errno : fd;
}

static int replace(const struct found *p, const void *data, size_t len, mode_t mode)
{
	char temp[NAME_MAX + 8];
	CLEANUP_CLOSE int dir = -1;
	int r, fd = make_temp(p, temp);

	if (fd < 0)
		return fd;
	r = fchmod(fd, mode) ? -errno : fill(fd, data, len);
	if (close(fd) && !r)
		r = -errno; /* NFS may say only now that the disk is full */
	if (!r && renameat(p->dir, temp, p->dir, p->name))
		r = -errno;
	if (r) {
		unlinkat(p->dir, temp, 0);
		return r;
	}
	/* The name's directory entry is data of the directory. EACCES: it may be written but not read;
	 * EINVAL: its file system has no fsync for directories. */
	dir = openat(p->dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (dir < 0)
		return errno == EACCES ? 0 : -errno;
	return fsync(dir) && errno != EINVAL ? -errno : 0;
}

static int write_found(const struct found *p, const void *data, size_t len, mode_t mode,
		       struct err *e)
{
	struct stat st;
	bool there = !p->magic && !fstatat(p->dir, p->name, &st, AT_SYMLINK_NOFOLLOW);

	if (p->magic || (there && S_ISCHR(st.st_mode)))
		return write_in_place(p, data, len);
	return there && !S_ISREG(st.st_mode) ? not_regular(&st, e) : replace(p, data, len, mode);
}

int write_file_atomic(const char *path, const void *data, size_t len, mode_t mode, struct err *e)
{
	struct err why = ERR_INIT;
	struct found p;
	int r = find(&p, path, &why);

	if (!r) {
		r = write_found(&p, data, len, mode, &why);
		close(p.dir);
	}
	return failed(e, &why, r, path);
}

/* ---- a file that grows ---- */

/* In a directory that all users may write, another user's file, or a link to a file of ours that
 * another user has made there, is refused. */
static int check_file(const struct found *p, int fd, struct err *e)
{
	struct stat st, dir;

	if (fstat(fd, &st) || fstat(p->dir, &dir))
		return -errno;
	if (!p->magic && !S_ISREG(st.st_mode) && !S_ISCHR(st.st_mode))
		return not_regular(&st, e);
	if (S_ISREG(st.st_mode) && (dir.st_mode & S_IWOTH) &&
	    (st.st_nlink > 1 || (st.st_uid != geteuid() && st.st_uid != dir.st_uid)))
		return err_set(e, -EPERM, "it belongs to another user or has several names, in a "
			       "directory that all users may write");
	return 0;
}

static int open_found(const struct found *p, mode_t mode, struct err *e)
{
	int flags = O_WRONLY | O_APPEND | O_NOCTTY | O_CLOEXEC | O_NONBLOCK;
	CLEANUP_CLOSE int fd = openat(p->dir, p->name,
				      flags | (p->magic ? 0 : O_CREAT | O_NOFOLLOW), mode);
	int r;

	if (fd < 0 && errno == ENXIO) /* a FIFO without a reader, or a socket */
		return err_set(e, -ENXIO, "it is neither a regular file nor a character device");
	if (fd < 0)
		return -errno;
	r = check_file(p, fd, e);
	if (!r)
		r = set_nonblock(fd, false);
	return r ? r : steal_fd(&fd);
}

int append_file_open(const char *path, mode_t mode, struct err *e)
{
	struct err why = ERR_INIT;
	struct found p;
	int r = find(&p, path, &why);

	if (!r) {
		r = open_found(&p, mode, &why);
		close(p.dir);
	}
	return failed(e, &why, r, path);
}

/* ---- a directory for such files ---- */

static int check_one(const char *dir, const char *above, struct err *e)
{
	struct stat st;

	if (stat(above, &st))
		return err_sys(e, -errno, "%s", printable(above));
	if (st.st_uid && st.st_uid != geteuid())
		return err_set(e, -EPERM, "%s: user %u owns %s and could replace the files in it "
			       "(chown root %s)", printable(dir), (unsigned)st.st_uid,
			       printable(above), printable(above));
	/* In a sticky directory others cannot rename what is ours. */
	if ((st.st_mode & (S_IWGRP | S_IWOTH)) && (!(st.st_mode & S_ISVTX) || !strcmp(dir, above)))
		return err_set(e, -EPERM, "%s: others may write to %s and could replace the files "
			       "in it (chmod go-w %s)", printable(dir), printable(above),
			       printable(above));
	return 0;
}

int own_dir_check(const char *dir, struct err *e)
{
	CLEANUP_FREE char *real = realpath(dir, NULL);
	CLEANUP_FREE char *above = real ? strdup(real) : NULL;
	int r;

	if (!above)
		return err_sys(e, real ? -ENOMEM : -errno, "%s", printable(dir));
	for (;;) {
		char *slash = strrchr(above, '/');

		r = check_one(real, *above ? above : "/", e);
		if (r || !slash)
			return r;
		*slash = '\0';
	}
}
