// SPDX-License-Identifier: Apache-2.0
/* The search for the best whole numbers of threads: branch and bound over their ranges. */
#include "numa/staged_lp.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define NOTHING 1e-9   /* a share of all data that is none */
#define WHOLE 1e-6     /* so near to a whole number of threads is one */

/* Choices that are still open, with what is known of them. */
struct open {
	struct open *next;
	double bound;
	unsigned range[];      /* lo of each stage, then hi of each */
};

struct search {
	const struct net *net;
	struct open *open;     /* last in, first out: plans are found early, memory stays small */
	struct relaxed now;    /* of the choices that are looked at */
	struct relaxed trial;  /* of the whole numbers next to it */
	unsigned *threads;     /* those */
	double best;           /* INFINITY: none yet */
	double *best_bytes;    /* by stage */
	unsigned *best_threads;
	double looked_at;      /* bound of the choices that are looked at */
	uint64_t programmes;
	staged_go_on *go_on;
	void *arg;
};

static struct ranges ranges_of(const struct search *s, struct open *o)
{
	return (struct ranges){ o->range, o->range + s->net->stages };
}

/* ---- what is open ---- */

/* A copy of the ranges with one of them changed. */
static int push(struct search *s, const unsigned *range, double bound, unsigned stage,
		unsigned lo, unsigned hi)
{
	size_t size = 2 * (size_t)s->net->stages * sizeof(*range);
	struct open *o = malloc(sizeof(*o) + size);
	struct ranges r;

	if (!o)
		return -ENOMEM;
	memcpy(o->range, range, size);
	o->bound = bound;
	r = ranges_of(s, o);
	r.lo[stage] = lo;
	r.hi[stage] = hi;
	if (!ranges_tighten(s->net, &r)) {
		free(o);
		return 0;
	}
	o->next = s->open;
	s->open = o;
	return 0;
}

static int push_all(struct search *s)
{
	unsigned n = s->net->stages;
	CLEANUP_FREE unsigned *range = calloc(2 * (size_t)n, sizeof(*range));

	if (!range)
		return -ENOMEM;
	for (unsigned i = 0; i < n; i++)
		range[n + i] = s->net->stage[i].most;
	return n ? push(s, range, 0, 0, 0, s->net->stage[0].most) : 0;
}

static struct staged_state state_of(const struct search *s)
{
	struct staged_state state = { s->programmes, s->best * s->net->seconds, s->best, false };

	state.bound = fmin(state.bound, s->looked_at);
	for (const struct open *o = s->open; o; o = o->next)
		state.bound = fmin(state.bound, o->bound);
	state.bound *= s->net->seconds;
	return state;
}

static bool keep_going(void *arg)
{
	struct search *s = arg;
	struct staged_state state;

	if (!s->go_on)
		return true;
	state = state_of(s);
	return s->go_on(s->arg, &state);
}

/* ---- whole numbers ---- */

/* The stage that gains most by one more thread of node v; -1: none may have one. */
static int neediest(const struct search *s, unsigned v)
{
	double most = 0;
	int found = -1;

	for (unsigned i = 0; i < s->net->stages; i++) {
		const struct stage *st = &s->net->stage[i];
		double time;

		if (st->memory != v || !s->threads[i] || s->threads[i] >= st->most)
			continue;
		time = s->now.bytes[i] / (st->rate * s->threads[i]);
		if (time > most) {
			most = time;
			found = (int)i;
		}
	}
	return found;
}

/* The threads of node v, rounded; what is left over goes to those that it helps most. False:
 * there are not enough for one each. */
static bool round_node(struct search *s, unsigned v)
{
	unsigned used = 0;

	for (unsigned i = 0; i < s->net->stages; i++) {
		if (s->net->stage[i].memory != v)
			continue;
		s->threads[i] = s->now.bytes[i] <= NOTHING ? 0 :
				(unsigned)fmax(s->now.threads[i] + WHOLE, 1);
		used += s->threads[i];
	}
	if (used > s->net->p->threads[v])
		return false;
	for (int i; used < s->net->p->threads[v] && (i = neediest(s, v)) >= 0; used++)
		s->threads[i]++;
	return true;
}

