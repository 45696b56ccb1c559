// SPDX-License-Identifier: Apache-2.0
/* The facts, read from this host; nothing is changed. */
#ifndef RFTP_ISER_LOOK_H
#define RFTP_ISER_LOOK_H

#include "iser_setup/facts.h"
#include "iser_setup/state.h"
#include "iser_setup/system.h"

/* Where a back store of LIO's is. f is all 0 before. What cannot be seen is no error; -ENOMEM. */
int look_store(const struct topo *t, const struct lio_store *s, struct store_facts *f);

struct look_ask {
	const struct iser_plan *plan;    /* one of state's */
	const struct iser_state *state;
	const struct iser_state *others; /* those of other names */
	size_t n_others;
	const struct lio *now;
	const struct topo *t;
};

/* NULL: memory is out. facts_free's, with a->plan. */
struct facts *facts_read(const struct look_ask *a);

#endif
