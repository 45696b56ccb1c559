// SPDX-License-Identifier: Apache-2.0
/* The entry of a file: its holes, its attributes, its other names; and when it is read. */
#include "transfer/range_list.h"
#include "transfer/source_walk.h"
#include "transfer/xattrs.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

static int add_range(void *arg, uint64_t off, uint64_t len)
{
	return range_list_add(arg, off, len);
}

/* A stream has no place for holes: it gets their zeros. */
static bool may_be_sparse(struct walk *w, const struct meta *m)
{
	return (w->s->x.req->flags & (BULK_F_SPARSE | BULK_F_SEQUENTIAL)) == BULK_F_SPARSE &&
	       m->size && m->blocks * 512 < m->size;
}

/* The data of a sparse file; *sparse false for one without holes. */
static int find_ranges(struct source *s, const struct sfile *f, struct range_list *g, bool *sparse)
{
	int fd CLEANUP_CLOSE = source_open(s, f, O_RDONLY | O_NONBLOCK);
	int r = fd < 0 ? fd : data_ranges(fd, f->size, add_range, g);

	*sparse = !r && !(g->n == 1 && g->v[0].offset == 0 && g->v[0].length == f->size);
	return r;
}

/* The entry of the group's first name when this is a later one, else 0. When it is the last
 * the group is forgotten. */
static uint64_t known_link(struct walk *w, const struct meta *m, bool *last)
{
	struct inode *l = inodes_find(&w->links, m->dev, m->ino);
	uint64_t id = l ? l->id : 0;

	*last = l && --l->left == 0;
	if (*last)
		inodes_remove(&w->links, l);
	return id;
}

/* Names of files that have others outside of what is copied are never all seen, so there
 * must be an end to what is remembered. */
static bool links_full(struct walk *w)
{
	uint32_t max = w->s->x.tuning->link_groups;

	if (w->links.n < (max ? max : BULK_LINKED_MAX))
		return false;
	if (!w->links_full)
		log_warn("more than %zu files have names that were not seen yet: further hard "
			 "links become files of their own", w->links.n);
	w->links_full = true;
	return true;
}

static int remember_link(struct walk *w, const struct meta *m, uint64_t id)
{
	struct inode *l = inodes_add(&w->links, m->dev, m->ino, id);

	if (!l)
		return -ENOMEM;
	l->left = m->nlink > UINT32_MAX ? UINT32_MAX : (uint32_t)m->nlink - 1;
	return 0;
}

static bool is_linked(struct walk *w, const struct meta *m)
{
	return m->nlink > 1 && (w->s->x.req->flags & BULK_F_HARDLINKS);
}

static int put_hardlink(struct walk *w, struct dir *parent, const char *path,
			const char *name, const struct meta *m, uint64_t to, bool last)
{
	struct bulk_entry e;
	int r = walk_begin_entry(w, &e, ENTRY_HARDLINK, name, m);

	if (r)
		return r;
	e.link_id = to;
	if (last)
		e.flags |= ENTRY_F_LAST;
	r = walk_publish_name(w, &e, SFILE_LINK, parent, path);
	return r ? r : walk_put_entry(w, &e);
}

/* An earlier attempt of the same command has committed f. A server's sink knows by itself. */
static bool was_committed(struct source *s, const struct sfile *f)
{
	char *path CLEANUP_FREE = s->x.committed ? sfile_path(f) : NULL;

	return (s->x.req->flags & BULK_F_AGAIN) && path && committed_has(s->x.committed, path);
}

static bool must_ask(struct source *s, const struct sfile *f)
{
	if (s->x.req->policy != POLICY_OVERWRITE || (s->x.req->flags & BULK_F_DRY_RUN) ||
	    s->x.agr.sink_keeps)
		return true;
	/* In a get the client knows. */
	if ((s->x.req->flags & BULK_F_AGAIN) && !s->x.client)
		return true;
	return f->kind == SFILE_PATH && (s->x.req->flags & BULK_F_RESUME) &&
	       f->size >= RESUME_MIN;
}

/* Encode ranges as they travel. */
static uint8_t *wire_ranges(const struct range_list *g)
{
	uint8_t *p = malloc((size_t)g->n * 16 + 1);

	for (uint32_t i = 0; p && i < g->n; i++)
		bulk_range_set(p, i, g->v[i]);
	return p;
}

/* Send f's entry and see that it is read: at once, after the verdict, or not at all
 * when there is nothing in it. */
