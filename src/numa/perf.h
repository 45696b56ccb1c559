// SPDX-License-Identifier: Apache-2.0
/* Counters of the processor and of the units around it: perf_event_open(2). */
#ifndef RFTP_NUMA_PERF_H
#define RFTP_NUMA_PERF_H

#include "numa/numa.h"

struct perf_event {
	uint32_t type;               /* as in struct perf_event_attr */
	uint64_t config[3];          /* config, config1, config2 */
	struct ids cpus;             /* counts all that these CPUs' units do; empty: a thread */
};

/* One reading: how often it was seen while it was on, in nanoseconds of which it was counted
 * only for running, when there are more events than counters. */
struct perf_reading {
	uint64_t value, enabled, running;
};

/* What it would have been had it been counted all the time. 0; -ENODATA: it never was. */
int perf_scale(const struct perf_reading *r, double *count);

struct perf_counters {
	int *fd;
	unsigned n;
};

/* Open, not yet counting, all these events; a thread's are the caller's, which alone can use
 * them. perf_close in any case. 0 or a negative errno. */
int perf_open(const struct perf_event *events, unsigned n, struct perf_counters *c);
void perf_start(const struct perf_counters *c);
/* Stop; *count is the sum. 0; -ENODATA: one of them was never counted; another negative errno. */
int perf_stop(const struct perf_counters *c, double *count);
void perf_close(struct perf_counters *c);

#endif
