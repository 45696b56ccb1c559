// SPDX-License-Identifier: Apache-2.0
/* The journal of a part: which runs of the file are down, and their digests.
 *
 * A file beside the part, big-endian:
 *   header  64 bytes: magic, u32 version, u32 run, u64 size, u64 mtime seconds,
 *           u32 mtime nanoseconds, u32 salt, 16 bytes hash of the name, 4 bytes zero,
 *           u32 CRC32C of all before
 *   record  28 bytes, any number: u64 run, 16 bytes digest, u32 CRC32C of both that
 *           goes on from the header's, so that records of an older journal that lay in
 *           the same blocks do not pass
 * Records are appended only after the data they speak of has been synced. The first
 * that does not check was torn by a crash: it and what follows is cut off. Of several
 * for one run the last holds. All of it is a hint: part_runs reads the data back. */
#include "storage/part.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define JOURNAL_VERSION 1
#define HEADER_BYTES 64
#define RECORD_BYTES 28
#define CHUNK_RECORDS 4096
/* A batch is synced and recorded when it is this old, or this big and not too young:
 * what a crash costs, against a sync of the data each time. */
#define BATCH_NS 1000000000u
#define BATCH_BYTES (64u << 20)
#define BATCH_MIN_NS 250000000u

static const char magic[8] = { 'R', 'F', 'T', 'P', 'J', 'R', 'N', 'L' };

struct note {
	uint64_t run;
	size_t nth;             /* in the journal it was read from */
	uint8_t digest[RUN_DIGEST_BYTES];
};

struct notes {
	struct note *v;
	size_t n, cap;
};

struct journal {
	int fd, datafd;         /* constant, as are run, size, seed */
	uint32_t run;
	uint64_t size;
	uint32_t seed;          /* the header's CRC */
	struct notes old;       /* taken over; belongs to the opener's thread */
	pthread_mutex_t lock;   /* guards all below */
	pthread_cond_t flushed;
	struct notes pending;
	bool flushing;          /* a thread syncs and appends; it alone moves end */
	uint64_t last_ns;
	uint64_t end;           /* bytes of header and good records */
	int data_error, error;  /* negative errno, sticky */
};

static int notes_add(struct notes *v, const struct note *note)
{
	if (v->n == v->cap) {
		size_t cap = v->cap ? 2 * v->cap : 64;
		struct note *p = reallocarray(v->v, cap, sizeof(*p));

		if (!p)
			return -ENOMEM;
		v->v = p;
		v->cap = cap;
	}
	v->v[v->n++] = *note;
	return 0;
}

static uint64_t runs_of(const struct journal *j)
{
	return j->size / j->run + (j->size % j->run != 0);
}

/* ---- bytes ---- */

static void encode_header(uint8_t h[HEADER_BYTES], const struct part_spec *s, uint32_t salt)
{
	memset(h, 0, HEADER_BYTES);
	memcpy(h, magic, sizeof(magic));
	put_be32(h + 8, JOURNAL_VERSION);
	put_be32(h + 12, s->run);
	put_be64(h + 16, s->meta.size);
	put_be64(h + 24, (uint64_t)s->meta.mtime_s);
	put_be32(h + 32, s->meta.mtime_ns);
	put_be32(h + 36, salt);
	name_hash(h + 40, s->name);
	put_be32(h + 60, crypto_crc32c(0, h, 60));
}

static void encode_record(uint8_t r[RECORD_BYTES], const struct note *note, uint32_t seed)
{
	put_be64(r, note->run);
	memcpy(r + 8, note->digest, RUN_DIGEST_BYTES);
	put_be32(r + 24, crypto_crc32c(seed, r, 24));
}

static bool decode_record(const uint8_t r[RECORD_BYTES], struct note *note, uint32_t seed)
{
	if (get_be32(r + 24) != crypto_crc32c(seed, r, 24))
		return false;
	note->run = get_be64(r);
	memcpy(note->digest, r + 8, RUN_DIGEST_BYTES);
	return true;
}

/* ---- taking over, starting anew ---- */

