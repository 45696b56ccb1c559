// SPDX-License-Identifier: Apache-2.0
/* The engine of transfers with a foreign server: directories, counters, workers with their tasks
 * and retries, and the transfer from its start to its result. */
#include "client/foreign/engine.h"

#include "client/servers.h"
#include "client/signals.h"

#include <time.h>

#define TICK_MS 200
#define DIRS_OPEN 256
/* If more files than this are queued, the first worker transfers one before it walks on. */
#define FILES_AHEAD 4096
/* The most retries of a file if only its data connections fail. */
#define DATA_TRIES 2

/* ---- directories ---- */

struct fdir *fdir_new(struct foreign *f, struct fdir *parent, char *there, char *here,
		      struct dir *local, struct err *e)
{
	struct fdir *d = there && here ? calloc(1, sizeof(*d)) : NULL;

	if (!d) {
		free(there);
		free(here);
		if (local)
			dir_put(local);
		err_nomem(e);
		return NULL;
	}
	*d = (struct fdir){ .next = f->made, .parent = parent, .there = there, .here = here,
			    .local = local, .depth = parent ? parent->depth + 1 : 0,
			    .rel_at = parent ? parent->rel_at : 0 };
	f->made = d;
	return d;
}

struct fdir *fdir_sub(struct foreign *f, struct fdir *d, const char *name, struct err *e)
{
	struct dir *local = d->local ? dir_sub(d->local, name) : NULL;

	if (d->local && !local) {
		err_nomem(e);
		return NULL;
	}
	return fdir_new(f, d, name_below(d->there, name), name_below(d->here, name), local, e);
}

/* End children first: they change the times of their parents. */
static void end_dirs(struct foreign *f, struct worker *w)
{
	struct fdir *d;

	while ((d = f->made)) {
		f->made = d->next;
		if (w && !atomic_load(&f->stop))
			f->ops->leave(w, d);
		if (d->local)
			dir_put(d->local);
		facts_clear(&d->held);
		free(d->there);
		free(d->here);
		free(d);
	}
}

bool foreign_is_part(const char *name)
{
	const char *tail = part_tail(name);

	return part_is_ours(name) ||
	       (tail && (!strcmp(tail, FOREIGN_PART) || !strcmp(tail, FOREIGN_OLD)));
}

bool foreign_keeps(const struct foreign *f, const struct ftp_facts *from,
		   const struct ftp_facts *to)
{
	const bool timed = from->has_mtime && to->has_mtime;

	if (!to->type || f->o->policy == POLICY_OVERWRITE)
		return false;
	if (f->o->policy == POLICY_SKIP)
		return true;
	if (f->o->policy == POLICY_UPDATE)
		return timed &&
		       from->mtime_s + (from->time_about ? TIME_ABOUT_S : 0) <= to->mtime_s;
	if (to->type != 'f' || !from->has_size || !to->has_size || from->size != to->size)
		return false;
	return f->o->policy == POLICY_CHECKSUM ||
	       (timed && !from->time_about && from->mtime_s == to->mtime_s &&
	       (!from->mtime_ns || !to->mtime_ns || from->mtime_ns == to->mtime_ns));
}

int foreign_digest(struct worker *w, int fd, const char *alg, uint64_t len, const char *shown,
		   char hex[2 * DIGEST_MAX + 1], struct err *e)
{
	struct digest *d = digest_new(alg);
	ssize_t n = d ? 0 : -ENOMEM;

	for (uint64_t at = 0; n >= 0 && at < len; at += (uint64_t)n) {
		uint64_t left = len - at;

		n = pread_full(fd, w->room, left < FOREIGN_RUN ? (size_t)left : FOREIGN_RUN,
			       (off_t)at);
		if (n >= 0)
			n = n && !digest_update(d, w->room, (size_t)n) ? n : -EIO;
	}
	if (n >= 0)
		n = digest_final_hex(d, hex);
	digest_free(d);
	return n < 0 ? err_sys(e, (int)n, "%s", printable(shown)) : 0;
}

