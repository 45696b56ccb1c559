// SPDX-License-Identifier: Apache-2.0
/* Another program: its outputs, its status, and its end before its time. */
#include "util/util.h"

#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

static struct stop stop;

static int begin(void **state)
{
	(void)state;
	stop_begin(&stop);
	return 0;
}

static int shell(const char *script, int hand_on, struct child_said *said, struct err *e)
{
	char *argv[] = { (char []){ "sh" }, (char []){ "-c" }, strdup(script), NULL };
	int r = child_run(argv, hand_on, &stop, said, e);

	free(argv[2]);
	return r;
}

static void test_says(void **state)
{
	struct err e = ERR_INIT;
	struct child_said said;

	(void)state;
	assert_int_equal(shell("echo out; echo err >&2; exit 3", -1, &said, &e), 0);
	assert_string_equal(said.out, "out\n");
	assert_string_equal(said.err, "err\n");
	assert_int_equal(said.status, 3);
	child_clear(&said);
	assert_int_equal(shell("kill -KILL $$", -1, &said, &e), 0);
	assert_string_equal(said.out, "");
	assert_int_equal(said.status, 128 + SIGKILL);
	child_clear(&said);
	/* It has nothing to read, and waits for nobody. */
	assert_int_equal(shell("cat", -1, &said, &e), 0);
	assert_int_equal(said.status, 0);
	child_clear(&said);
}

/* More than pipes hold, and more than we keep: it does not hang, and is cut. */
static void test_much(void **state)
{
	struct err e = ERR_INIT;
	struct child_said said;
	char script[40];

	(void)state;
	assert_int_equal(shell("head -c 300000 /dev/zero >&2; head -c 300001 /dev/zero", -1, &said,
			       &e), 0);
	assert_int_equal(said.err_len, 300000);
	assert_int_equal(said.out_len, 300001);
	child_clear(&said);
	snprintf(script, sizeof(script), "head -c %u /dev/zero", CHILD_SAID_MAX + 1000000);
	assert_int_equal(shell(script, -1, &said, &e), 0);
	assert_int_equal(said.status, 0);
	assert_int_equal(said.out_len, CHILD_SAID_MAX);
	assert_int_equal(said.out[CHILD_SAID_MAX], '\0');
	child_clear(&said);
}

static void test_hands_on(void **state)
{
	int fd CLEANUP_CLOSE = open("/dev/zero", O_RDONLY | O_CLOEXEC);
	struct err e = ERR_INIT;
	struct child_said said;
	char script[80];

	(void)state;
	snprintf(script, sizeof(script), "readlink /proc/self/fd/%d", CHILD_FD);
	assert_int_equal(shell(script, fd, &said, &e), 0);
	assert_string_equal(said.out, "/dev/zero\n");
	child_clear(&said);
	assert_int_equal(shell(script, -1, &said, &e), 0);
	assert_string_equal(said.out, "");
	child_clear(&said);
}

/* Who was started without a standard input, output or error has what is handed on there. */
static void test_hands_on_low(void **state)
{
	(void)state;
	for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++) {
		int own CLEANUP_CLOSE = fcntl(fd, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
		int zero CLEANUP_CLOSE = open("/dev/zero", O_RDONLY | O_CLOEXEC);
		struct err e = ERR_INIT;
		struct child_said said;
		char script[80];
		int r;

		snprintf(script, sizeof(script), "readlink /proc/self/fd/%d", CHILD_FD);
		assert_true(own >= 0 && zero >= 0 && dup3(zero, fd, O_CLOEXEC) == fd);
		r = shell(script, fd, &said, &e);
		assert_int_equal(dup2(own, fd), fd);
		assert_int_equal(r, 0);
		assert_string_equal(said.out, "/dev/zero\n");
		child_clear(&said);
	}
}

static void test_no_such(void **state)
{
	char *argv[] = { (char []){ "no-such-program" }, NULL };
	struct err e = ERR_INIT;
	struct child_said said;

	(void)state;
	assert_int_equal(child_run(argv, -1, &stop, &said, &e), -ENOENT);
	assert_non_null(strstr(e.text, "no-such-program"));
	child_clear(&said);
}

/* Signals that we hold back end it; and what it has started goes with it. */
static void test_stops(void **state)
{
	struct err e = ERR_INIT;
	struct child_said said;
	uint64_t begun = now_ns();
	char script[128];
	long left;

	(void)state;
	assert_false(stop_asked(&stop));
	snprintf(script, sizeof(script), "trap 'echo; echo bye; exit' TERM; sleep 60 & echo $!; "
		 "kill -TERM %ld; wait", (long)getpid());
	assert_int_equal(shell(script, -1, &said, &e), -EINTR);
	assert_true(now_ns() - begun < 30000000000u);
	assert_true(stop_asked(&stop));
	left = strtol(said.out, NULL, 10);
	assert_true(left > 1);
	/* Its last words are heard. */
	assert_non_null(strstr(said.out, "bye"));
	child_clear(&said);
	/* Gone, or dead and for init to reap. */
	for (int i = 0; i < 500 && !kill((pid_t)left, 0); i++) {
		CLEANUP_FREE char *text = NULL;
		char path[40];

		snprintf(path, sizeof(path), "/proc/%ld/stat", left);
		if (read_file(path, 4096, &text, NULL) || strstr(text, ") Z "))
			return;
		usleep(10000);
	}
	assert_int_not_equal(kill((pid_t)left, 0), 0);
}

/* With a signal that is held back, and not asked about. */
static void test_goes_on(void **state)
{
	char *argv[] = { (char []){ "sh" }, (char []){ "-c" }, (char []){ "sleep 0.1; echo here" },
			 NULL };
	struct err e = ERR_INIT;
	struct child_said said;

	(void)state;
	assert_true(stop_asked(&stop));
	assert_int_equal(child_run(argv, -1, NULL, &said, &e), 0);
	assert_string_equal(said.out, "here\n");
	child_clear(&said);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_says),
		cmocka_unit_test(test_much),
		cmocka_unit_test(test_hands_on),
		cmocka_unit_test(test_hands_on_low),
		cmocka_unit_test(test_no_such),
		/* Last, for the signal stays. */
		cmocka_unit_test(test_stops),
		cmocka_unit_test(test_goes_on),
	};

	return cmocka_run_group_tests(tests, begin, NULL);
}
