// SPDX-License-Identifier: Apache-2.0
/* Offers and agreements on the wire. Both stand behind their length, so that a later
 * minor version can append to them. */
#include "proto/negotiate.h"
#include "proto/wire.h"

#include <string.h>

#define OFFER_BYTES_MAX 65536u /* of an encoded offer, with what later versions add */

/* ---- offers ---- */

static void out_short(struct wire_out *o, const char *s, size_t room)
{
	size_t len = strnlen(s, room - 1);

	out_u8(o, (uint8_t)len);
	out_bytes(o, s, len);
}

/* A name or address of a NIC: shown to people and given to resolvers, so it is plain. */
static void in_short(struct wire_in *in, char *s, size_t room)
{
	uint8_t len = in_u8_max(in, (uint8_t)(room - 1));

	memset(s, 0, room);
	in_bytes(in, s, len);
	for (uint8_t i = 0; i < len; i++) {
		if (s[i] <= ' ' || s[i] > '~')
			in->bad = true;
	}
}

enum { NIC_F_RDMA = 1, NIC_F_CONTROL = 2, NIC_F_NAMED = 4, NIC_F_NEAR = 8 };

static void encode_nic(struct wire_out *o, const struct nic_offer *n)
{
	out_u32(o, n->mbps);
	out_u16(o, (uint16_t)n->node);
	out_u8(o, (uint8_t)(n->rdma * NIC_F_RDMA | n->control * NIC_F_CONTROL |
			    n->named * NIC_F_NAMED | n->near * NIC_F_NEAR));
	out_u8(o, n->prefix);
	out_short(o, n->name, sizeof(n->name));
	out_short(o, n->addr, sizeof(n->addr));
}

static void decode_nic(struct wire_in *in, struct nic_offer *n)
{
	uint8_t flags;

	n->mbps = in_u32(in);
	n->node = (int16_t)in_u16(in);
	flags = in_u8(in); /* others may come with a later version */
	n->rdma = flags & NIC_F_RDMA;
	n->control = flags & NIC_F_CONTROL;
	n->named = flags & NIC_F_NAMED;
	n->near = flags & NIC_F_NEAR;
	n->prefix = in_u8_max(in, 128);
	in_short(in, n->name, sizeof(n->name));
	in_short(in, n->addr, sizeof(n->addr));
}

static const uint8_t no_host[HOST_ID_BYTES];

static void encode_offer(struct wire_out *o, const void *msg)
{
	const struct offer *f = msg;
	size_t at = o->n;

	out_u32(o, 0);
	out_u8(o, f->transports);
	out_u8(o, f->ops);
	out_u8(o, f->prot_min);
	out_u8(o, f->ack);
	out_u8(o, f->storage);
	out_u8(o, f->no_crc);
	out_u16(o, f->cpus);
	out_u64(o, f->memory);
	out_u32(o, f->block);
	out_u32(o, f->block_max);
	out_u16(o, f->channels);
	out_u16(o, f->channels_max);
	out_u32(o, f->inflight);
	out_u64(o, f->rtt_ns);
	out_u64(o, f->locked);
	out_u32(o, f->nnics);
	for (uint32_t i = 0; i < f->nnics; i++)
		encode_nic(o, &f->nics[i]);
	if (f->little || f->channels_more || memcmp(f->host, no_host, sizeof(no_host)))
		out_bytes(o, f->host, sizeof(f->host));
	if (f->little || f->channels_more)
		out_u16(o, f->channels_more);
	if (f->little)
		out_u8(o, f->little);
	out_patch_length(o, at);
}

int offer_put(struct buf *b, const struct offer *o)
{
	if (o->nnics > NICS_MAX)
		return -EINVAL;
	return wire_put(b, encode_offer, o);
}

static void decode_offer(struct wire_in *in, struct offer *f)
{
	f->transports = in_u8(in);
	f->ops = in_u8(in);
	f->prot_min = in_u8_max(in, PROT_PRIVATE);
	f->ack = in_u8_max(in, ACK_VERIFIED);
	f->storage = in_u8(in);
	f->no_crc = in_u8_max(in, 1);
	f->cpus = in_u16(in);
	f->memory = in_u64(in);
	f->block = in_u32(in);
	f->block_max = in_u32(in);
	f->channels = in_u16(in);
	f->channels_max = in_u16(in);
	f->inflight = in_u32(in);
	f->rtt_ns = in_u64(in);
	f->locked = in_u64(in);
	f->nnics = in_u32(in);
	if (f->nnics > NICS_MAX)
		in->bad = true;
	for (uint32_t i = 0; i < f->nnics && !in->bad; i++)
		decode_nic(in, &f->nics[i]);
	if (in->bad || in->left < sizeof(f->host))
		return;
	in_bytes(in, f->host, sizeof(f->host));
	if (in->left < sizeof(f->channels_more))
		return;
	f->channels_more = in_u16(in);
	if (in->left)
		f->little = in_u8(in) & 1;
}

int offer_get(struct buf *b, struct offer *o)
{
	struct wire_in in = wire_in_of(b);
	struct wire_in body = in_nested(&in, OFFER_BYTES_MAX);

	memset(o, 0, sizeof(*o));
	decode_offer(&body, o);
	in.bad |= body.bad;
	if (in.bad)
		memset(o, 0, sizeof(*o));
	return wire_in_end(&in, b);
}

/* ---- agreements ---- */

static void encode_agreement(struct wire_out *o, const void *msg)
{
	const struct agreement *a = msg;
	size_t at = o->n;

	out_u32(o, 0);
	out_u8(o, a->transport);
	out_u8(o, a->op);
	out_u8(o, a->prot);
	out_u8(o, a->ack);
	out_u8(o, a->crc);
	out_u8(o, a->sink_keeps);
	out_u16(o, a->paths);
	out_u16(o, a->channels);
	out_u16(o, a->channels_first == a->channels ? 0 : a->channels_first);
	out_u32(o, a->block);
	out_u32(o, a->inflight);
	out_u32(o, a->source_blocks);
	out_u32(o, a->sink_blocks);
	out_u32(o, a->entries_ahead);
	out_patch_length(o, at);
}

int agreement_put(struct buf *b, const struct agreement *a)
{
	return wire_put(b, encode_agreement, a);
}

static void decode_agreement(struct wire_in *in, struct agreement *a)
{
	a->transport = in_u8(in);
	a->op = in_u8(in);
	a->prot = in_u8_max(in, PROT_PRIVATE);
	a->ack = in_u8_max(in, ACK_VERIFIED);
	a->crc = in_u8_max(in, 1);
	a->sink_keeps = in_u8(in) & 1;
	a->paths = in_u16(in);
	a->channels = in_u16(in);
	a->channels_first = in_u16(in);
	if (!a->channels_first)
		a->channels_first = a->channels;
	a->block = in_u32(in);
	a->inflight = in_u32(in);
	a->source_blocks = in_u32(in);
	a->sink_blocks = in_u32(in);
	a->entries_ahead = in_u32(in);
}

int agreement_get(struct buf *b, struct agreement *a)
{
	struct wire_in in = wire_in_of(b);
	struct wire_in body = in_nested(&in, OFFER_BYTES_MAX);

	memset(a, 0, sizeof(*a));
	decode_agreement(&body, a);
	in.bad |= body.bad;
	if (in.bad)
		memset(a, 0, sizeof(*a));
	return wire_in_end(&in, b);
}
