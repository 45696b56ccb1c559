// SPDX-License-Identifier: Apache-2.0
/* Readers: fill, number and seal blocks. */
#include "transfer/source/source.h"

#include "transfer/setup.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/stat.h>

struct reader {
	struct file_thread thread;     /* first; user of its operations: the file */
	struct source *s;
	struct seal *seal;
	struct block *open;            /* being filled with small files; or NULL */
	struct block *spare;           /* with digests: for the next piece, see sum.c; or NULL */
	struct sfile *mine;            /* the file of the last piece */
};

enum { READ_TRIES = 3 }; /* of a small file while its ctime moves */

/* ---- blocks out ---- */

/* Number and seal b, and hand it, or a block of the outer pool with the sealed bytes, to the sender.
 * Takes b over. 0; or an error after which the transfer has failed. */
static int reader_send(struct reader *r, struct block *b)
{
	struct source *s = r->s;
	uint32_t path = source_path_of(s, b);
	struct staging *staging = s->x.staging[path];
	struct block *to = b;
	int rc = source_number(s, &b->number);

	/* The peer must not reach the block that is filled. */
	if (!rc && staging)
		to = pool_get(staging->outer);
	if (!rc && !to)
		rc = -ECANCELED;
	if (!rc) {
		rc = seal_block(r->seal, b, to);
		if (rc)
			xfer_fail(&s->x, rc, "sealing a block: %s", strerror(-rc));
	}
	if (to != b)
		pool_put(b);

	if (!rc)
		rc = bq_push(s->ready[path], to);
	if (rc && to)
		pool_put(to);
	return rc;
}

static int flush_open(struct reader *r)
{
	struct block *b = steal_ptr(&r->open);

	if (!b)
		return 0;
	if (b->nextents)
		return reader_send(r, b);
	pool_put(b);
	return 0;
}

/* ---- failures ---- */

static void reader_file_failed(struct reader *r, struct sfile *f, int code, const char *reason)
{
	char *path CLEANUP_FREE = NULL;
	char text[ERR_TEXT];

	if (xfer_failed(&r->s->x)) /* then the transfer failed, not the file */
		return;
	path = sfile_path(f);
	snprintf(text, sizeof(text), "%s: %s", printable(path ? path : f->name),
		 reason ? reason : root_why(code));
	source_file_failed(r->s, f, path ? path : f->name, code, text);
}

static int sfile_check(int fd, const struct sfile *f)
{
	struct stat st;

	if (fstat(fd, &st) || st.st_dev != f->dev || st.st_ino != f->ino ||
	    (uint64_t)st.st_size != f->size || st.st_mtim.tv_sec != f->mtime_s ||
	    (uint32_t)st.st_mtim.tv_nsec != f->mtime_ns)
		return -ESTALE;
	return st.st_ctim.tv_sec == f->ctime_s && (uint32_t)st.st_ctim.tv_nsec == f->ctime_ns ?
		       0 : -EAGAIN;
}

static void sfile_note_ctime(int fd, struct sfile *f)
{
	struct stat st;

	if (fstat(fd, &st))
		return;
	f->ctime_s = st.st_ctim.tv_sec;
	f->ctime_ns = (uint32_t)st.st_ctim.tv_nsec;
}

static void reader_no_digest(struct reader *r, struct sfile *f)
{
	reader_file_failed(r, f, -EIO, "its digest cannot be computed");
}

static void reader_file_changed(struct reader *r, struct sfile *f, int code)
{
	reader_file_failed(r, f, code, code == -ESTALE ?
			   FILE_CHANGED_WHY "; not sent, run again" :
			   "its ctime " FILE_CHANGED_WHY "; not sent, run again");
}

/* O_NONBLOCK: if a pipe has replaced the file, do not wait for its writer. */
static int reader_open(struct reader *r, const struct sfile *f)
{
	int fd = source_open(r->s, f, O_RDONLY | O_NONBLOCK | O_NOCTTY);

	/* EAGAIN: another process has a lease (fcntl(2)). Here it would mean a changed file. */
	return fd == -EAGAIN ? -EBUSY : fd;
}

