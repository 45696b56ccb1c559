// SPDX-License-Identifier: Apache-2.0
/* Which login is checked next. */
#include "server/turns.h"

#include <limits.h>
#include <unistd.h>

enum { CHECKS_DEFAULT = 4 };

/* Of the machine's memory, for each check that runs at once when no number is set: a check takes an
 * eighth of it. */
#define MEMORY_PER_CHECK ((uint64_t)256 << 20)

static unsigned checks_by_memory(void)
{
	uint64_t ram = (uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE);
	uint64_t limit = cgroup_memory_limit("/proc/self/cgroup", "/sys/fs/cgroup");
	uint64_t n = (ram < limit ? ram : limit) / MEMORY_PER_CHECK;

	return n < 1 ? 1 : n < CHECKS_DEFAULT ? (unsigned)n : CHECKS_DEFAULT;
}

void turns_change(struct turns *t, const struct srv_options *o)
{
	t->most = o->max_checks ? o->max_checks : checks_by_memory();
	t->patience = o->login_timeout / 1000000;
}

/* Behind the last of its host, or else where the queue is by now. */
void turn_ask(struct turns *t, const struct conns *all, struct conn *c, bool check, uint64_t now)
{
	uint64_t place = t->served;

	for (unsigned i = 0; i < all->nslots; i++) {
		const struct conn *d = &all->slots[i];

		if (d->used && d->turn.state != TURN_NONE && d->turn.place >= place &&
		    srv_same_host(&d->ends.peer, &c->ends.peer))
			place = d->turn.place + 1;
	}
	c->turn = (struct turn){ .state = TURN_WAITS, .check = check, .place = place,
				 .number = t->asked++, .asked = now, .ready = now };
}

void turn_not_before(struct conn *c, uint64_t ready)
{
	c->turn.ready = ready;
}

bool turn_is_late(const struct turns *t, const struct conn *c, uint64_t now)
{
	return now >= c->turn.ready + t->patience;
}

/* The checks that run. */
struct running {
	const struct conn *conns[CHECKS_MAX];
	unsigned n;
};

static void find_running(struct running *r, const struct conns *all)
{
	r->n = 0;
	for (unsigned i = 0; i < all->nslots && r->n < CHECKS_MAX; i++)
		if (all->slots[i].used && all->slots[i].turn.state == TURN_CHECKS)
			r->conns[r->n++] = &all->slots[i];
}

static bool has_room(const struct turns *t, const struct running *r,
		     const struct sockaddr_storage *host)
{
	unsigned most = t->most > 1 ? t->most / 2 : 1, n = 0;

	for (unsigned i = 0; i < r->n; i++)
		n += srv_same_host(&r->conns[i]->ends.peer, host);
	return r->n < t->most && n < most;
}

static void sooner(int *rest, uint64_t now, uint64_t at)
{
	uint64_t ms = at > now ? at - now : 0;

	if (ms < INT_MAX && (*rest < 0 || (int)ms < *rest))
		*rest = (int)ms;
}

static bool is_before(const struct turn *a, const struct turn *b)
{
	return a->place != b->place ? a->place < b->place : a->number < b->number;
}

struct conn *turns_next(const struct turns *t, const struct conns *all, uint64_t now, int *rest)
{
	struct conn *best = NULL;
	struct running running;

	find_running(&running, all);
	*rest = -1;
	for (unsigned i = 0; i < all->nslots; i++) {
		struct conn *c = &all->slots[i];

		/* The gate before may still be on its way out. */
		if (!c->used || c->turn.state != TURN_WAITS || c->session.pid)
			continue;
		if (turn_is_late(t, c, now))
			return c;
		sooner(rest, now, c->turn.ready > now ? c->turn.ready : c->turn.ready + t->patience);
		if (c->turn.ready > now || (best && is_before(&best->turn, &c->turn)))
			continue;
		if (!c->turn.check || has_room(t, &running, &c->ends.peer))
			best = c;
	}
	return best;
}

void turn_begin(struct turns *t, struct conn *c)
{
	if (c->turn.place > t->served)
		t->served = c->turn.place;
	c->turn.state = c->turn.check ? TURN_CHECKS : TURN_NONE;
}

void turn_end(struct conn *c)
{
	c->turn = (struct turn){ .state = TURN_NONE };
}
