// SPDX-License-Identifier: Apache-2.0
/* A set of bytes of a file, of which none is added twice: ranges in order that do not touch.
 * What comes nearly in order takes few, and a single one takes no memory of its own. Nothing
 * here locks but the budget. */
#ifndef RFTP_TRANSFER_SPANS_H
#define RFTP_TRANSFER_SPANS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/* How many more ranges there may be room for in all sets that share this. Any thread. */
typedef _Atomic int64_t spans_budget;

struct span {
	uint64_t at, end;
};

struct span_node {
	struct span s;
	uint32_t left, right;   /* 0: none */
};

/* All zero: empty. */
struct spans {
	struct span one;        /* while v is NULL: the only one; empty: none */
	struct span_node *v;    /* a treap in v[1] to v[used] */
	uint32_t room;          /* of v, but for v[0], as it was taken from the budget */
	uint32_t used;          /* of room, with those in spare */
	uint32_t root, spare;   /* spare: by left */
	uint32_t seed;          /* of the nodes' priorities: no order of coming is a bad one */
};

/* Add at up to end, which is greater, and not beyond INT64_MAX. It takes as long as the
 * logarithm of the ranges there are. -EEXIST: some of it is there; -ENOBUFS: the budget is used
 * up; -ENOMEM. After those s is as it was. */
int spans_add(struct spans *s, uint64_t at, uint64_t end, spans_budget *b);
/* The first range that ends behind at; false: there is none. */
bool spans_next(const struct spans *s, uint64_t at, struct span *out);
/* Is all of at up to end there? */
bool spans_hold(const struct spans *s, uint64_t at, uint64_t end);
static inline bool spans_empty(const struct spans *s)
{
	return s->v ? !s->root : !s->one.end;
}

/* Empty again, and its room is back in the budget. */
void spans_clear(struct spans *s, spans_budget *b);

#endif
