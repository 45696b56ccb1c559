// SPDX-License-Identifier: Apache-2.0
/* The control conversation of one transfer. */
#include "transfer/xfer.h"

#include <poll.h>
#include <stdarg.h>

#define PROGRESS_NS 200000000ull

void xfer_init(struct xfer *x)
{
	x->storage = -1;
	pthread_mutex_init(&x->lock, NULL);
	pthread_mutex_init(&x->event_lock, NULL);
	pthread_mutex_init(&x->words_lock, NULL);
	cond_init(&x->changed);
	pthread_mutex_init(&x->tick_lock, NULL);
	cond_init(&x->tick);
	shares_init(&x->shares);
	x->started_ns = now_ns();
	x->cpu_start_ns = cpu_ns();
	atomic_store(&x->heard_ns, x->started_ns);
}

void xfer_free_paths(struct xfer *x)
{
	/* Free the paths first: the standby may hold blocks of other paths' pools. */
	for (uint32_t i = 0; i < x->nroutes; i++)
		if (x->paths[i])
			x->paths[i]->ops->free(x->paths[i]);
	for (uint32_t i = 0; i < x->nroutes; i++) {
		staging_free(x->staging[i]);
		pool_free(x->pools[i]);
	}
	for (uint32_t i = 0; i < NICS_MAX; i++)
		if (x->ends[i])
			x->ends[i]->ops->free(x->ends[i]);
	memset(x->paths, 0, sizeof(x->paths));
	memset(x->staging, 0, sizeof(x->staging));
	memset(x->pools, 0, sizeof(x->pools));
	memset(x->ends, 0, sizeof(x->ends));
	x->npaths = x->nroutes = 0;
}

void xfer_destroy(struct xfer *x)
{
	for (uint32_t i = 0; i < x->nroutes; i++)
		stage_free(x->stages[i]);
	xfer_free_paths(x);
	placement_free(x->placement);
	cleanup_close(&x->storage);
	xkeys_wipe(&x->keys);
	pthread_cond_destroy(&x->tick);
	pthread_mutex_destroy(&x->tick_lock);
	pthread_cond_destroy(&x->changed);
	pthread_mutex_destroy(&x->words_lock);
	pthread_mutex_destroy(&x->event_lock);
	pthread_mutex_destroy(&x->lock);
	shares_destroy(&x->shares);
}

int xfer_send(struct xfer *x, uint8_t type, struct buf *b)
{
	return ms_write_frame(x->c->ms, type, b ? buf_ptr(b) : NULL, b ? buf_len(b) : 0);
}

int xfer_send_failure(struct xfer *x, uint8_t type, uint64_t id, int code, const char *text)
{
	struct bulk_failure f = { .id = id, .code = code };
	struct buf *b CLEANUP_BUF = buf_new(BULK_FRAME_MAX);
	int r;

	if (!b)
		return -ENOMEM;
	snprintf(f.text, sizeof(f.text), "%s", text);
	r = bulk_failure_put(b, &f);
	return r ? r : xfer_send(x, type, b);
}

/* Write to text the peer's text said, with the peer's side before it, because both sides may have
 * files of the same name. An empty text stays empty. */
static void say_there(const struct xfer *x, char text[ERR_TEXT], const char *said)
{
	text[0] = '\0';
	if (*said)
		snprintf(text, ERR_TEXT, "on the %s: %.1000s", x->client ? "server" : "client", said);
}

void xfer_file_failed_there(struct xfer *x, const char *path, const struct bulk_failure *f)
{
	char text[ERR_TEXT];

	if (f->code == -EAGAIN)
		atomic_fetch_add(&x->touched, 1);
	say_there(x, text, f->text);
	XFER_EVENT(x, file_failed, path, f->code, text);
}

/* Set the cause, unless there is one. True: this call has set it. */
static bool set_cause(struct xfer *x, int code, const char *text, bool from_peer)
{
	LOCK_GUARD(guard, &x->lock);

	if (x->cause.code)
		return false;
	err_set(&x->cause, code, "%s", text);
	x->peer_aborted = from_peer;
	atomic_store(&x->failed, true);
	pthread_cond_broadcast(&x->changed);
	return true;
}

