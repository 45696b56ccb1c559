// SPDX-License-Identifier: Apache-2.0
/* The device of an endpoint: its limits, the memory registered with it, and a path within the
 * limits. */
#include "rdma/path.h"

#include <arpa/inet.h>
#include <pthread.h>
#include <sys/resource.h>

#define LOCK_SPARE_KIB 65536u /* needed beside the pool: queues, messages */

/* Log the route that rdma_cm chose. */
void rd_log_route(const struct rd_endpoint *ep, const struct rd_channel *c)
{
	struct ibv_gid_entry gid;
	enum ibv_mtu mtu;
	char text[INET6_ADDRSTRLEN], reads[48] = "";
	int r = ep->v->qp_way(c->id, &gid, &mtu);

	if (r || !inet_ntop(AF_INET6, &gid.gid, text, sizeof(text))) {
		log_info("RDMA by %s: the device does not report its GID", ep->name);
		return;
	}
	if (ep->cfg.agr->op == OP_READ && !ep->cfg.source)
		snprintf(reads, sizeof(reads), ", %u reads at once of each queue pair",
			 c->reads_max);
	log_info("RDMA by %s: GID %s (%s), MTU %u%s", ep->name, text,
		 gid.gid_type == IBV_GID_TYPE_ROCE_V2 ? "RoCE v2" :
		 gid.gid_type == IBV_GID_TYPE_ROCE_V1 ? "RoCE v1" :
		 gid.gid_type == IBV_GID_TYPE_IB ? "InfiniBand" : "of unknown kind",
		 mtu < IBV_MTU_256 || mtu > IBV_MTU_4096 ? 0 : 128u << mtu, reads);
}

/* ---- the users of a device ---- */

/* A process has one context for each device, shared by its endpoints. */
struct device_user {
	struct device_user *next;
	struct ibv_context *ctx;
	unsigned count;
	bool gone;
};

static struct device_user *device_users; /* guarded by users_lock */
static pthread_mutex_t users_lock = PTHREAD_MUTEX_INITIALIZER;

static struct device_user **device_find_user(const struct ibv_context *ctx)
{
	struct device_user **u = &device_users;

	while (*u && (*u)->ctx != ctx)
		u = &(*u)->next;
	return u;
}

void rd_leave_device(struct rd_endpoint *ep)
{
	struct ibv_context *ctx = steal_ptr(&ep->ctx);
	struct device_user **u, *user;
	bool gone = false;

	ep->v->id_free(steal_ptr(&ep->id));
	ep->v->mr_free(steal_ptr(&ep->mr));
	ep->v->pd_free(steal_ptr(&ep->pd));
	ep->v->channel_free(steal_ptr(&ep->events));
	if (!ctx)
		return;

	pthread_mutex_lock(&users_lock);
	u = device_find_user(ctx);
	user = *u;
	user->gone |= ep->gone;
	if (!--user->count) {
		gone = user->gone;
		*u = user->next;
		free(user);
	}
	pthread_mutex_unlock(&users_lock);

	/* The device is being removed, and this was its last user. */
	if (gone)
		ep->v->device_gone(ctx);
}

int rd_use_device(struct rd_endpoint *ep, struct err *e)
{
	uint64_t block = (ep->cfg.agr ? ep->cfg.agr->block : 0ull) + BLOCK_HEAD;
	struct ibv_port_attr port;
	struct device_user **u, *user;
	int r;

	pthread_mutex_lock(&users_lock);
	u = device_find_user(ep->id->verbs);
	if (!*u)
		*u = calloc(1, sizeof(**u));
	user = *u;
	if (user) {
		user->ctx = ep->ctx = ep->id->verbs;
		user->count++;
	}
	pthread_mutex_unlock(&users_lock);
	if (!user)
		return err_nomem(e);

	snprintf(ep->name, sizeof(ep->name), "%.60s port %u",
		 ep->ctx->device ? ep->ctx->device->name : "?", ep->id->port_num);
	r = ep->v->query_device(ep->ctx, &ep->attr);
	if (!r)
		r = ep->v->query_port(ep->ctx, ep->id->port_num, &port);
	if (!r)
		r = ep->v->pd_new(ep->ctx, &ep->pd);
	if (r)
		return err_sys(e, r, "RDMA device %s", ep->name);

	if (port.state != IBV_PORT_ACTIVE)
		return err_set(e, -ENETDOWN, "RDMA by %s: the port is not active", ep->name);
	if (ep->cfg.agr && ep->cfg.agr->op == OP_READ &&
	    (ep->cfg.source ? ep->attr.max_qp_rd_atom : ep->attr.max_qp_init_rd_atom) < 1)
		return err_set(e, -EOPNOTSUPP, "RDMA by %s: the device has no RDMA_READ: set "
			       "--op write", ep->name);
	if (port.max_msg_sz < block)
		return err_set(e, -EMSGSIZE, "RDMA by %s: it takes messages of %u bytes at most: "
			       "set --block below that", ep->name, port.max_msg_sz);
	return 0;
}

