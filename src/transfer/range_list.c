// SPDX-License-Identifier: Apache-2.0
/* Ranges of data, merged over the smaller half of the holes whenever there are too many. */
#include "transfer/range_list.h"

#include <errno.h>
#include <stdlib.h>

static uint64_t end_of(const struct bulk_range *r)
{
	return r->offset + r->length;
}

/* Let the last range reach to what follows it closely. */
static bool extend(struct range_list *g, uint64_t off, uint64_t len)
{
	struct bulk_range *last = g->n ? &g->v[g->n - 1] : NULL;
	uint64_t end = off + len;

	if (!last || off - end_of(last) > g->gap)
		return false;
	g->bytes += end - end_of(last);
	last->length = end - last->offset;
	return true;
}

static int append(struct range_list *g, uint64_t off, uint64_t len)
{
	if (g->n == g->room) {
		uint32_t room = g->room ? 2 * g->room : 16;
		struct bulk_range *v = reallocarray(g->v, room, sizeof(*v));

		if (!v)
			return -ENOMEM;
		g->v = v;
		g->room = room;
	}
	g->v[g->n++] = (struct bulk_range){ off, len };
	g->bytes += len;
	return 0;
}

static int by_size(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return x < y ? -1 : x > y;
}

/* The hole that half of all are not larger than. 0: memory is out. */
static uint64_t median_hole(const struct range_list *g)
{
	uint64_t *holes CLEANUP_FREE = calloc(g->n - 1, sizeof(*holes));

	if (!holes)
		return 0;
	for (uint32_t i = 0; i + 1 < g->n; i++)
		holes[i] = g->v[i + 1].offset - end_of(&g->v[i]);
	qsort(holes, g->n - 1, sizeof(*holes), by_size);
	return holes[(g->n - 1) / 2];
}

/* Give up the smaller half of the holes. */
static int coarsen(struct range_list *g)
{
	uint32_t n = g->n;
	uint64_t gap = median_hole(g);

	if (!gap)
		return -ENOMEM;
	g->gap = gap;
	g->n = 0;
	g->bytes = 0;
	for (uint32_t i = 0; i < n; i++) {
		struct bulk_range r = g->v[i];

		if (!extend(g, r.offset, r.length))
			(void)append(g, r.offset, r.length); /* there is room */
	}
	return 0;
}

int range_list_add(struct range_list *g, uint64_t off, uint64_t len)
{
	if (extend(g, off, len))
		return 0;
	if (g->n == BULK_RANGES_MAX && coarsen(g))
		return -ENOMEM;
	return extend(g, off, len) ? 0 : append(g, off, len);
}
