// SPDX-License-Identifier: Apache-2.0
/* The NUMA scheduling factor (Li, dissertation 2015, eq. 3.2): traffic of cache coherency ×
 * latency of prefetched reads ÷ width of the link. The larger, the worse it is to run on one
 * node and have memory on the other. Pure. */
#ifndef RFTP_NUMA_FACTOR_H
#define RFTP_NUMA_FACTOR_H

#include <stdint.h>

/* What a walk over memory has cost. */
struct factor_counts {
	double snoops;         /* counted during it */
	double lines;          /* cache lines that it read */
	double prefetch_ns;    /* for a line, read one after the other */
};

/* Snoops per line × ns ÷ GB/s. link: bytes per second; 0: not known, and then 1 GB/s stands
 * for every link, so that factors can be compared but are no more than that. 0; -EINVAL: no
 * line, no latency, or what is no number or below 0; -ERANGE: too large a number comes out;
 * *factor is 0 then. */
int factor_of(const struct factor_counts *c, uint64_t link, double *factor);

/* rank[i] of factor[i]: 1 is the best (least); what is equal has the same; a negative factor
 * is none, and gets 0. */
void factor_ranks(const double *factor, unsigned n, unsigned *rank);

#endif
