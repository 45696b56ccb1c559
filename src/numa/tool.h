// SPDX-License-Identifier: Apache-2.0
/* rftp-numa's commands. */
#ifndef RFTP_NUMA_TOOL_H
#define RFTP_NUMA_TOOL_H

#include "numa/numa.h"

tool_run tool_topo;
tool_run tool_model;
tool_run tool_plan;
tool_run tool_affinity;
tool_run tool_factor;

#endif