/* Whole numbers near to what the relaxation wants, and the bytes that are best for them. */
static int try_whole(struct search *s)
{
	struct ranges r = { s->threads, s->threads };
	int rc;

	for (unsigned v = 0; v < s->net->p->n; v++)
		if (!round_node(s, v))
			return 0;
	s->programmes++;
	rc = lp_relax(s->net, &r, keep_going, s, &s->trial);
	if (rc)
		return rc == -EDOM ? 0 : rc;
	if (s->trial.objective >= s->best)
		return 0;
	s->best = s->trial.objective;
	memcpy(s->best_bytes, s->trial.bytes, s->net->stages * sizeof(*s->best_bytes));
	memcpy(s->best_threads, s->threads, s->net->stages * sizeof(*s->best_threads));
	return 0;
}

/* ---- the search ---- */

static bool hopeless(const struct search *s, double bound)
{
	return bound >= s->best * (1 - STAGED_GAP);
}

/* How much a stage asks to be decided; 0: it need not be. Whether a stage is used at all comes
 * first, for the sum counts only the paths that are. */
static double urgency(const struct search *s, const struct ranges *r, unsigned i)
{
	double part;

	if (r->lo[i] == r->hi[i] || s->now.bytes[i] <= NOTHING)
		return 0;
	if (!r->lo[i] && s->net->objective == STAGED_SUM)
		return 2 + s->now.bytes[i];
	part = s->now.threads[i] - floor(s->now.threads[i]);
	return 1 + fmin(part, 1 - part);
}

static int branch(struct search *s, struct open *o)
{
	struct ranges r = ranges_of(s, o);
	double most = 0, threads;
	unsigned at = 0, middle;
	int rc;

	for (unsigned i = 0; i < s->net->stages; i++) {
		double u = urgency(s, &r, i);

		if (u > most) {
			most = u;
			at = i;
		}
	}
	/* All that carry anything are decided: then what is not need not be. */
	if (most <= 0)
		return 0;
	threads = s->now.threads[at];
	middle = (unsigned)fmin(fmax(floor(threads), r.lo[at]), r.hi[at] - 1.0);
	if (most >= 2)
		middle = 0;
	/* The nearer half is looked at first. */
	if (threads - middle > 0.5 || most >= 2) {
		rc = push(s, o->range, s->now.objective, at, r.lo[at], middle);
		return rc ? rc : push(s, o->range, s->now.objective, at, middle + 1, r.hi[at]);
	}
	rc = push(s, o->range, s->now.objective, at, middle + 1, r.hi[at]);
	return rc ? rc : push(s, o->range, s->now.objective, at, r.lo[at], middle);
}

static int look_at(struct search *s, struct open *o)
{
	struct ranges r = ranges_of(s, o);
	int rc;

	s->looked_at = o->bound;
	if (hopeless(s, o->bound))
		return 0;
	if (!keep_going(s))
		return -ECANCELED;
	s->programmes++;
	rc = lp_relax(s->net, &r, keep_going, s, &s->now);
	if (rc)
		return rc == -EDOM ? 0 : rc;
	/* Never below what is known of the ranges around it. */
	s->now.objective = fmax(s->now.objective, o->bound);
	if (hopeless(s, s->now.objective))
		return 0;
	rc = try_whole(s);
	if (rc || hopeless(s, s->now.objective))
		return rc;
	return branch(s, o);
}

static int search(struct search *s)
{
	int r = push_all(s);

	while (!r && s->open) {
		struct open *o = s->open;

		s->open = o->next;
		r = look_at(s, o);
		free(o);
		if (!r)
			s->looked_at = INFINITY;
	}
	return r;
}

/* ---- the plan ---- */

static struct staged_flow *flow_of(struct staged_plan *plan, const struct stage *s)
{
	return s->network ? &plan->network[s->from][s->to] : &plan->disk[s->from][s->to];
}

/* The time of the quickest path over a stage: as long as it may take without delaying any. */
static double allowance(const struct staged_problem *p, const struct staged_plan *plan,
			const struct stage *s)
{
	double least = INFINITY;

	for (unsigned i = 0; i < p->n; i++) {
		double t = s->network ? staged_path_time(p, plan, i, s->from, s->to) :
					staged_path_time(p, plan, s->from, s->to, i);

		if (t > 0)
			least = fmin(least, t);
	}
	return least;
}

