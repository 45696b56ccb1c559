// SPDX-License-Identifier: Apache-2.0
/* The head of frames, and the small messages inside them. */
#include "proto/bulk.h"
#include "proto/wire.h"
#include "proto/wire_text.h"

#include <string.h>

#define RUN_MAX (64u << 20) /* BLOCK_MAX of block/block.h */
#define FAILURE_TEXT_MAX 65536u   /* accepted; kept is what struct bulk_failure holds */

/* ---- heads ---- */

void bulk_frame_put(uint8_t p[BULK_FRAME_HEAD], uint8_t type, uint32_t length)
{
	p[0] = type;
	p[1] = 0;
	put_be16(p + 2, 0);
	put_be32(p + 4, length);
}

int bulk_frame_get(const uint8_t p[BULK_FRAME_HEAD], size_t max, uint8_t *type, uint32_t *length)
{
	bool known = p[0] >= BULK_AGREE && p[0] <= BULK_CHANNELS;

	*type = 0;
	*length = 0;
	if ((p[0] < BULK_SKIPPED && !known) || p[1] || get_be16(p + 2))
		return -EBADMSG;
	if (get_be32(p + 4) > max)
		return -EMSGSIZE;
	*type = p[0];
	*length = get_be32(p + 4);
	return 0;
}

/* ---- lanes ---- */

void lane_room_put(uint8_t p[LANE_ROOM_BYTES], uint8_t lane, uint32_t bytes)
{
	p[0] = lane;
	put_be32(p + 1, bytes);
}

int lane_frame_get(uint8_t type, const uint8_t *p, size_t len, unsigned lanes,
		   struct lane_frame *f)
{
	*f = (struct lane_frame){ 0 };
	if (len < LANE_HEAD || p[0] >= lanes)
		return -EBADMSG;
	f->lane = p[0];
	switch (type) {
	case BULK_LANE_DATA:
		f->data = p + LANE_HEAD;
		f->len = len - LANE_HEAD;
		return f->len && f->len <= LANE_PIECE ? 0 : -EBADMSG;
	case BULK_LANE_ROOM:
		f->room = len == LANE_ROOM_BYTES ? get_be32(p + 1) : 0;
		return f->room && f->room <= LANE_WINDOW ? 0 : -EBADMSG;
	case BULK_LANE_END:
		return len == LANE_HEAD ? 0 : -EBADMSG;
	default:
		return -EBADMSG;
	}
}

/* ---- verdicts ---- */

int bulk_verdict_put(struct buf *b, uint64_t id, uint8_t verdict)
{
	uint8_t *p;
	int r = buf_reserve(b, 9, &p);

	if (r < 0)
		return r;
	put_be64(p, id);
	p[8] = verdict;
	return 0;
}

int bulk_verdict_get(struct buf *b, uint64_t *id, uint8_t *verdict)
{
	struct wire_in in = wire_in_of(b);

	*id = in_u64(&in);
	*verdict = in_u8_max(&in, VERDICT_RUNS);
	if (!*id || *verdict < VERDICT_SEND)
		in.bad = true;
	if (in.bad) {
		*id = 0;
		*verdict = 0;
	}
	return wire_in_end(&in, b);
}

/* ---- runs ---- */

int bulk_runs_head_put(struct buf *b, uint64_t id)
{
	uint8_t *p;
	int r = buf_reserve(b, 8, &p);

	if (r < 0)
		return r;
	put_be64(p, id);
	return 0;
}

int bulk_runs_head_get(struct buf *b, uint64_t *id)
{
	struct wire_in in = wire_in_of(b);

	*id = in_u64(&in);
	if (!*id)
		in.bad = true;
	return wire_in_end(&in, b);
}

int bulk_run_put(struct buf *b, uint64_t offset, uint32_t length, const uint8_t digest[16])
{
	uint8_t *p;
	int r = buf_reserve(b, 28, &p);

	if (r < 0)
		return r;
	put_be64(p, offset);
	put_be32(p + 8, length);
	memcpy(p + 12, digest, 16);
	return 0;
}

