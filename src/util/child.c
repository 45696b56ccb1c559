// SPDX-License-Identifier: Apache-2.0
/* fork, exec and wait. */
#include "util/child.h"

#include "util/base.h"
#include "util/io.h"
#include "util/limits.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>

enum { STEP_MS = 10, ERRNO_MOST = 4095 };

/* ---- programs ---- */

/* Only async-signal-safe calls: other threads of the parent may have held locks at the fork. */
static _Noreturn void child_become(const struct child_program *p, int report)
{
	const int fds[] = { p->in, p->out, p->err };
	sigset_t none;
	int code;

	if (p->ignore_interrupt)
		signal(SIGINT, SIG_IGN);
	signal(SIGPIPE, SIG_DFL); /* exec resets handlers, but not ignored signals */
	signal(SIGXFSZ, SIG_DFL);
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	for (int i = 0; i < 3; i++)
		if (fds[i] >= 0)
			dup2(fds[i], i);
	execvp(p->argv[0], p->argv);
	code = -errno;
	(void)write_full(report, &code, sizeof(code));
	_exit(127);
}

int child_exec(struct child *c, const struct child_program *p, struct err *e)
{
	int in CLEANUP_CLOSE = -1, out CLEANUP_CLOSE = -1, pair[2], code = 0;

	*c = (struct child){ .pid = 0, .status = -1 };
	if (pipe2(pair, O_CLOEXEC) < 0)
		return err_sys(e, -errno, "pipe");
	in = pair[0];
	out = pair[1];
	c->pid = fork();
	if (c->pid == 0)
		child_become(p, out);
	if (c->pid < 0) {
		c->pid = 0;
		return err_sys(e, -errno, "cannot start a process for %s", printable(p->argv[0]));
	}

	/* A successful exec closes the child's end of the pipe, so the read returns 0. */
	cleanup_close(&out);
	if (read_full(in, &code, sizeof(code)) != (ssize_t)sizeof(code))
		return 0;
	child_end(c, -1);
	return err_sys(e, code, "cannot run %s", printable(p->argv[0]));
}

int child_wait(struct child *c, int timeout_ms)
{
	for (; c->pid; timeout_ms -= STEP_MS) {
		pid_t r = waitpid(c->pid, &c->status, timeout_ms < 0 ? 0 : WNOHANG);

		if (r == c->pid)
			c->pid = 0;
		else if (r < 0 && errno == EINTR)
			return -EINTR;
		else if (r < 0)
			*c = (struct child){ .pid = 0, .status = -1 };
		else if (timeout_ms < STEP_MS)
			return 0;
		else
			poll(NULL, 0, STEP_MS);
	}

	return 1;
}

void child_end(struct child *c, int patience_ms)
{
	static const int signals[] = { SIGTERM, SIGKILL };

	for (int i = 0; i < 2 && patience_ms >= 0 && !child_wait(c, patience_ms); i++)
		kill(c->pid, signals[i]);
	while (child_wait(c, -1) < 0)
		;
}

/* ---- functions ---- */

struct child_result {
	int code;
	char text[ERR_TEXT];
};

static int child_no_result(int status, struct err *e)
{
	if (WIFSIGNALED(status) && WTERMSIG(status) == SIGALRM)
		return err_set(e, -ETIMEDOUT, "it takes too long: does a file system or another "
			       "host not answer?");
	if (WIFSIGNALED(status))
		return err_set(e, -ECHILD, "the child process died of signal %d (%s)",
			       WTERMSIG(status), strsignal(WTERMSIG(status)));
	return err_set(e, -ECHILD, "the child process gave no valid result");
}

int child_call(int (*fn)(void *arg, struct err *e), void *arg, unsigned limit_s, const int *keep,
	       void *data, size_t len, struct err *e)
{
	int in CLEANUP_CLOSE = -1, out CLEANUP_CLOSE = -1, pair[2];
	struct child_result result = { .code = 0 };
	pid_t parent = getpid();
	struct child c = { .pid = 0 };
	struct err own = ERR_INIT;
	sigset_t alarm_only;
	unsigned low, high;
	bool whole;

	if (pipe2(pair, O_CLOEXEC) < 0)
		return err_sys(e, -errno, "pipe");
	in = pair[0];
	out = pair[1];
	c.pid = fork();
	if (c.pid < 0)
		return err_sys(e, -errno, "cannot start a child process");
	if (c.pid == 0) {
		if (prctl(PR_SET_PDEATHSIG, SIGKILL) < 0 || getppid() != parent)
			_exit(EXIT_FAILURE);
		/* The default action of SIGALRM ends the child wherever it hangs. */
		signal(SIGALRM, SIG_DFL);
		sigemptyset(&alarm_only);
		sigaddset(&alarm_only, SIGALRM);
		sigprocmask(SIG_UNBLOCK, &alarm_only, NULL);
		alarm(limit_s);
		if (keep) { /* close all descriptors except 0 to 2, out and *keep */
			low = (unsigned)(*keep > STDERR_FILENO && *keep < out ? *keep : out);
			high = (unsigned)(*keep > out ? *keep : out);
			close_fds(STDERR_FILENO + 1, low - 1);
			close_fds(low + 1, high - 1);
			close_fds(high + 1, UINT_MAX);
		}
		result.code = fn(arg, &own);
		memcpy(result.text, own.text, sizeof(result.text));
		_exit(write_full(out, &result, sizeof(result)) < 0 ||
		      write_full(out, data, len) < 0);
	}

	cleanup_close(&out);
	whole = read_full(in, &result, sizeof(result)) == (ssize_t)sizeof(result) &&
		read_full(in, data, len) == (ssize_t)len;
	child_end(&c, -1);
	if (!whole || result.code > 0 || result.code < -ERRNO_MOST)
		return child_no_result(c.status, e);
	result.text[sizeof(result.text) - 1] = '\0';
	return result.code ? err_set(e, result.code, "%s", result.text) : 0;
}
