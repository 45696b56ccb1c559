// SPDX-License-Identifier: Apache-2.0
/* A change is carried to its end whoever looks on. */
#include "iser_setup/tool.h"

#include "iser_setup/tool_change.h"

#include <setjmp.h>
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

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(test_nobody_reads) };

	return cmocka_run_group_tests(tests, NULL, NULL);
}
