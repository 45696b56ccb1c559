// SPDX-License-Identifier: Apache-2.0
/* RLIMIT_MEMLOCK, of a session that begins and of one that runs. */
#include "server/locked.h"

#include <errno.h>
#include <sys/resource.h>

/* Of locked memory beside the pools: rings, queues. Bytes. */
#define BESIDE ((rlim_t)64 << 20)

/* Pools are locked once for verbs and once for io_uring. */
static rlim_t limit_of(uint64_t pools)
{
	return pools < (RLIM_INFINITY - BESIDE) / 2 ? 2 * pools + BESIDE : RLIM_INFINITY;
}

int locked_limit(pid_t pid, uint64_t pools, struct err *e)
{
	struct rlimit r = { limit_of(pools), limit_of(pools) };

	/* In a container root may not have more than it has been given. */
	if (prlimit(pid, RLIMIT_MEMLOCK, &r, NULL) < 0 && errno != EPERM)
		return err_sys(e, -errno, "limit of locked memory");
	return 0;
}

/* Only a try tells, as a container's root has the capability, too. */
bool locked_can_raise(void)
{
	struct rlimit r;

	if (getrlimit(RLIMIT_MEMLOCK, &r) < 0)
		return false;
	r.rlim_cur = r.rlim_max = r.rlim_max == RLIM_INFINITY ? BESIDE : r.rlim_max / 2;
	if (setrlimit(RLIMIT_MEMLOCK, &r) < 0)
		return false;
	r.rlim_max++;
	return setrlimit(RLIMIT_MEMLOCK, &r) == 0;
}
