// SPDX-License-Identifier: Apache-2.0
/* CRC32C: the test vectors of RFC 3720 §B.4, and a comparison with a simple implementation. */
#include "crypto/crypto.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

static void vectors(void **state)
{
	uint8_t up[32], down[32], zeros[32] = { 0 }, ones[32];
	static const uint8_t read_pdu[48] = {
		0x01, 0xc0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
		0x14, 0, 0, 0, 0, 0, 4, 0, 0, 0, 0, 0x14, 0, 0, 0, 0x18,
		0x28, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0,
	};

	(void)state;
	memset(ones, 0xff, sizeof(ones));
	for (int i = 0; i < 32; i++) {
		up[i] = (uint8_t)i;
		down[i] = (uint8_t)(31 - i);
	}
	assert_int_equal(crypto_crc32c(0, zeros, sizeof(zeros)), 0x8a9136aa);
	assert_int_equal(crypto_crc32c(0, ones, sizeof(ones)), 0x62a8ab43);
	assert_int_equal(crypto_crc32c(0, up, sizeof(up)), 0x46dd794e);
	assert_int_equal(crypto_crc32c(0, down, sizeof(down)), 0x113fdb5c);
	assert_int_equal(crypto_crc32c(0, read_pdu, sizeof(read_pdu)), 0xd9963a56);
	assert_int_equal(crypto_crc32c(0, "123456789", 9), 0xe3069283);
	assert_int_equal(crypto_crc32c(0, "", 0), 0);
}

static uint32_t bitwise(uint32_t reg, const uint8_t *p, size_t len)
{
	for (; len > 0; p++, len--) {
		reg ^= *p;
		for (int bit = 0; bit < 8; bit++)
			reg = (reg >> 1) ^ (reg & 1 ? 0x82f63b78 : 0);
	}
	return reg;
}

static void simple_agrees(void **state)
{
	uint8_t data[2048 + 8];

	(void)state;
	crypto_random(data, sizeof(data));
	for (size_t len = 0; len <= 2048; len += len < 300 ? 1 : 97) {
		const uint8_t *p = data + len % 8;
		uint32_t want = bitwise(~0u, p, len);

		assert_int_equal(~crypto_crc32c(0, p, len), want);
	}
}

static void split_anywhere(void **state)
{
	uint8_t data[4096];

	(void)state;
	for (int round = 0; round < 500; round++) {
		uint16_t at[2];
		uint32_t crc;

		crypto_random(data, sizeof(data));
		crypto_random(at, sizeof(at));
		at[0] %= sizeof(data);
		at[1] = (uint16_t)(at[0] + at[1] % (sizeof(data) - at[0]));
		crc = crypto_crc32c(0, data, at[0]);
		crc = crypto_crc32c(crc, data + at[0], (size_t)at[1] - at[0]);
		crc = crypto_crc32c(crc, data + at[1], sizeof(data) - at[1]);
		assert_int_equal(crc, crypto_crc32c(0, data, sizeof(data)));
	}
}

/* The CRC of a whole from those of its parts, which may be long runs of zeros. */
static void parts_combine(void **state)
{
	static uint8_t zeros[3000];
	uint8_t data[4096];
	uint32_t long_run;

	(void)state;
	for (int round = 0; round < 500; round++) {
		uint16_t at;
		uint32_t a, b;

		crypto_random(data, sizeof(data));
		crypto_random(&at, sizeof(at));
		at %= sizeof(data) + 1;
		a = crypto_crc32c(0, data, at);
		b = crypto_crc32c(0, data + at, sizeof(data) - at);
		assert_int_equal(crypto_crc32c_shift(a, sizeof(data) - at) ^ b,
				 crypto_crc32c(0, data, sizeof(data)));
		assert_int_equal(crypto_crc32c_zeros(at % sizeof(zeros)),
				 crypto_crc32c(0, zeros, at % sizeof(zeros)));
	}
	long_run = 0;
	for (int i = 0; i < 1024; i++)
		long_run = crypto_crc32c_shift(long_run, 1ull << 30) ^
			   crypto_crc32c_zeros(1ull << 30);
	assert_int_equal(long_run, crypto_crc32c_zeros(1ull << 40));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(vectors),
		cmocka_unit_test(simple_agrees),
		cmocka_unit_test(split_anywhere),
		cmocka_unit_test(parts_combine),
	};

	return cmocka_run_group_tests_name("crc32c", tests, NULL, NULL);
}
