// SPDX-License-Identifier: Apache-2.0
/* The engine of transfers with foreign servers: queues, workers, what is done when a connection is
 * lost, and what is told meanwhile. */
#include "client/foreign.h"

#include "client/again.h"
#include "client/bulk.h"
#include "client/names.h"
#include "client/signals.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { TICK_MS = 200, DATA_TRIES = 2 };
/* Directories are gone through while there are fewer files than this to be had. */
#define FILES_AHEAD 256
#define DIRS_OPEN 256

/* ---- tasks ---- */

struct ftask *ftask_new(enum ftask_kind kind, struct fdir *dir)
{
	struct ftask *t = calloc(1, sizeof(*t));

	if (!t)
		return NULL;
	t->kind = kind;
	t->dir = dir ? fdir_ref(dir) : NULL;
	return t;
}

void ftask_free(struct worker *w, struct ftask *t)
{
	if (!t)
		return;
	fdir_put(w, t->dir);
	ftp_facts_clear(&t->facts);
	free(t->name);
	free(t->remote);
	free(t->local);
	free(t);
}

static void append(struct ftask **first, struct ftask **last, struct ftask *t)
{
	t->next = NULL;
	if (*first)
		(*last)->next = t;
	else
		*first = t;
	*last = t;
}

static struct ftask *shift(struct ftask **first)
{
	struct ftask *t = *first;

	if (t)
		*first = t->next;
	return t;
}

static void queue(struct foreign *f, struct ftask *t)
{
	switch (t->kind) {
	case FTASK_NAMED:
		append(&f->named, &f->named_last, t);
		break;
	case FTASK_DIR: /* the last first: depth costs less memory than breadth */
		t->next = f->dirs_first;
		f->dirs_first = t;
		break;
	case FTASK_FILE:
		append(&f->files, &f->files_last, t);
		f->nfiles++;
		break;
	}
}

static struct ftask *pick(struct foreign *f)
{
	if (f->nfiles < FILES_AHEAD && f->dirs_first)
		return shift(&f->dirs_first);
	if (f->nfiles < FILES_AHEAD && f->named)
		return shift(&f->named);
	if (f->nfiles)
		f->nfiles--;
	return shift(&f->files);
}

static void *worker_main(void *arg);

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

/* With the lock held. One more connection, while there is more to do than they can. */
static void add_another(struct foreign *f)
{
	if (f->nworkers < f->most && !atomic_load(&f->stop) && add_worker(f))
		f->most = f->nworkers; /* what there is must do */
}

void foreign_push(struct foreign *f, struct ftask *t)
{
	LOCK_GUARD(guard, &f->lock);

	queue(f, t);
	if (t->kind == FTASK_FILE)
		f->p.entries++;
	pthread_cond_signal(&f->more);
}

static bool looks_for_more(const struct foreign *f)
{
	return f->named || f->dirs_first || f->listing;
}

/* ---- a worker's connection ---- */

static void set_client(struct worker *w, struct ftp_client *c)
{
	struct foreign *f = w->f;

	pthread_mutex_lock(&f->lock);
	w->client = c;
	w->was_connected |= c != NULL;
	/* Whoever stops us has only what was there to call. */
	if (c && atomic_load(&f->stop))
		ftp_client_abort(c);
	pthread_mutex_unlock(&f->lock);
}

static void drop_client(struct worker *w)
{
	struct ftp_client *c = w->client;

	set_client(w, NULL);
	if (c)
		ftp_close(c);
}

static int connect_worker(struct worker *w, struct err *e)
{
	struct ftp_client *c;

	if (w->client && ftp_client_usable(w->client))
		return 0;
	drop_client(w);
	c = server_another(w->f->job->server, e);
	if (!c)
		return e->code;
	set_client(w, c);
	return 0;
}

/* Sleep, but not past a stop. */
static void pause_worker(struct worker *w, unsigned seconds)
{
	uint64_t end = now_ns() + seconds * 1000000000ull;
	const struct timespec tick = { .tv_nsec = TICK_MS * 1000000l };

	while (!atomic_load(&w->f->stop) && now_ns() < end)
		nanosleep(&tick, NULL);
}

