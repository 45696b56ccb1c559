// SPDX-License-Identifier: Apache-2.0
/* Listening sockets that are open when rftpd is started: from a service manager, as
 * sd_listen_fds(3) tells, or from the rftpd that this one takes over from (server/handover.h). */
#ifndef RFTP_SERVER_ACTIVATION_H
#define RFTP_SERVER_ACTIVATION_H

#include "server/options.h"

enum { ACTIVATION_FIRST = 3 }; /* descriptors from there on */

struct activation {
	int fds[LISTEN_MAX];
	int nfds;              /* 0: none were given */
	int before;            /* the line to the rftpd before; -1: there was none */
	bool own;              /* that one had opened them; else they are all that we listen on */
};

/* All that the environment tells, and out of it. 0; or a negative errno with text: something is no
 * socket that clients can connect to. */
int activation_take(struct activation *a, struct err *e);
/* The number of the first descriptor that was not given. */
unsigned activation_end(const struct activation *a);

/* In a process that is about to become rftpd: make fds, and the line before, what the next
 * activation_take() finds. 0 or a negative errno. */
int activation_give(const int *fds, int nfds, int before, bool own);

#endif
