// SPDX-License-Identifier: Apache-2.0
/* The source's paths: chooses a path for each block, and moves the blocks of a dead path to
 * others. */
#include "transfer/source/source.h"

/* The time that a block of a dead path may wait for a buffer of another path before it is sent
 * in-band. All buffers may be full of blocks that the sink can write only after this one. */
#define DETOUR_MS 1000

/* ---- before the read: a block, and with it a path ---- */

/* The pool into which files are read: the staging pool if the peer can reach the outer pool. */
static struct pool *filled_pool(const struct source *s, uint32_t path)
{
	struct staging *staging = s->x.staging[path];

	return staging ? staging->inner : s->x.pools[path];
}

uint32_t source_path_of(const struct source *s, const struct block *b)
{
	uint32_t path = 0;

	while (path + 1 < s->x.npaths && filled_pool(s, path) != b->pool)
		path++;
	return path;
}

static uint32_t blocks_out(const struct pool *p)
{
	return pool_blocks(p) - pool_free_blocks(p);
}

/* Get the load of all paths. */
static void source_loads(const struct source *s, struct sched_load *l)
{
	for (uint32_t i = 0; i < s->x.npaths; i++) {
		const struct pool *p = s->x.pools[i], *filled = filled_pool(s, i);
		uint32_t out = blocks_out(p) + (filled != p ? blocks_out(filled) : 0);

		l[i] = (struct sched_load){
			.outstanding = out * (uint64_t)s->x.agr.block,
			.rate = atomic_load_explicit(&s->routes[i].rate.rate, memory_order_relaxed),
			.alive = atomic_load(&s->x.paths[i]->alive),
			.distance = s->routes[i].distance,
			.room = pool_free_blocks(filled),
		};
	}
}

/* The first living path; npaths: there is none. */
static uint32_t other_path(const struct source *s)
{
	uint32_t i = 0;

	while (i < s->x.npaths && !atomic_load(&s->x.paths[i]->alive))
		i++;
	return i;
}

static bool is_spread(const struct source *s)
{
	return atomic_load_explicit(&s->balance.spread, memory_order_relaxed);
}

/* A reader must wait for a block: count this for the paths that could have provided it. */
static void note_full(struct source *s)
{
	struct sched_load l[NICS_MAX];
	enum sched_distance most;

	if (!s->balance.n)
		return;
	source_loads(s, l);
	most = is_spread(s) ? SCHED_FAR : sched_nearest(l, s->x.npaths);
	for (uint32_t i = 0; i < s->balance.n; i++)
		if (l[i].alive && !l[i].room && l[i].distance <= most)
			balance_full(&s->balance, i);
}

/* Choose a path; npaths: none now. *local: no living path is nearer to the storage. */
static uint32_t choose_path(const struct source *s, bool *local)
{
	struct sched_load l[NICS_MAX];
	uint64_t shares[NICS_MAX];
	uint32_t n = s->x.npaths, path;
	bool spread = is_spread(s), alive = false;

	source_loads(s, l);
	for (uint32_t i = 0; i < n; i++) {
		shares[i] = balance_share(&s->balance, i);
		alive |= l[i].alive;
	}
	/* If no path is alive, the sender of the first one passes blocks to the standby. */
	if (!alive)
		return 0;

	path = spread ? sched_spread(l, n, shares, s->x.agr.block) :
			sched_choose(l, n, s->x.agr.block);
	*local = path < n && l[path].distance == sched_nearest(l, n);
	return path;
}

/* True: the sink writes blocks in order, and holds early ones. */
static bool is_stream(const struct source *s)
{
	return s->x.c->request.flags & BULK_F_SEQUENTIAL;
}

/* The path for a stream, which uses one path at a time. If it were spread, later blocks could fill
 * all buffers of a living path, and leave no room for the blocks of a dead one. The next path
 * begins once the sink has all sent blocks. npaths: not yet. */
static uint32_t path_in_turn(struct source *s)
{
	uint32_t next = other_path(s);
	bool acked;

	if (next == s->x.npaths || atomic_load(&s->x.paths[s->in_turn]->alive))
		return s->in_turn;
	pthread_mutex_lock(&s->lock);
	acked = s->acked.low == atomic_load(&s->x.count.blocks);
	pthread_mutex_unlock(&s->lock);
	if (!acked)
		return s->x.npaths;
	s->in_turn = next;
	return next;
}

