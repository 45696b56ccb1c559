// SPDX-License-Identifier: Apache-2.0
/* What is read a piece at a time, a block each: big files, zeros, standard input. */
#include "transfer/source_read.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <unistd.h>

#define DIRECT_MIN (64ull << 20) /* smaller files are not worth bypassing the cache */
#define STDIN_POLL_MS 200

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
	f->fd = reader_open(r, f);
	if (f->fd < 0) {
		int rc = f->fd;

		f->fd = -1;
		return rc;
	}
	/* A change before the first read does no harm, unless the walk has looked for holes. */
	if (f->kind == SFILE_PATH && !f->ranges)
		sfile_note_ctime(f->fd, f);
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
	atomic_fetch_add(&s->bytes_known, size);
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
 * when the file has been found unchanged, so that the sink cannot finish a torn one. */
static int finish_piece(struct reader *r, struct sfile *f, struct block *b)
{
	struct source *s = r->s;
	bool last = plan_piece_done(s->plan, f);
	int rc = 0, changed = 0;

	if (last && f->kind == SFILE_PATH && !atomic_load(&f->failed))
		changed = sfile_check(f->fd, f);
	if (changed)
		reader_file_changed(r, f, changed);
	if (last)
		close_shared(f);
	if (b && atomic_load(&f->failed)) {
		pool_put(b);
		b = NULL;
	}
	if (b)
		rc = reader_send(r, b);
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
		reader_file_changed(r, f, -ESTALE);
	} else {
		int rc = block_add(b, f->id, p->offset, p->length);

		return rc ? rc : finish_piece(r, f, b);
	}
	pool_put(b);
	return finish_piece(r, f, NULL);
}

/* Finish at least min reads. */
int reader_reap(struct reader *r, int min)
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
	struct block *b = reader_block(r);
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
		rc = reader_reap(r, 1);
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
	while ((rc = io_submit(r->io, &p->op)) == -EAGAIN && !(rc = reader_reap(r, 1)))
		;
	if (rc) {
		p->op.result = rc;
		return piece_read(r, p);
	}
	return io_inflight(r->io) >= r->depth ? reader_reap(r, 1) : 0;
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
	b = reader_block(r);
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
		struct block *b = reader_block(r);
		uint32_t most = plan_limited(r->s->plan);
		ssize_t n;

		if (!b) {
			rc = -ECANCELED;
			break;
		}
		n = read_stdin(r, block_payload(b), most < b->cap ? most : b->cap);
		if (n <= 0) {
			pool_put(b);
			rc = (int)n;
			break;
		}
		rc = block_add(b, f->id, at, (uint32_t)n);
		at += (uint64_t)n;
		if (!rc)
			rc = reader_send(r, b);
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

int reader_piece(struct reader *r, struct plan_work *w)
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
