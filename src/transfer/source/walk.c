// SPDX-License-Identifier: Apache-2.0
/* The walk: named sources and the trees below them become entries. */
#include "transfer/source/walk.h"

#include "transfer/setup.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <time.h>

#define IMPLIED_MOST 65536u /* open at once; the parents of the last one may exceed it */

/* ---- the filter ---- */

enum admission { LEFT_OUT, ADMITTED, LEFT_BY_LIMIT };

/* Does the filter include name, in the present directory? An enum admission, where LEFT_BY_LIMIT is
 * for size or age; or -ENOMEM. m NULL: its size and time are not known. */
static int walk_admits(struct walk *w, const char *name, bool is_dir, const struct meta *m)
{
	size_t at = w->rel_len + (w->rel_len > 0), need = at + strlen(name) + 1;
	char *rel = w->rel;

	if (!w->filter && !w->sum)
		return ADMITTED;
	if (need > w->rel_room) {
		rel = realloc(w->rel, 2 * need);
		if (!rel)
			return -ENOMEM;
		w->rel = rel;
		w->rel_room = 2 * need;
	}
	if (w->rel_len)
		rel[w->rel_len] = '/';
	strcpy(rel + at, name);
	if (!w->filter)
		return ADMITTED;
	if (!filter_admits(w->filter, rel, is_dir))
		return LEFT_OUT;
	return !m || m->type != FT_FILE || filter_admits_file(w->filter, m->size, m->mtime_s) ?
	       ADMITTED : LEFT_BY_LIMIT;
}

/* Enter the directory that walk_admits() was asked about. */
static void walk_rel_enter(struct walk *w)
{
	w->rel_len = w->rel ? strlen(w->rel) : 0;
}

static void walk_rel_leave(struct walk *w)
{
	while (w->rel_len && w->rel[--w->rel_len] != '/')
		;
}

/* ---- directories ---- */

static int walk_wait_places(struct walk *w)
{
	struct source *s = w->s;
	int r = s->x.same_host ? walk_flush(w) : 0;
	LOCK_GUARD(guard, &s->lock);

	while (!r && s->places_due && !xfer_failed(&s->x))
		pthread_cond_wait(&s->moved, &s->lock);
	return xfer_failed(&s->x) ? -ECANCELED : r;
}

static bool walk_is_dest_dir(struct walk *w, uint64_t dev, uint64_t ino)
{
	LOCK_GUARD(guard, &w->s->lock);

	return inodes_find(&w->s->places, dev, ino);
}

static bool is_above_dest(struct walk *w, uint64_t dev, uint64_t ino)
{
	LOCK_GUARD(guard, &w->s->lock);

	return inodes_find(&w->s->above, dev, ino);
}

static int is_dest(void *arg, uint64_t dev, uint64_t ino)
{
	return walk_is_dest_dir(arg, dev, ino);
}

static int walk_push_dir(struct walk *w, uint64_t id)
{
	if (!array_has_room(w->ids, w->depth, w->ids_room))
		return -ENOMEM;
	w->ids[w->depth++] = (struct walk_dir){ .id = id };
	return 0;
}

static int walk_enter_dir(struct walk *w, struct dir *dir, const char *name, const struct meta *m)
{
	struct bulk_entry e = { 0 };
	int dfd, r;

	if (w->s->x.c->request.flags & BULK_F_XATTRS) {
		dfd = dir_pin(dir);
		/* Attributes that cannot be read are left out; the directory is sent anyway. */
		if (walk_xattrs(w, &e, dfd) && dfd >= 0)
			log_warn("attributes of a directory cannot be read");
		if (dfd >= 0)
			dir_unpin(dir);
	}

	r = walk_put_name(w, &e, ENTRY_DIR, dir, "", name, m, NULL);
	return r ? r : walk_push_dir(w, e.id);
}

static int walk_end_dir(struct walk *w, struct walk_dir d)
{
	struct bulk_entry e = { .type = ENTRY_DIR_END, .id = d.id, .name = "" };

	if (d.partial && w->names)
		e.flags = ENTRY_F_PARTIAL;
	return walk_put_entry(w, &e);
}

