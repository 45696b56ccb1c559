// SPDX-License-Identifier: Apache-2.0
/* rftp sync --delete at the sink: the names that the source does not have. While entries arrive
 * they are only noted; after everything else went well they are removed, or moved to the trash. */
#ifndef RFTP_TRANSFER_SINK_PRUNE_H
#define RFTP_TRANSFER_SINK_PRUNE_H

#include "transfer/sets.h"
#include "transfer/xfer.h"

/* Limits for a source: names in directories that have not ended, 16 bytes each; and bytes of the
 * names to be removed. */
#define PRUNE_NAMES_MAX (1u << 24)
#define PRUNE_BYTES_MAX (256u << 20)

struct sink;
struct sink_dir;

/* The names to be removed in one directory. */
struct prune_dir {
	struct prune_dir *next;
	char *path, *rel;         /* path ends with a slash; rel as in struct prune_names */
	uint64_t dev, ino;        /* of the directory: another one may get its name */
	struct timespec mtime;    /* set again afterwards, with BULK_F_TIMES */
	char *names;              /* for each name: a mark, the name, NUL */
	size_t len, room;
};

enum { MARK_EXTRA = '-', MARK_IN_THE_WAY = '!' };

/* The names that the source has in one directory. */
struct prune_names {
	uint64_t *v;              /* [n] digests: if two are equal, a name too many is kept */
	size_t n, room;
	char *name;               /* of the directory at the source; "": the patterns of the filter
				   * begin below it */
	bool top;                 /* of a named source */
	struct prune_dir *extra;  /* the names to be removed in it; NULL: none so far */
};

/* Used by the control reader until the end of all entries, then by the transfer's thread. */
struct prune {
	bool on;
	uint32_t flags;           /* SYNC_... */
	char *trash;              /* its path; NULL: names are removed */
	struct prune_dir *first;
	size_t bytes;             /* of the names to be removed */
	size_t nnames;            /* in directories that have not ended */
	bool from_empty;          /* the source is an empty directory, the destination is not */
	bool unread;              /* a directory that something is in the way of was not read whole */
	struct inodes trash_at;   /* the trash, if it exists; and above it */
};

/* Read the request. 0 or -ENOMEM. Before threads start. */
int prune_prepare(struct sink *s);
void prune_free(struct sink *s);

/* d, from entry en, can get entries. 0 or -ENOMEM. */
int prune_begin_dir(struct sink *s, struct sink_dir *d, const struct bulk_entry *en);
/* The source has name in d. 0, -E2BIG with text, or -ENOMEM. */
int prune_note(struct sink *s, struct sink_dir *d, const char *name, struct err *e);
/* The existing name in d, of another type than the entry with this name, must be removed first.
 * false: it may not be; then the entry fails. */
bool prune_in_the_way(struct sink *s, struct sink_dir *d, const char *name);
/* All names of d have arrived, or with partial not all of them. 0, or a negative errno with text. */
int prune_end_dir(struct sink *s, struct sink_dir *d, bool partial, struct err *e);
void prune_names_free(struct sink *s, struct prune_names *n); /* NULL is harmless */

/* ---- for remove.c ---- */

/* Is the directory path the trash, or above it? */
enum trash_place { NOT_TRASH, IS_TRASH, ABOVE_TRASH };
enum trash_place prune_trash_place(struct prune *p, const char *path, uint64_t dev, uint64_t ino);
/* True: the filter leaves rel out, so it is not removed. */
bool prune_protects(const struct sink *s, const char *rel, bool is_dir);
/* Count and report that a file or directory cannot be listed or removed; past: "listed", for
 * example. */
void prune_failed(struct sink *s, const char *path, int code, const char *past);

/* Remove the noted names, and tell the source; in a dry run only tell it. All files are done. The
 * transfer's thread. (remove.c) */
void prune_run(struct sink *s);

#endif
