// SPDX-License-Identifier: Apache-2.0
/* Opens, checks and counts blocks before they are written. */
#include "transfer/sink/sink.h"

static char checked; /* its address is block.user of each checked block */

/* ---- returning blocks ---- */

/* A writer returns *b: to the path on which it arrived. If *b is a copy in the staging pool, *b
 * becomes the original block. */
static struct path *sink_path_of(struct sink *s, struct block **b)
{
	uint32_t i = 0;

	atomic_fetch_sub(&s->writers.held, 1);
	for (;; i++) {
		struct staging *staging = s->x.staging[i];

		if (staging && staging->inner == (*b)->pool) {
			(*b)->user = NULL;
			*b = staging_leave(staging, *b);
			break;
		}
		if (s->x.pools[i] == (*b)->pool || i + 1 == s->x.nroutes)
			break;
	}
	return s->x.paths[i];
}

void sink_drop(struct sink *s, struct block *b)
{
	sink_path_of(s, &b);
	b->user = NULL;
	pool_put(b);
}

void sink_release(struct sink *s, struct block *b, uint32_t status)
{
	struct path *p = sink_path_of(s, &b);

	b->user = NULL;
	p->ops->release(p, b, status);
}

/* ---- checking ---- */

/* b is damaged or forged, so its number cannot be trusted. Close its channel; the source sends the
 * channel's blocks on others. The number of channels limits how often a bad path can cause this. */
static void bad_block(struct sink *s, struct block *b)
{
	struct path *p = sink_path_of(s, &b);

	log_warn("a block that came by %s channel %u differs from the sent block (damaged, or "
		 "an attack; %llu so far): the channel is dropped", p->ops->name, b->channel,
		 (unsigned long long)atomic_fetch_add(&s->writers.bad_blocks, 1) + 1);
	/* Report the cause here: other code only sees the end of the stream. */
	if (p == s->x.inband)
		xfer_fail(&s->x, -EPIPE, "a block came damaged on the control connection");
	p->ops->refuse(p, b);
}

int sink_check(struct sink *s, struct unseal *u, struct block **at)
{
	struct block *b = *at;
	int r;

	if (b->user == &checked)
		return 0;
	/* Copy it to memory that the peer cannot change. */
	for (uint32_t i = 0; i < s->x.npaths; i++)
		if (s->x.staging[i] && s->x.pools[i] == b->pool) {
			b = staging_enter(s->x.staging[i], b);
			break;
		}
	if (!b)
		return -ECANCELED;

	*at = b;
	r = unseal_block(u, b);
	if (r) {
		bad_block(s, b);
		return 1;
	}

	pthread_mutex_lock(&s->writers.lock);
	r = numbers_add(s->writers.numbers, b->number);
	pthread_mutex_unlock(&s->writers.lock);

	if (r < 0)
		return xfer_fail(&s->x, r, "block number %llu is too far ahead",
				 (unsigned long long)b->number);
	if (!r) {
		sink_release(s, b, 0); /* the block arrived before, on a channel that died */
		return 1;
	}
	b->user = &checked;
	return 0;
}

static uint64_t newest_entry(const struct block *b)
{
	uint64_t id = 0;

	for (uint32_t i = 0; i < b->nextents; i++)
		if (b->extents[i].file > id)
			id = b->extents[i].file;
	return id;
}

/* True: b was parked until its entries arrive. */
bool sink_park(struct sink *s, struct block *b)
{
	uint64_t newest = newest_entry(b);

	if (newest <= atomic_load(&s->entries.highest))
		return false;
	LOCK_GUARD(guard, &s->writers.lock);
	if (newest <= atomic_load(&s->entries.highest))
		return false;
	b->next = s->writers.parked;
	s->writers.parked = b;
	atomic_fetch_sub(&s->writers.held, 1);
	return true;
}

