// SPDX-License-Identifier: Apache-2.0
/* Handles the sink's frames, and keeps the table of entries that the sink has not finished. The
 * frames say that entries are done, have failed, are wanted or not, or exist in part. */
#include "transfer/source/source.h"

#include <fcntl.h>

/* ---- entries that are not done ---- */

/* The sink, or this side, has finished the entry id. Returns its file, and the table's reference to
 * it, or NULL; *was: the entry was unfinished until now. */
static struct sfile *entry_over(struct source *s, uint64_t id, bool *was)
{
	LOCK_GUARD(guard, &s->lock);
	struct source_slot *slot = &s->slots[id % s->ahead];

	*was = id >= s->oldest && id < s->next && slot->out;
	if (!*was)
		return NULL;
	s->settled++;
	slot->out = false;
	s->details -= slot->weight;

	if (id == s->oldest)
		while (s->oldest < s->next && !s->slots[s->oldest % s->ahead].out)
			s->oldest++;
	if (id < s->oldest || slot->weight)
		pthread_cond_signal(&s->moved);
	return steal_ptr(&slot->file);
}

static struct sfile *entry_file(struct source *s, uint64_t id)
{
	LOCK_GUARD(guard, &s->lock);
	const struct source_slot *slot = &s->slots[id % s->ahead];

	return id >= s->oldest && id < s->next && slot->out && slot->file ?
	       sfile_ref(slot->file) : NULL;
}

/* End f's wait for a verdict. True: f has waited until now. */
static bool take_asked(struct source *s, struct sfile *f)
{
	LOCK_GUARD(guard, &s->lock);
	bool asked = f->asked;

	s->settled += asked;
	f->asked = false;
	return asked;
}

void source_file_failed(struct source *s, struct sfile *f, const char *path, int code,
			const char *text)
{
	bool was = true;

	if (f) {
		if (atomic_exchange(&f->failed, true))
			return;
		/* Send it before the window moves: the next entry in f's slot must not overtake
		 * this message. The sink ignores it if f is done already. */
		xfer_send_failure(&s->x, BULK_FAILED, f->id, code, text);
		sfile_put(entry_over(s, f->id, &was));
		if (take_asked(s, f)) /* the sink waited for its digest */
			plan_unexpect(s->plan);
	} else {
		xfer_send_failure(&s->x, BULK_FAILED, 0, code, text);
	}
	if (!was)
		return;

	atomic_fetch_add(&s->x.count.failed, 1);
	if (code == -EAGAIN)
		atomic_fetch_add(&s->x.touched, 1);
	XFER_EVENT(&s->x, file_failed, path, code, text);
}

/* ---- frames of the sink ---- */

static void tell_done(struct source *s, struct sfile *f, enum file_end end)
{
	char *path CLEANUP_FREE = NULL;

	if (!s->x.c->events.file_done && !s->x.committed)
		return;
	if (f->linked && !sum_hex(f)) /* it is only known for its digest */
		return;
	path = sfile_path(f);
	if (path && s->x.committed && end == FILE_COPIED && !f->only.length)
		committed_add(s->x.committed, path);
	if (path)
		XFER_EVENT(&s->x, file_done, &(struct file_report){
			.end = end, .path = path, .plain = sfile_kind_counts(f->kind),
			.range = f->only,
			.bytes = f->only.length ? f->only.length : f->size,
			.sum = end == FILE_COPIED ? sum_hex(f) : NULL, .rel = f->rel,
			.mtime_s = f->mtime_s, .mtime_ns = f->mtime_ns });
}

static void one_done(struct source *s, uint64_t id)
{
	bool was;
	struct sfile *f = entry_over(s, id, &was);

	if (!f)
		return;
	if (take_asked(s, f))
		plan_unexpect(s->plan);
	if (!atomic_load(&f->failed)) {
		if (sfile_kind_counts(f->kind))
			atomic_fetch_add(&s->x.count.files, 1);
		tell_done(s, f, FILE_COPIED);
	}
	sfile_put(f);
}

