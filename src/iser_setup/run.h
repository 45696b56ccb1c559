// SPDX-License-Identifier: Apache-2.0
/* Other people's programs, run to their end, and what they complain of as one line. */
#ifndef RFTP_ISER_RUN_H
#define RFTP_ISER_RUN_H

#include "util/util.h"

/* The words after program, up to a NULL, are its arguments: nothing secret may be among them. *out,
 * which may be NULL, gets its standard output, which the caller frees. 0; its exit status, above 0,
 * with the reason it gave as text; or a negative errno with text, -ENOENT also with the package to
 * install. */
int run_program(const struct stop *stop, char **out, struct err *e, const char *program, ...)
	__attribute__((sentinel));
/* The same with all words in a list that ends with NULL. */
int run_words(const struct stop *stop, char **out, struct err *e, const char *const argv[]);

/* fd, a descriptor that stays the caller's, is open as long as a program lives that is started from
 * now on and changes disks, sessions or records: when we are killed it goes on, and what fd locks
 * stays locked until it ends. -1: none is. To be called before there are threads. */
void run_hold(int fd);

#define RUN_SETTLE_SECONDS 10 /* for devices that are to go */

/* Waits until udev, where there is one, has dealt with the devices that have come or changed, for
 * so many seconds at most. */
void run_settle(const struct stop *stop, unsigned seconds);

/* The line of what a program said that tells most of why it failed: into reason, made harmless. ""
 * when it said nothing. */
void run_reason(const char *said, char *reason, size_t room);

#endif
