// SPDX-License-Identifier: Apache-2.0
/* Threads, timed waits, and threads that watch a descriptor. */
#include "util/thread.h"

#include "util/base.h"
#include "util/io.h"
#include "util/log.h"

#include <poll.h>
#include <signal.h>
#include <sys/eventfd.h>

enum { NAME_BYTES = 16 };

struct thread_begin {
	void *(*fn)(void *);
	void *arg;
	char name[NAME_BYTES];
};

/* The thread sets its own name, so that the name is set before fn runs. */
static void *thread_main(void *p)
{
	struct thread_begin b = *(struct thread_begin *)p;

	free(p);
	pthread_setname_np(pthread_self(), b.name);
	return b.fn(b.arg);
}

int thread_start(pthread_t *t, const char *name, void *(*fn)(void *), void *arg)
{
	/* The kernel delivers a fault signal to the thread that caused it. If the signal is
	 * blocked, the kernel kills the process without calling a handler, such as a
	 * sanitizer's. */
	static const int faults[] = { SIGSEGV, SIGBUS, SIGFPE, SIGILL };
	struct thread_begin *b = malloc(sizeof(*b));
	sigset_t blocked, old;
	int rc;

	if (!b)
		return -ENOMEM;
	b->fn = fn;
	b->arg = arg;
	snprintf(b->name, sizeof(b->name), "%s", name);
	sigfillset(&blocked);
	for (size_t i = 0; i < sizeof(faults) / sizeof(faults[0]); i++)
		sigdelset(&blocked, faults[i]);

	pthread_sigmask(SIG_SETMASK, &blocked, &old); /* the new thread inherits the mask */
	rc = pthread_create(t, NULL, thread_main, b);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	if (rc)
		free(b);
	return rc == EAGAIN ? -ENOMEM : -rc;
}

int thread_failed(struct err *e, int code)
{
	return err_sys(e, code, "cannot start a thread");
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

/* ---- a thread that watches a descriptor ---- */

static void *sentry_main(void *arg)
{
	struct sentry *s = arg;
	struct pollfd p[] = { { .fd = s->over, .events = POLLIN },
			      { .fd = s->fd, .events = POLLIN } };
	int n;

	do {
		n = poll(p, 2, -1);
	} while (n < 0 && errno == EINTR);
	if (n > 0 && !p[0].revents)
		s->fn(s->arg);
	return NULL;
}

int sentry_start(struct sentry *s, const char *name, int fd, void (*fn)(void *arg), void *arg,
		 struct err *e)
{
	int r;

	*s = (struct sentry){ .fd = fd, .over = -1, .fn = fn, .arg = arg };
	if (fd < 0)
		return 0;
	s->over = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	r = s->over < 0 ? -errno : thread_start(&s->thread, name, sentry_main, s);
	s->on = !r;
	return r ? err_sys(e, r, "cannot watch for signals") : 0;
}

bool sentry_is_over(const struct sentry *s, int timeout_ms)
{
	return poll_fd(s->over, POLLIN, timeout_ms) > 0;
}

void sentry_end(struct sentry *s)
{
	if (s->on) {
		if (eventfd_write(s->over, 1) < 0)
			log_debug("eventfd: %s", strerror(errno));
		pthread_join(s->thread, NULL);
		s->on = false;
	}
	cleanup_close(&s->over);
}
