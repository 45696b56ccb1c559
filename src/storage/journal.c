// SPDX-License-Identifier: Apache-2.0
/* The journal of a part: which runs of the file are down, and their digests. A run is any stretch
 * of the file; each has the length in which its transfer brought it, so that a transfer with
 * blocks of another size goes on from the same journal.
 *
 * A file beside the part, big-endian:
 *   header  64 bytes: magic, u32 version, 4 bytes zero, u64 size, u64 mtime seconds,
 *           u32 mtime nanoseconds, u32 salt, 16 bytes hash of the name, 4 bytes zero,
 *           u32 CRC32C of all before
 *   record  32 bytes, any number: u64 offset, u32 length, 16 bytes digest, u32 CRC32C of
 *           these that continues the header's, so that records of an older journal that
 *           lay in the same blocks do not pass
 * Records are appended only after their data has been synced. The first
 * that does not check was torn by a crash: it and all behind it are cut off. The journal
 * is a hint: part_runs reads the data back, and a record whose data differs does not count. */
#include "storage/part.h"

#include "block/block.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define JOURNAL_VERSION 2
#define HEADER_BYTES 64
#define RECORD_BYTES 32
#define CHUNK_RECORDS 4096
/* Records that are in memory at once when an old journal is read. */
#define WINDOW_RECORDS (1u << 17)
/* A batch is synced and recorded when it is this old, or this big and not too young:
 * what a crash costs, against a sync of the data each time. */
#define BATCH_NS 1000000000u
#define BATCH_BYTES (64u << 20)
#define BATCH_MIN_NS 250000000u

static const char magic[8] = { 'R', 'F', 'T', 'P', 'J', 'R', 'N', 'L' };

struct notes {
	struct part_run *v;
	size_t n, cap;
	uint64_t bytes;         /* of all these runs */
};

struct journal {
	int fd, datafd;         /* constant, as are size, seed */
	uint64_t size;
	uint32_t seed;          /* the header's CRC */
	uint64_t old_end;       /* bytes of the records that were taken over; this and the next */
	uint32_t old_longest;   /* belong to the opener's thread. No run in them is longer */
	pthread_mutex_t lock;   /* guards all below */
	pthread_cond_t flushed;
	struct notes pending;
	bool flushing;          /* a thread syncs and appends; it alone moves end */
	uint64_t last_ns;
	uint64_t end;           /* bytes of header and good records */
	int data_error, error;  /* negative errno, sticky */
};

static int notes_add(struct notes *v, const struct part_run *note)
{
	if (v->n == v->cap) {
		size_t cap = v->cap ? 2 * v->cap : 64;
		struct part_run *p = reallocarray(v->v, cap, sizeof(*p));

		if (!p)
			return -ENOMEM;
		v->v = p;
		v->cap = cap;
	}
	v->v[v->n++] = *note;
	v->bytes += note->length;
	return 0;
}

static bool in_file(const struct journal *j, const struct part_run *run)
{
	return run->length && run->length <= BLOCK_MAX && run->offset < j->size &&
	       run->length <= j->size - run->offset;
}

/* ---- bytes ---- */

static void encode_header(uint8_t h[HEADER_BYTES], const struct part_spec *s, uint32_t salt)
{
	memset(h, 0, HEADER_BYTES);
	memcpy(h, magic, sizeof(magic));
	put_be32(h + 8, JOURNAL_VERSION);
	put_be64(h + 16, s->meta.size);
	put_be64(h + 24, (uint64_t)s->meta.mtime_s);
	put_be32(h + 32, s->meta.mtime_ns);
	put_be32(h + 36, salt);
	name_hash(h + 40, s->name);
	put_be32(h + 60, crypto_crc32c(0, h, 60));
}

static void encode_record(uint8_t r[RECORD_BYTES], const struct part_run *note, uint32_t seed)
{
	put_be64(r, note->offset);
	put_be32(r + 8, note->length);
	memcpy(r + 12, note->digest, RUN_DIGEST_BYTES);
	put_be32(r + 28, crypto_crc32c(seed, r, 28));
}

