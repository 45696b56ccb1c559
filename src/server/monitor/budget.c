// SPDX-License-Identifier: Apache-2.0
/* Divides the memory budget in the monitor, requests memory in a session, and sets
 * RLIMIT_MEMLOCK. */
#include "server/monitor/monitor.h"

#include <sys/resource.h>

#define PAGE ((uint64_t)4096)

static uint64_t budget_pages(uint64_t bytes)
{
	return bytes & ~(PAGE - 1);
}

void budget_init(struct budget *b, uint64_t least, uint64_t most)
{
	*b = (struct budget){ .least = least > PAGE ? budget_pages(least + PAGE - 1) : PAGE,
			      .most = most ? budget_pages(most) : UINT64_MAX };
	if (b->most < b->least)
		b->most = b->least;
}

void budget_resize(struct budget *b, uint64_t total)
{
	b->total = budget_pages(total);
}

uint64_t budget_given(const struct conns *all, const char *user)
{
	uint64_t sum = 0;

	for (unsigned i = 0; i < all->nslots; i++) {
		const struct conn *c = &all->slots[i];

		if (c->used && c->memory && (!user || !strcmp(c->account, user)))
			sum += c->memory;
	}
	return sum;
}

int budget_change(const struct budget *b, const struct conns *all, struct conn *c, uint64_t bytes,
		  struct err *e)
{
	uint64_t given, own, left, part;

	bytes = bytes < UINT64_MAX - PAGE ? budget_pages(bytes + PAGE - 1) : budget_pages(bytes);
	if (bytes <= c->memory) {
		c->memory = bytes;
		return 0;
	}

	given = budget_given(all, NULL);
	own = budget_given(all, c->account);

	/* After budget_resize() to a smaller total, more than the total may be in use. */
	left = given < b->total ? b->total - given : 0;
	if (left < b->least)
		return err_set(e, -EAGAIN, "the memory for transfers is all in use");

	/* The largest part with own + part <= left - part: the user gets at most as much as stays
	 * free. */
	part = left > own ? (left - own) / 2 : 0;
	if (own && part < b->least)
		return err_set(e, -EAGAIN, "this user's part of the memory for transfers is in "
			       "use");
	if (b->most - c->memory < b->least)
		return err_set(e, -EAGAIN, "this session's memory for transfers is in use");

	part = budget_pages(part / 2);
	if (part < b->least)
		part = b->least;
	bytes -= c->memory;
	part = min_u64(part, bytes > b->least ? bytes : b->least);
	c->memory += min_u64(part, b->most - c->memory);
	return 0;
}

uint64_t budget_most(const struct budget *b)
{
	uint64_t quarter = budget_pages(b->total / 4);

	return min_u64(quarter > b->least ? quarter : b->least, b->most);
}

/* ---- locked memory ---- */

/* Bytes for locked memory other than pools: rings, queues. */
#define LOCKED_BESIDE ((rlim_t)64 << 20)

int locked_limit(pid_t pid, uint64_t pools, struct err *e)
{
	/* Pools are locked twice: for verbs and for io_uring. */
	rlim_t most = pools < (RLIM_INFINITY - LOCKED_BESIDE) / 2 ? 2 * pools + LOCKED_BESIDE :
								    RLIM_INFINITY;
	struct rlimit r = { most, most };

	/* EPERM: in a container, root may not be allowed to raise its limit. */
	if (prlimit(pid, RLIMIT_MEMLOCK, &r, NULL) < 0 && errno != EPERM)
		return err_sys(e, -errno, "limit of locked memory");
	return 0;
}
