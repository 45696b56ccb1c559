// SPDX-License-Identifier: Apache-2.0
/* The end of files: the commit, of one or in batches, and the answer to the source. Commit threads
 * do the work for which the control reader must not wait. */
#include "transfer/sink/sink.h"

#include <fcntl.h>
#include <stdarg.h>

/* The most files that are synced together. */
#define BATCH 128

uint64_t sink_file_size(const struct sink_file *f)
{
	return f->flags & ENTRY_F_NOSIZE ? atomic_load(&f->final_size) : f->meta.size;
}

/* ---- the end of a file ---- */

void sink_file_over(struct sink *s, struct sink_file *f, enum link_state state)
{
	struct sink_file **slot = &s->entries.slots[f->id % s->entries.ahead], *held;

	if (f->flags & ENTRY_F_LINKED)
		linkable_settle(s, f, state);
	pthread_mutex_lock(stripe_of(s, f->id));
	held = *slot == f ? steal_ptr(slot) : NULL;
	pthread_mutex_unlock(stripe_of(s, f->id));
	if (held && atomic_fetch_sub(&s->entries.live, 1) == 1 && atomic_load(&s->x.sent))
		xfer_changed(&s->x);
	sink_file_put(s, held);
}

void sink_file_done(struct sink *s, struct sink_file *f, enum file_end end)
{
	bool skipped = end != FILE_COPIED, tell;
	uint64_t id = f->id;
	int dfd;

	if (atomic_exchange(&f->over, true))
		return;
	/* Free the details now, not with the last reference: after DONE the source sends more
	 * details. */
	sink_file_drop_details(s, f);
	/* An interrupted transfer may have left a part or a journal. */
	dfd = skipped && !s->dry && f->parent->dir ? dir_pin(f->parent->dir) : -ENOENT;
	if (dfd >= 0) {
		part_clear(f->parent->dir, dfd, f->name);
		dir_unpin(f->parent->dir);
	}
	if (f->counts)
		atomic_fetch_add(skipped ? &s->x.count.skipped : &s->x.count.files, 1);
	atomic_fetch_add(&s->x.count.corrected, end == FILE_CORRECTED);
	if (!f->later && (s->x.c->events.file_done || s->x.committed)) {
		char *path CLEANUP_FREE = sink_file_path(f);

		if (path)
			sink_report_done(s, f, path, end);
	}

	/* For a skipped file that asked, the verdict was the final answer. The slot must be free
	 * before the source is told. */
	tell = !(skipped && (f->flags & ENTRY_F_ASK)) && !f->told;
	/* Do not make hard links to a skipped file if another file has its name (they would have
	 * the wrong bytes), or if existing files must not change (a link changes the number of
	 * links). */
	sink_file_over(s, f, f->later ? LINK_LATER :
		       skipped && (f->other || s->x.c->keep_old) ? LINK_FAILED : LINK_THERE);
	if (tell && sink_tell_done(s, id))
		xfer_fail(&s->x, -ENOMEM, NO_MEMORY);
}

void sink_file_failed(struct sink *s, struct sink_file *f, int code, const char *fmt, ...)
{
	char *path CLEANUP_FREE = sink_file_path(f);
	char text[ERR_TEXT];
	uint64_t id = f->id;
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);

	if (atomic_exchange(&f->over, true))
		return;
	if (code == -ENOSPC || code == -EDQUOT || code == -EFBIG)
		f->drop = true; /* free the disk space */
	atomic_fetch_add(&s->x.count.failed, 1);

	sink_file_over(s, f, LINK_FAILED);
	xfer_send_failure(&s->x, BULK_FAILED, id, code, text);
	XFER_EVENT(&s->x, file_failed, path ? path : "", code, text);
}

/* ---- parts ---- */

struct part_spec sink_file_spec(struct sink *s, struct sink_file *f)
{
	uint32_t flags = s->x.c->request.flags;
	struct meta meta = f->meta;
	struct part_spec spec;

