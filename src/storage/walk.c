// SPDX-License-Identifier: Apache-2.0
/* Reports everything below a directory, without recursion and without long paths. */
#include "storage/internal.h"

#include <dirent.h>
#include <fcntl.h>
#include <limits.h>

#define LIST_BYTES (64u << 10) /* of directory entries per system call */

/* A directory on the path from the top to the current directory. */
struct frame {
	struct dir *dir;    /* holds a reference */
	struct meta meta;
	char *names;        /* its subdirectories, each with a NUL */
	size_t len, cap;
	size_t at;          /* offset of the next name to enter */
};

struct walk {
	unsigned flags;
	struct root *follow;  /* resolves links; NULL: links are not followed */
	walk_fn *fn;
	void *arg;
	struct frame *frames; /* the top first */
	size_t depth, cap;
	char *entries;        /* LIST_BYTES */
	char target[PATH_MAX + 1];
};

void meta_from_stat(struct meta *m, const struct stat *st)
{
	switch (st->st_mode & S_IFMT) {
	case S_IFREG: m->type = FT_FILE; break;
	case S_IFDIR: m->type = FT_DIR; break;
	case S_IFLNK: m->type = FT_LINK; break;
	default: m->type = FT_OTHER;
	}
	m->mode = st->st_mode & 07777;
	m->uid = st->st_uid;
	m->gid = st->st_gid;
	m->size = (uint64_t)st->st_size;
	m->mtime_s = st->st_mtim.tv_sec;
	m->mtime_ns = (uint32_t)st->st_mtim.tv_nsec;
	m->atime_s = st->st_atim.tv_sec;
	m->atime_ns = (uint32_t)st->st_atim.tv_nsec;
	m->ctime_s = st->st_ctim.tv_sec;
	m->ctime_ns = (uint32_t)st->st_ctim.tv_nsec;
	m->dev = st->st_dev;
	m->ino = st->st_ino;
	m->nlink = st->st_nlink;
	m->blocks = (uint64_t)st->st_blocks;
}

bool stat_not_older(const struct stat *st, const struct meta *m)
{
	return st->st_mtim.tv_sec > m->mtime_s ||
	       (st->st_mtim.tv_sec == m->mtime_s &&
		(uint32_t)st->st_mtim.tv_nsec >= m->mtime_ns);
}

/* ---- the frames ---- */

/* On 0 the frame owns d's reference. */
static int push(struct walk *w, struct dir *d, const struct meta *m)
{
	if (!array_has_room(w->frames, w->depth, w->cap))
		return -ENOMEM;
	w->frames[w->depth++] = (struct frame){ .dir = d, .meta = *m };
	return 0;
}

static void pop(struct walk *w)
{
	struct frame *f = &w->frames[--w->depth];

	free(f->names);
	dir_put(f->dir);
}

static int remember(struct frame *f, const char *name)
{
	size_t n = strlen(name) + 1;

	if (f->cap - f->len < n) {
		size_t cap = 2 * f->cap + n;
		char *names = realloc(f->names, cap);

		if (!names)
			return -ENOMEM;
		f->names = names;
		f->cap = cap;
	}

	memcpy(f->names + f->len, name, n);
	f->len += n;
	return 0;
}

/* ---- items that are not directories ---- */

/* If links are followed and this link leads to a regular file, *st becomes that file's. -ELOOP: a
 * loop. A confined root resolves the link without access to files outside of it: every link that
 * leads out gives -EXDEV. */
static int follow_link(struct walk *w, int fd, const struct walk_item *it, struct stat *st)
{
	struct stat to;
	int r;

	if (!w->follow)
		return 0;
	if (root_is_confined(w->follow)) {
		char *path CLEANUP_FREE = dir_path(it->parent, it->name);

		r = path ? root_stat(w->follow, path, true, &to) : -ENOMEM;
	} else {
		r = fstatat(fd, it->name, &to, 0) ? -errno : 0;
	}
	if (r)
		return r == -ENOENT ? 0 : r;
	if (S_ISREG(to.st_mode))
		*st = to;
	return 0;
}

static int read_target(struct walk *w, int fd, struct walk_item *it)
{
	ssize_t n = readlinkat(fd, it->name, w->target, sizeof(w->target) - 1);

	if (n < 0)
		return -errno;
	w->target[n] = '\0';
	it->target = w->target;
	return 0;
}

/* Set meta and target of the item; for FT_DIR walk_enter() sets them. */
static int walk_look_at(struct walk *w, int fd, struct walk_item *it)
{
	struct stat st;
	int r = 0;

	if (fstatat(fd, it->name, &st, AT_SYMLINK_NOFOLLOW))
		return -errno;
	if (S_ISLNK(st.st_mode))
		r = follow_link(w, fd, it, &st);
	meta_from_stat(&it->meta, &st);
	if (r == 0 && it->meta.type == FT_LINK)
		r = read_target(w, fd, it);
	return r;
}

static enum file_type walk_type_of(unsigned char d_type)
{
	switch (d_type) {
	case DT_REG: return FT_FILE;
	case DT_DIR: return FT_DIR;
	case DT_LNK: return FT_LINK;
	default: return FT_OTHER;
	}
}

/* Report an item that is not entered: passing it over means nothing. */
static int walk_report(struct walk *w, const struct walk_item *it)
{
	int r = w->fn(w->arg, it);

	return r == WALK_PASS_OVER ? 0 : r;
}

