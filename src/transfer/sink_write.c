// SPDX-License-Identifier: Apache-2.0
/* The sink's writers: they take blocks that have arrived, have them checked (sink_check.c),
 * and put their extents where they belong, one by one (sink_extent.c) or, where a block has
 * only one, by the I/O engine. */
#include "transfer/setup.h"
#include "transfer/sink_write.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define DEPTH_MAX 64
#define DIRECT_MIN (64ull << 20)

/* A write under way: all of one block, which has a single extent. */
struct put {
	struct io_op op;
	struct kfile *file;
	struct block *block;
};

struct writer {
	struct sink *s;
	pthread_t thread;
	struct ids cpus;        /* it runs on; empty: any */
	struct io *io;
	unsigned depth;
	struct unseal *unseal;
	struct put puts[DEPTH_MAX];
	struct put *spare[DEPTH_MAX];
	unsigned nspare;
	char name[16];
};

/* ---- one extent: by the I/O engine ---- */

static int put_done(struct writer *w, struct put *p)
{
	struct sink *s = w->s;
	struct kfile *f = steal_ptr(&p->file);
	struct block *b = steal_ptr(&p->block);

	w->spare[w->nspare++] = p;
	if (p->op.result < 0)
		kfile_write_failed(s, f, (int)p->op.result);
	else if (p->op.result != p->op.len)
		kfile_write_failed(s, f, -EIO);
	else
		extent_down(s, f, &b->extents[0], block_payload(b));
	kfile_put(s, f);
	sink_release(s, b, 0);
	return 0;
}

static int reap(struct writer *w, int min)
{
	struct io_op *done[DEPTH_MAX];
	int n = io_reap(w->io, done, min, DEPTH_MAX);

	if (n < 0)
		return xfer_fail(&w->s->x, n, "writing: %s", strerror(-n));
	for (int i = 0; i < n; i++)
		put_done(w, done[i]->user);
	return 0;
}

/* Past the cache, where that was asked for and can be. */
static void maybe_direct(struct sink *s, struct kfile *f, struct part *p)
{
	LOCK_GUARD(guard, stripe_of(s, f->id));

	if (f->direct || !s->direct ||
	    (f->meta.size < DIRECT_MIN && s->x.tuning->direct != DIRECT_ON))
		return;
	f->direct = true;
	if (direct_alignment(part_fd(p)))
		fcntl(part_fd(p), F_SETFL, O_DIRECT);
}

/* Takes f's reference and b over. */
static int submit(struct writer *w, struct kfile *f, struct part *part, struct block *b)
{
	const struct extent *x = &b->extents[0];
	struct put *p = w->spare[--w->nspare];
	int r;

	p->file = f;
	p->block = b;
	p->op = (struct io_op){ .write = true, .fd = part_fd(part), .offset = x->offset,
				.data = block_payload(b), .len = x->length, .block = b,
				.user = p };
	while ((r = io_submit(w->io, &p->op)) == -EAGAIN && !(r = reap(w, 1)))
		;
	if (r) {
		p->op.result = r;
		return put_done(w, p);
	}
	return io_inflight(w->io) >= w->depth ? reap(w, 1) : 0;
}

/* True when another writer is at f: it has b now, and f's reference with it. */
static bool left_to_other(struct sink *s, struct kfile *f, struct block *b)
{
	LOCK_GUARD(guard, stripe_of(s, f->id));

	if (!f->writing) {
		f->writing = true;
		return false;
	}
	b->next = NULL;
	if (f->queued)
		f->queued_last->next = b;
	else
		f->queued = b;
	f->queued_last = b;
	return true;
}

/* What was left to the writer that is at f; after NULL it no longer is. */
static struct block *left_to_us(struct sink *s, struct kfile *f)
{
	LOCK_GUARD(guard, stripe_of(s, f->id));
	struct block *b = f->queued;

	if (!b) {
		f->writing = false;
		return NULL;
	}
	f->queued = b->next;
	b->next = NULL;
	return b;
}

/* Filesystems let one thread at a time write to a file through the cache. The others would
 * sleep until it is through; they give it their blocks instead and go on. A reference of
 * our own holds f while we are at it. What is queued is no more than the pool. */
