// SPDX-License-Identifier: Apache-2.0
/* Sealed blocks under each protection: round trips, and every change on the way is detected. */
/* Includes the source file, because a test cannot seal 2^36 bytes to reach the next epoch. */
#include "transfer/seal.c"

#include "tests/support/block.h"

static const uint8_t master[KEY_BYTES] = "a master secret of 32 bytes, no";
static const uint8_t client_nonce[NONCE_BYTES] = "client", server_nonce[NONCE_BYTES] = "server";

struct fixture {
	struct xkeys keys;
	struct pool *pool;
	struct block *b;
};

static struct agreement agreed(uint8_t prot, bool crc)
{
	return (struct agreement){ .prot = prot, .crc = crc, .block = BLOCK_MIN };
}

static void keys_of(struct xkeys *k, uint64_t session)
{
	assert_int_equal(xkeys_init(k, master, client_nonce, server_nonce, session), 0);
}

static int setup(void **state)
{
	struct fixture *x = calloc(1, sizeof(*x));

	keys_of(&x->keys, 7);
	x->pool = make_pool(1, BLOCK_MIN);
	x->b = pool_get(x->pool);
	*state = x;
	return 0;
}

static int teardown(void **state)
{
	struct fixture *x = *state;

	pool_put(x->b);
	pool_free(x->pool);
	free(x);
	return 0;
}

/* Three extents, one of them at a big offset, 64 bytes in all. */
static void fill(struct block *b)
{
	block_reset(b);
	for (uint32_t i = 0; i < 64; i++)
		block_payload(b)[i] = (uint8_t)(i * 5 + 1);
	b->number = 0x0102030405060708;
	assert_int_equal(block_add(b, 1, 0, 20), 0);
	assert_int_equal(block_add(b, 2, 1ull << 40, 43), 0);
	assert_int_equal(block_add(b, 9, 5, 1), 0);
}

static size_t head_bytes(void)
{
	return BLOCK_WIRE_HEAD + 3 * BLOCK_WIRE_EXTENT;
}

/* Leaves only the bytes of the wire, as after an arrival. */
static void arrive(struct block *b)
{
	b->number = b->len = b->nextents = 0;
	memset(b->extents, 0xee, 3 * sizeof(b->extents[0]));
}

static int open_with(const struct xkeys *k, const struct agreement *a, enum direction dir,
		     struct block *b)
{
	struct unseal *u = unseal_new(k, a, dir);
	int r;

	assert_non_null(u);
	arrive(b);
	r = unseal_block(u, b);
	unseal_free(u);
	return r;
}

static void seal_with(const struct xkeys *k, const struct agreement *a, enum direction dir,
		      uint16_t lane, struct block *b)
{
	struct seal *s = seal_new(k, a, dir, lane);

	assert_non_null(s);
	assert_int_equal(seal_block(s, b, b), 0);
	seal_free(s);
}

static void check_content(const struct block *b)
{
	static const struct extent want[] = { { 1, 0, 20, 0 }, { 2, 1ull << 40, 43, 20 },
					      { 9, 5, 1, 63 } };

	assert_int_equal(b->number, 0x0102030405060708);
	assert_int_equal(b->len, 64);
	assert_int_equal(b->nextents, 3);
	for (uint32_t i = 0; i < 3; i++) {
		assert_int_equal(b->extents[i].file, want[i].file);
		assert_int_equal(b->extents[i].offset, want[i].offset);
		assert_int_equal(b->extents[i].length, want[i].length);
		assert_int_equal(b->extents[i].pos, want[i].pos);
	}
	for (uint32_t i = 0; i < 64; i++)
		assert_int_equal(block_payload(b)[i], (uint8_t)(i * 5 + 1));
}

static bool plain_inside(const struct block *b)
{
	for (uint32_t i = 0; i < 64; i++)
		if (block_payload(b)[i] != (uint8_t)(i * 5 + 1))
			return false;
	return true;
}

