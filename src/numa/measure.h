// SPDX-License-Identifier: Apache-2.0
/* Measurements: copies between the nodes of this machine, and walks over memory. rftp-numa measure
 * and factor, which are Python, plan them and run them as the internal commands copy and walk. */
#ifndef RFTP_NUMA_MEASURE_H
#define RFTP_NUMA_MEASURE_H

#include "numa/numa.h"

/* ---- copies between nodes (measure.c) ---- */

/* The copies of one target. */
struct copy_plan {
	int target;
	unsigned *cpus, threads; /* a CPU for each thread */
	int *nodes;              /* measured with the target, which is one of them */
	unsigned n;
	uint64_t bytes;          /* of each buffer: whole pages */
	unsigned copies;         /* that each thread makes of a buffer in a round */
	unsigned rounds;
	bool bind;               /* bind the buffers, and check their pages */
	const char *progress;    /* before "round 1 of 10" on standard error; "": show nothing */
};

#define HUGE_PAGE ((size_t)2 << 20)
/* Bytes mapped beyond a buffer's size: the buffer starts and ends inside huge pages. */
#define COPY_SLACK (3 * HUGE_PAGE)

/* {"placed", "write": [[bytes per second, ...], ...], "read": the same}: placed counts the bytes of
 * buffers that are on their nodes; write is from each node to the target, with a list of rounds for
 * each node. A thread has a buffer on every node and one more on the target. NULL with text: also
 * when a page is not on its node. The caller owns the result. */
json_t *copy_run(const struct copy_plan *p, struct err *e);

/* For tests: check that all bytes of a buffer are on its node. 0, or -EIO with text. */
int copy_check(const struct place_count *count, int node, size_t bytes, struct err *e);

/* The command copy: reads the plan from standard input, as JSON with the names of struct copy_plan.
 * {"error"} instead of NULL from copy_run(). NULL with text: no plan. */
json_t *copy_command(char **words, struct err *e);

/* ---- walks over memory of another node (walk.c) ---- */

#define WALK_LINE 64u    /* bytes of a cache line */
#define WALK_COUNTS 4u   /* maximum number of counts of a walk */
#define WALK_RUNS_MAX 100u

/* Events that are added up to one count. */
struct walk_count {
	struct perf_event *events;
	unsigned n;
};

struct walk {
	int cpu, node;       /* CPU of the thread; node of its memory */
	uint64_t bytes;
	unsigned runs;       /* 1 to WALK_RUNS_MAX */
	struct walk_count count[WALK_COUNTS];
	unsigned counts;
};

/* The command walk: reads the walk as JSON from standard input. Without runs it only tries the
 * counters: {"opened": [0 or a negative errno, ...]}. {"error"} instead of NULL from walk_run().
 * NULL with text: no walk. */
json_t *walk_command(char **words, struct err *e);

/* Walk in the calling thread, which stays bound to w->cpu afterwards. {"lines", "prefetch_ns":
 * [...], "load_ns": [...], "counts": [[...], ...]}, one element for each run. prefetch_ns:
 * nanoseconds for each line in address order; load_ns: the same when each line contains the index
 * of the next; counts: for the walk in address order. NULL with text. */
json_t *walk_run(const struct walk *w, struct err *e);

/* ---- counters of the processor ---- */

struct perf_event {
	uint32_t type;               /* as in struct perf_event_attr */
	uint64_t config[3];          /* config, config1, config2 */
	struct ids cpus;             /* count all processes on these CPUs; empty: this thread */
};

/* One reading of an event. It was enabled for enabled nanoseconds and counted for running
 * nanoseconds of them; running is smaller if there are more events than counters. */
struct perf_reading {
	uint64_t value, enabled, running;
};

/* The count, scaled to the whole enabled time. 0; -ENODATA: it was never counted. */
int perf_scale(const struct perf_reading *r, double *count);

struct perf_counters {
	int *fd;
	unsigned n;
};

/* Open all events, disabled. Events without CPUs count in the calling thread, and only that thread
 * can use them. 0 or a negative errno; call perf_close() in any case. */
int perf_open(const struct perf_event *events, unsigned n, struct perf_counters *c);
void perf_start(const struct perf_counters *c);

/* Stop counting; *count is the sum of all events. 0; -ENODATA: one of them was never counted;
 * another negative errno. */
int perf_stop(const struct perf_counters *c, double *count);
void perf_close(struct perf_counters *c);

#endif
