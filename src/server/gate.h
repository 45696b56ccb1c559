// SPDX-License-Identifier: Apache-2.0
/* The process that checks a password and becomes the session of who has it. */
#ifndef RFTP_SERVER_GATE_H
#define RFTP_SERVER_GATE_H

#include "server/server.h"

/* In a process of root's that was forked for it: hear what the front says on line of user, and of
 * no other, tell the monitor, and serve the session as its user. The process's status. */
int gate_run(const struct server *sv, int line, int monitor, const struct ends *ends,
	     const char *user);

#endif
