// SPDX-License-Identifier: Apache-2.0
/* Chooses the next piece of a file for each reader. */
#ifndef RFTP_TRANSFER_SOURCE_PLAN_H
#define RFTP_TRANSFER_SOURCE_PLAN_H

#include "proto/proto.h"
#include "storage/storage.h"

#include <pthread.h>
#include <stdatomic.h>

struct sfile;

/* The plan hands out small files in runs that fill a block, big ones in pieces of a block. In
 * pipelining mode a reader keeps to one file while there are enough files; in striping mode all
 * readers share the first one. In both modes an idle reader helps with files that others have
 * begun. Files are sent in the order of the walk or, on rotating disks, of their addresses: always
 * the ready file with the next higher address, without waiting for the end of the walk. */

enum sfile_kind {
	SFILE_PATH,   /* name in dir; without dir name is the path of a named source */
	SFILE_STREAM, /* one piece: its reader reads the stream to its end */
	SFILE_ZERO,
	/* Not files, and never read: a dry run reports their names. */
	SFILE_LINK,   /* a symbolic link, or a further name of a file */
	SFILE_DIR,    /* dir itself, with an empty name; without dir the directory called name */
};

static inline bool sfile_kind_counts(enum sfile_kind k)
{
	return k != SFILE_LINK && k != SFILE_DIR;
}

/* A file that is being sent. References: one of the table of unfinished entries, and one of the
 * plan or of the reader that works on it. */
struct sfile {
	uint64_t id;
	enum sfile_kind kind;
	struct dir *dir;            /* parent; NULL for streams */
	char *name;
	uint64_t size;
	int64_t mtime_s, ctime_s;   /* ctime: of the walk, or of the opening for reading */
	uint32_t mtime_ns, ctime_ns;
	uint64_t dev, ino;
	_Atomic uint32_t refs;
	atomic_bool failed;         /* reported already: no more of it is sent */
	atomic_bool unwanted;       /* the sink leaves its own alone */
	bool asked;                 /* waits for a verdict; the source's lock */
	bool digest;                /* the sink wants its digest, which was not sent yet */
	bool digested;              /* the sink has asked for it; both: the source's lock */
	bool kept;                  /* the sink's journal has data of it; the source's lock */
	uint64_t address;           /* on its disk; set before it is ready */

	char *rel;                  /* with digests: its path below the destination, see
				     * struct file_report */
	struct sum *sum;            /* its digest; NULL: none */
	struct sfile *linked;       /* SFILE_LINK: the file that has the digest; a reference */
	struct bulk_range only;     /* only this range is sent, ranges are in it; length 0: all */
	struct bulk_range *ranges;  /* [nranges] data to send; NULL: everything from 0 to size */
	uint32_t nranges;

	/* Runs that the sink has; written by the control reader before the file is ready. */
	struct part_run *runs;
	uint32_t nruns, runs_room;

	/* Guarded by the plan's lock. */
	struct sfile *next;         /* in ready or active */
	struct sfile *left, *right; /* in a sweep's heap */
	uint32_t rank;
	uint32_t range;             /* cursor: index into ranges; at: bytes of that range that were
				     * given out */
	uint64_t at;
	uint32_t outstanding;       /* pieces that were given out and are not finished */
	bool exhausted;             /* nothing left to give out */

	/* The open file, shared by the readers that work on it. */
	pthread_mutex_t fd_lock;
	int fd;                     /* guarded by fd_lock; -1: not open */
};

struct sfile *sfile_new(uint64_t id, enum sfile_kind kind, struct dir *dir, const char *name);
void sfile_put(struct sfile *f);
/* All files of a list linked by next. */
void sfile_put_list(struct sfile *f);
static inline struct sfile *sfile_ref(struct sfile *f)
{
	atomic_fetch_add_explicit(&f->refs, 1, memory_order_relaxed);
	return f;
}

/* The offset after the last byte of f that may be sent. */
static inline uint64_t sfile_end(const struct sfile *f)
{
	return f->only.length ? f->only.offset + f->only.length : f->size;
}

