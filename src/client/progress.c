// SPDX-License-Identifier: Apache-2.0
/* The progress line: its text, and its place on the terminal. */
#include "client/progress.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

enum { LINE_MAX_BYTES = 512, DEFAULT_WIDTH = 80 };

#define PLAIN_EVERY_NS 10000000000ull  /* where lines stay */
#define SMOOTH_SECONDS 3.0

/* ---- the text ---- */

/* A pipe: its size is known at its end. */
static bool is_endless(const struct progress_view *v)
{
	return v->bytes && !v->bytes_known;
}

/* Percent of the known bytes; negative while they may still grow. */
static int percent(const struct progress_view *v)
{
	double part;

	if (!v->walked || is_endless(v))
		return -1;
	if (v->bytes_known)
		part = (double)v->bytes / (double)v->bytes_known;
	else
		part = v->entries ? (double)(v->files + v->failed) / (double)v->entries : 0;
	/* 100 is for the end alone. */
	return part >= 1 ? 100 : (int)(part * 100);
}

static void put_percent(char *out, size_t n, const struct progress_view *v)
{
	int p = percent(v);

	if (p >= 0)
		snprintf(out, n, "%3d%%", p);
}

static void put_bytes(char *out, size_t n, const struct progress_view *v)
{
	char done[32], all[32];

	format_size(done, sizeof(done), v->bytes);
	format_size(all, sizeof(all), v->bytes_known);
	if (is_endless(v))
		snprintf(out, n, "%s", done);
	else
		snprintf(out, n, "%s of %s%s", done, all, v->walked ? "" : "+");
}

static void put_rate(char *out, size_t n, const struct progress_view *v)
{
	format_rate(out, n, v->rate);
}

static void put_eta(char *out, size_t n, const struct progress_view *v)
{
	char left[32];

	if (!v->walked || v->bytes >= v->bytes_known)
		return;
	format_seconds(left, sizeof(left), v->rate > 0 ?
		       (double)(v->bytes_known - v->bytes) / v->rate : -1);
	snprintf(out, n, "%s left", left);
}

static void put_files(char *out, size_t n, const struct progress_view *v)
{
	if (v->files && (v->files != 1 || v->entries != 1))
		snprintf(out, n, "%llu file%s", (unsigned long long)v->files,
			 v->files == 1 ? "" : "s");
}

static void put_failed(char *out, size_t n, const struct progress_view *v)
{
	if (v->failed)
		snprintf(out, n, "%llu failed", (unsigned long long)v->failed);
}

static void put_bottleneck(char *out, size_t n, const struct progress_view *v)
{
	if (v->bottleneck)
		snprintf(out, n, "(%s)", v->bottleneck);
}

/* In the order of the line, with how much each matters: those of rank 0 stay longest. */
static const struct field {
	void (*put)(char *out, size_t n, const struct progress_view *v);
	int rank;
} fields[] = {
	{ put_percent, 0 }, { put_bytes, 2 }, { put_rate, 1 }, { put_eta, 3 },
	{ put_failed, 4 }, { put_files, 5 }, { put_bottleneck, 6 },
};

enum { NFIELDS = sizeof(fields) / sizeof(fields[0]), FIELD_BYTES = 64, GAP = 2 };

/* The fields of rank below ranks; their length, whether they fit into n or not. */
static size_t join(char *out, size_t n, char text[][FIELD_BYTES], int ranks)
{
	size_t used = 0;

	if (n)
		*out = '\0';
	for (int i = 0; i < NFIELDS; i++) {
		if (fields[i].rank >= ranks || !text[i][0])
			continue;
		used += (size_t)snprintf(used < n ? out + used : NULL, used < n ? n - used : 0,
					 "%s%s", used ? "  " : "", text[i]);
	}
	return used;
}

