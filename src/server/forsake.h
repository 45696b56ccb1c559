// SPDX-License-Identifier: Apache-2.0
/* Sockets from which the monitor hears processes that it does not believe: what they pass there
 * unasked is never opened, nor closed by the monitor.
 *
 * A descriptor may have been prepared so that who closes it last has to wait: a connection that
 * lingers, a file of a file system that a user serves. Received or not, it is in the monitor's
 * hands with the packet that it came with. So such a packet stays where it is, and with its socket
 * it is left to a process that ends with it. */
#ifndef RFTP_SERVER_FORSAKE_H
#define RFTP_SERVER_FORSAKE_H

#include <stdbool.h>

/* Does a descriptor come with the packet that is received from fd, a msg_pair's, next? */
bool forsake_must(int fd);
/* Have the kernel refuse descriptors that are sent to fd, where it can do that. */
void forsake_refuse(int fd);
/* Close *fd, which nobody else reads from, with what it still has in it; -1: nothing to close.
 * There may be a child more for a moment, to be reaped. */
void forsake(int *fd);

#endif
