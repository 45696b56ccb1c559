// SPDX-License-Identifier: Apache-2.0
/* Stripes that a login which was killed was making: they become login's, or are taken off the
 * disks. */
#ifndef RFTP_ISER_HALVES_H
#define RFTP_ISER_HALVES_H

#include "iser_setup/kept.h"
#include "iser_setup/sessions.h"

/* Of k's halves, on the disks that there are now. One whose disks are not all there, or do not
 * tell, stays in k, and it is said why. 0, or a negative errno with text: k cannot be written. */
int halves_settle(struct kept *k, const struct stop *stop, struct err *e);

/* Its parts. */

/* Pure. A half's disk by the kernel's name, there's; NULL: it is not there. By login's own session,
 * for others may have theirs with the same target, or else by another's, which a login uses that
 * finds it there; what is theirs on it is known by the ids. */
const char *halves_disk(const struct kept *k, const struct sessions *there,
			const struct kept_disk *d);
/* h, which is a copy of k's, on the disks d. 1: it is none of k's halves any more; 0: it stays;
 * negative errno with text: it stays. k is not written. */
int halves_settle_one(struct kept *k, const struct kept_half *h, const struct stripe_disks *d,
		      const struct stop *stop, struct err *e);

#endif