/* With words_lock held: send ABORT once, unless the cause came from the peer. Called by the thread
 * that set the cause and by the thread that ends the conversation. */
static void say_abort(struct xfer *x)
{
	struct err cause;
	bool own;

	pthread_mutex_lock(&x->lock);
	cause = x->cause;
	own = cause.code && !x->peer_aborted;
	pthread_mutex_unlock(&x->lock);
	if (!own || x->said_abort || x->said_end)
		return;
	x->said_abort = true;
	xfer_send_failure(x, BULK_ABORT, 0, cause.code, cause.text);
}

static void fail_text(struct xfer *x, int code, const char *text, bool from_peer)
{
	if (!set_cause(x, code, text, from_peer))
		return;
	log_debug("transfer fails: %s", text);
	/* Send ABORT before the stages end. */
	if (!from_peer) {
		LOCK_GUARD(guard, &x->words_lock);

		say_abort(x);
	}
	x->role->cancel(x);
}

int xfer_fail(struct xfer *x, int code, const char *fmt, ...)
{
	char text[ERR_TEXT];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	fail_text(x, code, text, false);
	return code;
}

static void wake_ticker(struct xfer *x, atomic_bool *flag)
{
	LOCK_GUARD(guard, &x->tick_lock);

	atomic_store(flag, true);
	pthread_cond_signal(&x->tick);
}

void xfer_due(struct xfer *x)
{
	if (!atomic_load(&x->due))
		wake_ticker(x, &x->due);
}

void xfer_removed(struct xfer *x, const struct bulk_removed *m)
{
	atomic_fetch_add(&x->count.removed, 1);
	atomic_fetch_add(&x->count.removed_bytes, m->bytes);
	atomic_fetch_add(&x->count.in_the_way, m->in_the_way);
	XFER_EVENT(x, file_done, &(struct file_report){
		.end = FILE_REMOVED, .path = m->path, .bytes = m->bytes,
		.plain = !report_path_is_directory(m->path) });
}

/* ---- frames of the peer ---- */

/* Handle BEAT and SUMMARY. */
static int on_counts(struct xfer *x, uint8_t type, struct buf *p)
{
	struct bulk_counts c;
	int r = bulk_counts_get(p, &c);

	if (r)
		return r;
	LOCK_GUARD(guard, &x->lock);
	x->peer = c;
	if (type == BULK_SUMMARY) {
		x->peer_summed = true;
		pthread_cond_broadcast(&x->changed);
		return 0;
	}
	if (c.stamp_ns) {
		x->peer_stamp_ns = c.stamp_ns;
		/* Answer at once: the peer measures the round trip with it. */
		wake_ticker(x, &x->kick);
	}
	if (c.echo_ns) {
		uint64_t rtt = now_ns() - c.echo_ns;

		if (!x->rtt_ns || rtt < x->rtt_ns)
			x->rtt_ns = rtt;
	}
	return 0;
}

static int on_abort(struct xfer *x, struct buf *p)
{
	char text[ERR_TEXT];
	struct bulk_failure f;
	int r = bulk_failure_get(p, &f);

	if (r)
		return r;
	say_there(x, text, f.text);
	fail_text(x, f.code ? f.code : -EIO, text, true);
	return 0;
}

/* Handle READY: the server of an in-band transfer reads it only after the start. */
static int on_ready(struct xfer *x, struct buf *p)
{
	uint8_t transport;

	if (x->client || x->paths[0] != x->inband || x->ready || buf_get_u8(p, &transport) ||
	    transport != TRANSPORT_INBAND || buf_len(p))
		return -EPROTO;
	x->ready = true;
	return 0;
}

