// SPDX-License-Identifier: Apache-2.0
/* A rolling restart: the monitor starts the next rftpd, which may be of another version, with the
 * sockets that it listens on. Once that is ready it is the one that listens, and the monitor before
 * keeps its sessions until they end. The listening sockets are open in one of the two at any time.
 *
 * Between two of them is a line, a socket of packets, each of words:
 *
 *   next to before   ready PID, failed WHY, stop
 *   before to next   yours, reread, sessions N MEMORY
 *
 * Words that a version does not know mean nothing to it. Whose end of the line closes has ended. */
#ifndef RFTP_SERVER_HANDOVER_H
#define RFTP_SERVER_HANDOVER_H

#include "server/activation.h"
#include "server/listener.h"

#include <poll.h>
#include <signal.h>
#include <sys/types.h>

enum { HANDOVER_FDS = 2 }; /* of handover_gather */

struct handover {
	int before;              /* the line; -1: there is none before us, or not any more */
	unsigned sessions;       /* what that one still has, with those before it */
	uint64_t memory;         /* bytes that these may register */
	int next;                /* the line; -1: none has been started, or it has ended */
	pid_t next_pid;          /* 0: not known yet */
	bool replaced;           /* the next one listens, and not we */
	unsigned told_sessions;  /* what the next one knows */
	uint64_t told_memory;
};

void handover_init(struct handover *h, const struct activation *a);
/* We can serve: have the one before stop listening, if there is one. 0; or a negative errno with
 * text: it does not want that any more. */
int handover_claim(struct handover *h, struct err *e);
/* We cannot start, for that reason. */
void handover_failed(const struct activation *a, const char *why);

/* Start the next, with argv, l's sockets and the signal mask. What is wrong is logged; all goes on
 * then. */
void handover_start(struct handover *h, char **argv, const struct listener *l,
		    const sigset_t *mask);
/* Is the next one starting? */
bool handover_under_way(const struct handover *h);

/* Both lines into fds; how many. */
nfds_t handover_gather(const struct handover *h, struct pollfd *fds);
/* Something is to be heard of fd, if it is one of the lines. */
void handover_hear(struct handover *h, int fd);
/* What we have, and the memory that was given out: for the next one. */
void handover_tell(struct handover *h, unsigned sessions, uint64_t memory);
/* The settings are to be read anew: by the next one. */
void handover_reread(struct handover *h);
/* We stop, and so does who is there before; one that is starting is ended. A second call is a
 * second signal to the one before. */
void handover_stop(struct handover *h);
/* In a child: none of it is its. */
void handover_leave(struct handover *h);

#endif
