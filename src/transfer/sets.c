// SPDX-License-Identifier: Apache-2.0
/* Sets that grow with a transfer: numbers of blocks, ids of entries, inodes of files, ranges of a
 * file, and the files that earlier attempts of a command have committed. */
#include "transfer/sets.h"

#include "crypto/crypto.h"
#include "transfer/transfer.h"
#include "util/util.h"

#include <search.h>

static int by_u64(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return x < y ? -1 : x > y;
}

int numbers_add(struct numbers *n, uint64_t number)
{
	bool *has = n->has;

	if (number < n->low)
		return 0;
	if (number - n->low >= NUMBERS_WINDOW)
		return -EPROTO;
	if (has[number % NUMBERS_WINDOW])
		return 0;
	has[number % NUMBERS_WINDOW] = true;
	for (; has[n->low % NUMBERS_WINDOW]; n->low++)
		has[n->low % NUMBERS_WINDOW] = false;
	return 1;
}

/* ---- inodes ---- */

struct inode *inodes_find(struct inodes *t, uint64_t dev, uint64_t ino)
{
	const uint64_t key[2] = { dev, ino };
	struct inode *i;

	HASH_FIND(hh, t->v, key, sizeof(key), i);
	return i;
}

struct inode *inodes_add(struct inodes *t, uint64_t dev, uint64_t ino, uint64_t id)
{
	struct inode *i = malloc(sizeof(*i));

	if (!i)
		return NULL;
	*i = (struct inode){ .key = { dev, ino }, .id = id };
	HASH_ADD(hh, t->v, key, sizeof(i->key), i);
	if (!i->hh.tbl) { /* out of memory */
		free(i);
		return NULL;
	}
	t->n++;
	return i;
}

void inodes_remove(struct inodes *t, struct inode *i)
{
	HASH_DEL(t->v, i);
	free(i);
	t->n--;
}

void inodes_clear(struct inodes *t)
{
	struct inode *i, *next;

	HASH_ITER(hh, t->v, i, next)
		inodes_remove(t, i);
}

/* ---- ranges of bytes ---- */

/* Ranges that overlap count as equal. Ranges of a set do not overlap, so this is an order of
 * them. */
static int span_compare(const void *a, const void *b)
{
	const struct span *x = a, *y = b;

	return x->end <= y->at ? -1 : x->at >= y->end;
}

/* A range of s that overlaps the range from at to end; NULL: none does. */
static struct span *spans_overlapping(const struct spans *s, uint64_t at, uint64_t end)
{
	struct span key = { at, end };
	struct span *const *found;

	if (!span_compare(&key, &s->one))
		return (struct span *)&s->one;
	found = tfind(&key, &s->others, span_compare);
	return found ? *found : NULL;
}

static int spans_insert(struct spans *s, uint64_t at, uint64_t end, spans_budget *b)
{
	struct span *new;
	void *node = NULL;

	if (spans_empty(s)) {
		s->one = (struct span){ at, end };
		return 0;
	}
	if (atomic_fetch_sub(b, 1) < 1) {
		atomic_fetch_add(b, 1);
		return -ENOBUFS;
	}

	new = malloc(sizeof(*new));
	if (new) {
		*new = (struct span){ at, end };
		node = tsearch(new, &s->others, span_compare);
	}
	if (!node) {
		free(new);
		atomic_fetch_add(b, 1);
		return -ENOMEM;
	}
	s->nothers++;
	return 0;
}

int spans_add(struct spans *s, uint64_t at, uint64_t end, spans_budget *b)
{
	struct span *before, *behind, *gone;

	if (spans_overlapping(s, at, end))
		return -EEXIST;
	before = at ? spans_overlapping(s, at - 1, at) : NULL;
	behind = spans_overlapping(s, end, end + 1);
	if (!before && !behind)
		return spans_insert(s, at, end, b);

	if (before && behind) { /* join them; the first range of the set stays */
		gone = behind == &s->one ? before : behind;
		at = before->at;
		end = behind->end;
		tdelete(gone, &s->others, span_compare);
		free(gone);
		s->nothers--;
		atomic_fetch_add(b, 1);
		*(gone == before ? behind : before) = (struct span){ at, end };
	} else if (before) {
		before->end = end;
	} else {
		behind->at = at;
	}
	return 0;
}