int foreign_same_content(struct worker *w, const char *path, int fd, uint64_t size, struct err *e)
{
	char there[2 * DIGEST_MAX + 1], here[2 * DIGEST_MAX + 1];
	const char *alg = NULL;
	int rc = fconn_digest(w->conn, path, &alg, there, e);

	if (rc == 0)
		rc = foreign_digest(w, fd, alg, size, path, here, e);
	if (rc && fconn_usable(w->conn) && fconn_warns(w->conn, FCONN_SAID_DIGESTS))
		log_warn("%s: --checksum copies files that cannot be compared: %s", w->conn->host,
			 e->text);
	return rc ? fconn_lost(w->conn, e) : !strcmp(here, there);
}

/* ---- counters and events ---- */

void foreign_known(struct foreign *f, struct ftask *t, uint64_t bytes)
{
	LOCK_GUARD(guard, &f->lock);

	f->p.bytes_known += bytes - t->known;
	t->known = bytes;
}

void foreign_unmoved(struct foreign *f, struct ftask *t)
{
	LOCK_GUARD(guard, &f->lock);

	f->p.bytes -= t->moved;
	f->p.bytes_kept -= t->kept;
	f->resumed -= t->kept;
	if (t->moved - t->kept > t->carried)
		t->carried = t->moved - t->kept;
	t->moved = t->kept = 0;
}

/* Sleep for ns, or until a stop. */
static void pause_worker(struct worker *w, uint64_t ns)
{
	const uint64_t until = now_ns() + ns, tick = TICK_MS * 1000000ull;
	uint64_t now;

	while (!atomic_load(&w->f->stop) && (now = now_ns()) < until) {
		const struct timespec pause = {
			.tv_nsec = (long)(until - now < tick ? until - now : tick),
		};

		nanosleep(&pause, NULL);
	}
}

int foreign_moved(struct worker *w, struct ftask *t, uint64_t bytes, bool kept, struct err *e)
{
	struct foreign *f = w->f;
	uint64_t own = !kept || bytes < t->carried ? bytes : t->carried, wait;

	pthread_mutex_lock(&f->lock);
	f->p.bytes += bytes;
	t->moved += bytes;
	t->kept += bytes - own;
	f->p.bytes_kept += bytes - own;
	f->resumed += bytes - own;
	w->bytes += kept ? 0 : bytes;
	pthread_mutex_unlock(&f->lock);
	if (kept || !bytes)
		return 0;

	pace_take(&f->pace, bytes);
	while (!atomic_load(&f->stop) && (wait = pace_wait_ns(&f->pace, now_ns())) > 0)
		pause_worker(w, wait);
	return atomic_load(&f->stop) ? err_set(e, -EINTR, "interrupted") : 0;
}

void foreign_done(struct foreign *f, const struct ftask *t, uint64_t bytes, bool skipped)
{
	LOCK_GUARD(guard, &f->lock);

	f->p.files_done += !skipped;
	f->p.files_skipped += skipped;
	if (skipped || f->o->dry_run) {
		f->p.bytes += bytes;
		f->p.bytes_kept += bytes;
	}
	if (f->events.file_done)
		f->events.file_done(f->events.arg, &(struct file_report){
			.end = skipped ? FILE_LEFT : FILE_COPIED, .path = t->here,
			.bytes = bytes, .plain = true });
}

void foreign_would_make(struct foreign *f, const char *path)
{
	CLEANUP_FREE char *shown = names_directory(path) ? strdup(path) : name_below(path, "");

	LOCK_GUARD(guard, &f->lock);
	if (shown && f->events.file_done)
		f->events.file_done(f->events.arg, &(struct file_report){ .path = shown });
}

void foreign_failed(struct foreign *f, const char *path, const struct err *e)
{
	LOCK_GUARD(guard, &f->lock);

	if (atomic_load(&f->stop))
		return;
	f->p.files_failed++;
	f->events.file_failed(f->events.arg, path, e->code, e->text);
}

