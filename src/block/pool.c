// SPDX-License-Identifier: Apache-2.0
/* Blocks, and pools of them: one mapping cut into blocks, the free ones on a stack. */
#include "block/block.h"

#include <assert.h>
#include <linux/mman.h>
#include <sys/mman.h>

struct pool {
	/* Set by pool_new() and never changed. */
	uint32_t nblocks;
	uint32_t payload;
	size_t stride;
	size_t bytes;
	size_t mapped;          /* bytes, rounded up to huge pages */
	uint8_t *base;
	struct block *blocks;
	struct extent *extents; /* BLOCK_EXTENTS for each block */
	struct pool_hooks hooks;
	bool huge;
	bool registered;

	pthread_mutex_t lock; /* guards all below; while it is held, only notify may take locks */
	pthread_cond_t freed; /* a block came back, or the pool was closed */
	struct block *free;   /* linked by next, the most recently used first */
	uint32_t nfree;       /* snapshots read it without the lock, so stores are atomic */
	uint32_t sleepers;    /* threads asleep in pool_get(); 0: no signal is sent */
	bool closed;
	void (*notify)(void *arg);
	void *notify_arg;
};

/* ---- blocks ---- */

void block_reset(struct block *b)
{
	b->len = 0;
	b->nextents = 0;
	b->number = 0;
}

int block_add(struct block *b, uint64_t file, uint64_t offset, uint32_t length)
{
	if (b->nextents == BLOCK_EXTENTS || length > b->cap - b->len)
		return -ENOSPC;
	b->extents[b->nextents++] = (struct extent){
		.file = file,
		.offset = offset,
		.length = length,
		.pos = b->len,
	};
	b->len += length;
	return 0;
}

/* ---- creation ---- */

/* Does not touch the pages: the kernel allocates each page when a stage first writes to it, on the
 * node that bind chose. */
static int pool_map(struct pool *p, enum page_choice pages, struct err *e)
{
	size_t huge = (p->bytes + POOL_HUGE_PAGE - 1) / POOL_HUGE_PAGE * POOL_HUGE_PAGE;
	int access = PROT_READ | PROT_WRITE, flags = MAP_PRIVATE | MAP_ANONYMOUS;
	void *base = MAP_FAILED;

	if (pages == PAGES_AUTO || pages == PAGES_HUGE) {
		base = mmap(NULL, huge, access, flags | MAP_HUGETLB | MAP_HUGE_2MB, -1, 0);
		p->huge = base != MAP_FAILED;
	}
	if (!p->huge && pages == PAGES_HUGE)
		return err_set(e, -ENOSPC, "cannot have %zu MiB in huge pages (%s): set "
			       "vm.nr_hugepages %zu higher", p->bytes >> 20, strerror(errno),
			       p->bytes / POOL_HUGE_PAGE + 1);
	if (!p->huge)
		base = mmap(NULL, p->bytes, access, flags, -1, 0);
	if (base == MAP_FAILED)
		return err_sys(e, -errno, "cannot map %zu bytes for %u block%s", p->bytes,
			       p->nblocks, plural(p->nblocks));
	p->base = base;
	p->mapped = p->huge ? huge : p->bytes;
	if (!p->huge && pages != PAGES_SMALL)
		(void)madvise(base, p->bytes, MADV_HUGEPAGE); /* advice: a kernel may lack it */
	return 0;
}

/* A calloc() of this size maps untouched zero pages, so the extents use no memory yet. */
static int make_blocks(struct pool *p, struct err *e)
{
	p->blocks = calloc(p->nblocks, sizeof(*p->blocks));
	p->extents = calloc(p->nblocks, BLOCK_EXTENTS * sizeof(*p->extents));
	if (!p->blocks || !p->extents)
		return err_nomem(e);
	/* In reverse order, so that the first block is on top of the stack. */
	for (uint32_t i = p->nblocks; i-- > 0;) {
		struct block *b = &p->blocks[i];

		b->base = p->base + i * p->stride;
		b->cap = p->payload;
		b->index = i;
		b->extents = &p->extents[(size_t)i * BLOCK_EXTENTS];
		b->pool = p;
		b->next = p->free;
		p->free = b;
	}

	p->nfree = p->nblocks;
	return 0;
}

/* Bind before registering: registration pins the pages on their node. */
static int run_hooks(struct pool *p, const struct pool_config *c, struct err *e)
{
	const struct pool_hooks *h = &p->hooks;
	int rc;

	rc = c->bind ? c->bind(c->bind_arg, p->base, p->mapped, p->huge) : 0;
	if (rc)
		return err_sys(e, rc, "cannot place %zu bytes of block memory", p->bytes);
	rc = h->reg ? h->reg(h->arg, p->base, p->bytes) : 0;
	if (rc)
		return err_sys(e, rc, "cannot register %zu bytes of block memory", p->bytes);
	p->registered = true;
	return 0;
}