/* Threads that make nothing quicker are not needed. */
static void trim(const struct staged_problem *p, const struct stage *s, double rate,
		 struct staged_plan *plan)
{
	struct staged_flow *f = flow_of(plan, s);
	double enough;

	if (f->bytes <= 0) {
		*f = (struct staged_flow){ 0 };
		return;
	}
	enough = ceil(f->bytes / (rate * allowance(p, plan, s)) - WHOLE);
	f->threads = fmin(f->threads, fmax(enough, 1));
}

static void write_plan(const struct search *s, struct staged_plan *plan)
{
	const struct net *net = s->net;

	*plan = (struct staged_plan){ 0 };
	for (unsigned i = 0; i < net->stages; i++) {
		double bytes = s->best_bytes[i] > NOTHING ? s->best_bytes[i] * net->bytes : 0;

		*flow_of(plan, &net->stage[i]) = (struct staged_flow){
			bytes > 0 ? s->best_threads[i] : 0, bytes };
	}
	for (unsigned i = 0; i < net->stages; i++)
		trim(net->p, &net->stage[i],
		     net->stage[i].network ? net->p->network[net->stage[i].from][net->stage[i].to] :
					     net->p->disk[net->stage[i].from][net->stage[i].to],
		     plan);
}

static int outcome(const struct search *s, int r, struct err *e)
{
	if (!r && isinf(s->best))
		return err_set(e, -EDOM, "no plan: the nodes have too few threads for all that "
			       "must be read and sent at the same time; raise threads, or plan "
			       "the storages one after the other");
	if (r == -ECANCELED && !isinf(s->best))
		return 0;
	switch (r) {
	case 0:
		return 0;
	case -ECANCELED:
		return err_set(e, r, "stopped before any plan was found, after %llu linear "
			       "programmes; it needs more time, or fewer nodes",
			       (unsigned long long)s->programmes);
	case -EIO:
		return err_set(e, r, "lp_solve could not solve a linear programme; are the "
			       "bandwidths many orders of magnitude apart?");
	case -ENOSYS:
		return err_set(e, r, "this build has no lp_solve, which plans are made with; build "
			       "rftp with it (Debian: liblpsolve55-dev)");
	default:
		return err_sys(e, r, "planning");
	}
}

static int prepare(struct search *s, unsigned n)
{
	double **doubles[] = { &s->now.bytes, &s->now.threads, &s->trial.bytes,
			       &s->trial.threads, &s->best_bytes };

	for (size_t i = 0; i < sizeof(doubles) / sizeof(doubles[0]); i++) {
		*doubles[i] = calloc(n + 1, sizeof(double));
		if (!*doubles[i])
			return -ENOMEM;
	}
	s->threads = calloc(n + 1, sizeof(unsigned));
	s->best_threads = calloc(n + 1, sizeof(unsigned));
	return s->threads && s->best_threads ? 0 : -ENOMEM;
}

static void release(struct search *s)
{
	while (s->open) {
		struct open *o = s->open;

		s->open = o->next;
		free(o);
	}
	free(s->now.bytes);
	free(s->now.threads);
	free(s->trial.bytes);
	free(s->trial.threads);
	free(s->best_bytes);
	free(s->threads);
	free(s->best_threads);
}

int staged_solve(const struct staged_problem *p, enum staged_objective objective,
		 staged_go_on *go_on, void *arg, struct staged_plan *plan,
		 struct staged_state *state, struct err *e)
{
	CLEANUP_FREE struct net *net = malloc(sizeof(*net));
	struct search s = { .net = net, .best = INFINITY, .looked_at = INFINITY, .go_on = go_on,
			    .arg = arg };
	int r = net ? staged_check(p, e) : err_sys(e, -ENOMEM, "planning");

	if (r)
		return r;
	net_make(net, p, objective);
	r = prepare(&s, net->stages);
	if (!r)
		r = search(&s);
	*state = state_of(&s);
	state->proven = !r;
	r = outcome(&s, r, e);
	if (!r) {
		write_plan(&s, plan);
		/* As the plan has it, rather than as lp_solve rounded. */
		state->best = objective == STAGED_SUM ? staged_sum(p, plan) :
			      staged_makespan(p, plan);
		state->bound = fmin(state->bound, state->best);
	}
	release(&s);
	return r;
}
