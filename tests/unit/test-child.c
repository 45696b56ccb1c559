// SPDX-License-Identifier: Apache-2.0
/* Child processes: programs that start or cannot start, and their exit; functions: their result,
 * memory, time limit and open descriptors, and the death of the parent. */
#include "server/monitor/msg.h"
#include "util/base.h"
#include "util/child.h"
#include "util/io.h"

#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

enum { LONG_S = 300 };

/* Runs "sh -c text"; *said is the read end of its standard output. */
static int shell(struct child *c, const char *text, int *said, struct err *e)
{
	char *argv[] = { (char[]){ "sh" }, (char[]){ "-c" }, (char *)(uintptr_t)text, NULL };
	struct child_program p = { .argv = argv, .in = -1, .err = -1, .ignore_interrupt = true };
	int pair[2], rc;

	assert_int_equal(pipe2(pair, O_CLOEXEC), 0);
	p.out = pair[1];
	rc = child_exec(c, &p, e);
	close(pair[1]);
	*said = pair[0];
	return rc;
}

static void test_program(void **state)
{
	struct err e = ERR_INIT;
	char text[16] = "";
	struct child c;
	int said;

	assert_int_equal(shell(&c, "echo hello; exit 3", &said, &e), 0);
	assert_int_equal(read_full(said, text, sizeof(text) - 1), 6);
	assert_string_equal(text, "hello\n");
	assert_int_equal(child_wait(&c, -1), 1);
	assert_int_equal(c.pid, 0);
	assert_true(WIFEXITED(c.status));
	assert_int_equal(WEXITSTATUS(c.status), 3);
	assert_int_equal(child_wait(&c, -1), 1);
	child_end(&c, 0);
	close(said);
}

static void test_no_program(void **state)
{
	char *argv[] = { (char[]){ "/nonexistent/program" }, NULL };
	struct child_program p = { .argv = argv, .in = -1, .out = -1, .err = -1 };
	struct err e = ERR_INIT;
	struct child c;

	assert_int_equal(child_exec(&c, &p, &e), -ENOENT);
	assert_string_equal(e.text, "cannot run /nonexistent/program: No such file or directory");
	assert_int_equal(c.pid, 0);
	argv[0] = (char[]){ "/etc/passwd" };
	assert_int_equal(child_exec(&c, &p, &e), -EACCES);
}

static void test_end(void **state)
{
	static const struct {
		const char *text;
		int signal;
	} cases[] = {
		{ "echo x; exec sleep 100", SIGTERM },
		{ "trap '' TERM; echo x; exec sleep 100", SIGKILL },
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct err e = ERR_INIT;
		struct child c;
		char text[2];
		int said;

		assert_int_equal(shell(&c, cases[i].text, &said, &e), 0);
		assert_int_equal(read_full(said, text, 2), 2);
		assert_int_equal(child_wait(&c, 20), 0);
		child_end(&c, 50);
		assert_int_equal(c.pid, 0);
		assert_true(WIFSIGNALED(c.status));
		assert_int_equal(WTERMSIG(c.status), cases[i].signal);
		close(said);
	}
}

/* A program starts with default signals, even if this process ignores or blocks some. */
static void test_signals(void **state)
{
	struct err e = ERR_INIT;
	sigset_t pipe_only, before;
	char text[16] = "";
	struct child c;
	int said;

	sigemptyset(&pipe_only);
	sigaddset(&pipe_only, SIGPIPE);
	sigprocmask(SIG_BLOCK, &pipe_only, &before);
	signal(SIGPIPE, SIG_IGN);
	assert_int_equal(shell(&c, "kill -PIPE $$; echo alive", &said, &e), 0);
	assert_int_equal(read_full(said, text, sizeof(text) - 1), 0);
	assert_int_equal(child_wait(&c, -1), 1);
	assert_true(WIFSIGNALED(c.status) && WTERMSIG(c.status) == SIGPIPE);
	close(said);
	sigprocmask(SIG_SETMASK, &before, NULL);

	assert_int_equal(shell(&c, "kill -INT $$; echo alive", &said, &e), 0);
	assert_int_equal(read_full(said, text, sizeof(text) - 1), 6);
	assert_int_equal(child_wait(&c, -1), 1);
	close(said);
}

/* ---- functions: the result ---- */

static int call_say(void *arg, struct err *e)
{
	const int *code = arg;

	return *code < 0 ? err_set(e, *code, "so it is") : *code;
}

