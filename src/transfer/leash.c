// SPDX-License-Identifier: Apache-2.0
/* A thread that sleeps until the user wants to stop, or nothing is left to be stopped. */
#include "transfer/leash.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

/* fd, an eventfd, is readable from now on. */
static void signal_fd(int fd)
{
	uint64_t one = 1;

	if (write(fd, &one, sizeof(one)) < 0)
		log_debug("eventfd: %s", strerror(errno));
}

/* True: the user wants to stop. False: there is nothing to stop any more. */
static bool wait_stop(const struct leash *l)
{
	struct pollfd p[] = { { .fd = l->over, .events = POLLIN },
			      { .fd = l->stop, .events = POLLIN } };
	int n;

	do {
		n = poll(p, 2, -1);
	} while (n < 0 && errno == EINTR);
	return n > 0 && !p[0].revents;
}

static void *leash_main(void *arg)
{
	struct leash *l = arg;

	if (!wait_stop(l))
		return NULL;
	if (atomic_load(&l->begun) && poll_fd(l->over, POLLIN, LEAVE_MS) > 0)
		return NULL;
	l->pulled = true;
	ms_abort(l->ms);
	signal_fd(l->fd);
	return NULL;
}

int leash_start(struct leash *l, int stop, struct mstream *ms, struct err *e)
{
	int r = 0;

	*l = (struct leash){ .stop = stop, .ms = ms, .fd = -1, .over = -1 };
	if (stop < 0)
		return 0;
	l->fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	l->over = l->fd < 0 ? -1 : eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (l->over < 0)
		r = -errno;
	else
		r = thread_start(&l->thread, "leash", leash_main, l);
	l->on = !r;
	return r ? err_sys(e, r, "cannot watch for signals") : 0;
}

void leash_begun(struct leash *l)
{
	atomic_store(&l->begun, true);
}

bool leash_end(struct leash *l)
{
	if (l->on) {
		signal_fd(l->over);
		pthread_join(l->thread, NULL);
	}
	cleanup_close(&l->over);
	cleanup_close(&l->fd);
	return l->pulled;
}
