// SPDX-License-Identifier: Apache-2.0
/* Inside src/crypto and its tests only: the ways to compute CRC32C. Each takes and
 * gives the bare register, without the inversion before and after. */
#ifndef RFTP_CRYPTO_CRC32C_H
#define RFTP_CRYPTO_CRC32C_H

#include <stddef.h>
#include <stdint.h>

/* Slicing by eight; any CPU. */
uint32_t crc32c_portable(uint32_t reg, const uint8_t *p, size_t len);

#ifdef __x86_64__
/* The crc32 instruction; only where the CPU has SSE4.2. */
uint32_t crc32c_sse42(uint32_t reg, const uint8_t *p, size_t len);
#endif

#endif