void foreign_left_out(struct foreign *f, const char *path, const char *why)
{
	LOCK_GUARD(guard, &f->lock);

	f->left_out++;
	log_warn("%s: %s: left out", printable(path), why);
}

/* ---- connections and retries ---- */

/* End a worker that gets no connection: servers limit their number. The other workers continue. If
 * w is the last worker, or still walks the sources, the transfer ends. */
static void leave_worker(struct worker *w, const struct err *e)
{
	struct foreign *f = w->f;

	LOCK_GUARD(guard, &f->lock);
	if (f->alive > 1 && (f->p.walked || w != f->workers)) {
		/* The user must notice that a server shows another key. */
		log_at(e->code == -EKEYREJECTED ? LOG_LV_WARN : LOG_LV_INFO,
		       "one connection less to %s: %s", printable(f->job->server->url.host),
		       e->text);
		w->left = true;
		f->alive--;
		return;
	}
	if (!f->fatal.code)
		f->fatal = *e;
	atomic_store(&f->stop, true);
}

/* Connect w unless it is connected; retry as --retries allows. e: why the last connection was lost;
 * code 0: it was not. 0; -ECANCELED: w or the transfer must end. */
static int connect_worker(struct worker *w, struct err *e)
{
	struct foreign *f = w->f;

	while (!fconn_usable(w->conn)) {
		/* The server may refuse a login that it accepted before, while it still counts the
		 * lost connection. */
		int code = e->code == -EACCES ? -ECONNREFUSED : e->code;

		if (atomic_load(&f->stop))
			return -ECANCELED;
		if (code && (signals_stopped() ||
			     !again_worth(code, w->fails, f->o->retries, w->was_connected, true))) {
			leave_worker(w, e);
			return -ECANCELED;
		}

		if (code) {
			w->fails++;
			pthread_mutex_lock(&f->lock);
			report_retry(f->job->report, w->fails, again_wait(w->fails), e);
			pthread_mutex_unlock(&f->lock);
			pause_worker(w, again_wait(w->fails) * 1000000000ull);
		}

		fconn_close(w->conn);
		w->conn = server_another_foreign(f->job->server, e);
		if (w->conn)
			w->conn->stop = &f->stop;
		w->was_connected |= w->conn != NULL;
	}
	return 0;
}

/* May another attempt succeed after this one failed with rc? */
static bool may_try_again(const struct worker *w, unsigned attempts, int rc)
{
	uint64_t most = w->f->o->retries;

	if (w->once || !rc || signals_stopped())
		return false;
	if (fconn_usable(w->conn)) /* the data connection alone failed */
		return again_worth(rc, attempts, most < DATA_TRIES ? most : DATA_TRIES, true, true);

	/* Limit the attempts: this file may be the reason why the server closes connections. With
	 * --retries 0 do not count this attempt: connect_worker() then ends the worker or the
	 * transfer, so that the loss is not reported as a failure of this file only. */
	return again_worth(rc, most ? attempts : 0, most ? most : 1, true, true);
}

int foreign_try(struct worker *w, foreign_step *step, void *arg, struct err *e)
{
	unsigned attempts = 0;
	int rc;

	w->once = false;
	*e = (struct err)ERR_INIT;
	for (;;) {
		rc = connect_worker(w, e);
		if (rc)
			return rc;
		rc = step(w, arg, e);
		/* A signal may have ended the step before the main thread has set stop. */
		if (rc && signals_stopped())
			atomic_store(&w->f->stop, true);
		if (atomic_load(&w->f->stop))
			return -ECANCELED;
		if (!may_try_again(w, attempts, rc))
			break;
		attempts++;
		if (!fconn_usable(w->conn))
			continue;
		log_info("%s; trying again", e->text);
		pause_worker(w, 1000000000);
	}
	w->fails = 0;
	return rc;
}

/* ---- tasks and workers ---- */

static void ftask_free(struct ftask *t)
{
	if (!t)
		return;
	ftp_facts_clear(&t->facts);
	free(t->there);
	free(t->here);
	free(t);
}

