// SPDX-License-Identifier: Apache-2.0
/* Pools: one mapping cut into blocks, the free ones on a stack. */
#include "block/block.h"

#include <assert.h>
#include <errno.h>
#include <linux/mman.h>
#include <sys/mman.h>

struct pool {
	/* Set by pool_new() and never changed. */
	uint32_t nblocks;
	uint32_t payload;
	size_t stride;
	size_t bytes;
	size_t mapped;          /* with what huge pages have more */
	uint8_t *base;
	struct block *blocks;
	struct extent *extents; /* BLOCK_EXTENTS for each block */
	struct pool_hooks hooks;
	bool huge;
	bool registered;

	pthread_mutex_t lock; /* guards all below; under it only what notify takes */
	pthread_cond_t freed; /* a block came back, or the pool was closed */
	struct block *free;   /* linked by next, the one used last on top */
	uint32_t nfree;       /* read without the lock for snapshots: atomic stores */
	uint32_t sleepers;    /* in pool_get(): nobody is woken when there are none */
	bool closed;
	void (*notify)(void *arg);
	void *notify_arg;
};

/* ---- making ---- */

static int check_config(const struct pool_config *c, struct err *e)
{
	if (c->blocks < 1)
		return err_set(e, -EINVAL, "a pool needs at least one block");
	if (c->payload < BLOCK_MIN || c->payload > BLOCK_MAX || c->payload % 4096)
		return err_set(e, -EINVAL,
			       "block size %u: must be a multiple of 4096 from %u to %u",
			       c->payload, BLOCK_MIN, BLOCK_MAX);
	return 0;
}

/* Out of those that an administrator has set aside, if they are enough. */
static void *map_huge(struct pool *p)
{
	size_t bytes = (p->bytes + POOL_HUGE_PAGE - 1) / POOL_HUGE_PAGE * POOL_HUGE_PAGE;
	void *base = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
			  MAP_PRIVATE | MAP_ANONYMOUS | MAP_HUGETLB | MAP_HUGE_2MB, -1, 0);

	p->huge = base != MAP_FAILED;
	if (p->huge)
		p->mapped = bytes;
	return base;
}

/* Pages are not touched here: they come when a stage first fills them, on the node
 * that bind chose. */
static int map_region(struct pool *p, enum page_choice pages, struct err *e)
{
	void *base = pages == PAGES_AUTO || pages == PAGES_HUGE ? map_huge(p) : MAP_FAILED;

	if (base == MAP_FAILED && pages == PAGES_HUGE)
		return err_set(e, -ENOSPC, "cannot have %zu MiB in huge pages (%s): set "
			       "vm.nr_hugepages %zu higher", p->bytes >> 20, strerror(errno),
			       p->bytes / POOL_HUGE_PAGE + 1);
	if (base == MAP_FAILED) {
		p->mapped = p->bytes;
		base = mmap(NULL, p->bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
			    -1, 0);
	}
	if (base == MAP_FAILED)
		return err_sys(e, -errno, "cannot map %zu bytes for %u blocks", p->bytes,
			       p->nblocks);
	p->base = base;
	if (!p->huge && pages != PAGES_SMALL)
		(void)madvise(base, p->bytes, MADV_HUGEPAGE); /* advice: a kernel may lack it */
	return 0;
}

/* calloc() of this size maps zero pages, so that extents are not touched either. */
static int make_blocks(struct pool *p, struct err *e)
{
	p->blocks = calloc(p->nblocks, sizeof(*p->blocks));
	p->extents = calloc(p->nblocks, BLOCK_EXTENTS * sizeof(*p->extents));
	if (!p->blocks || !p->extents)
		return err_sys(e, -ENOMEM, "cannot describe %u blocks", p->nblocks);
	return 0;
}

/* The first block ends on top of the stack. */
static void fill_stack(struct pool *p)
{
	struct block *b;
	uint32_t i;

	for (i = p->nblocks; i-- > 0;) {
		b = &p->blocks[i];
		b->base = p->base + i * p->stride;
		b->cap = p->payload;
		b->index = i;
		b->extents = &p->extents[(size_t)i * BLOCK_EXTENTS];
		b->pool = p;
		b->next = p->free;
		p->free = b;
	}
	p->nfree = p->nblocks;
}

/* Bind before register: registration pins pages where they are. */
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

static void release(struct pool *p)
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

static struct pool *describe(const struct pool_config *c)
{
	struct pool *p = calloc(1, sizeof(*p));

	if (!p)
		return NULL;
	p->nblocks = c->blocks;
	p->payload = c->payload;
	p->stride = (size_t)BLOCK_HEAD + c->payload; /* both are whole pages */
	p->bytes = p->stride * c->blocks;
	if (c->hooks)
		p->hooks = *c->hooks;
	pthread_mutex_init(&p->lock, NULL);
	pthread_cond_init(&p->freed, NULL);
	return p;
}

struct pool *pool_new(const struct pool_config *c, struct err *e)
{
	struct pool *p;

	if (check_config(c, e))
		return NULL;
	p = describe(c);
	if (!p) {
		err_sys(e, -ENOMEM, "cannot make a pool");
		return NULL;
	}
	if (map_region(p, c->pages, e) || make_blocks(p, e) || run_hooks(p, c, e)) {
		release(p);
		return NULL;
	}
	fill_stack(p);
	return p;
}

void pool_free(struct pool *p)
{
	if (!p)
		return;
	/* Whoever put the last block back may still be letting go of the lock. */
	pthread_mutex_lock(&p->lock);
	assert(p->nfree == p->nblocks);
	assert(p->sleepers == 0);
	pthread_mutex_unlock(&p->lock);
	release(p);
}

/* ---- taking and giving ---- */

/* Called with the lock held, like take(). */
static void set_nfree(struct pool *p, uint32_t n)
{
	__atomic_store_n(&p->nfree, n, __ATOMIC_RELAXED);
}

static struct block *take(struct pool *p)
{
	struct block *b = p->closed ? NULL : p->free;

	if (!b)
		return NULL;
	p->free = b->next;
	b->next = NULL;
	set_nfree(p, p->nfree - 1);
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
	return take(p);
}

struct block *pool_try_get(struct pool *p)
{
	LOCK_GUARD(guard, &p->lock);

	return take(p);
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
	set_nfree(p, p->nfree + 1);
	/* Under the lock, for p may be freed as soon as it is open. */
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

/* ---- asking ---- */

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
