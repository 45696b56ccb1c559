// SPDX-License-Identifier: Apache-2.0
/* The factors, as text and as JSON. */
#include "numa/factor_show.h"

#include <errno.h>
#include <stdio.h>

/* ---- for people ---- */

static void say_head(const struct factor *f)
{
	char size[32], rate[32];

	printf("%u runs over %s; traffic: %s%s\n", f->runs,
	       format_size(size, sizeof(size), f->bytes), f->events.traffic[0].name,
	       f->events.approximate ?
	       " (reads served by other nodes stand for snoops)" : "");
	if (f->link)
		printf("link width: %s\n", format_rate(rate, sizeof(rate), (double)f->link));
	else
		puts("link width: not known (--link-width): factors are for comparison only");
}

static void say_count(const struct factor_cell *c, enum factor_count which)
{
	if (c->walk.count[which] < 0)
		printf(" %11s", "-");
	else
		printf(" %11.4f", c->walk.count[which] / c->walk.lines);
}

static void say_cell(const struct factor_cell *c)
{
	printf("%-7d", c->memory_node);
	if (c->rank)
		printf(" %10.4g %5u", c->factor, c->rank);
	else
		printf(" %10s %5s", "local", "-");
	printf(" %11.2f %9.1f", c->walk.prefetch_ns, c->walk.load_ns);
	for (int i = COUNT_TRAFFIC; i < (int)WALK_COUNTED; i++)
		say_count(c, (enum factor_count)i);
	putchar('\n');
}

int factor_say(const struct factor *f)
{
	say_head(f);
	for (unsigned i = 0; i < f->rows; i++) {
		printf("\nthread on node %d; counts are for a line of %u bytes\n",
		       f->row[i].cpu_node, WALK_LINE);
		printf("%-7s %10s %5s %11s %9s %11s %11s %11s %11s\n", "memory", "factor", "rank",
		       "prefetch ns", "load ns", "traffic", "LLC misses", "node loads", "stalls");
		for (unsigned k = 0; k < f->cells; k++)
			say_cell(&f->row[i].cell[k]);
	}
	return fflush(stdout) ? -errno : 0;
}

/* ---- for programs ---- */

static json_t *count_json(const struct factor_cell *c, enum factor_count which)
{
	return c->walk.count[which] < 0 ? json_null() :
	       json_real(c->walk.count[which] / c->walk.lines);
}

static json_t *cell_json(const struct factor_cell *c)
{
	return json_pack("{s:i, s:o, s:o, s:f, s:f, s:o, s:o, s:o, s:o}",
			 "memory_node", c->memory_node,
			 "factor", c->rank ? json_real(c->factor) : json_null(),
			 "rank", c->rank ? json_integer(c->rank) : json_null(),
			 "prefetch_ns", c->walk.prefetch_ns, "load_ns", c->walk.load_ns,
			 "traffic_per_line", count_json(c, COUNT_TRAFFIC),
			 "llc_misses_per_line", count_json(c, COUNT_LLC_MISSES),
			 "node_loads_per_line", count_json(c, COUNT_NODE_LOADS),
			 "stalls_per_line", count_json(c, COUNT_STALLS));
}

static json_t *rows_json(const struct factor *f)
{
	json_t *rows = json_array();

	for (unsigned i = 0; i < f->rows; i++) {
		json_t *cells = json_array();

		for (unsigned k = 0; k < f->cells; k++)
			json_array_append_new(cells, cell_json(&f->row[i].cell[k]));
		json_array_append_new(rows, json_pack("{s:i, s:o}", "cpu_node",
						      f->row[i].cpu_node, "memory", cells));
	}
	return rows;
}

static json_t *missing_json(const struct factor *f)
{
	json_t *list = json_array();

	for (unsigned i = 0; i < f->events.missing_n; i++)
		json_array_append_new(list, json_pack("{s:o, s:s}", "event",
						      json_name(f->events.missing[i].name), "why",
						      f->events.missing[i].why));
	return list;
}

int factor_emit(const struct factor *f)
{
	json_t *obj = json_pack("{s:b, s:s, s:b, s:o, s:I, s:i, s:o, s:o}", "measurable", 1,
				"traffic", f->events.traffic[0].name,
				"approximate", f->events.approximate, "link_bytes_per_second",
				f->link ? json_integer((json_int_t)f->link) : json_null(),
				"size", (json_int_t)f->bytes, "runs", (int)f->runs,
				"missing", missing_json(f), "nodes", rows_json(f));

	return obj ? json_emit(stdout, obj) : -ENOMEM;
}

int factor_emit_why(const struct factor *f, const char *const *reasons, unsigned n)
{
	json_t *list = json_array(), *obj;

	for (unsigned i = 0; i < n; i++)
		json_array_append_new(list, json_string(reasons[i]));
	obj = json_pack("{s:b, s:o, s:o}", "measurable", 0, "reasons", list, "missing",
			missing_json(f));
	return obj ? json_emit(stdout, obj) : -ENOMEM;
}
