// SPDX-License-Identifier: Apache-2.0
/* How files end: their commit, alone or in batches, what is told to the source, and the
 * clerks: threads that do what the control reader must not wait for. */
#include "transfer/sink.h"
#include "transfer/xattrs.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Files that are synced together. */
#define BATCH 128

/* Put part, with a slash before it unless it is "", in front of at. */
static char *prepend(char *at, const char *part)
{
	size_t len = strlen(part);

	at = memcpy(at - len, part, len);
	if (len)
		*--at = '/';
	return at;
}

/* A dry run keeps only the names of directories that it does not make. The path starts at the nearest
 * existing ancestor, or at the destination. */
char *kdir_path(const struct kdir *d, const char *name)
{
	const struct kdir *top = d;
	size_t room = strlen(name) + 2, n;
	char *base CLEANUP_FREE = NULL, *out, *at;

	for (; !top->dir && top->parent; top = top->parent)
		room += strlen(top->name ? top->name : "") + 1;
	base = top->dir ? dir_path(top->dir, NULL) : strdup(top->name ? top->name : "");
	n = base ? strlen(base) : 0;
	out = base ? malloc(n + room) : NULL;
	if (!out)
		return NULL;
	at = out + n + room;
	*--at = '\0';
	if (!*name) /* the directory itself, with a slash */
		*--at = '/';
	at = prepend(at, name);
	for (; d != top; d = d->parent)
		at = prepend(at, d->name ? d->name : "");
	if (!n || base[n - 1] == '/')
		at++;
	at = memcpy(at - n, base, n);
	return memmove(out, at, strlen(at) + 1);
}

char *kfile_path(const struct kfile *f)
{
	if (f->parent && (f->parent->dir || f->parent->name))
		return kdir_path(f->parent, f->name);
	return strdup(f->name);
}

static uint64_t kfile_size(const struct kfile *f)
{
	return f->flags & ENTRY_F_NOSIZE ? atomic_load(&f->final_size) : f->meta.size;
}

/* ---- directories ---- */

static int set_dir_mode(struct sink *s, const struct kdir *d, int dfd, bool owner_given)
{
	bool keep = s->x.req->flags & BULK_F_MODES;
	uint32_t wanted = keep ? d->meta.mode : 0777 & ~s->x.tuning->umask;
	struct stat st;

	if (fstat(dfd, &st))
		return -errno;
	return fd_chmod(dfd, mode_to_give(wanted, keep && owner_given, st.st_mode & 07777));
}

/* What a directory is to look like, set when nothing goes into it any more. Synced while it
 * is open: it may be one that cannot be opened to be read after this. */
static int set_dir_attributes(struct sink *s, struct kdir *d)
{
	struct timespec t[2] = {
		{ .tv_sec = d->meta.mtime_s, .tv_nsec = d->meta.mtime_ns },
		{ .tv_sec = d->meta.mtime_s, .tv_nsec = d->meta.mtime_ns },
	};
	uint32_t flags = s->x.req->flags;
	struct err e = ERR_INIT;
	bool owner_given = false;
	int r, dfd = dir_pin(d->dir);

	if (dfd < 0)
		return dfd;
	if (s->keep_old && !d->made)
		goto sync;
	if (d->xattrs_len && xattrs_set(dfd, d->xattrs, d->xattrs_len, "a directory", &e))
		log_warn("%s", e.text);
	if (flags & BULK_F_OWNER) {
		r = fd_chown(dfd, d->meta.uid, d->meta.gid);
		owner_given = !r;
		if (r)
			log_debug("owner of a directory not set: %s", strerror(-r));
	}
	if (d->made || (flags & BULK_F_MODES)) {
		r = set_dir_mode(s, d, dfd, owner_given);
		if (r)
			log_debug("mode of a directory not set: %s", strerror(-r));
	}
	if ((flags & BULK_F_TIMES) && utimensat(dfd, ".", t, 0))
		log_debug("times of a directory not set: %s", strerror(errno));
sync:
	r = s->sync ? sync_dir(dfd) : 0;
	dir_unpin(d->dir);
	return r;
}

static int sync_pinned(struct dir *dir)
{
	int dfd = dir_pin(dir), r;

	if (dfd < 0)
		return dfd;
	r = sync_dir(dfd);
	dir_unpin(dir);
	return r;
}

/* The name of d, and of those above it that we made, where that has not been done yet. */
static int sync_name(struct kdir *d)
{
	int r = 0;

	while (!r && d->made && !atomic_exchange(&d->name_synced, true)) {
		d = d->parent;
		if (!d || !d->dir)
			break;
		r = sync_pinned(d->dir);
	}
	return r;
}

