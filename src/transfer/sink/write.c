// SPDX-License-Identifier: Apache-2.0
/* Writers: write blocks to files. */
#include "transfer/sink/sink.h"

#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/stat.h>

#define DIRECT_MIN (64ull << 20)

struct writer {
	struct file_thread thread; /* first. Each of its operations writes the whole of a block with
				    * a single extent; user: the file */
	struct sink *s;
	struct unseal *unseal;
};

/* ---- standard output: writes that can be cancelled ---- */

int stdout_open(struct stdout_writer *o, int fd)
{
	char again[40];
	struct stat st;

	*o = (struct stdout_writer){ .fd = fd, .chunk = SIZE_MAX };
	o->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (o->wake < 0)
		return -errno;
	if (fstat(fd, &st) < 0)
		return 0;                /* write(2) will return the error */
	o->socket = S_ISSOCK(st.st_mode);
	if (!S_ISFIFO(st.st_mode) && !isatty(fd))
		return 0;

	/* O_NONBLOCK belongs to the open file description, which the parent process shares. A pipe
	 * or terminal can be opened once more, for a description of its own. */
	snprintf(again, sizeof(again), "/proc/self/fd/%d", fd);
	fd = open(again, O_WRONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
	if (fd >= 0) {
		o->fd = fd;
		o->own = true;
	} else {
		/* If another user owns it, it cannot be opened. After poll(2) a pipe accepts at
		 * least this much without sleeping. */
		o->chunk = PIPE_BUF;
	}
	return 0;
}

void stdout_close(struct stdout_writer *o)
{
	if (o->own)
		close(o->fd);
	cleanup_close(&o->wake);
}

void stdout_wake(struct stdout_writer *o)
{
	uint64_t one = 1;

	/* It stays readable, because the counter is never read; it cannot overflow. */
	if (write(o->wake, &one, sizeof(one)) < 0)
		return;
}

int stdout_write(struct stdout_writer *o, const void *p, size_t len)
{
	struct pollfd fds[2] = { { .fd = o->fd, .events = POLLOUT },
				 { .fd = o->wake, .events = POLLIN } };
	const uint8_t *at = p;

	while (len) {
		size_t most = len < o->chunk ? len : o->chunk;
		ssize_t n = poll(fds, 2, -1);

		if (n > 0 && fds[1].revents)
			return -ECANCELED;
		/* Now write(2) will succeed, or return an error. */
		if (n > 0)
			n = o->socket ? send(o->fd, at, most, MSG_DONTWAIT | MSG_NOSIGNAL) :
					write(o->fd, at, most);
		if (n < 0 && errno != EAGAIN && errno != EINTR)
			return -errno;
		if (n > 0) {
			at += n;
			len -= (size_t)n;
		}
	}
	return 0;
}

/* ---- one extent ---- */

/* The most pieces of f that may have arrived with x: one for each block, and more where blocks are
 * cut at f's ranges and at runs that are not sent again. More and smaller pieces would fill our
 * memory. */
static uint64_t most_pieces(struct sink *s, const struct sink_file *f, const struct extent *x)
{
	const struct agreement *a = &s->x.agr;

	if (!(f->flags & ENTRY_F_NOSIZE))
		return 2 * (f->meta.size / a->block + 1) + BULK_RANGES_MAX;
	/* Blocks may overtake each other by the number of blocks in flight. */
	return (x->offset + x->length) / a->block + 1 + (uint64_t)a->paths * a->inflight;
}

/* Note the digest of x for --ack verified, and in the journal, unless x is tiny: a record for each
 * tiny piece would take as much space as the data. */
static int note_run(struct sink *s, struct sink_file *f, const struct extent *x,
		    const uint8_t *data)
{
	struct part_run run = { .offset = x->offset, .length = x->length };
	bool journal = f->journal && f->part &&
		       (x->length >= BLOCK_MIN || x->offset + x->length >= f->meta.size);
	int r = 0;

	if (!s->verify && !journal)
		return 0;
	crypto_run_digest(run.digest, data, x->length);
	if (s->verify) {
		LOCK_GUARD(guard, stripe_of(s, f->id));

		r = checks_count(&f->came) < most_pieces(s, f, x) ?
			    checks_add(&f->came, &run, f->parent->dir) : -EPROTO;
	}
	return r || !journal ? r : part_note_run(f->part, &run);
}

void sink_file_write_failed(struct sink *s, struct sink_file *f, int code)
{
	char *path CLEANUP_FREE = sink_file_path(f);

	if (!xfer_failed(&s->x)) /* otherwise the transfer failed, not the file */
		sink_file_failed(s, f, code, "%s: %s", printable(path ? path : f->name),
				 strerror(-code));
}

/* x has been written: note it, and complete the file if it was the last piece. */
static void extent_down(struct sink *s, struct sink_file *f, const struct extent *x,
		 const uint8_t *data)
{
	int r = note_run(s, f, x, data);

	if (r) {
		sink_file_write_failed(s, f, r);
		return;
	}
	if (f->range.length)
		sink_range_add(f, x, data);
	atomic_fetch_add_explicit(&s->x.count.bytes, x->length, memory_order_relaxed);
	if (atomic_fetch_sub(&f->left, x->length) == x->length)
		sink_file_complete(s, f);
}

/* Is x the whole of f, with no special handling required? */
static bool extent_is_whole(struct sink *s, const struct sink_file *f, const struct extent *x)
{
	return x->offset == 0 && x->length == f->meta.size && !s->sync && !s->verify &&
	       !f->journal && !(f->flags & (ENTRY_F_NOSIZE | ENTRY_F_SPARSE)) &&
	       !f->xattrs_len && !(s->x.c->request.flags & BULK_F_INPLACE);
}

/* The shortcut for a file in one piece. False: another writer holds its part; extent_put() can wait
 * for that writer. */
static bool extent_put_whole(struct sink *s, struct sink_file *f, const struct extent *x,
			     const uint8_t *data)
{
	struct part_spec spec = sink_file_spec(s, f);
	struct err e = ERR_INIT;
	int r = part_write_whole(&spec, data, x->length, &e);

	if (r == -EBUSY)
		return false;
	if (r) {
		sink_file_failed(s, f, r, "%s", e.text);
		return true;
	}
	atomic_fetch_add_explicit(&s->x.count.bytes, x->length, memory_order_relaxed);
	sink_file_done(s, f, FILE_COPIED);
	return true;
}

/* Write x, which was admitted, in this thread. A failure fails only f. */
static void extent_put(struct sink *s, struct sink_file *f, const struct extent *x,
		const uint8_t *data)
{
	struct err e = ERR_INIT;
	struct part *p;
	int r;

	if (s->discard) {
		extent_down(s, f, x, data);
		return;
	}
	if (extent_is_whole(s, f, x) && extent_put_whole(s, f, x, data))
		return;
	p = sink_file_part_in_turn(s, f, &e);
	if (!p) {
		sink_file_failed(s, f, e.code, "%s", e.text);
		return;
	}

	r = FAULT("write", x->length);
	if (!r)
		r = pwrite_full(part_fd(p), data, x->length, (off_t)x->offset);
	if (r)
		sink_file_write_failed(s, f, r);
	else
		extent_down(s, f, x, data);
}

/* ---- one extent: by the I/O engine ---- */

static int writer_put_done(struct file_thread *t, struct io_op *op)
{
	struct sink *s = ((struct writer *)t)->s;
	struct sink_file *f = op->user;
	struct block *b = op->block;

	if (op->result < 0)
		sink_file_write_failed(s, f, (int)op->result);
	else if (op->result != op->len)
		sink_file_write_failed(s, f, -EIO);
	else
		extent_down(s, f, &b->extents[0], block_payload(b));
	sink_file_put(s, f);
	sink_release(s, b, 0);
	return 0;
}

/* Switch p to direct I/O if that is wanted and possible. */
static void maybe_direct(struct sink *s, struct sink_file *f, struct part *p)
{
	LOCK_GUARD(guard, stripe_of(s, f->id));

	if (f->direct || !s->direct ||
	    (f->meta.size < DIRECT_MIN && s->x.c->tuning.direct != DIRECT_ON))
		return;
	f->direct = true;
	if (direct_alignment(part_fd(p)))
		fcntl(part_fd(p), F_SETFL, O_DIRECT);
}

/* Takes over f's reference and b. */
static int writer_submit(struct writer *w, struct sink_file *f, struct part *part, struct block *b)
{
	const struct extent *x = &b->extents[0];
	const struct io_op op = { .write = true, .fd = part_fd(part), .offset = x->offset,
				  .data = block_payload(b), .len = x->length, .block = b,
				  .user = f };

	return file_thread_submit(&w->thread, &op);
}

/* True: another writer works on f, and has taken over b and the reference to f. */
static bool left_to_other(struct sink *s, struct sink_file *f, struct block *b)
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

/* The blocks that were queued for this writer of f; NULL: none, and no writer works on f now. */
static struct block *left_to_us(struct sink *s, struct sink_file *f)
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

/* Filesystems let only one thread at a time write to a file through the cache. So other writers
 * queue their blocks for the first writer, instead of sleeping. That writer has a reference to f.
 * The pool limits the queue. */
static int submit_in_turn(struct writer *w, struct sink_file *f, struct part *part,
			  struct block *b)
{
	struct sink *s = w->s;
	int r = 0;

	if (left_to_other(s, f, b))
		return 0;
	atomic_fetch_add(&f->refs, 1);
	for (; b; b = left_to_us(s, f)) {
		int one = writer_submit(w, f, part, b);

		r = r ? r : one;
	}
	sink_file_put(s, f);
	return r;
}

/* Takes over f's reference and b. */
static int writer_put_file(struct writer *w, struct sink_file *f, struct block *b)
{
	struct sink *s = w->s;
	struct err e = ERR_INIT;
	struct part *part = sink_file_part_in_turn(s, f, &e);

	if (!part) {
		sink_file_failed(s, f, e.code, "%s", e.text);
		sink_file_put(s, f);
		sink_release(s, b, 0);
		return 0;
	}
	maybe_direct(s, f, part);
	return w->thread.depth == 1 ? submit_in_turn(w, f, part, b) : writer_submit(w, f, part, b);
}

static int writer_put_single(struct writer *w, struct block *b)
{
	struct sink *s = w->s;
	const struct extent *x = &b->extents[0];
	struct sink_file *f = sink_file_get(s, x->file);
	int r = f ? extent_admit(s, f, x) : 1;

	if (r < 0) {
		sink_file_put(s, f);
		sink_release(s, b, 0);
		return r;
	}

	if (!r && !s->discard && !extent_is_whole(s, f, x))
		return writer_put_file(w, f, b);
	if (!r)
		extent_put(s, f, x, block_payload(b));
	sink_file_put(s, f);
	sink_release(s, b, 0);
	return 0;
}

static int writer_put_many(struct writer *w, struct block *b)
{
	struct sink *s = w->s;
	int r = 0;

	for (uint32_t i = 0; i < b->nextents && r >= 0; i++) {
		const struct extent *x = &b->extents[i];
		struct sink_file *f = sink_file_get(s, x->file);

		/* No file: its entry is over, drop the extent. */
		r = f ? extent_admit(s, f, x) : 1;
		if (!r)
			extent_put(s, f, x, block_payload(b) + x->pos);
		sink_file_put(s, f);
	}
	sink_release(s, b, 0);
	return r < 0 ? r : 0;
}

/* ---- blocks to standard output ---- */

static struct block *stream_take_next(struct sink *s)
{
	struct block **at = &s->writers.stream_held;

	for (; *at; at = &(*at)->next) {
		struct block *b = *at;

		if (b->number != s->writers.stream_next)
			continue;
		*at = b->next;
		b->next = NULL;
		s->writers.stream_next++;
		return b;
	}
	return NULL;
}

/* Admit all extents of b before any byte of it is written. */
static int stream_admit_all(struct sink *s, const struct block *b)
{
	int r = 0;

	for (uint32_t i = 0; i < b->nextents && r >= 0; i++) {
		struct sink_file *f = sink_file_get(s, b->extents[i].file);

		r = f ? extent_admit(s, f, &b->extents[i]) : 1;
		sink_file_put(s, f);
	}
	return r < 0 ? r : 0;
}

static void stream_all_down(struct sink *s, const struct block *b)
{
	for (uint32_t i = 0; i < b->nextents; i++) {
		const struct extent *x = &b->extents[i];
		struct sink_file *f = sink_file_get(s, x->file);

		/* Empty extents, and those of a file that is over, were not admitted. */
		if (f && x->length && !atomic_load(&f->over))
			extent_down(s, f, x, block_payload(b) + x->pos);
		sink_file_put(s, f);
	}
}

static int stream_print_block(struct writer *w, struct block *b)
{
	struct sink *s = w->s;
	int r = stream_admit_all(s, b);

	if (!r) {
		r = stdout_write(&s->writers.out, block_payload(b), b->len);
		if (r)
			xfer_fail(&s->x, r, "standard output: %s", strerror(-r));
		else
			stream_all_down(s, b);
	}
	sink_release(s, b, 0);
	return r;
}

/* Standard output has one writer, which holds early blocks until their turn. */
static int stream_put(struct writer *w, struct block *b)
{
	struct sink *s = w->s;
	int r = 0;

	b->next = s->writers.stream_held;
	s->writers.stream_held = b;
	while (!r && (b = stream_take_next(s)))
		r = stream_print_block(w, b);
	return r;
}

/* ---- the loop ---- */

static int writer_put_block(struct writer *w, struct block *b)
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
		return stream_put(w, b);
	return b->nextents == 1 ? writer_put_single(w, b) : writer_put_many(w, b);
}