static int submit_in_turn(struct writer *w, struct kfile *f, struct part *part,
			  struct block *b)
{
	struct sink *s = w->s;
	int r = 0;

	if (left_to_other(s, f, b))
		return 0;
	atomic_fetch_add(&f->refs, 1);
	for (; b; b = left_to_us(s, f)) {
		int one = submit(w, f, part, b);

		r = r ? r : one;
	}
	kfile_put(s, f);
	return r;
}

/* Takes f's reference and b over. */
static int put_file(struct writer *w, struct kfile *f, struct block *b)
{
	struct sink *s = w->s;
	struct err e = ERR_INIT;
	struct part *part = kfile_part_in_turn(s, f, &e);

	if (!part) {
		kfile_failed(s, f, e.code, e.text);
		kfile_put(s, f);
		sink_release(s, b, 0);
		return 0;
	}
	maybe_direct(s, f, part);
	return w->depth == 1 ? submit_in_turn(w, f, part, b) : submit(w, f, part, b);
}

static int put_single(struct writer *w, struct block *b)
{
	struct sink *s = w->s;
	const struct extent *x = &b->extents[0];
	struct kfile *f = kfile_get(s, x->file);
	int r = f ? extent_admit(s, f, x) : 1;

	if (r < 0) {
		kfile_put(s, f);
		sink_release(s, b, 0);
		return r;
	}
	if (!r && !s->discard && !extent_is_whole(s, f, x))
		return put_file(w, f, b);
	if (!r)
		extent_put(s, f, x, block_payload(b));
	kfile_put(s, f);
	sink_release(s, b, 0);
	return 0;
}

static int put_many(struct writer *w, struct block *b)
{
	struct sink *s = w->s;
	int r = 0;

	for (uint32_t i = 0; i < b->nextents && r >= 0; i++) {
		const struct extent *x = &b->extents[i];
		struct kfile *f = kfile_get(s, x->file);

		/* An entry that came and is over is gone: dropped. */
		r = f ? extent_admit(s, f, x) : 1;
		if (!r)
			extent_put(s, f, x, block_payload(b) + x->pos);
		kfile_put(s, f);
	}
	sink_release(s, b, 0);
	return r < 0 ? r : 0;
}

/* ---- standard output ---- */

static struct block *take_next(struct sink *s)
{
	struct block **at = &s->stream_held;

	for (; *at; at = &(*at)->next) {
		struct block *b = *at;

		if (b->number != s->stream_next)
			continue;
		*at = b->next;
		b->next = NULL;
		s->stream_next++;
		return b;
	}
	return NULL;
}

/* Before any of it is out. */
static int admit_all(struct sink *s, const struct block *b)
{
	int r = 0;

	for (uint32_t i = 0; i < b->nextents && r >= 0; i++) {
		struct kfile *f = kfile_get(s, b->extents[i].file);

		r = f ? extent_admit(s, f, &b->extents[i]) : 1;
		kfile_put(s, f);
	}
	return r < 0 ? r : 0;
}

static void all_down(struct sink *s, const struct block *b)
{
	for (uint32_t i = 0; i < b->nextents; i++) {
		const struct extent *x = &b->extents[i];
		struct kfile *f = kfile_get(s, x->file);

		/* Not one of nothing, nor of a file that was over: these were not admitted. */
		if (f && x->length && !atomic_load(&f->over))
			extent_down(s, f, x, block_payload(b) + x->pos);
		kfile_put(s, f);
	}
}

static int print_block(struct writer *w, struct block *b)
{
	struct sink *s = w->s;
	int r = admit_all(s, b);

	if (!r) {
		r = outlet_write(&s->outlet, block_payload(b), b->len);
		if (r)
			xfer_fail(&s->x, r, "standard output: %s", strerror(-r));
		else
			all_down(s, b);
	}
	sink_release(s, b, 0);
	return r;
}

/* There is one writer then: what comes early is held until its turn. */
static int put_stream(struct writer *w, struct block *b)
{
	struct sink *s = w->s;
	int r = 0;

	b->next = s->stream_held;
	s->stream_held = b;
	while (!r && (b = take_next(s)))
		r = print_block(w, b);
	return r;
}

