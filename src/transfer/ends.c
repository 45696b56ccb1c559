// SPDX-License-Identifier: Apache-2.0
/* Endpoints, pools and paths, one after the other. */
#include "transfer/ends.h"

#include <errno.h>
#include <string.h>

int ends_new(struct ends *d, const struct agreement *a, const struct channel_auth *auth,
	     bool source, const struct transfer_tuning *t, uint64_t rtt_ns, struct err *e)
{
	endpoint_maker *make = a->transport == TRANSPORT_RDMA ? t->rdma : tcp_endpoint;

	memset(d, 0, sizeof(*d));
	if (!make)
		return err_set(e, -EPROTONOSUPPORT, "this build has no RDMA");
	for (uint32_t i = 0; i < a->paths; i++) {
		struct endpoint_config c = {
			.source = source,
			.agr = a,
			.auth = auth,
			.first = (uint16_t)(i * a->channels),
			.rtt_ns = rtt_ns,
			.tos = t->tos,
		};

		d->ep[i] = make(&c, e);
		if (!d->ep[i])
			return e->code;
		d->n = i + 1;
	}
	return 0;
}

static int open_one(struct ends *d, uint32_t i, const struct agreement *a, bool source,
		    const struct transfer_tuning *t, int stop, int timeout_ms, struct err *e)
{
	struct pool_config pc = {
		.blocks = source ? a->source_blocks : a->sink_blocks,
		.payload = a->block,
		.hugepages = t->hugepages,
		.hooks = d->ep[i]->ops->hooks(d->ep[i]),
	};
	struct path_config c = { .source = source, .payload = a->block,
				 .inflight = a->inflight };

	c.pool = d->pool[i] = pool_new(&pc, e);
	if (c.pool)
		d->path[i] = d->ep[i]->ops->open(d->ep[i], &c, stop, timeout_ms, e);
	return d->path[i] ? 0 : e->code;
}

int ends_open(struct ends *d, const struct agreement *a, bool source,
	      const struct transfer_tuning *t, int stop, int timeout_ms, struct err *e)
{
	int r = 0;

	for (uint32_t i = 0; i < d->n && !r; i++)
		r = open_one(d, i, a, source, t, stop, timeout_ms, e);
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
