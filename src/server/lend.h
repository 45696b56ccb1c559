// SPDX-License-Identifier: Apache-2.0
/* The monitor's half of loan.h. */
#ifndef RFTP_SERVER_LEND_H
#define RFTP_SERVER_LEND_H

#include "server/conns.h"
#include "server/ledger.h"

/* Hear what c's session asks for, and answer. raises: its limit of locked memory is to follow. Who
 * asks again and again rests, as who talks too much. 0, also when nothing has come; -EPIPE: it has
 * gone; -EPROTO: it has nothing to ask; or another negative errno. */
int lend_hear(struct ledger *l, struct conn *c, bool raises);

#endif
