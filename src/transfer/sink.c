// SPDX-License-Identifier: Apache-2.0
/* The sink: its half of the conversation and its threads from start to end. */
#include "transfer/setup.h"
#include "transfer/sink.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static struct sink *of(struct xfer *x)
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
	int r = done_add(&s->done, id);

	xfer_due(&s->x);
	return r;
}

static int flush_done(struct sink *s)
{
	struct buf *b CLEANUP_BUF = buf_new(BULK_FRAME_MAX);
	int r;

	if (!b)
		return -ENOMEM;
	r = done_flush(&s->done, send_range, b);
	if (!r && buf_len(b))
		r = xfer_send(&s->x, BULK_DONE, b);
	return r;
}

static bool is_missing_bytes(struct sink *s, uint64_t id)
{
	struct kfile *f = kfile_get(s, id);
	bool missing = f && !atomic_load(&f->over) && atomic_load(&f->unreceived) > 0;

	kfile_put(s, f);
	return missing;
}

/* All blocks have been dealt with: a file that misses bytes now would wait for ever. */
static bool bytes_missing(struct sink *s)
{
	uint64_t last = atomic_load(&s->highest), id = last < s->ahead ? 1 : last - s->ahead + 1;

	for (; id <= last; id++)
		if (is_missing_bytes(s, id))
			return true;
	return false;
}

static bool blocks_wait(struct sink *s)
{
	LOCK_GUARD(guard, &s->lock);

	return s->parked;
}

static int on_walked(struct sink *s, const struct buf *p)
{
	if (buf_len(p))
		return -EBADMSG;
	atomic_store(&s->walked, true);
	return 0;
}

static int on_sent(struct sink *s, struct buf *p, struct err *e)
{
	struct bulk_counts c;
	int r = bulk_counts_get(p, &c);

	if (r)
		return r;
	if (c.entries != atomic_load(&s->entries) || blocks_wait(s) || bytes_missing(s))
		return err_set(e, -EPROTO, "the source has ended without all it announced");
	sink_entries_end(s);
	atomic_store(&s->sent, true);
	xfer_changed(&s->x);
	return 0;
}

static int sink_frame(struct xfer *x, uint8_t type, struct buf *p, struct err *e)
{
	struct sink *s = of(x);

	if (atomic_load(&s->sent))
		return -EPROTO;
	switch (type) {
	case BULK_ENTRIES:
		return atomic_load(&s->walked) ? -EPROTO : sink_entries(s, p, e);
	case BULK_SIZES:
		return sink_sizes(s, p, false);
	case BULK_KEPT:
		return sink_sizes(s, p, true);
	case BULK_FAILED:
		return sink_source_failed(s, p);
	case BULK_WALKED:
		return on_walked(s, p);
	case BULK_SENT:
		return on_sent(s, p, e);
	default:
		return -EPROTO;
	}
}

/* An hour at the default --stall; a day for a pipe, which may have nothing to give. */
#define PIPE_LIMITS 23u

/* The source owes entries, blocks or the end, and this side has nothing to do meanwhile. The source
 * compares the runs that it was offered in silence. */
static bool source_is_idle(struct sink *s)
{
	uint64_t limit = s->x.tuning->stall_ms ? s->x.tuning->stall_ms : STALL_MS;
	uint64_t extra = xfer_read_ms(atomic_load(&s->bytes_offered));
	uint64_t progress = atomic_load(&s->bytes) + atomic_load(&s->bytes_known) +
			    atomic_load(&s->bytes_kept) + atomic_load(&s->entries) +
			    atomic_load(&s->files) + atomic_load(&s->failed) +
			    atomic_load(&s->skipped);
	bool busy;

	pthread_mutex_lock(&s->job_lock);
	busy = s->jobs || s->later || s->clerks_busy;
	pthread_mutex_unlock(&s->job_lock);
	if (atomic_load(&s->pipe))
		extra += PIPE_LIMITS * HELD_LIMITS * limit;
	return xfer_peer_idle(&s->x, !busy && !atomic_load(&s->sent), progress, extra);
}

