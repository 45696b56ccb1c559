// SPDX-License-Identifier: Apache-2.0
/* Whom an address belongs to. */
#include "server/networks.h"
#include "server/server.h"

#include <string.h>

bool srv_same_host(const struct sockaddr_storage *a, const struct sockaddr_storage *b)
{
	static const uint8_t none[8];
	struct in6_addr x = address_as_v6(a), y = address_as_v6(b);

	/* Who has one address of a /64 has as many of it as he likes. In the network 0 are ::1
	 * and all of IPv4. */
	return !memcmp(&x, &y, memcmp(&x, none, sizeof(none)) ? 8 : sizeof(x));
}
