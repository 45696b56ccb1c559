// SPDX-License-Identifier: Apache-2.0
/* The control conversation of one transfer. */
#include "transfer/xfer.h"

#include <errno.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define PROGRESS_NS 200000000ull

int xfer_init(struct xfer *x)
{
	x->stop = -1;
	x->storage = -1;
	pthread_mutex_init(&x->lock, NULL);
	pthread_mutex_init(&x->event_lock, NULL);
	pthread_mutex_init(&x->words_lock, NULL);
	cond_init(&x->changed);
	pthread_mutex_init(&x->tick_lock, NULL);
	cond_init(&x->tick);
	x->started_ns = now_ns();
	x->cpu_start_ns = cpu_ns();
	atomic_store(&x->heard_ns, x->started_ns);
	return 0;
}

void xfer_destroy(struct xfer *x)
{
	/* A path may hold blocks of another's pool: what fell back on the standby. */
	for (uint32_t i = 0; i < x->nroutes; i++)
		if (x->paths[i])
			x->paths[i]->ops->free(x->paths[i]);
	for (uint32_t i = 0; i < x->nroutes; i++) {
		shelter_free(x->shelters[i]);
		pool_free(x->pools[i]);
	}
	for (uint32_t i = 0; i < NICS_MAX; i++)
		if (x->ends[i])
			x->ends[i]->ops->free(x->ends[i]);
	xkeys_wipe(&x->keys);
	pthread_cond_destroy(&x->tick);
	pthread_mutex_destroy(&x->tick_lock);
	pthread_cond_destroy(&x->changed);
	pthread_mutex_destroy(&x->words_lock);
	pthread_mutex_destroy(&x->event_lock);
	pthread_mutex_destroy(&x->lock);
}

