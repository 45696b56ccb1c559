// SPDX-License-Identifier: Apache-2.0
/* What is done when the user wants to stop, and how long that waits for leave to be taken. */
#include "transfer/leash.h"

#include <errno.h>
#include <string.h>
#include <sys/eventfd.h>

static void pull(void *arg)
{
	struct leash *l = arg;

	if (atomic_load(&l->begun) && sentry_is_over(&l->sentry, LEAVE_MS))
		return;
	l->pulled = true;
	ms_abort(l->ms);
	if (eventfd_write(l->fd, 1) < 0)
		log_debug("eventfd: %s", strerror(errno));
}

int leash_start(struct leash *l, int stop, struct mstream *ms, struct err *e)
{
	*l = (struct leash){ .ms = ms, .fd = -1, .sentry.over = -1 };
	if (stop < 0)
		return 0;
	l->fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (l->fd < 0)
		return err_sys(e, -errno, "cannot watch for signals");
	return sentry_start(&l->sentry, "leash", stop, pull, l, e);
}

void leash_begun(struct leash *l)
{
	atomic_store(&l->begun, true);
}

bool leash_end(struct leash *l)
{
	sentry_end(&l->sentry);
	cleanup_close(&l->fd);
	return l->pulled;
}
