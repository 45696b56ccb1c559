// SPDX-License-Identifier: Apache-2.0
/* What a block goes through at the sink, shared by the writers (sink_write.c) and the steps
 * that they take. Writers' threads. */
#ifndef RFTP_TRANSFER_SINK_WRITE_H
#define RFTP_TRANSFER_SINK_WRITE_H

#include "transfer/sink.h"

/* sink_check.c */
/* 0: *b is what was sent, and new; it may have become its copy out of reach of the peer.
 * 1: it has been dealt with. Negative: the end; *b is the caller's still. */
int sink_check(struct sink *s, struct unseal *u, struct block **b);
/* True when b waits for its entries now. */
bool sink_park(struct sink *s, struct block *b);
/* All of b has been dealt with: back to the path that it came by. */
void sink_release(struct sink *s, struct block *b, uint32_t status);
/* b is answered by nobody any more: the transfer has failed. */
void sink_drop(struct sink *s, struct block *b);

/* sink_admit.c */
/* What may be written of x: 0; 1: its file is over, drop it; negative: it does not fit, or has
 * come before, and the transfer has failed with that. */
int extent_admit(struct sink *s, struct kfile *f, const struct extent *x);

/* sink_extent.c */
/* Is x all of f, and nothing but bytes wanted of it? */
bool extent_is_whole(struct sink *s, const struct kfile *f, const struct extent *x);
/* Write x, which was admitted, in the caller's thread. That it failed is f's affair. */
void extent_put(struct sink *s, struct kfile *f, const struct extent *x,
		const uint8_t *data);
/* x lies in the file: note it, and complete the file if it was the last. */
void extent_down(struct sink *s, struct kfile *f, const struct extent *x,
		 const uint8_t *data);
void kfile_write_failed(struct sink *s, struct kfile *f, int code);

#endif
