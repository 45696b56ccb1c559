// SPDX-License-Identifier: Apache-2.0
/* Byte streams: sockets and pipes as they are, and TLS over a socket. */
#include "transport/fault.h"
#include "transport/transport.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <sys/sendfile.h>
#include <unistd.h>

/* ---- plain descriptors ---- */

struct end {
	int fd;          /* -1: shut */
	bool socket;
	int flags;       /* of a pipe or terminal, to be put back: others share them */
};

struct plain {
	struct stream stream;
	struct end in, out;
	bool one;        /* both ends are one descriptor */
	bool disowned;
	int efd;         /* readable for good after an abort; pipes know no shutdown(2) */
	atomic_bool aborted;
};

static struct plain *plain(struct stream *s)
{
	return (struct plain *)s;
}

/* Sleep until fd is ready or the stream is aborted. */
static int plain_wait(struct plain *p, int fd, short events, int timeout_ms)
{
	struct pollfd fds[2] = {
		{ .fd = fd, .events = events },
		{ .fd = p->efd, .events = POLLIN },
	};
	uint64_t end = now_ns() + (uint64_t)(timeout_ms < 0 ? 0 : timeout_ms) * 1000000;

	for (;;) {
		int r = poll(fds, 2, timeout_ms);

		if (atomic_load(&p->aborted))
			return -ECANCELED;
		if (r > 0)
			return 0;
		if (r == 0)
			return -ETIMEDOUT;
		if (errno != EINTR)
			return -errno;
		if (timeout_ms > 0)
			timeout_ms = ms_to(end);
	}
}

/* What errno says about a stream: a peer that is gone is one case, however it went. */
static int stream_error(int code)
{
	return code == ECONNRESET || code == ESHUTDOWN ? -EPIPE : -code;
}

static ssize_t plain_read(struct stream *s, void *buf, size_t len, int timeout_ms)
{
	struct plain *p = plain(s);

	for (;;) {
		ssize_t n;
		int r;

		if (atomic_load(&p->aborted))
			return -ECANCELED;
		if (p->in.socket)
			n = recv(p->in.fd, buf, len, MSG_DONTWAIT);
		else
			n = read(p->in.fd, buf, len);
		if (n >= 0)
			return n;
		if (errno == EINTR)
			continue;
		if (errno != EAGAIN)
			return stream_error(errno);
		r = plain_wait(p, p->in.fd, POLLIN, timeout_ms);
		if (r < 0)
			return r;
	}
}

static ssize_t plain_write(struct stream *s, const void *buf, size_t len, int timeout_ms)
{
	struct plain *p = plain(s);

	for (;;) {
		ssize_t n;
		int r;

		if (atomic_load(&p->aborted))
			return -ECANCELED;
		if (p->out.fd < 0)
			return -EPIPE;
		if (p->out.socket)
			n = send(p->out.fd, buf, len, MSG_DONTWAIT | MSG_NOSIGNAL);
		else
			n = write(p->out.fd, buf, len);
		if (n >= 0)
			return n;
		if (errno == EINTR)
			continue;
		if (errno != EAGAIN)
			return stream_error(errno);
		r = plain_wait(p, p->out.fd, POLLOUT, timeout_ms);
		if (r < 0)
			return r;
	}
}

static ssize_t sendfile_once(int out, int fd, uint64_t offset, size_t len)
{
	off_t at = (off_t)offset;
	ssize_t n = FAULT("sendfile", 0);

	if (!n)
		n = sendfile(out, fd, &at, len);
	else
		errno = (int)-n;
	return n < 0 ? -errno : n;
}

static ssize_t plain_sendfile(struct stream *s, int fd, uint64_t offset, size_t len,
			      int timeout_ms)
{
	struct plain *p = plain(s);

	/* It has no MSG_DONTWAIT: the descriptor itself must not sleep. */
	if (!p->out.socket || set_nonblock(p->out.fd, true) < 0)
		return -EOPNOTSUPP;
	for (;;) {
		ssize_t n;
		int r;

		if (atomic_load(&p->aborted))
			return -ECANCELED;
		n = sendfile_once(p->out.fd, fd, offset, len);
		switch (n) {
		case -EINTR:
			continue;
		case -EAGAIN:
			break;
		case -EINVAL: /* the filesystem cannot */
		case -ENOSYS:
			return -EOPNOTSUPP;
		default:
			return n < 0 ? stream_error((int)-n) : n;
		}
		r = plain_wait(p, p->out.fd, POLLOUT, timeout_ms);
		if (r < 0)
			return r;
	}
}

static size_t plain_pending(struct stream *s)
{
	(void)s;
	return 0;
}

static void end_close(struct end *e, bool disowned)
{
	if (e->fd < 0)
		return;
	if (!e->socket && e->flags >= 0)
		fcntl(e->fd, F_SETFL, e->flags);
	if (!disowned)
		close(e->fd);
	e->fd = -1;
}

