// SPDX-License-Identifier: Apache-2.0
/* What both sides' memory allows: a part of negotiate(). */
#ifndef RFTP_PROTO_BUDGET_H
#define RFTP_PROTO_BUDGET_H

#include "proto/negotiate.h"

/* So many blocks each path may have on either side, as a's transport, protection, paths,
 * channels and block are. */
uint64_t budget_blocks(const struct offer *c, const struct offer *s, const struct agreement *a);
/* Less was agreed than wanted, with so many blocks for a path, would be: note in a which limit
 * did it, and what it would have to be. */
void budget_capped(const struct offer *c, const struct offer *s, const struct agreement *wanted,
		   uint64_t blocks, struct agreement *a);

#endif
