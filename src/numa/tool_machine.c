// SPDX-License-Identifier: Apache-2.0
/* rftp-numa machine: facts about nodes and network cards that the Python commands need and "topo"
 * does not show, as JSON. */
#include "numa/parts.h"
#include "numa/tool.h"
#include "numa/topo.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* "package": null when the firmware does not tell; "memory": 0 when it is not known; "room": bytes
 * that the node could give now; "may_have": 0, or why this process may have no memory of it, a
 * negative errno. */
static json_t *node_json(const struct topo *t, const struct node *n)
{
	struct ids cores = topo_cores(t, &n->cpus);
	int package = topo_package(t, n->id);
	json_t *distances = json_array();
	struct node_memory m;
	char cpus[IDS_MAX];

	topo_memory(t, n->id, &m);
	for (unsigned i = 0; i < topo_nodes(t); i++)
		json_array_append_new(distances, json_integer(n->distance[i]));
	return json_pack("{s:i, s:s, s:o, s:o, s:i, s:I, s:I, s:i}", "id", n->id, "cpus",
			 ids_format(cpus, sizeof(cpus), &n->cpus), "distances", distances,
			 "package", package == PACKAGE_UNKNOWN ? json_null() : json_integer(package),
			 "cores", (int)ids_count(&cores), "memory", (json_int_t)m.total, "room",
			 (json_int_t)m.room, "may_have", place_may_have(n->id));
}

/* Virtual interfaces and those that stand on others must not be counted beside the others; nor a
 * virtual function beside the card that it is a part of. */
static bool is_card(const struct topo *t, const struct part *nic)
{
	char path[PATH_MAX], real[PATH_MAX];

	snprintf(path, sizeof(path), "%.*s/class/net/%s", PATH_MAX - 96, t->sys, nic->name);
	if (!realpath(path, real) || strstr(real, "/devices/virtual/"))
		return false;
	snprintf(path, sizeof(path), "%.*s/class/net/%s/device/physfn", PATH_MAX - 96, t->sys,
		 nic->name);
	return access(path, F_OK) != 0;
}

static json_t *nics_json(const struct topo *t, const struct parts *all)
{
	json_t *list = json_array();

	for (size_t i = 0; i < all->n; i++) {
		const struct part *nic = &all->v[i];
		int node = ids_only(&nic->nodes);

		if (nic->kind == PART_NETWORK)
			json_array_append_new(list, json_pack(
				"{s:o, s:I, s:o, s:b}", "name", json_name(nic->name), "mbps",
				(json_int_t)nic->size, "node",
				node < 0 ? json_null() : json_integer(node), "card",
				(int)is_card(t, nic)));
	}
	return list;
}

static json_t *machine_json(const struct topo *t, const struct parts *all)
{
	json_t *nodes = json_array();

	for (unsigned i = 0; i < topo_nodes(t); i++)
		json_array_append_new(nodes, node_json(t, topo_node(t, i)));
	return json_pack("{s:o, s:o}", "nodes", nodes, "nics", nics_json(t, all));
}

struct machine_options {
	const char *model, *sysfs;
};

static const struct tool_option options[] = {
	{ "model", TOOL_TEXT, offsetof(struct machine_options, model), "FILE",
	  "also this I/O model, if it is this machine's", 0, 0 },
	TOOL_SYSFS(struct machine_options),
	{ 0 },
};

/* Adds it as its file has it, once that has been checked. */
static int add_model(json_t *obj, const struct topo *t, const char *file, struct err *e)
{
	struct model *m = model_read(file, t, e);

	if (!m)
		return e->code;
	model_free(m);
	return json_object_set_new(obj, "model", json_load_file(file, 0, NULL)) ?
	       err_set(e, -ESTALE, "%s: has changed meanwhile", printable(file)) : 0;
}

enum tool_status tool_machine(int argc, char **argv)
{
	struct machine_options o = { 0 };
	struct err e = ERR_INIT;
	bool helped;
	enum tool_status status = tool_options(argc, argv, "Facts about nodes and cards, as JSON.",
					       options, &o, &helped);
	struct parts all = { 0 };
	json_t *obj = NULL;
	struct topo *t;
	int r;

	if (status || helped)
		return status;
	t = topo_read(o.sysfs, &e);
	r = t ? parts_find(t, &all) : e.code;
	if (!r)
		obj = machine_json(t, &all);
	if (obj && o.model)
		r = add_model(obj, t, o.model, &e);
	if (!r)
		r = json_emit(stdout, json_incref(obj));
	json_decref(obj);
	if (r)
		log_error("%s", *e.text ? e.text : strerror(-r));
	parts_free(&all);
	topo_free(t);
	return r ? TOOL_FAILED : TOOL_DONE;
}
