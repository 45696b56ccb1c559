// SPDX-License-Identifier: Apache-2.0
/* TLS on a session's data connections, which its front does. */
#ifndef RFTP_SERVER_GUARD_H
#define RFTP_SERVER_GUARD_H

#include "transport/transport.h"

struct ftp_session;

/* The session's half: the data connection fd under TLS, by the front at the other end of
 * line. Takes fd over; NULL with text, fd is the caller's then. One thread at a time. */
struct stream *guard_data(int line, int fd, struct err *e);

/* The front's half: serve what is asked on line, until the session is gone, and all that it had
 * under TLS is at its end. tls and control: what the client's connection uses. */
void guard_serve(int line, struct tls_ctx *tls, struct tls *control, const char *peer_text);

#endif
