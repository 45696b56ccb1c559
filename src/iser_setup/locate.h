// SPDX-License-Identifier: Apache-2.0
/* Where what a back store stands on is. own: t is of this machine, so that paths may be looked at;
 * of another's only what sysfs tells is known. */
#ifndef RFTP_ISER_LOCATE_H
#define RFTP_ISER_LOCATE_H

#include "iser_setup/plan.h"

/* The node of the block device at path, or of that which the file's filesystem is on, also when the
 * file is still to be made; NODE_UNKNOWN: none, several, or not known. kind: of neither a tmpfs nor
 * a ramdisk anything is known. */
int locate_node(enum iser_kind kind, const char *path, const struct topo *t, bool own);
/* What keeps path, which is below /dev, from being a block device, to stand behind "path: "; NULL:
 * nothing, as far as is known. */
const char *locate_absent(const char *path, const struct topo *t, bool own);

#endif
