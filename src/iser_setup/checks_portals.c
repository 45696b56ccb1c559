// SPDX-License-Identifier: Apache-2.0
/* Can the target be reached as the plan says? */
#include "iser_setup/checks.h"

#include "iser_setup/card.h"

#include <errno.h>
#include <net/if.h>
#include <string.h>

static const struct ifaddrs *find(const struct ifaddrs *all, const char *address)
{
	char text[INET6_ADDRSTRLEN];

	for (; all; all = all->ifa_next)
		if (card_address(all, text) && !strcmp(text, address))
			return all;
	return NULL;
}

static void check_one(const struct checks *c, const struct iser_target *t,
		      const struct iser_portal *p, const struct ifaddrs *all)
{
	const struct ifaddrs *a = find(all, p->address);
	char device[RDMA_NAME];

	if (!a) {
		lines_add(c->problems, "portal %s of %s: this host has no such address; ip addr "
			  "add it, or change the plan", p->address, t->iqn);
		return;
	}
	if (!(a->ifa_flags & IFF_UP))
		lines_add(c->problems, "portal %s of %s: its network interface %s is down; ip link "
			  "set %s up", p->address, t->iqn, a->ifa_name, a->ifa_name);
	else if (!(a->ifa_flags & IFF_RUNNING))
		lines_add(c->notes, "portal %s of %s: its network interface %s has no link",
			  p->address, t->iqn, a->ifa_name);
	if (p->netdev && strcmp(p->netdev, a->ifa_name))
		lines_add(c->problems, "portal %s of %s: the address is on %s, and not on %s as "
			  "the plan has it", p->address, t->iqn, a->ifa_name, printable(p->netdev));
	if (p->iser && topo_netdev_rdma(c->t, a->ifa_name, device))
		lines_add(c->problems, "portal %s of %s: %s has no RDMA device, which iSER needs; "
			  "load its driver, make a soft one (rdma link add rxe_%s type rxe netdev "
			  "%s), or say \"iser\": false", p->address, t->iqn, a->ifa_name,
			  a->ifa_name, a->ifa_name);
}

void check_portals(const struct checks *c)
{
	struct ifaddrs *all;

	if (getifaddrs(&all)) {
		lines_add(c->problems, "the addresses of this host: %s", strerror(errno));
		return;
	}
	for (size_t i = 0; i < c->plan->n_targets; i++)
		for (size_t k = 0; k < c->plan->targets[i].n_portals; k++)
			check_one(c, &c->plan->targets[i], &c->plan->targets[i].portals[k], all);
	freeifaddrs(all);
}
