// SPDX-License-Identifier: Apache-2.0
/* Descriptors from 3 on, and the variables that tell of them. */
#include "server/activation.h"
#include "util/util.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

/* Ours: "own" or "given", whose the sockets are. The line is the descriptor behind them. */
#define OF_RFTPD "RFTPD_SOCKETS"

/* ---- what a descriptor is ---- */

/* NULL: a listening TCP socket. */
static const char *what_else(int fd)
{
	int type = 0, listens = 0, family = 0, protocol = 0;
	socklen_t len = sizeof(int);

	if (getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &len) < 0)
		return errno == ENOTSOCK ? "no socket" : "not open";
	getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &family, &len);
	getsockopt(fd, SOL_SOCKET, SO_PROTOCOL, &protocol, &len);
	getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listens, &len);
	if ((family != AF_INET && family != AF_INET6) || type != SOCK_STREAM ||
	    protocol != IPPROTO_TCP)
		return "no TCP socket";
	return listens ? NULL : "a connection, or nothing yet (in a unit of systemd: Accept=no)";
}

/* The i-th of "a:b:c", or "". */
static void name_of(const char *names, int i, char out[80])
{
	while (i-- > 0 && names)
		names = strchr(names, ':') ? strchr(names, ':') + 1 : NULL;
	snprintf(out, 80, "%.*s", names ? (int)strcspn(names, ":") : 0, names ? names : "");
}

static int check_fd(int fd, const char *names, struct err *e)
{
	const char *what = what_else(fd);
	char name[80];

	if (!what)
		return 0;
	name_of(names, fd - ACTIVATION_FIRST, name);
	return err_set(e, -EINVAL, "LISTEN_FDS: descriptor %d%s%s%s is %s: only listening TCP "
		       "sockets can be served", fd, *name ? " (" : "", printable(name),
		       *name ? ")" : "", what);
}

/* ---- taking ---- */

static bool is_for_us(void)
{
	const char *pid = getenv("LISTEN_PID");
	uint64_t n;

	return pid && parse_uint(pid, 1, INT32_MAX, &n) == 0 && (pid_t)n == getpid();
}

static int take_fds(struct activation *a, uint64_t n, struct err *e)
{
	const char *names = getenv("LISTEN_FDNAMES");
	int rc = 0;

	for (int i = 0; rc == 0 && i < (int)n; i++) {
		int fd = ACTIVATION_FIRST + i;

		rc = check_fd(fd, names, e);
		if (rc == 0 && (fcntl(fd, F_SETFD, FD_CLOEXEC) < 0 || set_nonblock(fd, true) < 0))
			rc = err_sys(e, -errno, "descriptor %d", fd);
		a->fds[i] = fd;
	}
	a->nfds = rc == 0 ? (int)n : 0;
	return rc;
}

static int take(struct activation *a, struct err *e)
{
	const char *count = getenv("LISTEN_FDS"), *ours = getenv(OF_RFTPD);
	uint64_t n;

	if (!count || !is_for_us())
		return 0;
	if (parse_uint(count, 0, LISTEN_MAX, &n) < 0)
		return err_set(e, -EINVAL, "LISTEN_FDS=%s: there can be %d sockets at most",
			       printable(count), LISTEN_MAX);
	if (ours) {
		a->before = ACTIVATION_FIRST + (int)n;
		a->own = !strcmp(ours, "own");
		fcntl(a->before, F_SETFD, FD_CLOEXEC);
	}
	return take_fds(a, n, e);
}

int activation_take(struct activation *a, struct err *e)
{
	int rc;

	*a = (struct activation){ .before = -1 };
	rc = take(a, e);
	unsetenv("LISTEN_PID");
	unsetenv("LISTEN_FDS");
	unsetenv("LISTEN_FDNAMES");
	unsetenv(OF_RFTPD);
	return rc;
}

unsigned activation_end(const struct activation *a)
{
	return (unsigned)(ACTIVATION_FIRST + a->nfds + (a->before >= 0));
}

/* ---- giving ---- */

/* To where nothing lies in the way of another. */
static int move_up(int *fds, int n)
{
	for (int i = 0; i < n; i++) {
		fds[i] = fcntl(fds[i], F_DUPFD_CLOEXEC, ACTIVATION_FIRST + LISTEN_MAX + 1);
		if (fds[i] < 0)
			return -errno;
	}
	return 0;
}

static int say_number(const char *name, long n)
{
	char text[24];

	snprintf(text, sizeof(text), "%ld", n);
	return setenv(name, text, 1) < 0 ? -errno : 0;
}

int activation_give(const int *fds, int nfds, int before, bool own)
{
	int all[LISTEN_MAX + 1], rc;

	memcpy(all, fds, (size_t)nfds * sizeof(*fds));
	all[nfds] = before;
	rc = move_up(all, nfds + 1);
	for (int i = 0; rc == 0 && i <= nfds; i++)
		if (dup2(all[i], ACTIVATION_FIRST + i) < 0) /* open in the next program */
			rc = -errno;
	if (rc == 0)
		rc = say_number("LISTEN_PID", getpid());
	if (rc == 0)
		rc = say_number("LISTEN_FDS", nfds);
	if (rc == 0 && setenv(OF_RFTPD, own ? "own" : "given", 1) < 0)
		rc = -errno;
	return rc;
}
