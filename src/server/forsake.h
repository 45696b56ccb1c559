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

/* Does a descriptor come with the packet that is received next from fd, a msg_pair's from which nobody
 * else reads? 1; 0: none, it may be received (or the end, or an error, told); -EAGAIN: there is no
 * packet yet, and who received now might get another than was looked at. */
int forsake_look(int fd);
/* Close *fd, which nobody else reads from, with what it still has in it; -1: nothing to close.
 * There may be a child more for a moment, to be reaped. Where there can be none, what has
 * descriptors in it stays open for as long as this process runs, which is said. */
void forsake(int *fd);

#endif
