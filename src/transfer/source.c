// SPDX-License-Identifier: Apache-2.0
/* The source from start to end: its tables, its numbers of blocks, its senders and threads. */
#include "transfer/setup.h"
#include "transfer/source.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct source *of(struct xfer *x)
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

/* What was named is resolved as a path, links and all; what was found below it is opened
 * where it was found, and by way of a link only with --follow. */
int source_open(struct source *s, const struct sfile *f, int flags)
{
	int dfd, fd = FAULT("open", 0);

	if (fd)
		return fd;
	if (!f->dir)
		return root_open(s->root, f->name, flags | O_CLOEXEC, 0);
	dfd = dir_pin(f->dir);
	if (dfd < 0)
		return dfd;
	fd = openat(dfd, f->name, flags | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0)
		fd = -errno;
	dir_unpin(f->dir);
	/* A link, with --follow: the root sees to it that it does not lead out. */
	if (fd == -ELOOP && (s->x.req->flags & BULK_F_FOLLOW)) {
		char *path CLEANUP_FREE = sfile_path(f);

		fd = path ? root_open(s->root, path, flags | O_CLOEXEC, 0) : -ENOMEM;
	}
	return fd;
}

/* By any path, in-band, too: the sink owes acknowledgements, verdicts or ends of files. It reads
 * files that it verifies and parts that it offers in silence. */
static bool sink_is_idle(struct source *s)
{
	bool blocks, others;
	uint64_t progress;

	pthread_mutex_lock(&s->lock);
	blocks = s->acked.low != atomic_load(&s->next_block);
	others = s->next - s->oldest >= s->ahead || s->places_due;
	progress = s->acked.low + s->settled;
	pthread_mutex_unlock(&s->lock);
	others = others || atomic_load(&s->sent) || plan_expects(s->plan);
	progress += atomic_load(&s->next_block) + atomic_load(&s->entries);
	return xfer_peer_idle(&s->x, blocks || others, progress,
			      blocks ? 0 : xfer_read_ms(atomic_load(&s->bytes_known)));
}

/* A block carries at most this much time of the rate. */
#define BLOCK_NS 200000000ull
#define FIT_EVERY_NS 1000000000ull

/* Not for a sink that reads back: it allows a file a number of pieces that follows from the agreed
 * block. Not for RDMA, whose channels acknowledge whole blocks anyway. */
static void limit_blocks(struct source *s, uint64_t rate)
{
	if (s->x.agr.ack == ACK_VERIFIED || s->x.agr.transport == TRANSPORT_RDMA)
		return;
	if (s->x.req->rate && rate > s->x.req->rate)
		rate = s->x.req->rate;
	plan_limit(s->plan, rate / (1000000000 / BLOCK_NS));
}

/* On a slow path small blocks show how far it is, and cost less when a channel is lost. The best of
 * three seconds counts: a sink may pause for one. */
static void fit_blocks(struct source *s)
{
	uint64_t now = now_ns(), bytes = atomic_load(&s->bytes_acked) + xfer_ahead(&s->x);
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
	struct source *s = of(x);

	fit_blocks(s);
	source_rebalance(s);
	if (sink_is_idle(s))
		xfer_fail(x, -ETIMEDOUT, "the other side acknowledges nothing (--stall)");
	return 0;
}

static struct sender *sender_at(struct source *s, uint32_t path)
{
	LOCK_GUARD(guard, &s->x.lock);

	return s->senders[path];
}

static void source_cancel(struct xfer *x)
{
	struct source *s = of(x);

	/* Before the readers end, or it would look as if all had been sent. */
	for (uint32_t i = 0; i < x->nroutes; i++) {
		struct sender *sender = sender_at(s, i);

		if (sender)
			sender_abort(sender);
	}
	plan_abort(s->plan);
	for (uint32_t i = 0; i < x->npaths; i++) {
		pool_close(x->pools[i]);
		if (x->shelters[i])
			pool_close(shelter_pool(x->shelters[i]));
	}
	for (uint32_t i = 0; i < x->nroutes; i++)
		bq_close(s->ready[i], -ECANCELED);
	LOCK_GUARD(guard, &s->lock);
	pthread_cond_broadcast(&s->moved);
	pthread_cond_broadcast(&s->acked_more);
}

static void source_counts(struct xfer *x, struct bulk_counts *c)
{
	struct source *s = of(x);

	c->entries = atomic_load(&s->entries);
	c->files = atomic_load(&s->done_files);
	c->failed = atomic_load(&s->failed);
	c->skipped = atomic_load(&s->skipped);
	c->bytes = atomic_load(&s->bytes_acked);
	c->blocks = atomic_load(&s->next_block);
	c->resumed = atomic_load(&s->bytes_kept);
	c->left_out = atomic_load(&s->left_out);
}