	if (!(flags & BULK_F_MODES))
		meta.mode = 0666 & ~(uint32_t)s->x.c->tuning.umask;
	spec = (struct part_spec){
		.dir = f->parent->dir,
		.name = f->name,
		.meta = meta,
		.set_mode = flags & BULK_F_MODES,
		.set_times = flags & BULK_F_TIMES,
		.set_owner = flags & BULK_F_OWNER,
		/* A file that came after the decision is not replaced, either. */
		.keep_old = s->x.c->keep_old || s->x.c->request.policy == POLICY_SKIP,
		.keep_newer = s->x.c->request.policy == POLICY_UPDATE,
		.inplace = flags & BULK_F_INPLACE && !f->range.length,
		.journal = f->journal || f->range.length,
		.range = { .offset = f->range.offset, .length = f->range.length },
		.sync = s->sync,
	};
	memcpy(spec.set.id, s->x.c->request.set.id, sizeof(spec.set.id));
	return spec;
}

static struct part *sink_begin_part(struct sink *s, struct sink_file *f, struct err *e)
{
	struct part_spec spec = sink_file_spec(s, f);
	struct part *p = part_begin(&spec, e);
	int r = 0;

	if (p && f->punch && f->ranges)
		r = make_holes(part_fd(p), sink_file_range(f), f->ranges, f->nranges);
	if (r) {
		err_sys(e, r, "%s: cannot make its holes", printable(f->name));
		part_free(p);
		return NULL;
	}
	if (p)
		atomic_fetch_add(&s->commits.parts, 1);
	return p;
}

static struct part *sink_file_part(struct sink *s, struct sink_file *f, struct err *e)
{
	LOCK_GUARD(guard, stripe_of(s, f->id));

	if (!f->part)
		f->part = sink_begin_part(s, f, e);
	return f->part;
}

/* A written file keeps its descriptor until it is synced and has its name. On a slow disk more
 * files would be written than there are descriptors, so writers wait here. Commit threads never
 * wait for writers. */
struct part *sink_file_part_in_turn(struct sink *s, struct sink_file *f, struct err *e)
{
	struct sink_commits *c = &s->commits;
	bool there;

	pthread_mutex_lock(stripe_of(s, f->id));
	there = f->part;
	pthread_mutex_unlock(stripe_of(s, f->id));
	if (!there && atomic_load(&c->parts) >= c->parts_most) {
		LOCK_GUARD(guard, &c->lock);

		while (atomic_load(&c->parts) >= c->parts_most && (c->jobs || c->busy))
			pthread_cond_wait(&c->done, &c->lock);
	}
	return sink_file_part(s, f, e);
}

/* ---- parts that another writer holds ---- */

/* The other writer is usually the old session of a client that was killed or cut off and has
 * connected again. That session ends when it notices the loss. Such files wait in a list, without a
 * thread, until the part is free, the other writer has proved to be alive, or a dead session would
 * have ended. */

/* The time between two tries. */
#define TRY_MS 100
/* A session that has lost its client may still write received blocks for this long; a later write
 * means that its client is alive. */
#define DRAIN_MS 5000
/* A session that detects its client's loss only by silence holds the part for this long. */
#define HELD_MS (SILENCE_MS + 2 * ABORT_GRACE_MS)

/* Has the other writer written after DRAIN_MS? */
static bool still_written(struct sink *s, struct sink_file *f)
{
	struct part_spec spec = sink_file_spec(s, f);
	struct timespec now;

	if (part_stamp(&spec, &now))
		return false; /* the part has just been given up, or got its name */
	if (!f->busy_seen) {
		f->busy_seen = true;
		f->busy_stamp = now;
	}
	return now.tv_sec != f->busy_stamp.tv_sec || now.tv_nsec != f->busy_stamp.tv_nsec;
}

static bool worth_waiting(struct sink *s, struct sink_file *f)
{
	uint64_t waited;

	if (!f->busy_ns) {
		char *path CLEANUP_FREE = sink_file_path(f);

		f->busy_ns = now_ns();
		log_info("%s: another session holds it; waiting up to %d s for that to end",
			 printable(path ? path : f->name), HELD_MS / 1000);
	}
	waited = (now_ns() - f->busy_ns) / 1000000;
	return waited < DRAIN_MS || (waited < HELD_MS && !still_written(s, f));
}

/* Another writer holds f's part, perhaps a session that is about to end: try f->job again later.
 * Takes a reference; from then on the commit threads own f. False: that writer is alive, or has
 * held the part for too long. */
