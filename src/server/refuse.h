// SPDX-License-Identifier: Apache-2.0
/* Clients that the monitor does not serve: what it tells them, and the log. */
#ifndef RFTP_SERVER_REFUSE_H
#define RFTP_SERVER_REFUSE_H

#include "server/server.h"

/* peer: as srv_peer_text has it. */
void refusal_log(const char *peer, const char *why);
/* On fd, which stays open: the address is not one that may connect. */
void refuse_address(int fd, const struct sockaddr_storage *peer);
/* The same: not now, as why says. */
void refuse_for_now(int fd, const struct sockaddr_storage *peer, const char *why);

#endif
