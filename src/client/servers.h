// SPDX-License-Identifier: Apache-2.0
/* The engine for commands: servers, whose options come from rftp.conf and the command line, and
 * which stay connected between commands; and transfers, which report their attempts and results.
 * Main thread. */
#ifndef RFTP_CLIENT_SERVERS_H
#define RFTP_CLIENT_SERVERS_H

#include "client/client.h"
#include "client/engine.h"
#include "client/report.h"

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

/* ---- transfers ---- */

/* bulk_prepare(), with the events and the manifest's digests for r, which is not owned; NULL: only
 * for bulk_once(). */
int bulk_init(struct bulk *b, struct server *s, struct report *r, enum bulk_op op,
	      struct err *e);
/* If r has a manifest, let the source compute its digests. from_source: a server is the source, and
 * sends them. r NULL is harmless. */
void bulk_request_sums(struct bulk_request *q, const struct report *r, bool from_source);
/* The watch of attempts that a struct report reports; it is their watch_arg. */
extern const struct attempt_watch report_watch;
/* Run the transfer with repetitions, and report their errors and the result. If setup has an error,
 * only report that. Returns the exit status. */
enum exit_status attempts_run(struct attempts *a, const struct err *setup);

/* Transfer data from memory to memory for ns, without output: to the connected server if put,
 * otherwise from it. Results as bulk_once(). */
int bench_measure(const struct job *j, struct server *s, bool put, uint64_t ns,
		  struct transfer_result *r, struct err *e);

#endif
