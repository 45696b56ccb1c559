// SPDX-License-Identifier: Apache-2.0
/* Chooses the path of the next block, and whether blocks stay on the paths near their storage. */
#include "transfer/placement/sched.h"

/* A path is not used if its time would exceed SLOWER times the best path's time plus LATER_NS. */
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

void sched_rate_acked(struct sched_rate *r, uint64_t bytes, bool busy, uint64_t now)
{
	if (r->begun)
		r->bytes += bytes;
	if (r->begun && now - r->begun >= SCHED_STRETCH_NS) {
		uint64_t rate = (uint64_t)((double)r->bytes * 1e9 / (double)(now - r->begun));

		if (now - r->turned >= SCHED_MEMORY_NS) {
			r->past_best = r->now_best;
			r->now_best = 0;
			r->turned = now;
		}
		if (rate > r->now_best)
			r->now_best = rate;
		publish(r);
		r->begun = 0;
	}
	if (!busy) {
		r->begun = 0;
	} else if (!r->begun) {
		r->begun = now; /* bytes from now on count */
		r->bytes = 0;
	}
}

/* ---- choice ---- */

/* A path without a measured rate counts as the fastest, so that it gets blocks and is measured. */
static uint64_t unknown_rate(const struct sched_load *l, uint32_t n)
{
	uint64_t most = 1;

	for (uint32_t i = 0; i < n; i++)
		if (l[i].alive && l[i].rate > most)
			most = l[i].rate;
	return most;
}

