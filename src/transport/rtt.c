// SPDX-License-Identifier: Apache-2.0
/* TCP_INFO. In a file of its own because <netinet/tcp.h>, which the others need, has an older
 * struct tcp_info than <linux/tcp.h>. */
#include "transport/transport.h"

#include "transport/tcp.h"

#include <linux/tcp.h>
#include <netinet/in.h>
#include <string.h>

static bool get_info(int fd, struct tcp_info *info)
{
	socklen_t len = sizeof(*info);

	memset(info, 0, sizeof(*info));
	return getsockopt(fd, IPPROTO_TCP, TCP_INFO, info, &len) == 0;
}

static uint64_t rtt_ns(const struct tcp_info *info)
{
	if (info->tcpi_min_rtt && info->tcpi_min_rtt != UINT32_MAX)
		return (uint64_t)info->tcpi_min_rtt * 1000;
	return (uint64_t)info->tcpi_rtt * 1000;
}

uint64_t tcp_rtt_ns(int fd)
{
	struct tcp_info info;

	if (FAULT("far", 0) < 0)
		return 100000000;
	return get_info(fd, &info) ? rtt_ns(&info) : 0;
}

void tcp_stream_look(int fd, bool source, struct tcp_stream *s)
{
	struct tcp_info info;

	if (!get_info(fd, &info))
		return;
	s->rtt_ns = rtt_ns(&info);
	s->queue_ns = source && info.tcpi_rtt * 1000ull > s->rtt_ns ?
		      info.tcpi_rtt * 1000ull - s->rtt_ns : 0;
	s->bytes = source ? info.tcpi_bytes_acked : info.tcpi_bytes_received;
	s->packets = source ? info.tcpi_data_segs_out : info.tcpi_data_segs_in;
	s->lost = source ? info.tcpi_total_retrans : info.tcpi_rcv_ooopack;
	s->limited_ns = source ? (info.tcpi_rwnd_limited + info.tcpi_sndbuf_limited) * 1000 : 0;
}
