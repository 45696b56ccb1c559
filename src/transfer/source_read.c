// SPDX-License-Identifier: Apache-2.0
/* The source's readers: blocks are filled from files, sealed and handed to a path. Small
 * files share a block; how big ones are read is in source_piece.c. */
#include "transfer/setup.h"
#include "transfer/source_read.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { READ_TRIES = 3 }; /* of a small file whose ctime moves */

/* ---- blocks out ---- */

/* Sealed b: itself, or a block in which it may be seen; b is back in its pool then. NULL: the
 * transfer has failed, and b is back as well. */
static struct block *sealed(struct reader *r, struct block *b)
{
	struct source *s = r->s;
	struct shelter *shelter = s->x.shelters[source_path_of(s, b)];
	struct block *to = shelter ? shelter_outside(shelter) : b;
	int rc = to ? seal_block(r->seal, b, to) : 0;

	if (rc)
		xfer_fail(&s->x, rc, "sealing a block: %s", strerror(-rc));
	if (to != b || rc)
		pool_put(b);
	if (!rc)
		return to;
	if (to != b)
		pool_put(to);
	return NULL;
}

int reader_send(struct reader *r, struct block *b)
{
	struct source *s = r->s;
	uint32_t path = source_path_of(s, b);
	int rc = source_number(s, &b->number);

	if (rc) {
		pool_put(b);
		return rc;
	}
	b = sealed(r, b);
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
		return reader_send(r, b);
	pool_put(b);
	return 0;
}

/* A free block; while there is none, what we hold is finished first, because others
 * may be waiting for it as we do. NULL: the transfer has failed. */
struct block *reader_block(struct reader *r)
{
	struct source *s = r->s;
	struct block *b = source_try_block(s);
	uint64_t t;

	if (b)
		return b;
	while (io_inflight(r->io)) {
		if (reader_reap(r, 1))
			return NULL;
		b = source_try_block(s);
		if (b)
			return b;
	}
	/* Readers that each keep a half full block would wait for each other. */
	if (flush_open(r))
		return NULL;
	t = now_ns();
	b = source_block(s);
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

int sfile_check(int fd, const struct sfile *f)
{
	struct stat st;

	if (fstat(fd, &st) || st.st_dev != f->dev || st.st_ino != f->ino ||
	    (uint64_t)st.st_size != f->size || st.st_mtim.tv_sec != f->mtime_s ||
	    (uint32_t)st.st_mtim.tv_nsec != f->mtime_ns)
		return -ESTALE;
	return st.st_ctim.tv_sec == f->ctime_s && (uint32_t)st.st_ctim.tv_nsec == f->ctime_ns ?
		       0 : -EAGAIN;
}

void sfile_note_ctime(int fd, struct sfile *f)
{
	struct stat st;

	if (fstat(fd, &st))
		return;
	f->ctime_s = st.st_ctim.tv_sec;
	f->ctime_ns = (uint32_t)st.st_ctim.tv_nsec;
}

void reader_file_changed(struct reader *r, struct sfile *f, int code)
{
	reader_file_failed(r, f, code, code == -ESTALE ?
			   "changed while it was being read; not sent, run again" :
			   "its ctime changed while it was being read; not sent, run again");
}

/* NONBLOCK: should a pipe have taken the file's place, do not wait for its writer. */
int reader_open(struct reader *r, const struct sfile *f)
{
	int fd = source_open(r->s, f, O_RDONLY | O_NONBLOCK | O_NOCTTY);

	/* Another process holds a lease (fcntl(2)). EAGAIN means here that the file has changed. */
	return fd == -EAGAIN ? -EBUSY : fd;
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
			r->open = reader_block(r);
			rc = r->open ? 0 : -ECANCELED;
		}
		if (!rc && !atomic_load(&f->failed))
			rc = read_small(r, f);
		sfile_put(f);
	}
	return rc;
}

/* ---- the loop ---- */

static enum plan_answer next_work(struct reader *r, struct plan_work *w)
{
	struct source *s = r->s;
	uint32_t most = plan_limited(s->plan), room = s->x.agr.block;
	bool holding = r->open || io_inflight(r->io);
	enum plan_answer a;
	uint64_t t;

	if (r->open)
		room = most > r->open->len ? most - r->open->len : 0;
	a = plan_next(s->plan, r->mine, room, false, w);
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
		rc = reader_reap(r, 1);
	return rc;
}

static int step(struct reader *r, bool *end)
{
	struct plan_work w;

	switch (next_work(r, &w)) {
	case PLAN_SMALL:
		return read_batch(r, &w);
	case PLAN_PIECE:
		return reader_piece(r, &w);
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

	place_self(&r->cpus);
	while (!end && !rc)
		rc = step(r, &end);
	if (rc && rc != -ECANCELED && rc != -EPIPE)
		xfer_fail(&r->s->x, rc, "reading: %s", strerror(-rc));
	give_up(r);
	atomic_fetch_add(&r->s->readers_done, 1);
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
	r->cpus = placement_io_cpus(s->x.placement);
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
		n = setup_threads(&s->x.agr, placement_io_width(s->x.placement));
	return n > READERS_MAX ? READERS_MAX : n;
}

int readers_start(struct source *s, struct err *e)
{
	placement_say_io(s->x.placement, "read", s->nreaders);
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
