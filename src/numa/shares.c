// SPDX-License-Identifier: Apache-2.0
/* The bandwidth of accesses to several nodes, by their shares. */
#include "numa/model.h"

#include <ctype.h>
#include <errno.h>
#include <string.h>

#define PERCENT (SHARE_ALL / 100)

/* "33.25", up to a whole, as a part of SHARE_ALL; *p moves behind it. */
static int take_part(const char **p, unsigned *part)
{
	unsigned v = 0;

	if (!isdigit((unsigned char)**p))
		return -EINVAL;
	for (; isdigit((unsigned char)**p); ++*p) {
		v = v * 10 + (unsigned)(**p - '0') * PERCENT;
		if (v > SHARE_ALL)
			return -EINVAL;
	}
	if (**p == '.') {
		++*p;
		for (unsigned unit = PERCENT / 10; isdigit((unsigned char)**p); ++*p, unit /= 10) {
			if (!unit)
				return -EINVAL; /* finer than can be told */
			v += (unsigned)(**p - '0') * unit;
		}
	}
	*part = v;
	return v <= SHARE_ALL ? 0 : -EINVAL;
}

static int take_node(const char **p, int *node)
{
	unsigned v = 0;

	if (!isdigit((unsigned char)**p))
		return -EINVAL;
	for (; isdigit((unsigned char)**p); ++*p) {
		v = v * 10 + (unsigned)(**p - '0');
		if (v > NODE_MOST)
			return -EINVAL;
	}
	*node = (int)v;
	return *(*p)++ == ':' ? 0 : -EINVAL;
}

static bool has_node(const struct share *v, unsigned n, int node)
{
	for (unsigned i = 0; i < n; i++)
		if (v[i].node == node)
			return true;
	return false;
}

int shares_parse(const char *text, struct share v[SHARES_MAX], unsigned *n, struct err *e)
{
	const char *p = text;
	uint64_t sum = 0;

	*n = 0;
	do {
		struct share s;

		if (take_node(&p, &s.node) || take_part(&p, &s.part) || (*p && *p != ','))
			return err_set(e, -EINVAL, "shares are NODE:PERCENT,..., as 2:50,0:50, "
				       "not \"%s\"", printable(text));
		/* No node twice: there is room for as many as there are numbers. */
		if (has_node(v, *n, s.node))
			return err_set(e, -EINVAL, "node %d has two shares in \"%s\"", s.node,
				       printable(text));
		sum += s.part;
		v[(*n)++] = s;
	} while (*p++ == ',');
	if (sum != SHARE_ALL)
		return err_set(e, -EINVAL, "the shares in \"%s\" are %g percent in sum, not 100",
			       printable(text), (double)sum / PERCENT);
	return 0;
}

int shares_predict(const struct row *r, const struct share *v, unsigned n, double *bw,
		   struct err *e)
{
	*bw = 0;
	for (unsigned i = 0; i < n; i++) {
		const struct cell *c = row_cell(r, v[i].node);

		if (!c)
			return err_set(e, -ENOENT, "node %d was not measured", v[i].node);
		*bw += class_average(r->cell, r->n, c->class) * v[i].part / SHARE_ALL;
	}
	return 0;
}
