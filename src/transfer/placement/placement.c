// SPDX-License-Identifier: Apache-2.0
/* Chooses the NUMA nodes of a transfer, logs them, and binds pools to them. */
#include "transfer/placement/placement.h"

#include <pthread.h>
#include <stdatomic.h>
#include <sys/mman.h>

struct spot {
	int node;
	struct ids cpus;  /* CPUs that may be used; empty: any */
	char name[NIC_TEXT];
};

struct placement {
	struct topo *topo;      /* NULL: nothing is placed */
	struct model *model;    /* NULL: there is none */
	bool cores, source;
	bool pinned;            /* pools are registered with a device, which pins all their pages */
	enum page_choice pages;
	uint32_t npaths;
	struct spot path[NICS_MAX];
	struct ids storage, storage_cpus;
	struct ids near;        /* nodes that serve the storage equally well, by the I/O model */
	struct ids allowed;     /* CPUs of this process */
	struct ids cores_first; /* with cores: one CPU of each core */
	struct ids bare;        /* nodes without usable CPUs that were logged already */
	uint8_t owned[IDS_MAX]; /* for each CPU: threads of this transfer that are bound to it */
	unsigned turn;          /* selects the first among equal CPUs */
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

static unsigned node_distance(const struct topo *t, int from, int to)
{
	unsigned d = topo_distance(t, from, to);

	return d == DISTANCE_UNKNOWN ? UINT32_MAX : d;
}

/* The member of nodes that is nearest to node; node itself if it is a member. */
static int nearest(const struct topo *t, const struct ids *nodes, int node)
{
	int best = ids_next(nodes, 0);

	if (best < 0 || (node != NODE_UNKNOWN && ids_has(nodes, (unsigned)node)))
		return node;
	for (int i = best; i >= 0 && node != NODE_UNKNOWN; i = ids_next(nodes, (unsigned)i + 1))
		if (node_distance(t, node, i) < node_distance(t, node, best))
			best = i;
	return best;
}

void placement_offer(struct offer *o, int fd, bool source)
{
	struct err why = ERR_INIT;
	struct topo *t;

	o->storage = (uint8_t)(fd < 0 ? STORAGE_UNKNOWN : source ? storage_class_of_source(fd) :
				  storage_class_of(fd));
	t = fd < 0 ? NULL : topo_read(NULL, &why);
	if (t && topo_nodes(t) > 1) {
		struct ids nodes = storage_nodes(t, fd);

		for (uint32_t i = 0; i < o->nnics; i++)
			o->nics[i].near = o->nics[i].node != NODE_UNKNOWN &&
					  ids_has(&nodes, (unsigned)o->nics[i].node);
	}
	topo_free(t);
}

/* The card of a path; NULL: the routes choose it. */
static const struct nic_offer *card_of(const struct placement_config *c, uint32_t path)
{
	uint8_t i = c->client ? c->agr->client_nic[path] : c->agr->server_nic[path];

	return i == NIC_NONE ? NULL : &c->own->nics[i];
}

static void find_nodes(struct placement *p, const struct placement_config *c)
{
	if (c->storage >= 0) {
		p->storage = storage_nodes(p->topo, c->storage);
		if (!ids_count(&p->storage))
			log_info("the NUMA node of the files' storage is not known; any will do");
	}
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

/* ---- CPUs ---- */

/* The usable CPUs of the node; if it has none, those of the nearest node that has some. */
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

/* Find the CPUs for threads, and the nodes that are near to the storage. */
static void find_cpus(struct placement *p)
{
	for (uint32_t i = 0; i < p->npaths; i++)
		p->path[i].cpus = cpus_near(p, p->path[i].node);
	for (int n = ids_next(&p->storage, 0); n >= 0; n = ids_next(&p->storage, (unsigned)n + 1)) {
		struct ids cpus = cpus_near(p, n);
		/* A source reads into the memory of these nodes, a sink writes from it. */
		struct ids near = model_near(p->model, n, p->source ? MODEL_READ : MODEL_WRITE);

		ids_unite(&p->storage_cpus, &cpus);
		ids_unite(&p->near, &near);
	}
}

/* For each CPU the number of threads of this process, in all transfers, that are bound to it. */
static struct {
	pthread_mutex_t lock;
	uint16_t of[IDS_MAX]; /* guarded by lock */
} owners = { .lock = PTHREAD_MUTEX_INITIALIZER };

/* The CPU of the set to which the fewest threads are bound; whole cores come before second hardware
 * threads. Among equal ones each server process begins with a different one. */
static struct ids placement_next_cpu(struct placement *p, const struct ids *of)
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

static struct ids cpus_for(struct placement *p, const struct ids *of)
{
	if (!p->cores)
		return *of;
	return placement_next_cpu(p, ids_count(of) ? of : &p->allowed);
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

static void decide(struct placement *p, const struct placement_config *c)
{
	const struct place_wish *w = c->wish;
	struct err why = ERR_INIT;

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

	if (w->mode == PLACE_NIC) { /* file threads run near the cards */
		memset(&p->storage, 0, sizeof(p->storage));
		for (uint32_t i = 0; i < p->npaths; i++) {
			struct ids s = only(p->path[i].node);

			ids_unite(&p->storage, &s);
		}
	}

	p->model = model_read(NULL, p->topo, &why);
	if (!p->model && why.code != -ENOENT)
		log_warn("%s: no node counts as near to another", why.text);
	find_cpus(p);
}

struct placement *placement_new(const struct placement_config *c, struct err *e)
{
	struct placement *p = calloc(1, sizeof(*p));
	struct err why = ERR_INIT;

	if (!p) {
		err_nomem(e);
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
	/* With one node the only choice is the core of a thread. */
	if (p->topo && !p->cores && (c->wish->mode == PLACE_OFF || topo_nodes(p->topo) == 1))
		topo_free(steal_ptr(&p->topo));

	if (p->topo)
		decide(p, c);
	return p;
}

void placement_free(struct placement *p)
{
	if (!p)
		return;
	pthread_mutex_lock(&owners.lock);
	for (unsigned i = 0; p->cores && i < IDS_MAX; i++)
		owners.of[i] = (uint16_t)(owners.of[i] - p->owned[i]);
	pthread_mutex_unlock(&owners.lock);

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

#define STEP (64ull << 20)
/* Bytes that must stay free on a node: the kernel's reserve, and pages that other programs allocate
 * meanwhile. */
#define NODE_SPARE (64ull << 20)
#define NODE_SPARE_SHARE 64

/* The place of a pool, for its pool_config.bind. */
struct pool_place {
	const struct placement *p;
	int node;
};

static bool node_has_room(const struct pool_place *w, int node, size_t bytes)
{
	struct node_memory m;

	return !topo_memory(w->p->topo, node, &m) &&
	       m.room >= bytes + NODE_SPARE + m.total / NODE_SPARE_SHARE;
}

/* Put the whole region on node, or nothing. 0 or a negative errno. */
static int bind_to(const struct pool_place *w, int node, void *base, size_t bytes, bool huge)
{
	int r = place_memory(base, bytes, node, true);

	if (r)
		return r;
	for (size_t at = 0; !r && at < bytes; at += STEP) {
		size_t len = bytes - at < STEP ? bytes - at : STEP;

		/* Reserved huge pages were counted before. */
		r = huge || node_has_room(w, node, len) ?
		    place_fault_in((uint8_t *)base + at, len) : -ENOSPC;
	}
	if (!r)
		return 0;

	place_anywhere(base, bytes);
	(void)madvise(base, bytes, MADV_DONTNEED); /* free the pages allocated so far */
	return r;
}

/* Put the region on another node with memory that the card uses equally well. */
static bool bind_near(const struct pool_place *w, void *base, size_t bytes)
{
	struct ids near = model_near(w->p->model, w->node,
					w->p->source ? MODEL_WRITE : MODEL_READ);
	char text[32];

	for (int n = ids_next(&near, 0); n >= 0; n = ids_next(&near, (unsigned)n + 1)) {
		if (n == w->node || !node_has_room(w, n, bytes) || bind_to(w, n, base, bytes, false))
			continue;
		log_warn("node %d has not %s to spare: blocks are on node %d, which is as near",
			 w->node, format_size(text, sizeof(text), bytes), n);
		return true;
	}
	return false;
}

static int bind_loosely(const struct pool_place *w, void *base, size_t bytes)
{
	static atomic_bool said;
	int r = place_memory(base, bytes, w->node, false);

	if (r == -EINVAL)
		log_warn("memory cannot be put on node %d: it may not be used here (cpuset); it "
			 "comes from any", w->node);
	else if (r && !atomic_exchange(&said, true)) /* as in a container that forbids it */
		log_info("memory cannot be put on NUMA nodes here: %s", strerror(-r));
	return r;
}

/* A pool_config.bind. Always 0: if memory cannot be on the node, it is elsewhere, with a warning.
 * If a device will pin the pages, all are allocated now; otherwise when they are used. */
static int bind_pool(void *arg, void *base, size_t bytes, bool huge)
{
	const struct pool_place *w = arg;
	bool now = w->p->pinned;
	char text[32];
	int r = now && (huge || node_has_room(w, w->node, bytes)) ?
		bind_to(w, w->node, base, bytes, huge) : -ENOSPC;

	if (!r)
		return 0;
	if (r == -ENOSPC && now && !huge && bind_near(w, base, bytes))
		return 0;

	if (!bind_loosely(w, base, bytes) && now)
		log_warn("node %d has not %s to spare: some of the blocks may be on others",
			 w->node, format_size(text, sizeof(text), bytes));
	return 0;
}

struct pool *placement_pool(const struct placement *p, uint32_t path, const struct pool_config *c,
			    struct err *e)
{
	uint64_t bytes = (uint64_t)c->blocks * (c->payload + BLOCK_HEAD);
	struct pool_config mine = *c;
	struct pool_place w = { .p = p, .node = placement_node(p, path) };

	mine.pages = p ? p->pages : PAGES_SMALL;
	if (w.node != NODE_UNKNOWN) {
		/* Huge pages are reserved on each node: do not use another node's. */
		if (p->pages == PAGES_AUTO && topo_huge_free(p->topo, w.node, POOL_HUGE_PAGE) <
					      bytes + POOL_HUGE_PAGE)
			mine.pages = PAGES_TRANSPARENT;
		mine.bind = bind_pool;
		mine.bind_arg = &w;
	}
	return pool_new(&mine, e);
}

/* Describe where the pages are; "" when there are none yet. Never "100 %" if a page is on another
 * node. */
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

void placement_say_io(const struct placement *p, const char *verb, unsigned threads)
{
	char cpus[128];

	if (!placed(p) || !ids_count(&p->storage_cpus))
		log_info("files are %s by %u thread%s", verb, threads, plural(threads));
	else
		log_info("files are %s by %u thread%s on CPUs %s", verb, threads, plural(threads),
			 ids_format(cpus, sizeof(cpus), &p->storage_cpus));
}