int kdir_sync(struct kdir *d)
{
	int r = sync_pinned(d->dir);

	return r ? r : sync_name(d);
}

void kdir_put(struct sink *s, struct kdir *d)
{
	while (d && atomic_fetch_sub_explicit(&d->refs, 1, memory_order_acq_rel) == 1) {
		struct kdir *parent = d->parent;

		if (d->dir && d->set && !s->dry && !xfer_failed(&s->x)) {
			if (set_dir_attributes(s, d) || (s->sync && sync_name(d)))
				log_warn("a directory could not be synced");
		}
		if (d->dir)
			dir_put(d->dir);
		atomic_fetch_sub(&s->dir_details, d->xattrs_len);
		free(d->xattrs);
		free(d->name);
		free(d);
		atomic_fetch_sub(&s->ndirs, 1);
		d = parent;
	}
}

/* ---- references ---- */

struct kfile *kfile_get(struct sink *s, uint64_t id)
{
	LOCK_GUARD(guard, stripe_of(s, id));
	struct kfile *f = s->slots[id % s->ahead];

	if (!f || f->id != id)
		return NULL;
	atomic_fetch_add_explicit(&f->refs, 1, memory_order_relaxed);
	return f;
}

static void drop_details(struct sink *s, struct kfile *f)
{
	LOCK_GUARD(guard, stripe_of(s, f->id));

	spans_clear(&f->got, &s->got_room);
	spans_clear(&f->had, &s->had_room);
	free(steal_ptr(&f->ranges));
	free(steal_ptr(&f->xattrs));
	f->xattrs_len = 0;
	atomic_fetch_sub(&s->details, f->details);
	f->details = 0;
}

void kfile_put(struct sink *s, struct kfile *f)
{
	if (!f || atomic_fetch_sub_explicit(&f->refs, 1, memory_order_acq_rel) != 1)
		return;
	if (f->part && !f->committed)
		part_abandon(f->part, f->journal && !f->drop);
	if (f->part)
		atomic_fetch_sub(&s->parts, 1);
	part_free(f->part);
	kdir_put(s, f->parent);
	drop_details(s, f);
	checks_clear(&f->came);
	checks_clear(&f->kept);
	free(f);
}

/* ---- the end of a file ---- */

static struct kfile *leave_slot(struct sink *s, struct kfile *f)
{
	LOCK_GUARD(guard, stripe_of(s, f->id));
	struct kfile **slot = &s->slots[f->id % s->ahead];

	return *slot == f ? steal_ptr(slot) : NULL;
}

void kfile_over(struct sink *s, struct kfile *f, enum link_state state)
{
	struct kfile *held;

	if (f->flags & ENTRY_F_LINKED)
		linkable_settle(s, f, state);
	held = leave_slot(s, f);
	if (held && atomic_fetch_sub(&s->live, 1) == 1 && atomic_load(&s->sent))
		xfer_changed(&s->x);
	kfile_put(s, held);
}

/* Of a file that is left alone: an interrupted transfer may have left its part or journal. */
static void clear_parts(struct sink *s, struct kfile *f)
{
	int dfd = s->dry || !f->parent->dir ? -ENOENT : dir_pin(f->parent->dir);

	if (dfd < 0)
		return;
	part_clear(f->parent->dir, dfd, f->name);
	dir_unpin(f->parent->dir);
}

void kfile_done(struct sink *s, struct kfile *f, bool skipped)
{
	uint64_t id = f->id;
	bool tell;

	if (atomic_exchange(&f->over, true))
		return;
	/* Now, not with the last reference: the source sends more once it hears of this. */
	drop_details(s, f);
	if (skipped)
		clear_parts(s, f);
	if (f->counts)
		atomic_fetch_add(skipped ? &s->skipped : &s->files, 1);
	if (s->x.events->file_done || s->x.committed) {
		char *path CLEANUP_FREE = kfile_path(f);

		if (path && s->x.committed && !skipped)
			committed_add(s->x.committed, path);
		if (path)
			XFER_EVENT(&s->x, file_done, path, kfile_size(f), skipped);
	}
	/* A skipped file that asked has its verdict, which is final. The slot must be free
	 * before the source hears of it. */
	tell = !(skipped && (f->flags & ENTRY_F_ASK)) && !f->told;
	/* A hard link to another file that was left alone would have the wrong bytes; and one
	 * to any such file would change it, in its number of links. */
	kfile_over(s, f, skipped && (f->other || s->keep_old) ? LINK_FAILED : LINK_THERE);
	if (tell && sink_tell_done(s, id))
		xfer_fail(&s->x, -ENOMEM, "out of memory");
}

