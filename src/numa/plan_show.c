// SPDX-License-Identifier: Apache-2.0
/* A staged plan for people and for programs. */
#include "numa/plan_show.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>

const char *plan_objective(enum staged_objective o)
{
	return o == STAGED_SUM ? "sum" : "makespan";
}

/* ---- for people ---- */

static const char *size_of(char text[32], double bytes)
{
	return format_size(text, 32, (uint64_t)llround(bytes));
}

static double seconds(const struct plan_found *f, enum staged_kind kind, unsigned from,
		      unsigned to)
{
	return staged_time(f->problem, &f->plan, kind, from, to);
}

static void say_flow(const char *does, const struct staged_flow *flow, double time)
{
	char text[32];

	printf("    %s %s with %g thread%s in %.4g s\n", does, size_of(text, flow->bytes),
	       flow->threads, flow->threads > 1 ? "s" : "", time);
}

static void say_path(const struct plan_found *f, unsigned u, unsigned v, unsigned w)
{
	const struct staged_problem *p = f->problem;
	double bytes = staged_path_bytes(&f->plan, p->n, u, v, w);
	char text[32];

	if (bytes <= 0)
		return;
	printf("storage %d -> memory %d -> network %d: %s in %.4g s\n", p->id[u], p->id[v],
	       p->id[w], size_of(text, bytes), staged_path_time(p, &f->plan, u, v, w));
	say_flow("read", &f->plan.disk[u][v], seconds(f, STAGED_DISK_THREADS, u, v));
	say_flow("send", &f->plan.network[v][w], seconds(f, STAGED_NETWORK_THREADS, v, w));
}

static void say_part(const struct plan_found *f, const struct staged_part *part)
{
	const struct staged_problem *p = f->problem;
	int from = p->id[part->from], to = p->id[part->to];
	char text[32];

	switch (part->kind) {
	case STAGED_DISK_THREADS:
		printf("the threads of node %d, which read from storage %d", to, from);
		break;
	case STAGED_NETWORK_THREADS:
		printf("the threads of node %d, which send to network %d", from, to);
		break;
	case STAGED_DISK:
		printf("the disks of storage %d (%s)", from,
		       format_rate(text, sizeof(text), p->disk_limit[part->from]));
		break;
	case STAGED_LINK:
		printf("the link from node %d to node %d (%s)", from, to,
		       format_rate(text, sizeof(text), p->link_limit[part->from][part->to]));
		break;
	case STAGED_NETWORK:
		printf("the cards of network %d (%s)", to,
		       format_rate(text, sizeof(text), p->network_limit[part->to]));
		break;
	}
}

static void say_bottlenecks(const struct plan_found *f)
{
	struct staged_part part[STAGED_PARTS];
	unsigned n = staged_bottlenecks(f->problem, &f->plan, part, STAGED_PARTS);

	printf("bottleneck: ");
	for (unsigned i = 0; i < n; i++) {
		printf("%s", i ? "; " : "");
		say_part(f, &part[i]);
	}
	puts(n ? "" : "none; more threads could be used");
}

static void say_spread(const struct plan_found *f)
{
	double time = staged_makespan(f->problem, &f->plan), other;
	struct staged_plan spread;

	if (staged_spread(f->problem, &spread)) {
		puts("spread evenly over all nodes: some of the ways have no bandwidth");
		return;
	}
	other = staged_makespan(f->problem, &spread);
	printf("spread evenly over all nodes it would take %.4g s, %.2f times as long\n", other,
	       other / time);
	if (other < time && f->objective == STAGED_SUM)
		puts("which is sooner: --objective makespan plans for the end, not for the sum");
}

static void say_threads(const struct plan_found *f)
{
	const struct staged_problem *p = f->problem;

	printf("threads:");
	for (unsigned v = 0; v < p->n; v++) {
		double used = 0;

		for (unsigned i = 0; i < p->n; i++)
			used += f->plan.disk[i][v].threads + f->plan.network[v][i].threads;
		printf("%s node %d %g of %u", v ? "," : "", p->id[v], used, p->threads[v]);
	}
	putchar('\n');
}

