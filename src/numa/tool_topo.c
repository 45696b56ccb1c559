// SPDX-License-Identifier: Apache-2.0
/* rftp-numa topo: the nodes of this machine and what is on each. */
#include "numa/parts.h"
#include "numa/tool.h"
#include "numa/topo.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

struct topo_options {
	const char *sysfs;
	bool json;
	struct tool_list at;
};

static const char *const titles[PART_KINDS] = {
	[PART_NETWORK] = "network", [PART_RDMA] = "RDMA", [PART_DISK] = "disks",
};

/* Is p on the node with this number, or, for NODE_UNKNOWN, on none that is known? */
static bool is_on(const struct part *p, int node)
{
	return node == NODE_UNKNOWN ? !ids_count(&p->nodes) : ids_has(&p->nodes, (unsigned)node);
}

/* ---- for people ---- */

static void say_part(const struct part *p, bool first)
{
	char text[IDS_MAX];

	printf("%s%s", first ? "" : ", ", printable(p->name));
	if (p->kind == PART_NETWORK && p->size >= 1000)
		printf(" %g Gbit/s", (double)p->size / 1000);
	else if (p->kind == PART_NETWORK && p->size)
		printf(" %llu Mbit/s", (unsigned long long)p->size);
	else if (p->kind == PART_DISK)
		printf(" %s", format_size(text, sizeof(text), p->size));
	if (ids_count(&p->nodes) > 1)
		printf(" (nodes %s)", ids_format(text, sizeof(text), &p->nodes));
}

static void say_parts(const struct parts *all, int node)
{
	for (int kind = 0; kind < PART_KINDS; kind++) {
		bool first = true;

		for (size_t i = 0; i < all->n; i++) {
			if (all->v[i].kind != (enum part_kind)kind || !is_on(&all->v[i], node))
				continue;
			if (first)
				printf("    %-9s", titles[kind]);
			say_part(&all->v[i], first);
			first = false;
		}
		if (!first)
			putchar('\n');
	}
}

static void say_node(const struct topo *t, const struct node *n)
{
	char cpus[IDS_MAX], all[32], left[32];
	struct node_memory m;

	printf("node %d\n", n->id);
	printf("    %-9s%s\n", "CPUs", ids_count(&n->cpus) ?
	       ids_format(cpus, sizeof(cpus), &n->cpus) : "none");
	if (topo_memory(t, n->id, &m))
		printf("    %-9s%s", "memory", "not known");
	else
		printf("    %-9s%s, %s free", "memory", format_size(all, sizeof(all), m.total),
		       format_size(left, sizeof(left), m.free));
	if (m.huge)
		printf("; in huge pages %s, %s free", format_size(all, sizeof(all), m.huge),
		       format_size(left, sizeof(left), m.huge_free));
	putchar('\n');
	if (topo_nodes(t) == 1)
		return;
	printf("    %-9s", "distance");
	for (unsigned i = 0; i < topo_nodes(t); i++)
		printf("%s%d: %u", i ? ", " : "", topo_node(t, i)->id, n->distance[i]);
	putchar('\n');
}

static bool has_unknown(const struct parts *all)
{
	for (size_t i = 0; i < all->n; i++)
		if (is_on(&all->v[i], NODE_UNKNOWN))
			return true;
	return false;
}

/* ---- --at ---- */

/* Where what is stored at path lies. */
struct location {
	const char *absent; /* why there is nothing; NULL: there is, or that cannot be known */
	struct ids nodes;   /* empty: not known */
};

/* Of a copied sysfs only the names of devices can be looked up; links to them were udev's. */
static struct location location_of_name(const struct topo *t, const char *path)
{
	const char *name = strncmp(path, "/dev/", strlen("/dev/")) ? NULL : path + strlen("/dev/");
	struct location p = { 0 };

	if (!name || strchr(name, '/'))
		return p;
	if (!topo_has_block(t, name))
		p.absent = "no block device is called so there";
	p.nodes = topo_block(t, name);
	return p;
}

