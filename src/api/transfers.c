// SPDX-License-Identifier: Apache-2.0
/* Transfers: files and trees, descriptors, ranges, and copies between two servers. */
#include "api/api.h"

/* ---- events, one at a time ---- */

static void on_started(void *arg, const struct agreement *a)
{
	struct rftp *r = arg;

	(void)a;
	atomic_store(&r->begun, true);
}

static void on_progress(void *arg, const struct transfer_progress *p)
{
	struct rftp *r = arg;

	r->now = (struct rftp_progress){
		.bytes = p->bytes, .bytes_known = p->bytes_known, .files = p->files_done,
		.failed = p->files_failed, .skipped = p->files_skipped,
		.seconds = transfer_seconds(p),
	};
	if (r->progress)
		r->progress(r->progress_arg, &r->now);
}

static void on_file_done(void *arg, const struct file_report *f)
{
	struct rftp *r = arg;

	if (f->end == FILE_COPIED && f->plain)
		r->file(r->file_arg, f->path, f->bytes, 0, "");
}

static void on_file_failed(void *arg, const char *path, int code, const char *text)
{
	struct rftp *r = arg;

	if (code == -EAGAIN && r->rereads) /* it has changed, and is read again */
		return;
	if (part_is_kept(code, text)) /* it came meanwhile: RFTP_EXCLUSIVE */
		code = -EEXIST;
	if (!r->first.code)
		err_set(&r->first, code ? code : -EIO, "%s", *text ? text : printable(path));
	if (r->file)
		r->file(r->file_arg, path, 0, code ? code : -EIO, text);
}

static struct transfer_events events_of(struct rftp *r)
{
	return (struct transfer_events){
		.started = on_started, .progress = on_progress,
		.file_done = r->file ? on_file_done : NULL, .file_failed = on_file_failed,
		.arg = r,
	};
}

/* ---- attempts, in the calling thread ---- */

static bool watch_begun(void *arg)
{
	struct rftp *r = arg;

	return atomic_load(&r->begun);
}

static void watch_rereads(void *arg, bool rereads)
{
	struct rftp *r = arg;

	r->rereads = rereads;
	r->first = (struct err)ERR_INIT;
}

static void watch_pass(void *arg, const struct transfer_result *res)
{
	(void)arg;
	(void)res;
}

/* The next attempt skips the files that are done, and counts them again. */
static void watch_retry(void *arg, unsigned attempt, unsigned wait, const struct err *e)
{
	struct rftp *r = arg;

	(void)attempt;
	(void)wait;
	(void)e;
	if (r->now.files + r->now.skipped > r->files_before)
		r->files_before = r->now.files + r->now.skipped;
}

static const struct attempt_watch api_watch = {
	.begun = watch_begun, .rereads = watch_rereads, .pass = watch_pass, .retry = watch_retry,
};

/* Run the transfer of a. */
static int transfer_run(struct rftp *r, struct attempts *a, unsigned flags)
{
	struct transfer_result res;
	uint64_t again;
	int rc;

	r->now = (struct rftp_progress){ 0 };
	r->files_before = 0;
	r->first = (struct err)ERR_INIT;
	atomic_store(&r->begun, false);
	a->watch = &api_watch;
	a->watch_arg = r;
	rc = attempts_make(a, &res, &r->error);
	if (rc == -ENOTCONN && r->server->refused && !server_connected(r->server))
		return r->server->refused;
	if (rc)
		return rc;

	again = min_u64(res.skipped, r->files_before);
	r->now = (struct rftp_progress){
		.bytes = res.bytes, .bytes_known = res.bytes, .files = res.files + again,
		.failed = res.failed, .skipped = res.skipped - again,
		.seconds = (double)res.wall_ns / 1e9,
	};
	if (res.failed && !r->first.code)
		return err_set(&r->error, -EIO, "files failed: %llu",
			       (unsigned long long)res.failed);
	if (res.failed)
		return err_set(&r->error, r->first.code, "%s", r->first.text);
	if ((flags & RFTP_EXCLUSIVE) && r->now.skipped)
		return err_sys(&r->error, -EEXIST, "%llu of the files",
			       (unsigned long long)r->now.skipped);
	return 0;
}

static void request_flags(struct bulk_request *q, unsigned flags)
{
	q->flags |= (flags & RFTP_RECURSIVE ? BULK_F_RECURSIVE : 0) |
		    (flags & RFTP_PARENTS ? BULK_F_MKDIRS : 0);
	if (flags & RFTP_EXCLUSIVE)
		q->policy = POLICY_SKIP;
}

/* ---- between this host and the server ---- */

