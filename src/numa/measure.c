// SPDX-License-Identifier: Apache-2.0
/* Round after round, target after target; the bandwidth of each round as JSON. */
#include "numa/measure.h"

#include "numa/crew.h"

#include <errno.h>

static const char *const op_names[MODEL_OPS] = { [MODEL_WRITE] = "write", [MODEL_READ] = "read" };

/* ---- rounds ---- */

/* A list for each direction, of an object for each node, whose "rounds" is empty. */
static int add_rows(json_t *target, const struct measure_plan *p)
{
	for (int op = 0; op < MODEL_OPS; op++) {
		json_t *row = json_array();

		if (json_object_set_new(target, op_names[op], row))
			return -ENOMEM;
		for (unsigned i = 0; i < p->n; i++)
			if (json_array_append_new(row, json_pack("{s:i, s:[]}", "node", p->nodes[i],
								 "rounds")))
				return -ENOMEM;
	}
	return 0;
}

static int add_round(json_t *target, unsigned op, unsigned node, double bandwidth)
{
	json_t *row = json_object_get(target, op_names[op]);

	return json_array_append_new(json_object_get(json_array_get(row, node), "rounds"),
				     json_real(bandwidth)) ? -ENOMEM : 0;
}

/* Each cell once, so that changes over time hit all alike. round < 0: to warm up. */
static int copy_round(struct crew *crew, const struct measure_plan *p, json_t *target, int round)
{
	int r = 0;

	for (unsigned op = 0; op < MODEL_OPS; op++)
		for (unsigned i = 0; !r && i < p->n; i++) {
			double bandwidth;

			r = crew_copy(crew, i, (enum model_op)op, &bandwidth);
			if (!r && round >= 0)
				r = add_round(target, op, i, bandwidth);
		}
	return r;
}

static int measure_planned(const struct measure_config *c, const struct measure_plan *p,
			   json_t *targets, unsigned turn, unsigned turns, struct err *e)
{
	const struct crew_config config = {
		.target = p->target, .cpus = p->cpus, .threads = p->threads, .nodes = p->nodes,
		.n = p->n, .bytes = p->bytes, .copies = c->copies, .bind = p->bind, .stop = c->stop,
	};
	struct crew *crew = crew_start(&config, e);
	json_t *target;
	int r;

	if (!crew)
		return e->code;
	target = json_pack("{s:i, s:i, s:I, s:I, s:i}", "node", p->target, "threads",
			   (int)p->threads, "buffer", (json_int_t)p->bytes, "placed",
			   (json_int_t)crew_placed(crew), "copies", (int)c->copies);
	r = json_array_append_new(targets, target) ? -ENOMEM : add_rows(target, p);
	for (int round = -1; !r && round < (int)c->rounds; round++) {
		if (c->progress)
			c->progress(turn, turns, (unsigned)(round + 1), c->rounds);
		r = copy_round(crew, p, target, round);
	}
	crew_end(crew);
	return r ? err_set(e, r, r == -EINTR ? "interrupted" : "out of memory") : 0;
}

/* ---- targets ---- */

/* Nodes that cannot be a target are left out. */
static int measure_all(const struct topo *t, const struct measure_config *c, json_t *targets,
		       struct err *e)
{
	int r = 0;

	for (unsigned i = 0; !r && i < topo_nodes(t); i++) {
		struct measure_plan p;

		if (!measure_plan(t, c, topo_node(t, i)->id, &p, e))
			r = measure_planned(c, &p, targets, i + 1, topo_nodes(t), e);
		else if (topo_nodes(t) > 1)
			log_warn("node %d is no target: %s", topo_node(t, i)->id, e->text);
		measure_plan_free(&p);
	}
	return r || json_array_size(targets) ? r : e->code;
}

static int measure_one(const struct topo *t, const struct measure_config *c, json_t *targets,
		       struct err *e)
{
	struct measure_plan p;
	int r = measure_plan(t, c, c->target, &p, e);

	if (!r)
		r = measure_planned(c, &p, targets, 1, 1, e);
	measure_plan_free(&p);
	return r;
}

json_t *measure(const struct topo *t, const struct measure_config *c, struct err *e)
{
	json_t *targets = json_array();
	int r;

	if (!targets)
		r = err_set(e, -ENOMEM, "out of memory");
	else if (c->target == NODE_UNKNOWN)
		r = measure_all(t, c, targets, e);
	else
		r = measure_one(t, c, targets, e);
	if (!r)
		return json_pack("{s:o}", "targets", targets);
	json_decref(targets);
	return NULL;
}