void kfile_failed(struct sink *s, struct kfile *f, int code, const char *text)
{
	char *path CLEANUP_FREE = kfile_path(f);
	uint64_t id = f->id;

	if (atomic_exchange(&f->over, true))
		return;
	if (code == -ENOSPC || code == -EDQUOT || code == -EFBIG)
		f->drop = true; /* give the room back */
	atomic_fetch_add(&s->failed, 1);
	kfile_over(s, f, LINK_FAILED);
	xfer_send_failure(&s->x, BULK_FAILED, id, code, text);
	XFER_EVENT(&s->x, file_failed, path ? path : "", code, text);
}

/* ---- parts ---- */

struct part_spec kfile_spec(struct sink *s, struct kfile *f)
{
	uint32_t flags = s->x.req->flags;
	struct meta meta = f->meta;

	if (!(flags & BULK_F_MODES))
		meta.mode = 0666 & ~(uint32_t)s->x.tuning->umask;
	return (struct part_spec){
		.dir = f->parent->dir,
		.name = f->name,
		.meta = meta,
		.set_mode = flags & BULK_F_MODES,
		.set_times = flags & BULK_F_TIMES,
		.set_owner = flags & BULK_F_OWNER,
		.keep_old = s->keep_old,
		.inplace = flags & BULK_F_INPLACE,
		.journal = f->journal,
		.sync = s->sync,
	};
}

static struct part *begin_part(struct sink *s, struct kfile *f, struct err *e)
{
	struct part_spec spec = kfile_spec(s, f);
	struct part *p = part_begin(&spec, e);
	int r = 0;

	if (p && f->punch && f->ranges)
		r = make_holes(part_fd(p), f->meta.size, f->ranges, f->nranges);
	if (r) {
		err_sys(e, r, "%s: cannot make its holes", printable(f->name));
		part_free(p);
		return NULL;
	}
	if (p)
		atomic_fetch_add(&s->parts, 1);
	return p;
}

struct part *kfile_part(struct sink *s, struct kfile *f, struct err *e)
{
	LOCK_GUARD(guard, stripe_of(s, f->id));

	if (!f->part)
		f->part = begin_part(s, f, e);
	return f->part;
}

/* Files that are written keep their descriptors until they are synced and have their names: on a
 * slow disk a source would have more of them written than there are descriptors. Clerks never wait
 * for writers. */
static void wait_for_room(struct sink *s)
{
	LOCK_GUARD(guard, &s->job_lock);

	while (atomic_load(&s->parts) >= s->parts_most && (s->jobs || s->clerks_busy))
		pthread_cond_wait(&s->job_done, &s->job_lock);
}

struct part *kfile_part_in_turn(struct sink *s, struct kfile *f, struct err *e)
{
	bool there;

	pthread_mutex_lock(stripe_of(s, f->id));
	there = f->part;
	pthread_mutex_unlock(stripe_of(s, f->id));
	if (!there && atomic_load(&s->parts) >= s->parts_most)
		wait_for_room(s);
	return kfile_part(s, f, e);
}

/* The name, once the data is as safe as was asked for. */
static int name_file(struct sink *s, struct kfile *f, struct err *e)
{
	int r = 0;

	if (f->flags & ENTRY_F_NOSIZE)
		r = part_set_size(f->part, kfile_size(f));
	if (r)
		return err_sys(e, r, "%s", printable(f->name));
	if (f->xattrs_len)
		r = xattrs_set(part_fd(f->part), f->xattrs, f->xattrs_len, f->name, e);
	if (!r && s->sync)
		r = part_sync(f->part, e);
	if (!r && s->verify)
		r = kfile_verify(f, kfile_size(f), e);
	if (!r)
		r = part_commit(f->part, e);
	f->committed = !r;
	return r;
}

static void commit_alone(struct sink *s, struct kfile *f)
{
	struct err e = ERR_INIT;
	int r = kfile_part(s, f, &e) ? 0 : e.code;

	if (!r)
		r = name_file(s, f, &e);
	f->job = JOB_COMMIT; /* a clerk's, should it be tried again */
	if (!r)
		kfile_done(s, f, false);
	else if (r != -EBUSY || !busy_again(s, f))
		kfile_failed(s, f, r, e.text);
}

