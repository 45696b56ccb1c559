// SPDX-License-Identifier: Apache-2.0
/* The network cards that a host could be reached by. */
#ifndef RFTP_ISER_CARDS_H
#define RFTP_ISER_CARDS_H

#include "numa/numa.h"
#include "util/util.h"

#include <net/if.h>
#include <netinet/in.h>

/* An address of a network interface, numerical. */
struct host_address {
	char netdev[IF_NAMESIZE];
	char address[INET6_ADDRSTRLEN];
};

struct host_addresses {
	struct host_address *v;
	size_t n;
};

/* This host's, of the interfaces that are up; or those of another, in a file of lines "NETDEV
 * ADDRESS". 0 or a negative errno with text; host_addresses_clear after either. */
int host_addresses_read(const char *file, struct host_addresses *a, struct err *e);
void host_addresses_clear(struct host_addresses *a);

/* An interface by one of its addresses that others can reach. */
struct card {
	const struct host_address *at;
	int node;                /* NODE_UNKNOWN */
	uint32_t mbps;           /* 0: not known */
	char rdma[RDMA_NAME];    /* "": it has no RDMA device */
};

struct cards {
	struct card *v;          /* in the order of the addresses, each interface once */
	size_t n;
};

/* Those of addresses, which must outlive them. 0 or -ENOMEM; cards_clear after either. */
int cards_find(const struct topo *t, const struct host_addresses *a, struct cards *c);
void cards_clear(struct cards *c);

/* The best for what is on node: one with RDMA, on the node or else near it, fast. NULL: the host
 * has no card. */
const struct card *cards_best(const struct cards *c, const struct topo *t, int node);
/* An interface by its name; NULL. */
const struct card *cards_named(const struct cards *c, const char *netdev);
/* Has any of node's cards RDMA (rdma), or is there any? */
bool cards_on(const struct cards *c, int node, bool rdma);
/* The same of any node. */
bool cards_any(const struct cards *c, bool rdma);

/* What of an interface is known for one of its addresses, also one that cards_find did not take.
 * false: no interface has it. */
bool card_of_address(const struct topo *t, const struct host_addresses *a, const char *address,
		     struct card *out);

#endif
