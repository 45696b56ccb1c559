// SPDX-License-Identifier: Apache-2.0
/* Named threads. All signals are blocked in them, except fault signals (SIGSEGV and the like), so
 * that the main thread receives the others. Threads are never cancelled. */
#ifndef RFTP_UTIL_THREAD_H
#define RFTP_UTIL_THREAD_H

#include "util/err.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

/* name: the kernel shows at most 15 bytes. The caller joins with pthread_join(). 0 or a negative
 * errno; -ENOMEM also when there are too many threads: -EAGAIN means that a server asks to try
 * later. */
int thread_start(pthread_t *t, const char *name, void *(*fn)(void *), void *arg);
/* The text of an error of thread_start(). Returns code. */
int thread_failed(struct err *e, int code);

/* A condition for cond_wait_until(). */
void cond_init(pthread_cond_t *c);

/* As pthread_cond_wait(), but until end, a now_ns() time (UINT64_MAX: no limit). 0 or
 * -ETIMEDOUT. */
int cond_wait_until(pthread_cond_t *c, pthread_mutex_t *m, uint64_t end);

/* A thread that calls a function as soon as a descriptor is readable, while another thread does the
 * work that the function must interrupt. */
struct sentry {
	/* Set before the thread starts. */
	int fd;
	int over;              /* eventfd, readable once sentry_end() runs; or -1 */
	void (*fn)(void *arg);
	void *arg;
	pthread_t thread;
	bool on;               /* the thread exists */
};

/* Call fn(arg) once in a new thread if fd becomes readable before sentry_end(). fd -1: watch
 * nothing. 0, or a negative errno with text; sentry_end() is harmless in both cases. */
int sentry_start(struct sentry *s, const char *name, int fd, void (*fn)(void *arg), void *arg,
		 struct err *e);
/* For fn: wait at most timeout_ms for sentry_end(). True: another thread has called it. */
bool sentry_is_over(const struct sentry *s, int timeout_ms);
/* Stop watching and join the thread: afterwards fn does not run. */
void sentry_end(struct sentry *s);

#endif
