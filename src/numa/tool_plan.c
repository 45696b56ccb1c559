// SPDX-License-Identifier: Apache-2.0
/* rftp-numa plan: how many threads should carry what by which nodes. */
#include "numa/plan_problem.h"
#include "numa/plan_show.h"
#include "numa/tool.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define LIMIT_SECONDS 60
#define LIMIT_MOST 86400
#define SAY_NS 500000000ull  /* between two lines of progress */

struct plan_options {
	struct plan_source from;
	const char *objective;
	unsigned limit;
	bool json;
};

static const struct tool_option options[] = {
	{ "problem", TOOL_TEXT, offsetof(struct plan_options, from.file), "FILE",
	  "nodes, bandwidths and data as JSON (see rftp-numa(1))", 0, 0 },
	{ "model", TOOL_TEXT, offsetof(struct plan_options, from.model), "FILE",
	  "bandwidths by this I/O model (the installed one)", 0, 0 },
	{ "data", TOOL_TEXT, offsetof(struct plan_options, from.data), "NODE:SIZE,...",
	  "what is on the disks of each node, as 0:100G,1:50G", 0, 0 },
	{ "nic", TOOL_TEXT, offsetof(struct plan_options, from.nics), "NAME,...",
	  "the network cards that it goes out by", 0, 0 },
	{ "objective", TOOL_TEXT, offsetof(struct plan_options, objective),
	  "makespan|sum", "what is to be least: the end, or all paths' times (makespan)", 0,
	  0 },
	{ "limit", TOOL_COUNT, offsetof(struct plan_options, limit), "SECONDS",
	  "how long to look for a better plan (60)", 1, LIMIT_MOST },
	TOOL_JSON(struct plan_options),
	{ "sysfs", TOOL_TEXT, offsetof(struct plan_options, from.sysfs), "DIR",
	  "another machine's sysfs, copied there", 0, 0 },
	{ 0 },
};

/* ---- while it searches ---- */

struct watch {
	uint64_t end, said;
	bool terminal;
	bool timed_out, interrupted;
	struct stop stop;
};

static void watch_start(struct watch *w, unsigned limit)
{
	*w = (struct watch){ .end = now_ns() + limit * 1000000000ull,
			     .said = now_ns(), .terminal = isatty(STDERR_FILENO) };
	stop_begin(&w->stop);
}

static void watch_end(struct watch *w)
{
	if (w->terminal)
		fputs("\r\033[K", stderr);
	/* Who asked for the end is told what was found; a second signal, which timeout(1) sends at
	 * once, must not take that away. */
	if (!w->interrupted)
		stop_end(&w->stop);
}

static void progress(struct watch *w, const struct staged_state *s)
{
	w->said = now_ns();
	fprintf(stderr, "\r\033[K%llu linear programmes; ", (unsigned long long)s->programmes);
	if (isinf(s->best))
		fputs("no plan yet", stderr);
	else
		fprintf(stderr, "best %.4g s, none is below %.4g s", s->best, s->bound);
}

static bool go_on(void *arg, const struct staged_state *s)
{
	struct watch *w = arg;
	uint64_t now = now_ns();

	w->timed_out |= now >= w->end;
	w->interrupted |= stop_asked(&w->stop);
	if (w->terminal && now - w->said >= SAY_NS)
		progress(w, s);
	return !w->timed_out && !w->interrupted;
}

static void say_unproven(const struct watch *w, const struct staged_state *s)
{
	char above[64] = "how far above the least is not known";

	if (s->bound > 0)
		snprintf(above, sizeof(above), "at most %.2g %% above the least",
			 (s->best / s->bound - 1) * 100);
	log_warn("%s after %llu linear programmes: this is the best plan of those examined, %s%s",
		 w->interrupted ? "interrupted" : "out of time",
		 (unsigned long long)s->programmes, above,
		 w->interrupted ? "" : "; --limit gives it more time");
}

/* ---- the command ---- */

static int plan(const struct plan_options *o, enum staged_objective objective, struct err *e)
{
	CLEANUP_FREE struct staged_problem *p = malloc(sizeof(*p));
	CLEANUP_FREE struct plan_found *f = malloc(sizeof(*f));
	struct watch w;
	int r = p && f ? plan_problem(&o->from, p, e) : err_set(e, -ENOMEM, "out of memory");

	if (r)
		return r;
	f->problem = p;
	f->objective = objective;
	watch_start(&w, o->limit);
	r = staged_solve(p, objective, go_on, &w, &f->plan, &f->state, e);
	watch_end(&w);
	if (r)
		return r;
	if (!f->state.proven)
		say_unproven(&w, &f->state);
	r = o->json ? plan_emit(f) : plan_say(f);
	return r ? err_sys(e, r, "standard output") : 0;
}

static int objective_of(const char *word, enum staged_objective *out)
{
	for (int i = STAGED_SUM; i <= STAGED_MAKESPAN; i++) {
		*out = (enum staged_objective)i;
		if (!strcmp(word, plan_objective(*out)))
			return 0;
	}
	return -EINVAL;
}

enum tool_status tool_plan(int argc, char **argv)
{
	/* Not the sum, which is what was published: it plans slower than no plan at all where
	 * paths could work side by side. */
	struct plan_options o = { .objective = "makespan", .limit = LIMIT_SECONDS };
	enum staged_objective objective;
	struct err e = ERR_INIT;
	bool helped;
	enum tool_status status = tool_options(
		argc, argv, "How many threads should carry what, from the disks of which node by "
		"which node's memory\nto which node's network cards.", options, &o, &helped);
	int r;

	if (status || helped)
		return status;
	if (!o.from.file && !o.from.data)
		return tool_misused("plan takes what there is from a file, --problem FILE, or by "
				    "the I/O model, --data NODE:SIZE,...", NULL);
	if (objective_of(o.objective, &objective))
		return tool_misused("--objective takes sum or makespan, not", o.objective);
	r = plan(&o, objective, &e);
	if (r == -EINVAL)
		return tool_misused(e.text, NULL);
	if (r)
		log_error("%s", e.text);
	return r ? TOOL_FAILED : TOOL_DONE;
}