static int sink_tick(struct xfer *x)
{
	struct sink *s = of(x);

	if (source_is_idle(s))
		xfer_fail(x, -ETIMEDOUT, "the other side sends nothing (--stall)");
	return flush_done(s);
}

static struct receiver *receiver_at(struct sink *s, uint32_t path)
{
	LOCK_GUARD(guard, &s->x.lock);

	return s->receivers[path];
}

static void sink_cancel(struct xfer *x)
{
	struct sink *s = of(x);

	bq_close(s->arrived, -ECANCELED);
	if (s->stream)
		outlet_wake(&s->outlet);
	for (uint32_t i = 0; i < x->nroutes; i++) {
		struct receiver *receiver = receiver_at(s, i);

		if (receiver)
			receiver_abort(receiver);
	}
}

static void sink_counts(struct xfer *x, struct bulk_counts *c)
{
	struct sink *s = of(x);

	c->entries = atomic_load(&s->entries);
	c->files = atomic_load(&s->files);
	c->failed = atomic_load(&s->failed);
	c->skipped = atomic_load(&s->skipped);
	c->bytes = atomic_load(&s->bytes);
	c->resumed = atomic_load(&s->bytes_kept);
}

static void sink_progress(struct xfer *x, struct transfer_progress *p)
{
	struct sink *s = of(x);
	uint64_t all = (now_ns() - x->started_ns) * s->nwriters;

	p->entries = atomic_load(&s->entries);
	p->files_done = atomic_load(&s->files);
	p->files_failed = atomic_load(&s->failed);
	p->files_skipped = atomic_load(&s->skipped);
	p->bytes_kept = atomic_load(&s->bytes_kept);
	p->bytes = atomic_load(&s->bytes) + p->bytes_kept;
	p->bytes_known = atomic_load(&s->bytes_known);
	p->walked = atomic_load(&s->walked) || atomic_load(&s->sent);
	if (xfer_at_rate(x, atomic_load(&s->bytes)))
		p->bottleneck = "rate";
	else
		p->bottleneck = atomic_load(&s->writer_wait_ns) > all / 2 ? "source or network" :
				"sink";
}

static bool all_over(struct xfer *x)
{
	struct sink *s = of(x);

	return atomic_load(&s->sent) && !atomic_load(&s->live);
}

static const struct xfer_role sink_role = {
	.frame = sink_frame,
	.optional = BULK_WALKED,
	.tick = sink_tick,
	.cancel = sink_cancel,
	.may_end = all_over,
	.counts = sink_counts,
	.progress = sink_progress,
};

void sink_init(struct sink *s)
{
	xfer_init(&s->x);
	s->x.role = &sink_role;
	pthread_mutex_init(&s->lock, NULL);
	for (int i = 0; i < STRIPES; i++)
		pthread_mutex_init(&s->stripes[i], NULL);
	pthread_mutex_init(&s->job_lock, NULL);
	cond_init(&s->job_more);
	cond_init(&s->job_done);
	s->jobs_end = &s->jobs;
	done_init(&s->done);
	places_init(&s->places);
	atomic_init(&s->got_room, GOT_MAX);
	atomic_init(&s->had_room, HAD_MAX);
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
	for (uint32_t i = 0; i < s->x.nroutes; i++)
		receiver_free(s->receivers[i]);
	bq_free(s->arrived);
	if (s->stream)
		outlet_close(&s->outlet);
	put_blocks(s->parked);
	put_blocks(s->stream_held);
	while (s->jobs) {
		struct kfile *f = s->jobs;

		s->jobs = f->next;
		kfile_put(s, f);
	}
	linkables_free(s);
	for (uint32_t i = 0; s->slots && i < s->ahead; i++)
		kfile_put(s, s->slots[i]);
	sink_entries_end(s);
	places_destroy(&s->places);
	dirs_free(s->dirset);
	buf_free(s->verdicts);
	free(s->slots);
	free(s->numbers);
	free(s->dest_path);
	done_destroy(&s->done);
	pthread_cond_destroy(&s->job_more);
	pthread_cond_destroy(&s->job_done);
	pthread_mutex_destroy(&s->job_lock);
	for (int i = 0; i < STRIPES; i++)
		pthread_mutex_destroy(&s->stripes[i]);
	pthread_mutex_destroy(&s->lock);
	xfer_destroy(&s->x);
}

