// SPDX-License-Identifier: Apache-2.0
/* rftp-numa's commands. */
#ifndef RFTP_NUMA_TOOL_H
#define RFTP_NUMA_TOOL_H

#include "numa/numa.h"

enum tool_status { TOOL_DONE = 0, TOOL_FAILED = 1, TOOL_USAGE = 2 };

struct tool_options {
	const char *sysfs;  /* NULL: this machine's */
	bool json;
};

enum tool_status tool_topo(const struct tool_options *o);

#endif
