// SPDX-License-Identifier: Apache-2.0
/* Where a pool's memory comes from. */
#ifndef RFTP_TRANSFER_BIND_H
#define RFTP_TRANSFER_BIND_H

#include "numa/numa.h"

struct bind_wish {
	const struct topo *topo;
	const struct model *model; /* NULL: there is none */
	enum model_op op;          /* to the card, or from it */
	int node;
	bool now;                  /* a device is to have all of it: it is had before; otherwise
				    * pages come when they are used */
};

/* As pool_config.bind, arg a bind_wish. 0 always: what cannot be on the node is elsewhere, with
 * a word. */
int bind_pool(void *arg, void *base, size_t bytes, bool huge);

#endif
