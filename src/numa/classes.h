// SPDX-License-Identifier: Apache-2.0
/* Classes of nodes by the bandwidths that were measured from and to a target node (T. Li,
 * dissertation, Stony Brook 2015, chapter 4). Pure.
 *
 * Class 1 is by definition the target and the nodes in its package. The other nodes are sorted
 * by bandwidth, and a border is drawn where all of this is so:
 * - the gap between the medians of two neighbours is at least a tenth of the higher one;
 * - it is wider than the spread of either's own repetitions;
 * - no node's repetitions reach over its middle, on whichever side that node is.
 * When there is no border between the others, and none by the same rule between the target and
 * them, there are no classes: all nodes are in one.
 *
 * On gaps: in the published tables the nodes of one class are up to 8.5 % apart, and classes at
 * least 12.8 %. On the spread: from the first to the ninth decile, so that one disturbed
 * round of ten does not hide a border. Between nodes that are alike, however noisy, ten rounds
 * let fewer than one row of a thousand have a border; with quartiles it is nearly one of a
 * hundred. */
#ifndef RFTP_NUMA_CLASSES_H
#define RFTP_NUMA_CLASSES_H

#include "numa/numa.h"

#define CLASS_GAP 0.10     /* of the higher bandwidth */
#define CLASS_ROUNDS_MIN 5 /* fewer repetitions say nothing about their spread */

/* The bandwidth between the target and a node, of several repetitions; bytes per second. */
struct cell {
	int node;
	unsigned rounds;
	double median, low, high; /* low, high: the first and the ninth decile */
	unsigned class;           /* from 1 */
};

/* Fill c's rounds, median, low and high from v, n > 0 of them, which are sorted. */
void cell_sum(struct cell *c, double *v, unsigned n);

enum class_view {
	CLASSES_SEEN,
	CLASSES_ALONE, /* no other node but those that are near by definition */
	CLASSES_FEW,   /* too few rounds */
	CLASSES_ALIKE, /* no gap is wide enough */
	CLASSES_NOISE, /* one would be, but for the spread */
};

/* What was seen, and the widest gap that has no border: what there is to say when it is one class,
 * or when the spread hides one more. */
struct class_sight {
	enum class_view view;
	unsigned classes;     /* at least 1 */
	bool hidden;          /* classes are seen, and but for the spread there would be one more */
	int above, below;     /* the nodes on its sides */
	double gap, spread;   /* and the wider of their spreads; both as parts of the higher
			       * bandwidth */
};

/* Give each of v's n cells its class. target: the one of v that is local; near: the nodes of
 * its package. 0 or -ENOMEM. */
int classes_find(struct cell *v, unsigned n, int target, const struct ids *near,
		 struct class_sight *s);
/* The mean of a class's bandwidths; 0 when it has no nodes. */
double class_average(const struct cell *v, unsigned n, unsigned class);

#endif
