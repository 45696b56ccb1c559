// SPDX-License-Identifier: Apache-2.0
/* Named threads that leave signals to the main thread. */
#include "util/thread.h"

#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>

enum { NAME_BYTES = 16, MAX_CPUS = 1 << 20 };

struct start {
	void *(*fn)(void *);
	void *arg;
	char name[NAME_BYTES];
};

/* The thread names itself, so that it has its name from its first step. */
static void *run(void *p)
{
	struct start s = *(struct start *)p;

	free(p);
	pthread_setname_np(pthread_self(), s.name);
	return s.fn(s.arg);
}

/* A fault is always delivered to the thread that made it; blocked, it would kill
 * the process without a word from its handler (sanitizers, SIGBUS of a file that
 * was cut short). */
static void block_signals(sigset_t *old)
{
	static const int faults[] = { SIGSEGV, SIGBUS, SIGFPE, SIGILL };
	sigset_t all;
	size_t i;

	sigfillset(&all);
	for (i = 0; i < sizeof(faults) / sizeof(faults[0]); i++)
		sigdelset(&all, faults[i]);
	pthread_sigmask(SIG_SETMASK, &all, old);
}

int thread_start(pthread_t *t, const char *name, void *(*fn)(void *), void *arg)
{
	struct start *s = malloc(sizeof(*s));
	sigset_t old;
	int rc;

	if (!s)
		return -ENOMEM;
	s->fn = fn;
	s->arg = arg;
	snprintf(s->name, sizeof(s->name), "%s", name);

	block_signals(&old); /* the new thread inherits the mask */
	rc = pthread_create(t, NULL, run, s);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	if (rc)
		free(s);
	return rc == EAGAIN ? -ENOMEM : -rc;
}

void cond_init(pthread_cond_t *c)
{
	pthread_condattr_t a;

	pthread_condattr_init(&a);
	pthread_condattr_setclock(&a, CLOCK_MONOTONIC);
	pthread_cond_init(c, &a);
	pthread_condattr_destroy(&a);
}

int cond_wait_until(pthread_cond_t *c, pthread_mutex_t *m, uint64_t end)
{
	struct timespec t = { .tv_sec = (time_t)(end / 1000000000),
			      .tv_nsec = (long)(end % 1000000000) };

	if (end == UINT64_MAX)
		return -pthread_cond_wait(c, m);
	return -pthread_cond_timedwait(c, m, &t);
}

/* CPUs in the mask of this process when it has room for cpus; 0 when that is too
 * small for the kernel, -1 when there is no telling. */
static int count_allowed(int cpus)
{
	size_t bytes = CPU_ALLOC_SIZE(cpus);
	cpu_set_t *set = CPU_ALLOC(cpus);
	int n = -1;

	if (!set)
		return -1;
	if (sched_getaffinity(0, bytes, set) == 0)
		n = CPU_COUNT_S(bytes, set);
	else if (errno == EINVAL)
		n = 0;
	CPU_FREE(set);
	return n;
}

unsigned cpus_allowed(void)
{
	int cpus, n = 0;

	for (cpus = 1024; n == 0 && cpus <= MAX_CPUS; cpus *= 2)
		n = count_allowed(cpus);
	return n > 0 ? (unsigned)n : 1;
}
