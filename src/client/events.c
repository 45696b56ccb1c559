// SPDX-License-Identifier: Apache-2.0
/* Builds the events of --json and adds up what the last one tells. */
#include "client/events.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

int totals_add(struct totals *t, const struct transfer_result *r)
{
	uint32_t n = t->nchannels + r->nchannels;
	uint64_t *bytes = reallocarray(t->channel_bytes, n ? n : 1, sizeof(*bytes));

	if (!bytes)
		return -ENOMEM;
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
	t->left_out += r->local.left_out + r->remote.left_out; /* one of them was the source */
	t->cpu_local_ns += r->local.cpu_ns;
	t->cpu_remote_ns += r->remote.cpu_ns;
	t->wall_ns += r->wall_ns;
	t->channels_lost += r->channels_lost;
	t->fell_back |= r->fell_back;
	return 0;
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

static json_t *number(uint64_t v)
{
	return json_integer((json_int_t)v);
}

static json_t *seconds(uint64_t ns)
{
	return json_real((double)ns / 1e9);
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

json_t *event_started_foreign(const struct agreement *a, unsigned connections)
{
	return json_pack("{s:s, s:s, s:s, s:i, s:b, s:b}", "event", "started",
			 "transport", "ftp", "prot", prot_name(a->prot),
			 "connections", (int)connections, "rdma", 0, "block_integrity", 0);
}

json_t *event_progress(const struct transfer_progress *p)
{
	json_t *obj = json_pack("{s:s, s:f, s:I, s:I, s:b, s:I, s:I, s:I, s:I}",
				"event", "progress",
				"seconds", p->seconds,
				"bytes", (json_int_t)p->bytes,
				"bytes_known", (json_int_t)p->bytes_known,
				"walked", p->walked,
				"entries", (json_int_t)p->entries,
				"files", (json_int_t)p->files_done,
				"failed", (json_int_t)p->files_failed,
				"skipped", (json_int_t)p->files_skipped);

	if (obj && p->bottleneck)
		json_object_set_new(obj, "bottleneck", json_string(p->bottleneck));
	return obj;
}

json_t *event_file(const char *path, uint64_t bytes, bool skipped)
{
	json_t *obj = json_pack("{s:s, s:I, s:b}", "event", "file",
				"bytes", (json_int_t)bytes, "skipped", skipped);

	if (obj)
		json_set_name(obj, "path", path);
	return obj;
}

json_t *event_file_failed(const char *path, int code, const char *text)
{
	json_t *obj = json_pack("{s:s}", "event", "file_failed");
	const char *name = strerrorname_np(-code);

	if (!obj)
		return NULL;
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

static json_t *channel_list(const struct totals *t)
{
	json_t *list = json_array();

	for (uint32_t i = 0; list && i < t->nchannels; i++)
		json_array_append_new(list, number(t->channel_bytes[i]));
	return list;
}

/* What only the results of transfers tell. */
static void add_results(json_t *obj, const struct totals *t)
{
	if (t->broken_off)
		return;
	json_object_set_new(obj, "resumed", number(t->resumed));
	json_object_set_new(obj, "left_out", number(t->left_out));
	json_object_set_new(obj, "cpu_seconds_remote", seconds(t->cpu_remote_ns));
	json_object_set_new(obj, "channels", channel_list(t));
	json_object_set_new(obj, "channels_lost", number(t->channels_lost));
	json_object_set_new(obj, "fell_back", json_boolean(t->fell_back));
}

static void add_agreement(json_t *obj, const struct totals *t)
{
	const struct agreement *a = &t->agreement;

	if (!t->agreed)
		return;
	if (t->foreign) {
		json_object_set_new(obj, "transport", json_string("ftp"));
		json_object_set_new(obj, "prot", json_string(prot_name(a->prot)));
		return;
	}
	json_object_set_new(obj, "transport", json_string(transport_name(a->transport)));
	json_object_set_new(obj, "op", json_string(op_name(a)));
	json_object_set_new(obj, "prot", json_string(prot_name(a->prot)));
	json_object_set_new(obj, "ack", json_string(ack_name(a->ack)));
}

json_t *event_summary(const struct totals *t, int exit_status, const struct err *e)
{
	json_t *obj = json_pack("{s:s, s:i}", "event", "summary", "exit", exit_status);

	if (!obj)
		return NULL;
	json_object_set_new(obj, "bytes", number(t->bytes));
	json_object_set_new(obj, "seconds", seconds(t->wall_ns));
	json_object_set_new(obj, "bytes_per_second", json_real(totals_rate(t)));
	json_object_set_new(obj, "files", number(t->files));
	json_object_set_new(obj, "failed", number(t->failed));
	json_object_set_new(obj, "skipped", number(t->skipped));
	json_object_set_new(obj, "cpu_seconds_local", seconds(t->cpu_local_ns));
	add_agreement(obj, t);
	add_results(obj, t);
	json_object_set_new(obj, "retries", number(t->retries));
	if (e)
		json_set_name(obj, "error", e->text);
	return obj;
}