/* The key of a search for the first range that ends after at. */
struct span_search {
	uint64_t at;
	struct span *first;
};

/* Never equal: the search descends to a leaf, and notes the ranges that end after at. */
static int span_search_compare(const void *key, const void *range)
{
	struct span_search *search = (struct span_search *)key;
	struct span *g = (struct span *)range;

	if (g->end <= search->at)
		return 1;
	search->first = g;
	return -1;
}

bool spans_next(const struct spans *s, uint64_t at, struct span *out)
{
	struct span_search search = { .at = at };

	tfind(&search, &s->others, span_search_compare);
	if (s->one.end > at && (!search.first || s->one.at < search.first->at))
		*out = s->one;
	else if (search.first)
		*out = *search.first;
	return s->one.end > at || search.first;
}

bool spans_hold(const struct spans *s, uint64_t at, uint64_t end)
{
	const struct span *g = at < end ? spans_overlapping(s, at, end) : NULL;

	return at >= end || (g && g->at <= at && g->end >= end);
}

void spans_clear(struct spans *s, spans_budget *b)
{
	tdestroy(s->others, free);
	atomic_fetch_add(b, s->nothers);
	*s = (struct spans){ 0 };
}

/* ---- ids of entries that are done ---- */

int done_init(struct done *d)
{
	*d = (struct done){ 0 };
	return -pthread_mutex_init(&d->lock, NULL);
}

void done_destroy(struct done *d)
{
	free(d->ids);
	pthread_mutex_destroy(&d->lock);
}

int done_add(struct done *d, uint64_t id)
{
	LOCK_GUARD(guard, &d->lock);

	if (!array_has_room(d->ids, d->n, d->room))
		return -ENOMEM;
	d->ids[d->n++] = id;
	return 0;
}

int done_flush(struct done *d, int (*fn)(void *arg, uint64_t first, uint64_t last), void *arg)
{
	uint64_t *ids CLEANUP_FREE = NULL;
	size_t n, i, first;
	int r = 0;

	pthread_mutex_lock(&d->lock);
	ids = steal_ptr(&d->ids);
	n = d->n;
	d->n = d->room = 0;
	pthread_mutex_unlock(&d->lock);

	if (n)
		qsort(ids, n, sizeof(*ids), by_u64);
	for (i = 0; !r && i < n; i++) {
		for (first = i; i + 1 < n && ids[i + 1] - ids[i] <= 1; i++)
			;
		r = fn(arg, ids[first], ids[i]);
	}
	return r;
}

/* ---- the ranges of a sparse file ---- */

static uint64_t range_end(const struct bulk_range *r)
{
	return r->offset + r->length;
}

/* Extend the last range to data that follows it closely. */
static bool range_list_extend(struct range_list *g, uint64_t off, uint64_t len)
{
	struct bulk_range *last = g->n ? &g->v[g->n - 1] : NULL;
	uint64_t end = off + len;

	if (!last || off - range_end(last) > g->gap)
		return false;
	g->bytes += end - range_end(last);
	last->length = end - last->offset;
	return true;
}

static int range_list_append(struct range_list *g, uint64_t off, uint64_t len)
{
	if (!array_has_room(g->v, g->n, g->room))
		return -ENOMEM;
	g->v[g->n++] = (struct bulk_range){ off, len };
	g->bytes += len;
	return 0;
}

