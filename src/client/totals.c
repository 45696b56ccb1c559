// SPDX-License-Identifier: Apache-2.0
/* The sums of a command's transfers, as text for people and as JSON events for programs. */
#include "client/report.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdarg.h>

#define SLOWEST_FROM_NS 1000000000ull

/* ---- sums ---- */

void totals_add(struct totals *t, const struct transfer_result *r)
{
	uint32_t n = t->nchannels + r->nchannels;
	uint64_t *bytes = reallocarray(t->channel_bytes, n ? n : 1, sizeof(*bytes));

	if (!bytes) {
		log_warn(NO_MEMORY ": the summary is not complete");
		return;
	}

	memcpy(bytes + t->nchannels, r->channel_bytes, r->nchannels * sizeof(*bytes));
	t->channel_bytes = bytes;
	t->nchannels = n;
	t->agreement = r->agreement;
	t->agreed = true;
	t->bytes += r->bytes;
	t->files += r->files;
	t->failed += r->failed;
	t->skipped += r->skipped;
	t->resumed += r->resumed;
	t->corrected += r->corrected;
	for (int i = 0; i < STAGES; i++)
		t->stages[i] += r->stages[i];
	t->rtt_ns = r->rtt_ns;
	t->blocks += r->local.blocks > r->remote.blocks ? r->local.blocks : r->remote.blocks;
	t->removed += r->removed;
	t->removed_bytes += r->removed_bytes;
	t->left_out += r->local.left_out + r->remote.left_out; /* only the source counts these */
	t->cpu_local_ns += r->local.cpu_ns;
	t->cpu_remote_ns += r->remote.cpu_ns;
	t->wall_ns += r->wall_ns;
	t->channels_lost += r->channels_lost;
	t->fell_back |= r->fell_back;
}

void totals_clear(struct totals *t)
{
	free(t->channel_bytes);
	memset(t, 0, sizeof(*t));
}

double totals_rate(const struct totals *t)
{
	return t->wall_ns ? (double)t->bytes * 1e9 / (double)t->wall_ns : 0;
}

static json_t *json_number(uint64_t v)
{
	return json_integer((json_int_t)v);
}

static const char *op_name(const struct agreement *a)
{
	return a->op == OP_READ ? "read" : "write";
}

json_t *event_started(const struct agreement *a)
{
	return json_pack("{s:s, s:s, s:s, s:s, s:s, s:b, s:i, s:i, s:i, s:I, s:I, s:I, s:I}",
			 "event", "started",
			 "transport", transport_name(a->transport),
			 "op", op_name(a),
			 "prot", prot_name(a->prot),
			 "ack", ack_name(a->ack),
			 "crc", a->crc,
			 "paths", a->paths,
			 "channels", a->channels_first,
			 "channels_most", a->channels,
			 "block", (json_int_t)a->block,
			 "inflight", (json_int_t)a->inflight,
			 "pool_source", (json_int_t)agreement_pool(a, true),
			 "pool_sink", (json_int_t)agreement_pool(a, false));
}

json_t *event_progress(const struct transfer_progress *p)
{
	return json_pack("{s:s, s:f, s:I, s:I, s:I, s:b, s:I, s:I, s:I, s:I, s:s*, s:o*}",
			 "event", "progress",
			 "seconds", transfer_seconds(p),
			 "bytes", (json_int_t)p->bytes,
			 "bytes_kept", (json_int_t)p->bytes_kept,
			 "bytes_known", (json_int_t)p->bytes_known,
			 "walked", p->walked,
			 "entries", (json_int_t)p->entries,
			 "files", (json_int_t)p->files_done,
			 "failed", (json_int_t)p->files_failed,
			 "skipped", (json_int_t)p->files_skipped,
			 "bottleneck", p->bottleneck,
			 "share", p->share ? json_real(p->share / 100.0) : NULL);
}

json_t *event_file(const char *path, uint64_t bytes, enum file_end end)
{
	json_t *obj = end == FILE_REMOVED ?
		json_pack("{s:s, s:I}", "event", "removed", "bytes", (json_int_t)bytes) :
		json_pack("{s:s, s:I, s:b, s:b}", "event", "file", "bytes", (json_int_t)bytes,
			  "skipped", end != FILE_COPIED, "corrected", end == FILE_CORRECTED);

	if (obj)
		json_set_name(obj, "path", path);
	return obj;
}