/* What kind of place the files go to decides how they are written; and syncing what
 * lies in memory anyway buys nothing. */
static void look_at_storage(struct sink *s)
{
	enum storage_class class;
	int fd = s->x.storage;

	s->io = IO_POSIX;
	if (s->discard || s->stream)
		return;
	class = fd < 0 ? STORAGE_UNKNOWN : storage_class_of(fd);
	s->sync = s->x.agr.ack >= ACK_SYNCED && class != STORAGE_MEMORY;
	/* What is to be synced has to reach the device anyway: past the cache it costs less
	 * and drives nothing out of it. */
	s->direct = s->x.tuning->direct == DIRECT_ON ||
		    (s->x.tuning->direct == DIRECT_AUTO && s->sync && class == STORAGE_SSD);
	s->io = setup_io(s->x.tuning, fd, s->direct);
}

static int make_tables(struct sink *s, struct err *e)
{
	s->ahead = s->x.agr.entries_ahead;
	s->slots = calloc(s->ahead, sizeof(*s->slots));
	s->numbers = calloc(1, sizeof(*s->numbers));
	s->verdicts = buf_new(BULK_FRAME_MAX);
	s->parts_most = setup_open_files(s->x.tuning);
	s->dirset = dirs_new(setup_open_files(s->x.tuning));
	s->arrived = bq_new(0);
	if (!s->slots || !s->numbers || !s->verdicts || !s->dirset || !s->arrived)
		return err_set(e, -ENOMEM, "out of memory");
	root_rules_dirs(s->root, s->dirset);
	s->discard = s->item->kind == ITEM_NULL;
	if (s->item->kind == ITEM_STDIO) {
		int r = outlet_open(&s->outlet);

		if (r)
			return err_sys(e, r, "standard output");
		s->stream = true;
	}
	s->dry = s->x.req->flags & BULK_F_DRY_RUN;
	look_at_storage(s);
	s->verify = s->x.agr.ack == ACK_VERIFIED && !s->discard && !s->stream;
	s->early = s->x.agr.ack == ACK_RECEIVED;
	if (s->discard || s->stream) {
		s->base = calloc(1, sizeof(*s->base));
		if (!s->base)
			return err_set(e, -ENOMEM, "out of memory");
		atomic_init(&s->base->refs, 1);
	}
	return 0;
}

/* The receiver's thread has nothing more to do. A source closes its channels in good order about
 * when it says SENT, which may still be on its way; but not for long. */
static void last_channel_down(struct sink *s)
{
	uint64_t until = now_ns() + ABORT_GRACE_MS * 1000000ull;

	while (!atomic_load(&s->sent) && !xfer_failed(&s->x) && now_ns() < until)
		usleep(10000);
	if (!atomic_load(&s->sent))
		xfer_fail(&s->x, -EPIPE, "all data channels are gone before all data has come");
}

static void channel_down(void *arg, uint32_t channel, int error)
{
	struct sink_route *route = arg;
	struct sink *s = route->s;

	/* When all has come, the source leaves in any order. */
	if (!atomic_load(&s->sent) && !xfer_failed(&s->x))
		xfer_channel_down(&s->x, route->path, channel, error);
	/* With a standby the source goes on by that, or says why not. */
	if (xfer_all_down(&s->x) && !xfer_standby(&s->x))
		last_channel_down(s);
}

