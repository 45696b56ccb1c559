// SPDX-License-Identifier: Apache-2.0
/* What the monitor remembers of logins: failures, and who has how much memory. */
#ifndef RFTP_SERVER_LEDGER_H
#define RFTP_SERVER_LEDGER_H

#include "server/server.h"

struct ledger;

/* NULL: memory is out. */
struct ledger *ledger_new(const struct srv_options *o);
void ledger_free(struct ledger *l);
/* o is in force from now on. 0 or -ENOMEM: it is as before. */
int ledger_change(struct ledger *l, const struct srv_options *o);
/* How long a login of user from host must wait, in ms; -EAGAIN: it is not looked at for now. */
int ledger_ask(struct ledger *l, const struct sockaddr_storage *host, const char *user);
/* The login ended with code: 0, -EACCES, or what is nobody's fault. */
void ledger_checked(struct ledger *l, const struct sockaddr_storage *host, const char *user,
		    int code);
/* Bytes that a session may use for the pools of a transfer; 0: as it chooses. It has at most *most
 * then. *counted: all have a budget in common, of which it has to ask for them. */
uint64_t ledger_memory(const struct ledger *l, bool *counted, uint64_t *most);
/* The session of account whose number is id wants to have so many bytes in all; *has: so many it
 * has then. 0; or -EAGAIN with text: it is no more than before. */
int ledger_want(struct ledger *l, uint64_t id, const char *account, uint64_t bytes, uint64_t *has,
		struct err *e);
/* It is over. It need not have begun. */
void ledger_end(struct ledger *l, uint64_t id);
/* Bytes of the budget that sessions have; 0 without a budget. */
uint64_t ledger_given(const struct ledger *l);
/* So many bytes of it are given out elsewhere. */
void ledger_elsewhere(struct ledger *l, uint64_t bytes);

#endif
