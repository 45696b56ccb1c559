// SPDX-License-Identifier: Apache-2.0
/* rftp bench: transfers from memory to memory, so that storage does not matter. */
#include "client/servers.h"
#include "client/signals.h"

#include <pthread.h>

#define DEFAULT_NS 10000000000ull
#define LINE_SECONDS 1.0

/* One direction: a transfer. With --both, each direction has its own session and thread. */
struct way {
	const char *name;
	const struct job *job;
	struct bulk bulk;
	struct transfer_item item;
	pthread_t thread;
	/* Used by the callbacks only. */
	double line_at;             /* seconds and bytes at the last line */
	uint64_t line_bytes;
	uint64_t start_ns;          /* the start of its clock */
	/* The result. */
	struct transfer_result result;
	struct err error;
	int rc;
	bool begun;
};

/* Held while one direction prints a line. */
static pthread_mutex_t output = PTHREAD_MUTEX_INITIALIZER;

/* ---- one direction ---- */

static void way_print_interval(struct way *w, double at, uint64_t bytes)
{
	double length = at - w->line_at;
	uint64_t n = bytes - w->line_bytes;
	char size[32], rate[32];
	LOCK_GUARD(guard, &output);

	if (w->job->o.json)
		json_emit(stdout, event_interval(w->name, at, length, n));
	else if (!w->job->o.quiet && w->job->o.progress != PROGRESS_NEVER)
		printf("%-3s %7.1f s  %10s  %12s\n", w->name, at,
		       format_size(size, sizeof(size), n),
		       format_rate(rate, sizeof(rate), (double)n / length));
	fflush(stdout);
}

static const char *unchecked(const struct agreement *a)
{
	return a->prot == PROT_CLEAR && !a->crc ? ", not checked" : "";
}

static void way_on_started(void *arg, const struct agreement *a)
{
	struct way *w = arg;
	json_t *obj = w->job->o.json ? event_started(a) : NULL;
	LOCK_GUARD(guard, &output);

	w->begun = true;
	w->start_ns = now_ns();
	report_op(&w->job->o, a);
	if (obj)
		json_object_set_new(obj, "way", json_string(w->name));
	if (w->job->o.json)
		json_emit(stdout, obj);
	log_info("%s: %s, %u channel%s, blocks of %u KiB, %u in flight, %s%s", w->name,
		 transport_name(a->transport), a->paths * a->channels_first,
		 plural(a->paths * a->channels_first), a->block >> 10,
		 a->inflight, prot_name(a->prot), unchecked(a));
}

static void way_on_progress(void *arg, const struct transfer_progress *p)
{
	struct way *w = arg;

	if (transfer_seconds(p) - w->line_at < LINE_SECONDS)
		return;
	way_print_interval(w, transfer_seconds(p), p->bytes);
	w->line_at = transfer_seconds(p);
	w->line_bytes = p->bytes;
}

static int way_init(struct way *w, const struct job *j, struct server *s, bool put,
		    struct err *e)
{
	struct bulk_request *q = &w->bulk.c.request;
	int rc;

	*w = (struct way){ .name = put ? "put" : "get", .job = j };
	rc = bulk_init(&w->bulk, s, NULL, put ? BULK_BENCH_PUT : BULK_BENCH_GET, e);

	q->bench_bytes = j->o.bench_bytes;
	q->bench_ns = j->o.bench_bytes ? 0 : j->o.bench_ns ? j->o.bench_ns : DEFAULT_NS;
	q->offer.no_crc = !j->o.crc;
	q->base = strdup("");
	w->item.kind = put ? ITEM_ZERO : ITEM_NULL;
	w->item.size = q->bench_bytes;
	w->bulk.c.items = &w->item;
	w->bulk.c.nitems = 1;
	w->bulk.c.events = (struct transfer_events){
		.started = way_on_started, .progress = way_on_progress, .arg = w,
	};
	return rc;
}

int bench_measure(const struct job *j, struct server *s, bool put, uint64_t ns,
		  struct transfer_result *r, struct err *e)
{
	struct way w;
	int rc = way_init(&w, j, s, put, e);