static int entry(struct walk *w, int fd, const struct dirent64 *de)
{
	struct frame *f = &w->frames[w->depth - 1];
	struct walk_item it = { .parent = f->dir, .name = de->d_name };

	if (strcmp(it.name, ".") == 0 || strcmp(it.name, "..") == 0)
		return 0;
	if (!(w->flags & WALK_PARTS) && part_is_ours(it.name))
		return 0;
	it.meta.type = walk_type_of(de->d_type);
	if (it.meta.type != FT_DIR && !((w->flags & WALK_NAMES) && de->d_type != DT_UNKNOWN))
		it.error = walk_look_at(w, fd, &it);
	if (it.meta.type == FT_DIR && it.error == 0)
		return remember(f, it.name);
	return walk_report(w, &it);
}

/* ---- directories ---- */

/* A descriptor to list the directory behind fd; *own: it is new, and the caller closes it. */
static int open_list(int fd, bool *own)
{
	*own = false;
	if (lseek(fd, 0, SEEK_SET) == 0)
		return fd;
	if (errno != EBADF)
		return -errno;
	fd = openat(fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC); /* fd is O_PATH */
	*own = fd >= 0;
	return fd < 0 ? -errno : fd;
}

/* Read and report all entries of the directory behind fd. *ended: the result of the callback that
 * ended the walk, or 0. */
static int read_entries(struct walk *w, int fd, int *ended)
{
	for (;;) {
		ssize_t n = getdents64(fd, w->entries, LIST_BYTES);

		if (n <= 0)
			return n < 0 ? -errno : 0;
		for (ssize_t at = 0; at < n;) {
			const struct dirent64 *de = (const void *)(w->entries + at);

			*ended = entry(w, fd, de);
			if (*ended)
				return 0;
			at += de->d_reclen;
		}
	}
}

/* Report the contents of the topmost frame's directory, which is pinned as fd; the names of
 * subdirectories are stored for go_into(). */
static int walk_list(struct walk *w, int fd, const char *name)
{
	struct frame *f = &w->frames[w->depth - 1];
	struct walk_item it = { .dir = f->dir, .name = name, .meta = f->meta };
	bool own;
	int ended = 0, from = open_list(fd, &own);
	int r = from < 0 ? from : read_entries(w, from, &ended);

	if (own)
		close(from);
	if (ended || r == 0)
		return ended;
	it.error = r;
	it.parent = w->depth > 1 ? w->frames[w->depth - 2].dir : NULL;
	return w->fn(w->arg, &it);
}

/* Report that the directory name of parent could not be opened. */
static int report_closed(struct walk *w, struct dir *parent, const char *name, int code)
{
	struct walk_item it = { .parent = parent, .name = name, .error = code };
	struct stat st;

	it.meta.type = FT_DIR;
	if (dir_stat(parent, name, &st) == 0)
		meta_from_stat(&it.meta, &st);
	return walk_report(w, &it);
}

/* Report d, which is open as fd, then its contents; for the top (parent NULL) only the contents.
 * Takes ownership of the caller's reference to d. */
static int walk_enter(struct walk *w, struct dir *parent, struct dir *d, int fd, const char *name)
{
	struct walk_item it = { .parent = parent, .dir = d, .name = name };
	struct stat st;
	int r = fstat(fd, &st) ? -errno : 0;

	if (r == 0) {
		meta_from_stat(&it.meta, &st);
		dir_know(d, &st);
		r = push(w, d, &it.meta);
	}
	if (r) {
		dir_put(d);
		return r;
	}
	r = parent ? w->fn(w->arg, &it) : 0;
	if (r == WALK_PASS_OVER) {
		pop(w);
		return 0;
	}
	return r ? r : walk_list(w, fd, name);
}

/* Enter the next subdirectory of the topmost frame. */
static int go_into(struct walk *w)
{
	struct frame *f = &w->frames[w->depth - 1];
	struct dir *parent = f->dir, *d;
	const char *name = f->names + f->at; /* stays valid when frames are reallocated */
	int fd, r;

	f->at += strlen(name) + 1;
	d = dir_sub(parent, name);
	if (!d)
		return -ENOMEM;
	fd = dir_pin(d);
	if (fd < 0) {
		dir_put(d);
		return report_closed(w, parent, name, fd);
	}
	dir_ref(d);
	r = walk_enter(w, parent, d, fd, name);
	dir_unpin(d);
	dir_put(d);
	return r;
}

/* Leave the topmost frame's directory. Its name is the last one that its parent entered. */
static int walk_leave(struct walk *w)
{
	struct frame *f = &w->frames[w->depth - 1];
	struct walk_item it = { .dir = f->dir, .leaving = true, .meta = f->meta };
	const struct frame *up;
	size_t start;
	int r;

	if (w->depth == 1) {
		pop(w);
		return 0;
	}
	up = f - 1;
	start = up->at - 1;
	while (start && up->names[start - 1] != '\0')
		start--;
	it.parent = up->dir;
	it.name = up->names + start;
	dir_revive(up->dir, f->dir);
	r = w->fn(w->arg, &it);
	pop(w);
	return r;
}

int walk_tree(struct dir *d, unsigned flags, struct root *follow, walk_fn *fn, void *arg)
{
	CLEANUP_FREE char *entries = malloc(LIST_BYTES);
	struct walk w = { .flags = flags, .follow = follow, .fn = fn, .arg = arg,
			  .entries = entries };
	int fd = entries ? dir_pin(d) : -ENOMEM;
	int r = fd < 0 ? fd : walk_enter(&w, NULL, dir_ref(d), fd, ".");

	if (fd >= 0)
		dir_unpin(d);
	while (r == 0 && w.depth) {
		const struct frame *f = &w.frames[w.depth - 1];

		r = f->at < f->len ? go_into(&w) : walk_leave(&w);
	}
	while (w.depth)
		pop(&w);
	free(w.frames);
	return r;
}
