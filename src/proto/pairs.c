// SPDX-License-Identifier: Apache-2.0
/* Which NIC of the client's talks to which of the server's (rftp-protocol(7), NICs). */
#include "proto/negotiate.h"

#include <arpa/inet.h>
#include <string.h>

struct pairing {
	const struct offer *c, *s;
	uint8_t transport;
	bool same_host;
	uint32_t n;
	uint8_t *cn, *sn;       /* [n] */
	bool c_used[NICS_MAX], s_used[NICS_MAX];
};

static uint32_t nics_of(const struct offer *o)
{
	return o->nnics < NICS_MAX ? o->nnics : NICS_MAX;
}

/* An address as bits: how many, or 0 when it is none. */
static unsigned address_bits(const char *text, uint8_t out[16])
{
	if (inet_pton(AF_INET, text, out) == 1)
		return 32;
	return inet_pton(AF_INET6, text, out) == 1 ? 128 : 0;
}

static bool same_prefix(const uint8_t *a, const uint8_t *b, unsigned bits)
{
	unsigned rest = bits % 8;

	if (memcmp(a, b, bits / 8))
		return false;
	return !rest || !((a[bits / 8] ^ b[bits / 8]) >> (8 - rest));
}

static bool same_family(const struct nic_offer *a, const struct nic_offer *b)
{
	uint8_t x[16], y[16];
	unsigned bits = address_bits(a->addr, x);

	return bits && bits == address_bits(b->addr, y);
}

/* Neighbours in one network, and not the same one. */
static bool same_network(const struct nic_offer *a, const struct nic_offer *b)
{
	uint8_t x[16], y[16];
	unsigned bits = address_bits(a->addr, x);

	if (!bits || bits != address_bits(b->addr, y) || !a->prefix || a->prefix != b->prefix)
		return false;
	return a->prefix <= bits && same_prefix(x, y, a->prefix) && memcmp(x, y, bits / 8);
}

static bool is_able(const struct pairing *p, uint32_t ci, uint32_t si)
{
	if (p->c_used[ci] || p->s_used[si])
		return false;
	return p->transport != TRANSPORT_RDMA || (p->c->nics[ci].rdma && p->s->nics[si].rdma);
}

/* Nobody has asked for these two by name: two that do RDMA are made use of, unless they sit
 * in one machine, where each could as well talk to itself. */
static bool is_wanted(const struct pairing *p, const struct nic_offer *a,
		      const struct nic_offer *b)
{
	return a->named || b->named || (p->transport == TRANSPORT_RDMA && !p->same_host);
}

static void take(struct pairing *p, uint32_t ci, uint32_t si)
{
	p->c_used[ci] = p->s_used[si] = true;
	p->cn[p->n] = (uint8_t)ci;
	p->sn[p->n++] = (uint8_t)si;
}

/* Each of the client's, in order, with the first of the server's that fits. */
static void take_all(struct pairing *p, bool (*fits)(const struct pairing *p,
						     const struct nic_offer *a,
						     const struct nic_offer *b))
{
	for (uint32_t ci = 0; ci < nics_of(p->c); ci++) {
		for (uint32_t si = 0; si < nics_of(p->s); si++) {
			if (!is_able(p, ci, si) || !fits(p, &p->c->nics[ci], &p->s->nics[si]))
				continue;
			take(p, ci, si);
			break;
		}
	}
}

/* The control connection shows that these reach each other. */
static bool are_control(const struct pairing *p, const struct nic_offer *a,
			const struct nic_offer *b)
{
	return a->control && b->control;
}

static bool are_neighbours(const struct pairing *p, const struct nic_offer *a,
			   const struct nic_offer *b)
{
	return is_wanted(p, a, b) && same_network(a, b);
}

/* Over routers. */
static bool are_named(const struct pairing *p, const struct nic_offer *a,
		      const struct nic_offer *b)
{
	return a->named && b->named && same_family(a, b);
}

uint32_t nic_pairs(const struct offer *client, const struct offer *server, uint8_t transport,
		   uint8_t client_nic[NICS_MAX], uint8_t server_nic[NICS_MAX])
{
	static const uint8_t unknown[HOST_ID_BYTES];
	struct pairing p = {
		.c = client, .s = server, .transport = transport,
		.cn = client_nic, .sn = server_nic,
		.same_host = !memcmp(client->host, server->host, HOST_ID_BYTES) &&
			     memcmp(client->host, unknown, HOST_ID_BYTES),
	};

	take_all(&p, are_control);
	take_all(&p, are_neighbours);
	take_all(&p, are_named);
	return p.n;
}
