// SPDX-License-Identifier: Apache-2.0
/* A file without a name, for what would not fit into memory. */
#ifndef RFTP_TRANSFER_SPILL_H
#define RFTP_TRANSFER_SPILL_H

/* In the directory behind dfd, or, when that cannot be, where temporary files go. A
 * descriptor to read and write, or a negative errno. */
int spill_open(int dfd);

#endif
