// SPDX-License-Identifier: Apache-2.0
/* The arithmetic of the scheduling factor. */
#include "numa/factor.h"

#include <errno.h>
#include <math.h>
#include <stdbool.h>

#define GIGA 1e9

static bool is_count(double v)
{
	return isfinite(v) && v >= 0;
}

int factor_of(const struct factor_counts *c, uint64_t link, double *factor)
{
	double width = link ? (double)link / GIGA : 1, f;

	*factor = 0;
	if (!is_count(c->snoops) || !is_count(c->lines) || !is_count(c->prefetch_ns) ||
	    c->lines == 0 || c->prefetch_ns == 0)
		return -EINVAL;
	f = c->snoops / c->lines * c->prefetch_ns / width;
	if (!isfinite(f))
		return -ERANGE;
	*factor = f;
	return 0;
}

void factor_ranks(const double *factor, unsigned n, unsigned *rank)
{
	for (unsigned i = 0; i < n; i++) {
		rank[i] = factor[i] >= 0;
		for (unsigned k = 0; rank[i] && k < n; k++)
			if (factor[k] >= 0 && factor[k] < factor[i])
				rank[i]++;
	}
}
