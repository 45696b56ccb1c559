// SPDX-License-Identifier: Apache-2.0
/* Token bucket: fills with time, is emptied by what is sent, may go into debt. */
#include "transport/pace.h"

#include "util/util.h"

#define NS 1000000000u
/* What may go at once after a pause: 20 ms' worth, or one small block, but of that no more than a
 * tenth of a second's. */
#define BURST_PER_SECOND 50
#define BURST_MIN (64u << 10)
#define BURST_MIN_PER_SECOND 10

void pace_init(struct pace *p)
{
	*p = (struct pace){ 0 };
	pthread_mutex_init(&p->lock, NULL);
}

void pace_destroy(struct pace *p)
{
	pthread_mutex_destroy(&p->lock);
}

void pace_start(struct pace *p, uint64_t rate, uint64_t now)
{
	uint64_t least = rate / BURST_MIN_PER_SECOND + 1;

	if (least > BURST_MIN)
		least = BURST_MIN;
	p->rate = rate;
	p->burst = rate / BURST_PER_SECOND;
	if (p->burst < least)
		p->burst = least;
	p->tokens = (int64_t)p->burst;
	p->at_ns = now;
	p->rest = 0;
}

static void fill(struct pace *p, uint64_t now)
{
	unsigned __int128 gained;

	if (now <= p->at_ns)
		return;
	gained = (unsigned __int128)p->rate * (now - p->at_ns) + p->rest;
	p->at_ns = now;
	if (gained / NS >= (unsigned __int128)((int64_t)p->burst - p->tokens)) {
		p->tokens = (int64_t)p->burst;
		p->rest = 0;
		return;
	}
	p->tokens += (int64_t)(gained / NS);
	p->rest = (uint64_t)(gained % NS);
}

uint64_t pace_wait_ns(struct pace *p, uint64_t now)
{
	unsigned __int128 missing;

	if (!p->rate)
		return 0;
	LOCK_GUARD(held, &p->lock);
	fill(p, now);
	if (p->tokens > 0)
		return 0;
	missing = (unsigned __int128)(1 - p->tokens) * NS - p->rest;
	return (uint64_t)((missing + p->rate - 1) / p->rate);
}

void pace_take(struct pace *p, uint64_t bytes)
{
	if (!p->rate)
		return;
	LOCK_GUARD(held, &p->lock);
	p->tokens -= (int64_t)bytes;
}
