// SPDX-License-Identifier: Apache-2.0
/* The sink's half of a transfer: receive -> write -> commit, and the entries that say
 * what the blocks are. */
#ifndef RFTP_TRANSFER_SINK_H
#define RFTP_TRANSFER_SINK_H

#include "transfer/checks.h"
#include "transfer/dest.h"
#include "transfer/done.h"
#include "transfer/inodes.h"
#include "transfer/numbers.h"
#include "transfer/outlet.h"
#include "transfer/places.h"
#include "transfer/seal.h"
#include "transfer/spans.h"
#include "transfer/xfer.h"


#define WRITERS_MAX 64
#define CLERKS_MAX 16
#define STRIPES 64
/* Ranges of files that are noted at once in a transfer, all of them together. What has come and
 * what not takes turns at most 65536 times, as far as the numbers of blocks may lie apart, and
 * at each range that was there before; twice that, as the sets' room doubles. At 24 bytes each
 * it is what a source that sends crumbs can have of our memory. */
#define GOT_MAX (1 << 18)
#define HAD_MAX (1 << 16)

/* Limits for a source: how deep directories may be nested (deeper ones fail), and how many may be
 * open, which are not ended or have entries on their way (one more ends the transfer). */
#define SINK_DEPTH_MOST 4096
#define SINK_DIRS_MOST (1u << 19)

/* A directory that entries go into. References: one until ENTRY_DIR_END, one for each
 * child that is not done. Its times and mode are set when the last goes. */
struct kdir {
	uint64_t id;
	struct kdir *parent;     /* a reference; NULL at the top */
	struct dir *dir;         /* NULL: it could not be made (error) or is not to be */
	struct meta meta;
	uint8_t *xattrs;
	uint32_t xattrs_len;
	bool set;                /* meta is to be set at the end */
	bool made;               /* by us: its name must be synced too */
	atomic_bool name_synced;
	int error;               /* why dir is NULL; 0: dry run */
	uint32_t depth;          /* below the destination, at most SINK_DEPTH_MOST */
	char *name;              /* in a dry run, where dir is NULL; of the top one: its path */
	_Atomic uint32_t refs;
	UT_hash_handle hh;       /* in sink.dirs while entries may name it */
};

enum kjob { JOB_NONE, JOB_EMPTY, JOB_BEGIN, JOB_COMMIT };

/* A file on its way in. References: the slot, and whoever works on it. */
struct kfile {
	uint64_t id;
	struct kdir *parent;     /* a reference */
	char *name;
	struct meta meta;
	uint8_t flags;           /* ENTRY_F_* */
	uint64_t link_id;        /* of a hard link */
	_Atomic uint64_t final_size; /* with NOSIZE: what BULK_SIZES told */
	_Atomic uint32_t refs;
	/* Bytes that have not been written, plus NOSIZE_TOKEN or KEPT_TOKEN while it is
	 * not known how many come. Who brings it to 0 commits the file. */
	_Atomic int64_t left;
	/* The same, counted down before a piece is written: what would take it below 0 is
	 * refused, so that left cannot reach 0 while a piece is being written. */
	_Atomic int64_t unreceived;
	atomic_bool asks;        /* its verdict is not out: nothing of it may come */
	atomic_bool offered;     /* runs of it: the source is to say, once, what it keeps */
	atomic_bool over;        /* done, skipped or failed */
	bool other;              /* passed over, and what has its name is another file */
	bool differs;            /* passed over, the same file with other attributes */
	bool counts;             /* as a file, as the source counts them: not links */
	bool told;               /* --ack received: DONE is out; by who brought unreceived
				  * to 0 */
	bool committed;          /* set by who commits */
	bool drop;               /* its part is not worth keeping */
	bool journal;            /* a part that can be resumed */
	bool direct;             /* guarded by the stripe */
	bool writing;            /* guarded by the stripe: a writer is at it */
	struct block *queued;    /* guarded by the stripe: for that writer, oldest first */
	struct block *queued_last;
	struct part *part;       /* guarded by the stripe until it is set; stays */
	uint8_t *ranges;         /* as they came; with SPARSE, until it is over. Guarded by the
				  * stripe once anything of it may come */
	uint32_t nranges;
	bool punch;              /* its part needs its holes made; as ranges */
	/* Which bytes have come or are about to be written, with the holes between them: what
	 * unreceived counts, but for what comes whole in one piece. And those that an earlier
	 * transfer left and the source was told of. Guarded by the stripe, until it is over. */
	struct spans got, had;
	/* What --ack verified compares: pieces of the file, as they are to be. */
	struct checks came;      /* guarded by the stripe until all is down */
	struct checks kept;      /* what an earlier transfer left; the clerk's that begins */
	uint8_t *xattrs;
	uint32_t xattrs_len;
	uint32_t details;        /* its part of the sink's */
	enum kjob job;
	/* Another writer holds the part: since when (0: nobody), and when that one last wrote,
	 * as first looked at. His who has the job. */
	uint64_t busy_ns;
	bool busy_seen;
	struct timespec busy_stamp;
	struct kfile *next;      /* in the jobs, or waiting for a link's target */
};

