// SPDX-License-Identifier: Apache-2.0
/* rftpd: the state of a running server, and the functions that its parts share. */
#ifndef RFTP_SERVER_SERVER_H
#define RFTP_SERVER_SERVER_H

#include "crypto/crypto.h"
#include "server/auth/auth.h"
#include "server/config/options.h"
#include "transport/transport.h"

#include <signal.h>
#include <sys/socket.h>

/* Exit statuses, rftpd(8). */
enum { EXIT_USAGE = 2, EXIT_START = 3 };

/* Both addresses of a client's control connection. An IPv4 address is always AF_INET, never
 * mapped. */
struct ends {
	struct sockaddr_storage peer, local;
};

/* ---- the certificate, config/state.c ---- */

/* The certificate and its key are read from files, from the state directory (where the first start
 * makes them), or from sealed memory, for processes that cannot open files. */
struct state {
	struct tls_ctx *tls;
	char *pin;   /* the pin of the certificate, in the form that clients display */
};

/* Read and check the certificate and key that o names, or else those in o's state directory; the
 * directory and the two files are made if they are missing. If o->state is NULL, the directory is
 * $XDG_STATE_HOME/rftpd, ~/.local/state/rftpd, or for root /var/lib/rftpd. fd: empty memory
 * (memfd_create(2)) to store the files in and to seal, so that no process can change them any more;
 * -1: none. 0, or a negative errno with text. state_close() frees s's contents. */
int state_open(struct state *s, const struct srv_options *o, int fd, struct err *e);
/* The same from the sealed fd instead of files. o NULL: without reading the key, only to check
 * client certificates against our pin and the CAs. */
int state_open_sealed(struct state *s, const struct srv_options *o, int fd, struct err *e);
/* Would state_open() succeed? 0, or a negative errno with text. Makes no files; files that
 * state_open() would make may be missing. */
int state_check(const struct srv_options *o, struct err *e);
void state_close(struct state *s);
/* The path of an empty directory in the state directory, malloc'd; NULL with text. Only root may
 * change the directory; it is made if it is missing. */
char *state_empty(const struct srv_options *o, struct err *e);

/* ---- the server ---- */

struct server {
	struct srv_options opt;
	struct state state;     /* empty with --stdio and with separate processes */
	bool separate;          /* each connection is served by several processes */
	int sealed;             /* with separate processes: a descriptor of sealed memory with the
				 * certificate and the key; -1: none */
	struct identity preauth; /* the user of the preauth processes */
	char *empty;            /* the empty directory that is their root */
	bool filters;           /* this host can filter system calls */
	bool raises;            /* this process can raise a session's limit of locked memory */
	int argc;               /* the command line, for a reload */
	char **argv;
};

/* The number of requests to stop this process (the monitor, or a session): SIGTERMs, and "stop"
 * from the next rftpd. */
extern volatile sig_atomic_t srv_stop;

/* ---- settings in force, config/apply.c ---- */

/* Prepare sv for clients: the certificate, the user of the preauth processes, the empty directory.
 * 0, or a negative errno with text. */
int srv_prepare(struct server *sv, struct err *e);
/* Free sv's contents, with its settings. */
void srv_clear(struct server *sv);
/* Warn of each root of o that --files-user cannot write, so that an administrator learns it before
 * the first put fails. Nothing when one process serves a connection. */
void srv_warn_roots(const struct srv_options *o);
/* Log the certificate, the user of the preauth processes, and the network cards. */
void srv_say_start(struct server *sv);
/* Call jail, which filters this process's system calls. If this host cannot filter system calls,
 * which srv_prepare() has logged, do nothing. 0, or a negative errno with text. */
int srv_jail(const struct server *sv, int (*jail)(struct err *e), struct err *e);

