// SPDX-License-Identifier: Apache-2.0
/* Where files are, by the hundred thousand: names and directories in a file without a name,
 * so that memory holds one number for each. Any thread. */
#ifndef RFTP_TRANSFER_PLACES_H
#define RFTP_TRANSFER_PLACES_H

#include "storage/storage.h"

#include <pthread.h>

#define PLACES_TOPS 4
#define PLACES_SIZES 7

struct places {
	pthread_mutex_t lock;            /* guards all below */
	int fd;                          /* -1: not made yet */
	bool none;                       /* it could not be made */
	uint64_t end;
	uint64_t freed[PLACES_SIZES];    /* first cell of each size that is free; 0: none */
	struct dir *tops[PLACES_TOPS];   /* references */
	unsigned ntops;
};

void places_init(struct places *p);
void places_destroy(struct places *p);
/* Remember name in dir. A number that is odd, or 0 when that cannot be. */
uint64_t places_put(struct places *p, struct dir *dir, const char *name);
/* The name, malloc'd, and a reference to its directory; at is what places_put gave and
 * stays good. 0 or a negative errno: -ESTALE when another directory is there now. */
int places_get(struct places *p, uint64_t at, struct dir **dir, char **name);
void places_drop(struct places *p, uint64_t at);

#endif
