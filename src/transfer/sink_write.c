// SPDX-License-Identifier: Apache-2.0
/* The sink's writers: check blocks, put their extents where they belong, and give the
 * buffers back. */
#include "transfer/sink.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

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
	struct io *io;
	unsigned depth;
	struct unseal *unseal;
	struct put puts[DEPTH_MAX];
	struct put *spare[DEPTH_MAX];
	unsigned nspare;
	char name[16];
};

static char checked; /* block.user of a block that has been checked: its address */

/* ---- blocks back ---- */

/* The path that *b came by; if *b only stands for another block, *b becomes that one. */
static struct path *path_of(struct sink *s, struct block **b)
{
	uint32_t i = 0;

	for (;; i++) {
		struct shelter *shelter = s->x.shelters[i];

		if (shelter && shelter_pool(shelter) == (*b)->pool) {
			(*b)->user = NULL;
			*b = shelter_leave(shelter, *b);
			break;
		}
		if (s->x.pools[i] == (*b)->pool || i + 1 == s->x.nroutes)
			break;
	}
	return s->x.paths[i];
}

static void release(struct sink *s, struct block *b, uint32_t status)
{
	struct path *p = path_of(s, &b);

	b->user = NULL;
	p->ops->release(p, b, status);
}

/* In place of b, its copy where the peer cannot change it any more. NULL: the transfer is
 * over. */
static struct block *sheltered(struct sink *s, struct block *b)
{
	for (uint32_t i = 0; i < s->x.npaths; i++)
		if (s->x.shelters[i] && s->x.pools[i] == b->pool)
			return shelter_enter(s->x.shelters[i], b);
	return b;
}

/* ---- checking ---- */

/* b is damaged, or forged. Which block it should have been cannot be known from it; so
 * its channel goes, and the source sends by others what it had sent there. There are only
 * so many channels, which keeps a path that damages all from going on for ever. */
static void bad_block(struct sink *s, struct block *b)
{
	struct path *p = path_of(s, &b);

	log_warn("a block that came by %s channel %u is not what was sent (damaged, or an "
		 "attack; %llu so far): the channel is dropped", p->ops->name, b->channel,
		 (unsigned long long)atomic_fetch_add(&s->bad_blocks, 1) + 1);
	/* Said here, where it is known: to the others it only looks like a stream that ends. */
	if (p == s->x.inband)
		xfer_fail(&s->x, -EPIPE, "a block came damaged on the control connection");
	p->ops->refuse(p, b);
}

static int note_number(struct sink *s, uint64_t number)
{
	LOCK_GUARD(guard, &s->lock);

	return numbers_add(s->numbers, number);
}

