// SPDX-License-Identifier: Apache-2.0
/* Questions to the user on the terminal, and what else the program rftp answers to its engine. Main
 * thread, unless a comment says otherwise. */
#ifndef RFTP_CLIENT_TERMINAL_H
#define RFTP_CLIENT_TERMINAL_H

#include "client/engine.h"

/* rftp itself: signals stop its calls, and the user at the terminal knows passwords and keys. */
extern const struct engine_env rftp_env;
/* The umask that rftp was started with. The first call sets the process's umask to 0: files of a
 * transfer get exactly the modes of the request. */
mode_t bulk_umask(void);

/* Ask for a password, without echo. again: the last one was wrong. malloc'd; NULL: there is no
 * terminal, or no answer. */
char *ask_password(const char *user, const char *host, bool again);
/* Ask for a line. malloc'd, without its newline; NULL: there is no terminal, or no answer. */
char *ask_line(const char *question);
/* Ask a question. True: the answer is "yes"; false: any other answer, or no terminal. */
bool ask_yes(const char *question);

#endif
