// SPDX-License-Identifier: Apache-2.0
/* The signals of the process that listens. */
#ifndef RFTP_SERVER_SIGNALS_H
#define RFTP_SERVER_SIGNALS_H

#include <signal.h>
#include <stdbool.h>

/* Raised by SIGHUP, and by SIGUSR2; who acts on it clears it. */
extern volatile sig_atomic_t signals_reread, signals_next;

/* From now on they come only while *waiting is the mask, so that none is lost between a look and
 * the sleep. reread: SIGHUP is one of them; else it does what it did. */
void signals_begin(sigset_t *waiting, bool reread);
/* In a child, with the same. */
void signals_begin_child(const sigset_t *waiting, bool reread);

#endif
