// SPDX-License-Identifier: Apache-2.0
/* --ack verified: files are read back and compared. And the digests of copied files, for the
 * report. */
#include "transfer/sink/sink.h"

#include <fcntl.h>
#include <sys/stat.h>

#define ZEROS_AT_ONCE (1u << 20)

static int read_back(struct sink_file *f, uint64_t at, void *p, uint32_t n, struct err *e)
{
	int r = read_past_cache(part_fd(f->part), at, p, n);

	return r ? err_sys(e, r, "%s: reading back", printable(f->name)) : 0;
}

static int verify_differs(struct sink_file *f, uint64_t at, struct err *e)
{
	return err_set(e, -EIO, "%s: the data read back at offset %llu differ from the written data",
		       printable(f->name), (unsigned long long)at);
}

static int verify_piece(struct sink_file *f, const struct part_run *c, uint8_t **room, struct err *e)
{
	uint8_t digest[RUN_DIGEST_BYTES];
	uint8_t *bigger = realloc(*room, c->length + 1ul);
	int r;

	if (!bigger)
		return err_nomem(e);
	*room = bigger;
	r = read_back(f, c->offset, bigger, c->length, e);
	if (r)
		return r;
	crypto_run_digest(digest, bigger, c->length);
	return memcmp(digest, c->digest, sizeof(digest)) ? verify_differs(f, c->offset, e) : 0;
}

/* The offset of the first data at or after at; end if there is only a hole. */
static uint64_t next_data(int fd, uint64_t at, uint64_t end)
{
	off_t to = lseek(fd, (off_t)at, SEEK_DATA);

	if (to < 0)
		return errno == ENXIO ? end : at; /* other errors: holes are not supported */
	return (uint64_t)to < end ? (uint64_t)to : end;
}

static bool all_zero(const uint8_t *p, uint32_t n)
{
	return !n || (!p[0] && !memcmp(p, p + 1, n - 1));
}

/* Check that the bytes from at up to end are a hole, or zeros. */
static int verify_hole(struct sink_file *f, uint64_t at, uint64_t end, struct err *e)
{
	uint8_t *p CLEANUP_FREE = NULL;
	int r = 0;

	if (at >= end)
		return 0;
	p = malloc(ZEROS_AT_ONCE);
	if (!p)
		return err_nomem(e);
	while (!r && (at = next_data(part_fd(f->part), at, end)) < end) {
		uint32_t n = end - at < ZEROS_AT_ONCE ? (uint32_t)(end - at) : ZEROS_AT_ONCE;

		r = read_back(f, at, p, n, e);
		if (!r && !all_zero(p, n))
			r = verify_differs(f, at, e);
		at += n;
	}
	return r;
}

/* Compare each piece with the medium. earlier: they are runs of an earlier transfer. */
static int verify_pieces(struct sink *s, struct sink_file *f, const struct checks *pieces,
			 bool earlier, struct err *e)
{
	uint8_t *room CLEANUP_FREE = NULL;
	struct part_run c;
	int r = 0;

	for (uint64_t i = 0; !r && i < checks_count(pieces); i++) {
		r = checks_get(pieces, i, &c);
		if (r)
			return err_sys(e, r, "%s: cannot read its digests", printable(f->name));
		if (!earlier || !sink_file_came_again(s, f, c.offset, c.offset + c.length))
			r = verify_piece(f, &c, &room, e);
	}
	return r;
}

struct bulk_range sink_file_range(const struct sink_file *f)
{
	return f->range.length ? f->range : (struct bulk_range){ 0, sink_file_size(f) };
}

int sink_file_verify(struct sink *s, struct sink_file *f, struct err *e)
{
	struct bulk_range range = sink_file_range(f);
	int r = verify_pieces(s, f, &f->came, false, e);
	uint64_t at = range.offset;

	if (!r)
		r = verify_pieces(s, f, &f->kept, true, e);
	if (!(f->flags & ENTRY_F_SPARSE))
		return r;
	for (uint32_t i = 0; !r && i < f->nranges; i++) {
		struct bulk_range g = bulk_range_at(f->ranges, i);

		r = verify_hole(f, at, g.offset, e);
		at = g.offset + g.length;
	}
	return r ? r : verify_hole(f, at, range.offset + range.length, e);
}

/* ---- holes ---- */

static int write_zeros(int fd, uint64_t at, uint64_t end)
{
	static const uint8_t zeros[65536];
	int r = 0;

	while (at < end && !r) {
		size_t n = end - at < sizeof(zeros) ? (size_t)(end - at) : sizeof(zeros);

		r = pwrite_full(fd, zeros, n, (off_t)at);
		at += n;
	}
	return r;
}

