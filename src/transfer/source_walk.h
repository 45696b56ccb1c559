// SPDX-License-Identifier: Apache-2.0
/* The walk's own state and steps, shared by what walks a tree (source_walk.c), what tells of
 * a file (source_file.c) and what begins with the things that were named (source_named.c).
 * The walker's thread alone. */
#ifndef RFTP_TRANSFER_SOURCE_WALK_H
#define RFTP_TRANSFER_SOURCE_WALK_H

#include "transfer/source.h"

#define IMPLIED_MOST 65536u /* and those above the last one */

/* A directory that only a list of names implies. */
struct implied {
	char *path;
	uint64_t id;
	UT_hash_handle hh;
};

struct walk {
	struct source *s;
	struct buf *frame;             /* entries not sent yet */
	struct buf *xattrs;            /* of the entry being made */
	uint64_t flushed_ns;
	struct sfile *first, *last;    /* files to be read once their entries are out */
	uint32_t nfiles;
	uint64_t *ids;                 /* of the directories we are in */
	size_t depth, ids_room;
	const char *top;               /* what was named, for messages */
	uint8_t top_flags;             /* ENTRY_F_TOP | ... of the next entry, then 0 */
	uint32_t weight;               /* bytes of details of the next entry, then 0 */
	struct inodes links;           /* first names of hard links; left: not seen yet */
	bool links_full;               /* has been said */
	struct implied *implied;
};

/* Each returns 0 or a negative errno, which ends the walk; -ECANCELED: the transfer has
 * failed elsewhere. */

/* A fresh entry below the directory we are in, with the next id; not yet visible. */
int walk_begin_entry(struct walk *w, struct bulk_entry *e, uint8_t type, const char *name,
		     const struct meta *m);
/* The id becomes visible to the control reader, with its file (a reference) or NULL. */
void walk_publish(struct source *s, uint64_t id, struct sfile *f);
int walk_put_entry(struct walk *w, const struct bulk_entry *e);
/* The same for what is no file: it becomes visible, and in a dry run the sink is asked about
 * it, so that what it would do can be told. */
int walk_publish_name(struct walk *w, struct bulk_entry *e, enum sfile_kind kind,
		      struct dir *dir, const char *name);
/* Send what there is of entries, then have their files read. */
int walk_flush(struct walk *w);
/* Have f, a reference, read once its entry is out. */
void walk_read_later(struct walk *w, struct sfile *f);
/* Send f's entry, take its reference, and see that its data bytes are read. */
int walk_put_file(struct walk *w, struct bulk_entry *e, struct sfile *f, uint64_t data);
int walk_push_dir(struct walk *w, uint64_t id);
int walk_enter_dir(struct walk *w, struct dir *dir, const char *name, const struct meta *m);
int walk_leave_dir(struct walk *w);
int walk_end_dir(struct walk *w, uint64_t id);
/* Sleep until the sink has told what all named directories so far become. */
int walk_wait_places(struct walk *w);
/* Whether this directory is one of those. */
bool walk_is_place(struct walk *w, uint64_t dev, uint64_t ino);
/* A regular file: path in parent, or without a parent a path that was named. */
int walk_put_name(struct walk *w, struct dir *parent, const char *path, const char *name,
		  const struct meta *m);
/* The walk_fn of a tree. */
int walk_on_item(void *arg, const struct walk_item *it);
/* A name that never became an entry. */
void walk_failed(struct walk *w, const char *path, int code);

/* source_named.c: item i of what was named, whatever it is. */
int walk_named(struct walk *w, uint32_t i);
/* The directories that a list of names implied get nothing more. */
int walk_end_implied(struct walk *w);

#endif