static int xfer_on_frame(struct xfer *x, uint8_t type, struct buf *p, struct err *e)
{
	switch (type) {
	case BULK_BEAT:
		return on_counts(x, type, p);
	case BULK_READY:
		return on_ready(x, p);
	case BULK_SUMMARY:
		if (!xfer_failed(x) && !x->role->may_end(x))
			return -EPROTO;
		return on_counts(x, type, p);
	case BULK_ABORT:
		return on_abort(x, p);
	case BULK_LOST:
		return xfer_on_lost(x, p);
	case BULK_CHANNELS:
		return xfer_on_channels(x, p);
	case BULK_DATA:
		if (xfer_standby(x))
			xfer_fell_back(x);
		return x->inband ? inband_path_data(x->inband, p) : -EPROTO;
	case BULK_CREDIT:
		return x->inband ? inband_path_credit(x->inband, p) : -EPROTO;
	case BULK_STAGES:
		return shares_get(&x->shares, p);
	default:
		if (type >= BULK_SKIPPED && type != x->role->optional)
			return 0;
		/* After a failure, drop the frames that still arrive. */
		return xfer_failed(x) ? 0 : x->role->frame(x, type, p, e);
	}
}

void xfer_control_failed(struct xfer *x, int r)
{
	switch (r) {
	case -EPIPE:
	case -ECONNRESET:
	case 0:
		xfer_fail(x, -EPIPE, "%s", net_reason(-EPIPE));
		break;
	case -ETIMEDOUT:
		/* Without the abort, a thread that writes to the silent peer would wait for
		 * minutes. */
		ms_abort(x->c->ms);
		xfer_fail(x, r, "the other side has been silent for %d s", SILENCE_MS / 1000);
		break;
	case -ECANCELED:
		break;
	default:
		xfer_fail(x, r, "control connection: %s", strerror(-r));
	}
}

/* The control reader. It reads until BULK_END, also after a failure, so that the stream is in line
 * mode afterwards. */
static void *control_main(void *arg)
{
	struct xfer *x = arg;
	/* Blocks may be larger than any other message. */
	size_t max = BULK_FRAME_MAX + (x->inband ? BLOCK_HEAD + x->agr.block : 0);
	struct buf *p CLEANUP_BUF = buf_new(max);
	bool ended = false, summed;
	uint8_t type;
	int r;

	if (!p) {
		xfer_fail(x, -ENOMEM, NO_MEMORY);
		return NULL;
	}
	for (;;) {
		struct err e = ERR_INIT;

		r = ms_read_frame(x->c->ms, &type, p, max, SILENCE_MS);
		if (r) {
			xfer_control_failed(x, r);
			break;
		}
		atomic_store_explicit(&x->heard_ns, now_ns(), memory_order_relaxed);
		ended = type == BULK_END;
		if (ended)
			break;
		r = xfer_on_frame(x, type, p, &e);
		if (r && e.text[0])
			xfer_fail(x, r, "%s", e.text);
		else if (r)
			xfer_fail(x, r, "message of type %u from the other side: %s", type,
				  r == -EBADMSG ? "malformed" :
				  r == -EPROTO ? "not expected here" : strerror(-r));
	}

	pthread_mutex_lock(&x->lock);
	summed = x->peer_summed;
	pthread_mutex_unlock(&x->lock);
	if (ended && !summed && !xfer_failed(x))
		xfer_fail(x, -EPROTO, "the other side ended the transfer without its summary");

	LOCK_GUARD(guard, &x->lock);
	if (ended)
		x->peer_ended = true;
	else
		x->reader_on = false;
	pthread_cond_broadcast(&x->changed);
	return NULL;
}

/* ---- frames to the peer ---- */

static void xfer_counts(struct xfer *x, struct bulk_counts *c)
{
	*c = (struct bulk_counts){
		.entries = atomic_load(&x->count.entries),
		.files = atomic_load(&x->count.files),
		.failed = atomic_load(&x->count.failed),
		.skipped = atomic_load(&x->count.skipped),
		.bytes = atomic_load(&x->count.bytes),
		.blocks = atomic_load(&x->count.blocks),
		.resumed = atomic_load(&x->count.bytes_kept),
		.left_out = atomic_load(&x->count.left_out),
		.cpu_ns = cpu_ns() - x->cpu_start_ns,
	};
}

