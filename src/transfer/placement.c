// SPDX-License-Identifier: Apache-2.0
/* See placement.h. */
#include "transfer/placement.h"

#include "transfer/bind.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct spot {
	int node;
	struct ids cpus;  /* that may be used; empty: any */
	char name[NIC_TEXT];
};

struct placement {
	struct topo *topo;      /* NULL: nothing is placed */
	struct model *model;    /* NULL: there is none */
	bool cores, source;
	bool pinned;            /* a device has the pools: all of them is in memory */
	enum page_choice pages;
	uint32_t npaths;
	struct spot path[NICS_MAX];
	struct ids storage, storage_cpus;
	struct ids near;        /* nodes as good for the storage, by the I/O model */
	struct ids allowed;     /* CPUs of this process */
	struct ids cores_first; /* one of each core; with cores */
	struct ids bare;        /* nodes that have none of them, and of which it was said */
	uint8_t owned[IDS_MAX]; /* threads of this transfer that have the CPU for their own */
	unsigned turn;          /* which of equal ones comes first */
};

static bool placed(const struct placement *p)
{
	return p && p->topo;
}

/* ---- nodes ---- */

static struct ids only(int node)
{
	struct ids s = { 0 };

	if (node != NODE_UNKNOWN)
		ids_add(&s, (unsigned)node);
	return s;
}

static unsigned distance(const struct topo *t, int from, int to)
{
	unsigned d = topo_distance(t, from, to);

	return d == DISTANCE_UNKNOWN ? UINT32_MAX : d;
}

/* Of nodes the one that is nearest to node; its own when it is among them. */
static int nearest(const struct topo *t, const struct ids *nodes, int node)
{
	int best = ids_next(nodes, 0);

	if (best < 0 || (node != NODE_UNKNOWN && ids_has(nodes, (unsigned)node)))
		return node;
	for (int i = best; i >= 0 && node != NODE_UNKNOWN; i = ids_next(nodes, (unsigned)i + 1))
		if (distance(t, node, i) < distance(t, node, best))
			best = i;
	return best;
}

void placement_offer(struct offer *o, int fd)
{
	struct err why = ERR_INIT;
	struct topo *t;

	o->storage = (uint8_t)(fd < 0 ? STORAGE_UNKNOWN : storage_class_of(fd));
	t = fd < 0 ? NULL : topo_read(NULL, &why);
	if (t && topo_nodes(t) > 1) {
		struct ids nodes = storage_nodes(t, fd);

		for (uint32_t i = 0; i < o->nnics; i++)
			o->nics[i].near = o->nics[i].node != NODE_UNKNOWN &&
					  ids_has(&nodes, (unsigned)o->nics[i].node);
	}
	topo_free(t);
}

/* The card of a path, or NULL: it is whatever the routes say. */
static const struct nic_offer *card_of(const struct placement_config *c, uint32_t path)
{
	uint8_t i = c->client ? c->agr->client_nic[path] : c->agr->server_nic[path];

	return i == NIC_NONE ? NULL : &c->own->nics[i];
}

static void find_storage(struct placement *p, const struct placement_config *c)
{
	p->storage = storage_nodes(p->topo, c->storage);
	if (!ids_count(&p->storage))
		log_info("on which NUMA node the files' storage is, is not known; any will do");
}

static void find_nodes(struct placement *p, const struct placement_config *c)
{
	if (c->storage >= 0)
		find_storage(p, c);
	for (uint32_t i = 0; i < p->npaths; i++) {
		const struct nic_offer *nic = card_of(c, i);

		p->path[i].node = nic ? nic->node : NODE_UNKNOWN;
		if (c->wish->mode == PLACE_STORAGE)
			p->path[i].node = nearest(p->topo, &p->storage, p->path[i].node);
	}
}

static void all_on(struct placement *p, int node)
{
	p->storage = only(node);
	for (uint32_t i = 0; i < p->npaths; i++)
		p->path[i].node = node;
}

/* Files are near the cards. */
static void storage_by_cards(struct placement *p)
{
	memset(&p->storage, 0, sizeof(p->storage));
	for (uint32_t i = 0; i < p->npaths; i++) {
		struct ids s = only(p->path[i].node);

		ids_unite(&p->storage, &s);
	}
}

/* ---- the I/O model ---- */

static struct model *read_model(const struct topo *t)
{
	struct err e = ERR_INIT;
	struct model *m = model_read(NULL, t, &e);

	if (!m && e.code != -ENOENT)
		log_warn("%s: a node is near to itself alone", e.text);
	return m;
}

/* What a source reads into, a sink writes from. */
static void find_near(struct placement *p, const struct placement_config *c)
{
	enum model_op op = c->source ? MODEL_READ : MODEL_WRITE;

	for (int n = ids_next(&p->storage, 0); n >= 0; n = ids_next(&p->storage, (unsigned)n + 1)) {
		struct ids s = model_near(p->model, n, op);

		ids_unite(&p->near, &s);
	}
}