/* 0: *b is what was sent, and new; 1: it has been dealt with; negative: the end. */
static int check_block(struct writer *w, struct block **at)
{
	struct sink *s = w->s;
	struct block *b = *at;
	int r;

	if (b->user == &checked)
		return 0;
	b = sheltered(s, b);
	if (!b)
		return -ECANCELED;
	*at = b;
	r = unseal_block(w->unseal, b);
	if (r) {
		bad_block(s, b);
		return 1;
	}
	r = note_number(s, b->number);
	if (r < 0)
		return xfer_fail(&s->x, r, "block number %llu is too far ahead",
				 (unsigned long long)b->number);
	if (!r) {
		release(s, b, 0); /* it came before, on a channel that died */
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

/* True when b waits for its entries now. */
static bool park(struct sink *s, struct block *b)
{
	uint64_t newest = newest_entry(b);

	if (newest <= atomic_load(&s->highest))
		return false;
	LOCK_GUARD(guard, &s->lock);
	if (newest <= atomic_load(&s->highest))
		return false;
	b->next = s->parked;
	s->parked = b;
	return true;
}

void sink_unpark(struct sink *s)
{
	struct block *b, *keep = NULL, *go = NULL;
	uint64_t highest = atomic_load(&s->highest);

	pthread_mutex_lock(&s->lock);
	b = steal_ptr(&s->parked);
	while (b) {
		struct block *next = b->next;
		struct block **list = newest_entry(b) <= highest ? &go : &keep;

		b->next = *list;
		*list = b;
		b = next;
	}
	s->parked = keep;
	pthread_mutex_unlock(&s->lock);
	while (go) {
		b = go;
		go = b->next;
		b->next = NULL;
		if (bq_push(s->arrived, b))
			pool_put(b);
	}
}

/* ---- extents ---- */

/* --ack received: all of f is in memory, checked. */
static void tell_received(struct sink *s, struct kfile *f)
{
	f->told = true;
	if (done_add(&s->done, f->id))
		xfer_fail(&s->x, -ENOMEM, "out of memory");
}

/* What may be written of x: 0; 1: its file is over, drop it; -EPROTO: it does not fit. */
static int admit(struct sink *s, struct kfile *f, const struct extent *x)
{
	int64_t before;

	/* A piece of nothing would complete a file that is being completed. */
	if (atomic_load(&f->over) || !x->length)
		return 1;
	if (atomic_load(&f->asks))
		return -EPROTO;
	if (!(f->flags & ENTRY_F_NOSIZE) && x->offset + x->length > f->meta.size)
		return -EPROTO;
	before = atomic_fetch_sub(&f->unreceived, x->length);
	if (before < x->length)
		return -EPROTO;
	if (s->early && before == x->length)
		tell_received(s, f);
	return 0;
}

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

/* Runs that x covers wholly go into the journal. */
static int note_runs(struct sink *s, struct kfile *f, const struct extent *x,
		     const uint8_t *data)
{
	uint64_t run = s->x.agr.run, size = f->meta.size, end = x->offset + x->length;
	uint64_t i = (x->offset + run - 1) / run;
	uint8_t digest[RUN_DIGEST_BYTES];
	int r = 0;

	for (; !r; i++) {
		uint64_t lo = i * run, hi = lo + run < size ? lo + run : size;

		if (lo >= end || hi > end)
			break;
		crypto_run_digest(digest, data + (lo - x->offset), hi - lo);
		r = part_note_run(f->part, i, digest);
	}
	return r;
}

static void write_failed(struct sink *s, struct kfile *f, int code)
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
static void extent_down(struct sink *s, struct kfile *f, const struct extent *x,
			const uint8_t *data)
{
	int r = 0;

	if (s->verify)
		r = add_check(s, f, x, data);
	if (!r && f->journal && f->part)
		r = note_runs(s, f, x, data);
	if (r) {
		write_failed(s, f, r);
		return;
	}
	atomic_fetch_add_explicit(&s->bytes, x->length, memory_order_relaxed);
	if (atomic_fetch_sub(&f->left, x->length) == x->length)
		kfile_complete(s, f);
}

static bool is_whole(struct sink *s, const struct kfile *f, const struct extent *x)
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

static void put_extent(struct sink *s, struct kfile *f, const struct extent *x,
		       const uint8_t *data)
{
	struct err e = ERR_INIT;
	struct part *p;
	int r;

	if (s->discard) {
		extent_down(s, f, x, data);
		return;
	}
	if (is_whole(s, f, x) && put_whole(s, f, x, data))
		return;
	p = kfile_part(s, f, &e);
	if (!p) {
		kfile_failed(s, f, e.code, e.text);
		return;
	}
	r = FAULT("write", x->length);
	if (!r)
		r = pwrite_full(part_fd(p), data, x->length, (off_t)x->offset);
	if (r)
		write_failed(s, f, r);
	else
		extent_down(s, f, x, data);
}

static int lost_extent(struct sink *s, const struct extent *x, int r)
{
	return xfer_fail(&s->x, r, "a block holds bytes %llu+%u of entry %llu, which has none "
			 "there", (unsigned long long)x->offset, x->length,
			 (unsigned long long)x->file);
}

/* ---- one extent: by the I/O engine ---- */

static int put_done(struct writer *w, struct put *p)
{
	struct sink *s = w->s;
	struct kfile *f = steal_ptr(&p->file);
	struct block *b = steal_ptr(&p->block);

	w->spare[w->nspare++] = p;
	if (p->op.result < 0)
		write_failed(s, f, (int)p->op.result);
	else if (p->op.result != p->op.len)
		write_failed(s, f, -EIO);
	else
		extent_down(s, f, &b->extents[0], block_payload(b));
	kfile_put(s, f);
	release(s, b, 0);
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
	struct part *part = kfile_part(s, f, &e);

	if (!part) {
		kfile_failed(s, f, e.code, e.text);
		kfile_put(s, f);
		release(s, b, 0);
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
	int r = f ? admit(s, f, x) : 1;

	if (r < 0) {
		kfile_put(s, f);
		release(s, b, 0);
		return lost_extent(s, x, r);
	}
	if (!r && !s->discard && !is_whole(s, f, x))
		return put_file(w, f, b);
	if (!r)
		put_extent(s, f, x, block_payload(b));
	kfile_put(s, f);
	release(s, b, 0);
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
		r = f ? admit(s, f, x) : 1;
		if (r < 0)
			lost_extent(s, x, r);
		else if (!r)
			put_extent(s, f, x, block_payload(b) + x->pos);
		kfile_put(s, f);
	}
	release(s, b, 0);
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

static int print_block(struct writer *w, struct block *b)
{
	struct sink *s = w->s;
	int r = outlet_write(&s->outlet, block_payload(b), b->len);

	if (r) {
		release(s, b, 0);
		return xfer_fail(&s->x, r, "standard output: %s", strerror(-r));
	}
	for (uint32_t i = 0; i < b->nextents && !r; i++) {
		struct kfile *f = kfile_get(s, b->extents[i].file);

		if (f && !admit(s, f, &b->extents[i]))
			extent_down(s, f, &b->extents[i], block_payload(b));
		kfile_put(s, f);
	}
	release(s, b, 0);
	return 0;
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
	int r = check_block(w, &b);

	if (r < 0)
		pool_put(b);
	if (r)
		return r < 0 ? r : 0;
	if (park(s, b))
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
		n = cpus_allowed() < 2 ? 2 : cpus_allowed() > 8 ? 8 : cpus_allowed();
	return n > WRITERS_MAX ? WRITERS_MAX : n;
}

int writers_start(struct sink *s, struct err *e)
{
	s->nwriters = writers_wanted(s);
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