int xfer_send_counts(struct xfer *x, uint8_t type, uint64_t stamp_ns, uint64_t echo_ns)
{
	struct buf *b CLEANUP_BUF = buf_new(BULK_FRAME_MAX);
	struct bulk_counts c;
	int r;

	xfer_counts(x, &c);
	c.stamp_ns = stamp_ns;
	c.echo_ns = echo_ns;
	r = b ? bulk_counts_put(b, &c) : -ENOMEM;
	return r ? r : xfer_send(x, type, b);
}

/* answer: the beat only echoes the peer's stamp, and the peer need not answer it. */
static int send_beat(struct xfer *x, bool answer)
{
	uint64_t echo;

	pthread_mutex_lock(&x->lock);
	echo = x->peer_stamp_ns;
	x->peer_stamp_ns = 0;
	pthread_mutex_unlock(&x->lock);
	return xfer_send_counts(x, BULK_BEAT, answer ? 0 : now_ns(), echo);
}

bool xfer_peer_idle(struct xfer *x, bool waits, uint64_t progress, uint64_t extra_ms)
{
	uint64_t limit = x->c->tuning.stall_ms ? x->c->tuning.stall_ms : STALL_MS;

	if (!waits || progress != x->idle_at)
		x->idle_ns = 0;
	else
		x->idle_ns += x->tick_ns;
	x->idle_at = progress;
	return x->idle_ns / 1000000 > HELD_LIMITS * limit + extra_ms;
}

/* Add the bytes of incomplete blocks that have arrived, except the last byte: 100 % is shown only
 * at the end. The sum never decreases, even if a channel is lost. */
static void add_ahead(struct xfer *x, struct transfer_progress *p)
{
	uint64_t left = p->bytes_known > p->bytes ? p->bytes_known - p->bytes : 0;
	uint64_t carried = p->bytes - p->bytes_kept, most = carried + (left ? left - 1 : 0);

	carried += xfer_ahead(x);
	if (carried < x->shown_bytes)
		carried = x->shown_bytes;
	if (carried > most)
		carried = most;
	x->shown_bytes = carried;
	p->bytes = p->bytes_kept + carried;
}

static const char *slowest_now(struct xfer *x, uint32_t *percent)
{
	enum stage_of_transfer most;
	uint64_t ns[STAGES];

	shares_of(&x->shares, x->source, true, ns);
	most = stage_slowest(ns, percent);
	return most == STAGES ? NULL : stage_name(most);
}

static void xfer_sample(struct xfer *x)
{
	struct side_sample sample;

	if (shares_due(x, &sample))
		shares_add(&x->shares, x->role->state(x, &sample), sample.ns);
}

static int xfer_send_stages(struct xfer *x)
{
	struct buf *b CLEANUP_BUF = buf_new(SIDE_STATES * 8);
	int r = b ? shares_put(&x->shares, b) : -ENOMEM;

	return r ? r : xfer_send(x, BULK_STAGES, b);
}

static void xfer_show_progress(struct xfer *x)
{
	uint64_t ns = now_ns() - x->started_ns;
	struct transfer_progress p;

	if (!x->c->events.progress && !x->c->watch)
		return;
	p = (struct transfer_progress){
		.entries = atomic_load(&x->count.entries),
		.files_done = atomic_load(&x->count.files),
		.files_failed = atomic_load(&x->count.failed),
		.files_skipped = atomic_load(&x->count.skipped),
		.bytes_kept = atomic_load(&x->count.bytes_kept),
		.bytes = atomic_load(&x->count.bytes) + atomic_load(&x->count.bytes_kept),
		.bytes_known = atomic_load(&x->count.bytes_known),
		.walked = atomic_load(&x->walked) || atomic_load(&x->sent),
		.ns = ns,
	};
	p.bottleneck = slowest_now(x, &p.share);
	add_ahead(x, &p);
	XFER_EVENT(x, progress, &p);
	if (x->c->watch)
		x->c->watch(x->c->watch_arg, &p, &x->agr);
}

