// SPDX-License-Identifier: Apache-2.0
/* Entries at the sink: the files and directories that blocks belong to, and the destination. */
#ifndef RFTP_TRANSFER_SINK_ENTRY_H
#define RFTP_TRANSFER_SINK_ENTRY_H

#include "transfer/sets.h"
#include "transfer/sink/commit.h"
#include "transfer/sink/verify.h"
#include "transfer/transfer.h"

#define STRIPES 64
/* The most ranges that a transfer notes, for all its files together. Received and missing bytes
 * alternate at most 65536 times (the window of block numbers) and once for each range of an earlier
 * transfer (HAD_MAX). A range uses about 64 bytes, so this limits the memory that a source can use
 * up with tiny pieces. */
#define GOT_MAX (1 << 17)
#define HAD_MAX (1 << 16)

/* Limits for a source. Deeper directories fail. More directories that have not ended, or have
 * unfinished entries, end the transfer. */
#define SINK_DEPTH_MOST 4096
#define SINK_DIRS_MOST (1u << 19)

/* A directory that receives entries. References: one until ENTRY_DIR_END, and one for each child
 * that is not done. Its times and mode are set when the last reference is dropped. */
struct sink_dir {
	uint64_t id;
	struct sink_dir *parent; /* a reference; NULL at the top */
	struct dir *dir;         /* NULL: it could not be created (error), or nothing is written to
				  * files */
	struct meta meta;
	uint8_t *xattrs;
	uint32_t xattrs_len;
	bool set;                /* meta is to be set at the end */
	bool made;               /* created by this transfer: its name must be synced, too */
	atomic_bool name_synced;
	int error;               /* why dir is NULL */
	bool blocked;            /* with error: a name of another type is in the way, and will be
				  * removed */
	struct prune_names *names; /* with --delete, until ENTRY_DIR_END */
	uint32_t depth;          /* below the destination, at most SINK_DEPTH_MOST */
	_Atomic uint32_t refs;
	UT_hash_handle hh;       /* in sink_entries.dirs while entries may name it */
};

#define NOSIZE_TOKEN (INT64_MAX / 2)
#define KEPT_TOKEN 1

/* A file that is being received. References: one for the slot, one for each thread that works on
 * it. */