/* It is to be run again, from its start. */
static void give_back(struct worker *w, struct ftask *t)
{
	struct foreign *f = w->f;

	foreign_unmoved(w);
	LOCK_GUARD(guard, &f->lock);
	if (w->mine > t->carried)
		t->carried = w->mine;
	f->busy--;
	f->listing -= t->kind != FTASK_FILE;
	t->next = NULL;
	queue(f, t);
	pthread_cond_signal(&f->more);
}

static void fail_all(struct foreign *f, const struct err *e)
{
	LOCK_GUARD(guard, &f->lock);

	if (!f->fatal.code)
		f->fatal = *e;
	atomic_store(&f->stop, true);
	pthread_cond_broadcast(&f->more);
	pthread_cond_signal(&f->moved);
}

/* Unless it is the last one, a worker that cannot have a connection leaves: servers have limits,
 * and those that are there go on. */
static bool leave(struct worker *w)
{
	struct foreign *f = w->f;

	LOCK_GUARD(guard, &f->lock);
	if (f->alive == 1)
		return false;
	f->alive--;
	w->left = true;
	return true;
}

static bool may_connect_again(const struct worker *w, const struct err *e)
{
	/* A login that has been taken before is refused while the server counts the connection that
	 * was lost. */
	int code = e->code == -EACCES ? -ECONNREFUSED : e->code;

	return again_worth(code, w->fails, w->f->o->retries, w->was_connected, true);
}

/* The connection is lost, or cannot be had. False: this worker ends. */
static bool again(struct worker *w, const struct err *e)
{
	struct foreign *f = w->f;

	if (atomic_load(&f->stop))
		return false;
	if (!may_connect_again(w, e)) {
		if (leave(w))
			/* That another key is there must not be missed. */
			log_at(e->code == -EKEYREJECTED ? LOG_LV_WARN : LOG_LV_INFO,
			       "one connection less to %s: %s",
			       printable(f->job->server->place.host), e->text);
		else
			fail_all(f, e);
		return false;
	}
	w->fails++;
	pthread_mutex_lock(&f->lock);
	report_retry(f->job->report, w->fails, again_wait(w->fails), e);
	pthread_mutex_unlock(&f->lock);
	pause_worker(w, again_wait(w->fails));
	return true;
}

/* ---- a worker ---- */

/* NULL: there is nothing left, or it is to stop. */
static struct ftask *take(struct foreign *f)
{
	struct ftask *t = NULL;

	LOCK_GUARD(guard, &f->lock);
	while (!atomic_load(&f->stop) && !(t = pick(f)) && f->busy) {
		f->idle++;
		pthread_cond_wait(&f->more, &f->lock);
		f->idle--;
	}
	if (t) {
		f->busy++;
		f->listing += t->kind != FTASK_FILE;
		t->next = NULL;
		/* For what nobody else is there to take. */
		if (!f->idle && (f->files || f->dirs_first || f->named))
			add_another(f);
	}
	return t;
}

static void end_task(struct worker *w, struct ftask *t)
{
	struct foreign *f = w->f;
	bool listing = t->kind != FTASK_FILE;

	ftask_free(w, t); /* which may be the end of directories */
	LOCK_GUARD(guard, &f->lock);
	f->busy--;
	f->listing -= listing;
	if (!f->busy)
		pthread_cond_broadcast(&f->more);
}

static int run_task(struct worker *w, struct ftask *t, struct err *e)
{
	const struct foreign_ops *ops = w->f->ops;

	switch (t->kind) {
	case FTASK_NAMED:
		return ops->named(w, t, e);
	case FTASK_DIR:
		return ops->dir(w, t, e);
	default:
		return ops->file(w, t, e);
	}
}

static char *task_path(const struct ftask *t)
{
	if (t->local)
		return strdup(t->local);
	if (t->kind == FTASK_FILE)
		return name_below(t->dir->shown, t->name);
	return strdup(t->dir ? t->dir->shown : "");
}

static void say_failed(struct foreign *f, const struct ftask *t, const struct err *e)
{
	CLEANUP_FREE char *path = task_path(t);

	foreign_failed(f, path ? path : "", e);
}

