// SPDX-License-Identifier: Apache-2.0
/* Hill climbing on the number of TCP streams, with hysteresis. */
#include "transport/tcp.h"

#include <string.h>

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
/* A path loses by itself when one packet in so many is lost, of so many at least. */
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

static void begin(struct climb *c, const struct climb_sample *s, bool settling)
{
	c->from = *s;
	c->settling = settling;
}

/* The streams fill the path already: packets wait in its queues. Measured at 95 ms
 * (bench/README.md): a full buffer of 50 ms shows 20 to 60 ms, losses elsewhere 9 ms at most. */
static bool queue_stands(const struct climb_sample *s)
{
	return s->queue_ns > QUEUE_NS && s->queue_ns > s->rtt_ns / QUEUE_SHARE;
}

/* More streams can help: the path loses packets, where each stream shrinks its window, or windows
 * limit the rate. */
static bool held_back(const struct climb *c, const struct climb_sample *s, uint64_t ns)
{
	return s->lost > c->from.lost ||
	       s->limited_ns - c->from.limited_ns > ns / 100 * LIMITED_PERCENT * s->n;
}

uint16_t climb_step(struct climb *c, const struct climb_sample *s)
{
	uint64_t ns = s->now_ns - c->from.now_ns, rate;

	if (!c->on)
		return c->wanted;
	if (!c->from.now_ns) {
		begin(c, s, true);
		return c->wanted;
	}
	if (ns < climb_interval_ns(s->rtt_ns))
		return c->wanted;
	rate = (uint64_t)((double)(s->bytes - c->from.bytes) * 1e9 / (double)ns);
	if (c->settling) {
		begin(c, s, false);
		return c->wanted;
	}
	if (c->before_n && rate < c->before + c->before / 100 * GAIN_PERCENT) {
		/* The step did not pay off. The open streams stay. */
		c->before_n = 0;
		c->again_ns = s->now_ns + c->pause_ns;
		c->pause_ns *= 2;
	} else if (c->wanted >= c->most) {
		c->on = false;
	} else if (queue_stands(s)) {
		c->before_n = 0; /* the step, if there was one, has filled the path */
	} else if (c->before_n || (s->now_ns >= c->again_ns && held_back(c, s, ns))) {
		c->before_n = c->wanted;
		c->before = rate;
		c->wanted = c->wanted > c->most / 2 ? c->most : (uint16_t)(2 * c->wanted);
		begin(c, s, true);
		return c->wanted;
	}
	begin(c, s, false);
	return c->wanted;
}

bool climb_loses_by_itself(struct climb *c, const struct climb_sample *s)
{
	bool stood = c->queue_stood;
	uint64_t packets;

	/* Packets that a full queue dropped are still sent again just after it has gone. */
	c->queue_stood = queue_stands(s);
	if (c->queue_stood || stood) {
		c->quiet_packets = s->packets;
		c->quiet_lost = s->lost;
		return false;
	}
	packets = s->packets - c->quiet_packets;
	return packets >= LOSSES_OF && s->lost - c->quiet_lost >= packets / LOSSES_ONE_IN;
}
