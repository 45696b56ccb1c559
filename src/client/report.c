// SPDX-License-Identifier: Apache-2.0
/* Handles the events of transfers: prints them as the options say, and draws the progress line. */
#include "client/report.h"

#include "client/manifest.h"
#include "client/names.h"
#include "client/signals.h"

#include <ctype.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <sys/ioctl.h>

enum { LINE_MAX_BYTES = 512, DEFAULT_WIDTH = 80 };

#define JSON_EVERY_SECONDS 1.0
#define PLAIN_EVERY_NS 10000000000ull  /* interval of lines if stderr is not a terminal */
#define SMOOTH_SECONDS 3.0
#define CLEAR_LINE "\r\033[K"

/* ---- the text of the progress line ---- */

/* The fields, in the order of the line. From a line that is too long, the field of the highest rank
 * is removed first. */
enum { PERCENT, BYTES, RATE, TIME_LEFT, FAILED, FILES, BOTTLENECK, NFIELDS };
static const int ranks[NFIELDS] = {
	[PERCENT] = 0, [RATE] = 1, [BYTES] = 2, [TIME_LEFT] = 3, [FAILED] = 4, [FILES] = 5,
	[BOTTLENECK] = 6,
};

enum { FIELD_BYTES = 80 };

static void progress_fields(char text[NFIELDS][FIELD_BYTES], const struct transfer_progress *v,
			    double rate)
{
	uint64_t files = v->files_done + v->files_skipped;
	bool endless = v->bytes && !v->bytes_known; /* a pipe: its size is known only at its
						     * end */
	char done[32], all[32], left[32];
	double part = 0;
	int n = 0;

	if (v->bytes_known)
		part = (double)v->bytes / (double)v->bytes_known;
	else if (v->entries)
		part = (double)(files + v->files_failed) / (double)v->entries;

	/* Print 100 % only at the end. */
	if (v->walked && !endless)
		snprintf(text[PERCENT], FIELD_BYTES, "%3d%%", part >= 1 ? 100 : (int)(part * 100));

	format_size(done, sizeof(done), v->bytes);
	format_size(all, sizeof(all), v->bytes_known);
	if (endless)
		snprintf(text[BYTES], FIELD_BYTES, "%s", done);
	else
		snprintf(text[BYTES], FIELD_BYTES, "%s of %s%s", done, v->walked ? "" : "at least ",
			 all);

	format_rate(text[RATE], FIELD_BYTES, rate);
	if (v->walked && v->bytes < v->bytes_known) {
		format_seconds(left, sizeof(left), rate > 0 ?
			       (double)(v->bytes_known - v->bytes) / rate : -1);
		snprintf(text[TIME_LEFT], FIELD_BYTES, "%s left", left);
	}
	if (v->files_failed)
		snprintf(text[FAILED], FIELD_BYTES, "%llu failed",
			 (unsigned long long)v->files_failed);
	if (files && (files != 1 || v->entries != 1))
		snprintf(text[FILES], FIELD_BYTES, "%llu file%s", (unsigned long long)files,
			 files == 1 ? "" : "s");
	if (v->bottleneck)
		n = snprintf(text[BOTTLENECK], FIELD_BYTES, "(%s", v->bottleneck);
	if (v->bottleneck && v->share)
		n += snprintf(text[BOTTLENECK] + n, FIELD_BYTES - (size_t)n, " %u %%", v->share);
	if (v->bottleneck)
		snprintf(text[BOTTLENECK] + n, FIELD_BYTES - (size_t)n, ")");
}

size_t progress_line(char *out, size_t n, const struct transfer_progress *v, double rate,
		     unsigned width)
{
	char text[NFIELDS][FIELD_BYTES] = { "" };
	size_t most = width < n ? width : n - 1;

	progress_fields(text, v, rate);
	for (int rank = NFIELDS; rank > 0; rank--) {
		size_t used = 0;

		*out = '\0';
		for (int i = 0; i < NFIELDS; i++)
			if (ranks[i] < rank && text[i][0])
				used += (size_t)snprintf(used < n ? out + used : NULL,
							 used < n ? n - used : 0, "%s%s",
							 used ? "  " : "", text[i]);
		if (used <= most)
			return used;
	}
	*out = '\0';
	return 0;
}

double rate_meter_feed(struct rate_meter *m, double seconds, uint64_t bytes)
{
	double span, weight;

	if (seconds < m->at || bytes < m->bytes) /* another transfer */
		*m = (struct rate_meter){ 0 };
	span = seconds - m->at;
	if (span > 0 && bytes > 0) {
		weight = span / (span + SMOOTH_SECONDS);
		m->sum += ((double)(bytes - m->bytes) / span - m->sum) * weight;
		m->weight += (1 - m->weight) * weight;
		m->bytes = bytes;
	}
	m->at = seconds;
	return m->weight > 0 ? m->sum / m->weight : 0;
}

