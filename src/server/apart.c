// SPDX-License-Identifier: Apache-2.0
/* A child that does one thing, and what it says of it. */
#include "server/apart.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

struct said {
	int code;
	char text[ERR_TEXT];
};

/* The default action of an alarm ends it, whatever it hangs in. */
static void begin_limit(unsigned limit_s)
{
	sigset_t alarm_only;

	signal(SIGALRM, SIG_DFL);
	sigemptyset(&alarm_only);
	sigaddset(&alarm_only, SIGALRM);
	sigprocmask(SIG_UNBLOCK, &alarm_only, NULL);
	alarm(limit_s);
}

static void work(int (*fn)(void *arg, struct err *e), void *arg, int out)
{
	struct said said = { .code = 0 };
	struct err e = ERR_INIT;

	said.code = fn(arg, &e);
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
		return err_set(e, -ETIMEDOUT, "it takes too long: is a file where none can be "
			       "read for now?");
	if (WIFSIGNALED(status))
		return err_set(e, -ECHILD, "the process that was to find out died of signal %d (%s)",
			       WTERMSIG(status), strsignal(WTERMSIG(status)));
	return err_set(e, -ECHILD, "the process that was to find out has said nothing");
}

int apart(int (*fn)(void *arg, struct err *e), void *arg, unsigned limit_s, struct err *e)
{
	int in CLEANUP_CLOSE = -1, out CLEANUP_CLOSE = -1, pair[2], status = 0, rc;
	struct said said;
	ssize_t got;
	pid_t pid;

	if (pipe2(pair, O_CLOEXEC) < 0)
		return err_sys(e, -errno, "pipe");
	in = pair[0];
	out = pair[1];
	pid = fork();
	if (pid < 0)
		return err_sys(e, -errno, "process for what is done apart");
	if (pid == 0) {
		/* Whoever waits for it may be ended. */
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		begin_limit(limit_s);
		work(fn, arg, out);
	}
	cleanup_close(&out);
	got = read_full(in, &said, sizeof(said));
	rc = wait_for_end(pid, &status);
	if (rc < 0 || got != (ssize_t)sizeof(said))
		return no_word(rc, status, e);
	said.text[sizeof(said.text) - 1] = '\0';
	return said.code < 0 ? err_set(e, said.code, "%s", said.text) : said.code;
}
