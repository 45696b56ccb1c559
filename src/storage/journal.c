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
/* Runs whose digests are in memory at once when an old journal is gone through. */
#define WINDOW_RUNS (1u << 17)
/* A batch is synced and recorded when it is this old, or this big and not too young:
 * what a crash costs, against a sync of the data each time. */
#define BATCH_NS 1000000000u
#define BATCH_BYTES (64u << 20)
#define BATCH_MIN_NS 250000000u

static const char magic[8] = { 'R', 'F', 'T', 'P', 'J', 'R', 'N', 'L' };

struct note {
	uint64_t run;
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
	uint64_t old_end;       /* of what was taken over; this and the next belong to the */
	uint64_t old_last;      /* opener's thread. No run in it is greater */
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

typedef void record_fn(void *arg, const struct note *note);

/* Call fn for each good record from the header up to end; *good is where they end. */
static int each_record(struct journal *j, uint64_t end, record_fn *fn, void *arg, uint64_t *good)
{
	uint8_t *chunk CLEANUP_FREE = malloc(CHUNK_RECORDS * RECORD_BYTES);
	size_t n, i;

	if (!chunk)
		return -ENOMEM;
	*good = HEADER_BYTES;
	do {
		ssize_t got = pread_full(j->fd, chunk, CHUNK_RECORDS * RECORD_BYTES,
					 (off_t)*good);

		if (got < 0)
			return (int)got;
		n = (size_t)got / RECORD_BYTES;
		for (i = 0; i < n && *good + (i + 1) * RECORD_BYTES <= end; i++) {
			struct note note;

			if (!decode_record(chunk + i * RECORD_BYTES, &note, j->seed))
				break;
			if (note.run < runs_of(j))
				fn(arg, &note);
		}
		*good += i * RECORD_BYTES;
	} while (n == CHUNK_RECORDS && i == n);
	return 0;
}

static void note_last(void *arg, const struct note *note)
{
	uint64_t *last = arg;

	if (note->run > *last)
		*last = note->run;
}

/* How far the records are good; the rest is cut off. */
static int look_at_records(struct journal *j)
{
	int r = each_record(j, UINT64_MAX, note_last, &j->old_last, &j->end);

	if (r)
		return r;
	j->old_end = j->end;
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
		r = *taken ? look_at_records(j) : start_anew(j, s);
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
	free(j->pending.v);
	free(j);
}

/* ---- what is down ---- */

/* The digests of some runs, one behind the other. */
struct window {
	uint64_t first, n;
	struct note *v;
	bool *there;
};

/* Of several for a run the last holds. */
static void into_window(void *arg, const struct note *note)
{
	struct window *w = arg;

	if (note->run < w->first || note->run - w->first >= w->n)
		return;
	w->v[note->run - w->first] = *note;
	w->there[note->run - w->first] = true;
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

typedef int run_fn(void *arg, uint64_t run, const uint8_t digest[RUN_DIGEST_BYTES]);

/* Those in the window that hold. */
static int window_runs(struct journal *j, const struct window *w, uint8_t *room, run_fn *fn,
		       void *arg, int64_t *good)
{
	int r = 0;

	for (uint64_t i = 0; i < w->n && !r; i++) {
		if (!w->there[i] || !run_holds(j, &w->v[i], room))
			continue;
		++*good;
		r = fn ? fn(arg, w->v[i].run, w->v[i].digest) : 0;
	}
	return r;
}

/* The journal is read once for each window: that is little beside the data, and a file of
 * any size takes the same memory. */
int64_t journal_runs(struct journal *j, run_fn *fn, void *arg)
{
	uint64_t runs = j->old_end ? j->old_last + 1 : 0, end;
	uint64_t n = runs < WINDOW_RUNS ? runs : WINDOW_RUNS;
	struct note *v CLEANUP_FREE = malloc((n + 1) * sizeof(*v));
	bool *there CLEANUP_FREE = malloc(n + 1);
	uint8_t *room CLEANUP_FREE = malloc(j->run);
	int64_t good = 0;
	int r = room && v && there ? 0 : -ENOMEM;

	for (uint64_t at = 0; at < runs && !r; at += n) {
		struct window w = { .first = at, .n = n, .v = v, .there = there };

		memset(there, 0, n);
		r = each_record(j, j->old_end, into_window, &w, &end);
		if (!r)
			r = window_runs(j, &w, room, fn, arg, &good);
	}
	return r ? r : good;
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
	if (r && !data && !j->error)
		log_warn("a journal cannot be written (%s): its file could not be resumed",
			 strerror(-r));
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

	/* Without a journal the file is as good; only a later transfer would miss it. */
	if (j->error)
		return j->data_error;
	if (run >= runs_of(j))
		return -ERANGE;
	memcpy(note.digest, digest, RUN_DIGEST_BYTES);
	r = notes_add(&j->pending, &note);
	if (r)
		return r;
	if (due(j))
		flush_locked(j);
	return j->data_error;
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