struct jobs {
	struct kfile *first, **end; /* references; end is NULL while there are none */
};

#define NOSIZE_TOKEN (INT64_MAX / 2)
#define KEPT_TOKEN 1

/* A file that hard links may name, until it has come to its end. Guarded by lock, but for
 * what does not change. */
enum link_state { LINK_PENDING, LINK_THERE, LINK_FAILED };

#define LINK_GONE 2

struct linkable {
	struct dir *dir;         /* a reference; NULL: there is none */
	struct kfile *waiting;
	uint32_t refs;           /* the table's, and of who makes links to it */
	uint8_t state;           /* enum link_state */
	bool last;               /* no further link comes */
	char name[];
};

struct writer;

/* A receiver's path. */
struct sink_route {
	struct sink *s;
	uint32_t path;
};

struct sink {
	struct xfer x;                 /* first: roles cast back */

	/* Set before threads start. */
	struct root *root;
	const struct transfer_item *item; /* where to */
	const char *cwd;               /* relative destinations start here; "" */
	struct dirs *dirset;
	struct bq *arrived;            /* blocks of all paths */
	struct writer *writers[WRITERS_MAX]; /* NULL: it could not be started */
	unsigned nwriters;
	pthread_t clerks[CLERKS_MAX];
	unsigned nclerks;
	struct done done;
	uint32_t ahead;
	enum io_kind io;               /* engine of the writers */
	bool direct;                   /* big files are written past the page cache */
	bool dry, discard, stream;     /* dry run; null:; standard output */
	struct outlet outlet;          /* open with stream */
	bool sync;                     /* --ack synced or more, and it makes a difference */
	bool verify;                   /* --ack verified */
	bool early;                    /* --ack received */
	bool keep_old;                 /* what exists is neither replaced nor changed */

	struct sink_route routes[NICS_MAX + 1];
	struct receiver *receivers[NICS_MAX + 1]; /* guarded by x.lock until all are started */

	/* Locks in order of precedence: lock, then stripes, then job_lock. */
	pthread_mutex_t lock;
	pthread_mutex_t stripes[STRIPES]; /* of a file by its id */
	struct kfile **slots;          /* [ahead]; each guarded by its stripe */
	_Atomic uint64_t highest;      /* last entry id that came */
	struct block *parked;          /* guarded by lock: blocks before their entries */
	struct numbers *numbers;       /* guarded by lock */
	/* Guarded by lock. By entry id: addresses of struct linkable; of those that have come
	 * to their end, which can be many, numbers of places, which are odd, or LINK_GONE. */
	struct inodes linkables;
	struct places places;
	struct buf *verdicts;          /* guarded by lock: not sent yet */
	spans_budget got_room, had_room; /* of all files' got and had */

