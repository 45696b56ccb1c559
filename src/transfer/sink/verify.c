// SPDX-License-Identifier: Apache-2.0
/* --ack verified: files are read back and compared. */
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
		return err_set(e, -ENOMEM, "out of memory");
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
		return err_set(e, -ENOMEM, "out of memory");
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

int sink_file_verify(struct sink *s, struct sink_file *f, uint64_t size, struct err *e)
{
	int r = verify_pieces(s, f, &f->came, false, e);
	uint64_t at = 0;

	if (!r)
		r = verify_pieces(s, f, &f->kept, true, e);
	if (!(f->flags & ENTRY_F_SPARSE))
		return r;
	for (uint32_t i = 0; !r && i < f->nranges; i++) {
		struct bulk_range g = bulk_range_at(f->ranges, i);

		r = verify_hole(f, at, g.offset, e);
		at = g.offset + g.length;
	}
	return r ? r : verify_hole(f, at, size, e);
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

int make_holes(int fd, uint64_t size, const uint8_t *ranges, uint32_t n)
{
	uint64_t at = 0;
	struct stat st;
	int r = fstat(fd, &st) ? -errno : 0;

	for (uint32_t i = 0; i < n && !r; i++) {
		struct bulk_range g = bulk_range_at(ranges, i);

		r = make_hole(fd, at, g.offset, (uint64_t)st.st_size);
		at = g.offset + g.length;
	}
	return r ? r : make_hole(fd, at, size, (uint64_t)st.st_size);
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
