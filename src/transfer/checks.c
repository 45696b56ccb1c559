// SPDX-License-Identifier: Apache-2.0
/* A merge of sorted runs by a heap of cursors. A cursor has a KiB of its run in memory: that
 * is one for 8192 pieces, and so for 8 GiB of a file in blocks of a MiB. */
#include "transfer/checks.h"
#include "transfer/spill.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define RUN_BYTES (CHECKS_ROOM * sizeof(struct check))
#define AT_ONCE 32u

struct cursor {
	struct check *v;        /* NULL: buf */
	uint32_t at, n;         /* in v or buf */
	uint32_t run, read;     /* of the file; how many of it have been read */
	struct check buf[AT_ONCE];
};

struct checks_reader {
	struct checks *c;
	struct cursor *cursors;
	struct cursor **heap;   /* the one with the smallest offset first */
	uint32_t n;
	int error;
};

/* ---- adding ---- */

static int by_offset(const void *a, const void *b)
{
	uint64_t x = ((const struct check *)a)->offset, y = ((const struct check *)b)->offset;

	return x < y ? -1 : x > y;
}

static void sort(struct checks *c)
{
	if (c->n)
		qsort(c->v, c->n, sizeof(*c->v), by_offset);
}

static int spill(struct checks *c, struct dir *dir)
{
	int r = 0;

	if (!c->runs) {
		int dfd = dir_pin(dir);

		if (dfd < 0)
			return dfd;
		r = c->fd = spill_open(dfd);
		dir_unpin(dir);
	}
	if (r < 0)
		return r;
	sort(c);
	r = pwrite_full(c->fd, c->v, RUN_BYTES, (off_t)(c->runs * RUN_BYTES));
	if (r && !c->runs)
		cleanup_close(&c->fd);
	if (r)
		return r;
	c->runs++;
	c->n = 0;
	return 0;
}

uint64_t checks_count(const struct checks *c)
{
	return (uint64_t)c->runs * CHECKS_ROOM + c->n;
}

int checks_add(struct checks *c, const struct check *new, struct dir *dir)
{
	int r = c->n == CHECKS_ROOM ? spill(c, dir) : 0;

	if (r)
		return r;
	if (!c->runs && !(c->n & (c->n - 1))) { /* a power of two: grow */
		uint32_t room = c->n ? 2 * c->n : 1;
		struct check *v = reallocarray(c->v, room, sizeof(*v));

		if (!v)
			return -ENOMEM;
		c->v = v;
	}
	c->v[c->n++] = *new;
	return 0;
}

void checks_clear(struct checks *c)
{
	if (c->runs)
		cleanup_close(&c->fd);
	free(c->v);
	*c = (struct checks){ 0 };
}

/* ---- reading ---- */

static const struct check *front(const struct cursor *u)
{
	return &(u->v ? u->v : u->buf)[u->at];
}

/* The cursor has another one: 1; 0: its run is over; or a negative errno. */
static int refill(struct checks_reader *cr, struct cursor *u)
{
	size_t bytes = sizeof(u->buf);
	off_t at = (off_t)(u->run * RUN_BYTES + u->read * sizeof(struct check));

	if (u->at < u->n)
		return 1;
	if (u->v || u->read == CHECKS_ROOM)
		return 0;
	if (pread_full(cr->c->fd, u->buf, bytes, at) != (ssize_t)bytes)
		return -EIO;
	u->read += AT_ONCE;
	u->at = 0;
	u->n = AT_ONCE;
	return 1;
}

/* The cursor at i finds its place among those below it. */
static void sift_down(struct checks_reader *cr, uint32_t i)
{
	for (;;) {
		uint32_t least = i;

		for (uint32_t k = 2 * i + 1; k <= 2 * i + 2 && k < cr->n; k++)
			if (front(cr->heap[k])->offset < front(cr->heap[least])->offset)
				least = k;
		if (least == i)
			return;

		struct cursor *u = cr->heap[i];

		cr->heap[i] = cr->heap[least];
		cr->heap[least] = u;
		i = least;
	}
}

static void begin_cursor(struct checks_reader *cr, struct cursor *u)
{
	int r = refill(cr, u);

	if (r > 0)
		cr->heap[cr->n++] = u;
	else if (r < 0)
		cr->error = r;
}

struct checks_reader *checks_read(struct checks *c)
{
	struct checks_reader *cr = calloc(1, sizeof(*cr));
	uint32_t n = c->runs + 1;

	if (!cr)
		return NULL;
	cr->c = c;
	cr->cursors = calloc(n, sizeof(*cr->cursors));
	cr->heap = calloc(n, sizeof(struct cursor *));
	if (!cr->cursors || !cr->heap) {
		checks_done(cr);
		return NULL;
	}
	sort(c);
	cr->cursors[c->runs].v = c->v;
	cr->cursors[c->runs].n = c->n;
	for (uint32_t i = 0; i < n; i++) {
		cr->cursors[i].run = i;
		if (i < c->runs || c->n)
			begin_cursor(cr, &cr->cursors[i]);
	}
	for (uint32_t i = cr->n / 2; i--;)
		sift_down(cr, i);
	return cr;
}

const struct check *checks_peek(struct checks_reader *cr, int *r)
{
	*r = cr->error;
	return cr->n && !cr->error ? front(cr->heap[0]) : NULL;
}

void checks_take(struct checks_reader *cr)
{
	struct cursor *u = cr->heap[0];
	int r;

	u->at++;
	r = refill(cr, u);
	if (r < 0)
		cr->error = r;
	if (r == 0)
		cr->heap[0] = cr->heap[--cr->n];
	sift_down(cr, 0);
}

void checks_done(struct checks_reader *cr)
{
	if (!cr)
		return;
	free(cr->cursors);
	free(cr->heap);
	free(cr);
}
