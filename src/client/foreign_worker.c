// SPDX-License-Identifier: Apache-2.0
/* A worker of a transfer with a foreign server: its connection, the tasks that it runs, and what is
 * done when either fails. */
#include "client/foreign.h"

#include "client/again.h"
#include "client/names.h"
#include "client/signals.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { PAUSE_MS = 200, DATA_TRIES = 2 };

/* ---- its connection ---- */

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
	const struct timespec tick = { .tv_nsec = PAUSE_MS * 1000000l };

	while (!atomic_load(&w->f->stop) && now_ns() < end)
		nanosleep(&tick, NULL);
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

/* ---- its tasks ---- */

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
		foreign_give_back(w, t);
		return again(w, &e);
	}
	rc = run_task(w, t, &e);
	/* The signal may have ended its wait before the main thread knew of it. */
	if (rc && signals_stopped())
		atomic_store(&w->f->stop, true);
	if (atomic_load(&w->f->stop)) {
		foreign_end_task(w, t);
		return false;
	}
	more = rc && may_run_again(w, t, rc);
	t->attempts += more;
	if (more)
		foreign_give_back(w, t);
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
	foreign_end_task(w, t);
	return true;
}

static void *worker_main(void *arg)
{
	struct worker *w = arg;
	struct foreign *f = w->f;
	struct ftask *t;

	while ((t = foreign_take(f)) && one_task(w, t))
		;
	LOCK_GUARD(guard, &f->lock);
	f->alive -= !w->left;
	pthread_cond_broadcast(&f->more);
	pthread_cond_signal(&f->moved);
	return NULL;
}

/* ---- its start ---- */

int foreign_add_worker(struct foreign *f)
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

void foreign_add_another(struct foreign *f)
{
	if (f->nworkers < f->most && !atomic_load(&f->stop) && foreign_add_worker(f))
		f->most = f->nworkers; /* what there is must do */
}