int plan_say(const struct plan_found *f)
{
	const struct staged_problem *p = f->problem;

	for (unsigned u = 0; u < p->n; u++)
		for (unsigned v = 0; v < p->n; v++)
			for (unsigned w = 0; w < p->n; w++)
				say_path(f, u, v, w);
	say_threads(f);
	printf("all is sent after %.4g s; the sum of the paths' times is %.4g s (least: the %s)\n",
	       staged_makespan(p, &f->plan), staged_sum(p, &f->plan),
	       plan_objective(f->objective));
	say_bottlenecks(f);
	say_spread(f);
	return fflush(stdout) ? -errno : 0;
}

/* ---- for programs ---- */

static json_t *path_json(const struct plan_found *f, unsigned u, unsigned v, unsigned w)
{
	const struct staged_problem *p = f->problem;

	return json_pack("{s:i, s:i, s:i, s:I, s:f}", "storage", p->id[u], "memory", p->id[v],
			 "network", p->id[w], "bytes",
			 (json_int_t)llround(staged_path_bytes(&f->plan, p->n, u, v, w)),
			 "seconds", staged_path_time(p, &f->plan, u, v, w));
}

static json_t *paths_json(const struct plan_found *f)
{
	json_t *list = json_array();
	unsigned n = f->problem->n;

	for (unsigned u = 0; u < n; u++)
		for (unsigned v = 0; v < n; v++)
			for (unsigned w = 0; w < n; w++)
				if (staged_path_bytes(&f->plan, n, u, v, w) > 0)
					json_array_append_new(list, path_json(f, u, v, w));
	return list;
}

static json_t *stages_json(const struct plan_found *f, enum staged_kind kind)
{
	const struct staged_problem *p = f->problem;
	bool disk = kind == STAGED_DISK_THREADS;
	json_t *list = json_array();

	for (unsigned i = 0; i < p->n * p->n; i++) {
		unsigned from = i / p->n, to = i % p->n;
		const struct staged_flow *flow = disk ? &f->plan.disk[from][to] :
						 &f->plan.network[from][to];

		if (flow->threads <= 0)
			continue;
		json_array_append_new(list, json_pack(
			"{s:i, s:i, s:I, s:I, s:f}", disk ? "storage" : "memory", p->id[from],
			disk ? "memory" : "network", p->id[to],
			"threads", (json_int_t)flow->threads,
			"bytes", (json_int_t)llround(flow->bytes),
			"seconds", seconds(f, kind, from, to)));
	}
	return list;
}

static json_t *bottlenecks_json(const struct plan_found *f)
{
	static const char *const kinds[] = {
		[STAGED_DISK_THREADS] = "disk_threads",
		[STAGED_NETWORK_THREADS] = "network_threads",
		[STAGED_DISK] = "disk_limit", [STAGED_LINK] = "link_limit",
		[STAGED_NETWORK] = "network_limit",
	};
	struct staged_part part[STAGED_PARTS];
	unsigned n = staged_bottlenecks(f->problem, &f->plan, part, STAGED_PARTS);
	json_t *list = json_array();

	for (unsigned i = 0; i < n; i++)
		json_array_append_new(list, json_pack(
			"{s:s, s:i, s:i}", "part", kinds[part[i].kind],
			"from", f->problem->id[part[i].from], "to", f->problem->id[part[i].to]));
	return list;
}

static json_t *spread_json(const struct plan_found *f)
{
	struct staged_plan spread;

	return staged_spread(f->problem, &spread) ? json_null() :
	       json_pack("{s:f, s:f}", "makespan", staged_makespan(f->problem, &spread), "sum",
			 staged_sum(f->problem, &spread));
}

int plan_emit(const struct plan_found *f)
{
	json_t *obj = json_pack("{s:s, s:f, s:f, s:b, s:f, s:I, s:o, s:o, s:o, s:o, s:o}",
				"objective", plan_objective(f->objective),
				"makespan", staged_makespan(f->problem, &f->plan),
				"sum", staged_sum(f->problem, &f->plan),
				"proven", (int)f->state.proven, "bound", f->state.bound,
				"programmes", (json_int_t)f->state.programmes,
				"paths", paths_json(f),
				"disk", stages_json(f, STAGED_DISK_THREADS),
				"network", stages_json(f, STAGED_NETWORK_THREADS),
				"bottlenecks", bottlenecks_json(f), "spread", spread_json(f));

	return obj ? json_emit(stdout, obj) : -ENOMEM;
}
