// SPDX-License-Identifier: Apache-2.0
/* Is each thing of a plan where the plan has it, near enough, and does memory suffice? */
#include "iser_setup/doubts_host.h"

#include "iser_setup/locate.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* Of a node's memory, that a plan should leave: the cards' buffers and the kernel live there. */
#define RESERVE 10u /* one part in so many */
#define BLOCK 512u  /* st_blocks' */

struct doubts {
	const struct iser_plan *p;
	const struct planner_host *h;
	struct lines *notes;
};

/* ---- nodes ---- */

static bool is_missing(const struct doubts *d, int node)
{
	return node != NODE_UNKNOWN && !topo_find(d->h->topo, node);
}

static bool differ(int a, int b)
{
	return a != NODE_UNKNOWN && b != NODE_UNKNOWN && a != b;
}

static void doubt_nodes(const struct doubts *d, const struct iser_target *t)
{
	if (is_missing(d, t->node))
		lines_add(d->notes, "%s is for node %d, which is not there", t->iqn, t->node);
	for (size_t i = 0; i < t->n_stores; i++)
		if (is_missing(d, t->stores[i].node) && t->stores[i].node != t->node)
			lines_add(d->notes, "%s is for node %d, which is not there",
				  t->stores[i].name, t->stores[i].node);
}

/* ---- portals ---- */

/* The interface that has the portal's address, rather the plan's if several have. Where no address
 * is known it is the plan's, at being at. */
static bool find_card(const struct doubts *d, const struct iser_portal *p,
		      struct host_address *at, struct card *c)
{
	const struct host_addresses *all = d->h->addresses;
	struct host_addresses one = { at, 1 };

	if (!all->n && p->netdev) {
		snprintf(at->netdev, sizeof(at->netdev), "%s", p->netdev);
		snprintf(at->address, sizeof(at->address), "%s", p->address);
		return card_of_address(d->h->topo, &one, p->address, c);
	}
	for (size_t i = 0; p->netdev && i < all->n; i++) {
		one.v = &all->v[i];
		if (!strcmp(one.v->netdev, p->netdev) &&
		    card_of_address(d->h->topo, &one, p->address, c))
			return true;
	}
	return card_of_address(d->h->topo, all, p->address, c);
}

/* who: is served by it. */
static void doubt_card(const struct doubts *d, const struct iser_target *t,
		       const struct iser_portal *p, const struct card *c, const char *who)
{
	char where[48] = "is on no node that is known";

	if (p->netdev && strcmp(p->netdev, c->at->netdev))
		lines_add(d->notes, "%s, by which %s is to be served, is on %s, and not on %s as "
			  "the plan has it", p->address, who, c->at->netdev,
			  printable(p->netdev));
	if (!*c->rdma && p->iser)
		lines_add(d->notes, "%s is to be served by iSER, but %s has no RDMA device", who,
			  c->at->netdev);
	else if (!*c->rdma)
		lines_add(d->notes, "%s is served by plain iSCSI over TCP: %s has no RDMA device",
			  who, c->at->netdev);
	if (c->node == t->node || t->node == NODE_UNKNOWN || is_missing(d, t->node))
		return;
	if (c->node != NODE_UNKNOWN)
		snprintf(where, sizeof(where), "is on node %d", c->node);
	lines_add(d->notes, "%s is served by %s, which %s: all of its data goes from node to node",
		  who, c->at->netdev, where);
}

static void doubt_portal(const struct doubts *d, const struct iser_target *t,
			 const struct iser_portal *p)
{
	char node[32];
	const char *who = t->node == NODE_UNKNOWN ? t->iqn : node;
	struct host_address at;
	struct card c;

	snprintf(node, sizeof(node), "node %d", t->node);
	if (find_card(d, p, &at, &c))
		doubt_card(d, t, p, &c, who);
	else
		lines_add(d->notes, "no interface that is up has %s, on which %s is to be served",
			  p->address, who);
}

