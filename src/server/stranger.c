// SPDX-License-Identifier: Apache-2.0
/* Gives all rights away. */
#include "server/stranger.h"
#include "server/jail.h"

#include <errno.h>
#include <pthread.h>
#include <sys/resource.h>
#include <unistd.h>

enum {
	FILES_MOST = 64,
	THREADS_MOST = 16,        /* two to carry, and those of guard.c */
	TASKS_OF_OTHERS = 1024,   /* that may be the fronts' user's, too */
};

/* Bytes, beside the threads' stacks; a front has some ten of its own. */
#define MEMORY_MOST ((rlim_t)128 << 20)

/* Sanitizers take terabytes. */
static rlim_t memory_most(void)
{
	size_t stack = 8 << 20;
	pthread_attr_t a;

	if (pthread_attr_init(&a) == 0) {
		pthread_attr_getstacksize(&a, &stack);
		pthread_attr_destroy(&a);
	}
	return SANITIZED ? RLIM_INFINITY : MEMORY_MOST + THREADS_MOST * (rlim_t)stack;
}

/* Threads are counted with all of the user's, so what keeps one front from taking all there are
 * is what all of them may have. */
static rlim_t tasks_most(const struct server *sv)
{
	return THREADS_MOST * (rlim_t)sv->opt.max_sessions + TASKS_OF_OTHERS;
}

static int set_limits(const struct server *sv, struct err *e)
{
	const struct {
		int what;
		rlim_t most;
	} limits[] = {
		{ RLIMIT_AS, memory_most() },
		{ RLIMIT_NPROC, tasks_most(sv) },
		{ RLIMIT_NOFILE, FILES_MOST },
		{ RLIMIT_CORE, 0 },
		{ RLIMIT_MEMLOCK, 0 },
		{ RLIMIT_MSGQUEUE, 0 },
	};

	for (size_t i = 0; i < sizeof(limits) / sizeof(limits[0]); i++) {
		struct rlimit r, had;

		if (getrlimit((__rlimit_resource_t)limits[i].what, &had) < 0)
			return err_sys(e, -errno, "limits of who has no rights");
		r.rlim_max = limits[i].most < had.rlim_max ? limits[i].most : had.rlim_max;
		r.rlim_cur = r.rlim_max;
		if (setrlimit((__rlimit_resource_t)limits[i].what, &r) < 0)
			return err_sys(e, -errno, "limits of who has no rights");
	}
	return 0;
}

/* The filter comes last: it does not let the rest happen. */
int stranger_become(const struct server *sv, struct err *e)
{
	int rc = set_limits(sv, e);

	if (rc == 0 && (chroot(sv->empty) < 0 || chdir("/") < 0))
		rc = err_sys(e, -errno, "empty root %s", printable(sv->empty));
	if (rc == 0)
		rc = identity_assume(&sv->front, e);
	if (rc == 0)
		rc = srv_jail(sv, jail_front, e);
	return rc;
}
