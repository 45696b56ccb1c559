// SPDX-License-Identifier: Apache-2.0
/* Limits from affinity, control groups and setrlimit(2). */
#include "util/limits.h"

#include "util/base.h"
#include "util/io.h"
#include "util/units.h"

#include <linux/capability.h>
#include <sched.h>
#include <sys/resource.h>
#include <sys/syscall.h>

enum { CPUS_MOST = 1 << 16, GROUPS_MAX = 65536, NUMBER_MAX = 64, FDS_MOST = 1 << 20 };

/* ---- CPUs ---- */

unsigned cpus_allowed(void)
{
	/* The kernel refuses a set that is smaller than its own. */
	const size_t bytes = CPU_ALLOC_SIZE(CPUS_MOST);
	cpu_set_t *set = CPU_ALLOC(CPUS_MOST);
	int n = 1;

	if (set && sched_getaffinity(0, bytes, set) == 0)
		n = CPU_COUNT_S(bytes, set);
	CPU_FREE(set);
	return n > 0 ? (unsigned)n : 1;
}

/* ---- memory limits of control groups ---- */

/* The lowest limit in the files "file" of a group ("/a/b", below dir) and of its parents; a group's
 * own limit may be higher or lower than its parent's. The text "max" (no limit) is ignored. */
static uint64_t lowest_in_groups(const char *dir, const char *group, const char *file)
{
	uint64_t lowest = UINT64_MAX;

	for (int len = (int)strlen(group);;) {
		CLEANUP_FREE char *text = NULL;
		char path[PATH_MAX];
		uint64_t limit;

		if ((size_t)snprintf(path, sizeof(path), "%s%.*s/%s", dir, len, group, file) <
			    sizeof(path) && !read_file(path, NUMBER_MAX, &text, NULL)) {
			text[strcspn(text, "\n")] = '\0';
			if (!parse_uint(text, 0, UINT64_MAX, &limit))
				lowest = min_u64(lowest, limit);
		}
		if (!len)
			return lowest;
		while (--len && group[len] != '/')
			;
	}
}

/* line: "0::/a/b" (v2), or "4:cpu,memory:/a/b" (v1). */
static uint64_t memory_limit_of_line(char *line, const char *sys)
{
	char *list = strchr(line, ':'), *group = list ? strchr(list + 1, ':') : NULL;
	char dir[PATH_MAX];

	if (!group)
		return UINT64_MAX;
	*group++ = '\0';
	list++;

	/* The group is above the root of this namespace: the root's limit applies here, too. */
	if (strstr(group, "/.."))
		*group = '\0';
	/* The kernel kills above memory.max; above memory.high it stalls the process to reclaim
	 * memory, and locked blocks cannot be reclaimed. */
	if (!*list)
		return min_u64(lowest_in_groups(sys, group, "memory.max"),
			     lowest_in_groups(sys, group, "memory.high"));
	if (!list_has(list, "memory") ||
	    (size_t)snprintf(dir, sizeof(dir), "%s/memory", sys) >= sizeof(dir))
		return UINT64_MAX;
	return lowest_in_groups(dir, group, "memory.limit_in_bytes");
}

uint64_t cgroup_memory_limit(const char *proc, const char *sys)
{
	CLEANUP_FREE char *text = NULL;
	uint64_t lowest = UINT64_MAX;
	char *rest, *line;

	if (read_file(proc, GROUPS_MAX, &text, NULL))
		return UINT64_MAX;
	for (rest = text; (line = strsep(&rest, "\n"));)
		lowest = min_u64(lowest, memory_limit_of_line(line, sys));
	return lowest;
}

/* ---- setrlimit(2) ---- */

static bool may_rise; /* set at the start of a program */

void limits_may_rise(void)
{
	may_rise = true;
}

/* The soft limit, raised to the hard one if the program and the system allow it. */
static rlim_t raise_limit(__rlimit_resource_t resource, rlim_t unknown)
{
	struct rlimit r, raised;

	if (getrlimit(resource, &r))
		return unknown;
	raised = (struct rlimit){ r.rlim_max, r.rlim_max };
	return may_rise && r.rlim_cur < r.rlim_max && !setrlimit(resource, &raised) ? r.rlim_max :
										    r.rlim_cur;
}

unsigned raise_fd_limit(void)
{
	rlim_t limit = raise_limit(RLIMIT_NOFILE, 256); /* every system allows this many */

	return limit > FDS_MOST ? FDS_MOST : (unsigned)limit;
}

uint64_t raise_lock_limit(void)
{
	struct __user_cap_header_struct head = { .version = _LINUX_CAPABILITY_VERSION_3 };
	struct __user_cap_data_struct data[2] = { { 0 } };
	rlim_t limit;

	/* CAP_IPC_LOCK lifts the limit. */
	if (!syscall(SYS_capget, &head, data) && data[0].effective & 1u << CAP_IPC_LOCK)
		return UINT64_MAX;
	limit = raise_limit(RLIMIT_MEMLOCK, RLIM_INFINITY);
	return limit == RLIM_INFINITY ? UINT64_MAX : limit;
}

const char *lock_advice(char text[LOCK_ADVICE], uint64_t kib)
{
	unsigned long long n = kib;

	snprintf(text, LOCK_ADVICE, "set \"ulimit -l %llu\", a line \"* - memlock %llu\" in "
		 "/etc/security/limits.d/, or LimitMEMLOCK= in the service's unit", n, n);
	return text;
}

void close_fds(unsigned first, unsigned last)
{
	unsigned most;

	if (first > last || close_range(first, last, 0) == 0)
		return;
	most = raise_fd_limit();
	for (unsigned fd = first; fd <= last && fd < most; fd++)
		close((int)fd);
}
