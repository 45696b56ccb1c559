// SPDX-License-Identifier: Apache-2.0
/* rftp-iser verify: is what is up what the plan says? */
#include "iser_setup/tool.h"

#include "iser_setup/io_check.h"
#include "iser_setup/judge.h"
#include "iser_setup/seen.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct verify_options {
	const char *state;
	bool io, json;
};

static const struct tool_option options[] = {
	{ "io", TOOL_SWITCH, offsetof(struct verify_options, io), NULL,
	  "write and read a pattern, to a ramdisk made for it, through each portal", 0, 0 },
	TOOL_JSON(struct verify_options),
	ISER_STATE(struct verify_options, "was applied"),
	{ 0 },
};

/* What came of one plan. */
struct verified {
	const struct seen_plan *plan;
	struct findings findings;
	struct io_checked *io;
	size_t n_io;
	struct lines io_failed;
};

struct verify {
	struct verify_options o;
	struct seen seen;
	struct iser_state *others; /* of the one that is judged; bytes of seen's, not owned */
	struct stop stop;
	struct verified *done;
	size_t n_done;
};

/* ---- judging ---- */

static int judge_plan(struct verify *v, size_t nth, struct verified *out, struct err *e)
{
	const struct iser_state *state = &v->seen.plans[nth].state;
	const struct iser_plan *plan = seen_plan(state);
	struct judge_ask ask = { .plan = plan, .unfinished = state->applying,
				 .now = v->seen.lio };
	struct look_ask look = { .plan = plan, .state = state, .others = v->others,
				 .now = v->seen.lio, .t = v->seen.t };
	struct facts *facts;
	int r = -ENOMEM;

	for (size_t i = 0; i < v->seen.n_plans; i++)
		if (i != nth)
			v->others[look.n_others++] = v->seen.plans[i].state;
	facts = facts_read(&look);
	ask.facts = facts;
	if (facts)
		r = judge(&ask, &out->findings);
	facts_free(facts, plan);
	return r ? err_set(e, r, "out of memory") : 0;
}

/* ---- a pattern through each portal ---- */

/* Whatever fails is one line, and the next portal has its turn. */
static int check_portal(struct verify *v, struct verified *out, const struct iser_target *t,
			const struct iser_portal *p)
{
	struct io_checked *one;
	struct err e = ERR_INIT;

	if (!p->iser)
		return 0;
	one = iser_plan_add(out->io, out->n_io);
	if (!one)
		return -ENOMEM;
	if (!io_check(v->seen.t, t, p, &v->stop, one, &e))
		return 0;
	out->n_io--;
	lines_add(&out->io_failed, "portal %s port %u of %s: %s", p->address, p->port, t->iqn,
		  e.text);
	return e.code == -EINTR ? -EINTR : 0;
}

static int check_io(struct verify *v, struct verified *out, struct err *e)
{
	const struct iser_plan *p = seen_plan(&out->plan->state);
	int r = 0;

	for (size_t i = 0; i < p->n_targets; i++)
		for (size_t k = 0; !r && k < p->targets[i].n_portals; k++)
			r = check_portal(v, out, &p->targets[i], &p->targets[i].portals[k]);
	return r ? err_sys(e, r, "verify --io") : 0;
}

static int verify(struct verify *v, const char *name, struct err *e)
{
	struct seen *s = &v->seen;
	int r;

	s->t = topo_read(NULL, e);
	/* Of all: one list of CPUs serves them together. */
	r = s->t ? seen_plans(s, v->o.state, NULL, e) : e->code;
	if (r)
		return r;
	s->lio = lio_read(NULL, e);
	v->others = calloc(s->n_plans + 1, sizeof(*v->others));
	v->done = calloc(s->n_plans + 1, sizeof(*v->done));
	if (!s->lio || !v->others || !v->done)
		return e->code ? e->code : err_set(e, -ENOMEM, "out of memory");
	for (size_t i = 0; !r && i < s->n_plans; i++) {
		struct verified *out = &v->done[v->n_done];

		if (name && strcmp(s->plans[i].state.name, name))
			continue;
		v->n_done++;
		out->plan = &s->plans[i];
		r = judge_plan(v, i, out, e);
		if (!r && v->o.io)
			r = check_io(v, out, e);
	}
	return r;
}

static void verify_end(struct verify *v)
{
	for (size_t i = 0; i < v->n_done; i++) {
		findings_clear(&v->done[i].findings);
		free(v->done[i].io);
		lines_clear(&v->done[i].io_failed);
	}
	free(v->done);
	free(v->others);
	seen_clear(&v->seen);
}

static bool is_right(const struct verified *d)
{
	return !d->findings.wrong && !d->findings.unseen && !d->io_failed.n &&
	       !d->io_failed.lost;
}

/* ---- for people ---- */

static void show_finding(const struct finding *f)
{
	static const char *const words[JUDGED_KINDS] = {
		[JUDGED_OK] = "ok", [JUDGED_WRONG] = "WRONG", [JUDGED_UNSEEN] = "UNSEEN",
	};

	printf("%-6s %s: %s", words[f->judged], f->about, f->text);
	if (f->mend)
		printf(" -> %s", f->mend);
	putchar('\n');
}

