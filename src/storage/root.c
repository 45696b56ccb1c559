// SPDX-License-Identifier: Apache-2.0
/* Opens files by their paths below a root. A confined root allows no path that leads out of it. */
#include "storage/internal.h"

#include "util/util.h"

#include <fcntl.h>
#include <limits.h>
#include <linux/magic.h>
#include <linux/openat2.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>

#define REMOVE_OPEN_DIRS 64

/* Written by root_new() and other calls before threads start; only read afterwards. */
struct root {
	int fd;           /* the directory; may be O_PATH; AT_FDCWD for an unconfined "/" */
	char *names[2];   /* its absolute names: as given and as resolved; may be NULL */
	bool walk_only;   /* do not try openat2 */
	bool whole;       /* fd is "/", where ".." leads to "/" itself */
	bool confined;
	struct root_rules rules;
};

struct root *root_new(const char *dir, bool confined, struct err *e)
{
	struct root *r = calloc(1, sizeof(*r));

	if (!r) {
		err_nomem(e);
		return NULL;
	}
	r->confined = confined;
	r->fd = AT_FDCWD;
	if (!confined && strcmp(dir, "/") == 0)
		return r;
	r->fd = open(dir, O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (r->fd < 0) {
		err_sys(e, -errno, "root directory %s", printable(dir));
		root_free(r);
		return NULL;
	}
	if (confined) {
		/* if the names are missing, absolute symlinks are not followed */
		r->names[0] = dir[0] == '/' && !strstr(dir, "/..") ? strdup(dir) : NULL;
		r->names[1] = realpath(dir, NULL);
	}
	return r;
}

int root_without_proc(struct root *r, struct err *e)
{
	struct stat st;
	int rc;

	if (r->fd == AT_FDCWD) {
		/* Resolve paths as those of a confined root "/", so that links of proc(5) can be
		 * refused. */
		r->fd = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);
		r->names[0] = strdup("/");
		if (r->fd < 0 || !r->names[0])
			return err_sys(e, r->fd < 0 ? -errno : -ENOMEM, "root directory /");
		r->whole = true;
	}

	r->rules.without_proc = true;
	rc = fd_is_proc(r->fd, 0);
	if (rc == 0 && fstat(r->fd, &st) == 0)
		r->rules.plain = st.st_dev;
	return rc < 0 ? err_sys(e, rc, "root directory") : 0;
}

void root_set_parts_age(struct root *r, uint64_t seconds)
{
	r->rules.parts_age = seconds;
}

void root_rules_dirs(const struct root *r, struct dirs *s)
{
	if (r)
		dirs_set_rules(s, &r->rules);
}

bool root_is_confined(const struct root *r)
{
	return r->confined;
}

void root_free(struct root *r)
{
	if (!r)
		return;
	if (r->fd >= 0)
		close(r->fd);
	free(r->names[0]);
	free(r->names[1]);
	free(r);
}

void root_walk_only(struct root *r, bool on)
{
	r->walk_only = on;
}

static int beneath_open(const struct root *root, const char *path, int flags, mode_t mode);

static int open_raw(struct root *r, const char *path, int flags, mode_t mode)
{
	int fd;

	flags |= O_CLOEXEC;
	if (r->confined || r->whole) {
		fd = beneath_open(r, path, flags, mode);
	} else {
		fd = openat(r->fd, *path ? path : ".", flags, mode);
		fd = fd < 0 ? -errno : fd;
	}
	return fd < 0 ? fd : rules_admit(&r->rules, fd);
}

int root_open(struct root *r, const char *path, int flags, mode_t mode)
{
	int f = FAULT("open", 0);

	return f ? f : open_raw(r, path, flags, mode);
}

/* Find the last component of path, without trailing slashes: *n bytes at *last. *n is 0 when it
 * cannot be a name (none, ".", ".."). Returns the number of bytes before the component. */
static size_t root_split(const char *path, const char **last, size_t *n)
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
	size_t n, before = root_split(path, &last, &n);

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

	if (!r->confined && !r->rules.without_proc) {
		int flags = follow ? 0 : AT_SYMLINK_NOFOLLOW;

		return fstatat(r->fd, *path ? path : ".", st, flags) ? -errno : 0;
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
	int unlisted; /* error that kept the current directory from being listed; 0: none */
};

