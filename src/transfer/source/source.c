// SPDX-License-Identifier: Apache-2.0
/* The source from start to end: its tables, block numbers, senders and threads. */
#include "transfer/source/source.h"

#include "transfer/setup.h"

#include <fcntl.h>

static struct source *source_of(struct xfer *x)
{
	return (struct source *)x;
}

char *sfile_path(const struct sfile *f)
{
	char *path CLEANUP_FREE = f->dir ? dir_path(f->dir, f->name) : strdup(f->name);
	char *out;
	size_t n;

	if (!path || f->kind != SFILE_DIR)
		return steal_ptr(&path);
	n = strlen(path);
	return asprintf(&out, "%s%s", path, n && path[n - 1] == '/' ? "" : "/") < 0 ? NULL : out;
}

/* A named source is resolved as a path, links included; a file below it is opened in its directory,
 * and through a link only with --follow. */
int source_open(struct source *s, const struct sfile *f, int flags)
{
	int dfd, fd = FAULT("open", 0);

	if (fd)
		return fd;
	if (!f->dir)
		return root_open(s->x.c->root, f->name, flags | O_CLOEXEC, 0);
	dfd = dir_pin(f->dir);
	if (dfd < 0)
		return dfd;

	fd = openat(dfd, f->name, flags | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0)
		fd = -errno;
	dir_unpin(f->dir);
	/* A link, with --follow: open it through the root, which refuses links that lead out. */
	if (fd == -ELOOP && (s->x.c->request.flags & BULK_F_FOLLOW)) {
		char *path CLEANUP_FREE = sfile_path(f);

		fd = path ? root_open(s->x.c->root, path, flags | O_CLOEXEC, 0) : -ENOMEM;
	}
	return fd;
}

/* True: the sink owes acknowledgements, verdicts or ends of files, and has been idle too long.
 * While it verifies files or reads parts to offer them it sends nothing, which is allowed. */
static bool sink_is_idle(struct source *s)
{
	bool blocks, others;
	uint64_t progress;

	pthread_mutex_lock(&s->lock);
	blocks = s->acked.low != atomic_load(&s->x.count.blocks);
	others = s->next - s->oldest >= s->ahead || s->places_due;
	progress = s->acked.low + s->settled;
	pthread_mutex_unlock(&s->lock);
	others = others || atomic_load(&s->x.sent) || plan_expects(s->plan);
	progress += atomic_load(&s->x.count.blocks) + atomic_load(&s->x.count.entries);
	return xfer_peer_idle(&s->x, blocks || others, progress,
			      blocks ? 0 : xfer_read_ms(atomic_load(&s->x.count.bytes_known)));
}

/* The longest time of a block at the present rate. */
#define BLOCK_NS 200000000ull
#define FIT_EVERY_NS 1000000000ull

/* rate: bytes per second. Not for a sink that verifies: it limits a file's pieces by the agreed
 * block. Not for RDMA: no part of a block is acknowledged there. */
static void limit_blocks(struct source *s, uint64_t rate)
{
	if (s->x.agr.ack == ACK_VERIFIED || s->x.agr.transport == TRANSPORT_RDMA)
		return;
	if (s->x.c->request.rate && rate > s->x.c->request.rate)
		rate = s->x.c->request.rate;
	plan_limit(s->plan, rate / (1000000000 / BLOCK_NS));
}

/* On a slow path small blocks give finer progress, and less is sent again when a channel is lost.
 * The best rate of three seconds counts, because a sink may pause for a second. */
static void fit_blocks(struct source *s)
{
	uint64_t now = now_ns(), bytes = atomic_load(&s->x.count.bytes) + xfer_ahead(&s->x);
	uint64_t ns = now - s->fitted_ns, *rates = s->fitted_rates, best;

	if (ns < FIT_EVERY_NS)
		return;
	if (s->fitted_ns && bytes > s->fitted_bytes) {
		rates[2] = rates[1];
		rates[1] = rates[0];
		rates[0] = (uint64_t)((double)(bytes - s->fitted_bytes) * 1e9 / (double)ns);
		best = rates[0] > rates[1] ? rates[0] : rates[1];
		if (rates[2])
			limit_blocks(s, best > rates[2] ? best : rates[2]);
	}
	s->fitted_ns = now;
	s->fitted_bytes = bytes;
}

static int source_tick(struct xfer *x)
{
	struct source *s = source_of(x);

	fit_blocks(s);
	source_rebalance(s);
	if (sink_is_idle(s))
		xfer_fail(x, -ETIMEDOUT, "the other side acknowledges nothing (--stall)");
	return source_flush_sums(s);
}

static void source_cancel(struct xfer *x)
{
	struct source *s = source_of(x);

	/* Before the readers end: their end would otherwise mean that everything was sent. */
	xfer_abort_stages(x);
	plan_abort(s->plan);
	for (uint32_t i = 0; i < x->npaths; i++) {
		pool_close(x->pools[i]);
		if (x->staging[i])
			pool_close(x->staging[i]->inner);
	}
	for (uint32_t i = 0; i < x->nroutes; i++)
		bq_close(s->ready[i], -ECANCELED);
	LOCK_GUARD(guard, &s->lock);
	pthread_cond_broadcast(&s->moved);
	pthread_cond_broadcast(&s->acked_more);
}

