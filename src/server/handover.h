// SPDX-License-Identifier: Apache-2.0
/* Rolling restart: the sockets that an rftpd inherits at its start, the signals that make it stop,
 * reload or start its successor, and the conversation between two generations of rftpd.
 *
 * On SIGUSR2 the monitor starts the next rftpd, perhaps of another version, with its listening
 * sockets. When the next rftpd is ready it listens alone, and the previous monitor stays until its
 * sessions have ended. At any time at least one of the two has the listening sockets open.
 *
 * Socket activation and a service manager's descriptor store also keep the sockets over a restart,
 * but no more: a restart by the service manager ends the sessions, a new version that cannot start
 * leaves no server, and the next rftpd does not learn how many sessions use how much memory.
 *
 * They talk over a "line", a socket that keeps packets apart. A packet is one of these texts:
 *
 *   next to previous   pid PID, ready PID, failed REASON, stop
 *   previous to next   yours, reread, sessions N MEMORY
 *
 * A version ignores words that it does not know. End of file on the line means that the other
 * process has ended. */
#ifndef RFTP_SERVER_HANDOVER_H
#define RFTP_SERVER_HANDOVER_H

#include "server/server.h"

#include <poll.h>
#include <signal.h>
#include <sys/types.h>

/* ---- signals of the monitor ---- */

/* signals_reread is set by SIGHUP, signals_next by SIGUSR2. The monitor clears them when it acts on
 * them. */
extern volatile sig_atomic_t signals_reread, signals_next;

/* Install the handlers of the monitor's signals and block these signals, except while the mask is
 * *waiting: so ppoll(2) misses none. reread: handle SIGHUP, too; otherwise it keeps its default
 * action. */
void signals_begin(sigset_t *waiting, bool reread);

/* ---- inherited sockets ---- */

/* The descriptors that a service manager (sd_listen_fds(3)) or the previous rftpd has passed. */
struct activation {
	int fds[LISTEN_MAX];
	int nfds;              /* 0: none were passed */
	int before;            /* the line to the previous rftpd; -1: there was none */
	bool own;              /* the previous rftpd opened fds itself; otherwise a service manager
				* opened them, and they replace the setting listen */
};

/* Read the variables for this from the environment and remove them. 0; or a negative errno with
 * text: a descriptor is not a listening TCP socket. */
int activation_take(struct activation *a, struct err *e);
/* The number of the first descriptor that was not passed. */
unsigned activation_end(const struct activation *a);

/* ---- the sockets that clients connect to, listener.c ---- */

struct listener {
	struct pollfd fds[LISTEN_MAX];
	nfds_t nfds;
	bool given;      /* opened by a service manager; the setting listen is not used */
};

/* Open the sockets that o asks for, or take the descriptors of a. 0, or a negative errno with
 * text. */
int listener_open(struct listener *l, const struct srv_options *o, const struct activation *a,
		  struct err *e);
/* Write the ports of l to file, one per line; file may be NULL. 0, or a negative errno with
 * text. */
int listener_write_ports(const struct listener *l, const char *file, struct err *e);
/* Accept a connection on the i-th socket. Returns its descriptor, which the caller owns, and fills
 * ends; -EAGAIN: there is no connection. */
int listener_accept(struct listener *l, nfds_t i, struct ends *ends);
void listener_close(struct listener *l);
/* Change to the sockets that o asks for. A socket in the old and the new settings stays open, so
 * that no client is refused; so do sockets of a service manager. 0; or a negative errno with text:
 * l is unchanged. */
int listener_change(struct listener *l, const struct srv_options *o, struct err *e);

/* ---- two generations ---- */

enum { HANDOVER_FDS = 2 }; /* the most that handover_gather() appends */

struct handover {
	int before;              /* the line to the previous rftpd; -1: none, or it ended */
	unsigned sessions;       /* of all previous generations */
	uint64_t memory;         /* bytes of memory that those sessions may use */
	int next;                /* the line to the next rftpd; -1: none was started, or it ended */
	pid_t next_pid;          /* 0: not known yet */
	bool replaced;           /* the next rftpd listens */
	unsigned told_sessions;  /* last sent to the next rftpd */
	uint64_t told_memory;
};

/* This process is ready to serve: make the previous rftpd, if any, stop listening. 0; or a negative
 * errno with text: the previous rftpd refuses, and this process must not serve. */
int handover_claim(struct handover *h, struct err *e);
/* Tell the previous rftpd, if any, that this process cannot start. */
void handover_failed(const struct activation *a, const char *why);

/* Start the next rftpd with argv, l's sockets and the signal mask. Errors are logged, and this
 * process continues to serve. */
void handover_start(struct handover *h, char **argv, const struct listener *l,
		    const sigset_t *mask);
/* Is the next rftpd starting: started, but not serving yet? */
bool handover_under_way(const struct handover *h);

/* Write the open lines to fds. Returns their number, at most HANDOVER_FDS. */
nfds_t handover_gather(const struct handover *h, struct pollfd *fds);
/* fd is readable: if it is one of the lines, read and act on its packets. */
void handover_hear(struct handover *h, int fd);
/* Send the number of sessions and their memory to the next rftpd, if they have changed. */
void handover_tell(struct handover *h, unsigned sessions, uint64_t memory);
/* Make the next rftpd reload its settings. */
void handover_reread(struct handover *h);
/* Stop the previous rftpd, and kill a next rftpd that is still starting. A second call is like a
 * second SIGTERM to the previous rftpd, which then kills its sessions. */
void handover_stop(struct handover *h);

/* ---- messages to the service manager ---- */

/* sd_notify(3), over the socket that NOTIFY_SOCKET names. Without this variable the functions do
 * nothing. Errors are logged. */

/* Take the socket's name out of the environment. Call this before the other functions. */
void notify_begin(void);
/* The server is ready to serve. */
void notify_ready(void);
/* Show text in the status from now on: the error that has prevented the new settings. NULL: there
 * is no error. */
void notify_trouble(const char *text);
/* Send a message of lines NAME=VALUE. */
void notify(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

/* Show in the status the numbers of sessions of this rftpd (ours) and of the previous one (before).
 * A status is sent at most once a second. Returns the milliseconds after which to call again; -1:
 * not before a number changes. */
int notify_sessions(unsigned ours, unsigned before);

#endif
