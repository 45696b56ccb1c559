// SPDX-License-Identifier: Apache-2.0
/* Measures copies between the nodes of this machine, for its I/O model. */
#ifndef RFTP_NUMA_MEASURE_H
#define RFTP_NUMA_MEASURE_H

#include "numa/numa.h"

struct measure_config {
	int target;        /* NODE_UNKNOWN: each node that can be one */
	unsigned threads;  /* 0: as many as the target has cores that we may use */
	uint64_t bytes;    /* of a thread's buffer; 0: by the caches */
	unsigned copies, rounds;
	const struct stop *stop;
	/* Called before each round, unless it is NULL. target: counted from 1. */
	void (*progress)(unsigned target, unsigned targets, unsigned round, unsigned rounds);
};

/* {"targets": [{"node", "threads", "buffer", "placed", "copies", "write": [{"node", "rounds":
 * [bytes per second, ...]}, ...], "read": the same}, ...]}; write is from the node to the target.
 * Nodes that cannot be measured (without memory, or with none for this process) are left out with
 * a line in the log. NULL with text; e's code is -EINTR when it was asked to stop. */
json_t *measure(const struct topo *t, const struct measure_config *c, struct err *e);

/* ---- how a target is measured ---- */

struct measure_plan {
	int target;
	unsigned *cpus, threads; /* a CPU for each thread */
	int *nodes;              /* that are measured with it, itself among them */
	unsigned n;
	uint64_t bytes;          /* of each buffer */
	bool bind;
};

/* 0, or a negative errno with text; measure_plan_free after either. */
int measure_plan(const struct topo *t, const struct measure_config *c, int target,
		 struct measure_plan *p, struct err *e);
void measure_plan_free(struct measure_plan *p);

/* A thread's buffer, so large that caches do not matter. */
uint64_t measure_bytes(const struct caches *c, unsigned threads);
/* The largest that it may have on a node with so much room, of which half is taken, for so many
 * buffers with their slack; whole huge pages. */
uint64_t measure_fit(uint64_t room, unsigned buffers);
/* One CPU for each of so many threads, out of allowed: cores first, then their other threads.
 * Into cpus; false: there are not so many. */
bool measure_cpus(const struct topo *t, const struct ids *allowed, unsigned threads,
		  unsigned *cpus);

#endif
