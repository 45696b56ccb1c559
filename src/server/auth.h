// SPDX-License-Identifier: Apache-2.0
/* Who is it, and what may he do? Asked by the process that becomes the session, while it still
 * is who started rftpd. */
#ifndef RFTP_SERVER_AUTH_H
#define RFTP_SERVER_AUTH_H

#include "server/identity.h"
#include "server/options.h"

/* Views; the caller wipes the password. */
struct auth_ask {
	const char *user;
	const char *password;  /* NULL: the certificate must do */
	const char *pin;       /* of the key that the client has shown to be its own, or NULL */
	const char *subject;   /* of its certificate, if a CA of ours vouches for it, or NULL */
	const char *peer;      /* its address as text, without the port */
};

enum auth_method { AUTH_ANONYMOUS, AUTH_USERS, AUTH_PAM, AUTH_CERTIFICATE, AUTH_SELF };

struct auth_answer {
	char *name;            /* of the account */
	enum auth_method method;
	bool is_system;        /* it is as; else a name that only rftpd knows */
	struct identity as;
	char *root;            /* what he sees as "/"; NULL: all that the system lets him */
	char *home;            /* absolute, below root */
	enum rights rights;
	unsigned umask;
};

/* The least time for the refusal of a password, ms; longer ones take a multiple of it: the time does
 * not show whether there is such a user. */
enum { AUTH_REFUSAL_MS = 500 };

/* 0 with the answer, to be cleared; else nothing is in it, and
 * -EACCES: wrong, or not let in. The text says why, for the log and for nobody else.
 * -EKEYEXPIRED: the password was right, but must be changed first. The text is for the user.
 * -EAGAIN: it cannot be told now; another negative errno: nor later. With text for the log. */
int auth_check(const struct srv_options *o, const struct auth_ask *ask, struct auth_answer *a,
	       struct err *e);
void auth_answer_clear(struct auth_answer *a);
/* Sleep until the time for the refusal of a check that began then, ns, is over. */
void auth_fill_up(uint64_t began);
/* "pam" and so on, for the log. */
const char *auth_method_name(enum auth_method m);
/* The name that stands for nobody in particular. */
bool auth_is_anonymous(const char *user);

#endif
