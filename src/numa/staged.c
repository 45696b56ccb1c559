// SPDX-License-Identifier: Apache-2.0
/* What a staged plan takes, and the one that nobody has planned. */
#include "numa/staged.h"

#include <errno.h>
#include <math.h>

#define FEWEST_THREADS 2u  /* of a memory node: one fills it, one empties it */
#define SAME 1e-6          /* times that differ by less, relatively, are the same */

/* ---- is there a way at all ---- */

static bool can_read(const struct staged_problem *p, unsigned u, unsigned v)
{
	return p->disk[u][v] > 0 && p->disk_limit[u] > 0 && p->link_limit[u][v] > 0;
}

static bool can_send(const struct staged_problem *p, unsigned v, unsigned w)
{
	return p->network[v][w] > 0 && p->network_limit[w] > 0 && p->link_limit[v][w] > 0;
}

static bool can_send_any(const struct staged_problem *p, unsigned v)
{
	for (unsigned w = 0; w < p->n; w++)
		if (can_send(p, v, w))
			return true;
	return false;
}

static int check_way(const struct staged_problem *p, unsigned u, struct err *e)
{
	bool read = false, sent = false;

	for (unsigned v = 0; v < p->n; v++) {
		if (!can_read(p, u, v))
			continue;
		read = true;
		if (!can_send_any(p, v))
			continue;
		sent = true;
		if (p->threads[v] >= FEWEST_THREADS)
			return 0;
	}
	if (!read)
		return err_set(e, -EDOM, "the data of node %d cannot be read: no node's memory is "
			       "filled from there (disk bandwidth, or a limit on the way, is 0)",
			       p->id[u]);
	if (!sent)
		return err_set(e, -EDOM, "the data of node %d cannot leave: no network card is "
			       "reached from the memory that it can be read to (network bandwidth, "
			       "or a limit on the way, is 0)", p->id[u]);
	return err_set(e, -EDOM, "the data of node %d needs a node with two threads, one that "
		       "reads and one that sends; those that it could go by have fewer", p->id[u]);
}

/* What is too small beside the rest would be lost in the solver's tolerance. */
static int check_size(const struct staged_problem *p, const char *what, double size, double most,
		      unsigned from, unsigned to, struct err *e)
{
	if (size <= 0 || size >= most * STAGED_LEAST)
		return 0;
	return err_set(e, -EDOM, "%s of node %d to node %d, %g, is less than a millionth of the "
		       "greatest: make it 0", what, p->id[from], p->id[to], size);
}

static int check_sizes(const struct staged_problem *p, struct err *e)
{
	double rate = 0;
	int r = 0;

	for (unsigned from = 0; from < p->n; from++)
		for (unsigned to = 0; to < p->n; to++)
			rate = fmax(rate, fmax(p->disk[from][to], p->network[from][to]));
	for (unsigned i = 0; !r && i < p->n * p->n; i++) {
		unsigned from = i / p->n, to = i % p->n;

		r = check_size(p, "disk", p->disk[from][to], rate, from, to, e);
		r = r ? r : check_size(p, "network", p->network[from][to], rate, from, to, e);
		r = r ? r : check_size(p, "link_limit", p->link_limit[from][to], rate, from, to, e);
	}
	for (unsigned i = 0; !r && i < p->n; i++) {
		r = check_size(p, "disk_limit", p->disk_limit[i], rate, i, i, e);
		r = r ? r : check_size(p, "network_limit", p->network_limit[i], rate, i, i, e);
	}
	return r;
}

