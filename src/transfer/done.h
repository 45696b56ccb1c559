// SPDX-License-Identifier: Apache-2.0
/* Collects the ids of entries that are done, to be told to the source in ranges. */
#ifndef RFTP_TRANSFER_DONE_H
#define RFTP_TRANSFER_DONE_H

#include <pthread.h>
#include <stddef.h>
#include <stdint.h>

struct done {
	pthread_mutex_t lock;
	uint64_t *ids;      /* guarded by lock */
	size_t n, room;     /* guarded by lock */
};

int done_init(struct done *d);
void done_destroy(struct done *d);
/* Any thread. 0 or -ENOMEM. */
int done_add(struct done *d, uint64_t id);
/* Call fn for each range of what was added since, ascending; fn's failure ends it. */
int done_flush(struct done *d, int (*fn)(void *arg, uint64_t first, uint64_t last), void *arg);

#endif