/* ---- one piece of a file ---- */

#define DIRECT_MIN (64ull << 20) /* from this size on no read-ahead is requested */
#define STDIN_POLL_MS 200

/* The descriptor that all readers of f share. */
static int reader_fd(struct reader *r, struct sfile *f)
{
	LOCK_GUARD(guard, &f->fd_lock);

	if (f->fd >= 0)
		return f->fd;
	f->fd = reader_open(r, f);
	if (f->fd < 0) {
		int rc = f->fd;

		f->fd = -1;
		return rc;
	}
	/* A change before the first read is harmless, unless the walk has looked for holes. */
	if (f->kind == SFILE_PATH && !f->ranges)
		sfile_note_ctime(f->fd, f);
	/* Read through the cache unless direct I/O was requested: a cached file is read at the
	 * speed of memory, and it is not known whether this one is cached. */
	if (r->s->x.c->tuning.direct == DIRECT_ON && direct_alignment(f->fd))
		fcntl(f->fd, F_SETFL, O_DIRECT);
	else if (f->size < DIRECT_MIN)
		posix_fadvise(f->fd, 0, 0, POSIX_FADV_SEQUENTIAL);
	return f->fd;
}

/* Tell the sink a number of bytes of f: its size, or its bytes that need not be sent. */
static int reader_send_bytes(struct source *s, uint8_t type, const struct sfile *f, uint64_t bytes)
{
	struct buf *b CLEANUP_BUF = buf_new(64);
	int rc = b ? bulk_pair_put(b, f->id, bytes) : -ENOMEM;

	return rc ? rc : xfer_send(&s->x, type, b);
}

/* Send the size of a stream or a timed run, which is known after the last piece. */
static int send_size(struct source *s, struct sfile *f, uint64_t size)
{
	f->size = size;
	atomic_fetch_add(&s->x.count.bytes_known, size);
	return reader_send_bytes(s, BULK_SIZES, f, size);
}

/* The piece in b is ready to be sent; b NULL: it failed. The last piece is sent only after a check
 * that the file has not changed, so that the sink cannot commit a mix of two versions. */
static int finish_one(struct reader *r, struct sfile *f, struct block *b)
{
	struct source *s = r->s;
	bool last = plan_piece_done(s->plan, f);
	int rc = 0, changed = 0;

	if (last && f->kind == SFILE_PATH && !atomic_load(&f->failed))
		changed = sfile_check(f->fd, f);
	if (changed)
		reader_file_changed(r, f, changed);
	else if (last && !atomic_load(&f->failed))
		rc = source_send_sum(s, f);

	if (last) { /* all of f has been read */
		pthread_mutex_lock(&f->fd_lock);
		cleanup_close(&f->fd);
		f->fd = -1;
		pthread_mutex_unlock(&f->fd_lock);
	}

	if (b && atomic_load(&f->failed)) {
		pool_put(b);
		b = NULL;
	}

	if (b && rc)
		pool_put(b);
	else if (b)
		rc = reader_send(r, b);
	if (last && f->kind == SFILE_ZERO && s->x.c->request.bench_ns && !rc)
		rc = send_size(s, f, f->size);
	sfile_put(f);
	return rc;
}

/* The piece in b was read; b NULL: it failed. With a digest, finish the pieces that are next. Each
 * has a reference to f. */
static int finish_piece(struct reader *r, struct sfile *f, struct block *b)
{
	struct block *next, *held;
	int rc = 0, one;

	if (!f->sum)
		return finish_one(r, f, b);
	sfile_ref(f); /* another reader may finish b */
	if (!b) /* the file or the transfer has failed: no further block can be hashed */
		atomic_store(&f->failed, true);
	held = sum_take(f, b);
	if (sum_failed(f))
		reader_no_digest(r, f);
	if (!b)
		rc = finish_one(r, f, NULL);
	for (; held; held = next) {
		next = held->next;
		one = finish_one(r, f, held);
		rc = rc ? rc : one;
	}
	sfile_put(f);
	return rc;
}

