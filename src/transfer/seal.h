// SPDX-License-Identifier: Apache-2.0
/* What stands on a block before it leaves, and is checked before it is believed: head,
 * extent table, and CRC32C (clear), GMAC (safe) or AES-256-GCM (private). */
#ifndef RFTP_TRANSFER_SEAL_H
#define RFTP_TRANSFER_SEAL_H

#include "block/block.h"
#include "proto/proto.h"
#include "transfer/keys.h"

#include <stdint.h>

/* One sealing thread's keys and nonces. */
struct seal;
/* lane: unique among the sealing threads of this side, below 256. */
struct seal *seal_new(const struct xkeys *k, const struct agreement *a, enum direction dir,
		      uint16_t lane);
void seal_free(struct seal *s);
/* Put b (number, extents and payload are set) into to, with head and table, protected; to may
 * be b itself. Under private no byte of the payload is in to unencrypted at any time unless it
 * is b. 0 or -EIO. */
int seal_block(struct seal *s, struct block *b, struct block *to);

/* One checking thread's keys. */
struct unseal;
struct unseal *unseal_new(const struct xkeys *k, const struct agreement *a,
			  enum direction dir);
void unseal_free(struct unseal *u);
/* Check b and decode number, length and extents. -EBADMSG: it is not what was sent. */
int unseal_block(struct unseal *u, struct block *b);

#endif