/* Get the next block. While writes are in flight, reap them instead of sleeping on the queue. */
static int writer_next_block(struct writer *w, struct block **b)
{
	struct sink *s = w->s;
	int r;

	for (;;) {
		r = bq_try_pop(s->writers.arrived, b);
		if (!r)
			atomic_fetch_add(&s->writers.held, 1);
		if (r != -EAGAIN)
			return r;
		if (!io_inflight(w->thread.io))
			break;
		r = file_thread_reap(&w->thread, 1);
		if (r)
			return r;
	}

	r = bq_pop(s->writers.arrived, b);
	if (!r)
		atomic_fetch_add(&s->writers.held, 1);
	return r;
}

static void writer_run(struct file_thread *t)
{
	struct writer *w = (struct writer *)t;
	struct block *b;
	int r;

	do {
		r = writer_next_block(w, &b);
		if (!r)
			r = writer_put_block(w, b);
	} while (!r);
}

static int writer_begin(struct file_thread *t, unsigned i)
{
	struct writer *w = (struct writer *)t;

	(void)i;
	w->s = (struct sink *)t->x;
	t->depth = io_depth(t->io); /* an engine may have a smaller depth: posix has 1 */
	w->unseal = unseal_new(&t->x->keys, &t->x->agr, t->x->dir);
	return w->unseal ? 0 : -ENOMEM;
}

static void writer_end(struct file_thread *t)
{
	unseal_free(((struct writer *)t)->unseal);
}

int writers_start(struct sink *s, struct err *e)
{
	static const struct file_thread_kind writers = {
		.name = "write", .verb = "writing", .past = "written",
		.size = sizeof(struct writer), .begin = writer_begin, .run = writer_run,
		.done = writer_put_done, .end = writer_end,
	};

	return file_threads_start(&s->writers.threads, &s->x, &writers, s->io, e);
}
