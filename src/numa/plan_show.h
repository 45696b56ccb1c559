// SPDX-License-Identifier: Apache-2.0
/* How rftp-numa plan shows what it found. */
#ifndef RFTP_NUMA_PLAN_SHOW_H
#define RFTP_NUMA_PLAN_SHOW_H

#include "numa/staged.h"

struct plan_found {
	const struct staged_problem *problem;
	enum staged_objective objective;
	struct staged_plan plan;
	struct staged_state state;
};

const char *plan_objective(enum staged_objective o); /* its word on the command line */
/* On stdout, for people, or as JSON; 0 or a negative errno. */
int plan_say(const struct plan_found *f);
int plan_emit(const struct plan_found *f);

#endif