/* After a failure of the transfer the queues are closed, so reader_send() drops the piece. */
static int piece_read(struct file_thread *t, struct io_op *op)
{
	struct reader *r = (struct reader *)t;
	struct sfile *f = op->user;
	struct block *b = op->block;

	if (op->result < 0) {
		reader_file_failed(r, f, (int)op->result, NULL);
	} else if (op->result != op->len) {
		reader_file_changed(r, f, -ESTALE);
	} else {
		int rc = block_add(b, f->id, op->offset, op->len);

		return rc ? rc : finish_piece(r, f, b);
	}
	pool_put(b);
	return finish_piece(r, f, NULL);
}

/* Get a free block. While there is none, the reader finishes the blocks that it holds, because
 * other readers may wait for them. NULL: the transfer has failed. */
static struct block *reader_block(struct reader *r)
{
	struct source *s = r->s;
	struct block *b = source_try_block(s);

	if (b)
		return b;
	while (io_inflight(r->thread.io)) {
		if (file_thread_reap(&r->thread, 1))
			return NULL;
		b = source_try_block(s);
		if (b)
			return b;
	}
	/* Readers that each keep a half-full block would wait for each other. */
	if (flush_open(r))
		return NULL;

	return source_block(s);
}

/* The block for a piece of the plan. */
static struct block *piece_block(struct reader *r)
{
	return r->spare ? steal_ptr(&r->spare) : reader_block(r);
}

static int read_piece(struct reader *r, struct sfile *f, uint64_t offset, uint32_t length)
{
	struct io_op op = { .offset = offset, .len = length, .user = f };
	struct block *b = piece_block(r);

	if (!b) {
		finish_piece(r, f, NULL);
		return -ECANCELED;
	}

	op.fd = reader_fd(r, f);
	if (op.fd < 0) {
		reader_file_failed(r, f, op.fd, NULL);
		pool_put(b);
		return finish_piece(r, f, NULL);
	}
	op.block = b;
	op.data = block_payload(b);
	return file_thread_submit(&r->thread, &op);
}

/* Send zeros. A bench sends the pool's memory as it is. For a sink that keeps the bytes, zeros are
 * written, because sealing or another file may have left other bytes in the block. */
static int zero_piece(struct reader *r, struct sfile *f, uint64_t offset, uint32_t length)
{
	struct source *s = r->s;
	struct block *b;
	int rc;

	if (s->x.c->request.bench_ns && now_ns() - s->x.started_ns >= s->x.c->request.bench_ns)
		plan_truncate(s->plan, f);
	b = piece_block(r);
	if (!b) {
		finish_piece(r, f, NULL);
		return -ECANCELED;
	}

	if (s->x.c->request.op == BULK_PUT)
		memset(block_payload(b), 0, length);
	rc = block_add(b, f->id, offset, length);
	return rc ? rc : finish_piece(r, f, b);
}

/* The stream among the items of a transfer; there is one at most. */
static int stream_fd(const struct transfer_config *c)
{
	for (uint32_t i = 0; i < c->nitems; i++)
		if (c->items[i].kind == ITEM_STDIO)
			return c->items[i].fd;
	return -1;
}

/* Read len bytes of a stream, fewer at its end. It may be silent for long, so the wait ends when
 * the transfer has failed. */
static ssize_t read_stream(struct reader *r, int fd, uint8_t *p, size_t len)
{
	struct pollfd in = { .fd = fd, .events = POLLIN };
	size_t have = 0;

	while (have < len) {
		ssize_t n;

		if (xfer_failed(&r->s->x))
			return -ECANCELED;
		if (poll(&in, 1, STDIN_POLL_MS) <= 0)
			continue;
		n = read(fd, p + have, len - have);
		if (n < 0 && errno != EINTR && errno != EAGAIN)
			return -errno;
		if (!n)
			break;
		have += n > 0 ? (size_t)n : 0;
	}
	return (ssize_t)have;
}

