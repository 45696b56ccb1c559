// SPDX-License-Identifier: Apache-2.0
/* Entries that the walk sends: names, files, links and holes, within the sink's window. */
#include "transfer/source/walk.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <time.h>

/* Entries are sent once there are this many bytes of them, or they are this old. */
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

/* True: the window of entries, or of their ranges and attributes, is full. */
static bool window_full(struct source *s, uint32_t weight)
{
	return !xfer_failed(&s->x) &&
	       (s->next - s->oldest >= s->ahead ||
		(weight && s->details && s->details + weight > BULK_DETAILS_MAX));
}

/* The next id, once the window has room for it and weight bytes of details. 0: the transfer has
 * failed. */
static uint64_t new_id(struct walk *w, uint32_t weight)
{
	struct source *s = w->s;

	pthread_mutex_lock(&s->lock);
	if (window_full(s, weight)) {
		/* The sink can finish only entries that it has received. */
		pthread_mutex_unlock(&s->lock);
		if (walk_flush(w))
			return 0;
		pthread_mutex_lock(&s->lock);
		while (window_full(s, weight))
			pthread_cond_wait(&s->moved, &s->lock);
	}
	if (xfer_failed(&s->x)) {
		pthread_mutex_unlock(&s->lock);
		return 0;
	}
	s->slots[s->next % s->ahead] = (struct source_slot){ .weight = weight, .out = true };
	s->details += weight;
	pthread_mutex_unlock(&s->lock);
	atomic_fetch_add_explicit(&s->x.count.entries, 1, memory_order_relaxed);
	return s->next;
}

