// SPDX-License-Identifier: Apache-2.0
/* The lock: refused at once or waited for, and who has it told. */
#include "iser_setup/lock.h"

#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

static char dir[64], path[80];

static int setup(void **state)
{
	(void)state;
	snprintf(dir, sizeof(dir), "/tmp/test-iser-lock.XXXXXX");
	if (!mkdtemp(dir))
		return -1;
	snprintf(path, sizeof(path), "%s/lock", dir);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	unlink(path);
	return rmdir(dir);
}

static int locked_after(const char *begun, unsigned seconds, unsigned left,
			const struct stop *stop, struct err *e)
{
	return iser_lock(&(struct lock_ask){
		.path = path, .busy = "another is at it", .begun = begun, .left = left,
		.wait = { .seconds = seconds, .stop = stop },
	}, e);
}

static int locked(unsigned seconds, unsigned left, const struct stop *stop, struct err *e)
{
	return locked_after("a program sleep", seconds, left, stop, e);
}

/* A process that has the lock from now on for so many milliseconds; its number. */
static pid_t other(int ms)
{
	int ready[2];
	pid_t pid;
	char c;

	assert_int_equal(pipe(ready), 0);
	pid = fork();
	assert_true(pid >= 0);
	if (!pid) {
		close(ready[0]);
		if (locked(0, 0, NULL, NULL) < 0)
			_exit(1);
		if (write(ready[1], "", 1) != 1)
			_exit(1);
		poll_fd(-1, 0, ms);
		_exit(0);
	}
	close(ready[1]);
	assert_int_equal(read(ready[0], &c, 1), 1);
	close(ready[0]);
	return pid;
}

static void ended(pid_t pid)
{
	int status;

	kill(pid, SIGTERM);
	assert_int_equal(waitpid(pid, &status, 0), pid);
}

static double seconds_since(uint64_t begun)
{
	return (double)(now_ns() - begun) / 1e9;
}

static void test_nobody(void **state)
{
	struct err e = ERR_INIT;
	struct stat st;
	int fd = locked(0, 0, NULL, &e);

	(void)state;
	assert_true(fd >= 0);
	assert_int_equal(stat(path, &st), 0);
	assert_int_equal(st.st_mode & 07777, 0600);
	close(fd);
	fd = locked(0, 0, NULL, &e);
	assert_true(fd >= 0);
	close(fd);
}

static void test_at_once(void **state)
{
	struct err e = ERR_INIT;
	pid_t pid = other(60000);
	uint64_t begun = now_ns();
	char who[64];

	(void)state;
	assert_int_equal(locked(0, 60, NULL, &e), -EBUSY);
	assert_true(seconds_since(begun) < 5);
	snprintf(who, sizeof(who), "another is at it (process %ld, which has /", (long)pid);
	assert_non_null(strstr(e.text, who));
	ended(pid);
}

static void test_waits(void **state)
{
	struct err e = ERR_INIT;
	pid_t pid = other(700);
	uint64_t begun = now_ns();
	int fd = locked(60, 0, NULL, &e);

	(void)state;
	assert_true(fd >= 0);
	assert_true(seconds_since(begun) < 30);
	close(fd);
	ended(pid);
}

/* No longer than it was told to. */
static void test_in_vain(void **state)
{
	struct err e = ERR_INIT;
	pid_t pid = other(60000);
	uint64_t begun = now_ns();

	(void)state;
	assert_int_equal(locked(1, 60, NULL, &e), -EBUSY);
	assert_true(seconds_since(begun) >= 1 && seconds_since(begun) < 30);
	ended(pid);
}

/* Who had it is gone, and what he began still has it: that is waited for longer. */
static void test_left(void **state)
{
	struct err e = ERR_INIT;
	int status, fd, go_on[2];
	char who[96], c;
	pid_t pid;

	(void)state;
	assert_int_equal(pipe(go_on), 0);
	pid = fork();
	assert_true(pid >= 0);
	if (!pid) {
		close(go_on[1]);
		if (locked(0, 0, NULL, NULL) < 0)
			_exit(1);
		/* Until a while after the last that is refused: who comes then waits for it. */
		if (!fork() && !read(go_on[0], &c, 1))
			poll_fd(-1, 0, 1500);
		_exit(0);
	}
	close(go_on[0]);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	assert_int_equal(locked(0, 60, NULL, &e), -EBUSY);
	snprintf(who, sizeof(who), "began that is gone (process %ld) still goes on, in a program "
		 "sleep;", (long)pid);
	assert_non_null(strstr(e.text, who));
	/* Whether it is waited for longer is another thing. */
	assert_int_equal(locked(0, 0, NULL, &e), -EBUSY);
	assert_non_null(strstr(e.text, who));
	assert_int_equal(locked_after(NULL, 1, 0, NULL, &e), -EBUSY);
	assert_non_null(strstr(e.text, "another is at it"));
	close(go_on[1]);
	fd = locked(1, 60, NULL, &e);
	assert_true(fd >= 0);
	close(fd);
}

static void test_stopped(void **state)
{
	struct err e = ERR_INIT;
	struct stop stop;
	pid_t pid = other(60000);
	uint64_t begun = now_ns();

	(void)state;
	stop_begin(&stop);
	kill(getpid(), SIGINT);
	assert_int_equal(locked(60, 0, &stop, &e), -EINTR);
	assert_true(seconds_since(begun) < 30);
	/* It is pending, and would be delivered. */
	signal(SIGINT, SIG_IGN);
	stop_end(&stop);
	signal(SIGINT, SIG_DFL);
	ended(pid);
}

/* Not what a name that somebody else has put there leads to. */
static void test_link(void **state)
{
	struct err e = ERR_INIT;

	(void)state;
	unlink(path);
	assert_int_equal(symlink("/nowhere/else", path), 0);
	assert_int_equal(locked(0, 0, NULL, &e), -ELOOP);
	assert_non_null(strstr(e.text, path));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_nobody),
		cmocka_unit_test(test_at_once),
		cmocka_unit_test(test_waits),
		cmocka_unit_test(test_in_vain),
		cmocka_unit_test(test_left),
		cmocka_unit_test(test_stopped),
		cmocka_unit_test(test_link),
	};

	return cmocka_run_group_tests(tests, setup, teardown);
}