static bool busy_again(struct sink *s, struct sink_file *f)
{
	if (!worth_waiting(s, f))
		return false;

	atomic_fetch_add(&f->refs, 1);
	LOCK_GUARD(guard, &s->commits.lock);
	if (!s->commits.later)
		s->commits.later_ns = now_ns() + TRY_MS * 1000000ull;
	f->next = s->commits.later;
	s->commits.later = f;
	pthread_cond_signal(&s->commits.more); /* this thread may be busy when the file is due */
	return true;
}

/* With the lock held: turn files that are due into jobs again; at the end of the transfer all of
 * them. */
static void busy_due(struct sink *s)
{
	if (!s->commits.later || (now_ns() < s->commits.later_ns && !s->commits.closed))
		return;
	*s->commits.jobs_end = s->commits.later;
	while (*s->commits.jobs_end)
		s->commits.jobs_end = &(*s->commits.jobs_end)->next;
	s->commits.later = NULL;
	pthread_cond_broadcast(&s->commits.more);
}

/* ---- commits ---- */

/* Append f to a list, which takes a reference. */
static void jobs_add(struct jobs *list, struct sink_file *f, enum sink_job job)
{
	atomic_fetch_add(&f->refs, 1);
	f->job = job;
	f->next = NULL;
	*(list->end ? list->end : &list->first) = f;
	list->end = &f->next;
}

static int set_xattrs(struct sink *s, const struct sink_file *f, struct err *e)
{
	struct err why = ERR_INIT;
	int r = f->xattrs_len ? xattrs_set(part_fd(f->part), f->xattrs, f->xattrs_len, f->name,
					   &why) : 0;

	r = sink_attributes_end(s, r, &why);
	if (r)
		*e = why;
	return r;
}

/* A range is complete: its part stays, for the other ranges. */
static int commit_range(struct sink *s, struct sink_file *f, struct err *e)
{
	uint32_t sum;
	int r = set_xattrs(s, f, e);

	if (!r && fdatasync(part_fd(f->part)))
		r = -errno;
	if (!r && s->verify)
		r = sink_file_verify(s, f, e);
	if (!r)
		r = sink_range_sum(s, f, &sum);
	if (r && !e->code)
		err_sys(e, r, "%s: reading its range back", printable(f->name));
	return r ? r : part_range_complete(f->part, sum, e);
}

/* Give the file its name, after the data is as safe as --ack requires. */
static int commit_whole(struct sink *s, struct sink_file *f, struct err *e)
{
	int r = 0;

	if (f->flags & ENTRY_F_NOSIZE) {
		r = part_set_size(f->part, sink_file_size(f));
		if (r)
			err_sys(e, r, "%s", printable(f->name));
	}
	if (!r)
		r = set_xattrs(s, f, e);
	if (!r && s->sync)
		r = part_sync(f->part, e);
	if (!r && s->verify)
		r = sink_file_verify(s, f, e);
	return r ? r : part_commit(f->part, e);
}

/* False: f has failed, or must be tried again. */
static bool commit_name(struct sink *s, struct sink_file *f)
{
	struct err e = ERR_INIT;
	int r;

	if (!sink_file_part(s, f, &e))
		r = e.code;
	else
		r = f->range.length ? commit_range(s, f, &e) : commit_whole(s, f, &e);
	if (!r)
		f->committed = true;
	f->job = JOB_COMMIT; /* the job for a commit thread if it must be tried again */
	if (r && (r != -EBUSY || !busy_again(s, f)))
		sink_file_failed(s, f, r, "%s", e.text);
	return !r;
}

void sink_file_named(struct sink *s, struct sink_file *f, struct jobs *later)
{
	f->committed = true;
	if (s->sync)
		jobs_add(later, f, JOB_COMMIT);
	else
		sink_file_done(s, f, FILE_COPIED);
}

void sink_file_complete(struct sink *s, struct sink_file *f)
{
	if (atomic_load(&f->over) || sink_file_check_whole(s, f))
		return;
	if (s->discard || s->stream)
		sink_file_done(s, f, FILE_COPIED);
	else if (s->sync)
		sink_job(s, f, JOB_COMMIT);
	else if (commit_name(s, f))
		sink_file_done(s, f, FILE_COPIED);
}

