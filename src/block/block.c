// SPDX-License-Identifier: Apache-2.0
/* What a block says about its payload. */
#include "block/block.h"

#include <errno.h>

void block_reset(struct block *b)
{
	b->len = 0;
	b->nextents = 0;
	b->number = 0;
}

int block_add(struct block *b, uint64_t file, uint64_t offset, uint32_t length)
{
	if (b->nextents == BLOCK_EXTENTS || length > b->cap - b->len)
		return -ENOSPC;
	b->extents[b->nextents++] = (struct extent){
		.file = file,
		.offset = offset,
		.length = length,
		.pos = b->len,
	};
	b->len += length;
	return 0;
}