static bool decode_record(const uint8_t r[RECORD_BYTES], struct part_run *note, uint32_t seed)
{
	if (get_be32(r + 28) != crypto_crc32c(seed, r, 28))
		return false;
	note->offset = get_be64(r);
	note->length = get_be32(r + 8);
	memcpy(note->digest, r + 12, RUN_DIGEST_BYTES);
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

typedef int record_fn(void *arg, const struct part_run *note);

/* Call fn for each good record from the header up to end; *good is where they end. */
static int each_record(struct journal *j, uint64_t end, record_fn *fn, void *arg, uint64_t *good)
{
	int r = 0;
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
		for (i = 0; !r && i < n && *good + (i + 1) * RECORD_BYTES <= end; i++) {
			struct part_run note;

			if (!decode_record(chunk + i * RECORD_BYTES, &note, j->seed))
				break;
			if (in_file(j, &note))
				r = fn(arg, &note);
		}
		*good += i * RECORD_BYTES;
	} while (!r && n == CHUNK_RECORDS && i == n);
	return r;
}

static int note_longest(void *arg, const struct part_run *note)
{
	uint32_t *longest = arg;

	if (note->length > *longest)
		*longest = note->length;
	return 0;
}

/* How far the records are good; the rest is cut off. */
static int look_at_records(struct journal *j)
{
	int r = each_record(j, UINT64_MAX, note_longest, &j->old_longest, &j->end);

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

/* Records in the order of the journal, some at a time. */
struct window {
	struct journal *j;
	struct part_run *v;
	size_t n;
	uint8_t *room;          /* for the longest run */
	part_run_fn *fn;
	void *arg;
	int64_t good;
};

/* By offset; of two for the same place the longer one first. */
static int by_place(const void *a, const void *b)
{
	const struct part_run *x = a, *y = b;

	if (x->offset != y->offset)
		return x->offset < y->offset ? -1 : 1;
	return (x->length < y->length) - (x->length > y->length);
}

static bool run_holds(struct journal *j, const struct part_run *run, uint8_t *room)
{
	uint8_t digest[RUN_DIGEST_BYTES];

	if (pread_full(j->datafd, room, run->length, (off_t)run->offset) != (ssize_t)run->length)
		return false;
	crypto_run_digest(digest, room, run->length);
	return memcmp(digest, run->digest, sizeof(digest)) == 0;
}

/* Read the data in the order in which it lies in the file. */
static int look_through(struct window *w)
{
	uint64_t at = 0;
	int r = 0;

	qsort(w->v, w->n, sizeof(*w->v), by_place);
	for (size_t i = 0; i < w->n && !r; i++) {
		const struct part_run *run = &w->v[i];

		/* A shorter one in the place of one that holds, or a second note of it. */
		if (run->offset < at || !run_holds(w->j, run, w->room))
			continue;
		at = run->offset + run->length;
		w->good++;
		r = w->fn ? w->fn(w->arg, run) : 0;
	}
	w->n = 0;
	return r;
}

static int into_window(void *arg, const struct part_run *run)
{
	struct window *w = arg;

	w->v[w->n++] = *run;
	return w->n == WINDOW_RECORDS ? look_through(w) : 0;
}

int64_t journal_runs(struct journal *j, part_run_fn *fn, void *arg)
{
	uint64_t records = j->old_end ? (j->old_end - HEADER_BYTES) / RECORD_BYTES : 0, end;
	size_t most = records < WINDOW_RECORDS ? (size_t)records : WINDOW_RECORDS;
	struct part_run *v CLEANUP_FREE = malloc((most + 1) * sizeof(*v));
	uint8_t *room CLEANUP_FREE = malloc(j->old_longest + 1ul);
	struct window w = { .j = j, .v = v, .room = room, .fn = fn, .arg = arg };
	int r = room && v ? 0 : -ENOMEM;

	if (!r && records)
		r = each_record(j, j->old_end, into_window, &w, &end);
	if (!r)
		r = look_through(&w);
	return r ? r : w.good;
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
	       (age >= BATCH_MIN_NS && j->pending.bytes >= BATCH_BYTES);
}

int journal_note(struct journal *j, const struct part_run *run)
{
	LOCK_GUARD(guard, &j->lock);
	int r;

	/* Without a journal the file is as good; only a later transfer would miss it. */
	if (j->error)
		return j->data_error;
	if (!in_file(j, run))
		return -ERANGE;
	r = notes_add(&j->pending, run);
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
