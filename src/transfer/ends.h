// SPDX-License-Identifier: Apache-2.0
/* This side's ends of all paths, from the agreement until the stages take them. */
#ifndef RFTP_TRANSFER_ENDS_H
#define RFTP_TRANSFER_ENDS_H

#include "transfer/keys.h"
#include "transfer/placement.h"

/* What they are made from. All of it outlives them. */
struct ends_config {
	const struct agreement *agr;
	const struct xkeys *keys;
	const struct transfer_tuning *tuning;
	const struct offer *own;  /* ours; client: to come from its NICs */
	struct placement *placement; /* outlives them, too */
	bool client, source;
	uint64_t rtt_ns;
	uint64_t rate;            /* of the source, bytes per second; 0: no limit */
};

struct ends {
	struct ends_config cfg;
	uint32_t n;
	uint32_t failed;          /* whose fault it was that ends_pools or ends_open failed */
	struct endpoint *ep[NICS_MAX];
	struct pool *pool[NICS_MAX];
	struct path *path[NICS_MAX];
};

/* 0, or a negative errno with text; ends_free either way. */
int ends_new(struct ends *d, const struct ends_config *c, struct err *e);
/* Once all listen or are resolved: their pools, registered where they must be. */
int ends_pools(struct ends *d, struct err *e);
/* Then the channels. stop as in opener_first. */
int ends_open(struct ends *d, int stop, int timeout_ms, struct err *e);
void ends_free(struct ends *d); /* d is empty after it */

#endif
