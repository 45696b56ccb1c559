// SPDX-License-Identifier: Apache-2.0
/* Named threads that run with all signals blocked but those of their own faults
 * (SIGSEGV and the like), so that signals reach the main thread. They are never
 * cancelled. */
#ifndef RFTP_UTIL_THREAD_H
#define RFTP_UTIL_THREAD_H

#include <pthread.h>

/* name: at most 15 bytes are shown by the kernel. Returns 0 or a negative
 * errno. The caller joins with pthread_join(). */
int thread_start(pthread_t *t, const char *name, void *(*fn)(void *), void *arg);

/* CPUs that this process may run on (cpuset and affinity honoured), at least 1. */
unsigned cpus_allowed(void);

#endif