/* A block device, or the one that a file's filesystem is on. */
static struct location location_of(const struct topo *t, const char *path)
{
	struct location p = { 0 };
	struct stat st;

	if (!sys_is_own(t))
		return location_of_name(t, path);
	if (stat(path, &st))
		p.absent = strerror(errno);
	else
		p.nodes = topo_device(t, S_ISBLK(st.st_mode) ? st.st_rdev : st.st_dev);
	return p;
}

static void say_locations(const struct topo *t, const struct tool_list *paths)
{
	for (unsigned i = 0; i < paths->n; i++) {
		const struct location p = location_of(t, paths->word[i]);
		char text[IDS_MAX];

		printf("%s: ", printable(paths->word[i]));
		if (p.absent)
			puts(p.absent);
		else if (!ids_count(&p.nodes))
			puts("no node, or not known");
		else
			printf("node %s\n", ids_format(text, sizeof(text), &p.nodes));
	}
}

static void say(const struct topo *t, const struct parts *all)
{
	for (unsigned i = 0; i < topo_nodes(t); i++) {
		say_node(t, topo_node(t, i));
		say_parts(all, topo_node(t, i)->id);
	}
	if (!has_unknown(all))
		return;
	puts("no node, or not known");
	say_parts(all, NODE_UNKNOWN);
}

/* ---- for programs ---- */

/* Names of the interfaces that an RDMA device is used by. */
static json_t *interfaces_json(const struct topo *t, const struct parts *all, const char *device)
{
	json_t *list = json_array();
	char used[RDMA_NAME];

	for (size_t i = 0; i < all->n; i++)
		if (all->v[i].kind == PART_NETWORK &&
		    !topo_netdev_rdma(t, all->v[i].name, used) && !strcmp(used, device))
			json_array_append_new(list, json_name(all->v[i].name));
	return list;
}

/* Interfaces without hardware of their own, as bridges, and virtual functions, which are a part of
 * another interface's card. */
static bool is_virtual(const struct topo *t, const struct part *nic)
{
	char path[PATH_MAX], real[PATH_MAX];

	snprintf(path, sizeof(path), "%.*s/class/net/%s", PATH_MAX - 96, t->sys, nic->name);
	if (!realpath(path, real) || strstr(real, "/devices/virtual/"))
		return true;
	snprintf(path, sizeof(path), "%.*s/class/net/%s/device/physfn", PATH_MAX - 96, t->sys,
		 nic->name);
	return !access(path, F_OK);
}

static json_t *part_json(const struct topo *t, const struct parts *all, const struct part *p)
{
	json_t *obj = json_pack("{s:o}", "name", json_name(p->name));
	char text[IDS_MAX];

	if (obj && p->size)
		json_object_set_new(obj, p->kind == PART_DISK ? "bytes" : "mbps",
				    json_integer((json_int_t)p->size));
	if (obj && ids_count(&p->nodes) > 1)
		json_object_set_new(obj, "nodes",
				    json_string(ids_format(text, sizeof(text), &p->nodes)));
	if (obj && p->kind == PART_NETWORK && is_virtual(t, p))
		json_object_set_new(obj, "virtual", json_true());
	if (obj && p->kind == PART_RDMA)
		json_object_set_new(obj, "interfaces", interfaces_json(t, all, p->name));
	return obj;
}

static void set_parts(json_t *obj, const struct topo *t, const struct parts *all, int node)
{
	static const char *const keys[PART_KINDS] = { "network", "rdma", "disks" };

	for (int kind = 0; kind < PART_KINDS; kind++) {
		json_t *list = json_array();

		for (size_t i = 0; i < all->n; i++)
			if (all->v[i].kind == (enum part_kind)kind && is_on(&all->v[i], node))
				json_array_append_new(list, part_json(t, all, &all->v[i]));
		json_object_set_new(obj, keys[kind], list);
	}
}

