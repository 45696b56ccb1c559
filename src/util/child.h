// SPDX-License-Identifier: Apache-2.0
/* Child processes: programs, and functions of this program that may hang or crash. */
#ifndef RFTP_UTIL_CHILD_H
#define RFTP_UTIL_CHILD_H

#include "util/err.h"

#include <stdbool.h>
#include <sys/types.h>

struct child {
	pid_t pid;  /* 0: none, or it has ended */
	int status; /* as waitpid(2) gives it, once it has ended; -1: unknown */
};

struct child_program {
	char *const *argv;     /* argv[0] is searched in PATH; NULL ends the list */
	int in, out, err;      /* the child's descriptors 0 to 2; -1: inherited */
	bool ignore_interrupt; /* ignore SIGINT, which a terminal sends to both */
};

/* Start a program with default signal actions and mask; descriptors must be close-on-exec. 0, or a
 * negative errno with text, also when the program cannot be executed: -ENOENT, -EACCES. */
int child_exec(struct child *c, const struct child_program *p, struct err *e);

/* Wait at most timeout_ms (-1: for ever). 1: the child has ended; 0: it still runs; -EINTR (with -1
 * only): a signal interrupted the wait. */
int child_wait(struct child *c, int timeout_ms);

/* Wait patience_ms, send SIGTERM, wait patience_ms again, send SIGKILL; -1: wait without limit or
 * signal. On return the child has ended and is reaped. */
void child_end(struct child *c, int patience_ms);

/* Call fn in a child process and wait for its end. Returns fn's result, 0 or a negative errno, with
 * fn's text in e, and copies the child's len bytes at data to data here. -ETIMEDOUT (after limit_s
 * seconds) or -ECHILD with text: the child gave no result. The child is also killed when this
 * process ends. keep NULL: the child keeps all descriptors. Otherwise it keeps only 0 to 2 and
 * *keep (-1: no other); use this for an fn that parses untrusted bytes. Such an fn cannot log, and
 * its text and data are untrusted. The caller must be single-threaded. */
int child_call(int (*fn)(void *arg, struct err *e), void *arg, unsigned limit_s, const int *keep,
	       void *data, size_t len, struct err *e);

#endif
