// SPDX-License-Identifier: Apache-2.0
/* How a target is measured: on which CPUs, with which nodes, and how much memory. */
#include "numa/crew.h"
#include "numa/measure.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#define BYTES_FLOOR (32u << 20)
/* Of what caches hold for a thread, a buffer is so many times as much: then most of it is
 * never in one. */
#define TIMES_CACHE 4
/* The C library's memcpy goes over to non-temporal stores below this part of a cache. */
#define PART_OF_CACHE 2

/* ---- how much ---- */

static uint64_t whole(uint64_t bytes)
{
	return bytes / HUGE_PAGE * HUGE_PAGE;
}

/* A user's size. */
static uint64_t pages(uint64_t bytes)
{
	uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);

	return (bytes + page - 1) / page * page;
}

uint64_t measure_bytes(const struct caches *c, unsigned threads)
{
	uint64_t bytes = TIMES_CACHE * c->all / threads;

	if (bytes < c->biggest / PART_OF_CACHE)
		bytes = c->biggest / PART_OF_CACHE;
	return whole((bytes > BYTES_FLOOR ? bytes : BYTES_FLOOR) + HUGE_PAGE - 1);
}

uint64_t measure_fit(uint64_t room, unsigned buffers)
{
	uint64_t each = whole(room / 2 / buffers);

	return each > CREW_SLACK ? each - CREW_SLACK : 0;
}

/* ---- which CPUs ---- */

static unsigned take_cpus(const struct ids *from, unsigned *cpus, unsigned n, unsigned most)
{
	for (int cpu = -1; n < most && (cpu = ids_next(from, (unsigned)(cpu + 1))) >= 0;)
		cpus[n++] = (unsigned)cpu;
	return n;
}

bool measure_cpus(const struct topo *t, const struct ids *allowed, unsigned threads,
		  unsigned *cpus)
{
	struct ids cores = topo_cores(t, allowed), rest = *allowed;
	unsigned n;

	for (unsigned i = 0; i < sizeof(rest.word) / sizeof(rest.word[0]); i++)
		rest.word[i] &= ~cores.word[i];
	n = take_cpus(&cores, cpus, 0, threads);
	return take_cpus(&rest, cpus, n, threads) == threads;
}

/* The CPUs of node that we may use. */
static int usable(const struct topo *t, int node, struct ids *cpus, struct err *e)
{
	const struct node *n = topo_find(t, node);
	int r = place_cpus(cpus);

	if (r)
		return err_sys(e, r, "cannot tell which CPUs may be used");
	if (!n)
		return err_set(e, -EINVAL, "there is no node %d (rftp-numa topo lists them)", node);
	if (!ids_count(&n->cpus))
		return err_set(e, -EINVAL, "node %d has no CPUs: no thread can run there", node);
	ids_intersect(cpus, &n->cpus);
	if (!ids_count(cpus))
		return err_set(e, -EINVAL, "none of node %d's CPUs may be used (affinity or "
			       "cpuset)", node);
	return 0;
}

static int plan_cpus(const struct topo *t, const struct measure_config *c, struct measure_plan *p,
		     const struct ids *cpus, struct err *e)
{
	struct ids cores = topo_cores(t, cpus);

	p->threads = c->threads ? c->threads : ids_count(&cores);
	p->cpus = calloc(p->threads, sizeof(*p->cpus));
	if (!p->cpus)
		return err_set(e, -ENOMEM, "out of memory");
	if (measure_cpus(t, cpus, p->threads, p->cpus))
		return 0;
	return err_set(e, -EINVAL, "%u threads, one a CPU, do not fit node %d, of which %u may be "
		       "used; give fewer --threads", p->threads, p->target, ids_count(cpus));
}

/* ---- which nodes ---- */

/* The buffers of a thread that are on a node: the target has its end of each copy, too. */
static unsigned buffers_on(const struct measure_plan *p, int node)
{
	return p->threads * (node == p->target ? 2 : 1);
}

static uint64_t fit_on(const struct topo *t, const struct measure_plan *p, int node)
{
	struct node_memory m;

	topo_memory(t, node, &m);
	return measure_fit(m.room, buffers_on(p, node));
}

/* Why a node cannot be one side of the copies: 0, or an error in e. */
static int check_node(const struct topo *t, const struct measure_plan *p, int node, uint64_t least,
		      struct err *e)
{
	char room[32], need[32];
	int r = topo_nodes(t) > 1 ? place_may_have(node) : 0;
	struct node_memory m;

