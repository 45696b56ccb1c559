// SPDX-License-Identifier: Apache-2.0
/* The device under an endpoint: what it can, the memory registered with it, and the path
 * that its limits allow. */
#include "rdma/endpoint.h"

#include <arpa/inet.h>
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#define LOCK_SPARE_KIB 65536u /* beside the pool: queues, messages */

/* ---- what was chosen ---- */

static unsigned mtu_bytes(enum ibv_mtu m)
{
	return m < IBV_MTU_256 || m > IBV_MTU_4096 ? 0 : 128u << m;
}

static const char *gid_kind(uint32_t type)
{
	switch (type) {
	case IBV_GID_TYPE_ROCE_V2:
		return "RoCE v2";
	case IBV_GID_TYPE_ROCE_V1:
		return "RoCE v1";
	case IBV_GID_TYPE_IB:
		return "InfiniBand";
	}
	return "of unknown kind";
}

/* rdma_cm chose it; people want to know. */
void rd_say_way(const struct rd_endpoint *ep, const struct rd_channel *c)
{
	struct ibv_gid_entry gid;
	enum ibv_mtu mtu;
	char text[INET6_ADDRSTRLEN], reads[48] = "";
	int r = ep->v->qp_way(c->id, &gid, &mtu);

	if (ep->cfg.agr->op == OP_READ && !ep->cfg.source)
		snprintf(reads, sizeof(reads), ", %u reads at once of each queue pair", c->reads_max);
	if (!r && inet_ntop(AF_INET6, &gid.gid, text, sizeof(text)))
		log_info("RDMA by %s: GID %s (%s), MTU %u%s", ep->name, text,
			 gid_kind(gid.gid_type), mtu_bytes(mtu), reads);
	else
		log_info("RDMA by %s: the device does not tell its GID", ep->name);
}

static int check_port(struct rd_endpoint *ep, const struct ibv_port_attr *port, struct err *e)
{
	uint64_t block = (ep->cfg.agr ? ep->cfg.agr->block : 0ull) + BLOCK_HEAD;

	if (port->state != IBV_PORT_ACTIVE)
		return err_set(e, -ENETDOWN, "RDMA by %s: the port is not active", ep->name);
	if (ep->cfg.agr && ep->cfg.agr->op == OP_READ &&
	    (ep->cfg.source ? ep->attr.max_qp_rd_atom : ep->attr.max_qp_init_rd_atom) < 1)
		return err_set(e, -EOPNOTSUPP, "RDMA by %s: it can do no RDMA_READ: set --op write",
			       ep->name);
	if (port->max_msg_sz < block)
		return err_set(e, -EMSGSIZE, "RDMA by %s: it takes messages of %u bytes at most: "
			       "set --block below that", ep->name, port->max_msg_sz);
	return 0;
}

/* ---- who uses which device ---- */

/* A process has one context for each device, whatever number of endpoints. */
struct user {
	struct user *next;
	struct ibv_context *ctx;
	unsigned count;
	bool gone;
};

static struct user *users; /* guarded by users_lock */
static pthread_mutex_t users_lock = PTHREAD_MUTEX_INITIALIZER;

static struct user **find_user(const struct ibv_context *ctx)
{
	struct user **u = &users;

	while (*u && (*u)->ctx != ctx)
		u = &(*u)->next;
	return u;
}

static int hold_device(struct ibv_context *ctx)
{
	LOCK_GUARD(held, &users_lock);
	struct user **u = find_user(ctx);

	if (!*u)
		*u = calloc(1, sizeof(**u));
	if (!*u)
		return -ENOMEM;
	(*u)->ctx = ctx;
	(*u)->count++;
	return 0;
}

/* True: it is being removed, and this was the last who used it. */
static bool drop_device(struct ibv_context *ctx, bool gone)
{
	LOCK_GUARD(held, &users_lock);
	struct user **u = find_user(ctx), *last = *u;

	last->gone |= gone;
	if (--last->count)
		return false;
	gone = last->gone;
	*u = last->next;
	free(last);
	return gone;
}

