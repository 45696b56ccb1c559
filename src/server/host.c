// SPDX-License-Identifier: Apache-2.0
/* Whom an address belongs to. */
#include "server/server.h"

#include <netinet/in.h>
#include <string.h>

/* IPv4 as IPv6 has it. */
static struct in6_addr address_of(const struct sockaddr_storage *a)
{
	const struct sockaddr_in *a4 = (const void *)a;
	const struct sockaddr_in6 *a6 = (const void *)a;
	struct in6_addr out = { .s6_addr = { [10] = 0xff, [11] = 0xff } };

	if (a->ss_family != AF_INET)
		return a6->sin6_addr;
	memcpy(&out.s6_addr[12], &a4->sin_addr, sizeof(a4->sin_addr));
	return out;
}

bool srv_same_host(const struct sockaddr_storage *a, const struct sockaddr_storage *b)
{
	static const uint8_t none[8];
	struct in6_addr x = address_of(a), y = address_of(b);

	/* Who has one address of a /64 has as many of it as he likes. In the network 0 are ::1
	 * and all of IPv4. */
	return !memcmp(&x, &y, memcmp(&x, none, sizeof(none)) ? 8 : sizeof(x));
}