/* With the lock held. */
static struct ftask *take_task(struct foreign *f)
{
	struct ftask *t = f->files;

	if (!t)
		return NULL;

	f->files = t->next;
	if (!f->files)
		f->files_end = &f->files;
	f->nfiles--;
	f->busy++;
	return t;
}

/* With the lock held. */
static void queue_task(struct foreign *f, struct ftask *t)
{
	t->next = NULL;
	*f->files_end = t;
	f->files_end = &t->next;
	f->nfiles++;
	pthread_cond_signal(&f->more);
}

static void run_task(struct worker *w, struct ftask *t)
{
	struct foreign *f = w->f;
	struct err e = ERR_INIT;
	int rc = foreign_try(w, f->ops->file, t, &e);

	if (rc == -ECANCELED)
		foreign_unmoved(f, t);
	else if (rc)
		foreign_failed(f, t->here, &e);

	pthread_mutex_lock(&f->lock);
	if (rc == -ECANCELED)
		queue_task(f, steal_ptr(&t));
	if (!--f->busy)
		pthread_cond_broadcast(&f->more);
	pthread_mutex_unlock(&f->lock);
	ftask_free(t);
}

static int add_worker(struct foreign *f);

int foreign_push(struct worker *w, const struct ftask *like, struct err *e)
{
	struct foreign *f = w->f;
	struct ftask *t = malloc(sizeof(*t)), lost = *like, *own = NULL;

	if (!t || !like->there || !like->here) {
		free(t);
		ftp_facts_clear(&lost.facts);
		free(lost.there);
		free(lost.here);
		return err_nomem(e);
	}

	*t = *like;
	pthread_mutex_lock(&f->lock);
	f->p.bytes_known += t->known;
	f->p.entries++;
	queue_task(f, t);

	/* Leave the first file to the first worker, which has a connection. */
	if (f->nfiles > f->idle + 1 && f->nworkers < f->most && !atomic_load(&f->stop) &&
	    add_worker(f))
		f->most = f->nworkers;

	if (f->nfiles > FILES_AHEAD)
		own = take_task(f);
	pthread_mutex_unlock(&f->lock);
	if (own)
		run_task(w, own);
	return 0;
}

static void *worker_main(void *arg)
{
	struct worker *w = arg;
	struct foreign *f = w->f;
	struct ftask *t;
	bool last;

	if (w == f->workers)
		for (size_t i = 0; i < f->job->nsources && !atomic_load(&f->stop); i++)
			f->ops->source(w, i);

	pthread_mutex_lock(&f->lock);
	if (w == f->workers) {
		f->p.walked = true;
		if (!--f->busy)
			pthread_cond_broadcast(&f->more);
	}

	/* Wait for tasks in progress, because they may return to the queue. */
	while (!w->left && !atomic_load(&f->stop) && ((t = take_task(f)) || f->busy)) {
		if (t) {
			pthread_mutex_unlock(&f->lock);
			run_task(w, t);
			pthread_mutex_lock(&f->lock);
		} else {
			f->idle++;
			pthread_cond_wait(&f->more, &f->lock);
			f->idle--;
		}
	}

	last = !w->left && f->alive == 1;
	f->alive -= !last && !w->left;
	pthread_cond_broadcast(&f->more);
	pthread_mutex_unlock(&f->lock);
	if (!last)
		return NULL;

	end_dirs(f, w);
	LOCK_GUARD(guard, &f->lock);
	f->alive--;
	pthread_cond_signal(&f->moved);
	return NULL;
}

/* With the lock held. 0, or a negative errno. */
static int add_worker(struct foreign *f)
{
	struct worker *w = &f->workers[f->nworkers];
	int rc;

	w->f = f;
	w->room = malloc(FOREIGN_RUN);
	rc = w->room ? thread_start(&w->thread, "ftp", worker_main, w) : -ENOMEM;
	if (rc) {
		free(steal_ptr(&w->room));
		return rc;
	}
	f->nworkers++;
	f->alive++;
	return 0;
}

