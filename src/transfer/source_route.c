// SPDX-License-Identifier: Apache-2.0
/* The source's paths: by which of them a block goes, and what becomes of it when that one
 * dies. */
#include "transfer/block_copy.h"
#include "transfer/source.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

/* How long a block without a path may wait for a buffer of another before it goes in-band:
 * those may all be full of blocks that the sink puts down only after this one. */
#define DETOUR_MS 1000

/* ---- before the read: a block, and with it a path ---- */

/* Where files are read into: not before the eyes of the peer. */
static struct pool *filled_pool(const struct source *s, uint32_t path)
{
	struct shelter *shelter = s->x.shelters[path];

	return shelter ? shelter_pool(shelter) : s->x.pools[path];
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

static void look_at(const struct source *s, uint32_t path, struct sched_load *l)
{
	const struct pool *p = s->x.pools[path], *filled = filled_pool(s, path);
	uint32_t out = blocks_out(p) + (filled != p ? blocks_out(filled) : 0);

	*l = (struct sched_load){
		.outstanding = out * (uint64_t)s->x.agr.block,
		.rate = atomic_load_explicit(&s->routes[path].rate.rate, memory_order_relaxed),
		.alive = atomic_load(&s->x.paths[path]->alive),
		.distance = s->routes[path].distance,
		.room = pool_free_blocks(filled),
	};
}

/* The next path that lives; npaths: there is none. */
static uint32_t other_path(const struct source *s)
{
	uint32_t i = 0;

	while (i < s->x.npaths && !atomic_load(&s->x.paths[i]->alive))
		i++;
	return i;
}

static void look_at_all(const struct source *s, struct sched_load *l)
{
	for (uint32_t i = 0; i < s->x.npaths; i++)
		look_at(s, i, &l[i]);
}

static bool is_spread(const struct source *s)
{
	return atomic_load_explicit(&s->balance.spread, memory_order_relaxed);
}

/* Who wants a block has to wait: for those that it could have been of. */
static void note_full(struct source *s)
{
	struct sched_load l[NICS_MAX];
	enum sched_distance most;

	if (!s->balance.n)
		return;
	look_at_all(s, l);
	most = is_spread(s) ? SCHED_FAR : sched_nearest(l, s->x.npaths);
	for (uint32_t i = 0; i < s->balance.n; i++)
		if (l[i].alive && !l[i].room && l[i].distance <= most)
			balance_full(&s->balance, i);
}

/* npaths: none now. *local: no other that lives is nearer. */
static uint32_t choose_path(const struct source *s, bool *local)
{
	struct sched_load l[NICS_MAX];
	uint64_t shares[NICS_MAX];
	uint32_t n = s->x.npaths, path;
	bool spread = is_spread(s), alive = false;

	look_at_all(s, l);
	for (uint32_t i = 0; i < n; i++) {
		shares[i] = balance_share(&s->balance, i);
		alive |= l[i].alive;
	}
	/* With none alive the first one's sender hands blocks on to the standby. */
	if (!alive)
		return 0;
	path = spread ? sched_spread(l, n, shares, s->x.agr.block) :
			sched_choose(l, n, s->x.agr.block);
	*local = path < n && l[path].distance == sched_nearest(l, n);
	return path;
}

/* Does the sink put blocks in order, and keep what comes early? */
static bool is_stream(const struct source *s)
{
	return s->x.req->flags & BULK_F_SEQUENTIAL;
}

static bool all_acked(struct source *s)
{
	LOCK_GUARD(guard, &s->lock);

	return s->acked.low == atomic_load(&s->next_block);
}

/* A stream goes by one path at a time: were it spread, the sink's buffers of a path that lives
 * could all be full of what comes after the blocks of one that has died, and these would find
 * no room there. The next path begins when all that was sent is there. npaths: not yet. */
static uint32_t path_in_turn(struct source *s)
{
	uint32_t next = other_path(s);

	if (next == s->x.npaths || atomic_load(&s->x.paths[s->in_turn]->alive))
		return s->in_turn;
	if (!all_acked(s))
		return s->x.npaths;
	s->in_turn = next;
	return next;
}

static struct block *block_of(struct source *s, uint32_t path, bool local)
{
	struct block *b = pool_try_get(filled_pool(s, path));

	if (b && s->balance.n)
		balance_chosen(&s->balance, path, local, s->x.agr.block);
	return b;
}

struct block *source_try_block(struct source *s)
{
	uint32_t path = 0;
	bool local = false;

	if (s->x.npaths > 1 && is_stream(s))
		path = path_in_turn(s);
	else if (s->x.npaths > 1)
		path = atomic_load(&s->stranded) ? s->x.npaths : choose_path(s, &local);
	return path < s->x.npaths ? block_of(s, path, local) : NULL;
}

/* Something has changed for those who wait for a block of whichever path. */
static void room_moved(void *arg)
{
	struct source *s = arg;
	LOCK_GUARD(guard, &s->room_lock);

	s->room_turn++;
	pthread_cond_broadcast(&s->room);
}

static uint64_t room_turn(struct source *s)
{
	LOCK_GUARD(guard, &s->room_lock);

	return s->room_turn;
}

static void room_wait(struct source *s, uint64_t turn)
{
	LOCK_GUARD(guard, &s->room_lock);

	while (s->room_turn == turn)
		pthread_cond_wait(&s->room, &s->room_lock);
}

struct block *source_block(struct source *s)
{
	bool waits = false;

