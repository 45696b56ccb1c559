// SPDX-License-Identifier: Apache-2.0
/* The records of credits at both ends: unanswered blocks, and answers to be sent. No I/O, no
 * locks. */
#ifndef RFTP_TRANSPORT_CREDIT_H
#define RFTP_TRANSPORT_CREDIT_H

#include "block/block.h"
#include "proto/proto.h"
#include "transport/transport.h"

/* ---- source: unacknowledged blocks, by number ---- */

struct unacked;

/* At most max blocks. NULL: out of memory. */
struct unacked *unacked_new(uint32_t max);
void unacked_free(struct unacked *u); /* frees no blocks */
/* Add b, which the caller still owns; u uses b->next until b is taken out. 0; -EAGAIN: u is full;
 * -EEXIST: it has a block of this number. */
int unacked_add(struct unacked *u, struct block *b);
/* unacked_find() returns the block with this number, unacked_take() also removes it. NULL: unknown
 * number. */
struct block *unacked_find(struct unacked *u, uint64_t number);
struct block *unacked_take(struct unacked *u, uint64_t number);
/* The channel is down: return all its blocks to the stage of p. */
void unacked_return(struct unacked *u, struct path *p, uint32_t channel);
uint32_t unacked_count(const struct unacked *u);

/* ---- sink: received blocks and their answers ---- */

struct credit_box;

/* max: the most unanswered blocks of the source. The source respects it for all channels together,
 * but the sink can only check each channel: the source may know earlier that a channel is dead, and
 * send its blocks on another. NULL: out of memory. */
struct credit_box *credit_box_new(uint32_t channels, uint32_t max);
void credit_box_free(struct credit_box *x);
/* A block begins to arrive. 0; -EPROTO: the channel has max unanswered blocks already. */
int credit_box_open(struct credit_box *x, uint32_t channel);
/* Queue the answer to a block. 0; -EPIPE: its channel is closed; -EINVAL: more answers than
 * blocks. */
int credit_box_add(struct credit_box *x, uint32_t channel, const struct credit *c);
/* Take up to max answers to send, the oldest first; each allows the source to send one more block.
 * Returns their number. */
uint32_t credit_box_take(struct credit_box *x, uint32_t channel, struct credit *out, uint32_t max);
uint32_t credit_box_pending(const struct credit_box *x, uint32_t channel); /* answers to send */
uint32_t credit_box_unanswered(const struct credit_box *x, uint32_t channel); /* all open blocks */
/* The channel is gone, and its answers with it. */
void credit_box_close(struct credit_box *x, uint32_t channel);

/* ---- lists on the wire ---- */

#define CREDIT_LIST_BYTES (MESSAGE_HEAD + CREDITS_MAX * CREDIT_BYTES + MESSAGE_TAG)

/* Encode and seal n credits into p, which has room for them. 0 with the bytes used, or
 * -EIO. */
int credit_list_put(struct messages *m, uint8_t *p, const struct credit *c, uint32_t n,
		    size_t *size);
/* Look at len bytes of a stream of lists. 1: they begin with a whole list of *n credits and *size
 * bytes, not yet checked; 0: more bytes are needed; -EBADMSG: not a list. */
int credit_list_peek(const uint8_t *p, size_t len, uint32_t *n, size_t *size);
/* Check a whole list. 0; -EBADMSG: it is not the sink's next list. */
int credit_list_check(struct messages *m, const uint8_t *p, size_t size);
static inline void credit_list_at(const uint8_t *p, uint32_t i, struct credit *c)
{
	credit_get(p + MESSAGE_HEAD + i * CREDIT_BYTES, c);
}

#endif
