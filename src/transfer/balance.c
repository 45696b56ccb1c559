// SPDX-License-Identifier: Apache-2.0
/* See balance.h. */
#include "transfer/balance.h"

#include <string.h>

/* The first interval, as a share of a whole one; each is twice as long as the one before. After
 * a change, so long nothing is judged. */
#define FIRST_SHARE 10
/* In points of percent: below the threshold by so much, or by half of it, they stay again; and so
 * much may the difference have moved since they are spread, before it is tried again how it is
 * when they stay. */
#define BACK_POINTS 15
#define MOVED_POINTS 20
/* More throughput than by so much is worth crossing nodes. */
#define GAIN 1.05
#define PATIENCE_MAX 12
/* Fewer blocks than that tell nothing: on slow paths an interval is longer. */
#define BLOCKS_LEAST 32

void balance_init(struct balance *b, const int *node, uint32_t n, unsigned percent,
		  uint64_t interval_ns, uint64_t now)
{
	memset(b, 0, sizeof(*b));
	b->n = n;
	b->percent = percent ? percent : BALANCE_PERCENT;
	b->interval_ns = interval_ns ? interval_ns : BALANCE_NS;
	b->step = b->interval_ns / FIRST_SHARE;
	b->checked = now;
	b->next = now + b->step;
	b->patience = 1;
	for (uint32_t i = 0; i < n; i++)
		b->path[i].node = node[i];
}

void balance_chosen(struct balance *b, uint32_t path, bool local, uint64_t bytes)
{
	struct balance_path *p = &b->path[path];

	atomic_fetch_add_explicit(&p->turns, 1, memory_order_relaxed);
	atomic_fetch_add_explicit(&p->chosen, bytes, memory_order_relaxed);
	if (local)
		atomic_fetch_add_explicit(&p->local, bytes, memory_order_relaxed);
}

uint64_t balance_share(const struct balance *b, uint32_t path)
{
	const struct balance_path *p = &b->path[path];

	return atomic_load_explicit(&p->chosen, memory_order_relaxed) -
	       __atomic_load_n(&p->spread_from, __ATOMIC_RELAXED);
}

/* ---- what an interval has shown ---- */

struct shown {
	double throughput;      /* bytes per second, of all paths */
	double difference;      /* percent, between the fullest node's links and the emptiest's */
	bool crossed;           /* some blocks went by a path that is not local to them */
};

/* What went by a path, and what could have. */
struct used {
	double local;           /* bytes of blocks that it is local to */
	double could;           /* bytes */
};

/* Blocks that have had their turn since the last check. */
static uint64_t blocks_since(const struct balance *b)
{
	uint64_t blocks = 0;

	for (uint32_t i = 0; i < b->n; i++)
		blocks += atomic_load(&b->path[i].turns) - b->path[i].turns_seen;
	return blocks;
}

/* For half of all blocks, or more, there was no room by it nor by another: what went is what the
 * path can, whatever it could for a moment. */
static bool was_full(struct balance_path *p, uint64_t blocks)
{
	uint64_t full = atomic_load(&p->full);
	bool yes = full > p->full_seen && 2 * (full - p->full_seen) >= blocks;

	p->turns_seen = atomic_load(&p->turns);
	p->full_seen = full;
	return yes;
}

static struct used look_at(struct balance_path *p, struct shown *s, uint64_t blocks, double rate,
			   double seconds)
{
	/* In this order there is never more that is local than there is. */
	uint64_t near = atomic_load(&p->local), chosen = atomic_load(&p->chosen);
	uint64_t acked = atomic_load(&p->acked);
	double share = chosen > p->chosen_seen ? (double)(near - p->local_seen) /
						 (double)(chosen - p->chosen_seen) : 0;
	double went = (double)(acked - p->acked_seen);
	struct used u = { .local = went * share, .could = rate * seconds };

	/* What it could of late may be less than what it did in all the interval. */
	if (was_full(p, blocks) || u.could < went)
		u.could = went;
	s->throughput += went;
	s->crossed |= near - p->local_seen < chosen - p->chosen_seen;
	p->chosen_seen = chosen;
	p->local_seen = near;
	p->acked_seen = acked;
	return u;
}

static bool is_first_of_node(const struct balance *b, uint32_t i, const bool *alive)
{
	for (uint32_t k = 0; k < i; k++)
		if (alive[k] && b->path[k].node == b->path[i].node)
			return false;
	return alive[i];
}