static const char *source_bottleneck(struct source *s)
{
	uint64_t blocks = atomic_load(&s->reader_wait_ns);
	uint64_t plan = atomic_load(&s->plan_wait_ns);
	uint64_t all = (now_ns() - s->x.started_ns) * s->nreaders;

	if (xfer_at_rate(&s->x, atomic_load(&s->bytes_acked)))
		return "rate";
	if (atomic_load(&s->readers_done) == s->nreaders) /* all the rest is on its way */
		return "network or sink";
	if (plan > all / 2)
		return "entries";
	return blocks > all / 3 ? "network or sink" : "source";
}

static void source_progress(struct xfer *x, struct transfer_progress *p)
{
	struct source *s = of(x);

	p->entries = atomic_load(&s->entries);
	p->files_done = atomic_load(&s->done_files);
	p->files_failed = atomic_load(&s->failed);
	p->files_skipped = atomic_load(&s->skipped);
	p->bytes_kept = atomic_load(&s->bytes_kept);
	p->bytes = atomic_load(&s->bytes_acked) + p->bytes_kept;
	p->bytes_known = atomic_load(&s->bytes_known);
	p->walked = atomic_load(&s->walked);
	p->bottleneck = source_bottleneck(s);
}

static bool source_may_end(struct xfer *x)
{
	return atomic_load(&of(x)->sent);
}

static const struct xfer_role source_role = {
	.frame = source_frame,
	.optional = BULK_PLACE,
	.tick = source_tick,
	.cancel = source_cancel,
	.may_end = source_may_end,
	.counts = source_counts,
	.progress = source_progress,
};

/* ---- from start to end ---- */

void source_init(struct source *s)
{
	xfer_init(&s->x);
	s->x.role = &source_role;
	s->oldest = s->next = 1;
	pthread_mutex_init(&s->lock, NULL);
	pthread_cond_init(&s->moved, NULL);
	pthread_cond_init(&s->acked_more, NULL);
	pthread_mutex_init(&s->room_lock, NULL);
	pthread_cond_init(&s->room, NULL);
	pace_init(&s->pace);
}

void source_destroy(struct source *s)
{
	for (uint32_t i = 0; s->slots && i < s->ahead; i++)
		sfile_put(s->slots[i]);
	free(s->slots);
	free(s->out);
	free(s->weights);
	inodes_clear(&s->places);
	plan_free(s->plan);
	for (uint32_t i = 0; i < s->x.nroutes; i++)
		bq_free(s->ready[i]);
	for (uint32_t i = 0; i < s->x.nroutes; i++)
		sender_free(s->senders[i]);
	dirs_free(s->dirs);
	pace_destroy(&s->pace);
	pthread_cond_destroy(&s->room);
	pthread_mutex_destroy(&s->room_lock);
	pthread_cond_destroy(&s->acked_more);
	pthread_cond_destroy(&s->moved);
	pthread_mutex_destroy(&s->lock);
	xfer_destroy(&s->x);
}

int source_number(struct source *s, uint64_t *number)
{
	LOCK_GUARD(guard, &s->lock);

	while (atomic_load(&s->next_block) - s->acked.low >= NUMBERS_WINDOW &&
	       !xfer_failed(&s->x))
		pthread_cond_wait(&s->acked_more, &s->lock);
	*number = atomic_fetch_add(&s->next_block, 1);
	return xfer_failed(&s->x) ? -ECANCELED : 0;
}

/* Whether the sink's journal takes x of f. */
static bool is_journalled(const struct source *s, const struct sfile *f, const struct extent *x)
{
	return f && f->id == x->file && f->size >= RESUME_MIN &&
	       (s->x.req->flags & (BULK_F_RESUME | BULK_F_INPLACE)) == BULK_F_RESUME &&
	       (x->length >= BLOCK_MIN || x->offset + x->length == f->size);
}

void source_kept(struct source *s, const struct block *b)
{
	LOCK_GUARD(guard, &s->lock);

	for (uint32_t i = 0; i < b->nextents; i++) {
		struct sfile *f = s->slots[b->extents[i].file % s->ahead];

		if (is_journalled(s, f, &b->extents[i]))
			f->kept = true;
	}
}

void source_acked(struct source *s, uint64_t number)
{
	LOCK_GUARD(guard, &s->lock);
	uint64_t low = s->acked.low;

	numbers_add(&s->acked, number);
	if (s->acked.low != low)
		pthread_cond_broadcast(&s->acked_more);
}

/* In which order the plan gives files out: the walk's, or the disk's. Where they go one
 * behind the other into a pipe it can only be the walk's. */