int walk_put_file(struct walk *w, struct bulk_entry *e, struct sfile *f, uint64_t data)
{
	struct source *s = w->s;
	bool committed = was_committed(s, f), ask = committed || must_ask(s, f);
	int r;

	if (committed)
		e->flags |= ENTRY_F_COMMITTED;
	if (ask) {
		e->flags |= ENTRY_F_ASK;
		f->asked = true;
		plan_expect(s->plan);
	}
	atomic_fetch_add_explicit(&s->files, 1, memory_order_relaxed);
	atomic_fetch_add_explicit(&s->bytes_known, data, memory_order_relaxed);
	walk_publish(s, e->id, sfile_ref(f));
	r = walk_put_entry(w, e);
	if (!r && !ask && (data || f->kind != SFILE_PATH))
		walk_read_later(w, sfile_ref(f));
	if (!r && f->kind != SFILE_PATH)
		r = walk_flush(w);
	sfile_put(f);
	return r;
}

/* Holes of f, as f and its entry need them. */
static int describe_holes(struct walk *w, struct bulk_entry *e, struct sfile *f,
			  uint64_t *data, uint8_t **wire)
{
	struct range_list g = { 0 };
	bool sparse = false;
	int r = find_ranges(w->s, f, &g, &sparse);

	if (r || !sparse) {
		free(g.v);
		return r;
	}
	*wire = wire_ranges(&g);
	/* Without any data, too: NULL would mean all of it. */
	f->ranges = g.v ? g.v : calloc(1, sizeof(*g.v));
	f->nranges = g.n;
	*data = g.bytes;
	e->flags |= ENTRY_F_SPARSE;
	e->nranges = g.n;
	e->ranges = *wire;
	return *wire && f->ranges ? 0 : -ENOMEM;
}

static int describe_xattrs(struct walk *w, struct bulk_entry *e, const struct sfile *f)
{
	int fd CLEANUP_CLOSE = source_open(w->s, f, O_PATH);
	int r = fd < 0 ? fd : xattrs_get(fd, w->xattrs);

	e->xattrs = buf_ptr(w->xattrs);
	e->xattrs_len = (uint32_t)buf_len(w->xattrs);
	return r;
}

/* Should it not open, its reader will say so. */
static uint64_t find_address(struct source *s, const struct sfile *f)
{
	int fd CLEANUP_CLOSE = source_open(s, f, O_RDONLY | O_NONBLOCK | O_NOCTTY);

	return fd < 0 ? ADDRESS_UNKNOWN : file_address(fd);
}

/* What only the file itself tells. */
static int describe(struct walk *w, struct bulk_entry *e, struct sfile *f,
		    const struct meta *m, uint64_t *data, uint8_t **wire)
{
	int r = 0;

	*data = m->size;
	if (may_be_sparse(w, m))
		r = describe_holes(w, e, f, data, wire);
	if (!r && (w->s->x.req->flags & BULK_F_XATTRS))
		r = describe_xattrs(w, e, f);
	if (!r && *data && w->s->sort)
		f->address = find_address(w->s, f);
	return r;
}

static void describe_failed(struct walk *w, struct sfile *f, int code)
{
	char *path CLEANUP_FREE = sfile_path(f);

	walk_failed(w, path ? path : f->name, code);
}

/* A file found as name in parent; or, without a parent, named by a path that goes under
 * name. */
static int put_regular(struct walk *w, struct dir *parent, const char *path,
		       const char *name, const struct meta *m)
{
	struct sfile *f = sfile_new(0, SFILE_PATH, parent, path);
	uint8_t *wire CLEANUP_FREE = NULL;
	struct bulk_entry e = { 0 };
	struct bulk_entry extra = { 0 };
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
	buf_reset(w->xattrs);
	r = describe(w, &extra, f, m, &data, &wire);
	if (r) {
		describe_failed(w, f, r);
		sfile_put(f);
		return 0;
	}
	w->weight = bulk_entry_details(&extra);
	r = walk_begin_entry(w, &e, ENTRY_FILE, name, m);
	e.flags |= extra.flags;
	e.nranges = extra.nranges;
	e.ranges = extra.ranges;
	e.xattrs = extra.xattrs;
	e.xattrs_len = extra.xattrs_len;
	f->id = e.id;
	if (!r && is_linked(w, m) && !links_full(w)) {
		e.flags |= ENTRY_F_LINKED;
		r = remember_link(w, m, e.id);
	}
	if (r) {
		sfile_put(f);
		return r;
	}
	return walk_put_file(w, &e, f, data);
}

int walk_put_name(struct walk *w, struct dir *parent, const char *path, const char *name,
		    const struct meta *m)
{
	bool last;
	uint64_t to = is_linked(w, m) ? known_link(w, m, &last) : 0;

	return to ? put_hardlink(w, parent, path, name, m, to, last) :
		    put_regular(w, parent, path, name, m);
}
