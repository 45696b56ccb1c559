// SPDX-License-Identifier: Apache-2.0
/* The linear programme of a choice of threads, or of a range of choices, by lp_solve.
 *
 * Columns: the bytes of each stage; its share, threads times clock; the time of each path; the
 * makespan. A path's time is at least that of each of its parts, which is how the maxima of the
 * objective become linear.
 *
 * The clock of a memory node is a time that no stage of it takes longer than: with the makespan
 * as objective that is it, with the sum the sum of the times of the node's paths. A stage's
 * bytes by its rate are threads times its own time, so no more than its share; and the shares
 * of a node are no more than its threads times the clock. A range's lower end takes away from
 * what is left for others, its upper end limits the share. */
#include "numa/staged_lp.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>

#ifdef HAVE_LPSOLVE

#include <lpsolve/lp_lib.h>

struct path {
	unsigned disk;
	int network;   /* -1: by whichever */
};

struct model {
	const struct net *net;
	const struct ranges *r;
	lprec *lp;
	struct path *path;
	unsigned paths;
	/* The row that is being made. */
	double *value;
	int *column;
	int terms;
	bool failed;
};

/* ---- columns ---- */

static int bytes_of(unsigned s)
{
	return (int)s + 1; /* lp_solve counts from 1 */
}

static int share_of(const struct model *m, unsigned s)
{
	return (int)(m->net->stages + s) + 1;
}

static int time_of(const struct model *m, unsigned path)
{
	return (int)(2 * m->net->stages + path) + 1;
}

static int makespan_of(const struct model *m)
{
	return time_of(m, m->paths);
}

/* ---- rows ---- */

static void term(struct model *m, int column, double value)
{
	m->column[m->terms] = column;
	m->value[m->terms++] = value;
}

static void end_row(struct model *m, int type, double right)
{
	if (m->terms && !add_constraintex(m->lp, m->terms, m->value, m->column, type, right))
		m->failed = true;
	m->terms = 0;
}

/* Of what there is at memory node v. */
static void clock_term(struct model *m, unsigned v, double factor)
{
	if (m->net->objective == STAGED_MAKESPAN) {
		term(m, makespan_of(m), factor);
		return;
	}
	for (unsigned i = 0; i < m->paths; i++)
		if (m->net->stage[m->path[i].disk].memory == v)
			term(m, time_of(m, i), factor);
}

static void add_data(struct model *m, unsigned u)
{
	for (unsigned s = 0; s < m->net->stages; s++)
		if (!m->net->stage[s].network && m->net->stage[s].from == u)
			term(m, bytes_of(s), 1);
	end_row(m, EQ, m->net->p->data[u] / m->net->bytes);
}

static void add_memory(struct model *m, unsigned v)
{
	const struct net *net = m->net;

	for (unsigned s = 0; s < net->stages; s++)
		if (net->stage[s].memory == v)
			term(m, bytes_of(s), net->stage[s].network ? -1 : 1);
	end_row(m, EQ, 0);
	for (unsigned s = 0; s < net->stages; s++)
		if (net->stage[s].memory == v)
			term(m, share_of(m, s), 1);
	if (m->terms)
		clock_term(m, v, -(double)net->p->threads[v]);
	end_row(m, LE, 0);
}

/* With the sum as objective: a link's part of the clock is what this stage alone puts on it. */
static void add_clock(struct model *m, unsigned s)
{
	const struct stage *st = &m->net->stage[s];

	for (unsigned i = 0; i < STAGE_LINKS; i++) {
		if (st->link[i] < 0)
			continue;
		term(m, bytes_of(s), 1 / m->net->link[st->link[i]]);
		clock_term(m, st->memory, -1);
		end_row(m, LE, 0);
	}
}

static void add_share(struct model *m, unsigned s)
{
	const struct stage *st = &m->net->stage[s];

	term(m, bytes_of(s), 1 / st->rate);
	term(m, share_of(m, s), -1);
	end_row(m, LE, 0);
	term(m, share_of(m, s), 1);
	clock_term(m, st->memory, -(double)m->r->hi[s]);
	end_row(m, LE, 0);
	if (m->net->objective == STAGED_SUM)
		add_clock(m, s);
	if (!m->r->lo[s])
		return;
	term(m, share_of(m, s), -1);
	clock_term(m, st->memory, m->r->lo[s]);
	end_row(m, LE, 0);
}

