// SPDX-License-Identifier: Apache-2.0
/* Descriptors and files. Short reads and writes and EINTR are handled here only. */
#ifndef RFTP_UTIL_IO_H
#define RFTP_UTIL_IO_H

#include "util/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>
#include <sys/types.h>
#include <sys/uio.h>

/* Transfer all len bytes. Reads return the number of bytes, less than len only at the end of the
 * file; writes return 0; or a negative errno. */
ssize_t read_full(int fd, void *p, size_t len);
int write_full(int fd, const void *p, size_t len);
ssize_t pread_full(int fd, void *p, size_t len, off_t at);
int pwrite_full(int fd, const void *p, size_t len, off_t at);

int set_nonblock(int fd, bool on);

/* The n bytes of a line of getline(3) without the LF at the end, and without a CR before it, as
 * files from other systems have: puts a NUL there, and returns the number of bytes left. */
size_t line_trim(char *line, size_t n);

/* Call first in main. Opens /dev/null in place of each closed descriptor of 0 to 2, in the wrong
 * direction: its use fails with EBADF, and no socket gets its number. */
void hold_standard_fds(void);
/* 1: ready; 0: timeout_ms passed (-1: never); or a negative errno. */
int poll_fd(int fd, short events, int timeout_ms);

/* recvmsg(2) on one of a pair of AF_UNIX sockets, without waiting. If the peer closed its end with
 * unread bytes, Linux reports one ECONNRESET before the last message; this call skips it. */
ssize_t recvmsg_pair(int fd, struct msghdr *msg);

/* Read a whole small file into a NUL-terminated string, which the caller frees; *len (len may be
 * NULL) gets its length. 0; -EFBIG: longer than max; or another negative errno. Leaves no other
 * copy of the contents in memory. */
int read_file(const char *path, size_t max, char **out, size_t *len);
/* As mkdir -p, with mode for new directories. 0 or a negative errno. */
int make_dirs(const char *path, mode_t mode);

/* ---- files that a program writes for itself ----
 *
 * Follows symbolic links of root, of the caller and of the owner of the link's directory. 0 or a
 * descriptor; or a negative errno with a text that names path. -EPERM: a link or a file of another
 * user; -EINVAL or -ENXIO: a FIFO, a socket or a block device. e may be NULL. */

/* Write a new file beside path, sync it and rename it to path, so that path is never partly
 * written. Writes character devices, and open files behind links such as /dev/stdout, in place. */
int write_file_atomic(const char *path, const void *data, size_t len, mode_t mode, struct err *e);

/* Open a regular file, created if missing, or a character device, to append. Does not block. The
 * caller closes it. */
int append_file_open(const char *path, mode_t mode, struct err *e);

/* Wait for the lock on path's directory; it excludes other writers that use this call. A lock on
 * path itself would be lost when path is replaced. Closing the descriptor unlocks. -ENOLCK or
 * -EBADF: the file system (NFS, for example) cannot lock directories. */
int lock_file_open(const char *path, struct err *e);

/* Check that only root and the caller can replace a file in dir. 0, or a negative errno with a text
 * that names the remedy. */
int own_dir_check(const char *dir, struct err *e);

#endif
