// SPDX-License-Identifier: Apache-2.0
/* rftp-numa factor: how much worse the memory of each other node is, by the scheduling factor. */
#include "numa/factor.h"
#include "numa/factor_show.h"
#include "numa/tool.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define REASONS_MAX 2

struct factor_options {
	const char *link_width, *snoop_event;
	uint64_t size;
	unsigned runs;
	bool json;
};

#define FIELD(name) offsetof(struct factor_options, name)

static const struct tool_option options[] = {
	{ "link-width", TOOL_TEXT, FIELD(link_width), "RATE",
	  "of a link between nodes: 166Gbit, or 20G bytes", 0, 0 },
	{ "snoop-event", TOOL_TEXT, FIELD(snoop_event), "EVENT",
	  "what counts coherency traffic, as perf names it", 0, 0 },
	{ "size", TOOL_SIZE, FIELD(size), "SIZE", "of the memory, several times the caches (256M)",
	  1u << 20, 1ull << 40 },
	{ "runs", TOOL_COUNT, FIELD(runs), "N", "of each pair of nodes (5)", 1, WALK_RUNS_MAX },
	TOOL_JSON(struct factor_options),
	{ 0 },
};

/* ---- nodes ---- */

struct usable {
	const struct topo *t;
	struct ids cpus;       /* that we are allowed */
	struct ids run, have;  /* nodes with any of them; nodes with memory that we may have */
};

static int find_usable(const struct topo *t, struct usable *u)
{
	int r;

	*u = (struct usable){ .t = t };
	r = place_cpus(&u->cpus);
	for (unsigned i = 0; i < topo_nodes(t); i++) {
		int id = topo_node(t, i)->id;
		struct ids cpus = topo_cpus(t, id, &u->cpus);
		struct node_memory m;

		topo_memory(t, id, &m);
		if (ids_count(&cpus))
			ids_add(&u->run, (unsigned)id);
		/* What else is in the way is the same for all nodes, and told when it comes. */
		if (m.total && place_may_have(id) != -EINVAL)
			ids_add(&u->have, (unsigned)id);
	}
	return r;
}

static bool has_remote(const struct usable *u)
{
	struct ids all = u->run;

	ids_unite(&all, &u->have);
	return ids_count(&u->run) && ids_count(&u->have) && ids_count(&all) > 1;
}

/* ---- measuring ---- */

static int measure_cell(const struct factor *f, const struct usable *u, int cpu_node,
			struct factor_cell *c, struct err *e)
{
	struct ids cpus = topo_cpus(u->t, cpu_node, &u->cpus);
	struct node_memory m;
	struct walk w = { .node = c->memory_node, .bytes = f->bytes, .runs = f->runs };
	char size[32];
	int r;

	/* The kernel would end us where there is not enough. */
	if (!topo_memory(u->t, c->memory_node, &m) && m.room < f->bytes)
		return err_set(e, -ENOMEM, "node %d has not %s of memory to spare (--size)",
			       c->memory_node, format_size(size, sizeof(size), f->bytes));
	w.cpu = ids_next(&cpus, 0);
	w.counted[COUNT_TRAFFIC] = (struct walk_counted){ f->events.traffic, f->events.traffic_n };
	for (int i = COUNT_LLC_MISSES; i < (int)WALK_COUNTED; i++)
		w.counted[i] = (struct walk_counted){ &f->events.other[i], f->events.have[i] };
	r = walk_run(&w, &c->walk, e);
	c->factor = FACTOR_NONE;
	if (!r && c->memory_node != cpu_node) {
		struct factor_counts counts = { c->walk.count[COUNT_TRAFFIC], c->walk.lines,
						c->walk.prefetch_ns };

		r = factor_of(&counts, f->link, &c->factor);
		if (r)
			err_set(e, r, "there is no factor of what was counted");
	}
	return r ? err_prefix(e, "a thread on node %d, memory of node %d", cpu_node,
			      c->memory_node) : 0;
}

static int rank(struct factor_row *row, unsigned cells)
{
	CLEANUP_FREE double *factor = calloc(cells, sizeof(*factor));
	CLEANUP_FREE unsigned *place = calloc(cells, sizeof(*place));

	if (!factor || !place)
		return -ENOMEM;
	for (unsigned i = 0; i < cells; i++)
		factor[i] = row->cell[i].factor;
	factor_ranks(factor, cells, place);
	for (unsigned i = 0; i < cells; i++)
		row->cell[i].rank = place[i];
	return 0;
}