/* ---- the destination ---- */

/* Create the directories of rel, "a/b/name", below the destination. Returns the last one. Lists are
 * mostly sorted, so the next call often needs the same one. */
static struct fdir *make_parents(struct worker *w, const char *rel, struct err *e)
{
	struct foreign *f = w->f;
	CLEANUP_FREE char *path = strdup(rel);
	CLEANUP_FREE char *whole = NULL;
	char *slash = path ? strrchr(path, '/') : NULL, *save = NULL;
	struct fdir *d = f->base;

	if (!slash)
		return d;

	*slash = '\0';
	whole = name_below(d->there, path);
	if (whole && f->last && !strcmp(f->last->there, whole))
		return f->last;

	for (char *name = strtok_r(path, "/", &save); name; name = strtok_r(NULL, "/", &save)) {
		d = fdir_sub(f, d, name, e);
		if (!d || f->ops->make(w, d, e))
			return NULL;
	}
	return f->last = d;
}

int foreign_find_dest(struct worker *w, void *source, struct err *e)
{
	struct foreign *f = w->f;
	struct foreign_source *s = source;
	CLEANUP_FREE char *bare = name_trimmed(s->rel ? s->rel : s->path);
	CLEANUP_FREE char *above = NULL;
	enum dest_kind where;
	const char *slash;
	bool make;

	if (!bare)
		return err_nomem(e);
	if (!f->dest_known && f->ops->look(w, f->dest_path, &f->dest, e))
		return e->code;

	f->dest_known = true;
	if (dest_resolve(&f->dest, f->dest_path, s->dir, !s->rel && names_directory(s->path),
			 &where, &make, e))
		return e->code;

	if (snprintf(s->name, sizeof(s->name), "%s",
		     name_last(where == DEST_AS ? f->dest_path : bare)) >= (int)sizeof(s->name))
		return err_set(e, -ENAMETOOLONG, "%s: the name is longer than 255 bytes",
			       printable(s->path));

	s->itself = where == DEST_CONTENTS && !f->job->into;

	if (where == DEST_AS) {
		slash = strrchr(f->dest_path, '/');
		above = slash ? strndup(f->dest_path, (size_t)(slash - f->dest_path) +
					(slash == f->dest_path)) : strdup(".");
		s->into = above ? f->ops->open(w, above, false, e) : NULL;
		return s->into ? 0 : above ? e->code : err_nomem(e);
	}

	if (!f->base)
		f->base = f->ops->open(w, f->dest_path, make, e);
	if (!f->base)
		return e->code;
	if (!s->itself && !bulk_name_ok(s->name))
		return err_set(e, -EINVAL, "%s: has no name of its own", printable(s->path));
	s->into = s->rel ? make_parents(w, bare, e) : f->base;
	return s->into ? 0 : e->code;
}

/* ---- the filter ---- */

size_t foreign_rel_at(const struct foreign_source *s, const char *path)
{
	return s->rel ? strlen(path) - strlen(s->rel) : name_rel_at(path);
}

bool foreign_admits(const struct foreign *f, const char *path, const struct ftp_facts *facts)
{
	const struct filter *filter = &f->o->filter;
	CLEANUP_FREE char *part = NULL;

	if (!filter_is_set(filter))
		return true;
	part = strdup(path);
	if (!part) {
		log_error("%s: left out: " NO_MEMORY, printable(path));
		return false;
	}
	for (char *at = part, *slash; (slash = strchr(at, '/')); at = slash + 1) {
		*slash = '\0';
		if (*at && !filter_admits(filter, part, true))
			return false;
		*slash = '/';
	}
	return (!*name_last(part) || filter_admits(filter, part, facts->type == 'd')) &&
	       (facts->type != 'f' ||
		filter_admits_file(filter, facts->has_size ? facts->size : filter->size_least,
				   facts->has_mtime && !facts->time_about ? facts->mtime_s :
				   INT64_MAX));
}

