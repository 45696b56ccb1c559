// SPDX-License-Identifier: Apache-2.0
/* Where a walk begins: paths, lists of paths, standard input, zeros. */
#include "transfer/source_walk.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static char *full_path(struct source *s, const char *path)
{
	size_t n = s->cwd ? strlen(s->cwd) : 0;
	char *out;

	if (path[0] == '/' || !n)
		return strdup(path[0] ? path : ".");
	return asprintf(&out, "%s%s%s", s->cwd, s->cwd[n - 1] == '/' ? "" : "/", path) < 0 ?
		NULL : out;
}

/* "a/", "a/.", ".", "..", "/": what is in it rather than itself. */
static bool means_contents(const char *path)
{
	const char *last = strrchr(path, '/');

	last = last ? last + 1 : path;
	return !last[0] || !strcmp(last, ".") || !strcmp(last, "..");
}

static void same_place(struct walk *w, const char *path)
{
	char text[ERR_TEXT];

	snprintf(text, sizeof(text), "%s: source and destination are the same directory",
		 printable(path));
	source_file_failed(w->s, NULL, path, -EINVAL, text);
}

static int walk_dir(struct walk *w, const char *path, const char *name, const struct meta *m,
		    bool contents)
{
	struct source *s = w->s;
	struct dir *d;
	int fd, r;

	if (!(s->x.req->flags & BULK_F_RECURSIVE)) {
		char text[ERR_TEXT];

		snprintf(text, sizeof(text), "%s: is a directory (-r sends it)", printable(path));
		source_file_failed(s, NULL, path, -EISDIR, text);
		return 0;
	}
	fd = root_open(s->root, path, O_RDONLY | O_DIRECTORY, 0);
	if (fd < 0) {
		walk_failed(w, path, fd);
		return 0;
	}
	d = dir_top(s->dirs, fd, path);
	if (!d)
		return -ENOMEM;
	if (contents)
		w->top_flags |= ENTRY_F_CONTENTS;
	r = walk_enter_dir(w, d, name, m);
	if (!r)
		r = walk_wait_places(w);
	if (!r && walk_is_place(w, m->dev, m->ino))
		same_place(w, path);
	else if (!r)
		r = walk_tree(s->dirs, d, s->x.req->flags & BULK_F_FOLLOW ? s->root : NULL,
			      walk_on_item, w);
	if (!r)
		r = walk_leave_dir(w);
	dir_put(d);
	return r;
}

static const char *last_name(const char *path, char name[256])
{
	size_t end = strlen(path), start;

	while (end && path[end - 1] == '/')
		end--;
	for (start = end; start && path[start - 1] != '/'; start--)
		;
	snprintf(name, 256, "%.*s", (int)(end - start > 255 ? 255 : end - start),
		 path + start);
	if (!name[0] || !strcmp(name, ".") || !strcmp(name, ".."))
		strcpy(name, "root");
	return name;
}

/* Found below a directory it would be left out; who names it wants it. */
static int not_sendable(struct walk *w, const char *path)
{
	char text[ERR_TEXT];

	snprintf(text, sizeof(text), "%s: not a file, directory or link", printable(path));
	source_file_failed(w->s, NULL, path, -EINVAL, text);
	return 0;
}

static int walk_path(struct walk *w, const char *named)
{
	char *path CLEANUP_FREE = full_path(w->s, named);
	char name[256];
	struct stat st;
	struct meta m;
	int r;

	if (!path)
		return -ENOMEM;
	w->top = path;
	r = root_stat(w->s->root, path, true, &st);
	if (r) {
		walk_failed(w, path, r);
		return 0;
	}
	meta_from_stat(&m, &st);
	w->top_flags = w->depth ? 0 : ENTRY_F_TOP;
	if (m.type == FT_DIR)
		return walk_dir(w, path, last_name(path, name), &m, means_contents(named));
	if (m.type == FT_FILE)
		return walk_put_name(w, NULL, path, last_name(path, name), &m);
	return not_sendable(w, path);
}