static int call_said(int code, struct err *e)
{
	*e = (struct err)ERR_INIT;
	return child_call(call_say, &code, LONG_S, NULL, NULL, 0, e);
}

static void test_says(void **state)
{
	struct err e;

	(void)state;
	assert_int_equal(call_said(0, &e), 0);
	assert_int_equal(call_said(-ENOENT, &e), -ENOENT);
	assert_string_equal(e.text, "so it is");
	assert_int_equal(e.code, -ENOENT);
}

/* None of these is a negative errno. */
static void test_says_odd_numbers(void **state)
{
	const int odd[] = { 1, INT32_MAX, -4096, INT32_MIN };
	struct err e;

	(void)state;
	for (size_t i = 0; i < sizeof(odd) / sizeof(odd[0]); i++) {
		assert_int_equal(call_said(odd[i], &e), -ECHILD);
		assert_non_null(strstr(e.text, "no valid result"));
	}
}

static int call_end_by(void *arg, struct err *e)
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
	assert_int_equal(child_call(call_end_by, &killed, LONG_S, NULL, NULL, 0, &e), -ECHILD);
	assert_non_null(strstr(e.text, "signal 9"));
	assert_int_equal(child_call(call_end_by, &left, LONG_S, NULL, NULL, 0, &e), -ECHILD);
	assert_non_null(strstr(e.text, "no valid result"));
}

/* The descriptor of the pipe for the result, which programs do not inherit; -1: there is none. */
static int result_pipe(void)
{
	struct stat st;

	for (int fd = STDERR_FILENO + 1; fd < 1024; fd++)
		if (!fstat(fd, &st) && S_ISFIFO(st.st_mode) &&
		    (fcntl(fd, F_GETFL) & O_ACCMODE) == O_WRONLY &&
		    (fcntl(fd, F_GETFD) & FD_CLOEXEC))
			return fd;
	return -1;
}

/* Write a result of 0 and so many bytes of data, and end. */
static int call_write(void *arg, struct err *e)
{
	static const char zeros[sizeof(int) + ERR_TEXT + 64];
	const size_t *n = arg;

	(void)e;
	_exit(write_full(result_pipe(), zeros, sizeof(int) + ERR_TEXT + *n) < 0);
	return 0;
}

/* A child that ends before it has written all bytes has given no result. */
static void test_says_half(void **state)
{
	char data[64];
	struct err e = ERR_INIT;

	(void)state;
	for (size_t n = 0; n <= sizeof(data); n += 32) {
		memset(data, 'x', sizeof(data));
		assert_int_equal(child_call(call_write, &n, LONG_S, NULL, data, sizeof(data), &e),
				 n == sizeof(data) ? 0 : -ECHILD);
	}
	assert_int_equal(data[63], 0);
}

/* ---- memory ---- */

static int call_leave(void *arg, struct err *e)
{
	char *text = arg;

	(void)e;
	strcpy(text, "left");
	return 0;
}

/* The child writes to its copy; the caller gets the bytes that it asks for. */
static void test_memory(void **state)
{
	char text[64] = "", *own = pages_new(64);
	struct err e = ERR_INIT;

	(void)state;
	assert_non_null(own);
	assert_int_equal(child_call(call_leave, own, LONG_S, NULL, NULL, 0, &e), 0);
	assert_string_equal(own, "");
	assert_int_equal(child_call(call_leave, text, LONG_S, NULL, text, 2, &e), 0);
	assert_string_equal(text, "le");
	assert_int_equal(child_call(call_leave, own, LONG_S, NULL, own, 64, &e), 0);
	assert_string_equal(own, "left");
	pages_free(own, 64);
	pages_free(NULL, 64);
}

/* ---- time limit ---- */

static int call_hang(void *arg, struct err *e)
{
	pid_t *pid = arg;

	(void)e;
	if (pid)
		__atomic_store_n(pid, getpid(), __ATOMIC_RELEASE);
	while (pause() < 0)
		;
	return 0;
}

/* The limit works even if the parent blocks and ignores SIGALRM. */
static void test_limit(void **state)
{
	struct err e = ERR_INIT;
	sigset_t all, before;

	(void)state;
	sigfillset(&all);
	sigprocmask(SIG_SETMASK, &all, &before);
	signal(SIGALRM, SIG_IGN);
	assert_int_equal(child_call(call_hang, NULL, 1, NULL, NULL, 0, &e), -ETIMEDOUT);
	signal(SIGALRM, SIG_DFL);
	sigprocmask(SIG_SETMASK, &before, NULL);
	assert_non_null(strstr(e.text, "takes too long"));
}

