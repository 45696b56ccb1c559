// SPDX-License-Identifier: Apache-2.0
/* The sink: its half of the conversation and its threads from start to end. */
#include "transfer/sink/sink.h"

#include "transfer/setup.h"

#include <fcntl.h>

static struct sink *sink_of(struct xfer *x)
{
	return (struct sink *)x;
}

static int send_range(void *arg, uint64_t first, uint64_t last)
{
	struct buf *b = arg;

	return bulk_pair_put(b, first, last);
}

int sink_tell_done(struct sink *s, uint64_t id)
{
	int r = done_add(&s->entries.done, id);

	xfer_due(&s->x);
	return r;
}

static int flush_done(struct sink *s)
{
	struct buf *b CLEANUP_BUF = buf_new(BULK_FRAME_MAX);
	int r;

	if (!b)
		return -ENOMEM;
	/* The source must know that a file was left alone before a hard link to it is done. */
	r = done_flush(&s->entries.done, send_range, b);
	if (!r)
		r = sink_flush_verdicts(s);
	if (!r && buf_len(b))
		r = xfer_send(&s->x, BULK_DONE, b);
	return r;
}

/* True: all blocks have been handled, but a file still lacks bytes. It would wait for ever. */
static bool bytes_missing(struct sink *s)
{
	uint64_t last = atomic_load(&s->entries.highest), ahead = s->entries.ahead;
	bool missing = false;

	for (uint64_t id = last < ahead ? 1 : last - ahead + 1; !missing && id <= last; id++) {
		struct sink_file *f = sink_file_get(s, id);

		missing = f && !atomic_load(&f->over) && atomic_load(&f->unreceived) > 0;
		sink_file_put(s, f);
	}
	return missing;
}

static int sink_on_sent(struct sink *s, struct buf *p, struct err *e)
{
	struct bulk_counts c;
	int r = bulk_counts_get(p, &c);
	bool parked;

	if (r)
		return r;

	pthread_mutex_lock(&s->writers.lock);
	parked = s->writers.parked;
	pthread_mutex_unlock(&s->writers.lock);

	if (c.entries != atomic_load(&s->x.count.entries) || parked || bytes_missing(s))
		return err_set(e, -EPROTO, "the source ended before it sent all that it announced");
	sink_entries_end(s);
	atomic_store(&s->x.sent, true);
	xfer_changed(&s->x);
	return 0;
}

static int sink_frame(struct xfer *x, uint8_t type, struct buf *p, struct err *e)
{
	struct sink *s = sink_of(x);

	if (atomic_load(&s->x.sent))
		return -EPROTO;
	switch (type) {
	case BULK_ENTRIES:
		return atomic_load(&s->x.walked) ? -EPROTO : sink_entries(s, p, e);
	case BULK_SIZES:
		return sink_sizes(s, p, false);
	case BULK_KEPT:
		return sink_sizes(s, p, true);
	case BULK_DIGEST:
		return sink_digests(s, p);
	case BULK_SUM:
		return sink_sums(s, p);
	case BULK_FAILED:
		return sink_source_failed(s, p);
	case BULK_WALKED:
		if (buf_len(p))
			return -EBADMSG;
		atomic_store(&x->walked, true);
		return 0;
	case BULK_SENT:
		return sink_on_sent(s, p, e);
	default:
		return -EPROTO;
	}
}

/* The idle limit is an hour with the default --stall. A pipe may deliver nothing for long, so this
 * many idle limits are added for it, which makes a day. */
#define PIPE_LIMITS 23u

/* True: the source owes entries, blocks or the end, this side has nothing to do, and the source has
 * been idle too long. While it compares offered runs it sends nothing, which is allowed. */
