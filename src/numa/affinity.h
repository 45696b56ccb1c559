// SPDX-License-Identifier: Apache-2.0
/* Where I/O buffers and threads may be, as seen from a device, and what many runs say. Pure.
 *
 * After Akram et al.: the transfer, between device and buffer, is local when the buffer is on
 * the device's node; the copy, between buffer and thread, when the thread runs on the
 * buffer's. */
#ifndef RFTP_NUMA_AFFINITY_H
#define RFTP_NUMA_AFFINITY_H

#include "numa/fio.h"

struct placement {
	const char *name;          /* "TRLCPL": transfer local, copy local; "none": no control */
	int memory_node, cpu_node; /* both NODE_UNKNOWN without control */
};

#define PLACEMENTS_MAX 5

/* TRLCPL first, "none" last; with remote == NODE_UNKNOWN only these two. How many. */
unsigned placements(int device, int remote, struct placement out[PLACEMENTS_MAX]);
/* The node farthest from node, by distance, that has memory, is among memory, and has any of the
 * CPUs; of several the first. NODE_UNKNOWN: there is no other. */
int farthest_node(const struct topo *t, int node, const struct ids *cpus,
		  const struct ids *memory);

struct summary {
	double bytes_per_second;   /* medians */
	double mean_ns, p99_ns;
	double deviation;          /* of the throughput: standard deviation ÷ mean */
};

#define RUNS_MAX 100u

/* n runs, 1 to RUNS_MAX. */
struct summary summarise(const struct fio_result *runs, unsigned n);

#endif
