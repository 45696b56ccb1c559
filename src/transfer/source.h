// SPDX-License-Identifier: Apache-2.0
/* The source's half of a transfer: walk -> plan -> read -> send. */
#ifndef RFTP_TRANSFER_SOURCE_H
#define RFTP_TRANSFER_SOURCE_H

#include "transfer/balance.h"
#include "transfer/inodes.h"
#include "transfer/numbers.h"
#include "transfer/plan.h"
#include "transfer/sched.h"
#include "transfer/seal.h"
#include "transfer/xfer.h"

#define READERS_MAX 64
/* Files from this size on are asked about before they are sent: the sink may have a
 * part of them. */
#define RESUME_MIN (4ull << 20)

struct reader;
struct source;

/* One of the source's paths, for its sender. */
struct route {
	struct source *s;
	uint32_t path;
	struct sched_rate rate;
	enum sched_distance distance;  /* from the storage's node */
	bool detour;                   /* blocks of this lost path find no room on others */
};

struct source {
	struct xfer x;                 /* first: roles cast back */

	/* Set before threads start. */
	struct root *root;
	const struct transfer_item *items;
	uint32_t nitems;
	const char *const *targets;    /* as transfer_client_config.targets */
	const char *cwd;               /* relative paths start here; "" */
	enum io_kind io;               /* engine of the readers */
	bool stripe;                   /* all readers on one file */
	bool sort;                     /* files by their addresses */
	struct dirs *dirs;
	struct plan *plan;
	/* The ticker's: when the blocks were last fitted to the rate, the bytes that had arrived,
	 * and the rates of the last seconds, bytes per second. */
	uint64_t fitted_ns, fitted_bytes, fitted_rates[3];
	struct bq *ready[NICS_MAX + 1]; /* filled blocks, per path */
	struct reader *readers[READERS_MAX]; /* NULL: it could not be started */
	unsigned nreaders;
	pthread_t walker;
	bool walker_on;

	struct sender *senders[NICS_MAX + 1]; /* guarded by x.lock until all are started */
	struct route routes[NICS_MAX + 1];
	struct balance balance;        /* of paths on several nodes */
	struct pace pace;              /* of all of them together */
	/* For who waits for a block of whichever of several paths. */
	pthread_mutex_t room_lock;
	pthread_cond_t room;
	uint64_t room_turn;            /* guarded by room_lock */
	_Atomic uint32_t stranded;     /* senders that look for room for a block of a lost path;
					* readers let them pass */

	uint32_t in_turn;              /* path of a stream's blocks; its reader's alone */

	/* Entries that the sink has not finished, guarded by lock. A slot holds the file, or
	 * NULL for an entry that has none; state tells whether the id is out. */
	pthread_mutex_t lock;
	pthread_cond_t moved;          /* oldest moved, or a place was told: for the walker */
	struct sfile **slots;          /* [ahead] by id modulo ahead */
	uint8_t *out;                  /* [ahead]: 1 while not done */
	uint32_t *weights;             /* [ahead]: bytes of ranges and attributes of those */
	uint64_t details;              /* their sum */
	uint32_t ahead;
	uint64_t oldest, next;         /* ids: the first not done; the next to be given */
	uint64_t settled;              /* verdicts, ends of entries and places that were told */

	/* On one host: the directories that named ones become, which the walk must not go
	 * into. Guarded by lock. */
	struct inodes places;
	uint64_t places_due;           /* asked about and not told yet */

	/* Numbers of blocks that are acknowledged, guarded by lock: the sink remembers only so
	 * many above the lowest that it has not got. */
	struct numbers acked;
	pthread_cond_t acked_more;
	_Atomic uint64_t next_block;   /* changed under lock */

	_Atomic uint64_t entries, files, done_files, failed, skipped, left_out;
	_Atomic uint64_t bytes_known, bytes_acked, bytes_kept;
	_Atomic unsigned readers_done; /* threads that have nothing more to read */
	atomic_bool walked;            /* all entries are out */
	atomic_bool sent;              /* BULK_SENT is out */
	_Atomic uint64_t reader_wait_ns, plan_wait_ns; /* for the bottleneck */
};

/* The common half of both entry points: run s, whose x, items, root and paths are set
 * up, to its end. 0 or the negative errno of the transfer. */
int source_run(struct source *s, struct transfer_result *r, bool *in_line, struct err *e);
void source_init(struct source *s);
void source_destroy(struct source *s);

/* source_frames.c: xfer_role.frame */
int source_frame(struct xfer *x, uint8_t type, struct buf *p, struct err *e);

/* source_walk.c */
void *source_walk(void *arg);

/* source_read.c */
unsigned readers_wanted(const struct source *s);
int readers_start(struct source *s, struct err *e);
void readers_join(struct source *s);

/* source_route.c */
/* Before any thread is there: what is known of each path. */
void source_routes(struct source *s);
/* Start the senders of all paths. */
int source_send(struct source *s, struct err *e);
/* A block to be filled, of the path that it is to go by: one that is free now, or NULL; one
 * that is waited for, NULL once the transfer has failed. */
struct block *source_try_block(struct source *s);
struct block *source_block(struct source *s);
/* Now and then: shall blocks stay by their storage's node? The ticker. */
void source_rebalance(struct source *s);
/* The path of such a block. */
uint32_t source_path_of(const struct source *s, const struct block *b);

/* The next block's number; sleeps while it would be too far ahead of one that is still
 * under way, as on a channel that has stalled. -ECANCELED: the transfer has failed. */
int source_number(struct source *s, uint64_t *number);
/* The sink has the block of this number. Any thread. */
void source_acked(struct source *s, uint64_t number);
/* It has written b: its journals note the data. Any thread. */
void source_kept(struct source *s, const struct block *b);
/* A file that will not be whole: told to the sink and counted once. f may be NULL for
 * a name that never became an entry; path is for people. */
void source_file_failed(struct source *s, struct sfile *f, const char *path, int code,
			const char *text);
/* Open f; a descriptor or a negative errno. */
int source_open(struct source *s, const struct sfile *f, int flags);
/* A name for people; malloc'd. */
char *sfile_path(const struct sfile *f);

#endif
