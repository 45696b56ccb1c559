// SPDX-License-Identifier: Apache-2.0
/* Sets that grow with a transfer: numbers of blocks, ids of entries, inodes of files. */
#ifndef RFTP_TRANSFER_SETS_H
#define RFTP_TRANSFER_SETS_H

#include "proto/proto.h"

#include <pthread.h>
#include <stdatomic.h>

/* Numbers are assigned in order, and few blocks are in flight at a time. So all missing numbers are
 * within this many of the lowest one. */
#define NUMBERS_WINDOW 65536u

struct numbers {
	uint64_t low;                         /* all numbers below have arrived */
	bool has[NUMBERS_WINDOW];             /* [number modulo window], from low on */
};

/* 1: the number is new, and noted now; 0: it has arrived before; -EPROTO: it is too far ahead. */
int numbers_add(struct numbers *n, uint64_t number);

/* A table of files by device and inode, about 100 bytes each. For one thread. */

struct sfile;
struct inode {
	uint64_t key[2];     /* device, inode */
	uint64_t id;         /* the caller's */
	uint32_t left;       /* the caller's */
	struct sfile *owner; /* the caller's */
	UT_hash_handle hh;
};

/* All zero: empty. */
struct inodes {
	struct inode *v;
	size_t n;
};

/* NULL: not found. */
struct inode *inodes_find(struct inodes *t, uint64_t dev, uint64_t ino);
/* Add an inode that is not in t; its address does not change. NULL: out of memory. */
struct inode *inodes_add(struct inodes *t, uint64_t dev, uint64_t ino, uint64_t id);
void inodes_remove(struct inodes *t, struct inode *i);
void inodes_clear(struct inodes *t);

/* Several sets can share it: the number of ranges that they may still add. The first range of a set
 * is not counted. Any thread. */
typedef _Atomic int64_t spans_budget;

struct span {
	uint64_t at, end;
};

/* All zero: empty. Ranges that touch are joined. */
struct spans {
	struct span one;        /* its first range; most sets have no other */
	void *others;           /* a tree of tsearch(3) */
	uint32_t nothers;
};

/* Add the range from at up to end (at < end <= INT64_MAX), in logarithmic time. 0; -EEXIST: part of
 * it is in s already; -ENOBUFS: the budget is used up; -ENOMEM. On failure s is unchanged. */
int spans_add(struct spans *s, uint64_t at, uint64_t end, spans_budget *b);
/* The first range that ends after at; false: there is none. */
bool spans_next(const struct spans *s, uint64_t at, struct span *out);
/* Is the whole range from at up to end in s? */
bool spans_hold(const struct spans *s, uint64_t at, uint64_t end);
static inline bool spans_empty(const struct spans *s)
{
	return !s->one.end;
}

/* Empty s and return its ranges to the budget. */
void spans_clear(struct spans *s, spans_budget *b);

/* Collects the ids of entries that are done; the sink reports them to the source as ranges. */

struct done {
	pthread_mutex_t lock;
	uint64_t *ids;      /* [n], not sorted; guarded by lock, as are n and room */
	size_t n, room;
};

int done_init(struct done *d);
void done_destroy(struct done *d);
/* Any thread. 0 or -ENOMEM. */
int done_add(struct done *d, uint64_t id);
/* Call fn for each range of the ids added since the last flush, ascending; fn's failure ends it. */
int done_flush(struct done *d, int (*fn)(void *arg, uint64_t first, uint64_t last), void *arg);

/* The data ranges of a file, in order. With a limit on their number, neighbours are joined. */

struct range_list {
	struct bulk_range *v;  /* [n], in order; adjacent ranges are joined; the list's owner frees
				* it */
	uint32_t n, room;
	uint32_t most;         /* ranges; 0: no limit */
	uint64_t bytes;        /* in all of them */
	uint64_t gap;          /* holes up to this many bytes count as data */
};

/* Note data at off, after all noted data. If there are too many ranges the smallest holes count as
 * data from now on: their zeros are sent. 0 or -ENOMEM. */
int range_list_add(struct range_list *g, uint64_t off, uint64_t len);

#endif
