// SPDX-License-Identifier: Apache-2.0
/* The source's first stage: turns what was named into entries, with no answer from the
 * sink, and says what is to be read. */
#include "transfer/source_walk.h"
#include "transfer/xattrs.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* Entries are sent when there are this many bytes of them, or this old. */
#define FLUSH_BYTES 16384
#define FLUSH_NS 5000000ull

/* ---- sending entries ---- */

int walk_flush(struct walk *w)
{
	int r;

	w->flushed_ns = now_ns();
	if (buf_len(w->frame)) {
		r = xfer_send(&w->s->x, BULK_ENTRIES, w->frame);
		buf_reset(w->frame);
		if (r)
			return r;
	}
	if (w->nfiles) {
		plan_ready_list(w->s->plan, w->first, w->last, w->nfiles);
		w->first = w->last = NULL;
		w->nfiles = 0;
	}
	return 0;
}

void walk_read_later(struct walk *w, struct sfile *f)
{
	f->next = NULL;
	if (w->last)
		w->last->next = f;
	else
		w->first = f;
	w->last = f;
	w->nfiles++;
}

/* Of entries, and of what some of them bring along. */
static bool window_full(struct source *s, uint32_t weight)
{
	return !xfer_failed(&s->x) &&
	       (s->next - s->oldest >= s->ahead ||
		(weight && s->details && s->details + weight > BULK_DETAILS_MAX));
}

/* The next id, once the window has room for it. 0: the transfer has failed. */
static uint64_t new_id(struct walk *w)
{
	struct source *s = w->s;

	pthread_mutex_lock(&s->lock);
	if (window_full(s, w->weight)) {
		/* The sink can finish only what it has heard of. */
		pthread_mutex_unlock(&s->lock);
		if (walk_flush(w))
			return 0;
		pthread_mutex_lock(&s->lock);
		while (window_full(s, w->weight))
			pthread_cond_wait(&s->moved, &s->lock);
	}
	if (xfer_failed(&s->x)) {
		pthread_mutex_unlock(&s->lock);
		return 0;
	}
	s->out[s->next % s->ahead] = 1;
	s->slots[s->next % s->ahead] = NULL;
	s->weights[s->next % s->ahead] = w->weight;
	s->details += w->weight;
	w->weight = 0;
	pthread_mutex_unlock(&s->lock);
	atomic_fetch_add_explicit(&s->entries, 1, memory_order_relaxed);
	return s->next;
}

/* The id becomes visible to the control reader here, with its file. */
void walk_publish(struct source *s, uint64_t id, struct sfile *f)
{
	LOCK_GUARD(guard, &s->lock);

	s->slots[id % s->ahead] = f;
	s->next = id + 1;
}

int walk_put_entry(struct walk *w, const struct bulk_entry *e)
{
	int r = bulk_entry_put(w->frame, e);

	if (r == -ENOBUFS) {
		r = walk_flush(w);
		if (!r)
			r = bulk_entry_put(w->frame, e);
	}
	if (!r && (buf_len(w->frame) >= FLUSH_BYTES || now_ns() - w->flushed_ns > FLUSH_NS))
		r = walk_flush(w);
	return r;
}

static void entry_meta(struct bulk_entry *e, const struct meta *m)
{
	e->mode = m->mode;
	e->uid = m->uid;
	e->gid = m->gid;
	e->mtime_s = m->mtime_s;
	e->mtime_ns = m->mtime_ns;
	e->size = m->size;
}

static void expect_place(struct source *s)
{
	LOCK_GUARD(guard, &s->lock);

	s->places_due++;
}

