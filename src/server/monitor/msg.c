// SPDX-License-Identifier: Apache-2.0
/* Messages over pipes in packet mode (pipe(2)), and over SOCK_SEQPACKET sockets, with descriptors
 * in SCM_RIGHTS (unix(7)). */
#include "server/monitor/msg.h"
#include "util/util.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/uio.h>

enum {
	PIPE_BYTES = 1 << 20,  /* room for a burst of log lines: each packet takes a page */
	LOG_WAIT_MS = 10 * 1000,
	CLIENT_LEFT_MS = 1000,
};

/* Wait after EAGAIN. 0, -ETIMEDOUT, or another negative errno. */
static int msg_wait(int fd, short event, int timeout_ms)
{
	int rc = poll_fd(fd, event, timeout_ms);

	return rc < 0 ? rc : rc == 0 ? -ETIMEDOUT : 0;
}

/* ---- channels ---- */

void channel_close(struct channel *c)
{
	cleanup_close(&c->up);
	cleanup_close(&c->down);
}

int channel_open(struct channel *monitor, struct channel *process)
{
	int up[2], down[2], rc;

	if (pipe2(up, O_CLOEXEC | O_DIRECT | O_NONBLOCK) < 0)
		return -errno;

	rc = msg_pair(down);
	if (rc < 0) {
		close(up[0]);
		close(up[1]);
		return rc;
	}

	*monitor = (struct channel){ .up = up[0], .down = down[0] };
	*process = (struct channel){ .up = up[1], .down = down[1] };
	fcntl(up[0], F_SETPIPE_SZ, PIPE_BYTES); /* may fail: then the process only waits for the
						 * monitor more often */
	if (shutdown(down[0], SHUT_RD) == 0)
		return 0;
	rc = -errno;
	channel_close(monitor);
	channel_close(process);
	return rc;
}

/* size: for the head; the packet carries the len bytes at p. */
static int channel_write(const struct channel *c, enum request_type type, size_t size,
			 const void *p, size_t len, int timeout_ms)
{
	struct request_head head = { type, (uint32_t)size };
	const struct iovec iov[] = {
		{ &head, sizeof(head) },
		{ (void *)(uintptr_t)p, len },
	};
	int rc = 0;

	while (rc == 0) {
		if (writev(c->up, iov, 2) >= 0)
			return 0;
		if (errno != EAGAIN && errno != EINTR)
			return -errno;
		rc = msg_wait(c->up, POLLOUT, timeout_ms);
	}
	return rc;
}

int channel_send(const struct channel *c, enum request_type type, const void *p, size_t len,
		 int timeout_ms)
{
	return channel_write(c, type, len, p, len, timeout_ms);
}

int channel_read(const struct channel *c, uint8_t packet[REQUEST_MAX])
{
	ssize_t n;

	do
		n = read(c->up, packet, REQUEST_MAX);
	while (n < 0 && errno == EINTR);
	if (n < 0)
		return -errno;
	if (n == 0)
		return -EPIPE;
	return (size_t)n < sizeof(struct request_head) ? -EPROTO : (int)n;
}

int monitor_silent(struct err *e, int code)
{
	return err_sys(e, code, "no answer from the monitor");
}

int channel_await_login(const struct channel *c, const char *user, int client, int *line,
			struct err *e)
{
	struct pollfd p[] = {
		{ .fd = c->down, .events = POLLIN },
		{ .fd = client, .events = POLLRDHUP },
	};
	struct login_reply a = { .code = 0 };
	struct login_request ask = { { 0 } };
	int rc;

	snprintf(ask.user, sizeof(ask.user), "%s", user);
	rc = channel_send(c, REQUEST_LOGIN, &ask, sizeof(ask), -1);

	/* No time limit: the monitor always answers, at the latest when the login has waited too
	 * long. */
	while (rc == 0 && poll(p, 2, -1) < 0)
		if (errno != EINTR)
			rc = -errno;

	/* After the client has closed its connection, wait only CLIENT_LEFT_MS more: some clients
	 * close only their sending direction, and still want the answer. */
	if (rc == 0 && !p[0].revents)
		rc = msg_wait(c->down, POLLIN, CLIENT_LEFT_MS);
	if (rc == -ETIMEDOUT)
		return err_set(e, -ECONNRESET, "the client left while its login waited");
	if (rc == 0)
		rc = msg_receive(c->down, &a, sizeof(a), line, -1);
	if (rc < 0)
		return monitor_silent(e, rc);
	return a.code < 0 ? err_sys(e, a.code, "login") : 0;
}

