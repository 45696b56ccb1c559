// SPDX-License-Identifier: Apache-2.0
/* A login, from who it is to the account of a session; and what the log says of it. */
#ifndef RFTP_SERVER_LOGIN_H
#define RFTP_SERVER_LOGIN_H

#include "control/control.h"
#include "server/auth.h"

/* As auth_check, for a client at peer_text, which has a port; and it is logged. */
int login_check(const struct srv_options *o, const char *peer_text, const struct auth_ask *ask,
		struct auth_answer *a, struct err *e);
/* Who runs us: by ssh. 0, or a negative errno with text. */
int login_self(const struct srv_options *o, struct auth_answer *a, struct err *e);
/* Run by root, the process is a's user from now on, if that is one of the system; it still dies
 * with its parent. 0, or a negative errno with text: then it must end. */
int login_become(const struct auth_answer *a, struct err *e);
/* What a may do, his root opened with the rights of this process. 0, or a negative errno with
 * text. */
int login_account(const struct auth_answer *a, struct ftp_account *account, struct err *e);
/* The same, for a client at peer_text, after his login: what is wrong is logged, with the root, and is
 * -EKEYEXPIRED with a text for him. */
int login_enter(const struct auth_answer *a, const char *peer_text, struct ftp_account *account,
		struct err *e);

#endif
