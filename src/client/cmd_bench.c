// SPDX-License-Identifier: Apache-2.0
/* rftp bench: memory to memory, so that only the path and the hosts count. */
#include "client/bulk.h"
#include "client/signals.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define DEFAULT_NS 10000000000ull
#define LINE_SECONDS 1.0
/* For the server to be through, too; there may be none any more. */
#define END_MS 10000
#define END_LOST_MS 2000

/* One direction: a transfer and, with --both, its lane of the session and a thread. */
struct way {
	const char *name;
	enum bulk_op op;
	const struct job *job;
	struct bulk bulk;
	struct transfer_item item;
	pthread_t thread;
	/* The callbacks' own. */
	double said_at;
	uint64_t said_bytes;
	uint64_t start_ns;          /* when its clock started */
	/* The outcome. */
	struct transfer_result result;
	struct err error;
	int rc;
	bool begun;
};

/* Lines of both directions do not mix. */
static pthread_mutex_t output = PTHREAD_MUTEX_INITIALIZER;

/* ---- second by second ---- */

static json_t *event_of_way(json_t *obj, const char *name)
{
	if (obj)
		json_object_set_new(obj, "way", json_string(name));
	return obj;
}

static void say_interval(struct way *w, double at, double length, uint64_t bytes)
{
	char size[32], rate[32];
	LOCK_GUARD(guard, &output);

	if (w->job->o.json)
		json_emit(stdout, event_interval(w->name, at, length, bytes));
	else if (!w->job->o.quiet && w->job->o.progress != PROGRESS_NEVER)
		printf("%-3s %7.1f s  %10s  %12s\n", w->name, at,
		       format_size(size, sizeof(size), bytes),
		       format_rate(rate, sizeof(rate), (double)bytes / length));
	fflush(stdout);
}

static void on_started(void *arg, const struct agreement *a)
{
	struct way *w = arg;
	LOCK_GUARD(guard, &output);

	w->begun = true;
	w->start_ns = now_ns();
	report_op(&w->job->o, a);
	if (w->job->o.json)
		json_emit(stdout, event_of_way(event_started(a), w->name));
	log_info("%s: %s, %u channels, blocks of %u KiB, %u in flight, %s%s", w->name,
		 transport_name(a->transport), a->paths * a->channels_first, a->block >> 10,
		 a->inflight, prot_name(a->prot),
		 a->prot == PROT_CLEAR && !a->crc ? ", not checked" : "");
}

static void on_progress(void *arg, const struct transfer_progress *p)
{
	struct way *w = arg;

	if (p->seconds - w->said_at < LINE_SECONDS)
		return;
	say_interval(w, p->seconds, p->seconds - w->said_at, p->bytes - w->said_bytes);
	w->said_at = p->seconds;
	w->said_bytes = p->bytes;
}

/* ---- one direction ---- */

static int way_init(struct way *w, const struct job *j, struct server *s, bool put,
		    struct err *e)
{
	struct bulk_request *q = &w->bulk.c.request;
	int rc;

	*w = (struct way){
		.name = put ? "put" : "get", .op = put ? BULK_BENCH_PUT : BULK_BENCH_GET,
		.job = j,
	};
	rc = bulk_init(&w->bulk, s, NULL, w->op, e);
	q->bench_bytes = j->o.bench_bytes;
	q->bench_ns = j->o.bench_bytes ? 0 : j->o.bench_ns ? j->o.bench_ns : DEFAULT_NS;
	q->offer.no_crc = !j->o.crc;
	q->base = strdup("");
	w->item.kind = put ? ITEM_ZERO : ITEM_NULL;
	w->item.size = q->bench_bytes;
	w->bulk.c.items = &w->item;
	w->bulk.c.nitems = 1;
	w->bulk.c.events = (struct transfer_events){
		.started = on_started, .progress = on_progress, .arg = w,
	};
	return rc;
}

static void *way_run(void *arg)
{
	struct way *w = arg;

	w->rc = bulk_once(&w->bulk, &w->result, &w->error);
	/* The other way goes on without it. */
	ms_free(steal_ptr(&w->bulk.lane));
	return NULL;
}

/* ---- both directions ---- */

static void ways_start(struct way w[2])
{
	int rc = thread_start(&w[1].thread, "bench", way_run, &w[1]);

	if (rc) {
		w[1].rc = err_sys(&w[1].error, rc, "cannot start a thread");
		ms_free(steal_ptr(&w[1].bulk.lane));
	}
	way_run(&w[0]);
	if (rc == 0)
		pthread_join(w[1].thread, NULL);
}

