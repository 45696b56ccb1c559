// SPDX-License-Identifier: Apache-2.0
/* CRC32C; digests of files, named as in FTP's HASH command, and of the journal's runs. */
#include "crypto/crypto.h"

#include <limits.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <strings.h>
#include <zlib.h>
#ifdef HAVE_XXH_DISPATCH
#include <xxh_x86dispatch.h> /* selects the XXH3 variant for this CPU */
#else
#include <xxhash.h>
#endif
#ifdef HAVE_ISAL
#include <isa-l/crc.h>
#elif defined(__x86_64__)
#include <nmmintrin.h>
#endif

/* ---- CRC32C: by ISA-L, or without it by the CPU's instruction or tables ---- */

/* The polynomial. Bit 31 is the coefficient of x^0. */
#define CRC32C_REFLECTED 0x82f63b78u

#ifdef HAVE_ISAL

/* ISA-L selects the CPU's instructions. Its function takes the length as int, and the pointer
 * without const. */
uint32_t crypto_crc32c(uint32_t crc, const void *data, size_t len)
{
	const size_t most = INT_MAX & ~4095;
	uint8_t *p = (uint8_t *)(uintptr_t)data;

	crc = ~crc;
	while (len > 0) {
		size_t n = len < most ? len : most;

		crc = crc32_iscsi(p, (int)n, crc);
		p += n;
		len -= n;
	}
	return ~crc;
}

#else

static uint32_t crc_table[8][256];
static pthread_once_t crc_table_made = PTHREAD_ONCE_INIT;

/* crc_table[k][b]: the effect on the register of byte b followed by k zero bytes. */
static void make_crc_table(void)
{
	for (uint32_t b = 0; b < 256; b++) {
		uint32_t reg = b;

		for (int bit = 0; bit < 8; bit++)
			reg = (reg >> 1) ^ (reg & 1 ? CRC32C_REFLECTED : 0);
		crc_table[0][b] = reg;
	}

	for (uint32_t b = 0; b < 256; b++)
		for (int k = 1; k < 8; k++)
			crc_table[k][b] = (crc_table[k - 1][b] >> 8) ^
					  crc_table[0][crc_table[k - 1][b] & 0xff];
}

#ifdef __x86_64__
__attribute__((target("sse4.2")))
static uint32_t crc_by_instruction(uint32_t crc, const uint8_t *p, size_t len)
{
	uint64_t v, reg = ~crc;

	for (; len >= 8; p += 8, len -= 8) {
		memcpy(&v, p, sizeof(v));
		reg = _mm_crc32_u64(reg, v);
	}
	for (; len > 0; p++, len--)
		reg = _mm_crc32_u8((uint32_t)reg, *p);
	return ~(uint32_t)reg;
}
#endif

/* Eight bytes at a time; util/buf.h requires a little-endian machine. */
uint32_t crypto_crc32c(uint32_t crc, const void *data, size_t len)
{
	const uint8_t *p = data;
	uint32_t reg = ~crc;
	uint64_t v;

#ifdef __x86_64__
	if (__builtin_cpu_supports("sse4.2"))
		return crc_by_instruction(crc, data, len);
#endif
	pthread_once(&crc_table_made, make_crc_table);
	for (; len >= 8; p += 8, len -= 8) {
		memcpy(&v, p, sizeof(v));
		v ^= reg;
		reg = 0;
		for (int k = 0; k < 8; k++)
			reg ^= crc_table[7 - k][(v >> (8 * k)) & 0xff];
	}

	for (; len > 0; p++, len--)
		reg = (reg >> 8) ^ crc_table[0][(reg ^ *p) & 0xff];
	return ~reg;
}

#endif

/* A CRC is a polynomial over GF(2), too. */
#define X_0 (1u << 31)
#define X_8 (1u << 23)

/* a * b modulo the CRC's polynomial. */
static uint32_t crc_multiply(uint32_t a, uint32_t b)
{
	uint32_t product = 0;

	for (uint32_t bit = X_0; bit; bit >>= 1) {
		if (a & bit)
			product ^= b;
		b = (b >> 1) ^ (b & 1 ? CRC32C_REFLECTED : 0); /* b * x */
	}
	return product;
}

/* Each byte that follows multiplies the CRC by x^8. */
uint32_t crypto_crc32c_shift(uint32_t crc, uint64_t len)
{
	uint32_t square = X_8, power = X_0;

	for (; len; len >>= 1) {
		if (len & 1)
			power = crc_multiply(power, square);
		square = crc_multiply(square, square);
	}
	return crc_multiply(power, crc);
}

uint32_t crypto_crc32c_zeros(uint64_t len)
{
	return ~crypto_crc32c_shift(UINT32_MAX, len);
}

/* ---- digests ---- */

_Static_assert(DIGEST_MAX >= EVP_MAX_MD_SIZE, "the longest digest must fit");

