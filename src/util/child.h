// SPDX-License-Identifier: Apache-2.0
/* Runs another program to its end, without a shell, and keeps what it says. */
#ifndef RFTP_UTIL_CHILD_H
#define RFTP_UTIL_CHILD_H

#include "util/stop.h"
#include "util/err.h"

#define CHILD_FD 9 /* under this number the program has what it is handed */

struct child_said {
	char *out, *err;   /* NUL-terminated, each up to CHILD_SAID_MAX */
	size_t out_len, err_len;
	int status;        /* its exit status; 128 + signal when one ended it */
};

#define CHILD_SAID_MAX (64u << 20) /* a picture of 64 nodes is some megabytes */

/* argv[0] is looked for in PATH. hand_on: an open descriptor for the program's CHILD_FD; -1:
 * none. When stop is asked for (NULL: whatever comes, it goes on), the program and its process
 * group are ended. 0: it has ended by itself; -EINTR: it was stopped; -ENOENT: there is no such
 * program; or another negative errno; with text. said is child_clear's in any case. */
int child_run(char *const argv[], int hand_on, const struct stop *stop, struct child_said *said,
	      struct err *e);
void child_clear(struct child_said *said);

#endif