struct block *source_try_block(struct source *s)
{
	uint32_t path = 0;
	bool local = false;
	struct block *b;

	if (s->x.npaths > 1 && is_stream(s))
		path = path_in_turn(s);
	else if (s->x.npaths > 1)
		path = atomic_load(&s->stranded) ? s->x.npaths : choose_path(s, &local);

	b = path < s->x.npaths ? pool_try_get(filled_pool(s, path)) : NULL;
	if (b && s->balance.n)
		balance_chosen(&s->balance, path, local, s->x.agr.block);
	return b;
}

/* Wake threads that wait for a block of any path. */
static void room_moved(void *arg)
{
	struct source *s = arg;
	LOCK_GUARD(guard, &s->room_lock);

	s->room_turn++;
	pthread_cond_broadcast(&s->room);
}

struct block *source_block(struct source *s)
{
	bool waits = false;

	if (s->x.npaths == 1)
		return pool_get(filled_pool(s, 0));
	while (!xfer_failed(&s->x)) {
		struct block *b;
		uint64_t turn;

		pthread_mutex_lock(&s->room_lock);
		turn = s->room_turn;
		pthread_mutex_unlock(&s->room_lock);
		b = source_try_block(s);
		if (b)
			return b;
		if (!waits)
			note_full(s);
		waits = true;

		LOCK_GUARD(guard, &s->room_lock);
		while (s->room_turn == turn)
			pthread_cond_wait(&s->room, &s->room_lock);
	}
	return NULL;
}

/* ---- blocks that were sent ---- */

static void block_acked(void *arg, struct block *b)
{
	struct route *r = arg;
	struct source *s = r->s;

	source_acked(s, b->number);
	source_kept(s, b);
	atomic_fetch_add_explicit(&s->x.count.bytes, b->len, memory_order_relaxed);
	if (s->x.npaths > 1 && r->path < s->x.npaths)
		sched_rate_acked(&r->rate, b->len, blocks_out(s->x.pools[r->path]) > 1, now_ns());
	if (r->path < s->balance.n)
		balance_acked(&s->balance, r->path, b->len);
	if (s->x.npaths > 1 && is_stream(s))
		room_moved(s); /* the next path may begin */
}

/* Get a free block of any living path, *path; waits for one, but not for long. */
static struct block *block_elsewhere(struct source *s, struct route *r, uint32_t *path)
{
	uint64_t until = xfer_standby(&s->x) ? now_ns() + DETOUR_MS * 1000000ull : UINT64_MAX;

	for (;;) {
		for (*path = 0; *path < s->x.npaths; ++*path) {
			struct block *b = NULL;

			if (atomic_load(&s->x.paths[*path]->alive))
				b = pool_try_get(s->x.pools[*path]);
			if (b)
				return b;
		}
		if (xfer_failed(&s->x) || r->detour || now_ns() > until ||
		    other_path(s) == s->x.npaths)
			break;
		usleep(1000); /* this sender has lost its path and has no other work */
	}
	r->detour = true;
	return NULL;
}

/* A device sends only from the pool that is registered with it, so copy b to a block of another
 * path. 0: b was taken over. */
static int move_block(struct source *s, struct route *r, struct block *b)
{
	struct block *other;
	uint32_t path;
	int rc;

	/* Go before the readers' next blocks: the sink may be waiting for this one. */
	atomic_fetch_add(&s->stranded, 1);
	other = block_elsewhere(s, r, &path);
	if (atomic_fetch_sub(&s->stranded, 1) == 1)
		room_moved(s);
	if (!other)
		return -EAGAIN;
	block_copy(other, b);
	rc = bq_push(s->ready[path], other);
	pool_put(rc ? other : b);
	return rc;
}

/* b has lost its path: send it, with the same sealed bytes, on any other living path; if there is
 * none, on the control stream. */
