// SPDX-License-Identifier: Apache-2.0
#include "rdma/spin.h"

#include <string.h>

/* A gap counts as so many limits at most: one long pause is soon forgotten. */
#define GAP_MOST 4
#define GAP_WEIGHT 8 /* of what was: 7 of 8 parts */

void spin_init(struct spin *s, enum poll_mode mode, unsigned cpus, unsigned threads)
{
	memset(s, 0, sizeof(*s));
	if (mode == POLL_ALWAYS)
		s->limit_ns = SPIN_ALWAYS_NS;
	/* A thread that looks on where all processors are wanted keeps from its work who would
	 * have brought what it looks for. */
	else if (mode == POLL_AUTO && cpus > threads)
		s->limit_ns = SPIN_NS;
	s->learns = mode == POLL_AUTO;
	s->sleeps = mode != POLL_ALWAYS;
}

static void learn(struct spin *s, uint64_t gap)
{
	uint64_t most = GAP_MOST * s->limit_ns;

	s->gap_ns += ((gap < most ? gap : most) + GAP_WEIGHT - 1) / GAP_WEIGHT;
	s->gap_ns -= s->gap_ns / GAP_WEIGHT;
}

void spin_found(struct spin *s, uint64_t now)
{
	if (s->learns && s->limit_ns)
		learn(s, s->quiet_since ? now - s->quiet_since : 0);
	s->quiet_since = 0;
}

bool spin_on(struct spin *s, uint64_t now)
{
	if (!s->limit_ns)
		return false;
	if (!s->quiet_since)
		s->quiet_since = s->last_look = now;
	/* Nobody takes so long between two looks but who was put off its processor. */
	if (s->learns && now - s->last_look > s->limit_ns)
		s->gap_ns = GAP_MOST * s->limit_ns;
	s->last_look = now;
	if (now - s->quiet_since < s->limit_ns)
		return !s->learns || s->gap_ns <= s->limit_ns;
	if (!s->sleeps)
		s->quiet_since = 0;
	return false;
}
