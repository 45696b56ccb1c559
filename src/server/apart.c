// SPDX-License-Identifier: Apache-2.0
/* A child that does one thing, and what it says of it. */
#include "server/apart.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

enum { ERRNO_MOST = 4095 }; /* the kernel's; what is beyond may be nobody's number */

struct said {
	int code;
	char text[ERR_TEXT];
};

struct task {
	int (*fn)(void *arg, struct err *e);
	void *arg;
	bool closes;   /* all but keep */
	int keep;
};

/* Whoever waits for it may be ended; and the default action of an alarm ends it, whatever it hangs
 * in. */
static void begin_limits(pid_t parent, unsigned limit_s)
{
	sigset_t alarm_only;

	if (prctl(PR_SET_PDEATHSIG, SIGKILL) < 0 || getppid() != parent)
		_exit(EXIT_FAILURE);
	signal(SIGALRM, SIG_DFL);
	sigemptyset(&alarm_only);
	sigaddset(&alarm_only, SIGALRM);
	sigprocmask(SIG_UNBLOCK, &alarm_only, NULL);
	alarm(limit_s);
}

static int highest(int a, int b)
{
	return a > b ? a : b;
}

/* All but standard input, output and error, a and b. */
static void close_others(int a, int b)
{
	int low = highest(a < b ? a : b, STDERR_FILENO);
	int high = highest(highest(a, b), STDERR_FILENO);

	close_fds(STDERR_FILENO + 1, (unsigned)low - 1);
	close_fds((unsigned)low + 1, (unsigned)high - 1);
	close_fds((unsigned)high + 1, UINT_MAX);
}

static void work(const struct task *t, int out)
{
	struct said said = { .code = 0 };
	struct err e = ERR_INIT;

	if (t->closes)
		close_others(out, t->keep);
	said.code = t->fn(t->arg, &e);
	memcpy(said.text, e.text, sizeof(said.text));
	_exit(write_full(out, &said, sizeof(said)) < 0);
}

static int wait_for_end(pid_t pid, int *status)
{
	while (waitpid(pid, status, 0) < 0)
		if (errno != EINTR)
			return -errno;
	return 0;
}

/* Nothing came: why? */
static int no_word(int rc, int status, struct err *e)
{
	if (rc < 0)
		return err_sys(e, rc, "process for what is done apart");
	if (WIFSIGNALED(status) && WTERMSIG(status) == SIGALRM)
		return err_set(e, -ETIMEDOUT, "it takes too long: does what it waits for not "
			       "answer, a file system or another host?");
	if (WIFSIGNALED(status))
		return err_set(e, -ECHILD, "the process that was to find out died of signal %d (%s)",
			       WTERMSIG(status), strsignal(WTERMSIG(status)));
	return err_set(e, -ECHILD, "the process that was to find out has said nothing of "
		       "use");
}

static int run(const struct task *t, unsigned limit_s, struct err *e)
{
	int in CLEANUP_CLOSE = -1, out CLEANUP_CLOSE = -1, pair[2], status = 0, rc;
	struct said said;
	ssize_t got;
	pid_t pid, parent = getpid();

	if (pipe2(pair, O_CLOEXEC) < 0)
		return err_sys(e, -errno, "pipe");
	in = pair[0];
	out = pair[1];
	pid = fork();
	if (pid < 0)
		return err_sys(e, -errno, "process for what is done apart");
	if (pid == 0) {
		begin_limits(parent, limit_s);
		work(t, out);
	}
	cleanup_close(&out);
	got = read_full(in, &said, sizeof(said));
	rc = wait_for_end(pid, &status);
	if (rc < 0 || got != (ssize_t)sizeof(said) || said.code > 0 || said.code < -ERRNO_MOST)
		return no_word(rc, status, e);
	said.text[sizeof(said.text) - 1] = '\0';
	return said.code < 0 ? err_set(e, said.code, "%s", said.text) : 0;
}

int apart(int (*fn)(void *arg, struct err *e), void *arg, unsigned limit_s, struct err *e)
{
	return run(&(struct task){ .fn = fn, .arg = arg }, limit_s, e);
}

int apart_closed(int (*fn)(void *arg, struct err *e), void *arg, int keep, unsigned limit_s,
		 struct err *e)
{
	const struct task t = { .fn = fn, .arg = arg, .closes = true, .keep = keep };

	return run(&t, limit_s, e);
}