	_Atomic unsigned parts;        /* open, each with a descriptor */
	unsigned parts_most;           /* with more the writers leave some to the clerks first */
	pthread_mutex_t job_lock;
	pthread_cond_t job_more, job_done;
	struct kfile *jobs, **jobs_end; /* guarded by job_lock */
	struct kfile *later;           /* guarded by job_lock: to be tried again */
	uint64_t later_ns;             /* guarded by job_lock: when */
	bool jobs_closed;              /* guarded by job_lock */
	unsigned clerks_busy;          /* guarded by job_lock */

	/* The control reader's alone. */
	struct jobs named;             /* links of the frame at hand */
	struct kdir *dirs;             /* by id */
	struct kdir *base;             /* the destination directory, when it is one */
	bool base_known;
	struct dest dest;
	char *dest_path;

	/* Standard output: blocks in order of number. Guarded by lock. */
	uint64_t stream_next;
	struct block *stream_held;

	atomic_bool walked;            /* BULK_WALKED came */
	atomic_bool sent;              /* BULK_SENT came */
	atomic_bool pipe;              /* an entry without a size came */
	_Atomic uint64_t live;         /* entries that are not over */
	_Atomic uint64_t details;      /* bytes of ranges and attributes of files */
	_Atomic uint32_t ndirs;              /* struct kdir that exist, at most SINK_DIRS_MOST */
	_Atomic uint64_t dir_details;  /* of attributes of directories */
	_Atomic uint64_t files, failed, skipped, entries;
	_Atomic uint64_t bytes, bytes_known, bytes_kept, bad_blocks;
	_Atomic uint64_t bytes_offered; /* of runs that the source compares */
	_Atomic uint64_t writer_wait_ns;
};

void sink_init(struct sink *s);
void sink_destroy(struct sink *s);
/* The ticker tells the source that the entry of this id is done. Any thread. 0 or -ENOMEM. */
int sink_tell_done(struct sink *s, uint64_t id);
int sink_run(struct sink *s, struct transfer_result *r, bool *in_line, struct err *e);

/* sink_entry.c: control reader's thread */
int sink_entries(struct sink *s, struct buf *p, struct err *e);
int sink_sizes(struct sink *s, struct buf *p, bool kept);
int sink_source_failed(struct sink *s, struct buf *p);
/* sink_dir.c: no entry comes any more. */
void sink_entries_end(struct sink *s);

/* sink_verdict.c */
/* Is what stands at f's name left alone? */
bool sink_passes_over(struct sink *s, struct kfile *f);
/* The account may not replace the file at f's name: f has failed. */
bool sink_refuses(struct sink *s, struct kfile *f);
/* sink_passes_over() is true: give the same file the mode and owner that are to be kept, but where the account may not
 * change what exists. 0 or a negative errno. */
int sink_correct(struct sink *s, struct kfile *f);
int sink_flush_verdicts(struct sink *s);
int sink_verdict(struct sink *s, uint64_t id, uint8_t verdict);
/* The same for a file of which something may come from now on. */
int sink_wants(struct sink *s, struct kfile *f, uint8_t verdict);

/* sink_dest.c: control reader's thread */
/* A directory below parent, which it holds; NULL: memory is out. */
struct kdir *kdir_new(struct sink *s, uint64_t id, struct kdir *parent);
/* Where an entry that was named belongs: parent (a reference for the caller) and name,
 * which may lie in namebuf; NULL: its contents go into parent itself. */
int sink_place_top(struct sink *s, const struct bulk_entry *en, char namebuf[256],
		   struct kdir **parent, const char **name, struct err *e);

/* sink_write.c */
int writers_start(struct sink *s, struct err *e);
void writers_join(struct sink *s);
/* sink_check.c */
/* Blocks whose entries have come since. */
void sink_unpark(struct sink *s);

/* sink_admit.c */
/* at up to end of f is there from before: may the source be told? False: it has to be sent
 * again, there is no room to note it. */
bool kfile_had(struct sink *s, struct kfile *f, uint64_t at, uint64_t end);
/* As many bytes of f as are to come are down. Negative: they are not those that were missing,
 * and the transfer has failed with that. */