/* Copy between remote and item. piece: of a get; NULL: the whole. */
static int bulk_run(struct rftp *r, enum bulk_op op, const struct transfer_item *item,
		    const char *remote, const struct bulk_piece *piece, unsigned flags)
{
	struct root *root = NULL;
	struct bulk_request *q;
	struct bulk b;
	int rc = api_begin(r);

	if (rc)
		return api_end(r, rc);
	rc = bulk_prepare(&b, r->server, op, &r->error);
	q = &b.c.request;
	request_flags(q, flags);
	if (!rc)
		root = root_new("/", false, &r->error);
	if (!rc && !root)
		rc = r->error.code;
	q->base = strdup(op == BULK_PUT ? remote : "");
	if (!rc && (!q->base || (op == BULK_GET &&
				 bulk_add_sources(q, (char *[]){ (char *)remote }, 1))))
		rc = err_nomem(&r->error);
	if (!rc && piece) {
		q->pieces = calloc(1, sizeof(*q->pieces));
		rc = q->pieces ? 0 : err_nomem(&r->error);
		q->flags |= BULK_F_RANGES;
	}
	if (!rc && piece)
		*q->pieces = *piece;
	if (item->kind == ITEM_STDIO && op == BULK_GET)
		q->flags |= BULK_F_SEQUENTIAL;
	b.attempts.pipe = item->kind == ITEM_STDIO;
	b.c.items = item;
	b.c.nitems = 1;
	b.c.root = root;
	b.c.events = events_of(r);
	if (!rc)
		rc = transfer_run(r, &b.attempts, flags);
	bulk_clear(&b);
	root_free(root);
	return api_end(r, rc);
}

int rftp_put(struct rftp *r, const char *local, const char *remote, unsigned flags)
{
	const struct transfer_item item = { .kind = ITEM_PATH, .path = local };

	return bulk_run(r, BULK_PUT, &item, remote, NULL, flags);
}

int rftp_get(struct rftp *r, const char *remote, const char *local, unsigned flags)
{
	const struct transfer_item item = { .kind = ITEM_PATH, .path = local };

	return bulk_run(r, BULK_GET, &item, remote, NULL, flags);
}

int rftp_put_fd(struct rftp *r, int fd, const char *remote, unsigned flags)
{
	const struct transfer_item item = { .kind = ITEM_STDIO, .path = "-", .fd = fd };

	return bulk_run(r, BULK_PUT, &item, remote, NULL, flags & ~RFTP_RECURSIVE);
}

int rftp_get_fd(struct rftp *r, const char *remote, int fd)
{
	const struct transfer_item item = { .kind = ITEM_STDIO, .path = "-", .fd = fd };

	return bulk_run(r, BULK_GET, &item, remote, NULL, 0);
}

int rftp_get_range(struct rftp *r, const char *remote, const struct rftp_stat *st, uint64_t offset,
		   uint64_t length, int fd)
{
	const struct transfer_item item = { .kind = ITEM_STDIO, .path = "-", .fd = fd };
	struct bulk_piece piece = { .range = { offset, length }, .dated = st };

	if (st) {
		piece.size = st->size;
		piece.mtime_s = st->mtime_s;
		piece.mtime_ns = st->mtime_ns;
	}
	return length ? bulk_run(r, BULK_GET, &item, remote, &piece, 0) : 0;
}

/* ---- between two servers ---- */

int rftp_copy(struct rftp *r, const char *from, struct rftp *other, const char *to, unsigned flags)
{
	struct third_copy c;
	int rc = r == other ? -EINVAL : api_begin(r);

	if (r == other || (!rc && !other->server))
		rc = err_set(&r->error, -EINVAL, "a copy needs two handles with servers");
	if (rc)
		return api_end(r, rc);
	other->lead = r; /* which stops the connecting of both */
	server_check(other->server);
	rc = third_copy_init(&c, r->server, other->server, &r->server->o, &r->error);
	request_flags(&c.give.request, flags);
	c.events = events_of(r);
	c.give.request.base = strdup(to);
	if (!rc && (!c.give.request.base ||
		    bulk_add_sources(&c.give.request, (char *[]){ (char *)from }, 1)))
		rc = err_nomem(&r->error);
	if (!rc)
		rc = transfer_run(r, &c.attempts, flags);
	if (rc == -ENOTCONN && other->server->refused && !server_connected(other->server))
		rc = other->server->refused;
	third_copy_clear(&c);
	other->lead = other;
	return api_end(r, rc);
}

/* ---- settings and results ---- */

void rftp_set_progress(struct rftp *r, rftp_progress_fn *fn, void *arg)
{
	r->progress = fn;
	r->progress_arg = arg;
}

void rftp_set_file(struct rftp *r, rftp_file_fn *fn, void *arg)
{
	r->file = fn;
	r->file_arg = arg;
}

void rftp_result(const struct rftp *r, struct rftp_progress *p)
{
	*p = r->now;
}
