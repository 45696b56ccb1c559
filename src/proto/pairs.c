// SPDX-License-Identifier: Apache-2.0
/* Pairs of a NIC of the client and a NIC of the server (rftp-protocol(7), NICs). */
#include "proto/negotiate.h"

#include <arpa/inet.h>

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

/* Convert an address to bits. Returns their number; 0: text is not an address. */
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

/* True for two different addresses in one network. */
static bool same_network(const struct nic_offer *a, const struct nic_offer *b)
{
	uint8_t x[16], y[16];
	unsigned bits = address_bits(a->addr, x);

	if (!bits || bits != address_bits(b->addr, y) || !a->prefix || a->prefix != b->prefix)
		return false;
	return a->prefix <= bits && same_prefix(x, y, a->prefix) && memcmp(x, y, bits / 8);
}

bool nic_leads_to(const struct nic_offer *n, const char *addr)
{
	struct nic_offer other = { .prefix = n->prefix };

	if (strlen(addr) >= sizeof(other.addr))
		return false;
	memcpy(other.addr, addr, strlen(addr) + 1);
	return n->named ? same_family(n, &other) : same_network(n, &other);
}

static bool is_able(const struct pairing *p, uint32_t ci, uint32_t si)
{
	if (p->c_used[ci] || p->s_used[si])
		return false;
	return p->transport != TRANSPORT_RDMA || (p->c->nics[ci].rdma && p->s->nics[si].rdma);
}

/* True: a user has named one of the two, or both have RDMA and are in different machines (within
 * one machine a card can also reach itself). */
static bool pair_is_wanted(const struct pairing *p, const struct nic_offer *a,
		      const struct nic_offer *b)
{
	return a->named || b->named || (p->transport == TRANSPORT_RDMA && !p->same_host);
}

static void pair_take(struct pairing *p, uint32_t ci, uint32_t si)
{
	p->c_used[ci] = p->s_used[si] = true;
	p->cn[p->n] = (uint8_t)ci;
	p->sn[p->n++] = (uint8_t)si;
}

/* Pair each NIC of the client, in order, with the first free NIC of the server that fits. */
static void pair_all(struct pairing *p, bool (*fits)(const struct pairing *p,
						     const struct nic_offer *a,
						     const struct nic_offer *b))
{
	for (uint32_t ci = 0; ci < nics_of(p->c); ci++) {
		for (uint32_t si = 0; si < nics_of(p->s); si++) {
			if (!is_able(p, ci, si) || !fits(p, &p->c->nics[ci], &p->s->nics[si]))
				continue;
			pair_take(p, ci, si);
			break;
		}
	}
}

/* A pair is better if its common speed (that of the slower end) is higher; then if the speeds of
 * its two ends differ less; then if more of its ends are near their storage. */
struct worth {
	uint32_t both, excess;
	unsigned near;
};

static struct worth worth_of(const struct nic_offer *a, const struct nic_offer *b)
{
	uint32_t more = a->mbps > b->mbps ? a->mbps : b->mbps;
	uint32_t less = a->mbps > b->mbps ? b->mbps : a->mbps;

	/* An unknown speed counts as the speed of the other end. */
	if (!less)
		less = more;
	return (struct worth){ less, more - less, (unsigned)a->near + b->near };
}

static bool is_better(const struct worth *x, const struct worth *y)
{
	if (x->both != y->both)
		return x->both > y->both;
	if (x->excess != y->excess)
		return x->excess < y->excess;
	return x->near > y->near;
}

/* Pair the best remaining NICs of one network, the first ones among equals. False: none is left. */
static bool pair_best(struct pairing *p)
{
	uint32_t ci = 0, si = 0;
	struct worth best = { 0 };
	bool found = false;

	for (uint32_t c = 0; c < nics_of(p->c); c++) {
		for (uint32_t s = 0; s < nics_of(p->s); s++) {
			const struct nic_offer *a = &p->c->nics[c], *b = &p->s->nics[s];
			struct worth w = worth_of(a, b);

			if (!is_able(p, c, s) || !pair_is_wanted(p, a, b) || !same_network(a, b) ||
			    (found && !is_better(&w, &best)))
				continue;
			found = true;
			best = w;
			ci = c;
			si = s;
		}
	}

	if (found)
		pair_take(p, ci, si);
	return found;
}

/* The control connection uses both NICs, which proves that they reach each other. */
static bool are_control(const struct pairing *p, const struct nic_offer *a,
			const struct nic_offer *b)
{
	return a->control && b->control;
}

/* Pairs across routers: a user has named both NICs. */
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

	pair_all(&p, are_control);
	while (pair_best(&p))
		;
	pair_all(&p, are_named);
	return p.n;
}
