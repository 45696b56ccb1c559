// SPDX-License-Identifier: Apache-2.0
/* Who may send how many blocks, and which of them are still unanswered: both ends'
 * bookkeeping of credits, without I/O and without locks. */
#ifndef RFTP_TRANSPORT_CREDIT_H
#define RFTP_TRANSPORT_CREDIT_H

#include "block/block.h"
#include "proto/proto.h"
#include "transport/transport.h"

/* ---- source: blocks that are on their way, by number ---- */

struct unacked;

/* At most max blocks. NULL: memory is out. */
struct unacked *unacked_new(uint32_t max);
void unacked_free(struct unacked *u); /* blocks inside stay whose they are */
/* 0; -EAGAIN: max are inside; -EEXIST: that number is. */
int unacked_add(struct unacked *u, struct block *b);
/* NULL: no such number. */
struct block *unacked_find(const struct unacked *u, uint64_t number);
struct block *unacked_take(struct unacked *u, uint64_t number);
/* Take out all blocks of a channel, linked by next. */
struct block *unacked_take_channel(struct unacked *u, uint32_t channel);
uint32_t unacked_count(const struct unacked *u);

/* ---- sink: blocks that came and the answers that are due ---- */

struct credit_box;

/* max: blocks that the source may have unanswered. It keeps to that on all channels
 * together, but can be held to it on each only: it may know before us that a channel is
 * dead, and then sends what that one had by another. */
struct credit_box *credit_box_new(uint32_t channels, uint32_t max);
void credit_box_free(struct credit_box *x);
/* A block begins to arrive. -EPROTO: the channel has max unanswered already. */
int credit_box_open(struct credit_box *x, uint32_t channel);
/* The block's answer is known. 0; -EPIPE: its channel is closed, nobody waits for it;
 * -EINVAL: more answers than blocks. */
int credit_box_add(struct credit_box *x, uint32_t channel, const struct credit *c);
/* Up to max answers to be sent now, the oldest first; with them the source may send as
 * many blocks more. How many. */
uint32_t credit_box_take(struct credit_box *x, uint32_t channel, struct credit *out, uint32_t max);
uint32_t credit_box_pending(const struct credit_box *x, uint32_t channel); /* to be sent */
uint32_t credit_box_unanswered(const struct credit_box *x, uint32_t channel); /* both */
/* The channel is gone and all that it owed with it. */
void credit_box_close(struct credit_box *x, uint32_t channel);

/* ---- lists as they cross the wire ---- */

#define CREDIT_LIST_BYTES (MESSAGE_HEAD + CREDITS_MAX * CREDIT_BYTES + MESSAGE_TAG)

/* Encode and seal n credits into p, which has room for them. 0 with the bytes used, or
 * -EIO. */
int credit_list_put(struct messages *m, uint8_t *p, const struct credit *c, uint32_t n,
		    size_t *size);
/* Look at len bytes of a stream of lists. 1: a whole list of *n credits is there, *size
 * bytes, not yet checked; 0: more bytes are needed; -EBADMSG: that is no list. */
int credit_list_peek(const uint8_t *p, size_t len, uint32_t *n, size_t *size);
/* Check a whole list. -EBADMSG: it is not what the sink sent next. */
int credit_list_check(struct messages *m, const uint8_t *p, size_t size);
static inline void credit_list_at(const uint8_t *p, uint32_t i, struct credit *c)
{
	credit_get(p + MESSAGE_HEAD + i * CREDIT_BYTES, c);
}

#endif