/* ---- the report ---- */

/* A reported failure: the path, or without one the text. */
struct reported {
	UT_hash_handle hh;
	char path[];
};

struct report {
	const struct options *o;
	bool progress;                /* progress is shown on stderr: on a terminal one line that is
				       * redrawn (over), elsewhere a new line every few seconds */
	bool over;
	bool has_summary;             /* print a summary for people */
	bool one_terminal;            /* standard output may be the same terminal as the progress
				       * line */
	atomic_bool begun;
	pthread_mutex_t line_lock;    /* lock order: log.c's lock first, then this */
	/* Guarded by line_lock: */
	struct rate_meter meter;
	char line[LINE_MAX_BYTES];    /* the visible line; "": none */
	uint64_t printed_ns;          /* the time of the last plain line */
	/* Used by the callbacks while a transfer runs, otherwise by the main thread: */
	double json_at;               /* the time of the last progress event, in seconds */
	struct agreement agreement;
	bool foreign;                 /* only prot of agreement is valid */
	struct transfer_progress last;
	/* sums of earlier attempts */
	struct { uint64_t bytes, files, corrected, removed, removed_bytes; } before;
	struct manifest *manifest;    /* NULL: none */
	bool strip;                   /* the contents of the source directory go into the
				       * destination itself: leave out its name */
	const char *pipe_name;        /* for data from standard input */
	uint64_t plan_files, plan_bytes; /* of this attempt, to be copied */
	uint64_t unlisted;            /* copied files without a digest */
	struct reported *reported;    /* with rftp sync, whose second pass meets failures again */
	bool gap;                     /* the manifest may lack files of a lost connection */
	struct totals totals;
	/* Used by the main thread only: */
	bool rereads;                 /* another attempt follows for files that changed while they
				       * were read */
	bool again;                   /* this is not the transfer's first attempt */
	uint64_t start_ns, cpu_start_ns; /* when the transfer began */
	struct err error;             /* code 0: none */
};

/* ---- the progress line on stderr ---- */

/* For the hooks of the log, which have no argument. */
static struct report *shown;

static void progress_write(const char *s)
{
	(void)write_full(STDERR_FILENO, s, strlen(s));
}

/* Hook before a log line. The lock stays held until the hook after it, so that no thread draws in
 * between. */
static void progress_before_log(void)
{
	pthread_mutex_lock(&shown->line_lock);
	if (shown->line[0])
		progress_write(CLEAR_LINE);
}

static void progress_after_log(void)
{
	if (shown->line[0])
		progress_write(shown->line);
	pthread_mutex_unlock(&shown->line_lock);
}

static void progress_update(struct report *r, const struct transfer_progress *now)
{
	char text[LINE_MAX_BYTES + 8];
	unsigned width = DEFAULT_WIDTH;
	struct winsize w;
	double rate;
	size_t n;

	LOCK_GUARD(guard, &r->line_lock);

	/* Do not count bytes kept from an earlier attempt: they were not transferred. */
	rate = rate_meter_feed(&r->meter, transfer_seconds(now), now->bytes - now->bytes_kept);
	if (r->over) {
		/* Ask each time, because the window may be resized. Leave the last column free:
		 * some terminals wrap when it is written. */
		if (ioctl(STDERR_FILENO, TIOCGWINSZ, &w) == 0 && w.ws_col >= 2)
			width = w.ws_col;
		progress_line(r->line, sizeof(r->line), now, rate, width - 1);
		snprintf(text, sizeof(text), "\r%s\033[K", r->line);
		progress_write(text);
	} else if (now_ns() - r->printed_ns >= PLAIN_EVERY_NS) {
		r->printed_ns = now_ns();
		n = progress_line(text, LINE_MAX_BYTES - 1, now, rate, LINE_MAX_BYTES);
		strcpy(text + n, "\n");
		progress_write(text);
	}
}

/* Clear the line until the next update. ended: the transfer has ended; another one may follow. */
static void progress_hide(struct report *r, bool ended)
{
	LOCK_GUARD(guard, &r->line_lock);

	if (r->line[0])
		progress_write(CLEAR_LINE);
	r->line[0] = '\0';
	if (ended)
		r->meter = (struct rate_meter){ 0 };
}

static const char *manifest_alg(const struct report *r)
{
	return r->o->alg ? r->o->alg : "SHA-256";
}

