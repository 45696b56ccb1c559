// SPDX-License-Identifier: Apache-2.0
/* A thread that watches the flag. */
#include "transfer/leash.h"

#include <errno.h>
#include <string.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

/* A signal handler can wake nobody by a condition: the flag is looked at this often. */
#define LOOK_MS 20

static void pull(struct leash *l)
{
	uint64_t one = 1;

	l->pulled = true;
	ms_abort(l->ms);
	if (write(l->fd, &one, sizeof(one)) < 0)
		log_debug("eventfd: %s", strerror(errno));
}

static void look_later(struct leash *l)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	t.tv_nsec += LOOK_MS * 1000000l;
	t.tv_sec += t.tv_nsec / 1000000000;
	t.tv_nsec %= 1000000000;
	pthread_cond_timedwait(&l->changed, &l->lock, &t);
}

static void *leash_main(void *arg)
{
	struct leash *l = arg;
	uint64_t since = 0; /* when the stop was seen */
	LOCK_GUARD(guard, &l->lock);

	while (!l->over && !l->pulled) {
		if (!since && __atomic_load_n(l->stop, __ATOMIC_RELAXED))
			since = now_ns();
		if (since && (!l->begun || now_ns() - since > LEAVE_MS * 1000000ull))
			pull(l);
		else
			look_later(l);
	}
	return NULL;
}

int leash_start(struct leash *l, const volatile sig_atomic_t *stop, struct mstream *ms,
		struct err *e)
{
	pthread_condattr_t a;
	int r;

	*l = (struct leash){ .stop = stop, .ms = ms, .fd = -1 };
	pthread_mutex_init(&l->lock, NULL);
	pthread_condattr_init(&a);
	pthread_condattr_setclock(&a, CLOCK_MONOTONIC);
	pthread_cond_init(&l->changed, &a);
	pthread_condattr_destroy(&a);
	if (!stop)
		return 0;
	l->fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	r = l->fd < 0 ? -errno : thread_start(&l->thread, "leash", leash_main, l);
	l->on = !r;
	return r ? err_sys(e, r, "cannot watch for signals") : 0;
}

void leash_begun(struct leash *l)
{
	LOCK_GUARD(guard, &l->lock);

	l->begun = true;
}

bool leash_end(struct leash *l)
{
	if (l->on) {
		pthread_mutex_lock(&l->lock);
		l->over = true;
		pthread_cond_signal(&l->changed);
		pthread_mutex_unlock(&l->lock);
		pthread_join(l->thread, NULL);
	}
	cleanup_close(&l->fd);
	pthread_cond_destroy(&l->changed);
	pthread_mutex_destroy(&l->lock);
	return l->pulled;
}