/* Seals into another block: under PROT_PRIVATE that block never holds the plain text. */
static void test_apart(void **state)
{
	struct fixture *x = *state;
	struct pool *pool = make_pool(1, BLOCK_MIN);
	struct block *to = pool_get(pool);

	for (uint8_t prot = PROT_CLEAR; prot <= PROT_PRIVATE; prot++) {
		struct agreement a = agreed(prot, prot == PROT_CLEAR);
		struct seal *s = seal_new(&x->keys, &a, CLIENT_TO_SERVER, 3);

		fill(x->b);
		block_reset(to);
		memset(to->base, 0x55, BLOCK_HEAD + BLOCK_MIN);
		assert_int_equal(seal_block(s, x->b, to), 0);
		assert_true(plain_inside(x->b));
		assert_int_equal(plain_inside(to), prot != PROT_PRIVATE);
		assert_int_equal(to->number, x->b->number);
		assert_int_equal(to->len, 64);
		assert_int_equal(open_with(&x->keys, &a, CLIENT_TO_SERVER, to), 0);
		check_content(to);
		seal_free(s);
	}
	pool_put(to);
	pool_free(pool);
}

static void test_round_trip(void **state)
{
	struct fixture *x = *state;

	for (uint8_t prot = PROT_CLEAR; prot <= PROT_PRIVATE; prot++) {
		struct agreement a = agreed(prot, prot == PROT_CLEAR);

		fill(x->b);
		seal_with(&x->keys, &a, CLIENT_TO_SERVER, 3, x->b);
		assert_int_equal(plain_inside(x->b), prot != PROT_PRIVATE);
		assert_int_equal(open_with(&x->keys, &a, CLIENT_TO_SERVER, x->b), 0);
		check_content(x->b);
	}
}

static void test_empty_payload(void **state)
{
	struct fixture *x = *state;

	for (uint8_t prot = PROT_CLEAR; prot <= PROT_PRIVATE; prot++) {
		struct agreement a = agreed(prot, true);

		block_reset(x->b);
		x->b->number = 1;
		seal_with(&x->keys, &a, SERVER_TO_CLIENT, 0, x->b);
		assert_int_equal(open_with(&x->keys, &a, SERVER_TO_CLIENT, x->b), 0);
		assert_int_equal(x->b->nextents, 0);
		assert_int_equal(x->b->len, 0);
	}
}

/* Copies the bytes on the wire: head, table and payload, without gaps. */
static size_t wire_get(const struct block *b, uint8_t *p)
{
	memcpy(p, b->base, head_bytes());
	memcpy(p + head_bytes(), block_payload(b), 64);
	return head_bytes() + 64;
}

static void wire_put(struct block *b, const uint8_t *p)
{
	memcpy(b->base, p, head_bytes());
	memcpy(block_payload(b), p + head_bytes(), 64);
}

static void flip_every_bit(struct fixture *x, const struct agreement *a)
{
	struct unseal *u = unseal_new(&x->keys, a, CLIENT_TO_SERVER);
	uint8_t good[512], bad[512];
	size_t n;

	fill(x->b);
	seal_with(&x->keys, a, CLIENT_TO_SERVER, 3, x->b);
	n = wire_get(x->b, good);
	for (size_t i = 0; i < 8 * n; i++) {
		memcpy(bad, good, n);
		bad[i / 8] ^= (uint8_t)(1u << (i % 8));
		wire_put(x->b, bad);
		arrive(x->b);
		if (!unseal_block(u, x->b))
			fail_msg("%s: bit %zu of byte %zu went unnoticed", prot_name(a->prot),
				 i % 8, i / 8);
	}
	wire_put(x->b, good); /* the unchanged block still opens */
	arrive(x->b);
	assert_int_equal(unseal_block(u, x->b), 0);
	check_content(x->b);
	unseal_free(u);
}

static void test_every_bit_counts(void **state)
{
	for (uint8_t prot = PROT_CLEAR; prot <= PROT_PRIVATE; prot++) {
		struct agreement a = agreed(prot, prot == PROT_CLEAR);

		flip_every_bit(*state, &a);
	}
}

static void test_other_protection_is_refused(void **state)
{
	struct fixture *x = *state;

	for (uint8_t sent = PROT_CLEAR; sent <= PROT_PRIVATE; sent++) {
		for (uint8_t want = PROT_CLEAR; want <= PROT_PRIVATE; want++) {
			struct agreement a = agreed(sent, false), b = agreed(want, false);

			fill(x->b);
			seal_with(&x->keys, &a, CLIENT_TO_SERVER, 0, x->b);
			assert_int_equal(open_with(&x->keys, &b, CLIENT_TO_SERVER, x->b),
					 sent == want ? 0 : -EBADMSG);
		}
	}
}

