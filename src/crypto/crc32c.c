// SPDX-License-Identifier: Apache-2.0
/* CRC32C by ISA-L where there is one, otherwise by the CPU's instruction or tables. */
#include "crypto/crc32c.h"
#include "crypto/crypto.h"

#include <limits.h>
#include <pthread.h>
#include <string.h>

#ifdef HAVE_ISAL
#include <isa-l/crc.h>
#endif
#ifdef __x86_64__
#include <nmmintrin.h>
#endif

#define POLY_REFLECTED 0x82f63b78u

static uint32_t table[8][256];
static pthread_once_t table_made = PTHREAD_ONCE_INIT;

/* table[k][b]: what byte b does to the register with k more bytes behind it. */
static void make_table(void)
{
	for (uint32_t b = 0; b < 256; b++) {
		uint32_t reg = b;

		for (int bit = 0; bit < 8; bit++)
			reg = (reg >> 1) ^ (reg & 1 ? POLY_REFLECTED : 0);
		table[0][b] = reg;
	}
	for (uint32_t b = 0; b < 256; b++)
		for (int k = 1; k < 8; k++)
			table[k][b] = (table[k - 1][b] >> 8) ^
				      table[0][table[k - 1][b] & 0xff];
}

/* The next eight bytes, wherever they lie; little-endian as util/buf.h demands. */
static inline uint64_t load64(const uint8_t *p)
{
	uint64_t v;

	memcpy(&v, p, sizeof(v));
	return v;
}

uint32_t crc32c_portable(uint32_t reg, const uint8_t *p, size_t len)
{
	pthread_once(&table_made, make_table);
	for (; len >= 8; p += 8, len -= 8) {
		uint64_t v = load64(p) ^ reg;

		reg = 0;
		for (int k = 0; k < 8; k++)
			reg ^= table[7 - k][(v >> (8 * k)) & 0xff];
	}
	for (; len > 0; p++, len--)
		reg = (reg >> 8) ^ table[0][(reg ^ *p) & 0xff];
	return reg;
}

#ifdef __x86_64__
__attribute__((target("sse4.2")))
uint32_t crc32c_sse42(uint32_t reg, const uint8_t *p, size_t len)
{
	uint64_t wide = reg;

	for (; len >= 8; p += 8, len -= 8)
		wide = _mm_crc32_u64(wide, load64(p));
	reg = (uint32_t)wide;
	for (; len > 0; p++, len--)
		reg = _mm_crc32_u8(reg, *p);
	return reg;
}
#endif

#ifdef HAVE_ISAL
/* ISA-L chooses among the CPU's instructions itself (with VPCLMULQDQ several times
 * the crc32 instruction). Its length is an int, and it does not know const. */
static uint32_t native(uint32_t reg, const uint8_t *p, size_t len)
{
	const size_t most = INT_MAX & ~4095;

	while (len > 0) {
		size_t n = len < most ? len : most;

		reg = crc32_iscsi((unsigned char *)(uintptr_t)p, (int)n, reg);
		p += n;
		len -= n;
	}
	return reg;
}
#else
static uint32_t native(uint32_t reg, const uint8_t *p, size_t len)
{
#ifdef __x86_64__
	if (__builtin_cpu_supports("sse4.2"))
		return crc32c_sse42(reg, p, len);
#endif
	return crc32c_portable(reg, p, len);
}
#endif

/* ---- the faster one ---- */

#define TRIAL_BYTES 4096
#define TRIALS 3

typedef uint32_t crc_fn(uint32_t reg, const uint8_t *p, size_t len);

static crc_fn *fastest = native;
static pthread_once_t fastest_known = PTHREAD_ONCE_INIT;

static uint64_t trial_ns(crc_fn *fn, const uint8_t *p)
{
	uint64_t least = UINT64_MAX;

	for (int i = 0; i < TRIALS; i++) {
		uint64_t begin = now_ns(), took;
		volatile uint32_t kept = fn(0, p, TRIAL_BYTES);

		(void)kept;
		took = now_ns() - begin;
		if (took < least)
			least = took;
	}
	return least;
}

/* An emulated processor has the instructions, but may need several times as long for them
 * as for the tables. A real one is never half as fast by them. */
static void find_fastest(void)
{
	uint8_t bytes[TRIAL_BYTES] = { 0 };

	if (trial_ns(crc32c_portable, bytes) < trial_ns(native, bytes) / 2)
		fastest = crc32c_portable;
}

uint32_t crypto_crc32c(uint32_t crc, const void *data, size_t len)
{
	pthread_once(&fastest_known, find_fastest);
	return ~fastest(~crc, data, len);
}
