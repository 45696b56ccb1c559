// SPDX-License-Identifier: Apache-2.0
/* Which bytes of a file may come: those that it has, each once. And whether all have come, or
 * were there before. */
#include "transfer/sink_write.h"

#include <errno.h>

/* ---- the data of a sparse file ---- */

static struct span range_at(const struct kfile *f, uint32_t i)
{
	struct bulk_range r = bulk_range_at(f->ranges, i);

	return (struct span){ r.offset, r.offset + r.length };
}

/* The first of f's ranges that ends behind at; nranges: none does. */
static uint32_t range_behind(const struct kfile *f, uint64_t at)
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

/* g, if it is all data, with the hole behind it, and the first piece with that before it: so
 * the ranges that have come join over holes, and are few in a file that has many. False: it
 * reaches into a hole. */
static bool take_holes(const struct kfile *f, struct span *g)
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

/* ---- what comes ---- */

/* --ack received: all of f is in memory, checked. */
static void tell_received(struct sink *s, struct kfile *f)
{
	f->told = true;
	if (sink_tell_done(s, f->id))
		xfer_fail(&s->x, -ENOMEM, "out of memory");
}

static bool fits(const struct kfile *f, const struct extent *x)
{
	uint64_t size = f->flags & ENTRY_F_NOSIZE ? INT64_MAX : f->meta.size;

	return x->offset <= size && x->length <= size - x->offset;
}

/* All bytes of f are to come, and no others. */
static bool is_plain(const struct kfile *f)
{
	return !f->journal && !(f->flags & (ENTRY_F_NOSIZE | ENTRY_F_SPARSE));
}

/* x, which fits, comes. As extent_admit, and -EEXIST: some of it has come before; -ENOBUFS:
 * there is no room to note it. */
static int note(struct sink *s, struct kfile *f, const struct extent *x)
{
	struct span g = { x->offset, x->offset + x->length };
	LOCK_GUARD(guard, stripe_of(s, f->id));

	if (atomic_load(&f->over)) /* what it had to be noted by may be gone */
		return 1;
	if ((f->flags & ENTRY_F_SPARSE) && !take_holes(f, &g))
		return -EPROTO;
	return spans_add(&f->got, g.at, g.end, &s->got_room);
}

static int admit(struct sink *s, struct kfile *f, const struct extent *x)
{
	int64_t before;
	int r = 0;

	/* A piece of nothing would complete a file that is being completed. */
	if (atomic_load(&f->over) || !x->length)
		return 1;
	if (atomic_load(&f->asks) || !fits(f, x))
		return -EPROTO;
	/* A whole file need not be noted: nothing is left to come then, which is counted. */
	if (x->length != f->meta.size || !is_plain(f))
		r = note(s, f, x);
	if (r)
		return r;
	before = atomic_fetch_sub(&f->unreceived, x->length);
	if (before < x->length)
		return is_plain(f) ? -EEXIST : -EPROTO;
	if (s->early && before == x->length)
		tell_received(s, f);
	return 0;
}

/* r, with which x was not admitted, is how the transfer fails. */
static int lost(struct sink *s, const struct kfile *f, const struct extent *x, int r)
{
	char *path CLEANUP_FREE = kfile_path(f);
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
		return xfer_fail(&s->x, r, "out of memory");
	default:
		return xfer_fail(&s->x, r, "a block holds bytes %llu+%u of entry %llu, which has "
				 "none there", at, x->length, (unsigned long long)x->file);
	}
}

int extent_admit(struct sink *s, struct kfile *f, const struct extent *x)
{
	int r = admit(s, f, x);

	return r < 0 ? lost(s, f, x, r) : r;
}

/* ---- what was there, and the whole ---- */

bool kfile_had(struct sink *s, struct kfile *f, uint64_t at, uint64_t end)
{
	LOCK_GUARD(guard, stripe_of(s, f->id));

	return !spans_add(&f->had, at, end, &s->had_room);
}

/* Of g, of which nothing came, the first that was not there before either and is no hole;
 * false: there is none. */
static bool missing_of(const struct kfile *f, struct span *g)
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

static bool find_missing(const struct kfile *f, uint64_t size, struct span *out)
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

/* As many bytes as it has, each once and none outside of it, are all. But not where the size
 * was told after them, nor when the source has kept some of what was there. */
static bool misses(struct sink *s, struct kfile *f, struct span *out)
{
	bool sized = !(f->flags & ENTRY_F_NOSIZE);

	if (sized && !f->journal)
		return false;
	LOCK_GUARD(guard, stripe_of(s, f->id));
	if (atomic_load(&f->over) || (sized && spans_empty(&f->had)))
		return false;
	return find_missing(f, sized ? f->meta.size : atomic_load(&f->final_size), out);
}

int kfile_check_whole(struct sink *s, struct kfile *f)
{
	char *path CLEANUP_FREE = NULL;
	struct span g;

	if (!misses(s, f, &g))
		return 0;
	path = kfile_path(f);
	return xfer_fail(&s->x, -EPROTO, "the source takes %s for whole, but bytes %llu+%llu of it "
			 "have not come", printable(path ? path : f->name),
			 (unsigned long long)g.at, (unsigned long long)(g.end - g.at));
}