int report_manifest(struct report *r, const char *from, const char *to, struct err *e)
{
	if (!r->o->manifest)
		return 0;
	if (r->o->dry_run)
		return err_set(e, -EINVAL, "--dry-run copies nothing that --manifest could list");
	if (!strcmp(r->o->manifest, "-") && (r->o->json || !strcmp(to, "-")))
		return err_set(e, -EINVAL, "--manifest -: standard output is used already");
	if (!strcmp(to, "null:"))
		return err_set(e, -EINVAL, "--manifest: null: keeps no files to list");
	r->strip = from && !names_directory(from) && !names_directory(to) && !r->o->files_from;
	r->pipe_name = name_last(to);
	r->manifest = manifest_new(r->o->manifest, manifest_alg(r), e);
	return r->manifest ? 0 : e->code;
}

const char *report_sum(const struct report *r)
{
	return r->manifest ? digest_name(manifest_alg(r)) : NULL;
}

bool report_shows_progress(const struct options *o, bool *over)
{
	bool silent = o->quiet || (o->json && o->progress == PROGRESS_AUTO) ||
		      o->progress == PROGRESS_NEVER;
	const char *term = getenv("TERM");

	*over = !silent && isatty(STDERR_FILENO) && term && strcmp(term, "dumb");
	return !silent;
}

struct report *report_new(const struct options *o)
{
	struct report *r = calloc(1, sizeof(*r));

	if (!r)
		return NULL;

	r->o = o;
	r->totals.plan = o->dry_run;
	r->progress = report_shows_progress(o, &r->over);
	r->has_summary = !o->quiet && !o->json && (r->progress || o->verbose);
	r->one_terminal = isatty(STDOUT_FILENO);
	r->printed_ns = now_ns();
	pthread_mutex_init(&r->line_lock, NULL);
	shown = r;
	if (r->over)
		log_set_hook(progress_before_log, progress_after_log);
	return r;
}

/* ---- callbacks, from threads of the transfer, one at a time ---- */

/* Call before output: clears the progress line if it may be on the same terminal. */
static void report_hide_progress(struct report *r)
{
	if (r->one_terminal)
		progress_hide(r, false);
}

static void report_emit(struct report *r, json_t *event)
{
	report_hide_progress(r);
	json_emit(stdout, event);
}

void report_op(const struct options *o, const struct agreement *a)
{
	if (option_given(o, "op") && a->transport != TRANSPORT_RDMA)
		log_warn("--op is for RDMA, but the data goes by %s", transport_name(a->transport));
}

/* The number of files done by all attempts. This attempt has skipped the files that earlier ones
 * have done. */
static uint64_t report_files(const struct report *r, uint64_t done, uint64_t skipped)
{
	uint64_t files = done + min_u64(skipped, r->before.files);

	return files > r->before.files ? files : r->before.files;
}

/* Before an attempt: add the progress of the previous one to the sums. */
static void report_keep_before(struct report *r)
{
	r->before.bytes += r->last.bytes - r->last.bytes_kept;
	r->before.files = report_files(r, r->last.files_done, r->last.files_skipped);
	memset(&r->last, 0, sizeof(r->last));
	r->json_at = 0;
	r->plan_files = r->plan_bytes = 0;
}

static void report_on_started(void *arg, const struct agreement *a)
{
	struct report *r = arg;
	char source[32], sink[32], speed[32] = "", more[32] = "";

	report_keep_before(r);
	r->agreement = *a;
	atomic_store(&r->begun, true);

	if (r->o->json)
		report_emit(r, event_started(a));
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
	report_keep_before(r);
	r->agreement = (struct agreement){ .prot = private_data ? PROT_PRIVATE : PROT_CLEAR };
	r->foreign = true;
	atomic_store(&r->begun, true);
	if (r->o->json)
		json_emit(stdout, json_pack("{s:s, s:s, s:s, s:i, s:b, s:b}", "event", "started",
					    "transport", "ftp", "prot",
					    prot_name(r->agreement.prot), "connections",
					    (int)connections, "rdma", 0, "block_integrity", 0));
	log_info("FTP, at most %u connections, data %s", connections,
		 private_data ? "under TLS" : "in clear");
}

static void report_on_progress(void *arg, const struct transfer_progress *p)
{
	struct report *r = arg;

	r->last = *p;
	if (r->o->json && transfer_seconds(p) - r->json_at >= JSON_EVERY_SECONDS) {
		r->json_at = transfer_seconds(p);
		report_emit(r, event_progress(p));
	}
	if (r->progress)
		progress_update(r, p);
}

