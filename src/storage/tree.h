// SPDX-License-Identifier: Apache-2.0
/* What walking and removing trees need of directories beyond storage.h. */
#ifndef RFTP_STORAGE_TREE_H
#define RFTP_STORAGE_TREE_H

#include "storage/storage.h"

enum {
	TREE_NAMES = 2,  /* only name and type of what is not a directory matter */
	TREE_PARTS = 4,  /* part files are reported too */
};

/* walk_tree with a choice. */
int tree_walk(struct dir *d, unsigned int flags, struct root *follow, walk_fn *fn, void *arg);

/* d is this one, as fstat of its descriptor said. */
void dir_know(struct dir *d, const struct stat *st);
/* Open parent's descriptor again from child's, when child's is open and parent's is
 * not, so that the way up a deep tree does not begin at its top each time. */
void dir_revive(struct dir *parent, struct dir *child);

/* What a file made in d with a mode becomes by itself: default ACLs, setgid
 * directories, a umask. Learnt from the first file, per directory. */
struct dir_made {
	uint32_t mode, uid, gid;
};

bool dir_made(struct dir *d, uint32_t asked, struct dir_made *m);
void dir_learn_made(struct dir *d, uint32_t asked, const struct dir_made *m);
/* The filesystem has no O_TMPFILE: known of d, handed on to new subdirectories. */
bool dir_no_tmpfile(struct dir *d);
void dir_set_no_tmpfile(struct dir *d);
/* d, open as fd, is known to hold no part that was left before d came into use here: after
 * many calls it is listed once. false: not known. */
bool dir_no_parts(struct dir *d, int fd);
/* Remove the parts, journals and temporaries in d, open as fd, that are older than the age of its
 * set and that no writer holds; once for each d, and once a second for a directory that has several
 * in a row. Nothing where the set has no age. Any thread. */
void dir_remove_old_parts(struct dir *d, int fd);

#endif