static bool choose_sort(const struct source *s, bool rotating)
{
	/* A server's log has one line for a transfer. */
	enum log_level level = s->x.req->op == BULK_PUT ? LOG_LV_INFO : LOG_LV_DEBUG;

	if (s->x.req->flags & (BULK_F_SEQUENTIAL | BULK_F_DRY_RUN))
		return false;
	switch (s->x.tuning->sort) {
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

static void look_at_storage(struct source *s)
{
	int fd = s->x.storage;
	bool rotating;

	s->io = IO_POSIX;
	s->stripe = s->x.req->flags & BULK_F_SEQUENTIAL;
	if (!s->nitems || s->items[0].kind != ITEM_PATH)
		return;
	s->io = setup_io(s->x.tuning, fd, s->x.tuning->direct == DIRECT_ON);
	/* One file at a time keeps the heads of a disk from running between several. */
	rotating = fd >= 0 && storage_class_of(fd) == STORAGE_ROTATING;
	s->stripe |= rotating;
	s->sort = choose_sort(s, rotating);
}

static int make_tables(struct source *s, struct err *e)
{
	source_routes(s);
	look_at_storage(s);
	s->nreaders = readers_wanted(s);
	s->ahead = s->x.agr.entries_ahead;
	s->slots = calloc(s->ahead, sizeof(*s->slots));
	s->out = calloc(s->ahead, 1);
	s->weights = calloc(s->ahead, sizeof(*s->weights));
	s->dirs = dirs_new(setup_open_files(s->x.tuning));
	s->plan = plan_new(s->x.agr.block, s->stripe);
	if (!s->slots || !s->out || !s->weights || !s->dirs || !s->plan)
		return err_set(e, -ENOMEM, "out of memory");
	limit_blocks(s, UINT64_MAX);
	root_rules_dirs(s->root, s->dirs);
	if (s->sort)
		plan_sort(s->plan);
	for (uint32_t i = 0; i < s->x.nroutes; i++) {
		s->ready[i] = bq_new(0);
		if (!s->ready[i])
			return err_set(e, -ENOMEM, "out of memory");
	}
	return 0;
}

static int start(struct source *s, struct err *e)
{
	int r = xfer_start(&s->x, e);

	if (!r)
		r = source_send(s, e);
	if (!r)
		r = readers_start(s, e);
	if (r)
		return r;
	r = thread_start(&s->walker, "walk", source_walk, s);
	if (r)
		return err_sys(e, r, "cannot start a thread");
	s->walker_on = true;
	return 0;
}

/* A block may change its path until it is acknowledged, so no queue may close before. */
static void wait_acked(struct source *s)
{
	LOCK_GUARD(guard, &s->lock);

	while (!xfer_failed(&s->x) && s->acked.low < atomic_load(&s->next_block))
		pthread_cond_wait(&s->acked_more, &s->lock);
}

static int send_totals(struct source *s)
{
	struct bulk_counts c = { 0 };
	struct buf *b CLEANUP_BUF = buf_new(BULK_FRAME_MAX);
	int r;

	if (!b)
		return -ENOMEM;
	source_counts(&s->x, &c);
	r = bulk_counts_put(b, &c);
	atomic_store(&s->sent, true);
	return r ? r : xfer_send(&s->x, BULK_SENT, b);
}

static void say_sent(struct source *s)
{
	int r = xfer_failed(&s->x) ? 0 : send_totals(s);

	if (r)
		xfer_control_failed(&s->x, r);
}

/* Join the stages, first to last. Over TCP the source sends SENT while the channels close, which
 * saves a round trip; over RDMA afterwards. */
static void drain(struct source *s)
{
	bool meanwhile = s->x.agr.transport != TRANSPORT_RDMA;

	if (s->walker_on)
		pthread_join(s->walker, NULL);
	readers_join(s);
	wait_acked(s);
	if (meanwhile)
		say_sent(s);
	for (uint32_t i = 0; i < s->x.nroutes; i++)
		bq_close(s->ready[i], 0);
	for (uint32_t i = 0; i < s->x.nroutes; i++) {
		int r = s->senders[i] ? sender_join(s->senders[i]) : 0;

		if (r)
			xfer_data_lost(&s->x, r);
	}
	if (!meanwhile)
		say_sent(s);
}

static bool sink_has_summed(struct xfer *x)
{
	return x->peer_summed;
}

/* The sink has a part of a file on its way, which the next run goes on with. */
static bool sink_keeps_part(struct source *s)
{
	LOCK_GUARD(guard, &s->lock);

	for (uint32_t i = 0; s->slots && i < s->ahead; i++) {
		const struct sfile *f = s->slots[i];

		if (f && (f->kept || f->nruns) && !atomic_load(&f->failed))
			return true;
	}
	return false;
}

static void fill_result(struct source *s, struct transfer_result *r)
{
	xfer_result(&s->x, r);
	r->files = atomic_load(&s->done_files);
	r->failed = atomic_load(&s->failed);
	r->skipped = atomic_load(&s->skipped);
	r->bytes = atomic_load(&s->bytes_acked);
	r->resumed = atomic_load(&s->bytes_kept);
	r->resumable = xfer_failed(&s->x) && sink_keeps_part(s);
}

int source_run(struct source *s, struct transfer_result *r, bool *in_line, struct err *e)
{
	int rc = make_tables(s, e);

	if (rc) {
		*in_line = false;
		return rc;
	}
	rc = start(s, e);
	if (rc)
		xfer_fail(&s->x, rc, "%s", e->text);
	drain(s);
	xfer_wait(&s->x, sink_has_summed);
	rc = xfer_finish(&s->x, in_line, e);
	fill_result(s, r);
	return rc;
}
