// SPDX-License-Identifier: Apache-2.0
/* What stands before the payload of a block. */
#include "proto/bulk.h"

#include <errno.h>
#include <string.h>

#define BLOCK_VERSION 1

void block_head_put(uint8_t *p, const struct block_head *h)
{
	put_be32(p, BLOCK_MAGIC);
	p[4] = BLOCK_VERSION;
	p[5] = h->prot;
	put_be16(p + 6, h->extents);
	put_be64(p + 8, h->number);
	put_be32(p + 16, h->payload);
	put_be32(p + 20, h->key);
	put_be64(p + 24, h->nonce);
	put_be32(p + 32, h->crc);
	memset(p + 36, 0, 12);
	memcpy(p + 48, h->tag, sizeof(h->tag));
}

/* Each field is looked at once: the peer may be able to write to p meanwhile, and what was
 * checked must be what is returned. */
int block_head_get(const uint8_t *p, uint32_t payload_max, struct block_head *h)
{
	struct block_head got = {
		.prot = p[5],
		.extents = get_be16(p + 6),
		.number = get_be64(p + 8),
		.payload = get_be32(p + 16),
		.key = get_be32(p + 20),
		.nonce = get_be64(p + 24),
		.crc = get_be32(p + 32),
	};

	memset(h, 0, sizeof(*h));
	if (get_be32(p) != BLOCK_MAGIC || p[4] != BLOCK_VERSION || got.prot > PROT_PRIVATE ||
	    got.extents > BLOCK_WIRE_EXTENTS || got.payload > payload_max)
		return -EBADMSG;
	memcpy(got.tag, p + 48, sizeof(got.tag));
	*h = got;
	return 0;
}

void block_extent_put(uint8_t *p, uint64_t file, uint64_t offset, uint32_t length)
{
	put_be64(p, file);
	put_be64(p + 8, offset);
	put_be32(p + 16, length);
}

void block_extent_get(const uint8_t *p, uint64_t *file, uint64_t *offset, uint32_t *length)
{
	*file = get_be64(p);
	*offset = get_be64(p + 8);
	*length = get_be32(p + 16);
}