void rd_leave_device(struct rd_endpoint *ep)
{
	struct ibv_context *ctx = steal_ptr(&ep->ctx);

	ep->v->id_free(steal_ptr(&ep->id));
	ep->v->mr_free(steal_ptr(&ep->mr));
	ep->v->pd_free(steal_ptr(&ep->pd));
	ep->v->channel_free(steal_ptr(&ep->events));
	if (ctx && drop_device(ctx, ep->gone))
		ep->v->device_gone(ctx);
}

int rd_use_device(struct rd_endpoint *ep, struct err *e)
{
	struct ibv_port_attr port;
	int r = hold_device(ep->id->verbs);

	if (r)
		return err_sys(e, r, "RDMA device");
	ep->ctx = ep->id->verbs;
	snprintf(ep->name, sizeof(ep->name), "%.60s port %u",
		 ep->ctx->device ? ep->ctx->device->name : "?", ep->id->port_num);
	r = ep->v->query_device(ep->ctx, &ep->attr);
	if (!r)
		r = ep->v->query_port(ep->ctx, ep->id->port_num, &port);
	if (!r)
		r = ep->v->pd_new(ep->ctx, &ep->pd);
	if (r)
		return err_sys(e, r, "RDMA device %s", ep->name);
	return check_port(ep, &port, e);
}

/* ---- the pool's memory ---- */

/* Registering bytes has failed for r: when a limit may be why, say which and what to do. */
static void say_lock_limit(int r, size_t bytes)
{
	char text[LOCK_ADVICE];
	struct rlimit l;

	if ((r != -ENOMEM && r != -EPERM) || getrlimit(RLIMIT_MEMLOCK, &l) ||
	    l.rlim_cur == RLIM_INFINITY)
		return;
	log_error("%zu KiB cannot be locked in memory, the limit for all is %llu KiB: %s; or set "
		  "less --memory", bytes >> 10, (unsigned long long)l.rlim_cur >> 10,
		  lock_advice(text, (l.rlim_cur + bytes) / 1024 + LOCK_SPARE_KIB));
}

/* What the other side may do with the pool: nothing, but write a sink's (WRITE) or read a
 * source's (READ). */
static int access_of(const struct rd_endpoint *ep)
{
	bool read = ep->cfg.agr->op == OP_READ;
	int access = IBV_ACCESS_LOCAL_WRITE;

	if (ep->cfg.source && read)
		access |= IBV_ACCESS_REMOTE_READ;
	if (!ep->cfg.source && !read)
		access |= IBV_ACCESS_REMOTE_WRITE;
	return access;
}

static int register_pool(void *arg, void *base, size_t bytes)
{
	struct rd_endpoint *ep = arg;
	int access = access_of(ep);
	/* Called by its offset on both sides, so that no address of ours is told. The order
	 * of a block's bytes does not matter, the completion comes after all. */
	int r = ep->v->mr_new(ep->pd, base, bytes, 0, access | IBV_ACCESS_RELAXED_ORDERING,
			      &ep->mr);

	if (r)
		r = ep->v->mr_new(ep->pd, base, bytes, 0, access, &ep->mr);
	if (r)
		say_lock_limit(r, bytes);
	return r;
}

static void unregister_pool(void *arg, void *base, size_t bytes)
{
	struct rd_endpoint *ep = arg;

	ep->v->mr_free(steal_ptr(&ep->mr));
}

const struct pool_hooks *rd_hooks(struct endpoint *endpoint)
{
	struct rd_endpoint *ep = (struct rd_endpoint *)endpoint;

	ep->hooks = (struct pool_hooks){ .arg = ep, .reg = register_pool,
					 .unreg = unregister_pool };
	return &ep->hooks;
}

/* ---- an empty path ---- */

static uint32_t clamp(uint32_t want, int device)
{
	uint32_t most = device < 32 ? 32 : (uint32_t)device;

	return want < most ? want : most;
}

/* The depth of each channel's queues: see the head of path.h. All channels share the path's
 * completion queue. Where the device's limit for that is too low, each channel gets an equal part,
 * at least half of it for its sends; make_queue() refuses a path that needs more. */
static void size_channel(const struct rd_path *p, const struct rd_endpoint *ep,
			 struct rd_channel *c)
{
	const struct agreement *a = ep->cfg.agr;
	int room = ep->attr.max_qp_wr - (int)RD_OTHERS_OUT;
	int share = ep->attr.max_cqe / (int)p->path.nchannels - (int)RD_OTHERS_OUT, rest;

