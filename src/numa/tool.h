// SPDX-License-Identifier: Apache-2.0
/* rftp-numa's commands that are in C. */
#ifndef RFTP_NUMA_TOOL_H
#define RFTP_NUMA_TOOL_H

#include "numa/numa.h"

tool_run tool_topo;
tool_run tool_measure;
tool_run tool_keep;
tool_run tool_check;
tool_run tool_walk;

#endif
