// SPDX-License-Identifier: Apache-2.0
/* Messages over SOCK_SEQPACKET, with descriptors by SCM_RIGHTS (unix(7)). */
#include "server/msg.h"
#include "server/forsake.h"
#include "util/util.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

int msg_pair(int fd[2])
{
	return socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, fd) < 0 ? -errno : 0;
}

/* Until the call that sleeps not is done. */
static int wait_for(int fd, short event, int timeout_ms)
{
	int rc = poll_fd(fd, event, timeout_ms);

	return rc < 0 ? rc : rc == 0 ? -ETIMEDOUT : 0;
}

/* ---- sending ---- */

union rights {
	char room[CMSG_SPACE(sizeof(int))];
	struct cmsghdr align;
};

static void add_descriptor(struct msghdr *msg, union rights *r, int fd)
{
	struct cmsghdr *c;

	memset(r, 0, sizeof(*r));
	msg->msg_control = r->room;
	msg->msg_controllen = sizeof(r->room);
	c = CMSG_FIRSTHDR(msg);
	c->cmsg_level = SOL_SOCKET;
	c->cmsg_type = SCM_RIGHTS;
	c->cmsg_len = CMSG_LEN(sizeof(int));
	memcpy(CMSG_DATA(c), &fd, sizeof(int));
}

int msg_send(int fd, const void *p, size_t len, int pass, int timeout_ms)
{
	struct iovec iov = { .iov_base = (void *)(uintptr_t)p, .iov_len = len };
	struct msghdr msg = { .msg_iov = &iov, .msg_iovlen = 1 };
	union rights r;
	int rc = 0;

	if (pass >= 0)
		add_descriptor(&msg, &r, pass);
	while (rc == 0) {
		if (sendmsg(fd, &msg, MSG_DONTWAIT | MSG_NOSIGNAL) >= 0)
			return 0;
		if (errno == ECONNRESET)
			return -EPIPE;
		if (errno != EAGAIN && errno != EINTR)
			return -errno;
		rc = wait_for(fd, POLLOUT, timeout_ms);
	}
	return rc;
}

/* ---- receiving ---- */

/* The descriptors that came: the first into *first, or -1; how many there were. The room has
 * padding, into which one more fits than was meant: all but the first are closed. */
static size_t take_descriptors(struct msghdr *msg, int *first)
{
	size_t all = 0;
	int fd;

	*first = -1;
	for (struct cmsghdr *c = CMSG_FIRSTHDR(msg); c; c = CMSG_NXTHDR(msg, c)) {
		size_t n = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);

		if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS)
			continue;
		for (size_t i = 0; i < n; i++) {
			memcpy(&fd, CMSG_DATA(c) + i * sizeof(int), sizeof(int));
			if (all++ == 0)
				*first = fd;
			else
				close(fd);
		}
	}
	return all;
}

static int take_message(struct msghdr *msg, ssize_t n, size_t len, int *passed)
{
	int fd CLEANUP_CLOSE = -1;
	size_t fds = take_descriptors(msg, &fd);

	if (n == 0)
		return -EPIPE;
	if ((size_t)n != len || (msg->msg_flags & (MSG_TRUNC | MSG_CTRUNC)) ||
	    fds > (passed ? 1 : 0))
		return -EPROTO;
	if (passed)
		*passed = steal_fd(&fd);
	return 0;
}

int msg_receive(int fd, void *p, size_t len, int *passed, int timeout_ms)
{
	struct iovec iov = { .iov_base = p, .iov_len = len };
	union rights r;
	int rc = 0;

	if (passed)
		*passed = -1;
	while (rc == 0) {
		struct msghdr msg = { .msg_iov = &iov, .msg_iovlen = 1, .msg_control = r.room,
				      .msg_controllen = sizeof(r.room) };
		ssize_t n = recvmsg_pair(fd, &msg);

		if (n >= 0)
			return take_message(&msg, n, len, passed);
		if (errno == ECONNRESET)
			return -EPIPE;
		if (errno != EAGAIN && errno != EINTR)
			return -errno;
		rc = wait_for(fd, POLLIN, timeout_ms);
	}
	return rc;
}

int msg_await(int fd, int peer)
{
	struct pollfd p[] = { { .fd = fd, .events = POLLIN }, { .fd = peer, .events = POLLRDHUP } };
	int rc;

	do {
		rc = poll(p, 2, -1);
	} while (rc < 0 && errno == EINTR);
	if (rc < 0)
		return -errno;
	rc = p[0].revents ? 0 : wait_for(fd, POLLIN, LEFT_MS);
	return rc == -ETIMEDOUT ? -ECONNRESET : rc;
}

int msg_hear(int fd, void *p, size_t len)
{
	int rc = forsake_look(fd);

	if (rc != 0)
		return rc < 0 ? rc : -EPROTO;
	rc = msg_receive(fd, p, len, NULL, 0);
	return rc == -ETIMEDOUT ? -EAGAIN : rc;
}
