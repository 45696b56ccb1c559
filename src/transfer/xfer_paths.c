// SPDX-License-Identifier: Apache-2.0
/* A transfer's data paths: how many channels, what is lost of them, what is done then. */
#include "transfer/xfer.h"

#include <errno.h>
#include <string.h>

const char *xfer_lost_why(int error)
{
	return error == -EBADMSG ? "what came by it was damaged or forged" : strerror(-error);
}

uint32_t xfer_channels(const struct xfer *x)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < x->npaths; i++)
		n += x->paths[i]->nchannels;
	return n;
}

static uint64_t bytes_to_go(struct xfer *x)
{
	struct transfer_progress p = { 0 };

	x->role->progress(x, &p);
	return p.bytes_known > p.bytes ? p.bytes_known - p.bytes : 0;
}

void xfer_fell_back(struct xfer *x)
{
	if (atomic_exchange(&x->fell_back, true))
		return;
	if (x->anew_from && bytes_to_go(x) >= x->anew_from)
		xfer_fail(x, -ECONNRESET, "no data channel is left");
	else
		log_warn("no data channel is left: the rest goes over the control connection, "
			 "which is slower");
}

void xfer_tend_paths(struct xfer *x)
{
	for (uint32_t i = 0; i < x->npaths; i++) {
		struct path *p = x->paths[i];

		if (p && p->ops->tend && atomic_load(&p->left))
			p->ops->tend(p);
	}
}
