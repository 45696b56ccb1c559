// SPDX-License-Identifier: Apache-2.0
/* Extended attributes of files and directories as entries carry them: those of users,
 * and POSIX ACLs, which Linux keeps as such. Labels and capabilities belong to a host
 * and stay there. */
#ifndef RFTP_TRANSFER_XATTRS_H
#define RFTP_TRANSFER_XATTRS_H

#include "util/util.h"

#include <stdint.h>

/* Append the attributes of what fd, which may be O_PATH, refers to. 0, also where the
 * filesystem has none; -E2BIG beyond what an entry may carry; another negative errno. */
int xattrs_get(int fd, struct buf *b);
/* Set those of x. shown names the file in e. */
int xattrs_set(int fd, const uint8_t *x, uint32_t len, const char *shown, struct err *e);

#endif