/* Treat the smaller half of the holes as data. */
static int range_list_coarsen(struct range_list *g)
{
	uint64_t *holes CLEANUP_FREE = calloc(g->n - 1, sizeof(*holes));
	uint32_t n = g->n;

	if (!holes)
		return -ENOMEM;
	for (uint32_t i = 0; i + 1 < n; i++)
		holes[i] = g->v[i + 1].offset - range_end(&g->v[i]);
	qsort(holes, n - 1, sizeof(*holes), by_u64);
	g->gap = holes[(n - 1) / 2];
	g->n = 0;
	g->bytes = 0;

	for (uint32_t i = 0; i < n; i++) {
		struct bulk_range r = g->v[i];

		if (!range_list_extend(g, r.offset, r.length))
			(void)range_list_append(g, r.offset, r.length); /* there is room */
	}
	return 0;
}

int range_list_add(struct range_list *g, uint64_t off, uint64_t len)
{
	if (range_list_extend(g, off, len))
		return 0;
	if (g->most && g->n == g->most && range_list_coarsen(g))
		return -ENOMEM;
	return range_list_extend(g, off, len) ? 0 : range_list_append(g, off, len);
}

/* ---- files that earlier attempts have committed ---- */

/* 8 bytes for each file: a 64-bit hash of its path. Two paths with the same hash do no harm: a file is
 * skipped only if it also looks like its source. */

struct committed {
	pthread_mutex_t lock;        /* guards all below */
	uint64_t *hashes;
	size_t n, room;
	size_t nknown;               /* the first ones are of earlier attempts, sorted */
};

struct committed *committed_new(void)
{
	struct committed *c = calloc(1, sizeof(*c));

	if (c)
		pthread_mutex_init(&c->lock, NULL);
	return c;
}

void committed_free(struct committed *c)
{
	if (!c)
		return;
	pthread_mutex_destroy(&c->lock);
	free(c->hashes);
	free(c);
}

/* With the lock held. A lost hash only means that its file is transferred again. */
static void committed_add_hash(struct committed *c, uint64_t hash)
{
	if (c->n < COMMITTED_MAX && array_has_room(c->hashes, c->n, c->room))
		c->hashes[c->n++] = hash;
}

static uint64_t committed_hash(const char *path)
{
	uint8_t digest[RUN_DIGEST_BYTES];

	crypto_run_digest(digest, path, strlen(path));
	return get_be64(digest);
}

void committed_add(struct committed *c, const char *path)
{
	uint64_t hash = committed_hash(path);
	LOCK_GUARD(guard, &c->lock);

	committed_add_hash(c, hash);
}

void committed_recall(struct committed *c)
{
	LOCK_GUARD(guard, &c->lock);

	if (c->n)
		qsort(c->hashes, c->n, sizeof(*c->hashes), by_u64);
	c->nknown = c->n;
}

bool committed_has(struct committed *c, const char *path)
{
	uint64_t hash = committed_hash(path);
	LOCK_GUARD(guard, &c->lock);

	return c->nknown && bsearch(&hash, c->hashes, c->nknown, sizeof(hash), by_u64);
}

int committed_send(struct committed *c, struct mstream *ms)
{
	enum { MOST = BULK_FRAME_MAX / 8 };
	LOCK_GUARD(guard, &c->lock);
	struct buf *b CLEANUP_BUF = buf_new(BULK_FRAME_MAX);
	int r = b ? 0 : -ENOMEM;

	for (size_t i = 0; !r && i < c->nknown; i++) {
		uint8_t hash[8];

		put_be64(hash, c->hashes[i]);
		r = buf_put(b, hash, sizeof(hash));
		if (!r && (i % MOST == MOST - 1 || i == c->nknown - 1)) {
			r = ms_write_frame(ms, BULK_COMMITTED, buf_ptr(b), buf_len(b));
			buf_reset(b);
		}
	}
	return r;
}

int committed_take(struct committed *c, struct buf *p)
{
	LOCK_GUARD(guard, &c->lock);

	while (buf_len(p)) {
		uint8_t hash[8];

		if (buf_get(p, hash, sizeof(hash)))
			return -EBADMSG;
		committed_add_hash(c, get_be64(hash));
	}
	return 0;
}
