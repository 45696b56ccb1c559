// SPDX-License-Identifier: Apache-2.0
/* A file that one rftp-iser has locked at a time, and that tells the others which. */
#ifndef RFTP_ISER_LOCK_H
#define RFTP_ISER_LOCK_H

#include "util/util.h"

#define ISER_LOCK_WAIT_MOST 86400 /* seconds */

/* How long is waited for it. */
struct lock_wait {
	unsigned seconds;        /* 0: not at all */
	const struct stop *stop; /* ends the waiting; NULL: nothing does */
};

struct lock_ask {
	const char *path;        /* made when it is not there */
	const char *busy;        /* what is said when another has it: "another login is at work" */
	const char *begun;       /* what still has it when its holder is gone, who began it: "a
	                          * program mdadm"; NULL: nobody begins such things */
	unsigned left;           /* for that at least so many seconds is waited, unless the wait is
	                          * for 0 seconds */
	struct lock_wait wait;
};

/* A descriptor, the caller's: the lock is had until it, and what has inherited it, is closed.
 * -EBUSY: another has it, with which; -EINTR: stopped; or another negative errno; with text. */
int iser_lock(const struct lock_ask *ask, struct err *e);

#endif
