// SPDX-License-Identifier: Apache-2.0
/* Sealed blocks: test vectors, sealing and opening in place and into another buffer, and tampering
 * with every part. */
#include "crypto/crypto.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

static const uint8_t zero_key[KEY_BYTES];
#define AAD(text) { (void *)(uintptr_t)(text), sizeof(text) - 1 }

/* Test cases 13 and 14 of "The Galois/Counter Mode of Operation": key and IV are zero. */
static void spec_vectors(void **state)
{
	static const uint8_t tag13[] = { 0x53, 0x0f, 0x8a, 0xfb, 0xc7, 0x45, 0x36, 0xb9,
					 0xa9, 0x63, 0xb4, 0xf1, 0xc4, 0xcb, 0x73, 0x8b };
	static const uint8_t text14[] = { 0xce, 0xa7, 0x40, 0x3d, 0x4d, 0x60, 0x6b, 0x6e,
					  0x07, 0x4e, 0xc5, 0xd3, 0xba, 0xf3, 0x9d, 0x18 };
	static const uint8_t tag14[] = { 0xd0, 0xd1, 0xc8, 0xa7, 0x99, 0x99, 0x6b, 0xf0,
					 0x26, 0x5b, 0x98, 0xb5, 0xd4, 0x8a, 0xb9, 0x19 };
	struct sealer *s = sealer_new(zero_key);
	uint8_t block[16] = { 0 }, tag[TAG_BYTES];

	(void)state;
	assert_non_null(s);
	assert_int_equal(sealer_seal(s, 0, NULL, 0, NULL, NULL, 0, tag), 0);
	assert_memory_equal(tag, tag13, sizeof(tag));
	assert_int_equal(sealer_seal(s, 0, NULL, 0, block, block, sizeof(block), tag), 0);
	assert_memory_equal(block, text14, sizeof(block));
	assert_memory_equal(tag, tag14, sizeof(tag));
	sealer_free(s);
	sealer_free(NULL);
}

/* Made with Nettle. The IV is 00000000 0102030405060708, which shows the place of the nonce in
 * it. */
static void nonce_place(void **state)
{
	static const char header[] = "rftp block header and extent table";
	static const uint8_t text[] = {
		0x04, 0x56, 0x6b, 0x1b, 0xc1, 0xc2, 0x23, 0xaf, 0x3b, 0xa0, 0xbb, 0xa2, 0x4a,
		0x3c, 0x5b, 0x99, 0x0a, 0x8e, 0x22, 0x47, 0x5b, 0x46, 0xd2, 0xcd, 0x41, 0x54,
		0xe2, 0xed, 0xaf, 0xfc, 0x0d, 0x14, 0xcf, 0xcf, 0xf6, 0x6d, 0x66 };
	static const uint8_t want[] = { 0xa9, 0xf5, 0xf4, 0x37, 0xfa, 0xd3, 0x41, 0x22,
					0x19, 0x2e, 0xde, 0x58, 0xb8, 0x7f, 0x95, 0x12 };
	const struct iovec whole = AAD(header);
	const struct iovec parts[] = { AAD("rftp block header"), { NULL, 0 },
				       AAD(" and extent table") };
	uint8_t key[KEY_BYTES], in[sizeof(text)], out[sizeof(text)], tag[TAG_BYTES];
	struct sealer *s;

	(void)state;
	for (size_t i = 0; i < sizeof(key); i++)
		key[i] = (uint8_t)i;
	for (size_t i = 0; i < sizeof(in); i++)
		in[i] = (uint8_t)(7 * i);
	s = sealer_new(key);
	assert_int_equal(sealer_seal(s, 0x0102030405060708, &whole, 1, in, out, sizeof(in), tag), 0);
	assert_memory_equal(out, text, sizeof(text));
	assert_memory_equal(tag, want, sizeof(tag));
	/* Splitting the additional data does not change the tag. */
	assert_int_equal(sealer_seal(s, 0x0102030405060708, parts, 3, in, out, sizeof(in), tag), 0);
	assert_memory_equal(tag, want, sizeof(tag));
	sealer_free(s);
}

#define LEN 70001

struct fixture {
	struct sealer *ours, *theirs;
	uint8_t plain[LEN], sealed[LEN], opened[LEN];
	uint8_t tag[TAG_BYTES];
	struct iovec aad[2];
	uint8_t header[64], table[100];
};

static int setup(void **state)
{
	struct fixture *f = calloc(1, sizeof(*f));
	uint8_t key[KEY_BYTES];

	crypto_random(key, sizeof(key));
	crypto_random(f->plain, sizeof(f->plain));
	crypto_random(f->header, sizeof(f->header));
	f->ours = sealer_new(key);
	f->theirs = sealer_new(key);
	f->aad[0] = (struct iovec){ f->header, sizeof(f->header) };
	f->aad[1] = (struct iovec){ f->table, sizeof(f->table) };
	*state = f;
	return f->ours && f->theirs ? 0 : -1;
}

static int teardown(void **state)
{
	struct fixture *f = *state;

	sealer_free(f->ours);
	sealer_free(f->theirs);
	free(f);
	return 0;
}