static double use_of_node(const struct balance *b, int node, const struct used *used,
			  const bool *alive)
{
	double done = 0, could = 0;

	for (uint32_t i = 0; i < b->n; i++) {
		if (!alive[i] || b->path[i].node != node)
			continue;
		done += used[i].local;
		could += used[i].could;
	}
	return could > 0 ? 100 * done / could : 0;
}

static struct shown look(struct balance *b, const uint64_t *rate, const bool *alive,
			 double seconds)
{
	struct shown s = { 0 };
	struct used used[NICS_MAX];
	uint64_t blocks = blocks_since(b);
	double most = 0, least = -1;

	for (uint32_t i = 0; i < b->n; i++)
		used[i] = look_at(&b->path[i], &s, blocks, (double)rate[i], seconds);
	for (uint32_t i = 0; i < b->n; i++) {
		double use;

		if (!is_first_of_node(b, i, alive))
			continue;
		use = use_of_node(b, b->path[i].node, used, alive);
		most = use > most ? use : most;
		least = least < 0 || use < least ? use : least;
	}
	s.throughput /= seconds;
	s.difference = least < 0 ? 0 : most - least;
	return s;
}

/* ---- what follows from it ---- */

static void set_spread(struct balance *b, bool spread)
{
	for (uint32_t i = 0; spread && i < b->n; i++)
		__atomic_store_n(&b->path[i].spread_from, atomic_load(&b->path[i].chosen),
				 __ATOMIC_RELAXED);
	b->entered = -1;
	b->settling = true;
	atomic_store(&b->spread, spread);
}

static const char *spread_them(struct balance *b)
{
	set_spread(b, true);
	return "one node's links are much fuller";
}

static const char *while_they_stay(struct balance *b, const struct shown *s)
{
	bool fuller = s->difference > b->percent;

	b->before = s->throughput;
	b->brief = b->step < b->interval_ns;
	/* They came back for a start that was faster than staying is. */
	if (b->tried > b->before * GAIN) {
		b->hold = 0;
		b->patience = 1;
	}
	b->tried = 0;
	if (b->hold) {
		b->hold--;
		return NULL;
	}
	return fuller ? spread_them(b) : NULL;
}

static double back_below(double percent)
{
	return percent > 2 * BACK_POINTS ? percent - BACK_POINTS : percent / 2;
}

static const char *while_spread(struct balance *b, const struct shown *s)
{
	if (s->crossed && s->throughput < b->before * GAIN) {
		b->tried = b->brief ? s->throughput : 0;
		b->hold = b->patience;
		b->patience = b->patience * 2 < PATIENCE_MAX ? b->patience * 2 : PATIENCE_MAX;
		set_spread(b, false);
		return "crossing nodes made nothing faster";
	}
	if (s->difference < back_below(b->percent)) {
		b->patience = 1;
		set_spread(b, false);
		return "the nodes' links are used alike";
	}
	if (b->entered < 0) {
		b->entered = s->difference;
		return NULL;
	}
	if (s->difference <= b->entered + MOVED_POINTS &&
	    s->difference >= b->entered - MOVED_POINTS)
		return NULL;
	set_spread(b, false);
	return "the load has moved";
}

/* When to look next: soon after a change, to begin anew there; then after a whole interval. */
static void set_next(struct balance *b, bool changed, uint64_t now)
{
	b->checked = now;
	if (changed)
		b->step = b->interval_ns / FIRST_SHARE;
	else if (b->settling)
		b->step = b->interval_ns;
	else
		b->step = b->step * 2 < b->interval_ns ? b->step * 2 : b->interval_ns;
	b->settling = changed;
	b->next = now + b->step;
}

bool balance_check(struct balance *b, const uint64_t *rate, const bool *alive, uint64_t now,
		   const char **why)
{
	struct shown s;

	*why = NULL;
	if (b->n < 2 || now < b->next || blocks_since(b) < BLOCKS_LEAST)
		return false;
	s = look(b, rate, alive, (double)(now - b->checked) / 1e9);
	if (!b->settling)
		*why = atomic_load(&b->spread) ? while_spread(b, &s) : while_they_stay(b, &s);
	set_next(b, *why, now);
	return *why;
}