/* Make a hole from at up to end. now: the file's present size, beyond which no hole is needed. */
static int make_hole(int fd, uint64_t at, uint64_t end, uint64_t now)
{
	if (end > now)
		end = now;
	if (at >= end)
		return 0;
	if (!fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t)at,
		       (off_t)(end - at)))
		return 0;
	return errno == EOPNOTSUPP || errno == ENOSYS ? write_zeros(fd, at, end) : -errno;
}

int make_holes(int fd, struct bulk_range range, const uint8_t *ranges, uint32_t n)
{
	uint64_t at = range.offset;
	struct stat st;
	int r = fstat(fd, &st) ? -errno : 0;

	for (uint32_t i = 0; i < n && !r; i++) {
		struct bulk_range g = bulk_range_at(ranges, i);

		r = make_hole(fd, at, g.offset, (uint64_t)st.st_size);
		at = g.offset + g.length;
	}
	return r ? r : make_hole(fd, at, range.offset + range.length, (uint64_t)st.st_size);
}

/* ---- the digest of a range ---- */

/* Pieces arrive in any order: each piece's CRC is shifted to the end of the range, and these are
 * added, which for a CRC is exclusive or. */
static uint32_t range_term(const struct sink_file *f, uint32_t crc, uint64_t end)
{
	return crypto_crc32c_shift(crc, f->range.offset + f->range.length - end);
}

void sink_range_add(struct sink_file *f, const struct extent *x, const uint8_t *data)
{
	atomic_fetch_xor(&f->range_sum, range_term(f, crypto_crc32c(0, data, x->length),
						   x->offset + x->length));
}

static int range_read_sum(struct sink *s, struct sink_file *f, uint32_t *sum)
{
	uint64_t at = f->range.offset, end = at + f->range.length;
	uint8_t *room CLEANUP_FREE = malloc(ZEROS_AT_ONCE);

	*sum = 0;
	if (!room)
		return -ENOMEM;
	while (at < end) {
		size_t n = end - at < ZEROS_AT_ONCE ? (size_t)(end - at) : ZEROS_AT_ONCE;
		int r = read_past_cache(part_fd(f->part), at, room, n);

		if (!r && xfer_failed(&s->x))
			r = -ECANCELED;
		if (r)
			return r;
		*sum = crypto_crc32c(*sum, room, n);
		at += n;
	}
	return 0;
}

int sink_range_sum(struct sink *s, struct sink_file *f, uint32_t *sum)
{
	uint64_t at = f->range.offset;
	bool kept;

	pthread_mutex_lock(stripe_of(s, f->id));
	kept = !spans_empty(&f->had);
	pthread_mutex_unlock(stripe_of(s, f->id));
	if (kept) /* the pieces of an earlier transfer were not added */
		return range_read_sum(s, f, sum);
	*sum = atomic_load(&f->range_sum);
	for (uint32_t i = 0; i <= f->nranges; i++) {
		struct bulk_range g = i < f->nranges ? bulk_range_at(f->ranges, i) :
				      (struct bulk_range){ f->range.offset + f->range.length, 0 };

		if (g.offset > at)
			*sum ^= range_term(f, crypto_crc32c_zeros(g.offset - at), g.offset);
		at = g.offset + g.length;
	}
	return 0;
}

/* ---- digests of the pieces of a file ---- */

#define RUN_BYTES (CHECKS_ROOM * sizeof(struct part_run))

/* Create an unnamed file in the directory behind dfd, or, if that fails, in the directory for
 * temporary files. A descriptor, or a negative errno. */
static int checks_file(int dfd)
{
	const char *base = getenv("TMPDIR");
	char name[4096];
	int fd = openat(dfd, ".", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);

	if (fd >= 0)
		return fd;
	snprintf(name, sizeof(name), "%s/rftp-XXXXXX", base && *base ? base : "/var/tmp");
	fd = mkostemp(name, O_CLOEXEC);
	if (fd < 0)
		return -errno;
	unlink(name);
	return fd;
}