static int check_data(const struct staged_problem *p, struct err *e)
{
	double all = 0;

	for (unsigned u = 0; u < p->n; u++)
		all += p->data[u];
	if (all <= 0)
		return err_set(e, -EDOM, "there is no data to plan for: all of it is 0 bytes");
	if (all > STAGED_DATA)
		return err_set(e, -EDOM, "the data of all nodes, %.3g bytes, is more than 2^62: "
			       "plan for a part of it, which takes that part of the time", all);
	for (unsigned u = 0; u < p->n; u++)
		if (p->data[u] > 0 && p->data[u] < all * STAGED_LEAST)
			return err_set(e, -EDOM, "the data of node %d, %.0f bytes, is less than a "
				       "millionth of all: leave it out", p->id[u], p->data[u]);
	return 0;
}

int staged_check(const struct staged_problem *p, struct err *e)
{
	int r = check_data(p, e);

	for (unsigned u = 0; !r && u < p->n; u++)
		if (p->data[u] > 0)
			r = check_way(p, u, e);
	return r ? r : check_sizes(p, e);
}

/* ---- what a plan takes ---- */

static double of_stage(const struct staged_flow *f, double rate)
{
	return f->bytes > 0 ? f->bytes / (f->threads * rate) : 0;
}

/* A limit of 0 with nothing that goes there is no matter. */
static double of_link(double bytes, double rate)
{
	return bytes > 0 ? bytes / rate : 0;
}

static double read_from(const struct staged_plan *plan, unsigned n, unsigned u)
{
	double sum = 0;

	for (unsigned v = 0; v < n; v++)
		sum += plan->disk[u][v].bytes;
	return sum;
}

static double sent_by(const struct staged_plan *plan, unsigned n, unsigned w)
{
	double sum = 0;

	for (unsigned v = 0; v < n; v++)
		sum += plan->network[v][w].bytes;
	return sum;
}

double staged_time(const struct staged_problem *p, const struct staged_plan *plan,
		   enum staged_kind kind, unsigned from, unsigned to)
{
	const struct staged_flow *disk = &plan->disk[from][to], *net = &plan->network[from][to];

	switch (kind) {
	case STAGED_DISK_THREADS:
		return of_stage(disk, p->disk[from][to]);
	case STAGED_NETWORK_THREADS:
		return of_stage(net, p->network[from][to]);
	case STAGED_DISK:
		return of_link(read_from(plan, p->n, from), p->disk_limit[from]);
	case STAGED_LINK:
		return of_link(disk->bytes + net->bytes, p->link_limit[from][to]);
	default:
		return of_link(sent_by(plan, p->n, to), p->network_limit[to]);
	}
}

double staged_path_time(const struct staged_problem *p, const struct staged_plan *plan,
			unsigned u, unsigned v, unsigned w)
{
	double t;

	if (plan->disk[u][v].threads <= 0 || plan->network[v][w].threads <= 0)
		return 0;
	t = staged_time(p, plan, STAGED_DISK_THREADS, u, v);
	t = fmax(t, staged_time(p, plan, STAGED_NETWORK_THREADS, v, w));
	t = fmax(t, staged_time(p, plan, STAGED_DISK, u, u));
	t = fmax(t, staged_time(p, plan, STAGED_LINK, u, v));
	t = fmax(t, staged_time(p, plan, STAGED_LINK, v, w));
	return fmax(t, staged_time(p, plan, STAGED_NETWORK, w, w));
}

double staged_path_bytes(const struct staged_plan *plan, unsigned n, unsigned u, unsigned v,
			 unsigned w)
{
	double out = 0;

	for (unsigned k = 0; k < n; k++)
		out += plan->network[v][k].bytes;
	return out > 0 ? plan->disk[u][v].bytes * plan->network[v][w].bytes / out : 0;
}

double staged_sum(const struct staged_problem *p, const struct staged_plan *plan)
{
	double sum = 0;

	for (unsigned u = 0; u < p->n; u++)
		for (unsigned v = 0; v < p->n; v++)
			for (unsigned w = 0; w < p->n; w++)
				sum += staged_path_time(p, plan, u, v, w);
	return sum;
}

