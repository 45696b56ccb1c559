// SPDX-License-Identifier: Apache-2.0
/* A token bucket that keeps all senders of a transfer to one rate; the caller brings the time. */
#ifndef RFTP_TRANSPORT_PACE_H
#define RFTP_TRANSPORT_PACE_H

#include <pthread.h>
#include <stdint.h>

/* Whoever finds the bucket not empty may take as much as he likes; the debt is waited
 * for by the next, whoever it is. So a block larger than the bucket passes, the mean still
 * holds, and what a path does not use is there for the others. */
struct pace {
	pthread_mutex_t lock; /* guards the rest, once senders run; rate is set before */
	uint64_t rate;        /* bytes per second; 0: no limit */
	uint64_t burst;       /* bytes the bucket holds */
	int64_t tokens;       /* bytes; negative: debt */
	uint64_t at_ns;       /* when tokens was true */
	uint64_t rest;        /* what is left of the last division, in bytes * 1e-9 */
};

void pace_init(struct pace *p);
void pace_destroy(struct pace *p);
/* From now on, with a full bucket; 0: no limit. */
void pace_start(struct pace *p, uint64_t rate, uint64_t now);
/* Any thread: nanoseconds until bytes may go; 0: now. */
uint64_t pace_wait_ns(struct pace *p, uint64_t now);
/* Any thread: bytes have gone. */
void pace_take(struct pace *p, uint64_t bytes);

#endif