/* Sleep until the next tick, a kick or the end. */
static void ticker_sleep(struct xfer *x)
{
	uint64_t begun = now_ns(), slept;
	LOCK_GUARD(guard, &x->tick_lock);

	while (atomic_load(&x->ticking) && !atomic_load(&x->kick)) {
		uint64_t ms = atomic_load(&x->due) ? TICK_MS : TICK_IDLE_MS;
		uint64_t until = begun + ms * 1000000;

		if (now_ns() >= until)
			break;
		cond_wait_until(&x->tick, &x->tick_lock, until);
	}

	atomic_store(&x->due, false);
	atomic_store(&x->kick, false);
	/* Do not count the time in which this process was stopped. */
	slept = now_ns() - begun;
	x->tick_ns = slept < 2 * TICK_IDLE_MS * 1000000ull ? slept : TICK_IDLE_MS * 1000000ull;
}

static void *ticker_main(void *arg)
{
	struct xfer *x = arg;
	uint64_t shown = now_ns(), reported = shown;
	uint64_t beat = 0; /* the first beat is sent at once: it measures the path */

	while (atomic_load(&x->ticking)) {
		uint64_t now;
		bool stamped;
		int r = 0;

		ticker_sleep(x);
		now = now_ns();
		pthread_mutex_lock(&x->lock);
		stamped = x->peer_stamp_ns;
		pthread_mutex_unlock(&x->lock);

		if (!xfer_failed(x) && x->c->stop >= 0 && poll_fd(x->c->stop, POLLIN, 0) > 0)
			xfer_fail(x, -EINTR, "interrupted");

		xfer_sample(x);
		if (!xfer_failed(x))
			r = x->role->tick(x);
		if (!r && now - beat > BEAT_MS * 1000000ull && !xfer_failed(x)) {
			r = send_beat(x, false);
			if (!r)
				r = xfer_send_stages(x);
			beat = now;
		} else if (!r && stamped && !xfer_failed(x)) {
			r = send_beat(x, true);
		}
		if (!r && now - reported > REPORT_MS * 1000000ull && !xfer_failed(x)) {
			r = xfer_report_channels(x);
			reported = now;
		}
		if (!r && !xfer_failed(x))
			r = xfer_say_lost(x, true);
		if (r)
			xfer_control_failed(x, r);

		if (now - shown > PROGRESS_NS) {
			xfer_show_progress(x);
			xfer_tend_paths(x);
			shown = now;
		}
	}
	if (!xfer_failed(x))
		xfer_say_lost(x, false);
	return NULL;
}

int xfer_start(struct xfer *x, struct err *e)
{
	int r;

	atomic_store(&x->ticking, true);
	atomic_store(&x->due, true); /* the first beat */
	x->reader_on = x->reader_started = true;
	r = thread_start(&x->reader, "control", control_main, x);
	if (r) {
		x->reader_on = x->reader_started = false;
		return thread_failed(e, r);
	}
	r = thread_start(&x->ticker, "ticker", ticker_main, x);
	if (r) {
		ms_abort(x->c->ms);
		pthread_join(x->reader, NULL);
		x->reader_on = x->reader_started = false;
		return thread_failed(e, r);
	}
	x->ticker_on = true;
	return 0;
}

void xfer_changed(struct xfer *x)
{
	LOCK_GUARD(guard, &x->lock);

	pthread_cond_broadcast(&x->changed);
}

void xfer_wait(struct xfer *x, bool (*until)(struct xfer *x))
{
	LOCK_GUARD(guard, &x->lock);

	while (!xfer_failed(x) && !until(x))
		pthread_cond_wait(&x->changed, &x->lock);
}

