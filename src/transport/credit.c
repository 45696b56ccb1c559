// SPDX-License-Identifier: Apache-2.0
/* Credit bookkeeping: a hash of unacknowledged blocks, and per-channel queues of answers. */
#include "transport/credit.h"

#include <errno.h>
#include <stdlib.h>

/* ---- source ---- */

/* Open addressing, linear probing; at most half of the slots are in use. */
struct unacked {
	uint32_t max, count;
	uint32_t mask;
	struct block **slots;
};

static uint32_t home_slot(const struct unacked *u, uint64_t number)
{
	return (uint32_t)((number * 0x9e3779b97f4a7c15u) >> 32) & u->mask;
}

struct unacked *unacked_new(uint32_t max)
{
	struct unacked *u = calloc(1, sizeof(*u));
	uint64_t slots = 16;

	if (!u)
		return NULL;
	while (slots < 2 * (uint64_t)max)
		slots *= 2;
	u->max = max;
	u->mask = (uint32_t)(slots - 1);
	u->slots = calloc(slots, sizeof(*u->slots));
	if (!u->slots) {
		free(u);
		return NULL;
	}
	return u;
}

void unacked_free(struct unacked *u)
{
	if (!u)
		return;
	free(u->slots);
	free(u);
}

/* The slot of number, or the empty one where it would be. */
static uint32_t probe(const struct unacked *u, uint64_t number)
{
	uint32_t i = home_slot(u, number);

	while (u->slots[i] && u->slots[i]->number != number)
		i = (i + 1) & u->mask;
	return i;
}

int unacked_add(struct unacked *u, struct block *b)
{
	uint32_t i;

	if (u->count >= u->max)
		return -EAGAIN;
	i = probe(u, b->number);
	if (u->slots[i])
		return -EEXIST;
	u->slots[i] = b;
	u->count++;
	return 0;
}

struct block *unacked_find(const struct unacked *u, uint64_t number)
{
	return u->slots[probe(u, number)];
}

/* Empty slot i and move later ones of its run back, so that probing never meets a
 * hole before what it looks for. */
static void empty_slot(struct unacked *u, uint32_t i)
{
	uint32_t j = i;

	for (;;) {
		uint32_t home;

		u->slots[i] = NULL;
		do {
			j = (j + 1) & u->mask;
			if (!u->slots[j])
				return;
			home = home_slot(u, u->slots[j]->number);
			/* Stay while the home lies cyclically in (i, j]. */
		} while (((j - home) & u->mask) < ((j - i) & u->mask));
		u->slots[i] = u->slots[j];
		i = j;
	}
}

struct block *unacked_take(struct unacked *u, uint64_t number)
{
	uint32_t i = probe(u, number);
	struct block *b = u->slots[i];

	if (!b)
		return NULL;
	empty_slot(u, i);
	u->count--;
	return b;
}

struct block *unacked_take_channel(struct unacked *u, uint32_t channel)
{
	struct block *list = NULL, *b;
	uint32_t i;

	/* Emptying slots moves others about, so mark first and take after. */
	for (i = 0; i <= u->mask; i++) {
		b = u->slots[i];
		if (!b || b->channel != channel)
			continue;
		b->next = list;
		list = b;
	}
	for (b = list; b; b = b->next)
		unacked_take(u, b->number);
	return list;
}

uint32_t unacked_count(const struct unacked *u)
{
	return u->count;
}

/* ---- sink ---- */

#define NO_SLOT UINT32_MAX

struct answer {
	struct credit credit;
	uint32_t next;       /* in its channel's queue, or in the free list */
};

struct box_channel {
	bool closed;
	uint32_t unanswered; /* arriving, with the writer, or waiting to be sent */
	uint32_t pending;    /* of those: waiting to be sent */
	uint32_t first, last;
};

struct credit_box {
	uint32_t max;        /* unanswered on each channel, so there are channels * max answers */
	uint32_t fresh;      /* answers from here on have not been used yet */
	uint32_t free;       /* those before it that are free, linked */
	struct answer *answers;
	struct box_channel *ch;
};

struct credit_box *credit_box_new(uint32_t channels, uint32_t max)
{
	struct credit_box *x = calloc(1, sizeof(*x));
	uint64_t n = (uint64_t)channels * max;
	uint32_t i;

