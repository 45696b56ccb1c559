// SPDX-License-Identifier: Apache-2.0
/* The system calls that a process may still make (seccomp(2)). */
#ifndef RFTP_SERVER_JAIL_H
#define RFTP_SERVER_JAIL_H

#include "util/util.h"

/* For a front: bytes between descriptors that it has, threads, memory. Any other call ends the
 * process. */
int jail_front(struct err *e);
/* For a session: files, sockets, threads, memory, io_uring, verbs. What no session has a use
 * for, as running programs, tracing, mounting or becoming somebody, ends the process; what is
 * not known is answered with ENOSYS.
 *
 * Both: this process and the threads that it is going to start, for good; needs
 * no_new_privs. 0; -EOPNOTSUPP: built without, or the kernel has it not; or another negative
 * errno; with text. */
int jail_session(struct err *e);
/* After pid, a child of this process, died of SIGSYS: which call was it? "number (name)" from the
 * kernel's log in out, which is returned; or "" when this process may not read that log, or auditd
 * takes the records out of it. Waits some milliseconds for the record. */
#define JAIL_CALL_TEXT 64
const char *jail_refused_call(pid_t pid, char out[JAIL_CALL_TEXT]);

#endif
