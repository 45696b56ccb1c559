// SPDX-License-Identifier: Apache-2.0
/* What commands share that change something. */
#include "iser_setup/tool.h"

#include <signal.h>

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