static void show_io(const struct io_checked *c)
{
	char written[32], read_back[32];

	printf("ok     portal %s port %u of %s: %u MiB written at %s, read at %s, the same, by %s, "
	       "on node %d\n", c->portal->address, c->portal->port, c->iqn, IO_CHECK_SIZE >> 20,
	       format_rate(written, sizeof(written), c->write),
	       format_rate(read_back, sizeof(read_back), c->read), c->transport, c->node);
}

static void show(const struct verified *d)
{
	const struct findings *f = &d->findings;

	for (size_t i = 0; i < f->n; i++)
		show_finding(&f->v[i]);
	for (size_t i = 0; i < d->n_io; i++)
		show_io(&d->io[i]);
	for (size_t i = 0; i < d->io_failed.n; i++)
		printf("WRONG  %s\n", d->io_failed.v[i]);
	printf("plan %s: %zu looked at, %zu wrong, %zu not seen\n", d->plan->state.name,
	       f->n + d->n_io + d->io_failed.n, f->wrong + d->io_failed.n, f->unseen);
}

/* ---- for programs ---- */

static json_t *finding_json(const struct finding *f)
{
	return json_pack("{s:s, s:s, s:o, s:o, s:o}", "judged", judged_words[f->judged], "check",
			 f->check, "about", json_name(f->about), "text", json_name(f->text),
			 "mend", f->mend ? json_name(f->mend) : json_null());
}

static json_t *io_json(const struct io_checked *c)
{
	return json_pack("{s:s, s:s, s:i, s:i, s:s, s:i, s:f, s:f}", "iqn", c->iqn, "address",
			 c->portal->address, "port", (int)c->portal->port, "node", c->node,
			 "transport", c->transport, "bytes", (int)IO_CHECK_SIZE,
			 "write_bytes_per_second", c->write, "read_bytes_per_second", c->read);
}

static json_t *verified_json(const struct verified *d)
{
	json_t *findings = json_array(), *io = json_array(), *o;
	bool well = true;

	for (size_t i = 0; i < d->findings.n; i++)
		well &= !json_array_append_new(findings, finding_json(&d->findings.v[i]));
	for (size_t i = 0; i < d->n_io; i++)
		well &= !json_array_append_new(io, io_json(&d->io[i]));
	o = json_pack("{s:s, s:b, s:o, s:I, s:I, s:o, s:o}", "name", d->plan->state.name, "right",
		      (int)is_right(d), "findings", findings, "wrong",
		      (json_int_t)d->findings.wrong, "unseen", (json_int_t)d->findings.unseen,
		      "io", io, "io_failed", lines_json(&d->io_failed));
	if (well)
		return o;
	json_decref(o);
	return NULL;
}

/* Where there is no plan nothing is as it should be. */
static bool all_right(const struct verify *v)
{
	bool right = v->n_done && !v->seen.unseen.n;

	for (size_t i = 0; i < v->n_done; i++)
		right &= is_right(&v->done[i]);
	return right;
}

/* e: why not all could be judged, if that is so. */
static int emit(const struct verify *v, const struct err *e)
{
	json_t *plans = json_array(), *o;

	for (size_t i = 0; i < v->n_done; i++)
		if (json_array_append_new(plans, verified_json(&v->done[i]))) {
			json_decref(plans);
			return -ENOMEM;
		}
	o = json_pack("{s:b, s:o, s:o}", "right", (int)(all_right(v) && !e->code), "plans", plans,
		      "unseen", lines_json(&v->seen.unseen));
	if (o && e->code && json_object_set_new(o, "error", json_name(e->text))) {
		json_decref(o);
		return -ENOMEM;
	}
	return o ? json_emit(stdout, o) : -ENOMEM;
}

/* ---- all ---- */

/* After failed, which is what verify gave. */
static enum tool_status tell(const struct verify *v, const char *name, int failed, struct err *e)
{
	int r = 0;

	if (!failed && !v->n_done && !v->seen.unseen.n)
		err_set(e, -ENOENT, name ? "%s: no plan of this name was applied here" :
			"no plan was applied here%s", name ? printable(name) : "");
	if (v->o.json)
		r = emit(v, e);
	else
		for (size_t i = 0; !failed && i < v->n_done; i++)
			show(&v->done[i]);
	tool_written(r, e);
	for (size_t i = 0; !v->o.json && !failed && i < v->seen.unseen.n; i++)
		log_error("not seen: %s", v->seen.unseen.v[i]);
	if (e->code)
		log_error("%s", e->text);
	return all_right(v) && !e->code ? TOOL_DONE : TOOL_FAILED;
}

enum tool_status tool_verify(int argc, char **argv)
{
	struct tool_words words = { .names = "[NAME]", .least = 0, .most = 1 };
	struct verify v = { 0 };
	struct err e = ERR_INIT;
	bool helped;
	enum tool_status status = tool_options_words(argc, argv, "Is what is up what was applied? "
						     "A line for each thing, and how to mend it.",
						     options, &v.o, &words, &helped);
	const char *name = words.word ? words.word[0] : NULL;
	int r;

	if (!status && !helped)
		status = tool_plan_name(name);
	if (status || helped)
		return status;
	tool_go_on();
	stop_begin(&v.stop);
	r = v.o.io ? tool_root("verify --io", &e) : 0;
	if (!r)
		r = verify(&v, name, &e);
	status = tell(&v, name, r, &e);
	verify_end(&v);
	stop_end(&v.stop);
	return status;
}