/* Who runs already, a receiver or a writer, may cancel the transfer meanwhile. That looks
 * for receivers after it has set failed; one that it misses drain() aborts. */
static void add_receiver(struct sink *s, uint32_t path, struct receiver *receiver)
{
	LOCK_GUARD(guard, &s->x.lock);

	s->receivers[path] = receiver;
}

static void standby_down(void *arg, uint32_t channel, int error)
{
	struct sink *s = ((struct sink_route *)arg)->s;

	(void)channel;
	if (!atomic_load(&s->sent))
		xfer_data_lost(&s->x, error);
}

static int start_receivers(struct sink *s, struct err *e)
{
	for (uint32_t i = 0; i < s->x.nroutes; i++) {
		bool standby = i == s->x.npaths;
		struct receiver_config c = { .path = s->x.paths[i], .q = s->arrived,
					     .down = standby ? standby_down : channel_down,
					     .cpus = placement_path_cpus(s->x.placement, i),
					     .arg = &s->routes[i] };
		struct receiver *receiver;

		s->routes[i] = (struct sink_route){ .s = s, .path = i };
		receiver = receiver_start(&c, standby ? "standby" : "receiver",
							   e);

		if (!receiver)
			return e->code;
		add_receiver(s, i, receiver);
	}
	return 0;
}

static int start(struct sink *s, struct err *e)
{
	int r = writers_start(s, e);

	if (!r)
		r = clerks_start(s, e);
	if (!r)
		r = start_receivers(s, e);
	return r ? r : xfer_start(&s->x, e);
}

/* From the first stage to the last; nothing is left under way after this. */
static void drain(struct sink *s)
{
	for (uint32_t i = 0; i < s->x.nroutes; i++) {
		int r;

		if (!s->receivers[i])
			continue;
		/* The cause may have been noted, and cancel not have come by yet. */
		if (xfer_failed(&s->x))
			receiver_abort(s->receivers[i]);
		else
			receiver_stop(s->receivers[i]);
		r = receiver_join(s->receivers[i]);
		if (r && !atomic_load(&s->sent))
			xfer_data_lost(&s->x, r);
	}
	bq_close(s->arrived, 0);
	writers_join(s);
	clerks_join(s);
}

/* A file on its way has a part that the next run goes on with. After drain(): no other thread
 * is there. */
static bool keeps_part(struct sink *s)
{
	for (uint32_t i = 0; s->slots && i < s->ahead; i++) {
		const struct kfile *f = s->slots[i];

		if (f && f->journal && f->part && !f->committed && !f->drop &&
		    part_resumable(f->part))
			return true;
	}
	return false;
}

static void fill_result(struct sink *s, struct transfer_result *r)
{
	xfer_result(&s->x, r);
	r->files = atomic_load(&s->files);
	r->failed = atomic_load(&s->failed);
	r->skipped = atomic_load(&s->skipped);
	r->bytes = atomic_load(&s->bytes);
	r->resumed = atomic_load(&s->bytes_kept);
	r->resumable = xfer_failed(&s->x) && keeps_part(s);
}

/* It has not begun: there is no conversation yet to tell the peer by. */
static int give_up(struct sink *s, bool *in_line, struct err *e)
{
	atomic_store(&s->x.failed, true);
	if (s->arrived) {
		sink_cancel(&s->x);
		drain(s);
	}
	*in_line = setup_abort(s->x.ms, e->code, e->text);
	return e->code;
}

int sink_run(struct sink *s, struct transfer_result *r, bool *in_line, struct err *e)
{
	int rc = make_tables(s, e);

	if (!rc)
		rc = start(s, e);
	if (rc)
		return give_up(s, in_line, e);
	xfer_wait(&s->x, all_over);
	drain(s);
	if (!xfer_failed(&s->x)) {
		rc = flush_done(s);
		if (rc)
			xfer_control_failed(&s->x, rc);
	}
	rc = xfer_finish(&s->x, in_line, e);
	fill_result(s, r);
	return rc;
}
