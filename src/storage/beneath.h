// SPDX-License-Identifier: Apache-2.0
/* Opening a path below a directory without ever leaving it. */
#ifndef RFTP_STORAGE_BENEATH_H
#define RFTP_STORAGE_BENEATH_H

#include <stdbool.h>
#include <sys/types.h>

struct root;

struct beneath {
	int fd;           /* the directory, O_PATH will do */
	char *names[2];   /* its absolute names: as given and as resolved; may be NULL */
	bool walk_only;   /* the kernel has no openat2 for us */
	bool whole;       /* it is "/", above which ".." stays where it is */
};

/* Open path below b->fd. Leading slashes mean b->fd itself; flags and mode as open(2).
 * A descriptor or a negative errno: -EXDEV when it climbs out, -ELOOP for a magic link
 * of /proc or more than 40 symlinks. Any thread. */
int beneath_open(const struct beneath *b, const char *path, int flags, mode_t mode);

/* Whether what is behind fd, which may be O_PATH, is the kernel's view of processes (proc(5)): 1, 0, or
 * a negative errno. What is on the device plain is not (0: no such is known). */
int beneath_is_proc(int fd, dev_t plain);

/* Whether the kernel lets us use openat2; -ENOSYS or -EPERM otherwise. */
int beneath_probe(int fd);

/* For tests: resolve component by component from now on, as where the kernel
 * forbids openat2. Before other threads use r. */
void root_walk_only(struct root *r, bool on);

#endif
