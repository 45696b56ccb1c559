// SPDX-License-Identifier: Apache-2.0
/* Round after round, target after target. */
#include "numa/measure.h"

#include "numa/crew.h"

#include <errno.h>

/* ---- rounds ---- */

/* Bandwidths of all rounds: v[op][node][round]. */
static double *at(double *v, const struct measure_plan *p, unsigned rounds, unsigned op,
		  unsigned node)
{
	return v + ((size_t)op * p->n + node) * rounds;
}

/* Each cell once, so that what changes over time hits all alike. round < 0: to warm up. */
static int copy_round(struct crew *crew, const struct measure_plan *p, double *v, unsigned rounds,
		      int round)
{
	int r = 0;

	for (unsigned op = 0; op < MODEL_OPS; op++)
		for (unsigned i = 0; !r && i < p->n; i++) {
			double bandwidth;

			r = crew_copy(crew, i, (enum model_op)op, &bandwidth);
			if (!r && round >= 0)
				at(v, p, rounds, op, i)[round] = bandwidth;
		}
	return r;
}

static void sum_up(struct target *target, const struct measure_plan *p, double *v, unsigned rounds)
{
	for (unsigned op = 0; op < MODEL_OPS; op++) {
		struct row *row = &target->row[op];

		for (row->n = 0; row->n < p->n; row->n++) {
			row->cell[row->n].node = p->nodes[row->n];
			cell_sum(&row->cell[row->n], at(v, p, rounds, op, row->n), rounds);
		}
	}
}

static int measure_planned(const struct measure_config *c, const struct measure_plan *p,
			   struct target *target, unsigned turn, unsigned turns, struct err *e)
{
	const struct crew_config config = {
		.target = p->target, .cpus = p->cpus, .threads = p->threads, .nodes = p->nodes,
		.n = p->n, .bytes = p->bytes, .copies = c->copies, .bind = p->bind, .stop = c->stop,
	};
	CLEANUP_FREE double *v = calloc((size_t)MODEL_OPS * p->n * c->rounds, sizeof(*v));
	struct crew *crew = v ? crew_start(&config, e) : NULL;
	int r = 0;

	if (!crew)
		return v ? e->code : err_set(e, -ENOMEM, "out of memory");
	target->threads = p->threads;
	target->copies = c->copies;
	target->bytes = p->bytes;
	target->placed = crew_placed(crew);
	for (int round = -1; !r && round < (int)c->rounds; round++) {
		if (c->progress)
			c->progress(turn, turns, (unsigned)(round + 1), c->rounds);
		r = copy_round(crew, p, v, c->rounds, round);
	}
	crew_end(crew);
	if (r)
		return err_set(e, r, "interrupted");
	sum_up(target, p, v, c->rounds);
	return 0;
}

/* ---- targets ---- */

static int measure_target(const struct measure_config *c, const struct measure_plan *p,
			  struct model *m, unsigned turn, unsigned turns, struct err *e)
{
	struct target *target = model_add(m, p->target);

	return target ? measure_planned(c, p, target, turn, turns, e) :
			err_set(e, -ENOMEM, "out of memory");
}

/* What cannot be a target is none. */
static int measure_all(const struct topo *t, const struct measure_config *c, struct model *m,
		       struct err *e)
{
	int r = 0;

	for (unsigned i = 0; !r && i < topo_nodes(t); i++) {
		struct measure_plan p;

		if (!measure_plan(t, c, topo_node(t, i)->id, &p, e))
			r = measure_target(c, &p, m, i + 1, topo_nodes(t), e);
		else if (topo_nodes(t) > 1)
			log_warn("node %d is no target: %s", topo_node(t, i)->id, e->text);
		measure_plan_free(&p);
	}
	return r || m->targets ? r : e->code;
}

static int measure_one(const struct topo *t, const struct measure_config *c, struct model *m,
		       struct err *e)
{
	struct measure_plan p;
	int r = measure_plan(t, c, c->target, &p, e);

	if (!r)
		r = measure_target(c, &p, m, 1, 1, e);
	measure_plan_free(&p);
	return r;
}

struct model *measure(const struct topo *t, const struct measure_config *c, struct err *e)
{
	struct model *m = model_new(t);
	int r;

	if (!m)
		r = err_set(e, -ENOMEM, "out of memory");
	else
		r = c->target == NODE_UNKNOWN ? measure_all(t, c, m, e) : measure_one(t, c, m, e);
	if (!r && model_classify(m, t))
		r = err_set(e, -ENOMEM, "out of memory");
	if (!r)
		return m;
	model_free(m);
	return NULL;
}
