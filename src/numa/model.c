// SPDX-License-Identifier: Apache-2.0
/* The I/O model: its machine, its targets, and what may be asked of it. */
#include "numa/model.h"

#include <errno.h>
#include <string.h>

/* Part of a node's memory that may be missing or more while it is the same machine: kernels
 * differ in what they keep for themselves, a memory module is more than that. */
#define MEMORY_SLACK 8

const char *model_op_name(enum model_op op)
{
	return op == MODEL_WRITE ? "write" : "read";
}

/* ---- made and freed ---- */

static uint64_t memory_of(const struct topo *t, int node)
{
	struct node_memory m;

	return topo_memory(t, node, &m) ? 0 : m.total;
}

struct target *model_add(struct model *m, int node)
{
	struct target *list = reallocarray(m->target, m->targets + 1, sizeof(*list)), *one;

	if (!list)
		return NULL;
	m->target = list;
	one = &list[m->targets];
	*one = (struct target){ .node = node };
	for (int op = 0; op < MODEL_OPS; op++) {
		one->row[op].cell = calloc(m->nodes, sizeof(struct cell));
		if (one->row[op].cell)
			continue;
		free(one->row[0].cell);
		return NULL;
	}
	m->targets++;
	return one;
}

static void target_clear(struct target *t)
{
	for (int op = 0; op < MODEL_OPS; op++)
		free(t->row[op].cell);
}

void model_free(struct model *m)
{
	if (!m)
		return;
	for (unsigned i = 0; m->node && i < m->nodes; i++)
		free(m->node[i].distance);
	for (unsigned i = 0; i < m->targets; i++)
		target_clear(&m->target[i]);
	free(m->node);
	free(m->memory);
	free(m->target);
	free(m);
}

/* ---- asked ---- */

const struct target *model_target(const struct model *m, int node)
{
	for (unsigned i = 0; m && i < m->targets; i++)
		if (m->target[i].node == node)
			return &m->target[i];
	return NULL;
}

const struct cell *row_cell(const struct row *r, int node)
{
	for (unsigned i = 0; i < r->n; i++)
		if (r->cell[i].node == node)
			return &r->cell[i];
	return NULL;
}

struct ids model_near(const struct model *m, int node, enum model_op op)
{
	const struct target *target = model_target(m, node);
	struct ids s = { 0 };

	ids_add(&s, (unsigned)node);
	for (unsigned i = 0; target && i < target->row[op].n; i++)
		if (target->row[op].cell[i].class == 1)
			ids_add(&s, (unsigned)target->row[op].cell[i].node);
	return s;
}

unsigned model_class(const struct model *m, int target, enum model_op op, int node)
{
	const struct target *at = model_target(m, target);
	const struct cell *c = at ? row_cell(&at->row[op], node) : NULL;

	return c ? c->class : 0;
}

/* ---- its machine ---- */

static bool same_memory(uint64_t a, uint64_t b)
{
	uint64_t more = a > b ? a : b, less = a > b ? b : a;

	/* 0: not known. */
	return !less || more - less <= more / MEMORY_SLACK;
}

static int other_cpus(const struct node *was, const struct node *is, struct err *e)
{
	char then[64], now[64];

	return err_set(e, -ESTALE, "node %d had the CPUs \"%s\", and has \"%s\"", is->id,
		       ids_format(then, sizeof(then), &was->cpus),
		       ids_format(now, sizeof(now), &is->cpus));
}

static int other_memory(int node, uint64_t was, uint64_t is, struct err *e)
{
	char then[32], now[32];

	return err_set(e, -ESTALE, "node %d had %s of memory, and has %s", node,
		       format_size(then, sizeof(then), was),
		       format_size(now, sizeof(now), is));
}

static int node_fits(const struct node *was, const struct node *is, unsigned nodes, struct err *e)
{
	if (was->id != is->id)
		return err_set(e, -ESTALE, "it had a node %d, and not %d", was->id, is->id);
	if (memcmp(&was->cpus, &is->cpus, sizeof(was->cpus)))
		return other_cpus(was, is, e);
	for (unsigned i = 0; i < nodes; i++)
		if (was->distance[i] != is->distance[i])
			return err_set(e, -ESTALE, "a distance of node %d was %u, and is %u",
				       is->id, was->distance[i], is->distance[i]);
	return 0;
}

int model_fits(const struct model *m, const struct topo *t, struct err *e)
{
	int r = 0;

	if (m->nodes != topo_nodes(t))
		return err_set(e, -ESTALE, "it had %u nodes, and there are %u", m->nodes,
			       topo_nodes(t));
	for (unsigned i = 0; !r && i < m->nodes; i++) {
		uint64_t memory = memory_of(t, topo_node(t, i)->id);

		r = node_fits(&m->node[i], topo_node(t, i), m->nodes, e);
		if (!r && !same_memory(m->memory[i], memory))
			r = other_memory(m->node[i].id, m->memory[i], memory, e);
	}
	return r;
}
