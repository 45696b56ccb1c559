// SPDX-License-Identifier: Apache-2.0
/* Randomness, key derivation, message authentication, the sealing of blocks, and the users file's
 * passwords, hashed with scrypt (RFC 7914). */
#include "crypto/crypto.h"

#include <limits.h>
#include <openssl/core_names.h>
#include <openssl/crypto.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/kdf.h>
#include <openssl/params.h>
#include <sys/random.h>

/* RAND_bytes() is not used: it keeps its generator's state in the process, and rftpd forks. The
 * kernel's generator needs no reseeding. */
void crypto_random(void *out, size_t len)
{
	uint8_t *p = out;

	while (len > 0) {
		ssize_t n = getrandom(p, len, 0);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0) {
			log_error("the kernel gives no random bytes: cannot continue safely");
			abort();
		}
		p += n;
		len -= (size_t)n;
	}
}

/* OSSL_PARAM has no const because it serves input and output; these parameters are only read. For
 * OpenSSL NULL means "not given", so the data of an empty key must not be NULL. */
static OSSL_PARAM param_octets(const char *key, const void *p, size_t len)
{
	OSSL_PARAM param = OSSL_PARAM_construct_octet_string(key, NULL, len);
	const void *data = len > 0 ? p : "";

	memcpy(&param.data, &data, sizeof(param.data));
	return param;
}

static OSSL_PARAM param_sha256(void)
{
	static char name[] = "SHA256";

	return OSSL_PARAM_construct_utf8_string(OSSL_ALG_PARAM_DIGEST, name, 0);
}

static int kdf_derive(const char *name, const OSSL_PARAM *params, uint8_t *out, size_t len)
{
	EVP_KDF *kdf = EVP_KDF_fetch(NULL, name, NULL);
	EVP_KDF_CTX *ctx = kdf ? EVP_KDF_CTX_new(kdf) : NULL;
	int ok = ctx && EVP_KDF_derive(ctx, out, len, params) == 1;

	EVP_KDF_CTX_free(ctx);
	EVP_KDF_free(kdf);
	if (ok)
		return 0;
	ERR_clear_error();
	return -EIO;
}

int crypto_hkdf(uint8_t *out, size_t outlen, const uint8_t *key, size_t keylen,
		const void *salt, size_t saltlen, const void *info, size_t infolen)
{
	OSSL_PARAM params[5], *p = params;

	*p++ = param_sha256();
	*p++ = param_octets(OSSL_KDF_PARAM_KEY, key, keylen);
	/* RFC 5869 and OpenSSL both treat a missing salt as zeros. */
	if (saltlen > 0)
		*p++ = param_octets(OSSL_KDF_PARAM_SALT, salt, saltlen);
	if (infolen > 0)
		*p++ = param_octets(OSSL_KDF_PARAM_INFO, info, infolen);
	*p = OSSL_PARAM_construct_end();
	return kdf_derive(OSSL_KDF_NAME_HKDF, params, out, outlen);
}

int crypto_hmac(uint8_t mac[MAC_BYTES], const uint8_t *key, size_t keylen,
		const struct iovec *iov, int n)
{
	EVP_MAC *alg = EVP_MAC_fetch(NULL, OSSL_MAC_NAME_HMAC, NULL);
	EVP_MAC_CTX *ctx = alg ? EVP_MAC_CTX_new(alg) : NULL;
	OSSL_PARAM params[2] = { param_sha256(), OSSL_PARAM_construct_end() };
	const uint8_t empty = 0; /* with a NULL key OpenSSL would use the previous key */
	size_t len = 0;
	bool ok = ctx && EVP_MAC_init(ctx, keylen > 0 ? key : &empty, keylen, params) == 1;

	for (int i = 0; ok && i < n; i++)
		ok = EVP_MAC_update(ctx, iov[i].iov_base, iov[i].iov_len) == 1;
	ok = ok && EVP_MAC_final(ctx, mac, &len, MAC_BYTES) == 1 && len == MAC_BYTES;
	EVP_MAC_CTX_free(ctx);
	EVP_MAC_free(alg);
	if (ok)
		return 0;
	ERR_clear_error();
	return -EIO;
}

bool crypto_equal(const void *a, const void *b, size_t len)
{
	return CRYPTO_memcmp(a, b, len) == 0;
}

void crypto_wipe(void *p, size_t len)
{
	OPENSSL_cleanse(p, len);
}