void sink_unpark(struct sink *s)
{
	struct block *b, *keep = NULL, *go = NULL;
	uint64_t highest = atomic_load(&s->entries.highest);

	pthread_mutex_lock(&s->writers.lock);
	b = steal_ptr(&s->writers.parked);
	while (b) {
		struct block *next = b->next;
		struct block **list = newest_entry(b) <= highest ? &go : &keep;

		b->next = *list;
		*list = b;
		b = next;
	}
	s->writers.parked = keep;
	pthread_mutex_unlock(&s->writers.lock);

	while (go) {
		b = go;
		go = b->next;
		b->next = NULL;
		if (bq_push(s->writers.arrived, b)) {
			atomic_fetch_add(&s->writers.held, 1); /* it is not parked any more */
			sink_drop(s, b);
		}
	}
}

/* ---- the data of a sparse file ---- */

static struct span range_at(const struct sink_file *f, uint32_t i)
{
	struct bulk_range r = bulk_range_at(f->ranges, i);

	return (struct span){ r.offset, r.offset + r.length };
}

/* The first of f's ranges that ends after at; nranges: there is none. */
static uint32_t range_behind(const struct sink_file *f, uint64_t at)
{
	uint32_t low = 0, high = f->nranges;

	while (low < high) {
		uint32_t mid = low + (high - low) / 2;

		if (range_at(f, mid).end > at)
			high = mid;
		else
			low = mid + 1;
	}
	return low;
}

/* True: g is all data. It is then extended over the following hole if the data ends there, and over
 * a hole at the start of the file if g begins with the first data. So received ranges join across
 * holes, and stay few in a file with many holes. False: g reaches into a hole. */
static bool take_holes(const struct sink_file *f, struct span *g)
{
	uint32_t i = range_behind(f, g->at);
	struct span r = { 0 };

	if (i == f->nranges || range_at(f, i).at > g->at)
		return false;
	for (r = range_at(f, i); r.end < g->end; r.end = range_at(f, i).end)
		if (++i == f->nranges || range_at(f, i).at != r.end)
			return false;
	if (g->at == range_at(f, 0).at)
		g->at = 0;
	if (g->end == r.end)
		g->end = i + 1 < f->nranges ? range_at(f, i + 1).at : f->meta.size;
	return true;
}

/* ---- extents that arrive ---- */

static bool extent_fits(const struct sink_file *f, const struct extent *x)
{
	uint64_t size = f->flags & ENTRY_F_NOSIZE ? INT64_MAX : f->meta.size;

	return x->offset <= size && x->length <= size - x->offset;
}

/* True: all bytes of f will be sent, and no others. */
static bool is_plain(const struct sink_file *f)
{
	return !f->journal && !(f->flags & (ENTRY_F_NOSIZE | ENTRY_F_SPARSE));
}

/* Note the arrival of x, which fits. Results as extent_admit(); -EEXIST: part of it has arrived
 * before; -ENOBUFS: there is no room to note it. */
static int extent_note(struct sink *s, struct sink_file *f, const struct extent *x)
{
	struct span g = { x->offset, x->offset + x->length };
	LOCK_GUARD(guard, stripe_of(s, f->id));

	if (atomic_load(&f->over)) /* its range sets may be freed already */
		return 1;
	if ((f->flags & ENTRY_F_SPARSE) && !take_holes(f, &g))
		return -EPROTO;
	return spans_add(&f->got, g.at, g.end, &s->entries.got_room);
}

static int extent_try(struct sink *s, struct sink_file *f, const struct extent *x)
{
	int64_t before;
	int r = 0;

	/* An empty piece would complete a file a second time. */
	if (atomic_load(&f->over) || !x->length)
		return 1;
	if (atomic_load(&f->asks) || !extent_fits(f, x))
		return -EPROTO;
	/* A file in one piece need not be noted: the count of its bytes rejects a second piece. */
	if (x->length != f->meta.size || !is_plain(f))
		r = extent_note(s, f, x);
	if (r)
		return r;

	before = atomic_fetch_sub(&f->unreceived, x->length);
	if (before < x->length)
		return is_plain(f) ? -EEXIST : -EPROTO;
	if (s->early && before == x->length) { /* all of f is in memory and checked */
		f->told = true;
		if (sink_tell_done(s, f->id))
			xfer_fail(&s->x, -ENOMEM, NO_MEMORY);
	}
	return 0;
}

