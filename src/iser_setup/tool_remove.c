// SPDX-License-Identifier: Apache-2.0
/* rftp-iser remove: what was made for a plan goes. */
#include "iser_setup/tool.h"

#include "iser_setup/state.h"
#include "iser_setup/tool_change.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static const struct tool_option options[] = {
	TOOL_CHANGE("also the files that were made for back stores",
		    "also while initiators are logged in"),
	{ "keep-state", TOOL_SWITCH, offsetof(struct tool_change, keep), NULL,
	  "it stays known that the plan was applied: the host is shut down", 0, 0 },
	{ 0 },
};

/* The only one there is; malloc'd. NULL, with text. */
static char *only_name(const char *dir, struct err *e)
{
	char **names, *only = NULL;
	size_t n;

	if (iser_state_names(dir, &names, &n, e))
		return NULL;
	if (!n)
		err_set(e, -ENOENT, "no plan was applied here");
	else if (n > 1)
		err_set(e, -EINVAL, "several plans were applied here, %s and %s%s: say which is to "
			"go", names[0], names[1], n > 2 ? " among them" : "");
	else
		only = names[0];
	for (size_t i = only ? 1 : 0; i < n; i++)
		free(names[i]);
	free(names);
	return only;
}

static int take_away(const void *subject, const struct change_options *o,
		     struct change_report *r, struct err *e)
{
	return change_remove(subject, o, r, e);
}

enum tool_status tool_remove(int argc, char **argv)
{
	struct tool_words words = { .names = "[NAME]", .least = 0, .most = 1 };
	CLEANUP_FREE char *name = NULL;
	struct tool_change o = { .lock_wait = TOOL_LOCK_WAIT };
	struct err e = ERR_INIT;
	bool helped;
	enum tool_status status = tool_options_words(argc, argv, "Take away what was made for a "
						     "plan, and nothing else.", options, &o,
						     &words, &helped);

	if (!status && !helped)
		status = tool_plan_name(words.word[0]);
	if (status || helped)
		return status;
	if (!tool_root("remove", &e))
		name = words.n ? strdup(words.word[0]) : only_name(o.state, &e);
	if (!name && !e.code)
		err_set(&e, -ENOMEM, "out of memory");
	if (!name)
		return tool_change_refused(&o, &e);
	return tool_change(&o, name, name, take_away, "is removed",
			   "is removed; nothing of it was there any more");
}
