// SPDX-License-Identifier: Apache-2.0
/* The sockets that clients connect to. */
#ifndef RFTP_SERVER_LISTENER_H
#define RFTP_SERVER_LISTENER_H

#include "server/server.h"

#include <poll.h>
#include <stdbool.h>

struct listener {
	struct pollfd fds[LISTEN_MAX];
	struct listen_addr addrs[LISTEN_MAX]; /* as they were asked for */
	uint16_t ports[LISTEN_MAX];
	nfds_t nfds;
	bool given;      /* by a service manager: all that is listened on, whatever --listen says */
};

struct activation;

/* All that o wants, or that was given, whose sockets are l's then; and its port file. 0, or a
 * negative errno with text. */
int listener_open(struct listener *l, const struct srv_options *o, const struct activation *a,
		  struct err *e);
/* A connection of the i-th, and both ends of it. A descriptor; -EAGAIN: none, after all. */
int listener_accept(struct listener *l, nfds_t i, struct ends *ends);
void listener_close(struct listener *l);
/* As o wants it from now on. What listens already goes on, without a gap, and so does what was
 * given. 0; or a negative errno with text: l is as before. */
int listener_change(struct listener *l, const struct srv_options *o, struct err *e);

#endif
