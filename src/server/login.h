// SPDX-License-Identifier: Apache-2.0
/* Who may log in, and as what. */
#ifndef RFTP_SERVER_LOGIN_H
#define RFTP_SERVER_LOGIN_H

#include "control/control.h"
#include "server/identity.h"
#include "server/server.h"

/* Somebody who has shown that he is who he says. */
struct login {
	char name[64];           /* of the account */
	struct identity as;      /* whose his session's process is; all 0: whoever runs us */
	char *root, *home;       /* root NULL: all there is, as who runs us */
	enum rights rights;
	bool anonymous;
};

void login_clear(struct login *l);
/* Is the password right? 0: l is filled, and login_clear's; -EACCES: no, which takes the same
 * time whether or not there is such a user, and is logged; -EAGAIN: later; or another negative
 * errno; with text. */
int login_check(const struct server *sv, const char *peer_text, const char *user,
		const char *password, struct login *l, struct err *e);
/* Who runs us. */
int login_self(const struct server *sv, struct login *l, struct err *e);
/* What l may do, and his root opened with the rights of this process: ftp_account_clear's. 0, or
 * a negative errno with text. */
int login_account(const struct login *l, struct ftp_account *a, struct err *e);

#endif
