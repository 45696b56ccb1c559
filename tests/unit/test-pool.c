// SPDX-License-Identifier: Apache-2.0
/* Pools: the region and its hooks, the stack of free blocks, sleepers, and many threads that must
 * never get the same block. */
#include "tests/support/block.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* ---- construction ---- */

static void test_geometry(void **state)
{
	static const uint32_t payloads[] = { BLOCK_MIN, BLOCK_MIN + 4096, 1 << 20, BLOCK_MAX };
	struct block *b[3];
	struct pool *p;
	size_t i, k;

	(void)state;
	for (i = 0; i < 4; i++) {
		struct pool_config c = {
			.blocks = 3, .payload = payloads[i], .pages = i & 1 ? PAGES_AUTO : PAGES_SMALL,
		};

		p = pool_new(&c, NULL);
		assert_non_null(p);
		assert_int_equal(pool_blocks(p), 3);
		assert_int_equal(pool_payload(p), payloads[i]);
		assert_int_equal(pool_stride(p), BLOCK_HEAD + payloads[i]);
		assert_int_equal(pool_bytes(p), 3 * pool_stride(p));
		assert_int_equal((uintptr_t)pool_base(p) % 4096, 0);
		for (k = 0; k < 3; k++) {
			b[k] = pool_get(p);
			assert_int_equal(b[k]->index, k);
			assert_ptr_equal(b[k]->base, (uint8_t *)pool_base(p) + k * pool_stride(p));
			assert_int_equal(b[k]->cap, payloads[i]);
			assert_ptr_equal(b[k]->pool, p);
			/* The last bytes exist, and belong to this block only. */
			block_payload(b[k])[payloads[i] - 1] = 1;
			memset(b[k]->extents, (int)k, BLOCK_EXTENTS * sizeof(struct extent));
		}
		assert_int_equal(((uint8_t *)b[0]->extents)[BLOCK_EXTENTS *
							    sizeof(struct extent) - 1], 0);
		for (k = 0; k < 3; k++)
			pool_put(b[k]);
		pool_free(p);
	}
	pool_free(NULL);
}

static void test_bad_config(void **state)
{
	static const struct pool_config bad[] = {
		{ .blocks = 0, .payload = BLOCK_MIN },
		{ .blocks = 1, .payload = 0 },
		{ .blocks = 1, .payload = BLOCK_MIN - 4096 },
		{ .blocks = 1, .payload = BLOCK_MAX + 4096 },
		{ .blocks = 1, .payload = BLOCK_MIN + 512 },
	};
	size_t i;

	(void)state;
	for (i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		struct err e = ERR_INIT;

		assert_null(pool_new(&bad[i], &e));
		assert_int_equal(e.code, -EINVAL);
		assert_true(strlen(e.text) > 10);
		assert_null(pool_new(&bad[i], NULL));
	}
}

/* Unused memory of a pool is not allocated, and touched memory is on the node of the thread that
 * touches it. */
static void test_untouched(void **state)
{
	struct pool *p = make_pool(64, BLOCK_MIN);
	size_t pages = pool_bytes(p) / (size_t)sysconf(_SC_PAGESIZE), i, touched = 0;
	unsigned char *there = calloc(pages, 1);

	(void)state;
	assert_int_equal(mincore(pool_base(p), pool_bytes(p), there), 0);
	for (i = 0; i < pages; i++)
		touched += there[i] & 1;
	assert_int_equal(touched, 0);
	free(there);
	pool_free(p);
}

struct hook_log {
	char calls[64];
	void *base;
	size_t bytes;
	int bind_rc, reg_rc;
};

static void note(struct hook_log *l, const char *name, void *base, size_t bytes)
{
	strcat(l->calls, name);
	if (l->base)
		assert_true(l->base == base && l->bytes == bytes);
	l->base = base;
	l->bytes = bytes;
}

static int on_bind(void *arg, void *base, size_t bytes, bool huge)
{
	assert_false(huge);
	note(arg, "bind ", base, bytes);
	return ((struct hook_log *)arg)->bind_rc;
}

static int on_reg(void *arg, void *base, size_t bytes)
{
	note(arg, "reg ", base, bytes);
	return ((struct hook_log *)arg)->reg_rc;
}

