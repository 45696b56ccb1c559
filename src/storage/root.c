// SPDX-License-Identifier: Apache-2.0
/* Files by path below a root, confined to it or not. */
#include "storage/beneath.h"
#include "storage/part.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define REMOVE_OPEN_DIRS 64

/* Set by root_new and root_without_proc, and only read afterwards. */
struct root {
	struct beneath b; /* b.fd is AT_FDCWD for an unconfined "/" */
	bool confined;
	bool without_proc;
	uint64_t parts_age;
	dev_t plain;      /* where b.fd is, without_proc: no proc(5), or nothing would be served */
};

struct root *root_new(const char *dir, bool confined, struct err *e)
{
	struct root *r = calloc(1, sizeof(*r));

	if (!r) {
		err_set(e, -ENOMEM, "out of memory");
		return NULL;
	}
	r->confined = confined;
	r->b.fd = AT_FDCWD;
	if (!confined && strcmp(dir, "/") == 0)
		return r;
	r->b.fd = open(dir, O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (r->b.fd < 0) {
		err_sys(e, -errno, "root directory %s", printable(dir));
		root_free(r);
		return NULL;
	}
	if (confined) {
		int probe = beneath_probe(r->b.fd);

		r->b.walk_only = probe == -ENOSYS || probe == -EPERM;
		/* without names absolute symlinks are just not followed */
		r->b.names[0] = dir[0] == '/' && !strstr(dir, "/..") ? strdup(dir) : NULL;
		r->b.names[1] = realpath(dir, NULL);
	}
	return r;
}

/* Of what is not confined each component is looked at then, too. */
static int open_whole(struct root *r, struct err *e)
{
	int probe;

	r->b.fd = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);
	r->b.names[0] = strdup("/");
	if (r->b.fd < 0 || !r->b.names[0])
		return err_sys(e, r->b.fd < 0 ? -errno : -ENOMEM, "root directory /");
	probe = beneath_probe(r->b.fd);
	r->b.walk_only = probe == -ENOSYS || probe == -EPERM;
	r->b.whole = true;
	return 0;
}

int root_without_proc(struct root *r, struct err *e)
{
	int rc = r->b.fd == AT_FDCWD ? open_whole(r, e) : 0;
	struct stat st;

	if (rc < 0)
		return rc;
	r->without_proc = true;
	rc = beneath_is_proc(r->b.fd, 0);
	if (rc == 0 && fstat(r->b.fd, &st) == 0)
		r->plain = st.st_dev;
	return rc < 0 ? err_sys(e, rc, "root directory") : 0;
}

void root_set_parts_age(struct root *r, uint64_t seconds)
{
	r->parts_age = seconds;
}

void root_rules_dirs(const struct root *r, struct dirs *s)
{
	if (r && r->without_proc)
		dirs_without_proc(s, r->plain);
	if (r)
		dirs_set_parts_age(s, r->parts_age);
}

bool root_is_confined(const struct root *r)
{
	return r->confined;
}

void root_free(struct root *r)
{
	if (!r)
		return;
	if (r->b.fd >= 0)
		close(r->b.fd);
	free(r->b.names[0]);
	free(r->b.names[1]);
	free(r);
}

void root_walk_only(struct root *r, bool on)
{
	r->b.walk_only = on;
}

static int open_raw(struct root *r, const char *path, int flags, mode_t mode)
{
	int fd, rc;

	flags |= O_CLOEXEC;
	if (r->confined || r->b.whole) {
		fd = beneath_open(&r->b, path, flags, mode);
	} else {
		fd = openat(r->b.fd, *path ? path : ".", flags, mode);
		fd = fd < 0 ? -errno : fd;
	}
	if (fd < 0)
		return fd;
	rc = r->without_proc ? beneath_is_proc(fd, r->plain) : 0;
	if (rc == 0)
		return fd;
	close(fd);
	return rc < 0 ? rc : -EACCES;
}

int root_open(struct root *r, const char *path, int flags, mode_t mode)
{
	int f = FAULT("open", 0);

	return f ? f : open_raw(r, path, flags, mode);
}

/* Bytes of path up to the last component (*last, *n bytes of it, slashes behind it
 * left out). *n is 0 when the path has no component that can be a name. */
static size_t split(const char *path, const char **last, size_t *n)
{
	size_t end = strlen(path), start;

	while (end && path[end - 1] == '/')
		end--;
	start = end;
	while (start && path[start - 1] != '/')
		start--;
	*last = path + start;
	*n = end - start;
	if ((*n == 1 && **last == '.') || (*n == 2 && strncmp(*last, "..", 2) == 0))
		*n = 0;
	return start;
}

int root_open_parent(struct root *r, const char *path, char namebuf[256])
{
	char *parent CLEANUP_FREE = NULL;
	const char *last;
	size_t n, before = split(path, &last, &n);

	if (n > NAME_MAX)
		return -ENAMETOOLONG;
	memcpy(namebuf, n ? last : ".", n ? n : 1);
	namebuf[n ? n : 1] = '\0';
	parent = n ? strndup(path, before) : strdup(path);
	if (!parent)
		return -ENOMEM;
	return open_raw(r, parent, O_PATH | O_DIRECTORY, 0);
}

