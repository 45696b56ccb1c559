// SPDX-License-Identifier: Apache-2.0
/* What commands share. */
#include "iser_setup/tool.h"

#include "iser_setup/login.h"
#include "iser_setup/names.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static void go_on(int sig)
{
	(void)sig;
}

void tool_go_on(void)
{
	/* A handler, for programs that are run would inherit that it is ignored. */
	sigaction(SIGPIPE, &(struct sigaction){ .sa_handler = go_on, .sa_flags = SA_RESTART },
		  NULL);
}

enum tool_status tool_plan_name(const char *name)
{
	char what[160];

	if (!name || !iser_plan_name_wrong(name))
		return TOOL_DONE;
	snprintf(what, sizeof(what), "no plan's name, for it %s", iser_plan_name_wrong(name));
	return tool_misused(what, name);
}

enum tool_status tool_addresses(const struct tool_words *words)
{
	for (unsigned i = 0; i < words->n; i++) {
		CLEANUP_FREE char *host = NULL;
		struct err e = ERR_INIT;
		unsigned port;

		if (login_address(words->word[i], &host, &port, &e) == -EINVAL)
			return tool_misused(e.text, NULL);
	}
	return TOOL_DONE;
}

int tool_root(const char *what, struct err *e)
{
	return geteuid() ? err_set(e, -EPERM, "only root may do what %s does: use sudo", what) : 0;
}

int tool_written(int written, struct err *e)
{
	if (!written && fflush(stdout))
		written = -errno;
	if (written && !e->code)
		err_sys(e, written, "standard output");
	return written;
}

enum tool_status tool_failed(bool json, const struct err *e)
{
	const char *text = *e->text ? e->text : strerror(-e->code);

	log_error("%s", text);
	/* If that cannot be written, either, it has been said all the same. */
	if (json)
		json_emit(stdout, json_pack("{s:o}", "error", json_name(text)));
	return TOOL_FAILED;
}
