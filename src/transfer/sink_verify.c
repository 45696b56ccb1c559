// SPDX-License-Identifier: Apache-2.0
/* What --ack verified compares: every byte of a file, read back past the page cache, with
 * the digests of the pieces as they came and of the runs that an earlier transfer left. */
#include "transfer/sink.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define ZEROS_AT_ONCE (1u << 20)

/* What came, and the runs that were there, but for those of which something came again: the
 * source did not find its own bytes in them. */
struct pieces {
	struct checks_reader *came, *kept;
	uint64_t end;              /* of what came before */
};

/* The next by offset. 1; 0: the end; or a negative errno. */
static int next_piece(struct pieces *p, struct check *out)
{
	for (;;) {
		int r, rk;
		const struct check *c = checks_peek(p->came, &r), *k = checks_peek(p->kept, &rk);
		bool again = k && (k->offset < p->end || (c && c->offset < check_end(k)));

		if (r || rk)
			return r ? r : rk;
		if (c && (!k || check_end(c) <= k->offset || (again && c->offset <= k->offset))) {
			*out = *c;
			checks_take(p->came);
			if (check_end(out) > p->end)
				p->end = check_end(out);
			return 1;
		}
		if (!k)
			return 0;
		*out = *k;
		checks_take(p->kept);
		if (!again)
			return 1;
	}
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

static int verify_pieces(struct kfile *f, struct pieces *p, uint64_t size, struct err *e)
{
	uint8_t *room CLEANUP_FREE = NULL;
	struct check c;
	uint64_t at = 0;
	int r = 0, more;

	while (!r && (more = next_piece(p, &c)) > 0) {
		r = verify_hole(f, at, c.offset, e);
		if (!r)
			r = verify_piece(f, &c, &room, e);
		if (check_end(&c) > at)
			at = check_end(&c);
	}
	if (!r && more < 0)
		return err_sys(e, more, "%s: what was to be compared", printable(f->name));
	return r ? r : verify_hole(f, at, size, e);
}

int kfile_verify(struct kfile *f, uint64_t size, struct err *e)
{
	struct pieces p = { .came = checks_read(&f->came), .kept = checks_read(&f->kept) };
	int r = p.came && p.kept ? verify_pieces(f, &p, size, e) :
				   err_set(e, -ENOMEM, "out of memory");

	checks_done(p.came);
	checks_done(p.kept);
	return r;
}
