// SPDX-License-Identifier: Apache-2.0
/* Receives the events of transfers and passes them on in the form that was asked for. */
#include "client/report.h"

#include "client/signals.h"

#include <errno.h>
#include <stdatomic.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define JSON_EVERY_SECONDS 1.0

struct report {
	const struct options *o;
	struct progress *progress;    /* NULL: none is shown */
	bool talks;                   /* a last line is due */
	bool one_terminal;            /* standard output may be where the progress is shown */
	atomic_bool begun;
	/* The callbacks', and the main thread's when none can come. */
	double json_at;               /* of the last progress event */
	struct agreement agreement;
	bool foreign;                 /* of it only prot means something */
	struct transfer_progress last;
	struct { uint64_t bytes, files; } before; /* by attempts that were broken off */
	/* The main thread's. */
	bool rereads;                 /* another attempt follows for files that change */
	bool again;                   /* the transfer under way is not at its first attempt */
	uint64_t start_ns, cpu_start_ns; /* when it began */
	struct totals totals;
	struct err error;             /* code 0: none */
};

struct report *report_new(const struct options *o)
{
	struct report *r = calloc(1, sizeof(*r));
	bool silent = o->quiet || (o->json && o->progress == PROGRESS_AUTO);

	if (!r)
		return NULL;
	r->o = o;
	if (!silent)
		r->progress = progress_new(o->progress);
	r->talks = !o->quiet && !o->json && (r->progress || o->verbose);
	r->one_terminal = isatty(STDOUT_FILENO);
	return r;
}

/* ---- callbacks, from threads of the transfer, one at a time ---- */

/* What comes next on standard output begins a line. */
static void make_room(struct report *r)
{
	if (r->one_terminal)
		progress_hide(r->progress);
}

static void emit(struct report *r, json_t *event)
{
	make_room(r);
	json_emit(stdout, event);
}

void report_op(const struct options *o, const struct agreement *a)
{
	if (option_given(o, "op") && a->transport != TRANSPORT_RDMA)
		log_warn("--op is for RDMA, and this goes by %s", transport_name(a->transport));
}

