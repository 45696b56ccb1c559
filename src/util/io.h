// SPDX-License-Identifier: Apache-2.0
/* The one place where short reads and writes and EINTR are dealt with. */
#ifndef RFTP_UTIL_IO_H
#define RFTP_UTIL_IO_H

#include "util/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>
#include <sys/types.h>
#include <sys/uio.h>

/* All len bytes, or a negative errno. read_full: bytes read, less than len only
 * at the end of the file. */
ssize_t read_full(int fd, void *p, size_t len);
int write_full(int fd, const void *p, size_t len);
ssize_t pread_full(int fd, void *p, size_t len, off_t at);
int pwrite_full(int fd, const void *p, size_t len, off_t at);

int set_nonblock(int fd, bool on);
/* First thing in main: descriptors 0 to 2 that are closed become ones that can only fail
 * (-EBADF), so that no socket takes their place. */
void hold_standard_fds(void);
/* 1: ready; 0: timeout_ms passed (-1: never); or a negative errno. */
int poll_fd(int fd, short events, int timeout_ms);
/* recvmsg(2) on one of a pair of AF_UNIX sockets, without waiting. A peer that closes before it
 * has read all says so once, ahead of what it sent last: that is not where this ends. */
ssize_t recvmsg_pair(int fd, struct msghdr *msg);

/* The whole of a small file as a NUL-terminated string that the caller frees;
 * *len, which may be NULL, gets its length. -EFBIG beyond max. No copy of it is left
 * elsewhere in memory. */
int read_file(const char *path, size_t max, char **out, size_t *len);
/* Files that a program writes for itself (ownfile.c). A symbolic link on the way is followed if its
 * owner is root, the caller or owns the directory of the link. 0 or a descriptor; or a negative errno
 * with a text that names path; -EPERM: a link or a file of another user; -EINVAL or -ENXIO: a FIFO,
 * a socket or a block device. e may be NULL. */

/* Written beside the file, synced and renamed, so that path is whole or absent. A character device,
 * or an open file that /dev/stdout and the like lead to, is written in place. */
int write_file_atomic(const char *path, const void *data, size_t len, mode_t mode, struct err *e);
/* Open a regular file, which is made where it is missing, or a character device, to append. Never
 * waits. The caller closes it. */
int append_file_open(const char *path, mode_t mode, struct err *e);
/* Is root or the caller the only one that could replace a file in dir? 0; or a negative errno with
 * a text that says how to mend it. */
int own_dir_check(const char *dir, struct err *e);
/* mkdir -p with mode for the new ones. */
int make_dirs(const char *path, mode_t mode);
/* Close descriptors from first to last, whatever they are. Some filters of containers know
 * close_range(2) and refuse it: then one by one, below the limit of open descriptors, which this
 * raises. Between fork and exec, too. */
void close_fds(unsigned first, unsigned last);
/* Raise this process's limit of open descriptors as far as it may be; what it is then. */
unsigned raise_fd_limit(void);
/* The same for memory that may be locked (RLIMIT_MEMLOCK), in bytes; UINT64_MAX: any number. */
uint64_t raise_lock_limit(void);
/* What to do so that kib KiB may be locked, for an error's text. */
#define LOCK_ADVICE 192
const char *lock_advice(char text[LOCK_ADVICE], uint64_t kib);

#endif