/* ---- the loop ---- */

static int put_block(struct writer *w, struct block *b)
{
	struct sink *s = w->s;
	int r = sink_check(s, w->unseal, &b);

	if (r < 0)
		sink_drop(s, b);
	if (r)
		return r < 0 ? r : 0;
	if (sink_park(s, b))
		return 0;
	if (s->stream)
		return put_stream(w, b);
	return b->nextents == 1 ? put_single(w, b) : put_many(w, b);
}

/* The next block; while writes are under way they are finished rather than slept on. */
static int next_block(struct writer *w, struct block **b)
{
	struct sink *s = w->s;
	uint64_t t;
	int r;

	for (;;) {
		r = bq_try_pop(s->arrived, b);
		if (r != -EAGAIN)
			return r;
		if (!io_inflight(w->io))
			break;
		r = reap(w, 1);
		if (r)
			return r;
	}
	t = now_ns();
	r = bq_pop(s->arrived, b);
	atomic_fetch_add_explicit(&s->writer_wait_ns, now_ns() - t, memory_order_relaxed);
	return r;
}

static void *writer_main(void *arg)
{
	struct writer *w = arg;
	struct block *b;
	int r;

	place_self(&w->cpus);
	do {
		r = next_block(w, &b);
		if (!r)
			r = put_block(w, b);
	} while (!r);
	while (io_inflight(w->io) && !reap(w, 1))
		;
	return NULL;
}

static void writer_free(struct writer *w)
{
	if (!w)
		return;
	io_free(w->io);
	unseal_free(w->unseal);
	free(w);
}

static struct writer *writer_new(struct sink *s, bool first, struct err *e)
{
	struct writer *w = calloc(1, sizeof(*w));
	const char *said = NULL;

	if (!w) {
		err_set(e, -ENOMEM, "out of memory");
		return NULL;
	}
	w->s = s;
	w->cpus = placement_io_cpus(s->x.placement);
	w->depth = s->x.tuning->depth ? s->x.tuning->depth : 8;
	if (w->depth > DEPTH_MAX)
		w->depth = DEPTH_MAX;
	for (unsigned k = 0; k < w->depth; k++)
		w->spare[w->nspare++] = &w->puts[k];
	w->io = io_new(s->io, w->depth, s->x.pools, (int)s->x.npaths, &said, e);
	if (w->io && first)
		log_debug("writing by %s%s%s", io_name(w->io), said ? ": " : "",
			  said ? said : "");
	if (w->io)
		w->depth = io_depth(w->io); /* an engine may have less: posix has 1 */
	if (w->io)
		w->unseal = unseal_new(&s->x.keys, &s->x.agr, s->x.dir);
	if (w->io && w->unseal)
		return w;
	if (w->io)
		err_set(e, -ENOMEM, "out of memory");
	writer_free(w);
	return NULL;
}

static unsigned writers_wanted(const struct sink *s)
{
	unsigned n = s->x.tuning->writers;

	if (s->stream)
		return 1;
	if (!n)
		n = setup_threads(&s->x.agr, placement_io_width(s->x.placement));
	return n > WRITERS_MAX ? WRITERS_MAX : n;
}

int writers_start(struct sink *s, struct err *e)
{
	s->nwriters = writers_wanted(s);
	placement_say_io(s->x.placement, "written", s->nwriters);
	for (unsigned i = 0; i < s->nwriters; i++) {
		struct writer *w = writer_new(s, !i, e);
		int r;

		if (!w)
			return e->code;
		snprintf(w->name, sizeof(w->name), "write%u", i);
		r = thread_start(&w->thread, w->name, writer_main, w);
		if (r) {
			writer_free(w);
			return err_sys(e, r, "cannot start a thread");
		}
		s->writers[i] = w;
	}
	return 0;
}

void writers_join(struct sink *s)
{
	for (unsigned i = 0; i < s->nwriters && s->writers[i]; i++) {
		pthread_join(s->writers[i]->thread, NULL);
		writer_free(s->writers[i]);
		s->writers[i] = NULL;
	}
}
