// SPDX-License-Identifier: Apache-2.0
/* A thread that sleeps until a descriptor is readable, or nobody wants to know any more. */
#include "util/sentry.h"

#include "util/cleanup.h"
#include "util/io.h"
#include "util/log.h"
#include "util/thread.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/eventfd.h>

/* True: fd is readable. False: it is not looked at any more. */
static bool wait_for(const struct sentry *s)
{
	struct pollfd p[] = { { .fd = s->over, .events = POLLIN },
			      { .fd = s->fd, .events = POLLIN } };
	int n;

	do {
		n = poll(p, 2, -1);
	} while (n < 0 && errno == EINTR);
	return n > 0 && !p[0].revents;
}

static void *sentry_main(void *arg)
{
	struct sentry *s = arg;

	if (wait_for(s))
		s->fn(s->arg);
	return NULL;
}

int sentry_start(struct sentry *s, const char *name, int fd, void (*fn)(void *arg), void *arg,
		 struct err *e)
{
	int r = 0;

	*s = (struct sentry){ .fd = fd, .over = -1, .fn = fn, .arg = arg };
	if (fd < 0)
		return 0;
	s->over = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (s->over < 0)
		r = -errno;
	else
		r = thread_start(&s->thread, name, sentry_main, s);
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