/* Standard input, or zeros. */
static int walk_stream(struct walk *w, const struct transfer_item *it)
{
	struct source *s = w->s;
	struct meta m = { .type = FT_FILE, .mode = 0644, .size = it->size };
	struct bulk_entry e;
	struct sfile *f;
	bool zero = it->kind == ITEM_ZERO, timed = s->x.req->bench_ns;
	struct timespec now;
	int r;

	clock_gettime(CLOCK_REALTIME, &now);
	m.mtime_s = now.tv_sec;
	w->top_flags = ENTRY_F_TOP;
	r = walk_begin_entry(w, &e, ENTRY_FILE, zero ? "zero" : "stdin", &m);
	if (r)
		return r;
	f = sfile_new(e.id, zero ? SFILE_ZERO : SFILE_STREAM, NULL, zero ? "zero:" : "-");
	if (!f)
		return -ENOMEM;
	if (!zero || timed) {
		e.flags |= ENTRY_F_NOSIZE;
		e.size = 0;
	}
	f->size = !zero ? 1 : timed ? INT64_MAX : it->size;
	return walk_put_file(w, &e, f, e.size);
}

/* The id of the directory that a listed name goes into, made known with its parents. */
static int implied_dir(struct walk *w, const char *target, size_t len, const char *path,
		       size_t pathlen, uint64_t *id)
{
	char *dir CLEANUP_FREE = strndup(target, len);
	char *real CLEANUP_FREE = strndup(path, pathlen);
	const char *slash;
	struct implied *im;
	struct stat st;
	struct meta m = { .type = FT_DIR, .mode = 0755 };
	struct bulk_entry e;
	uint64_t parent = 0;
	int r;

	if (!dir || !real)
		return -ENOMEM;
	HASH_FIND_STR(w->implied, dir, im);
	if (im) {
		*id = im->id;
		return 0;
	}
	slash = memrchr(target, '/', len);
	if (slash && pathlen > len - (size_t)(slash - target)) {
		size_t up = (size_t)(slash - target);

		r = implied_dir(w, target, up, path, pathlen - (len - up), &parent);
		if (r)
			return r;
	}
	if (!root_stat(w->s->root, real, true, &st))
		meta_from_stat(&m, &st);
	w->top_flags = parent ? 0 : ENTRY_F_TOP;
	r = walk_begin_entry(w, &e, ENTRY_DIR, slash ? dir + (slash - target) + 1 : dir, &m);
	if (r)
		return r;
	e.parent = parent;
	walk_publish(w->s, e.id, NULL);
	r = walk_put_entry(w, &e);
	im = calloc(1, sizeof(*im));
	if (r || !im) {
		free(im);
		return r ? r : -ENOMEM;
	}
	im->path = steal_ptr(&dir);
	*id = im->id = e.id;
	HASH_ADD_KEYPTR(hh, w->implied, im->path, strlen(im->path), im);
	return 0;
}

/* A name of a list goes below the destination by the same relative path. */
static int walk_listed(struct walk *w, const char *path, const char *target)
{
	const char *slash = strrchr(target, '/');
	size_t cut = slash ? strlen(slash) : 0;
	char *full CLEANUP_FREE = full_path(w->s, path);
	uint64_t id;
	int r;

	if (!full)
		return -ENOMEM;
	if (!slash || strlen(full) <= cut)
		return walk_path(w, path);
	/* A sink bounds the open ones. A directory that comes again is announced again. */
	r = HASH_COUNT(w->implied) < IMPLIED_MOST ? 0 : walk_end_implied(w);
	if (!r)
		r = implied_dir(w, target, (size_t)(slash - target), full, strlen(full) - cut, &id);
	if (!r)
		r = walk_push_dir(w, id);
	if (r)
		return r;
	r = walk_path(w, path);
	w->depth--;
	return r;
}

int walk_named(struct walk *w, uint32_t i)
{
	const struct transfer_item *it = &w->s->items[i];

	if (it->kind != ITEM_PATH)
		return walk_stream(w, it);
	if (w->s->targets)
		return walk_listed(w, it->path, w->s->targets[i]);
	return walk_path(w, it->path);
}

int walk_end_implied(struct walk *w)
{
	struct implied *im, *next;
	int r = 0;

	HASH_ITER(hh, w->implied, im, next) {
		if (!r)
			r = walk_end_dir(w, im->id);
		HASH_DEL(w->implied, im);
		free(im->path);
		free(im);
	}
	return r;
}
