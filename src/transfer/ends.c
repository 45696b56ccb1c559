// SPDX-License-Identifier: Apache-2.0
/* Endpoints, pools and paths, one after the other. */
#include "transfer/ends.h"

#include <errno.h>
#include <string.h>

/* Where path i's connections come from. What the control connection shows to be a way needs
 * no address of ours, by TCP: behind NAT it may be another's. */
static void source_address(const struct ends_config *c, uint32_t i, struct sockaddr_storage *ss)
{
	uint8_t nic = c->agr->client_nic[i];

	memset(ss, 0, sizeof(*ss));
	if (!c->client || nic == NIC_NONE)
		return;
	if (c->agr->transport == TRANSPORT_RDMA || !c->own->nics[nic].control)
		address_parse(c->own->nics[nic].addr, ss);
}

int ends_new(struct ends *d, const struct ends_config *c, struct err *e)
{
	const struct device_transport *rdma = c->tuning->rdma;
	endpoint_maker *make = c->agr->transport != TRANSPORT_RDMA ? tcp_endpoint :
			       rdma ? rdma->endpoint : NULL;

	*d = (struct ends){ .cfg = *c };
	if (!make)
		return err_set(e, -EPROTONOSUPPORT, "this build has no RDMA");
	for (uint32_t i = 0; i < c->agr->paths; i++) {
		struct endpoint_config ec = {
			.source = c->source,
			.agr = c->agr,
			.auth = &c->keys->auth,
			.first = (uint16_t)(i * c->agr->channels),
			.rtt_ns = c->rtt_ns,
			.tos = c->tuning->tos,
			.poll = c->tuning->poll,
			.node = placement_node(c->placement, i),
		};

		source_address(c, i, &ec.from);
		d->ep[i] = make(&ec, e);
		if (!d->ep[i])
			return e->code;
		d->n = i + 1;
	}
	return 0;
}

int ends_pools(struct ends *d, struct err *e)
{
	const struct agreement *a = d->cfg.agr;
	struct pool_config c = {
		.blocks = d->cfg.source ? a->source_blocks : a->sink_blocks,
		.payload = a->block,
	};

	for (uint32_t i = 0; i < d->n; i++) {
		d->failed = i;
		c.hooks = d->ep[i]->ops->hooks(d->ep[i]);
		d->pool[i] = placement_pool(d->cfg.placement, i, &c, e);
		if (!d->pool[i])
			return e->code;
		placement_say(d->cfg.placement, i, d->pool[i]);
	}
	return 0;
}

/* Keys of messages only where blocks are sealed, too. 0 or -EIO. */
static int message_keys(const struct ends_config *c, struct message_keys *m)
{
	if (c->agr->prot == PROT_CLEAR)
		return 0;
	return xkeys_messages(c->keys, c->source == c->client ? CLIENT_TO_SERVER :
			      SERVER_TO_CLIENT, m);
}

static int open_one(struct ends *d, uint32_t i, int stop, int timeout_ms, struct err *e)
{
	struct path_config c = { .source = d->cfg.source, .payload = d->cfg.agr->block,
				 .inflight = d->cfg.agr->inflight, .pool = d->pool[i],
				 .first = (uint16_t)(i * d->cfg.agr->channels),
				 .client = d->cfg.client, .far = d->cfg.rtt_ns >= FAR_RTT_NS,
				 .rate = d->cfg.source ? d->cfg.rate : 0,
				 .congestion = d->cfg.tuning->congestion,
				 .stall_ms = d->cfg.tuning->stall_ms };
	struct message_keys keys;
	struct place_policy policy;
	int r = message_keys(&d->cfg, &keys);

	if (r)
		return err_sys(e, r, "keys of data channels");
	if (d->cfg.agr->prot != PROT_CLEAR)
		c.keys = &keys;

	/* Queues, and what the kernel and the device's library have for them, are near, too. */
	place_prefer(placement_node(d->cfg.placement, i), &policy);
	d->path[i] = d->ep[i]->ops->open(d->ep[i], &c, stop, timeout_ms, e);
	place_back(&policy);
	crypto_wipe(&keys, sizeof(keys));
	return d->path[i] ? 0 : e->code;
}

int ends_open(struct ends *d, int stop, int timeout_ms, struct err *e)
{
	uint64_t deadline = now_ns() + (uint64_t)timeout_ms * 1000000;
	int r = 0;

	for (uint32_t i = 0; !r && i < d->n; i++) {
		d->failed = i;
		r = open_one(d, i, stop, ms_to(deadline), e);
	}
	return r;
}

void ends_free(struct ends *d)
{
	for (uint32_t i = 0; i < d->n; i++) {
		if (d->path[i])
			d->path[i]->ops->free(d->path[i]);
		pool_free(d->pool[i]);
		if (d->ep[i])
			d->ep[i]->ops->free(d->ep[i]);
	}
	memset(d, 0, sizeof(*d));
}
