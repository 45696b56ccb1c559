// SPDX-License-Identifier: Apache-2.0
/* Inside src/server only: system calls that depend on what they are asked for. Included where
 * there is libseccomp. */
#ifndef RFTP_SERVER_JAIL_ARGS_H
#define RFTP_SERVER_JAIL_ARGS_H

#include <seccomp.h>

/* Let f allow what a front may ask for of calls of which it may make only some, or a session;
 * whatever else is asked for with them is left to f's default. Signals are for the process that
 * calls this. 0 or a negative errno. */
int jail_args_front(scmp_filter_ctx f);
int jail_args_session(scmp_filter_ctx f);

#endif