static void pool_release(struct pool *p)
{
	if (p->registered && p->hooks.unreg)
		p->hooks.unreg(p->hooks.arg, p->base, p->bytes);
	if (p->base)
		munmap(p->base, p->mapped);
	free(p->blocks);
	free(p->extents);
	pthread_cond_destroy(&p->freed);
	pthread_mutex_destroy(&p->lock);
	free(p);
}

struct pool *pool_new(const struct pool_config *c, struct err *e)
{
	struct pool *p;

	if (c->blocks < 1) {
		err_set(e, -EINVAL, "a pool needs at least one block");
		return NULL;
	}
	if (c->payload < BLOCK_MIN || c->payload > BLOCK_MAX || c->payload % 4096) {
		err_set(e, -EINVAL, "block size %u: must be a multiple of 4096 from %u to %u",
			c->payload, BLOCK_MIN, BLOCK_MAX);
		return NULL;
	}
	p = calloc(1, sizeof(*p));
	if (!p) {
		err_nomem(e);
		return NULL;
	}
	p->nblocks = c->blocks;
	p->payload = c->payload;
	p->stride = (size_t)BLOCK_HEAD + c->payload; /* both are whole pages */
	p->bytes = p->stride * c->blocks;
	if (c->hooks)
		p->hooks = *c->hooks;
	pthread_mutex_init(&p->lock, NULL);
	pthread_cond_init(&p->freed, NULL);
	if (pool_map(p, c->pages, e) || make_blocks(p, e) || run_hooks(p, c, e)) {
		pool_release(p);
		return NULL;
	}
	return p;
}

void pool_free(struct pool *p)
{
	if (!p)
		return;
	/* The thread that returned the last block may still be releasing the lock. */
	pthread_mutex_lock(&p->lock);
	assert(p->nfree == p->nblocks);
	assert(p->sleepers == 0);
	pthread_mutex_unlock(&p->lock);
	pool_release(p);
}

/* ---- get and put ---- */

/* Call with the lock held; NULL: closed, or no block is free. */
static struct block *take_free(struct pool *p)
{
	struct block *b = p->closed ? NULL : p->free;

	if (!b)
		return NULL;
	p->free = b->next;
	b->next = NULL;
	__atomic_store_n(&p->nfree, p->nfree - 1, __ATOMIC_RELAXED);
	return b;
}

struct block *pool_get(struct pool *p)
{
	LOCK_GUARD(guard, &p->lock);

	while (!p->free && !p->closed) {
		p->sleepers++;
		pthread_cond_wait(&p->freed, &p->lock);
		p->sleepers--;
	}
	return take_free(p);
}

struct block *pool_try_get(struct pool *p)
{
	LOCK_GUARD(guard, &p->lock);

	return take_free(p);
}

void pool_put(struct block *b)
{
	struct pool *p = b->pool;

	block_reset(b);
	b->channel = 0;
	b->sent_at = 0;
	b->user = NULL;
	LOCK_GUARD(guard, &p->lock);
	b->next = p->free;
	p->free = b;
	__atomic_store_n(&p->nfree, p->nfree + 1, __ATOMIC_RELAXED);

	/* Signal while the lock is held: after its release another thread may free p. */
	if (p->sleepers)
		pthread_cond_signal(&p->freed);
	if (p->notify && p->nfree == 1)
		p->notify(p->notify_arg);
}

void pool_close(struct pool *p)
{
	LOCK_GUARD(guard, &p->lock);

	p->closed = true;
	pthread_cond_broadcast(&p->freed);
	if (p->notify)
		p->notify(p->notify_arg);
}

void pool_set_notify(struct pool *p, void (*fn)(void *arg), void *arg)
{
	LOCK_GUARD(guard, &p->lock);

	p->notify = fn;
	p->notify_arg = arg;
}

/* ---- properties ---- */

uint32_t pool_blocks(const struct pool *p)
{
	return p->nblocks;
}

uint32_t pool_payload(const struct pool *p)
{
	return p->payload;
}

uint32_t pool_free_blocks(const struct pool *p)
{
	return __atomic_load_n(&p->nfree, __ATOMIC_RELAXED);
}

void *pool_base(const struct pool *p)
{
	return p->base;
}

size_t pool_bytes(const struct pool *p)
{
	return p->bytes;
}

bool pool_is_huge(const struct pool *p)
{
	return p->huge;
}

size_t pool_stride(const struct pool *p)
{
	return p->stride;
}
