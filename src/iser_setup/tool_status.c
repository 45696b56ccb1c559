// SPDX-License-Identifier: Apache-2.0
/* rftp-iser status: what is up. */
#include "iser_setup/tool.h"

#include "iser_setup/seen.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

struct status_options {
	const char *state;
	bool json;
};

static const struct tool_option options[] = {
	TOOL_JSON(struct status_options),
	ISER_STATE(struct status_options, "was applied"),
	{ 0 },
};

static int show(const struct status_options *o, const char *name, struct err *e)
{
	struct seen s;
	int r = seen_read(&s, o->state, name, e);

	if (!r && o->json)
		r = status_emit(&s, !name);
	else if (!r)
		status_show(&s, !name);
	if (!r && fflush(stdout))
		r = -errno;
	if (r && !e->code)
		err_sys(e, r, "standard output");
	seen_clear(&s);
	return r;
}

enum tool_status tool_status(int argc, char **argv)
{
	struct tool_words words = { .names = "[NAME]", .least = 0, .most = 1 };
	struct status_options o = { 0 };
	struct err e = ERR_INIT;
	bool helped;
	enum tool_status status = tool_options_words(argc, argv, "What is up of the plans that "
						     "were applied: targets, who is logged in, "
						     "where things really are.", options, &o,
						     &words,
						     &helped);

	if (!status && !helped)
		status = tool_plan_name(words.word[0]);
	if (status || helped)
		return status;
	return show(&o, words.word[0], &e) ? tool_failed(o.json, &e) : TOOL_DONE;
}