struct sink_file {
	uint64_t id;
	struct sink_dir *parent; /* a reference */
	char *name;
	struct meta meta;
	uint8_t flags;           /* ENTRY_F_* */
	uint64_t link_id;        /* of a hard link */
	_Atomic uint64_t final_size; /* with NOSIZE: from BULK_SIZES */
	_Atomic uint32_t refs;
	/* Bytes that have not been written, plus NOSIZE_TOKEN or KEPT_TOKEN while their number is
	 * not known. The thread that makes it 0 commits the file. */
	_Atomic int64_t left;
	/* The same, but reduced before a piece is written. A piece that would make it negative is
	 * refused, so left cannot reach 0 while a piece is being written. */
	_Atomic int64_t unreceived;
	atomic_bool asks;        /* its verdict was not sent: no data of it may arrive */
	atomic_bool offered;     /* runs of it were offered: the source will answer once which of
				  * them it keeps */
	atomic_bool over;        /* done, skipped or failed */
	/* With POLICY_CHECKSUM: digests of the existing file (has_digest: it could be read; ino:
	 * its inode) and of the source's. The thread that adds the second one decides. */
	uint8_t digest_here[RUN_DIGEST_BYTES], digest_there[RUN_DIGEST_BYTES];
	bool has_digest;
	uint64_t ino;
	atomic_bool digest_due;  /* the source owes its digest */
	_Atomic unsigned digests;
	bool other;              /* skipped; another file has its name */
	bool correct;            /* skipped; it has the same content, perhaps other attributes */
	bool later;              /* skipped; something was in the way, another attempt will come */
	bool counts;             /* the source counts it as a file; false for links */
	bool told;               /* --ack received: DONE was sent; set by the thread that made
				  * unreceived 0 */
	bool committed;          /* set by the thread that commits */
	bool drop;               /* its part is useless */
	bool journal;            /* a part that can be resumed */
	bool direct;             /* guarded by the stripe */
	bool writing;            /* guarded by the stripe: a writer works on it */
	struct block *queued;    /* guarded by the stripe: for that writer, oldest first */
	struct block *queued_last;
	struct part *part;       /* guarded by the stripe until it is set; then constant */
	uint8_t *ranges;         /* with SPARSE: as received, until the file is over. Guarded by the
				  * stripe once data may arrive */
	uint32_t nranges;
	struct bulk_range range; /* with ENTRY_F_RANGE: ranges are in it; length 0: all */
	_Atomic uint32_t range_sum; /* the CRC32C of the written bytes, shifted to the range's end;
				     * see sink_range_sum() */
	bool punch;              /* holes must be punched into its part; guarded as ranges */
	/* got: admitted bytes (unreceived counts the others), and the holes between them; empty for
	 * a file in one piece. had: bytes of an earlier transfer that were offered to the source.
	 * Guarded by the stripe, until the file is over. */
	struct spans got, had;
	/* For --ack verified: digests of the pieces of the file. */
	struct checks came;      /* of received pieces; guarded by the stripe until all is
				  * written */
	struct checks kept;      /* of pieces of an earlier transfer; used by the job's thread */
	uint8_t *xattrs;
	uint32_t xattrs_len;
	uint32_t details;        /* its share of sink_entries.details */
	enum sink_job job;
	/* When another writer holds the part: since when (0: none does), and the part's time stamp
	 * at the first look. Used by the thread that has the job. */
	uint64_t busy_ns;
	bool busy_seen;
	struct timespec busy_stamp;
	char *sum;               /* its digest, once it has come; guarded by entries.lock */
	struct sink_file *next;  /* in a list of jobs, or of links that wait for their target */
};

struct sink_entries {
	pthread_mutex_t stripes[STRIPES]; /* stripe_of() selects by the file's id */
	struct sink_file **slots;      /* [ahead]; each guarded by its stripe */
	uint32_t ahead;
	_Atomic uint64_t highest;      /* the last received entry id */
	_Atomic uint64_t live;         /* entries that are not over */
	_Atomic uint64_t details;      /* bytes of all files' ranges and attributes */
	spans_budget got_room, had_room; /* of all files' got and had */
	_Atomic uint64_t bytes_offered; /* sum of runs and files that the source has to read */
	atomic_bool pipe;              /* an entry without a size was received */
	struct done done;              /* has its own lock */
	pthread_mutex_t lock;
	struct buf *verdicts;          /* guarded by lock: not sent yet */
	pthread_mutex_t verdict_order; /* held while verdicts are taken and sent; before lock */
	struct sum_due *sums_due;      /* guarded by lock: by id */

	/* Used by the control reader only. */
	struct jobs named;             /* links of the present frame */
	struct sink_dir *dirs;         /* by id */
	struct sink_dir *base;         /* the destination, if it is a directory */
	bool base_known;
	struct dest dest;
	char *dest_path;
	_Atomic uint32_t ndirs;        /* struct sink_dir that exist, at most SINK_DIRS_MOST */
	_Atomic uint64_t dir_details;  /* bytes of directories' attributes */
};

/* ---- frames; the control reader's thread ---- */

int sink_entries(struct sink *s, struct buf *p, struct err *e);
int sink_sizes(struct sink *s, struct buf *p, bool kept);
int sink_digests(struct sink *s, struct buf *p);
int sink_sums(struct sink *s, struct buf *p);
int sink_source_failed(struct sink *s, struct buf *p);
/* No more entries will arrive. */
void sink_entries_end(struct sink *s);

/* ---- verdicts (policy.c); any thread ---- */

/* Answer the entry f, which asks. Control reader's thread. */
int sink_answer(struct sink *s, struct sink_file *f);
/* True: the existing file at f's name is left alone. */
bool sink_passes_over(struct sink *s, struct sink_file *f);
/* f is done: the existing file at its name stays, only its attributes are corrected. 1: they were,
 * or in a dry run would be; 0: they did not differ; a negative errno: f has failed. */
