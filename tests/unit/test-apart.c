// SPDX-License-Identifier: Apache-2.0
/* A child that does one thing: what it says, what it leaves, when it comes to no end, when nobody
 * waits for it any more; what it has open. */
#include "server/apart.h"
#include "server/pages.h"

#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

enum { LONG_S = 300 };

/* ---- what it says ---- */

static int say(void *arg, struct err *e)
{
	const int *code = arg;

	return *code < 0 ? err_set(e, *code, "so it is") : *code;
}

static int said(int code, struct err *e)
{
	*e = (struct err)ERR_INIT;
	return apart(say, &code, LONG_S, e);
}

static void test_says(void **state)
{
	struct err e;

	(void)state;
	assert_int_equal(said(0, &e), 0);
	assert_int_equal(said(-ENOENT, &e), -ENOENT);
	assert_string_equal(e.text, "so it is");
	assert_int_equal(e.code, -ENOENT);
}

/* strerror(3) takes what is negated, and 0 is no failure. */
static void test_says_odd_numbers(void **state)
{
	const int odd[] = { 1, INT32_MAX, -4096, INT32_MIN };
	struct err e;

	(void)state;
	for (size_t i = 0; i < sizeof(odd) / sizeof(odd[0]); i++) {
		assert_int_equal(said(odd[i], &e), -ECHILD);
		assert_non_null(strstr(e.text, "nothing of use"));
	}
}

static int end_by(void *arg, struct err *e)
{
	const int *signal_or_status = arg;

	(void)e;
	if (*signal_or_status > 0)
		raise(*signal_or_status);
	_exit(-*signal_or_status);
	return 0;
}

static void test_says_nothing(void **state)
{
	int killed = SIGKILL, left = 0;
	struct err e = ERR_INIT;

	(void)state;
	assert_int_equal(apart(end_by, &killed, LONG_S, &e), -ECHILD);
	assert_non_null(strstr(e.text, "signal 9"));
	assert_int_equal(apart(end_by, &left, LONG_S, &e), -ECHILD);
	assert_non_null(strstr(e.text, "nothing of use"));
}

/* ---- what it leaves ---- */

static int leave(void *arg, struct err *e)
{
	char *text = arg;

	(void)e;
	strcpy(text, "left");
	return 0;
}

static void test_memory(void **state)
{
	char *shared = pages_shared(64), *own = pages_new(64);
	struct err e = ERR_INIT;

	(void)state;
	assert_non_null(shared);
	assert_non_null(own);
	assert_string_equal(shared, "");
	assert_int_equal(apart(leave, shared, LONG_S, &e), 0);
	assert_int_equal(apart(leave, own, LONG_S, &e), 0);
	assert_string_equal(shared, "left");
	assert_string_equal(own, "");
	pages_free(own, 64);
	pages_free(shared, 64);
	pages_free(NULL, 64);
}

static int leave_apart(void *arg, struct err *e)
{
	return apart(leave, arg, LONG_S, e);
}

static int leave_alone(void *arg, struct err *e)
{
	int rc = pages_alone(arg, 64, e);

	signal(SIGSEGV, SIG_DFL); /* cmocka's goes on with the tests */
	return rc ? rc : leave_apart(arg, e);
}

/* What the child's own children find in it is not there for them. */
static void test_memory_alone(void **state)
{
	char *shared = pages_shared(64);
	struct err e = ERR_INIT;

	(void)state;
	assert_non_null(shared);
	assert_int_equal(apart(leave_alone, shared, LONG_S, &e), -ECHILD);
	assert_string_equal(shared, "");
	assert_int_equal(apart(leave_apart, shared, LONG_S, &e), 0);
	assert_string_equal(shared, "left");
	pages_free(shared, 64);
}

/* ---- no end ---- */

static int hang(void *arg, struct err *e)
{
	pid_t *pid = arg;

	(void)e;
	if (pid)
		__atomic_store_n(pid, getpid(), __ATOMIC_RELEASE);
	while (pause() < 0)
		;
	return 0;
}

/* Whatever its parent does with alarms. */
static void test_limit(void **state)
{
	struct err e = ERR_INIT;
	sigset_t all, before;

	(void)state;
	sigfillset(&all);
	sigprocmask(SIG_SETMASK, &all, &before);
	signal(SIGALRM, SIG_IGN);
	assert_int_equal(apart(hang, NULL, 1, &e), -ETIMEDOUT);
	signal(SIGALRM, SIG_DFL);
	sigprocmask(SIG_SETMASK, &before, NULL);
	assert_non_null(strstr(e.text, "takes too long"));
}

static void test_nobody_waits(void **state)
{
	pid_t *child = pages_shared(sizeof(*child)), parent, pid;
	struct err e = ERR_INIT;
	int status;

	(void)state;
	assert_non_null(child);
	assert_int_equal(prctl(PR_SET_CHILD_SUBREAPER, 1), 0);
	parent = fork();
	assert_true(parent >= 0);
	if (parent == 0)
		_exit(apart(hang, child, LONG_S, &e) != 0);
	while (!(pid = __atomic_load_n(child, __ATOMIC_ACQUIRE)))
		usleep(1000);
	kill(parent, SIGKILL);
	assert_int_equal(waitpid(parent, &status, 0), parent);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
	pages_free(child, sizeof(*child));
}

/* ---- what it has open ---- */

struct files {
	int keep, others[3];
};

static bool is_open(int fd)
{
	return fcntl(fd, F_GETFD) >= 0;
}

/* Of the pipe for its word nobody tells us; but there is no more than that. */
static int count(void *arg, struct err *e)
{
	const struct files *f = arg;
	int n = 0;

	for (int fd = STDERR_FILENO + 1; fd < 1024; fd++)
		n += is_open(fd) && fd != f->keep;
	for (size_t i = 0; i < sizeof(f->others) / sizeof(f->others[0]); i++)
		if (is_open(f->others[i]))
			return err_set(e, -EBADF, "%d is open", f->others[i]);
	if (f->keep >= 0 && !is_open(f->keep))
		return err_set(e, -EBADF, "what was to be kept is closed");
	return n == 1 ? 0 : err_set(e, -EBADF, "%d are open", n);
}

static void test_closed(void **state)
{
	struct files f = { .keep = -1 };
	struct err e = ERR_INIT;

	(void)state;
	for (size_t i = 0; i < 3; i++)
		f.others[i] = fcntl(STDIN_FILENO, F_DUPFD, i == 2 ? 500 : 3);
	/* Below all that is open, between, above. */
	for (int from = 3; from <= 900; from += 299) {
		f.keep = fcntl(STDIN_FILENO, F_DUPFD, from);
		assert_true(f.keep >= 0);
		if (apart_closed(count, &f, f.keep, LONG_S, &e) < 0)
			fail_msg("%d kept: %s", f.keep, e.text);
		close(f.keep);
	}
	f.keep = -1;
	assert_int_equal(apart_closed(count, &f, -1, LONG_S, &e), 0);
	assert_true(is_open(f.others[2]));
	assert_int_equal(apart(count, &f, LONG_S, &e), -EBADF);
	for (size_t i = 0; i < 3; i++)
		close(f.others[i]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_says), cmocka_unit_test(test_says_odd_numbers),
		cmocka_unit_test(test_says_nothing), cmocka_unit_test(test_memory),
		cmocka_unit_test(test_memory_alone),
		cmocka_unit_test(test_limit), cmocka_unit_test(test_nobody_waits),
		cmocka_unit_test(test_closed),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