/* Blocks that are numbered and not acknowledged: more than the sink has buffers? */
static bool credits_are_out(struct source *s)
{
	LOCK_GUARD(guard, &s->lock);

	return atomic_load(&s->x.count.blocks) - s->acks >=
	       (uint64_t)s->x.agr.sink_blocks * s->x.npaths;
}

static enum side_state source_state(struct xfer *x, const struct side_sample *sample)
{
	struct source *s = source_of(x);
	bool free_block = false, ready = false;

	for (uint32_t i = 0; i < x->nroutes; i++) {
		free_block |= x->pools[i] && pool_free_blocks(x->pools[i]);
		ready |= s->ready[i] && !bq_is_empty(s->ready[i]);
	}
	if (x->c->request.rate && pace_wait_ns(&s->pace, now_ns()))
		return SIDE_RATE;
	if (free_block && atomic_load(&s->readers_done) < s->readers.n)
		return plan_is_idle(s->plan) ? SIDE_NAMES :
		       sample->files_on_cpu ? SIDE_CPU : SIDE_STORAGE;
	if (ready && sample->path_on_cpu) /* a sender is as fast as its processor */
		return SIDE_CPU;
	return ready && credits_are_out(s) ? SIDE_CREDITS : SIDE_FLIGHT;
}

static bool source_may_end(struct xfer *x)
{
	return atomic_load(&x->sent);
}

/* ---- from start to end ---- */

void source_destroy(struct source *s)
{
	for (uint32_t i = 0; s->slots && i < s->ahead; i++)
		sfile_put(s->slots[i].file);
	free(s->slots);
	inodes_clear(&s->places);
	inodes_clear(&s->above);
	plan_free(s->plan);
	for (uint32_t i = 0; i < s->x.nroutes; i++)
		bq_free(s->ready[i]);
	dirs_free(s->dirs);
	pace_destroy(&s->pace);
	pthread_cond_destroy(&s->room);
	pthread_mutex_destroy(&s->room_lock);
	pthread_mutex_destroy(&s->sums_lock);
	buf_free(s->sums);
	pthread_cond_destroy(&s->acked_more);
	pthread_cond_destroy(&s->moved);
	pthread_mutex_destroy(&s->lock);
	xfer_destroy(&s->x);
}

int source_number(struct source *s, uint64_t *number)
{
	LOCK_GUARD(guard, &s->lock);

	while (atomic_load(&s->x.count.blocks) - s->acked.low >= NUMBERS_WINDOW &&
	       !xfer_failed(&s->x))
		pthread_cond_wait(&s->acked_more, &s->lock);
	*number = atomic_fetch_add(&s->x.count.blocks, 1);
	return xfer_failed(&s->x) ? -ECANCELED : 0;
}

void source_kept(struct source *s, const struct block *b)
{
	bool journal = (s->x.c->request.flags & (BULK_F_RESUME | BULK_F_INPLACE)) == BULK_F_RESUME;
	LOCK_GUARD(guard, &s->lock);

	for (uint32_t i = 0; journal && i < b->nextents; i++) {
		const struct extent *x = &b->extents[i];
		struct sfile *f = s->slots[x->file % s->ahead].file;

		if (f && f->id == x->file && f->size >= RESUME_MIN &&
		    (x->length >= BLOCK_MIN || x->offset + x->length == f->size))
			f->kept = true;
	}
}

void source_acked(struct source *s, uint64_t number)
{
	LOCK_GUARD(guard, &s->lock);
	uint64_t low = s->acked.low;

	s->acks += numbers_add(&s->acked, number) == 1;
	if (s->acked.low != low)
		pthread_cond_broadcast(&s->acked_more);
}

/* True: the plan gives files out in the order of the disk; otherwise in the order of the walk, as
 * always for files that are concatenated into a pipe. */
static bool choose_sort(const struct source *s, bool rotating)
{
	/* In a get this is the server, which logs only one line for a transfer at level info. */
	enum log_level level = s->x.c->request.op == BULK_PUT ? LOG_LV_INFO : LOG_LV_DEBUG;

	if (s->x.c->request.flags & (BULK_F_SEQUENTIAL | BULK_F_DRY_RUN))
		return false;
	switch (s->x.c->tuning.sort) {
	case SORT_NONE:
		return false;
	case SORT_PHYSICAL:
		log_at(level, "files are read in the order in which they lie on their disk");
		return true;
	default:
		if (rotating)
			log_at(level, "a rotating disk: files are read one at a time, in the "
			       "order in which they lie there");
		return rotating;
	}
}

