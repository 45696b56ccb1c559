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

static bool run_fits(struct reader *r, struct sfile *f, int fd, const struct run_digest *d)
{
	uint8_t own[RUN_DIGEST_BYTES];
	uint64_t at = d->run * f->run_bytes;
	size_t len;

	if (at / f->run_bytes != d->run || at >= f->size)
		return false;
	len = f->size - at < f->run_bytes ? f->size - at : f->run_bytes;
	if (pread_full(fd, r->run_buf, len, (off_t)at) != (ssize_t)len)
		return false;
	crypto_run_digest(own, r->run_buf, len);
	return !memcmp(own, d->digest, sizeof(own));
}

static int by_run(const void *a, const void *b)
{
	uint64_t x = ((const struct run_digest *)a)->run, y = ((const struct run_digest *)b)->run;

	return x < y ? -1 : x > y;
}

/* Keep of f's digests only those that fit its bytes, in order, each once. */
static void keep_fitting(struct reader *r, struct sfile *f, int fd)
{
	uint32_t n = 0;

	qsort(f->runs, f->nruns, sizeof(*f->runs), by_run);
	for (uint32_t i = 0; i < f->nruns && !xfer_failed(&r->s->x); i++)
		if ((!n || f->runs[n - 1].run != f->runs[i].run) &&
		    run_fits(r, f, fd, &f->runs[i]))
			f->runs[n++] = f->runs[i];
	f->nruns = n;
}

/* One range of the file's data, cut at the runs that fit and lie wholly inside it. */
static int subtract(struct sfile *f, struct bulk_range g, uint32_t *next, struct missing *m)
{
	uint64_t at = g.offset, end = g.offset + g.length;
	int rc = 0;

	for (; *next < f->nruns && !rc; ++*next) {
		uint64_t lo = f->runs[*next].run * f->run_bytes;
		uint64_t hi = lo + f->run_bytes < f->size ? lo + f->run_bytes : f->size;

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
	int fd, rc;

	free(r->run_buf);
	r->run_buf = malloc(f->run_bytes);
	fd = reader_fd(r, f);
	if (fd < 0 || !r->run_buf) {
		reader_file_failed(r, f, fd < 0 ? fd : -ENOMEM, NULL);
		sfile_put(f);
		return 0;
	}
	keep_fitting(r, f, fd);
	rc = find_missing(f, &m);
	if (!rc && !sfile_unchanged(fd, f)) {
		reader_file_failed(r, f, -ESTALE, SOURCE_CHANGED);
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
