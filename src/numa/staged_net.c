// SPDX-License-Identifier: Apache-2.0
/* A staged problem as lists of what can carry anything, and what ranges of threads imply. */
#include "numa/staged_lp.h"

#include <math.h>

#define WHOLE 1e-6     /* so near to a whole number of threads is one */

/* ---- the problem as lists ---- */

/* -1: no limit; else the link with this rate. */
static int add_link(struct net *net, double rate)
{
	if (isinf(rate))
		return -1;
	net->link[net->links] = rate;
	return (int)net->links++;
}

static unsigned most_threads(const struct net *net, const struct stage *s)
{
	double rate = INFINITY, most;

	for (unsigned i = 0; i < STAGE_LINKS; i++)
		if (s->link[i] >= 0)
			rate = fmin(rate, net->link[s->link[i]]);
	most = ceil(rate / s->rate * (1 - WHOLE));
	/* The other stage needs one. */
	return (unsigned)fmin(most, net->p->threads[s->memory] - 1.0);
}

static void add_stage(struct net *net, struct stage s)
{
	s.most = net->p->threads[s.memory] < 2 || s.rate <= 0 ? 0 : most_threads(net, &s);
	if (s.most)
		net->stage[net->stages++] = s;
}

static bool is_open(const struct net *net, const int link[STAGE_LINKS])
{
	for (unsigned i = 0; i < STAGE_LINKS; i++)
		if (link[i] >= 0 && net->link[link[i]] <= 0)
			return false;
	return true;
}

static void add_pair(struct net *net, unsigned from, unsigned to, int disk, int card)
{
	const struct staged_problem *p = net->p;
	int link = add_link(net, p->link_limit[from][to]);
	struct stage read = { false, from, to, to, p->disk[from][to], 0, { link, disk } };
	struct stage send = { true, from, to, from, p->network[from][to], 0, { link, card } };

	if (p->data[from] > 0 && is_open(net, read.link))
		add_stage(net, read);
	if (is_open(net, send.link))
		add_stage(net, send);
}

static void find_units(struct net *net)
{
	const struct staged_problem *p = net->p;
	double rate = 0;

	for (unsigned i = 0; i < p->n; i++) {
		net->bytes += p->data[i];
		for (unsigned k = 0; k < p->n; k++)
			rate = fmax(rate, fmax(p->disk[i][k], p->network[i][k]));
	}
	net->seconds = net->bytes / rate;
	for (unsigned s = 0; s < net->stages; s++)
		net->stage[s].rate /= rate;
	for (unsigned l = 0; l < net->links; l++)
		net->link[l] /= rate;
}

void net_make(struct net *net, const struct staged_problem *p,
		     enum staged_objective objective)
{
	int disk[STAGED_NODES], card[STAGED_NODES];

	*net = (struct net){ .p = p, .objective = objective };
	for (unsigned i = 0; i < p->n; i++) {
		disk[i] = add_link(net, p->disk_limit[i]);
		card[i] = add_link(net, p->network_limit[i]);
	}
	for (unsigned i = 0; i < p->n; i++)
		for (unsigned k = 0; k < p->n; k++)
			add_pair(net, i, k, disk[i], card[k]);
	find_units(net);
}

/* ---- what ranges imply ---- */

/* No more than the others of the node leave: their least, and the one thread without which the
 * other kind of stage does nothing. False: they need more than there are. */
static bool share_threads(const struct net *net, const struct ranges *r, unsigned v)
{
	unsigned needed[2] = { 0, 0 }, all;

	for (unsigned s = 0; s < net->stages; s++)
		if (net->stage[s].memory == v)
			needed[net->stage[s].network] += r->lo[s];
	all = needed[0] + needed[1];
	if (all > net->p->threads[v] || (all && all + !needed[0] + !needed[1] > net->p->threads[v]))
		return false;
	for (unsigned s = 0; s < net->stages; s++) {
		const struct stage *st = &net->stage[s];
		unsigned left = net->p->threads[v] - all - !needed[!st->network] + r->lo[s];

		if (st->memory == v && r->hi[s] > left)
			r->hi[s] = left;
	}
	return true;
}

/* What is filled must be emptied, and the other way round; false: it cannot be. */
static bool both_stages(const struct net *net, const struct ranges *r, unsigned v)
{
	bool can[2] = { false, false };

	for (unsigned s = 0; s < net->stages; s++)
		if (net->stage[s].memory == v && r->hi[s])
			can[net->stage[s].network] = true;
	if (can[0] && can[1])
		return true;
	for (unsigned s = 0; s < net->stages; s++) {
		if (net->stage[s].memory != v)
			continue;
		if (r->lo[s])
			return false;
		r->hi[s] = 0;
	}
	return true;
}

bool ranges_tighten(const struct net *net, const struct ranges *r)
{
	bool ok = true;

	for (unsigned v = 0; ok && v < net->p->n; v++)
		ok = share_threads(net, r, v) && both_stages(net, r, v);
	return ok;
}
