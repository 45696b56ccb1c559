// SPDX-License-Identifier: Apache-2.0
/* What tool_apply and tool_remove share: their options, and how they tell what came of it. */
#ifndef RFTP_ISER_TOOL_CHANGE_H
#define RFTP_ISER_TOOL_CHANGE_H

#include "iser_setup/apply.h"
#include "iser_setup/tool.h"

struct tool_change {
	const char *state;
	unsigned lock_wait; /* TOOL_LOCK_WAIT unless given */
	bool dry, destroy, force, json, keep, verbose;
};

#define TOOL_LOCK_WAIT 5 /* seconds: a small change is over by then */

#define TOOL_CHANGE(destroy_about, force_about) \
	{ "destroy-data", TOOL_SWITCH, offsetof(struct tool_change, destroy), NULL, \
	  destroy_about, 0, 0 }, \
	{ "dry-run", TOOL_SWITCH, offsetof(struct tool_change, dry), NULL, \
	  "say what would be done, and do nothing", 0, 0 }, \
	{ "force", TOOL_SWITCH, offsetof(struct tool_change, force), NULL, force_about, 0, 0 }, \
	TOOL_JSON(struct tool_change), \
	ISER_LOCK_WAIT(struct tool_change, "apply or remove (5)"), \
	{ "state", TOOL_TEXT, offsetof(struct tool_change, state), "DIR", \
	  "where it is kept what was applied", 0, 0 }, \
	{ "verbose", TOOL_SWITCH, offsetof(struct tool_change, verbose), NULL, \
	  "also why something was left as it is", 0, 0 }

/* Told, too: what is in the way before it is known of which plan. TOOL_FAILED. */
enum tool_status tool_change_refused(const struct tool_change *o, const struct err *e);
/* Does what fn does with subject, and tells it: as it is done, or as one JSON object. done: "is
 * applied"; nothing: when there was nothing to do. */
typedef int tool_change_fn(const void *subject, const struct change_options *o,
			   struct change_report *r, struct err *e);
enum tool_status tool_change(const struct tool_change *o, const char *name, const void *subject,
			     tool_change_fn *fn, const char *done, const char *nothing);

#endif
