// SPDX-License-Identifier: Apache-2.0
/* Threads on one node that copy between its memory and that of others. */
#ifndef RFTP_NUMA_CREW_H
#define RFTP_NUMA_CREW_H

#include "numa/numa.h"

#define HUGE_PAGE ((size_t)2 << 20)
/* What a buffer may take beside its bytes, for its start and end lie within huge pages. */
#define CREW_SLACK (3 * HUGE_PAGE)

struct crew;

struct crew_config {
	int target;
	const unsigned *cpus;   /* one for each thread */
	unsigned threads;
	const int *nodes;       /* whose memory is copied from and to; the target may be one */
	unsigned n;
	size_t bytes;           /* of each buffer: whole pages */
	unsigned copies;        /* of a buffer by each thread in a round */
	bool bind;              /* false: there is one node, and no choice */
	const struct stop *stop;
};

/* Start the threads, each on its CPU. Each has a buffer on every node and one more on the target,
 * bound, touched by itself and looked for: a page that is elsewhere is an error. What c points
 * to must live as long. NULL with text. */
struct crew *crew_start(const struct crew_config *c, struct err *e);
/* Bytes of all buffers that were found on their nodes; 0 when there was no choice. */
uint64_t crew_placed(const struct crew *c);
/* One round, all threads begin together: WRITE copies from nodes[i] to the target, READ the
 * other way. *bandwidth: bytes per second of all, from the first one's start to the last one's
 * end. 0; -EINTR: it was asked to stop. */
int crew_copy(struct crew *c, unsigned i, enum model_op op, double *bandwidth);
void crew_end(struct crew *c);

/* For tests: are all bytes of a buffer on its node? 0, or -EIO with text. */
int crew_check(const struct place_count *count, int node, size_t bytes, struct err *e);

#endif
