// SPDX-License-Identifier: Apache-2.0
/* Seals and opens blocks. */
#include "transfer/seal.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define LANES 256u
#define EPOCH_BYTES (1ull << 36) /* a key seals at most this many bytes */
#define AAD_HEAD 48u             /* the head without its tag */
#define HEAD_CRC 32u             /* where the CRC is in it */

struct seal {
	const struct xkeys *keys;
	enum direction dir;
	uint8_t prot;
	bool crc;
	uint16_t lane, epoch;
	uint64_t nonce;          /* next one under this key */
	uint64_t sealed;         /* bytes under this key */
	struct sealer *sealer;
};

struct lane {
	struct sealer *sealer;
	uint32_t key;            /* number that sealer is for */
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

/* A fresh key when this one has sealed its share. */
static int seal_renew(struct seal *s)
{
	if (s->epoch == UINT16_MAX)
		return -EIO;
	s->epoch++;
	sealer_free(s->sealer);
	s->sealer = sealer_for(s->keys, s->dir, key_number(s));
	s->nonce = 0;
	s->sealed = 0;
	return s->sealer ? 0 : -EIO;
}

static size_t head_and_table(const struct block *b)
{
	return BLOCK_WIRE_HEAD + (size_t)b->nextents * BLOCK_WIRE_EXTENT;
}

static void put_table(struct block *b)
{
	uint8_t *p = b->base + BLOCK_WIRE_HEAD;

	for (uint32_t i = 0; i < b->nextents; i++, p += BLOCK_WIRE_EXTENT)
		block_extent_put(p, b->extents[i].file, b->extents[i].offset,
				 b->extents[i].length);
}

static uint32_t block_crc(const struct block *b)
{
	return crypto_crc32c(crypto_crc32c(0, b->base, head_and_table(b)), block_payload(b),
			     b->len);
}

/* Additional data: head and table; under safe the payload as well. Returns how many
 * pieces. */
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

	if (s->sealed + b->len > EPOCH_BYTES) {
		r = seal_renew(s);
		if (r)
			return r;
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

/* What we know of b, and what is not going to be written there by the encryption. */
static void take_over(const struct seal *s, struct block *to, const struct block *b)
{
	to->number = b->number;
	to->len = b->len;
	to->nextents = b->nextents;
	memcpy(to->extents, b->extents, b->nextents * sizeof(*b->extents));
	if (s->prot != PROT_PRIVATE)
		memcpy(block_payload(to), block_payload(b), b->len);
}

int seal_block(struct seal *s, struct block *b, struct block *to)
{
	struct block_head h = { .prot = s->prot, .extents = (uint16_t)b->nextents,
				.number = b->number, .payload = b->len };

	if (to != b)
		take_over(s, to, b);
	put_table(to);
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

static int check_crc(struct block *b, const struct block_head *h)
{
	/* Made over a head that has 0 in its place; the rest of it as it came, so that the
	 * bytes without a meaning count, too. */
	put_be32(b->base + HEAD_CRC, 0);
	return block_crc(b) == h->crc ? 0 : -EBADMSG;
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

/* Lengths must fill the payload exactly: no byte of it belongs to nobody. */
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
	else if (u->crc)
		r = check_crc(b, &h);
	return r ? r : get_table(b);
}