/* ---- the pool's memory ---- */

/* The registration of bytes has failed with r: if a limit may be the reason, log it with a
 * remedy. */
static void rd_log_lock_limit(int r, size_t bytes)
{
	char text[LOCK_ADVICE];
	struct rlimit l;

	if ((r != -ENOMEM && r != -EPERM) || getrlimit(RLIMIT_MEMLOCK, &l) ||
	    l.rlim_cur == RLIM_INFINITY)
		return;
	log_error("%zu KiB cannot be locked in memory, the limit is %llu KiB altogether: %s; or "
		  "set a lower --memory", bytes >> 10, (unsigned long long)l.rlim_cur >> 10,
		  lock_advice(text, (l.rlim_cur + bytes) / 1024 + LOCK_SPARE_KIB));
}

static int rd_register_pool(void *arg, void *base, size_t bytes)
{
	struct rd_endpoint *ep = arg;
	bool read = ep->cfg.agr->op == OP_READ;
	int access = IBV_ACCESS_LOCAL_WRITE, r;

	/* The peer may write a sink's pool (WRITE) or read a source's (READ), nothing else. */
	if (ep->cfg.source && read)
		access |= IBV_ACCESS_REMOTE_READ;
	if (!ep->cfg.source && !read)
		access |= IBV_ACCESS_REMOTE_WRITE;

	/* Both sides address the pool by offset, so that the peer learns no address of this
	 * process. Relaxed ordering: the order of a block's bytes does not matter, because the
	 * completion follows all of them. */
	r = ep->v->mr_new(ep->pd, base, bytes, 0, access | IBV_ACCESS_RELAXED_ORDERING, &ep->mr);
	if (r)
		r = ep->v->mr_new(ep->pd, base, bytes, 0, access, &ep->mr);
	if (r)
		rd_log_lock_limit(r, bytes);
	return r;
}

static void rd_unregister_pool(void *arg, void *base, size_t bytes)
{
	struct rd_endpoint *ep = arg;

	ep->v->mr_free(steal_ptr(&ep->mr));
}

const struct pool_hooks *rd_hooks(struct endpoint *endpoint)
{
	struct rd_endpoint *ep = (struct rd_endpoint *)endpoint;

	ep->hooks = (struct pool_hooks){ .arg = ep, .reg = rd_register_pool,
					 .unreg = rd_unregister_pool };
	return &ep->hooks;
}

/* ---- an empty path ---- */

static uint32_t rd_clamp(uint32_t want, int device)
{
	uint32_t most = device < 32 ? 32 : (uint32_t)device;

	return want < most ? want : most;
}

/* The depth of each channel's queues: see the head of path.h. All channels share the path's
 * completion queue. If the device's limit for it is too low, each channel gets an equal share, at
 * least half of it for its sends; rd_make_queue() refuses a path that needs more. */
static void rd_size_channel(const struct rd_path *p, const struct rd_endpoint *ep,
			    struct rd_channel *c)
{
	const struct agreement *a = ep->cfg.agr;
	int room = ep->attr.max_qp_wr - (int)RD_OTHERS_OUT;
	int share = ep->attr.max_cqe / (int)p->path.nchannels - (int)RD_OTHERS_OUT, rest;

	c->receives = rd_clamp(p->read ? p->cfg.inflight : a->sink_blocks, ep->attr.max_qp_wr);
	c->sends_max = 1;
	if (p->cfg.source && !p->read)
		c->sends_max = rd_clamp(2 * p->cfg.inflight, room);
	if (!p->cfg.source && p->read)
		c->sends_max = RD_READS_MAX;

	rest = share - (int)c->receives;
	c->sends_max = rd_clamp(c->sends_max, rest > share / 2 ? rest : share / 2);
	c->receives = rd_clamp(c->receives, share - (int)c->sends_max);
	c->spare_messages = (1u << RD_MESSAGES_OUT) - 1;
}

static void *rd_calloc(size_t n, size_t size, int *r)
{
	void *p = calloc(n ? n : 1, size);

	if (!p)
		*r = -ENOMEM;
	return p;
}

static int rd_make_tables(struct rd_path *p, const struct rd_endpoint *ep)
{
	const struct agreement *a = ep->cfg.agr;
	uint32_t blocks = pool_blocks(p->cfg.pool);
	int r = 0;

	p->nat = p->read ? a->source_blocks : a->sink_blocks;
	p->source_blocks = a->source_blocks;
	p->nanswers = (p->read ? p->cfg.inflight : blocks) + 1;

	if (p->cfg.source)
		p->at = rd_calloc(p->nat, sizeof(struct block *), &r);
	else if (p->read)
		p->reading = rd_calloc(blocks, sizeof(struct block *), &r);
	else
		p->granted = rd_calloc(blocks, sizeof(struct block *), &r);
	if (p->cfg.source && !p->read)
		p->holder = rd_calloc(p->nat, sizeof(uint32_t), &r);

	for (uint32_t i = 0; i < p->path.nchannels; i++) {
		struct rd_channel *c = &p->ch[i];

		if (p->cfg.source && !p->read)
			c->credits = rd_calloc(p->nat, sizeof(uint32_t), &r);
		if (!p->cfg.source)
			c->answers = rd_calloc(p->nanswers, sizeof(struct credit), &r);
		if (!p->cfg.source && p->read)
			c->announced = rd_calloc(p->cfg.inflight, sizeof(struct announce), &r);
	}
	return r;
}