void xfer_data_lost(struct xfer *x, int code)
{
	uint64_t until = ns_after(ABORT_GRACE_MS);

	pthread_mutex_lock(&x->lock);
	while (!xfer_failed(x) && !x->peer_ended)
		if (cond_wait_until(&x->changed, &x->lock, until))
			break;
	pthread_mutex_unlock(&x->lock);
	/* After any other error, also one of a device, a new connection may work. */
	xfer_fail(x, code == -EBADMSG || code == -EPROTO || code == -ETIMEDOUT ? code :
		  -ECONNRESET, "data channels: %s", strerror(-code));
}

static int send_summary(struct xfer *x)
{
	LOCK_GUARD(guard, &x->words_lock);
	int r;

	say_abort(x);
	x->said_end = true;
	r = xfer_failed(x) ? 0 : xfer_send_stages(x);
	if (!r)
		r = xfer_send_counts(x, BULK_SUMMARY, 0, 0);
	return r ? r : xfer_send(x, BULK_END, NULL);
}

/* True: the peer's END has arrived. After a failure the wait is limited to ABORT_GRACE_MS. */
static bool wait_peer_end(struct xfer *x)
{
	uint64_t until = ns_after(xfer_failed(x) ? ABORT_GRACE_MS : SILENCE_MS);
	LOCK_GUARD(guard, &x->lock);

	while (!x->peer_ended && x->reader_on)
		if (cond_wait_until(&x->changed, &x->lock, until))
			break;
	return x->peer_ended;
}

int xfer_finish(struct xfer *x, bool *in_line, struct err *e)
{
	int r;

	if (x->ticker_on) {
		pthread_mutex_lock(&x->tick_lock);
		atomic_store(&x->ticking, false);
		pthread_cond_signal(&x->tick);
		pthread_mutex_unlock(&x->tick_lock);
		pthread_join(x->ticker, NULL);
		x->ticker_on = false;
	}

	for (uint32_t i = 0; i < x->npaths; i++)
		if (x->pools[i])
			placement_say_used(x->placement, i, x->pools[i]);

	r = send_summary(x);
	*in_line = !r && wait_peer_end(x);
	if (!*in_line) {
		if (!xfer_failed(x))
			set_cause(x, r ? r : -ETIMEDOUT,
				  "the other side did not end the transfer", false);
		log_debug("the conversation does not end in good order: %s",
			  r ? strerror(-r) : "the other side is silent");
		ms_abort(x->c->ms);
	}

	if (x->reader_started)
		pthread_join(x->reader, NULL);
	xfer_show_progress(x);

	if (x->cause.code)
		return err_set(e, x->cause.code, "%s", x->cause.text);
	return 0;
}

void xfer_result(struct xfer *x, struct transfer_result *r)
{
	r->agreement = x->agr;
	xfer_counts(x, &r->local);
	r->files = r->local.files;
	r->failed = r->local.failed;
	r->skipped = r->local.skipped;
	r->bytes = r->local.bytes;
	r->resumed = r->local.resumed;
	r->resumable = xfer_failed(x) && x->role->resumable(x);
	r->remote = x->peer;
	r->wall_ns = now_ns() - x->started_ns;
	r->rtt_ns = x->rtt_ns;
	r->channels_lost = atomic_load(&x->channels_lost);
	r->fell_back = atomic_load(&x->fell_back);
	r->touched = atomic_load(&x->touched);
	r->corrected = atomic_load(&x->count.corrected);
	r->removed = atomic_load(&x->count.removed);
	r->removed_bytes = atomic_load(&x->count.removed_bytes);
	r->in_the_way = atomic_load(&x->count.in_the_way);
	shares_of(&x->shares, x->source, false, r->stages);
	r->nchannels = 0;
	for (uint32_t i = 0; i < (r->fell_back ? x->nroutes : x->npaths); i++)
		for (uint32_t c = 0; x->paths[i] && c < x->paths[i]->nchannels; c++)
			if (r->nchannels < CHANNELS_MAX &&
			    (c < x->agr.channels_first || x->paths[i]->channel_bytes[c]))
				r->channel_bytes[r->nchannels++] = x->paths[i]->channel_bytes[c];
}
