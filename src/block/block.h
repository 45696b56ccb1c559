// SPDX-License-Identifier: Apache-2.0
/* The currency of the data plane: blocks, the pools they come from and the
 * queues they travel in. Knows no verbs, no files, no wire format. */
#ifndef RFTP_BLOCK_H
#define RFTP_BLOCK_H

#include "util/util.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Bytes before the payload of every block: wire header and extent table. */
#define BLOCK_HEAD 4096u
/* Extents that fit in the table: (4096 - 64) / 20, see rftp-protocol(7). */
#define BLOCK_EXTENTS 200u
#define BLOCK_MIN (64u << 10)   /* smallest payload */
#define BLOCK_MAX (64u << 20)   /* largest payload */

/* A piece of a file, at pos in the payload. */
struct extent {
	uint64_t file;   /* entry id */
	uint64_t offset; /* in the file */
	uint32_t length;
	uint32_t pos;    /* in the payload; the sum of the lengths before it */
};

struct pool;

/* Written by its owner alone; whoever is handed a block owns it. base, cap, pool,
 * index and mr never change. */
struct block {
	uint8_t *base;        /* page-aligned; BLOCK_HEAD bytes, then the payload */
	uint32_t cap;         /* payload capacity in bytes */
	uint32_t len;         /* payload bytes in use */
	uint32_t index;       /* in its pool */
	uint32_t nextents;
	struct extent *extents; /* BLOCK_EXTENTS of them, with the pool's memory */
	uint64_t number;      /* unique in the transfer */
	uint32_t channel;     /* on which it came or went */
	uint32_t sent_at;     /* free for the transport */
	struct pool *pool;
	struct block *next;   /* for the owner's own lists */
	void *user;           /* for the stage that owns it */
};

static inline uint8_t *block_payload(const struct block *b)
{
	return b->base + BLOCK_HEAD;
}

/* Forget number, extents and length; the bytes stay. */
void block_reset(struct block *b);
/* Note that the next length bytes of the payload are file's from offset. The caller
 * has filled them at payload + len. 0; -ENOSPC when table or payload is full. */
int block_add(struct block *b, uint64_t file, uint64_t offset, uint32_t length);

/* ---- pools ---- */

/* How a pool's memory is registered; any may be NULL. Each gets arg. reg is called once for
 * the whole region, before the first block is handed out; unreg after the last came back. 0 or
 * a negative errno. */
struct pool_hooks {
	void *arg;
	int (*reg)(void *arg, void *base, size_t bytes);
	void (*unreg)(void *arg, void *base, size_t bytes);
};

#define POOL_HUGE_PAGE (2u << 20)

enum page_choice {
	PAGES_SMALL,
	PAGES_AUTO,        /* huge ones that were set aside if they suffice, else transparent ones */
	PAGES_TRANSPARENT, /* the kernel is asked for huge pages; small ones where it has none */
	PAGES_HUGE,        /* that were set aside, or no pool: -ENOSPC */
};

struct pool_config {
	uint32_t blocks;    /* how many, at least 1 */
	uint32_t payload;   /* bytes each, BLOCK_MIN..BLOCK_MAX, a multiple of 4096 */
	enum page_choice pages;
	const struct pool_hooks *hooks; /* copied; NULL: plain memory */
	/* Called once before any page is touched, with the whole mapping: say which node it is
	 * to come from. 0 or a negative errno; NULL: it comes from any. */
	int (*bind)(void *arg, void *base, size_t bytes, bool huge);
	void *bind_arg;
};

/* One mapping for all blocks. NULL with the reason in e. */
struct pool *pool_new(const struct pool_config *c, struct err *e);
/* All blocks must be back. */
void pool_free(struct pool *p);
/* The block used last comes first: its bytes are still in the cache. pool_get
 * sleeps while there is none and returns NULL once the pool is closed. Any thread. */
struct block *pool_get(struct pool *p);
struct block *pool_try_get(struct pool *p);
/* Return b, reset, to its pool. Any thread. */
void pool_put(struct block *b);
/* Wake every sleeper in pool_get, now and later, with NULL. */
void pool_close(struct pool *p);
/* fn(arg) is called after a put into an empty pool and after a close, with locks of the pool
 * held: it must not call the pool. Set before others put. */
void pool_set_notify(struct pool *p, void (*fn)(void *arg), void *arg);
uint32_t pool_blocks(const struct pool *p);
uint32_t pool_payload(const struct pool *p);
uint32_t pool_free_blocks(const struct pool *p); /* a snapshot */
/* The whole region, for registration with the kernel or a device. */
void *pool_base(const struct pool *p);
size_t pool_bytes(const struct pool *p);
bool pool_is_huge(const struct pool *p); /* out of pages that were set aside */
size_t pool_stride(const struct pool *p); /* bytes from one block's base to the next */

/* ---- queues ---- */

struct bq;

/* A queue of at most max blocks (0: as many as come). */
struct bq *bq_new(uint32_t max);
void bq_free(struct bq *q); /* returns blocks still inside to their pools */
/* Hand b to the queue; sleeps while it is full. On 0 the queue owns b; on -EPIPE
 * (queue closed) the caller still does. Any thread. */
int bq_push(struct bq *q, struct block *b);
/* The oldest block; sleeps while there is none. 0 with *b; 1 when the queue was
 * closed without an error and is drained; the negative errno it was closed with.
 * Any thread. */
int bq_pop(struct bq *q, struct block **b);
/* The same without sleep: -EAGAIN when there is none now. */
int bq_try_pop(struct bq *q, struct block **b);
/* No more pushes. cause 0: poppers drain what is inside, then get 1. cause < 0:
 * poppers get it at once; the first error stays, but overrides a clean end. */
void bq_close(struct bq *q, int cause);
uint32_t bq_len(struct bq *q);
/* fn(arg) is called after a push into an empty queue and after a close, from the
 * pusher's thread, so that an event loop can be woken. What came before this is not
 * told. */
void bq_set_notify(struct bq *q, void (*fn)(void *arg), void *arg);

#endif
