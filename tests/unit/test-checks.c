// SPDX-License-Identifier: Apache-2.0
/* Digests of file pieces: reading returns all of them as they were added, and memory holds a limited
 * number. */
#include "transfer/sink/verify.h"
#include "util/util.h"

#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "tests/support/tmptree.h"

static struct dirs *set;
static struct dir *top;

static struct part_run nth(uint64_t i)
{
	struct part_run c = { .offset = i * 1000, .length = (uint32_t)(i % 1000 + 1) };

	memset(c.digest, (int)(i * 7), sizeof(c.digest));
	return c;
}

/* Adds n digests in the order i * factor % n. factor and n have no common divisor. */
static void there_and_back(uint64_t n, uint64_t factor)
{
	struct checks c = { 0 };
	struct part_run is;

	for (uint64_t i = 0; i < n; i++) {
		struct part_run add = nth(i * factor % n);

		assert_int_equal(checks_add(&c, &add, top), 0);
		assert_true(c.n <= CHECKS_ROOM);
	}
	assert_int_equal(checks_count(&c), n);
	for (uint64_t i = 0; i < n; i++) {
		struct part_run want = nth(i * factor % n);

		assert_int_equal(checks_get(&c, i, &is), 0);
		assert_memory_equal(&is, &want, sizeof(want));
	}
	checks_clear(&c);
	assert_int_equal(checks_count(&c), 0);
}

static void test_all_come_back(void **state)
{
	(void)state;
	there_and_back(0, 1);
	there_and_back(1, 1);
	there_and_back(1000, 7);
	there_and_back(CHECKS_ROOM, 3);
	there_and_back(CHECKS_ROOM + 1, 5);
	there_and_back(3 * CHECKS_ROOM, 1);
	there_and_back(20 * CHECKS_ROOM + 11, 65537);
}

/* A read error is told, and does not change the number of digests. */
static void test_file_is_gone(void **state)
{
	struct checks c = { 0 };
	struct part_run is;

	(void)state;
	for (uint64_t i = 0; i < 2 * CHECKS_ROOM; i++) {
		struct part_run add = nth(i);

		assert_int_equal(checks_add(&c, &add, top), 0);
	}
	assert_int_equal(ftruncate(c.fd, 4096), 0);
	assert_int_equal(checks_get(&c, 0, &is), 0);
	assert_int_equal(checks_get(&c, CHECKS_ROOM - 1, &is), -EIO);
	assert_int_equal(checks_count(&c), 2 * CHECKS_ROOM);
	checks_clear(&c);
}

/* Without a directory for the file, adding fails, and earlier digests are kept. */
static void test_no_directory(void **state)
{
	struct dir *gone = dir_sub(top, "never");
	struct checks c = { 0 };
	struct part_run add = nth(1);

	(void)state;
	for (uint64_t i = 0; i < CHECKS_ROOM; i++)
		assert_int_equal(checks_add(&c, &add, gone), 0);
	assert_int_equal(checks_add(&c, &add, gone), -ENOENT);
	assert_int_equal(checks_count(&c), CHECKS_ROOM);
	assert_int_equal(checks_add(&c, &add, top), 0);
	checks_clear(&c);
	dir_put(gone);
}

static int setup(void **state)
{
	int r = tmp_setup(state);

	set = dirs_new(4);
	top = r ? NULL : dir_top(set, open(tmp_dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC), "top");
	return r;
}

static int teardown(void **state)
{
	dir_put(top);
	dirs_free(set);
	return tmp_teardown(state);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_all_come_back),
		cmocka_unit_test(test_file_is_gone),
		cmocka_unit_test(test_no_directory),
	};

	return cmocka_run_group_tests(tests, setup, teardown);
}
