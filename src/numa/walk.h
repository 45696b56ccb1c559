// SPDX-License-Identifier: Apache-2.0
/* Walks over memory of one node by a thread on another, timed and counted. */
#ifndef RFTP_NUMA_WALK_H
#define RFTP_NUMA_WALK_H

#include "numa/perf.h"

#define WALK_LINE 64u    /* bytes of a cache line */
#define WALK_COUNTS 4u   /* at most so many counts in a walk */
#define WALK_RUNS_MAX 100u

/* Events whose sum is one count. */
struct walk_count {
	struct perf_event *events;
	unsigned n;
};

struct walk {
	int cpu, node;       /* where the thread runs; where its memory is */
	uint64_t bytes;
	unsigned runs;       /* 1 to WALK_RUNS_MAX */
	struct walk_count count[WALK_COUNTS];
	unsigned counts;
};

struct walk_result {
	uint64_t lines;                      /* that a counted walk reads, in their order */
	double prefetch_ns[WALK_RUNS_MAX];   /* for a line, of lines in their order */
	double load_ns[WALK_RUNS_MAX];       /* for a line, each named by the one before it */
	double count[WALK_COUNTS][WALK_RUNS_MAX]; /* in a walk over lines in their order */
};

/* By the calling thread, which stays on that CPU. 0 or a negative errno, with text. */
int walk_run(const struct walk *w, struct walk_result *r, struct err *e);

#endif
