// SPDX-License-Identifier: Apache-2.0
/* staged: how many threads carry which bytes, from the disks of a storage node u into the
 * memory of a node v, and from there out by the network cards of a node w (Li, dissertation
 * 2015, eq. 5.1 to 5.6). Pure: it touches nothing but what it is given. */
#ifndef RFTP_NUMA_STAGED_H
#define RFTP_NUMA_STAGED_H

#include "util/util.h"

#include <stdbool.h>
#include <stdint.h>

#define STAGED_NODES 32
#define STAGED_THREADS 4096u  /* of a node, at most */
#define STAGED_RATE 1e15      /* bytes per second, at most */
#define STAGED_DATA 0x1p62    /* bytes of all nodes together, at most */
#define STAGED_LEAST 1e-6     /* of the greatest; what is smaller is to be 0 */

/* Nodes go by their place in id; rates are bytes per second. */
struct staged_problem {
	unsigned n;
	int id[STAGED_NODES];                          /* the kernel's numbers, for texts */
	double data[STAGED_NODES];                     /* D(u): bytes */
	unsigned threads[STAGED_NODES];                /* C(v) */
	double disk[STAGED_NODES][STAGED_NODES];       /* of one thread, [u][v]; 0: no way */
	double network[STAGED_NODES][STAGED_NODES];    /* of one thread, [v][w]; 0: no way */
	/* Bmax of the disks of u, of the link from a node to another (to itself: of its memory),
	 * of the cards of w. INFINITY: none; 0: no way. */
	double disk_limit[STAGED_NODES];
	double link_limit[STAGED_NODES][STAGED_NODES];
	double network_limit[STAGED_NODES];
};

enum staged_objective {
	STAGED_SUM,       /* the sum of the times of all paths, as eq. 5.1 has it */
	STAGED_MAKESPAN,  /* the time until the last byte is gone */
};

struct staged_flow {
	double threads;   /* whole in what staged_solve finds */
	double bytes;
};

struct staged_plan {
	struct staged_flow disk[STAGED_NODES][STAGED_NODES];     /* [u][v] */
	struct staged_flow network[STAGED_NODES][STAGED_NODES];  /* [v][w] */
};

/* ---- is there a way at all ---- */

/* That there is data, no more than can be counted, and that all of it has a way out by nodes with
 * two threads at least; and that nothing is lost beside the rest. 0; -EDOM, with text. */
int staged_check(const struct staged_problem *p, struct err *e);

/* ---- what a plan takes ---- */

enum staged_kind {
	STAGED_DISK_THREADS,     /* from u to v */
	STAGED_NETWORK_THREADS,  /* from v to w */
	STAGED_DISK,             /* of from */
	STAGED_LINK,
	STAGED_NETWORK,          /* of to */
};

/* Seconds that a stage or a link is busy with all that it carries; 0: nothing. */
double staged_time(const struct staged_problem *p, const struct staged_plan *plan,
		   enum staged_kind kind, unsigned from, unsigned to);
/* Of the slowest part of the path; 0 for one that has no threads in both stages. */
double staged_path_time(const struct staged_problem *p, const struct staged_plan *plan,
			unsigned u, unsigned v, unsigned w);
/* What goes by this path when the bytes in v's memory leave it in proportion. */
double staged_path_bytes(const struct staged_plan *plan, unsigned n, unsigned u, unsigned v,
			 unsigned w);
double staged_sum(const struct staged_problem *p, const struct staged_plan *plan);
double staged_makespan(const struct staged_problem *p, const struct staged_plan *plan);

struct staged_part {
	enum staged_kind kind;
	unsigned from, to;
};

#define STAGED_PARTS (3u * STAGED_NODES * STAGED_NODES + 2u * STAGED_NODES) /* that there can be */

/* The parts that hold up the last byte: links, and stages that can have no further thread. At
 * most room of them; how many. */
unsigned staged_bottlenecks(const struct staged_problem *p, const struct staged_plan *plan,
			    struct staged_part *out, unsigned room);

/* No plan: each storage's data over all memory alike, from there to all cards alike, the threads
 * of a node shared alike between reading and sending, and among what they read from or send to.
 * 0; -EDOM: some of these ways do not exist. */
int staged_spread(const struct staged_problem *p, struct staged_plan *plan);

/* ---- the best plan ---- */

struct staged_state {
	uint64_t programmes;  /* linear programmes solved */
	double best;          /* seconds of the objective; INFINITY: no plan yet */
	double bound;         /* no plan takes less */
	bool proven;          /* none is better by more than STAGED_GAP */
};

#define STAGED_GAP 1e-6   /* of the objective */

/* Called now and then by the thread that solves; false ends the search. */
typedef bool staged_go_on(void *arg, const struct staged_state *s);

/* Enumerates the threads by halving their ranges, where the linear programme that relaxes all
 * that is still open prunes; go_on may be NULL. 0: the best plan that was found, *s tells
 * whether it is proven. -EDOM: there is none, -ECANCELED: none found until go_on said no,
 * -ENOSYS: a build without lp_solve, -EIO: lp_solve failed; with text. Not from two threads at
 * once: lp_solve's factorisation has static variables. */
int staged_solve(const struct staged_problem *p, enum staged_objective objective,
		 staged_go_on *go_on, void *arg, struct staged_plan *plan,
		 struct staged_state *s, struct err *e);
bool staged_can_solve(void);

#endif