/* ---- back stores ---- */

static void doubt_memory_store(const struct doubts *d, const struct iser_target *t,
			       const struct iser_store *s)
{
	if (differ(s->node, t->node) && !is_missing(d, s->node))
		lines_add(d->notes, "%s has memory of node %d, but is served by node %d: all of "
			  "its data goes from node to node", s->name, s->node, t->node);
}

static void doubt_device(const struct doubts *d, const struct iser_target *t,
			 const struct iser_store *s)
{
	const char *absent = s->kind == ISER_BLOCK ?
			     locate_absent(s->path, d->h->topo, d->h->own) : NULL;
	int found = locate_node(s->kind, s->path, d->h->topo, d->h->own);

	if (absent) {
		lines_add(d->notes, "%s: %s", s->path, absent);
		return;
	}
	if (differ(found, s->node))
		lines_add(d->notes, "%s is on node %d, and not on node %d as the plan has it",
			  s->path, found, s->node);
	found = found == NODE_UNKNOWN ? s->node : found;
	if (differ(found, t->node))
		lines_add(d->notes, "%s is on node %d, but is served by node %d, as was asked for",
			  s->path, found, t->node);
}

static void doubt_target(const struct doubts *d, const struct iser_target *t)
{
	doubt_nodes(d, t);
	for (size_t i = 0; i < t->n_stores; i++)
		if (iser_store_forgets(&t->stores[i]))
			doubt_memory_store(d, t, &t->stores[i]);
		else
			doubt_device(d, t, &t->stores[i]);
	for (size_t i = 0; i < t->n_portals; i++)
		doubt_portal(d, t, &t->portals[i]);
}

/* ---- memory ---- */

/* Bytes that are still to be had for s: a plan that is carried out has its own. */
static uint64_t to_take(const struct doubts *d, const struct iser_store *s)
{
	CLEANUP_FREE char *file = iser_store_file(s);
	struct stat st;
	uint64_t has;

	if (!d->h->own || !file || stat(file, &st))
		return s->size;
	has = (uint64_t)st.st_blocks * BLOCK;
	return has < s->size ? s->size - has : 0;
}

static uint64_t wanted_of(const struct doubts *d, int node)
{
	uint64_t sum = 0, one;

	for (size_t t = 0; t < d->p->n_targets; t++)
		for (size_t i = 0; i < d->p->targets[t].n_stores; i++) {
			const struct iser_store *s = &d->p->targets[t].stores[i];

			if (!iser_store_forgets(s) || s->node != node)
				continue;
			one = to_take(d, s);
			sum = sum + one < sum ? UINT64_MAX : sum + one;
		}
	return sum;
}

static void doubt_memory(const struct doubts *d, int node)
{
	const uint64_t sum = wanted_of(d, node);
	char wanted[32], room[32];
	struct node_memory m;

	if (!sum)
		return;
	format_size(wanted, sizeof(wanted), sum);
	if (topo_memory(d->h->topo, node, &m))
		lines_add(d->notes, "how much memory node %d has is not known; %s of it are "
			  "planned for", node, wanted);
	else if (sum > m.room)
		lines_add(d->notes, "memory does not suffice: node %d has %s to give, and %s are "
			  "planned for", node, format_size(room, sizeof(room), m.room), wanted);
	else if (m.room - sum < m.total / RESERVE)
		lines_add(d->notes, "memory is tight: of %s that node %d has to give, %s are "
			  "planned for, which leaves less than a tenth of the node's",
			  format_size(room, sizeof(room), m.room), node, wanted);
}

void doubts_host(const struct iser_plan *p, const struct planner_host *h, struct lines *notes)
{
	const struct doubts d = { p, h, notes };

	for (size_t i = 0; i < p->n_targets; i++)
		doubt_target(&d, &p->targets[i]);
	for (unsigned i = 0; i < topo_nodes(h->topo); i++)
		doubt_memory(&d, topo_node(h->topo, i)->id);
}
