// SPDX-License-Identifier: Apache-2.0
/* What the kernel knows of a path. Apart from connect.c: <netinet/tcp.h>, which that needs, has
 * an older struct tcp_info. */
#include "transport/transport.h"

#include <linux/tcp.h>
#include <netinet/in.h>

uint64_t tcp_rtt_ns(int fd)
{
	struct tcp_info info = { 0 };
	socklen_t len = sizeof(info);

	if (getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &len) < 0)
		return 0;
	if (info.tcpi_min_rtt && info.tcpi_min_rtt != UINT32_MAX)
		return (uint64_t)info.tcpi_min_rtt * 1000;
	return (uint64_t)info.tcpi_rtt * 1000;
}
