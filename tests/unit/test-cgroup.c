// SPDX-License-Identifier: Apache-2.0
/* Memory limits of control groups, v1 and v2: of the group and of its ancestors. */
#include "util/io.h"
#include "util/limits.h"

#include <errno.h>
#include <ftw.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#define NONE UINT64_MAX

static char dir[] = "/tmp/rftp-test-cgroup-XXXXXX";

static int make_temp(void **state)
{
	(void)state;
	return mkdtemp(dir) ? 0 : -1;
}

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
	(void)st, (void)type, (void)ftw;
	return remove(path);
}

static int remove_temp(void **state)
{
	(void)state;
	return nftw(dir, remove_one, 8, FTW_DEPTH | FTW_PHYS);
}

static void put(const char *tree, const char *path, const char *text)
{
	char file[512], *last;

	snprintf(file, sizeof(file), "%s/%s/%s", dir, tree, path);
	last = strrchr(file, '/');
	*last = '\0';
	assert_int_equal(make_dirs(file, 0700), 0);
	*last = '/';
	assert_int_equal(write_file_atomic(file, text, strlen(text), 0600, NULL), 0);
}

struct file {
	const char *path, *text;
};

static void test_limits(void **state)
{
	static const struct {
		const char *what, *cgroup;
		struct file files[4];
		uint64_t limit;
	} cases[] = {
		{ "no groups", "", { { "memory.max", "5\n" } }, NONE },
		{ "its own", "0::/a/b\n",
		  { { "a/b/memory.max", "1000\n" }, { "a/memory.max", "max\n" } }, 1000 },
		{ "the one above it", "0::/a/b\n",
		  { { "a/b/memory.max", "1000\n" }, { "a/memory.max", "999\n" } }, 999 },
		{ "above that", "0::/a/b/c\n",
		  { { "a/b/c/memory.max", "max\n" }, { "a/memory.max", "999\n" } }, 999 },
		{ "another's", "0::/a\n", { { "b/memory.max", "7\n" } }, NONE },
		{ "none", "0::/a\n", { { "a/memory.max", "max\n" } }, NONE },
		{ "of a container, at its root", "0::/\n", { { "memory.max", "4096\n" } }, 4096 },
		{ "outside of what is seen", "0::/../../x\n", { { "memory.max", "4096\n" } }, 4096 },
		{ "nonsense", "0::/a\n", { { "a/memory.max", "12 apples\n" } }, NONE },
		{ "lines that are none", "\nmemory\n0:\n1:memory\n", { { "memory.max", "1" } }, NONE },
		{ "where it is slowed down", "0::/a/b\n",
		  { { "a/b/memory.max", "2000\n" }, { "a/b/memory.high", "1500\n" },
		    { "a/memory.high", "max\n" } }, 1500 },
		{ "or one above it is", "0::/a/b\n",
		  { { "a/b/memory.max", "2000\n" }, { "a/b/memory.high", "max\n" },
		    { "a/memory.high", "999\n" } }, 999 },
		{ "after where it would be ended", "0::/a\n",
		  { { "a/memory.max", "2000\n" }, { "a/memory.high", "3000\n" } }, 2000 },
		{ "version 1", "7:cpu,cpuacct:/a\n4:memory:/a\n0::/\n",
		  { { "memory/a/memory.limit_in_bytes", "2048\n" },
		    { "memory/memory.limit_in_bytes", "9223372036854771712\n" } }, 2048 },
		{ "with another", "4:cpu,memory:/a\n",
		  { { "memory/a/memory.limit_in_bytes", "2048\n" } }, 2048 },
		{ "with none like it", "4:memoryless,nomemory:/a\n",
		  { { "memory/a/memory.limit_in_bytes", "2048\n" } }, NONE },
		{ "of both versions", "4:memory:/a\n0::/b\n",
		  { { "memory/a/memory.limit_in_bytes", "2048\n" }, { "b/memory.max", "2000" } },
		  2000 },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		char tree[16], proc[256], sys[256];
		uint64_t limit;

		snprintf(tree, sizeof(tree), "%zu", i);
		snprintf(proc, sizeof(proc), "%s/%s/cgroup", dir, tree);
		snprintf(sys, sizeof(sys), "%s/%s/fs", dir, tree);
		put(tree, "cgroup", cases[i].cgroup);
		for (size_t k = 0; k < 4 && cases[i].files[k].path; k++) {
			char path[256];

			snprintf(path, sizeof(path), "fs/%s", cases[i].files[k].path);
			put(tree, path, cases[i].files[k].text);
		}
		limit = cgroup_memory_limit(proc, sys);
		if (limit != cases[i].limit)
			fail_msg("%s: %llu", cases[i].what, (unsigned long long)limit);
	}
}

static void test_absent(void **state)
{
	(void)state;
	assert_true(cgroup_memory_limit("/nowhere", "/sys/fs/cgroup") == NONE);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_limits),
		cmocka_unit_test(test_absent),
	};

	return cmocka_run_group_tests_name("cgroup", tests, make_temp, remove_temp);
}