/* A fresh entry below the directory we are in. */
int walk_begin_entry(struct walk *w, struct bulk_entry *e, uint8_t type, const char *name,
		       const struct meta *m)
{
	*e = (struct bulk_entry){ .type = type, .name = name };
	e->id = new_id(w);
	if (!e->id)
		return -ECANCELED;
	e->parent = w->depth ? w->ids[w->depth - 1] : 0;
	e->flags = w->top_flags;
	w->top_flags = 0;
	entry_meta(e, m);
	if (type == ENTRY_DIR && (e->flags & ENTRY_F_TOP) && w->s->x.same_host)
		expect_place(w->s);
	return 0;
}

void walk_failed(struct walk *w, const char *path, int code)
{
	char text[ERR_TEXT];

	snprintf(text, sizeof(text), "%s: %s", printable(path), root_why(code));
	source_file_failed(w->s, NULL, path, code, text);
}

/* A device, a pipe or a socket. */
static void leave_out(struct walk *w, const struct walk_item *it)
{
	char *path CLEANUP_FREE = dir_path(it->parent, it->name);

	atomic_fetch_add_explicit(&w->s->left_out, 1, memory_order_relaxed);
	log_warn("%s: not a file, directory or link: left out",
		 printable(path ? path : it->name));
}

static void item_failed(struct walk *w, const struct walk_item *it, int code)
{
	char *path CLEANUP_FREE = it->parent ? dir_path(it->parent, it->name) : NULL;

	walk_failed(w, path ? path : w->top, code);
}

/* An entry of what is no file becomes visible here. In a dry run the sink is asked about
 * it, so that what it would do can be told. */
int walk_publish_name(struct walk *w, struct bulk_entry *e, enum sfile_kind kind,
		      struct dir *dir, const char *name)
{
	struct sfile *f = NULL;

	if (w->s->x.req->flags & BULK_F_DRY_RUN) {
		f = sfile_new(e->id, kind, dir, name);
		if (!f)
			return -ENOMEM;
		e->flags |= ENTRY_F_ASK;
		f->asked = true;
		f->size = e->size;
		plan_expect(w->s->plan);
	}
	walk_publish(w->s, e->id, f);
	return 0;
}

/* ---- directories ---- */

int walk_wait_places(struct walk *w)
{
	struct source *s = w->s;
	int r = s->x.same_host ? walk_flush(w) : 0;
	LOCK_GUARD(guard, &s->lock);

	while (!r && s->places_due && !xfer_failed(&s->x))
		pthread_cond_wait(&s->moved, &s->lock);
	return xfer_failed(&s->x) ? -ECANCELED : r;
}

bool walk_is_place(struct walk *w, uint64_t dev, uint64_t ino)
{
	LOCK_GUARD(guard, &w->s->lock);

	return inodes_find(&w->s->places, dev, ino);
}

/* A destination below the source: what is in it came from there, or is in other ways not
 * for us to copy while it grows. */
static int pass_over(struct walk *w, const struct walk_item *it)
{
	char *path CLEANUP_FREE = dir_path(it->parent, it->name);
	char text[ERR_TEXT];

	snprintf(text, sizeof(text), "%s: a directory is not copied into itself: left out",
		 printable(path ? path : it->name));
	source_file_failed(w->s, NULL, path ? path : it->name, -EINVAL, text);
	return WALK_PASS_OVER;
}

static int found_dir(struct walk *w, const struct walk_item *it)
{
	if (it->leaving)
		return walk_leave_dir(w);
	if (w->s->x.same_host && walk_is_place(w, it->meta.dev, it->meta.ino))
		return pass_over(w, it);
	return walk_enter_dir(w, it->dir, it->name, &it->meta);
}

int walk_push_dir(struct walk *w, uint64_t id)
{
	if (w->depth == w->ids_room) {
		size_t room = w->ids_room ? 2 * w->ids_room : 64;
		uint64_t *ids = realloc(w->ids, room * sizeof(*ids));

		if (!ids)
			return -ENOMEM;
		w->ids = ids;
		w->ids_room = room;
	}
	w->ids[w->depth++] = id;
	return 0;
}