static int walk_leave_dir(struct walk *w)
{
	return walk_end_dir(w, w->ids[--w->depth]);
}

/* ---- items of a tree ---- */

static int walk_on_item(void *arg, const struct walk_item *it)
{
	const bool is_dir = it->meta.type == FT_DIR;
	char *path CLEANUP_FREE = NULL;
	struct bulk_entry e = { 0 };
	struct walk *w = arg;
	int r;

	if (xfer_failed(&w->s->x))
		return -ECANCELED;
	/* An error with dir set is of a directory that was entered already. */
	r = it->leaving || (it->error && it->dir) ? ADMITTED :
	    walk_admits(w, it->name, is_dir, it->error ? NULL : &it->meta);
	if (r < 0 || r == LEFT_OUT)
		return r ? r : is_dir ? WALK_PASS_OVER : 0;
	if (r == LEFT_BY_LIMIT)
		return walk_put_unsent(w, it->name);
	if (it->error) {
		path = it->parent ? dir_path(it->parent, it->name) : NULL;
		walk_failed(w, path ? path : w->top, it->error, NULL);
		if (!it->dir)
			return walk_put_unsent(w, it->name);
		if (w->depth)
			w->ids[w->depth - 1].partial = true;
		return 0;
	}
	switch (it->meta.type) {
	case FT_DIR:
		if (it->leaving) {
			walk_rel_leave(w);
			return walk_leave_dir(w);
		}
		/* The destination is below the source: it grows with the copies. */
		if (w->s->x.same_host && walk_is_dest_dir(w, it->meta.dev, it->meta.ino)) {
			path = dir_path(it->parent, it->name);
			walk_failed(w, path ? path : it->name, -EINVAL,
				    "a directory is not copied into itself: left out");
			r = walk_put_unsent(w, it->name);
			return r ? r : WALK_PASS_OVER;
		}
		r = walk_enter_dir(w, it->dir, it->name, &it->meta);
		if (r)
			return r;
		if (w->filter && w->filter->one_filesystem && it->meta.dev != w->dev) {
			w->ids[w->depth - 1].partial = true;
			r = walk_leave_dir(w);
			return r ? r : WALK_PASS_OVER;
		}
		walk_rel_enter(w);
		return 0;
	case FT_LINK:
		e.target = it->target;
		return walk_put_name(w, &e, ENTRY_LINK, it->parent, it->name, it->name, &it->meta,
				     NULL);
	case FT_FILE:
		return walk_put_file_name(w, it->parent, it->name, it->name, &it->meta);
	default:
		break; /* a device, a pipe or a socket */
	}
	path = dir_path(it->parent, it->name);
	atomic_fetch_add_explicit(&w->s->x.count.left_out, 1, memory_order_relaxed);
	log_warn("%s: " FILE_KIND_WHY ": left out",
		 printable(path ? path : it->name));
	return walk_put_unsent(w, it->name);
}

/* ---- named sources ---- */

/* "a/", "a/.", ".", "..", "/": the directory's contents rather than itself. */
static bool means_contents(const char *path)
{
	const char *last = strrchr(path, '/');

	last = last ? last + 1 : path;
	return !last[0] || !strcmp(last, ".") || !strcmp(last, "..");
}

