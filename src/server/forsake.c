// SPDX-License-Identifier: Apache-2.0
/* Packets with descriptors (unix(7)) are looked at where they are; another process closes them. */
#include "server/forsake.h"
#include "util/util.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

/* recvmsg, without taking it. */
static ssize_t look(int fd, struct msghdr *msg)
{
	ssize_t n;

	/* That the other side has gone without reading all is told once, before what is there. */
	do
		n = recvmsg(fd, msg, MSG_PEEK | MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
	while (n < 0 && (errno == EINTR || errno == ECONNRESET));
	return n;
}

/* Without room for them descriptors are not received, which is told. */
int forsake_look(int fd)
{
	struct msghdr msg = { .msg_iovlen = 0 };

	if (look(fd, &msg) < 0)
		return errno == EAGAIN ? -EAGAIN : 0;
	return (msg.msg_flags & MSG_CTRUNC) != 0;
}

/* ---- the end ---- */

union sender {
	char room[CMSG_SPACE(sizeof(struct ucred))];
	struct cmsghdr align;
};

/* Throw away packets until there is one with a descriptor. Is there? A packet may be empty, and is
 * then the same as the end, but for what comes beside it: who has sent it, for which alone there
 * is room. */
static bool empty(int fd)
{
	for (;;) {
		union sender sender;
		struct msghdr msg = { .msg_control = sender.room,
				      .msg_controllen = sizeof(sender.room) };

		if (look(fd, &msg) < 0 || msg.msg_flags & MSG_CTRUNC)
			return msg.msg_flags & MSG_CTRUNC;
		if (!msg.msg_controllen)
			return false;
		recv(fd, NULL, 0, MSG_DONTWAIT);
	}
}

/* In a process that ends, nothing lingers, and files that were never opened are not flushed. It
 * must be the last that has fd, so it waits for us to have closed it. A negative errno: it is open. */
static int close_elsewhere(int *fd)
{
	int line[2], rc;
	pid_t pid;
	char c;

	if (pipe2(line, O_CLOEXEC) < 0)
		return -errno;
	pid = fork();
	rc = pid < 0 ? -errno : 0;
	if (pid == 0) {
		close(line[1]);
		_exit(read(line[0], &c, 1) != 0);
	}
	if (pid > 0)
		cleanup_close(fd);
	close(line[0]);
	close(line[1]);
	return rc;
}

void forsake(int *fd)
{
	int on = 1, rc;

	if (*fd < 0)
		return;
	/* Nothing more comes; what is there stays to be looked at. */
	shutdown(*fd, SHUT_RDWR);
	setsockopt(*fd, SOL_SOCKET, SO_PASSCRED, &on, sizeof(on));
	rc = empty(*fd) ? close_elsewhere(fd) : 0;
	if (rc < 0) {
		log_warn("descriptor %d stays open, with what was passed there: no process to close "
			 "it: %s", *fd, strerror(-rc));
		*fd = -1;
	}
	cleanup_close(fd);
}