static int on_done(struct source *s, struct buf *p)
{
	uint64_t first, last, next;

	while (buf_len(p)) {
		int r = bulk_pair_get(p, &first, &last);

		if (r)
			return r;
		pthread_mutex_lock(&s->lock);
		next = s->next;
		pthread_mutex_unlock(&s->lock);
		if (first > last || last - first >= s->ahead || last >= next)
			return -EBADMSG;
		for (uint64_t id = first; id <= last; id++)
			one_done(s, id);
	}
	return 0;
}

static int on_failed(struct source *s, struct buf *p)
{
	struct bulk_failure f;
	struct sfile *file;
	char *path CLEANUP_FREE = NULL;
	bool was = true;
	int r = bulk_failure_get(p, &f);

	if (r)
		return r;

	file = f.id ? entry_over(s, f.id, &was) : NULL;
	/* With --ack received a file may fail after it was reported as done. */
	if (!was && s->x.agr.ack != ACK_RECEIVED)
		return 0;
	if (file) {
		if (take_asked(s, file))
			plan_unexpect(s->plan);
		atomic_store(&file->failed, true);
		path = sfile_path(file);
	}
	atomic_fetch_add(&s->x.count.failed, 1);
	xfer_file_failed_there(&s->x, path ? path : "", &f);
	sfile_put(file);
	return 0;
}

/* The sink wants the digest of f, which goes on waiting for a verdict. -EPROTO: f may not be asked
 * for it, or was. */
static int on_digest_wanted(struct source *s, struct sfile *f)
{
	bool asked, may;

	pthread_mutex_lock(&s->lock);
	asked = f->asked;
	may = s->x.c->request.policy == POLICY_CHECKSUM && f->kind == SFILE_PATH && f->size &&
	      !f->digested;
	if (asked && may)
		f->digest = f->digested = true;
	pthread_mutex_unlock(&s->lock);
	if (asked && may)
		plan_ready(s->plan, sfile_ref(f));
	return asked && !may ? -EPROTO : 0;
}

/* True: a reader computes the digest of f. No other thread may change f. */
static bool digest_is_due(struct source *s, const struct sfile *f)
{
	LOCK_GUARD(guard, &s->lock);

	return f->digest;
}

/* The sink will remove what is in f's way: not if f cannot be read. */
static void check_readable(struct source *s, struct sfile *f)
{
	int fd CLEANUP_CLOSE = -1;
	char *path CLEANUP_FREE = NULL;
	char text[ERR_TEXT];

	if (f->kind != SFILE_PATH)
		return;
	fd = source_open(s, f, O_RDONLY | O_NONBLOCK);
	if (fd >= 0)
		return;
	path = sfile_path(f);
	snprintf(text, sizeof(text), "%s: %s", printable(path ? path : f->name), root_why(fd));
	source_file_failed(s, NULL, path ? path : f->name, fd, text);
}

static int on_verdict(struct source *s, uint64_t id, uint8_t verdict)
{
	struct sfile *f = entry_file(s, id);
	bool was;
	int r = 0;

	if (f && verdict == VERDICT_DIGEST) {
		r = on_digest_wanted(s, f);
	} else if (f && digest_is_due(s, f)) {
		r = -EPROTO;
	} else if (f && take_asked(s, f)) {
		if (verdict == VERDICT_LATER) {
			atomic_fetch_add(&s->x.count.in_the_way, 1);
			check_readable(s, f);
		}
		if (verdict == VERDICT_SKIP || verdict >= VERDICT_CORRECT) {
			bool corrected = verdict == VERDICT_CORRECT;

			atomic_store(&f->unwanted, true);
			if (sfile_kind_counts(f->kind))
				atomic_fetch_add(&s->x.count.skipped, 1);
			atomic_fetch_add(&s->x.count.corrected, corrected);
			/* The end of a directory is not reported. */
			if (f->kind != SFILE_DIR && verdict != VERDICT_LATER)
				tell_done(s, f, corrected ? FILE_CORRECTED : FILE_LEFT);
			sfile_put(entry_over(s, f->id, &was));
		} else if (!(s->x.c->request.flags & BULK_F_DRY_RUN) && sfile_has_data(f)) {
			/* The sink creates a file without data by itself. */
			plan_ready(s->plan, sfile_ref(f));
		}

		/* After plan_ready(), because a plan that expects no more files ends. */
		plan_unexpect(s->plan);
	}
	sfile_put(f);
	return r;
}

