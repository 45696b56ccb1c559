// SPDX-License-Identifier: Apache-2.0
/* Named threads that run with all signals blocked but those of their own faults
 * (SIGSEGV and the like), so that signals reach the main thread. They are never
 * cancelled. */
#ifndef RFTP_UTIL_THREAD_H
#define RFTP_UTIL_THREAD_H

#include <pthread.h>
#include <stdint.h>

/* name: at most 15 bytes are shown by the kernel. Returns 0 or a negative errno, -ENOMEM also
 * where there are too many: -EAGAIN is for a server that says "later". The caller joins with
 * pthread_join(). */
int thread_start(pthread_t *t, const char *name, void *(*fn)(void *), void *arg);

/* A condition whose timed waits go by now_ns(). */
void cond_init(pthread_cond_t *c);
/* As pthread_cond_wait, until the time end of now_ns() at most (UINT64_MAX: for ever). 0, or
 * -ETIMEDOUT. */
int cond_wait_until(pthread_cond_t *c, pthread_mutex_t *m, uint64_t end);

/* CPUs that this process may run on (cpuset and affinity honoured), at least 1. */
unsigned cpus_allowed(void);

#endif