void kfile_named(struct sink *s, struct kfile *f, struct jobs *later)
{
	f->committed = true;
	if (!s->sync) {
		kfile_done(s, f, false);
		return;
	}
	atomic_fetch_add(&f->refs, 1);
	f->job = JOB_COMMIT;
	f->next = NULL;
	*(later->end ? later->end : &later->first) = f;
	later->end = &f->next;
}

void kfile_complete(struct sink *s, struct kfile *f)
{
	if (atomic_load(&f->over) || kfile_check_whole(s, f))
		return;
	if (s->discard || s->stream)
		kfile_done(s, f, false);
	else if (s->sync)
		sink_job(s, f, JOB_COMMIT);
	else
		commit_alone(s, f);
}

/* ---- clerks ---- */

void sink_job(struct sink *s, struct kfile *f, enum kjob job)
{
	atomic_fetch_add(&f->refs, 1);
	f->job = job;
	f->next = NULL;
	LOCK_GUARD(guard, &s->job_lock);
	*s->jobs_end = f;
	s->jobs_end = &f->next;
	pthread_cond_signal(&s->job_more);
}

void sink_jobs(struct sink *s, struct jobs *later)
{
	if (!later->end)
		return;
	pthread_mutex_lock(&s->job_lock);
	*s->jobs_end = later->first;
	s->jobs_end = later->end;
	pthread_cond_signal(&s->job_more);
	pthread_mutex_unlock(&s->job_lock);
	*later = (struct jobs){ 0 };
}

/* How many jobs of a kind one clerk takes at once: those that are cheap together, but
 * reading back a part is work for one. */
static unsigned batch_of(enum kjob job)
{
	return job == JOB_COMMIT ? BATCH : job == JOB_EMPTY ? BATCH / 4 : 1;
}

/* Jobs of one kind; sleeps. How many; 0: no more will come. */
static unsigned take_jobs(struct sink *s, struct kfile *batch[BATCH])
{
	LOCK_GUARD(guard, &s->job_lock);
	unsigned n = 0;

	for (busy_due(s); !s->jobs && !s->jobs_closed; busy_due(s))
		busy_wait(s);
	while (s->jobs && n < batch_of(s->jobs->job) &&
	       (!n || s->jobs->job == batch[0]->job)) {
		batch[n++] = s->jobs;
		s->jobs = s->jobs->next;
	}
	if (!s->jobs)
		s->jobs_end = &s->jobs;
	else
		pthread_cond_signal(&s->job_more); /* several may have come at once */
	s->clerks_busy += n > 0;
	return n;
}

struct runs_frame {
	struct sink *s;
	struct kfile *f;
	struct buf *b;
	uint32_t n;       /* runs in all */
};

static int begin_runs(struct runs_frame *rf)
{
	buf_reset(rf->b);
	return bulk_runs_head_put(rf->b, rf->f->id);
}

/* Its bytes were read back just now, but maybe from memory. */
static int keep_check(struct runs_frame *rf, const struct part_run *run)
{
	struct check c = { .offset = run->offset, .length = run->length };

	memcpy(c.digest, run->digest, sizeof(c.digest));
	return checks_add(&rf->f->kept, &c, rf->f->parent->dir);
}

static int add_run(void *arg, const struct part_run *run)
{
	struct runs_frame *rf = arg;
	int r;

	if (!kfile_had(rf->s, rf->f, run->offset, run->offset + run->length))
		return 0;
	atomic_fetch_add(&rf->s->bytes_offered, run->length);
	r = bulk_run_put(rf->b, run->offset, run->length, run->digest);
	if (!r && rf->s->verify)
		r = keep_check(rf, run);

	rf->n++;
	if (!r && buf_len(rf->b) > BULK_FRAME_MAX - 64) {
		r = xfer_send(&rf->s->x, BULK_RUNS, rf->b);
		if (!r)
			r = begin_runs(rf);
	}
	return r;
}

/* A big file: is there a part of it already? */
static int begin_big(struct sink *s, struct kfile *f, struct err *e)
{
	struct buf *b CLEANUP_BUF = buf_new(BULK_FRAME_MAX);
	struct runs_frame rf = { .s = s, .f = f, .b = b };
	struct part *p = kfile_part(s, f, e);
	int64_t n;
	int r;

	if (!p)
		return e->code;
	r = b ? begin_runs(&rf) : -ENOMEM;
	if (r)
		return err_sys(e, r, "%s", printable(f->name));
	n = part_runs(p, add_run, &rf, e);
	if (n < 0)
		return (int)n;
	if (!rf.n)
		return sink_wants(s, f, VERDICT_SEND);
	/* Before the source can answer. */
	atomic_fetch_add(&f->left, KEPT_TOKEN);
	atomic_fetch_add(&f->unreceived, KEPT_TOKEN);
	atomic_store(&f->offered, true);
	r = xfer_send(&s->x, BULK_RUNS, b);
	return r ? r : sink_wants(s, f, VERDICT_RUNS);
}

