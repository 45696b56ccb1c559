// SPDX-License-Identifier: Apache-2.0
/* Walks over memory of one node by a thread on another, timed and counted. */
#ifndef RFTP_NUMA_WALK_H
#define RFTP_NUMA_WALK_H

#include "numa/perf.h"

#define WALK_LINE 64u    /* bytes of a cache line */
#define WALK_COUNTED 4u  /* at most so many counts in a walk */
#define WALK_RUNS_MAX 100u

struct walk_counted {
	const struct perf_event *events; /* of which the sum is one count */
	unsigned n;
};

struct walk {
	int cpu, node;       /* where the thread runs; where its memory is */
	uint64_t bytes;
	unsigned runs;       /* 1 to WALK_RUNS_MAX */
	struct walk_counted counted[WALK_COUNTED];
};

/* Medians over the runs. */
struct walk_result {
	double prefetch_ns;           /* for a line, of lines in their order */
	double load_ns;               /* for a line, each named by the one before it */
	double lines;                 /* that a counted walk reads, in their order */
	double count[WALK_COUNTED];   /* in such a walk; -1: not asked for */
};

/* In a thread of its own. 0 or a negative errno, with text. */
int walk_run(const struct walk *w, struct walk_result *r, struct err *e);

#endif