static int ways_take(struct way w[2], struct lanes *l, struct err *e)
{
	int rc = 0;

	for (unsigned i = 0; i < 2; i++) {
		struct stream *s = lanes_take(l, i);

		w[i].bulk.lane = ms_new(s);
		if (w[i].bulk.lane)
			continue;
		stream_free(s);
		rc = err_sys(e, -ENOMEM, "lane");
	}
	for (unsigned i = 0; rc && i < 2; i++)
		ms_free(steal_ptr(&w[i].bulk.lane));
	return rc;
}

/* In one session, a lane for each, in *l until ways_end. What becomes of it is each way's own;
 * but for one that has not begun, for want of lanes. */
static int ways_run(struct server *s, struct way w[2], struct lanes **l, struct err *e)
{
	int rc = bulk_possible(s, 0, e);

	*l = rc ? NULL : ftp_lanes(s->client, 2, e);
	rc = *l ? ways_take(w, *l, e) : e->code;
	if (rc == 0)
		ways_start(w);
	return rc;
}

static void ways_end(struct server *s, const struct way w[2], struct lanes *l)
{
	struct err e = ERR_INIT;

	if (!l || !ftp_lanes_end(s->client, l, w[0].rc || w[1].rc ? END_LOST_MS : END_MS, &e))
		return;
	log_debug("the lanes do not end in good order: %s", e.text);
	server_close(s);
}

/* ---- the outcome ---- */

/* What came after the last line. */
static void say_rest(struct way *w)
{
	double s = (double)w->result.wall_ns / 1e9 - w->said_at;

	if (s >= LINE_SECONDS / 2 && w->result.bytes >= w->said_bytes)
		say_interval(w, w->said_at + s, s, w->result.bytes - w->said_bytes);
}

static void say_way(const struct way *w)
{
	const struct transfer_result *r = &w->result;
	char size[32], rate[32];
	double s = (double)r->wall_ns / 1e9;

	printf("%-3s %s in %.2f s, %s (%.2f Gbit/s)\n", w->name,
	       format_size(size, sizeof(size), r->bytes), s,
	       format_rate(rate, sizeof(rate), s > 0 ? (double)r->bytes / s : 0),
	       s > 0 ? (double)r->bytes * 8 / s / 1e9 : 0);
}

static void say_cost(const struct totals *t)
{
	const struct agreement *a = &t->agreement;

	printf("%s, %u channels, %s%s; CPU seconds here %.2f, there %.2f\n",
	       transport_name(a->transport), t->nchannels, prot_name(a->prot),
	       a->prot == PROT_CLEAR && !a->crc ? ", not checked" : "",
	       (double)t->cpu_local_ns / 1e9, (double)t->cpu_remote_ns / 1e9);
}

static int add_ways(struct totals *t, const struct way *w, int n, uint64_t cpu)
{
	uint64_t first = UINT64_MAX, last = 0, there = 0;

	for (int i = 0; i < n; i++) {
		if (w[i].rc)
			continue;
		if (totals_add(t, &w[i].result))
			return -ENOMEM;
		if (w[i].start_ns < first)
			first = w[i].start_ns;
		if (w[i].start_ns + w[i].result.wall_ns > last)
			last = w[i].start_ns + w[i].result.wall_ns;
		if (w[i].result.remote.cpu_ns > there)
			there = w[i].result.remote.cpu_ns;
	}
	/* They ran at the same time, in one process here and one there. */
	if (n > 1 && last) {
		t->wall_ns = last - first;
		t->cpu_local_ns = cpu;
		t->cpu_remote_ns = there;
	}
	return 0;
}

static json_t *ways_of(const struct way *w, int n)
{
	json_t *all = json_object();

	for (int i = 0; all && i < n; i++) {
		double s = (double)w[i].result.wall_ns / 1e9;

		json_object_set_new(all, w[i].name, json_pack("{s:I, s:f, s:f}", "bytes",
			(json_int_t)w[i].result.bytes, "seconds", s, "bytes_per_second",
			s > 0 ? (double)w[i].result.bytes / s : 0.0));
	}
	return all;
}

static enum exit_status conclude(const struct job *j, struct way *w, int n, uint64_t cpu)
{
	enum exit_status status = EXIT_DONE;
	struct totals t = { 0 };
	struct err *why = NULL;
	json_t *obj;

