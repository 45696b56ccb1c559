// SPDX-License-Identifier: Apache-2.0
/* What is up on this host: the targets of each plan as LIO has them, with what they stand on. */
#ifndef RFTP_ISER_SEEN_H
#define RFTP_ISER_SEEN_H

#include "iser_setup/lines.h"
#include "iser_setup/look.h"
#include "iser_setup/threads.h"

struct seen_target {
	const struct iser_target *plan; /* as one of the plans has it */
	const struct lio_target *there; /* NULL: LIO does not have it */
	struct card_facts *cards;       /* of there's portals */
	struct store_facts *stores;     /* of its LUNs' back stores */
};

struct seen_plan {
	struct iser_state state;
	bool restarted;                 /* the host was, since it was applied */
	struct seen_target *targets;
	size_t n_targets;
};

struct seen {
	struct topo *t;
	struct lio *lio;
	struct seen_plan *plans;
	size_t n_plans;
	bool plans_known;               /* all plans of this host could be read */
	struct lio_threads threads;
	struct lines unseen;            /* what could not be looked at, and why */
};

/* dir: of the states, as iser_state_open's. name: of one plan, -ENOENT when it is not there; NULL:
 * all. 0, or a negative errno with text. s is seen_clear's in any case. */
int seen_read(struct seen *s, const char *dir, const char *name, struct err *e);
void seen_clear(struct seen *s);

/* The states alone; the first that s can have. For who judges them. */
int seen_plans(struct seen *s, const char *dir, const char *name, struct err *e);
/* The plan that is in force, or is to be; NULL: the state has none. */
const struct iser_plan *seen_plan(const struct iser_state *s);
/* Does one of the plans name this target? */
bool seen_ours(const struct seen *s, const char *iqn);
/* LUN i's back store; NULL: its link is broken. */
const struct lio_store *seen_store(const struct seen *s, const struct lio_target *t, size_t i);
/* "tmpfs", "file", ...: what people would call it. */
const char *seen_kind(const struct lio_store *s, const struct store_facts *f);
/* The nodes that cpus are of. */
struct ids seen_nodes(const struct topo *t, const struct ids *cpus);

/* ---- status_show.c, status_json.c ---- */

/* all: not those of one plan alone. */
void status_show(const struct seen *s, bool all);
/* 0 or a negative errno. */
int status_emit(const struct seen *s, bool all);

#endif