static void on_unreg(void *arg, void *base, size_t bytes)
{
	note(arg, "unreg ", base, bytes);
	*(char *)base = 1; /* the memory must still be mapped */
}

static void test_hooks(void **state)
{
	static const struct {
		int bind_rc, reg_rc;
		const char *calls;
	} cases[] = {
		{ 0, 0, "bind reg unreg " },
		{ -EIO, 0, "bind " },
		{ 0, -ENOMEM, "bind reg " },
	};
	size_t i;

	(void)state;
	for (i = 0; i < 3; i++) {
		struct hook_log l = { .bind_rc = cases[i].bind_rc, .reg_rc = cases[i].reg_rc };
		struct pool_hooks hooks = { &l, on_reg, on_unreg };
		struct pool_config c = { .blocks = 2, .payload = BLOCK_MIN, .pages = PAGES_SMALL,
					 .hooks = &hooks, .bind = on_bind, .bind_arg = &l };
		struct err e = ERR_INIT;
		struct pool *p = pool_new(&c, &e);

		memset(&hooks, 0, sizeof(hooks)); /* the pool has copied them */
		assert_int_equal(p != NULL, e.code == 0);
		assert_int_equal(e.code, cases[i].bind_rc ? cases[i].bind_rc : cases[i].reg_rc);
		if (p) {
			assert_ptr_equal(l.base, pool_base(p));
			assert_int_equal(l.bytes, pool_bytes(p));
		}
		pool_free(p);
		assert_string_equal(l.calls, cases[i].calls);
	}
}

/* ---- blocks ---- */

static void test_add(void **state)
{
	struct pool *p = make_pool(1, BLOCK_MIN);
	struct block *b = pool_get(p);
	uint32_t i;

	(void)state;
	assert_int_equal(block_add(b, 7, 1000, 10), 0);
	assert_int_equal(block_add(b, 8, 0, 0), 0);
	assert_int_equal(block_add(b, 9, 1ull << 40, BLOCK_MIN - 10), 0);
	assert_int_equal(b->len, BLOCK_MIN);
	assert_int_equal(b->nextents, 3);
	assert_int_equal(b->extents[0].pos, 0);
	assert_int_equal(b->extents[0].file, 7);
	assert_int_equal(b->extents[0].offset, 1000);
	assert_int_equal(b->extents[0].length, 10);
	assert_int_equal(b->extents[1].pos, 10);
	assert_int_equal(b->extents[2].pos, 10);
	assert_true(b->extents[2].offset == 1ull << 40);
	assert_int_equal(block_add(b, 9, 0, 1), -ENOSPC);
	assert_int_equal(block_add(b, 9, 0, UINT32_MAX), -ENOSPC); /* the sum overflows */
	assert_int_equal(b->nextents, 3);
	assert_int_equal(b->len, BLOCK_MIN);

	block_reset(b);
	assert_int_equal(b->len, 0);
	for (i = 0; i < BLOCK_EXTENTS; i++)
		assert_int_equal(block_add(b, i, 0, 1), 0);
	assert_int_equal(block_add(b, i, 0, 1), -ENOSPC);
	assert_int_equal(b->len, BLOCK_EXTENTS);
	pool_put(b);
	pool_free(p);
}

static void test_put_resets(void **state)
{
	struct pool *p = make_pool(1, BLOCK_MIN);
	struct block *b = pool_get(p);

	(void)state;
	block_add(b, 1, 2, 3);
	b->number = 4;
	b->channel = 5;
	b->user = p;
	block_payload(b)[0] = 77;
	pool_put(b);
	assert_ptr_equal(pool_get(p), b);
	assert_int_equal(b->len, 0);
	assert_int_equal(b->nextents, 0);
	assert_int_equal(b->number, 0);
	assert_int_equal(b->channel, 0);
	assert_null(b->user);
	assert_null(b->next);
	assert_int_equal(block_payload(b)[0], 77); /* the bytes stay */
	assert_ptr_equal(b->pool, p);
	assert_int_equal(b->cap, BLOCK_MIN);
	pool_put(b);
	pool_free(p);
}