static uint64_t least(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

/* Files of this command: those that this attempt left alone because one before it had done
 * them are among them. */
static uint64_t files_of(const struct report *r, uint64_t done, uint64_t skipped)
{
	uint64_t files = done + least(skipped, r->before.files);

	return files > r->before.files ? files : r->before.files;
}

/* Another attempt begins: what the one before has done is done. */
static void keep_before(struct report *r)
{
	r->before.bytes += r->last.bytes - r->last.bytes_kept;
	r->before.files = files_of(r, r->last.files_done, r->last.files_skipped);
	memset(&r->last, 0, sizeof(r->last));
	r->json_at = 0;
}

static void on_started(void *arg, const struct agreement *a)
{
	struct report *r = arg;
	char source[32], sink[32], speed[32] = "", more[32] = "";

	keep_before(r);
	r->agreement = *a;
	atomic_store(&r->begun, true);
	if (r->o->json)
		emit(r, event_started(a));
	if (a->mbps)
		snprintf(speed, sizeof(speed), " for %g Gbit/s", (double)a->mbps / 1000);
	if (a->channels > a->channels_first)
		snprintf(more, sizeof(more), ", up to %u as needed", a->channels);
	log_info("%s, %u path%s of %u channel%s%s%s, blocks of %u KiB, %u in flight, %s, files are "
		 "done when %s", transport_name(a->transport), a->paths, a->paths == 1 ? "" : "s",
		 a->channels_first, a->channels_first == 1 ? "" : "s", more, speed, a->block >> 10,
		 a->inflight, prot_name(a->prot), ack_name(a->ack));
	report_op(r->o, a);
	format_size(source, sizeof(source), agreement_pool(a, true));
	format_size(sink, sizeof(sink), agreement_pool(a, false));
	log_info("memory for blocks: %s at the source, %s at the sink", source, sink);
	if (a->capped && a->capped_bytes)
		log_info("%s to %" PRIu64 " KiB", a->capped, (a->capped_bytes + 1023) >> 10);
	else if (a->capped)
		log_info("%s", a->capped);
}

void report_foreign(struct report *r, bool private_data, unsigned connections)
{
	keep_before(r);
	r->agreement = (struct agreement){ .prot = private_data ? PROT_PRIVATE : PROT_CLEAR };
	r->foreign = true;
	atomic_store(&r->begun, true);
	if (r->o->json)
		json_emit(stdout, event_started_foreign(&r->agreement, connections));
	log_info("FTP, at most %u connections, data %s", connections,
		 private_data ? "under TLS" : "in clear");
}

static void on_progress(void *arg, const struct transfer_progress *p)
{
	struct report *r = arg;

	r->last = *p;
	if (r->o->json && p->seconds - r->json_at >= JSON_EVERY_SECONDS) {
		r->json_at = p->seconds;
		emit(r, event_progress(p));
	}
	progress_update(r->progress, p);
}

static bool ends_in_slash(const char *path)
{
	size_t n = strlen(path);

	return n && path[n - 1] == '/';
}

static void on_file_done(void *arg, const char *path, uint64_t bytes, bool skipped)
{
	struct report *r = arg;
	char size[32], what[40];

	if (ends_in_slash(path)) /* a directory: what the file system needs for it is nobody's */
		bytes = 0;
	if (r->o->json && (r->o->verbose || r->o->dry_run))
		emit(r, event_file(path, bytes, skipped));
	format_size(size, sizeof(size), bytes);
	snprintf(what, sizeof(what), " (%s)", size);
	if (ends_in_slash(path))
		what[0] = '\0';
	if (r->o->dry_run && !r->o->json && !r->o->quiet) {
		make_room(r);
		printf("%s%s%s\n", printable(path), what, skipped ? ", left alone" : "");
	} else {
		log_info("%s%s%s", printable(path), what, skipped ? ", left alone" : "");
	}
}

/* The text may name the file already, as the other side knows it. */
static bool names_it(const char *text, const char *path)
{
	const char *slash = strrchr(path, '/');

	return strstr(text, printable(slash && slash[1] ? slash + 1 : path));
}

static void on_file_failed(void *arg, const char *path, int code, const char *text)
{
	struct report *r = arg;

	if (code == -EAGAIN && r->rereads) {
		log_info("%s: it changed while being read", printable(path));
		return;
	}
	if (r->o->json)
		emit(r, event_file_failed(path, code, text));
	if (!*text) /* all has been said of a directory above it */
		return;
	if (names_it(text, path))
		log_error("%s", text);
	else
		log_error("%s: %s", printable(path), text);
}

struct transfer_events report_events(struct report *r)
{
	return (struct transfer_events){
		.started = on_started,
		.progress = on_progress,
		/* Without it the transfer need not put paths together. */
		.file_done = r->o->verbose || r->o->dry_run ? on_file_done : NULL,
		.file_failed = on_file_failed,
		.arg = r,
	};
}

/* ---- the command's own thread ---- */

/* How far it got, as far as is known: for the summary of what has no result. */
static void add_last(const struct report *r, struct totals *t)
{
	const struct transfer_progress *p = &r->last;

	if (!atomic_load(&r->begun))
		return;
	t->agreement = r->agreement;
	t->agreed = true;
	t->foreign = r->foreign;
	t->broken_off = true;
	t->bytes += r->before.bytes + p->bytes - p->bytes_kept;
	t->files += files_of(r, p->files_done, p->files_skipped);
	t->failed += p->files_failed;
	t->skipped += p->files_skipped - least(p->files_skipped, r->before.files);
	t->wall_ns += r->again ? now_ns() - r->start_ns : (uint64_t)(p->seconds * 1e9);
	t->cpu_local_ns += cpu_ns() - r->cpu_start_ns;
}

/* What came of all attempts together: what they carried, and the time since the first began.
 * Channels, and what was there already, are the last one's. */
static struct transfer_result with_before(const struct report *r, const struct transfer_result *res)
{
	struct transfer_result all = *res;

	if (!r->again)
		return all;
	all.bytes += r->before.bytes;
	all.files = files_of(r, res->files, res->skipped);
	all.skipped -= least(all.skipped, r->before.files);
	all.wall_ns = now_ns() - r->start_ns;
	all.local.cpu_ns = cpu_ns() - r->cpu_start_ns;
	return all;
}

/* Outside of transfers a signal ends the program where it stands: the last event must be
 * there by then. */
static void leave_words(struct report *r)
{
	struct totals t = r->totals;
	struct err e = ERR_INIT;

	if (!r->o->json)
		return;
	add_last(r, &t);
	err_set(&e, -EINTR, "interrupted");
	signals_last_words(json_line(event_summary(&t, EXIT_INTERRUPTED, &e)));
}

void report_begin(struct report *r)
{
	atomic_store(&r->begun, false);
	r->foreign = false;
	r->json_at = 0;
	r->again = false;
	r->start_ns = now_ns();
	r->cpu_start_ns = cpu_ns();
	memset(&r->last, 0, sizeof(r->last));
	memset(&r->before, 0, sizeof(r->before));
	leave_words(r);
}

void report_rereads(struct report *r, bool rereads)
{
	r->rereads = rereads;
}

bool report_begun(const struct report *r)
{
	return atomic_load(&r->begun);
}

void report_result(struct report *r, const struct transfer_result *res)
{
	struct transfer_result all = with_before(r, res);
	uint64_t n = res->remote.left_out;

	progress_pause(r->progress);
	r->totals.foreign = r->foreign;
	if (r->foreign)
		all.agreement = r->agreement;
	if (totals_add(&r->totals, &all))
		log_warn("out of memory: the summary is not complete");
	atomic_store(&r->begun, false);
	leave_words(r);
	/* When we are the source each has been named. */
	if (n)
		log_warn("%llu name%s on the server, not of a file, directory or link: left out",
			 (unsigned long long)n, n == 1 ? "" : "s");
}

void report_retry(struct report *r, unsigned attempt, unsigned wait, const struct err *e)
{
	progress_pause(r->progress);
	r->totals.retries++;
	r->again = true;
	leave_words(r);
	if (r->o->json)
		json_emit(stdout, event_retry(attempt, wait, e->text));
	log_warn("%s; trying again in %u s (%u of %llu)", e->text, wait, attempt,
		 (unsigned long long)r->o->retries);
}

void report_error(struct report *r, const struct err *e)
{
	progress_pause(r->progress);
	add_last(r, &r->totals);
	log_error("%s", e->text);
	if (!r->error.code)
		r->error = *e;
	/* No file has been counted, but the command failed: its summary must not say 0. */
	if (!r->totals.failed && exit_of(e->code, report_begun(r)) == EXIT_SOME_FAILED)
		r->totals.failed = 1;
}

/* One line for people, unless they asked for none. */
static void say_summary(const struct report *r)
{
	const struct totals *t = &r->totals;
	char size[32], rate[32], text[256];
	int n;

	if (!r->talks || !t->agreed)
		return;
	/* Without bytes there is no rate to speak of. */
	n = snprintf(text, sizeof(text), "%s in %.2f s, %s%s%llu file%s",
		     format_size(size, sizeof(size), t->bytes), (double)t->wall_ns / 1e9,
		     t->bytes ? format_rate(rate, sizeof(rate), totals_rate(t)) : "",
		     t->bytes ? ", " : "", (unsigned long long)t->files,
		     t->files == 1 ? "" : "s");
	if (t->skipped)
		n += snprintf(text + n, sizeof(text) - (size_t)n, ", %llu left alone",
			      (unsigned long long)t->skipped);
	if (t->resumed)
		n += snprintf(text + n, sizeof(text) - (size_t)n, ", %s were there %s",
			      format_size(size, sizeof(size), t->resumed),
			      t->retries ? "when it was tried again" : "already");
	if (t->failed)
		snprintf(text + n, sizeof(text) - (size_t)n, ", %llu failed",
			 (unsigned long long)t->failed);
	fprintf(stderr, "%s\n", text);
}

enum exit_status report_end(struct report *r, enum exit_status status)
{
	progress_free(r->progress);
	say_summary(r);
	signals_last_words(NULL);
	if (r->o->json)
		json_emit(stdout, event_summary(&r->totals, status,
						r->error.code ? &r->error : NULL));
	totals_clear(&r->totals);
	free(r);
	return status;
}
