// SPDX-License-Identifier: Apache-2.0
/* Digests of files by the names of FTP's HASH command, and of the journal's runs. */
#include "crypto/crypto.h"

#include <errno.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <string.h>
#include <strings.h>
#ifdef HAVE_XXH_DISPATCH
#include <xxh_x86dispatch.h> /* after this XXH3 is what suits the CPU */
#else
#include <xxhash.h>
#endif

_Static_assert(DIGEST_MAX >= EVP_MAX_MD_SIZE, "the longest digest must fit");

struct digest_kind {
	const char *name;
	int (*start)(struct digest *d); /* also to begin again */
	int (*update)(struct digest *d, const void *data, size_t len);
	int (*final)(struct digest *d, uint8_t *out); /* length, or a negative errno */
};

struct digest {
	const struct digest_kind *kind;
	EVP_MD *md;           /* one of these three is in use */
	EVP_MD_CTX *evp;
	XXH3_state_t *xxh;
	uint32_t crc;
};

static int failed(void)
{
	ERR_clear_error();
	return -EIO;
}

static int evp_start(struct digest *d)
{
	if (!d->md)
		d->md = EVP_MD_fetch(NULL, d->kind->name, NULL);
	if (!d->md) {
		ERR_clear_error();
		return -EINVAL; /* a FIPS provider knows no MD5 */
	}
	if (!d->evp)
		d->evp = EVP_MD_CTX_new();
	if (!d->evp)
		return -ENOMEM;
	return EVP_DigestInit_ex2(d->evp, d->md, NULL) == 1 ? 0 : failed();
}

static int evp_update(struct digest *d, const void *data, size_t len)
{
	return EVP_DigestUpdate(d->evp, data, len) == 1 ? 0 : failed();
}

static int evp_final(struct digest *d, uint8_t *out)
{
	unsigned int len = 0;

	return EVP_DigestFinal_ex(d->evp, out, &len) == 1 ? (int)len : failed();
}

static int crc_start(struct digest *d)
{
	d->crc = 0;
	return 0;
}

static int crc_update(struct digest *d, const void *data, size_t len)
{
	d->crc = crypto_crc32c(d->crc, data, len);
	return 0;
}

static int crc_final(struct digest *d, uint8_t *out)
{
	put_be32(out, d->crc);
	return sizeof(d->crc);
}

static int xxh_start(struct digest *d)
{
	if (!d->xxh)
		d->xxh = XXH3_createState();
	if (!d->xxh)
		return -ENOMEM;
	return XXH3_128bits_reset(d->xxh) == XXH_OK ? 0 : -EIO;
}

static int xxh_update(struct digest *d, const void *data, size_t len)
{
	return XXH3_128bits_update(d->xxh, data, len) == XXH_OK ? 0 : -EIO;
}

static int xxh_final(struct digest *d, uint8_t *out)
{
	XXH128_canonical_t c;

	XXH128_canonicalFromHash(&c, XXH3_128bits_digest(d->xxh));
	memcpy(out, c.digest, sizeof(c.digest));
	return sizeof(c.digest);
}

#define KINDS (sizeof(kinds) / sizeof(kinds[0]))

/* The preferred one first: what a client is offered when it does not choose. */
static const struct digest_kind kinds[] = {
	{ "SHA-256", evp_start, evp_update, evp_final },
	{ "SHA-512", evp_start, evp_update, evp_final },
	{ "SHA-1", evp_start, evp_update, evp_final },
	{ "MD5", evp_start, evp_update, evp_final },
	{ "CRC32C", crc_start, crc_update, crc_final },
	{ "XXH128", xxh_start, xxh_update, xxh_final },
};

static const char *const names[KINDS + 1] = {
	"SHA-256", "SHA-512", "SHA-1", "MD5", "CRC32C", "XXH128", NULL,
};

const char *const *digest_names(void)
{
	return names;
}

/* FTP's words are the same in either case. */
static const struct digest_kind *find_kind(const char *name)
{
	for (size_t i = 0; i < KINDS; i++)
		if (strcasecmp(kinds[i].name, name) == 0)
			return &kinds[i];
	return NULL;
}

struct digest *digest_new(const char *name)
{
	const struct digest_kind *kind = find_kind(name);
	struct digest *d;
	int r;

	if (!kind) {
		errno = EINVAL;
		return NULL;
	}
	d = calloc(1, sizeof(*d));
	if (!d)
		return NULL;
	d->kind = kind;
	r = kind->start(d);
	if (r < 0) {
		digest_free(d);
		errno = -r;
		return NULL;
	}
	return d;
}

void digest_free(struct digest *d)
{
	if (!d)
		return;
	EVP_MD_CTX_free(d->evp);
	EVP_MD_free(d->md);
	XXH3_freeState(d->xxh);
	free(d);
}

int digest_update(struct digest *d, const void *data, size_t len)
{
	return len > 0 ? d->kind->update(d, data, len) : 0;
}

static void to_hex(char *hex, const uint8_t *p, size_t len)
{
	static const char digits[] = "0123456789abcdef";

	for (size_t i = 0; i < len; i++) {
		*hex++ = digits[p[i] >> 4];
		*hex++ = digits[p[i] & 15];
	}
	*hex = '\0';
}

int digest_final_hex(struct digest *d, char *hex)
{
	uint8_t sum[DIGEST_MAX];
	int n = d->kind->final(d, sum);

	if (n < 0)
		return n;
	to_hex(hex, sum, (size_t)n);
	return d->kind->start(d);
}

void crypto_run_digest(uint8_t out[RUN_DIGEST_BYTES], const void *data, size_t len)
{
	XXH128_canonical_t c;

	_Static_assert(sizeof(c.digest) == RUN_DIGEST_BYTES, "XXH128 is 128 bits");
	XXH128_canonicalFromHash(&c, XXH3_128bits(data, len));
	memcpy(out, c.digest, sizeof(c.digest));
}