	if (topo_memory(t, node, &m) || !m.total)
		return err_set(e, -ENOMEM, "node %d has no memory", node);
	if (r == -EINVAL)
		return err_set(e, r, "this process may not have node %d's memory (cpuset)", node);
	if (r == -ENOSYS)
		return err_set(e, r, "this rftp-numa cannot bind memory: it was built without "
			       "libnuma");
	if (r)
		return err_sys(e, r, "cannot bind memory to node %d", node);
	if (fit_on(t, p, node) >= least)
		return 0;
	return err_set(e, -ENOMEM, "node %d has room for %s, half of it for us, and %u buffers of "
		       "%s are needed; free some, or give a smaller --size or fewer --threads",
		       node, format_size(room, sizeof(room), m.room), buffers_on(p, node),
		       format_size(need, sizeof(need), least));
}

/* All that can be measured; the target must be among them. */
static int plan_nodes(const struct topo *t, struct measure_plan *p, uint64_t least, struct err *e)
{
	p->nodes = calloc(topo_nodes(t), sizeof(*p->nodes));
	if (!p->nodes)
		return err_set(e, -ENOMEM, "out of memory");
	if (check_node(t, p, p->target, least, e))
		return e->code;
	for (unsigned i = 0; i < topo_nodes(t); i++) {
		int node = topo_node(t, i)->id;
		struct err why = ERR_INIT;

		if (!check_node(t, p, node, least, &why))
			p->nodes[p->n++] = node;
		else
			log_warn("node %d is left out: %s", node, why.text);
	}
	return 0;
}

/* What a control group has is for the buffers of all nodes together: beyond it the kernel would
 * end the process, or slow it down. */
static int fit_in_group(struct measure_plan *p, uint64_t least, uint64_t *fit, struct err *e)
{
	uint64_t limit = cgroup_memory_limit("/proc/self/cgroup", "/sys/fs/cgroup");
	unsigned buffers = p->threads * (p->n + 1);
	char room[32], need[32];

	*fit = measure_fit(limit, buffers);
	if (*fit >= least)
		return 0;
	return err_set(e, -ENOMEM, "this process's control group may have %s, half of it for us, "
		       "and %u buffers of %s are needed; give a smaller --size or fewer --threads",
		       format_size(room, sizeof(room), limit), buffers,
		       format_size(need, sizeof(need), least));
}

/* Without a size of the user's, as much as the caches ask for, or less where memory is short. */
static void plan_bytes(const struct topo *t, const struct measure_config *c, struct measure_plan *p,
		       const struct caches *caches, uint64_t most)
{
	uint64_t want = c->bytes ? pages(c->bytes) : measure_bytes(caches, p->threads);
	char less[32], size[32];

	p->bytes = most < want ? most : want;
	for (unsigned i = 0; i < p->n; i++) {
		uint64_t fit = fit_on(t, p, p->nodes[i]);

		p->bytes = fit < p->bytes ? fit : p->bytes;
	}
	if (p->bytes < want)
		log_warn("buffers are %s and not %s, for which there is no memory: caches may show",
			 format_size(less, sizeof(less), p->bytes),
			 format_size(size, sizeof(size), want));
}

void measure_plan_free(struct measure_plan *p)
{
	free(p->cpus);
	free(p->nodes);
}

int measure_plan(const struct topo *t, const struct measure_config *c, int target,
		 struct measure_plan *p, struct err *e)
{
	/* What the user wants is taken as it is, or not at all. */
	uint64_t least = c->bytes ? pages(c->bytes) : BYTES_FLOOR, most;
	struct caches caches;
	struct ids cpus;
	int r;

	*p = (struct measure_plan){ .target = target };
	r = usable(t, target, &cpus, e);
	if (!r)
		r = plan_cpus(t, c, p, &cpus, e);
	if (!r)
		r = plan_nodes(t, p, least, e);
	if (!r)
		r = fit_in_group(p, least, &most, e);
	if (!r) {
		caches = topo_caches(t, &cpus);
		plan_bytes(t, c, p, &caches, most);
		/* Of one node there is no choice; where it can be bound all the same, it is
		 * looked for, too. */
		p->bind = topo_nodes(t) > 1 || !place_may_have(target);
	}
	return r;
}
