// SPDX-License-Identifier: Apache-2.0
/* A block's bytes in another block, of another pool. */
#ifndef RFTP_TRANSFER_BLOCK_COPY_H
#define RFTP_TRANSFER_BLOCK_COPY_H

#include "block/block.h"

/* What came or will go by the wire: head, table, payload. The head first: what it says of
 * lengths is read once, from the copy, for from may be changed by the other side meanwhile. A
 * head that makes no sense stays one, and is refused by who opens the block. */
void block_copy_wire(struct block *to, const struct block *from);
/* The same of a block of our own, with what we know of it. */
void block_copy(struct block *to, const struct block *from);

#endif