static int on_verdicts(struct source *s, struct buf *p)
{
	uint64_t id;
	uint8_t verdict;
	int r = 0;

	while (!r && buf_len(p)) {
		r = bulk_verdict_get(p, &id, &verdict);
		if (!r)
			r = on_verdict(s, id, verdict);
	}
	return r;
}

/* Add digests of the runs of a file that the sink has. -EBADMSG: a run is outside of the file, or
 * short but not at its end, or there are twice as many as the file can have, which would fill our
 * memory. Runs of a file that waits for no verdict are ignored. */
static int sfile_add_runs(struct sfile *f, struct buf *p)
{
	uint64_t most = 2 * (f->size / BLOCK_MIN + 1);
	int r = 0;

	while (!r && buf_len(p)) {
		struct part_run run;

		r = bulk_run_get(p, &run.offset, &run.length, run.digest);
		if (r || !f->asked)
			continue;
		if (f->nruns >= most || run.offset > f->size ||
		    run.length > f->size - run.offset ||
		    (run.length < BLOCK_MIN && run.offset + run.length < f->size))
			return -EBADMSG;
		if (!array_has_room(f->runs, f->nruns, f->runs_room))
			return -ENOMEM;
		f->runs[f->nruns++] = run;
	}
	return r;
}

static int on_runs(struct source *s, struct buf *p)
{
	struct sfile *f;
	uint64_t id;
	int r = bulk_runs_head_get(p, &id);

	if (r)
		return r;
	f = entry_file(s, id);
	if (!f)
		return 0;
	/* While the file waits for its verdict only a reader that computes its digest uses it. */
	r = digest_is_due(s, f) ? -EPROTO : sfile_add_runs(f, p);
	sfile_put(f);
	return r;
}

static int on_place(struct source *s, struct buf *p)
{
	uint64_t id, dev, ino;
	int r = bulk_place_get(p, &id, &dev, &ino);
	LOCK_GUARD(guard, &s->lock);

	if (r)
		return r;
	if (!s->places_due)
		return -EPROTO;
	s->places_due--;
	s->settled++;
	pthread_cond_signal(&s->moved);
	if (ino && !inodes_find(&s->places, dev, ino) &&
	    !inodes_add(&s->places, dev, ino, id ? id : 1))
		return -ENOMEM;
	while (!r && buf_len(p)) {
		r = bulk_place_get(p, &id, &dev, &ino);
		if (!r && !inodes_find(&s->above, dev, ino) && !inodes_add(&s->above, dev, ino, 1))
			r = -ENOMEM;
	}
	return r;
}

static int on_removed(struct source *s, struct buf *p)
{
	struct bulk_removed m;

	if (!(s->x.c->request.flags & BULK_F_SYNC) || !atomic_load(&s->x.sent))
		return -EPROTO;
	while (buf_len(p)) {
		int r = bulk_removed_get(p, &m);

		if (r)
			return r;
		xfer_removed(&s->x, &m);
		free(m.path);
		LOCK_GUARD(guard, &s->lock);
		s->settled++;
	}
	return 0;
}

int source_frame(struct xfer *x, uint8_t type, struct buf *p, struct err *e)
{
	struct source *s = (struct source *)x;

	(void)e;
	switch (type) {
	case BULK_DONE:
		return on_done(s, p);
	case BULK_FAILED:
		return on_failed(s, p);
	case BULK_VERDICTS:
		return on_verdicts(s, p);
	case BULK_RUNS:
		return on_runs(s, p);
	case BULK_PLACE:
		return on_place(s, p);
	case BULK_REMOVED:
		return on_removed(s, p);
	default:
		return -EPROTO;
	}
}
