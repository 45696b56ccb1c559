// SPDX-License-Identifier: Apache-2.0
/* A capped byte buffer for wire formats, in network byte order, after the model of OpenSSH's
 * sshbuf: getters check lengths, clear their outputs on failure and return a code; putters grow the
 * buffer up to its cap. A buffer belongs to one thread at a time. */
#ifndef RFTP_UTIL_BUF_H
#define RFTP_UTIL_BUF_H

#include <stddef.h>
#include <stdint.h>

#if __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "put_be and get_be below swap: make them plain copies for big-endian machines"
#endif

struct buf;

/* A buffer that may grow to max bytes; NULL: out of memory. */
struct buf *buf_new(size_t max);
void buf_free(struct buf *b);   /* NULL is harmless; wipes the bytes */
void cleanup_buf(struct buf **b);
#define CLEANUP_BUF __attribute__((cleanup(cleanup_buf)))

size_t buf_len(const struct buf *b);           /* bytes not yet read */
const uint8_t *buf_ptr(const struct buf *b);   /* the first unread byte */
void buf_reset(struct buf *b);                 /* empty, keeps its memory */

/* Putters: 0; -ENOBUFS at the cap; -ENOMEM. Nothing is written on failure. */
int buf_put(struct buf *b, const void *data, size_t len);
/* Append len bytes, which the caller must write to *room before the next call. */
int buf_reserve(struct buf *b, size_t len, uint8_t **room);

/* Getters: 0; -EBADMSG when there are not enough bytes. The read position moves only on success. */
int buf_get(struct buf *b, void *out, size_t len);
int buf_get_u8(struct buf *b, uint8_t *v);
int buf_skip(struct buf *b, size_t len);

/* Big-endian values at a fixed address, for headers of fixed size. */
static inline void put_be16(uint8_t *p, uint16_t v)
{
	v = __builtin_bswap16(v);
	__builtin_memcpy(p, &v, sizeof(v));
}

static inline void put_be32(uint8_t *p, uint32_t v)
{
	v = __builtin_bswap32(v);
	__builtin_memcpy(p, &v, sizeof(v));
}

static inline void put_be64(uint8_t *p, uint64_t v)
{
	v = __builtin_bswap64(v);
	__builtin_memcpy(p, &v, sizeof(v));
}

static inline uint16_t get_be16(const uint8_t *p)
{
	uint16_t v;

	__builtin_memcpy(&v, p, sizeof(v));
	return __builtin_bswap16(v);
}

static inline uint32_t get_be32(const uint8_t *p)
{
	uint32_t v;

	__builtin_memcpy(&v, p, sizeof(v));
	return __builtin_bswap32(v);
}

static inline uint64_t get_be64(const uint8_t *p)
{
	uint64_t v;

	__builtin_memcpy(&v, p, sizeof(v));
	return __builtin_bswap64(v);
}

#endif
