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

/* The server that a netrc is asked for. */
struct netrc_server {
	const char *host;     /* an IPv6 address without brackets */
	uint16_t port;
	bool is_default_port; /* of the URL's scheme */
	const char *user;     /* NULL: none was named */
};

/* Look for an entry whose login is the user, if one was named: first "machine host:port"; then
 * "machine host", at another than the default port only when no entry names a port of the host;
 * then, for a user that was named, "default". The first of equals counts. 1: found; 0: none; or a
 * negative errno with text (a file that makes no sense). */
int netrc_parse(const char *name, const char *text, const struct netrc_server *server,
		struct login *l, struct err *e);
/* The same from file; -EACCES with text when others than its owner may read it; -ENOENT
 * (no text) when it is not there. */
int netrc_find(const char *file, const struct netrc_server *server, struct login *l,
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
