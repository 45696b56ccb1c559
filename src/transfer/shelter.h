// SPDX-License-Identifier: Apache-2.0
/* Memory that the other side can reach, by RDMA, holds sealed bytes only, and nothing in it
 * is believed: it may change under our eyes. The same holds for memory from which a card sends
 * what must not be seen on the way: it may send it again after the block has been answered, when
 * an acknowledgement of its own was lost, and by then the next block is being made there. A
 * shelter holds as many blocks that neither reaches. There a sink checks and opens copies of
 * what arrived; out of there a source seals what goes or will be read. */
#ifndef RFTP_TRANSFER_SHELTER_H
#define RFTP_TRANSFER_SHELTER_H

#include "block/block.h"
#include "proto/proto.h"

#include <stdbool.h>

struct shelter;

/* Whether a side's pool may not hold what it would without a shelter. */
bool shelter_needed(const struct agreement *a, bool source);
/* inner, which is its own from now on, stands before outer: as many blocks of the same size.
 * NULL with text: memory is out. */
struct shelter *shelter_new(struct pool *outer, struct pool *inner, struct err *e);
/* Blocks that are still sheltered are back in their pools after this; frees NULL, too. */
void shelter_free(struct shelter *s);
struct pool *shelter_pool(struct shelter *s);

/* Sink: b's bytes in a block of ours, which stands for b from now on: b is away until
 * shelter_leave. Any thread. */
struct block *shelter_enter(struct shelter *s, struct block *b);
/* Done with inner: the block that it stood for. Any thread. */
struct block *shelter_leave(struct shelter *s, struct block *inner);

/* Source: a block of the outer pool to seal into, for which this waits. NULL: the pool has been
 * closed. */
struct block *shelter_outside(struct shelter *s);

#endif
