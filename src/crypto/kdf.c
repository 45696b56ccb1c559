// SPDX-License-Identifier: Apache-2.0
/* Randomness, key derivation and message authentication of short things. */
#include "crypto/crypto.h"
#include "crypto/params.h"

#include <errno.h>
#include <openssl/core_names.h>
#include <openssl/crypto.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/kdf.h>
#include <stdlib.h>
#include <sys/random.h>

/* Not RAND_bytes(): its generator lives in the process, and rftpd forks. The kernel's
 * needs no reseeding and no start-up work. */
void crypto_random(void *out, size_t len)
{
	uint8_t *p = out;

	while (len > 0) {
		ssize_t n = getrandom(p, len, 0);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0) {
			log_error("the kernel gives no random bytes: no safe way on");
			abort();
		}
		p += n;
		len -= (size_t)n;
	}
}

static OSSL_PARAM sha256(void)
{
	static char name[] = "SHA256";

	return OSSL_PARAM_construct_utf8_string(OSSL_ALG_PARAM_DIGEST, name, 0);
}

int crypto_hkdf(uint8_t *out, size_t outlen, const uint8_t *key, size_t keylen,
		const void *salt, size_t saltlen, const void *info, size_t infolen)
{
	EVP_KDF *kdf = EVP_KDF_fetch(NULL, OSSL_KDF_NAME_HKDF, NULL);
	EVP_KDF_CTX *ctx = kdf ? EVP_KDF_CTX_new(kdf) : NULL;
	OSSL_PARAM params[5], *p = params;
	int ok;

	*p++ = sha256();
	*p++ = param_octets(OSSL_KDF_PARAM_KEY, key, keylen);
	/* No salt is a salt of zeroes, for RFC 5869 and for OpenSSL alike. */
	if (saltlen > 0)
		*p++ = param_octets(OSSL_KDF_PARAM_SALT, salt, saltlen);
	if (infolen > 0)
		*p++ = param_octets(OSSL_KDF_PARAM_INFO, info, infolen);
	*p = OSSL_PARAM_construct_end();

	ok = ctx && EVP_KDF_derive(ctx, out, outlen, params) == 1;
	EVP_KDF_CTX_free(ctx);
	EVP_KDF_free(kdf);
	if (ok)
		return 0;
	ERR_clear_error();
	return -EIO;
}

static bool hmac_pieces(EVP_MAC_CTX *ctx, const struct iovec *iov, int n)
{
	for (int i = 0; i < n; i++)
		if (EVP_MAC_update(ctx, iov[i].iov_base, iov[i].iov_len) != 1)
			return false;
	return true;
}

int crypto_hmac(uint8_t mac[MAC_BYTES], const uint8_t *key, size_t keylen,
		const struct iovec *iov, int n)
{
	EVP_MAC *alg = EVP_MAC_fetch(NULL, OSSL_MAC_NAME_HMAC, NULL);
	EVP_MAC_CTX *ctx = alg ? EVP_MAC_CTX_new(alg) : NULL;
	OSSL_PARAM params[2] = { sha256(), OSSL_PARAM_construct_end() };
	const uint8_t empty = 0; /* a NULL key would mean "the one before" */
	size_t len = 0;
	int ok;

	ok = ctx && EVP_MAC_init(ctx, keylen > 0 ? key : &empty, keylen, params) == 1 &&
	     hmac_pieces(ctx, iov, n) && EVP_MAC_final(ctx, mac, &len, MAC_BYTES) == 1 &&
	     len == MAC_BYTES;
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
