// SPDX-License-Identifier: Apache-2.0
/* A server that commands talk to: how to reach it, and the connection once there is one. */
#ifndef RFTP_CLIENT_SERVER_H
#define RFTP_CLIENT_SERVER_H

#include "client/client.h"
#include "control/control.h"

#include <string.h>

struct server {
	struct place place;         /* all but the path */
	struct options o;           /* for this host */
	char *login;                /* the netrc's user, where the place names none */
	char *password;             /* for connecting again; NULL: none was needed yet */
	char *pin;                  /* of its key, as it was at first; NULL: not known, or no TLS */
	bool by_netrc;              /* the first password that is tried is the netrc's */
	struct ftp_client *client;  /* NULL: not connected */
	uint64_t used_ns;           /* by a command, last */
	atomic_uint said;           /* enum ftp_said; its connections set it */
};

/* No connection yet. NULL with text: the options for this host make no sense. */
struct server *server_new(const struct job *j, const struct place *p, struct err *e);
void server_free(struct server *s);   /* closes */
/* Is p on s, as the same user? */
bool server_is(const struct server *s, const struct place *p);
/* Connect and log in, unless that is done. 0; or a negative errno with text, whose status (exit_of)
 * is EXIT_CONNECT, or EXIT_INTERRUPTED. */
int server_connect(struct server *s, struct err *e);
void server_close(struct server *s);
/* One more connection to s, which has been connected, as the same user and with the same key;
 * nobody is asked. Any thread, while nothing else is done with s. NULL with text. */
struct ftp_client *server_another(struct server *s, struct err *e);

/* Of what may not have been given: NULL is the same as NULL alone. */
static inline bool server_same_text(const char *a, const char *b)
{
	return a && b ? !strcmp(a, b) : a == b;
}

/* Those that are kept from one command to the next. NULL: memory is out. */
struct servers *servers_new(void);
void servers_free(struct servers *k); /* closes */
/* Leave the one that p is on, if it is kept. */
void servers_drop(struct servers *k, const struct place *p);
/* For one command of j: the one kept that p is on, with this command's options and connected if it
 * still is, or a new one. It is the caller's until server_give(). As server_new() else. */
struct server *server_take(const struct job *j, const struct place *p, struct err *e);
/* The command is done with s (NULL is harmless): it is kept, or freed where j keeps none. */
void server_give(const struct job *j, struct server *s);

/* The path of p as the server takes it: "." for the place where a login starts. */
const char *server_path(const struct place *p);
/* What the word of j at hand, which is p, is called for a person. */
const char *server_shown(const struct job *j, const struct place *p);

/* For each word, a URL: fn with the server it is on, connected; the connection is kept for
 * words in a row on the same one. What fails is said and the rest goes on. */
enum exit_status each_url(struct job *j, int (*fn)(struct job *j, struct server *s,
						   const struct place *p, struct err *e));

/* With --json: that p has been changed, as an event. */
void each_done(const struct job *j, const char *event, const struct place *p);

#endif