	for (int i = 0; i < n; i++) {
		if (!w[i].rc)
			continue;
		status = exit_worse(status, exit_of(signals_stopped() ? -EINTR : w[i].rc,
						    w[i].begun));
		log_error("%s: %s", w[i].name, w[i].error.text);
		why = &w[i].error;
	}
	for (int i = 0; i < n; i++)
		if (!w[i].rc)
			say_rest(&w[i]);
	if (add_ways(&t, w, n, cpu))
		log_warn("out of memory: the summary is not complete");
	for (int i = 0; !j->o.json && i < n; i++)
		if (!w[i].rc)
			say_way(&w[i]);
	if (!j->o.json && t.agreed)
		say_cost(&t);
	signals_last_words(NULL);
	obj = j->o.json ? event_summary(&t, status, why) : NULL;
	if (obj) {
		json_object_set_new(obj, "ways", ways_of(w, n));
		json_emit(stdout, obj);
	}
	totals_clear(&t);
	return status;
}

/* The summary of what a signal ends before it has begun. */
static void leave_words(const struct job *j)
{
	const struct totals none = { 0 };
	struct err e = ERR_INIT;

	err_set(&e, -EINTR, "interrupted");
	if (j->o.json)
		signals_last_words(json_line(event_summary(&none, EXIT_INTERRUPTED, &e)));
}

static enum exit_status not_begun(const struct job *j, const struct err *e)
{
	enum exit_status status = e->code == -EINTR ? EXIT_INTERRUPTED : EXIT_CONNECT;
	const struct totals none = { 0 };

	log_error("%s", e->text);
	signals_last_words(NULL);
	if (j->o.json)
		json_emit(stdout, event_summary(&none, status, e));
	return status;
}

static enum exit_status bench(const struct job *j, struct server *s, struct way *w, int n)
{
	enum exit_status status;
	struct lanes *l = NULL;
	struct err e = ERR_INIT;
	uint64_t cpu;
	int rc;

	leave_words(j);
	rc = server_connect(s, &e);
	cpu = cpu_ns();
	if (rc == 0 && n == 1)
		way_run(w);
	else if (rc == 0)
		rc = ways_run(s, w, &l, &e);
	status = rc ? not_begun(j, &e) : conclude(j, w, n, cpu_ns() - cpu);
	ways_end(s, w, l);
	return status;
}

static enum exit_status bench_server(struct job *j, struct server *s)
{
	bool both = j->o.bench_way == WAY_BOTH;
	struct way w[2] = { 0 };
	struct err e = ERR_INIT;
	int rc = way_init(&w[0], j, s, j->o.bench_way != WAY_GET, &e);
	enum exit_status status;

	if (rc == 0 && both) {
		rc = way_init(&w[1], j, s, false, &e);
		w[0].bulk.c.tuning.at_once = w[1].bulk.c.tuning.at_once = 2;
	}
	if (rc == -EINVAL)
		status = usage_error(j, "%s", e.text);
	else if (rc)
		status = failed(&e, false);
	else
		status = bench(j, s, w, both ? 2 : 1);
	bulk_clear(&w[0].bulk);
	bulk_clear(&w[1].bulk);
	return status;
}

static enum exit_status bench_place(struct job *j, const struct place *p)
{
	struct err e = ERR_INIT;
	struct server *s = server_take(j, p, &e);
	enum exit_status status;

	if (!s)
		return e.code == -EINVAL ? usage_error(j, "%s", e.text) : failed(&e, false);
	/* Zeros are no secret, and without CRC was asked for. */
	if (!j->o.crc && !option_given(&j->o, "prot"))
		s->o.prot = PROT_CLEAR;
	status = bench_server(j, s);
	server_give(j, s);
	return status;
}

enum exit_status rftp_bench(struct job *j)
{
	struct err e = ERR_INIT;
	struct place p;
	enum exit_status status;

	if (j->o.bench_bytes && j->o.bench_ns)
		return usage_error(j, "--time and --size exclude each other");
	if (!j->o.crc && option_given(&j->o, "prot") && j->o.prot != PROT_CLEAR)
		return usage_error(j, "--crc off needs --prot clear: the tag of %s is not left out",
				   prot_name(j->o.prot));
	if (place_of_rftpd(j->words[0], &p, &e))
		return usage_error(j, "%s", e.text);
	status = bench_place(j, &p);
	place_clear(&p);
	return status;
}
