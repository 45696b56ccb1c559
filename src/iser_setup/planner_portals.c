// SPDX-License-Identifier: Apache-2.0
/* Portals: on a card of the target's node that has RDMA, or the nearest to that. */
#include "iser_setup/planner_portals.h"

#include "iser_setup/names.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- one portal ---- */

/* c: the interface with the address; NULL: none is known to have it. */
static int add_portal(const struct planner_portals *p, struct iser_target *t, const char *address,
		      unsigned port, const struct card *c, struct err *e)
{
	struct iser_portal *out;

	if (c && !*c->rdma && !p->tcp)
		return err_set(e, -EINVAL, "%s (%s), for node %d, has no RDMA device: rdma link "
			       "add "
			       "makes a soft one, --tcp takes plain iSCSI for it", c->at->netdev,
			       address, t->node);
	out = iser_plan_add(t->portals, t->n_portals);
	if (!out || !(out->address = strdup(address)) ||
	    (c && !(out->netdev = strdup(c->at->netdev))))
		return err_set(e, -ENOMEM, "out of memory");
	out->port = port;
	out->iser = !c || *c->rdma;
	return 0;
}

/* ---- by itself ---- */

static int add_best(const struct planner_portals *p, struct iser_target *t, unsigned port,
		    struct err *e)
{
	const struct card *c = cards_best(p->cards, p->topo, t->node);

	if (!c)
		return err_set(e, -EINVAL, "there is no network interface with an address, by "
			       "which "
			       "node %d could be served; --portal %d=ADDRESS says one", t->node,
			       t->node);
	if (!*c->rdma && !p->tcp)
		return err_set(e, -EINVAL, "no network interface that has an address has an RDMA "
			       "device, for node %d; rdma link add makes a soft one, --tcp plans "
			       "plain iSCSI", t->node);
	return add_portal(p, t, c->at->address, port, c, e);
}

/* ---- as was asked for ---- */

static int add_asked(const struct planner_portals *p, struct iser_target *t, const char *asked,
		     struct err *e)
{
	CLEANUP_FREE char *text = NULL;
	const struct card *named;
	unsigned port;
	struct card c;

	if (spec_portal(asked, &text, &port, e))
		return err_prefix(e, "the portal %s of node %d", printable(asked), t->node);
	if (!strcmp(text, "auto"))
		return add_best(p, t, port, e);
	named = cards_named(p->cards, text);
	if (named)
		return add_portal(p, t, named->at->address, port, named, e);
	if (iser_address_wrong(text))
		return err_set(e, -EINVAL, "the portal %s of node %d: \"%s\" %s, and no interface "
			       "that is up and has an address is called so", printable(asked),
			       t->node, printable(text), iser_address_wrong(text));
	return add_portal(p, t, text, port,
			  card_of_address(p->topo, p->addresses, text, &c) ? &c : NULL, e);
}

int planner_portals(const struct planner_portals *p, const struct spec_node *n,
		    struct iser_target *t, struct err *e)
{
	for (size_t i = 0; n && i < n->n_portals; i++)
		if (add_asked(p, t, n->portals[i], e))
			return e->code;
	return t->n_portals ? 0 : add_best(p, t, ISER_PORT, e);
}