/* ---- the transfer ---- */

static enum exit_status report_end_of(struct foreign *f, uint64_t cpu)
{
	struct transfer_result r = {
		.files = f->p.files_done, .failed = f->p.files_failed,
		.skipped = f->p.files_skipped, .bytes = f->p.bytes - f->p.bytes_kept,
		.resumed = f->resumed, .wall_ns = now_ns() - f->start_ns,
		.local = { .left_out = f->left_out, .cpu_ns = cpu_ns() - cpu },
	};
	struct err e = f->fatal;

	if (!atomic_load(&f->stop)) {
		for (unsigned i = 0; i < f->nworkers; i++)
			if (f->workers[i].was_connected)
				r.channel_bytes[r.nchannels++] = f->workers[i].bytes;
		report_result(f->job->report, &r);
		return r.failed ? EXIT_SOME_FAILED : EXIT_DONE;
	}

	if (!e.code)
		err_set(&e, -EINTR, "interrupted%s", atomic_load(&f->resumable) ?
			"; the same command resumes the transfer" : "");
	report_error(f->job->report, &e);
	return exit_of(e.code, true);
}

/* Run the workers. The first one uses the server's connection; one is kept for the next command. */
static enum exit_status run_workers(struct foreign *f)
{
	struct server *s = f->job->server;
	uint64_t cpu = cpu_ns();
	int rc;

	report_foreign(f->job->report, s->foreign->prot_p, f->most);
	signals_graceful(true);

	pthread_mutex_lock(&f->lock);
	f->workers[0].conn = s->foreign;
	f->workers[0].was_connected = true;
	s->foreign->stop = &f->stop;
	f->busy = 1;
	rc = add_worker(f);
	if (rc) {
		s->foreign->stop = NULL;
		thread_failed(&f->fatal, rc);
		atomic_store(&f->stop, true);
	} else {
		s->foreign = NULL;
	}

	while (f->alive) {
		cond_wait_until(&f->moved, &f->lock, ns_after(TICK_MS));
		if (signals_stopped())
			atomic_store(&f->stop, true);
		if (atomic_load(&f->stop))
			pthread_cond_broadcast(&f->more);
		f->p.ns = now_ns() - f->start_ns;
		f->p.bottleneck = f->o->rate ? "rate" : NULL;
		f->events.progress(f->events.arg, &f->p);
	}
	pthread_mutex_unlock(&f->lock);

	for (unsigned i = 0; i < f->nworkers; i++) {
		struct worker *w = &f->workers[i];

		pthread_join(w->thread, NULL);
		free(w->room);
		if (w->conn)
			w->conn->stop = NULL;
		if (!s->foreign && fconn_usable(w->conn))
			s->foreign = w->conn;
		else
			fconn_close(w->conn);
	}
	signals_graceful(false);
	return report_end_of(f, cpu);
}

enum exit_status foreign_run(const struct foreign_ops *ops, const struct foreign_job *job,
			     const char *path)
{
	struct server *s = job->server;
	const struct options *o = &s->o;
	struct foreign f = {
		.ops = ops, .job = job, .o = o, .start_ns = now_ns(), .files_end = &f.files,
		.events = report_events(job->report), .umask = user_umask(),
		.dest = { .slash = names_directory(path) || job->into, .several = job->several },
		.dest_path = name_trimmed(*path ? path : "."),
		/* rftp.conf may ask for more connections than are allowed. */
		.most = !o->channels ? FOREIGN_CONNECTIONS :
			o->channels < FOREIGN_CONNECTIONS_MOST ? o->channels :
			FOREIGN_CONNECTIONS_MOST,
	};
	enum exit_status status = EXIT_CONNECT;
	struct err e = ERR_INIT;
	struct ftask *t;

	report_begin(job->report);
	pthread_mutex_init(&f.lock, NULL);
	cond_init(&f.more);
	cond_init(&f.moved);
	pace_init(&f.pace);
	pace_start(&f.pace, o->rate, f.start_ns);

	f.workers = calloc(f.most, sizeof(*f.workers));
	f.dirs = dirs_new(DIRS_OPEN);
	if (!f.workers || !f.dirs || !f.dest_path) {
		err_nomem(&e);
		status = EXIT_SOME_FAILED;
	} else if (!server_connect(s, &e)) {
		foreign_note(s);
		status = run_workers(&f);
	}
	if (e.code)
		report_error(job->report, &e);

	while ((t = take_task(&f)))
		ftask_free(t);
	end_dirs(&f, NULL);
	dirs_free(f.dirs);
	free(f.dest_path);
	free(f.workers);
	pace_destroy(&f.pace);
	pthread_cond_destroy(&f.moved);
	pthread_cond_destroy(&f.more);
	pthread_mutex_destroy(&f.lock);
	return status;
}

