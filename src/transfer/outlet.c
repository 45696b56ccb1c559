// SPDX-License-Identifier: Apache-2.0
/* Writes to standard output without ever sleeping in write(2), where nothing but its
 * reader could wake us: poll(2) is where we sleep. */
#include "transfer/outlet.h"

#include "util/util.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <stdint.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

/* O_NONBLOCK belongs to the description that whoever started us reads or writes by, too.
 * A pipe or terminal can be opened once more, which makes a description of our own. */
static void open_again(struct outlet *o)
{
	int fd = open("/proc/self/fd/1", O_WRONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);

	if (fd < 0) {
		/* It may be another user's. When poll says so, a pipe takes as much at once. */
		o->chunk = PIPE_BUF;
		return;
	}
	o->fd = fd;
	o->own = true;
}

int outlet_open(struct outlet *o)
{
	struct stat st;

	*o = (struct outlet){ .fd = STDOUT_FILENO, .chunk = SIZE_MAX };
	o->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (o->wake < 0)
		return -errno;
	if (fstat(STDOUT_FILENO, &st) < 0)
		return 0;                /* writing will tell */
	o->socket = S_ISSOCK(st.st_mode);
	if (S_ISFIFO(st.st_mode) || isatty(STDOUT_FILENO))
		open_again(o);
	return 0;
}

void outlet_close(struct outlet *o)
{
	if (o->own)
		close(o->fd);
	cleanup_close(&o->wake);
}

void outlet_wake(struct outlet *o)
{
	uint64_t one = 1;

	/* It stays readable: the counter is never read, and cannot overflow. */
	if (write(o->wake, &one, sizeof(one)) < 0)
		return;
}

/* 0 when something can be written, or there is an error to be met. */
static int wait_room(struct outlet *o)
{
	struct pollfd p[2] = { { .fd = o->fd, .events = POLLOUT },
			       { .fd = o->wake, .events = POLLIN } };

	if (poll(p, 2, -1) < 0)
		return -errno;
	if (p[1].revents)
		return -ECANCELED;
	return p[0].revents ? 0 : -EAGAIN;
}

static ssize_t write_some(struct outlet *o, const uint8_t *p, size_t len)
{
	ssize_t n;

	if (len > o->chunk)
		len = o->chunk;
	n = o->socket ? send(o->fd, p, len, MSG_DONTWAIT | MSG_NOSIGNAL) : write(o->fd, p, len);
	return n < 0 ? -errno : n;
}

int outlet_write(struct outlet *o, const void *p, size_t len)
{
	const uint8_t *at = p;

	while (len) {
		ssize_t n = wait_room(o);

		if (!n)
			n = write_some(o, at, len);
		if (n < 0 && n != -EAGAIN && n != -EINTR)
			return (int)n;
		if (n > 0) {
			at += n;
			len -= (size_t)n;
		}
	}
	return 0;
}