static int checks_spill(struct checks *c, struct dir *dir)
{
	int r = 0;

	if (!c->runs) {
		int dfd = dir_pin(dir);

		if (dfd < 0)
			return dfd;
		r = c->fd = checks_file(dfd);
		dir_unpin(dir);
	}
	if (r < 0)
		return r;
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

int checks_get(const struct checks *c, uint64_t i, struct part_run *out)
{
	uint64_t spilled = (uint64_t)c->runs * CHECKS_ROOM;
	off_t at = (off_t)(i * sizeof(*out));

	if (i < spilled)
		return pread_full(c->fd, out, sizeof(*out), at) == sizeof(*out) ? 0 : -EIO;
	*out = c->v[i - spilled];
	return 0;
}

int checks_add(struct checks *c, const struct part_run *new, struct dir *dir)
{
	int r = c->n == CHECKS_ROOM ? checks_spill(c, dir) : 0;

	if (r)
		return r;
	if (!array_has_room(c->v, c->n, c->room))
		return -ENOMEM;
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

/* ---- digests of copied files, for the report ---- */

/* A file that is done before its digest has come. */
struct sum_due {
	uint64_t id;
	struct file_report report; /* path and rel are owned */
	bool link;                 /* a hard link */
	UT_hash_handle hh;
};

static void sum_due_free(struct sum_due *d)
{
	free((char *)(uintptr_t)d->report.path);
	free((char *)(uintptr_t)d->report.rel);
	free(d);
}

void sink_sums_free(struct sink *s)
{
	struct sum_due *d, *next;

	HASH_ITER(hh, s->entries.sums_due, d, next) {
		HASH_DEL(s->entries.sums_due, d);
		sum_due_free(d);
	}
}

/* Only now another attempt may skip the file. */
static void report_file(struct sink *s, const struct file_report *r)
{
	if (s->x.committed && r->end == FILE_COPIED && !r->range.length)
		committed_add(s->x.committed, r->path);
	XFER_EVENT(&s->x, file_done, r);
}

/* A hard link to a file that was left alone has no digest: the source did not read it. */
void sink_sums_end(struct sink *s)
{
	for (struct sum_due *d = s->entries.sums_due; d && !xfer_failed(&s->x); d = d->hh.next) {
		struct file_report r = d->report;

		if (d->link)
			r.rel = NULL;
		report_file(s, &r);
	}
	if (!xfer_failed(&s->x))
		sink_sums_free(s);
}

/* The part of path below the destination. */
static const char *below_dest(const struct sink *s, const char *path)
{
	const char *dest = s->entries.dest_path ? s->entries.dest_path : "";
	size_t n = strlen(dest);

	if (strncmp(path, dest, n) || !(path[n] == '/' || (n && dest[n - 1] == '/')))
		return strrchr(path, '/') ? strrchr(path, '/') + 1 : path;
	path += n;
	return path + strspn(path, "/");
}

static struct sum_due *sum_due_new(uint64_t id, const struct file_report *r)
{
	struct sum_due *d = calloc(1, sizeof(*d));

	if (!d)
		return NULL;
	d->id = id;
	d->report = *r;
	d->report.path = strdup(r->path);
	d->report.rel = strdup(r->rel);
	if (d->report.path && d->report.rel)
		return d;
	sum_due_free(d);
	return NULL;
}

void sink_report_done(struct sink *s, struct sink_file *f, const char *path, enum file_end end)
{
	struct file_report r = { .end = end, .path = path, .plain = f->counts, .range = f->range,
				 .mtime_s = f->meta.mtime_s, .mtime_ns = f->meta.mtime_ns,
				 .bytes = f->range.length ? f->range.length : sink_file_size(f) };
	struct sum_due *due = NULL;

	if (*s->x.c->request.sum)
		r.rel = below_dest(s, path);
	if (!r.rel || end != FILE_COPIED || f->meta.type != FT_FILE || s->dry) {
		report_file(s, &r);
		return;
	}
	pthread_mutex_lock(&s->entries.lock);
	r.sum = f->sum;
	if (!r.sum)
		due = sum_due_new(f->id, &r);
	if (due) {
		due->link = f->link_id;
		HASH_ADD(hh, s->entries.sums_due, id, sizeof(due->id), due);
		if (!due->hh.tbl) { /* out of memory */
			sum_due_free(due);
			due = NULL;
		}
	}
	pthread_mutex_unlock(&s->entries.lock);
	if (r.sum)
		report_file(s, &r);
	else if (!due)
		xfer_fail(&s->x, -ENOMEM, NO_MEMORY);
}

static int sink_sum(struct sink *s, uint64_t id, const char *hex)
{
	struct sink_file *f = sink_file_get(s, id);
	struct sum_due *due;
	int r = 0;

	pthread_mutex_lock(&s->entries.lock);
	HASH_FIND(hh, s->entries.sums_due, &id, sizeof(id), due);
	if (due)
		HASH_DEL(s->entries.sums_due, due);
	if (!due && f && !f->sum) {
		f->sum = strdup(hex);
		r = f->sum ? 0 : -ENOMEM;
	}
	pthread_mutex_unlock(&s->entries.lock);
	sink_file_put(s, f);
	if (!due)
		return r;
	due->report.sum = hex;
	report_file(s, &due->report);
	sum_due_free(due);
	return 0;
}

int sink_sums(struct sink *s, struct buf *p)
{
	char hex[BULK_SUM_MAX + 1];
	uint64_t id;
	int r = s->x.client && *s->x.c->request.sum ? 0 : -EPROTO;

	while (!r && buf_len(p)) {
		r = bulk_sum_get(p, &id, hex);
		if (!r)
			r = sink_sum(s, id, hex);
	}
	return r;
}
