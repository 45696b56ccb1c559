// SPDX-License-Identifier: Apache-2.0
/* Where rftp-numa plan has its problem from: a JSON file, and what of it the options and the
 * machine say instead. */
#ifndef RFTP_NUMA_PLAN_PROBLEM_H
#define RFTP_NUMA_PLAN_PROBLEM_H

#include "numa/staged.h"

struct plan_source {
	const char *file;
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
	bool data, threads, network_limit;
};

/* Only what the file says; the data of a file without are 0, its limits none. */
int plan_file(const char *path, struct staged_problem *p, struct plan_lacks *lacks,
	      struct err *e);

#endif
