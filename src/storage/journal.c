// SPDX-License-Identifier: Apache-2.0
/* The journal of a part: the written runs of the file, with their digests. A run is a range of the
 * file of any length, so a transfer with another block size can continue from the same journal.
 *
 * A file beside the part, big-endian:
 *   header  64 bytes: magic, u32 version, 4 bytes zero, u64 size, u64 mtime seconds,
 *           u32 mtime nanoseconds, u32 salt, 16 bytes hash of the name, 4 bytes zero,
 *           u32 CRC32C of all before
 *   record 32 bytes, any number: u64 offset, u32 length, 16 bytes digest, u32 CRC32C of
 *           these that continues the header's CRC: records of an older journal that
 *           lay in the same disk blocks fail the check
 * The journal of a range has in its header, for the hash of the name, that of a text with its own
 * name, the range's length and the part's inode. When the range is complete, it has a last record:
 * length 0, and for the digest the u32 user and u32 group of the finished file, the u32 CRC32C of
 * the range, and the u32 mode of the finished file, with bit 31 if the source has named the mode
 * (set_mode), bit 30 if it has named user and group (set_owner), and bits 29 and 28 if the file
 * must not replace another one (keep_old), or one that is not older (keep_newer).
 * Records are appended only after their data has been synced. A crash can leave a torn record, with
 * a wrong CRC: the first such record and all later ones are cut off. The journal is a hint:
 * part_runs() reads the data back, and ignores records that do not match it. */
#include "storage/internal.h"

#include "block/block.h"

#include <fcntl.h>
#include <pthread.h>
#include <sys/stat.h>

#define JOURNAL_VERSION 2
#define MODE_IS_SET (1u << 31)
#define OWNER_IS_SET (1u << 30)
#define OLD_IS_KEPT (1u << 29)
#define NEWER_IS_KEPT (1u << 28)
#define HEADER_BYTES 64
#define RECORD_BYTES 32
#define CHUNK_RECORDS 4096
/* The most records in memory at a time when an old journal is read. */
#define WINDOW_RECORDS (1u << 17)
/* A batch is synced and recorded after BATCH_NS; or when it has BATCH_BYTES, after at least
 * BATCH_MIN_NS. Larger batches lose more data in a crash; smaller batches need more syncs. */
#define BATCH_NS 1000000000u
#define BATCH_BYTES (64u << 20)
#define BATCH_MIN_NS 250000000u

static const char magic[8] = { 'R', 'F', 'T', 'P', 'J', 'R', 'N', 'L' };

struct notes {
	struct part_run *v;
	size_t n, cap;
	uint64_t bytes;         /* of all pending runs */
};

struct journal {
	int fd, datafd;         /* constant, as are size, seed */
	uint64_t size;
	uint32_t seed;          /* the header's CRC */
	uint64_t old_end;       /* end of the old records; for the opener's thread only */
	bool is_complete;       /* the last record says so; complete: its digest. The same */
	uint8_t complete[RUN_DIGEST_BYTES];
	pthread_mutex_t lock;   /* guards all below */
	pthread_cond_t flushed;
	struct notes pending;
	bool flushing;          /* a thread syncs and appends; only this thread changes end */
	uint64_t last_ns;
	uint64_t end;           /* bytes of header and good records */
	int data_error, error;  /* negative errno, sticky */
};

static int notes_add(struct notes *v, const struct part_run *note)
{
	if (!array_has_room(v->v, v->n, v->cap))
		return -ENOMEM;
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

/* The journal of a range is bound to its part's inode: a part of the same name that was removed and
 * made again has none of its data. */
static void hash_for_header(uint8_t hash[NAME_HASH_BYTES], const struct part_spec *s, int datafd)
{
	char name[PART_NAME_MAX], text[PART_NAME_MAX + 40];
	struct stat st;

	if (!s->range.length) {
		name_hash(hash, s->name);
		return;
	}
	spec_journal_name(name, s);
	if (fstat(datafd, &st))
		st.st_ino = 0;
	snprintf(text, sizeof(text), "%s %llx %llx", name, (unsigned long long)s->range.length,
		 (unsigned long long)st.st_ino);
	name_hash(hash, text);
}

static void encode_header(uint8_t h[HEADER_BYTES], const struct part_spec *s, int datafd,
			  uint32_t salt)
{
	memset(h, 0, HEADER_BYTES);
	memcpy(h, magic, sizeof(magic));
	put_be32(h + 8, JOURNAL_VERSION);
	put_be64(h + 16, s->meta.size);
	put_be64(h + 24, (uint64_t)s->meta.mtime_s);
	put_be32(h + 32, s->meta.mtime_ns);
	put_be32(h + 36, salt);
	hash_for_header(h + 40, s, datafd);
	put_be32(h + 60, crypto_crc32c(0, h, 60));
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

/* ---- continuing an old journal, starting a new one ---- */

/* True: the header belongs to the file of s. Sets seed. */
static bool header_fits(struct journal *j, const struct part_spec *s)
{
	uint8_t is[HEADER_BYTES], want[HEADER_BYTES];

	if (pread_full(j->fd, is, sizeof(is), 0) != HEADER_BYTES)
		return false;
	encode_header(want, s, j->datafd, get_be32(is + 36));
	j->seed = get_be32(is + 60);
	return memcmp(is, want, sizeof(is)) == 0;
}

typedef int record_fn(void *arg, const struct part_run *note);

/* Call fn (may be NULL) for each valid record between the header and end. *good: the offset after
 * the last valid record. */
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
			if (!note.length)
				memcpy(j->complete, note.digest, sizeof(j->complete));
			j->is_complete = !note.length;
			if (fn && in_file(j, &note))
				r = fn(arg, &note);
		}
		*good += i * RECORD_BYTES;
	} while (!r && n == CHUNK_RECORDS && i == n);
	return r;
}

