// SPDX-License-Identifier: Apache-2.0
/* Blocks where the peer cannot reach them. */
#include "transfer/shelter.h"

#include "transfer/block_copy.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

struct shelter {
	struct pool *outer, *inner;
	struct block **stands_for; /* by the index of the inner block; its owner's */
};

bool shelter_needed(const struct agreement *a, bool source)
{
	bool reached = a->op == (source ? OP_READ : OP_WRITE);

	return a->transport == TRANSPORT_RDMA && a->prot != PROT_CLEAR &&
	       (reached || (source && a->prot == PROT_PRIVATE));
}

struct shelter *shelter_new(struct pool *outer, struct pool *inner, struct err *e)
{
	struct shelter *s = calloc(1, sizeof(*s));

	if (s)
		s->stands_for = calloc(pool_blocks(outer), sizeof(*s->stands_for));
	if (!s || !s->stands_for) {
		err_sys(e, -ENOMEM, "memory for blocks");
		free(s);
		pool_free(inner);
		return NULL;
	}
	s->outer = outer;
	s->inner = inner;
	return s;
}

void shelter_free(struct shelter *s)
{
	if (!s)
		return;
	for (uint32_t i = 0; s->inner && i < pool_blocks(s->inner); i++)
		if (s->stands_for[i])
			pool_put(s->stands_for[i]);
	pool_free(s->inner);
	free(s->stands_for);
	free(s);
}

struct pool *shelter_pool(struct shelter *s)
{
	return s->inner;
}

struct block *shelter_enter(struct shelter *s, struct block *b)
{
	struct block *inner = pool_get(s->inner); /* one for each of the others */

	if (!inner)
		return NULL;
	block_copy_wire(inner, b);
	assert(!s->stands_for[inner->index]);
	s->stands_for[inner->index] = b;
	return inner;
}

struct block *shelter_leave(struct shelter *s, struct block *inner)
{
	struct block *b = steal_ptr(&s->stands_for[inner->index]);

	b->number = inner->number;
	pool_put(inner);
	return b;
}

struct block *shelter_outside(struct shelter *s)
{
	return pool_get(s->outer);
}