/* Read the stream to its end. */
static int reader_stream(struct reader *r, struct sfile *f)
{
	int fd = stream_fd(r->s->x.c), rc = 0;
	uint64_t at = 0;

	while (!rc) {
		struct block *b = reader_block(r);
		uint32_t most = plan_limited(r->s->plan);
		ssize_t n;

		if (!b) {
			rc = -ECANCELED;
			break;
		}
		n = read_stream(r, fd, block_payload(b), most < b->cap ? most : b->cap);
		if (n <= 0) {
			pool_put(b);
			rc = (int)n;
			break;
		}
		rc = block_add(b, f->id, at, (uint32_t)n);
		if (!rc)
			rc = sum_stream(f, block_payload(b), (size_t)n);
		at += (uint64_t)n;
		if (!rc)
			rc = reader_send(r, b);
	}

	plan_piece_done(r->s->plan, f);
	if (!rc) {
		rc = sum_stream(f, NULL, 0);
		if (!rc)
			rc = send_size(r->s, f, at);
	} else if (rc != -ECANCELED) {
		reader_file_failed(r, f, rc, NULL);
		rc = 0; /* only the file has failed */
	}
	sfile_put(f);
	return rc;
}

static int reader_piece(struct reader *r, struct plan_work *w)
{
	struct sfile *f = w->file;

	r->mine = f; /* only compared, never dereferenced: it may be freed */
	if (atomic_load(&f->failed))
		return finish_piece(r, f, NULL);
	switch (f->kind) {
	case SFILE_STREAM:
		return reader_stream(r, f);
	case SFILE_ZERO:
		return zero_piece(r, f, w->offset, w->length);
	default:
		return read_piece(r, f, w->offset, w->length);
	}
}

/* ---- small files ---- */

static int read_small(struct reader *r, struct sfile *f)
{
	struct block *b = r->open;
	int fd CLEANUP_CLOSE = reader_open(r, f), changed = -EAGAIN;
	ssize_t n = 0;

	if (fd < 0) {
		reader_file_failed(r, f, fd, NULL);
		return 0;
	}

	/* A ctime that moved since the walk is no error: the content is read again. */
	for (int i = 0; i < READ_TRIES && changed == -EAGAIN && n >= 0; i++) {
		if (i)
			sfile_note_ctime(fd, f);
		n = FAULT("read", f->size);
		if (!n)
			n = pread_full(fd, block_payload(b) + b->len, f->size, 0);
		changed = n >= 0 && (uint64_t)n != f->size ? -ESTALE : sfile_check(fd, f);
	}
	if (n < 0)
		reader_file_failed(r, f, (int)n, NULL);
	else if (changed)
		reader_file_changed(r, f, changed);
	else if (sum_whole(f, block_payload(b) + b->len, (size_t)n))
		reader_no_digest(r, f);
	else if (!block_add(b, f->id, 0, (uint32_t)n))
		return source_send_sum(r->s, f);
	return 0;
}

static int read_batch(struct reader *r, struct plan_work *w)
{
	int rc = 0;

	for (uint32_t i = 0; i < w->nfiles; i++) {
		struct sfile *f = w->files[i];

		if (r->open && (r->open->nextents == BLOCK_EXTENTS ||
				r->open->cap - r->open->len < f->size))
			rc = flush_open(r);
		if (!rc && !r->open) {
			r->open = piece_block(r);
			rc = r->open ? 0 : -ECANCELED;
		}
		if (!rc && !atomic_load(&f->failed))
			rc = read_small(r, f);
		sfile_put(f);
	}
	return rc;
}