/* ---- commit threads ---- */

void sink_job(struct sink *s, struct sink_file *f, enum sink_job job)
{
	struct jobs one = { 0 };

	jobs_add(&one, f, job);
	sink_jobs(s, &one);
}

void sink_jobs(struct sink *s, struct jobs *later)
{
	if (!later->end)
		return;
	pthread_mutex_lock(&s->commits.lock);
	*s->commits.jobs_end = later->first;
	s->commits.jobs_end = later->end;
	pthread_cond_signal(&s->commits.more);
	pthread_mutex_unlock(&s->commits.lock);
	*later = (struct jobs){ 0 };
}

/* The number of jobs of a kind that a commit thread takes at a time: many if a batch is cheaper;
 * one if a part must be read back. */
static unsigned batch_of(enum sink_job job)
{
	return job == JOB_COMMIT ? BATCH : job == JOB_EMPTY || job == JOB_DIGEST ? BATCH / 4 : 1;
}

/* Take jobs of one kind; sleeps until there are some. Returns their number; 0: no more will
 * arrive. */
static unsigned take_jobs(struct sink *s, struct sink_file *batch[BATCH])
{
	LOCK_GUARD(guard, &s->commits.lock);
	unsigned n = 0;

	for (busy_due(s); !s->commits.jobs && !s->commits.closed; busy_due(s))
		cond_wait_until(&s->commits.more, &s->commits.lock,
				s->commits.later ? s->commits.later_ns : UINT64_MAX);
	while (s->commits.jobs && n < batch_of(s->commits.jobs->job) &&
	       (!n || s->commits.jobs->job == batch[0]->job)) {
		batch[n++] = s->commits.jobs;
		s->commits.jobs = s->commits.jobs->next;
	}
	if (!s->commits.jobs)
		s->commits.jobs_end = &s->commits.jobs;
	else
		pthread_cond_signal(&s->commits.more); /* several jobs may have been added at
						        * once */
	s->commits.busy += n > 0;
	return n;
}

struct runs_frame {
	struct sink *s;
	struct sink_file *f;
	struct buf *b;
	uint32_t n;       /* runs in all */
};

static int offer_begin(struct runs_frame *rf)
{
	buf_reset(rf->b);
	return bulk_runs_head_put(rf->b, rf->f->id);
}

static int offer_run(void *arg, const struct part_run *run)
{
	struct runs_frame *rf = arg;
	int r;

	if (!sink_file_had(rf->s, rf->f, run->offset, run->offset + run->length))
		return 0;
	atomic_fetch_add(&rf->s->entries.bytes_offered, run->length);
	r = bulk_run_put(rf->b, run->offset, run->length, run->digest);
	/* The bytes were read back just now, but perhaps from the page cache. */
	if (!r && rf->s->verify)
		r = checks_add(&rf->f->kept, run, rf->f->parent->dir);
	rf->n++;
	if (!r && buf_len(rf->b) > BULK_FRAME_MAX - 64) {
		r = xfer_send(&rf->s->x, BULK_RUNS, rf->b);
		if (!r)
			r = offer_begin(rf);
	}
	return r;
}

/* Offer the source the runs of an existing part of a big file. */
static int offer_part(struct sink *s, struct sink_file *f, struct err *e)
{
	struct buf *b CLEANUP_BUF = buf_new(BULK_FRAME_MAX);
	struct runs_frame rf = { .s = s, .f = f, .b = b };
	struct part *p = sink_file_part(s, f, e);
	int64_t n;
	int r;

	if (!p)
		return e->code;

	r = b ? offer_begin(&rf) : -ENOMEM;
	if (r)
		return err_sys(e, r, "%s", printable(f->name));
	n = part_runs(p, offer_run, &rf, e);
	if (n < 0)
		return (int)n;

	if (!rf.n)
		return sink_wants(s, f, VERDICT_SEND);
	/* Add the token before the source can answer. */
	atomic_fetch_add(&f->left, KEPT_TOKEN);
	atomic_fetch_add(&f->unreceived, KEPT_TOKEN);
	atomic_store(&f->offered, true);
	r = xfer_send(&s->x, BULK_RUNS, b);
	return r ? r : sink_wants(s, f, VERDICT_RUNS);
}

