// SPDX-License-Identifier: Apache-2.0
/* Where files are, remembered outside of memory: there and back, room used again, and a
 * directory that is another one by then. */
#include "transfer/places.h"
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
static struct places p;

static struct dir *top_of(const char *name)
{
	return dir_top(set, open(tmp_at(name), O_RDONLY | O_DIRECTORY | O_CLOEXEC), name);
}

static int start(void **state)
{
	(void)state;
	set = dirs_new(8);
	places_init(&p);
	return 0;
}

static int stop(void **state)
{
	(void)state;
	places_destroy(&p);
	dirs_free(set);
	return 0;
}

static void expect(uint64_t at, const char *want_name, const char *want_path)
{
	struct dir *dir;
	char *name, *path;

	assert_int_equal(places_get(&p, at, &dir, &name), 0);
	assert_string_equal(name, want_name);
	path = dir_path(dir, name);
	assert_string_equal(path, want_path);
	free(path);
	free(name);
	dir_put(dir);
}

static void test_there_and_back(void **state)
{
	struct dir *top, *a, *b;
	uint64_t at[3];
	char long_name[256], path[300];

	(void)state;
	memset(long_name, 'n', 255);
	long_name[255] = '\0';
	tmp_mkdir("one");
	tmp_mkdir("one/a");
	tmp_mkdir("one/a/b");
	top = top_of("one");
	a = dir_sub(top, "a");
	b = dir_sub(a, "b");
	at[0] = places_put(&p, top, "x");
	at[1] = places_put(&p, b, long_name);
	at[2] = places_put(&p, a, "y");
	for (int i = 0; i < 3; i++)
		assert_true(at[i] & 1);
	/* Nobody else holds them any more. */
	dir_put(b);
	dir_put(a);
	dir_put(top);
	expect(at[2], "y", "one/a/y");
	expect(at[0], "x", "one/x");
	snprintf(path, sizeof(path), "one/a/b/%s", long_name);
	expect(at[1], long_name, path);
}

/* Room is used again, by those that fit, and nothing that stays is touched. */
static void test_room(void **state)
{
	enum { N = 200 };
	uint64_t at[N];
	char name[256];
	struct dir *top;
	off_t size = 0;

	(void)state;
	tmp_mkdir("room");
	top = top_of("room");
	for (int round = 0; round < 5; round++) {
		for (int i = 0; i < N; i++) {
			memset(name, 'a' + i % 26, 255);
			name[1 + (i * 7 + round) % 254] = '\0';
			if (round && i % 2)
				continue; /* those stay as they are */
			at[i] = places_put(&p, top, name);
			assert_true(at[i]);
		}
		if (round == 1)
			size = lseek(p.fd, 0, SEEK_END);
		for (int i = 0; i < N; i++) {
			struct dir *dir;
			char *got;

			memset(name, 'a' + i % 26, 255);
			name[1 + (i * 7 + (i % 2 ? 0 : round)) % 254] = '\0';
			assert_int_equal(places_get(&p, at[i], &dir, &got), 0);
			assert_string_equal(got, name);
			free(got);
			dir_put(dir);
			if (i % 2 == 0)
				places_drop(&p, at[i]);
		}
	}
	assert_true(lseek(p.fd, 0, SEEK_END) < size + size / 4);
	dir_put(top);
}

static void test_another_directory(void **state)
{
	struct dir *top, *sub, *dir;
	uint64_t at;
	char *name;

	(void)state;
	tmp_mkdir("swap");
	tmp_mkdir("swap/d");
	top = top_of("swap");
	sub = dir_sub(top, "d");
	at = places_put(&p, sub, "f");
	dir_put(sub);
	assert_int_equal(rename(tmp_at("swap/d"), tmp_at("swap/old")), 0);
	assert_int_equal(places_get(&p, at, &dir, &name), -ENOENT);
	assert_null(dir);
	tmp_mkdir("swap/d");
	assert_int_equal(places_get(&p, at, &dir, &name), -ESTALE);
	assert_null(name);
	assert_int_equal(rmdir(tmp_at("swap/d")), 0);
	assert_int_equal(symlink("old", tmp_at("swap/d")), 0);
	assert_int_equal(places_get(&p, at, &dir, &name), -ENOTDIR);
	dir_put(top);
}

/* What finds no room says so: who asks keeps it in memory. */
static void test_too_much(void **state)
{
	struct dir *d, *sub, *tops[PLACES_TOPS + 1];
	char name[200];

	(void)state;
	memset(name, 'd', 199);
	name[199] = '\0';
	tmp_mkdir("deep");
	tops[0] = d = top_of("deep");
	dir_ref(d);
	for (int i = 0; i < 30; i++) {
		int fd = dir_pin(d);

		assert_int_equal(mkdirat(fd, name, 0700), 0);
		dir_unpin(d);
		sub = dir_sub(d, name);
		dir_put(d);
		d = sub;
	}
	assert_true(places_put(&p, d, "f") == 0);
	dir_put(d);
	assert_true(places_put(&p, tops[0], "f") != 0);
	for (int i = 1; i <= PLACES_TOPS; i++) {
		tops[i] = top_of("deep");
		assert_int_equal(places_put(&p, tops[i], "f") != 0, i < PLACES_TOPS);
	}
	for (int i = 0; i <= PLACES_TOPS; i++)
		dir_put(tops[i]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_there_and_back, start, stop),
		cmocka_unit_test_setup_teardown(test_room, start, stop),
		cmocka_unit_test_setup_teardown(test_another_directory, start, stop),
		cmocka_unit_test_setup_teardown(test_too_much, start, stop),
	};

	return cmocka_run_group_tests(tests, tmp_setup, tmp_teardown);
}
