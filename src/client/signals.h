// SPDX-License-Identifier: Apache-2.0
/* SIGINT, SIGTERM and SIGHUP: during a transfer the first one stops it so that it can be
 * resumed, and in a shell on a terminal it stops any command; the second, and any at other times,
 * ends the program at once. */
#ifndef RFTP_CLIENT_SIGNALS_H
#define RFTP_CLIENT_SIGNALS_H

#include <stdbool.h>
#include <termios.h>

void signals_init(void);
/* A signal that stopped what is done now has done its work: the next one stops what comes next. Not
 * while a transfer looks. */
void signals_rearm(void);
/* A transfer looks at signals_fd() from now on (true), or no more (false). Any thread. */
void signals_graceful(bool on);
/* What to write on standard output when a signal ends the program; malloc'd, taken over.
 * NULL: nothing. The main thread's, where the handler runs. */
void signals_last_words(char *text);
/* Readable for good once a signal has come, for poll(2). -1: there is none, and every signal
 * ends the program. */
int signals_fd(void);
/* The same where the first signal stops only what is done now; -1 where it ends the program. */
int signals_wish(void);
/* The one that came last since the start or signals_rearm(); 0: none. */
int signals_last(void);
bool signals_stopped(void); /* any thread, and the handler */
/* Settings to give back to the terminal on fd when a signal ends the program; t NULL:
 * none. */
void signals_restore(int fd, const struct termios *t);

#endif