/* Whether the journal speaks of s; then seed is set. */
static bool header_fits(struct journal *j, const struct part_spec *s)
{
	uint8_t is[HEADER_BYTES], want[HEADER_BYTES];

	if (pread_full(j->fd, is, sizeof(is), 0) != HEADER_BYTES)
		return false;
	encode_header(want, s, get_be32(is + 36));
	j->seed = get_be32(is + 60);
	return memcmp(is, want, sizeof(is)) == 0;
}

/* Every good record to j->old; the rest is cut off. */
static int load_records(struct journal *j)
{
	uint8_t *chunk CLEANUP_FREE = malloc(CHUNK_RECORDS * RECORD_BYTES);
	size_t n, i;

	if (!chunk)
		return -ENOMEM;
	j->end = HEADER_BYTES;
	do {
		ssize_t got = pread_full(j->fd, chunk, CHUNK_RECORDS * RECORD_BYTES,
					 (off_t)j->end);

		if (got < 0)
			return (int)got;
		n = (size_t)got / RECORD_BYTES;
		for (i = 0; i < n; i++) {
			struct note note;

			if (!decode_record(chunk + i * RECORD_BYTES, &note, j->seed))
				break;
			note.nth = j->old.n;
			if (note.run < runs_of(j) && notes_add(&j->old, &note))
				return -ENOMEM;
		}
		j->end += i * RECORD_BYTES;
	} while (n == CHUNK_RECORDS && i == n);
	return ftruncate(j->fd, (off_t)j->end) ? -errno : 0;
}

static int start_anew(struct journal *j, const struct part_spec *s)
{
	uint8_t h[HEADER_BYTES];
	uint32_t salt;

	crypto_random(&salt, sizeof(salt));
	encode_header(h, s, salt);
	j->seed = get_be32(h + 60);
	j->end = HEADER_BYTES;
	if (ftruncate(j->fd, 0))
		return -errno;
	return pwrite_full(j->fd, h, sizeof(h), 0);
}

static int open_file(int dirfd, const char *name, bool *fresh)
{
	/* its part's lock keeps others away; the part's rules keep strangers' files away */
	return part_open_named(dirfd, name, 0600, fresh);
}

static struct journal *journal_new(const struct part_spec *s, int datafd)
{
	struct journal *j = calloc(1, sizeof(*j));

	if (!j)
		return NULL;
	j->fd = -1;
	j->datafd = datafd;
	j->run = s->run;
	j->size = s->meta.size;
	j->last_ns = now_ns();
	pthread_mutex_init(&j->lock, NULL);
	pthread_cond_init(&j->flushed, NULL);
	return j;
}

struct journal *journal_open(int dirfd, const struct part_spec *s, int datafd, bool fresh,
			     bool *taken, struct err *e)
{
	struct journal *j = journal_new(s, datafd);
	char name[PART_NAME_MAX];
	bool made;
	int r;

	*taken = false;
	if (!j) {
		part_err(e, -ENOMEM, s, "journal");
		return NULL;
	}
	journal_name(name, s->name);
	j->fd = open_file(dirfd, name, &made);
	r = j->fd < 0 ? j->fd : 0;
	if (r == 0) {
		*taken = !fresh && !made && header_fits(j, s);
		r = *taken ? load_records(j) : start_anew(j, s);
	}
	if (r == 0)
		return j;
	part_err(e, r, s, "cannot start the journal beside it");
	if (j->fd >= 0 && !*taken)
		unlinkat(dirfd, name, 0);
	journal_close(j);
	return NULL;
}

void journal_close(struct journal *j)
{
	if (!j)
		return;
	cleanup_close(&j->fd);
	pthread_cond_destroy(&j->flushed);
	pthread_mutex_destroy(&j->lock);
	free(j->old.v);
	free(j->pending.v);
	free(j);
}

/* ---- what is down ---- */

static int by_run(const void *a, const void *b)
{
	const struct note *x = a, *y = b;

	if (x->run != y->run)
		return x->run < y->run ? -1 : 1;
	return (x->nth > y->nth) - (x->nth < y->nth);
}

/* In order of runs, and of several for a run the last alone. */
static void sort_old(struct notes *v)
{
	size_t kept = 0;

	if (v->n)
		qsort(v->v, v->n, sizeof(*v->v), by_run);
	for (size_t i = 0; i < v->n; i++)
		if (i + 1 == v->n || v->v[i].run != v->v[i + 1].run)
			v->v[kept++] = v->v[i];
	v->n = kept;
}

