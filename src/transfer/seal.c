// SPDX-License-Identifier: Apache-2.0
/* Keys of a transfer, and sealing and opening of its blocks. */
#include "transfer/seal.h"

#include "proto/proto.h"

#include <assert.h>

#define LANES 256u
#define EPOCH_BYTES (1ull << 36) /* a key seals at most this many bytes */
#define AAD_HEAD 48u             /* bytes of the head before the tag */
#define HEAD_CRC 32u             /* offset of the CRC in the head */

struct seal {
	const struct xkeys *keys;
	enum direction dir;
	uint8_t prot;
	bool crc;
	uint16_t lane, epoch;
	uint64_t nonce;          /* the next nonce under this key */
	uint64_t sealed;         /* bytes under this key */
	struct sealer *sealer;
};

struct lane {
	struct sealer *sealer;
	uint32_t key;            /* the number of the key in sealer */
};

struct unseal {
	const struct xkeys *keys;
	enum direction dir;
	uint8_t prot;
	bool crc;
	struct lane lanes[LANES];
};

static struct sealer *sealer_for(const struct xkeys *k, enum direction dir, uint32_t number)
{
	uint8_t key[KEY_BYTES];
	struct sealer *s = NULL;

	if (!xkeys_block(k, dir, number, key))
		s = sealer_new(key);
	crypto_wipe(key, sizeof(key));
	return s;
}

static uint32_t key_number(const struct seal *s)
{
	return (uint32_t)s->lane << 16 | s->epoch;
}

struct seal *seal_new(const struct xkeys *k, const struct agreement *a, enum direction dir,
		      uint16_t lane)
{
	struct seal *s = calloc(1, sizeof(*s));

	if (!s)
		return NULL;
	s->keys = k;
	s->dir = dir;
	s->prot = a->prot;
	s->crc = a->crc;
	s->lane = lane;
	if (s->prot == PROT_CLEAR)
		return s;
	s->sealer = sealer_for(k, dir, key_number(s));
	if (!s->sealer) {
		free(s);
		return NULL;
	}
	return s;
}

void seal_free(struct seal *s)
{
	if (!s)
		return;
	sealer_free(s->sealer);
	free(s);
}

static uint32_t block_crc(const struct block *b)
{
	size_t head_and_table = BLOCK_WIRE_HEAD + (size_t)b->nextents * BLOCK_WIRE_EXTENT;

	return crypto_crc32c(crypto_crc32c(0, b->base, head_and_table), block_payload(b), b->len);
}

/* List the additional data: head and table; for PROT_SAFE the payload as well. Returns the number
 * of pieces. */
static int additional(const struct block *b, uint8_t prot, struct iovec iov[3])
{
	iov[0] = (struct iovec){ b->base, AAD_HEAD };
	iov[1] = (struct iovec){ b->base + BLOCK_WIRE_HEAD,
				 (size_t)b->nextents * BLOCK_WIRE_EXTENT };
	iov[2] = (struct iovec){ block_payload(b), b->len };
	return prot == PROT_SAFE ? 3 : 2;
}

static int seal_gcm(struct seal *s, const uint8_t *payload, struct block *b, struct block_head *h)
{
	struct iovec iov[3];
	int n, r;

	if (s->sealed + b->len > EPOCH_BYTES) { /* take the next key */
		if (s->epoch == UINT16_MAX)
			return -EIO;
		s->epoch++;
		s->nonce = s->sealed = 0;
		sealer_free(s->sealer);
		s->sealer = sealer_for(s->keys, s->dir, key_number(s));
		if (!s->sealer)
			return -EIO;
	}

	h->key = key_number(s);
	h->nonce = s->nonce++;
	s->sealed += b->len;
	block_head_put(b->base, h);

	n = additional(b, s->prot, iov);
	if (s->prot == PROT_SAFE)
		r = sealer_seal(s->sealer, h->nonce, iov, n, NULL, NULL, 0, h->tag);
	else
		r = sealer_seal(s->sealer, h->nonce, iov, n, payload, block_payload(b), b->len,
				h->tag);
	block_head_put(b->base, h);
	return r;
}

