// SPDX-License-Identifier: Apache-2.0
/* See transport.h. */
#include "transport/transport.h"

#include <errno.h>
#include <sys/eventfd.h>
#include <unistd.h>

int sleeper_open(struct sleeper *s)
{
	atomic_init(&s->sleeping, false);
	atomic_init(&s->woken, false);
	s->efd = -1;
	s->ep = epoll_create1(EPOLL_CLOEXEC);
	if (s->ep < 0)
		return -errno;
	s->efd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (s->efd < 0)
		return -errno;
	return sleeper_watch(s, s->efd, EPOLLIN | EPOLLET, (epoll_data_t){ .u64 = SLEEPER_WOKEN });
}

void sleeper_close(struct sleeper *s)
{
	cleanup_close(&s->ep);
	cleanup_close(&s->efd);
}

int sleeper_watch(struct sleeper *s, int fd, uint32_t events, epoll_data_t data)
{
	struct epoll_event e = { .events = events, .data = data };

	return epoll_ctl(s->ep, EPOLL_CTL_ADD, fd, &e) < 0 ? -errno : 0;
}

void sleeper_unwatch(struct sleeper *s, int fd)
{
	epoll_ctl(s->ep, EPOLL_CTL_DEL, fd, NULL);
}

void sleeper_kick(struct sleeper *s)
{
	uint64_t one = 1;

	if (!atomic_exchange(&s->sleeping, false))
		return;
	/* Cannot fail: the counter would have to overflow. It is never read, each write
	 * makes a new edge. */
	if (write(s->efd, &one, sizeof(one)) < 0)
		return;
}

void sleeper_wake(struct sleeper *s)
{
	atomic_store(&s->woken, true);
	sleeper_kick(s);
}

bool sleeper_woken(struct sleeper *s)
{
	return atomic_load(&s->woken) && atomic_exchange(&s->woken, false);
}

bool sleeper_lie_down(struct sleeper *s)
{
	atomic_store(&s->sleeping, true);
	return !atomic_load(&s->woken);
}

int sleeper_sleep(struct sleeper *s, struct epoll_event *e, int max, int timeout_ms)
{
	int n = epoll_wait(s->ep, e, max, timeout_ms);

	atomic_store(&s->sleeping, false);
	if (n < 0)
		return errno == EINTR ? 0 : -errno;
	return n;
}
