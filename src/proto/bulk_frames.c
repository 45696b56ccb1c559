// SPDX-License-Identifier: Apache-2.0
/* The heads of frames and of blocks, and the small messages of the control stream and of data
 * channels. */
#include "proto/bulk.h"
#include "proto/wire.h"

#define RUN_MAX (64u << 20) /* BLOCK_MAX of block/block.h */
#define BLOCK_VERSION 1

/* ---- frames ---- */

void bulk_frame_put(uint8_t p[BULK_FRAME_HEAD], uint8_t type, uint32_t length)
{
	p[0] = type;
	p[1] = 0;
	put_be16(p + 2, 0);
	put_be32(p + 4, length);
}

int bulk_frame_get(const uint8_t p[BULK_FRAME_HEAD], size_t max, uint8_t *type, uint32_t *length)
{
	bool known = (p[0] >= BULK_AGREE && p[0] <= BULK_READY) ||
		     (p[0] >= BULK_KEY && p[0] <= BULK_SUM);

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

/* ---- verdicts, runs, pairs, places ---- */

int bulk_verdict_put(struct buf *b, uint64_t id, uint8_t verdict)
{
	uint8_t p[9];

	put_be64(p, id);
	p[8] = verdict;
	return buf_put(b, p, sizeof(p));
}

int bulk_verdict_get(struct buf *b, uint64_t *id, uint8_t *verdict)
{
	struct wire w = wire_of(b);

	wire_number(&w, id);
	wire_upto(&w, verdict, VERDICT_LATER);
	if (!*id || *verdict < VERDICT_SEND)
		w.bad = true;
	if (w.bad)
		*verdict = 0;
	return wire_end(&w, b, id, sizeof(*id));
}

static int put_numbers(struct buf *b, unsigned n, const uint64_t *numbers)
{
	uint8_t *p;
	int r = buf_reserve(b, n * 8, &p);

	for (unsigned i = 0; !r && i < n; i++)
		put_be64(p + i * 8, numbers[i]);
	return r;
}

static int get_numbers(struct buf *b, unsigned n, uint64_t *numbers)
{
	struct wire w = wire_of(b);

	for (unsigned i = 0; i < n; i++)
		wire_number(&w, &numbers[i]);
	return wire_end(&w, b, numbers, n * 8);
}

int bulk_runs_head_put(struct buf *b, uint64_t id)
{
	return put_numbers(b, 1, &id);
}

int bulk_runs_head_get(struct buf *b, uint64_t *id)
{
	struct wire w = wire_of(b);

	wire_number(&w, id);
	if (!*id)
		w.bad = true;
	return wire_end(&w, b, id, sizeof(*id));
}

int bulk_run_put(struct buf *b, uint64_t offset, uint32_t length, const uint8_t digest[16])
{
	uint8_t p[28];

	put_be64(p, offset);
	put_be32(p + 8, length);
	memcpy(p + 12, digest, 16);
	return buf_put(b, p, sizeof(p));
}

int bulk_run_get(struct buf *b, uint64_t *offset, uint32_t *length, uint8_t digest[16])
{
	struct wire w = wire_of(b);

	wire_number(&w, offset);
	wire_number(&w, length);
	wire_bytes(&w, digest, 16);
	if (!*length || *length > RUN_MAX || *offset > INT64_MAX)
		w.bad = true;
	if (w.bad)
		*length = 0;
	return wire_end(&w, b, offset, sizeof(*offset));
}

int bulk_digest_put(struct buf *b, uint64_t id, const uint8_t digest[16])
{
	uint8_t p[24];

	put_be64(p, id);
	memcpy(p + 8, digest, 16);
	return buf_put(b, p, sizeof(p));
}

int bulk_digest_get(struct buf *b, uint64_t *id, uint8_t digest[16])
{
	struct wire w = wire_of(b);

	wire_number(&w, id);
	wire_bytes(&w, digest, 16);
	return wire_end(&w, b, id, sizeof(*id));
}

int bulk_pair_put(struct buf *b, uint64_t x, uint64_t y)
{
	const uint64_t pair[] = { x, y };

	return put_numbers(b, 2, pair);
}

int bulk_pair_get(struct buf *b, uint64_t *x, uint64_t *y)
{
	uint64_t pair[2];
	int r = get_numbers(b, 2, pair);

	*x = pair[0];
	*y = pair[1];
	return r;
}

int bulk_stages_put(struct buf *b, const uint64_t ns[BULK_STATES])
{
	return put_numbers(b, BULK_STATES, ns);
}

int bulk_stages_get(struct buf *b, uint64_t ns[BULK_STATES])
{
	return get_numbers(b, BULK_STATES, ns);
}

int bulk_place_put(struct buf *b, uint64_t id, uint64_t dev, uint64_t ino)
{
	const uint64_t place[] = { id, dev, ino };

	return put_numbers(b, 3, place);
}

int bulk_place_get(struct buf *b, uint64_t *id, uint64_t *dev, uint64_t *ino)
{
	uint64_t place[3];
	int r = get_numbers(b, 3, place);

	*id = place[0];
	*dev = place[1];
	*ino = place[2];
	return r;
}

/* ---- failures and counters ---- */

static void wire_failure(struct wire *w, void *msg)
{
	struct bulk_failure *f = msg;

	wire_number(w, &f->id);
	wire_errno(w, &f->code, false);
	wire_text(w, f->text, sizeof(f->text));
}

int bulk_failure_put(struct buf *b, const struct bulk_failure *f)
{
	return wire_put(b, wire_failure, f);
}

int bulk_failure_get(struct buf *b, struct bulk_failure *f)
{
	return wire_get(b, wire_failure, f, sizeof(*f));
}

struct sum_message {
	uint64_t id;
	char hex[BULK_SUM_MAX + 1];
};

static void wire_sum(struct wire *w, void *msg)
{
	struct sum_message *m = msg;

	wire_number(w, &m->id);
	wire_short(w, m->hex, sizeof(m->hex));
	if (w->get && (!m->id || m->hex[strspn(m->hex, "0123456789abcdef")]))
		w->bad = true;
}

int bulk_sum_put(struct buf *b, uint64_t id, const char *hex)
{
	struct sum_message m = { .id = id };

	snprintf(m.hex, sizeof(m.hex), "%s", hex);
	return wire_put(b, wire_sum, &m);
}

int bulk_sum_get(struct buf *b, uint64_t *id, char hex[BULK_SUM_MAX + 1])
{
	struct sum_message m;
	int r = wire_get(b, wire_sum, &m, sizeof(m));

	*id = m.id;
	memcpy(hex, m.hex, sizeof(m.hex));
	return r;
}

static void wire_removed(struct wire *w, void *msg)
{
	struct bulk_removed *r = msg;

	wire_bool(w, &r->in_the_way);
	wire_number(w, &r->bytes);
	wire_path(w, &r->path);
}

int bulk_removed_put(struct buf *b, const struct bulk_removed *r)
{
	return wire_put(b, wire_removed, r);
}

int bulk_removed_get(struct buf *b, struct bulk_removed *r)
{
	return wire_get(b, wire_removed, r, sizeof(*r));
}

#define FIELD(member) WIRE_FIELD(struct bulk_counts, member, WIRE_ANY)
static const struct wire_field counts[] = {
	FIELD(entries), FIELD(files), FIELD(failed), FIELD(skipped), FIELD(bytes),
	FIELD(blocks), FIELD(cpu_ns), FIELD(stamp_ns), FIELD(echo_ns), FIELD(resumed),
	FIELD(left_out),
};
#undef FIELD

void wire_counts(struct wire *w, void *msg)
{
	wire_fields(w, msg, counts);
}

int bulk_counts_put(struct buf *b, const struct bulk_counts *c)
{
	return wire_put(b, wire_counts, c);
}

int bulk_counts_get(struct buf *b, struct bulk_counts *c)
{
	return wire_get(b, wire_counts, c, sizeof(*c));
}

/* ---- blocks ---- */

void block_head_put(uint8_t *p, const struct block_head *h)
{
	put_be32(p, BLOCK_MAGIC);
	p[4] = BLOCK_VERSION;
	p[5] = h->prot;
	put_be16(p + 6, h->extents);
	put_be64(p + 8, h->number);
	put_be32(p + 16, h->payload);
	put_be32(p + 20, h->key);
	put_be64(p + 24, h->nonce);
	put_be32(p + 32, h->crc);
	memset(p + 36, 0, 12);
	memcpy(p + 48, h->tag, sizeof(h->tag));
}

/* Reads each field only once: the peer may change p at the same time, and the returned value must
 * be the checked one. */
int block_head_get(const uint8_t *p, uint32_t payload_max, struct block_head *h)
{
	struct block_head got = {
		.prot = p[5],
		.extents = get_be16(p + 6),
		.number = get_be64(p + 8),
		.payload = get_be32(p + 16),
		.key = get_be32(p + 20),
		.nonce = get_be64(p + 24),
		.crc = get_be32(p + 32),
	};

	memset(h, 0, sizeof(*h));
	if (get_be32(p) != BLOCK_MAGIC || p[4] != BLOCK_VERSION || got.prot > PROT_PRIVATE ||
	    got.extents > BLOCK_WIRE_EXTENTS || got.payload > payload_max)
		return -EBADMSG;
	memcpy(got.tag, p + 48, sizeof(got.tag));
	*h = got;
	return 0;
}

void block_extent_put(uint8_t *p, uint64_t file, uint64_t offset, uint32_t length)
{
	put_be64(p, file);
	put_be64(p + 8, offset);
	put_be32(p + 16, length);
}

void block_extent_get(const uint8_t *p, uint64_t *file, uint64_t *offset, uint32_t *length)
{
	*file = get_be64(p);
	*offset = get_be64(p + 8);
	*length = get_be32(p + 16);
}

/* ---- messages of data channels ---- */

void message_head_put(uint8_t *p, uint32_t magic, const struct message_head *h)
{
	put_be32(p, magic);
	put_be16(p + 4, h->channel);
	put_be16(p + 6, h->count);
	put_be64(p + 8, h->sequence);
}

int message_head_get(const uint8_t *p, uint32_t magic, uint32_t max, struct message_head *h)
{
	memset(h, 0, sizeof(*h));
	if (get_be32(p) != magic || get_be16(p + 6) > max)
		return -EBADMSG;
	h->channel = get_be16(p + 4);
	h->count = get_be16(p + 6);
	h->sequence = get_be64(p + 8);
	return 0;
}

void credit_put(uint8_t *p, const struct credit *c)
{
	put_be64(p, c->number);
	put_be32(p + 8, c->buffer);
	put_be32(p + 12, c->status);
}

void credit_get(const uint8_t *p, struct credit *c)
{
	c->number = get_be64(p);
	c->buffer = get_be32(p + 8);
	c->status = get_be32(p + 12);
}

void announce_put(uint8_t *p, const struct announce *a)
{
	put_be64(p, a->number);
	put_be32(p + 8, a->buffer);
	put_be32(p + 12, a->head);
	put_be32(p + 16, a->payload);
	put_be32(p + 20, 0);
}

void announce_get(const uint8_t *p, struct announce *a)
{
	a->number = get_be64(p);
	a->buffer = get_be32(p + 8);
	a->head = get_be32(p + 12);
	a->payload = get_be32(p + 16);
}

/* ---- the opening of a data channel ---- */

void hello_put(uint8_t p[HELLO_BYTES], const struct channel_hello *h)
{
	put_be32(p, HELLO_MAGIC);
	put_be16(p + 4, h->major);
	put_be16(p + 6, h->channel);
	put_be64(p + 8, h->session);
	memcpy(p + 16, h->proof, sizeof(h->proof));
	put_be32(p + 48, h->key);
	put_be32(p + 52, 0);
}

int hello_get(const uint8_t p[HELLO_BYTES], struct channel_hello *h)
{
	memset(h, 0, sizeof(*h));
	if (get_be32(p) != HELLO_MAGIC)
		return -EBADMSG;
	if (get_be16(p + 4) != BULK_MAJOR) {
		h->major = get_be16(p + 4);
		return -EPROTO;
	}
	if (get_be16(p + 6) >= CHANNELS_MAX)
		return -EBADMSG;
	h->major = BULK_MAJOR;
	h->channel = get_be16(p + 6);
	h->session = get_be64(p + 8);
	memcpy(h->proof, p + 16, sizeof(h->proof));
	h->key = get_be32(p + 48);
	return 0;
}