static void test_nobody_waits(void **state)
{
	pid_t *child = mmap(NULL, sizeof(*child), PROT_READ | PROT_WRITE,
			    MAP_SHARED | MAP_ANONYMOUS, -1, 0), parent, pid;
	struct err e = ERR_INIT;
	int status;

	(void)state;
	assert_ptr_not_equal(child, MAP_FAILED);
	assert_int_equal(prctl(PR_SET_CHILD_SUBREAPER, 1), 0);
	parent = fork();
	assert_true(parent >= 0);
	if (parent == 0)
		_exit(child_call(call_hang, child, LONG_S, NULL, NULL, 0, &e) != 0);
	while (!(pid = __atomic_load_n(child, __ATOMIC_ACQUIRE)))
		usleep(1000);
	kill(parent, SIGKILL);
	assert_int_equal(waitpid(parent, &status, 0), parent);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
	pages_free(child, sizeof(*child));
}

/* ---- open descriptors ---- */

struct files {
	int keep, others[3];
};

static bool is_open(int fd)
{
	return fcntl(fd, F_GETFD) >= 0;
}

/* Only f->keep and the pipe for the result must be open. */
static int call_count_fds(void *arg, struct err *e)
{
	const struct files *f = arg;
	int n = 0;

	for (int fd = STDERR_FILENO + 1; fd < 1024; fd++)
		n += is_open(fd) && fd != f->keep;
	for (size_t i = 0; i < sizeof(f->others) / sizeof(f->others[0]); i++)
		if (is_open(f->others[i]))
			return err_set(e, -EBADF, "%d is open", f->others[i]);
	if (f->keep >= 0 && !is_open(f->keep))
		return err_set(e, -EBADF, "keep is closed");
	return n == 1 ? 0 : err_set(e, -EBADF, "%d are open", n);
}

static void test_closed(void **state)
{
	struct files f = { .keep = -1 };
	struct err e = ERR_INIT;

	(void)state;
	for (size_t i = 0; i < 3; i++)
		f.others[i] = fcntl(STDIN_FILENO, F_DUPFD, i == 2 ? 500 : 3);
	/* keep is below, between and above the other descriptors. */
	for (int from = 3; from <= 900; from += 299) {
		f.keep = fcntl(STDIN_FILENO, F_DUPFD, from);
		assert_true(f.keep >= 0);
		if (child_call(call_count_fds, &f, LONG_S, &f.keep, NULL, 0, &e) < 0)
			fail_msg("%d kept: %s", f.keep, e.text);
		close(f.keep);
	}
	f.keep = -1;
	assert_int_equal(child_call(call_count_fds, &f, LONG_S, &(const int){ -1 }, NULL, 0, &e), 0);
	assert_true(is_open(f.others[2]));
	assert_int_equal(child_call(call_count_fds, &f, LONG_S, NULL, NULL, 0, &e), -EBADF);
	for (size_t i = 0; i < 3; i++)
		close(f.others[i]);
}

/* Programs and children of the child must not be able to write its result. */
static int call_nested(void *arg, struct err *e)
{
	if (result_pipe() < 0)
		return err_set(e, -EBADF, "programs inherit the pipe");
	return child_call(call_count_fds, arg, LONG_S, &(const int){ -1 }, NULL, 0, e);
}

static void test_nested(void **state)
{
	struct files f = { -1, { -1, -1, -1 } };
	struct err e = ERR_INIT;

	(void)state;
	if (child_call(call_nested, &f, LONG_S, NULL, NULL, 0, &e) < 0)
		fail_msg("%s", e.text);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_program),
		cmocka_unit_test(test_no_program),
		cmocka_unit_test(test_end),
		cmocka_unit_test(test_signals),
		cmocka_unit_test(test_says),
		cmocka_unit_test(test_says_odd_numbers),
		cmocka_unit_test(test_says_nothing),
		cmocka_unit_test(test_says_half),
		cmocka_unit_test(test_memory),
		cmocka_unit_test(test_limit),
		cmocka_unit_test(test_nobody_waits),
		cmocka_unit_test(test_closed),
		cmocka_unit_test(test_nested),
	};

	return cmocka_run_group_tests_name("child", tests, NULL, NULL);
}
