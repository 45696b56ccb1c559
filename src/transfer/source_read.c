// SPDX-License-Identifier: Apache-2.0
/* The source's readers: fill blocks from files, seal them, and hand them to a path. */
#include "transfer/source_read.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define DIRECT_MIN (64ull << 20) /* smaller files are not worth bypassing the cache */

/* ---- blocks out ---- */

/* The path whose queue of ready blocks is shortest. */
static uint32_t best_path(struct source *s)
{
	uint32_t best = 0, least = UINT32_MAX;

	if (s->x.npaths == 1)
		return 0;
	for (uint32_t i = 0; i < s->x.npaths; i++) {
		uint32_t busy = pool_blocks(s->x.pools[i]) - pool_free_blocks(s->x.pools[i]);

		if (atomic_load(&s->x.paths[i]->alive) && busy < least) {
			least = busy;
			best = i;
		}
	}
	return best;
}

/* Where files are read into: not before the eyes of the peer. */
static struct pool *filled_pool(struct source *s, uint32_t path)
{
	struct shelter *shelter = s->x.shelters[path];

	return shelter ? shelter_pool(shelter) : s->x.pools[path];
}

static int send_block(struct reader *r, struct block *b)
{
	struct source *s = r->s;
	uint32_t path = 0;
	int rc;

	rc = source_number(s, &b->number);
	if (rc) {
		pool_put(b);
		return rc;
	}
	rc = seal_block(r->seal, b);
	if (rc) {
		pool_put(b);
		return xfer_fail(&s->x, rc, "sealing a block: %s", strerror(-rc));
	}
	while (path + 1 < s->x.npaths && filled_pool(s, path) != b->pool)
		path++;
	if (s->x.shelters[path])
		b = shelter_show(s->x.shelters[path], b);
	if (!b)
		return -ECANCELED;
	rc = bq_push(s->ready[path], b);
	if (rc)
		pool_put(b);
	return rc;
}

static int flush_open(struct reader *r)
{
	struct block *b = steal_ptr(&r->open);

	if (!b)
		return 0;
	if (b->nextents)
		return send_block(r, b);
	pool_put(b);
	return 0;
}

static int reap(struct reader *r, int min);

/* A free block; while there is none, what we hold is finished first, because others
 * may be waiting for it as we do. NULL: the transfer has failed. */
static struct block *get_block(struct reader *r)
{
	struct source *s = r->s;
	struct pool *pool = filled_pool(s, best_path(s));
	struct block *b = pool_try_get(pool);
	uint64_t t;

	if (b)
		return b;
	while (io_inflight(r->io)) {
		if (reap(r, 1))
			return NULL;
		b = pool_try_get(pool);
		if (b)
			return b;
	}
	/* Readers that each keep a half full block would wait for each other. */
	if (flush_open(r))
		return NULL;
	t = now_ns();
	b = pool_get(pool);
	atomic_fetch_add_explicit(&s->reader_wait_ns, now_ns() - t, memory_order_relaxed);
	return b;
}

/* ---- failures ---- */

void reader_file_failed(struct reader *r, struct sfile *f, int code, const char *what)
{
	char *path CLEANUP_FREE = NULL;
	char text[ERR_TEXT];

	if (xfer_failed(&r->s->x)) /* then it is the transfer that failed */
		return;
	path = sfile_path(f);
	snprintf(text, sizeof(text), "%s: %s", printable(path ? path : f->name),
		 what ? what : root_why(code));
	source_file_failed(r->s, f, path ? path : f->name, code, text);
}


/* Is the file still what its entry said? */
bool sfile_unchanged(int fd, const struct sfile *f)
{
	struct stat st;

	return !fstat(fd, &st) && (uint64_t)st.st_size == f->size &&
	       st.st_mtim.tv_sec == f->mtime_s &&
	       (uint32_t)st.st_mtim.tv_nsec == f->mtime_ns;
}

/* NONBLOCK: should a pipe have taken the file's place, do not wait for its writer. */
static int open_sfile(struct reader *r, const struct sfile *f)
{
	return source_open(r->s, f, O_RDONLY | O_NONBLOCK | O_NOCTTY);
}

/* ---- small files ---- */

