// SPDX-License-Identifier: Apache-2.0
/* Writes and reads a pattern through iSER sessions of this very host: each to a target that is
 * made for it and goes again, with a ramdisk on the planned target's node as its only LUN, at the
 * planned portal's address and port, and with an initiator name that nobody else has. Neither the
 * planned target nor what it serves is touched, and the test's initiator cannot see it. */
#ifndef RFTP_ISER_IO_CHECK_H
#define RFTP_ISER_IO_CHECK_H

#include "iser_setup/plan.h"

#define IO_CHECK_SIZE (64u << 20) /* bytes of the ramdisk, which are all written and read */

struct io_checked {
	const char *iqn;       /* the planned target's; the plan's */
	const struct iser_portal *portal; /* likewise */
	int node;
	char transport[16];    /* that carried it: "iser", "tcp" */
	double write, read;    /* bytes per second */
};

/* One portal of a target, from a thread and with memory on the target's node. Leaves nothing, also
 * when it fails or is stopped; what a killed one has left it takes away first. 0, or a negative
 * errno with text: -EBADMSG: what was read is not what was written. */
int io_check(const struct topo *t, const struct iser_target *target,
	     const struct iser_portal *portal, const struct stop *stop, struct io_checked *out,
	     struct err *e);

#endif
