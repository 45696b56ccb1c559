// SPDX-License-Identifier: Apache-2.0
/* What to read next. Small files are handed out in runs that fill a block, big ones in
 * pieces of a block. In pipelining mode a reader keeps to one file while there are
 * files enough; in striping mode all readers share the first one. Either way a reader
 * with nothing of its own helps with what others have begun. Files go in the order of the
 * walk or, on disks whose heads move, in that of their addresses: of those that are ready
 * the next one upwards, so that the first is not held up for the last. */
#ifndef RFTP_TRANSFER_PLAN_H
#define RFTP_TRANSFER_PLAN_H

#include "proto/proto.h"
#include "storage/storage.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

enum sfile_kind {
	SFILE_PATH,   /* name in dir; without dir name is a path that was named */
	SFILE_STREAM, /* read to its end by the reader that gets its one piece */
	SFILE_ZERO,
	/* No files, nothing is read of them: in dry runs their names are told. */
	SFILE_LINK,   /* a symbolic link, or a further name of a file */
	SFILE_DIR,    /* dir itself, its name is empty; without dir: by its name */
};

static inline bool sfile_kind_counts(enum sfile_kind k)
{
	return k != SFILE_LINK && k != SFILE_DIR;
}

/* A file on its way out. Two may hold it: the table of entries that are not done, and
 * the plan or the reader at work on it. */
struct sfile {
	uint64_t id;
	enum sfile_kind kind;
	struct dir *dir;            /* parent; NULL for streams */
	char *name;
	uint64_t size;
	int64_t mtime_s, ctime_s;   /* ctime: of the walk, or since it was opened to be read */
	uint32_t mtime_ns, ctime_ns;
	uint64_t dev, ino;
	_Atomic uint32_t refs;
	atomic_bool failed;         /* told already: no more of it is sent */
	bool asked;                 /* waits for a verdict; the source's lock */
	bool kept;                  /* the sink's journal has data of it; the source's lock */
	uint64_t address;           /* on its disk; set before it is ready */

	struct bulk_range *ranges;  /* data to send, nranges of them; NULL: all of 0..size */
	uint32_t nranges;

	/* Runs that the sink has; set by the control reader before the file is ready. */
	struct part_run *runs;
	uint32_t nruns;

	/* Guarded by the plan's lock. */
	struct sfile *next;         /* in ready or active */
	struct sfile *left, *right; /* in a sweep's heap */
	uint32_t rank;
	uint32_t range;             /* cursor: index into ranges and bytes of it given out */
	uint64_t at;
	uint32_t outstanding;       /* pieces given out and not finished */
	bool exhausted;             /* nothing left to give out */

	/* The open file, shared by the readers at work on it. */
	pthread_mutex_t fd_lock;
	int fd;                     /* guarded by fd_lock; -1: not open */
	bool direct;                /* guarded by fd_lock */
};

struct sfile *sfile_new(uint64_t id, enum sfile_kind kind, struct dir *dir, const char *name);
void sfile_put(struct sfile *f);
static inline struct sfile *sfile_ref(struct sfile *f)
{
	atomic_fetch_add_explicit(&f->refs, 1, memory_order_relaxed);
	return f;
}

/* Whether a piece of f is to be sent at all: of an empty file or one hole there is none. */
static inline bool sfile_has_data(const struct sfile *f)
{
	return f->kind != SFILE_PATH || (f->ranges ? f->nranges > 0 : f->size > 0);
}

struct plan;

enum plan_answer {
	PLAN_SMALL, /* whole files */
	PLAN_PIECE, /* a piece of a big one */
	PLAN_CHECK, /* a file whose runs must be compared first; give it back by plan_ready */
	PLAN_FULL,  /* the next small file does not fit into room: make more */
	PLAN_IDLE,  /* nothing now (only without wait) */
	PLAN_END,   /* nothing any more */
};

#define PLAN_BATCH 32

struct plan_work {
	struct sfile *files[PLAN_BATCH]; /* SMALL: references passed to the caller */
	uint32_t nfiles;
	struct sfile *file;              /* PIECE, CHECK: a reference too */
	uint64_t offset;
	uint32_t length;
};

/* block: bytes of a payload; files up to it are small. */
struct plan *plan_new(uint32_t block, bool stripe);
void plan_free(struct plan *p);
/* Give files out by their addresses; before any is ready. */
void plan_sort(struct plan *p);
/* f is wanted by the sink and may be read; takes a reference over. Any thread. */
void plan_ready(struct plan *p, struct sfile *f);
/* Several at once, linked by next, in order. */
void plan_ready_list(struct plan *p, struct sfile *first, struct sfile *last, uint32_t n);
/* From now on a piece, and small files that share a block, have at most so many bytes: a multiple of
 * BLOCK_MIN, up to the block of plan_new(). A small file is not cut for it. Any thread. */
void plan_limit(struct plan *p, uint64_t bytes);
/* That limit, in bytes. Any thread. */
uint32_t plan_limited(const struct plan *p);
/* Another file may become ready although the walk is over (it waits for a verdict):
 * plan_next ends only when each has come or been let go. */
void plan_expect(struct plan *p);
void plan_unexpect(struct plan *p);
bool plan_expects(struct plan *p);
/* The walk is over. */
void plan_close(struct plan *p);
/* Failure: everybody gets PLAN_END. */
void plan_abort(struct plan *p);
/* Work for a reader that has room bytes left in its open block; mine is the file whose
 * piece it had last, or NULL. Sleeps only with wait. */
enum plan_answer plan_next(struct plan *p, const struct sfile *mine, uint32_t room, bool wait,
			   struct plan_work *w);
/* A piece is read (or will not be). True when it was the last of the whole file: who
 * gets this checks the file before letting the piece go. */
bool plan_piece_done(struct plan *p, struct sfile *f);
/* Give out nothing more of f, a file without ranges (a timed run is over): how many
 * bytes were given out. */
uint64_t plan_truncate(struct plan *p, struct sfile *f);

#endif
