// SPDX-License-Identifier: Apache-2.0
/* Where a target listens. */
#ifndef RFTP_ISER_PLANNER_PORTALS_H
#define RFTP_ISER_PLANNER_PORTALS_H

#include "iser_setup/cards.h"
#include "iser_setup/plan.h"
#include "iser_setup/spec.h"

struct planner_portals {
	const struct topo *topo;
	const struct host_addresses *addresses;
	const struct cards *cards;
	bool tcp; /* plain iSCSI will do where there is no RDMA */
};

/* Gives t its portals: those that n (NULL: no section) asks for, or the address of the card that is
 * best for t's node. 0, -EINVAL or -ENOMEM with text. */
int planner_portals(const struct planner_portals *p, const struct spec_node *n,
		    struct iser_target *t, struct err *e);

#endif
