// SPDX-License-Identifier: Apache-2.0
/* rftp-numa affinity: what it costs a disk when buffers or threads are on another node. */
#include "numa/affinity_show.h"
#include "numa/target.h"
#include "numa/tool.h"

#include <errno.h>
#include <limits.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#define NOT_GIVEN UINT_MAX

struct affinity_options {
	const char *path, *op;
	uint64_t size, block;
	unsigned jobs, seconds, runs, device_node, remote_node;
	bool buffered, json;
};

#define FIELD(name) offsetof(struct affinity_options, name)

static const struct tool_option options[] = {
	{ "path", TOOL_TEXT, FIELD(path), "PATH",
	  "a directory on the disk, or a file or disk to read", 0, 0 },
	{ "op", TOOL_TEXT, FIELD(op), "read|write", "what to do (read)", 0, 0 },
	{ "size", TOOL_SIZE, FIELD(size), "SIZE", "of the file, or how much of what there is (1G)",
	  4096, 1ull << 50 },
	{ "block", TOOL_SIZE, FIELD(block), "SIZE", "of a request (1M)", 512, 1u << 30 },
	{ "jobs", TOOL_COUNT, FIELD(jobs), "N", "threads with one request each (4)", 1, 1024 },
	{ "seconds", TOOL_COUNT, FIELD(seconds), "N", "that a run takes (10)", 1, 86400 },
	{ "runs", TOOL_COUNT, FIELD(runs), "N", "of each placement (3)", 3, RUNS_MAX },
	{ "device-node", TOOL_COUNT, FIELD(device_node), "N", "where the disk is", 0, NODE_MOST },
	{ "remote-node", TOOL_COUNT, FIELD(remote_node), "N", "the other one (the farthest)", 0,
	  NODE_MOST },
	{ "buffered", TOOL_SWITCH, FIELD(buffered), NULL, "through the page cache", 0, 0 },
	TOOL_JSON(struct affinity_options),
	{ 0 },
};

/* ---- what is asked for ---- */

static enum tool_status check(const struct affinity_options *o)
{
	if (!o->path || !*o->path)
		return tool_misused("--path is missing: a directory on the disk to be measured, or "
				    "a file or disk to be read", NULL);
	if (strcmp(o->op, "read") && strcmp(o->op, "write"))
		return tool_misused("--op takes read or write, not", o->op);
	if (o->block % 512)
		return tool_misused("--block takes whole sectors of 512 bytes", NULL);
	if (o->size / o->jobs < o->block)
		return tool_misused("--size has less than one --block for each of --jobs", NULL);
	if (o->remote_node != NOT_GIVEN && o->remote_node == o->device_node)
		return tool_misused("--remote-node and --device-node are the same", NULL);
	return TOOL_DONE;
}

static int given(unsigned node)
{
	return node == NOT_GIVEN ? NODE_UNKNOWN : (int)node;
}

/* ---- the machine ---- */

/* Without libnuma we cannot ask; fio, which has it, will tell. */
static bool may_bind(int r)
{
	return !r || r == -ENOSYS;
}

static void find_memory(struct affinity *a, const struct topo *t)
{
	for (unsigned i = 0; i < topo_nodes(t); i++)
		if (may_bind(place_may_have(topo_node(t, i)->id)))
			ids_add(&a->memory, (unsigned)topo_node(t, i)->id);
}

/* Threads of ours can run there, and there is memory that we may have. */
static int check_node(const struct topo *t, int id, const struct ids *allowed, struct err *e)
{
	struct ids usable = topo_cpus(t, id, allowed);
	struct node_memory m;
	int r;

	if (!topo_find(t, id))
		return err_set(e, -EINVAL, "this machine has no node %d (rftp-numa topo lists "
			       "them)", id);
	if (!ids_count(&usable))
		return err_set(e, -EINVAL, "node %d has no CPU that this process may use (cpuset, "
			       "taskset)", id);
	topo_memory(t, id, &m);
	if (!m.total)
		return err_set(e, -EINVAL, "node %d has no memory", id);
	r = place_may_have(id);
	return may_bind(r) ? 0 : err_set(e, r, "this process may not have memory of node %d "
					 "(cpuset, container): %s", id, strerror(-r));
}

static int choose_nodes(struct affinity *a, const struct affinity_options *o,
			const struct io_target *f, const struct topo *t, struct err *e)
{
	int r;

	a->device = f->node;
	a->remote = given(o->remote_node);
	r = check_node(t, a->device, &a->allowed, e);
	if (r)
		return r;
	if (a->remote == a->device)
		return err_set(e, -EINVAL, "node %d is the device's own: --remote-node must be "
			       "another", a->remote);
	if (a->remote != NODE_UNKNOWN)
		return check_node(t, a->remote, &a->allowed, e);
	find_memory(a, t);
	a->remote = farthest_node(t, a->device, &a->allowed, &a->memory);
	return 0;
}

