// SPDX-License-Identifier: Apache-2.0
/* A change, told. */
#include "iser_setup/tool_change.h"

#include "iser_setup/tool.h"

#include <errno.h>
#include <stdio.h>

struct teller {
	struct change_report *report;
	bool json;
};

static void say(void *arg, const char *line)
{
	struct teller *t = arg;

	lines_add(&t->report->steps, "%s", line);
	if (!t->json) {
		puts(line);
		/* A terminal or not, what is done is seen when it is. */
		fflush(stdout);
	}
}

/* ---- for programs ---- */

/* name: NULL when it is not known. */
static int emit(const struct tool_change *o, const char *name, const struct change_report *r,
		const struct err *e)
{
	json_t *obj = json_pack("{s:s?, s:b, s:o, s:o}", "name", name, "dry_run", (int)o->dry,
				"steps", lines_json(&r->steps), "notes", lines_json(&r->notes));

	if (!obj)
		return -ENOMEM;
	if (e->code && json_object_set_new(obj, "error", json_name(e->text)))
		goto out;
	if (r->problems.n && json_object_set_new(obj, "problems", lines_json(&r->problems)))
		goto out;
	if (e->code && json_object_set_new(obj, "undone", json_boolean(r->undone)))
		goto out;
	if (r->left.n && json_object_set_new(obj, "left", lines_json(&r->left)))
		goto out;
	return json_emit(stdout, obj);
out:
	json_decref(obj);
	return -ENOMEM;
}

/* ---- for people ---- */

static void tell_failure(const char *name, const struct change_report *r, const struct err *e)
{
	log_error("%s", e->text);
	for (size_t i = 0; i < r->left.n; i++)
		log_error("%s", r->left.v[i]);
	if (r->undone && r->lost)
		log_error("what was done is taken back; what memory held that was to be given up "
			  "is lost");
	else if (r->undone)
		log_error("all is as it was before");
	else if (r->left.n)
		log_error("the rest is as it was before; what is left stays known: rftp-iser "
			  "remove %s, or apply again", name);
}

static void tell_end(const struct tool_change *o, const char *name,
		     const struct change_report *r, const char *done, const char *nothing)
{
	if (o->dry)
		printf("%s: %zu steps, none of which is done\n", name, r->steps.n);
	else if (r->steps.n)
		printf("%s %s, in %zu steps\n", name, done, r->steps.n);
	else
		printf("%s %s\n", name, nothing);
}

static void tell_notes(const struct change_report *r)
{
	for (size_t i = 0; i < r->notes.n; i++)
		log_warn("%s", r->notes.v[i]);
}

enum tool_status tool_change_refused(const struct tool_change *o, const struct err *e)
{
	const struct change_report nothing = { 0 };

	log_error("%s", e->text);
	/* As in tool_failed. */
	if (o->json)
		emit(o, NULL, &nothing, e);
	return TOOL_FAILED;
}

enum tool_status tool_change(const struct tool_change *o, const char *name, const void *subject,
			     tool_change_fn *fn, const char *done, const char *nothing)
{
	struct change_report report = { 0 };
	struct teller t = { .report = &report, .json = o->json };
	struct change_options options = {
		.state_dir = o->state, .dry = o->dry, .destroy = o->destroy, .force = o->force,
		.keep = o->keep, .lock_wait = o->lock_wait, .say = say, .arg = &t,
	};
	struct err e = ERR_INIT;
	struct stop stop;
	int r, written = 0;

	if (o->verbose)
		log_set_level(LOG_LV_DEBUG);
	tool_go_on();
	stop_begin(&stop);
	options.stop = &stop;
	r = fn(subject, &options, &report, &e);
	tell_notes(&report);
	if (r)
		tell_failure(name, &report, &e);
	if (o->json)
		written = emit(o, name, &report, &e);
	else if (!r)
		tell_end(o, name, &report, done, nothing);
	written = tool_written(written, &e);
	if (written && !r)
		log_error("%s", e.text);
	change_clear(&report);
	stop_end(&stop);
	return r || written ? TOOL_FAILED : TOOL_DONE;
}
