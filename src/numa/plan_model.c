// SPDX-License-Identifier: Apache-2.0
/* Of a staged problem what the I/O model knows: a device that is read is a target's storage, one
 * that is written a target's cards. */
#include "numa/plan_problem.h"

#include <errno.h>
#include <math.h>

/* ---- bandwidths ---- */

/* Of all threads of the target together; 0: not measured. */
static double bandwidth(const struct model *m, int target, enum model_op op, int node)
{
	const struct target *t = model_target(m, target);
	const struct cell *c = t ? row_cell(&t->row[op], node) : NULL;

	return c ? c->median : 0;
}

static double of_thread(const struct model *m, int target, enum model_op op, int node)
{
	const struct target *t = model_target(m, target);

	return t ? bandwidth(m, target, op, node) / t->threads : 0;
}

static int set_rates(const struct model *m, enum model_op op, const struct staged_problem *p,
		     double rates[STAGED_NODES][STAGED_NODES], const char *what, struct err *e)
{
	double flat[STAGED_NODES * STAGED_NODES];

	for (unsigned i = 0; i < p->n * p->n; i++) {
		int from = p->id[i / p->n], to = p->id[i % p->n];

		flat[i] = op == MODEL_READ ? of_thread(m, from, op, to) :
			  of_thread(m, to, op, from);
	}
	return plan_rates(rates, p->n, flat, what, e);
}

/* ---- links ---- */

/* Those of the problem's nodes that are targets with a thread on each core: fewer threads may
 * have left room on a link. What is left over, into partial. */
static struct ids filled(const struct model *m, const struct topo *t,
			 const struct staged_problem *p, struct ids *partial)
{
	struct ids full = { 0 };

	*partial = full;
	for (unsigned i = 0; i < p->n; i++) {
		const struct target *target = model_target(m, p->id[i]);
		const struct node *n = topo_find(t, p->id[i]);
		struct ids cores;

		if (!target || !n)
			continue;
		cores = topo_cores(t, &n->cpus);
		ids_add(target->threads >= ids_count(&cores) ? &full : partial, (unsigned)n->id);
	}
	return full;
}

/* Both ends have measured it, with threads of their own; the better one has seen more of what it
 * can do. 0: not known. */
static double link_between(const struct model *m, const struct ids *full, int from, int to)
{
	double read = bandwidth(m, from, MODEL_READ, to);
	double write = bandwidth(m, to, MODEL_WRITE, from);
	bool known = (read > 0 && ids_has(full, (unsigned)from)) ||
		     (write > 0 && ids_has(full, (unsigned)to));

	return known ? fmax(read, write) : 0;
}

static int set_links(const struct model *m, const struct topo *t, struct staged_problem *p,
		     struct err *e)
{
	double flat[STAGED_NODES * STAGED_NODES];
	struct ids partial, full = filled(m, t, p, &partial);
	char text[128];
	int r;

	if (ids_count(&partial))
		log_warn("the model was measured with fewer threads than cores on node %s: links "
			 "that nobody has filled are planned without a limit",
			 ids_format(text, sizeof(text), &partial));
	for (unsigned i = 0; i < p->n * p->n; i++)
		flat[i] = link_between(m, &full, p->id[i / p->n], p->id[i % p->n]);
	r = plan_rates(p->link_limit, p->n, flat, "link_limit", e);
	for (unsigned i = 0; i < p->n * p->n; i++)
		if (flat[i] <= 0)
			p->link_limit[i / p->n][i % p->n] = INFINITY;
	return r;
}

/* ---- what it does not know ---- */

static bool has_row(const struct model *m, int target, enum model_op op)
{
	const struct target *t = model_target(m, target);

	return t && t->row[op].n;
}

static int no_row(int node, enum model_op op, struct err *e)
{
	bool read = op == MODEL_READ;

	return err_set(e, -ENOENT, "has no device %ss of node %d, where %s: measure it, too "
		       "(rftp-numa model; a node needs CPUs for it), %sor give %s with --problem "
		       "FILE", model_op_name(op), node, read ? "data is" : "network cards are",
		       read ? "" : "name other cards with --nic, ", read ? "disk" : "network");
}

static int check_rows(const struct model *m, const struct plan_lacks *lacks,
		      const struct staged_problem *p, struct err *e)
{
	for (unsigned i = 0; i < p->n; i++) {
		if (lacks->disk && p->data[i] > 0 && !has_row(m, p->id[i], MODEL_READ))
			return no_row(p->id[i], MODEL_READ, e);
		if (lacks->network && p->network_limit[i] > 0 && !has_row(m, p->id[i], MODEL_WRITE))
			return no_row(p->id[i], MODEL_WRITE, e);
	}
	return 0;
}

int plan_model(const struct model *m, const struct topo *t, const struct plan_lacks *lacks,
	       struct staged_problem *p, struct err *e)
{
	int r = check_rows(m, lacks, p, e);

	if (!r && lacks->disk)
		r = set_rates(m, MODEL_READ, p, p->disk, "disk", e);
	if (!r && lacks->network)
		r = set_rates(m, MODEL_WRITE, p, p->network, "network", e);
	if (!r && lacks->link_limit)
		r = set_links(m, t, p, e);
	return r;
}