/* Open the log that o asks for. 0, or a negative errno with text: the old log stays in use. */
int srv_open_log(const struct srv_options *o, struct err *e);
/* Is dir a directory? 0, or a negative errno with a text that begins with setting. */
int srv_check_root(const char *setting, const char *dir, struct err *e);
/* Check the directories and files of o. 0, or a negative errno with text. */
int srv_check_files(const struct srv_options *o, struct err *e);

/* Is there a file that a reload reads or opens again: settings or a log? */
bool srv_has_reload(const struct server *sv);
/* Read settings, certificate and key again, into next; sv does not change. 0; or a negative errno
 * with text: next is empty. If a file has several errors, e has the last one and the log the
 * others. */
int srv_reload(const struct server *sv, struct server *next, struct err *e);

/* ---- hosts, listener.c ---- */

#define HOST_KEY_BYTES 16

/* Write a key that is the same for all addresses that count as one host: one IPv4 address, or all
 * IPv6 addresses of a /64. */
void srv_host_key(const struct sockaddr_storage *a, uint8_t key[HOST_KEY_BYTES]);
/* Do two addresses count as one host? */
bool srv_same_host(const struct sockaddr_storage *a, const struct sockaddr_storage *b);

/* ---- serving ---- */

struct activation;
/* The monitor: listen (on the sockets in given, if there are any), and serve each connection in one
 * or several processes, until SIGTERM. Returns only in the listening process, with its exit
 * status. */
int srv_listen(struct server *sv, const struct activation *given);
struct channel;
/* Serve one connection until its end. Takes fd, and monitor, the channel on which each login waits
 * for its turn (monitor/msg.h). Returns the process's exit status. */
int srv_session(const struct server *sv, int fd, const struct ends *ends, struct channel *monitor);
/* The same on standard input and output, as the user that runs this process. */
int srv_session_stdio(const struct server *sv);

/* ---- filters of system calls (seccomp(2)), session/jail.c ---- */

/* Both functions filter all threads of this process, for good, and need no_new_privs. 0; or a
 * negative errno with text; -EOPNOTSUPP: this build or the kernel has no filters. */

/* For a preauth process: allow I/O on open descriptors, threads and memory. Any other call ends the
 * process. */
int jail_preauth(struct err *e);
/* For a session: allow files, sockets, threads, memory, io_uring and verbs. Calls that only an
 * attacker makes end the process: running programs, tracing, mounting, changing the user. Unknown
 * calls fail with ENOSYS. */
int jail_session(struct err *e);
/* After pid, a child of this process, died of SIGSYS: write the call that it made, "NUMBER (NAME)",
 * from the kernel's log to out, and return out. "" if this process may not read that log, or auditd
 * takes the records away. Waits some milliseconds for the record. */
#define JAIL_CALL_TEXT 64
const char *jail_refused_call(pid_t pid, char out[JAIL_CALL_TEXT]);

/* ---- the preauth process, preauth/preauth.c ---- */

/* The main function of a preauth process, a root process that was forked for the connection fd:
 * drop all rights, speak TLS and FTP until a login, then relay bytes between the client and the
 * session. Returns the exit status. */
int preauth_run(const struct server *sv, int fd, struct channel *monitor, const struct ends *ends);
/* Drop all rights of this root process: it becomes the preauth user in an empty root directory,
 * with small resource limits and a filter of system calls. Open descriptors stay open. 0; or a
 * negative errno with text: the process may be half changed and must end. The process must have one
 * thread only. */
int preauth_drop_rights(const struct server *sv, struct err *e);

/* In the session: have the preauth process at the other end of line start TLS on the data
 * connection fd. Returns the stream, which takes fd; NULL with text: fd stays the caller's. One
 * thread at a time. */
struct stream *guard_data(int line, int fd, struct err *e);
/* In the preauth process: serve such requests on line until the session has ended and its data
 * connections are closed. tls, control: the TLS settings and the TLS session of the client's
 * control connection; control NULL: the connection is in clear, and requests are refused. */
void guard_serve(int line, struct tls_ctx *tls, struct tls *control, const char *peer_text);

#endif