	w.bulk.c.request.bench_bytes = 0;
	w.bulk.c.request.bench_ns = ns;
	w.item.size = 0;
	w.bulk.c.events = (struct transfer_events){ 0 };
	if (!rc)
		rc = bulk_once(&w.bulk, 1, r, e);
	bulk_clear(&w.bulk);
	return rc;
}

static void *way_main(void *arg)
{
	struct way *w = arg;

	w->rc = bulk_once(&w->bulk, 1, &w->result, &w->error);
	return NULL;
}

/* ---- the outcome ---- */

static double per_second(const struct transfer_result *r)
{
	return r->wall_ns ? (double)r->bytes * 1e9 / (double)r->wall_ns : 0;
}

/* Print the summary of n transfers; n 0: they have not begun. */
static void bench_print_summary(const struct job *j, struct way *w, int n, struct totals *t,
				enum exit_status status, const struct err *why)
{
	const struct agreement *a = &t->agreement;
	json_t *obj, *ways = json_object();

	for (int i = 0; i < n; i++) {
		const struct transfer_result *r = &w[i].result;

		json_object_set_new(ways, w[i].name, json_pack("{s:I, s:f, s:f}", "bytes",
			(json_int_t)r->bytes, "seconds", (double)r->wall_ns / 1e9,
			"bytes_per_second", per_second(r)));
	}

	if (!j->o.json && t->agreed)
		printf("%s, %u channels, %s%s; CPU seconds here %.2f, there %.2f\n",
		       transport_name(a->transport), t->nchannels, prot_name(a->prot),
		       unchecked(a), (double)t->cpu_local_ns / 1e9, (double)t->cpu_remote_ns / 1e9);

	signals_last_words(NULL);
	obj = j->o.json ? event_summary(t, status, why) : NULL;
	if (obj && n)
		json_object_set(obj, "ways", ways);
	if (obj)
		json_emit(stdout, obj);
	json_decref(ways);
	totals_clear(t);
}

static enum exit_status bench_conclude(const struct job *j, struct way *w, int n, uint64_t cpu)
{
	uint64_t first = UINT64_MAX, last = 0;
	enum exit_status status = EXIT_DONE;
	struct totals t = { 0 };
	struct err *why = NULL;

	for (int i = 0; i < n; i++) {
		const struct transfer_result *r = &w[i].result;
		double end = (double)r->wall_ns / 1e9;

		if (w[i].rc) {
			status = exit_worse(status, exit_of(signals_stopped() ? -EINTR : w[i].rc,
							    w[i].begun));
			log_error("%s: %s", w[i].name, w[i].error.text);
			why = &w[i].error;
			continue;
		}

		/* Print the last interval, unless it is short. */
		if (end - w[i].line_at >= LINE_SECONDS / 2 && r->bytes >= w[i].line_bytes)
			way_print_interval(&w[i], end, r->bytes);
		totals_add(&t, r);
		first = w[i].start_ns < first ? w[i].start_ns : first;
		last = w[i].start_ns + r->wall_ns > last ? w[i].start_ns + r->wall_ns : last;
	}

	for (int i = 0; i < n && !j->o.json; i++) {
		const struct transfer_result *r = &w[i].result;
		char size[32], rate[32];

		if (!w[i].rc)
			printf("%-3s %s in %.2f s, %s (%.2f Gbit/s)\n", w[i].name,
			       format_size(size, sizeof(size), r->bytes),
			       (double)r->wall_ns / 1e9,
			       format_rate(rate, sizeof(rate), per_second(r)),
			       per_second(r) * 8 / 1e9);
	}

	/* Both ran at the same time in this process, so do not add their time and CPU time. The
	 * server has one process for each. */
	if (n > 1 && last) {
		t.wall_ns = last - first;
		t.cpu_local_ns = cpu;
	}
	bench_print_summary(j, w, n, &t, status, why);
	return status;
}

/* ---- both directions ---- */

