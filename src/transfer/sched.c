// SPDX-License-Identifier: Apache-2.0
/* See sched.h. */
#include "transfer/sched.h"

#include <string.h>

/* A path is passed over while it would take so many times as long as the best one, and this
 * much longer. */
#define SLOWER 4
#define LATER_NS 20000000ull

/* ---- rates ---- */

static void publish(struct sched_rate *r)
{
	atomic_store(&r->rate, r->now_best > r->past_best ? r->now_best : r->past_best);
}

void sched_rate_init(struct sched_rate *r, uint32_t mbps, uint64_t now)
{
	memset(r, 0, sizeof(*r));
	r->past_best = mbps * 125000ull;
	r->turned = now;
	publish(r);
}

static void stretch_over(struct sched_rate *r, uint64_t now)
{
	uint64_t rate = (uint64_t)((double)r->bytes * 1e9 / (double)(now - r->begun));

	if (now - r->turned >= SCHED_MEMORY_NS) {
		r->past_best = r->now_best;
		r->now_best = 0;
		r->turned = now;
	}
	if (rate > r->now_best)
		r->now_best = rate;
	publish(r);
}

void sched_rate_acked(struct sched_rate *r, uint64_t bytes, bool busy, uint64_t now)
{
	if (r->begun)
		r->bytes += bytes;
	if (r->begun && now - r->begun >= SCHED_STRETCH_NS) {
		stretch_over(r, now);
		r->begun = 0;
	}
	if (!busy) {
		r->begun = 0;
	} else if (!r->begun) {
		r->begun = now; /* what comes from now on counts */
		r->bytes = 0;
	}
}

/* ---- choice ---- */

/* Who has not been measured is taken for as fast as the fastest, and so is measured. */
static uint64_t unknown_rate(const struct sched_load *l, uint32_t n)
{
	uint64_t most = 1;

	for (uint32_t i = 0; i < n; i++)
		if (l[i].alive && l[i].rate > most)
			most = l[i].rate;
	return most;
}

/* Until the block would be over. */
static double time_ns(const struct sched_load *l, uint64_t unknown, uint64_t bytes)
{
	return (double)(l->outstanding + bytes) * 1e9 / (double)(l->rate ? l->rate : unknown);
}

/* Of those at this distance. */
static uint32_t choose_at(const struct sched_load *l, uint32_t n, enum sched_distance d,
			  uint64_t bytes)
{
	uint64_t unknown = unknown_rate(l, n);
	uint32_t best = n;
	double first = 0, best_time = 0; /* of all; of those with room */

	for (uint32_t i = 0; i < n; i++) {
		double t = l[i].alive ? time_ns(&l[i], unknown, bytes) : 0;

		if (!l[i].alive || l[i].distance != d)
			continue;
		if (first == 0 || t < first)
			first = t;
		if (l[i].room && (best == n || t < best_time)) {
			best = i;
			best_time = t;
		}
	}
	if (best < n && best_time > SLOWER * first + (double)LATER_NS)
		return n;
	return best;
}

static bool any_alive(const struct sched_load *l, uint32_t n, enum sched_distance d)
{
	for (uint32_t i = 0; i < n; i++)
		if (l[i].alive && l[i].distance == d)
			return true;
	return false;
}

enum sched_distance sched_nearest(const struct sched_load *l, uint32_t n)
{
	enum sched_distance d = SCHED_LOCAL;

	while (d < SCHED_FAR && !any_alive(l, n, d))
		d++;
	return d;
}

uint32_t sched_choose(const struct sched_load *l, uint32_t n, uint64_t bytes)
{
	bool other = false;
	uint32_t i = n;

	for (int d = SCHED_LOCAL; d < SCHED_DISTANCES && i == n; d++) {
		if (d == SCHED_FAR && other)
			break;
		i = choose_at(l, n, (enum sched_distance)d, bytes);
		other |= any_alive(l, n, (enum sched_distance)d);
	}
	return i;
}

uint32_t sched_spread(const struct sched_load *l, uint32_t n, const uint64_t *shares,
		      uint64_t bytes)
{
	uint64_t unknown = unknown_rate(l, n);
	uint32_t best = n;
	double least = 0;

	for (uint32_t i = 0; i < n; i++) {
		double turn = (double)(shares[i] + bytes) / (double)(l[i].rate ? l[i].rate : unknown);

		if (l[i].alive && l[i].room && (best == n || turn < least)) {
			best = i;
			least = turn;
		}
	}
	return best;
}