/* ---- CPUs ---- */

/* Those of the node; where it has none, or none that we may use, those of the nearest one that
 * has. */
static struct ids cpus_near(struct placement *p, int node)
{
	struct ids with = { 0 }, own = topo_cpus(p->topo, node, &p->allowed);
	int other;

	if (node == NODE_UNKNOWN || ids_count(&own))
		return own;
	for (unsigned i = 0; i < topo_nodes(p->topo); i++) {
		struct ids cpus = topo_cpus(p->topo, topo_node(p->topo, i)->id, &p->allowed);

		if (ids_count(&cpus))
			ids_add(&with, (unsigned)topo_node(p->topo, i)->id);
	}
	other = nearest(p->topo, &with, node);
	if (!ids_has(&p->bare, (unsigned)node))
		log_info("node %d has no CPU that may be used here: threads run on node %d", node,
			 other);
	ids_add(&p->bare, (unsigned)node);
	return topo_cpus(p->topo, other, &p->allowed);
}

static void find_cpus(struct placement *p)
{
	for (uint32_t i = 0; i < p->npaths; i++)
		p->path[i].cpus = cpus_near(p, p->path[i].node);
	for (int n = ids_next(&p->storage, 0); n >= 0; n = ids_next(&p->storage, (unsigned)n + 1)) {
		struct ids cpus = cpus_near(p, n);

		ids_unite(&p->storage_cpus, &cpus);
	}
}

/* How many threads of this process, in whatever transfers, have each CPU for their own. */
static struct {
	pthread_mutex_t lock;
	uint16_t of[IDS_MAX]; /* guarded by lock */
} owners = { .lock = PTHREAD_MUTEX_INITIALIZER };

/* The CPU that fewest have for their own, whole cores before their second threads; among equals
 * each server process begins with another. */
static struct ids next_cpu(struct placement *p, const struct ids *of)
{
	LOCK_GUARD(held, &owners.lock);
	unsigned n = ids_count(of), nth = 0;
	uint64_t least = UINT64_MAX;
	int best = -1;

	for (int cpu = ids_next(of, 0); cpu >= 0; cpu = ids_next(of, (unsigned)cpu + 1), nth++) {
		uint64_t rank = ((uint64_t)owners.of[cpu] << 32) +
				((uint64_t)!ids_has(&p->cores_first, (unsigned)cpu) << 16) +
				(nth + p->turn) % n;

		if (rank < least) {
			least = rank;
			best = cpu;
		}
	}
	if (best >= 0 && p->owned[best] < UINT8_MAX) {
		p->owned[best]++;
		owners.of[best]++;
	}
	return only(best);
}

static void give_back_cpus(struct placement *p)
{
	LOCK_GUARD(held, &owners.lock);

	for (unsigned i = 0; i < IDS_MAX; i++)
		owners.of[i] = (uint16_t)(owners.of[i] - p->owned[i]);
}

static struct ids cpus_for(struct placement *p, const struct ids *of)
{
	if (!p->cores)
		return *of;
	return next_cpu(p, ids_count(of) ? of : &p->allowed);
}

struct ids placement_path_cpus(struct placement *p, uint32_t path)
{
	struct ids none = { 0 };

	return placed(p) && path < p->npaths ? cpus_for(p, &p->path[path].cpus) : none;
}

unsigned placement_io_width(const struct placement *p)
{
	return placed(p) ? ids_count(&p->storage_cpus) : 0;
}

struct ids placement_io_cpus(struct placement *p)
{
	struct ids none = { 0 };

	return placed(p) ? cpus_for(p, &p->storage_cpus) : none;
}

/* ---- making ---- */

/* With one node there is nothing to choose, but which core a thread has. */
static bool has_choice(const struct placement *p, const struct place_wish *w)
{
	return w->cores || (w->mode != PLACE_OFF && topo_nodes(p->topo) > 1);
}

static void decide(struct placement *p, const struct placement_config *c)
{
	const struct place_wish *w = c->wish;

	if (place_cpus(&p->allowed))
		memset(&p->allowed, 0xff, sizeof(p->allowed));
	if (p->cores)
		p->cores_first = topo_cores(p->topo, &p->allowed);
	if (w->mode == PLACE_OFF || topo_nodes(p->topo) == 1) {
		all_on(p, NODE_UNKNOWN);
		return;
	}
	if (w->mode == PLACE_NODE)
		all_on(p, w->node);
	else
		find_nodes(p, c);
	if (w->mode == PLACE_NIC)
		storage_by_cards(p);
	p->model = read_model(p->topo);
	find_near(p, c);
	find_cpus(p);
}

struct placement *placement_new(const struct placement_config *c, struct err *e)
{
	struct placement *p = calloc(1, sizeof(*p));
	struct err why = ERR_INIT;