json_t *event_file_failed(const char *path, int code, const char *text)
{
	json_t *obj = json_pack("{s:s}", "event", "file_failed");
	const char *name = strerrorname_np(-code);

	json_set_name(obj, "path", path);
	json_object_set_new(obj, "error", json_string(name ? name : "EIO"));
	json_set_name(obj, "text", text);
	return obj;
}

json_t *event_interval(const char *way, double at, double length, uint64_t bytes)
{
	return json_pack("{s:s, s:s, s:f, s:f, s:I, s:f}", "event", "interval", "way", way,
			 "at", at, "seconds", length, "bytes", (json_int_t)bytes,
			 "bytes_per_second", length > 0 ? (double)bytes / length : 0.0);
}

json_t *event_retry(unsigned attempt, unsigned wait, const char *text)
{
	json_t *obj = json_pack("{s:s, s:i, s:i}", "event", "retry", "attempt", (int)attempt,
				"wait_seconds", (int)wait);

	if (obj)
		json_set_name(obj, "text", text);
	return obj;
}

/* The share of each stage, from 0 to 1. */
static json_t *stages_object(const uint64_t ns[STAGES])
{
	json_t *o = json_object();
	double sum = 0;

	for (int i = 0; i < STAGES; i++)
		sum += (double)ns[i];
	for (int i = 0; o && i < STAGES; i++) {
		char key[32];

		snprintf(key, sizeof(key), "%s", stage_name(i));
		for (char *c = key; *c; c++)
			*c = *c == ' ' ? '_' : (char)tolower(*c);
		json_object_set_new(o, key, json_real(sum > 0 ? (double)ns[i] / sum : 0));
	}
	return o;
}

json_t *event_summary(const struct totals *t, int exit_status, const struct err *e)
{
	const struct agreement *a = t->agreed ? &t->agreement : NULL;
	const struct agreement *ours = t->foreign ? NULL : a; /* an FTP server agrees on less */
	/* Only a transfer's result has these members. */
	bool whole = !t->broken_off;
	json_t *channels = whole ? json_array() : NULL;
	json_t *obj;

	for (uint32_t i = 0; channels && i < t->nchannels; i++)
		json_array_append_new(channels, json_number(t->channel_bytes[i]));
	obj = json_pack("{s:s, s:i, s:I, s:f, s:f, s:I, s:I, s:I, s:f, s:s*, s:s*, s:s*, s:s*, "
			"s:o*, s:o*, s:o*, s:o*, s:o*, s:o*, s:I, s:I, s:I, s:I}",
			"event", "summary",
			"exit", exit_status,
			"bytes", (json_int_t)t->bytes,
			"seconds", (double)t->wall_ns / 1e9,
			"bytes_per_second", totals_rate(t),
			"files", (json_int_t)t->files,
			"failed", (json_int_t)t->failed,
			"skipped", (json_int_t)t->skipped,
			"cpu_seconds_local", (double)t->cpu_local_ns / 1e9,
			"transport", ours ? transport_name(a->transport) : a ? "ftp" : NULL,
			"op", ours ? op_name(a) : NULL,
			"prot", a ? prot_name(a->prot) : NULL,
			"ack", ours ? ack_name(a->ack) : NULL,
			"resumed", whole ? json_number(t->resumed) : NULL,
			"left_out", whole ? json_number(t->left_out) : NULL,
			"cpu_seconds_remote",
			whole ? json_real((double)t->cpu_remote_ns / 1e9) : NULL,
			"channels", channels,
			"channels_lost", whole ? json_number(t->channels_lost) : NULL,
			"fell_back", whole ? json_boolean(t->fell_back) : NULL,
			"retries", (json_int_t)t->retries,
			"corrected", (json_int_t)t->corrected,
			"removed", (json_int_t)t->removed,
			"removed_bytes", (json_int_t)t->removed_bytes);
	if (obj && whole)
		json_object_set_new(obj, "stages", stages_object(t->stages));
	if (obj && t->plan) {
		json_object_set_new(obj, "plan_files", json_number(t->plan_files));
		json_object_set_new(obj, "plan_bytes", json_number(t->plan_bytes));
	}
	if (obj && e)
		json_set_name(obj, "error", e->text);
	return obj;
}

/* ---- text ---- */

static void stats_line(const char *name, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));
static void stats_line(const char *name, const char *fmt, ...)
{
	va_list ap;

	fprintf(stderr, "  %-22s ", name);
	va_start(ap, fmt);
	vfprintf(stderr, fmt, ap);
	va_end(ap);
	putc('\n', stderr);
}

