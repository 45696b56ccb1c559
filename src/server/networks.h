// SPDX-License-Identifier: Apache-2.0
/* Networks, and who is of which: the lists of allowed and refused addresses. */
#ifndef RFTP_SERVER_NETWORKS_H
#define RFTP_SERVER_NETWORKS_H

#include "util/util.h"

#include <netinet/in.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

/* All in the terms of IPv6; IPv4 is ::ffff:0:0/96. */
struct network {
	struct in6_addr addr;
	uint8_t bits;
	bool all;                /* IPv4 and IPv6 alike */
};

struct networks {
	struct network *at;
	size_t n;
};

/* IPv4 as IPv6 has it. */
struct in6_addr address_as_v6(const struct sockaddr_storage *a);

/* "192.0.2.0/24", "2001:db8::/32", an address alone, or "all". 0, or -EINVAL with text, also
 * for bits behind the prefix, which are a slip. */
int network_parse(const char *text, struct network *n, struct err *e);
/* As network_parse() takes it. */
#define NETWORK_TEXT 64
const char *network_text(const struct network *n, char out[NETWORK_TEXT]);

/* Add those of a list with commas or blanks between. 0; -EINVAL or -ENOMEM with text. */
int networks_add(struct networks *l, const char *list, struct err *e);
void networks_clear(struct networks *l);

/* May peer connect? The longest prefix that it has in common with a network of either list
 * decides, and refuse when they are equal. Who is of none may, unless there are some that may.
 * Pure. */
bool networks_admit(const struct networks *allow, const struct networks *refuse,
		    const struct sockaddr_storage *peer);

#endif
