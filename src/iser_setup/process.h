// SPDX-License-Identifier: Apache-2.0
/* A program that runs beside us and is spoken to, over a socket that is its standard input and
 * output. It has a session of its own, so that a terminal's signals do not reach it, none of our
 * descriptors but one that it may be given to hold, no directory, and of our environment PATH
 * alone. */
#ifndef RFTP_ISER_PROCESS_H
#define RFTP_ISER_PROCESS_H

#include "util/util.h"

#include <sys/types.h>

#define PROCESS_SAID_MAX 1024u

struct process {
	pid_t pid;            /* 0: there is none */
	int fd;               /* our end, non-blocking */
	int err;              /* what it says on standard error */
	char said[PROCESS_SAID_MAX + 1]; /* the end of that; NUL-terminated */
	size_t said_len;
};

#define PROCESS_INIT { .fd = -1, .err = -1 }

/* argv[0] is looked for in PATH. hold: a descriptor, as of a lock, that is open as long as the
 * program is there, though we may not be; -1: none. 0, or a negative errno with text. */
int process_start(struct process *p, char *const argv[], int hold, struct err *e);
/* What it has said on standard error by now. */
void process_listen(struct process *p);
/* It will be told no more, and ends when it has understood that; it is killed when it takes
 * longer than wait_ms. Its status, as child_said's; -1: it is not known. */
int process_end(struct process *p, int wait_ms);
/* It is left to itself, and learns that we are gone. */
void process_leave(struct process *p);
/* The last line on standard error; "" without. Points into p. */
const char *process_last_line(struct process *p);

#endif