static bool run_holds(struct journal *j, const struct note *note, uint8_t *room)
{
	uint64_t at = note->run * j->run;
	size_t len = j->size - at < j->run ? (size_t)(j->size - at) : j->run;
	uint8_t digest[RUN_DIGEST_BYTES];

	if (pread_full(j->datafd, room, len, (off_t)at) != (ssize_t)len)
		return false;
	crypto_run_digest(digest, room, len);
	return memcmp(digest, note->digest, sizeof(digest)) == 0;
}

int64_t journal_runs(struct journal *j, int (*fn)(void *arg, uint64_t run,
		     const uint8_t digest[RUN_DIGEST_BYTES]), void *arg)
{
	uint8_t *room CLEANUP_FREE = malloc(j->run);
	int64_t good = 0;

	if (!room)
		return -ENOMEM;
	sort_old(&j->old);
	for (size_t i = 0; i < j->old.n; i++) {
		const struct note *note = &j->old.v[i];
		int r;

		if (!run_holds(j, note, room))
			continue;
		good++;
		r = fn ? fn(arg, note->run, note->digest) : 0;
		if (r)
			return r;
	}
	return good;
}

/* ---- noting ---- */

static int append(struct journal *j, const struct notes *v)
{
	size_t bytes = v->n * RECORD_BYTES;
	uint8_t *p CLEANUP_FREE = malloc(bytes);
	int r = FAULT("journal", bytes);

	if (r)
		return r;
	if (!p)
		return -ENOMEM;
	for (size_t i = 0; i < v->n; i++)
		encode_record(p + i * RECORD_BYTES, &v->v[i], j->seed);
	r = pwrite_full(j->fd, p, bytes, (off_t)j->end);
	if (r == 0 && fdatasync(j->fd))
		r = -errno;
	if (r == 0)
		j->end += bytes;
	return r;
}

/* Sync the data and append what is pending; with the lock held, which is given up
 * meanwhile. Nobody else may be flushing. */
static int flush_locked(struct journal *j)
{
	struct notes batch = j->pending;
	int data = 0, r = 0;

	j->pending = (struct notes){ 0 };
	j->flushing = true;
	pthread_mutex_unlock(&j->lock);
	if (batch.n) {
		data = fdatasync(j->datafd) ? -errno : 0;
		r = data ? data : append(j, &batch);
	}
	free(batch.v);
	pthread_mutex_lock(&j->lock);
	j->flushing = false;
	j->last_ns = now_ns();
	if (data && !j->data_error)
		j->data_error = data;
	if (r && !j->error)
		j->error = r;
	pthread_cond_broadcast(&j->flushed);
	return r;
}

static bool due(const struct journal *j)
{
	uint64_t age = now_ns() - j->last_ns;

	if (j->flushing)
		return false;
	return age >= BATCH_NS ||
	       (age >= BATCH_MIN_NS && j->pending.n * (uint64_t)j->run >= BATCH_BYTES);
}

int journal_note(struct journal *j, uint64_t run, const uint8_t digest[RUN_DIGEST_BYTES])
{
	LOCK_GUARD(guard, &j->lock);
	struct note note = { .run = run };
	int r;

	if (j->error)
		return j->error;
	if (run >= runs_of(j))
		return -ERANGE;
	memcpy(note.digest, digest, RUN_DIGEST_BYTES);
	r = notes_add(&j->pending, &note);
	if (r == 0 && due(j))
		r = flush_locked(j);
	return r;
}

int journal_flush(struct journal *j)
{
	LOCK_GUARD(guard, &j->lock);

	while (j->flushing)
		pthread_cond_wait(&j->flushed, &j->lock);
	if (j->error)
		return j->error;
	return j->pending.n ? flush_locked(j) : 0;
}

int journal_data_error(struct journal *j)
{
	LOCK_GUARD(guard, &j->lock);

	return j->data_error;
}

bool journal_empty(struct journal *j)
{
	LOCK_GUARD(guard, &j->lock);

	return j->end == HEADER_BYTES;
}
