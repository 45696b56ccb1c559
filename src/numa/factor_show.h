// SPDX-License-Identifier: Apache-2.0
/* What rftp-numa factor has measured, or why it could not, and how it is printed. */
#ifndef RFTP_NUMA_FACTOR_SHOW_H
#define RFTP_NUMA_FACTOR_SHOW_H

#include "numa/factor_events.h"

#define FACTOR_NONE (-1.0) /* of a node to itself: there is no link */

struct factor_cell {
	int memory_node;
	struct walk_result walk;
	double factor;
	unsigned rank;        /* among the remote ones, 1 is the best; 0: local */
};

struct factor_row {
	int cpu_node;
	struct factor_cell *cell;
};

struct factor {
	uint64_t link, bytes; /* link: bytes per second, 0: not known */
	unsigned runs;
	struct factor_events events;
	unsigned rows, cells; /* cells in each row */
	struct factor_row *row;
};

/* On standard output. 0 or a negative errno. */
int factor_say(const struct factor *f);
int factor_emit(const struct factor *f);
/* Not measurable, with the reasons. */
int factor_emit_why(const struct factor *f, const char *const *reasons, unsigned n);

#endif