/* The time in a column is no less than what a stage takes, or a link with all that it
 * carries. */
static void add_stage_time(struct model *m, unsigned s, int column)
{
	term(m, bytes_of(s), 1 / (m->net->stage[s].rate * m->r->hi[s]));
	term(m, column, -1);
	end_row(m, LE, 0);
}

static bool uses(const struct stage *s, int link)
{
	return s->link[0] == link || s->link[1] == link;
}

static void add_link_time(struct model *m, int link, int column)
{
	if (link < 0)
		return;
	for (unsigned s = 0; s < m->net->stages; s++)
		if (m->r->hi[s] && uses(&m->net->stage[s], link))
			term(m, bytes_of(s), 1 / m->net->link[link]);
	if (!m->terms)
		return;
	term(m, column, -1);
	end_row(m, LE, 0);
}

/* Of a stage that may be unused: then it waits for no link, whatever else that carries. */
static void add_own_times(struct model *m, unsigned s, int column)
{
	const struct stage *st = &m->net->stage[s];

	add_stage_time(m, s, column);
	for (unsigned i = 0; i < STAGE_LINKS; i++) {
		if (st->link[i] < 0)
			continue;
		term(m, bytes_of(s), 1 / m->net->link[st->link[i]]);
		term(m, column, -1);
		end_row(m, LE, 0);
	}
}

static void add_part_times(struct model *m, unsigned s, int column)
{
	if (!m->r->lo[s]) {
		add_own_times(m, s, column);
		return;
	}
	add_stage_time(m, s, column);
	for (unsigned i = 0; i < STAGE_LINKS; i++)
		add_link_time(m, m->net->stage[s].link[i], column);
}

static void add_times(struct model *m)
{
	for (unsigned i = 0; i < m->paths; i++) {
		add_part_times(m, m->path[i].disk, time_of(m, i));
		if (m->path[i].network >= 0)
			add_part_times(m, (unsigned)m->path[i].network, time_of(m, i));
	}
	/* Where the makespan is the clock the shares have said so already. */
	for (unsigned s = 0; s < m->net->stages; s++)
		if (m->r->hi[s] && m->net->objective != STAGED_MAKESPAN)
			add_stage_time(m, s, makespan_of(m));
	for (unsigned l = 0; l < m->net->links; l++)
		add_link_time(m, (int)l, makespan_of(m));
}

/* ---- the model ---- */

/* Which paths count is certain where both stages have threads. A disk stage that may have some
 * is on one path at least, so until it is known which that one stands for all. For the
 * makespan they only decide between equals, and only where all threads are given. */
static void find_paths(struct model *m)
{
	const struct net *net = m->net;

	if (net->objective == STAGED_MAKESPAN && m->r->lo != m->r->hi)
		return;
	for (unsigned d = 0; d < net->stages; d++) {
		bool certain = false;

		if (net->stage[d].network || !m->r->hi[d])
			continue;
		for (unsigned s = 0; m->r->lo[d] && s < net->stages; s++) {
			if (!net->stage[s].network || net->stage[s].from != net->stage[d].memory ||
			    !m->r->lo[s])
				continue;
			m->path[m->paths++] = (struct path){ d, (int)s };
			certain = true;
		}
		if (!certain)
			m->path[m->paths++] = (struct path){ d, -1 };
	}
}

static void set_objective(struct model *m)
{
	bool makespan = m->net->objective == STAGED_MAKESPAN;

	term(m, makespan_of(m), makespan ? 1 : OTHER_OBJECTIVE);
	for (unsigned i = 0; i < m->paths; i++)
		term(m, time_of(m, i), makespan ? OTHER_OBJECTIVE / m->paths : 1);
	if (!set_obj_fnex(m->lp, m->terms, m->value, m->column))
		m->failed = true;
	m->terms = 0; /* minimising is what lp_solve does unless told */
}

static void fill(struct model *m)
{
	const struct net *net = m->net;

	set_verbose(m->lp, NEUTRAL);
	set_add_rowmode(m->lp, TRUE);
	set_objective(m);
	for (unsigned i = 0; i < net->p->n; i++) {
		if (net->p->data[i] > 0)
			add_data(m, i);
		add_memory(m, i);
	}
	for (unsigned s = 0; s < net->stages; s++)
		if (m->r->hi[s])
			add_share(m, s);
	add_times(m);
	set_add_rowmode(m->lp, FALSE);
	for (unsigned s = 0; s < net->stages; s++) {
		if (m->r->hi[s])
			continue;
		set_upbo(m->lp, bytes_of(s), 0);
		set_upbo(m->lp, share_of(m, s), 0);
	}
}