void totals_print_stats(const struct totals *t)
{
	double sum = 0, gb = (double)t->bytes / 1e9;
	const struct agreement *a = t->foreign ? NULL : &t->agreement;
	char text[32];

	stats_line("files", "%" PRIu64 " copied, %" PRIu64 " left alone, %" PRIu64 " failed",
		   t->files, t->skipped, t->failed);
	stats_line("names", "%" PRIu64 " removed, %" PRIu64 " left out", t->removed, t->left_out);
	stats_line("bytes", "%" PRIu64 " sent, %" PRIu64 " were there", t->bytes, t->resumed);
	stats_line("time", "%.3f s, %s", (double)t->wall_ns / 1e9,
		   format_rate(text, sizeof(text), totals_rate(t)));
	stats_line("processor time", "%.2f s here, %.2f s there", (double)t->cpu_local_ns / 1e9,
		   (double)t->cpu_remote_ns / 1e9);
	if (gb >= 0.01) /* of fewer bytes it says nothing */
		stats_line("processor time per GB", "%.2f s here, %.2f s there",
			   (double)t->cpu_local_ns / 1e9 / gb, (double)t->cpu_remote_ns / 1e9 / gb);
	if (a) {
		stats_line("transport", "%s, %u path%s, %s", transport_name(a->transport), a->paths,
			   plural(a->paths), prot_name(a->prot));
		stats_line("blocks", "%" PRIu64 " of %u KiB, %u in flight", t->blocks,
			   a->block >> 10, a->inflight);
		if (t->rtt_ns)
			stats_line("round trip", "%.3f ms", (double)t->rtt_ns / 1e6);
		for (uint32_t i = 0; i < t->nchannels; i++)
			stats_line(i ? "" : "channels", "%" PRIu64 " bytes", t->channel_bytes[i]);
		stats_line("channels lost", "%u", t->channels_lost);
	}
	stats_line("attempts", "%u", t->retries + 1);
	for (int i = 0; i < STAGES; i++)
		sum += (double)t->stages[i];
	for (int i = 0; a && sum > 0 && i < STAGES; i++)
		stats_line(i ? "" : "held back by", "%5.1f %% %s", (double)t->stages[i] * 100 / sum,
			   stage_name(i));
}

void totals_print_plan(const struct totals *t)
{
	char copy[32], away[32];
	uint64_t same = t->skipped - t->corrected;

	printf("to copy: %" PRIu64 " file%s, %s; attributes to correct: %" PRIu64 " file%s; to "
	       "remove: %" PRIu64 " name%s, %s; to leave alone: %" PRIu64 " file%s\n",
	       t->plan_files, plural(t->plan_files),
	       format_size(copy, sizeof(copy), t->plan_bytes), t->corrected, plural(t->corrected),
	       t->removed, plural(t->removed), format_size(away, sizeof(away), t->removed_bytes),
	       same, plural(same));
}

void totals_text(const struct totals *t, char *text, size_t room)
{
	FILE *out = fmemopen(text, room, "w");
	char size[32], rate[32];
	unsigned percent;

	*text = '\0';
	if (!out)
		return;
	/* Print the rate only if bytes were transferred. */
	fprintf(out, "%s in %.2f s, %s%s%" PRIu64 " file%s",
		format_size(size, sizeof(size), t->bytes), (double)t->wall_ns / 1e9,
		t->bytes ? format_rate(rate, sizeof(rate), totals_rate(t)) : "",
		t->bytes ? ", " : "", t->files, plural(t->files));
	if (t->skipped > t->corrected)
		fprintf(out, ", %" PRIu64 " left alone", t->skipped - t->corrected);
	if (t->corrected)
		fprintf(out, ", %" PRIu64 " corrected", t->corrected);
	if (t->removed)
		fprintf(out, ", %" PRIu64 " removed", t->removed);
	if (t->resumed)
		fprintf(out, ", %s were there %s", format_size(size, sizeof(size), t->resumed),
			t->retries ? "when it was tried again" : "already");

	/* Of a moment, samples say little. */
	if (t->bytes && t->wall_ns >= SLOWEST_FROM_NS && stage_slowest(t->stages, &percent) < STAGES)
		fprintf(out, ", held back by %s (%u %%)",
			stage_name(stage_slowest(t->stages, &percent)), percent);
	if (t->failed)
		fprintf(out, ", %" PRIu64 " failed", t->failed);
	fclose(out);
}