static int read_small(struct reader *r, struct sfile *f)
{
	struct block *b = r->open;
	int fd CLEANUP_CLOSE = open_sfile(r, f);
	ssize_t n;

	if (fd < 0) {
		reader_file_failed(r, f, fd, NULL);
		return 0;
	}
	n = FAULT("read", f->size);
	if (!n)
		n = pread_full(fd, block_payload(b) + b->len, f->size, 0);
	if (n < 0)
		reader_file_failed(r, f, (int)n, NULL);
	else if ((uint64_t)n != f->size || !sfile_unchanged(fd, f))
		reader_file_failed(r, f, -ESTALE, SOURCE_CHANGED);
	else
		return block_add(b, f->id, 0, (uint32_t)n);
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
			r->open = get_block(r);
			rc = r->open ? 0 : -ECANCELED;
		}
		if (!rc && !atomic_load(&f->failed))
			rc = read_small(r, f);
		sfile_put(f);
	}
	return rc;
}

/* ---- big files ---- */

static bool wants_direct(struct source *s, const struct sfile *f, int fd)
{
	switch (s->x.tuning->direct) {
	case DIRECT_OFF:
		return false;
	case DIRECT_ON:
		return direct_alignment(fd) != 0;
	default:
		/* Through the cache unless asked: whether the file is cached already cannot
		 * be known, and a cached one is read at the speed of memory. */
		(void)f;
		return false;
	}
}

/* The descriptor that all readers of f share. */
int reader_fd(struct reader *r, struct sfile *f)
{
	LOCK_GUARD(guard, &f->fd_lock);

	if (f->fd >= 0)
		return f->fd;
	f->fd = open_sfile(r, f);
	if (f->fd < 0) {
		int rc = f->fd;

		f->fd = -1;
		return rc;
	}
	if (f->size >= DIRECT_MIN || r->s->x.tuning->direct == DIRECT_ON)
		f->direct = wants_direct(r->s, f, f->fd) &&
			    !fcntl(f->fd, F_SETFL, O_DIRECT);
	else
		posix_fadvise(f->fd, 0, 0, POSIX_FADV_SEQUENTIAL);
	return f->fd;
}

/* The last piece of a stream or a timed run tells how long it was. */
static int send_size(struct source *s, struct sfile *f, uint64_t size)
{
	struct buf *b CLEANUP_BUF = buf_new(64);
	int rc;

	if (!b)
		return -ENOMEM;
	f->size = size;
	rc = bulk_pair_put(b, f->id, size);
	return rc ? rc : xfer_send(&s->x, BULK_SIZES, b);
}

static bool timed(const struct source *s)
{
	return s->x.req->bench_ns != 0;
}

/* All of f has been read: its descriptor is not needed until the sink is done. */
static void close_shared(struct sfile *f)
{
	LOCK_GUARD(guard, &f->fd_lock);

	cleanup_close(&f->fd);
	f->fd = -1;
}

/* The piece is in b (or b is NULL: it failed). What completes the file is let go only
 * when the file has been found sfile_unchanged, so that the sink cannot finish a torn one. */
static int finish_piece(struct reader *r, struct sfile *f, struct block *b)
{
	struct source *s = r->s;
	bool last = plan_piece_done(s->plan, f);
	int rc = 0;

	if (last && f->kind == SFILE_PATH && !atomic_load(&f->failed) &&
	    !sfile_unchanged(f->fd, f))
		reader_file_failed(r, f, -ESTALE, SOURCE_CHANGED);
	if (last)
		close_shared(f);
	if (b && atomic_load(&f->failed)) {
		pool_put(b);
		b = NULL;
	}
	if (b)
		rc = send_block(r, b);
	if (last && f->kind == SFILE_ZERO && timed(s) && !rc)
		rc = send_size(s, f, f->size);
	sfile_put(f);
	return rc;
}

static int piece_read(struct reader *r, struct piece *p)
{
	struct sfile *f = p->file;
	struct block *b = p->op.block;

	r->spare[r->nspare++] = p;
	if (p->op.result < 0) {
		reader_file_failed(r, f, (int)p->op.result, NULL);
	} else if (p->op.result != p->length) {
		reader_file_failed(r, f, -ESTALE, SOURCE_CHANGED);
	} else {
		int rc = block_add(b, f->id, p->offset, p->length);

		return rc ? rc : finish_piece(r, f, b);
	}
	pool_put(b);
	return finish_piece(r, f, NULL);
}

/* Finish at least min reads. */
static int reap(struct reader *r, int min)
{
	struct io_op *done[DEPTH_MAX];
	int n = io_reap(r->io, done, min, DEPTH_MAX), rc = 0;

	if (n < 0)
		return xfer_fail(&r->s->x, n, "reading: %s", strerror(-n));
	for (int i = 0; i < n; i++) {
		int one = piece_read(r, done[i]->user);

		if (!rc)
			rc = one;
	}
	return rc;
}