int bulk_run_get(struct buf *b, uint64_t *offset, uint32_t *length, uint8_t digest[16])
{
	struct wire_in in = wire_in_of(b);

	*offset = in_u64(&in);
	*length = in_u32(&in);
	in_bytes(&in, digest, 16);
	if (!*length || *length > RUN_MAX || *offset > INT64_MAX)
		in.bad = true;
	if (in.bad) {
		*offset = 0;
		*length = 0;
	}
	return wire_in_end(&in, b);
}

/* ---- pairs ---- */

static int put_numbers(struct buf *b, unsigned n, const uint64_t *numbers)
{
	uint8_t *p;
	int r = buf_reserve(b, n * 8, &p);

	for (unsigned i = 0; !r && i < n; i++)
		put_be64(p + i * 8, numbers[i]);
	return r;
}

int bulk_pair_put(struct buf *b, uint64_t x, uint64_t y)
{
	const uint64_t pair[] = { x, y };

	return put_numbers(b, 2, pair);
}

int bulk_pair_get(struct buf *b, uint64_t *x, uint64_t *y)
{
	struct wire_in in = wire_in_of(b);

	*x = in_u64(&in);
	*y = in_u64(&in);
	if (in.bad)
		*x = 0;
	return wire_in_end(&in, b);
}

/* ---- places ---- */

int bulk_place_put(struct buf *b, uint64_t id, uint64_t dev, uint64_t ino)
{
	const uint64_t place[] = { id, dev, ino };

	return put_numbers(b, 3, place);
}

int bulk_place_get(struct buf *b, uint64_t *id, uint64_t *dev, uint64_t *ino)
{
	struct wire_in in = wire_in_of(b);

	*id = in_u64(&in);
	*dev = in_u64(&in);
	*ino = in_u64(&in);
	if (in.bad)
		*id = *dev = 0;
	return wire_in_end(&in, b);
}

/* ---- failures ---- */

static void encode_failure(struct wire_out *o, const void *msg)
{
	const struct bulk_failure *f = msg;
	size_t len = strnlen(f->text, sizeof(f->text) - 1);

	out_u64(o, f->id);
	out_u32(o, wire_errno(f->code));
	out_u32(o, (uint32_t)len);
	out_bytes(o, f->text, len);
}

int bulk_failure_put(struct buf *b, const struct bulk_failure *f)
{
	return wire_put(b, encode_failure, f);
}

int bulk_failure_get(struct buf *b, struct bulk_failure *f)
{
	struct wire_in in = wire_in_of(b);
	const uint8_t *text;
	uint32_t code, len;

	memset(f, 0, sizeof(*f));
	f->id = in_u64(&in);
	code = in_u32(&in);
	len = in_u32(&in);
	if (len > FAILURE_TEXT_MAX)
		in.bad = true;
	text = in_view(&in, len);
	f->code = wire_code(code);
	if (text)
		wire_text(f->text, sizeof(f->text), text, len);
	else
		memset(f, 0, sizeof(*f));
	return wire_in_end(&in, b);
}

/* ---- counters ---- */

static void encode_counts(struct wire_out *o, const void *msg)
{
	const struct bulk_counts *c = msg;

	out_u64(o, c->entries);
	out_u64(o, c->files);
	out_u64(o, c->failed);
	out_u64(o, c->skipped);
	out_u64(o, c->bytes);
	out_u64(o, c->blocks);
	out_u64(o, c->cpu_ns);
	out_u64(o, c->stamp_ns);
	out_u64(o, c->echo_ns);
	out_u64(o, c->resumed);
	out_u64(o, c->left_out);
}

int bulk_counts_put(struct buf *b, const struct bulk_counts *c)
{
	return wire_put(b, encode_counts, c);
}

int bulk_counts_get(struct buf *b, struct bulk_counts *c)
{
	struct wire_in in = wire_in_of(b);

	c->entries = in_u64(&in);
	c->files = in_u64(&in);
	c->failed = in_u64(&in);
	c->skipped = in_u64(&in);
	c->bytes = in_u64(&in);
	c->blocks = in_u64(&in);
	c->cpu_ns = in_u64(&in);
	c->stamp_ns = in_u64(&in);
	c->echo_ns = in_u64(&in);
	c->resumed = in_u64(&in);
	c->left_out = in_u64(&in);
	if (in.bad)
		memset(c, 0, sizeof(*c));
	return wire_in_end(&in, b);
}