int kfile_check_whole(struct sink *s, struct kfile *f);

/* sink_commit.c: any thread */
int clerks_start(struct sink *s, struct err *e);
void clerks_join(struct sink *s);
void sink_job(struct sink *s, struct kfile *f, enum kjob job); /* takes a reference */
/* f has its name: done, once that is as safe as was asked for. Then it goes to later, which
 * the caller hands over when there is no more: a directory is synced once for all of it. */
void kfile_named(struct sink *s, struct kfile *f, struct jobs *later);
void sink_jobs(struct sink *s, struct jobs *later); /* it is empty after this */
/* sink_busy.c: clerks, and who commits */
/* Another writer holds f's part: try f->job again later, for he may be a session that is
 * about to end. Takes a reference; f is the clerks' then. False: he is alive, or has been
 * there for too long. */
bool busy_again(struct sink *s, struct kfile *f);
/* With job_lock: those whose time has come are jobs again. */
void busy_due(struct sink *s);
/* With job_lock: sleep until there may be jobs. */
void busy_wait(struct sink *s);

/* All of f is down. */
void kfile_complete(struct sink *s, struct kfile *f);
void kfile_done(struct sink *s, struct kfile *f, bool skipped);
/* The common end of both and of what the source could not send: gives up the slot and
 * settles the links that wait for f. over has been set. */
void kfile_over(struct sink *s, struct kfile *f, enum link_state state);
void kfile_failed(struct sink *s, struct kfile *f, int code, const char *text);
/* The spec of f's part. */
struct part_spec kfile_spec(struct sink *s, struct kfile *f);
struct part *kfile_part(struct sink *s, struct kfile *f, struct err *e);
/* The same for writers: a new part waits while too many are open and clerks can close some. */
struct part *kfile_part_in_turn(struct sink *s, struct kfile *f, struct err *e);

struct kfile *kfile_get(struct sink *s, uint64_t id); /* a reference, or NULL */
void kfile_put(struct sink *s, struct kfile *f);
void kdir_put(struct sink *s, struct kdir *d);
/* d's names are on stable storage after this, and so is its own, up to what was there
 * before us. */
int kdir_sync(struct kdir *d);
/* The path of name in d; of d itself, with a slash behind it, for "". */
char *kdir_path(const struct kdir *d, const char *name);
char *kfile_path(const struct kfile *f);
static inline pthread_mutex_t *stripe_of(struct sink *s, uint64_t id)
{
	return &s->stripes[id % STRIPES];
}

/* sink_verify.c */
/* All of f, which has been synced and has size bytes, lies on the medium as it came, or as
 * it was found to be. Its holes are zeros. The committer's. */
int kfile_verify(struct kfile *f, uint64_t size, struct err *e);

/* sink_hole.c */
/* Make zeros of fd's file, which goes up to size, but for ranges (as on the wire). 0 or a
 * negative errno. */
int make_holes(int fd, uint64_t size, const uint8_t *ranges, uint32_t n);

/* sink_hardlink.c */
/* Links to f's entry may come. -EPROTO: to too many. */
int linkable_add(struct sink *s, const struct kfile *f);
/* f has come to its end: make the links that wait for it. */
void linkable_settle(struct sink *s, const struct kfile *f, enum link_state state);
/* No further link to this entry comes. */
void linkable_last(struct sink *s, uint64_t id);
void linkables_free(struct sink *s);
/* Make f the link that it is, at once or when its target is there. Control reader. */
int kfile_hardlink(struct sink *s, struct kfile *f);

/* sink_link.c */
/* A link name in d, pinned as dfd. -EEXIST: with keep_old, another file has the name. -EINVAL:
 * it is a part's name. -EBUSY: another transfer is writing it. */
int put_symlink(struct dir *d, int dfd, const char *name, const char *target, bool keep_old);
int put_hardlink(int from_dfd, const char *from, struct dir *d, int dfd, const char *name,
		 bool keep_old);
/* That either failed with r, in words. */
const char *put_link_why(int r, bool keep_old);

#endif
