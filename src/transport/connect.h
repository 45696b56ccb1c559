// SPDX-License-Identifier: Apache-2.0
/* Steps of making TCP connections that connect.c and opener.c share. */
#ifndef RFTP_TRANSPORT_CONNECT_H
#define RFTP_TRANSPORT_CONNECT_H

#include "transport/fault.h"
#include "transport/transport.h"

#include <netdb.h>

#define ADDRESS_TEXT 80

/* Why a connection failed, in plain words. */
const char *net_reason(int code);
/* "host:port", IPv6 in brackets. Returns out. */
const char *address_text(const struct sockaddr_storage *a, socklen_t len, char out[ADDRESS_TEXT]);
/* No Nagle, keepalive. */
void socket_options(int fd);
/* The type of service of what fd sends, and of what it accepts. */
void socket_tos(int fd, int tos);
/* A non-blocking socket on its way to a, from an address of ours (NULL: by the routes); 0 or
 * a negative errno. */
int connect_begin(const struct sockaddr *a, socklen_t len, const struct sockaddr *from, int *out);
/* Once it is writable: 0 or the negative errno it failed with. */
int connect_result(int fd);
/* The addresses of host, which may be a name, for freeaddrinfo(). -ECANCELED: stop, a descriptor
 * or -1, was readable before they were known; or another negative errno; with text. */
int resolve_name(const char *host, uint16_t port, int stop, struct addrinfo **list,
		 struct err *e);

#endif
