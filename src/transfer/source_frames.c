// SPDX-License-Identifier: Apache-2.0
/* What the sink says, and the table of entries that it has not finished: entries are done or
 * have failed, are wanted or not, or are there in part. */
#include "transfer/source.h"

#include <errno.h>
#include <stdlib.h>

/* ---- entries that are not done ---- */

/* The sink is through with id, or we are. Returns its file, reference and all; *was
 * tells whether it was still out. */
static struct sfile *entry_over(struct source *s, uint64_t id, bool *was)
{
	LOCK_GUARD(guard, &s->lock);
	uint64_t i = id % s->ahead;

	*was = id >= s->oldest && id < s->next && s->out[i];
	if (!*was)
		return NULL;
	s->settled++;
	s->out[i] = 0;
	s->details -= s->weights[i];
	if (id == s->oldest)
		while (s->oldest < s->next && !s->out[s->oldest % s->ahead])
			s->oldest++;
	if (id < s->oldest || s->weights[i])
		pthread_cond_signal(&s->moved);
	return steal_ptr(&s->slots[i]);
}

static struct sfile *entry_file(struct source *s, uint64_t id)
{
	LOCK_GUARD(guard, &s->lock);
	uint64_t i = id % s->ahead;

	if (id < s->oldest || id >= s->next || !s->out[i] || !s->slots[i])
		return NULL;
	return sfile_ref(s->slots[i]);
}

/* Once: f no longer waits for a verdict. */
static bool take_asked(struct source *s, struct sfile *f)
{
	LOCK_GUARD(guard, &s->lock);
	bool asked = f->asked;

	s->settled += asked;
	f->asked = false;
	return asked;
}

static void let_go(struct source *s, struct sfile *f)
{
	if (f && take_asked(s, f))
		plan_unexpect(s->plan);
}

void source_file_failed(struct source *s, struct sfile *f, const char *path, int code,
			const char *text)
{
	bool was = true;

	if (f) {
		if (atomic_exchange(&f->failed, true))
			return;
		/* Told before the window moves on: an entry that takes f's place in it must
		 * not overtake this. The sink passes it over where f is done already. */
		xfer_send_failure(&s->x, BULK_FAILED, f->id, code, text);
		sfile_put(entry_over(s, f->id, &was));
	} else {
		xfer_send_failure(&s->x, BULK_FAILED, 0, code, text);
	}
	if (!was)
		return;
	atomic_fetch_add(&s->failed, 1);
	if (code == -EAGAIN)
		atomic_fetch_add(&s->x.touched, 1);
	XFER_EVENT(&s->x, file_failed, path, code, text);
}

/* ---- what the sink says ---- */

static void tell_done(struct source *s, struct sfile *f, bool skipped)
{
	char *path CLEANUP_FREE = NULL;

	if (!s->x.events->file_done && !s->x.committed)
		return;
	path = sfile_path(f);
	if (path && s->x.committed && !skipped)
		committed_add(s->x.committed, path);
	if (path)
		XFER_EVENT(&s->x, file_done, path, f->size, skipped);
}

static void one_done(struct source *s, uint64_t id)
{
	bool was;
	struct sfile *f = entry_over(s, id, &was);

	if (!f)
		return;
	let_go(s, f);
	if (!atomic_load(&f->failed)) {
		if (sfile_kind_counts(f->kind))
			atomic_fetch_add(&s->done_files, 1);
		tell_done(s, f, false);
	}
	sfile_put(f);
}

static uint64_t next_id(struct source *s)
{
	LOCK_GUARD(guard, &s->lock);

	return s->next;
}

static int on_done(struct source *s, struct buf *p)
{
	uint64_t first, last;

	while (buf_len(p)) {
		int r = bulk_pair_get(p, &first, &last);

		if (r)
			return r;
		if (first > last || last - first >= s->ahead || last >= next_id(s))
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
	/* Under --ack received a file may fail after it was told done. */
	if (!was && s->x.agr.ack != ACK_RECEIVED)
		return 0;
	let_go(s, file);
	if (file) {
		atomic_store(&file->failed, true);
		path = sfile_path(file);
	}
	atomic_fetch_add(&s->failed, 1);
	xfer_file_failed_there(&s->x, path ? path : "", &f);
	sfile_put(file);
	return 0;
}

static void verdict_skip(struct source *s, struct sfile *f)
{
	bool was;

	if (sfile_kind_counts(f->kind))
		atomic_fetch_add(&s->skipped, 1);
	if (f->kind != SFILE_DIR) /* that one is there is nothing to tell */
		tell_done(s, f, true);
	sfile_put(entry_over(s, f->id, &was));
	plan_unexpect(s->plan);
}

/* The plan ends when nothing is expected: so first hand it the file, then unexpect. The
 * sink makes a file without data by itself. */
static void verdict_send(struct source *s, struct sfile *f)
{
	if (sfile_has_data(f))
		plan_ready(s->plan, sfile_ref(f));
	plan_unexpect(s->plan);
}

static int on_verdict(struct source *s, uint64_t id, uint8_t verdict)
{
	struct sfile *f = entry_file(s, id);

	if (!f)
		return 0;
	if (!take_asked(s, f)) {
		sfile_put(f);
		return 0;
	}
	if (verdict == VERDICT_SKIP)
		verdict_skip(s, f);
	else if (s->x.req->flags & BULK_F_DRY_RUN)
		plan_unexpect(s->plan);
	else
		verdict_send(s, f);
	sfile_put(f);
	return 0;
}

static int on_verdicts(struct source *s, struct buf *p)
{
	while (buf_len(p)) {
		uint64_t id;
		uint8_t verdict;
		int r = bulk_verdict_get(p, &id, &verdict);

		if (!r)
			r = on_verdict(s, id, verdict);
		if (r)
			return r;
	}
	return 0;
}

static int add_run(struct sfile *f, const struct part_run *run)
{
	if (!(f->nruns & (f->nruns - 1))) { /* a power of two: grow */
		uint32_t room = f->nruns ? 2 * f->nruns : 1;
		struct part_run *p = realloc(f->runs, room * sizeof(*p));

		if (!p)
			return -ENOMEM;
		f->runs = p;
	}
	f->runs[f->nruns++] = *run;
	return 0;
}

/* Digests of the runs of a file that the sink has. A run outside of it, or a short one but at the
 * end, is a lie, and so are twice as many as the file can have: they would fill our memory. Of a
 * file that waits for no verdict they are passed over. */
static int add_runs(struct sfile *f, struct buf *p)
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
		r = add_run(f, &run);
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
	/* Only while it waits is the file ours alone. */
	r = add_runs(f, p);
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
	if (!ino || inodes_find(&s->places, dev, ino))
		return 0;
	return inodes_add(&s->places, dev, ino, id ? id : 1) ? 0 : -ENOMEM;
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
	default:
		return -EPROTO;
	}
}