int root_stat(struct root *r, const char *path, bool follow, struct stat *st)
{
	int fd CLEANUP_CLOSE = -1;

	if (!r->confined && !r->without_proc) {
		int flags = follow ? 0 : AT_SYMLINK_NOFOLLOW;

		return fstatat(r->b.fd, *path ? path : ".", st, flags) ? -errno : 0;
	}
	fd = open_raw(r, path, O_PATH | (follow ? 0 : O_NOFOLLOW), 0);
	if (fd < 0)
		return fd;
	return fstat(fd, st) ? -errno : 0;
}

const char *root_why(int rc)
{
	return rc == -EXDEV ? "Permission denied (it leads out of the root)" : strerror(-rc);
}

int root_mkdir(struct root *r, const char *path, mode_t mode)
{
	char name[256];
	int fd CLEANUP_CLOSE = -1;
	int f = FAULT("mkdir", 0);

	if (f)
		return f;
	fd = root_open_parent(r, path, name);
	if (fd < 0)
		return fd;
	return mkdirat(fd, name, mode) ? -errno : 0;
}

int root_unlink(struct root *r, const char *path)
{
	char name[256];
	int fd CLEANUP_CLOSE = root_open_parent(r, path, name);

	if (fd < 0)
		return fd;
	if (part_is_ours(name))
		return part_unlink_stale(fd, name);
	return unlinkat(fd, name, 0) ? -errno : 0;
}

int root_rmdir(struct root *r, const char *path)
{
	char name[256];
	int fd CLEANUP_CLOSE = root_open_parent(r, path, name);

	if (fd < 0)
		return fd;
	return unlinkat(fd, name, AT_REMOVEDIR) ? -errno : 0;
}

int root_rename(struct root *r, const char *from, const char *to)
{
	char old[256], new[256];
	int a CLEANUP_CLOSE = -1;
	int b CLEANUP_CLOSE = -1;
	int f = FAULT("rename", 0);

	if (f)
		return f;
	a = root_open_parent(r, from, old);
	if (a < 0)
		return a;
	b = root_open_parent(r, to, new);
	if (b < 0)
		return b;
	return renameat(a, old, b, new) ? -errno : 0;
}

/* ---- rm -r ---- */

struct removal {
	struct err *e;
	int first;    /* the first failure */
	int unlisted; /* why the directory left next may not be empty; 0: it should be */
};

static void removal_failed(struct removal *rm, int code, struct dir *d, const char *name)
{
	char *path CLEANUP_FREE = NULL;

	if (rm->first)
		return;
	path = dir_path(d, name);
	rm->first = err_sys(rm->e, code, "cannot remove %s", printable(path ? path : "?"));
}

/* One name gone, if it was not already. blame: the error to report when it cannot
 * go; 0: what the kernel says. */
static void remove_name(struct removal *rm, struct dir *parent, const char *name, int flags,
			int blame)
{
	int fd = dir_pin(parent);

	if (fd < 0) {
		removal_failed(rm, fd, parent, name);
		return;
	}
	if (unlinkat(fd, name, flags) && errno != ENOENT)
		removal_failed(rm, blame ? blame : -errno, parent, name);
	dir_unpin(parent);
}

static int remove_item(void *arg, const struct walk_item *it)
{
	struct removal *rm = arg;

	if (it->error && it->dir && it->parent) {
		rm->unlisted = it->error; /* it may be empty all the same */
	} else if (it->error && it->dir) {
		removal_failed(rm, it->error, it->dir, NULL);
	} else if (it->meta.type != FT_DIR) {
		remove_name(rm, it->parent, it->name, 0, 0);
	} else if (it->leaving || it->error) {
		remove_name(rm, it->parent, it->name, AT_REMOVEDIR,
			    it->error ? it->error : rm->unlisted);
		rm->unlisted = 0;
	}
	return 0;
}

/* Everything in the directory name of parent. */
static int empty_dir(struct root *r, struct removal *rm, int parent, const char *name,
		     const char *path)
{
	struct dirs *set;
	struct dir *top;
	int rc, fd = openat(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

	if (fd < 0)
		return -errno;
	set = dirs_new(REMOVE_OPEN_DIRS);
	top = set ? dir_top(set, fd, path) : NULL;
	if (!set)
		close(fd);
	if (!top) {
		dirs_free(set);
		return -ENOMEM;
	}
	root_rules_dirs(r, set);
	rc = tree_walk(top, TREE_NAMES | TREE_PARTS, NULL, remove_item, rm);
	dir_put(top);
	dirs_free(set);
	return rc;
}

int root_remove_tree(struct root *r, const char *path, struct err *e)
{
	struct removal rm = { .e = e };
	char name[256];
	int fd CLEANUP_CLOSE = root_open_parent(r, path, name);
	int code;

	if (fd < 0)
		return err_sys(e, fd, "cannot remove %s", printable(path));
	if (unlinkat(fd, name, 0) == 0)
		return 0;
	code = -errno; /* of a directory: EISDIR; EPERM says POSIX */
	if (code == -EISDIR || code == -EPERM) {
		if (unlinkat(fd, name, AT_REMOVEDIR) == 0)
			return 0;
		if (errno != ENOTDIR)
			code = -errno;
	}
	if (code == -ENOTEMPTY || code == -EEXIST) {
		code = empty_dir(r, &rm, fd, name, path);
		if (rm.first)
			return rm.first;
		if (code == 0)
			code = unlinkat(fd, name, AT_REMOVEDIR) ? -errno : 0;
	}
	return code ? err_sys(e, code, "cannot remove %s", printable(path)) : 0;
}
