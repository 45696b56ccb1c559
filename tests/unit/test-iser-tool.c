// SPDX-License-Identifier: Apache-2.0
/* A change is carried to its end whoever looks on. */
#include "iser_setup/tool.h"

#include "iser_setup/tool_change.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#define STEPS 3
#define DONE 42 /* exit status of a change that came to its end */

static int change(const void *subject, const struct change_options *o, struct change_report *r,
		  struct err *e)
{
	(void)subject;
	(void)r;
	(void)e;
	for (int i = 0; i < STEPS; i++)
		o->say(o->arg, "a step");
	_exit(DONE);
}

/* Nobody reads what it says, on neither output. */
static void test_nobody_reads(void **state)
{
	int fds[2], status;
	pid_t pid;

	(void)state;
	assert_int_equal(pipe(fds), 0);
	pid = fork();
	assert_true(pid >= 0);
	if (!pid) {
		const struct tool_change o = { 0 };

		dup2(fds[1], STDOUT_FILENO);
		dup2(fds[1], STDERR_FILENO);
		close(fds[0]);
		close(fds[1]);
		tool_change(&o, "p", NULL, change, "is applied", "is applied already");
		_exit(0);
	}
	close(fds[0]);
	close(fds[1]);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status));
	assert_int_equal(WEXITSTATUS(status), DONE);
}

static void *no_memory(size_t size)
{
	(void)size;
	return NULL;
}

static int change_and_forget(const void *subject, const struct change_options *o,
			     struct change_report *r, struct err *e)
{
	(void)subject;
	(void)o;
	(void)r;
	(void)e;
	json_set_alloc_funcs(no_memory, free);
	return 0;
}

/* What was done, and cannot be told, is not silently a failure. */
static void test_no_memory(void **state)
{
	char said[200] = "";
	int fds[2], status;
	pid_t pid;

	(void)state;
	assert_int_equal(pipe(fds), 0);
	pid = fork();
	assert_true(pid >= 0);
	if (!pid) {
		const struct tool_change o = { .json = true };

		dup2(fds[1], STDERR_FILENO);
		_exit(tool_change(&o, "p", NULL, change_and_forget, "is applied", "is there"));
	}
	close(fds[1]);
	assert_true(read_full(fds[0], said, sizeof(said) - 1) > 0);
	close(fds[0]);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status));
	assert_int_equal(WEXITSTATUS(status), TOOL_FAILED);
	assert_string_equal(said, "rftp: standard output: Cannot allocate memory\n");
}

/* Commands that change something else than a plan's targets. */
static void test_others(void **state)
{
	static const struct {
		tool_run *run;
		const char *word[3];
	} commands[] = {
		{ tool_login, { "login", "--plan=/dev/null/plan", "--tune" } },
		{ tool_logout, { "logout", "--all", "--state=/dev/null/state" } },
		{ tool_verify, { "verify", "--io", "--state=/dev/null/state" } },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(commands) / sizeof(commands[0]); i++) {
		char *argv[] = { (char *)(uintptr_t)commands[i].word[0],
				 (char *)(uintptr_t)commands[i].word[1],
				 (char *)(uintptr_t)commands[i].word[2], NULL };
		int status;
		pid_t pid = fork();

		assert_true(pid >= 0);
		if (!pid) {
			commands[i].run(3, argv);
			raise(SIGPIPE);
			_exit(DONE);
		}
		assert_int_equal(waitpid(pid, &status, 0), pid);
		if (!WIFEXITED(status) || WEXITSTATUS(status) != DONE)
			fail_msg("%s: status %#x", argv[0], (unsigned)status);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_nobody_reads), cmocka_unit_test(test_no_memory),
		cmocka_unit_test(test_others),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
