// SPDX-License-Identifier: Apache-2.0
/* Password hashes: a known one, new ones, and malformed ones. */
#include "crypto/crypto.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

/* RFC 7914 §12: "pleaseletmein", "SodiumChloride", N 16384, r 8, p 1; the first 32 bytes. */
#define SALT "U29kaXVtQ2hsb3JpZGU"
#define HASH "cCO9yzr9c0hGHAbNgf046/2o+7qQT44+qbVD9lRdofI"
#define RFC7914 "scrypt$14$8$1$" SALT "$" HASH

static void known(void **state)
{
	(void)state;
	assert_true(password_check("pleaseletmein", RFC7914));
	assert_false(password_check("pleaseletmeout", RFC7914));
	assert_false(password_check("", RFC7914));
}

static void own(void **state)
{
	static const char *const words[] = { "", "x", "correct horse battery staple",
					     "p\xc3\xa4ssw\xc3\xb6rd" };

	(void)state;
	for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
		char *hash = password_hash(words[i]);

		assert_non_null(hash);
		assert_int_equal(strncmp(hash, "scrypt$15$8$1$", 14), 0);
		assert_null(strchr(hash, '='));
		assert_true(password_check(words[i], hash));
		assert_false(password_check("other", hash));
		free(hash);
	}
}

static void salted(void **state)
{
	char *a = password_hash("same"), *b = password_hash("same");

	(void)state;
	assert_string_not_equal(a, b);
	free(a);
	free(b);
}

static void malformed(void **state)
{
	static const char *const hashes[] = {
		NULL,
		"",
		"pleaseletmein",
		"scrypt",
		"scrypt$14$8$1",
		"scrypt$14$8$1$" SALT,
		"scrypt$14$8$1$" SALT "$",
		"scrypt$14$8$1$" SALT "$" HASH "$",
		"scrypt$14$8$1$" SALT "$" HASH "$x",
		"scrypt$14$8$1$" SALT "$" HASH "=",
		"scrypt$14$8$1$" SALT " $" HASH,
		"scrypt$14$8$1$ " SALT "$" HASH,
		"scrypt$14$8$1$" SALT "$cCO9yzr9c0hGHAbNgf046/2o",
		"scrypt$14$8$1$" SALT "$cCO9yzr9c0hGHAbNgf046/2o+7qQT44+qbVD9lRdofJ",
		"bcrypt$14$8$1$" SALT "$" HASH,
		" scrypt$14$8$1$" SALT "$" HASH,
		"scrypt$-14$8$1$" SALT "$" HASH,
		"scrypt$14x$8$1$" SALT "$" HASH,
		"scrypt$0$8$1$" SALT "$" HASH,
		"scrypt$21$8$1$" SALT "$" HASH,
		"scrypt$14$33$1$" SALT "$" HASH,
		"scrypt$14$8$17$" SALT "$" HASH,
		"scrypt$14$8$0$" SALT "$" HASH,
		"scrypt$99999999999999999999$8$1$" SALT "$" HASH,
	};

	(void)state;
	for (size_t i = 0; i < sizeof(hashes) / sizeof(hashes[0]); i++)
		assert_false(password_check("pleaseletmein", hashes[i]));
}

static uint64_t cost(const char *hash)
{
	uint64_t before = cpu_ns();

	assert_false(password_check("wrong", hash));
	return cpu_ns() - before;
}

/* The check for an unknown user must not take less time. */
static void malformed_takes_as_long(void **state)
{
	char *good = password_hash("right");

	(void)state;
	cost(good);
	assert_true(cost(NULL) > cost(good) / 3);
	assert_true(cost("scrypt$20$32$99$x$y") > cost(good) / 3);
	free(good);
}

static void base64(void **state)
{
	uint8_t in[64], out[64];
	char text[BASE64_ROOM(64)];
	size_t len;

	(void)state;
	for (size_t n = 0; n <= sizeof(in); n++) {
		crypto_random(in, sizeof(in));
		len = base64_encode(text, in, n);
		assert_int_equal(strlen(text), len);
		assert_int_equal(base64_decode(out, n, text), (int)n);
		assert_memory_equal(in, out, n);
		if (n > 0)
			assert_int_equal(base64_decode(out, n - 1, text), -EINVAL);
	}
	assert_int_equal(base64_decode(out, sizeof(out), "A"), -EINVAL);
	assert_int_equal(base64_decode(out, sizeof(out), "AB"), -EINVAL);
	assert_int_equal(base64_decode(out, sizeof(out), "AA=="), -EINVAL);
	assert_int_equal(base64_decode(out, sizeof(out), "A-_A"), -EINVAL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(known),
		cmocka_unit_test(own),
		cmocka_unit_test(salted),
		cmocka_unit_test(malformed),
		cmocka_unit_test(malformed_takes_as_long),
		cmocka_unit_test(base64),
	};

	return cmocka_run_group_tests_name("password", tests, NULL, NULL);
}
