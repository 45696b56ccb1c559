// SPDX-License-Identifier: Apache-2.0
/* See cgroup.h. */
#include "util/cgroup.h"

#include "util/cleanup.h"
#include "util/io.h"
#include "util/units.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LIST_MAX 65536
#define NUMBER_MAX 64

/* The first len bytes of group. "max" is no number, and no limit. */
static uint64_t limit_in(const char *dir, const char *group, int len, const char *file)
{
	CLEANUP_FREE char *text = NULL;
	char path[PATH_MAX];
	uint64_t bytes;

	if ((size_t)snprintf(path, sizeof(path), "%s%.*s/%s", dir, len, group, file) >=
		    sizeof(path) || read_file(path, NUMBER_MAX, &text, NULL))
		return UINT64_MAX;
	text[strcspn(text, "\n")] = '\0';
	return parse_uint(text, 0, UINT64_MAX, &bytes) ? UINT64_MAX : bytes;
}

/* group: "/a/b" below dir. A group may have less than those above it, or more. */
static uint64_t least_upwards(const char *dir, const char *group, const char *file)
{
	int len = (int)strlen(group);
	uint64_t least = UINT64_MAX;

	for (;;) {
		uint64_t limit = limit_in(dir, group, len, file);

		least = limit < least ? limit : least;
		if (!len)
			return least;
		while (--len && group[len] != '/')
			;
	}
}

/* Above memory.max a process is ended; above memory.high it is made to wait for memory to be
 * reclaimed, and blocks that are locked cannot be. */
static uint64_t least_of_v2(const char *sys, const char *group)
{
	static const char *const files[] = { "memory.max", "memory.high" };
	uint64_t least = UINT64_MAX;

	for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++) {
		uint64_t limit = least_upwards(sys, group, files[i]);

		least = limit < least ? limit : least;
	}
	return least;
}

/* "memory" in "cpu,memory"? */
static bool names_memory(const char *list)
{
	const size_t len = strlen("memory");

	for (const char *s = list; *s; s += strcspn(s, ",")) {
		s += *s == ',';
		if (strcspn(s, ",") == len && !memcmp(s, "memory", len))
			return true;
	}
	return false;
}

/* line: "0::/a/b" (v2), or "4:cpu,memory:/a/b" (v1). */
static uint64_t limit_of_line(char *line, const char *sys)
{
	char *list = strchr(line, ':'), *group = list ? strchr(list + 1, ':') : NULL;
	char dir[PATH_MAX];

	if (!group)
		return UINT64_MAX;
	*group++ = '\0';
	list++;
	/* Above the root that this namespace sees: what is at that root holds here, too. */
	if (strstr(group, "/.."))
		*group = '\0';
	if (!*list)
		return least_of_v2(sys, group);
	if (!names_memory(list) ||
	    (size_t)snprintf(dir, sizeof(dir), "%s/memory", sys) >= sizeof(dir))
		return UINT64_MAX;
	return least_upwards(dir, group, "memory.limit_in_bytes");
}

uint64_t cgroup_memory_limit(const char *proc, const char *sys)
{
	CLEANUP_FREE char *text = NULL;
	uint64_t least = UINT64_MAX;
	char *save = NULL;

	if (read_file(proc, LIST_MAX, &text, NULL))
		return UINT64_MAX;
	for (char *line = strtok_r(text, "\n", &save); line; line = strtok_r(NULL, "\n", &save)) {
		uint64_t limit = limit_of_line(line, sys);

		least = limit < least ? limit : least;
	}
	return least;
}
