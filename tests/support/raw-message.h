// SPDX-License-Identifier: Apache-2.0
/* Raw messages, as an attacker could send them, with any bytes and descriptors; and a count of open
 * descriptors, to detect receivers that keep any. */
#ifndef TESTS_SUPPORT_RAW_MESSAGE_H
#define TESTS_SUPPORT_RAW_MESSAGE_H

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <string.h>
#include <sys/socket.h>

enum { RAW_FDS = 16 };

/* Sends len bytes at p and the nfds (up to RAW_FDS) descriptors at fds, with flags. Returns 0 or a
 * negative errno. */
static inline int raw_send(int to, const void *p, size_t len, const int *fds, unsigned nfds,
			   int flags)
{
	struct iovec iov = { .iov_base = (void *)(uintptr_t)p, .iov_len = len };
	union {
		char room[CMSG_SPACE(RAW_FDS * sizeof(int))];
		struct cmsghdr align;
	} r;
	struct msghdr msg = { .msg_iov = &iov, .msg_iovlen = 1 };
	struct cmsghdr *c;

	if (nfds) {
		memset(&r, 0, sizeof(r));
		msg.msg_control = r.room;
		msg.msg_controllen = CMSG_SPACE(nfds * sizeof(int));
		c = CMSG_FIRSTHDR(&msg);
		c->cmsg_level = SOL_SOCKET;
		c->cmsg_type = SCM_RIGHTS;
		c->cmsg_len = CMSG_LEN(nfds * sizeof(int));
		memcpy(CMSG_DATA(c), fds, nfds * sizeof(int));
	}
	return sendmsg(to, &msg, flags | MSG_NOSIGNAL) < 0 ? -errno : 0;
}

/* The number of open descriptors of this process, among the first 256. */
static inline int count_open(void)
{
	int n = 0;

	for (int fd = 0; fd < 256; fd++)
		n += fcntl(fd, F_GETFD) >= 0;
	return n;
}

#endif
