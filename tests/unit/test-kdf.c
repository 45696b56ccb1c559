// SPDX-License-Identifier: Apache-2.0
/* HKDF against RFC 5869, HMAC against RFC 4231, and the small helpers. */
#include "crypto/crypto.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static size_t unhex(uint8_t *out, const char *hex)
{
	size_t n = strlen(hex) / 2;

	for (size_t i = 0; i < n; i++) {
		unsigned int v;

		assert_int_equal(sscanf(hex + 2 * i, "%2x", &v), 1);
		out[i] = (uint8_t)v;
	}
	return n;
}

static void hkdf_rfc5869(void **state)
{
	static const struct {
		const char *key, *salt, *info, *okm;
	} cases[] = {
		{ "0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b",
		  "000102030405060708090a0b0c", "f0f1f2f3f4f5f6f7f8f9",
		  "3cb25f25faacd57a90434f64d0362f2a2d2d0a90cf1a5a4c5db02d56ecc4c5bf"
		  "34007208d5b887185865" },
		{ "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f"
		  "202122232425262728292a2b2c2d2e2f303132333435363738393a3b3c3d3e3f"
		  "404142434445464748494a4b4c4d4e4f",
		  "606162636465666768696a6b6c6d6e6f707172737475767778797a7b7c7d7e7f"
		  "808182838485868788898a8b8c8d8e8f909192939495969798999a9b9c9d9e9f"
		  "a0a1a2a3a4a5a6a7a8a9aaabacadaeaf",
		  "b0b1b2b3b4b5b6b7b8b9babbbcbdbebfc0c1c2c3c4c5c6c7c8c9cacbcccdcecf"
		  "d0d1d2d3d4d5d6d7d8d9dadbdcdddedfe0e1e2e3e4e5e6e7e8e9eaebecedeeef"
		  "f0f1f2f3f4f5f6f7f8f9fafbfcfdfeff",
		  "b11e398dc80327a1c8e7f78c596a49344f012eda2d4efad8a050cc4c19afa97c"
		  "59045a99cac7827271cb41c65e590e09da3275600c2f09b8367793a9aca3db71"
		  "cc30c58179ec3e87c14c01d5c1f3434f1d87" },
		{ "0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b", "", "",
		  "8da4e775a563c18f715f802a063c5a31b8a11f5c5ee1879ec3454e5f3c738d2d"
		  "9d201395faa4b61a96c8" },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		uint8_t key[128], salt[128], info[128], want[128], got[128];
		size_t nkey = unhex(key, cases[i].key), nsalt = unhex(salt, cases[i].salt);
		size_t ninfo = unhex(info, cases[i].info), n = unhex(want, cases[i].okm);

		assert_int_equal(crypto_hkdf(got, n, key, nkey, salt, nsalt, info, ninfo), 0);
		assert_memory_equal(got, want, n);
	}
}

static void hkdf_too_long(void **state)
{
	static uint8_t out[255 * 32 + 1];
	const uint8_t key[KEY_BYTES] = { 1 };

	(void)state;
	assert_int_equal(crypto_hkdf(out, sizeof(out) - 1, key, sizeof(key), NULL, 0, NULL, 0), 0);
	assert_int_equal(crypto_hkdf(out, sizeof(out), key, sizeof(key), NULL, 0, NULL, 0), -EIO);
}

static void hmac_rfc4231(void **state)
{
	uint8_t big[131], four[25], dd[50], cd[50];
	const struct {
		const void *key;
		size_t keylen;
		const void *data;
		size_t len;
		const char *mac;
	} cases[] = {
		{ "\x0b\x0b\x0b\x0b\x0b\x0b\x0b\x0b\x0b\x0b\x0b\x0b\x0b\x0b\x0b\x0b\x0b\x0b\x0b\x0b",
		  20, "Hi There", 8,
		  "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7" },
		{ "Jefe", 4, "what do ya want for nothing?", 28,
		  "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843" },
		{ big, 20, dd, 50,
		  "773ea91e36800e46854db8ebd09181a72959098b3ef8c122d9635514ced565fe" },
		{ four, 25, cd, 50,
		  "82558a389a443c0ea4cc819899f2083a85f0faa3e578f8077a2e3ff46729665b" },
		{ big, 131, "Test Using Larger Than Block-Size Key - Hash Key First", 54,
		  "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54" },
	};

	(void)state;
	memset(big, 0xaa, sizeof(big));
	memset(dd, 0xdd, sizeof(dd));
	memset(cd, 0xcd, sizeof(cd));
	for (size_t i = 0; i < sizeof(four); i++)
		four[i] = (uint8_t)(i + 1);
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		/* In two pieces and an empty one: the result must be the same. */
		char *data = (char *)(uintptr_t)cases[i].data;
		struct iovec iov[] = { { data, 5 }, { NULL, 0 }, { data + 5, cases[i].len - 5 } };
		uint8_t want[MAC_BYTES], got[MAC_BYTES];

		unhex(want, cases[i].mac);
		assert_int_equal(crypto_hmac(got, cases[i].key, cases[i].keylen, iov, 3), 0);
		assert_memory_equal(got, want, MAC_BYTES);
	}
}

/* HMAC with an empty key and no data, as in other implementations. */
static void hmac_of_nothing(void **state)
{
	uint8_t want[MAC_BYTES], got[MAC_BYTES];

	(void)state;
	unhex(want, "b613679a0814d9ec772f95d778c35fc5ff1697c493715653c6c712144292c5ad");
	assert_int_equal(crypto_hmac(got, NULL, 0, NULL, 0), 0);
	assert_memory_equal(got, want, MAC_BYTES);
}

static void helpers(void **state)
{
	uint8_t a[64], b[64] = { 0 };

	(void)state;
	crypto_random(a, sizeof(a));
	assert_false(crypto_equal(a, b, sizeof(a)));
	memcpy(b, a, sizeof(a));
	assert_true(crypto_equal(a, b, sizeof(a)));
	b[63] ^= 1;
	assert_false(crypto_equal(a, b, sizeof(a)));
	assert_true(crypto_equal(a, b, 63));
	crypto_wipe(a, sizeof(a));
	for (size_t i = 0; i < sizeof(a); i++)
		assert_int_equal(a[i], 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(hkdf_rfc5869),
		cmocka_unit_test(hkdf_too_long),
		cmocka_unit_test(hmac_rfc4231),
		cmocka_unit_test(hmac_of_nothing),
		cmocka_unit_test(helpers),
	};

	return cmocka_run_group_tests_name("kdf", tests, NULL, NULL);
}