/* ---- runs ---- */

static int run_one(const struct affinity *a, const struct placement *p, const struct topo *t,
		   const struct io_target *f, const struct stop *stop, struct fio_result *out,
		   struct err *e)
{
	struct fio_job job = {
		.name = p->name, .write = a->write, .direct = f->direct, .block = a->block,
		.slice = a->size / a->jobs / a->block * a->block, .jobs = a->jobs,
		.seconds = a->seconds, .memory_node = p->memory_node,
	};
	struct ids cpus;

	if (p->cpu_node != NODE_UNKNOWN) {
		cpus = topo_cpus(t, p->cpu_node, &a->allowed);
		job.cpus = &cpus;
	}
	target_drop_cache(f);
	return fio_run(&job, f->fd, stop, out, e);
}

/* There and back again, so that what drifts hits all placements alike. */
static int run_all(struct affinity *a, const struct topo *t, const struct io_target *f,
		   const struct stop *stop, struct err *e)
{
	int r = 0;

	for (unsigned run = 0; !r && run < a->runs; run++) {
		for (unsigned i = 0; !r && i < a->n; i++) {
			unsigned k = run % 2 ? a->n - 1 - i : i;

			r = run_one(a, &a->placement[k], t, f, stop, &a->result[k][run], e);
		}
	}
	return r;
}

static void tell(const struct affinity *a, const struct io_target *f)
{
	char left[32];

	if (a->remote == NODE_UNKNOWN)
		log_info("there is no other node with memory and CPUs that this process may use: "
			 "only the local placement can be measured, and no control");
	if (f->why_not_direct)
		log_warn("%s: no direct I/O (%s): it goes through the page cache",
			 printable(a->path), f->why_not_direct);
	log_info("%u runs of %u placements, %s", a->runs, a->n,
		 format_seconds(left, sizeof(left), (double)a->runs * a->n * a->seconds));
}

static int measure(struct affinity *a, const struct affinity_options *o, const struct topo *t,
		   struct io_target *f, const struct stop *stop, struct err *e)
{
	struct target_wish wish = {
		.path = o->path, .bytes = o->size, .block = o->block, .write = a->write,
		.buffered = o->buffered, .node = given(o->device_node),
	};
	int r = fio_check(stop, e);

	/* Before a big file is made for nothing. */
	if (!r && wish.node != NODE_UNKNOWN)
		r = check_node(t, wish.node, &a->allowed, e);
	if (!r && given(o->remote_node) != NODE_UNKNOWN)
		r = check_node(t, given(o->remote_node), &a->allowed, e);
	if (!r)
		r = target_open(f, &wish, t, stop, e);
	if (!r)
		r = choose_nodes(a, o, f, t, e);
	if (r)
		return r;
	a->size = f->bytes;
	a->direct = f->direct;
	if (a->size / a->jobs < a->block)
		return err_set(e, -EINVAL, "%s has %llu bytes: less than one --block for each of "
			       "--jobs", printable(o->path), (unsigned long long)a->size);
	a->n = placements(a->device, a->remote, a->placement);
	tell(a, f);
	return run_all(a, t, f, stop, e);
}

static int run(const struct affinity_options *o, struct err *e)
{
	struct affinity a = {
		.path = o->path, .write = !strcmp(o->op, "write"), .block = o->block,
		.jobs = o->jobs, .seconds = o->seconds, .runs = o->runs,
	};
	struct io_target f = { .fd = -1 };
	struct stop stop;
	struct topo *t;
	int r = place_cpus(&a.allowed);

	if (r)
		return err_sys(e, r, "asking for the CPUs that are allowed");
	/* To the end: a second one must not leave fio behind, either. */
	stop_begin(&stop);
	t = topo_read(NULL, e);
	r = t ? measure(&a, o, t, &f, &stop, e) : e->code;
	if (!r)
		r = o->json ? affinity_emit(&a) : affinity_say(&a);
	if (r && !e->code)
		err_sys(e, r, "standard output");
	target_close(&f);
	topo_free(t);
	return r;
}

enum tool_status tool_affinity(int argc, char **argv)
{
	struct affinity_options o = {
		.op = "read", .size = 1u << 30, .block = 1u << 20, .jobs = 4, .seconds = 10,
		.runs = 3, .device_node = NOT_GIVEN, .remote_node = NOT_GIVEN,
	};
	struct err e = ERR_INIT;
	bool helped;
	enum tool_status status = tool_options(argc, argv, "What it costs when buffers or threads "
					       "are not on a disk's node, by fio.", options, &o,
					       &helped);

	if (!status && !helped)
		status = check(&o);
	if (status || helped)
		return status;
	if (!run(&o, &e))
		return TOOL_DONE;
	log_error("%s", e.text);
	return TOOL_FAILED;
}