/* Those of a directory that cannot be read are left out: it is there all the same. */
static void dir_xattrs(struct walk *w, struct bulk_entry *e, struct dir *dir)
{
	int dfd = dir_pin(dir);

	buf_reset(w->xattrs);
	if (dfd < 0)
		return;
	if (xattrs_get(dfd, w->xattrs)) {
		log_warn("attributes of a directory could not be read");
		buf_reset(w->xattrs); /* half of them, or more than an entry carries */
	}
	dir_unpin(dir);
	e->xattrs = buf_ptr(w->xattrs);
	e->xattrs_len = (uint32_t)buf_len(w->xattrs);
}

int walk_enter_dir(struct walk *w, struct dir *dir, const char *name, const struct meta *m)
{
	struct bulk_entry e, extra = { 0 };
	int r;

	if (dir && (w->s->x.req->flags & BULK_F_XATTRS))
		dir_xattrs(w, &extra, dir);
	w->weight = bulk_entry_details(&extra);
	r = walk_begin_entry(w, &e, ENTRY_DIR, name, m);
	if (r)
		return r;
	e.xattrs = extra.xattrs;
	e.xattrs_len = extra.xattrs_len;
	r = walk_publish_name(w, &e, SFILE_DIR, dir, dir ? "" : name);
	if (!r)
		r = walk_put_entry(w, &e);
	return r ? r : walk_push_dir(w, e.id);
}

int walk_end_dir(struct walk *w, uint64_t id)
{
	struct bulk_entry e = { .type = ENTRY_DIR_END, .id = id, .name = "" };

	return walk_put_entry(w, &e);
}

int walk_leave_dir(struct walk *w)
{
	return walk_end_dir(w, w->ids[--w->depth]);
}

/* ---- what the walk finds ---- */

static int put_link(struct walk *w, const struct walk_item *it)
{
	struct bulk_entry e;
	int r = walk_begin_entry(w, &e, ENTRY_LINK, it->name, &it->meta);

	if (r)
		return r;
	e.target = it->target;
	r = walk_publish_name(w, &e, SFILE_LINK, it->parent, it->name);
	return r ? r : walk_put_entry(w, &e);
}

int walk_on_item(void *arg, const struct walk_item *it)
{
	struct walk *w = arg;

	if (xfer_failed(&w->s->x))
		return -ECANCELED;
	if (it->error) {
		item_failed(w, it, it->error);
		return 0;
	}
	switch (it->meta.type) {
	case FT_DIR:
		return found_dir(w, it);
	case FT_LINK:
		return put_link(w, it);
	case FT_FILE:
		return walk_put_name(w, it->parent, it->name, it->name, &it->meta);
	default:
		leave_out(w, it);
		return 0;
	}
}

static void walk_clear(struct walk *w)
{
	inodes_clear(&w->links);
	while (w->first) {
		struct sfile *f = w->first;

		w->first = f->next;
		sfile_put(f);
	}
	buf_free(w->frame);
	buf_free(w->xattrs);
	free(w->ids);
}

void *source_walk(void *arg)
{
	struct source *s = arg;
	struct walk w = { .s = s, .frame = buf_new(BULK_FRAME_MAX),
			  .xattrs = buf_new(2 * BULK_XATTRS_MAX), .flushed_ns = now_ns() };
	int r = w.frame && w.xattrs ? 0 : -ENOMEM, r2;

	for (uint32_t i = 0; i < s->nitems && !r && !xfer_failed(&s->x); i++)
		r = walk_named(&w, i);
	r2 = walk_end_implied(&w);
	if (!r)
		r = r2;
	if (!r)
		r = walk_flush(&w);
	if (!r)
		r = xfer_send(&s->x, BULK_WALKED, NULL);
	if (r && r != -ECANCELED)
		xfer_fail(&s->x, r, "reading the names: %s", strerror(-r));
	walk_clear(&w);
	atomic_store(&s->walked, true);
	plan_close(s->plan);
	return NULL;
}
