// SPDX-License-Identifier: Apache-2.0
/* Messages encoded by hand, including ones that our encoders never write. */
#ifndef RFTP_TESTS_WIRE_H
#define RFTP_TESTS_WIRE_H

#include "util/util.h"

#include <string.h>

/* Returns 0, or the error of buf_put(). */
static inline int buf_put_u8(struct buf *b, uint8_t v)
{
	return buf_put(b, &v, sizeof(v));
}

static inline int buf_put_u16(struct buf *b, uint16_t v)
{
	uint8_t p[sizeof(v)];

	put_be16(p, v);
	return buf_put(b, p, sizeof(p));
}

static inline int buf_put_u32(struct buf *b, uint32_t v)
{
	uint8_t p[sizeof(v)];

	put_be32(p, v);
	return buf_put(b, p, sizeof(p));
}

static inline int buf_put_u64(struct buf *b, uint64_t v)
{
	uint8_t p[sizeof(v)];

	put_be64(p, v);
	return buf_put(b, p, sizeof(p));
}

/* Appends a u32 length, then the bytes. */
static inline int buf_put_string(struct buf *b, const void *data, size_t len)
{
	int r = buf_put_u32(b, (uint32_t)len);

	return r ? r : buf_put(b, data, len);
}

/* Overwrites an existing u32, at pos from the read position. */
static inline void buf_poke_u32(struct buf *b, size_t pos, uint32_t v)
{
	put_be32((uint8_t *)(uintptr_t)buf_ptr(b) + pos, v);
}

#endif
