// SPDX-License-Identifier: Apache-2.0
/* A program, its two outputs, and a signal that may end it. */
#include "util/util.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define CHUNK 65536u
#define GRACE_MS 5000 /* from the polite signal to the other one */

/* ---- start ---- */

/* What is blocked here is not there; its group is its own, so that a terminal's signal comes
 * to us alone, and one of ours reaches what it has started, too. */
static int set_attributes(posix_spawnattr_t *a)
{
	sigset_t none;
	int r;

	sigemptyset(&none);
	r = posix_spawnattr_setsigmask(a, &none);
	if (!r)
		r = posix_spawnattr_setpgroup(a, 0);
	if (!r)
		r = posix_spawnattr_setflags(a, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETPGROUP);
	return r;
}

static int set_files(posix_spawn_file_actions_t *f, int out, int err, int hand_on)
{
	int r = posix_spawn_file_actions_addopen(f, STDIN_FILENO, "/dev/null", O_RDONLY, 0);

	/* First, for CHILD_FD may be the number of none of the others then. */
	if (!r)
		r = posix_spawn_file_actions_adddup2(f, out, STDOUT_FILENO);
	if (!r)
		r = posix_spawn_file_actions_adddup2(f, err, STDERR_FILENO);
	if (!r && hand_on >= 0)
		r = posix_spawn_file_actions_adddup2(f, hand_on, CHILD_FD);
	return r;
}

static int spawn(char *const argv[], int out, int err, int hand_on, pid_t *pid)
{
	posix_spawn_file_actions_t files;
	posix_spawnattr_t attr;
	int r = posix_spawn_file_actions_init(&files);

	if (r)
		return -r;
	r = posix_spawnattr_init(&attr);
	if (!r) {
		r = set_attributes(&attr);
		if (!r)
			r = set_files(&files, out, err, hand_on);
		if (!r)
			r = posix_spawnp(pid, argv[0], &files, &attr, argv, environ);
		posix_spawnattr_destroy(&attr);
	}
	posix_spawn_file_actions_destroy(&files);
	return -r;
}

/* ---- what it says ---- */

/* Bytes that are had for a text that long and its NUL: CHUNK, and doubled as it grows. */
static size_t space_for(size_t len)
{
	size_t n = CHUNK;

	while (n <= len)
		n *= 2;
	return n;
}

static int make_space(char **text, size_t len, size_t more)
{
	char *bigger;

	if (space_for(len + more) == space_for(len))
		return 0;
	bigger = realloc(*text, space_for(len + more));
	if (!bigger)
		return -ENOMEM;
	*text = bigger;
	return 0;
}

/* What has come on *fd; at its end *fd is closed. More than we keep is read and dropped. */
static int take(int *fd, char **text, size_t *len)
{
	char chunk[CHUNK];
	ssize_t got = read(*fd, chunk, sizeof(chunk));
	size_t keep;

	if (got < 0)
		return errno == EINTR || errno == EAGAIN ? 0 : -errno;
	if (!got) {
		cleanup_close(fd);
		return 0;
	}
	keep = (size_t)got < CHILD_SAID_MAX - *len ? (size_t)got : CHILD_SAID_MAX - *len;
	if (make_space(text, *len, keep))
		return -ENOMEM;
	memcpy(*text + *len, chunk, keep);
	*len += keep;
	(*text)[*len] = '\0';
	return 0;
}

/* Until both outputs have ended, and are closed: 0; or stop is readable (-1: it never is), or
 * it is later than until: -EINTR. */
static int listen_to(int fds[2], int stop, uint64_t until, struct child_said *said)
{
	int r = 0;

	while (!r && (fds[0] >= 0 || fds[1] >= 0)) {
		struct pollfd p[3] = {
			{ fds[0], POLLIN, 0 }, { fds[1], POLLIN, 0 }, { stop, POLLIN, 0 },
		};
		int n = poll(p, 3, until == UINT64_MAX ? -1 : ms_to(until));

		if (n < 0 && errno != EINTR)
			r = -errno;
		else if (!n || p[2].revents)
			r = -EINTR;
		if (n > 0 && !r && p[0].revents)
			r = take(&fds[0], &said->out, &said->out_len);
		if (n > 0 && !r && p[1].revents)
			r = take(&fds[1], &said->err, &said->err_len);
	}
	return r;
}

/* ---- its end ---- */

/* Politely first, and listening, for it may have last words to get rid of. */
static void end(pid_t pid, int fds[2], struct child_said *said)
{
	kill(-pid, SIGTERM);
	listen_to(fds, -1, ns_after(GRACE_MS), said);
	kill(-pid, SIGKILL);
}

static int wait_for(pid_t pid, int *status)
{
	int s;

	while (waitpid(pid, &s, 0) < 0)
		if (errno != EINTR)
			return -errno;
	*status = WIFEXITED(s) ? WEXITSTATUS(s) : 128 + WTERMSIG(s);
	return 0;
}

static int run(char *const argv[], int fds[2], int out, int err, int hand_on, int stop,
	       struct child_said *said)
{
	pid_t pid;
	int r = spawn(argv, out, err, hand_on, &pid), waited;

	/* Ours would keep them from ending. */
	close(out);
	close(err);
	if (!r) {
		r = listen_to(fds, stop, UINT64_MAX, said);
		if (r)
			end(pid, fds, said);
		waited = wait_for(pid, &said->status);
		r = r ? r : waited;
	}
	cleanup_close(&fds[0]);
	cleanup_close(&fds[1]);
	return r;
}

int child_run(char *const argv[], int hand_on, const struct stop *stop, struct child_said *said,
	      struct err *e)
{
	CLEANUP_CLOSE int asked = stop ? stop_fd(stop) : -1;
	/* Of whoever started us without a standard input, what we opened first has its number, and
	 * would be overwritten before it is handed on. */
	const bool is_low = hand_on >= 0 && hand_on <= STDERR_FILENO;
	CLEANUP_CLOSE int away = is_low ? fcntl(hand_on, F_DUPFD_CLOEXEC, STDERR_FILENO + 1) : -1;
	int out[2], err[2], r;

	*said = (struct child_said){ .out = calloc(1, CHUNK), .err = calloc(1, CHUNK) };
	if (!said->out || !said->err)
		return err_set(e, -ENOMEM, "out of memory");
	if (is_low && away < 0)
		return err_sys(e, -errno, "a descriptor for %s", argv[0]);
	if (stop && asked < 0)
		return err_sys(e, asked, "a descriptor for signals");
	if (pipe2(out, O_CLOEXEC))
		return err_sys(e, -errno, "a pipe for %s", argv[0]);
	if (pipe2(err, O_CLOEXEC)) {
		r = -errno;
		close(out[0]);
		close(out[1]);
		return err_sys(e, r, "a pipe for %s", argv[0]);
	}
	r = run(argv, (int []){ out[0], err[0] }, out[1], err[1], is_low ? away : hand_on, asked,
		said);
	if (r == -EINTR)
		return err_set(e, r, "stopped by a signal");
	return r ? err_sys(e, r, "%s", argv[0]) : 0;
}

void child_clear(struct child_said *said)
{
	free(said->out);
	free(said->err);
	*said = (struct child_said){ 0 };
}