int seal_block(struct seal *s, struct block *b, struct block *to)
{
	struct block_head h = { .prot = s->prot, .extents = (uint16_t)b->nextents,
				.number = b->number, .payload = b->len };
	uint8_t *table = to->base + BLOCK_WIRE_HEAD;

	if (to != b) { /* copy b's members, and the bytes that encryption does not write */
		to->number = b->number;
		to->len = b->len;
		to->nextents = b->nextents;
		memcpy(to->extents, b->extents, b->nextents * sizeof(*b->extents));
		if (s->prot != PROT_PRIVATE)
			memcpy(block_payload(to), block_payload(b), b->len);
	}

	for (uint32_t i = 0; i < to->nextents; i++, table += BLOCK_WIRE_EXTENT)
		block_extent_put(table, to->extents[i].file, to->extents[i].offset,
				 to->extents[i].length);
	if (s->prot != PROT_CLEAR)
		return seal_gcm(s, block_payload(b), to, &h);
	block_head_put(to->base, &h);
	if (s->crc) {
		h.crc = block_crc(to);
		block_head_put(to->base, &h);
	}
	return 0;
}

struct unseal *unseal_new(const struct xkeys *k, const struct agreement *a,
			  enum direction dir)
{
	struct unseal *u = calloc(1, sizeof(*u));

	if (!u)
		return NULL;
	u->keys = k;
	u->dir = dir;
	u->prot = a->prot;
	u->crc = a->crc;
	return u;
}

void unseal_free(struct unseal *u)
{
	if (!u)
		return;
	for (unsigned i = 0; i < LANES; i++)
		sealer_free(u->lanes[i].sealer);
	free(u);
}

static struct sealer *opener_for(struct unseal *u, uint32_t key)
{
	uint32_t number = key >> 16;
	struct lane *l;

	if (number >= LANES)
		return NULL;
	l = &u->lanes[number];
	if (l->sealer && l->key == key)
		return l->sealer;
	sealer_free(l->sealer);
	l->key = key;
	l->sealer = sealer_for(u->keys, u->dir, key);
	return l->sealer;
}

static int open_gcm(struct unseal *u, struct block *b, const struct block_head *h)
{
	struct sealer *s = opener_for(u, h->key);
	struct iovec iov[3];
	int n;

	if (!s)
		return -EBADMSG;
	n = additional(b, u->prot, iov);
	if (u->prot == PROT_SAFE)
		return sealer_open(s, h->nonce, iov, n, NULL, NULL, 0, h->tag);
	return sealer_open(s, h->nonce, iov, n, block_payload(b), block_payload(b), b->len,
			   h->tag);
}

/* The extents' lengths must fill the payload exactly. */
static int get_table(struct block *b)
{
	const uint8_t *p = b->base + BLOCK_WIRE_HEAD;
	uint64_t pos = 0;

	for (uint32_t i = 0; i < b->nextents; i++, p += BLOCK_WIRE_EXTENT) {
		struct extent *x = &b->extents[i];

		block_extent_get(p, &x->file, &x->offset, &x->length);
		x->pos = (uint32_t)pos;
		pos += x->length;
		if (pos > b->len || x->offset > (uint64_t)INT64_MAX - x->length)
			return -EBADMSG;
	}
	return pos == b->len ? 0 : -EBADMSG;
}

int unseal_block(struct unseal *u, struct block *b)
{
	struct block_head h;
	int r;

	r = block_head_get(b->base, b->cap, &h);
	if (r)
		return r;

	if (h.prot != u->prot)
		return -EBADMSG;
	b->number = h.number;
	b->len = h.payload;
	b->nextents = h.extents;

	if (u->prot != PROT_CLEAR)
		r = open_gcm(u, b, &h);
	if (u->prot == PROT_CLEAR && u->crc) {
		/* The CRC was computed with 0 in its place. Use the rest of the head as it arrived,
		 * so that unused bytes are checked, too. */
		put_be32(b->base + HEAD_CRC, 0);
		r = block_crc(b) == h.crc ? 0 : -EBADMSG;
	}
	return r ? r : get_table(b);
}

/* ---- the key schedule ---- */

/* Derive a key from the session key, a label, and n more bytes, at most 8. */
static int xkeys_derive(const struct xkeys *k, const char *label, const uint8_t *more, size_t n,
			uint8_t key[KEY_BYTES])
{
	uint8_t info[32];
	size_t len = strlen(label);

	assert(len + n <= sizeof(info));
	memcpy(info, label, len);
	memcpy(info + len, more, n);
	return crypto_hkdf(key, KEY_BYTES, k->session, KEY_BYTES, NULL, 0, info, len + n);
}

