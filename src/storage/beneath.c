// SPDX-License-Identifier: Apache-2.0
/* Opens a path below a directory by openat2, or component by component. */
#include "storage/beneath.h"

#include "util/util.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/magic.h>
#include <linux/openat2.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#define MAX_LINKS 40        /* as the kernel's MAXSYMLINKS */
#define MAX_AGAIN 32        /* a rename anywhere during ".." makes the kernel say EAGAIN */
#define MAX_TODO (64u << 10) /* bytes of path still to walk, symlinks put in */
#define MORE INT_MIN        /* no errno: there is more to walk */

static const char *skip_slashes(const char *s)
{
	while (*s == '/')
		s++;
	return s;
}

/* ---- by the kernel ---- */

static int kernel_open(int dirfd, const char *path, int flags, mode_t mode, uint64_t resolve)
{
	/* __O_TMPFILE is O_TMPFILE without O_DIRECTORY, which says nothing of modes */
	bool makes = (flags & O_CREAT) || (flags & O_TMPFILE & ~O_DIRECTORY);
	struct open_how how = {
		.flags = (uint64_t)(unsigned int)flags,
		.mode = makes ? mode & 07777 : 0,
		.resolve = resolve | RESOLVE_NO_MAGICLINKS,
	};
	long fd = syscall(SYS_openat2, dirfd, path, &how, sizeof(how));

	return fd < 0 ? -errno : (int)fd;
}

int beneath_probe(int fd)
{
	int got = kernel_open(fd, ".", O_PATH | O_DIRECTORY | O_CLOEXEC, 0, RESOLVE_BENEATH);

	if (got < 0)
		return got;
	close(got);
	return 0;
}

/* ---- component by component ---- */

/* Which directory a level was when we came down through it. */
struct level {
	dev_t dev;
	ino_t ino;
};

struct walk {
	const struct beneath *b;
	int cur;              /* O_PATH, the directory of the topmost level */
	struct level *levels; /* from the root (0) down to cur */
	size_t depth, cap;
	char *todo;           /* owned: path still to be walked is at next */
	const char *next;
	unsigned int links;   /* symlinks and retries so far */
};

static void walk_clear(struct walk *w)
{
	cleanup_close(&w->cur);
	free(w->levels);
	free(w->todo);
}

/* fd, which w owns from here on, becomes the current directory, one level down. */
static int walk_push(struct walk *w, int fd, const struct stat *st)
{
	if (w->depth == w->cap) {
		size_t cap = w->cap ? 2 * w->cap : 16;
		struct level *l = reallocarray(w->levels, cap, sizeof(*l));

		if (!l) {
			close(fd);
			return -ENOMEM;
		}
		w->levels = l;
		w->cap = cap;
	}
	w->levels[w->depth++] = (struct level){ st->st_dev, st->st_ino };
	cleanup_close(&w->cur);
	w->cur = fd;
	return 0;
}

static int walk_to_root(struct walk *w)
{
	struct stat st;
	int fd = openat(w->b->fd, ".", O_PATH | O_DIRECTORY | O_CLOEXEC);

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

/* "..": what we get must be what we came down through, or somebody has moved the
 * directory meanwhile, maybe out of the root. */
static int walk_up(struct walk *w)
{
	const struct level *want;
	struct stat st;
	int fd;

	if (w->depth < 2)
		return w->b->whole ? 0 : -EXDEV;
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

/* What is left of text behind root's name; NULL when text is not in root. */
static const char *behind(const char *text, const char *root)
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

static const char *inside(const struct beneath *b, const char *text)
{
	for (size_t i = 0; i < 2; i++) {
		const char *rest = behind(text, b->names[i]);

		if (rest)
			return rest;
	}
	return NULL;
}

/* proc(5) has no device of its own, as those of networks have none; to ask those what they are may take
 * a round trip each time. */
int beneath_is_proc(int fd, dev_t plain)
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

/* Links of /proc that lead by inode, not by name, show as absolute names or as
 * "type:[number]"; those that are plain text are relative. */
static bool is_magic(int fd, const char *text)
{
	return (text[0] == '/' || strchr(text, ':')) && beneath_is_proc(fd, 0) != 0;
}

static int walk_count(struct walk *w)
{
	return w->links++ < MAX_LINKS ? 0 : -ELOOP;
}

/* What fs.protected_symlinks (proc(5)) says of a link in a directory where everybody may put one:
 * that only its own and the directory's owner follow it, the kernel minds only on ways of its own. */
static bool is_trap(const struct walk *w, int linkfd)
{
	const mode_t everybody = S_ISVTX | S_IWOTH;
	struct stat link, dir;

	if (fstat(linkfd, &link) || fstat(w->cur, &dir))
		return true;
	return (dir.st_mode & everybody) == everybody && link.st_uid != geteuid() &&
	       link.st_uid != dir.st_uid;
}

/* linkfd is an O_PATH descriptor of a symlink in cur: its text goes before what is
 * left to walk. */
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
		put = inside(w->b, text);
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

/* Go into the directory name, or put the link name in. */
static int walk_into(struct walk *w, const char *name)
{
	/* As a directory first: only then what is mounted when it is used is mounted. */
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

/* Open name in cur without following; MORE: it has become a symlink meanwhile. */
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

/* The last component: a descriptor; MORE when there is more to walk. */
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
	w->next = here; /* swapped under us: look at it again */
	r = walk_count(w);
	return r ? r : MORE;
}

/* One component; a descriptor when it was the last, MORE to go on. */
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

static int walk_open(const struct beneath *b, const char *path, int flags, mode_t mode)
{
	struct walk w = { .b = b, .cur = -1 };
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
	walk_clear(&w);
	return r;
}

/* ---- both ---- */

int beneath_open(const struct beneath *b, const char *path, int flags, mode_t mode)
{
	uint64_t resolve = b->whole ? 0 : RESOLVE_BENEATH;
	int fd = -EAGAIN;

	path = skip_slashes(path);
	if (*path == '\0')
		path = ".";
	for (int i = 0; i < MAX_AGAIN && fd == -EAGAIN && !b->walk_only; i++)
		fd = kernel_open(b->fd, path, flags, mode, resolve);
	switch (fd) {
	case -EAGAIN:       /* no kernel for this, or one that did not settle */
	case -ENOSYS:
	case -EPERM:        /* a seccomp filter; otherwise the walk says so again */
	case -EXDEV:        /* climbs out, or an absolute link that the walk rewrites */
	case -ENAMETOOLONG: /* the walk knows no limit to the whole */
		return walk_open(b, path, flags, mode);
	default:
		return fd;
	}
}