/* The best path at this distance, or n. */
static uint32_t choose_at(const struct sched_load *l, uint32_t n, enum sched_distance d,
			  uint64_t bytes)
{
	uint64_t unknown = unknown_rate(l, n);
	uint32_t best = n;
	double first = 0, best_time = 0; /* the shortest time of all paths; of those with room */

	for (uint32_t i = 0; i < n; i++) {
		double t = (double)(l[i].outstanding + bytes) * 1e9 /
			   (double)(l[i].rate ? l[i].rate : unknown);

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

/* ---- spread over all nodes, or not ---- */

/* The first interval is this fraction of a whole one; each next one is twice as long. After a
 * change no decision is made for as long as the first interval. */
#define FIRST_SHARE 10
/* In percentage points. Blocks stay again when the difference is this much below the threshold, or
 * below half of a small threshold. They also stay again, as a test, when the difference has changed
 * by MOVED_POINTS since spreading began. */
#define BACK_POINTS 15
#define MOVED_POINTS 20
/* Crossing nodes must raise the throughput by more than this factor. */
#define GAIN 1.05
#define PATIENCE_MAX 12
/* An interval has at least this many blocks, so it is longer on slow paths. */
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

/* ---- the result of an interval ---- */

struct shown {
	double throughput;      /* bytes per second, of all paths */
	double difference;      /* percent, between the use of the busiest node's links and of the
				 * least busy node's */
	bool crossed;           /* some blocks took a path that is not local to them */
};

/* The bytes that a path carried, and its capacity. */
struct used {
	double local;           /* bytes of blocks for which it is local */
	double could;           /* bytes */
};

/* The number of blocks that were given a path since the last check. */
static uint64_t blocks_since(const struct balance *b)
{
	uint64_t blocks = 0;

	for (uint32_t i = 0; i < b->n; i++)
		blocks += atomic_load(&b->path[i].turns) - b->path[i].turns_seen;
	return blocks;
}

static struct used balance_look_at(struct balance_path *p, struct shown *s, uint64_t blocks,
				   double rate, double seconds)
{
	/* Read in this order, so that local is never more than chosen. */
	uint64_t near = atomic_load(&p->local), chosen = atomic_load(&p->chosen);
	uint64_t acked = atomic_load(&p->acked), full = atomic_load(&p->full);
	double share = chosen > p->chosen_seen ? (double)(near - p->local_seen) /
						 (double)(chosen - p->chosen_seen) : 0;
	double went = (double)(acked - p->acked_seen);
	struct used u = { .local = went * share, .could = rate * seconds };

	/* If for at least half of all blocks a thread had to wait for this path, the carried bytes
	 * are its capacity, even if its best rate was higher. The recent capacity may also be less
	 * than the bytes of the whole interval. */
	if ((full > p->full_seen && 2 * (full - p->full_seen) >= blocks) || u.could < went)
		u.could = went;

	p->turns_seen = atomic_load(&p->turns);
	p->full_seen = full;
	s->throughput += went;
	s->crossed |= near - p->local_seen < chosen - p->chosen_seen;
	p->chosen_seen = chosen;
	p->local_seen = near;
	p->acked_seen = acked;
	return u;
}

/* The use of the links of path i's node, in percent; < 0: an earlier path is on this node. */
static double use_of_node(const struct balance *b, uint32_t i, const struct used *used,
			  const bool *alive)
{
	double done = 0, could = 0;

	for (uint32_t k = 0; k < b->n; k++) {
		if (!alive[k] || b->path[k].node != b->path[i].node)
			continue;
		if (k < i)
			return -1;
		done += used[k].local;
		could += used[k].could;
	}
	return could > 0 ? 100 * done / could : 0;
}

static struct shown balance_look(struct balance *b, const uint64_t *rate, const bool *alive,
				 double seconds)
{
	struct shown s = { 0 };
	struct used used[NICS_MAX];
	uint64_t blocks = blocks_since(b);
	double most = 0, least = -1;

	for (uint32_t i = 0; i < b->n; i++)
		used[i] = balance_look_at(&b->path[i], &s, blocks, (double)rate[i], seconds);
	for (uint32_t i = 0; i < b->n; i++) {
		double use = alive[i] ? use_of_node(b, i, used, alive) : -1;

		if (use < 0)
			continue;
		most = use > most ? use : most;
		least = least < 0 || use < least ? use : least;
	}
	s.throughput /= seconds;
	s.difference = least < 0 ? 0 : most - least;
	return s;
}

/* ---- the decision ---- */

static void set_spread(struct balance *b, bool spread)
{
	for (uint32_t i = 0; spread && i < b->n; i++)
		__atomic_store_n(&b->path[i].spread_from, atomic_load(&b->path[i].chosen),
				 __ATOMIC_RELAXED);
	b->entered = -1;
	b->settling = true;
	atomic_store(&b->spread, spread);
}

static const char *while_they_stay(struct balance *b, const struct shown *s)
{
	bool fuller = s->difference > b->percent;

	b->before = s->throughput;
	b->brief = b->step < b->interval_ns;
	/* The spreading ended because of a brief measurement, but it was faster than staying is
	 * now. */
	if (b->tried > b->before * GAIN) {
		b->hold = 0;
		b->patience = 1;
	}
	b->tried = 0;
	if (b->hold) {
		b->hold--;
		return NULL;
	}
	if (!fuller)
		return NULL;
	set_spread(b, true);
	return "one node's links are much fuller";
}

static const char *while_spread(struct balance *b, const struct shown *s)
{
	double back = b->percent > 2 * BACK_POINTS ? b->percent - BACK_POINTS : b->percent / 2.0;

	if (s->crossed && s->throughput < b->before * GAIN) {
		b->tried = b->brief ? s->throughput : 0;
		b->hold = b->patience;
		b->patience = b->patience * 2 < PATIENCE_MAX ? b->patience * 2 : PATIENCE_MAX;
		set_spread(b, false);
		return "crossing nodes made nothing faster";
	}
	if (s->difference < back) {
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

/* Set the time of the next check: soon after a change, to start a new measurement; otherwise after
 * a whole interval. */
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
	s = balance_look(b, rate, alive, (double)(now - b->checked) / 1e9);
	if (!b->settling)
		*why = atomic_load(&b->spread) ? while_spread(b, &s) : while_they_stay(b, &s);
	set_next(b, *why, now);
	return *why;
}
