// SPDX-License-Identifier: Apache-2.0
/* The table of placements, as text and as JSON. */
#include "numa/affinity_show.h"

#include <errno.h>
#include <stdio.h>

/* ---- for people ---- */

static const char *node_text(char out[24], int node)
{
	if (node == NODE_UNKNOWN)
		return "anywhere";
	snprintf(out, 24, "node %d", node);
	return out;
}

static void say_head(const struct affinity *a)
{
	char size[32], block[32], nodes[2][24];

	printf("%s: %s of %s in %s, %s, %u jobs, %u runs of %u s\n", printable(a->path),
	       a->write ? "writes" : "reads", format_size(block, sizeof(block), a->block),
	       format_size(size, sizeof(size), a->size), a->direct ? "direct" : "page cache",
	       a->jobs, a->runs, a->seconds);
	printf("device: %s, remote: %s\n\n", node_text(nodes[0], a->device),
	       a->remote == NODE_UNKNOWN ? "none" : node_text(nodes[1], a->remote));
	printf("%-10s %-10s %-10s %14s %7s %10s %12s %12s\n", "placement", "buffers", "threads",
	       "throughput", "ratio", "deviation", "mean", "99 %");
}

int affinity_say(const struct affinity *a)
{
	double best = summarise(a->result[0], a->runs).bytes_per_second;

	say_head(a);
	for (unsigned i = 0; i < a->n; i++) {
		const struct placement *p = &a->placement[i];
		struct summary s = summarise(a->result[i], a->runs);
		char rate[32], nodes[2][24];

		printf("%-10s %-10s %-10s %14s %7.3f %8.2f %% %9.1f us %9.1f us\n", p->name,
		       node_text(nodes[0], p->memory_node), node_text(nodes[1], p->cpu_node),
		       format_rate(rate, sizeof(rate), s.bytes_per_second),
		       s.bytes_per_second / best, 100 * s.deviation, s.mean_ns / 1e3,
		       s.p99_ns / 1e3);
	}
	return fflush(stdout) ? -errno : 0;
}

/* ---- for programs ---- */

static json_t *node_json(int node)
{
	return node == NODE_UNKNOWN ? json_null() : json_integer(node);
}

static json_t *runs_json(const struct fio_result *v, unsigned n)
{
	json_t *list = json_array();

	for (unsigned i = 0; i < n; i++)
		json_array_append_new(list, json_pack("{s:f, s:f, s:f}",
						      "bytes_per_second", v[i].bytes_per_second,
						      "mean_ns", v[i].mean_ns,
						      "p99_ns", v[i].p99_ns));
	return list;
}

static json_t *placement_json(const struct affinity *a, unsigned i)
{
	const struct placement *p = &a->placement[i];
	struct summary s = summarise(a->result[i], a->runs);
	double best = summarise(a->result[0], a->runs).bytes_per_second;

	return json_pack("{s:s, s:o, s:o, s:f, s:f, s:f, s:f, s:f, s:o}", "name", p->name,
			 "memory_node", node_json(p->memory_node), "cpu_node",
			 node_json(p->cpu_node), "bytes_per_second", s.bytes_per_second, "ratio",
			 s.bytes_per_second / best, "deviation", s.deviation, "mean_ns", s.mean_ns,
			 "p99_ns", s.p99_ns, "runs", runs_json(a->result[i], a->runs));
}

int affinity_emit(const struct affinity *a)
{
	json_t *list = json_array(), *obj;

	for (unsigned i = 0; i < a->n; i++)
		json_array_append_new(list, placement_json(a, i));
	obj = json_pack("{s:s, s:b, s:I, s:I, s:i, s:i, s:o, s:o, s:o}", "op",
			a->write ? "write" : "read", "direct", a->direct, "block",
			(json_int_t)a->block, "size", (json_int_t)a->size, "jobs", (int)a->jobs,
			"seconds", (int)a->seconds, "device_node", node_json(a->device),
			"remote_node", node_json(a->remote), "placements", list);
	if (!obj || json_set_name(obj, "path", a->path)) {
		json_decref(obj);
		return -ENOMEM;
	}
	return json_emit(stdout, obj);
}
