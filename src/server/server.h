// SPDX-License-Identifier: Apache-2.0
/* server: rftpd. What its parts share: the settings of a run. */
#ifndef RFTP_SERVER_SERVER_H
#define RFTP_SERVER_SERVER_H

#include "server/identity.h"
#include "server/options.h"
#include "server/state.h"

#include <signal.h>
#include <stdbool.h>
#include <sys/socket.h>

/* Exit statuses, rftpd(8). */
enum { EXIT_USAGE = 2, EXIT_START = 3 };

/* Both ends of a client's control connection. */
struct ends {
	struct sockaddr_storage peer, local;
};

struct server {
	struct srv_options opt;
	struct state state;     /* nothing in it with --stdio, and none when separate */
	bool separate;          /* monitor, front and session are processes of their own */
	int sealed;             /* when separate: certificate and key, which no process has mapped
				 * for long; -1: none */
	struct identity front;  /* whose the fronts are */
	char *empty;            /* the directory that is all they see */
	bool filters;           /* system calls can be filtered here */
	bool raises;            /* a session's limit of locked memory can be made higher */
	int argc;             /* the command line, to load opt again */
	char **argv;
};

/* Raised by SIGTERM, in the listener and in every session of its own. */
extern volatile sig_atomic_t srv_stop;

/* Is a connection several processes, with settings o? */
bool srv_is_separate(const struct srv_options *o);
/* What sv's settings need before a client comes: the state, the users whom processes become, the
 * empty directory. 0, or a negative errno with text. */
int srv_prepare(struct server *sv, struct err *e);
/* Settings, too. */
void srv_clear(struct server *sv);
/* Into the log: the certificate, whose the fronts are, the network cards. */
void srv_say_start(struct server *sv);

struct transfer_tuning;
/* How a session of sv does its part of a transfer. */
void srv_tuning(const struct server *sv, struct transfer_tuning *t);

/* "192.0.2.1:99", "[2001:db8::1]:99", or "stdio" for NULL. */
const char *srv_peer_text(const struct sockaddr_storage *peer, char out[80]);

#define HOST_KEY_BYTES 16

/* The same bytes for all addresses that count as one host: for IPv6 those of one /64. */
void srv_host_key(const struct sockaddr_storage *a, uint8_t key[HOST_KEY_BYTES]);
/* Do two addresses count as one host? */
bool srv_same_host(const struct sockaddr_storage *a, const struct sockaddr_storage *b);

/* Serve one connection on fd, which it takes over, to its end. monitor: the line on which each login
 * asks for its turn, see monitor.h; taken over, too. The process's status. */
int srv_session(const struct server *sv, int fd, const struct ends *ends, int monitor);
/* The same on standard input and output, for who runs us. */
int srv_session_stdio(const struct server *sv);

/* Call jail, unless system calls cannot be filtered here, which was said at the start. 0, or a
 * negative errno with text. */
int srv_jail(const struct server *sv, int (*jail)(struct err *e), struct err *e);

struct activation;
/* Listen, on what was given if there is any, and serve each connection in a process of its own, or
 * in two, until SIGTERM. The process's status. In the others it does not return. */
int srv_listen(struct server *sv, const struct activation *given);

/* ---- settings in force, reload.c ---- */

/* The log, as o wants it. 0, or a negative errno with text: it is as before. */
int srv_open_log(const struct srv_options *o, struct err *e);
/* Directories and files that o needs. 0, or a negative errno with text. */
int srv_check_files(const struct srv_options *o, struct err *e);

/* Is there anything that could be read anew: a file of settings, or one of the log? */
bool srv_has_reload(const struct server *sv);
/* Read settings, certificate and key anew, into next; sv stays as it is. 0; or a negative errno
 * with text: next is empty, and of a bad file each error has been logged but the one in e. */
int srv_reload_begin(const struct server *sv, struct server *next, struct err *e);
/* next is in force from now on, and the log is opened anew. What sv has had is freed. 0; or a
 * negative errno with text: the log stays as it was, all else is new. */
int srv_reload_end(struct server *sv, struct server *next, struct err *e);
/* Forget next instead. */
void srv_reload_drop(struct server *next);

#endif