static int walk_dir(struct walk *w, const char *path, const char *name, const struct meta *m,
		    bool contents)
{
	struct source *s = w->s;
	struct dir *d;
	int fd, r;

	if (!(s->x.c->request.flags & BULK_F_RECURSIVE)) {
		walk_failed(w, path, -EISDIR, "is a directory (-r copies it)");
		return 0;
	}
	fd = root_open(s->x.c->root, path, O_RDONLY | O_DIRECTORY, 0);
	if (fd < 0) {
		walk_failed(w, path, fd, NULL);
		return 0;
	}
	d = dir_top(s->dirs, fd, path);
	if (!d)
		return -ENOMEM;

	w->dev = m->dev;
	if (contents)
		w->top_flags |= ENTRY_F_CONTENTS;
	else
		walk_rel_enter(w);
	r = walk_enter_dir(w, d, name, m);
	if (!r)
		r = walk_wait_places(w);
	if (!r && is_above_dest(w, m->dev, m->ino))
		r = xfer_fail(&s->x, -EINVAL, "%s: the destination is inside the source",
			      printable(path));
	if (!r && w->names && dirs_above(fd, is_dest, w))
		r = xfer_fail(&s->x, -EINVAL, "%s: the source is inside the destination, where "
			      "--delete would remove it", printable(path));
	if (!r && walk_is_dest_dir(w, m->dev, m->ino)) {
		walk_failed(w, path, -EINVAL,
			    "source and destination are the same directory");
		w->ids[w->depth - 1].partial = true;
	} else if (!r) {
		r = walk_tree(d, 0,
			      s->x.c->request.flags & BULK_F_FOLLOW ? s->x.c->root : NULL,
			      walk_on_item, w);
	}
	if (!r)
		r = walk_leave_dir(w);
	walk_rel_leave(w);
	dir_put(d);
	return r;
}

static void last_name(const char *path, char name[256])
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
}

static int walk_path(struct walk *w, const char *named)
{
	char *path CLEANUP_FREE = setup_below(w->s->x.c->cwd, named);
	const struct bulk_piece *want = &w->piece;
	char name[256];
	struct stat st;
	struct meta m;
	bool contents;
	int r;

	if (!path)
		return -ENOMEM;
	w->top = path;
	r = root_stat(w->s->x.c->root, path, true, &st);
	if (r) {
		walk_failed(w, path, r, NULL);
		return 0;
	}
	meta_from_stat(&m, &st);
	last_name(path, name);
	contents = m.type == FT_DIR && means_contents(named);
	r = contents ? ADMITTED : walk_admits(w, name, m.type == FT_DIR, &m);
	if (r != ADMITTED)
		return r < 0 ? r : 0;
	w->top_flags = w->depth ? 0 : ENTRY_F_TOP;

	if (want->dated && (m.type != FT_FILE || m.size != want->size ||
			    m.mtime_s != want->mtime_s || m.mtime_ns != want->mtime_ns)) {
		walk_failed(w, path, -ESTALE, "has another size or time than expected");
		return 0;
	}
	if (want->range.length && (m.type != FT_FILE || want->range.offset > m.size ||
				   want->range.length > m.size - want->range.offset)) {
		walk_failed(w, path, -ERANGE, "it has no bytes in the wanted range");
		return 0;
	}
	if (m.type == FT_DIR)
		return walk_dir(w, path, name, &m, contents);
	if (m.type == FT_FILE)
		return walk_put_file_name(w, NULL, path, name, &m);
	/* A named file of another type is an error; in a directory it is left out. */
	walk_failed(w, path, -EINVAL, FILE_KIND_WHY);
	return 0;
}

/* Standard input, or zeros. */
static int walk_stream(struct walk *w, const struct transfer_item *it)
{
	struct source *s = w->s;
	struct meta m = { .type = FT_FILE, .mode = 0644, .size = it->size };
	struct bulk_entry e = { 0 };
	struct sfile *f;
	bool zero = it->kind == ITEM_ZERO, timed = s->x.c->request.bench_ns;
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
	if (w->sum && (!timed || !zero)) {
		f->rel = strdup(f->name);
		r = f->rel ? sum_new(f, w->sum) : -ENOMEM;
		if (r) {
			sfile_put(f);
			return r;
		}
	}
	return walk_put_file(w, &e, f, e.size);
}

/* The id of the directory for a listed name; sends its entry, and those of its parents, if
 * necessary. */
