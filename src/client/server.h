// SPDX-License-Identifier: Apache-2.0
/* The servers of commands: their options come from rftp.conf and the command line, and they stay
 * connected between commands. Main thread. */
#ifndef RFTP_CLIENT_SERVER_H
#define RFTP_CLIENT_SERVER_H

#include "client/client.h"
#include "client/engine.h"

/* A server that is not connected yet. NULL with text: the options for this host are wrong, or out
 * of memory. */
struct server *server_new(const struct job *j, const struct url *p, struct err *e);

/* ---- servers that stay connected between commands ---- */

struct servers {
	struct server **all;
	size_t n;
};

void servers_clear(struct servers *k); /* closes */
/* Remove and close the server of p, if k has it. */
void servers_drop(struct servers *k, const struct url *p);
/* The server of p for one command of j: the kept one, with this command's options and connected if
 * possible, or a new one. The caller owns it until server_give(). NULL with text. */
struct server *server_take(const struct job *j, const struct url *p, struct err *e);
/* The command has finished with s: keep it, or free it if j keeps no servers. NULL is harmless. */
void server_give(const struct job *j, struct server *s);

/* ---- the URLs of a command ---- */

/* The name to print for p, j's current word. */
const char *server_shown(const struct job *j, const struct url *p);

/* Call fn for each word of j, a URL, with its connected server. Consecutive words on the same
 * server share the connection. A failure is reported, and the next word follows. Returns the exit
 * status. */
enum exit_status each_url(struct job *j, int (*fn)(struct job *j, struct server *s,
						   const struct url *p, struct err *e));

#endif
