// SPDX-License-Identifier: Apache-2.0
/* The walk: its state, and the entries that it sends. Its thread only. */
#ifndef RFTP_TRANSFER_SOURCE_WALK_H
#define RFTP_TRANSFER_SOURCE_WALK_H

#include "transfer/source/source.h"

/* A directory that is only implied by a list of names. */
struct implied {
	char *path;
	uint64_t id;
	UT_hash_handle hh;
};

struct walk {
	struct source *s;
	struct buf *frame;             /* entries that are not sent yet */
	struct buf *xattrs;            /* of the present entry */
	uint64_t flushed_ns;
	struct sfile *first, *last;    /* files that may be read once their entries are sent */
	uint32_t nfiles;
	struct walk_dir { uint64_t id; bool partial; } *ids; /* the directories from the top to the
				        * present one; partial: not all names were read */
	size_t depth, ids_room;
	const char *top;               /* the named source, for messages */
	uint8_t top_flags;             /* ENTRY_F_TOP | ... of the next entry, then 0 */
	struct inodes links;           /* first names of hard links; left: number of names not seen
				        * yet */
	bool links_full;               /* this was logged */
	struct implied *implied;
	const struct filter *filter;   /* NULL: none */
	bool names;                    /* the sink must know all names (--delete) */
	const char *sum;               /* the digest of files; NULL: none */
	char *rel;                     /* with a filter or digests: the last path that was asked about */
	size_t rel_len, rel_room;      /* length of the present directory in it */
	uint64_t dev;                  /* filesystem of the named source */
	struct bulk_piece piece;       /* of the named source */
};

/* ---- entries (entry.c) ---- */

/* Functions that return an int return 0 or a negative errno, which ends the walk; -ECANCELED: the
 * transfer has failed elsewhere. */

int walk_flush(struct walk *w);
/* Make the id and its file visible to the control reader. */
void walk_publish(struct source *s, uint64_t id, struct sfile *f);
int walk_put_entry(struct walk *w, const struct bulk_entry *e);
/* Begin an entry in the present directory; e has its details and other flags. */
int walk_begin_entry(struct walk *w, struct bulk_entry *e, uint8_t type, const char *name,
		     const struct meta *m);
/* Report a name that did not become an entry; reason NULL: the text for code. */
void walk_failed(struct walk *w, const char *path, int code, const char *reason);
/* The present directory has a name that is not sent. */
int walk_put_unsent(struct walk *w, const char *name);
/* Send an entry without data: a directory, or a link. A dry run reports it as path in dir. linked:
 * the file with the digest of a hard link, or NULL. */
int walk_put_name(struct walk *w, struct bulk_entry *e, uint8_t type, struct dir *dir,
		  const char *path, const char *name, const struct meta *m,
		  struct sfile *linked);
/* Read the extended attributes of fd for e. */
int walk_xattrs(struct walk *w, struct bulk_entry *e, int fd);
/* Send f's entry, and hand f to the readers: now, after the verdict, or not at all if it has no
 * data. */
int walk_put_file(struct walk *w, struct bulk_entry *e, struct sfile *f, uint64_t data);
/* Send a name of a file: as a hard link if an earlier name of the file was sent. */
int walk_put_file_name(struct walk *w, struct dir *parent, const char *path,
		       const char *name, const struct meta *m);

#endif
