// SPDX-License-Identifier: Apache-2.0
/* Directories by reference: few descriptors for many directories, used by many threads. */
#include "storage/internal.h"

#include "tests/support/tmptree.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <sys/resource.h>

#include <cmocka.h>

#define BREADTH 40
#define DEPTH 60
#define MAX_OPEN 6

static int make_tree(void **state)
{
	char name[4096] = "deep";

	if (tmp_setup(state))
		return -1;
	for (int i = 0; i < BREADTH; i++) {
		char sub[32];

		snprintf(sub, sizeof(sub), "d%d", i);
		tmp_mkdir(sub);
	}
	for (int i = 0; i < DEPTH; i++) {
		tmp_mkdir(name);
		strcat(name, "/s");
	}
	return 0;
}

static int open_descriptors(void)
{
	DIR *d = opendir("/proc/self/fd");
	int n = 0;

	if (!d)
		return -1;
	while (readdir(d))
		n++;
	closedir(d);
	return n;
}

static struct dir *top_of(struct dirs *s)
{
	int fd = open(tmp_dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	struct dir *top;

	assert_true(fd >= 0);
	top = dir_top(s, fd, tmp_dir);
	assert_non_null(top);
	return top;
}

/* Pins d and checks that its descriptor is for path. */
static void check_is(struct dir *d, const char *path)
{
	struct stat is, want;
	int fd = dir_pin(d);

	assert_true(fd >= 0);
	assert_int_equal(fstat(fd, &is), 0);
	assert_int_equal(stat(path, &want), 0);
	assert_int_equal(is.st_ino, want.st_ino);
	dir_unpin(d);
}

static void broad_trees_stay_within_the_bound(void **state)
{
	struct dirs *s = dirs_new(MAX_OPEN);
	struct dir *top = top_of(s), *d[BREADTH];
	int before = open_descriptors();

	(void)state;
	for (int round = 0; round < 3; round++) {
		for (int i = 0; i < BREADTH; i++) {
			char name[32];

			snprintf(name, sizeof(name), "d%d", i);
			if (round == 0)
				d[i] = dir_sub(top, name);
			check_is(d[i], tmp_at(name));
			assert_true(open_descriptors() <= before + MAX_OPEN);
		}
	}
	assert_int_equal(open_descriptors(), before + MAX_OPEN);
	for (int i = 0; i < BREADTH; i++)
		dir_put(d[i]);
	assert_int_equal(open_descriptors(), before);
	dir_put(top);
	dirs_free(s);
}

static void deep_trees_too(void **state)
{
	struct dirs *s = dirs_new(MAX_OPEN);
	struct dir *d = top_of(s), *up;
	char path[4096] = "deep";
	int before = open_descriptors();

	(void)state;
	for (int i = 0; i < DEPTH; i++) {
		struct dir *sub = dir_sub(d, i ? "s" : "deep");

		dir_put(d); /* the child holds a reference */
		d = sub;
		if (i)
			strcat(path, "/s");
	}
	check_is(d, tmp_at(path));
	assert_true(open_descriptors() <= before + MAX_OPEN);
	up = dir_sub(d, "nothing");
	assert_int_equal(dir_pin(up), -ENOENT);
	dir_put(up);
	assert_int_equal(dirs_count(s), 1 + DEPTH);
	dir_put(d);
	assert_int_equal(dirs_count(s), 0);
	assert_int_equal(open_descriptors(), before - 1);
	dirs_free(s);
}

/* A dry run into a directory that it would make. */
static void a_top_that_does_not_exist(void **state)
{
	struct dirs *s = dirs_new(MAX_OPEN);
	struct dir *top = dir_top(s, -1, "new"), *d = dir_sub(top, "a"), *sub = dir_sub(d, "b");
	char *path = dir_path(sub, "f");

	(void)state;
	assert_int_equal(dir_pin(top), -ENOENT);
	assert_int_equal(dir_pin(sub), -ENOENT);
	assert_string_equal(path, "new/a/b/f");
	free(path);
	dir_put(sub);
	dir_put(d);
	dir_put(top);
	assert_int_equal(dirs_count(s), 0);
	dirs_free(s);
}

static void pinned_ones_stay(void **state)
{
	struct dirs *s = dirs_new(MAX_OPEN);
	struct dir *top = top_of(s), *d[BREADTH];
	int fd[BREADTH];
	struct stat st;

	(void)state;
	for (int i = 0; i < BREADTH; i++) {
		char name[32];

		snprintf(name, sizeof(name), "d%d", i);
		d[i] = dir_sub(top, name);
		fd[i] = dir_pin(d[i]);
		assert_true(fd[i] >= 0);
	}
	for (int i = 0; i < BREADTH; i++) {
		assert_int_equal(dir_pin(d[i]), fd[i]);
		dir_unpin(d[i]);
		assert_int_equal(fstat(fd[i], &st), 0);
	}
	for (int i = 0; i < BREADTH; i++) {
		dir_unpin(d[i]);
		dir_put(d[i]);
	}
	dir_put(top);
	dirs_free(s);
}

static void a_process_out_of_descriptors_closes_its_own(void **state)
{
	struct dirs *s = dirs_new(1000);
	struct dir *top = top_of(s), *d[BREADTH];
	int before = open_descriptors();
	struct rlimit old, small;

	(void)state;
	getrlimit(RLIMIT_NOFILE, &old);
	small = old;
	small.rlim_cur = (rlim_t)before + 8;
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &small), 0);
	for (int i = 0; i < BREADTH; i++) {
		char name[32];

		snprintf(name, sizeof(name), "d%d", i);
		d[i] = dir_sub(top, name);
		check_is(d[i], tmp_at(name));
	}
	setrlimit(RLIMIT_NOFILE, &old);
	for (int i = 0; i < BREADTH; i++)
		dir_put(d[i]);
	dir_put(top);
	dirs_free(s);
}

