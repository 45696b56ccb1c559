// SPDX-License-Identifier: Apache-2.0
/* Blocks sealed with AES-256-GCM: one cipher context per key, which keeps the key
 * schedule and GHASH table, so that a block costs a new nonce and its bytes. */
#include "crypto/crypto.h"

#include <errno.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <string.h>

#define IV_BYTES 12
/* EVP counts in int. A multiple of the cipher's block, so that no piece but the last
 * leaves a part of a block behind. */
#define PIECE_MAX ((size_t)1 << 30)

enum direction { OPEN, SEAL }; /* as EVP's "enc" */

struct sealer {
	EVP_CIPHER_CTX *ctx;
};

static EVP_CIPHER_CTX *new_context(const uint8_t key[KEY_BYTES])
{
	EVP_CIPHER *gcm = EVP_CIPHER_fetch(NULL, "AES-256-GCM", NULL);
	EVP_CIPHER_CTX *ctx = EVP_CIPHER_CTX_new();

	if (!gcm || !ctx || EVP_CipherInit_ex2(ctx, gcm, key, NULL, SEAL, NULL) != 1) {
		EVP_CIPHER_CTX_free(ctx);
		ctx = NULL;
	}
	EVP_CIPHER_free(gcm); /* the context holds its own reference */
	return ctx;
}

struct sealer *sealer_new(const uint8_t key[KEY_BYTES])
{
	struct sealer *s = calloc(1, sizeof(*s));

	if (!s)
		return NULL;
	s->ctx = new_context(key);
	if (!s->ctx) {
		ERR_clear_error();
		free(s);
		return NULL;
	}
	return s;
}

void sealer_free(struct sealer *s)
{
	if (!s)
		return;
	EVP_CIPHER_CTX_free(s->ctx); /* wipes the key schedule */
	free(s);
}

/* The key stays: GCM's schedule is the same in both directions. */
static bool start(struct sealer *s, uint64_t nonce, enum direction dir)
{
	uint8_t iv[IV_BYTES] = { 0 };

	put_be64(iv + IV_BYTES - sizeof(nonce), nonce);
	return EVP_CipherInit_ex2(s->ctx, NULL, NULL, iv, dir, NULL) == 1;
}

/* out == NULL: additional data. */
static bool feed(struct sealer *s, uint8_t *out, const uint8_t *in, size_t len)
{
	while (len > 0) {
		size_t n = len < PIECE_MAX ? len : PIECE_MAX;
		int done;

		if (EVP_CipherUpdate(s->ctx, out, &done, in, (int)n) != 1)
			return false;
		in += n;
		if (out)
			out += n;
		len -= n;
	}
	return true;
}

static bool feed_all(struct sealer *s, const struct iovec *aad, int naad,
		     const uint8_t *in, uint8_t *out, size_t len)
{
	for (int i = 0; i < naad; i++)
		if (!feed(s, NULL, aad[i].iov_base, aad[i].iov_len))
			return false;
	/* Without out the payload would silently become additional data. */
	if (!in || len == 0)
		return true;
	return out && feed(s, out, in, len);
}

/* GCM has nothing left to write at the end, but EVP wants a place for it. */
static bool finish(struct sealer *s)
{
	uint8_t none[TAG_BYTES];
	int n;

	return EVP_CipherFinal_ex(s->ctx, none, &n) == 1;
}

static int failed(int code)
{
	ERR_clear_error();
	return code;
}

int sealer_seal(struct sealer *s, uint64_t nonce, const struct iovec *aad, int naad,
		const uint8_t *in, uint8_t *out, size_t len, uint8_t tag[TAG_BYTES])
{
	if (!start(s, nonce, SEAL) || !feed_all(s, aad, naad, in, out, len) || !finish(s) ||
	    EVP_CIPHER_CTX_ctrl(s->ctx, EVP_CTRL_AEAD_GET_TAG, TAG_BYTES, tag) != 1)
		return failed(-EIO);
	return 0;
}

static int open_and_check(struct sealer *s, uint64_t nonce, const struct iovec *aad, int naad,
			  const uint8_t *in, uint8_t *out, size_t len,
			  const uint8_t tag[TAG_BYTES])
{
	uint8_t expect[TAG_BYTES];

	memcpy(expect, tag, TAG_BYTES); /* EVP does not know const */
	if (!start(s, nonce, OPEN) || !feed_all(s, aad, naad, in, out, len) ||
	    EVP_CIPHER_CTX_ctrl(s->ctx, EVP_CTRL_AEAD_SET_TAG, TAG_BYTES, expect) != 1)
		return failed(-EIO);
	return finish(s) ? 0 : failed(-EBADMSG);
}

int sealer_open(struct sealer *s, uint64_t nonce, const struct iovec *aad, int naad,
		const uint8_t *in, uint8_t *out, size_t len, const uint8_t tag[TAG_BYTES])
{
	int r = open_and_check(s, nonce, aad, naad, in, out, len, tag);

	/* What is not proved to be the peer's must not be used by mistake. */
	if (r < 0 && in && out)
		crypto_wipe(out, len);
	return r;
}