static bool source_is_idle(struct sink *s)
{
	uint64_t limit = s->x.c->tuning.stall_ms ? s->x.c->tuning.stall_ms : STALL_MS;
	uint64_t extra = xfer_read_ms(atomic_load(&s->entries.bytes_offered));
	uint64_t progress = atomic_load(&s->x.count.bytes) + atomic_load(&s->x.count.bytes_known) +
			    atomic_load(&s->x.count.bytes_kept) + atomic_load(&s->x.count.entries) +
			    atomic_load(&s->x.count.files) + atomic_load(&s->x.count.failed) +
			    atomic_load(&s->x.count.skipped);
	bool busy;

	pthread_mutex_lock(&s->commits.lock);
	busy = s->commits.jobs || s->commits.later || s->commits.busy;
	pthread_mutex_unlock(&s->commits.lock);
	if (atomic_load(&s->entries.pipe))
		extra += PIPE_LIMITS * HELD_LIMITS * limit;
	return xfer_peer_idle(&s->x, !busy && !atomic_load(&s->x.sent), progress, extra);
}

static int sink_tick(struct xfer *x)
{
	struct sink *s = sink_of(x);

	if (source_is_idle(s))
		xfer_fail(x, -ETIMEDOUT, "the other side sends nothing (--stall)");
	return flush_done(s);
}

static void sink_cancel(struct xfer *x)
{
	struct sink *s = sink_of(x);

	bq_close(s->writers.arrived, -ECANCELED);
	if (s->stream)
		stdout_wake(&s->writers.out);
	xfer_abort_stages(x);
}

/* The sink is behind while blocks wait for its writers, or these hold most of its buffers, or only
 * its commit threads have work. */
static enum side_state sink_state(struct xfer *x, const struct side_sample *sample)
{
	struct sink *s = sink_of(x);
	uint32_t buffers = x->agr.sink_blocks * x->npaths;
	bool busy = !bq_is_empty(s->writers.arrived) ||
		    2 * atomic_load(&s->writers.held) >= buffers;

	if (atomic_load(&x->sent)) {
		LOCK_GUARD(guard, &s->commits.lock);

		busy |= s->commits.jobs || s->commits.busy;
	}
	if (busy)
		return sample->files_on_cpu ? SIDE_CPU : SIDE_STORAGE;
	return sample->path_on_cpu ? SIDE_CPU : SIDE_IDLE;
}

static bool all_over(struct xfer *x)
{
	struct sink *s = sink_of(x);

	return atomic_load(&s->x.sent) && !atomic_load(&s->entries.live);
}

static void put_blocks(struct block *b)
{
	while (b) {
		struct block *next = b->next;

		pool_put(b);
		b = next;
	}
}

void sink_destroy(struct sink *s)
{
	bq_free(s->writers.arrived);
	if (s->stream)
		stdout_close(&s->writers.out);
	put_blocks(s->writers.parked);
	put_blocks(s->writers.stream_held);

	while (s->commits.jobs) {
		struct sink_file *f = s->commits.jobs;

		s->commits.jobs = f->next;
		sink_file_put(s, f);
	}

	linkables_free(s);
	prune_free(s);
	sink_sums_free(s);
	for (uint32_t i = 0; s->entries.slots && i < s->entries.ahead; i++)
		sink_file_put(s, s->entries.slots[i]);
	sink_entries_end(s);
	dirs_free(s->dirset);
	buf_free(s->entries.verdicts);
	free(s->entries.slots);
	free(s->writers.numbers);
	free(s->entries.dest_path);
	done_destroy(&s->entries.done);
	pthread_cond_destroy(&s->commits.more);
	pthread_cond_destroy(&s->commits.done);
	pthread_mutex_destroy(&s->commits.lock);
	for (int i = 0; i < STRIPES; i++)
		pthread_mutex_destroy(&s->entries.stripes[i]);
	pthread_mutex_destroy(&s->links.lock);
	pthread_mutex_destroy(&s->writers.lock);
	pthread_mutex_destroy(&s->entries.lock);
	pthread_mutex_destroy(&s->entries.verdict_order);
	xfer_destroy(&s->x);
}

