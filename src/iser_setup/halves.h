// SPDX-License-Identifier: Apache-2.0
/* Stripes that a login which was killed was making: they become login's, or are taken off the
 * disks. */
#ifndef RFTP_ISER_HALVES_H
#define RFTP_ISER_HALVES_H

#include "iser_setup/kept.h"

/* Of k's halves, on the disks that k's sessions have now. One whose disks are not all there, or do
 * not tell, stays in k. 0, or a negative errno with text: k cannot be written. */
int halves_settle(struct kept *k, const struct stop *stop, struct err *e);

#endif
