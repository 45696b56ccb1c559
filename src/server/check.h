// SPDX-License-Identifier: Apache-2.0
/* A login is looked at in a process of its own, which ends with it: the password, and what files
 * and PAM's modules have of others', are in no session's memory. */
#ifndef RFTP_SERVER_CHECK_H
#define RFTP_SERVER_CHECK_H

#include "server/auth.h"
#include "server/server.h"

struct asked {
	const struct server *sv;
	const char *peer_text;
	const char *user;       /* whom the monitor counts: another cannot be asked for */
	int line;               /* to the front */
};

/* In a gate: have a child hear on q's line who wants to log in (struct gate_ask), and check it,
 * with its line in the log; sv->sealed is closed in this process then. 0 with *who, whose identity
 * is also filled where he is no user of the system; else as auth_check, -ECHILD: the child has come
 * to no end, -EPROTO: it was no login; with text. *by_certificate: so he wanted in. */
int check_login_apart(const struct asked *q, struct auth_answer *who, bool *by_certificate,
		      struct err *e);

#endif
