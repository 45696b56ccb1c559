// SPDX-License-Identifier: Apache-2.0
/* Memory of the budget for a session, as much as is fair, and a limit to go with it. */
#include "server/lend.h"
#include "server/locked.h"
#include "server/msg.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

static void say_refused(struct conn *c, const char *why)
{
	char text[80];

	if (lines_allow(&c->session.log, strlen(why)))
		log_warn("memory for a transfer of \"%s\" from %s refused: %s",
			 printable(c->account), srv_peer_text(&c->ends.peer, text), why);
}

static void change(struct ledger *l, struct conn *c, bool raises, uint64_t wanted,
		   struct session_answer *a)
{
	struct err e = ERR_INIT;

	a->code = ledger_want(l, (uint64_t)c->session.pid, c->account, wanted, &a->memory, &e);
	if (a->code == 0 && raises)
		a->code = locked_limit(c->session.pid, a->memory, &e);
	if (a->code == 0)
		return;
	say_refused(c, e.text);
	snprintf(a->why, sizeof(a->why), "%.*s", (int)sizeof(a->why) - 1, e.text);
}

int lend_hear(struct ledger *l, struct conn *c, bool raises)
{
	struct session_answer a = { .code = 0 };
	struct session_ask ask;
	int rc = msg_hear(c->session.fd, &ask, sizeof(ask));

	if (rc == -EAGAIN)
		return 0;
	if (rc == 0 && !c->counted)
		rc = -EPROTO;
	if (rc < 0)
		return rc;
	lines_count(&c->session.log);
	change(l, c, raises, ask.memory, &a);
	return msg_send(c->session.fd, &a, sizeof(a), -1, 0);
}
