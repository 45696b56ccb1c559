// SPDX-License-Identifier: Apache-2.0
/* Messages between rftpd's processes: a struct of one size each, in one packet, and with it an
 * open descriptor at most. */
#ifndef RFTP_SERVER_MSG_H
#define RFTP_SERVER_MSG_H

#include <stddef.h>

#define LEFT_MS 1000

/* A pair of connected sockets for messages. 0 or a negative errno. */
int msg_pair(int fd[2]);
/* Send len bytes, and pass (-1: none), which stays the caller's, in timeout_ms (-1: any time).
 * 0; -EPIPE: nobody is there; -ETIMEDOUT; or another negative errno. */
int msg_send(int fd, const void *p, size_t len, int pass, int timeout_ms);
/* Receive exactly len bytes, and a descriptor: *passed, -1 when none came; NULL: none may come.
 * 0; -EPIPE: the other side is gone; -EPROTO: another length, or descriptors that were not
 * asked for (they are closed); -ETIMEDOUT; or another negative errno. */
int msg_receive(int fd, void *p, size_t len, int *passed, int timeout_ms);
/* Before msg_receive() of an answer that a client waits for, whose connection is peer, a TCP socket.
 * 0: there is a message, or an end; -ECONNRESET: the client has closed its connection. It gets
 * LEFT_MS more first, because some clients close only their sending direction. Or another negative
 * errno. */
int msg_await(int fd, int peer);
/* The same from who is not believed: what has come by now, with no descriptor. -EAGAIN: nothing;
 * -EPROTO: also a descriptor, which stays there, for forsake(). */
int msg_hear(int fd, void *p, size_t len);

#endif
