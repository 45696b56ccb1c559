// SPDX-License-Identifier: Apache-2.0
/* One extent of a block: how it gets into its file, and what is noted of it once it is
 * down. */
#include "transfer/sink_write.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

/* How many pieces f may come in when x is one of them: a block each, cut by its ranges
 * and by the runs that need not come. Smaller crumbs would fill our memory. */
static uint64_t most_pieces(struct sink *s, const struct kfile *f, const struct extent *x)
{
	const struct agreement *a = &s->x.agr;

	if (!(f->flags & ENTRY_F_NOSIZE))
		return 2 * (f->meta.size / a->block + 1) + BULK_RANGES_MAX;
	/* Blocks overtake each other by as many as are under way. */
	return (x->offset + x->length) / a->block + 1 + (uint64_t)a->paths * a->inflight;
}

static int add_check(struct sink *s, struct kfile *f, const struct extent *x,
		     const uint8_t *data)
{
	struct check c = { .offset = x->offset, .length = x->length };
	LOCK_GUARD(guard, stripe_of(s, f->id));

	if (checks_count(&f->came) >= most_pieces(s, f, x))
		return -EPROTO;
	crypto_run_digest(c.digest, data, x->length);
	return checks_add(&f->came, &c, f->parent->dir);
}

/* Into the journal, unless x is a crumb: a journal of crumbs would be as long as they are. */
static int note_run(struct kfile *f, const struct extent *x, const uint8_t *data)
{
	struct part_run run = { .offset = x->offset, .length = x->length };

	if (x->length < BLOCK_MIN && x->offset + x->length < f->meta.size)
		return 0;
	crypto_run_digest(run.digest, data, x->length);
	return part_note_run(f->part, &run);
}

void kfile_write_failed(struct sink *s, struct kfile *f, int code)
{
	char *path CLEANUP_FREE = NULL;
	char text[ERR_TEXT];

	if (xfer_failed(&s->x)) /* then it is the transfer that failed */
		return;
	path = kfile_path(f);
	snprintf(text, sizeof(text), "%s: %s", printable(path ? path : f->name),
		 strerror(-code));
	kfile_failed(s, f, code, text);
}

/* x lies in the file. */
void extent_down(struct sink *s, struct kfile *f, const struct extent *x,
		 const uint8_t *data)
{
	int r = 0;

	if (s->verify)
		r = add_check(s, f, x, data);
	if (!r && f->journal && f->part)
		r = note_run(f, x, data);
	if (r) {
		kfile_write_failed(s, f, r);
		return;
	}
	atomic_fetch_add_explicit(&s->bytes, x->length, memory_order_relaxed);
	if (atomic_fetch_sub(&f->left, x->length) == x->length)
		kfile_complete(s, f);
}

bool extent_is_whole(struct sink *s, const struct kfile *f, const struct extent *x)
{
	return x->offset == 0 && x->length == f->meta.size && !s->sync && !s->verify &&
	       !f->journal && !(f->flags & (ENTRY_F_NOSIZE | ENTRY_F_SPARSE)) &&
	       !f->xattrs_len && !(s->x.req->flags & BULK_F_INPLACE);
}

/* The short way: the whole file is here. False: another writer is at it; the long way waits
 * for him at its end. */
static bool put_whole(struct sink *s, struct kfile *f, const struct extent *x,
		      const uint8_t *data)
{
	struct part_spec spec = kfile_spec(s, f);
	struct err e = ERR_INIT;
	int r = part_write_whole(&spec, data, x->length, &e);

	if (r == -EBUSY)
		return false;
	if (r) {
		kfile_failed(s, f, r, e.text);
		return true;
	}
	atomic_fetch_add_explicit(&s->bytes, x->length, memory_order_relaxed);
	kfile_done(s, f, false);
	return true;
}

void extent_put(struct sink *s, struct kfile *f, const struct extent *x,
		const uint8_t *data)
{
	struct err e = ERR_INIT;
	struct part *p;
	int r;

	if (s->discard) {
		extent_down(s, f, x, data);
		return;
	}
	if (extent_is_whole(s, f, x) && put_whole(s, f, x, data))
		return;
	p = kfile_part_in_turn(s, f, &e);
	if (!p) {
		kfile_failed(s, f, e.code, e.text);
		return;
	}
	r = FAULT("write", x->length);
	if (!r)
		r = pwrite_full(part_fd(p), data, x->length, (off_t)x->offset);
	if (r)
		kfile_write_failed(s, f, r);
	else
		extent_down(s, f, x, data);
}