/* ---- sealing of blocks with AES-256-GCM ---- */

#define IV_BYTES 12

enum direction { OPEN, SEAL }; /* as EVP's "enc" */

/* One cipher context per key stores the key schedule and the GHASH table, so that each block needs
 * only a new nonce. */
struct sealer {
	EVP_CIPHER_CTX *ctx;
};

struct sealer *sealer_new(const uint8_t key[KEY_BYTES])
{
	struct sealer *s = calloc(1, sizeof(*s));
	EVP_CIPHER *gcm = EVP_CIPHER_fetch(NULL, "AES-256-GCM", NULL);

	if (s)
		s->ctx = EVP_CIPHER_CTX_new();
	if (!gcm || !s || !s->ctx || EVP_CipherInit_ex2(s->ctx, gcm, key, NULL, SEAL, NULL) != 1) {
		ERR_clear_error();
		sealer_free(s);
		s = NULL;
	}
	EVP_CIPHER_free(gcm); /* the context holds its own reference */
	return s;
}

void sealer_free(struct sealer *s)
{
	if (!s)
		return;
	EVP_CIPHER_CTX_free(s->ctx); /* wipes the key schedule */
	free(s);
}

static int sealer_run(struct sealer *s, uint64_t nonce, enum direction dir,
		      const struct iovec *aad, int naad, const uint8_t *in, uint8_t *out,
		      size_t len, uint8_t tag[TAG_BYTES])
{
	const int ctrl = dir == SEAL ? EVP_CTRL_AEAD_GET_TAG : EVP_CTRL_AEAD_SET_TAG;
	uint8_t iv[IV_BYTES] = { 0 }, none[TAG_BYTES];
	int n, r = -EIO;
	bool ok;

	put_be64(iv + IV_BYTES - sizeof(nonce), nonce);

	/* Keep the key: GCM's key schedule is the same in both directions. */
	ok = EVP_CipherInit_ex2(s->ctx, NULL, NULL, iv, dir, NULL) == 1 && len <= INT_MAX;
	for (int i = 0; ok && i < naad; i++)
		ok = aad[i].iov_len == 0 || EVP_CipherUpdate(s->ctx, NULL, &n, aad[i].iov_base,
							     (int)aad[i].iov_len) == 1;
	/* With out NULL, EVP would silently treat the payload as additional data. */
	if (ok && in && len > 0)
		ok = out && EVP_CipherUpdate(s->ctx, out, &n, in, (int)len) == 1;
	if (ok && dir == OPEN)
		ok = EVP_CIPHER_CTX_ctrl(s->ctx, ctrl, TAG_BYTES, tag) == 1;

	/* GCM writes nothing at the end, but EVP requires a buffer. */
	if (ok && EVP_CipherFinal_ex(s->ctx, none, &n) == 1)
		r = 0;
	else if (ok && dir == OPEN)
		r = -EBADMSG;
	if (r == 0 && dir == SEAL && EVP_CIPHER_CTX_ctrl(s->ctx, ctrl, TAG_BYTES, tag) != 1)
		r = -EIO;
	if (r < 0)
		ERR_clear_error();
	return r;
}

int sealer_seal(struct sealer *s, uint64_t nonce, const struct iovec *aad, int naad,
		const uint8_t *in, uint8_t *out, size_t len, uint8_t tag[TAG_BYTES])
{
	return sealer_run(s, nonce, SEAL, aad, naad, in, out, len, tag);
}

int sealer_open(struct sealer *s, uint64_t nonce, const struct iovec *aad, int naad,
		const uint8_t *in, uint8_t *out, size_t len, const uint8_t tag[TAG_BYTES])
{
	uint8_t expect[TAG_BYTES];
	int r;

	memcpy(expect, tag, TAG_BYTES); /* EVP takes no const pointer */
	r = sealer_run(s, nonce, OPEN, aad, naad, in, out, len, expect);

	/* Unauthenticated bytes must not be used by mistake. */
	if (r < 0 && in && out)
		crypto_wipe(out, len);
	return r;
}

/* ---- base64 without padding ---- */

#define DECODE_MAX 64 /* bytes of a salt or hash */

size_t base64_encode(char *text, const uint8_t *p, size_t len)
{
	size_t n = (size_t)EVP_EncodeBlock((unsigned char *)text, p, (int)len);

	while (n > 0 && text[n - 1] == '=')
		n--;
	text[n] = '\0';
	return n;
}