static int start_anew(struct journal *j, const struct part_spec *s)
{
	uint8_t h[HEADER_BYTES];
	uint32_t salt;

	crypto_random(&salt, sizeof(salt));
	encode_header(h, s, j->datafd, salt);
	j->seed = get_be32(h + 60);
	j->end = HEADER_BYTES;
	if (ftruncate(j->fd, 0))
		return -errno;
	return pwrite_full(j->fd, h, sizeof(h), 0);
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
	spec_journal_name(name, s);

	/* the part's lock excludes other writers; part_open_named() refuses files of other users */
	j->fd = part_open_named(dirfd, name, 0600, &made);
	r = j->fd < 0 ? j->fd : 0;
	if (r == 0) {
		*taken = !fresh && !made && header_fits(j, s);
		r = *taken ? each_record(j, UINT64_MAX, NULL, NULL, &j->end) : start_anew(j, s);
		if (r == 0 && *taken) {
			if (j->is_complete)
				j->end -= RECORD_BYTES;
			j->old_end = j->end;
			r = ftruncate(j->fd, (off_t)j->end) ? -errno : 0; /* cut off the rest */
			/* The data may be written once more, or given up. */
			if (!r && j->is_complete && fdatasync(j->fd))
				r = -errno;
		}
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

/* ---- runs in the file ---- */

/* Sort by offset; of two runs with the same offset the longer one is first. */
static int run_by_offset(const void *a, const void *b)
{
	const struct part_run *x = a, *y = b;

	if (x->offset != y->offset)
		return x->offset < y->offset ? -1 : 1;
	return (x->length < y->length) - (x->length > y->length);
}

int runs_compare(int fd, struct part_run *v, size_t n, const atomic_bool *stop, part_run_fn *fn,
		 void *arg)
{
	uint8_t *room CLEANUP_FREE = NULL;
	uint8_t digest[RUN_DIGEST_BYTES];
	uint32_t longest = 0;
	uint64_t at = 0;
	int r = 0;

	for (size_t i = 0; i < n; i++)
		longest = v[i].length > longest ? v[i].length : longest;
	room = malloc(longest + 1ul);
	if (!room)
		return -ENOMEM;
	qsort(v, n, sizeof(*v), run_by_offset);
	for (size_t i = 0; i < n && !r && !(stop && atomic_load(stop)); i++) {
		struct part_run run = v[i];

		/* It overlaps a run that matched: a shorter run, or the same again. */
		if (run.offset < at ||
		    pread_full(fd, room, run.length, (off_t)run.offset) != (ssize_t)run.length)
			continue;
		crypto_run_digest(digest, room, run.length);
		if (memcmp(digest, run.digest, sizeof(digest)))
			continue;
		at = run.offset + run.length;
		r = fn(arg, &run);
	}
	return r;
}

#define DIGEST_RUN (1u << 20)

int file_digest(int fd, uint64_t size, const atomic_bool *stop, uint8_t digest[RUN_DIGEST_BYTES])
{
	uint8_t *room CLEANUP_FREE = malloc(size < DIGEST_RUN ? (size_t)size + 1 : DIGEST_RUN);
	uint8_t chain[2 * RUN_DIGEST_BYTES] = { 0 };

	if (!room)
		return -ENOMEM;
	for (uint64_t at = 0; at < size; at += DIGEST_RUN) {
		size_t n = size - at < DIGEST_RUN ? (size_t)(size - at) : DIGEST_RUN;
		ssize_t got = pread_full(fd, room, n, (off_t)at);

		if (got < 0)
			return (int)got;
		if ((size_t)got < n)
			return -EIO;
		if (stop && atomic_load(stop))
			return -ECANCELED;
		crypto_run_digest(chain + RUN_DIGEST_BYTES, room, n);
		crypto_run_digest(chain, chain, sizeof(chain));
	}
	memcpy(digest, chain, RUN_DIGEST_BYTES);
	return 0;
}

/* A window of at most WINDOW_RECORDS records, in journal order until they are sorted. */
struct window {
	struct journal *j;
	struct part_run *v;
	size_t n;
	part_run_fn *fn;
	void *arg;
	int64_t good;
};

static int run_holds(void *arg, const struct part_run *run)
{
	struct window *w = arg;

	w->good++;
	return w->fn ? w->fn(w->arg, run) : 0;
}

/* Compare the runs of the window with the data, and empty the window. */
static int look_through(struct window *w)
{
	int r = runs_compare(w->j->datafd, w->v, w->n, NULL, run_holds, w);

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
	struct window w = { .j = j, .v = v, .fn = fn, .arg = arg };
	int r = v ? 0 : -ENOMEM;

	if (!r && records)
		r = each_record(j, j->old_end, into_window, &w, &end);
	if (!r)
		r = look_through(&w);
	return r ? r : w.good;
}

/* ---- noting ---- */

static int journal_append(struct journal *j, const struct notes *v)
{
	size_t bytes = v->n * RECORD_BYTES;
	uint8_t *p CLEANUP_FREE = malloc(bytes);
	int r = FAULT("journal", bytes);

	if (r)
		return r;
	if (!p)
		return -ENOMEM;
	for (size_t i = 0; i < v->n; i++) {
		const struct part_run *note = &v->v[i];
		uint8_t *record = p + i * RECORD_BYTES;

		put_be64(record, note->offset);
		put_be32(record + 8, note->length);
		memcpy(record + 12, note->digest, RUN_DIGEST_BYTES);
		put_be32(record + 28, crypto_crc32c(j->seed, record, 28));
	}

	r = pwrite_full(j->fd, p, bytes, (off_t)j->end);
	if (r == 0 && fdatasync(j->fd))
		r = -errno;
	if (r == 0)
		j->end += bytes;
	return r;
}

/* Sync the data and append the pending records. Call with the lock held; it is released meanwhile.
 * No other thread may be flushing. */
static int flush_locked(struct journal *j)
{
	struct notes batch = j->pending;
	int data = 0, r = 0;

	j->pending = (struct notes){ 0 };
	j->flushing = true;
	pthread_mutex_unlock(&j->lock);
	if (batch.n) {
		data = fdatasync(j->datafd) ? -errno : 0;
		r = data ? data : journal_append(j, &batch);
	}
	free(batch.v);
	pthread_mutex_lock(&j->lock);
	j->flushing = false;
	j->last_ns = now_ns();
	if (data && !j->data_error)
		j->data_error = data;
	if (r && !data && !j->error)
		log_warn("a journal cannot be written (%s): its file cannot be resumed",
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

	/* A journal error does not harm the file; it only prevents a later resume. */
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

/* ---- ranges ---- */

int journal_complete(struct journal *j, const struct part_spec *s)
{
	struct part_run run = { .offset = s->range.offset };
	struct notes one = { .v = &run, .n = 1 };
	int r = journal_flush(j);
	LOCK_GUARD(guard, &j->lock);

	put_be32(run.digest, s->meta.uid);
	put_be32(run.digest + 4, s->meta.gid);
	put_be32(run.digest + 8, s->range.sum);
	put_be32(run.digest + 12, (s->meta.mode & 07777) | (s->set_mode ? MODE_IS_SET : 0) |
		 (s->set_owner ? OWNER_IS_SET : 0) | (s->keep_old ? OLD_IS_KEPT : 0) |
		 (s->keep_newer ? NEWER_IS_KEPT : 0));
	if (!r)
		r = j->data_error;
	if (!r && fdatasync(j->datafd))
		r = -errno;
	return r ? r : journal_append(j, &one);
}

int journal_completed(int dirfd, const char *part, int datafd, struct part_spec *s)
{
	struct journal j = { .datafd = datafd, .size = s->meta.size };
	int fd CLEANUP_CLOSE = -1, r;
	char name[PART_NAME_MAX];
	struct stat st;
	uint64_t end;
	uint32_t mode;

	range_journal_name(name, part, s->range.offset);
	fd = j.fd = openat(dirfd, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	if (fd < 0 && errno != ENOENT && errno != ELOOP)
		return -errno;
	if (fd < 0 || fstat(fd, &st) || st.st_uid != geteuid() || !header_fits(&j, s))
		return -ENODATA;
	r = each_record(&j, UINT64_MAX, NULL, NULL, &end);
	if (!r && !j.is_complete)
		r = -ENODATA;
	mode = get_be32(j.complete + 12);
	s->meta.uid = get_be32(j.complete);
	s->meta.gid = get_be32(j.complete + 4);
	s->range.sum = get_be32(j.complete + 8);
	s->meta.mode = mode & 07777;
	s->set_mode = mode & MODE_IS_SET;
	s->set_owner = mode & OWNER_IS_SET;
	s->keep_old |= (mode & OLD_IS_KEPT) != 0;
	s->keep_newer = mode & NEWER_IS_KEPT;
	return r;
}