static json_t *node_json(const struct topo *t, const struct node *n, const struct parts *all)
{
	struct ids cores = topo_cores(t, &n->cpus);
	json_t *distances = json_array(), *obj;
	int package = topo_package(t, n->id);
	struct node_memory m;
	char cpus[IDS_MAX];

	for (unsigned i = 0; i < topo_nodes(t); i++)
		json_array_append_new(distances, json_integer(n->distance[i]));
	obj = json_pack("{s:i, s:s, s:i, s:o}", "id", n->id, "cpus",
			ids_format(cpus, sizeof(cpus), &n->cpus), "cores", (int)ids_count(&cores),
			"distances", distances);
	if (obj && package != PACKAGE_UNKNOWN)
		json_object_set_new(obj, "package", json_integer(package));
	if (obj && !topo_memory(t, n->id, &m)) {
		json_object_set_new(obj, "memory", json_integer((json_int_t)m.total));
		json_object_set_new(obj, "memory_free", json_integer((json_int_t)m.free));
		json_object_set_new(obj, "memory_room", json_integer((json_int_t)m.room));
		json_object_set_new(obj, "huge", json_integer((json_int_t)m.huge));
		json_object_set_new(obj, "huge_free", json_integer((json_int_t)m.huge_free));
	}
	if (obj)
		set_parts(obj, t, all, n->id);
	return obj;
}

static json_t *locations_json(const struct topo *t, const struct tool_list *paths)
{
	json_t *list = json_array();

	for (unsigned i = 0; i < paths->n; i++) {
		const struct location p = location_of(t, paths->word[i]);
		char text[IDS_MAX];
		json_t *obj = json_pack("{s:o, s:s}", "path", json_name(paths->word[i]), "nodes",
					ids_format(text, sizeof(text), &p.nodes));

		if (obj && p.absent)
			json_object_set_new(obj, "absent", json_string(p.absent));
		json_array_append_new(list, obj);
	}
	return list;
}

static int emit(const struct topo *t, const struct parts *all, const struct tool_list *paths)
{
	json_t *nodes = json_array(), *unknown = json_object(), *obj;

	for (unsigned i = 0; i < topo_nodes(t); i++)
		json_array_append_new(nodes, node_json(t, topo_node(t, i), all));
	if (unknown)
		set_parts(unknown, t, all, NODE_UNKNOWN);
	obj = json_pack("{s:o, s:o}", "nodes", nodes, "unknown", unknown);
	if (obj && paths->n)
		json_object_set_new(obj, "at", locations_json(t, paths));
	return obj ? json_emit(stdout, obj) : -ENOMEM;
}

static const struct tool_option options[] = {
	{ "at", TOOL_LIST, offsetof(struct topo_options, at), "PATH",
	  "also the nodes of the disks that this file or device is on", 0, 0 },
	TOOL_JSON(struct topo_options),
	TOOL_SYSFS(struct topo_options),
	{ 0 },
};

static int show(const struct topo_options *o, struct err *e)
{
	struct topo *t = topo_read(o->sysfs, e);
	struct parts all = { 0 };
	int r = t ? parts_find(t, &all) : e->code;

	if (!r && o->json)
		r = emit(t, &all, &o->at);
	else if (!r) {
		say(t, &all);
		say_locations(t, &o->at);
	}
	if (!r && fflush(stdout))
		r = -errno;
	parts_free(&all);
	topo_free(t);
	return r;
}

enum tool_status tool_topo(int argc, char **argv)
{
	struct topo_options o = { 0 };
	struct err e = ERR_INIT;
	bool helped;
	enum tool_status status = tool_options(argc, argv,
					       "The nodes of this machine, and what is on each.",
					       options, &o, &helped);
	int r;

	if (status || helped)
		return status;
	r = show(&o, &e);
	if (r)
		log_error("%s", *e.text ? e.text : strerror(-r));
	return r ? TOOL_FAILED : TOOL_DONE;
}