	if (!x || n >= NO_SLOT) {
		free(x);
		return NULL;
	}
	x->max = max;
	x->answers = calloc(n ? n : 1, sizeof(*x->answers));
	x->ch = calloc(channels ? channels : 1, sizeof(*x->ch));
	if (!x->answers || !x->ch) {
		credit_box_free(x);
		return NULL;
	}
	/* Places that were never used are beyond fresh: their memory is not touched, for
	 * there are many and only a few are ever needed. */
	x->free = NO_SLOT;
	for (i = 0; i < channels; i++)
		x->ch[i].first = x->ch[i].last = NO_SLOT;
	return x;
}

void credit_box_free(struct credit_box *x)
{
	if (!x)
		return;
	free(x->answers);
	free(x->ch);
	free(x);
}

int credit_box_open(struct credit_box *x, uint32_t channel)
{
	if (x->ch[channel].unanswered >= x->max)
		return -EPROTO;
	x->ch[channel].unanswered++;
	return 0;
}

int credit_box_add(struct credit_box *x, uint32_t channel, const struct credit *c)
{
	struct box_channel *ch = &x->ch[channel];
	uint32_t slot;

	if (ch->closed)
		return -EPIPE;
	if (ch->pending >= ch->unanswered)
		return -EINVAL;
	slot = x->free;
	if (slot == NO_SLOT)
		slot = x->fresh++;
	else
		x->free = x->answers[slot].next;
	x->answers[slot].credit = *c;
	x->answers[slot].next = NO_SLOT;
	if (ch->last == NO_SLOT)
		ch->first = slot;
	else
		x->answers[ch->last].next = slot;
	ch->last = slot;
	ch->pending++;
	return 0;
}

uint32_t credit_box_take(struct credit_box *x, uint32_t channel, struct credit *out, uint32_t max)
{
	struct box_channel *ch = &x->ch[channel];
	uint32_t n = 0;

	while (n < max && ch->first != NO_SLOT) {
		uint32_t slot = ch->first;

		out[n++] = x->answers[slot].credit;
		ch->first = x->answers[slot].next;
		x->answers[slot].next = x->free;
		x->free = slot;
	}
	if (ch->first == NO_SLOT)
		ch->last = NO_SLOT;
	ch->pending -= n;
	ch->unanswered -= n;
	return n;
}

uint32_t credit_box_pending(const struct credit_box *x, uint32_t channel)
{
	return x->ch[channel].pending;
}

uint32_t credit_box_unanswered(const struct credit_box *x, uint32_t channel)
{
	return x->ch[channel].unanswered;
}

void credit_box_close(struct credit_box *x, uint32_t channel)
{
	struct box_channel *ch = &x->ch[channel];
	struct credit none;

	while (credit_box_take(x, channel, &none, 1))
		;
	ch->unanswered = 0;
	ch->closed = true;
}

/* ---- lists ---- */

int credit_list_put(struct messages *m, uint8_t *p, const struct credit *c, uint32_t n,
		    size_t *size)
{
	uint32_t i;

	for (i = 0; i < n; i++)
		credit_put(p + MESSAGE_HEAD + i * CREDIT_BYTES, &c[i]);
	*size = MESSAGE_HEAD + (size_t)n * CREDIT_BYTES + MESSAGE_TAG;
	return message_seal(m, p, CREDIT_MAGIC, n, (size_t)n * CREDIT_BYTES);
}

int credit_list_peek(const uint8_t *p, size_t len, uint32_t *n, size_t *size)
{
	struct message_head h;
	int r;

	*n = 0;
	*size = 0;
	if (len < MESSAGE_HEAD)
		return 0;
	r = message_head_get(p, CREDIT_MAGIC, CREDITS_MAX, &h);
	if (r < 0)
		return r;
	*n = h.count;
	*size = MESSAGE_HEAD + (size_t)*n * CREDIT_BYTES + MESSAGE_TAG;
	return len >= *size;
}

int credit_list_check(struct messages *m, const uint8_t *p, size_t size)
{
	uint32_t n;

	return message_check(m, p, size, CREDIT_MAGIC, CREDIT_BYTES, CREDITS_MAX, &n);
}
