// SPDX-License-Identifier: Apache-2.0
/* Counters of the processor and of what is around it: perf_event_open(2), and the descriptions
 * of events in sysfs (Documentation/ABI/testing/sysfs-bus-event_source-devices-*). */
#ifndef RFTP_NUMA_PERF_H
#define RFTP_NUMA_PERF_H

#include "numa/numa.h"

#define PERF_NAME 96
#define PERF_EVENTS_MAX 64 /* of one name: uncore units come in dozens */

struct perf_event {
	char name[PERF_NAME];
	uint32_t type;               /* as in struct perf_event_attr */
	uint64_t config[3];          /* config, config1, config2 */
	struct ids cpus;             /* counts all that these CPUs' units do; empty: a thread */
};

/* ---- descriptions ---- */

/* "cpu/event=0xb7,umask=1/", "cpu/mem-loads/", "uncore_upi_*\/event=2/": the PMU's name, "*" at
 * its end for any, and terms as its format in sysfs has them, or one of its events. How many
 * events there are to be added up, at most PERF_EVENTS_MAX; or a negative errno with text:
 * -ENOENT: there is no such PMU, or it has no such event. */
int perf_parse(const struct topo *t, const char *text, struct perf_event *out, struct err *e);
/* What sysfs calls a snoop, on the core or on the links. As perf_parse; 0: nothing is. */
int perf_find_snoops(const struct topo *t, struct perf_event *out, struct err *e);

/* ---- counting ---- */

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
 * them. perf_close in any case. 0 or a negative errno; perf_why says what it means. */
int perf_open(const struct perf_event *events, unsigned n, struct perf_counters *c);
void perf_start(const struct perf_counters *c);
/* Stop; *count is the sum. 0; -ENODATA: one of them was never counted; another negative errno. */
int perf_stop(const struct perf_counters *c, double *count);
void perf_close(struct perf_counters *c);

/* Why an event cannot be opened, for people, and what to do. paranoid: the sysctl
 * kernel.perf_event_paranoid; INT_MAX: not known. Static, or in text. */
#define PERF_WHY 160
const char *perf_why(int code, int paranoid, char text[PERF_WHY]);
int perf_paranoid(void);

#endif
