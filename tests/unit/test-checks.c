// SPDX-License-Identifier: Apache-2.0
/* Digests of pieces, in any order and number: all come back, by offset, and memory holds no
 * more than some of them. */
#include "transfer/checks.h"
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

static struct check nth(uint64_t i)
{
	struct check c = { .offset = i * 1000, .length = (uint32_t)(i % 1000 + 1) };

	memset(c.digest, (int)(i * 7), sizeof(c.digest));
	return c;
}

/* n of them, in an order that a factor makes, which shares none with n. */
static void there_and_back(uint64_t n, uint64_t factor)
{
	struct checks c = { 0 };
	struct checks_reader *cr;
	const struct check *is;
	uint64_t i;
	int r;

	for (i = 0; i < n; i++) {
		struct check add = nth(i * factor % n);

		assert_int_equal(checks_add(&c, &add, top), 0);
		assert_true(c.n <= CHECKS_ROOM);
	}
	assert_int_equal(checks_count(&c), n);
	cr = checks_read(&c);
	assert_non_null(cr);
	for (i = 0; (is = checks_peek(cr, &r)); i++) {
		struct check want = nth(i);

		assert_memory_equal(is, &want, sizeof(want));
		checks_take(cr);
	}
	assert_int_equal(r, 0);
	assert_int_equal(i, n);
	checks_done(cr);
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

/* What cannot be read is no end. */
static void test_file_is_gone(void **state)
{
	struct checks c = { 0 };
	struct checks_reader *cr;
	uint64_t i;
	int r;

	(void)state;
	for (i = 0; i < 2 * CHECKS_ROOM; i++) {
		struct check add = nth(i);

		assert_int_equal(checks_add(&c, &add, top), 0);
	}
	cr = checks_read(&c);
	assert_non_null(cr);
	assert_int_equal(ftruncate(c.fd, 4096), 0);
	for (i = 0; checks_peek(cr, &r); i++)
		checks_take(cr);
	assert_int_equal(r, -EIO);
	assert_true(i < CHECKS_ROOM);
	checks_done(cr);
	checks_clear(&c);
}

/* Without a place for the file adding fails, and what is there stays. */
static void test_no_directory(void **state)
{
	struct dir *gone = dir_sub(top, "never");
	struct checks c = { 0 };
	struct check add = nth(1);

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
