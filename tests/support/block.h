// SPDX-License-Identifier: Apache-2.0
/* Pools and hand-made blocks, for tests without a transfer. */
#ifndef RFTP_TESTS_BLOCK_H
#define RFTP_TESTS_BLOCK_H

#include "block/block.h"
#include "proto/proto.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

static inline struct pool *make_pool(uint32_t blocks, uint32_t payload)
{
	const struct pool_config c = { .blocks = blocks, .payload = payload };
	struct err e = ERR_INIT;
	struct pool *p = pool_new(&c, &e);

	if (!p)
		fail_msg("%s", e.text);
	return p;
}

/* Fills a block by hand, without encryption: hand_block() first, then hand_block_add() for each
 * extent, then hand_block_end() for the head. */
static inline void hand_block(struct block *b, uint64_t number)
{
	block_reset(b);
	b->number = number;
}

/* Adds an extent of len times byte, for the file id at offset. */
static inline void hand_block_add(struct block *b, uint64_t id, uint64_t offset, uint8_t byte,
				  uint32_t len)
{
	uint8_t *row = b->base + BLOCK_WIRE_HEAD + (size_t)b->nextents * BLOCK_WIRE_EXTENT;

	memset(block_payload(b) + b->len, byte, len);
	block_extent_put(row, id, offset, len);
	assert_int_equal(block_add(b, id, offset, len), 0);
}

static inline void hand_block_end(struct block *b, uint32_t crc)
{
	struct block_head h = { .number = b->number, .extents = (uint16_t)b->nextents,
				.payload = b->len, .crc = crc };

	block_head_put(b->base, &h);
}

#endif
