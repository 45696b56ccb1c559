// SPDX-License-Identifier: Apache-2.0
/* Start and end of a program to speak to. */
#include "iser_setup/process.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#define PAUSE_MS 5 /* between looks whether it has ended */
#define HOLD_FD (STDERR_FILENO + 1)
#define DEFAULT_PATH "PATH=/usr/sbin:/usr/bin:/sbin:/bin"

/* ---- start ---- */

static int set_attributes(posix_spawnattr_t *a)
{
	static const int ours[] = { SIGINT, SIGTERM, SIGHUP, SIGPIPE };
	sigset_t none, usual;
	int r;

	sigemptyset(&none);
	sigemptyset(&usual);
	for (size_t i = 0; i < sizeof(ours) / sizeof(ours[0]); i++)
		sigaddset(&usual, ours[i]);
	r = posix_spawnattr_setsigmask(a, &none);
	r = r ? r : posix_spawnattr_setsigdefault(a, &usual);
	return r ? r : posix_spawnattr_setflags(a, POSIX_SPAWN_SETSIGMASK |
						POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETSID);
}

/* A directory that it is in could not be unmounted. */
static int set_files(posix_spawn_file_actions_t *f, int socket, int err, int hold)
{
	int r = posix_spawn_file_actions_adddup2(f, socket, STDIN_FILENO);

	r = r ? r : posix_spawn_file_actions_adddup2(f, socket, STDOUT_FILENO);
	r = r ? r : posix_spawn_file_actions_adddup2(f, err, STDERR_FILENO);
	/* Last, for this may be the number of one of those. */
	if (hold >= 0)
		r = r ? r : posix_spawn_file_actions_adddup2(f, hold, HOLD_FD);
	r = r ? r : posix_spawn_file_actions_addclosefrom_np(f, HOLD_FD + (hold >= 0));
	return r ? r : posix_spawn_file_actions_addchdir_np(f, "/");
}

static int spawn(char *const argv[], char *const envp[], const int fds[3], pid_t *pid)
{
	posix_spawn_file_actions_t files;
	posix_spawnattr_t attr;
	int r = posix_spawn_file_actions_init(&files);

	if (r)
		return -r;
	r = posix_spawnattr_init(&attr);
	if (!r) {
		r = set_attributes(&attr);
		r = r ? r : set_files(&files, fds[0], fds[1], fds[2]);
		r = r ? r : posix_spawnp(pid, argv[0], &files, &attr, argv, envp);
		posix_spawnattr_destroy(&attr);
	}
	posix_spawn_file_actions_destroy(&files);
	return -r;
}

/* fds: its socket, its standard error, and what it holds. */
static int spawn_clean(char *const argv[], const int fds[3], pid_t *pid)
{
	const char *path = getenv("PATH");
	CLEANUP_FREE char *kept = NULL;

	if (path && asprintf(&kept, "PATH=%s", path) < 0)
		return -ENOMEM;
	return spawn(argv, (char *[]){ kept ? kept : (char []){ DEFAULT_PATH },
				       (char []){ "LC_ALL=C.UTF-8" }, NULL }, fds, pid);
}

int process_start(struct process *p, char *const argv[], int hold, struct err *e)
{
	/* Of whoever started us without a standard input, what we opened first has its number, and
	 * would be overwritten before it is handed on. */
	CLEANUP_CLOSE int away = hold >= 0 && hold < HOLD_FD ?
				 fcntl(hold, F_DUPFD_CLOEXEC, HOLD_FD) : -1;
	int pair[2], err[2], r;

	*p = (struct process)PROCESS_INIT;
	if (hold >= 0 && hold < HOLD_FD && away < 0)
		return err_sys(e, -errno, "a descriptor for %s", argv[0]);
	hold = away >= 0 ? away : hold;
	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair))
		return err_sys(e, -errno, "a socket for %s", argv[0]);
	if (pipe2(err, O_CLOEXEC)) {
		r = -errno;
		close(pair[0]);
		close(pair[1]);
		return err_sys(e, r, "a pipe for %s", argv[0]);
	}
	p->fd = pair[0];
	p->err = err[0];
	r = set_nonblock(p->fd, true);
	r = r ? r : set_nonblock(p->err, true);
	r = r ? r : spawn_clean(argv, (int []){ pair[1], err[1], hold }, &p->pid);
	close(pair[1]);
	close(err[1]);
	if (!r)
		return 0;
	p->pid = 0;
	process_leave(p);
	return err_sys(e, r, "%s", argv[0]);
}

/* ---- what it says ---- */

void process_listen(struct process *p)
{
	char chunk[PROCESS_SAID_MAX];
	ssize_t got;

	while (p->err >= 0 && (got = read(p->err, chunk, sizeof(chunk))) != 0) {
		size_t n = got < 0 ? 0 : (size_t)got, keep = p->said_len;

		if (got < 0 && errno == EINTR)
			continue;
		if (got < 0)
			return;
		if (keep + n > PROCESS_SAID_MAX)
			keep = PROCESS_SAID_MAX - n;
		memmove(p->said, p->said + p->said_len - keep, keep);
		memcpy(p->said + keep, chunk, n);
		p->said_len = keep + n;
		p->said[p->said_len] = '\0';
	}
	cleanup_close(&p->err);
}

const char *process_last_line(struct process *p)
{
	char *line;

	while (p->said_len && p->said[p->said_len - 1] == '\n')
		p->said[--p->said_len] = '\0';
	line = strrchr(p->said, '\n');
	return line ? line + 1 : p->said;
}

/* ---- end ---- */

void process_leave(struct process *p)
{
	cleanup_close(&p->fd);
	cleanup_close(&p->err);
	if (p->pid)
		waitpid(p->pid, NULL, WNOHANG);
	p->pid = 0;
}

static bool has_ended(pid_t pid)
{
	siginfo_t i = { 0 };

	return waitid(P_PID, (id_t)pid, &i, WEXITED | WNOHANG | WNOWAIT) || i.si_pid;
}

static bool ends_itself(struct process *p, int wait_ms)
{
	uint64_t end = ns_after(wait_ms);

	/* It has nothing to wait for: neither for us to speak, nor to read. */
	shutdown(p->fd, SHUT_RDWR);
	while (!has_ended(p->pid)) {
		process_listen(p);
		if (!ms_to(end))
			return false;
		poll(NULL, 0, PAUSE_MS);
	}
	return true;
}

int process_end(struct process *p, int wait_ms)
{
	int status, r;

	if (!p->pid)
		return -1;
	/* Its group, for it may have started others. */
	if (!ends_itself(p, wait_ms))
		kill(-p->pid, SIGKILL);
	do
		r = waitpid(p->pid, &status, 0);
	while (r < 0 && errno == EINTR);
	process_listen(p);
	r = r < 0 ? -1 : WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
	p->pid = 0;
	process_leave(p);
	return r;
}
