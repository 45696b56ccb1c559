// SPDX-License-Identifier: Apache-2.0
/* Which events there are on this machine for the scheduling factor, and which are missing. */
#ifndef RFTP_NUMA_FACTOR_EVENTS_H
#define RFTP_NUMA_FACTOR_EVENTS_H

#include "numa/walk.h"

/* Counts of a walk, by their place in it. */
enum factor_count { COUNT_TRAFFIC, COUNT_LLC_MISSES, COUNT_NODE_LOADS, COUNT_STALLS };

#define FACTOR_MISSING_MAX 8

struct factor_missing {
	char name[PERF_NAME], why[PERF_WHY];
};

struct factor_events {
	struct perf_event traffic[PERF_EVENTS_MAX];
	unsigned traffic_n;         /* 0: nothing counts it */
	bool approximate;           /* loads from other nodes stand for it */
	struct perf_event other[WALK_COUNTED]; /* from COUNT_LLC_MISSES on */
	bool have[WALK_COUNTED];
	struct factor_missing missing[FACTOR_MISSING_MAX];
	unsigned missing_n;
};

/* Each is opened once, to see whether it can be. snoop: the traffic's event, as perf_parse takes
 * it; NULL: what sysfs calls a snoop, else loads from other nodes. 0; or a negative errno, with
 * text: snoop is no event. */
int factor_events_find(const struct topo *t, const char *snoop, struct factor_events *f,
		       struct err *e);
/* The names of what is missing, with the reason behind those that have the same. */
#define FACTOR_MISSING_TEXT 768
char *factor_missing_text(char text[FACTOR_MISSING_TEXT], const struct factor_events *f);

#endif