/* ---- log lines ---- */

static struct channel log_channel; /* set while the process has one thread */
static pthread_mutex_t log_lock = PTHREAD_MUTEX_INITIALIZER; /* so that the packets of a record stay
							      * together */

/* Send a record, in several packets if it is large. If the monitor does not read in time, the line
 * is lost: the log must not stop the session. */
static void log_send(void *arg, const void *record, size_t len)
{
	enum request_type type = REQUEST_LOG;
	const uint8_t *at = record;
	LOCK_GUARD(guard, &log_lock);

	(void)arg;
	while (len) {
		size_t n = min_u64(len, REQUEST_MAX - sizeof(struct request_head));

		if (channel_write(&log_channel, type, len, at, n, LOG_WAIT_MS) < 0)
			return;
		type = REQUEST_LOG_MORE;
		at += n;
		len -= n;
	}
}

void channel_log(const struct channel *c)
{
	/* With a sanitizer the standard descriptors stay open: it reports only there. */
	int null = SANITIZED ? -1 : open("/dev/null", O_RDWR | O_CLOEXEC);

	log_channel = *c;
	log_set_sink(log_send, NULL);
	log_leave();
	if (null < 0)
		return;

	for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++)
		dup2(null, fd);
	if (null > STDERR_FILENO)
		close(null);
}

/* ---- sockets ---- */

int msg_pair(int fd[2])
{
	return socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, fd) < 0 ? -errno : 0;
}

union msg_rights {
	char room[CMSG_SPACE(sizeof(int))];
	struct cmsghdr align;
};

int msg_send(int fd, const void *p, size_t len, int pass, int timeout_ms)
{
	struct iovec iov = { .iov_base = (void *)(uintptr_t)p, .iov_len = len };
	struct msghdr msg = { .msg_iov = &iov, .msg_iovlen = 1 };
	union msg_rights r;
	int rc = 0;

	if (pass >= 0) {
		memset(&r, 0, sizeof(r));
		msg.msg_control = r.room;
		msg.msg_controllen = sizeof(r.room);
		*CMSG_FIRSTHDR(&msg) = (struct cmsghdr){ .cmsg_level = SOL_SOCKET,
							 .cmsg_type = SCM_RIGHTS,
							 .cmsg_len = CMSG_LEN(sizeof(int)) };
		memcpy(CMSG_DATA(CMSG_FIRSTHDR(&msg)), &pass, sizeof(int));
	}
	while (rc == 0) {
		if (sendmsg(fd, &msg, MSG_DONTWAIT | MSG_NOSIGNAL) >= 0)
			return 0;
		if (errno == ECONNRESET)
			return -EPIPE;
		if (errno != EAGAIN && errno != EINTR)
			return -errno;
		rc = msg_wait(fd, POLLOUT, timeout_ms);
	}
	return rc;
}

int msg_receive(int fd, void *p, size_t len, int *passed, int timeout_ms)
{
	struct iovec iov = { .iov_base = p, .iov_len = len };
	int first CLEANUP_CLOSE = -1, one;
	struct msghdr msg;
	union msg_rights r;
	size_t fds = 0;
	ssize_t n;
	int rc = 0;

	if (passed)
		*passed = -1;
	for (;;) {
		msg = (struct msghdr){ .msg_iov = &iov, .msg_iovlen = 1, .msg_control = r.room,
				       .msg_controllen = sizeof(r.room) };
		n = recvmsg_pair(fd, &msg);
		if (n >= 0)
			break;
		if (errno == ECONNRESET)
			return -EPIPE;
		if (errno != EAGAIN && errno != EINTR)
			return -errno;
		rc = msg_wait(fd, POLLIN, timeout_ms);
		if (rc < 0)
			return rc;
	}

	/* Take all received descriptors: the control buffer has padding, so a second one may
	 * arrive. */
	for (struct cmsghdr *c = CMSG_FIRSTHDR(&msg); c; c = CMSG_NXTHDR(&msg, c)) {
		size_t all = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);

		if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS)
			continue;
		for (size_t i = 0; i < all; i++) {
			memcpy(&one, CMSG_DATA(c) + i * sizeof(int), sizeof(int));
			if (fds++ == 0)
				first = one;
			else
				close(one);
		}
	}

	if (n == 0)
		return -EPIPE;
	if ((size_t)n != len || (msg.msg_flags & (MSG_TRUNC | MSG_CTRUNC)) ||
	    fds > (passed ? 1 : 0))
		return -EPROTO;
	if (passed)
		*passed = steal_fd(&first);
	return 0;
}
