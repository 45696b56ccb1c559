// SPDX-License-Identifier: Apache-2.0
/* Whom an address belongs to. */
#include "server/networks.h"
#include "server/server.h"

#include <string.h>

void srv_host_key(const struct sockaddr_storage *a, uint8_t key[HOST_KEY_BYTES])
{
	static const uint8_t none[8];
	struct in6_addr x = address_as_v6(a);

	/* Who has one address of a /64 has as many of it as he likes. In the network 0 are ::1
	 * and all of IPv4. */
	if (memcmp(&x, none, sizeof(none)))
		memset(&x.s6_addr[8], 0, 8);
	memcpy(key, &x, HOST_KEY_BYTES);
}

bool srv_same_host(const struct sockaddr_storage *a, const struct sockaddr_storage *b)
{
	uint8_t x[HOST_KEY_BYTES], y[HOST_KEY_BYTES];

	srv_host_key(a, x);
	srv_host_key(b, y);
	return !memcmp(x, y, HOST_KEY_BYTES);
}
