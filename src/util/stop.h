// SPDX-License-Identifier: Apache-2.0
/* Signals that ask for the end are looked for between steps, so that what was begun is put back
 * first. */
#ifndef RFTP_UTIL_STOP_H
#define RFTP_UTIL_STOP_H

#include <signal.h>
#include <stdbool.h>

struct stop {
	sigset_t asked, before;
};

/* From here on they wait; those that are ignored stay so. Before threads start. */
void stop_begin(struct stop *s);
/* Has one come? Any thread that was started since. */
bool stop_asked(const struct stop *s);
/* A descriptor that is readable once one has come, for the caller to close; or a negative errno. */
int stop_fd(const struct stop *s);
/* As it was: one that has come is delivered now. */
void stop_end(const struct stop *s);

#endif