static void a_symlink_is_no_directory(void **state)
{
	struct dirs *s = dirs_new(MAX_OPEN);
	struct dir *top = top_of(s), *d = dir_sub(top, "link");

	(void)state;
	assert_int_equal(symlink("d0", tmp_at("link")), 0);
	assert_int_equal(dir_pin(d), -ENOTDIR);
	unlink(tmp_at("link"));
	dir_put(d);
	dir_put(top);
	dirs_free(s);
}

/* root_rules.without_proc for a walk from "/". */
static void nothing_of_proc_is_entered(void **state)
{
	(void)state;
	if (access("/proc/self/status", R_OK))
		skip();
	for (int without = 0; without < 2; without++) {
		struct dirs *s = dirs_new(MAX_OPEN);
		struct dir *top = dir_top(s, open("/", O_RDONLY | O_DIRECTORY | O_CLOEXEC), "/");
		struct dir *proc = dir_sub(top, "proc"), *sys = dir_sub(proc, "sys");
		struct dir *etc = dir_sub(top, "etc");
		int fd;

		if (without)
			dirs_set_rules(s, &(struct root_rules){ .without_proc = true });
		fd = dir_pin(sys);
		if (fd >= 0)
			dir_unpin(sys);
		assert_int_equal(without ? fd == -EACCES : fd >= 0, true);
		assert_true(dir_pin(etc) >= 0);
		dir_unpin(etc);
		dir_put(etc);
		dir_put(sys);
		dir_put(proc);
		dir_put(top);
		dirs_free(s);
	}
}

static void paths(void **state)
{
	static const struct {
		const char *top, *sub, *name, *want;
	} t[] = {
		{ "/srv/x", NULL, "f", "/srv/x/f" },
		{ "/srv/x", "s", "f", "/srv/x/s/f" },
		{ "/srv/x", "s", NULL, "/srv/x/s" },
		{ "/srv/x", NULL, NULL, "/srv/x" },
		{ "/", "s", "f", "/s/f" },
		{ "/", NULL, "f", "/f" },
		{ "x/", "s", "f", "x/s/f" },
		{ ".", NULL, "f", "./f" },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(t) / sizeof(t[0]); i++) {
		struct dirs *s = dirs_new(MAX_OPEN);
		struct dir *top = dir_top(s, open("/", O_PATH | O_CLOEXEC), t[i].top);
		struct dir *d = t[i].sub ? dir_sub(top, t[i].sub) : dir_ref(top);
		char *path = dir_path(d, t[i].name);

		assert_string_equal(path, t[i].want);
		free(path);
		dir_put(d);
		dir_put(top);
		dirs_free(s);
	}
}

/* ---- threads ---- */

struct shared {
	struct dir *d[BREADTH];
	ino_t ino[BREADTH];
	struct dir *deep;
};

static void *hammer(void *arg)
{
	struct shared *sh = arg;
	unsigned int seed = (unsigned int)(uintptr_t)&seed;
	long bad = 0;

	for (int i = 0; i < 3000; i++) {
		int n = rand_r(&seed) % BREADTH;
		struct dir *sub;
		struct stat st;
		int fd = dir_pin(sh->d[n]);

		if (fd < 0 || fstat(fd, &st) || st.st_ino != sh->ino[n])
			bad++;
		if (fd >= 0)
			dir_unpin(sh->d[n]);
		sub = dir_sub(sh->deep, "s");
		if (dir_pin(sub) < 0)
			bad++;
		else
			dir_unpin(sub);
		dir_put(sub);
	}
	return (void *)bad;
}

static void threads_share_them(void **state)
{
	struct dirs *s = dirs_new(MAX_OPEN);
	struct dir *top = top_of(s);
	struct shared sh = { .deep = dir_sub(top, "deep") };
	pthread_t t[4];
	void *bad;

	(void)state;
	for (int i = 0; i < BREADTH; i++) {
		char name[32];
		struct stat st;

		snprintf(name, sizeof(name), "d%d", i);
		sh.d[i] = dir_sub(top, name);
		assert_int_equal(stat(tmp_at(name), &st), 0);
		sh.ino[i] = st.st_ino;
	}
	for (int i = 0; i < 4; i++)
		assert_int_equal(thread_start(&t[i], "hammer", hammer, &sh), 0);
	for (int i = 0; i < 4; i++) {
		pthread_join(t[i], &bad);
		assert_null(bad);
	}
	for (int i = 0; i < BREADTH; i++)
		dir_put(sh.d[i]);
	dir_put(sh.deep);
	dir_put(top);
	dirs_free(s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(broad_trees_stay_within_the_bound),
		cmocka_unit_test(deep_trees_too),
		cmocka_unit_test(a_top_that_does_not_exist),
		cmocka_unit_test(pinned_ones_stay),
		cmocka_unit_test(a_process_out_of_descriptors_closes_its_own),
		cmocka_unit_test(a_symlink_is_no_directory),
		cmocka_unit_test(nothing_of_proc_is_entered),
		cmocka_unit_test(paths),
		cmocka_unit_test(threads_share_them),
	};

	return cmocka_run_group_tests_name("dirs", tests, make_tree, tmp_teardown);
}
