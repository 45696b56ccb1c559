// SPDX-License-Identifier: Apache-2.0
/* Both ends of a control connection by which a client watches a transfer that two servers have
 * between them. */
#include "transfer/transfer.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

/* ---- both ---- */

/* The next frame that is not BEAT; we say BEAT ourselves meanwhile. -ETIMEDOUT: silence. */
static int next_frame(struct mstream *ms, uint8_t *type, struct buf *p)
{
	uint64_t heard = now_ns(), said = 0;

	for (;;) {
		uint64_t now = now_ns();
		int r = 0;

		if (now - said >= THIRD_BEAT_MS * 1000000ull) {
			r = ms_write_frame(ms, BULK_BEAT, NULL, 0);
			said = now;
		}
		if (!r)
			r = ms_read_frame(ms, type, p, BULK_FRAME_MAX, THIRD_BEAT_MS);
		if (!r && *type != BULK_BEAT)
			return 0;
		if (!r)
			heard = now_ns();
		else if (r != -ETIMEDOUT || now_ns() - heard >= THIRD_SILENCE_MS * 1000000ull)
			return r;
	}
}

/* ---- the server's part ---- */

static void wish_stop(const struct relay *r)
{
	uint64_t one = 1;

	if (write(r->stop, &one, sizeof(one)) < 0)
		log_debug("eventfd: %s", strerror(errno));
}

/* What the client says until its END. */
static void *watch_main(void *arg)
{
	struct buf *p CLEANUP_BUF = buf_new(BULK_FRAME_MAX);
	struct relay *r = arg;
	uint8_t type = 0;

	while (p && !next_frame(r->ms, &type, p)) {
		if (type == BULK_END && atomic_load(&r->told)) {
			r->lost = false;
			return NULL;
		}
		if (type == BULK_ABORT)
			wish_stop(r);
		else if (type < BULK_SKIPPED)
			break;
	}
	wish_stop(r);
	return NULL;
}

int relay_start(struct relay *r, struct mstream *ms, bool each_file, struct err *e)
{
	int rc;

	*r = (struct relay){ .ms = ms, .each_file = each_file, .lost = true,
			     .write_ms = ms_write_timeout(ms) };
	/* A client that does not read is as good as gone. */
	ms_set_write_timeout(ms, THIRD_SILENCE_MS);
	r->stop = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	rc = r->stop < 0 ? -errno : thread_start(&r->watch, "watch", watch_main, r);
	r->watching = !rc;
	return rc ? err_sys(e, rc, "cannot watch the client") : 0;
}

/* Whether it arrives is the watch's to find out. */
static void tell(struct relay *r, uint8_t type, const struct buf *b)
{
	int rc = ms_write_frame(r->ms, type, buf_ptr(b), buf_len(b));

	if (rc)
		log_debug("the client does not hear: %s", strerror(-rc));
}

static void on_started(void *arg, const struct agreement *a)
{
	struct buf *b CLEANUP_BUF = buf_new(BULK_FRAME_MAX);
	struct relay *r = arg;

	r->agreement = *a;
	r->agreed = true;
	if (b && !agreement_put(b, a))
		tell(r, BULK_STARTED, b);
}

static void on_progress(void *arg, const struct transfer_progress *p)
{
	struct buf *b CLEANUP_BUF = buf_new(BULK_FRAME_MAX);
	struct third_progress t = {
		.entries = p->entries, .files_done = p->files_done,
		.files_failed = p->files_failed, .files_skipped = p->files_skipped,
		.bytes = p->bytes, .bytes_kept = p->bytes_kept, .bytes_known = p->bytes_known,
		.walked = p->walked, .ns = (uint64_t)(p->seconds * 1e9),
	};

	snprintf(t.bottleneck, sizeof(t.bottleneck), "%s", p->bottleneck ? p->bottleneck : "");
	if (b && !third_progress_put(b, &t))
		tell(arg, BULK_PROGRESS, b);
}

static void tell_file(struct relay *r, struct third_file *f, const char *path)
{
	struct buf *b CLEANUP_BUF = buf_new(BULK_FRAME_MAX);

	f->path = strndup(path, BULK_PATH_MAX);
	if (b && f->path && !third_file_put(b, f))
		tell(r, BULK_FILE, b);
	third_file_clear(f);
}

static void on_file_done(void *arg, const char *path, uint64_t bytes, bool skipped)
{
	struct third_file f = { .bytes = bytes, .skipped = skipped };

	tell_file(arg, &f, path);
}

static void on_file_failed(void *arg, const char *path, int code, const char *text)
{
	struct third_file f = { .code = code ? code : -EIO };

	snprintf(f.text, sizeof(f.text), "%s", text);
	tell_file(arg, &f, path);
}

struct transfer_events relay_events(struct relay *r)
{
	return (struct transfer_events){
		.started = on_started, .progress = on_progress,
		.file_done = r->each_file ? on_file_done : NULL,
		.file_failed = on_file_failed, .arg = r,
	};
}

static void fill_result(struct third_result *t, const struct transfer_result *res)
{
	t->fell_back = res->fell_back;
	t->local = res->local;
	t->remote = res->remote;
	t->wall_ns = res->wall_ns;
	t->files = res->files;
	t->failed = res->failed;
	t->skipped = res->skipped;
	t->bytes = res->bytes;
	t->resumed = res->resumed;
	t->rtt_ns = res->rtt_ns;
	t->channels_lost = res->channels_lost;
	t->nchannels = res->nchannels;
	memcpy(t->channel_bytes, res->channel_bytes, sizeof(t->channel_bytes));
	t->touched = res->touched;
	t->resumable = res->resumable;
}

