// SPDX-License-Identifier: Apache-2.0
/* Something to be done as soon as a descriptor is readable, while another thread does what that
 * is to interrupt. */
#ifndef RFTP_UTIL_SENTRY_H
#define RFTP_UTIL_SENTRY_H

#include "util/err.h"

#include <pthread.h>
#include <stdbool.h>

struct sentry {
	/* Set before the thread starts. */
	int fd;
	int over;              /* readable once nothing is to be watched any more; or -1 */
	void (*fn)(void *arg);
	void *arg;
	pthread_t thread;
	bool on;               /* there is a thread */
};

/* fn(arg), once, in a thread of its own, when fd is readable before sentry_end(). fd -1: nothing is
 * watched. 0, or a negative errno with text; sentry_end() is harmless after either. */
int sentry_start(struct sentry *s, const char *name, int fd, void (*fn)(void *arg), void *arg,
		 struct err *e);
/* For fn: wait at most timeout_ms for sentry_end(). True: somebody is in it. */
bool sentry_is_over(const struct sentry *s, int timeout_ms);
/* Watch no longer; fn, if it has been called, has returned. */
void sentry_end(struct sentry *s);

#endif
