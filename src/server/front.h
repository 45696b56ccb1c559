// SPDX-License-Identifier: Apache-2.0
/* The process that a stranger talks to. */
#ifndef RFTP_SERVER_FRONT_H
#define RFTP_SERVER_FRONT_H

#include "server/server.h"

/* Serve the connection fd in this process, which is root's and was forked for it: give all
 * rights away, speak TLS and FTP until a login, then pass bytes on. monitor: where to ask. The
 * process's status. */
int front_run(const struct server *sv, int fd, int monitor, const struct ends *ends);

#endif