/* May it do better when it is run once more? */
static bool may_run_again(const struct worker *w, const struct ftask *t, int rc)
{
	uint64_t most = w->f->o->retries;

	if (t->once)
		return false;
	if (ftp_client_usable(w->client)) /* of the data connection alone */
		return again_worth(rc, t->attempts, most < DATA_TRIES ? most : DATA_TRIES, true,
				   true);
	/* It may be this very file that the server breaks on. With no retries the whole transfer
	 * ends, not this file alone. */
	return again_worth(rc, most ? t->attempts : 0, most ? most : 1, true, true);
}

/* False: this worker ends. */
static bool one_task(struct worker *w, struct ftask *t)
{
	struct err e = ERR_INIT;
	bool more;
	int rc = connect_worker(w, &e);

	foreign_begin_task(w, t);
	if (rc) {
		give_back(w, t);
		return again(w, &e);
	}
	rc = run_task(w, t, &e);
	/* The signal may have ended its wait before the main thread knew of it. */
	if (rc && signals_stopped())
		atomic_store(&w->f->stop, true);
	if (atomic_load(&w->f->stop)) {
		end_task(w, t);
		return false;
	}
	more = rc && may_run_again(w, t, rc);
	t->attempts += more;
	if (more)
		give_back(w, t);
	if (rc && !ftp_client_usable(w->client)) {
		drop_client(w);
		if (more)
			return again(w, &e);
	} else if (more) {
		log_info("%s; trying again", e.text);
		pause_worker(w, 1);
		return true;
	}
	w->fails = 0;
	if (rc)
		say_failed(w->f, t, &e);
	end_task(w, t);
	return true;
}

static void *worker_main(void *arg)
{
	struct worker *w = arg;
	struct foreign *f = w->f;
	struct ftask *t;

	while ((t = take(f)) && one_task(w, t))
		;
	LOCK_GUARD(guard, &f->lock);
	f->alive -= !w->left;
	pthread_cond_broadcast(&f->more);
	pthread_cond_signal(&f->moved);
	return NULL;
}

/* ---- the main thread ---- */

static void abort_all(struct foreign *f)
{
	for (unsigned i = 0; i < f->nworkers; i++)
		if (f->workers[i].client)
			ftp_client_abort(f->workers[i].client);
	pthread_cond_broadcast(&f->more);
}

static void tick(struct foreign *f)
{
	f->p.walked = !looks_for_more(f);
	f->p.seconds = (double)(now_ns() - f->start_ns) / 1e9;
	f->p.bottleneck = f->o->rate ? "rate" : NULL;
	f->events.progress(f->events.arg, &f->p);
}

/* Until all workers have ended. */
static void watch(struct foreign *f)
{
	bool told = false;

	LOCK_GUARD(guard, &f->lock);
	while (f->alive) {
		cond_wait_until(&f->moved, &f->lock, ns_after(TICK_MS));
		if (signals_stopped())
			atomic_store(&f->stop, true);
		if (atomic_load(&f->stop) && !told) {
			abort_all(f);
			told = true;
		}
		tick(f);
	}
}

/* One connection stays for what comes next. */
static void end_workers(struct foreign *f)
{
	struct server *s = f->job->server;

	for (unsigned i = 0; i < f->nworkers; i++) {
		struct worker *w = &f->workers[i];

		pthread_join(w->thread, NULL);
		if (w->client && !s->client && ftp_client_usable(w->client))
			s->client = w->client;
		else if (w->client)
			ftp_close(w->client);
		w->client = NULL;
		free(steal_ptr(&w->room));
	}
}

static void fill_result(struct foreign *f, struct transfer_result *r)
{
	memset(r, 0, sizeof(*r));
	r->files = f->p.files_done;
	r->failed = f->p.files_failed;
	r->skipped = f->p.files_skipped;
	r->bytes = f->p.bytes - f->p.bytes_kept;
	r->resumed = f->resumed;
	r->wall_ns = now_ns() - f->start_ns;
	r->local.left_out = f->left_out;
	for (unsigned i = 0; i < f->nworkers; i++)
		if (f->workers[i].was_connected)
			r->channel_bytes[r->nchannels++] = f->workers[i].bytes;
}

static enum exit_status finish(struct foreign *f, uint64_t cpu)
{
	struct transfer_result r;
	struct err e = f->fatal;