/* Run the n transfers at the same time. The failure of one does not end the other. */
static enum exit_status bench_run(const struct job *j, struct way *w, int n)
{
	struct server *s = w[0].bulk.server;
	struct totals none = { 0 };
	struct err e = ERR_INIT;
	uint64_t cpu;
	int rc;

	/* Prepare the summary for a signal that ends the program before a transfer begins. */
	err_set(&e, -EINTR, "interrupted");
	if (j->o.json)
		signals_last_words(json_line(event_summary(&none, EXIT_INTERRUPTED, &e)));
	e = (struct err)ERR_INIT;

	rc = server_connect(s, &e);
	if (!rc && n > 1)
		rc = bulk_possible(s, 0, &e);

	/* The second session uses the login of the first one, so that the user is not asked
	 * twice. */
	if (!rc && n > 1) {
		w[1].bulk.server->client = server_another(s, &e);
		if (w[1].bulk.server->client)
			log_info("connected to %s, for the second session",
				 w[1].bulk.server->client->describe);
		else
			rc = err_prefix(&e, "--both needs a second session");
	}
	if (rc) {
		enum exit_status status = e.code == -EINTR ? EXIT_INTERRUPTED : EXIT_CONNECT;

		log_error("%s", e.text);
		bench_print_summary(j, w, 0, &none, status, &e);
		return status;
	}

	cpu = cpu_ns();
	if (n > 1)
		rc = thread_start(&w[1].thread, "bench", way_main, &w[1]);
	way_main(&w[0]);
	if (n > 1 && !rc)
		pthread_join(w[1].thread, NULL);
	if (rc)
		w[1].rc = thread_failed(&w[1].error, rc);
	return bench_conclude(j, w, n, cpu_ns() - cpu);
}

/* second: the session of the other direction, with --both; otherwise NULL. */
static enum exit_status bench_server(struct job *j, struct server *s, struct server *second)
{
	bool unprotected = !j->o.crc && !option_given(&j->o, "prot");
	enum exit_status status;
	struct way w[2] = { 0 };
	struct err e = ERR_INIT;
	int rc;

	/* Without --crc use --prot clear by default: --crc off needs that, and the zeros of a
	 * benchmark are not secret. */
	if (unprotected)
		s->o.prot = PROT_CLEAR;
	if (unprotected && second)
		second->o.prot = PROT_CLEAR;

	rc = way_init(&w[0], j, s, j->o.bench_way != WAY_GET, &e);
	if (rc == 0 && second) {
		rc = way_init(&w[1], j, second, false, &e);
		w[0].bulk.c.tuning.at_once = w[1].bulk.c.tuning.at_once = 2;
	}

	if (rc == -EINVAL)
		status = usage_error(j, "%s", e.text);
	else if (rc)
		status = failed(&e, false);
	else
		status = bench_run(j, w, second ? 2 : 1);
	bulk_clear(&w[0].bulk);
	bulk_clear(&w[1].bulk);
	return status;
}

enum exit_status command_bench(struct job *j)
{
	bool both = j->o.bench_way == WAY_BOTH;
	struct server *s, *second = NULL;
	enum exit_status status;
	struct err e = ERR_INIT;
	struct url p;

	if (j->o.bench_bytes && j->o.bench_ns)
		return usage_error(j, "--time and --size exclude each other");
	if (!j->o.crc && option_given(&j->o, "prot") && j->o.prot != PROT_CLEAR)
		return usage_error(j, "--crc off needs --prot clear: %s always checks its tag",
				   prot_name(j->o.prot));
	if (url_of_rftpd(j->words[0], &p, &e))
		return usage_error(j, "%s", e.text);

	s = server_take(j, &p, &e);
	if (s && both)
		second = server_new(j, &p, &e);
	if (s && (second || !both))
		status = bench_server(j, s, second);
	else
		status = e.code == -EINVAL ? usage_error(j, "%s", e.text) : failed(&e, false);
	server_free(second);
	server_give(j, s);
	url_clear(&p);
	return status;
}
