// SPDX-License-Identifier: Apache-2.0
/* Sums up repetitions, and draws the borders. */
#include "numa/classes.h"

#include "numa/stats.h"

#include <errno.h>
#include <stdlib.h>

#define LOW_SHARE 0.1
#define HIGH_SHARE 0.9

/* ---- a cell ---- */

void cell_sum(struct cell *c, double *v, unsigned n)
{
	c->median = stats_median(v, n);
	c->rounds = n;
	c->low = stats_quantile(v, n, LOW_SHARE);
	c->high = stats_quantile(v, n, HIGH_SHARE);
}

double class_average(const struct cell *v, unsigned n, unsigned class)
{
	double sum = 0;
	unsigned members = 0;

	for (unsigned i = 0; i < n; i++) {
		if (v[i].class != class)
			continue;
		sum += v[i].median;
		members++;
	}
	return members ? sum / members : 0;
}

/* ---- borders ---- */

/* Cells by falling median. */
struct group {
	struct cell **v;
	unsigned n;
};

static double spread(const struct cell *c)
{
	return c->high - c->low;
}

/* Does any cell's repetitions lie on both sides of the line? */
static bool reach_over(const struct group *above, const struct group *below, double line)
{
	for (unsigned i = 0; i < above->n; i++)
		if (above->v[i]->low <= line)
			return true;
	for (unsigned i = 0; i < below->n; i++)
		if (below->v[i]->high >= line)
			return true;
	return false;
}

static bool few_rounds(const struct group *g)
{
	for (unsigned i = 0; i < g->n; i++)
		if (g->v[i]->rounds < CLASS_ROUNDS_MIN)
			return true;
	return false;
}

static enum class_view look(const struct group *above, const struct group *below, double gap,
			    double wider)
{
	const struct cell *a = above->v[above->n - 1], *b = below->v[0];

	if (few_rounds(above) || few_rounds(below))
		return CLASSES_FEW;
	if (gap < CLASS_GAP * a->median)
		return CLASSES_ALIKE;
	if (gap <= wider || reach_over(above, below, (a->median + b->median) / 2))
		return CLASSES_NOISE;
	return CLASSES_SEEN;
}

/* Is there a border between two groups? The widest gap without one is kept in s. */
static bool border(const struct group *above, const struct group *below, struct class_sight *s)
{
	const struct cell *a = above->v[above->n - 1], *b = below->v[0];
	double gap = a->median - b->median;
	double wider = spread(a) > spread(b) ? spread(a) : spread(b);
	enum class_view view = look(above, below, gap, wider);

	if (view != CLASSES_SEEN && (s->view == CLASSES_ALONE || gap / a->median > s->gap))
		*s = (struct class_sight){
			.view = view, .classes = 1, .above = a->node, .below = b->node,
			.gap = gap / a->median, .spread = wider / a->median,
		};
	return view == CLASSES_SEEN;
}

/* ---- a row ---- */

static int by_falling_median(const void *a, const void *b)
{
	const struct cell *x = *(struct cell *const *)a, *y = *(struct cell *const *)b;

	if (x->median != y->median)
		return x->median < y->median ? 1 : -1;
	return x->node - y->node;
}

/* The remote cells in classes from 2 on; how many borders there are between them. */
static unsigned part(const struct group *remote, struct class_sight *s)
{
	unsigned borders = 0;

	for (unsigned i = 0; i < remote->n; i++) {
		struct group above = { remote->v, i }, below = { remote->v + i, remote->n - i };

		if (i && border(&above, &below, s))
			borders++;
		remote->v[i]->class = borders + 2;
	}
	return borders;
}

/* One group of remote nodes: is it another than the target? They may be faster, too. */
static bool apart(struct cell *local, const struct group *remote, struct class_sight *s)
{
	struct group alone = { &local, 1 };

	if (local->median >= remote->v[0]->median)
		return border(&alone, remote, s);
	if (remote->v[remote->n - 1]->median > local->median)
		return border(remote, &alone, s);
	/* In the midst of them; what part() saw is all there is to say. */
	return false;
}

static void sort_out(struct cell *v, unsigned n, int target, const struct ids *near,
		     struct cell **local, struct group *remote)
{
	*local = NULL;
	remote->n = 0;
	for (unsigned i = 0; i < n; i++) {
		v[i].class = 1;
		if (v[i].node == target)
			*local = &v[i];
		else if (!ids_has(near, (unsigned)v[i].node))
			remote->v[remote->n++] = &v[i];
	}
	qsort(remote->v, remote->n, sizeof(struct cell *), by_falling_median);
}

int classes_find(struct cell *v, unsigned n, int target, const struct ids *near,
		 struct class_sight *s)
{
	CLEANUP_FREE struct cell **list = calloc(n + 1, sizeof(struct cell *));
	struct group remote = { list, 0 };
	struct cell *local;
	unsigned borders;

	*s = (struct class_sight){ .view = CLASSES_ALONE, .classes = 1 };
	if (!list)
		return -ENOMEM;
	sort_out(v, n, target, near, &local, &remote);
	if (!remote.n)
		return 0;
	borders = part(&remote, s);
	if (borders || (local && apart(local, &remote, s))) {
		s->hidden = s->view == CLASSES_NOISE;
		s->view = CLASSES_SEEN;
		s->classes = borders + 2;
		return 0;
	}
	for (unsigned i = 0; i < remote.n; i++)
		remote.v[i]->class = 1;
	return 0;
}