static int make_empty(struct sink *s, struct sink_file *f, struct err *e)
{
	struct part_spec spec = sink_file_spec(s, f);
	int r;

	if (f->meta.size || f->xattrs_len || s->sync || s->discard || s->stream) {
		sink_file_complete(s, f);
		return 0;
	}

	r = part_write_whole(&spec, "", 0, e);
	if (!r)
		sink_file_done(s, f, FILE_COPIED);
	return r;
}

static void committer_job(struct sink *s, struct sink_file *f)
{
	struct err e = ERR_INIT;
	int r = 0;

	if (xfer_failed(&s->x) || atomic_load(&f->over))
		return;
	if (f->job == JOB_BEGIN) {
		r = offer_part(s, f, &e);
		if (r == -EBUSY && busy_again(s, f))
			return;
	} else if (f->job == JOB_DIGEST) {
		r = sink_file_digest(s, f);
	} else if (f->job == JOB_EMPTY) {
		r = make_empty(s, f, &e);
	}
	if (r)
		sink_file_failed(s, f, r, "%s", e.text[0] ? e.text : strerror(-r));
}

/* Sync the directory of batch[i]. If an earlier file of the batch has the same directory, return
 * its result, in synced. */
static int sync_parent(struct sink_file **batch, const int *synced, unsigned i)
{
	for (unsigned k = 0; k < i; k++)
		if (batch[k]->committed && batch[k]->parent == batch[i]->parent)
			return synced[k];
	return sink_dir_sync(batch[i]->parent);
}

/* Sync the data of all files, then give all their names, then sync each directory once. */
static void commit_batch(struct sink *s, struct sink_file **batch, unsigned n)
{
	int r, synced[BATCH];

	if (xfer_failed(&s->x))
		return;
	for (unsigned i = 0; i < n; i++)
		if (!batch[i]->committed && sink_file_part(s, batch[i], NULL))
			sync_file_range(part_fd(batch[i]->part), 0, 0, SYNC_FILE_RANGE_WRITE);
	for (unsigned i = 0; i < n; i++)
		if (!batch[i]->committed) /* a link already has its name */
			commit_name(s, batch[i]);
	for (unsigned i = 0; i < n; i++) {
		if (!batch[i]->committed)
			continue;
		r = synced[i] = sync_parent(batch, synced, i);
		if (!r)
			sink_file_done(s, batch[i], FILE_COPIED);
		else
			sink_file_failed(s, batch[i], r, "its directory " CANNOT_SYNC);
	}
}

static void *committer_main(void *arg)
{
	struct sink *s = arg;
	struct sink_file *batch[BATCH];
	unsigned n;
	int r;

	while ((n = take_jobs(s, batch))) {
		if (batch[0]->job == JOB_COMMIT)
			commit_batch(s, batch, n);
		for (unsigned i = 0; i < n; i++) {
			if (batch[i]->job != JOB_COMMIT)
				committer_job(s, batch[i]);
			sink_file_put(s, batch[i]);
		}
		r = sink_flush_verdicts(s);
		if (r)
			xfer_control_failed(&s->x, r);
		LOCK_GUARD(guard, &s->commits.lock);
		s->commits.busy--;
		pthread_cond_broadcast(&s->commits.done);
	}
	return NULL;
}

int committers_start(struct sink *s, struct err *e)
{
	unsigned n = cpus_allowed() < 2 ? 2 : cpus_allowed();

	if (n > COMMITTERS_MAX)
		n = COMMITTERS_MAX;
	for (; s->commits.n < n; s->commits.n++) {
		int r = thread_start(&s->commits.thread[s->commits.n], "commit", committer_main, s);

		if (r)
			return thread_failed(e, r);
	}
	return 0;
}

void committers_join(struct sink *s)
{
	pthread_mutex_lock(&s->commits.lock);
	s->commits.closed = true;
	pthread_cond_broadcast(&s->commits.more);
	pthread_mutex_unlock(&s->commits.lock);
	for (unsigned i = 0; i < s->commits.n; i++)
		pthread_join(s->commits.thread[i], NULL);
	s->commits.n = 0;
}

