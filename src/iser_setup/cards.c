// SPDX-License-Identifier: Apache-2.0
/* The cards of a host: its addresses, and what sysfs tells of the interfaces that have them. */
#include "iser_setup/cards.h"

#include "iser_setup/card.h"
#include "iser_setup/names.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- addresses ---- */

static int add_address(struct host_addresses *a, const char *netdev, const char *address)
{
	struct host_address *v = reallocarray(a->v, a->n + 1, sizeof(*v));

	if (!v)
		return -ENOMEM;
	a->v = v;
	snprintf(v[a->n].netdev, sizeof(v->netdev), "%s", netdev);
	snprintf(v[a->n].address, sizeof(v->address), "%s", address);
	a->n++;
	return 0;
}

static int add_interface(struct host_addresses *a, const struct ifaddrs *i)
{
	char text[INET6_ADDRSTRLEN];

	if (!(i->ifa_flags & IFF_UP) || !card_address(i, text))
		return 0;
	return add_address(a, i->ifa_name, text);
}

static int read_own(struct host_addresses *a, struct err *e)
{
	struct ifaddrs *all;
	int r = 0;

	if (getifaddrs(&all) < 0)
		return err_sys(e, -errno, "this host's addresses");
	for (const struct ifaddrs *i = all; !r && i; i = i->ifa_next)
		r = add_interface(a, i);
	freeifaddrs(all);
	return r ? err_sys(e, r, "this host's addresses") : 0;
}

static int take_line(void *arg, const char *section, const char *key, const char *value,
		     struct err *e)
{
	if (*section || !key || strlen(key) >= IF_NAMESIZE)
		return err_set(e, -EINVAL, "this is no \"NETDEV ADDRESS\"");
	if (iser_address_wrong(value))
		return err_set(e, -EINVAL, "\"%s\" %s", printable(value),
			       iser_address_wrong(value));
	return add_address(arg, key, value);
}

int host_addresses_read(const char *file, struct host_addresses *a, struct err *e)
{
	int r;

	*a = (struct host_addresses){ 0 };
	if (!file)
		return read_own(a, e);
	r = conf_read(file, take_line, a, e);
	return r == -ENOENT ? err_sys(e, r, "%s", printable(file)) : r;
}

void host_addresses_clear(struct host_addresses *a)
{
	free(a->v);
	*a = (struct host_addresses){ 0 };
}

/* ---- cards ---- */

static struct card card_at(const struct topo *t, const struct host_address *at)
{
	struct card c = { .at = at, .node = topo_netdev(t, at->netdev),
			  .mbps = topo_netdev_mbps(t, at->netdev) };

	/* Where there is one node only, firmware seldom says so. */
	if (c.node == NODE_UNKNOWN && topo_nodes(t) == 1)
		c.node = topo_node(t, 0)->id;
	topo_netdev_rdma(t, at->netdev, c.rdma);
	return c;
}

static bool is_v4(const char *address)
{
	return !strchr(address, ':');
}

static bool is_loopback(const char *address)
{
	return !strncmp(address, "127.", 4) || !strcmp(address, "::1");
}

static struct card *find(const struct cards *c, const char *netdev)
{
	for (size_t i = 0; i < c->n; i++)
		if (!strcmp(c->v[i].at->netdev, netdev))
			return &c->v[i];
	return NULL;
}

int cards_find(const struct topo *t, const struct host_addresses *a, struct cards *c)
{
	*c = (struct cards){ 0 };
	for (size_t i = 0; i < a->n; i++) {
		const struct host_address *at = &a->v[i];
		struct card *known = find(c, at->netdev), *v;

		if (iser_address_wrong(at->address) || is_loopback(at->address))
			continue;
		if (known) {
			if (is_v4(at->address) && !is_v4(known->at->address))
				known->at = at;
			continue;
		}
		v = reallocarray(c->v, c->n + 1, sizeof(*v));
		if (!v)
			return -ENOMEM;
		c->v = v;
		v[c->n++] = card_at(t, at);
	}
	return 0;
}

void cards_clear(struct cards *c)
{
	free(c->v);
	*c = (struct cards){ 0 };
}

/* Where it is not known it is taken for the farthest. */
static unsigned far_from(const struct topo *t, const struct card *c, int node)
{
	const unsigned d = c->node == NODE_UNKNOWN ? DISTANCE_UNKNOWN :
			   topo_distance(t, node, c->node);

	if (c->node == node)
		return 0;
	return d == DISTANCE_UNKNOWN ? UINT_MAX : d;
}

const struct card *cards_best(const struct cards *c, const struct topo *t, int node)
{
	const struct card *best = NULL;

	for (size_t i = 0; i < c->n; i++) {
		const struct card *v = &c->v[i];
		unsigned d = far_from(t, v, node), best_d = best ? far_from(t, best, node) : 0;

		if (!best || (*v->rdma && !*best->rdma) ||
		    (!*v->rdma == !*best->rdma &&
		     (d < best_d || (d == best_d && v->mbps > best->mbps))))
			best = v;
	}
	return best;
}

const struct card *cards_named(const struct cards *c, const char *netdev)
{
	return find(c, netdev);
}

bool cards_on(const struct cards *c, int node, bool rdma)
{
	for (size_t i = 0; i < c->n; i++)
		if (c->v[i].node == node && (*c->v[i].rdma || !rdma))
			return true;
	return false;
}

bool cards_any(const struct cards *c, bool rdma)
{
	for (size_t i = 0; i < c->n; i++)
		if (*c->v[i].rdma || !rdma)
			return true;
	return false;
}

bool card_of_address(const struct topo *t, const struct host_addresses *a, const char *address,
		     struct card *out)
{
	for (size_t i = 0; i < a->n; i++)
		if (!strcmp(a->v[i].address, address)) {
			*out = card_at(t, &a->v[i]);
			return true;
		}
	return false;
}