size_t progress_line(char *out, size_t n, const struct progress_view *v, unsigned width)
{
	char text[NFIELDS][FIELD_BYTES] = { "" };
	size_t most = width < n ? width : n - 1, used = 0;

	for (int i = 0; i < NFIELDS; i++)
		fields[i].put(text[i], sizeof(text[i]), v);
	for (int ranks = NFIELDS; ranks > 0; ranks--) {
		used = join(out, n, text, ranks);
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

/* ---- the terminal ---- */

struct progress {
	bool over;                    /* drawn over and over, on a terminal */
	pthread_mutex_t lock;         /* after log.c's lock, never before it */
	/* Guarded by lock. */
	struct rate_meter meter;
	char line[LINE_MAX_BYTES];    /* what stands there; "": nothing */
	uint64_t said_ns;             /* when the last plain line was written */
};

/* The log's hooks have no argument. */
static struct progress *shown;

static void write_text(const char *s)
{
	(void)write_full(STDERR_FILENO, s, strlen(s));
}

/* Asked each time: windows are resized. The last column stays free, as some terminals go
 * to the next line when it is written. */
static unsigned terminal_width(void)
{
	struct winsize w;

	if (ioctl(STDERR_FILENO, TIOCGWINSZ, &w) < 0 || w.ws_col < 2)
		return DEFAULT_WIDTH - 1;
	return w.ws_col - 1u;
}

static void clear_line(void)
{
	write_text("\r\033[K");
}

/* The lock is held from before a log line to behind it, so that no drawing gets between. */
static void before_log(void)
{
	pthread_mutex_lock(&shown->lock);
	if (shown->line[0])
		clear_line();
}

static void after_log(void)
{
	if (shown->line[0])
		write_text(shown->line);
	pthread_mutex_unlock(&shown->lock);
}

static bool is_terminal(void)
{
	const char *term = getenv("TERM");

	return isatty(STDERR_FILENO) && term && strcmp(term, "dumb");
}

struct progress *progress_new(enum progress_mode mode)
{
	struct progress *p;

	if (mode == PROGRESS_NEVER)
		return NULL;
	p = calloc(1, sizeof(*p));
	if (!p)
		return NULL;
	p->over = is_terminal();
	pthread_mutex_init(&p->lock, NULL);
	p->said_ns = now_ns();
	shown = p;
	if (p->over)
		log_set_hook(before_log, after_log);
	return p;
}

static struct progress_view view_of(struct progress *p, const struct transfer_progress *now)
{
	return (struct progress_view){
		.bytes = now->bytes, .bytes_known = now->bytes_known, .walked = now->walked,
		.files = now->files_done + now->files_skipped, .failed = now->files_failed,
		.entries = now->entries, .bottleneck = now->bottleneck,
		/* What was there already was not carried at any rate. */
		.rate = rate_meter_feed(&p->meter, now->seconds, now->bytes - now->bytes_kept),
	};
}

static void draw(struct progress *p, const struct progress_view *v)
{
	char text[LINE_MAX_BYTES + 8];

	progress_line(p->line, sizeof(p->line), v, terminal_width());
	snprintf(text, sizeof(text), "\r%s\033[K", p->line);
	write_text(text);
}

static void say(struct progress *p, const struct progress_view *v)
{
	char text[LINE_MAX_BYTES];
	size_t n;

	if (now_ns() - p->said_ns < PLAIN_EVERY_NS)
		return;
	p->said_ns = now_ns();
	n = progress_line(text, sizeof(text) - 1, v, sizeof(text));
	text[n] = '\n';
	text[n + 1] = '\0';
	write_text(text);
}

void progress_update(struct progress *p, const struct transfer_progress *now)
{
	struct progress_view v;

	if (!p)
		return;
	LOCK_GUARD(guard, &p->lock);
	v = view_of(p, now);
	if (p->over)
		draw(p, &v);
	else
		say(p, &v);
}

void progress_hide(struct progress *p)
{
	if (!p)
		return;
	LOCK_GUARD(guard, &p->lock);
	if (p->line[0])
		clear_line();
	p->line[0] = '\0';
}

void progress_pause(struct progress *p)
{
	if (!p)
		return;
	progress_hide(p);
	LOCK_GUARD(guard, &p->lock);
	p->meter = (struct rate_meter){ 0 };
}

void progress_free(struct progress *p)
{
	if (!p)
		return;
	progress_pause(p);
	if (p->over)
		log_set_hook(NULL, NULL);
	shown = NULL;
	pthread_mutex_destroy(&p->lock);
	free(p);
}
