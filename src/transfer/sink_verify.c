// SPDX-License-Identifier: Apache-2.0
/* What --ack verified compares: every byte of a file, read back past the page cache, with
 * the digests of the pieces as they came and of the runs that an earlier transfer left. */
#include "transfer/sink.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define ZEROS_AT_ONCE (1u << 20)

int checks_add(struct checks *c, const struct check *new)
{
	if (!(c->n & (c->n - 1))) { /* a power of two: grow */
		uint32_t room = c->n ? 2 * c->n : 1;
		struct check *v = reallocarray(c->v, room, sizeof(*v));

		if (!v)
			return -ENOMEM;
		c->v = v;
	}
	c->v[c->n++] = *new;
	return 0;
}

static uint64_t end_of(const struct check *c)
{
	return c->offset + c->length;
}

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

/* Runs that were there go to what came, but those of which something came again: the
 * source did not find its own bytes in them. */
static int add_kept(struct checks *came, const struct checks *kept)
{
	uint32_t n = came->n, at = 0;
	int r = 0;

	for (uint32_t i = 0; i < kept->n && !r; i++) {
		const struct check *k = &kept->v[i];

		while (at < n && end_of(&came->v[at]) <= k->offset)
			at++;
		if (at == n || came->v[at].offset >= end_of(k))
			r = checks_add(came, k);
	}
	return r;
}

static int read_back(struct kfile *f, uint64_t at, void *p, uint32_t n, struct err *e)
{
	int r = read_past_cache(part_fd(f->part), at, p, n);

	return r ? err_sys(e, r, "%s: reading back", printable(f->name)) : 0;
}

static int differs(struct kfile *f, uint64_t at, struct err *e)
{
	return err_set(e, -EIO, "%s: what was read back at offset %llu is not what was written",
		       printable(f->name), (unsigned long long)at);
}

static int verify_piece(struct kfile *f, const struct check *c, uint8_t **room, struct err *e)
{
	uint8_t digest[RUN_DIGEST_BYTES];
	uint8_t *bigger = realloc(*room, c->length + 1ul);
	int r;

	if (!bigger)
		return err_set(e, -ENOMEM, "out of memory");
	*room = bigger;
	r = read_back(f, c->offset, bigger, c->length, e);
	if (r)
		return r;
	crypto_run_digest(digest, bigger, c->length);
	return memcmp(digest, c->digest, sizeof(digest)) ? differs(f, c->offset, e) : 0;
}

/* From where on anything but a hole lies behind at; the end when it is all hole. */
static uint64_t next_data(int fd, uint64_t at, uint64_t end)
{
	off_t to = lseek(fd, (off_t)at, SEEK_DATA);

	if (to < 0)
		return errno == ENXIO ? end : at; /* others: the filesystem cannot tell */
	return (uint64_t)to < end ? (uint64_t)to : end;
}

static bool all_zero(const uint8_t *p, uint32_t n)
{
	return !n || (!p[0] && !memcmp(p, p + 1, n - 1));
}

/* Nothing came for at up to end: a hole, or it is missing. */
static int verify_hole(struct kfile *f, uint64_t at, uint64_t end, struct err *e)
{
	uint8_t *p CLEANUP_FREE = NULL;
	int r = 0;

	if (at >= end)
		return 0;
	if (!(f->flags & ENTRY_F_SPARSE))
		return err_set(e, -EIO, "%s: nothing came for offset %llu", printable(f->name),
			       (unsigned long long)at);
	p = malloc(ZEROS_AT_ONCE);
	if (!p)
		return err_set(e, -ENOMEM, "out of memory");
	while (!r && (at = next_data(part_fd(f->part), at, end)) < end) {
		uint32_t n = end - at < ZEROS_AT_ONCE ? (uint32_t)(end - at) : ZEROS_AT_ONCE;

		r = read_back(f, at, p, n, e);
		if (!r && !all_zero(p, n))
			r = differs(f, at, e);
		at += n;
	}
	return r;
}

int kfile_verify(struct kfile *f, uint64_t size, struct err *e)
{
	uint8_t *room CLEANUP_FREE = NULL;
	uint64_t at = 0;
	int r = 0;

	sort(&f->came);
	sort(&f->kept);
	if (add_kept(&f->came, &f->kept))
		return err_set(e, -ENOMEM, "out of memory");
	sort(&f->came);
	for (uint32_t i = 0; i < f->came.n && !r; i++) {
		const struct check *c = &f->came.v[i];

		r = verify_hole(f, at, c->offset, e);
		if (!r)
			r = verify_piece(f, c, &room, e);
		if (end_of(c) > at)
			at = end_of(c);
	}
	return r ? r : verify_hole(f, at, size, e);
}
