// SPDX-License-Identifier: Apache-2.0
/* --ack verified: the digests of any number of pieces of a file, and the check of the file against
 * them. The latest digests are in memory, the earlier ones in an unnamed file. */
#ifndef RFTP_TRANSFER_SINK_VERIFY_H
#define RFTP_TRANSFER_SINK_VERIFY_H

#include "storage/storage.h"

#define CHECKS_ROOM 8192 /* in memory: 256 KiB */

/* All zero: empty. */
struct checks {
	struct part_run *v;
	uint32_t n, room;       /* number of checks in v, and of those that it has room for */
	uint32_t runs;          /* groups of CHECKS_ROOM checks in the file */
	int fd;                 /* the file; valid if runs > 0 */
};

uint64_t checks_count(const struct checks *c);
/* Add a digest. dir: the directory for the unnamed file. 0 or a negative errno. One thread at a
 * time. */
int checks_add(struct checks *c, const struct part_run *new, struct dir *dir);
/* Digest i of checks_count(), in the order of their addition. 0, or -EIO. */
int checks_get(const struct checks *c, uint64_t i, struct part_run *out);
void checks_clear(struct checks *c);

struct sink;
struct sink_file;

/* Check that the medium has the received bytes of f and the kept bytes of its part, and zeros in
 * holes. f has been synced and has size bytes. 0, or a negative errno with text. Called by
 * the commit thread that has f. */
int sink_file_verify(struct sink *s, struct sink_file *f, uint64_t size, struct err *e);
/* Make holes in fd's file of size bytes everywhere outside of the n ranges (in wire format). 0 or a
 * negative errno. */
int make_holes(int fd, uint64_t size, const uint8_t *ranges, uint32_t n);

#endif
