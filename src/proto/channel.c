// SPDX-License-Identifier: Apache-2.0
/* What a data channel carries besides blocks: its opening, credits, announcements. */
#include "proto/bulk.h"

#include <errno.h>
#include <string.h>

/* ---- messages ---- */

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

/* ---- credits ---- */

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

/* ---- announcements ---- */

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

/* ---- opening ---- */

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
