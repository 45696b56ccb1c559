// SPDX-License-Identifier: Apache-2.0
/* Input: data of a data channel, decoded as a block's head and table, as a list of credits or
 * announcements, and as a channel hello. */
#include "proto/proto.h"
#include "transfer/seal.h"

#include "tests/support/fuzz.h"

#include <string.h>

static void take_block(const uint8_t *p, size_t size)
{
	struct block_head h, again;
	uint8_t copy[BLOCK_WIRE_HEAD];
	uint64_t file, offset;
	uint32_t length;

	if (size < BLOCK_WIRE_HEAD || block_head_get(p, 1 << 20, &h))
		return;
	MUST(h.extents <= BLOCK_WIRE_EXTENTS && h.payload <= 1 << 20 && h.prot <= PROT_PRIVATE);
	block_head_put(copy, &h);
	MUST(!block_head_get(copy, 1 << 20, &again) && !memcmp(&h, &again, sizeof(h)));
	for (size_t i = 0, at = BLOCK_WIRE_HEAD; i < h.extents; i++, at += BLOCK_WIRE_EXTENT) {
		if (size - at < BLOCK_WIRE_EXTENT)
			return;
		block_extent_get(p + at, &file, &offset, &length);
	}
}

/* As in a writer thread: in a pool buffer, but without a checksum. */
static void take_table(const uint8_t *p, size_t size)
{
	static const struct agreement agr = { .prot = PROT_CLEAR, .crc = false };
	static struct pool *pool;
	const struct pool_config c = { .blocks = 1, .payload = BLOCK_MIN };
	struct unseal *u = unseal_new(NULL, &agr, CLIENT_TO_SERVER);
	struct block *b;
	uint64_t bytes = 0;

	if (!pool)
		pool = pool_new(&c, NULL);
	MUST(pool && u);
	b = pool_get(pool);
	memset(b->base, 0, BLOCK_HEAD);
	memcpy(b->base, p, size < BLOCK_HEAD ? size : BLOCK_HEAD);
	if (!unseal_block(u, b)) {
		MUST(b->len <= b->cap && b->nextents <= BLOCK_EXTENTS);
		for (uint32_t i = 0; i < b->nextents; i++) {
			MUST(b->extents[i].pos == bytes);
			MUST(b->extents[i].offset + b->extents[i].length <= INT64_MAX);
			bytes += b->extents[i].length;
		}
		MUST(bytes == b->len);
	}
	pool_put(b);
	unseal_free(u);
}

static void take_credits(const uint8_t *p, size_t size)
{
	struct credit c;
	struct message_head h;

	if (size < MESSAGE_HEAD || message_head_get(p, CREDIT_MAGIC, CREDITS_MAX, &h))
		return;
	MUST(h.count <= CREDITS_MAX);
	for (size_t i = 0, at = MESSAGE_HEAD; i < h.count; i++, at += CREDIT_BYTES) {
		if (size - at < CREDIT_BYTES)
			return;
		credit_get(p + at, &c);
	}
}

static void take_announces(const uint8_t *p, size_t size)
{
	uint8_t copy[ANNOUNCE_BYTES];
	struct announce a, again;
	struct message_head h;

	if (size < MESSAGE_HEAD || message_head_get(p, ANNOUNCE_MAGIC, ANNOUNCES_MAX, &h))
		return;
	MUST(h.count <= ANNOUNCES_MAX);
	for (size_t i = 0, at = MESSAGE_HEAD; i < h.count; i++, at += ANNOUNCE_BYTES) {
		if (size - at < ANNOUNCE_BYTES)
			return;
		announce_get(p + at, &a);
		announce_put(copy, &a);
		announce_get(copy, &again);
		MUST(again.number == a.number && again.buffer == a.buffer &&
		     again.head == a.head && again.payload == a.payload);
	}
}

static void take_hello(const uint8_t *p, size_t size)
{
	struct channel_hello h;

	if (size >= HELLO_BYTES && !hello_get(p, &h))
		MUST(h.channel < CHANNELS_MAX && h.major == BULK_MAJOR);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	take_block(data, size);
	take_table(data, size);
	take_credits(data, size);
	take_announces(data, size);
	take_hello(data, size);
	return 0;
}
