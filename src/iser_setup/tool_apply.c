// SPDX-License-Identifier: Apache-2.0
/* rftp-iser apply: this host serves what a plan says. */
#include "iser_setup/tool.h"

#include "iser_setup/tool_change.h"

#include <errno.h>
#include <string.h>

struct tool_apply {
	struct tool_change change; /* first: TOOL_CHANGE has its offsets */
	const char *name;
};

static const struct tool_option options[] = {
	TOOL_CHANGE("what back stores hold may be lost",
		    "also where initiators are logged in"),
	{ "name", TOOL_TEXT, offsetof(struct tool_apply, name), "NAME",
	  "only if the plan is called so", 0, 0 },
	{ 0 },
};

/* Under another name a unit of systemd would not find again what it has made. */
static int check_name(const struct iser_plan *p, const char *name, const char *file, struct err *e)
{
	if (!name || !strcmp(p->name, name))
		return 0;
	return err_set(e, -EINVAL, "%s: the plan is called %s, not %s; change its name, or call it "
		       "by that", printable(file), p->name, printable(name));
}

static int apply(const void *subject, const struct change_options *o, struct change_report *r,
		 struct err *e)
{
	return change_apply(subject, o, r, e);
}

enum tool_status tool_apply(int argc, char **argv)
{
	struct tool_words words = { .names = "PLAN", .least = 1, .most = 1 };
	CLEANUP_ISER_PLAN struct iser_plan *plan = NULL;
	struct tool_apply o = { .change.lock_wait = TOOL_LOCK_WAIT };
	struct err e = ERR_INIT;
	bool helped;
	enum tool_status status = tool_options_words(argc, argv, "Make this host serve what a plan "
						     "says: only what differs is changed.",
						     options, &o, &words, &helped);

	if (!status && !helped)
		status = tool_plan_name(o.name);
	if (status || helped)
		return status;
	if (!tool_root("apply", &e))
		plan = iser_plan_read(words.word[0], &e);
	if (!plan || check_name(plan, o.name, words.word[0], &e)) {
		tool_change_refused(&o.change, &e);
		return TOOL_BAD_PLAN(e);
	}
	return tool_change(&o.change, plan->name, plan, apply, "is applied",
			   "is applied already: there is nothing to change");
}
