// SPDX-License-Identifier: Apache-2.0
/* rftp-iser's commands. */
#ifndef RFTP_ISER_TOOL_H
#define RFTP_ISER_TOOL_H

#include "iser_setup/lock.h"

#include <errno.h>

tool_run tool_plan;
tool_run tool_apply;
tool_run tool_status;
tool_run tool_verify;
tool_run tool_remove;
tool_run tool_login;
tool_run tool_logout;

/* From here on we are not ended when whoever reads what is done goes: that is no reason to leave it
 * half done. */
void tool_go_on(void);

/* After iser_plan_read has failed with e: a plan that is wrong stays so, however often it is tried,
 * as wrong options do. */
#define TOOL_BAD_PLAN(e) ((e).code == -EINVAL ? TOOL_USAGE : TOOL_FAILED)
/* Is name one that a plan may have? NULL is none, and good. TOOL_DONE, or TOOL_USAGE, which is
 * said. */
enum tool_status tool_plan_name(const char *name);
/* Are the words addresses, as ISER_ADDRESSES has them? The same. */
enum tool_status tool_addresses(const struct tool_words *words);
/* Is it root who asks for what? 0, or -EPERM with text. Before anything else is looked at that only
 * root may see. */
int tool_root(const char *what, struct err *e);
/* Standard output is to have by now all that it gets; written: what writing to it gave, 0 or a
 * negative errno. What has failed becomes e's, unless e has something that failed before, which is
 * the cause. 0, or a negative errno. */
int tool_written(int written, struct err *e);
/* The command has failed with e, which is said; json: as an object, too, {"error"}. TOOL_FAILED. */
enum tool_status tool_failed(bool json, const struct err *e);

/* Options that several have; what: what is kept there. */
#define ISER_STATE(type, what) \
	{ "state", TOOL_TEXT, offsetof(type, state), "DIR", "where it is kept what " what, 0, 0 }
#define ISER_LOCK_WAIT(type, whom) \
	{ "lock-wait", TOOL_COUNT, offsetof(type, lock_wait), "SECONDS", \
	  "how long to wait for another " whom, 0, ISER_LOCK_WAIT_MOST }
/* The words of login and logout. */
#define ISER_ADDRESSES_MOST 64
#define ISER_ADDRESSES { .names = "[ADDRESS[:PORT]...]", .most = ISER_ADDRESSES_MOST }

#endif