/* Every part there is, one after the other, *at from 0 on; false behind the last. */
static bool next_part(unsigned n, unsigned *at, struct staged_part *part)
{
	unsigned pair = *at % (n * n), kind = *at / (n * n);

	if (kind > STAGED_NETWORK)
		return false;
	*part = (struct staged_part){ (enum staged_kind)kind, pair / n, pair % n };
	++*at;
	return true;
}

/* Disks and cards are one for each node, and come up with each pair. */
static bool counts(const struct staged_part *part)
{
	return (part->kind != STAGED_DISK && part->kind != STAGED_NETWORK) ||
	       part->from == part->to;
}

double staged_makespan(const struct staged_problem *p, const struct staged_plan *plan)
{
	struct staged_part part;
	double most = 0;

	for (unsigned at = 0; next_part(p->n, &at, &part);)
		if (counts(&part))
			most = fmax(most, staged_time(p, plan, part.kind, part.from, part.to));
	return most;
}

/* ---- the bottleneck ---- */

static double threads_of(const struct staged_plan *plan, unsigned n, unsigned v)
{
	double sum = 0;

	for (unsigned i = 0; i < n; i++)
		sum += plan->disk[i][v].threads + plan->network[v][i].threads;
	return sum;
}

static bool could_have_more(const struct staged_problem *p, const struct staged_plan *plan,
			    const struct staged_part *part)
{
	unsigned v = part->kind == STAGED_DISK_THREADS ? part->to : part->from;

	return part->kind <= STAGED_NETWORK_THREADS &&
	       threads_of(plan, p->n, v) + 1 <= p->threads[v];
}

unsigned staged_bottlenecks(const struct staged_problem *p, const struct staged_plan *plan,
			    struct staged_part *out, unsigned room)
{
	double most = staged_makespan(p, plan) * (1 - SAME);
	struct staged_part part;
	unsigned n = 0;

	for (unsigned at = 0; n < room && next_part(p->n, &at, &part);)
		if (counts(&part) && most > 0 && !could_have_more(p, plan, &part) &&
		    staged_time(p, plan, part.kind, part.from, part.to) >= most)
			out[n++] = part;
	return n;
}

/* ---- without a plan ---- */

struct spread {
	unsigned memories, sources, cards;   /* how many share */
	double data;
};

static bool has_card(const struct staged_problem *p, unsigned w)
{
	bool any = false;

	for (unsigned v = 0; v < p->n; v++)
		any |= can_send(p, v, w);
	return any;
}

static struct spread count_spread(const struct staged_problem *p)
{
	struct spread s = { 0 };

	for (unsigned i = 0; i < p->n; i++) {
		s.memories += p->threads[i] > 0;
		s.sources += p->data[i] > 0;
		s.cards += has_card(p, i);
		s.data += p->data[i];
	}
	return s;
}

/* One memory node's part: half of its threads read, half send. */
static int spread_node(const struct staged_problem *p, const struct spread *s, unsigned v,
		       struct staged_plan *plan)
{
	double half = p->threads[v] / 2.0;

	for (unsigned i = 0; i < p->n; i++) {
		if (p->data[i] > 0 && !can_read(p, i, v))
			return -EDOM;
		if (p->data[i] > 0)
			plan->disk[i][v] = (struct staged_flow){ half / s->sources,
								 p->data[i] / s->memories };
		if (has_card(p, i) && !can_send(p, v, i))
			return -EDOM;
		if (has_card(p, i))
			plan->network[v][i] = (struct staged_flow){
				half / s->cards, s->data / s->memories / s->cards };
	}
	return 0;
}

int staged_spread(const struct staged_problem *p, struct staged_plan *plan)
{
	struct spread s = count_spread(p);
	int r = s.memories && s.cards ? 0 : -EDOM;

	*plan = (struct staged_plan){ 0 };
	for (unsigned v = 0; !r && v < p->n; v++)
		if (p->threads[v])
			r = spread_node(p, &s, v, plan);
	return r;
}
