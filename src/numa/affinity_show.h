// SPDX-License-Identifier: Apache-2.0
/* What rftp-numa affinity has measured, and how it is printed. */
#ifndef RFTP_NUMA_AFFINITY_SHOW_H
#define RFTP_NUMA_AFFINITY_SHOW_H

#include "numa/affinity.h"

struct affinity {
	const char *path;
	bool write, direct;
	uint64_t block, size;
	unsigned jobs, seconds, runs;
	int device, remote;      /* nodes; NODE_UNKNOWN: there is no remote one */
	struct ids allowed;      /* CPUs */
	struct ids memory;       /* nodes whose memory we may have */
	unsigned n;
	struct placement placement[PLACEMENTS_MAX];
	struct fio_result result[PLACEMENTS_MAX][RUNS_MAX];
};

/* On standard output, for people and for programs. 0 or a negative errno. */
int affinity_say(const struct affinity *a);
int affinity_emit(const struct affinity *a);

#endif
