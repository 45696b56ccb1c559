// SPDX-License-Identifier: Apache-2.0
/* Packets with descriptors (unix(7)) are looked at where they are; another process closes them. */
#include "server/forsake.h"
#include "util/util.h"

#include <errno.h>
#include <fcntl.h>
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
bool forsake_must(int fd)
{
	struct msghdr msg = { .msg_iovlen = 0 };

	return look(fd, &msg) >= 0 && (msg.msg_flags & MSG_CTRUNC);
}

void forsake_refuse(int fd)
{
#ifdef SO_PASSRIGHTS
	setsockopt(fd, SOL_SOCKET, SO_PASSRIGHTS, &(int){ 0 }, sizeof(int));
#else
	(void)fd;
#endif
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
 * must be the last that has fd, so it waits for us to have closed it. */
static void close_elsewhere(int *fd)
{
	int line[2];
	pid_t pid;
	char c;

	if (pipe2(line, O_CLOEXEC) < 0)
		return;
	pid = fork();
	if (pid == 0) {
		close(line[1]);
		_exit(read(line[0], &c, 1) != 0);
	}
	if (pid > 0)
		cleanup_close(fd);
	close(line[0]);
	close(line[1]);
}

void forsake(int *fd)
{
	int on = 1;

	if (*fd < 0)
		return;
	/* Nothing more comes; what is there stays to be looked at. */
	shutdown(*fd, SHUT_RDWR);
	setsockopt(*fd, SOL_SOCKET, SO_PASSCRED, &on, sizeof(on));
	if (empty(*fd))
		close_elsewhere(fd);
	cleanup_close(fd);
}