static void report_add_sum(struct report *r, const struct file_report *f)
{
	const char *slash = r->strip ? strchr(f->rel, '/') : NULL;
	bool pipe = !strcmp(f->path, "-") || !strcmp(f->path, "zero:");
	char *below CLEANUP_FREE = strdup(f->rel);

	/* A path of a server that is not honest. */
	if (!below || name_normalize(below) || strcmp(below, f->rel)) {
		r->unlisted++;
		return;
	}
	report_hide_progress(r);
	manifest_add(r->manifest, pipe ? r->pipe_name : slash ? slash + 1 : f->rel, f);
}

static void report_on_file_done(void *arg, const struct file_report *f)
{
	static const char *const ends[] = {
		"", ", left alone", ", attributes corrected", ", removed",
	};
	const char *path = f->path;
	enum file_end end = f->end;
	struct report *r = arg;
	bool directory = report_path_is_directory(path);
	/* Not the size that the file system gives for a directory. */
	uint64_t bytes = directory ? 0 : f->bytes;
	char size[32], text[40] = "";

	if (r->o->json && (r->o->verbose || r->o->dry_run))
		report_emit(r, event_file(path, bytes, end));
	if (r->manifest && f->sum && f->rel)
		report_add_sum(r, f);
	else if (r->manifest && f->rel && end == FILE_COPIED)
		r->unlisted++;
	if (!r->o->verbose && !r->o->dry_run && !r->o->log_file)
		return;
	/* A tree may have a million of these. */
	if (end == FILE_LEFT && r->o->verbose < (r->o->dry_run ? 1 : 2))
		return;
	if (end == FILE_COPIED && f->plain) {
		r->plan_files++;
		r->plan_bytes += bytes;
	}
	if (!directory)
		snprintf(text, sizeof(text), " (%s)", format_size(size, sizeof(size), bytes));
	if (r->o->dry_run && !r->o->json && !r->o->quiet) {
		report_hide_progress(r);
		printf("%s%s%s\n", printable(path), text, ends[end]);
	} else {
		log_info("%s%s%s", printable(path), text, ends[end]);
	}
}

/* Has this failure been reported? If not, it is now. */
static bool was_reported(struct report *r, const char *path)
{
	size_t len = strlen(path);
	struct reported *f;

	HASH_FIND(hh, r->reported, path, len, f);
	if (f)
		return true;
	f = malloc(sizeof(*f) + len + 1);
	if (!f)
		return false;
	memcpy(f->path, path, len + 1);
	HASH_ADD_KEYPTR(hh, r->reported, f->path, len, f);
	if (!f->hh.tbl)
		free(f);
	return false;
}

static void report_on_file_failed(void *arg, const char *path, int code, const char *text)
{
	const char *slash = strrchr(path, '/');
	struct report *r = arg;

	if (code == -EAGAIN && r->rereads) {
		log_info("%s: " FILE_CHANGED_WHY, printable(path));
		return;
	}
	if (r->o->sync && was_reported(r, *path ? path : text))
		return;
	if (r->o->json)
		report_emit(r, event_file_failed(path, code, text));
	if (!*text) /* it failed because of a directory above, which has been reported */
		return;

	/* The text may contain the file's name already, in the form of the other side. */
	if (strstr(text, printable(slash && slash[1] ? slash + 1 : path)))
		log_error("%s", text);
	else
		log_error("%s: %s", printable(path), text);
}

struct transfer_events report_events(struct report *r)
{
	return (struct transfer_events){
		.started = report_on_started,
		.progress = report_on_progress,
		/* NULL if not needed: then the transfer need not build paths. */
		.file_done = r->o->verbose || r->o->dry_run || r->manifest || r->o->log_file ?
			     report_on_file_done : NULL,
		.file_failed = report_on_file_failed,
		.arg = r,
	};
}

/* ---- the main thread ---- */

/* Add the last progress of a transfer that has no result. */
static void report_add_last(const struct report *r, struct totals *t)
{
	const struct transfer_progress *p = &r->last;

	if (!atomic_load(&r->begun))
		return;
	t->agreement = r->agreement;
	t->agreed = true;
	t->foreign = r->foreign;
	t->broken_off = true;
	t->bytes += r->before.bytes + p->bytes - p->bytes_kept;
	t->files += report_files(r, p->files_done, p->files_skipped);
	t->failed += p->files_failed;
	t->skipped += p->files_skipped - min_u64(p->files_skipped, r->before.files);
	t->wall_ns += r->again ? now_ns() - r->start_ns : p->ns;
	t->cpu_local_ns += cpu_ns() - r->cpu_start_ns;
}