int xkeys_init(struct xkeys *k, const uint8_t master[KEY_BYTES],
	       const uint8_t client_nonce[NONCE_BYTES],
	       const uint8_t server_nonce[NONCE_BYTES], uint64_t session)
{
	static const char session_label[] = "rftp bulk session";
	uint8_t salt[2 * NONCE_BYTES], info[sizeof(session_label) - 1 + 8];
	int r;

	memcpy(salt, client_nonce, NONCE_BYTES);
	memcpy(salt + NONCE_BYTES, server_nonce, NONCE_BYTES);
	memcpy(info, session_label, sizeof(session_label) - 1);
	put_be64(info + sizeof(session_label) - 1, session);
	r = crypto_hkdf(k->session, KEY_BYTES, master, KEY_BYTES, salt, sizeof(salt), info,
			sizeof(info));
	if (r)
		return r;
	k->auth.session = session;
	memcpy(k->auth.client_nonce, client_nonce, NONCE_BYTES);
	memcpy(k->auth.server_nonce, server_nonce, NONCE_BYTES);
	return xkeys_derive(k, "rftp channel token", info, 0, k->auth.token);
}

int xkeys_messages(const struct xkeys *k, enum direction dir, struct message_keys *m)
{
	static const char label[] = "rftp channel message";
	uint8_t there = (uint8_t)dir, back = !there;
	int r = xkeys_derive(k, label, &there, 1, m->from_source);

	return r ? r : xkeys_derive(k, label, &back, 1, m->from_sink);
}

int xkeys_block(const struct xkeys *k, enum direction dir, uint32_t number,
		uint8_t key[KEY_BYTES])
{
	uint8_t more[5] = { (uint8_t)dir };

	put_be32(more + 1, number);
	return xkeys_derive(k, "rftp block", more, sizeof(more), key);
}

void xkeys_wipe(struct xkeys *k)
{
	crypto_wipe(k, sizeof(*k));
}

/* ---- copies of blocks ---- */

/* Copy the bytes that travel: head, table, payload. The peer may change the original meanwhile, so
 * the lengths are read once, from the copied head. A malformed head stays malformed: unseal_block()
 * refuses it. */
static void block_copy_wire(struct block *to, const struct block *from)
{
	struct block_head h;

	memcpy(to->base, from->base, BLOCK_WIRE_HEAD);
	to->number = from->number;
	to->channel = from->channel;
	to->len = 0;
	to->nextents = 0;
	if (block_head_get(to->base, to->cap, &h))
		return;
	memcpy(to->base + BLOCK_WIRE_HEAD, from->base + BLOCK_WIRE_HEAD,
	       h.extents * (size_t)BLOCK_WIRE_EXTENT);
	memcpy(block_payload(to), block_payload(from), h.payload);
	to->len = h.payload;
	to->nextents = h.extents;
}

void block_copy(struct block *to, const struct block *from)
{
	block_copy_wire(to, from);
	memcpy(to->extents, from->extents, from->nextents * sizeof(*to->extents));
}

/* ---- copies of blocks that the peer cannot reach ---- */

bool staging_needed(const struct agreement *a, bool source)
{
	bool reached = a->op == (source ? OP_READ : OP_WRITE);

	return a->transport == TRANSPORT_RDMA && a->prot != PROT_CLEAR &&
	       (reached || (source && a->prot == PROT_PRIVATE));
}

struct staging *staging_new(struct pool *outer, struct pool *inner, struct err *e)
{
	struct staging *s = calloc(1, sizeof(*s));

	if (s)
		s->stands_for = calloc(pool_blocks(outer), sizeof(*s->stands_for));
	if (!s || !s->stands_for) {
		err_nomem(e);
		free(s);
		pool_free(inner);
		return NULL;
	}
	s->outer = outer;
	s->inner = inner;
	return s;
}

void staging_free(struct staging *s)
{
	if (!s)
		return;
	for (uint32_t i = 0; s->inner && i < pool_blocks(s->inner); i++)
		if (s->stands_for[i])
			pool_put(s->stands_for[i]);
	pool_free(s->inner);
	free(s->stands_for);
	free(s);
}

struct block *staging_enter(struct staging *s, struct block *b)
{
	struct block *inner = pool_get(s->inner); /* there is one for each outer block */

	if (!inner)
		return NULL;
	block_copy_wire(inner, b);
	assert(!s->stands_for[inner->index]);
	s->stands_for[inner->index] = b;
	return inner;
}

struct block *staging_leave(struct staging *s, struct block *inner)
{
	struct block *b = steal_ptr(&s->stands_for[inner->index]);

	b->number = inner->number;
	pool_put(inner);
	return b;
}