/* The last returned block is the first to be used again. */
static void test_lifo(void **state)
{
	struct pool *p = make_pool(4, BLOCK_MIN);
	struct block *a = pool_get(p), *b = pool_get(p), *c = pool_get(p);

	(void)state;
	assert_int_equal(pool_free_blocks(p), 1);
	pool_put(a);
	pool_put(c);
	pool_put(b);
	assert_int_equal(pool_free_blocks(p), 4);
	assert_ptr_equal(pool_get(p), b);
	assert_ptr_equal(pool_get(p), c);
	assert_ptr_equal(pool_try_get(p), a);
	assert_non_null(pool_try_get(p));
	assert_null(pool_try_get(p));
	assert_int_equal(pool_free_blocks(p), 0);
	pool_put(a);
	pool_put(b);
	pool_put(c);
	pool_put(a + 3); /* the array is in block order */
	pool_free(p);
}

/* ---- sleepers ---- */

static void *get_one(void *arg)
{
	return pool_get(arg);
}

static void test_sleeper_gets_it(void **state)
{
	struct pool *p = make_pool(1, BLOCK_MIN);
	struct block *b = pool_get(p);
	pthread_t t;
	void *got;

	(void)state;
	assert_int_equal(thread_start(&t, "sleeper", get_one, p), 0);
	usleep(20000);
	pool_put(b);
	pthread_join(t, &got);
	assert_ptr_equal(got, b);
	pool_put(got);
	pool_free(p);
}

static void test_close_wakes_all(void **state)
{
	struct pool *p = make_pool(1, BLOCK_MIN);
	struct block *b = pool_get(p);
	pthread_t t[3];
	void *got;
	int i;

	(void)state;
	for (i = 0; i < 3; i++)
		assert_int_equal(thread_start(&t[i], "sleeper", get_one, p), 0);
	usleep(20000);
	pool_close(p);
	for (i = 0; i < 3; i++) {
		pthread_join(t[i], &got);
		assert_null(got);
	}
	/* Outstanding blocks can be returned, but no block is given out any more. */
	pool_put(b);
	assert_int_equal(pool_free_blocks(p), 1);
	assert_null(pool_get(p));
	assert_null(pool_try_get(p));
	pool_free(p);
}

/* ---- many threads ---- */

enum { HAMMERS = 6, ROUNDS = 20000, FEW = 4 };

struct hammer {
	struct pool *pool;
	int held[FEW];  /* by block index; above 1: two owners */
	int doubles;
};

static void use_block(struct hammer *h, struct block *b)
{
	if (__atomic_add_fetch(&h->held[b->index], 1, __ATOMIC_RELAXED) != 1)
		__atomic_add_fetch(&h->doubles, 1, __ATOMIC_RELAXED);
	b->number++; /* if two threads hold the block, the sanitizer reports a data race */
	__atomic_sub_fetch(&h->held[b->index], 1, __ATOMIC_RELAXED);
	pool_put(b);
}

static void *hammer(void *arg)
{
	struct hammer *h = arg;
	struct block *b;
	int i;

	for (i = 0; i < ROUNDS; i++) {
		b = i % 3 ? pool_get(h->pool) : pool_try_get(h->pool);
		if (b)
			use_block(h, b);
	}
	return NULL;
}

static void test_one_owner_at_a_time(void **state)
{
	struct hammer h = { .pool = make_pool(FEW, BLOCK_MIN) };
	pthread_t t[HAMMERS];
	int i;

	(void)state;
	for (i = 0; i < HAMMERS; i++)
		assert_int_equal(thread_start(&t[i], "hammer", hammer, &h), 0);
	for (i = 0; i < HAMMERS; i++)
		pthread_join(t[i], NULL);
	assert_int_equal(h.doubles, 0);
	assert_int_equal(pool_free_blocks(h.pool), FEW);
	pool_free(h.pool);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_geometry),
		cmocka_unit_test(test_bad_config),
		cmocka_unit_test(test_untouched),
		cmocka_unit_test(test_hooks),
		cmocka_unit_test(test_add),
		cmocka_unit_test(test_put_resets),
		cmocka_unit_test(test_lifo),
		cmocka_unit_test(test_sleeper_gets_it),
		cmocka_unit_test(test_close_wakes_all),
		cmocka_unit_test(test_one_owner_at_a_time),
	};

	alarm(120); /* ends the test after a lost wake-up */
	return cmocka_run_group_tests_name("pool", tests, NULL, NULL);
}