static int implied_dir(struct walk *w, const char *target, size_t len, const char *path,
		       size_t pathlen, uint64_t *id)
{
	char *dir CLEANUP_FREE = strndup(target, len);
	char *real CLEANUP_FREE = strndup(path, pathlen);
	const char *slash;
	struct implied *im;
	struct stat st;
	struct meta m = { .type = FT_DIR, .mode = 0755 };
	struct bulk_entry e = { 0 };
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
	if (!root_stat(w->s->x.c->root, real, true, &st))
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

/* End all implied directories: no more entries will follow in them. */
static int walk_end_implied(struct walk *w)
{
	struct implied *im, *next;
	int r = 0;

	HASH_ITER(hh, w->implied, im, next) {
		if (!r)
			r = walk_end_dir(w, (struct walk_dir){ .id = im->id });
		HASH_DEL(w->implied, im);
		free(im->path);
		free(im);
	}
	return r;
}

/* Does the filter include all directories of a listed name? The last one becomes the present one.
 * 1: yes; 0: no; or -ENOMEM. */
static int walk_admits_parents(struct walk *w, const char *target)
{
	char *path CLEANUP_FREE = strdup(target), *at = path, *slash;
	int r = path ? 1 : -ENOMEM;

	while (r > 0 && (w->filter || w->sum) && (slash = strchr(at, '/'))) {
		*slash = '\0';
		r = walk_admits(w, at, true, NULL);
		if (r > 0)
			walk_rel_enter(w);
		at = slash + 1;
	}
	if (r <= 0)
		w->rel_len = 0;
	return r;
}

/* Send a listed name; the sink writes it at the same relative path below the destination. */
static int walk_listed(struct walk *w, const char *path, const char *target)
{
	const char *slash = strrchr(target, '/');
	size_t cut = slash ? strlen(slash) : 0;
	char *full CLEANUP_FREE = setup_below(w->s->x.c->cwd, path);
	uint64_t id;
	int r;

	if (!full)
		return -ENOMEM;
	if (!slash || strlen(full) <= cut)
		return walk_path(w, path);
	r = walk_admits_parents(w, target);
	if (r <= 0)
		return r;
	/* A sink limits the open directories, so end them. A directory that is needed again gets a
	 * new entry. */
	r = HASH_COUNT(w->implied) < IMPLIED_MOST ? 0 : walk_end_implied(w);
	if (!r)
		r = implied_dir(w, target, (size_t)(slash - target), full, strlen(full) - cut, &id);
	if (!r)
		r = walk_push_dir(w, id);
	if (r)
		return r;
	r = walk_path(w, path);
	w->depth--;
	w->rel_len = 0;
	return r;
}

/* ---- the thread ---- */

void *source_walk(void *arg)
{
	struct source *s = arg;
	struct walk w = { .s = s, .frame = buf_new(BULK_FRAME_MAX),
			  .xattrs = buf_new(2 * BULK_XATTRS_MAX), .flushed_ns = now_ns(),
			  .sum = *s->x.c->request.sum ? s->x.c->request.sum : NULL,
			  .names = (s->x.c->request.flags & BULK_F_SYNC) &&
				   (s->x.c->request.sync.flags & SYNC_DELETE),
			  .filter = filter_is_set(&s->x.c->request.filter) ?
				    &s->x.c->request.filter : NULL };
	int r = w.frame && w.xattrs ? 0 : -ENOMEM, r2;

	for (uint32_t i = 0; i < s->x.c->nitems && !r && !xfer_failed(&s->x); i++) {
		const struct transfer_item *it = &s->x.c->items[i];

		w.piece = it->piece;
		if (it->kind != ITEM_PATH)
			r = walk_stream(&w, it);
		else if (s->x.c->targets)
			r = walk_listed(&w, it->path, s->x.c->targets[i]);
		else
			r = walk_path(&w, it->path);
	}
	r2 = walk_end_implied(&w);
	if (!r)
		r = r2;
	if (!r)
		r = walk_flush(&w);
	if (!r)
		r = xfer_send(&s->x, BULK_WALKED, NULL);
	if (r == -EPIPE || r == -ETIMEDOUT)
		xfer_control_failed(&s->x, r);
	else if (r && r != -ECANCELED)
		xfer_fail(&s->x, r, "reading the names: %s", strerror(-r));

	for (struct inode *l = w.links.v; l; l = l->hh.next)
		sfile_put(l->owner);
	inodes_clear(&w.links);
	free(w.rel);
	sfile_put_list(w.first);
	buf_free(w.frame);
	buf_free(w.xattrs);
	free(w.ids);
	atomic_store(&s->x.walked, true);
	plan_close(s->plan);
	return NULL;
}
