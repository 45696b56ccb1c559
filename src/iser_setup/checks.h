// SPDX-License-Identifier: Apache-2.0
/* Could it be done here, before anything is: each thing that is wrong is a line, with the way to
 * mend it. */
#ifndef RFTP_ISER_CHECKS_H
#define RFTP_ISER_CHECKS_H

#include "iser_setup/carry.h"
#include "numa/numa.h"

struct checks {
	const struct iser_plan *plan;
	const struct topo *t;
	struct lines *problems, *notes;
};

/* python3 with rtslib, numactl. */
void check_tools(const struct checks *c, struct carry *carry);
/* The kernel's modules that the plan needs, and configfs. load: they are loaded and mounted;
 * otherwise it is seen whether they could be. */
void check_kernel(const struct checks *c, bool load);
/* The ways to each target: its addresses, and RDMA devices for them. */
void check_portals(const struct checks *c);
/* Devices, mount points and room for the back stores that are not there yet. */
void check_stores(const struct checks *c, const struct lio *now);
/* Is there memory, on each node and on all, for what steps are going to fill? */
void check_memory(const struct checks *c, const struct iser_steps *s);

#endif
