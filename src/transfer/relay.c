// SPDX-License-Identifier: Apache-2.0
/* Both ends of the control connection on which a client follows a transfer between two servers. */
#include "transfer/transfer.h"

#include <sys/eventfd.h>

/* ---- both ---- */

/* Read the next frame other than BEAT; send BEAT meanwhile. -ETIMEDOUT: the peer was silent for too
 * long. */
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

/* Read the client's frames until its END. */
static void *relay_watch_main(void *arg)
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
			eventfd_write(r->stop, 1);
		else if (type < BULK_SKIPPED)
			break;
	}
	eventfd_write(r->stop, 1);
	return NULL;
}

int relay_start(struct relay *r, struct mstream *ms, bool each_file, struct err *e)
{
	int rc;

	*r = (struct relay){ .ms = ms, .each_file = each_file, .lost = true,
			     .write_ms = ms_write_timeout(ms) };
	/* A client that does not read counts as gone. */
	ms_set_write_timeout(ms, THIRD_SILENCE_MS);
	r->stop = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	rc = r->stop < 0 ? -errno : thread_start(&r->watch, "watch", relay_watch_main, r);
	r->watching = !rc;
	return rc ? err_sys(e, rc, "cannot watch the client") : 0;
}

/* Send a frame. The watch thread finds out if the client is gone. */
static void relay_tell(struct relay *r, uint8_t type, const struct buf *b)
{
	int rc = ms_write_frame(r->ms, type, buf_ptr(b), buf_len(b));

	if (rc)
		log_debug("cannot send to the client: %s", strerror(-rc));
}

static void relay_on_started(void *arg, const struct agreement *a)
{
	struct buf *b CLEANUP_BUF = buf_new(BULK_FRAME_MAX);
	struct relay *r = arg;

	r->agreement = *a;
	r->agreed = true;
	if (b && !agreement_put(b, a))
		relay_tell(r, BULK_STARTED, b);
}

static void relay_on_progress(void *arg, const struct transfer_progress *p)
{
	struct buf *b CLEANUP_BUF = buf_new(BULK_FRAME_MAX);

	if (b && !third_progress_put(b, p))
		relay_tell(arg, BULK_PROGRESS, b);
}

static void relay_tell_file(struct relay *r, const struct third_file *f)
{
	struct buf *b CLEANUP_BUF = buf_new(BULK_FRAME_MAX);

	if (b && !third_file_put(b, f))
		relay_tell(r, BULK_FILE, b);
}

static void relay_on_file_done(void *arg, const struct file_report *r)
{
	/* The client cannot know which names are links. */
	struct third_file f = { .path = (char *)r->path,
				.bytes = r->plain || r->sum ? r->bytes : 0,
				.end = (uint8_t)r->end };

	if (r->sum && r->rel) {
		snprintf(f.text, sizeof(f.text), "%s", r->sum);
		f.rel = (char *)r->rel;
		f.mtime_s = r->mtime_s;
		f.mtime_ns = r->mtime_ns;
	}
	relay_tell_file(arg, &f);
}

static void relay_on_file_failed(void *arg, const char *path, int code, const char *text)
{
	struct third_file f = { .path = (char *)path, .code = code ? code : -EIO };

	snprintf(f.text, sizeof(f.text), "%s", text);
	relay_tell_file(arg, &f);
}

struct transfer_events relay_events(struct relay *r)
{
	return (struct transfer_events){
		.started = relay_on_started, .progress = relay_on_progress,
		.file_done = r->each_file ? relay_on_file_done : NULL,
		.file_failed = relay_on_file_failed, .arg = r,
	};
}

void relay_result(struct relay *r, const struct transfer_result *res, int code, uint8_t where,
		  const char *text)
{
	struct buf *b CLEANUP_BUF = buf_new(BULK_FRAME_MAX);
	struct third_result *t CLEANUP_FREE = calloc(1, sizeof(*t));
	int rc = -ENOMEM;

	atomic_store(&r->told, true);

	if (b && t) {
		*t = (struct third_result){ .code = code, .where = where, .agreed = r->agreed,
					    .of = *res };
		t->of.agreement = r->agreement;
		snprintf(t->text, sizeof(t->text), "%s", code ? text : "");
		rc = third_result_put(b, t);
	}
	if (!rc)
		rc = ms_write_frame(r->ms, BULK_RESULT, buf_ptr(b), buf_len(b));

	/* Without the result the client would wait for it for ever. */
	if (rc)
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

static int relay_take_file(struct relay_reader *r)
{
	struct third_file f;
	int rc = third_file_get(r->p, &f);

	/* A digest goes into a manifest as it is. */
	if (!rc && f.rel && !f.code && f.text[strspn(f.text, "0123456789abcdef")])
		rc = -EBADMSG;
	if (rc) {
		third_file_clear(&f);
		return rc;
	}
	if (f.code && r->ev->file_failed)
		r->ev->file_failed(r->ev->arg, f.path, f.code, f.text);
	if (!f.code && f.end == FILE_COPIED && r->committed)
		committed_add(r->committed, f.path);
	if (!f.code && r->ev->file_done) {
		const struct file_report done = {
			.end = f.end, .path = f.path, .bytes = f.bytes, .rel = f.rel,
			.plain = !report_path_is_directory(f.path),
			.sum = f.rel ? f.text : NULL, .mtime_s = f.mtime_s, .mtime_ns = f.mtime_ns,
		};

		r->ev->file_done(r->ev->arg, &done);
	}
	third_file_clear(&f);
	return 0;
}

static int relay_take_event(struct relay_reader *r)
{
	char words[THIRD_WORDS_MAX + 1];
	struct transfer_progress p;
	struct agreement a;
	int rc;

	switch (r->type) {
	case BULK_STARTED:
		rc = agreement_get(r->p, &a);
		if (!rc && r->ev->started)
			r->ev->started(r->ev->arg, &a);
		return rc;
	case BULK_PROGRESS:
		rc = third_progress_get(r->p, &p, words);
		if (!rc && r->ev->progress)
			r->ev->progress(r->ev->arg, &p);
		return rc;
	case BULK_FILE:
		return relay_take_file(r);
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
		rc = relay_take_event(r);
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

/* After our END this side sends nothing, not even BEAT. */
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
