// SPDX-License-Identifier: Apache-2.0
/* --ack verified: the digests of any number of pieces of a file, and the check of the file against
 * them. The latest digests are in memory, the earlier ones in an unnamed file. */
#ifndef RFTP_TRANSFER_SINK_VERIFY_H
#define RFTP_TRANSFER_SINK_VERIFY_H

#include "block/block.h"
#include "proto/proto.h"
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

/* The range of f that is sent: all of it, unless its entry names one. */
struct bulk_range sink_file_range(const struct sink_file *f);
/* Check that the medium has the received bytes of f and the kept bytes of its part, and zeros in
 * holes. f has been synced. 0, or a negative errno with text. Called by the commit thread that has
 * f. */
int sink_file_verify(struct sink *s, struct sink_file *f, struct err *e);
/* Make holes in fd's file everywhere in range outside of the n ranges (in wire format). 0 or a
 * negative errno. */
int make_holes(int fd, struct bulk_range range, const uint8_t *ranges, uint32_t n);

/* The CRC32C of f's range, all of which is written. sink_range_add(): for the written piece x;
 * any thread. sink_range_sum(): 0 with *sum, or a negative errno: data of an earlier transfer
 * could not be read. */
void sink_range_add(struct sink_file *f, const struct extent *x, const uint8_t *data);
int sink_range_sum(struct sink *s, struct sink_file *f, uint32_t *sum);

#endif