static int make(struct model *m)
{
	/* Each disk stage with each network stage of its node, at most. */
	size_t most = (size_t)m->net->stages * (STAGED_NODES + 1), columns;

	m->path = calloc(most, sizeof(*m->path));
	if (!m->path)
		return -ENOMEM;
	find_paths(m);
	columns = 2 * (size_t)m->net->stages + m->paths + 1;
	m->value = calloc(columns, sizeof(*m->value));
	m->column = calloc(columns, sizeof(*m->column));
	m->lp = m->value && m->column ? make_lp(0, (int)columns) : NULL;
	if (!m->lp)
		return -ENOMEM;
	fill(m);
	return m->failed ? -ENOMEM : 0;
}

static void drop(struct model *m)
{
	if (m->lp)
		delete_lp(m->lp);
	free(m->path);
	free(m->value);
	free(m->column);
}

/* ---- the solution ---- */

struct asker {
	bool (*go_on)(void *);
	void *arg;
};

static int __WINAPI stopped(lprec *lp, void *arg)
{
	const struct asker *a = arg;

	(void)lp;
	return !a->go_on(a->arg);
}

static int status_of(int solved)
{
	switch (solved) {
	case OPTIMAL:
	case PRESOLVED:
		return 0;
	case INFEASIBLE:
		return -EDOM;
	case USERABORT:
		return -ECANCELED;
	case NOMEMORY:
		return -ENOMEM;
	default:
		return -EIO;
	}
}

static int run(struct model *m, bool (*go_on)(void *), void *arg)
{
	struct asker a = { go_on, arg };
	int r;

	if (go_on)
		put_abortfunc(m->lp, stopped, &a);
	r = status_of(solve(m->lp));
	if (r != -EIO)
		return r;
	/* Rarely its scaling is what makes it fail. */
	set_scaling(m->lp, 0);
	default_basis(m->lp);
	return status_of(solve(m->lp));
}

static double clock_value(const struct model *m, const double *x, unsigned v)
{
	double sum = 0;

	if (m->net->objective == STAGED_MAKESPAN)
		return x[makespan_of(m) - 1];
	for (unsigned i = 0; i < m->paths; i++)
		if (m->net->stage[m->path[i].disk].memory == v)
			sum += x[time_of(m, i) - 1];
	return sum;
}

/* Without what decides between equals. */
static double objective_value(const struct model *m, const double *x)
{
	double sum = 0;

	if (m->net->objective == STAGED_MAKESPAN)
		return x[makespan_of(m) - 1];
	for (unsigned i = 0; i < m->paths; i++)
		sum += x[time_of(m, i) - 1];
	return sum;
}

static int read_out(struct model *m, struct relaxed *out)
{
	double *x;

	if (!get_ptr_variables(m->lp, &x))
		return -EIO;
	out->objective = objective_value(m, x);
	for (unsigned s = 0; s < m->net->stages; s++) {
		const struct stage *st = &m->net->stage[s];
		double clock = clock_value(m, x, st->memory), needed;

		out->bytes[s] = fmax(x[bytes_of(s) - 1], 0);
		needed = clock > 0 ? out->bytes[s] / st->rate / clock : 0;
		out->threads[s] = fmin(fmax(needed, m->r->lo[s]), m->r->hi[s]);
	}
	return 0;
}

int lp_relax(const struct net *net, const struct ranges *ranges, bool (*go_on)(void *), void *arg,
	     struct relaxed *out)
{
	struct model m = { .net = net, .r = ranges };
	int r = make(&m);

	if (!r)
		r = run(&m, go_on, arg);
	if (!r)
		r = read_out(&m, out);
	drop(&m);
	return r;
}

bool staged_can_solve(void)
{
	return true;
}

#else

int lp_relax(const struct net *net, const struct ranges *ranges, bool (*go_on)(void *), void *arg,
	     struct relaxed *out)
{
	(void)net;
	(void)ranges;
	(void)go_on;
	(void)arg;
	(void)out;
	return -ENOSYS;
}

bool staged_can_solve(void)
{
	return false;
}

#endif