/* Fail the transfer because x was not admitted, for the reason r. */
static int extent_refused(struct sink *s, const struct sink_file *f, const struct extent *x, int r)
{
	char *path CLEANUP_FREE = sink_file_path(f);
	const char *name = printable(path ? path : f->name);
	unsigned long long at = x->offset;

	switch (r) {
	case -EEXIST:
		return xfer_fail(&s->x, -EPROTO, "a block holds bytes %llu+%u of %s twice", at,
				 x->length, name);
	case -ENOBUFS:
		return xfer_fail(&s->x, -EPROTO, "%s comes in too many pieces out of order: there "
				 "is no room to note bytes %llu+%u", name, at, x->length);
	case -ENOMEM:
		return xfer_fail(&s->x, r, NO_MEMORY);
	default:
		return xfer_fail(&s->x, r, "a block holds bytes %llu+%u of entry %llu, which has "
				 "none there", at, x->length, (unsigned long long)x->file);
	}
}

int extent_admit(struct sink *s, struct sink_file *f, const struct extent *x)
{
	int r = extent_try(s, f, x);

	return r < 0 ? extent_refused(s, f, x, r) : r;
}

/* ---- bytes of an earlier transfer, and the whole file ---- */

bool sink_file_had(struct sink *s, struct sink_file *f, uint64_t at, uint64_t end)
{
	LOCK_GUARD(guard, stripe_of(s, f->id));

	return !spans_add(&f->had, at, end, &s->entries.had_room);
}

bool sink_file_came_again(struct sink *s, struct sink_file *f, uint64_t at, uint64_t end)
{
	LOCK_GUARD(guard, stripe_of(s, f->id));
	struct span g;

	for (; at < end && spans_next(&f->got, at, &g) && g.at < end; at = g.end) {
		uint64_t from = g.at > at ? g.at : at;
		uint32_t i;

		if (!(f->flags & ENTRY_F_SPARSE))
			return true;
		i = range_behind(f, from); /* got also has the holes between received pieces */
		if (i < f->nranges && range_at(f, i).at < end && range_at(f, i).at < g.end)
			return true;
	}
	return false;
}

/* No byte of g has arrived. Reduce g to its first range that did not exist before either and is not
 * a hole; false: there is none. */
static bool missing_of(const struct sink_file *f, struct span *g)
{
	if (!(f->flags & ENTRY_F_SPARSE))
		return !spans_hold(&f->had, g->at, g->end);
	for (uint32_t i = range_behind(f, g->at); i < f->nranges; i++) {
		struct span r = range_at(f, i);

		if (r.at >= g->end)
			break;
		r.at = r.at > g->at ? r.at : g->at;
		r.end = r.end < g->end ? r.end : g->end;
		if (!spans_hold(&f->had, r.at, r.end)) {
			*g = r;
			return true;
		}
	}
	return false;
}

static bool file_find_missing(const struct sink_file *f, uint64_t size, struct span *out)
{
	struct span g;

	for (uint64_t at = 0; at < size; at = g.end) {
		if (!spans_next(&f->got, at, &g) || g.at > size)
			g = (struct span){ size, size };
		*out = (struct span){ at, g.at };
		if (g.at > at && missing_of(f, out))
			return true;
	}
	return false;
}

/* True: f misses the bytes in *out. Normally the count of bytes is enough, since each byte arrives
 * once and none is outside of the file. This does not hold if the size followed the bytes, or if
 * the source reused bytes of an earlier transfer. */
static bool file_misses(struct sink *s, struct sink_file *f, struct span *out)
{
	bool sized = !(f->flags & ENTRY_F_NOSIZE);

	if (sized && !f->journal)
		return false;
	LOCK_GUARD(guard, stripe_of(s, f->id));
	if (atomic_load(&f->over) || (sized && spans_empty(&f->had)))
		return false;
	return file_find_missing(f, sized ? f->meta.size : atomic_load(&f->final_size), out);
}

int sink_file_check_whole(struct sink *s, struct sink_file *f)
{
	char *path CLEANUP_FREE = NULL;
	struct span g;

	if (!file_misses(s, f, &g))
		return 0;
	path = sink_file_path(f);
	return xfer_fail(&s->x, -EPROTO, "the source counts %s as complete, but bytes %llu+%llu "
			 "have not arrived", printable(path ? path : f->name),
			 (unsigned long long)g.at, (unsigned long long)(g.end - g.at));
}
