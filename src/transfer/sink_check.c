// SPDX-License-Identifier: Apache-2.0
/* Blocks that have arrived: whether they are what was sent, and new; and where they wait
 * until the entries that they belong to have come. */
#include "transfer/sink_write.h"

#include <errno.h>

static char checked; /* block.user of a block that has been checked: its address */

/* ---- blocks back ---- */

/* The path that *b came by; if *b only stands for another block, *b becomes that one. */
static struct path *path_of(struct sink *s, struct block **b)
{
	uint32_t i = 0;

	for (;; i++) {
		struct shelter *shelter = s->x.shelters[i];

		if (shelter && shelter_pool(shelter) == (*b)->pool) {
			(*b)->user = NULL;
			*b = shelter_leave(shelter, *b);
			break;
		}
		if (s->x.pools[i] == (*b)->pool || i + 1 == s->x.nroutes)
			break;
	}
	return s->x.paths[i];
}

void sink_drop(struct sink *s, struct block *b)
{
	path_of(s, &b);
	b->user = NULL;
	pool_put(b);
}

void sink_release(struct sink *s, struct block *b, uint32_t status)
{
	struct path *p = path_of(s, &b);

	b->user = NULL;
	p->ops->release(p, b, status);
}

/* In place of b, its copy where the peer cannot change it any more. NULL: the transfer is
 * over. */
static struct block *sheltered(struct sink *s, struct block *b)
{
	for (uint32_t i = 0; i < s->x.npaths; i++)
		if (s->x.shelters[i] && s->x.pools[i] == b->pool)
			return shelter_enter(s->x.shelters[i], b);
	return b;
}

/* ---- checking ---- */

/* b is damaged, or forged. Which block it should have been cannot be known from it; so
 * its channel goes, and the source sends by others what it had sent there. There are only
 * so many channels, which keeps a path that damages all from going on for ever. */
static void bad_block(struct sink *s, struct block *b)
{
	struct path *p = path_of(s, &b);

	log_warn("a block that came by %s channel %u is not what was sent (damaged, or an "
		 "attack; %llu so far): the channel is dropped", p->ops->name, b->channel,
		 (unsigned long long)atomic_fetch_add(&s->bad_blocks, 1) + 1);
	/* Said here, where it is known: to the others it only looks like a stream that ends. */
	if (p == s->x.inband)
		xfer_fail(&s->x, -EPIPE, "a block came damaged on the control connection");
	p->ops->refuse(p, b);
}

static int note_number(struct sink *s, uint64_t number)
{
	LOCK_GUARD(guard, &s->lock);

	return numbers_add(s->numbers, number);
}

/* 0: *b is what was sent, and new; 1: it has been dealt with; negative: the end. */
int sink_check(struct sink *s, struct unseal *u, struct block **at)
{
	struct block *b = *at;
	int r;

	if (b->user == &checked)
		return 0;
	b = sheltered(s, b);
	if (!b)
		return -ECANCELED;
	*at = b;
	r = unseal_block(u, b);
	if (r) {
		bad_block(s, b);
		return 1;
	}
	r = note_number(s, b->number);
	if (r < 0)
		return xfer_fail(&s->x, r, "block number %llu is too far ahead",
				 (unsigned long long)b->number);
	if (!r) {
		sink_release(s, b, 0); /* it came before, on a channel that died */
		return 1;
	}
	b->user = &checked;
	return 0;
}

static uint64_t newest_entry(const struct block *b)
{
	uint64_t id = 0;

	for (uint32_t i = 0; i < b->nextents; i++)
		if (b->extents[i].file > id)
			id = b->extents[i].file;
	return id;
}

/* True when b waits for its entries now. */
bool sink_park(struct sink *s, struct block *b)
{
	uint64_t newest = newest_entry(b);

	if (newest <= atomic_load(&s->highest))
		return false;
	LOCK_GUARD(guard, &s->lock);
	if (newest <= atomic_load(&s->highest))
		return false;
	b->next = s->parked;
	s->parked = b;
	return true;
}

void sink_unpark(struct sink *s)
{
	struct block *b, *keep = NULL, *go = NULL;
	uint64_t highest = atomic_load(&s->highest);

	pthread_mutex_lock(&s->lock);
	b = steal_ptr(&s->parked);
	while (b) {
		struct block *next = b->next;
		struct block **list = newest_entry(b) <= highest ? &go : &keep;

		b->next = *list;
		*list = b;
		b = next;
	}
	s->parked = keep;
	pthread_mutex_unlock(&s->lock);
	while (go) {
		b = go;
		go = b->next;
		b->next = NULL;
		if (bq_push(s->arrived, b))
			sink_drop(s, b);
	}
}
