// SPDX-License-Identifier: Apache-2.0
/* What the search (staged_search.c) and the linear programme (staged_lp.c) share: the problem
 * as lists of the stages and links that can carry anything (staged_net.c). */
#ifndef RFTP_NUMA_STAGED_LP_H
#define RFTP_NUMA_STAGED_LP_H

#include "numa/staged.h"

#define STAGES_MAX (2u * STAGED_NODES * STAGED_NODES)
#define LINKS_MAX (2u * STAGED_NODES + STAGED_NODES * STAGED_NODES)
#define STAGE_LINKS 2

/* Bytes are in units of all data, rates in units of the greatest: a programme of numbers
 * between 0 and 1 is what a solver's tolerances are made for. */
struct stage {
	bool network;            /* else disk */
	unsigned from, to;
	unsigned memory;         /* v */
	double rate;             /* of one thread */
	unsigned most;           /* threads that can be of use */
	int link[STAGE_LINKS];   /* that it goes over; -1: none */
};

struct net {
	const struct staged_problem *p;
	enum staged_objective objective;
	double bytes, seconds;   /* the units */
	unsigned stages, links;
	struct stage stage[STAGES_MAX];
	double link[LINKS_MAX];  /* their rates */
};

/* Ranges of threads: of stage s from lo[s] to hi[s]. */
struct ranges {
	unsigned *lo, *hi;
};

void net_make(struct net *net, const struct staged_problem *p, enum staged_objective objective);
/* Lowers what is above what the others of a node leave, and what has nothing to do: memory that
 * is not filled is not emptied, and the other way round. False: there is no choice in them. */
bool ranges_tighten(const struct net *net, const struct ranges *r);

struct relaxed {
	double objective;        /* no choice of threads in the ranges is below */
	double *bytes;           /* by stage */
	double *threads;         /* by stage: what it needs, not whole */
};

/* The linear programme over the bytes where each stage has any number of threads in its range,
 * those of a node together no more than it has; when lo is hi, the same list, it is eq. 5.1
 * itself. 0; -EDOM:
 * there is no solution; -ECANCELED: go_on said no; -EIO; -ENOMEM; -ENOSYS. */
int lp_relax(const struct net *net, const struct ranges *r, bool (*go_on)(void *), void *arg,
	     struct relaxed *out);

/* What decides when the objective does not: the other one, with this weight. */
#define OTHER_OBJECTIVE 1e-7

#endif
