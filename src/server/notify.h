// SPDX-License-Identifier: Apache-2.0
/* What the service manager is told: sd_notify(3), over the socket that NOTIFY_SOCKET names.
 * Without one all of it does nothing. One thread. */
#ifndef RFTP_SERVER_NOTIFY_H
#define RFTP_SERVER_NOTIFY_H

#include <sys/types.h>

/* Take the socket's name out of the environment. The first of all calls. */
void notify_begin(void);
/* Into the environment of a program that we become, to be told in our place. */
void notify_pass_on(void);

/* We serve. */
void notify_ready(void);
/* Settings are being read; notify_ready() says when that is over. */
void notify_reloading(void);
/* What is wrong with the new settings, which are not in force; NULL: nothing is. Part of the
 * status from now on. */
void notify_trouble(const char *text);
/* We are about to end, and so many sessions with us. */
void notify_stopping(unsigned sessions);
/* Process pid serves from now on: it tells the rest, we nothing more. */
void notify_main_pid(pid_t pid);

/* Connections at the moment: ours, and those of the rftpd that was before us. The status has them,
 * at most once a second: in how many ms to ask again, -1: not before there are others. */
int notify_sessions(unsigned ours, unsigned before);

#endif