/* ---- options that a foreign server does not support ---- */

/* OPTION=VALUE refuses this value; OPTION all values, except "auto" for options that have it. */
static const struct {
	const char *options, *why;
} refusals[] = {
	{ "transport=rdma op poll", "there is no RDMA there" },
	{ "nic", "data takes the route of the control connection" },
	{ "block inflight memory hugepages numa numa-balance numa-interval nic-node pin",
	  "there are no blocks and no bulk mode there" },
	{ "tos congestion", "it is for bulk data" },
	{ "io direct readers writers sort",
	  "files are read and written by each connection's thread" },
	{ "prot=safe", "there is TLS for data (--prot private) or nothing (--prot clear)" },
	{ "ack=verified", "nothing is read back there" },
	{ "owner", "FTP does not carry owners" },
	{ "xattrs", "FTP does not carry extended attributes" },
	{ "delete", "rftpd removes the names" },
	{ "manifest", "use rftp hash" },
	/* The last row is for put only. */
	{ "ack=synced", "the server does not tell when a file is on stable storage" },
};

static bool asks_for_refused(const struct setting *s, const char *only)
{
	const char *value = s->value ? s->value : "";
	bool on = true;

	if (only)
		return !strcmp(value, only);

	/* Do not refuse a flag that is off, as in "--owner=no". */
	if (s->def->kind == &option_flag)
		return !s->value || parse_bool(value, &on) || on;
	return strcmp(value, "auto") != 0 ||
	       (s->def->kind == &option_string && strcmp(s->def->name, "numa"));
}

/* Options in rftp.conf are for servers that support them, so check only options given for this
 * command. The last setting of an option counts. */
int foreign_check(const struct job *j, bool put, struct err *e)
{
	for (size_t i = 0; i < sizeof(refusals) / sizeof(refusals[0]) - !put; i++) {
		char words[128], *rest = words, *option;

		snprintf(words, sizeof(words), "%s", refusals[i].options);
		while ((option = strsep(&rest, " "))) {
			char *value = option;
			const char *name = strsep(&value, "=");
			const struct setting *s = option_args_last(j->args, name);

			if (s && asks_for_refused(s, value))
				return err_set(e, -EINVAL, "--%s%s%s is not possible with an FTP "
					       "server that is not rftpd: %s", name,
					       s->value ? " " : "",
					       s->value ? printable(s->value) : "",
					       refusals[i].why);
		}
	}
	if (!put && j->o.filter.one_filesystem)
		return err_set(e, -EINVAL, "--one-file-system is not possible with an FTP server "
			       "that is not rftpd: it does not tell filesystems apart");
	if (option_args_last(j->args, "channels") && j->o.channels > FOREIGN_CONNECTIONS_MOST)
		return err_set(e, -EINVAL, "--channels %u: at most %u control connections go to "
			       "one FTP server", j->o.channels, FOREIGN_CONNECTIONS_MOST);
	return 0;
}

void foreign_note(const struct server *s)
{
	static bool said;

	if (said || !url_is_foreign(&s->url))
		return;
	said = true;
	log_warn("%s is reached by FTP: RDMA and the integrity of blocks are not available there",
		 printable(s->url.host));
}