static int plain_shutdown(struct stream *s)
{
	struct plain *p = plain(s);

	if (p->out.fd < 0)
		return 0;
	if (p->out.socket)
		return shutdown(p->out.fd, SHUT_WR) < 0 ? stream_error(errno) : 0;
	if (!p->one)
		end_close(&p->out, p->disowned);
	return 0;
}

static void plain_abort(struct stream *s)
{
	struct plain *p = plain(s);
	uint64_t one = 1;

	atomic_store(&p->aborted, true);
	if (write(p->efd, &one, sizeof(one)) < 0)
		return;  /* its counter is full, so it is readable */
}

static void plain_disown(struct stream *s)
{
	plain(s)->disowned = true;
}

static void plain_free(struct stream *s)
{
	struct plain *p = plain(s);

	if (!p->one)
		end_close(&p->out, p->disowned);
	end_close(&p->in, p->disowned);
	close(p->efd);
	free(p);
}

static const struct stream_ops plain_ops = {
	.read = plain_read,
	.write = plain_write,
	.sendfile = plain_sendfile,
	.pending = plain_pending,
	.shutdown = plain_shutdown,
	.abort = plain_abort,
	.disown = plain_disown,
	.free = plain_free,
};

static void end_init(struct end *e, int fd)
{
	int type, yes = 1;
	socklen_t len = sizeof(type);

	e->fd = fd;
	e->flags = -1;
	e->socket = getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &len) == 0;
	if (e->socket) {
		/* Telnet's data mark comes as urgent data; without this it would be
		 * taken out of the middle of a sequence. Not all sockets know it. */
		(void)setsockopt(fd, SOL_SOCKET, SO_OOBINLINE, &yes, sizeof(yes));
		return;
	}
	e->flags = fcntl(fd, F_GETFL);
	if (e->flags >= 0)
		fcntl(fd, F_SETFL, e->flags | O_NONBLOCK);
}

struct stream *stream_plain(int rfd, int wfd)
{
	struct plain *p = calloc(1, sizeof(*p));

	if (!p)
		return NULL;
	p->efd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (p->efd < 0) {
		free(p);
		return NULL;
	}
	p->stream.ops = &plain_ops;
	p->one = rfd == wfd;
	end_init(&p->in, rfd);
	if (p->one)
		p->out = p->in;
	else
		end_init(&p->out, wfd);
	return &p->stream;
}

/* ---- TLS ---- */

struct secure {
	struct stream stream;
	int fd;
	struct tls *tls;
	bool disowned;
	atomic_bool aborted;
};

static struct secure *secure(struct stream *s)
{
	return (struct secure *)s;
}

/* After an abort whatever the library says has that one reason. */
static ssize_t secure_result(struct secure *t, ssize_t r)
{
	return atomic_load(&t->aborted) ? -ECANCELED : r;
}

static ssize_t secure_read(struct stream *s, void *buf, size_t len, int timeout_ms)
{
	struct secure *t = secure(s);

	if (atomic_load(&t->aborted))
		return -ECANCELED;
	return secure_result(t, tls_read(t->tls, buf, len, timeout_ms));
}

static ssize_t secure_write(struct stream *s, const void *buf, size_t len, int timeout_ms)
{
	struct secure *t = secure(s);

	if (atomic_load(&t->aborted))
		return -ECANCELED;
	return secure_result(t, tls_write(t->tls, buf, len, timeout_ms));
}

static size_t secure_pending(struct stream *s)
{
	return tls_pending(secure(s)->tls);
}

static int secure_shutdown(struct stream *s)
{
	return tls_shutdown(secure(s)->tls);
}

static void secure_abort(struct stream *s)
{
	struct secure *t = secure(s);

	atomic_store(&t->aborted, true);
	shutdown(t->fd, SHUT_RDWR); /* wakes poll(2) in both directions */
}

static void secure_disown(struct stream *s)
{
	secure(s)->disowned = true;
}

static void secure_free(struct stream *s)
{
	struct secure *t = secure(s);

	tls_free(t->tls);
	if (!t->disowned)
		close(t->fd);
	free(t);
}

static const struct stream_ops secure_ops = {
	.read = secure_read,
	.write = secure_write,
	.pending = secure_pending,
	.shutdown = secure_shutdown,
	.abort = secure_abort,
	.disown = secure_disown,
	.free = secure_free,
};

struct stream *stream_tls(int fd, struct tls *tls)
{
	struct secure *t = calloc(1, sizeof(*t));

	if (!t)
		return NULL;
	t->stream.ops = &secure_ops;
	t->fd = fd;
	t->tls = tls;
	return &t->stream;
}

void stream_free(struct stream *s)
{
	if (s)
		s->ops->free(s);
}