	if (!p) {
		err_sys(e, -ENOMEM, "NUMA nodes");
		return NULL;
	}
	p->cores = c->wish->cores;
	p->source = c->source;
	p->turn = c->client ? 0 : (unsigned)getpid();
	p->pinned = c->agr->transport == TRANSPORT_RDMA;
	p->pages = c->pages;
	p->npaths = c->agr->transport == TRANSPORT_INBAND ? 0 : c->agr->paths;
	for (uint32_t i = 0; i < p->npaths; i++)
		if (card_of(c, i))
			nic_text(card_of(c, i), p->path[i].name);
	p->topo = topo_read(NULL, &why);
	if (!p->topo)
		log_debug("NUMA nodes: %s", why.text);
	if (p->topo && !has_choice(p, c->wish))
		topo_free(steal_ptr(&p->topo));
	if (p->topo)
		decide(p, c);
	return p;
}

void placement_free(struct placement *p)
{
	if (!p)
		return;
	if (p->cores)
		give_back_cpus(p);
	model_free(p->model);
	topo_free(p->topo);
	free(p);
}

int placement_node(const struct placement *p, uint32_t path)
{
	return placed(p) && path < p->npaths ? p->path[path].node : NODE_UNKNOWN;
}

const struct ids *placement_storage(const struct placement *p)
{
	static const struct ids none;

	return p ? &p->storage : &none;
}

enum sched_distance placement_distance(const struct placement *p, uint32_t path)
{
	int node = placement_node(p, path);

	if (node == NODE_UNKNOWN || !ids_count(&p->storage) || ids_has(&p->storage, (unsigned)node))
		return SCHED_LOCAL;
	return ids_has(&p->near, (unsigned)node) ? SCHED_NEAR : SCHED_FAR;
}

/* ---- memory ---- */

/* Huge pages were set aside for nodes: those of another are of no use. */
static enum page_choice pages_for(const struct placement *p, int node, uint64_t bytes)
{
	if (p->pages != PAGES_AUTO || node == NODE_UNKNOWN ||
	    topo_huge_free(p->topo, node, POOL_HUGE_PAGE) >= bytes + POOL_HUGE_PAGE)
		return p->pages;
	return PAGES_TRANSPARENT;
}

struct pool *placement_pool(const struct placement *p, uint32_t path, const struct pool_config *c,
			    struct err *e)
{
	struct pool_config mine = *c;
	int node = placement_node(p, path);
	struct bind_wish w = { .node = node };

	mine.pages = p ? pages_for(p, node, (uint64_t)c->blocks * (c->payload + BLOCK_HEAD)) :
			 PAGES_SMALL;
	if (node != NODE_UNKNOWN) {
		w.topo = p->topo;
		w.model = p->model;
		w.op = p->source ? MODEL_WRITE : MODEL_READ;
		w.now = p->pinned;
		mine.bind = bind_pool;
		mine.bind_arg = &w;
	}
	return pool_new(&mine, e);
}

/* Where the pages are; "" when there are none yet. Never "100 %" when one is elsewhere. */
static void say_pages(char out[64], const struct pool *pool, int node)
{
	struct place_count n;
	double all;

	out[0] = '\0';
	if (node == NODE_UNKNOWN || place_count(pool_base(pool), pool_bytes(pool), node, &n))
		return;
	all = (double)(n.there + n.elsewhere);
	if (n.there + n.elsewhere)
		snprintf(out, 64, ", %.5g %% of its pages on node %d",
			 (double)(uint64_t)(1000 * (double)n.there / all) / 10, node);
}

void placement_say(const struct placement *p, uint32_t path, const struct pool *pool)
{
	const struct spot *s;
	char bytes[32], cpus[128] = "", there[64];

	if (!p || !log_enabled(LOG_LV_INFO))
		return;
	s = &p->path[path];
	if (placed(p) && ids_count(&s->cpus))
		snprintf(cpus, sizeof(cpus), "; threads on CPUs ");
	if (*cpus)
		ids_format(cpus + strlen(cpus), sizeof(cpus) - strlen(cpus), &s->cpus);
	say_pages(there, pool, placement_node(p, path));
	log_info("path %u: %s%s; pool of %s%s%s", path, *s->name ? s->name : "in-band", cpus,
		 format_size(bytes, sizeof(bytes), pool_bytes(pool)),
		 pool_is_huge(pool) ? " in huge pages" : "", there);
}

void placement_say_used(const struct placement *p, uint32_t path, const struct pool *pool)
{
	char there[64];

	if (!placed(p) || p->pinned || !log_enabled(LOG_LV_INFO))
		return;
	say_pages(there, pool, placement_node(p, path));
	if (*there)
		log_info("path %u: %s, as far as its pool was used", path, there + 2);
}

void placement_say_io(const struct placement *p, const char *what, unsigned threads)
{
	char cpus[128];

	if (!placed(p) || !ids_count(&p->storage_cpus))
		log_info("files are %s by %u threads", what, threads);
	else
		log_info("files are %s by %u threads on CPUs %s", what, threads,
			 ids_format(cpus, sizeof(cpus), &p->storage_cpus));
}
