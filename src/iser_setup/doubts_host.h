// SPDX-License-Identifier: Apache-2.0
/* What of a plan does not go with its host; for doubts.c. */
#ifndef RFTP_ISER_DOUBTS_HOST_H
#define RFTP_ISER_DOUBTS_HOST_H

#include "iser_setup/planner.h"

/* Nodes, portals and back stores of p, as h has them; added to notes. */
void doubts_host(const struct iser_plan *p, const struct planner_host *h, struct lines *notes);

#endif
