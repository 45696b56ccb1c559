// SPDX-License-Identifier: Apache-2.0
/* The source's half of a transfer: walk -> plan -> read -> send. */
#ifndef RFTP_TRANSFER_SOURCE_SOURCE_H
#define RFTP_TRANSFER_SOURCE_SOURCE_H

#include "transfer/placement/sched.h"
#include "transfer/seal.h"
#include "transfer/sets.h"
#include "transfer/source/plan.h"
#include "transfer/xfer.h"

/* The source asks the sink about files from this size on before it sends them, because the sink may
 * have a part. */
#define RESUME_MIN (4ull << 20)

struct source;

/* A path of the source, for its sender. */
struct route {
	struct source *s;
	uint32_t path;
	struct sched_rate rate;
	enum sched_distance distance;  /* between the path's node and the storage's */
	bool detour;                   /* blocks of this lost path found no room on other paths */
};

struct source {
	struct xfer x;                 /* first: a pointer to it is cast to struct source */

	/* Set before threads start. */
	enum io_kind io;               /* engine of the readers */
	bool stripe;                   /* all readers on one file */
	bool sort;                     /* files by their addresses */
	struct dirs *dirs;
	struct plan *plan;
	/* Used by the ticker: the time when blocks were last fitted to the rate, the bytes that had
	 * arrived by then, and the rates of the last seconds in bytes per second. */
	uint64_t fitted_ns, fitted_bytes, fitted_rates[3];
	struct bq *ready[NICS_MAX + 1]; /* filled blocks, per path */
	struct file_threads readers;
	pthread_t walker;
	bool walker_on;

	struct route routes[NICS_MAX + 1];
	struct balance balance;        /* of paths on several nodes */
	struct pace pace;              /* of all of them together */
	/* For threads that wait for a block of any of several paths. */
	pthread_mutex_t room_lock;
	pthread_cond_t room;
	uint64_t room_turn;            /* guarded by room_lock */
	_Atomic uint32_t stranded;     /* senders that need a free block for a block of a lost path;
				        * readers let them go first */

	uint32_t in_turn;              /* path of a stream's blocks; used only by its reader */

	/* Entries that the sink has not finished, guarded by lock. */
	pthread_mutex_t lock;
	pthread_cond_t moved;          /* for the walker: oldest has moved, or a place has
				        * arrived */
	struct source_slot {
		struct sfile *file;    /* NULL: an entry without one */
		uint32_t weight;       /* bytes of ranges and attributes */
		bool out;              /* the id is unfinished */
	} *slots;                      /* [ahead] by id modulo ahead */
	uint64_t details;              /* the sum of the weights */
	uint32_t ahead;
	uint64_t oldest, next;         /* ids: the first not done; the next to be assigned */
	uint64_t settled;              /* verdicts, ends of entries and places that the sink has
				        * sent */

	/* On one host: the sink's directories for named sources, which the walk must not enter.
	 * Guarded by lock. */
	struct inodes places;
	struct inodes above;           /* with BULK_F_SYNC: the directories above them */
	uint64_t places_due;           /* places that the sink has not sent yet */

	/* Numbers of acknowledged blocks, guarded by lock: the sink remembers only a limited number
	 * above the lowest missing one. */
	struct numbers acked;
	uint64_t acks;                 /* their number */
	pthread_cond_t acked_more;
	/* x.count.blocks, the next number, changes under lock. */

	_Atomic unsigned readers_done; /* readers that have nothing more to read */

	pthread_mutex_t sums_lock;
	struct buf *sums;              /* guarded by sums_lock: digests that wait to be sent */
};

void source_init(struct source *s);
void source_destroy(struct source *s);

/* frames.c: xfer_role.frame */
int source_frame(struct xfer *x, uint8_t type, struct buf *p, struct err *e);

/* walk.c */
void *source_walk(void *arg);

/* read.c */
unsigned readers_wanted(const struct source *s);
int readers_start(struct source *s, struct err *e);

/* route.c */
/* Before threads start: fill in the distance and the first rate of each path. */
void source_routes(struct source *s);
/* Start the senders of all paths. */
int source_send(struct source *s, struct err *e);
/* A free block to fill, of the path on which it will be sent. source_try_block(): NULL if none is
 * free now. source_block() sleeps; NULL: the transfer has failed. Any thread. */
struct block *source_try_block(struct source *s);
struct block *source_block(struct source *s);
/* Decide again whether blocks stay near their storage's node. Called often by the ticker. */
void source_rebalance(struct source *s);
/* The path of a block from source_block(). */
uint32_t source_path_of(const struct source *s, const struct block *b);

/* Assign the next block number; sleeps while it would be too far ahead of an unacknowledged one,
 * for example on a stalled channel. 0; -ECANCELED: the transfer has failed. Any thread. */
int source_number(struct source *s, uint64_t *number);
/* The sink has the block of this number. Any thread. */
void source_acked(struct source *s, uint64_t number);
/* The sink has written b: note the data that its journals have. Any thread. */
void source_kept(struct source *s, const struct block *b);
/* A file will not be complete: tell the sink and count it, once for each file. f NULL: a name that
 * never became an entry. path is for people. Any thread. */
void source_file_failed(struct source *s, struct sfile *f, const char *path, int code,
			const char *text);
/* In a get the sink reports the files. */
static inline bool sends_sums(const struct source *s)
{
	return (s->x.c->request.flags & BULK_F_SUMS) && !s->x.client;
}

/* sum.c: send the complete digest of f, and of its hard links so far, if the sink wants it, soon. 0 or
 * a negative errno. Any thread. */
int source_send_sum(struct source *s, struct sfile *f);
/* The same for the entry link, which was sent: a hard link to f. */
int source_send_link_sum(struct source *s, struct sfile *f, uint64_t link);
/* Send the digests that wait. 0 or a negative errno. Any thread. */
int source_flush_sums(struct source *s);
/* Open f; a descriptor or a negative errno. */
int source_open(struct source *s, const struct sfile *f, int flags);
/* A name for people; malloc'd. */
char *sfile_path(const struct sfile *f);

#endif