/* ---- files of which the sink has a part ---- */

/* Keep this run of f, which matches its bytes. */
static int keep_run(void *arg, const struct part_run *run)
{
	struct sfile *f = arg;

	f->runs[f->nruns++] = *run;
	return 0;
}

/* Add one range of the file's data to g, cut at the matching runs that lie completely inside it. */
static int missing_subtract(struct sfile *f, struct bulk_range data, uint32_t *next,
			    struct range_list *g)
{
	uint64_t at = data.offset, end = data.offset + data.length;
	int rc = 0;

	for (; *next < f->nruns && !rc; ++*next) {
		uint64_t lo = f->runs[*next].offset, hi = lo + f->runs[*next].length;

		if (lo >= end)
			break;
		if (lo < at || hi > end)
			continue;
		if (lo > at)
			rc = range_list_add(g, at, lo - at);
		at = hi;
	}
	return rc || at == end ? rc : range_list_add(g, at, end - at);
}

/* Append the digest of f to b, for a sink that compares it. f's descriptor is not kept: all files of
 * the window may wait for their verdicts. */
static int reader_digest(struct reader *r, struct sfile *f, struct buf *b)
{
	int fd CLEANUP_CLOSE = reader_open(r, f), changed = 0;
	uint8_t digest[RUN_DIGEST_BYTES];
	int rc = fd < 0 ? fd : 0;

	if (rc == 0) {
		if (!f->ranges)
			sfile_note_ctime(fd, f);
		rc = file_digest(fd, f->size, &r->s->x.failed, digest);
	}
	if (fd >= 0 && (rc == 0 || rc == -EIO))
		changed = sfile_check(fd, f);
	if (changed)
		reader_file_changed(r, f, changed);
	else if (rc)
		reader_file_failed(r, f, rc, NULL);
	pthread_mutex_lock(&r->s->lock);
	f->digest = false;
	pthread_mutex_unlock(&r->s->lock);
	return rc || changed ? 0 : bulk_digest_put(b, f->id, digest);
}

static int reader_send_digests(struct reader *r, struct plan_work *w)
{
	struct buf *b CLEANUP_BUF = buf_new(BULK_FRAME_MAX);
	int rc = b ? flush_open(r) : -ENOMEM; /* the digests may take long */

	for (uint32_t i = 0; i < w->nfiles; i++) {
		if (!rc)
			rc = reader_digest(r, w->files[i], b);
		sfile_put(w->files[i]);
	}
	return rc || !buf_len(b) ? rc : xfer_send(&r->s->x, BULK_DIGEST, b);
}

static int reader_check_runs(struct reader *r, struct sfile *f)
{
	const struct bulk_range whole = { 0, f->size };
	const struct bulk_range *data = f->ranges ? f->ranges : &whole;
	uint32_t nruns = f->nruns, next = 0, ndata = f->ranges ? f->nranges : 1;
	struct range_list missing = { 0 }; /* no limit: joining ranges would send holes */
	uint64_t bytes = 0, kept;
	int fd = reader_fd(r, f), rc = fd < 0 ? fd : 0, changed;

	/* Keep only the matching runs: they move to the start of the array. */
	f->nruns = 0;
	if (!rc)
		rc = runs_compare(fd, f->runs, nruns, &r->s->x.failed, keep_run, f);
	if (!rc)
		rc = sum_file(f, fd, &r->s->x.failed);
	if (rc) {
		reader_file_failed(r, f, rc, NULL);
		sfile_put(f);
		return 0;
	}

	for (uint32_t i = 0; i < ndata && !rc; i++) {
		rc = missing_subtract(f, data[i], &next, &missing);
		bytes += data[i].length;
	}

	changed = rc ? 0 : sfile_check(fd, f);
	if (changed) {
		reader_file_changed(r, f, changed);
		missing.n = 0;
	} else if (!rc) {
		kept = bytes - missing.bytes;
		atomic_fetch_add(&r->s->x.count.bytes_kept, kept);
		rc = reader_send_bytes(r->s, BULK_KEPT, f, kept);
		if (!rc)
			rc = source_send_sum(r->s, f);
	}

	free(f->runs);
	free(f->ranges);
	f->runs = NULL;
	f->ranges = missing.v;
	f->nranges = missing.n;
	if (!rc && missing.n)
		plan_ready(r->s->plan, f);
	else
		sfile_put(f);
	return rc;
}