static void test_direction_and_session(void **state)
{
	struct fixture *x = *state;
	struct xkeys other;

	keys_of(&other, 8);
	for (uint8_t prot = PROT_SAFE; prot <= PROT_PRIVATE; prot++) {
		struct agreement a = agreed(prot, false);

		fill(x->b);
		seal_with(&x->keys, &a, CLIENT_TO_SERVER, 0, x->b);
		assert_int_equal(open_with(&x->keys, &a, SERVER_TO_CLIENT, x->b), -EBADMSG);
		fill(x->b);
		seal_with(&x->keys, &a, CLIENT_TO_SERVER, 0, x->b);
		assert_int_equal(open_with(&other, &a, CLIENT_TO_SERVER, x->b), -EBADMSG);
	}
	xkeys_wipe(&other);
}

/* A block that names another lane or another epoch than the one that sealed it. */
static void test_wrong_key_number(void **state)
{
	static const uint32_t wrong[] = { 0, 4u << 16, 3u << 16 | 1, 256u << 16 | 3,
					  UINT32_MAX };
	struct fixture *x = *state;

	for (uint8_t prot = PROT_SAFE; prot <= PROT_PRIVATE; prot++) {
		for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
			struct agreement a = agreed(prot, false);
			struct block_head h;

			fill(x->b);
			seal_with(&x->keys, &a, CLIENT_TO_SERVER, 3, x->b);
			assert_int_equal(block_head_get(x->b->base, BLOCK_MIN, &h), 0);
			assert_int_equal(h.key, 3u << 16);
			h.key = wrong[i];
			block_head_put(x->b->base, &h);
			assert_int_equal(open_with(&x->keys, &a, CLIENT_TO_SERVER, x->b),
					 -EBADMSG);
		}
	}
}

/* A nonce is never used twice under a key, and lanes do not share keys. */
static void test_nonces_and_lanes(void **state)
{
	struct fixture *x = *state;
	struct agreement a = agreed(PROT_PRIVATE, false);
	struct seal *s = seal_new(&x->keys, &a, CLIENT_TO_SERVER, 1);
	uint8_t first[64], other[64];
	struct block_head h;

	for (uint64_t i = 0; i < 5; i++) {
		fill(x->b);
		assert_int_equal(seal_block(s, x->b, x->b), 0);
		assert_int_equal(block_head_get(x->b->base, BLOCK_MIN, &h), 0);
		assert_int_equal(h.nonce, i);
		if (!i)
			memcpy(first, block_payload(x->b), 64);
	}
	assert_memory_not_equal(first, block_payload(x->b), 64);
	fill(x->b);
	seal_with(&x->keys, &a, CLIENT_TO_SERVER, 2, x->b);
	memcpy(other, block_payload(x->b), 64);
	assert_memory_not_equal(first, other, 64);
	seal_free(s);
}

/* Without a CRC, only the form of the block is checked. */
static void test_crc_off(void **state)
{
	struct fixture *x = *state;
	struct agreement off = agreed(PROT_CLEAR, false), on = agreed(PROT_CLEAR, true);

	fill(x->b);
	seal_with(&x->keys, &off, CLIENT_TO_SERVER, 0, x->b);
	block_payload(x->b)[5] ^= 1;
	assert_int_equal(open_with(&x->keys, &off, CLIENT_TO_SERVER, x->b), 0);
	fill(x->b);
	seal_with(&x->keys, &off, CLIENT_TO_SERVER, 0, x->b);
	assert_int_equal(open_with(&x->keys, &on, CLIENT_TO_SERVER, x->b), -EBADMSG);
}

/* An authenticated peer seals extent tables with wrong contents. */
static void test_lying_tables(void **state)
{
	static const struct { uint64_t offset; uint32_t length; uint32_t payload; } bad[] = {
		{ 0, 63, 64 },                 /* one payload byte in no extent */
		{ 0, 65, 64 },                 /* more than the payload */
		{ 0, UINT32_MAX, 64 },
		{ INT64_MAX - 63, 64, 64 },    /* end beyond the largest file size */
		{ UINT64_MAX, 64, 64 },
	};
	struct fixture *x = *state;
	struct agreement a = agreed(PROT_PRIVATE, false);

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		block_reset(x->b);
		assert_int_equal(block_add(x->b, 1, 0, bad[i].payload), 0);
		x->b->extents[0].offset = bad[i].offset;
		x->b->extents[0].length = bad[i].length;
		seal_with(&x->keys, &a, CLIENT_TO_SERVER, 0, x->b);
		assert_int_equal(open_with(&x->keys, &a, CLIENT_TO_SERVER, x->b), -EBADMSG);
	}
	block_reset(x->b);
	assert_int_equal(block_add(x->b, 1, INT64_MAX - 64, 64), 0);
	seal_with(&x->keys, &a, CLIENT_TO_SERVER, 0, x->b);
	assert_int_equal(open_with(&x->keys, &a, CLIENT_TO_SERVER, x->b), 0);
}