static int read_piece(struct reader *r, struct sfile *f, uint64_t offset, uint32_t length)
{
	struct block *b = get_block(r);
	struct piece *p;
	int fd, rc;

	if (!b) {
		finish_piece(r, f, NULL);
		return -ECANCELED;
	}
	fd = reader_fd(r, f);
	if (fd < 0) {
		reader_file_failed(r, f, fd, NULL);
		pool_put(b);
		return finish_piece(r, f, NULL);
	}
	while (!r->nspare) {
		rc = reap(r, 1);
		if (rc) {
			pool_put(b);
			finish_piece(r, f, NULL);
			return rc;
		}
	}
	p = r->spare[--r->nspare];
	p->file = f;
	p->offset = offset;
	p->length = length;
	p->op = (struct io_op){ .fd = fd, .offset = offset, .data = block_payload(b),
				.len = length, .block = b, .user = p };
	while ((rc = io_submit(r->io, &p->op)) == -EAGAIN && !(rc = reap(r, 1)))
		;
	if (rc) {
		p->op.result = rc;
		return piece_read(r, p);
	}
	return io_inflight(r->io) >= r->depth ? reap(r, 1) : 0;
}

/* Zeros: for a bench the pool's memory as it is, untouched; where somebody is to keep them,
 * really zeros, as sealing or another file may have left something else in the block. */
static int zero_piece(struct reader *r, struct sfile *f, uint64_t offset, uint32_t length)
{
	struct source *s = r->s;
	struct block *b;
	int rc;

	if (timed(s) && now_ns() - s->x.started_ns >= s->x.req->bench_ns)
		plan_truncate(s->plan, f);
	b = get_block(r);
	if (!b) {
		finish_piece(r, f, NULL);
		return -ECANCELED;
	}
	if (s->x.req->op == BULK_PUT)
		memset(block_payload(b), 0, length);
	rc = block_add(b, f->id, offset, length);
	return rc ? rc : finish_piece(r, f, b);
}

/* len bytes of standard input, fewer at its end. It may be silent for long, which must not
 * keep a transfer that has failed from ending. */
static ssize_t read_stdin(struct reader *r, uint8_t *p, size_t len)
{
	struct pollfd in = { .fd = STDIN_FILENO, .events = POLLIN };
	size_t have = 0;

	while (have < len) {
		ssize_t n;

		if (xfer_failed(&r->s->x))
			return -ECANCELED;
		if (poll(&in, 1, STDIN_POLL_MS) <= 0)
			continue;
		n = read(STDIN_FILENO, p + have, len - have);
		if (n < 0 && errno != EINTR && errno != EAGAIN)
			return -errno;
		if (!n)
			break;
		have += n > 0 ? (size_t)n : 0;
	}
	return (ssize_t)have;
}

/* Standard input, to its end. */
static int read_stream(struct reader *r, struct sfile *f)
{
	uint64_t at = 0;
	int rc = 0;

	while (!rc) {
		struct block *b = get_block(r);
		ssize_t n;

		if (!b) {
			rc = -ECANCELED;
			break;
		}
		n = read_stdin(r, block_payload(b), b->cap);
		if (n <= 0) {
			pool_put(b);
			rc = (int)n;
			break;
		}
		rc = block_add(b, f->id, at, (uint32_t)n);
		at += (uint64_t)n;
		if (!rc)
			rc = send_block(r, b);
	}
	plan_piece_done(r->s->plan, f);
	if (!rc) {
		rc = send_size(r->s, f, at);
	} else if (rc != -ECANCELED) {
		reader_file_failed(r, f, rc, NULL);
		rc = 0; /* only the file has failed */
	}
	sfile_put(f);
	return rc;
}

static int do_piece(struct reader *r, struct plan_work *w)
{
	struct sfile *f = w->file;

	r->mine = f; /* compared only, never followed: it may be gone */
	if (atomic_load(&f->failed))
		return finish_piece(r, f, NULL);
	switch (f->kind) {
	case SFILE_STREAM:
		return read_stream(r, f);
	case SFILE_ZERO:
		return zero_piece(r, f, w->offset, w->length);
	default:
		return read_piece(r, f, w->offset, w->length);
	}
}

/* ---- the loop ---- */

static enum plan_answer next_work(struct reader *r, struct plan_work *w)
{
	struct source *s = r->s;
	uint32_t room = r->open ? r->open->cap - r->open->len : s->x.agr.block;
	bool holding = r->open || io_inflight(r->io);
	enum plan_answer a = plan_next(s->plan, r->mine, room, false, w);
	uint64_t t;