int sink_leave(struct sink *s, struct sink_file *f);
/* A directory has f's name, and is noted to be removed. */
bool sink_directory_in_the_way(struct sink *s, const struct sink_file *f);
/* Something of another type is in the way of f. It will be removed, and then the source sends f in
 * another attempt. */
int sink_leave_for_later(struct sink *s, struct sink_file *f);
/* f's directory could not be created. */
int sink_parent_failed(struct sink *s, struct sink_file *f);
int sink_flush_verdicts(struct sink *s);
/* Send the verdict on a file: its data may arrive from now on. */
int sink_wants(struct sink *s, struct sink_file *f, uint8_t verdict);
int sink_verdict(struct sink *s, uint64_t id, uint8_t verdict);
/* The ticker tells the source that the entry of this id is done. 0 or -ENOMEM. */
int sink_tell_done(struct sink *s, uint64_t id);

/* ---- digests of copied files, for the report (verify.c) ---- */

/* f is done: report it, but if it was copied with BULK_F_SUMS, not before its digest has come.
 * path: for people. Any thread. */
void sink_report_done(struct sink *s, struct sink_file *f, const char *path, enum file_end end);
/* At the end of the transfer: report the files without a digest from the source. */
void sink_sums_end(struct sink *s);
void sink_sums_free(struct sink *s);
/* (policy.c) Compute the digest of the existing file with f's name. If the source's digest is
 * there, too, decide; the caller flushes the verdicts. Commit threads. */
int sink_file_digest(struct sink *s, struct sink_file *f);

/* ---- files; any thread ---- */

struct sink_file *sink_file_get(struct sink *s, uint64_t id); /* a reference, or NULL */
void sink_file_put(struct sink *s, struct sink_file *f);
/* Free the ranges and attributes of a file that is over. */
void sink_file_drop_details(struct sink *s, struct sink_file *f);
char *sink_file_path(const struct sink_file *f);

/* ---- directories (dir.c) ---- */

/* If this process's user owns the directory fd, which may be O_PATH, let it read, change and search
 * it. 0 or a negative errno. */
int sink_open_up(int fd);

/* The place of any entry: *parent (the caller gets a reference) and *name, which may point into
 * namebuf; *name NULL: its contents go into parent itself. -EPROTO: its parent is not open. Other
 * errors: the destination cannot be used, the transfer ends. Control reader's thread, as the next
 * two. */
int sink_resolve_name(struct sink *s, const struct bulk_entry *en, char namebuf[256],
		      struct sink_dir **parent, const char **name, struct err *e);
int sink_on_dir(struct sink *s, const struct bulk_entry *en, struct err *e);
int sink_on_dir_end(struct sink *s, const struct bulk_entry *en, struct err *e);
void sink_dir_put(struct sink *s, struct sink_dir *d);
/* Sync the names in d, d's own name, and those of its parents that the transfer created. 0 or a
 * negative errno. */
/* Warn that a directory cannot be synced; debug that an attribute of path stays as it is. */
void sink_dir_unsynced(const char *path);
void sink_not_set(const char *path, const char *what, int code);
int sink_dir_sync(struct sink_dir *d);
/* The path of name in d; for name "" that of d itself, with a slash at the end. malloc'd; NULL: out
 * of memory. */
char *sink_dir_path(const struct sink_dir *d, const char *name);

/* ---- for files and directories ---- */

struct meta sink_entry_meta(const struct sink *s, const struct bulk_entry *en);
/* Setting attributes has ended with r and e. With the flag archive a refusal is no failure: 0. */
int sink_attributes_end(struct sink *s, int r, const struct err *e);
/* If the request preserves them: a malloc'd copy of en's attributes in *x, *len. Otherwise these
 * are unchanged. 0 or -ENOMEM. */
int sink_keep_xattrs(struct sink *s, const struct bulk_entry *en, uint8_t **x, uint32_t *len);

#endif
