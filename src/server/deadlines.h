// SPDX-License-Identifier: Apache-2.0
/* How long processes may take for somebody who has not logged in. Fronts and gates keep time
 * themselves, as long as they are ours and what they call comes back: this is for when they are
 * not, or it does not. */
#ifndef RFTP_SERVER_DEADLINES_H
#define RFTP_SERVER_DEADLINES_H

#include "server/conns.h"

/* c's front has begun. login_timeout as of struct srv_options, ns: however often it asks for a
 * gate, it has twice as much at most, and 10 s, and what the last one waits. */
void deadline_begin(struct conn *c, uint64_t login_timeout);
/* c's gate has begun: it has login_timeout for its check. Before that its front waited for
 * its turn, waited_ms, and could not be late (turns.h). */
void deadline_check(struct conn *c, uint64_t waited_ms, uint64_t login_timeout);
/* After waiting so long c gets no gate: its front has time for a goodbye. */
void deadline_refused(struct conn *c, uint64_t waited_ms);
/* The gate has said what came of it, or has gone. in: c has logged in. */
void deadline_checked(struct conn *c, bool in);
/* The session has gone: there may be something left for the front to tell its client. stopping: the
 * server waits for it. */
void deadline_over(struct conn *c, bool stopping);
/* The server stops: who is not in has no time left but for a goodbye. */
void deadlines_stop(struct conns *t);
/* End those who are late. When to look again, in ms; -1: nobody can be late. */
int deadlines_look(struct conns *t);

#endif