	if (a != PLAN_IDLE || holding)
		return a;
	t = now_ns();
	a = plan_next(s->plan, r->mine, room, true, w);
	atomic_fetch_add_explicit(&s->plan_wait_ns, now_ns() - t, memory_order_relaxed);
	return a;
}

/* Let go of all we hold. */
static int finish_all(struct reader *r)
{
	int rc = flush_open(r);

	while (!rc && io_inflight(r->io))
		rc = reap(r, 1);
	return rc;
}

static int step(struct reader *r, bool *end)
{
	struct plan_work w;

	switch (next_work(r, &w)) {
	case PLAN_SMALL:
		return read_batch(r, &w);
	case PLAN_PIECE:
		return do_piece(r, &w);
	case PLAN_CHECK:
		return reader_check_runs(r, w.file);
	case PLAN_FULL:
		return flush_open(r);
	case PLAN_IDLE:
		return finish_all(r);
	default:
		*end = true;
		return finish_all(r);
	}
}

/* After a failure: what is in flight must land before its blocks can go back. */
static void give_up(struct reader *r)
{
	if (r->open)
		pool_put(steal_ptr(&r->open));
	while (io_inflight(r->io)) {
		struct io_op *done[DEPTH_MAX];
		int n = io_reap(r->io, done, 1, DEPTH_MAX);

		if (n < 0)
			return;
		for (int i = 0; i < n; i++) {
			struct piece *p = done[i]->user;

			pool_put(p->op.block);
			sfile_put(p->file);
		}
	}
}

static void *reader_main(void *arg)
{
	struct reader *r = arg;
	bool end = false;
	int rc = 0;

	while (!end && !rc)
		rc = step(r, &end);
	if (rc && rc != -ECANCELED && rc != -EPIPE)
		xfer_fail(&r->s->x, rc, "reading: %s", strerror(-rc));
	give_up(r);
	return NULL;
}

static void reader_free(struct reader *r)
{
	if (!r)
		return;
	io_free(r->io);
	seal_free(r->seal);
	free(r->run_buf);
	free(r);
}

static struct reader *reader_new(struct source *s, unsigned i, struct err *e)
{
	struct reader *r = calloc(1, sizeof(*r));
	const char *said = NULL;

	if (!r) {
		err_set(e, -ENOMEM, "out of memory");
		return NULL;
	}
	r->s = s;
	r->depth = s->x.tuning->depth ? s->x.tuning->depth : 8;
	if (s->x.req->flags & BULK_F_SEQUENTIAL)
		r->depth = 1;
	if (r->depth > DEPTH_MAX)
		r->depth = DEPTH_MAX;
	for (unsigned k = 0; k < r->depth; k++)
		r->spare[r->nspare++] = &r->pieces[k];
	r->io = io_new(s->io, r->depth, s->x.pools, (int)s->x.npaths, &said, e);
	if (r->io && !i)
		log_debug("reading by %s%s%s", io_name(r->io), said ? ": " : "",
			  said ? said : "");
	if (r->io)
		r->seal = seal_new(&s->x.keys, &s->x.agr, s->x.dir, (uint16_t)i);
	if (r->io && r->seal)
		return r;
	if (r->io)
		err_set(e, -ENOMEM, "out of memory");
	reader_free(r);
	return NULL;
}

unsigned readers_wanted(const struct source *s)
{
	unsigned n = s->x.tuning->readers;

	if (s->x.req->flags & BULK_F_SEQUENTIAL)
		return 1;
	if (s->nitems == 1 && s->items[0].kind != ITEM_PATH)
		return 1;
	if (!n)
		n = cpus_allowed() < 2 ? 2 : cpus_allowed() > 8 ? 8 : cpus_allowed();
	return n > READERS_MAX ? READERS_MAX : n;
}

int readers_start(struct source *s, struct err *e)
{
	for (unsigned i = 0; i < s->nreaders; i++) {
		struct reader *r = reader_new(s, i, e);
		int rc;

		if (!r)
			return e->code;
		snprintf(r->name, sizeof(r->name), "read%u", i);
		rc = thread_start(&r->thread, r->name, reader_main, r);
		if (rc) {
			reader_free(r);
			return err_sys(e, rc, "cannot start a thread");
		}
		s->readers[i] = r;
	}
	return 0;
}

void readers_join(struct source *s)
{
	for (unsigned i = 0; i < s->nreaders && s->readers[i]; i++) {
		pthread_join(s->readers[i]->thread, NULL);
		reader_free(s->readers[i]);
		s->readers[i] = NULL;
	}
}
