// SPDX-License-Identifier: Apache-2.0
/* What the sink has of a file already: its digests are compared with our bytes, and only
 * what differs is sent. */
#include "transfer/source_read.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* Ranges of f without the runs that fit, and the bytes that need not be sent. */
struct missing {
	struct bulk_range *v;
	uint32_t n;
	uint64_t kept;
};

static int miss(struct missing *m, uint64_t offset, uint64_t length)
{
	struct bulk_range *v;

	if (!length)
		return 0;
	if (m->n && m->v[m->n - 1].offset + m->v[m->n - 1].length == offset) {
		m->v[m->n - 1].length += length;
		return 0;
	}
	v = realloc(m->v, (m->n + 1) * sizeof(*v));
	if (!v)
		return -ENOMEM;
	m->v = v;
	m->v[m->n++] = (struct bulk_range){ offset, length };
	return 0;
}

static bool run_fits(struct reader *r, int fd, const struct part_run *run)
{
	uint8_t own[RUN_DIGEST_BYTES];

	if (pread_full(fd, r->run_buf, run->length, (off_t)run->offset) != (ssize_t)run->length)
		return false;
	crypto_run_digest(own, r->run_buf, run->length);
	return !memcmp(own, run->digest, sizeof(own));
}

static int by_place(const void *a, const void *b)
{
	const struct part_run *x = a, *y = b;

	if (x->offset != y->offset)
		return x->offset < y->offset ? -1 : 1;
	return (x->length < y->length) - (x->length > y->length);
}

/* Keep of f's runs only those that fit its bytes, in order, none over another. */
static void keep_fitting(struct reader *r, struct sfile *f, int fd)
{
	uint64_t at = 0;
	uint32_t n = 0;

	qsort(f->runs, f->nruns, sizeof(*f->runs), by_place);
	for (uint32_t i = 0; i < f->nruns && !xfer_failed(&r->s->x); i++) {
		const struct part_run *run = &f->runs[i];

		if (run->offset < at || !run_fits(r, fd, run))
			continue;
		at = run->offset + run->length;
		f->runs[n++] = *run;
	}
	f->nruns = n;
}

/* One range of the file's data, cut at the runs that fit and lie wholly inside it. */
static int subtract(struct sfile *f, struct bulk_range g, uint32_t *next, struct missing *m)
{
	uint64_t at = g.offset, end = g.offset + g.length;
	int rc = 0;

	for (; *next < f->nruns && !rc; ++*next) {
		uint64_t lo = f->runs[*next].offset, hi = lo + f->runs[*next].length;

		if (lo >= end)
			break;
		if (lo < at || hi > end)
			continue;
		rc = miss(m, at, lo - at);
		m->kept += hi - lo;
		at = hi;
	}
	return rc ? rc : miss(m, at, end - at);
}

static int find_missing(struct sfile *f, struct missing *m)
{
	uint32_t next = 0;
	int rc = 0;

	if (!f->ranges)
		return subtract(f, (struct bulk_range){ 0, f->size }, &next, m);
	for (uint32_t i = 0; i < f->nranges && !rc; i++)
		rc = subtract(f, f->ranges[i], &next, m);
	return rc;
}

static int tell_kept(struct source *s, struct sfile *f, uint64_t kept)
{
	struct buf *b CLEANUP_BUF = buf_new(64);
	int rc;

	if (!b)
		return -ENOMEM;
	atomic_fetch_add(&s->bytes_kept, kept);
	rc = bulk_pair_put(b, f->id, kept);
	return rc ? rc : xfer_send(&s->x, BULK_KEPT, b);
}

/* Compare what the sink says it has with our bytes, then send the rest. */
int reader_check_runs(struct reader *r, struct sfile *f)
{
	struct missing m = { 0 };
	uint32_t longest = 1;
	int fd, rc, changed;

	for (uint32_t i = 0; i < f->nruns; i++)
		if (f->runs[i].length > longest)
			longest = f->runs[i].length;
	free(r->run_buf);
	r->run_buf = malloc(longest);
	fd = reader_fd(r, f);
	if (fd < 0 || !r->run_buf) {
		reader_file_failed(r, f, fd < 0 ? fd : -ENOMEM, NULL);
		sfile_put(f);
		return 0;
	}
	keep_fitting(r, f, fd);
	rc = find_missing(f, &m);
	changed = rc ? 0 : sfile_check(fd, f);
	if (changed) {
		reader_file_changed(r, f, changed);
		m.n = 0;
	} else if (!rc) {
		rc = tell_kept(r->s, f, m.kept);
	}
	free(f->runs);
	free(f->ranges);
	f->runs = NULL;
	f->ranges = m.v;
	f->nranges = m.n;
	if (!rc && m.n)
		plan_ready(r->s->plan, f);
	else
		sfile_put(f);
	return rc;
}