/* After 2^36 bytes under one key, the next block uses a new key. The receiver follows, even if
 * blocks of both epochs overtake each other. */
static void test_epochs(void **state)
{
	struct fixture *x = *state;
	struct agreement a = agreed(PROT_SAFE, false);
	struct seal *s = seal_new(&x->keys, &a, CLIENT_TO_SERVER, 5);
	struct unseal *u = unseal_new(&x->keys, &a, CLIENT_TO_SERVER);
	struct block_head h;
	uint8_t old[512];

	fill(x->b);
	assert_int_equal(seal_block(s, x->b, x->b), 0);
	wire_get(x->b, old);
	s->sealed = EPOCH_BYTES - 64;
	fill(x->b);
	assert_int_equal(seal_block(s, x->b, x->b), 0);
	assert_int_equal(block_head_get(x->b->base, BLOCK_MIN, &h), 0);
	assert_int_equal(h.key, 5u << 16); /* fills the key's share to the byte */
	fill(x->b);
	assert_int_equal(seal_block(s, x->b, x->b), 0);
	assert_int_equal(block_head_get(x->b->base, BLOCK_MIN, &h), 0);
	assert_int_equal(h.key, 5u << 16 | 1);
	assert_int_equal(h.nonce, 0);
	arrive(x->b);
	assert_int_equal(unseal_block(u, x->b), 0);
	check_content(x->b);
	wire_put(x->b, old);
	arrive(x->b);
	assert_int_equal(unseal_block(u, x->b), 0);
	check_content(x->b);
	seal_free(s);
	unseal_free(u);
}

static void test_key_schedule(void **state)
{
	struct fixture *x = *state;
	struct xkeys again, other;
	uint8_t one[KEY_BYTES], two[KEY_BYTES];

	keys_of(&again, 7);
	assert_memory_equal(again.session, x->keys.session, KEY_BYTES);
	assert_memory_equal(again.auth.token, x->keys.auth.token, KEY_BYTES);
	assert_memory_not_equal(again.auth.token, again.session, KEY_BYTES);
	assert_int_equal(xkeys_init(&other, master, server_nonce, client_nonce, 7), 0);
	assert_memory_not_equal(other.session, again.session, KEY_BYTES);
	assert_int_equal(xkeys_block(&again, CLIENT_TO_SERVER, 1, one), 0);
	assert_int_equal(xkeys_block(&again, CLIENT_TO_SERVER, 2, two), 0);
	assert_memory_not_equal(one, two, KEY_BYTES);
	assert_int_equal(xkeys_block(&again, SERVER_TO_CLIENT, 1, two), 0);
	assert_memory_not_equal(one, two, KEY_BYTES);
	xkeys_wipe(&again);
	memset(two, 0, sizeof(two));
	assert_memory_equal(again.session, two, KEY_BYTES);
	xkeys_wipe(&other);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_round_trip, setup, teardown),
		cmocka_unit_test_setup_teardown(test_apart, setup, teardown),
		cmocka_unit_test_setup_teardown(test_empty_payload, setup, teardown),
		cmocka_unit_test_setup_teardown(test_every_bit_counts, setup, teardown),
		cmocka_unit_test_setup_teardown(test_other_protection_is_refused, setup, teardown),
		cmocka_unit_test_setup_teardown(test_direction_and_session, setup, teardown),
		cmocka_unit_test_setup_teardown(test_wrong_key_number, setup, teardown),
		cmocka_unit_test_setup_teardown(test_nonces_and_lanes, setup, teardown),
		cmocka_unit_test_setup_teardown(test_crc_off, setup, teardown),
		cmocka_unit_test_setup_teardown(test_lying_tables, setup, teardown),
		cmocka_unit_test_setup_teardown(test_epochs, setup, teardown),
		cmocka_unit_test_setup_teardown(test_key_schedule, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