/* Memory for messages of all channels, registered at once. */
static int rd_make_messages(struct rd_path *p)
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
		rd_log_lock_limit(r, p->message_bytes);
	return r;
}

static int rd_make_queue(struct rd_path *p, const struct rd_endpoint *ep)
{
	const struct rd_channel *c = &p->ch[0];
	uint64_t most = (uint64_t)p->path.nchannels *
			(c->receives + c->sends_max + RD_OTHERS_OUT);
	unsigned nth = ep->cfg.first / (ep->cfg.agr->channels ? ep->cfg.agr->channels : 1u);
	unsigned vectors = ep->ctx->num_comp_vectors > 0 ? (unsigned)ep->ctx->num_comp_vectors : 1;
	unsigned vector = nth % vectors;
	struct err e = ERR_INIT;
	struct topo *t;
	const struct node *n;

	if (most > (uint64_t)ep->attr.max_cqe)
		return -E2BIG;
	p->cq_entries = (uint32_t)most;
	/* Choose a completion vector with its interrupt on the path's node, a different one for
	 * each path. */
	t = ep->cfg.node == NODE_UNKNOWN ? NULL : topo_read(NULL, &e);
	n = t ? topo_find(t, ep->cfg.node) : NULL;
	if (n && ep->ctx->device)
		vector = topo_vector(t, ep->ctx->device->name, &n->cpus, vectors, nth);
	topo_free(t);
	log_debug("RDMA by %s: completion vector %u of %u", ep->name, vector, vectors);
	return p->v->cq_new(p->ctx, (int)most, (int)vector, &p->completions, &p->cq);
}

static int rd_watch(struct rd_path *p, int fd, void *mark)
{
	return fd < 0 ? fd : sleeper_watch(&p->sleeper, fd, EPOLLIN, (epoll_data_t){ .ptr = mark });
}

struct rd_path *rd_path_new(struct rd_endpoint *ep, const struct path_config *c, struct err *e)
{
	const uint8_t *source = c->keys ? c->keys->from_source : NULL;
	const uint8_t *sink = c->keys ? c->keys->from_sink : NULL;
	uint32_t n = ep->cfg.agr->channels;
	struct rd_path *p = calloc(1, sizeof(*p) + n * sizeof(p->ch[0]));
	int r;

	if (!p) {
		err_nomem(e);
		return NULL;
	}
	p->cfg = *c;
	p->v = ep->v;
	p->read = ep->cfg.agr->op == OP_READ;
	p->stride = pool_stride(c->pool);

	/* paths + 1: each end also runs readers or writers, and the kernel's receive work. */
	spin_init(&p->spin, ep->cfg.poll, cpus_allowed(), ep->cfg.agr->paths + 1u);
	p->endpoint = ep;
	p->ctx = ep->ctx;
	p->pd = ep->pd;
	p->mr = ep->mr;
	p->events = ep->events;

	pthread_mutex_init(&p->lock, NULL);
	r = sleeper_open(&p->sleeper);
	if (path_init(&p->path, &rd_ops, c, n, true))
		r = -ENOMEM;

	for (uint32_t i = 0; !r && i < n; i++) {
		struct rd_channel *ch = &p->ch[i];

		ch->index = i;
		rd_size_channel(p, ep, ch);
		r = messages_open(&ch->outgoing, c->source ? source : sink, (uint16_t)(c->first + i));
		if (!r)
			r = messages_open(&ch->incoming, c->source ? sink : source,
					  (uint16_t)(c->first + i));
	}

	p->cfg.keys = NULL;
	if (!r)
		r = rd_make_tables(p, ep);
	if (!r)
		r = rd_make_messages(p);
	if (!r)
		r = rd_make_queue(p, ep);
	if (!r)
		r = rd_watch(p, p->completions->fd, p->completions);
	if (!r)
		r = rd_watch(p, p->events->fd, p->events);
	if (!r) {
		p->async = p->v->async_fd(p->ctx);
		r = rd_watch(p, p->async, p->ctx);
	}
	if (!r)
		return p;
	if (r == -E2BIG)
		err_set(e, r, "RDMA by %s: its completion queues hold %d entr%s: set a lower "
			"--channels or --inflight", ep->name, ep->attr.max_cqe,
			ep->attr.max_cqe == 1 ? "y" : "ies");
	else
		err_sys(e, r, "an RDMA path of %u channel%s on %s", n, plural(n), ep->name);
	rd_path_free(&p->path);
	return NULL;
}