	/* Whoever might have done it has gone. */
	if (!e.code && !atomic_load(&f->stop) && (looks_for_more(f) || f->files)) {
		err_set(&e, -ECHILD, "not all of it was done");
		atomic_store(&f->stop, true);
	}
	if (!atomic_load(&f->stop)) {
		fill_result(f, &r);
		r.local.cpu_ns = cpu_ns() - cpu;
		report_result(f->job->report, &r);
		return r.failed ? EXIT_SOME_FAILED : EXIT_DONE;
	}
	if (!e.code)
		err_set(&e, -EINTR, "interrupted; the same command goes on from there");
	report_error(f->job->report, &e);
	return exit_of(e.code, true);
}

static void free_tasks(struct ftask *t)
{
	while (t) {
		struct ftask *next = t->next;

		ftask_free(NULL, t);
		t = next;
	}
}

static int init(struct foreign *f, const struct foreign_ops *ops, const struct foreign_job *job)
{
	const struct options *o = &job->server->o;

	*f = (struct foreign){ .ops = ops, .job = job, .o = o, .start_ns = now_ns(),
			       .events = report_events(job->report), .umask = bulk_umask() };
	pthread_mutex_init(&f->plan, NULL);
	pthread_mutex_init(&f->lock, NULL);
	cond_init(&f->more);
	cond_init(&f->moved);
	pace_init(&f->pace);
	pace_start(&f->pace, o->rate, f->start_ns);
	f->most = !o->channels ? FOREIGN_CONNECTIONS :
		  o->channels < FOREIGN_CONNECTIONS_MOST ? (unsigned)o->channels :
		  FOREIGN_CONNECTIONS_MOST; /* a file of defaults may say more */
	f->workers = calloc(f->most, sizeof(*f->workers));
	f->dirs = dirs_new(DIRS_OPEN);
	return f->workers && f->dirs ? 0 : -ENOMEM;
}

static void destroy(struct foreign *f)
{
	free_tasks(f->named);
	free_tasks(f->dirs_first);
	free_tasks(f->files);
	fdir_put(NULL, f->last);
	fdir_put(NULL, f->base);
	if (f->dirs)
		dirs_free(f->dirs);
	free(f->dest_path);
	free(f->workers);
	pace_destroy(&f->pace);
	pthread_cond_destroy(&f->moved);
	pthread_cond_destroy(&f->more);
	pthread_mutex_destroy(&f->lock);
	pthread_mutex_destroy(&f->plan);
}

static int push_named(struct foreign *f, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		struct ftask *t = ftask_new(FTASK_NAMED, NULL);

		if (!t)
			return -ENOMEM;
		t->index = i;
		queue(f, t);
	}
	return 0;
}

/* The connection that is there is the first worker's. */
static void start(struct foreign *f)
{
	struct server *s = f->job->server;
	int rc;

	LOCK_GUARD(guard, &f->lock);
	f->workers[0].client = steal_ptr(&s->client);
	f->workers[0].was_connected = true;
	rc = add_worker(f);
	if (!rc)
		return;
	s->client = steal_ptr(&f->workers[0].client);
	err_sys(&f->fatal, rc, "no thread for the transfer");
	atomic_store(&f->stop, true);
}

enum exit_status foreign_run(const struct foreign_ops *ops, const struct foreign_job *job,
			     size_t n)
{
	struct server *s = job->server;
	uint64_t cpu = cpu_ns();
	struct err e = ERR_INIT;
	struct foreign f;
	enum exit_status status;

	report_begin(job->report);
	if (server_connect(s, &e)) {
		report_error(job->report, &e);
		return EXIT_CONNECT;
	}
	foreign_note(s);
	if (init(&f, ops, job) || push_named(&f, n)) {
		destroy(&f);
		err_sys(&e, -ENOMEM, "transfer");
		report_error(job->report, &e);
		return EXIT_SOME_FAILED;
	}
	report_foreign(job->report, ftp_data_private(s->client), f.most);
	signals_graceful(true);
	start(&f);
	watch(&f);
	end_workers(&f);
	signals_graceful(false);
	fdir_put(&f.workers[0], steal_ptr(&f.last));
	fdir_put(&f.workers[0], steal_ptr(&f.base));
	status = finish(&f, cpu);
	destroy(&f);
	return status;
}
