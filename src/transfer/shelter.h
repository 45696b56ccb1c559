// SPDX-License-Identifier: Apache-2.0
/* Memory that the other side can reach, by RDMA, holds sealed bytes only, and nothing in it
 * is believed: it may change under our eyes. A shelter holds as many blocks that it cannot
 * reach. There a sink checks and opens copies of what arrived, there a source reads and seals
 * what will be read from it. */
#ifndef RFTP_TRANSFER_SHELTER_H
#define RFTP_TRANSFER_SHELTER_H

#include "block/block.h"
#include "proto/proto.h"

#include <stdbool.h>

struct shelter;

/* Whether a side's pool is reachable and holds what must not be seen there. */
bool shelter_needed(const struct agreement *a, bool source);
/* Beside the pool outer. NULL with text: memory is out. */
struct shelter *shelter_new(struct pool *outer, struct err *e);
/* Blocks that are still sheltered are back in their pools after this; frees NULL, too. */
void shelter_free(struct shelter *s);
struct pool *shelter_pool(struct shelter *s);

/* Sink: b's bytes in a block of ours, which stands for b from now on: b is away until
 * shelter_leave. Any thread. */
struct block *shelter_enter(struct shelter *s, struct block *b);
/* Done with inner: the block that it stood for. Any thread. */
struct block *shelter_leave(struct shelter *s, struct block *inner);

/* Source: sealed inner in a block of the outer pool, for which this waits; inner is back in
 * its pool. NULL: the pool has been closed. */
struct block *shelter_show(struct shelter *s, struct block *inner);

#endif
