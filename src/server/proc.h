// SPDX-License-Identifier: Apache-2.0
/* A process more, with lines to the monitor, and without what the monitor knows. */
#ifndef RFTP_SERVER_PROC_H
#define RFTP_SERVER_PROC_H

#include "server/conns.h"

/* fork with lines between the two: in the parent p has the child's pid, and hears it; in the child
 * it is 0, and p->fd is heard. limits NULL: it writes the log itself. A negative errno in p->pid:
 * there is none. */
void proc_fork(struct proc *p, const struct lines_limits *limits);
/* In the child: what functions that have returned left on the stack is there no more: names,
 * addresses, lines of the log. */
void proc_wipe_stack(void);

#endif
