// SPDX-License-Identifier: Apache-2.0
/* Internal to proto: one cursor to encode with and one to decode with. A message is
 * encoded twice by the same function, first only counted and then into room reserved
 * at once, so that a buffer never holds half of a message. The decoder remembers the
 * first failure and gives zeros from then on, so that it is asked once, at the end. */
#ifndef RFTP_PROTO_WIRE_H
#define RFTP_PROTO_WIRE_H

#include "util/util.h"

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

struct wire_out {
	uint8_t *p;   /* NULL: only count */
	size_t n;     /* bytes so far */
};

static inline void out_bytes(struct wire_out *o, const void *data, size_t len)
{
	if (o->p && len)
		memcpy(o->p + o->n, data, len);
	o->n += len;
}

static inline void out_u8(struct wire_out *o, uint8_t v)
{
	out_bytes(o, &v, 1);
}

static inline void out_u16(struct wire_out *o, uint16_t v)
{
	if (o->p)
		put_be16(o->p + o->n, v);
	o->n += 2;
}

static inline void out_u32(struct wire_out *o, uint32_t v)
{
	if (o->p)
		put_be32(o->p + o->n, v);
	o->n += 4;
}

static inline void out_u64(struct wire_out *o, uint64_t v)
{
	if (o->p)
		put_be64(o->p + o->n, v);
	o->n += 8;
}

/* u32 length, bytes. */
static inline void out_string(struct wire_out *o, const char *s)
{
	size_t len = strlen(s);

	out_u32(o, (uint32_t)len);
	out_bytes(o, s, len);
}

/* Fill in a u32 length of all that follows the place at, once it is known. */
static inline void out_patch_length(struct wire_out *o, size_t at)
{
	if (o->p)
		put_be32(o->p + at, (uint32_t)(o->n - at - 4));
}

typedef void wire_encode_fn(struct wire_out *o, const void *msg);

/* Append msg as a whole or not at all: 0, or what buf_reserve fails with. */
static inline int wire_put(struct buf *b, wire_encode_fn *encode, const void *msg)
{
	struct wire_out o = { NULL, 0 };
	uint8_t *room;
	int r;

	encode(&o, msg);
	r = buf_reserve(b, o.n, &room);
	if (r < 0)
		return r;
	o = (struct wire_out){ room, 0 };
	encode(&o, msg);
	return 0;
}

struct wire_in {
	const uint8_t *p;
	size_t left;
	bool bad;
	bool no_memory; /* bad, and not the peer's fault */
};

static inline struct wire_in wire_in_of(const struct buf *b)
{
	return (struct wire_in){ buf_ptr(b), buf_len(b), false, false };
}

/* len bytes where they lie, or NULL. */
static inline const uint8_t *in_view(struct wire_in *in, size_t len)
{
	const uint8_t *at = in->p;

	if (in->bad || len > in->left) {
		in->bad = true;
		return NULL;
	}
	in->p += len;
	in->left -= len;
	return at;
}

static inline void in_bytes(struct wire_in *in, void *out, size_t len)
{
	const uint8_t *at = in_view(in, len);

	if (at)
		memcpy(out, at, len);
	else
		memset(out, 0, len);
}

static inline uint8_t in_u8(struct wire_in *in)
{
	const uint8_t *at = in_view(in, 1);

	return at ? *at : 0;
}

static inline uint16_t in_u16(struct wire_in *in)
{
	const uint8_t *at = in_view(in, 2);

	return at ? get_be16(at) : 0;
}

static inline uint32_t in_u32(struct wire_in *in)
{
	const uint8_t *at = in_view(in, 4);

	return at ? get_be32(at) : 0;
}

static inline uint64_t in_u64(struct wire_in *in)
{
	const uint8_t *at = in_view(in, 8);

	return at ? get_be64(at) : 0;
}

/* A number of at most max. */
static inline uint8_t in_u8_max(struct wire_in *in, uint8_t max)
{
	uint8_t v = in_u8(in);

	if (v > max)
		in->bad = true;
	return in->bad ? 0 : v;
}

/* The bytes behind a u32 length, as a decoder of their own: what it leaves over is
 * what a later minor version added. */
static inline struct wire_in in_nested(struct wire_in *in, size_t max)
{
	uint32_t len = in_u32(in);
	const uint8_t *at;

	if (len > max)
		in->bad = true;
	at = in_view(in, len);
	return (struct wire_in){ at, at ? len : 0, !at, false };
}

/* Make the buffer forget what has been decoded: 0; -EBADMSG or -ENOMEM with nothing
 * moved. */
static inline int wire_in_end(const struct wire_in *in, struct buf *b)
{
	if (in->bad)
		return in->no_memory ? -ENOMEM : -EBADMSG;
	return buf_skip(b, buf_len(b) - in->left);
}

#endif