int xfer_send(struct xfer *x, uint8_t type, struct buf *b)
{
	return ms_write_frame(x->ms, type, b ? buf_ptr(b) : NULL, b ? buf_len(b) : 0);
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

/* The same names may be here and there, so it is said where; unless all has been said. */
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

/* True for who sets the cause. */
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

/* With words_lock: once, unless the cause came from the peer. Who noted the cause says it,
 * or who is at the last words already, whichever comes first. */
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

static void send_abort(struct xfer *x)
{
	LOCK_GUARD(guard, &x->words_lock);

	say_abort(x);
}

static void fail_text(struct xfer *x, int code, const char *text, bool from_peer)
{
	if (!set_cause(x, code, text, from_peer))
		return;
	log_debug("transfer fails: %s", text);
	/* Before cancel: a path that goes through ms may abort it. */
	if (!from_peer)
		send_abort(x);
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

/* ---- what the peer says ---- */

static void wake_ticker(struct xfer *x, atomic_bool *flag)
{
	LOCK_GUARD(guard, &x->tick_lock);

	atomic_store(flag, true);
	pthread_cond_signal(&x->tick);
}

static int on_beat(struct xfer *x, struct buf *p)
{
	struct bulk_counts c;
	int r = bulk_counts_get(p, &c);

	if (r)
		return r;
	LOCK_GUARD(guard, &x->lock);
	x->peer = c;
	if (c.stamp_ns) {
		x->peer_stamp_ns = c.stamp_ns;
		/* At once: how long it takes to come back is the peer's measure of the path. */
		wake_ticker(x, &x->kick);
	}
	if (c.echo_ns) {
		uint64_t rtt = now_ns() - c.echo_ns;

		if (!x->rtt_ns || rtt < x->rtt_ns)
			x->rtt_ns = rtt;
	}
	return 0;
}

static int on_summary(struct xfer *x, struct buf *p)
{
	struct bulk_counts c;
	int r = bulk_counts_get(p, &c);

	if (r)
		return r;
	LOCK_GUARD(guard, &x->lock);
	x->peer = c;
	x->peer_summed = true;
	pthread_cond_broadcast(&x->changed);
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

/* A server begins an in-band transfer before it has read READY. */
static int on_ready(struct xfer *x, struct buf *p)
{
	bool server = xfer_is_source(x) == (x->dir == SERVER_TO_CLIENT);
	uint8_t transport;

	if (!server || x->paths[0] != x->inband || x->ready || buf_get_u8(p, &transport) ||
	    transport != TRANSPORT_INBAND || buf_len(p))
		return -EPROTO;
	x->ready = true;
	return 0;
}

static int on_frame(struct xfer *x, uint8_t type, struct buf *p, struct err *e)
{
	switch (type) {
	case BULK_BEAT:
		return on_beat(x, p);
	case BULK_READY:
		return on_ready(x, p);
	case BULK_SUMMARY:
		if (!xfer_failed(x) && !x->role->may_end(x))
			return -EPROTO;
		return on_summary(x, p);
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
	default:
		if (type >= BULK_SKIPPED && type != x->role->optional)
			return 0;
		/* What is on its way when a transfer fails has no one to take it. */
		return xfer_failed(x) ? 0 : x->role->frame(x, type, p, e);
	}
}

static bool has_summed(struct xfer *x)
{
	LOCK_GUARD(guard, &x->lock);

	return x->peer_summed;
}

static void note_end(struct xfer *x)
{
	if (!xfer_failed(x) && !has_summed(x))
		xfer_fail(x, -EPROTO, "the other side ended the transfer before its end");
	LOCK_GUARD(guard, &x->lock);

	x->peer_ended = true;
	pthread_cond_broadcast(&x->changed);
}

void xfer_control_failed(struct xfer *x, int r)
{
	switch (r) {
	case -EPIPE:
	case -ECONNRESET:
	case 0:
		xfer_fail(x, -EPIPE, "the other side closed the connection");
		break;
	case -ETIMEDOUT:
		/* A thread that waits in a write to the silent peer would wait for minutes. */
		ms_abort(x->ms);
		xfer_fail(x, r, "the other side has been silent for %d s", SILENCE_MS / 1000);
		break;
	case -ECANCELED:
		break;
	default:
		xfer_fail(x, r, "control connection: %s", strerror(-r));
	}
}

static void frame_failed(struct xfer *x, uint8_t type, int r, const struct err *e)
{
	if (e->text[0])
		xfer_fail(x, r, "%s", e->text);
	else
		xfer_fail(x, r, "message of type %u from the other side: %s", type,
			  r == -EBADMSG ? "malformed" : r == -EPROTO ? "not expected here" :
			  strerror(-r));
}

/* Blocks may be larger than any other message. */
static size_t frame_max(const struct xfer *x)
{
	return x->inband ? BULK_FRAME_MAX + BLOCK_HEAD + x->agr.block : BULK_FRAME_MAX;
}

/* Reads until BULK_END, also after a failure, so that the stream is left in line mode. */
static void *reader_main(void *arg)
{
	struct xfer *x = arg;
	size_t max = frame_max(x);
	struct buf *p CLEANUP_BUF = buf_new(max);
	uint8_t type;
	int r;

	if (!p) {
		xfer_fail(x, -ENOMEM, "out of memory");
		return NULL;
	}
	for (;;) {
		struct err e = ERR_INIT;

		r = ms_read_frame(x->ms, &type, p, max, SILENCE_MS);
		if (r) {
			xfer_control_failed(x, r);
			break;
		}
		atomic_store_explicit(&x->heard_ns, now_ns(), memory_order_relaxed);
		if (type == BULK_END) {
			note_end(x);
			return NULL;
		}
		r = on_frame(x, type, p, &e);
		if (r)
			frame_failed(x, type, r, &e);
	}
	LOCK_GUARD(guard, &x->lock);
	pthread_cond_broadcast(&x->changed);
	x->reader_on = false;
	return NULL;
}

/* ---- what we say ---- */

static void own_counts(struct xfer *x, struct bulk_counts *c)
{
	x->role->counts(x, c);
	c->cpu_ns = cpu_ns() - x->cpu_start_ns;
}

/* answer: only to echo the peer's stamp, so that it is not echoed again. */
static int send_beat(struct xfer *x, bool answer)
{
	struct bulk_counts c = { 0 };
	struct buf *b CLEANUP_BUF = buf_new(BULK_FRAME_MAX);
	int r;

	if (!b)
		return -ENOMEM;
	own_counts(x, &c);
	c.stamp_ns = answer ? 0 : now_ns();
	pthread_mutex_lock(&x->lock);
	c.echo_ns = x->peer_stamp_ns;
	x->peer_stamp_ns = 0;
	pthread_mutex_unlock(&x->lock);
	r = bulk_counts_put(b, &c);
	return r ? r : xfer_send(x, BULK_BEAT, b);
}

bool xfer_peer_idle(struct xfer *x, bool waits, uint64_t progress, uint64_t extra_ms)
{
	uint64_t limit = x->tuning->stall_ms ? x->tuning->stall_ms : STALL_MS;

	if (!waits || progress != x->idle_at)
		x->idle_ns = 0;
	else
		x->idle_ns += x->tick_ns;
	x->idle_at = progress;
	return x->idle_ns / 1000000 > HELD_LIMITS * limit + extra_ms;
}

/* Add the bytes of incomplete blocks that have arrived, but not the last byte: 100 % is for the end.
 * The sum never falls, not even when a channel is lost. */
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

static void show_progress(struct xfer *x)
{
	struct transfer_progress p = { 0 };

	if (!x->events->progress)
		return;
	x->role->progress(x, &p);
	add_ahead(x, &p);
	p.seconds = (double)(now_ns() - x->started_ns) / 1e9;
	XFER_EVENT(x, progress, &p);
}

void xfer_due(struct xfer *x)
{
	if (!atomic_load(&x->due))
		wake_ticker(x, &x->due);
}

/* Until the next tick, a kick or the end. */
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
	/* Time for which this process was stopped does not count. */
	slept = now_ns() - begun;
	x->tick_ns = slept < 2 * TICK_IDLE_MS * 1000000ull ? slept : TICK_IDLE_MS * 1000000ull;
}

static bool stamp_waits(struct xfer *x)
{
	LOCK_GUARD(guard, &x->lock);

	return x->peer_stamp_ns != 0;
}

static bool is_stopped(const struct xfer *x)
{
	return x->stop >= 0 && poll_fd(x->stop, POLLIN, 0) > 0;
}

static void *ticker_main(void *arg)
{
	struct xfer *x = arg;
	uint64_t shown = now_ns(), reported = shown;
	uint64_t beat = 0; /* the first at once: it measures the path */

	while (atomic_load(&x->ticking)) {
		uint64_t now;
		int r = 0;

		ticker_sleep(x);
		now = now_ns();
		if (!xfer_failed(x) && is_stopped(x))
			xfer_fail(x, -EINTR, "interrupted");
		if (!xfer_failed(x))
			r = x->role->tick(x);
		if (!r && now - beat > BEAT_MS * 1000000ull && !xfer_failed(x)) {
			r = send_beat(x, false);
			beat = now;
		} else if (!r && stamp_waits(x) && !xfer_failed(x)) {
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
			show_progress(x);
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
	r = thread_start(&x->reader, "control", reader_main, x);
	if (r) {
		x->reader_on = x->reader_started = false;
		return err_sys(e, r, "cannot start a thread");
	}
	r = thread_start(&x->ticker, "ticker", ticker_main, x);
	if (r) {
		ms_abort(x->ms);
		pthread_join(x->reader, NULL);
		x->reader_on = x->reader_started = false;
		return err_sys(e, r, "cannot start a thread");
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
	/* Whatever took them, a device's own errors too: another connection may live. */
	xfer_fail(x, code == -EBADMSG || code == -EPROTO || code == -ETIMEDOUT ? code :
		  -ECONNRESET, "data channels: %s", strerror(-code));
}

static void stop_ticker(struct xfer *x)
{
	if (!x->ticker_on)
		return;
	pthread_mutex_lock(&x->tick_lock);
	atomic_store(&x->ticking, false);
	pthread_cond_signal(&x->tick);
	pthread_mutex_unlock(&x->tick_lock);
	pthread_join(x->ticker, NULL);
	x->ticker_on = false;
}

static int say_goodbye(struct xfer *x)
{
	struct bulk_counts c = { 0 };
	struct buf *b CLEANUP_BUF = buf_new(BULK_FRAME_MAX);
	int r;

	if (!b)
		return -ENOMEM;
	own_counts(x, &c);
	r = bulk_counts_put(b, &c);
	LOCK_GUARD(guard, &x->words_lock);
	say_abort(x);
	x->said_end = true;
	if (!r)
		r = xfer_send(x, BULK_SUMMARY, b);
	return r ? r : xfer_send(x, BULK_END, NULL);
}

/* True when the peer's END has come; after a failure it gets only so long. */
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

	stop_ticker(x);
	for (uint32_t i = 0; i < x->npaths; i++)
		if (x->pools[i])
			placement_say_used(x->placement, i, x->pools[i]);
	r = say_goodbye(x);
	*in_line = !r && wait_peer_end(x);
	if (!*in_line) {
		if (!xfer_failed(x))
			set_cause(x, r ? r : -ETIMEDOUT,
				  "the other side did not end the transfer", false);
		log_debug("the conversation does not end in good order: %s",
			  r ? strerror(-r) : "the other side is silent");
		ms_abort(x->ms);
	}
	if (x->reader_started)
		pthread_join(x->reader, NULL);
	show_progress(x);
	if (x->cause.code)
		return err_set(e, x->cause.code, "%s", x->cause.text);
	return 0;
}

/* Of bytes there are only those of whole blocks: one more may be almost there. */
bool xfer_at_rate(const struct xfer *x, uint64_t bytes)
{
	double seconds = (double)(now_ns() - x->started_ns) / 1e9;

	return x->req->rate &&
	       (double)(bytes + x->agr.block) >= (double)x->req->rate * seconds * 7 / 8;
}

void xfer_result(struct xfer *x, struct transfer_result *r)
{
	r->agreement = x->agr;
	own_counts(x, &r->local);
	r->remote = x->peer;
	r->wall_ns = now_ns() - x->started_ns;
	r->rtt_ns = x->rtt_ns;
	r->channels_lost = atomic_load(&x->channels_lost);
	r->fell_back = atomic_load(&x->fell_back);
	r->touched = atomic_load(&x->touched);
	r->nchannels = 0;
	for (uint32_t i = 0; i < (r->fell_back ? x->nroutes : x->npaths); i++)
		for (uint32_t c = 0; x->paths[i] && c < x->paths[i]->nchannels; c++)
			if (r->nchannels < CHANNELS_MAX &&
			    (c < x->agr.channels_first || x->paths[i]->channel_bytes[c]))
				r->channel_bytes[r->nchannels++] = x->paths[i]->channel_bytes[c];
}