/* Choose how files are written by the class of the storage; files in memory are not synced. */
static void sink_look_at_storage(struct sink *s)
{
	enum storage_class class;
	int fd = s->x.storage;

	s->io = IO_POSIX;
	if (s->discard || s->stream)
		return;
	class = fd < 0 ? STORAGE_UNKNOWN : storage_class_of(fd);
	s->sync = s->x.agr.ack >= ACK_SYNCED && class != STORAGE_MEMORY;
	/* Data that will be synced must reach the device anyway: direct I/O costs less, and does
	 * not evict other pages from the cache. */
	s->direct = s->x.c->tuning.direct == DIRECT_ON ||
		    (s->x.c->tuning.direct == DIRECT_AUTO && s->sync && class == STORAGE_SSD);
	s->io = tuning_io(&s->x.c->tuning, fd, s->direct);
}

static int sink_prepare(struct xfer *x, struct err *e)
{
	struct sink *s = sink_of(x);

	s->entries.ahead = s->x.agr.entries_ahead;
	s->entries.slots = calloc(s->entries.ahead, sizeof(*s->entries.slots));
	s->writers.numbers = calloc(1, sizeof(*s->writers.numbers));
	s->entries.verdicts = buf_new(BULK_FRAME_MAX);
	s->commits.parts_most = open_files_most();
	s->dirset = dirs_new(open_files_most());
	s->writers.arrived = bq_new();
	if (!s->entries.slots || !s->entries.verdicts || !s->writers.numbers ||
	    !s->writers.arrived || !s->dirset)
		return err_nomem(e);

	root_rules_dirs(s->x.c->root, s->dirset);
	s->discard = s->x.c->items[0].kind == ITEM_NULL;
	if (s->x.c->items[0].kind == ITEM_STDIO) {
		int r = stdout_open(&s->writers.out, s->x.c->items[0].fd);

		if (r)
			return err_sys(e, r, "standard output");
		s->stream = true;
	}

	s->dry = s->x.c->request.flags & BULK_F_DRY_RUN;
	if (prune_prepare(s))
		return err_nomem(e);
	sink_look_at_storage(s);
	s->verify = s->x.agr.ack == ACK_VERIFIED && !s->discard && !s->stream;
	s->early = s->x.agr.ack == ACK_RECEIVED;
	s->writers.threads.n = s->stream ? 1 : file_threads_wanted(x, x->c->tuning.writers);
	if (s->discard || s->stream) {
		s->entries.base = calloc(1, sizeof(*s->entries.base));
		if (!s->entries.base)
			return err_nomem(e);
		atomic_init(&s->entries.base->refs, 1);
	}
	return 0;
}

/* The last channel is down. A source closes its channels in good order at about the time when it
 * sends SENT, so SENT may arrive a moment later: wait for it, but not for long. */
static void last_channel_down(struct sink *s)
{
	uint64_t until = now_ns() + ABORT_GRACE_MS * 1000000ull;

	while (!atomic_load(&s->x.sent) && !xfer_failed(&s->x) && now_ns() < until)
		usleep(10000);
	if (!atomic_load(&s->x.sent))
		xfer_fail(&s->x, -EPIPE, "all data channels are gone before all data has come");
}

static void sink_channel_down(void *arg, uint32_t channel, int error)
{
	struct sink_route *route = arg;
	struct sink *s = route->s;

	/* After SENT the source may close its channels at any time. */
	if (!atomic_load(&s->x.sent) && !xfer_failed(&s->x))
		xfer_channel_down(&s->x, route->path, channel, error);
	/* With a standby the source continues on it, or reports the reason why not. */
	if (xfer_all_down(&s->x) && !xfer_standby(&s->x))
		last_channel_down(s);
}

static void standby_down(void *arg, uint32_t channel, int error)
{
	struct sink *s = ((struct sink_route *)arg)->s;

	(void)channel;
	if (!atomic_load(&s->x.sent))
		xfer_data_lost(&s->x, error);
}

