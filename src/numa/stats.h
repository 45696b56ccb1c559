// SPDX-License-Identifier: Apache-2.0
/* What several repetitions of a measurement come to. Pure. */
#ifndef RFTP_NUMA_STATS_H
#define RFTP_NUMA_STATS_H

/* All of these take n > 0 numbers. */

void stats_sort(double *v, unsigned n);
/* Of sorted numbers, between the two that are nearest to that share of them, in proportion. */
double stats_quantile(const double *v, unsigned n, double share);
/* Sorts v. */
double stats_median(double *v, unsigned n);

#endif
