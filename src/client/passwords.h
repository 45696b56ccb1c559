// SPDX-License-Identifier: Apache-2.0
/* Where passwords come from: a file like ~/.netrc, or whoever sits at the terminal. */
#ifndef RFTP_CLIENT_PASSWORDS_H
#define RFTP_CLIENT_PASSWORDS_H

#include "util/util.h"

#include <stdbool.h>

/* What a netrc says of a machine; either may be NULL. */
struct login {
	char *user, *password;
};

void login_clear(struct login *l);  /* wipes the password */

/* The first entry for host, or "default", whose login is user (NULL: any). 1: found; 0:
 * none; or a negative errno with text (a file that makes no sense). */
int netrc_parse(const char *name, const char *text, const char *host, const char *user,
		struct login *l, struct err *e);
/* The same from file; -EACCES with text when others than its owner may read it; -ENOENT
 * (no text) when it is not there. */
int netrc_find(const char *file, const char *host, const char *user, struct login *l,
	       struct err *e);
/* ~/.netrc, malloc'd; NULL: there is no home. */
char *netrc_default(void);

/* Ask on the terminal, without echo; malloc'd. NULL: there is no terminal, or no answer. */
char *ask_password(const char *user, const char *host);
/* Ask for a line; malloc'd, without its end. NULL: there is no terminal, or no answer. */
char *ask_line(const char *question);
/* Ask a question that only "yes" answers with true; false without a terminal. */
bool ask_yes(const char *question);

#endif