	if (s->x.npaths == 1)
		return pool_get(filled_pool(s, 0));
	while (!xfer_failed(&s->x)) {
		uint64_t turn = room_turn(s);
		struct block *b = source_try_block(s);

		if (b)
			return b;
		if (!waits)
			note_full(s);
		waits = true;
		room_wait(s, turn);
	}
	return NULL;
}

/* ---- what becomes of it ---- */

static void block_acked(void *arg, struct block *b)
{
	struct route *r = arg;
	struct source *s = r->s;

	source_acked(s, b->number);
	source_kept(s, b);
	atomic_fetch_add_explicit(&s->bytes_acked, b->len, memory_order_relaxed);
	if (s->x.npaths > 1 && r->path < s->x.npaths)
		sched_rate_acked(&r->rate, b->len, blocks_out(s->x.pools[r->path]) > 1, now_ns());
	if (r->path < s->balance.n)
		balance_acked(&s->balance, r->path, b->len);
	if (s->x.npaths > 1 && is_stream(s))
		room_moved(s); /* the next path may begin */
}

/* A free block of any path that lives, *path; waits for one, but not for long. */
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
		usleep(1000); /* who comes here has lost its path, and nothing else to do */
	}
	r->detour = true;
	return NULL;
}

/* A device sends from the pool that is registered with it: b's bytes go over to another
 * path's. 0: b has been taken. */
static int move_block(struct source *s, struct route *r, struct block *b)
{
	struct block *other;
	uint32_t path;
	int rc;

	/* Before what the readers would fill: the sink may wait for it. */
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

static int send_in_band(struct source *s, struct block *b)
{
	if (!xfer_standby(&s->x))
		return -EPIPE;
	if (other_path(s) == s->x.npaths)
		xfer_fell_back(&s->x);
	if (xfer_failed(&s->x))
		return -EPIPE;
	return bq_push(s->ready[s->x.npaths], b);
}

/* b has lost its path: any other that lives takes it, with the same sealed bytes; at last
 * the control stream. */
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
	return rc == -EAGAIN ? send_in_band(s, b) : rc;
}

/* ---- nodes ---- */

static void start_balance(struct source *s, uint64_t now)
{
	const struct transfer_tuning *t = s->x.tuning;
	bool apart = false;
	int node[NICS_MAX];

	for (uint32_t i = 0; i < s->x.npaths; i++) {
		s->routes[i].distance = placement_distance(s->x.placement, i);
		node[i] = placement_node(s->x.placement, i);
		apart |= s->routes[i].distance != SCHED_LOCAL;
	}
	if (apart && s->x.npaths > 1 && !is_stream(s))
		balance_init(&s->balance, node, s->x.npaths, t->balance_percent, t->balance_ns, now);
}

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

static void channel_down(void *arg, uint32_t channel, int error)
{
	struct route *r = arg;
	struct source *s = r->s;

	/* After SENT the sink may close its channels before the source does. */
	if (atomic_load(&s->sent))
		return;
	/* Closed in good order: the sink has given up, and says why on the control stream. */
	if (!xfer_failed(&s->x))
		xfer_channel_down(&s->x, r->path, channel, error);
	room_moved(s);
	/* With the last the readers would wait for blocks that nobody sends. */
	if (xfer_all_down(&s->x) && !xfer_standby(&s->x))
		xfer_data_lost(&s->x, error ? error : -EPIPE);
}

/* The peer's ABORT, or a sender that runs already, may cancel the transfer meanwhile. That
 * looks for senders after it has set failed; one that it misses we abort here. */
static void add_sender(struct source *s, uint32_t path, struct sender *sender)
{
	pthread_mutex_lock(&s->x.lock);
	s->senders[path] = sender;
	pthread_mutex_unlock(&s->x.lock);
	if (xfer_failed(&s->x))
		sender_abort(sender);
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
	struct sender *sender;
	struct sender_config c = {
		.path = s->x.paths[path],
		.q = s->ready[path],
		.pace = s->x.req->rate ? &s->pace : NULL,
		.acked = block_acked,
		.returned = standby ? NULL : block_returned,
		.down = standby ? NULL : channel_down,
		.failed = sender_failed,
		.cpus = placement_path_cpus(s->x.placement, path),
		.arg = &s->routes[path],
	};

	sender = sender_start(&c, standby ? "standby" : "sender", e);
	if (!sender)
		return e->code;
	add_sender(s, path, sender);
	return 0;
}

/* The client's NIC will do to begin with. */
static uint32_t link_mbps(const struct source *s, uint32_t path)
{
	uint8_t nic = s->x.agr.client_nic[path];

	return nic == NIC_NONE ? 0 : s->x.req->offer.nics[nic].mbps;
}

void source_routes(struct source *s)
{
	uint64_t now = now_ns();

	for (uint32_t i = 0; i < s->x.nroutes; i++) {
		s->routes[i] = (struct route){ .s = s, .path = i };
		if (i < s->x.npaths)
			sched_rate_init(&s->routes[i].rate, link_mbps(s, i), now);
	}
	start_balance(s, now);
}

int source_send(struct source *s, struct err *e)
{
	int r = 0;

	pace_start(&s->pace, s->x.req->rate, now_ns());
	for (uint32_t i = 0; s->x.npaths > 1 && i < s->x.npaths; i++)
		pool_set_notify(filled_pool(s, i), room_moved, s);
	for (uint32_t i = 0; !r && i < s->x.nroutes; i++)
		r = start_sender(s, i, e);
	return r;
}