static int measure_row(struct factor *f, const struct usable *u, int cpu_node, struct err *e)
{
	struct factor_row *row = &f->row[f->rows];
	unsigned k = 0;
	int r = 0;

	row->cpu_node = cpu_node;
	row->cell = calloc(f->cells, sizeof(*row->cell));
	if (!row->cell)
		return err_set(e, -ENOMEM, "out of memory");
	f->rows++;
	for (int id = -1; !r && (id = ids_next(&u->have, (unsigned)(id + 1))) >= 0; k++) {
		row->cell[k].memory_node = id;
		r = measure_cell(f, u, cpu_node, &row->cell[k], e);
	}
	if (!r && rank(row, f->cells))
		r = err_set(e, -ENOMEM, "out of memory");
	return r;
}

static int measure(struct factor *f, const struct usable *u, struct err *e)
{
	int r = 0;

	f->cells = ids_count(&u->have);
	f->row = calloc(ids_count(&u->run), sizeof(*f->row));
	if (!f->row)
		return err_set(e, -ENOMEM, "out of memory");
	for (int id = -1; !r && (id = ids_next(&u->run, (unsigned)(id + 1))) >= 0;)
		r = measure_row(f, u, id, e);
	return r;
}

static void clear(struct factor *f)
{
	for (unsigned i = 0; i < f->rows; i++)
		free(f->row[i].cell);
	free(f->row);
}

/* ---- or not ---- */

/* Why it cannot be; 0: it can. */
static unsigned why_not(const struct factor *f, const struct usable *u,
			char events[FACTOR_MISSING_TEXT + 64], const char *reasons[REASONS_MAX])
{
	char text[FACTOR_MISSING_TEXT];
	unsigned n = 0;

	if (topo_nodes(u->t) == 1)
		reasons[n++] = "there is one NUMA node, so that no memory is remote";
	else if (!has_remote(u))
		reasons[n++] = "only one node has CPUs and memory that this process may use";
	snprintf(events, FACTOR_MISSING_TEXT + 64, "nothing counts coherency traffic (%s)",
		 factor_missing_text(text, &f->events));
	if (!f->events.traffic_n)
		reasons[n++] = events;
	return n;
}

static int show(struct factor *f, const struct usable *u, bool json, struct err *e)
{
	char events[FACTOR_MISSING_TEXT + 64], text[FACTOR_MISSING_TEXT];
	const char *reasons[REASONS_MAX];
	unsigned n = why_not(f, u, events, reasons);
	int r;

	if (n) {
		r = json ? factor_emit_why(f, reasons, n) : 0;
		return r ? err_sys(e, r, "standard output") :
		       err_set(e, -ENOTSUP, "not measurable here: %s%s%s", reasons[0],
			       n > 1 ? "; " : "", n > 1 ? reasons[1] : "");
	}
	if (f->events.missing_n)
		log_info("not counted: %s", factor_missing_text(text, &f->events));
	r = measure(f, u, e);
	if (r)
		return r;
	r = json ? factor_emit(f) : factor_say(f);
	return r ? err_sys(e, r, "standard output") : 0;
}

static int run(const struct factor_options *o, struct factor *f, struct err *e)
{
	struct topo *t = topo_read(NULL, e);
	struct usable u;
	int r = t ? find_usable(t, &u) : e->code;

	if (t && r)
		err_sys(e, r, "the CPUs that are allowed");
	if (!r)
		r = factor_events_find(t, o->snoop_event, &f->events, e);
	if (!r)
		r = show(f, &u, o->json, e);
	topo_free(t);
	return r;
}

enum tool_status tool_factor(int argc, char **argv)
{
	struct factor_options o = { .size = 256u << 20, .runs = 5 };
	CLEANUP_FREE struct factor *f = calloc(1, sizeof(*f));
	uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
	struct err e = ERR_INIT;
	bool helped;
	enum tool_status status = tool_options(argc, argv, "How much worse the memory of other "
					       "nodes is: the NUMA scheduling factor.", options,
					       &o, &helped);
	int r;

	if (status || helped)
		return status;
	if (!f) {
		log_error("out of memory");
		return TOOL_FAILED;
	}
	if (o.link_width && (parse_rate(o.link_width, &f->link) || !f->link))
		return tool_misused("--link-width takes a rate above 0 (20G bytes, 160Gbit), not",
				    o.link_width);
	f->bytes = o.size / page * page;
	f->runs = o.runs;
	r = run(&o, f, &e);
	clear(f);
	if (r)
		log_error("%s", e.text);
	return r ? TOOL_FAILED : TOOL_DONE;
}