static void source_look_at_storage(struct source *s)
{
	int fd = s->x.storage;
	bool rotating;

	s->io = IO_POSIX;
	s->stripe = s->x.c->request.flags & BULK_F_SEQUENTIAL;
	if (!s->x.c->nitems || s->x.c->items[0].kind != ITEM_PATH)
		return;
	s->io = tuning_io(&s->x.c->tuning, fd, s->x.c->tuning.direct == DIRECT_ON);
	/* Reading one file at a time avoids seeks of a disk's heads between files. */
	rotating = fd >= 0 && storage_class_of_source(fd) == STORAGE_ROTATING;
	s->stripe |= rotating;
	s->sort = choose_sort(s, rotating);
}

static int source_prepare(struct xfer *x, struct err *e)
{
	struct source *s = source_of(x);

	source_routes(s);
	source_look_at_storage(s);
	s->readers.n = readers_wanted(s);
	s->ahead = s->x.agr.entries_ahead;
	s->slots = calloc(s->ahead, sizeof(*s->slots));
	s->dirs = dirs_new(open_files_most());
	s->plan = plan_new(s->x.agr.block, s->stripe, s->sort);
	s->sums = buf_new(BULK_FRAME_MAX);
	if (!s->slots || !s->dirs || !s->plan || !s->sums)
		return err_nomem(e);

	limit_blocks(s, UINT64_MAX);
	root_rules_dirs(s->x.c->root, s->dirs);
	for (uint32_t i = 0; i < s->x.nroutes; i++) {
		s->ready[i] = bq_new();
		if (!s->ready[i])
			return err_nomem(e);
	}
	return 0;
}

static int source_start(struct xfer *x, struct err *e)
{
	struct source *s = source_of(x);
	int r = source_send(s, e);

	if (!r)
		r = readers_start(s, e);
	if (r)
		return r;
	r = thread_start(&s->walker, "walk", source_walk, s);
	if (r)
		return thread_failed(e, r);
	s->walker_on = true;
	return 0;
}

/* Send the totals, because everything was sent; not if the transfer has failed. */
static void source_send_totals(struct source *s)
{
	int r;

	if (xfer_failed(&s->x))
		return;
	r = source_flush_sums(s);
	atomic_store(&s->x.sent, true);
	if (!r)
		r = xfer_send_counts(&s->x, BULK_SENT, 0, 0);
	if (r)
		xfer_control_failed(&s->x, r);
}

static bool sink_has_summed(struct xfer *x)
{
	return x->peer_summed;
}

static bool readers_are_done(struct xfer *x)
{
	struct source *s = source_of(x);

	return atomic_load(&s->readers_done) == s->readers.n;
}

/* Join the stages, first to last. Over TCP the source sends SENT while the channels close, which
 * saves a round trip; over RDMA afterwards. */
static void source_complete(struct xfer *x)
{
	struct source *s = source_of(x);
	bool meanwhile = s->x.agr.transport != TRANSPORT_RDMA;

	if (s->walker_on)
		pthread_join(s->walker, NULL);
	xfer_wait(x, readers_are_done);
	shares_run(&x->shares, false);
	file_threads_join(&s->readers);

	/* A block may change its path until it is acknowledged, so no queue may be closed
	 * before. */
	pthread_mutex_lock(&s->lock);
	while (!xfer_failed(x) && s->acked.low < atomic_load(&x->count.blocks))
		pthread_cond_wait(&s->acked_more, &s->lock);
	pthread_mutex_unlock(&s->lock);

	if (meanwhile)
		source_send_totals(s);
	for (uint32_t i = 0; i < s->x.nroutes; i++)
		bq_close(s->ready[i], 0);
	for (uint32_t i = 0; i < s->x.nroutes; i++) {
		int r = x->stages[i] ? stage_join(x->stages[i]) : 0;

		if (r)
			xfer_data_lost(&s->x, r);
	}

	if (!meanwhile)
		source_send_totals(s);
	xfer_wait(x, sink_has_summed);
}

/* True: the sink has a part of an unfinished file, with which the next run continues. */
static bool source_resumable(struct xfer *x)
{
	struct source *s = source_of(x);
	LOCK_GUARD(guard, &s->lock);

	for (uint32_t i = 0; s->slots && i < s->ahead; i++) {
		const struct sfile *f = s->slots[i].file;

		if (f && (f->kept || f->nruns) && !atomic_load(&f->failed))
			return true;
	}
	return false;
}

static const struct xfer_role source_role = {
	.prepare = source_prepare,
	.start = source_start,
	.complete = source_complete,
	.frame = source_frame,
	.optional = BULK_PLACE,
	.tick = source_tick,
	.cancel = source_cancel,
	.may_end = source_may_end,
	.state = source_state,
	.resumable = source_resumable,
};

void source_init(struct source *s)
{
	xfer_init(&s->x);
	s->x.role = &source_role;
	s->x.threads = &s->readers;
	s->x.source = true;
	s->oldest = s->next = 1;
	pthread_mutex_init(&s->lock, NULL);
	pthread_cond_init(&s->moved, NULL);
	pthread_cond_init(&s->acked_more, NULL);
	pthread_mutex_init(&s->room_lock, NULL);
	pthread_mutex_init(&s->sums_lock, NULL);
	pthread_cond_init(&s->room, NULL);
	pace_init(&s->pace);
}
