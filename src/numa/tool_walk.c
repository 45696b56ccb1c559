// SPDX-License-Identifier: Apache-2.0
/* rftp-numa walk, for "rftp-numa factor": takes a walk as JSON on standard input, {"cpu", "node",
 * "bytes", "runs", "counts": [[{"type", "config": ["0x1", "0", "0"], "cpus": "0,8"}, ...], ...]},
 * and prints each run of it, {"lines", "prefetch_ns": [...], "load_ns": [...], "counts": [[...],
 * ...]}, or {"error"}. With no runs it prints whether the counters can be opened, {"opened": [0 or
 * a negative errno, ...]}. */
#include "numa/tool.h"
#include "numa/walk.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#define BYTES_LEAST (1ll << 20)

/* ---- in ---- */

static int take_event(json_t *obj, struct perf_event *ev)
{
	const char *config[3], *cpus;
	json_int_t type;

	if (json_unpack(obj, "{s:I, s:[sss], s:s}", "type", &type, "config", &config[0], &config[1],
			&config[2], "cpus", &cpus))
		return -EINVAL;
	ev->type = (uint32_t)type;
	for (int i = 0; i < 3; i++)
		ev->config[i] = strtoull(config[i], NULL, 0);
	return ids_parse(cpus, &ev->cpus);
}

static int take_count(const json_t *list, struct walk_count *c)
{
	int r = 0;

	c->n = (unsigned)json_array_size(list);
	c->events = calloc(c->n + 1, sizeof(*c->events));
	if (!c->events)
		return -ENOMEM;
	for (unsigned i = 0; !r && i < c->n; i++)
		r = take_event(json_array_get(list, i), &c->events[i]);
	return r;
}

static int take_walk(json_t *obj, struct walk *w)
{
	json_int_t bytes;
	json_t *counts;
	int runs, r = 0;

	if (json_unpack(obj, "{s:i, s:i, s:I, s:i, s:o}", "cpu", &w->cpu, "node", &w->node, "bytes",
			&bytes, "runs", &runs, "counts", &counts) ||
	    bytes < BYTES_LEAST || runs < 0 || runs > (int)WALK_RUNS_MAX ||
	    json_array_size(counts) > WALK_COUNTS)
		return -EINVAL;
	w->bytes = (uint64_t)bytes;
	w->runs = (unsigned)runs;
	while (!r && w->counts < json_array_size(counts)) {
		r = take_count(json_array_get(counts, w->counts), &w->count[w->counts]);
		w->counts++;
	}
	return r;
}

/* ---- out ---- */

static json_t *runs_json(const double *v, unsigned n)
{
	json_t *list = json_array();

	for (unsigned i = 0; i < n; i++)
		json_array_append_new(list, json_real(v[i]));
	return list;
}

static json_t *result_json(const struct walk *w, const struct walk_result *r)
{
	json_t *counts = json_array();

	for (unsigned i = 0; i < w->counts; i++)
		json_array_append_new(counts, runs_json(r->count[i], w->runs));
	return json_pack("{s:I, s:o, s:o, s:o}", "lines", (json_int_t)r->lines, "prefetch_ns",
			 runs_json(r->prefetch_ns, w->runs), "load_ns",
			 runs_json(r->load_ns, w->runs), "counts", counts);
}

static json_t *try_counters(const struct walk *w)
{
	json_t *list = json_array();

	for (unsigned i = 0; i < w->counts; i++) {
		struct perf_counters c;

		json_array_append_new(list, json_integer(perf_open(w->count[i].events,
								   w->count[i].n, &c)));
		perf_close(&c);
	}
	return json_pack("{s:o}", "opened", list);
}

static json_t *do_walk(const struct walk *w)
{
	CLEANUP_FREE struct walk_result *r = calloc(1, sizeof(*r));
	struct err e = ERR_INIT;

	if (!r)
		err_set(&e, -ENOMEM, "out of memory");
	else if (!walk_run(w, r, &e))
		return result_json(w, r);
	return json_pack("{s:s}", "error", e.text);
}

enum tool_status tool_walk(int argc, char **argv)
{
	static const struct tool_option none[] = { { 0 } };
	struct walk w = { 0 };
	bool helped;
	enum tool_status status = tool_options(argc, argv, "A walk over memory, for factor.", none,
					       NULL, &helped);
	json_t *wanted, *found = NULL;

	if (status || helped)
		return status;
	wanted = json_loadf(stdin, 0, NULL);
	if (!wanted || take_walk(wanted, &w))
		log_error("standard input: this is no walk");
	else
		found = w.runs ? do_walk(&w) : try_counters(&w);
	for (unsigned i = 0; i < w.counts; i++)
		free(w.count[i].events);
	json_decref(wanted);
	return found && !json_emit(stdout, found) ? TOOL_DONE : TOOL_FAILED;
}
