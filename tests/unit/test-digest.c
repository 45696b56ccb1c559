// SPDX-License-Identifier: Apache-2.0
/* Digests of files: known values, in one piece and in several, and reuse after the final value. */
#include "crypto/crypto.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

static const struct {
	const char *name, *of_nothing, *of_abc;
} known[] = {
	{ "SHA-256", "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
	  "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad" },
	{ "SHA-512",
	  "cf83e1357eefb8bdf1542850d66d8007d620e4050b5715dc83f4a921d36ce9ce"
	  "47d0d13c5d85f2b0ff8318d2877eec2f63b931bd47417a81a538327af927da3e",
	  "ddaf35a193617abacc417349ae20413112e6fa4e89a97ea20a9eeee64b55d39a"
	  "2192992a274fc1a836ba3c23a3feebbd454d4423643ce80e2a9ac94fa54ca49f" },
	{ "SHA-1", "da39a3ee5e6b4b0d3255bfef95601890afd80709",
	  "a9993e364706816aba3e25717850c26c9cd0d89d" },
	{ "MD5", "d41d8cd98f00b204e9800998ecf8427e", "900150983cd24fb0d6963f7d28e17f72" },
	{ "CRC32C", "00000000", "364b3fb7" },
	{ "XXH128", "99aa06d3014798d86001c324468d497f", "06b05ab6733a618578af5f94892f3950" },
	{ "Adler-32", "00000001", "024d0127" },
};
#define KNOWN (sizeof(known) / sizeof(known[0]))

static void known_sums(void **state)
{
	char hex[2 * DIGEST_MAX + 1];

	(void)state;
	for (size_t i = 0; i < KNOWN; i++) {
		struct digest *d = digest_new(known[i].name);

		assert_non_null(d);
		assert_int_equal(digest_final_hex(d, hex), 0);
		assert_string_equal(hex, known[i].of_nothing);
		/* digest_final_hex() resets the digest. */
		for (int round = 0; round < 2; round++) {
			assert_int_equal(digest_update(d, "a", 1), 0);
			assert_int_equal(digest_update(d, NULL, 0), 0);
			assert_int_equal(digest_update(d, "bc", 2), 0);
			assert_int_equal(digest_final_hex(d, hex), 0);
			assert_string_equal(hex, known[i].of_abc);
		}
		digest_free(d);
	}
}

static void names(void **state)
{
	const char *const *list = digest_names();

	(void)state;
	assert_string_equal(list[0], "SHA-256");
	for (size_t i = 0; i < KNOWN; i++)
		assert_string_equal(list[i], known[i].name);
	assert_null(list[KNOWN]);
	errno = 0;
	assert_null(digest_new("SHA-3"));
	assert_int_equal(errno, EINVAL);
	assert_null(digest_new(""));
	digest_free(NULL);
}

static void without_hyphens(void **state)
{
	(void)state;
	assert_string_equal(digest_name("sha256"), "SHA-256");
	assert_string_equal(digest_name("ADLER32"), "Adler-32");
	assert_string_equal(digest_name("md-5"), "MD5");
	assert_null(digest_name("SHA25"));
	assert_null(digest_name("SHA2567"));
	assert_null(digest_name("-"));
}

static void either_case(void **state)
{
	struct digest *d = digest_new("sha-256");
	char hex[2 * DIGEST_MAX + 1];

	(void)state;
	assert_non_null(d);
	assert_int_equal(digest_final_hex(d, hex), 0);
	assert_string_equal(hex, known[0].of_nothing);
	digest_free(d);
}

/* run_digest() of all data equals XXH128 over pieces of it. */
static void run_digest(void **state)
{
	struct digest *d = digest_new("XXH128");
	uint8_t data[10000], sum[RUN_DIGEST_BYTES];
	char hex[2 * DIGEST_MAX + 1];

	(void)state;
	crypto_random(data, sizeof(data));
	crypto_run_digest(sum, data, sizeof(data));
	for (size_t at = 0; at < sizeof(data); at += 1000)
		assert_int_equal(digest_update(d, data + at, 1000), 0);
	assert_int_equal(digest_final_hex(d, hex), 0);
	for (size_t i = 0; i < sizeof(sum); i++) {
		char two[3] = { hex[2 * i], hex[2 * i + 1], 0 };

		assert_int_equal(strtoul(two, NULL, 16), sum[i]);
	}
	digest_free(d);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(known_sums),
		cmocka_unit_test(names),
		cmocka_unit_test(without_hyphens),
		cmocka_unit_test(either_case),
		cmocka_unit_test(run_digest),
	};

	return cmocka_run_group_tests_name("digest", tests, NULL, NULL);
}
