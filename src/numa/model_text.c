// SPDX-License-Identifier: Apache-2.0
/* The I/O model as tables for people. */
#include "numa/model.h"

#include <stdio.h>
#include <string.h>

#define GBIT 125e6 /* bytes per second; the unit of cards */
#define PERCENT 100
#define CELL_TEXT 96

/* ---- a target's table ---- */

static void say_head(const struct target *t)
{
	char bytes[32], placed[32];

	printf("target node %d: %u thread%s, a buffer of %s each, copied %u time%s a round\n",
	       t->node, t->threads, t->threads == 1 ? "" : "s",
	       format_size(bytes, sizeof(bytes), t->bytes), t->copies, t->copies == 1 ? "" : "s");
	if (t->placed)
		printf("    all pages of %s of buffers are on their nodes\n",
		       format_size(placed, sizeof(placed), t->placed));
	printf("    %-6s%-34s%s\n", "", "device write: node to target",
	       "device read: target to node");
	printf("    %-6s%-34s%s\n", "node", "Gbit/s  deciles          class",
	       "Gbit/s  deciles          class");
}

static char *cell_text(char out[CELL_TEXT], const struct cell *c)
{
	char deciles[32];

	if (!c)
		return strcpy(out, "-");
	snprintf(deciles, sizeof(deciles), "%.2f-%.2f", c->low / GBIT, c->high / GBIT);
	snprintf(out, CELL_TEXT, "%-8.2f%-17s%u", c->median / GBIT, deciles, c->class);
	return out;
}

static void say_node(const struct target *t, int node)
{
	const struct cell *write = row_cell(&t->row[MODEL_WRITE], node);
	const struct cell *read = row_cell(&t->row[MODEL_READ], node);
	char to[CELL_TEXT], from[CELL_TEXT];

	if (write || read)
		printf("    %-6d%-34s%s\n", node, cell_text(to, write), cell_text(from, read));
	else
		printf("    %-6dleft out\n", node);
}

/* ---- its classes ---- */

static void say_classes(const struct row *r)
{
	for (unsigned class = 1; class <= r->classes; class++) {
		struct ids s = { 0 };
		char nodes[128];

		for (unsigned i = 0; i < r->n; i++)
			if (r->cell[i].class == class)
				ids_add(&s, (unsigned)r->cell[i].node);
		printf("%s %u: %s (%.2f)", class > 1 ? ";" : "", class,
		       ids_format(nodes, sizeof(nodes), &s),
		       class_average(r->cell, r->n, class) / GBIT);
	}
}

/* One class: why. */
static void say_none(const struct class_sight *s)
{
	double gap = s->gap * PERCENT, spread = s->spread * PERCENT, least = CLASS_GAP * PERCENT;

	switch (s->view) {
	case CLASSES_ALONE:
		printf(" none: there is no other node to tell from it");
		break;
	case CLASSES_FEW:
		printf(" none: they take %u rounds at least", CLASS_ROUNDS_MIN);
		break;
	case CLASSES_ALIKE:
		printf(" none: the nodes are alike; the widest gap, between nodes %d and %d, is "
		       "%.1f %%, and it takes %.0f %%", s->above, s->below, gap, least);
		break;
	case CLASSES_NOISE:
		printf(" none: too noisy; between nodes %d and %d the gap is %.1f %%, but the "
		       "rounds of a node spread over %.1f %% or reach across; measure when the "
		       "machine is idle", s->above, s->below, gap, spread);
		break;
	case CLASSES_SEEN: /* the file's word, and not ours */
		printf(" all nodes in one");
		break;
	}
}

/* Classes that there are would otherwise hide that there may be more. */
static void say_hidden(const struct class_sight *s)
{
	printf("\n    perhaps more: between nodes %d and %d the gap is %.1f %%, but the rounds of "
	       "a node spread over %.1f %%\n    or reach across; measure when the machine is idle",
	       s->above, s->below, s->gap * PERCENT, s->spread * PERCENT);
}

static void say_row(const struct target *t, enum model_op op, const struct topo *topo)
{
	const struct row *r = &t->row[op];
	CLEANUP_FREE struct cell *copy = NULL;
	struct ids near = model_package(topo, t->node);
	struct class_sight s = { 0 };
	bool sight;

	if (!r->n)
		return;
	printf("    %s classes:", model_op_name(op));
	copy = calloc(r->n, sizeof(*copy));
	if (copy)
		memcpy(copy, r->cell, r->n * sizeof(*copy));
	sight = copy && !classes_find(copy, r->n, t->node, &near, &s);
	if (r->classes == 1 && sight)
		say_none(&s);
	else
		say_classes(r);
	if (s.hidden && s.classes == r->classes)
		say_hidden(&s);
	putchar('\n');
}

void model_say(const struct model *m, const struct topo *t)
{
	printf("measured %s\n", printable(m->date));
	if (m->nodes == 1)
		puts("this machine has one node: there is nothing to compare it with");
	for (unsigned i = 0; i < m->targets; i++) {
		say_head(&m->target[i]);
		for (unsigned k = 0; k < m->nodes; k++)
			say_node(&m->target[i], m->node[k].id);
		for (int op = 0; op < MODEL_OPS; op++)
			say_row(&m->target[i], (enum model_op)op, t);
	}
}
