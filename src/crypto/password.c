// SPDX-License-Identifier: Apache-2.0
/* Passwords of the users file, hashed with scrypt (RFC 7914). */
#include "crypto/base64.h"
#include "crypto/crypto.h"
#include "crypto/params.h"

#include <errno.h>
#include <openssl/core_names.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/kdf.h>
#include <stdio.h>
#include <string.h>

#define SALT_BYTES 16
#define HASH_BYTES 32
#define SALT_MAX 64

struct scrypt {
	unsigned int log_n, r, p;
	uint8_t salt[SALT_MAX];
	size_t saltlen;
	uint8_t hash[HASH_BYTES];
};

/* 32 MiB and about a tenth of a second per try. */
#define SCRYPT_DEFAULT { .log_n = 15, .r = 8, .p = 1, .saltlen = SALT_BYTES }

/* What a hash may ask for at most: 4 GiB. */
#define LOG_N_MAX 20
#define R_MAX 32
#define P_MAX 16

static int scrypt(uint8_t hash[HASH_BYTES], const struct scrypt *s, const char *password)
{
	uint64_t n = (uint64_t)1 << s->log_n;
	/* OpenSSL refuses to use more than 32 MiB unless told: V, B and change. */
	uint64_t most = 128 * s->r * (n + s->p + 2) + 4096;
	uint32_t r = s->r, p = s->p;
	OSSL_PARAM params[] = {
		param_octets(OSSL_KDF_PARAM_PASSWORD, password, strlen(password)),
		param_octets(OSSL_KDF_PARAM_SALT, s->salt, s->saltlen),
		OSSL_PARAM_construct_uint64(OSSL_KDF_PARAM_SCRYPT_N, &n),
		OSSL_PARAM_construct_uint32(OSSL_KDF_PARAM_SCRYPT_R, &r),
		OSSL_PARAM_construct_uint32(OSSL_KDF_PARAM_SCRYPT_P, &p),
		OSSL_PARAM_construct_uint64(OSSL_KDF_PARAM_SCRYPT_MAXMEM, &most),
		OSSL_PARAM_construct_end(),
	};
	EVP_KDF *kdf = EVP_KDF_fetch(NULL, OSSL_KDF_NAME_SCRYPT, NULL);
	EVP_KDF_CTX *ctx = kdf ? EVP_KDF_CTX_new(kdf) : NULL;
	int ok = ctx && EVP_KDF_derive(ctx, hash, HASH_BYTES, params) == 1;

	EVP_KDF_CTX_free(ctx);
	EVP_KDF_free(kdf);
	if (ok)
		return 0;
	ERR_clear_error();
	return -EIO;
}

char *password_hash(const char *password)
{
	struct scrypt s = SCRYPT_DEFAULT;
	char salt[BASE64_ROOM(SALT_BYTES)], hash[BASE64_ROOM(HASH_BYTES)];
	char *text;

	crypto_random(s.salt, s.saltlen);
	if (scrypt(s.hash, &s, password) < 0)
		return NULL;
	base64_encode(salt, s.salt, s.saltlen);
	base64_encode(hash, s.hash, sizeof(s.hash));
	if (asprintf(&text, "scrypt$%u$%u$%u$%s$%s", s.log_n, s.r, s.p, salt, hash) < 0)
		return NULL;
	return text;
}

/* The field at *rest up to the next "$" or the end, which *rest then stands behind. */
static int field(const char **rest, char *out, size_t room)
{
	size_t n;

	if (!*rest)
		return -EINVAL;
	n = strcspn(*rest, "$");
	if (n >= room)
		return -EINVAL;
	memcpy(out, *rest, n);
	out[n] = '\0';
	*rest = (*rest)[n] == '$' ? *rest + n + 1 : NULL;
	return 0;
}

static int number(const char **rest, uint64_t most, unsigned int *out)
{
	char text[16];
	uint64_t v;

	if (field(rest, text, sizeof(text)) < 0 || parse_uint(text, 1, most, &v) < 0)
		return -EINVAL;
	*out = (unsigned int)v;
	return 0;
}

static int bytes(const char **rest, uint8_t *out, size_t max)
{
	char text[BASE64_ROOM(SALT_MAX)];

	return field(rest, text, sizeof(text)) < 0 ? -EINVAL : base64_decode(out, max, text);
}

static int parse(struct scrypt *s, const char *text)
{
	char name[8];
	int n;

	if (field(&text, name, sizeof(name)) < 0 || strcmp(name, "scrypt") != 0 ||
	    number(&text, LOG_N_MAX, &s->log_n) < 0 || number(&text, R_MAX, &s->r) < 0 ||
	    number(&text, P_MAX, &s->p) < 0)
		return -EINVAL;
	n = bytes(&text, s->salt, sizeof(s->salt));
	if (n < 0)
		return n;
	s->saltlen = (size_t)n;
	n = bytes(&text, s->hash, sizeof(s->hash));
	return n == HASH_BYTES && !text ? 0 : -EINVAL;
}

/* A bad hash is worked on with the default's parameters, so that the time of the
 * answer does not tell which users exist. */
bool password_check(const char *password, const char *hash)
{
	struct scrypt s = SCRYPT_DEFAULT;
	uint8_t mine[HASH_BYTES] = { 0 };
	bool good = hash && parse(&s, hash) == 0, same;

	if (!good)
		s = (struct scrypt)SCRYPT_DEFAULT;
	if (scrypt(mine, &s, password) < 0)
		good = false;
	same = crypto_equal(mine, s.hash, sizeof(mine));
	crypto_wipe(mine, sizeof(mine));
	return good && same;
}