static int block_returned(void *arg, struct block *b)
{
	struct route *r = arg;
	struct source *s = r->s;
	uint32_t path = other_path(s);
	int rc = -EAGAIN;

	if (path < s->x.npaths && s->x.agr.transport == TRANSPORT_RDMA)
		rc = move_block(s, r, b);
	else if (path < s->x.npaths)
		rc = bq_push(s->ready[path], b);
	if (rc != -EAGAIN)
		return rc;

	if (!xfer_standby(&s->x))
		return -EPIPE;
	if (other_path(s) == s->x.npaths)
		xfer_fell_back(&s->x);
	return xfer_failed(&s->x) ? -EPIPE : bq_push(s->ready[s->x.npaths], b);
}

/* ---- nodes ---- */

void source_rebalance(struct source *s)
{
	uint64_t rate[NICS_MAX];
	bool alive[NICS_MAX];
	const char *why;

	for (uint32_t i = 0; i < s->balance.n; i++) {
		alive[i] = atomic_load(&s->x.paths[i]->alive);
		rate[i] = atomic_load_explicit(&s->routes[i].rate.rate, memory_order_relaxed);
	}
	if (balance_check(&s->balance, rate, alive, now_ns(), &why))
		log_info("%s: blocks %s", why, atomic_load(&s->balance.spread) ?
			 "go by the paths of all nodes" : "stay on their storage's node");
}

/* ---- senders ---- */

static void route_channel_down(void *arg, uint32_t channel, int error)
{
	struct route *r = arg;
	struct source *s = r->s;

	/* After SENT the sink may close its channels before the source does. */
	if (atomic_load(&s->x.sent))
		return;
	/* Closed in good order before SENT: the sink has given up, and reports the reason on the
	 * control stream. */
	if (!xfer_failed(&s->x))
		xfer_channel_down(&s->x, r->path, channel, error);
	room_moved(s);
	/* Without a channel the readers would wait for ever. */
	if (xfer_all_down(&s->x) && !xfer_standby(&s->x))
		xfer_data_lost(&s->x, error ? error : -EPIPE);
}

static void sender_failed(void *arg, int error)
{
	struct route *r = arg;
	struct xfer *x = &r->s->x;

	if (error == -EPIPE)
		xfer_data_lost(x, error);
	else
		xfer_fail(x, error, "sending blocks: %s", strerror(-error));
}

static int start_sender(struct source *s, uint32_t path, struct err *e)
{
	bool standby = path == s->x.npaths;
	struct stage *sender;
	struct stage_config c = {
		.path = s->x.paths[path],
		.q = s->ready[path],
		.pace = s->x.c->request.rate ? &s->pace : NULL,
		.acked = block_acked,
		.returned = standby ? NULL : block_returned,
		.down = standby ? NULL : route_channel_down,
		.failed = sender_failed,
		.cpus = placement_path_cpus(s->x.placement, path),
		.arg = &s->routes[path],
	};

	sender = sender_start(&c, standby ? "standby" : "sender", e);
	if (!sender)
		return e->code;
	xfer_keep_stage(&s->x, path, sender);
	return 0;
}

void source_routes(struct source *s)
{
	const struct transfer_tuning *t = &s->x.c->tuning;
	uint64_t now = now_ns();
	int node[NICS_MAX];
	bool apart = false;

	for (uint32_t i = 0; i < s->x.nroutes; i++)
		s->routes[i] = (struct route){ .s = s, .path = i };
	for (uint32_t i = 0; i < s->x.npaths; i++) {
		struct route *r = &s->routes[i];
		uint8_t nic = s->x.agr.client_nic[i];

		/* Start with the speed of the client's card. */
		sched_rate_init(&r->rate, nic == NIC_NONE ? 0 :
				s->x.c->request.offer.nics[nic].mbps, now);
		r->distance = placement_distance(s->x.placement, i);
		node[i] = placement_node(s->x.placement, i);
		apart |= r->distance != SCHED_LOCAL;
	}

	if (apart && s->x.npaths > 1 && !is_stream(s))
		balance_init(&s->balance, node, s->x.npaths, t->balance_percent, t->balance_ns, now);
}

int source_send(struct source *s, struct err *e)
{
	int r = 0;

	pace_start(&s->pace, s->x.c->request.rate, now_ns());
	for (uint32_t i = 0; s->x.npaths > 1 && i < s->x.npaths; i++)
		pool_set_notify(filled_pool(s, i), room_moved, s);
	for (uint32_t i = 0; !r && i < s->x.nroutes; i++)
		r = start_sender(s, i, e);
	return r;
}
