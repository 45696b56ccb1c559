// SPDX-License-Identifier: Apache-2.0
/* The state of TCP streams, by the kernel's TCP_INFO, and the number of streams that a path needs:
 * hill climbing with hysteresis. Includes <linux/tcp.h>, because its struct tcp_info is newer than
 * that of <netinet/tcp.h>. */
#include "transport/tcp.h"

#include <linux/tcp.h>
#include <netinet/in.h>

/* ---- TCP_INFO ---- */

static bool tcp_get_info(int fd, struct tcp_info *info)
{
	socklen_t len = sizeof(*info);

	memset(info, 0, sizeof(*info));
	return getsockopt(fd, IPPROTO_TCP, TCP_INFO, info, &len) == 0;
}

static uint64_t tcp_info_rtt_ns(const struct tcp_info *info)
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
	return tcp_get_info(fd, &info) ? tcp_info_rtt_ns(&info) : 0;
}

void tcp_sample_stream(int fd, bool source, struct tcp_sample *s)
{
	struct tcp_info info;

	if (!tcp_get_info(fd, &info))
		return;
	s->rtt_ns = tcp_info_rtt_ns(&info);
	s->queue_ns = source && info.tcpi_rtt * 1000ull > s->rtt_ns ?
		      info.tcpi_rtt * 1000ull - s->rtt_ns : 0;
	s->bytes = source ? info.tcpi_bytes_acked : info.tcpi_bytes_received;
	s->packets = source ? info.tcpi_data_segs_out : info.tcpi_data_segs_in;
	s->lost = source ? info.tcpi_total_retrans : info.tcpi_rcv_ooopack;
	s->limited_ns = source ? (info.tcpi_rwnd_limited + info.tcpi_sndbuf_limited) * 1000 : 0;
}

/* ---- the number of streams ---- */

#define INTERVAL_RTTS 3u
#define INTERVAL_LEAST_NS 200000000ull
#define INTERVAL_MOST_NS 2000000000ull
/* A doubling pays off if the total rate rises by this much. */
#define GAIN_PERCENT 20u
/* The first pause after a step that did not pay off; it doubles each time. */
#define PAUSE_NS 5000000000ull
/* Queues shorter than this, or than this share of the round trip, count as none. */
#define QUEUE_NS 10000000ull
#define QUEUE_SHARE 8u
/* A path loses packets by itself if it loses at least one in LOSSES_ONE_IN, out of at least
 * LOSSES_OF packets. */
#define LOSSES_ONE_IN 200u
#define LOSSES_OF 1000u
/* Streams count as limited if they waited for windows this share of the time. */
#define LIMITED_PERCENT 25u

void climb_init(struct climb *c, uint16_t first, uint16_t most)
{
	*c = (struct climb){ .most = most, .wanted = first, .on = first < most,
			     .settling = true, .pause_ns = PAUSE_NS };
}

uint64_t climb_interval_ns(uint64_t rtt_ns)
{
	uint64_t ns = INTERVAL_RTTS * rtt_ns;

	return ns < INTERVAL_LEAST_NS ? INTERVAL_LEAST_NS :
	       ns > INTERVAL_MOST_NS ? INTERVAL_MOST_NS : ns;
}

static void climb_measure(struct climb *c, const struct tcp_sample *s, bool settling)
{
	c->from = *s;
	c->settling = settling;
}

/* True: the streams already fill the path, and packets wait in its queues. Measured at a round trip
 * of 95 ms (bench/README.md): the queue was 20 to 60 ms once the streams filled a buffer of 50 ms,
 * and at most 9 ms while packets were lost for other reasons. */
static bool climb_queue_stands(const struct tcp_sample *s)
{
	return s->queue_ns > QUEUE_NS && s->queue_ns > s->rtt_ns / QUEUE_SHARE;
}

uint16_t climb_step(struct climb *c, const struct tcp_sample *s)
{
	uint64_t ns = s->now_ns - c->from.now_ns, rate;
	bool held_back;

	if (!c->on)
		return c->wanted;

	if (!c->from.now_ns) {
		climb_measure(c, s, true);
		return c->wanted;
	}
	if (ns < climb_interval_ns(s->rtt_ns))
		return c->wanted;

	rate = (uint64_t)((double)(s->bytes - c->from.bytes) * 1e9 / (double)ns);
	/* More streams can help if packets are lost, because each loss shrinks the window of only
	 * one stream; or if windows limit the rate. */
	held_back = s->lost > c->from.lost ||
		    s->limited_ns - c->from.limited_ns > ns / 100 * LIMITED_PERCENT * s->n;
	if (c->settling) {
		climb_measure(c, s, false);
		return c->wanted;
	}

	if (c->before_n && rate < c->before + c->before / 100 * GAIN_PERCENT) {
		/* The step did not pay off. The open streams stay. */
		c->before_n = 0;
		c->again_ns = s->now_ns + c->pause_ns;
		c->pause_ns *= 2;
	} else if (c->wanted >= c->most) {
		c->on = false;
	} else if (climb_queue_stands(s)) {
		c->before_n = 0; /* the streams fill the path */
	} else if (c->before_n || (s->now_ns >= c->again_ns && held_back)) {
		c->before_n = c->wanted;
		c->before = rate;
		c->wanted = c->wanted > c->most / 2 ? c->most : (uint16_t)(2 * c->wanted);
		climb_measure(c, s, true);
		return c->wanted;
	}
	climb_measure(c, s, false);
	return c->wanted;
}

bool climb_loses_by_itself(struct climb *c, const struct tcp_sample *s)
{
	bool stood = c->queue_stood;
	uint64_t packets;

	/* Packets that a full queue dropped may be sent again only after the queue is empty: so
	 * remember the queue until the next sample. */
	c->queue_stood = climb_queue_stands(s);
	if (c->queue_stood || stood) {
		c->quiet_packets = s->packets;
		c->quiet_lost = s->lost;
		return false;
	}
	packets = s->packets - c->quiet_packets;
	return packets >= LOSSES_OF && s->lost - c->quiet_lost >= packets / LOSSES_ONE_IN;
}
