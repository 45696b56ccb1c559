// SPDX-License-Identifier: Apache-2.0
/* The keys of one transfer (rftp-protocol(7), KEYS), and sealed blocks. */
#ifndef RFTP_TRANSFER_SEAL_H
#define RFTP_TRANSFER_SEAL_H

#include "block/block.h"
#include "crypto/crypto.h"
#include "proto/proto.h"
#include "transport/transport.h"

enum direction { CLIENT_TO_SERVER = 0, SERVER_TO_CLIENT = 1 };

struct xkeys {
	uint8_t session[KEY_BYTES];
	struct channel_auth auth;
};

/* Derive session key and channel token from the master secret and the nonces. 0 or -EIO. */
int xkeys_init(struct xkeys *k, const uint8_t master[KEY_BYTES],
	       const uint8_t client_nonce[NONCE_BYTES],
	       const uint8_t server_nonce[NONCE_BYTES], uint64_t session);
/* The key with this number for blocks that travel in this direction. 0 or -EIO. */
int xkeys_block(const struct xkeys *k, enum direction dir, uint32_t number,
		uint8_t key[KEY_BYTES]);
/* The keys of all other messages in a transfer with blocks in this direction. 0 or -EIO. */
int xkeys_messages(const struct xkeys *k, enum direction dir, struct message_keys *m);
void xkeys_wipe(struct xkeys *k);

/* ---- blocks ---- */

/* One sealing thread's keys and nonces. */
struct seal;
/* lane: unique among the sealing threads of this side, below 256. NULL: out of memory. */
struct seal *seal_new(const struct xkeys *k, const struct agreement *a, enum direction dir,
		      uint16_t lane);
void seal_free(struct seal *s);
/* Write head, table and protected payload of b into to, which may be b itself. b's number, extents
 * and payload are set. With PROT_PRIVATE, if to is another block than b, no unencrypted byte of the
 * payload is ever in it. 0 or -EIO. */
int seal_block(struct seal *s, struct block *b, struct block *to);

/* One checking thread's keys. */
struct unseal;
struct unseal *unseal_new(const struct xkeys *k, const struct agreement *a,
			  enum direction dir);
void unseal_free(struct unseal *u);
/* Check b and decode number, length and extents. -EBADMSG: it differs from the sent block. */
int unseal_block(struct unseal *u, struct block *b);

/* ---- copies of blocks ---- */

/* Copy a block of this side, with its table of extents. */
void block_copy(struct block *to, const struct block *from);

/* By RDMA the peer can change our registered memory at any time. So that memory holds only sealed
 * bytes, and a sink opens a copy. After a lost acknowledgement a card may also send a block a
 * second time, after the block was answered and filled again; so with --prot private a source fills
 * blocks in other memory, too. The registered pool is the outer pool. The staging pool has as many
 * blocks, and no card can reach it. Sealing writes to blocks of outer, which the card sends. */
struct staging {
	struct pool *outer, *inner;
	struct block **stands_for; /* by the index of the inner block; used by that block's owner */
};

/* True: this side's pool needs a staging pool. */
bool staging_needed(const struct agreement *a, bool source);
/* inner: the pool of the copies, with as many blocks of the same size as outer; the result owns it.
 * NULL with text: out of memory; the caller keeps inner. */
struct staging *staging_new(struct pool *outer, struct pool *inner, struct err *e);
/* Returns the blocks that are still paired to both pools. NULL is harmless. */
void staging_free(struct staging *s);

/* Sink: returns a copy of b, paired with b until staging_leave(). Any thread. */
struct block *staging_enter(struct staging *s, struct block *b);
/* Return the copy inner to its pool. Returns the block that was paired with it. Any thread. */
struct block *staging_leave(struct staging *s, struct block *inner);

#endif
