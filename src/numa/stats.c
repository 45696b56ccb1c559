// SPDX-License-Identifier: Apache-2.0
/* Order statistics. */
#include "numa/stats.h"

#include <stdlib.h>

static int by_value(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

void stats_sort(double *v, unsigned n)
{
	qsort(v, n, sizeof(*v), by_value);
}

double stats_quantile(const double *v, unsigned n, double share)
{
	double at = (n - 1) * share;
	unsigned i = (unsigned)at;

	return i + 1 < n ? v[i] + (v[i + 1] - v[i]) * (at - i) : v[i];
}

double stats_median(double *v, unsigned n)
{
	stats_sort(v, n);
	return stats_quantile(v, n, 0.5);
}