static void removal_failed(struct removal *rm, int code, struct dir *d, const char *name)
{
	char *path CLEANUP_FREE = NULL;

	if (rm->first)
		return;
	path = dir_path(d, name);
	rm->first = err_path(rm->e, code, path ? path : "?", CANNOT_REMOVE);
}

/* Remove one name, which may be missing. blame: the error to report on failure; 0: report errno. */
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
		rm->unlisted = it->error; /* the directory may be empty anyway */
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

/* Remove everything in the directory name of parent. */
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
	rc = walk_tree(top, WALK_NAMES | WALK_PARTS, NULL, remove_item, rm);
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
		return err_path(e, fd, path, CANNOT_REMOVE);
	if (unlinkat(fd, name, 0) == 0)
		return 0;
	code = -errno; /* for a directory Linux returns EISDIR, POSIX specifies EPERM */
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

	return code ? err_path(e, code, path, CANNOT_REMOVE) : 0;
}

/* ---- paths below a directory, without leaving it ---- */

#define MAX_LINKS 40        /* as the kernel's MAXSYMLINKS */
#define MAX_AGAIN 32        /* a rename anywhere during ".." makes the kernel return EAGAIN */
#define MAX_TODO (64u << 10) /* bytes of the remaining path, including symlink targets */
#define MORE INT_MIN        /* not an errno: there is more to walk */

static const char *skip_slashes(const char *s)
{
	while (*s == '/')
		s++;
	return s;
}

/* ---- by the kernel ---- */

static int kernel_open(int dirfd, const char *path, int flags, mode_t mode, uint64_t resolve)
{
	/* O_TMPFILE contains O_DIRECTORY, which creates nothing */
	bool makes = (flags & O_CREAT) || (flags & O_TMPFILE & ~O_DIRECTORY);
	struct open_how how = {
		.flags = (uint64_t)(unsigned int)flags,
		.mode = makes ? mode & 07777 : 0,
		.resolve = resolve | RESOLVE_NO_MAGICLINKS,
	};
	long fd = syscall(SYS_openat2, dirfd, path, &how, sizeof(how));

	return fd < 0 ? -errno : (int)fd;
}

/* ---- component by component ---- */

/* The identity of a directory that the walk has entered. */
struct level {
	dev_t dev;
	ino_t ino;
};

struct walk {
	const struct root *root;
	int cur;              /* O_PATH, the directory of the topmost level */
	struct level *levels; /* from the root (0) down to cur */
	size_t depth, cap;
	char *todo;           /* owned buffer; the rest of the path is at next */
	const char *next;
	unsigned int links;   /* symlinks and retries so far */
};

/* Make fd the current directory, one level down. w takes ownership of fd, also on an error. */
static int walk_push(struct walk *w, int fd, const struct stat *st)
{
	if (!array_has_room(w->levels, w->depth, w->cap)) {
		close(fd);
		return -ENOMEM;
	}

	w->levels[w->depth++] = (struct level){ st->st_dev, st->st_ino };
	cleanup_close(&w->cur);
	w->cur = fd;
	return 0;
}

static int walk_to_root(struct walk *w)
{
	struct stat st;
	int fd = openat(w->root->fd, ".", O_PATH | O_DIRECTORY | O_CLOEXEC);

	if (fd < 0)
		return -errno;
	if (fstat(fd, &st)) {
		int r = -errno;

		close(fd);
		return r;
	}
	w->depth = 0;
	return walk_push(w, fd, &st);
}

/* "..": the result must be the directory from which the walk came; otherwise another process has
 * moved the current directory, maybe out of the root. */
