// SPDX-License-Identifier: Apache-2.0
/* Where rftp-numa plan has its problem from: a JSON file, the I/O model, and what of it the
 * options and the machine say instead. */
#ifndef RFTP_NUMA_PLAN_PROBLEM_H
#define RFTP_NUMA_PLAN_PROBLEM_H

#include "numa/model.h"
#include "numa/staged.h"

struct plan_source {
	const char *file;    /* NULL: all of the model's machine */
	const char *model;   /* NULL: none, or without a file this machine's */
	const char *data;    /* "0:100G,1:50G"; NULL: the file's */
	const char *nics;    /* "ens1f0,ens2f0"; NULL: the file's limits, or all cards */
	const char *sysfs;   /* NULL: this machine */
};

/* 0; -EINVAL: an option is wrong; another negative errno: a file, what is in it, or the
 * machine. With text. */
int plan_problem(const struct plan_source *from, struct staged_problem *p, struct err *e);

/* The bandwidths of a stage, bytes per second of one thread, out of rows of n: matrix[i * n + k]
 * is from node i to node k. what names them in texts. 0; -EBADMSG, with text. */
int plan_rates(double rates[STAGED_NODES][STAGED_NODES], unsigned n, const double *matrix,
	       const char *what, struct err *e);

/* What plan_file leaves to others. */
struct plan_lacks {
	bool data, threads, disk, network, link_limit, network_limit;
};

/* No disks, links or cards are a limit; p's nodes are there. */
void plan_unlimited(struct staged_problem *p);
/* Only what the file says; data and bandwidths of a file without are 0, its limits none. */
int plan_file(const char *path, struct staged_problem *p, struct plan_lacks *lacks,
	      struct err *e);
/* Of disk, network and link_limit those that are lacking, out of m, which t's machine has; p's
 * nodes, data and network_limit are there. 0; -ENOENT: data or cards are on a node that has not
 * been measured; -EBADMSG; with text, in which m goes without a name. */
int plan_model(const struct model *m, const struct topo *t, const struct plan_lacks *lacks,
	       struct staged_problem *p, struct err *e);

#endif