int base64_decode(uint8_t *out, size_t max, const char *text)
{
	char padded[BASE64_ROOM(DECODE_MAX)], again[BASE64_ROOM(DECODE_MAX)];
	uint8_t bytes[DECODE_MAX + 2]; /* 2 more for the decoded padding */
	size_t len = strlen(text), full = (len + 3) / 4 * 4, n = len * 3 / 4;

	if (full >= sizeof(padded) || n > max)
		return -EINVAL;
	memset(padded, '=', full);
	memcpy(padded, text, len);
	if (EVP_DecodeBlock(bytes, (const unsigned char *)padded, (int)full) < 0)
		return -EINVAL;
	/* OpenSSL accepts blanks, stray padding and spare bits; only the canonical text is
	 * valid here. */
	base64_encode(again, bytes, n);
	if (strcmp(again, text) != 0)
		return -EINVAL;
	memcpy(out, bytes, n);
	crypto_wipe(bytes, sizeof(bytes));
	return (int)n;
}

/* ---- passwords ---- */

#define SALT_BYTES 16
#define HASH_BYTES 32
#define SALT_MAX 64

struct scrypt {
	unsigned int log_n, r, p;
	uint8_t salt[SALT_MAX];
	size_t saltlen;
	uint8_t hash[HASH_BYTES];
};

/* A check takes 32 MiB and about a tenth of a second. */
#define SCRYPT_DEFAULT { .log_n = 15, .r = 8, .p = 1, .saltlen = SALT_BYTES }

/* The limits for a hash from the users file: 4 GiB of memory. */
#define LOG_N_MAX 20
#define R_MAX 32
#define P_MAX 16

static int scrypt_hash(uint8_t hash[HASH_BYTES], const struct scrypt *s, const char *password)
{
	uint64_t n = (uint64_t)1 << s->log_n;
	/* OpenSSL's default limit is 32 MiB, so pass a limit: scrypt's arrays V and B, with a
	 * margin. */
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

	return kdf_derive(OSSL_KDF_NAME_SCRYPT, params, hash, HASH_BYTES);
}

char *password_hash(const char *password)
{
	struct scrypt s = SCRYPT_DEFAULT;
	char salt[BASE64_ROOM(SALT_BYTES)], hash[BASE64_ROOM(HASH_BYTES)];
	char *text;

	crypto_random(s.salt, s.saltlen);
	if (scrypt_hash(s.hash, &s, password) < 0)
		return NULL;
	base64_encode(salt, s.salt, s.saltlen);
	base64_encode(hash, s.hash, sizeof(s.hash));
	if (asprintf(&text, "scrypt$%u$%u$%u$%s$%s", s.log_n, s.r, s.p, salt, hash) < 0)
		return NULL;
	return text;
}

/* The widths in the format keep numbers below 100, and texts within their arrays. */
static bool parse_scrypt(struct scrypt *s, const char *text)
{
	char salt[BASE64_ROOM(SALT_MAX)], hash[BASE64_ROOM(HASH_BYTES)];
	int end = 0, n;

	_Static_assert(sizeof(salt) > 86 && sizeof(hash) > 43, "as the format below has them");
	if (sscanf(text, "scrypt$%2u$%2u$%2u$%86[^$]$%43[^$]%n", &s->log_n, &s->r, &s->p, salt,
		   hash, &end) != 5 || text[end])
		return false;
	if (s->log_n < 1 || s->log_n > LOG_N_MAX || s->r < 1 || s->r > R_MAX || s->p < 1 ||
	    s->p > P_MAX)
		return false;

	n = base64_decode(s->salt, sizeof(s->salt), salt);
	s->saltlen = n > 0 ? (size_t)n : 0;
	return n > 0 && base64_decode(s->hash, sizeof(s->hash), hash) == HASH_BYTES;
}

/* A malformed hash takes as long as one with the default parameters, so that the response time does
 * not show which users exist. */
bool password_check(const char *password, const char *hash)
{
	struct scrypt s = SCRYPT_DEFAULT;
	uint8_t mine[HASH_BYTES] = { 0 };
	bool good = hash && parse_scrypt(&s, hash), same;

	if (!good)
		s = (struct scrypt)SCRYPT_DEFAULT;
	if (scrypt_hash(mine, &s, password) < 0)
		good = false;
	same = crypto_equal(mine, s.hash, sizeof(mine));
	crypto_wipe(mine, sizeof(mine));
	return good && same;
}
