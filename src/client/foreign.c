// SPDX-License-Identifier: Apache-2.0
/* A transfer with a foreign server from its start to its result: what the main thread does. */
#include "client/foreign.h"

#include "client/bulk.h"
#include "client/signals.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define TICK_MS 200
#define DIRS_OPEN 256

static void abort_all(struct foreign *f)
{
	for (unsigned i = 0; i < f->nworkers; i++)
		if (f->workers[i].client)
			ftp_client_abort(f->workers[i].client);
	pthread_cond_broadcast(&f->more);
}

static void tick(struct foreign *f)
{
	f->p.walked = !foreign_looks(f);
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
	if (!e.code && !atomic_load(&f->stop) && (foreign_looks(f) || f->files)) {
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
		err_set(&e, -EINTR, "interrupted%s", atomic_load(&f->resumable) ?
			"; the same command goes on from there" : "");
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
		foreign_queue(f, t);
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
	rc = foreign_add_worker(f);
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