void walk_publish(struct source *s, uint64_t id, struct sfile *f)
{
	LOCK_GUARD(guard, &s->lock);

	s->slots[id % s->ahead].file = f;
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

int walk_begin_entry(struct walk *w, struct bulk_entry *e, uint8_t type, const char *name,
		     const struct meta *m)
{
	e->id = new_id(w, bulk_entry_details(e));
	if (!e->id)
		return -ECANCELED;
	e->type = type;
	e->name = name;
	e->mode = m->mode;
	e->uid = m->uid;
	e->gid = m->gid;
	e->mtime_s = m->mtime_s;
	e->mtime_ns = m->mtime_ns;
	e->size = m->size;
	e->parent = w->depth ? w->ids[w->depth - 1].id : 0;
	e->flags |= w->top_flags;
	w->top_flags = 0;
	if (type == ENTRY_DIR && (e->flags & ENTRY_F_TOP) && w->s->x.same_host) {
		LOCK_GUARD(guard, &w->s->lock);

		w->s->places_due++;
	}
	return 0;
}

void walk_failed(struct walk *w, const char *path, int code, const char *reason)
{
	char text[ERR_TEXT];

	snprintf(text, sizeof(text), "%s: %s", printable(path), reason ? reason : root_why(code));
	source_file_failed(w->s, NULL, path, code, text);
}

int walk_put_unsent(struct walk *w, const char *name)
{
	struct bulk_entry e = { .type = ENTRY_NAME, .name = name };

	if (!w->names || !w->depth)
		return 0;
	e.parent = w->ids[w->depth - 1].id;
	return walk_put_entry(w, &e);
}

int walk_put_name(struct walk *w, struct bulk_entry *e, uint8_t type, struct dir *dir,
		  const char *path, const char *name, const struct meta *m,
		  struct sfile *linked)
{
	bool dry = w->s->x.c->request.flags & BULK_F_DRY_RUN;
	struct sfile *f = NULL;
	int r = walk_begin_entry(w, e, type, name, m);

	if (r)
		return r;
	if (dry || linked) {
		f = sfile_new(e->id, type == ENTRY_DIR ? SFILE_DIR : SFILE_LINK, dir, path);
		if (!f)
			return -ENOMEM;
		f->size = e->size;
		if (linked) {
			f->mtime_s = m->mtime_s;
			f->mtime_ns = m->mtime_ns;
			f->linked = sfile_ref(linked);
			f->rel = strdup(w->rel ? w->rel : name);
			if (!f->rel) {
				sfile_put(f);
				return -ENOMEM;
			}
		}
	}
	if (dry) {
		e->flags |= ENTRY_F_ASK;
		f->asked = true;
		plan_expect(w->s->plan);
	}

	walk_publish(w->s, e->id, f);
	return walk_put_entry(w, e);
}

int walk_xattrs(struct walk *w, struct bulk_entry *e, int fd)
{
	int r;

	buf_reset(w->xattrs);
	r = fd < 0 ? fd : xattrs_get(fd, w->xattrs);
	if (r)
		buf_reset(w->xattrs); /* incomplete, or more than an entry may carry */
	e->xattrs = buf_ptr(w->xattrs);
	e->xattrs_len = (uint32_t)buf_len(w->xattrs);
	return r;
}

/* ---- files, with the facts that need the open file ---- */

/* The table is limited, because a file with names outside of the copied trees stays in it. */
static bool links_full(struct walk *w)
{
	uint32_t max = w->s->x.c->tuning.link_groups;

	if (w->links.n < (max ? max : BULK_LINKED_MAX))
		return false;
	if (!w->links_full)
		log_warn("more than %zu files have names that were not seen yet: further hard "
			 "links become files of their own", w->links.n);
	w->links_full = true;
	return true;
}

static bool is_linked(struct walk *w, const struct meta *m)
{
	return m->nlink > 1 && !w->piece.range.length && (w->s->x.c->request.flags & BULK_F_HARDLINKS);
}

/* True: an earlier attempt of the same command has committed f. */
static bool walk_was_committed(struct source *s, const struct sfile *f)
{
	bool again = s->x.committed && (s->x.c->request.flags & BULK_F_AGAIN);
	char *path CLEANUP_FREE = again ? sfile_path(f) : NULL;

	return path && committed_has(s->x.committed, path);
}

static bool must_ask(struct source *s, const struct sfile *f)
{
	if (f->only.length || s->x.c->request.policy != POLICY_OVERWRITE || s->x.agr.sink_keeps ||
	    (s->x.c->request.flags & (BULK_F_DRY_RUN | BULK_F_SYNC)))
		return true;
	/* In a get the client is the sink, and remembers its files itself: ask. */
	if ((s->x.c->request.flags & BULK_F_AGAIN) && !s->x.client)
		return true;
	return f->kind == SFILE_PATH && (s->x.c->request.flags & BULK_F_RESUME) &&
	       f->size >= RESUME_MIN;
}

int walk_put_file(struct walk *w, struct bulk_entry *e, struct sfile *f, uint64_t data)
{
	struct source *s = w->s;
	bool committed = walk_was_committed(s, f), ask = committed || must_ask(s, f);
	int r;

	if (committed)
		e->flags |= ENTRY_F_COMMITTED;
	if (ask) {
		e->flags |= ENTRY_F_ASK;
		f->asked = true;
		plan_expect(s->plan);
	}
	atomic_fetch_add_explicit(&s->x.count.bytes_known, data, memory_order_relaxed);
	walk_publish(s, e->id, sfile_ref(f));
	r = walk_put_entry(w, e);
	if (!r && !ask && (data || f->kind != SFILE_PATH)) {
		*(w->last ? &w->last->next : &w->first) = f;
		w->last = sfile_ref(f);
		w->nfiles++;
	}
	if (!r && (f->kind != SFILE_PATH || (sends_sums(s) && !sfile_has_data(f))))
		r = walk_flush(w);
	if (!r && !sfile_has_data(f))
		r = source_send_sum(s, f);
	sfile_put(f);
	return r;
}

/* The data within a range. */
struct clipped {
	struct range_list g;
	struct bulk_range to;
};

static int add_clipped(void *arg, uint64_t off, uint64_t len)
{
	struct clipped *c = arg;
	uint64_t from = off > c->to.offset ? off : c->to.offset;
	uint64_t end = min_u64(off + len, c->to.offset + c->to.length);

	return from < end ? range_list_add(&c->g, from, end - from) : 0;
}

/* Describe the data of f, or of its range, in f and its entry. holes: it may have some. */
static int describe_data(struct walk *w, struct bulk_entry *e, struct sfile *f, bool holes,
			 uint64_t *data, uint8_t **wire)
{
	struct clipped c = { .g.most = BULK_RANGES_MAX, .to = { 0, f->size } };
	struct range_list g;
	int r = 0;

	if (f->only.length)
		c.to = f->only;
	if (holes) {
		int fd CLEANUP_CLOSE = source_open(w->s, f, O_RDONLY | O_NONBLOCK);

		r = fd < 0 ? fd : data_ranges(fd, f->size, add_clipped, &c);
	} else {
		r = add_clipped(&c, c.to.offset, c.to.length);
	}
	g = c.g;
	if (r || (!f->only.length && g.n == 1 && g.v[0].offset == 0 && g.v[0].length == f->size)) {
		free(g.v);
		return r;
	}
	*wire = malloc((size_t)g.n * 16 + 1);
	for (uint32_t i = 0; *wire && i < g.n; i++)
		bulk_range_set(*wire, i, g.v[i]);
	/* Not NULL even without any data: NULL would mean the whole file. */
	f->ranges = g.v ? g.v : calloc(1, sizeof(*g.v));
	f->nranges = g.n;
	*data = g.bytes;
	e->flags |= ENTRY_F_SPARSE;
	e->nranges = g.n;
	e->ranges = *wire;
	e->range = f->only;
	if (f->only.length)
		e->flags |= ENTRY_F_RANGE;
	return *wire && f->ranges ? 0 : -ENOMEM;
}

/* Fill in the facts that need the open file. */
static int walk_describe(struct walk *w, struct bulk_entry *e, struct sfile *f,
			 const struct meta *m, uint64_t *data, uint8_t **wire)
{
	/* A sink that is a stream cannot have holes: zeros are sent instead. */
	bool holes = m->size && m->blocks * 512 < m->size &&
		     (w->s->x.c->request.flags & (BULK_F_SPARSE | BULK_F_SEQUENTIAL)) ==
			     BULK_F_SPARSE;
	int r = 0;

	*data = m->size;
	f->only = w->piece.range;
	if (holes || f->only.length)
		r = describe_data(w, e, f, holes, data, wire);
	if (!r && (w->s->x.c->request.flags & BULK_F_XATTRS)) {
		int fd CLEANUP_CLOSE = source_open(w->s, f, O_PATH);

		r = walk_xattrs(w, e, fd);
	}
	if (!r && *data && w->s->sort) {
		int fd CLEANUP_CLOSE = source_open(w->s, f, O_RDONLY | O_NONBLOCK | O_NOCTTY);

		/* If it cannot be opened, its reader will report that. */
		f->address = fd < 0 ? ADDRESS_UNKNOWN : file_address(fd);
	}
	return r;
}

static int walk_add_sum(struct walk *w, struct sfile *f)
{
	f->rel = strdup(w->rel ? w->rel : f->name);
	return f->rel ? sum_new(f, w->sum) : -ENOMEM;
}

/* Send the file path in parent, as name. Without parent, path is the path of a named source. */
static int put_regular(struct walk *w, struct dir *parent, const char *path,
		       const char *name, const struct meta *m)
{
	struct sfile *f = sfile_new(0, SFILE_PATH, parent, path);
	uint8_t *wire CLEANUP_FREE = NULL;
	struct bulk_entry e = { 0 };
	struct inode *l;
	uint64_t data;
	int r;

	if (!f)
		return -ENOMEM;

	f->size = m->size;
	f->mtime_s = m->mtime_s;
	f->mtime_ns = m->mtime_ns;
	f->ctime_s = m->ctime_s;
	f->ctime_ns = m->ctime_ns;
	f->dev = m->dev;
	f->ino = m->ino;

	r = walk_describe(w, &e, f, m, &data, &wire);
	if (!r && w->sum)
		r = walk_add_sum(w, f);
	if (r) {
		char *full CLEANUP_FREE = sfile_path(f);

		walk_failed(w, full ? full : f->name, r, NULL);
		sfile_put(f);
		return walk_put_unsent(w, name);
	}

	r = walk_begin_entry(w, &e, ENTRY_FILE, name, m);
	f->id = e.id;
	if (!r && is_linked(w, m) && !links_full(w)) {
		e.flags |= ENTRY_F_LINKED;
		l = inodes_add(&w->links, m->dev, m->ino, e.id);
		if (l)
			l->left = m->nlink > UINT32_MAX ? UINT32_MAX : (uint32_t)m->nlink - 1;
		if (l && w->sum)
			l->owner = sfile_ref(f);
		r = l ? 0 : -ENOMEM;
	}

	if (r) {
		sfile_put(f);
		return r;
	}
	return walk_put_file(w, &e, f, data);
}

int walk_put_file_name(struct walk *w, struct dir *parent, const char *path,
		       const char *name, const struct meta *m)
{
	struct inode *l = is_linked(w, m) ? inodes_find(&w->links, m->dev, m->ino) : NULL;
	struct sfile *linked;
	int r;
	struct bulk_entry e = { 0 };

	if (!l)
		return put_regular(w, parent, path, name, m);
	e.link_id = l->id;
	linked = l->owner ? sfile_ref(l->owner) : NULL;
	if (--l->left == 0) {
		e.flags = ENTRY_F_LAST;
		sfile_put(l->owner);
		inodes_remove(&w->links, l);
	}
	r = walk_put_name(w, &e, ENTRY_HARDLINK, parent, path, name, m, linked);
	if (!r && linked && sends_sums(w->s))
		r = walk_flush(w);
	if (!r && linked)
		r = source_send_link_sum(w->s, linked, e.id);
	sfile_put(linked);
	return r;
}