/* Only the members of one way are in use: md and evp, xxh, or crc, which also has Adler-32. */
struct digest {
	const char *name;
	enum digest_way { BY_EVP, BY_CRC, BY_ADLER, BY_XXH } way;
	EVP_MD *md;
	EVP_MD_CTX *evp;
	XXH3_state_t *xxh;
	uint32_t crc;
};

/* The first one is preferred, and is the default of clients that do not choose. Of those with
 * the same length the more common one comes first. */
static const char *const names[] = {
	"SHA-256", "SHA-512", "SHA-1", "MD5", "CRC32C", "XXH128", "Adler-32", NULL,
};
static const struct { enum digest_way way; size_t digits; } known[] = {
	{ BY_EVP, 64 }, { BY_EVP, 128 }, { BY_EVP, 40 }, { BY_EVP, 32 }, { BY_CRC, 8 }, { BY_XXH, 32 },
	{ BY_ADLER, 8 },
};

const char *const *digest_names(void)
{
	return names;
}

/* Are a and b the same name? FTP does not distinguish case, and other programs leave hyphens
 * out. */
static bool same_name(const char *a, const char *b)
{
	for (;; a++, b++) {
		a += *a == '-';
		b += *b == '-';
		if (!*a || strncasecmp(a, b, 1))
			return !*a && !*b;
	}
}

/* The index of a name. */
static size_t digest_index(const char *name)
{
	size_t i = 0;

	while (names[i] && !same_name(names[i], name))
		i++;
	return i;
}

const char *digest_name(const char *name)
{
	return names[digest_index(name)];
}

const char *digest_of_length(const char *name, size_t digits)
{
	for (size_t i = 0; names[i]; i++)
		if (known[i].digits == digits && (!name || !strcmp(name, names[i])))
			return names[i];
	return NULL;
}

static int digest_check(bool ok)
{
	if (ok)
		return 0;
	ERR_clear_error();
	return -EIO;
}

/* Start or restart the digest. */
static int digest_start(struct digest *d)
{
	switch (d->way) {
	case BY_CRC:
		d->crc = 0;
		return 0;
	case BY_ADLER:
		d->crc = 1; /* RFC 1950, section 8.2 */
		return 0;
	case BY_XXH:
		d->xxh = d->xxh ? d->xxh : XXH3_createState();
		return d->xxh ? digest_check(XXH3_128bits_reset(d->xxh) == XXH_OK) : -ENOMEM;
	case BY_EVP:
		break;
	}

	d->md = d->md ? d->md : EVP_MD_fetch(NULL, d->name, NULL);
	if (!d->md) {
		ERR_clear_error();
		return -EINVAL; /* a FIPS provider has no MD5 */
	}
	d->evp = d->evp ? d->evp : EVP_MD_CTX_new();
	return d->evp ? digest_check(EVP_DigestInit_ex2(d->evp, d->md, NULL) == 1) : -ENOMEM;
}

struct digest *digest_new(const char *name)
{
	size_t i = digest_index(name);
	struct digest *d;
	int r;

	if (!names[i]) {
		errno = EINVAL;
		return NULL;
	}
	d = calloc(1, sizeof(*d));
	if (!d)
		return NULL;
	d->name = names[i];
	d->way = known[i].way;
	r = digest_start(d);
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
	if (len == 0)
		return 0;
	switch (d->way) {
	case BY_CRC:
		d->crc = crypto_crc32c(d->crc, data, len);
		return 0;
	case BY_ADLER:
		d->crc = (uint32_t)adler32_z(d->crc, data, len);
		return 0;
	case BY_XXH:
		return digest_check(XXH3_128bits_update(d->xxh, data, len) == XXH_OK);
	case BY_EVP:
		break;
	}

	return digest_check(EVP_DigestUpdate(d->evp, data, len) == 1);
}

int digest_final_hex(struct digest *d, char *hex)
{
	static const char digits[] = "0123456789abcdef";
	unsigned int n = sizeof(d->crc);
	uint8_t sum[DIGEST_MAX];
	XXH128_canonical_t c;
	int r = 0;

	switch (d->way) {
	case BY_CRC:
	case BY_ADLER:
		put_be32(sum, d->crc);
		break;
	case BY_XXH:
		XXH128_canonicalFromHash(&c, XXH3_128bits_digest(d->xxh));
		n = sizeof(c.digest);
		memcpy(sum, c.digest, n);
		break;
	case BY_EVP:
		r = digest_check(EVP_DigestFinal_ex(d->evp, sum, &n) == 1);
		break;
	}

	if (r < 0)
		return r;
	for (unsigned int i = 0; i < n; i++) {
		*hex++ = digits[sum[i] >> 4];
		*hex++ = digits[sum[i] & 15];
	}
	*hex = '\0';
	return digest_start(d);
}

void crypto_run_digest(uint8_t out[RUN_DIGEST_BYTES], const void *data, size_t len)
{
	XXH128_canonical_t c;

	_Static_assert(sizeof(c.digest) == RUN_DIGEST_BYTES, "XXH128 is 128 bits");
	XXH128_canonicalFromHash(&c, XXH3_128bits(data, len));
	memcpy(out, c.digest, sizeof(c.digest));
}