static int start_receivers(struct sink *s, struct err *e)
{
	for (uint32_t i = 0; i < s->x.nroutes; i++) {
		bool standby = i == s->x.npaths;
		struct stage_config c = { .path = s->x.paths[i], .q = s->writers.arrived,
					  .down = standby ? standby_down : sink_channel_down,
					  .cpus = placement_path_cpus(s->x.placement, i),
					  .arg = &s->routes[i] };
		struct stage *receiver;

		s->routes[i] = (struct sink_route){ .s = s, .path = i };
		receiver = receiver_start(&c, standby ? "standby" : "receiver", e);
		if (!receiver)
			return e->code;
		xfer_keep_stage(&s->x, i, receiver);
	}
	return 0;
}

static int sink_start(struct xfer *x, struct err *e)
{
	struct sink *s = sink_of(x);
	int r = writers_start(s, e);

	if (!r)
		r = committers_start(s, e);
	return r ? r : start_receivers(s, e);
}

/* Stop the stages from first to last. Afterwards no block is in flight. */
static void sink_drain(struct sink *s)
{
	shares_run(&s->x.shares, false);
	for (uint32_t i = 0; i < s->x.nroutes; i++) {
		struct stage *receiver = s->x.stages[i];
		int r;

		if (!receiver)
			continue;
		/* The failure may have been noted, but cancel() not called yet. */
		if (xfer_failed(&s->x))
			stage_abort(receiver);
		else
			stage_stop(receiver);
		r = stage_join(receiver);
		if (r && !atomic_load(&s->x.sent))
			xfer_data_lost(&s->x, r);
	}
	bq_close(s->writers.arrived, 0);
	file_threads_join(&s->writers.threads);
	committers_join(s);
}

/* True: an unfinished file has a part from which the next run can continue. After sink_drain(): no
 * other thread is running. */
static bool sink_resumable(struct xfer *x)
{
	struct sink *s = sink_of(x);

	for (uint32_t i = 0; s->entries.slots && i < s->entries.ahead; i++) {
		const struct sink_file *f = s->entries.slots[i];

		if (f && f->journal && f->part && !f->committed && !f->drop &&
		    part_resumable(f->part))
			return true;
	}
	return false;
}

static void sink_complete(struct xfer *x)
{
	struct sink *s = sink_of(x);
	int r;

	xfer_wait(x, all_over);
	sink_drain(s);
	r = xfer_failed(x) ? 0 : flush_done(s);
	if (r)
		xfer_control_failed(x, r);
	sink_sums_end(s);
	prune_run(s);
}

static const struct xfer_role sink_role = {
	.prepare = sink_prepare,
	.start = sink_start,
	.complete = sink_complete,
	.frame = sink_frame,
	.optional = BULK_WALKED,
	.tick = sink_tick,
	.cancel = sink_cancel,
	.may_end = all_over,
	.state = sink_state,
	.resumable = sink_resumable,
};

void sink_init(struct sink *s)
{
	xfer_init(&s->x);
	s->x.role = &sink_role;
	s->x.threads = &s->writers.threads;
	pthread_mutex_init(&s->entries.verdict_order, NULL);
	pthread_mutex_init(&s->entries.lock, NULL);
	pthread_mutex_init(&s->writers.lock, NULL);
	pthread_mutex_init(&s->links.lock, NULL);
	for (int i = 0; i < STRIPES; i++)
		pthread_mutex_init(&s->entries.stripes[i], NULL);
	pthread_mutex_init(&s->commits.lock, NULL);
	cond_init(&s->commits.more);
	cond_init(&s->commits.done);
	s->commits.jobs_end = &s->commits.jobs;
	done_init(&s->entries.done);
	atomic_init(&s->entries.got_room, GOT_MAX);
	atomic_init(&s->entries.had_room, HAD_MAX);
}
