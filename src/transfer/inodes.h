// SPDX-License-Identifier: Apache-2.0
/* A table of files by device and inode that holds millions: 24 bytes for each, in at most
 * twice the room. For one thread. */
#ifndef RFTP_TRANSFER_INODES_H
#define RFTP_TRANSFER_INODES_H

#include <stddef.h>
#include <stdint.h>

struct inode {
	uint64_t ino;
	uint64_t id;         /* the caller's, not 0 */
	uint32_t dev;        /* which of devs */
	uint32_t left;       /* the caller's */
};

/* All zero: empty. */
struct inodes {
	struct inode *v;     /* id 0: free */
	size_t room, n;      /* room is a power of two, or 0 */
	uint64_t *devs;      /* there are few */
	uint32_t ndevs;
	uint32_t dev;        /* the one that was found last */
};

/* NULL: it is not there. Good until the table changes. */
struct inode *inodes_find(struct inodes *t, uint64_t dev, uint64_t ino);
/* What is not there yet. NULL: memory is out. */
struct inode *inodes_add(struct inodes *t, uint64_t dev, uint64_t ino, uint64_t id);
void inodes_remove(struct inodes *t, struct inode *i);
void inodes_clear(struct inodes *t);

#endif