static void apart_and_in_place(void **state)
{
	struct fixture *f = *state;

	for (uint64_t nonce = 1; nonce < 40; nonce++) {
		size_t len = nonce < 20 ? nonce : LEN - 7 * nonce;

		assert_int_equal(sealer_seal(f->ours, nonce, f->aad, 2, f->plain, f->sealed, len,
					     f->tag), 0);
		assert_int_equal(sealer_open(f->theirs, nonce, f->aad, 2, f->sealed, f->opened, len,
					     f->tag), 0);
		assert_memory_equal(f->opened, f->plain, len);
		memcpy(f->opened, f->plain, len);
		assert_int_equal(sealer_seal(f->ours, nonce, f->aad, 2, f->opened, f->opened, len,
					     f->tag), 0);
		assert_memory_equal(f->opened, f->sealed, len);
		assert_int_equal(sealer_open(f->theirs, nonce, f->aad, 2, f->opened, f->opened, len,
					     f->tag), 0);
		assert_memory_equal(f->opened, f->plain, len);
	}
}

static void one_sealer_both_ways(void **state)
{
	struct fixture *f = *state;

	for (uint64_t nonce = 100; nonce < 110; nonce++) {
		assert_int_equal(sealer_seal(f->ours, nonce, f->aad, 2, f->plain, f->sealed, LEN,
					     f->tag), 0);
		assert_int_equal(sealer_open(f->ours, nonce, f->aad, 2, f->sealed, f->opened, LEN,
					     f->tag), 0);
		assert_memory_equal(f->opened, f->plain, LEN);
	}
}

/* Opening fails when one thing was changed, and leaves no plain text in the output buffer. */
static void refused(struct fixture *f, uint64_t nonce)
{
	static const uint8_t nothing[LEN];

	memset(f->opened, 0x55, LEN);
	assert_int_equal(sealer_open(f->theirs, nonce, f->aad, 2, f->sealed, f->opened, LEN,
				     f->tag), -EBADMSG);
	assert_memory_equal(f->opened, nothing, LEN);
}

static void tampered(void **state)
{
	struct fixture *f = *state;
	uint8_t *const places[] = { f->sealed, f->sealed + LEN / 2, f->sealed + LEN - 1,
				    f->header, f->table + sizeof(f->table) - 1,
				    f->tag, f->tag + TAG_BYTES - 1 };

	assert_int_equal(sealer_seal(f->ours, 7, f->aad, 2, f->plain, f->sealed, LEN, f->tag), 0);
	for (size_t i = 0; i < sizeof(places) / sizeof(places[0]); i++) {
		*places[i] ^= 0x10;
		refused(f, 7);
		*places[i] ^= 0x10;
	}
	refused(f, 8);
	f->aad[1].iov_len--;
	refused(f, 7);
	f->aad[1].iov_len++;
	/* A refused block does not affect the next one. */
	assert_int_equal(sealer_open(f->theirs, 7, f->aad, 2, f->sealed, f->opened, LEN, f->tag), 0);
	assert_memory_equal(f->opened, f->plain, LEN);
}

static void wiped_in_place(void **state)
{
	static const uint8_t nothing[LEN];
	struct fixture *f = *state;

	assert_int_equal(sealer_seal(f->ours, 9, f->aad, 2, f->plain, f->sealed, LEN, f->tag), 0);
	f->tag[3] ^= 1;
	assert_int_equal(sealer_open(f->theirs, 9, f->aad, 2, f->sealed, f->sealed, LEN, f->tag),
			 -EBADMSG);
	assert_memory_equal(f->sealed, nothing, LEN);
}

static void gmac(void **state)
{
	struct fixture *f = *state;
	const struct iovec aad[] = { f->aad[0], { f->plain, LEN } };

	assert_int_equal(sealer_seal(f->ours, 3, aad, 2, NULL, NULL, 0, f->tag), 0);
	assert_int_equal(sealer_open(f->theirs, 3, aad, 2, NULL, NULL, 0, f->tag), 0);
	f->plain[LEN / 3] ^= 1;
	assert_int_equal(sealer_open(f->theirs, 3, aad, 2, NULL, NULL, 0, f->tag), -EBADMSG);
	f->plain[LEN / 3] ^= 1;
	assert_int_equal(sealer_open(f->theirs, 4, aad, 2, NULL, NULL, 0, f->tag), -EBADMSG);
	/* A refusal does not change the additional data, which belongs to the caller. */
	assert_int_equal(sealer_open(f->theirs, 3, aad, 2, NULL, NULL, 0, f->tag), 0);
}

static void other_key(void **state)
{
	struct fixture *f = *state;
	struct sealer *stranger = sealer_new(zero_key);

	assert_int_equal(sealer_seal(f->ours, 5, f->aad, 2, f->plain, f->sealed, LEN, f->tag), 0);
	assert_int_equal(sealer_open(stranger, 5, f->aad, 2, f->sealed, f->opened, LEN, f->tag),
			 -EBADMSG);
	sealer_free(stranger);
}

/* Without an output buffer sealing must fail, and not treat the text as additional data. */
static void no_place(void **state)
{
	struct fixture *f = *state;

	assert_int_equal(sealer_seal(f->ours, 6, NULL, 0, f->plain, NULL, LEN, f->tag), -EIO);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(spec_vectors),
		cmocka_unit_test(nonce_place),
		cmocka_unit_test_setup_teardown(apart_and_in_place, setup, teardown),
		cmocka_unit_test_setup_teardown(one_sealer_both_ways, setup, teardown),
		cmocka_unit_test_setup_teardown(tampered, setup, teardown),
		cmocka_unit_test_setup_teardown(wiped_in_place, setup, teardown),
		cmocka_unit_test_setup_teardown(gmac, setup, teardown),
		cmocka_unit_test_setup_teardown(other_key, setup, teardown),
		cmocka_unit_test_setup_teardown(no_place, setup, teardown),
	};

	return cmocka_run_group_tests_name("seal", tests, NULL, NULL);
}