/* Prepare the summary that the signal handler prints: outside of a transfer, a signal ends the
 * program at once. */
static void report_set_last_words(struct report *r)
{
	struct totals t = r->totals;
	struct err e = ERR_INIT;

	if (!r->o->json)
		return;
	report_add_last(r, &t);
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
	report_set_last_words(r);
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
	struct transfer_result all = *res;
	uint64_t n = res->remote.left_out;

	/* Count the bytes, the files and the time of all attempts; channels and resumed bytes of
	 * the last one. */
	if (r->again) {
		all.bytes += r->before.bytes;
		all.files = report_files(r, res->files, res->skipped);
		all.skipped -= min_u64(all.skipped, r->before.files);
		all.corrected += r->before.corrected;
		all.removed += r->before.removed;
		all.removed_bytes += r->before.removed_bytes;
		all.wall_ns = now_ns() - r->start_ns;
		all.local.cpu_ns = cpu_ns() - r->cpu_start_ns;
	}
	progress_hide(r, true);
	r->totals.plan_files += r->plan_files;
	r->totals.plan_bytes += r->plan_bytes;
	r->totals.foreign = r->foreign;
	if (r->foreign)
		all.agreement = r->agreement;
	totals_add(&r->totals, &all);
	atomic_store(&r->begun, false);
	report_set_last_words(r);

	if (r->o->delete && !r->o->force && all.failed && !all.removed)
		log_warn("nothing was removed, because not everything went well");

	/* Names left out by the server. If this side is the source, each one has been reported
	 * already. */
	if (n)
		log_warn("%llu name%s on the server, not of a file, directory or link: left out",
			 (unsigned long long)n, n == 1 ? "" : "s");
}

void report_pass(struct report *r, const struct transfer_result *res)
{
	progress_hide(r, true);
	r->again = true;
	r->before.corrected += res->corrected;
	r->before.removed += res->removed;
	r->before.removed_bytes += res->removed_bytes;
	log_debug("names were in the way: the files that need them follow");
}

void report_retry(struct report *r, unsigned attempt, unsigned wait, const struct err *e)
{
	progress_hide(r, true);
	r->totals.retries++;
	/* A file that has arrived unconfirmed is left alone now, and not listed. */
	r->gap |= r->manifest && r->o->policy != POLICY_OVERWRITE && e->code != -EAGAIN &&
		  report_begun(r);
	r->again = true;
	report_set_last_words(r);
	if (r->o->json)
		json_emit(stdout, event_retry(attempt, wait, e->text));
	log_warn("%s; trying again in %u s (%u of %llu)", e->text, wait, attempt,
		 (unsigned long long)r->o->retries);
}

void report_error(struct report *r, const struct err *e)
{
	progress_hide(r, true);
	report_add_last(r, &r->totals);
	log_error("%s", e->text);
	if (!r->error.code)
		r->error = *e;
	/* The command failed before it counted a file: the summary must not say that 0 files
	 * failed. */
	if (!r->totals.failed && exit_of(e->code, report_begun(r)) == EXIT_SOME_FAILED)
		r->totals.failed = 1;
}

enum exit_status report_end(struct report *r, enum exit_status status)
{
	struct totals *t = &r->totals;
	struct reported *f, *next;
	char text[512];

	progress_hide(r, true);
	if (r->over)
		log_set_hook(NULL, NULL);
	pthread_mutex_destroy(&r->line_lock);

	totals_text(t, text, sizeof(text));
	if (r->unlisted || r->gap) {
		log_error("the manifest may lack files: %s", r->gap ?
			  "a connection was lost before their arrival was confirmed" :
			  "the server has not sent their digests");
		status = exit_worse(status, EXIT_SOME_FAILED);
	}
	if (manifest_end(r->manifest, t->agreed)) /* it has reported the failure */
		status = exit_worse(status, EXIT_SOME_FAILED);
	if (r->o->dry_run && t->agreed && !r->o->json && !r->o->quiet)
		totals_print_plan(t);
	else if (r->has_summary && t->agreed)
		fprintf(stderr, "%s\n", text);
	if (t->agreed)
		log_only_there(text);
	if (r->o->stats && t->agreed && !r->o->json)
		totals_print_stats(t);

	signals_last_words(NULL);
	if (r->o->json)
		json_emit(stdout, event_summary(t, status, r->error.code ? &r->error : NULL));
	totals_clear(t);
	HASH_ITER(hh, r->reported, f, next) {
		HASH_DEL(r->reported, f);
		free(f);
	}
	free(r);
	return status;
}