	c->receives = clamp(p->read ? p->cfg.inflight : a->sink_blocks, ep->attr.max_qp_wr);
	c->sends_max = 1;
	if (p->cfg.source && !p->read)
		c->sends_max = clamp(2 * p->cfg.inflight, room);
	if (!p->cfg.source && p->read)
		c->sends_max = RD_READS_MAX;
	rest = share - (int)c->receives;
	c->sends_max = clamp(c->sends_max, rest > share / 2 ? rest : share / 2);
	c->receives = clamp(c->receives, share - (int)c->sends_max);
	c->spare_messages = (1u << RD_MESSAGES_OUT) - 1;
}

static void *zeroed(size_t n, size_t size, int *r)
{
	void *p = calloc(n ? n : 1, size);

	if (!p)
		*r = -ENOMEM;
	return p;
}

static int make_books(struct rd_path *p, const struct rd_endpoint *ep)
{
	const struct agreement *a = ep->cfg.agr;
	uint32_t blocks = pool_blocks(p->cfg.pool);
	int r = 0;

	p->path.channel_bytes = zeroed(p->path.nchannels, sizeof(uint64_t), &r);
	p->nat = p->read ? a->source_blocks : a->sink_blocks;
	p->source_blocks = a->source_blocks;
	p->nanswers = (p->read ? p->cfg.inflight : blocks) + 1;
	if (p->cfg.source)
		p->at = zeroed(p->nat, sizeof(struct block *), &r);
	else if (p->read)
		p->reading = zeroed(blocks, sizeof(struct block *), &r);
	else
		p->granted = zeroed(blocks, sizeof(struct block *), &r);
	if (p->cfg.source && !p->read)
		p->holder = zeroed(p->nat, sizeof(uint32_t), &r);
	for (uint32_t i = 0; i < p->path.nchannels; i++) {
		struct rd_channel *c = &p->ch[i];

		if (p->cfg.source && !p->read)
			c->credits = zeroed(p->nat, sizeof(uint32_t), &r);
		if (!p->cfg.source)
			c->answers = zeroed(p->nanswers, sizeof(struct credit), &r);
		if (!p->cfg.source && p->read)
			c->announced = zeroed(p->cfg.inflight, sizeof(struct announce), &r);
	}
	return r;
}

/* Memory for messages of all channels, registered at once. */
static int make_messages(struct rd_path *p)
{
	bool in = p->cfg.source || p->read;
	size_t each = (RD_MESSAGES_OUT + (in ? p->ch[0].receives : 0)) * RD_MESSAGE;
	void *memory;
	int r;

	p->message_bytes = each * p->path.nchannels;
	if (posix_memalign(&memory, 4096, p->message_bytes))
		return -ENOMEM;
	memset(memory, 0, p->message_bytes);
	p->message_memory = memory;
	for (uint32_t i = 0; i < p->path.nchannels; i++)
		p->ch[i].messages = p->message_memory + i * each;
	r = p->v->mr_new(p->pd, memory, p->message_bytes, (uintptr_t)memory,
			 IBV_ACCESS_LOCAL_WRITE, &p->message_mr);
	if (r)
		say_lock_limit(r, p->message_bytes);
	return r;
}

/* Whose interrupt comes to the node of the path, and another for each path. */
static int vector_of(const struct rd_endpoint *ep)
{
	unsigned nth = ep->cfg.first / (ep->cfg.agr->channels ? ep->cfg.agr->channels : 1u);
	unsigned vectors = ep->ctx->num_comp_vectors > 0 ? (unsigned)ep->ctx->num_comp_vectors : 1;
	struct err e = ERR_INIT;
	struct topo *t = ep->cfg.node == NODE_UNKNOWN ? NULL : topo_read(NULL, &e);
	const struct node *n = t ? topo_find(t, ep->cfg.node) : NULL;
	unsigned vector = nth % vectors;

	if (n && ep->ctx->device)
		vector = topo_vector(t, ep->ctx->device->name, &n->cpus, vectors, nth);
	topo_free(t);
	log_debug("RDMA by %s: completion vector %u of %u", ep->name, vector, vectors);
	return (int)vector;
}

