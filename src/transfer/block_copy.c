// SPDX-License-Identifier: Apache-2.0
/* See block_copy.h. */
#include "transfer/block_copy.h"

#include "proto/proto.h"

#include <string.h>

void block_copy_wire(struct block *to, const struct block *from)
{
	struct block_head h;

	memcpy(to->base, from->base, BLOCK_WIRE_HEAD);
	to->number = from->number;
	to->channel = from->channel;
	to->len = 0;
	to->nextents = 0;
	if (block_head_get(to->base, to->cap, &h))
		return;
	memcpy(to->base + BLOCK_WIRE_HEAD, from->base + BLOCK_WIRE_HEAD,
	       h.extents * (size_t)BLOCK_WIRE_EXTENT);
	memcpy(block_payload(to), block_payload(from), h.payload);
	to->len = h.payload;
	to->nextents = h.extents;
}

void block_copy(struct block *to, const struct block *from)
{
	block_copy_wire(to, from);
	memcpy(to->extents, from->extents, from->nextents * sizeof(*to->extents));
}