static int send_result(struct relay *r, const struct transfer_result *res, int code,
		       uint8_t where, const char *text)
{
	struct buf *b CLEANUP_BUF = buf_new(BULK_FRAME_MAX);
	struct third_result *t CLEANUP_FREE = calloc(1, sizeof(*t));
	int rc;

	if (!b || !t)
		return -ENOMEM;
	fill_result(t, res);
	t->agreed = r->agreed;
	t->agreement = r->agreement;
	t->code = code;
	t->where = where;
	snprintf(t->text, sizeof(t->text), "%s", code ? text : "");
	rc = third_result_put(b, t);
	return rc ? rc : ms_write_frame(r->ms, BULK_RESULT, buf_ptr(b), buf_len(b));
}

void relay_result(struct relay *r, const struct transfer_result *res, int rc, uint8_t where,
		  const char *text)
{
	atomic_store(&r->told, true);
	/* A client that heard of no end would wait for one. */
	if (send_result(r, res, rc, where, text))
		ms_abort(r->ms);
}

int relay_end(struct relay *r)
{
	if (r->watching)
		pthread_join(r->watch, NULL);
	r->watching = false;
	cleanup_close(&r->stop);
	ms_set_write_timeout(r->ms, r->write_ms);
	return r->lost ? -EPIPE : ms_write_frame(r->ms, BULK_END, NULL, 0);
}

/* ---- the client's part ---- */

static int take_started(struct relay_reader *r)
{
	struct agreement a;
	int rc = agreement_get(r->p, &a);

	if (!rc && r->ev->started)
		r->ev->started(r->ev->arg, &a);
	return rc;
}

static int take_progress(struct relay_reader *r)
{
	struct third_progress t;
	struct transfer_progress p;
	int rc = third_progress_get(r->p, &t);

	if (rc || !r->ev->progress)
		return rc;
	p = (struct transfer_progress){
		.entries = t.entries, .files_done = t.files_done,
		.files_failed = t.files_failed, .files_skipped = t.files_skipped,
		.bytes = t.bytes, .bytes_kept = t.bytes_kept, .bytes_known = t.bytes_known,
		.walked = t.walked, .seconds = (double)t.ns / 1e9,
		.bottleneck = *t.bottleneck ? t.bottleneck : NULL,
	};
	r->ev->progress(r->ev->arg, &p);
	return 0;
}

static int take_file(struct relay_reader *r)
{
	struct third_file f;
	int rc = third_file_get(r->p, &f);

	if (rc)
		return rc;
	if (f.code && r->ev->file_failed)
		r->ev->file_failed(r->ev->arg, f.path, f.code, f.text);
	if (!f.code && !f.skipped && r->committed)
		committed_add(r->committed, f.path);
	if (!f.code && r->ev->file_done)
		r->ev->file_done(r->ev->arg, f.path, f.bytes, f.skipped);
	third_file_clear(&f);
	return 0;
}

static int take_event(struct relay_reader *r)
{
	switch (r->type) {
	case BULK_STARTED:
		return take_started(r);
	case BULK_PROGRESS:
		return take_progress(r);
	case BULK_FILE:
		return take_file(r);
	default:
		return r->type >= BULK_SKIPPED ? 0 : -EPROTO;
	}
}

int relay_read(struct relay_reader *r, struct err *e)
{
	int rc;

	for (;;) {
		rc = next_frame(r->ms, &r->type, r->p);
		if (rc || r->type == r->until || r->type == BULK_RESULT)
			break;
		rc = take_event(r);
		if (rc)
			break;
	}
	if (rc == -EBADMSG || rc == -EPROTO)
		return err_set(e, -EPROTO, "it sent a message that makes no sense here");
	return rc ? err_sys(e, rc, "control connection") : 0;
}

void relay_stop(struct mstream *ms)
{
	ms_write_frame(ms, BULK_ABORT, NULL, 0);
}

/* Behind our END there is nothing of ours, not even BEAT. */
int relay_leave(struct relay_reader *r, struct err *e)
{
	int rc = ms_write_frame(r->ms, BULK_END, NULL, 0);

	while (!rc) {
		rc = ms_read_frame(r->ms, &r->type, r->p, BULK_FRAME_MAX, THIRD_SILENCE_MS);
		if (!rc && r->type == BULK_END)
			return 0;
	}
	return err_sys(e, rc, "control connection");
}

void relay_take(const struct third_result *t, struct transfer_result *out)
{
	memset(out, 0, sizeof(*out));
	out->agreement = t->agreement;
	out->local = t->local;
	out->remote = t->remote;
	out->wall_ns = t->wall_ns;
	out->files = t->files;
	out->failed = t->failed;
	out->skipped = t->skipped;
	out->bytes = t->bytes;
	out->resumed = t->resumed;
	out->rtt_ns = t->rtt_ns;
	out->nchannels = t->nchannels;
	memcpy(out->channel_bytes, t->channel_bytes, sizeof(out->channel_bytes));
	out->channels_lost = t->channels_lost;
	out->fell_back = t->fell_back;
	out->touched = t->touched;
	out->resumable = t->resumable;
}