static int walk_up(struct walk *w)
{
	const struct level *want;
	struct stat st;
	int fd;

	if (w->depth < 2)
		return w->root->whole ? 0 : -EXDEV;
	want = &w->levels[w->depth - 2];
	fd = openat(w->cur, "..", O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	if (fstat(fd, &st) || st.st_dev != want->dev || st.st_ino != want->ino) {
		close(fd);
		return -EXDEV;
	}
	w->depth--;
	close(w->cur);
	w->cur = fd;
	return 0;
}

/* The rest of the path text after the path root; NULL: text is not below root. */
static const char *beneath_behind(const char *text, const char *root)
{
	if (!root)
		return NULL;
	for (;;) {
		size_t n;

		text = skip_slashes(text);
		root = skip_slashes(root);
		n = strcspn(root, "/");
		if (!n)
			return text;
		if (strcspn(text, "/") != n || memcmp(text, root, n) != 0)
			return NULL;
		text += n;
		root += n;
	}
}

/* proc(5) has an anonymous device number (major 0), like network filesystems. On a network
 * filesystem each fstatfs() may cost a round trip, so the caller names one such device as plain. */
int fd_is_proc(int fd, dev_t plain)
{
	struct statfs fs;
	struct stat st;

	if (fstat(fd, &st))
		return -errno;
	if (st.st_dev == plain || major(st.st_dev) != 0)
		return 0;
	if (fstatfs(fd, &fs))
		return -errno;
	return fs.f_type == PROC_SUPER_MAGIC;
}

int rules_admit(const struct root_rules *rules, int fd)
{
	int rc = rules->without_proc ? fd_is_proc(fd, rules->plain) : 0;

	if (rc == 0)
		return fd;
	close(fd);
	return rc < 0 ? rc : -EACCES;
}

/* True: a magic link of proc(5), which leads to an inode instead of a name. Its text is an absolute
 * name or "type:[number]"; ordinary links of proc(5) are relative. */
static bool is_magic(int fd, const char *text)
{
	return (text[0] == '/' || strchr(text, ':')) && fd_is_proc(fd, 0) != 0;
}

static int walk_count(struct walk *w)
{
	return w->links++ < MAX_LINKS ? 0 : -ELOOP;
}

/* fs.protected_symlinks (proc(5)): in a sticky directory that all users can write to, follow only
 * links of this user and of the directory's owner. The kernel applies this rule only to paths that
 * it walks. */
static bool is_trap(const struct walk *w, int linkfd)
{
	const mode_t sticky_for_all = S_ISVTX | S_IWOTH;
	struct stat link, dir;

	if (fstat(linkfd, &link) || fstat(w->cur, &dir))
		return true;
	return (dir.st_mode & sticky_for_all) == sticky_for_all && link.st_uid != geteuid() &&
	       link.st_uid != dir.st_uid;
}

/* Put the target of the symlink linkfd (O_PATH), which is in cur, before the rest of the path. */
static int walk_link(struct walk *w, int linkfd)
{
	char text[PATH_MAX + 1];
	const char *put = text;
	ssize_t n = readlinkat(linkfd, "", text, sizeof(text) - 1);
	size_t len, rest;
	char *todo;
	int r;

	if (n < 0)
		return -errno;
	text[n] = '\0';
	if (n == 0)
		return -ENOENT;
	if (is_trap(w, linkfd))
		return -EACCES;
	if (is_magic(linkfd, text))
		return -ELOOP;
	r = walk_count(w);
	if (r)
		return r;
	if (text[0] == '/') {
		put = beneath_behind(text, w->root->names[0]);
		if (!put)
			put = beneath_behind(text, w->root->names[1]);
		if (!put)
			return -EXDEV;
		r = walk_to_root(w);
		if (r)
			return r;
	}

	len = strlen(put);
	rest = strlen(w->next);
	if (len + rest + 1 > MAX_TODO)
		return -ENAMETOOLONG;
	todo = malloc(len + rest + 1);
	if (!todo)
		return -ENOMEM;
	memcpy(todo, put, len);
	memcpy(todo + len, w->next, rest + 1);
	free(w->todo);
	w->todo = todo;
	w->next = todo;
	return 0;
}

/* Enter the directory name, or follow the symlink name. */
static int walk_into(struct walk *w, const char *name)
{
	/* First try to open name as a directory: only O_DIRECTORY triggers an automount. */
	int fd CLEANUP_CLOSE = openat(w->cur, name, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	struct stat st;

	if (fd < 0 && (errno == ENOTDIR || errno == ELOOP))
		fd = openat(w->cur, name, O_PATH | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0 || fstat(fd, &st))
		return -errno;
	if (S_ISLNK(st.st_mode))
		return walk_link(w, fd);
	if (!S_ISDIR(st.st_mode))
		return -ENOTDIR;
	return walk_push(w, steal_fd(&fd), &st);
}

/* Open name in cur, without following a symlink; MORE: it has become a symlink meanwhile. */
static int open_here(struct walk *w, const char *name, int flags, mode_t mode)
{
	int fd = openat(w->cur, name, flags | O_NOFOLLOW, mode);
	struct stat st;

	if (fd < 0)
		return errno == ELOOP && !(flags & O_NOFOLLOW) ? MORE : -errno;
	if ((flags & O_PATH) && !(flags & O_NOFOLLOW) && fstat(fd, &st) == 0 &&
	    S_ISLNK(st.st_mode)) {
		close(fd);
		return MORE;
	}
	return fd;
}

/* Open the last component. A descriptor; MORE: there is more to walk; or a negative errno. */
static int walk_last(struct walk *w, const char *name, const char *here, int flags, mode_t mode)
{
	bool follow = !(flags & O_NOFOLLOW) && (flags & (O_CREAT | O_EXCL)) != (O_CREAT | O_EXCL);
	struct stat st;
	int r;

	if (follow) {
		int fd CLEANUP_CLOSE = openat(w->cur, name, O_PATH | O_NOFOLLOW | O_CLOEXEC);

		if (fd >= 0 && fstat(fd, &st) == 0 && S_ISLNK(st.st_mode)) {
			r = walk_link(w, fd);
			return r ? r : MORE;
		}
	}

	r = open_here(w, name, flags, mode);
	if (r != MORE)
		return r;
	w->next = here; /* another process has replaced the file: retry this component */
	r = walk_count(w);
	return r ? r : MORE;
}

/* Walk one component. A descriptor when it was the last; MORE to continue; or a negative errno. */
static int walk_step(struct walk *w, int flags, mode_t mode)
{
	const char *here = skip_slashes(w->next);
	size_t n = strcspn(here, "/");
	char name[NAME_MAX + 1];
	int r = 0;

	if (n == 0) {
		r = openat(w->cur, ".", flags, mode);
		return r < 0 ? -errno : r;
	}
	if (n > NAME_MAX)
		return -ENAMETOOLONG;
	memcpy(name, here, n);
	name[n] = '\0';
	w->next = here + n;
	if (strcmp(name, ".") == 0)
		return MORE;
	if (strcmp(name, "..") == 0)
		r = walk_up(w);
	else if (*w->next == '\0')
		return walk_last(w, name, here, flags, mode);
	else
		r = walk_into(w, name);
	return r ? r : MORE;
}

static int walk_open(const struct root *root, const char *path, int flags, mode_t mode)
{
	struct walk w = { .root = root, .cur = -1 };
	int r = -ENOMEM;

	w.todo = strdup(path);
	w.next = w.todo;
	if (w.todo)
		r = walk_to_root(&w);
	if (r == 0) {
		do
			r = walk_step(&w, flags, mode);
		while (r == MORE);
	}
	cleanup_close(&w.cur);
	free(w.levels);
	free(w.todo);
	return r;
}

/* ---- the kernel first, then the walk ---- */

/* Open path below root's directory. Leading slashes mean that directory; flags and mode as in
 * open(2). A descriptor or a negative errno: -EXDEV if the path leads out, -ELOOP for a magic link
 * of /proc or more than 40 symlinks. */
static int beneath_open(const struct root *root, const char *path, int flags, mode_t mode)
{
	uint64_t resolve = root->whole ? 0 : RESOLVE_BENEATH;
	int fd = -EAGAIN;

	path = skip_slashes(path);
	if (*path == '\0')
		path = ".";
	for (int i = 0; i < MAX_AGAIN && fd == -EAGAIN && !root->walk_only; i++)
		fd = kernel_open(root->fd, path, flags, mode, resolve);
	switch (fd) {
	case -EAGAIN:       /* a rename disturbed each try; or walk_only */
	case -ENOSYS:
	case -EPERM:        /* a seccomp filter; any other EPERM recurs in the walk */
	case -EXDEV:        /* leads out; or an absolute symlink, which the walk can resolve */
	case -ENAMETOOLONG: /* the walk does not limit the whole path */
		return walk_open(root, path, flags, mode);
	default:
		return fd;
	}
}
