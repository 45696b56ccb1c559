// SPDX-License-Identifier: Apache-2.0
/* Internal to proto: a cursor that encodes or decodes. One function lists the fields of a message in
 * wire order and serves both directions. To encode, it is called twice: the first call only counts
 * the bytes, the second call writes them into reserved room, so that a buffer never holds half a
 * message. A decoding cursor remembers the first failure and yields zeros from then on, so that
 * callers check only once, at the end. */
#ifndef RFTP_PROTO_WIRE_H
#define RFTP_PROTO_WIRE_H

#include "proto/bulk.h"
#include "util/util.h"

struct wire {
	bool get;           /* decodes */
	bool bad;           /* the message is malformed, or (encoding) must not be sent */
	bool no_memory;     /* bad because memory ran out, not because of the peer */
	uint8_t *out;       /* encoding: the room; NULL: only count */
	const uint8_t *in;  /* decoding: the next byte */
	size_t n;           /* encoding: bytes so far; decoding: bytes left */
};

/* Encoding must not change msg. */
typedef void wire_fn(struct wire *w, void *msg);

/* Append msg as a whole or not at all: 0; -EINVAL: bad; or the error of buf_reserve. */
int wire_put(struct buf *b, wire_fn *fields, const void *msg);
/* Decode msg, which has size bytes. 0; -EBADMSG or -ENOMEM, with nothing removed from b and msg
 * zeroed. */
int wire_get(struct buf *b, wire_fn *fields, void *msg, size_t size);
/* The same in two steps. */
struct wire wire_of(const struct buf *b);
int wire_end(const struct wire *w, struct buf *b, void *msg, size_t size);
/* The end of a message of this minor version: only a later one may append fields, which are
 * skipped. */
void wire_rest(struct wire *w, uint16_t minor);

/* Decoding: a view of the next len bytes, or NULL. */
const uint8_t *wire_view(struct wire *w, size_t len);
void wire_bytes(struct wire *w, void *p, size_t len);
/* A big-endian number of 1, 2, 4 or 8 bytes. */
void wire_number_of(struct wire *w, void *p, size_t bytes);
#define wire_number(w, p) wire_number_of(w, p, sizeof(*(p)))
/* A byte; a decoded value over most makes w bad. */
void wire_upto(struct wire *w, uint8_t *p, uint8_t most);
void wire_bool(struct wire *w, bool *p);
/* A u32 that counts items; a value over most makes w bad. */
void wire_count(struct wire *w, uint32_t *n, uint32_t most);
/* Bytes at *p; decoding makes *p a view. */
void wire_block(struct wire *w, const uint8_t **p, size_t len);
/* A u32 length, then these fields. Bytes that they do not consume were added by a later minor
 * version. */
void wire_nested(struct wire *w, wire_fn *fields, void *msg, size_t max);

/* Fields of a fixed size, as a table in wire order. */
struct wire_field {
	uint16_t offset;   /* in the message's struct */
	uint16_t bytes;    /* 1, 2, 4, 8: a big-endian number; otherwise raw bytes */
	uint8_t most;      /* greatest value of a field of one byte */
};

#define WIRE_ANY 255       /* as most: no limit */
#define WIRE_LOW_BIT 254   /* only the lowest bit counts */
#define WIRE_FIELD(type, member, most) \
	{ offsetof(type, member), sizeof(((type *)0)->member), most }
#define wire_fields(w, msg, fields) \
	wire_table(w, msg, fields, sizeof(fields) / sizeof((fields)[0]))
void wire_table(struct wire *w, void *msg, const struct wire_field *f, size_t n);

/* A u8 length and the bytes of s, which has room bytes, for names, addresses and pins. Decoding
 * accepts only printable ASCII without spaces, and fills s with zeros when w is bad. */
void wire_short(struct wire *w, char *s, size_t room);
/* A u32 length and a text for people. Decoding makes it one printable line, cut to room. */
void wire_text(struct wire *w, char *text, size_t room);
/* Copy len bytes of text: cut between characters, control characters replaced. */
void wire_clean(char *out, size_t room, const uint8_t *s, size_t len);
/* A u32 length and at most BULK_PATH_MAX bytes other than NUL; decoding allocates *s, NULL when w is
 * bad. */
void wire_path(struct wire *w, char **s);
/* An error as a Linux number; an unknown one becomes -EIO. */
void wire_errno(struct wire *w, int *code, bool zero_allowed);

/* ---- parts of several messages ---- */

wire_fn wire_agreement;
wire_fn wire_offer;
wire_fn wire_counts;
wire_fn wire_sync;   /* a struct bulk_sync */
wire_fn wire_filter; /* a struct filter */
/* A request, decoded with its checks: 0, -EBADMSG, -ENOMEM, or -EPROTONOSUPPORT with text. The
 * caller clears r after any result. */
wire_fn wire_request;
int wire_request_get(struct wire *w, struct bulk_request *r, struct err *e);

#endif
