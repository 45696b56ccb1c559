// SPDX-License-Identifier: Apache-2.0
/* A treap: a search tree by place that is a heap by a priority which each node has at random.
 * Ranges do not overlap, so one tree is ordered by where they begin and by where they end. */
#include "transfer/spans.h"
#include "crypto/crypto.h"

#include <errno.h>
#include <stdlib.h>

#define FIRST_ROOM 4u
#define KEPT_ROOM 64u      /* less is not given back: there will soon be a gap again */

static struct span_node *node(const struct spans *s, uint32_t i)
{
	return &s->v[i];
}

/* Of a place in v, for as long as s has memory. Who sends the ranges does not know the seed. */
static uint32_t priority(const struct spans *s, uint32_t i)
{
	uint32_t x = (i ^ s->seed) * 0x9e3779b1u;

	x = (x ^ (x >> 15)) * 0x85ebca77u;
	return x ^ (x >> 13);
}

/* ---- the tree ---- */

/* The first that ends at or behind end; 0: none. */
static uint32_t first_ending(const struct spans *s, uint64_t end)
{
	uint32_t i = s->root, found = 0;

	while (i) {
		bool fits = node(s, i)->s.end >= end;

		if (fits)
			found = i;
		i = fits ? node(s, i)->left : node(s, i)->right;
	}
	return found;
}

static void put_in(struct spans *s, uint32_t new)
{
	uint64_t at = node(s, new)->s.at;
	uint32_t *link = &s->root, *left = &node(s, new)->left, *right = &node(s, new)->right;
	uint32_t i;

	while (*link && priority(s, *link) >= priority(s, new))
		link = node(s, *link)->s.at < at ? &node(s, *link)->right : &node(s, *link)->left;
	/* What was there goes below new, on the side where it belongs. */
	i = *link;
	*link = new;
	while (i) {
		if (node(s, i)->s.at < at) {
			*left = i;
			left = &node(s, i)->right;
			i = *left;
		} else {
			*right = i;
			right = &node(s, i)->left;
			i = *right;
		}
	}
	*left = *right = 0;
}

static void take_out(struct spans *s, uint32_t old)
{
	uint32_t *link = &s->root, a = node(s, old)->left, b = node(s, old)->right;

	while (*link != old)
		link = node(s, *link)->s.at < node(s, old)->s.at ? &node(s, *link)->right :
								  &node(s, *link)->left;
	while (a && b) {
		if (priority(s, a) >= priority(s, b)) {
			*link = a;
			link = &node(s, a)->right;
			a = *link;
		} else {
			*link = b;
			link = &node(s, b)->left;
			b = *link;
		}
	}
	*link = a ? a : b;
	node(s, old)->left = s->spare;
	s->spare = old;
}

/* ---- its memory ---- */

static int grow(struct spans *s, spans_budget *b)
{
	uint32_t room = s->room ? 2 * s->room : FIRST_ROOM, more = room - s->room;
	struct span_node *v;

	if (atomic_fetch_sub(b, more) < more) {
		atomic_fetch_add(b, more);
		return -ENOBUFS;
	}
	v = reallocarray(s->v, room + 1ul, sizeof(*v));
	if (!v) {
		atomic_fetch_add(b, more);
		return -ENOMEM;
	}
	s->v = v;
	s->room = room;
	return 0;
}

static int add_node(struct spans *s, uint64_t at, uint64_t end, spans_budget *b)
{
	uint32_t i = s->spare;
	int r = !i && s->used == s->room ? grow(s, b) : 0;

	if (r)
		return r;
	if (i)
		s->spare = node(s, i)->left;
	else
		i = ++s->used;
	*node(s, i) = (struct span_node){ .s = { at, end } };
	put_in(s, i);
	return 0;
}

/* There is more than one range from now on. */
static int begin_tree(struct spans *s, spans_budget *b)
{
	int r = grow(s, b);

	if (r)
		return r;
	crypto_random(&s->seed, sizeof(s->seed));
	return add_node(s, s->one.at, s->one.end, b); /* there is room */
}

/* There may be one range again. */
static void maybe_end_tree(struct spans *s, spans_budget *b)
{
	struct span one = node(s, s->root)->s;

	if (s->room <= KEPT_ROOM || node(s, s->root)->left || node(s, s->root)->right)
		return;
	spans_clear(s, b);
	s->one = one;
}

/* ---- the set ---- */

static int add_to_tree(struct spans *s, uint64_t at, uint64_t end, spans_budget *b)
{
	uint32_t before = first_ending(s, at), behind = before;

	if (before && node(s, before)->s.end > at)
		before = 0;
	else
		behind = first_ending(s, at + 1);
	if (behind && node(s, behind)->s.at < end)
		return -EEXIST;
	if (behind && node(s, behind)->s.at > end)
		behind = 0;
	if (!before && !behind)
		return add_node(s, at, end, b);
	if (before && behind) {
		node(s, before)->s.end = node(s, behind)->s.end;
		take_out(s, behind);
		maybe_end_tree(s, b);
	} else if (before) {
		node(s, before)->s.end = end;
	} else {
		node(s, behind)->s.at = at;
	}
	return 0;
}

int spans_add(struct spans *s, uint64_t at, uint64_t end, spans_budget *b)
{
	struct span *one = &s->one;
	int r = 0;

	if (s->v)
		return add_to_tree(s, at, end, b);
	if (!one->end)
		*one = (struct span){ at, end };
	else if (at < one->end && one->at < end)
		return -EEXIST;
	else if (at == one->end)
		one->end = end;
	else if (end == one->at)
		one->at = at;
	else if (!(r = begin_tree(s, b)))
		r = add_to_tree(s, at, end, b);
	return r;
}

bool spans_next(const struct spans *s, uint64_t at, struct span *out)
{
	uint32_t i = s->v ? first_ending(s, at + 1) : 0;

	if (s->v ? !i : s->one.end <= at)
		return false;
	*out = i ? node(s, i)->s : s->one;
	return true;
}

bool spans_hold(const struct spans *s, uint64_t at, uint64_t end)
{
	struct span g;

	return at >= end || (spans_next(s, at, &g) && g.at <= at && g.end >= end);
}

void spans_clear(struct spans *s, spans_budget *b)
{
	atomic_fetch_add(b, s->room);
	free(s->v);
	*s = (struct spans){ 0 };
}
