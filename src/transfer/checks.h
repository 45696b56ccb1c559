// SPDX-License-Identifier: Apache-2.0
/* Digests of the pieces of a file, in any number: the last of them in memory, what came
 * before in a file without a name, in sorted runs that are merged when they are read. */
#ifndef RFTP_TRANSFER_CHECKS_H
#define RFTP_TRANSFER_CHECKS_H

#include "storage/storage.h"

#include <stdbool.h>
#include <stdint.h>

#define CHECKS_ROOM 8192 /* in memory: 256 KiB */

struct check {
	uint64_t offset;
	uint32_t length;
	uint8_t digest[RUN_DIGEST_BYTES];
};

static inline uint64_t check_end(const struct check *c)
{
	return c->offset + c->length;
}

/* All zero: empty. */
struct checks {
	struct check *v;
	uint32_t n;             /* of v */
	uint32_t runs;          /* of CHECKS_ROOM, in the file */
	int fd;                 /* of the file, once there are runs */
};

uint64_t checks_count(const struct checks *c);
/* dir: where the file goes. 0 or a negative errno. */
int checks_add(struct checks *c, const struct check *new, struct dir *dir);
void checks_clear(struct checks *c);

/* All of them, by offset. Nothing may be added meanwhile, nor is c good for more after. */
struct checks_reader;

struct checks_reader *checks_read(struct checks *c); /* NULL: memory is out */
/* The next, good until it is taken; NULL: the end, or *r is a negative errno. */
const struct check *checks_peek(struct checks_reader *cr, int *r);
void checks_take(struct checks_reader *cr);
void checks_done(struct checks_reader *cr);

#endif