static int make_queue(struct rd_path *p, const struct rd_endpoint *ep)
{
	const struct rd_channel *c = &p->ch[0];
	uint64_t most = (uint64_t)p->path.nchannels *
			(c->receives + c->sends_max + RD_OTHERS_OUT);

	if (most > (uint64_t)ep->attr.max_cqe)
		return -E2BIG;
	p->cq_entries = (uint32_t)most;
	return p->v->cq_new(p->ctx, (int)most, vector_of(ep), &p->completions, &p->cq);
}

static int watch(struct rd_path *p, int fd, void *mark)
{
	return sleeper_watch(&p->sleeper, fd, EPOLLIN, (epoll_data_t){ .ptr = mark });
}

static int watch_all(struct rd_path *p)
{
	int r = watch(p, p->completions->fd, p->completions);

	if (!r)
		r = watch(p, p->events->fd, p->events);
	p->async = p->v->async_fd(p->ctx);
	if (r || p->async < 0)
		return r ? r : p->async;
	return watch(p, p->async, p->ctx);
}

static void init_path(struct rd_path *p, struct rd_endpoint *ep, const struct path_config *c)
{
	p->path.ops = c->source ? &rd_source_ops : &rd_sink_ops;
	p->path.nchannels = ep->cfg.agr->channels;
	p->path.pool = c->pool;
	p->cfg = *c;
	p->path.watch.source = c->source;
	p->v = ep->v;
	p->read = ep->cfg.agr->op == OP_READ;
	p->stride = pool_stride(c->pool);
	/* Besides, each end has readers or writers, and packets that come in. */
	spin_init(&p->spin, ep->cfg.poll, cpus_allowed(), ep->cfg.agr->paths + 1u);
	p->endpoint = ep;
	p->ctx = ep->ctx;
	p->pd = ep->pd;
	p->mr = ep->mr;
	p->events = ep->events;
	p->acked_end = &p->acked;
	p->returned_end = &p->returned;
	p->received_end = &p->received;
	pthread_mutex_init(&p->lock, NULL);
	for (uint32_t i = 0; i < p->path.nchannels; i++) {
		p->ch[i].index = i;
		size_channel(p, ep, &p->ch[i]);
	}
}

static int open_messages(struct rd_path *p)
{
	const struct message_keys *k = p->cfg.keys;
	const uint8_t *source = k ? k->from_source : NULL, *sink = k ? k->from_sink : NULL;
	int r = 0;

	for (uint32_t i = 0; !r && i < p->path.nchannels; i++) {
		struct rd_channel *c = &p->ch[i];
		uint16_t number = (uint16_t)(p->cfg.first + i);

		r = messages_open(&c->outgoing, p->cfg.source ? source : sink, number);
		if (!r)
			r = messages_open(&c->incoming, p->cfg.source ? sink : source, number);
	}
	return r;
}

struct rd_path *rd_path_new(struct rd_endpoint *ep, const struct path_config *c, struct err *e)
{
	uint32_t n = ep->cfg.agr->channels;
	struct rd_path *p = calloc(1, sizeof(*p) + n * sizeof(p->ch[0]));
	int r;

	if (!p) {
		err_sys(e, -ENOMEM, "an RDMA path of %u channels", n);
		return NULL;
	}
	init_path(p, ep, c);
	r = sleeper_open(&p->sleeper);
	if (!r)
		r = watch_init(&p->path, c->stall_ms);
	if (!r)
		r = open_messages(p);
	p->cfg.keys = NULL;
	if (!r)
		r = make_books(p, ep);
	if (!r)
		r = make_messages(p);
	if (!r)
		r = make_queue(p, ep);
	if (!r)
		r = watch_all(p);
	if (!r)
		return p;
	if (r == -E2BIG)
		err_set(e, r, "RDMA by %s: its completion queues hold %d entries: set less "
			"--channels or --inflight", ep->name, ep->attr.max_cqe);
	else
		err_sys(e, r, "an RDMA path of %u channels on %s", n, ep->name);
	rd_path_free(&p->path);
	return NULL;
}
