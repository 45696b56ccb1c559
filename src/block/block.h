// SPDX-License-Identifier: Apache-2.0
/* block: the blocks of the data plane, the pools that own them, and the queues between stages. It
 * knows no verbs, no files and no wire format. */
#ifndef RFTP_BLOCK_H
#define RFTP_BLOCK_H

#include "util/util.h"

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
	uint32_t pos;    /* in the payload: the sum of the lengths of earlier extents */
};

struct pool;

/* Only the owner writes a block; the next stage becomes the owner of a block that it gets. base,
 * cap, pool and index never change. */
struct block {
	uint8_t *base;        /* page-aligned; BLOCK_HEAD bytes, then the payload */
	uint32_t cap;         /* payload capacity in bytes */
	uint32_t len;         /* payload bytes in use */
	uint32_t index;       /* in its pool */
	uint32_t nextents;
	struct extent *extents; /* room for BLOCK_EXTENTS; the pool owns the memory */
	uint64_t number;      /* unique in the transfer */
	uint32_t channel;     /* the transport's number of the channel */
	uint32_t sent_at;     /* for the transport's own use */
	struct pool *pool;
	struct block *next;   /* for the owner's own lists */
	void *user;           /* for the stage that owns it */
};

static inline uint8_t *block_payload(const struct block *b)
{
	return b->base + BLOCK_HEAD;
}

/* Clear number, extents and length; the bytes stay. */
void block_reset(struct block *b);

/* Record an extent: the next length bytes of the payload, which the caller has written at
 * block_payload(b) + b->len, belong to file at offset. 0; -ENOSPC: table or payload is full. */
int block_add(struct block *b, uint64_t file, uint64_t offset, uint32_t length);

/* ---- pools ---- */

/* How a pool's memory is registered; either function may be NULL. reg is called once for the whole
 * region, before the first block is handed out; unreg after the last block came back. reg returns 0
 * or a negative errno. */
struct pool_hooks {
	void *arg;
	int (*reg)(void *arg, void *base, size_t bytes);
	void (*unreg)(void *arg, void *base, size_t bytes);
};

#define POOL_HUGE_PAGE (2u << 20)

enum page_choice {
	PAGES_SMALL,
	PAGES_AUTO,        /* reserved huge pages if they suffice, else transparent ones */
	PAGES_TRANSPARENT, /* transparent huge pages; small ones where the kernel has none */
	PAGES_HUGE,        /* reserved huge pages, or no pool: -ENOSPC */
};

struct pool_config {
	uint32_t blocks;    /* number of blocks, at least 1 */
	uint32_t payload;   /* bytes each, BLOCK_MIN..BLOCK_MAX, a multiple of 4096 */
	enum page_choice pages;
	const struct pool_hooks *hooks; /* copied; NULL: plain memory */
	/* Called once with the whole mapping, before any page is touched, to bind it to a node. 0
	 * or a negative errno; NULL: any node. */
	int (*bind)(void *arg, void *base, size_t bytes, bool huge);
	void *bind_arg;
};

/* One mapping for all blocks. NULL with the reason in e. */
struct pool *pool_new(const struct pool_config *c, struct err *e);
/* All blocks must be back. Unregisters and unmaps the memory. */
void pool_free(struct pool *p);

/* Take a free block; the one that was used last comes first, because its bytes are still in the
 * cache. pool_get() sleeps while none is free and returns NULL once the pool is closed;
 * pool_try_get() returns NULL at once. The caller owns the block. Any thread. */
struct block *pool_get(struct pool *p);
struct block *pool_try_get(struct pool *p);
/* Return b, reset, to its pool. Any thread. */
void pool_put(struct block *b);
/* Close the pool: every present and later pool_get() returns NULL. Any thread. */
void pool_close(struct pool *p);

/* fn(arg) is called after a put into an empty pool and after a close, while the pool's locks are
 * held: it must not call the pool. Set it before other threads use the pool. */
void pool_set_notify(struct pool *p, void (*fn)(void *arg), void *arg);
uint32_t pool_blocks(const struct pool *p);
uint32_t pool_payload(const struct pool *p);
uint32_t pool_free_blocks(const struct pool *p); /* a snapshot */
/* The whole region, for registration with the kernel or a device. */
void *pool_base(const struct pool *p);
size_t pool_bytes(const struct pool *p);
bool pool_is_huge(const struct pool *p); /* the memory uses reserved huge pages */
size_t pool_stride(const struct pool *p); /* bytes from one block's base to the next */

/* ---- queues ---- */

struct bq;

/* The pools bound the number of blocks in a queue. NULL: out of memory. */
struct bq *bq_new(void);
void bq_free(struct bq *q); /* returns blocks still inside to their pools */
/* Hand b to the queue. On 0 the queue owns b; on -EPIPE (queue closed) the caller still does. Any
 * thread. */
int bq_push(struct bq *q, struct block *b);

/* Take the oldest block; sleeps while there is none. 0 with *b, which the caller owns; 1: the queue
 * was closed without an error and is empty; or a negative errno: its closing cause. Any thread. */
int bq_pop(struct bq *q, struct block **b);
/* The same without sleeping; -EAGAIN: the queue is open and empty. */
int bq_try_pop(struct bq *q, struct block **b);

/* A snapshot. Any thread. */
bool bq_is_empty(struct bq *q);
/* Accept no more pushes. cause 0: bq_pop() returns the remaining blocks, then 1. cause < 0:
 * bq_pop() returns cause at once. The first error stays, and replaces a clean end. Any thread. */
void bq_close(struct bq *q, int cause);

/* fn(arg) is called after a push into an empty queue and after a close, from the pusher's thread,
 * so that it can wake an event loop. Pushes before this call do not call fn. */
void bq_set_notify(struct bq *q, void (*fn)(void *arg), void *arg);

#endif
