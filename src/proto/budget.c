// SPDX-License-Identifier: Apache-2.0
/* Memory, and how much of it RDMA devices may hold (rftp-protocol(7), Agreement). */
#include "proto/budget.h"

#include "proto/bulk.h"

#define HEAD_BYTES 4096u     /* of a block in a pool, before its payload */
#define MESSAGE_BYTES 512u   /* between the ends of a channel; one for each block, and */
#define MESSAGES 16u         /* so many more */

/* Every channel can hear of every block. */
static uint64_t message_bytes(const struct agreement *a)
{
	return (uint64_t)MESSAGE_BYTES * a->channels;
}

/* One side has sealed blocks that the other reaches by RDMA twice: they are opened, or made,
 * elsewhere. */
static uint64_t block_bytes(const struct agreement *a)
{
	bool rdma = a->transport == TRANSPORT_RDMA;
	uint64_t bytes = a->block + (uint64_t)HEAD_BYTES;

	return rdma && a->prot != PROT_CLEAR ? 2 * bytes + message_bytes(a) :
	       rdma ? bytes + message_bytes(a) : bytes;
}

static uint64_t registered_bytes(const struct agreement *a)
{
	return a->block + HEAD_BYTES + message_bytes(a);
}

static uint64_t by_memory(const struct offer *o, const struct agreement *a)
{
	return o->memory / a->paths / block_bytes(a);
}

/* An eighth is left to the queues of the devices. */
static uint64_t by_lock(const struct offer *o, const struct agreement *a)
{
	uint64_t fixed = (uint64_t)MESSAGES * MESSAGE_BYTES * a->channels;
	uint64_t share = (o->locked - o->locked / 8) / a->paths;

	if (a->transport != TRANSPORT_RDMA || o->locked == UINT64_MAX)
		return UINT64_MAX;
	return share > fixed ? (share - fixed) / registered_bytes(a) : 0;
}

static uint64_t least(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

uint64_t budget_blocks(const struct offer *c, const struct offer *s, const struct agreement *a)
{
	return least(least(by_memory(c, a), by_memory(s, a)),
		     least(by_lock(c, a), by_lock(s, a)));
}

/* Bytes that the limit should be. */
static uint64_t memory_for(const struct agreement *a, uint64_t blocks)
{
	return blocks * block_bytes(a) * a->paths;
}

uint64_t agreement_memory(const struct agreement *a)
{
	return memory_for(a, a->source_blocks > a->sink_blocks ? a->source_blocks : a->sink_blocks);
}

static uint64_t lock_for(const struct agreement *a, uint64_t blocks)
{
	uint64_t path = blocks * registered_bytes(a) +
			(uint64_t)MESSAGES * MESSAGE_BYTES * a->channels;

	return path * a->paths / 7 * 8 + 8;
}

void budget_capped(const struct offer *c, const struct offer *s, const struct agreement *wanted,
		   uint64_t blocks, struct agreement *a)
{
	const struct {
		uint64_t blocks, bytes;
		const char *text;
	} limits[] = {
		{ by_memory(c, wanted), memory_for(wanted, blocks),
		  "blocks in flight are limited by the client's memory budget: raise its "
		  "--memory" },
		{ by_memory(s, wanted), memory_for(wanted, blocks),
		  "blocks in flight are limited by the server's memory budget: raise rftpd's "
		  "--memory" },
		{ by_lock(c, wanted), lock_for(wanted, blocks),
		  "blocks in flight are limited by what the client may lock in memory: raise its "
		  "\"ulimit -l\"" },
		{ by_lock(s, wanted), lock_for(wanted, blocks),
		  "blocks in flight are limited by what the server may lock in memory: raise "
		  "rftpd's \"ulimit -l\", or LimitMEMLOCK= of its service" },
	};
	int worst = 0;

	for (int i = 1; i < 4; i++)
		if (limits[i].blocks < limits[worst].blocks)
			worst = i;
	a->capped = limits[worst].text;
	a->capped_bytes = limits[worst].bytes;
}