/* ---- the loop ---- */

static enum plan_answer next_work(struct reader *r, struct plan_work *w)
{
	struct source *s = r->s;
	uint32_t most = plan_limited(s->plan), room = s->x.agr.block;
	bool holding = r->open || io_inflight(r->thread.io);
	enum plan_answer a;

	if (*s->x.c->request.sum && !r->spare) {
		r->spare = reader_block(r);
		if (!r->spare)
			return PLAN_END;
	}
	if (r->open)
		room = most > r->open->len ? most - r->open->len : 0;
	a = plan_next(s->plan, r->mine, room, false, w);
	if (a != PLAN_IDLE || holding)
		return a;
	return plan_next(s->plan, r->mine, room, true, w);
}

/* Finish all pieces and blocks that this reader holds. */
static int finish_all(struct reader *r)
{
	int rc = flush_open(r);

	while (!rc && io_inflight(r->thread.io))
		rc = file_thread_reap(&r->thread, 1);
	return rc;
}

static int reader_step(struct reader *r, bool *end)
{
	struct plan_work w;

	switch (next_work(r, &w)) {
	case PLAN_SMALL:
		return read_batch(r, &w);
	case PLAN_PIECE:
		return reader_piece(r, &w);
	case PLAN_CHECK:
		return reader_check_runs(r, w.file);
	case PLAN_DIGEST:
		return reader_send_digests(r, &w);
	case PLAN_FULL:
		return flush_open(r);
	case PLAN_IDLE:
		return finish_all(r);
	default:
		*end = true;
		return finish_all(r);
	}
}

static void reader_run(struct file_thread *t)
{
	struct reader *r = (struct reader *)t;
	bool end = false;
	int rc = 0;

	while (!end && !rc)
		rc = reader_step(r, &end);
	if (rc && rc != -ECANCELED && rc != -EPIPE)
		xfer_fail(t->x, rc, "reading: %s", strerror(-rc));
	if (r->open)
		pool_put(steal_ptr(&r->open));
	if (r->spare)
		pool_put(steal_ptr(&r->spare));
	atomic_fetch_add(&r->s->readers_done, 1);
	xfer_changed(&r->s->x);
}

static int reader_begin(struct file_thread *t, unsigned i)
{
	struct reader *r = (struct reader *)t;

	r->s = (struct source *)t->x;
	if (t->x->c->request.flags & BULK_F_SEQUENTIAL)
		t->depth = 1;
	r->seal = seal_new(&t->x->keys, &t->x->agr, t->x->dir, (uint16_t)i);
	return r->seal ? 0 : -ENOMEM;
}

static void reader_end(struct file_thread *t)
{
	struct reader *r = (struct reader *)t;

	seal_free(r->seal);
}

unsigned readers_wanted(const struct source *s)
{
	if (s->x.c->request.flags & BULK_F_SEQUENTIAL)
		return 1;
	if (s->x.c->nitems == 1 && s->x.c->items[0].kind != ITEM_PATH)
		return 1;
	return file_threads_wanted(&s->x, s->x.c->tuning.readers);
}

int readers_start(struct source *s, struct err *e)
{
	static const struct file_thread_kind readers = {
		.name = "read", .verb = "reading", .past = "read", .size = sizeof(struct reader),
		.begin = reader_begin, .run = reader_run, .done = piece_read, .end = reader_end,
	};

	return file_threads_start(&s->readers, &s->x, &readers, s->io, e);
}