static int make_empty(struct sink *s, struct kfile *f, struct err *e)
{
	struct part_spec spec = kfile_spec(s, f);
	int r;

	if (f->meta.size || f->xattrs_len || s->sync) {
		kfile_complete(s, f);
		return 0;
	}
	r = part_write_whole(&spec, "", 0, e);
	if (!r)
		kfile_done(s, f, false);
	return r;
}

static void do_job(struct sink *s, struct kfile *f)
{
	struct err e = ERR_INIT;
	int r = 0;

	if (xfer_failed(&s->x) || atomic_load(&f->over))
		return;
	if (f->job == JOB_BEGIN) {
		r = begin_big(s, f, &e);
		if (r == -EBUSY && busy_again(s, f))
			return;
		if (!r)
			r = sink_flush_verdicts(s);
	} else if (f->job == JOB_EMPTY && (s->discard || s->stream)) {
		kfile_done(s, f, false);
	} else if (f->job == JOB_EMPTY) {
		r = make_empty(s, f, &e);
	}
	if (r)
		kfile_failed(s, f, r, e.text[0] ? e.text : strerror(-r));
}

/* Links have their names already. */
static int commit_one(struct sink *s, struct kfile *f, struct err *e)
{
	if (f->committed)
		return 0;
	return kfile_part(s, f, e) ? name_file(s, f, e) : e->code;
}

/* The directory of batch[i] to stable storage, unless that was tried for one before it: what
 * came of it is in synced. */
static int sync_parent(struct kfile **batch, const int *synced, unsigned i)
{
	for (unsigned k = 0; k < i; k++)
		if (batch[k]->committed && batch[k]->parent == batch[i]->parent)
			return synced[k];
	return kdir_sync(batch[i]->parent);
}

/* Data of all, then names of all, then each directory once. */
static void commit_batch(struct sink *s, struct kfile **batch, unsigned n)
{
	int r, synced[BATCH];

	if (xfer_failed(&s->x))
		return;
	for (unsigned i = 0; i < n; i++)
		if (!batch[i]->committed && kfile_part(s, batch[i], NULL))
			sync_file_range(part_fd(batch[i]->part), 0, 0, SYNC_FILE_RANGE_WRITE);
	for (unsigned i = 0; i < n; i++) {
		struct err e = ERR_INIT;

		r = commit_one(s, batch[i], &e);
		if (r && (r != -EBUSY || !busy_again(s, batch[i])))
			kfile_failed(s, batch[i], r, e.text);
	}
	for (unsigned i = 0; i < n; i++) {
		if (!batch[i]->committed)
			continue;
		r = synced[i] = sync_parent(batch, synced, i);
		if (!r)
			kfile_done(s, batch[i], false);
		else
			kfile_failed(s, batch[i], r, "its directory could not be synced");
	}
}

static void *clerk_main(void *arg)
{
	struct sink *s = arg;
	struct kfile *batch[BATCH];
	unsigned n;

	while ((n = take_jobs(s, batch))) {
		if (batch[0]->job == JOB_COMMIT)
			commit_batch(s, batch, n);
		for (unsigned i = 0; i < n; i++) {
			if (batch[i]->job != JOB_COMMIT)
				do_job(s, batch[i]);
			kfile_put(s, batch[i]);
		}
		LOCK_GUARD(guard, &s->job_lock);
		s->clerks_busy--;
		pthread_cond_broadcast(&s->job_done);
	}
	return NULL;
}

int clerks_start(struct sink *s, struct err *e)
{
	unsigned n = cpus_allowed() < 2 ? 2 : cpus_allowed();

	if (n > CLERKS_MAX)
		n = CLERKS_MAX;
	for (; s->nclerks < n; s->nclerks++) {
		int r = thread_start(&s->clerks[s->nclerks], "clerk", clerk_main, s);

		if (r)
			return err_sys(e, r, "cannot start a thread");
	}
	return 0;
}

void clerks_join(struct sink *s)
{
	pthread_mutex_lock(&s->job_lock);
	s->jobs_closed = true;
	pthread_cond_broadcast(&s->job_more);
	pthread_mutex_unlock(&s->job_lock);
	for (unsigned i = 0; i < s->nclerks; i++)
		pthread_join(s->clerks[i], NULL);
	s->nclerks = 0;
}