/* True: f has data to send. An empty file, or a file that is one hole, has none. */
static inline bool sfile_has_data(const struct sfile *f)
{
	return f->kind != SFILE_PATH || (f->ranges ? f->nranges > 0 : f->size > 0);
}

/* ---- digests of files, sum.c ---- */

struct sum;

/* Give f a digest of this name. Its size and ranges are set. 0 or a negative errno. */
int sum_new(struct sfile *f, const char *name);
void sum_free(struct sum *m);
/* The digest of f; NULL: there is none, or it is not complete. Any thread. */
const char *sum_hex(const struct sfile *f);
/* For these, f may have no digest: they do nothing. 0 or a negative errno. sum_whole(): data is the
 * whole file. sum_stream(): data follows; len 0: the end. sum_file(): read the file behind fd. */
int sum_whole(struct sfile *f, const void *data, size_t len);
int sum_stream(struct sfile *f, const void *data, size_t len);
int sum_file(struct sfile *f, int fd, const atomic_bool *stop);
/* Block b, with one extent of f, was read. Returns the blocks that may be sent now, linked by next,
 * in order. NULL: b is held, and another call will return it. b NULL, when f has failed: the blocks
 * that are held. Any reader. */
struct block *sum_take(struct sfile *f, struct block *b);
/* True: the digest could not be computed. */
bool sum_failed(const struct sfile *f);

struct plan;

enum plan_answer {
	PLAN_SMALL, /* whole files */
	PLAN_PIECE, /* a piece of a big file */
	PLAN_CHECK, /* a file that must be compared with its runs first; then call plan_ready() */
	PLAN_DIGEST, /* whole files: the sink wants their digests */
	PLAN_FULL,  /* the next small file does not fit into room: make more */
	PLAN_IDLE,  /* no work now (only without wait) */
	PLAN_END,   /* no more work */
};

#define PLAN_BATCH 32

struct plan_work {
	struct sfile *files[PLAN_BATCH]; /* SMALL, DIGEST: references passed to the caller */
	uint32_t nfiles;
	struct sfile *file;              /* PIECE, CHECK: a reference too */
	uint64_t offset;
	uint32_t length;
};

/* block: bytes of a payload; files up to it are small. sorted: give files out by their
 * addresses. */
struct plan *plan_new(uint32_t block, bool stripe, bool sorted);
void plan_free(struct plan *p);
/* The sink wants f, and it may be read. Takes over a reference. Any thread. */
void plan_ready(struct plan *p, struct sfile *f);
/* Several at once, linked by next, in order. */
void plan_ready_list(struct plan *p, struct sfile *first, struct sfile *last, uint32_t n);
/* Limit the bytes of a piece, and of the small files in one block together, from now on. bytes is
 * rounded down to a multiple of BLOCK_MIN; the limit is at most the block of plan_new(). A small
 * file is not cut. Any thread. */
void plan_limit(struct plan *p, uint64_t bytes);
/* That limit, in bytes. Any thread. */
uint32_t plan_limited(const struct plan *p);
/* plan_expect(): a file waits for its verdict, and may become ready even after the walk.
 * plan_unexpect(): one file less. plan_next() returns PLAN_END only when no file is expected. Any
 * thread. */
void plan_expect(struct plan *p);
void plan_unexpect(struct plan *p);
bool plan_expects(struct plan *p);
/* True: nothing can be given out, because names or verdicts are missing. Any thread. */
bool plan_is_idle(struct plan *p);
/* The walk is over. */
void plan_close(struct plan *p);
/* Failure: all readers get PLAN_END. */
void plan_abort(struct plan *p);
/* Get work for a reader that has room bytes left in its open block; mine is the file of its last
 * piece, or NULL. Sleeps only if wait is true. Any thread. */
enum plan_answer plan_next(struct plan *p, const struct sfile *mine, uint32_t room, bool wait,
			   struct plan_work *w);
/* A piece of f was read, or will not be read. True: it was the last of the whole file; the caller
 * checks the file before it sends the piece. */
bool plan_piece_done(struct plan *p, struct sfile *f);
/* Hand out no more of f, a file without ranges (a timed run is over). Returns the number of bytes
 * that were given out. */
uint64_t plan_truncate(struct plan *p, struct sfile *f);

#endif
