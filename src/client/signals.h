// SPDX-License-Identifier: Apache-2.0
/* SIGINT, SIGTERM and SIGHUP. During a transfer the first signal stops it so that it can be
 * resumed; in a shell on a terminal it stops any command. A second signal, and any signal at other
 * times, ends the program at once. */
#ifndef RFTP_CLIENT_SIGNALS_H
#define RFTP_CLIENT_SIGNALS_H

#include <stdbool.h>
#include <termios.h>

void signals_init(void);
/* After a signal has stopped a command: forget it, so that the next signal stops the next command.
 * Main thread, not during a transfer. */
void signals_rearm(void);
/* A transfer begins to poll signals_fd() (true), or ends that (false). Calls are counted. Any
 * thread. */
void signals_graceful(bool on);
/* Set the text to print on standard output when a signal ends the program; malloc'd, and taken.
 * NULL: none. Only in the main thread, where the handler runs. */
void signals_last_words(char *text);
/* A descriptor for poll(2) that is readable from the first signal on. -1: there is none, and every
 * signal ends the program. Any thread. */
int signals_fd(void);
/* The same if the next signal only stops the current command; -1 if it ends the program. */
int signals_abort_fd(void);
/* The last signal since the start or signals_rearm(); 0: none. Any thread. */
int signals_last(void);
bool signals_stopped(void); /* true after a signal; any thread, and the handler */
/* Set the terminal settings to restore on fd when a signal ends the program. t NULL: none. Main
 * thread. */
void signals_restore(int fd, const struct termios *t);

#endif
