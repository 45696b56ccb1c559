// SPDX-License-Identifier: Apache-2.0
/* Byte streams: plain sockets and pipes, TLS over a socket, and packets between two processes of
 * one host. */
#include "transport/transport.h"

#include <fcntl.h>
#include <poll.h>
#include <stdatomic.h>
#include <sys/eventfd.h>
#include <sys/sendfile.h>

static bool stream_aborted(struct stream *s)
{
	return atomic_load(&s->aborted);
}

static void stream_abort_socket(struct stream *s)
{
	atomic_store(&s->aborted, true);
	shutdown(s->fd, SHUT_RDWR); /* wakes poll(2) in both directions */
}

/* Map all errors of a lost peer to one. */
static int stream_error(int code)
{
	return code == ECONNRESET || code == ESHUTDOWN || code == ENOTCONN ? -EPIPE : -code;
}

void stream_free(struct stream *s)
{
	if (s)
		s->ops->free(s);
}

int stream_write_all(struct stream *s, const void *buf, size_t len)
{
	const uint8_t *p = buf;

	while (len) {
		ssize_t n = s->ops->write(s, p, len, -1);

		if (n < 0)
			return (int)n;
		p += n;
		len -= (size_t)n;
	}
	return 0;
}

/* ---- plain descriptors ---- */

struct plain_end {
	int fd;          /* -1: shut */
	bool socket;
	int flags;       /* of a pipe or terminal, restored at close: other processes share them */
};

struct plain {
	struct stream stream;
	struct plain_end in, out;
	bool one;        /* both ends are one descriptor */
	int efd;         /* readable for ever after an abort; pipes have no shutdown(2) */
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
	uint64_t end = ns_after(timeout_ms);
	int r;

	do {
		r = poll(fds, 2, timeout_ms < 0 ? -1 : ms_to(end));
	} while (r < 0 && errno == EINTR && !stream_aborted(&p->stream));

	if (stream_aborted(&p->stream))
		return -ECANCELED;
	return r > 0 ? 0 : r == 0 ? -ETIMEDOUT : -errno;
}

enum plain_op { PLAIN_READ, PLAIN_WRITE, PLAIN_SENDFILE };

/* Transfer bytes of buf, or for PLAIN_SENDFILE of file from offset at. */
static ssize_t plain_transfer(struct stream *s, enum plain_op op, void *buf, size_t len, int file,
			      off_t at, int timeout_ms)
{
	struct plain *p = plain(s);
	struct plain_end *e = op == PLAIN_READ ? &p->in : &p->out;

	for (;;) {
		ssize_t n;
		int r;

		if (stream_aborted(s))
			return -ECANCELED;
		if (e->fd < 0)
			return -EPIPE;

		if (op == PLAIN_SENDFILE)
			n = sendfile(e->fd, file, &at, len);
		else if (op == PLAIN_READ)
			n = e->socket ? recv(e->fd, buf, len, MSG_DONTWAIT) : read(e->fd, buf, len);
		else
			n = e->socket ? send(e->fd, buf, len, MSG_DONTWAIT | MSG_NOSIGNAL) :
					write(e->fd, buf, len);
		if (n >= 0)
			return n;
		if (errno == EINTR)
			continue;
		if (errno != EAGAIN)
			return stream_error(errno);
		r = plain_wait(p, e->fd, op == PLAIN_READ ? POLLIN : POLLOUT, timeout_ms);
		if (r < 0)
			return r;
	}
}

static ssize_t plain_read(struct stream *s, void *buf, size_t len, int timeout_ms)
{
	return plain_transfer(s, PLAIN_READ, buf, len, -1, 0, timeout_ms);
}

static ssize_t plain_write(struct stream *s, const void *buf, size_t len, int timeout_ms)
{
	return plain_transfer(s, PLAIN_WRITE, (void *)(uintptr_t)buf, len, -1, 0, timeout_ms);
}

static ssize_t plain_sendfile(struct stream *s, int fd, uint64_t offset, size_t len,
			      int timeout_ms)
{
	ssize_t n = FAULT("sendfile", 0);

	/* sendfile(2) has no MSG_DONTWAIT: the descriptor itself must be non-blocking. */
	if (!plain(s)->out.socket || set_nonblock(plain(s)->out.fd, true) < 0)
		return -EOPNOTSUPP;
	if (!n)
		n = plain_transfer(s, PLAIN_SENDFILE, NULL, len, fd, (off_t)offset, timeout_ms);
	return n == -EINVAL || n == -ENOSYS ? -EOPNOTSUPP : n; /* the filesystem has no sendfile */
}

static size_t plain_pending(struct stream *s)
{
	(void)s;
	return 0;
}

static void plain_end_close(struct plain_end *e, bool disowned)
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
		plain_end_close(&p->out, p->stream.disowned);
	return 0;
}

static void plain_abort(struct stream *s)
{
	atomic_store(&s->aborted, true);
	/* A failure means that the counter is full, so it is readable already. */
	(void)eventfd_write(plain(s)->efd, 1);
}

static void plain_free(struct stream *s)
{
	struct plain *p = plain(s);

	if (!p->one)
		plain_end_close(&p->out, p->stream.disowned);
	plain_end_close(&p->in, p->stream.disowned);
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
	.free = plain_free,
};

static void plain_end_init(struct plain_end *e, int fd)
{
	int type, yes = 1;
	socklen_t len = sizeof(type);

	e->fd = fd;
	e->flags = -1;
	e->socket = getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &len) == 0;
	if (e->socket) {
		/* Telnet's data mark comes as urgent data; without this option the kernel would
		 * remove it from the middle of a sequence. Some sockets do not have the option. */
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
	plain_end_init(&p->in, rfd);
	if (p->one)
		p->out = p->in;
	else
		plain_end_init(&p->out, wfd);
	return &p->stream;
}

/* ---- TLS ---- */

struct secure {
	struct stream stream;
	struct tls *tls;
};

static struct tls *secure_tls(struct stream *s)
{
	return ((struct secure *)s)->tls;
}

static ssize_t secure_read(struct stream *s, void *buf, size_t len, int timeout_ms)
{
	ssize_t n = stream_aborted(s) ? 0 : tls_read(secure_tls(s), buf, len, timeout_ms);

	return stream_aborted(s) ? -ECANCELED : n;
}

static ssize_t secure_write(struct stream *s, const void *buf, size_t len, int timeout_ms)
{
	ssize_t n = stream_aborted(s) ? 0 : tls_write(secure_tls(s), buf, len, timeout_ms);

	return stream_aborted(s) ? -ECANCELED : n;
}

static size_t secure_pending(struct stream *s)
{
	return tls_pending(secure_tls(s));
}

static int secure_shutdown(struct stream *s)
{
	return tls_shutdown(secure_tls(s));
}

static void secure_free(struct stream *s)
{
	tls_free(secure_tls(s));
	if (!s->disowned)
		close(s->fd);
	free(s);
}

static const struct stream_ops secure_ops = {
	.read = secure_read,
	.write = secure_write,
	.pending = secure_pending,
	.shutdown = secure_shutdown,
	.abort = stream_abort_socket,
	.free = secure_free,
};

struct stream *stream_tls(int fd, struct tls *tls)
{
	struct secure *t = calloc(1, sizeof(*t));

	if (!t)
		return NULL;
	t->stream.ops = &secure_ops;
	t->stream.fd = fd;
	t->tls = tls;
	return &t->stream;
}

/* ---- packets ---- */

/* Bytes in a packet. A packet larger than the socket's buffer cannot be sent at all; systems that
 * are short of memory give a buffer of 64 KiB, of which the kernel uses a part itself. */
#define PACKET_MAX ((size_t)32 << 10)
#define PACKET_END_MS 10000           /* time for the peer to accept the end */

/* The first byte of each packet. */
enum packet_type { PACKET_BYTES = 1, PACKET_END };

struct packets {
	struct stream stream;
	bool ended;
	/* The reader's: the rest of a packet that was larger than the caller's buffer. */
	uint8_t *rest;
	size_t rest_pos, rest_end;
};

static struct packets *packets(struct stream *s)
{
	return (struct packets *)s;
}

/* Send (POLLOUT) or receive (POLLIN) one packet: its type, and up to len bytes of buf. Returns the
 * number of bytes without the type, with *flags of the message; or a negative errno. */
static ssize_t packet_transmit(struct stream *s, short event, uint8_t *type, void *buf, size_t len,
			       int timeout_ms, int *flags)
{
	struct iovec iov[2] = {
		{ .iov_base = type, .iov_len = 1 },
		{ .iov_base = buf, .iov_len = len },
	};
	struct msghdr msg = { .msg_iov = iov, .msg_iovlen = 2 };
	int fd = s->fd;

	for (;;) {
		ssize_t n;
		int r;

		if (stream_aborted(s))
			return -ECANCELED;
		n = event == POLLIN ? recvmsg_pair(fd, &msg) :
				      sendmsg(fd, &msg, MSG_DONTWAIT | MSG_NOSIGNAL);
		if (n < 0 && errno == EINTR)
			continue;
		if (n >= 0 || errno != EAGAIN) {
			*flags = msg.msg_flags;
			/* 0: the peer closed its socket without a proper end. */
			return stream_aborted(s) ? -ECANCELED :
			       n < 0 ? stream_error(errno) : n == 0 ? -EPIPE : n - 1;
		}

		r = poll_fd(fd, event, timeout_ms);
		if (r <= 0)
			return r < 0 ? r : -ETIMEDOUT;
	}
}

static ssize_t packets_write(struct stream *s, const void *buf, size_t len, int timeout_ms)
{
	uint8_t type = PACKET_BYTES;
	int flags;

	return packet_transmit(s, POLLOUT, &type, (void *)(uintptr_t)buf,
			       len < PACKET_MAX ? len : PACKET_MAX, timeout_ms, &flags);
}

static int packets_shutdown(struct stream *s)
{
	uint8_t type = PACKET_END;
	int flags;
	ssize_t n = packet_transmit(s, POLLOUT, &type, NULL, 0, PACKET_END_MS, &flags);

	return n < 0 ? (int)n : 0;
}

/* Receive a packet into buf, which has PACKET_MAX bytes. Results as read. */
static ssize_t packet_receive(struct packets *p, void *buf, int timeout_ms)
{
	uint8_t type = 0;
	int flags;
	ssize_t n = packet_transmit(&p->stream, POLLIN, &type, buf, PACKET_MAX, timeout_ms,
				    &flags);

	if (n < 0)
		return n;
	if ((flags & MSG_TRUNC) || type < PACKET_BYTES || type > PACKET_END ||
	    (type == PACKET_BYTES && n == 0))
		return -EPROTO;
	p->ended = type == PACKET_END;
	return p->ended ? 0 : n;
}

static ssize_t packets_read(struct stream *s, void *buf, size_t len, int timeout_ms)
{
	struct packets *p = packets(s);
	ssize_t n;

	if (p->rest_pos == p->rest_end) {
		if (p->ended)
			return 0;
		if (len >= PACKET_MAX)
			return packet_receive(p, buf, timeout_ms);
		if (!p->rest)
			p->rest = malloc(PACKET_MAX);
		if (!p->rest)
			return -ENOMEM;
		n = packet_receive(p, p->rest, timeout_ms);
		if (n <= 0)
			return n;
		p->rest_pos = 0;
		p->rest_end = (size_t)n;
	}

	if (len > p->rest_end - p->rest_pos)
		len = p->rest_end - p->rest_pos;
	memcpy(buf, p->rest + p->rest_pos, len);
	p->rest_pos += len;
	return (ssize_t)len;
}

static size_t packets_pending(struct stream *s)
{
	return packets(s)->rest_end - packets(s)->rest_pos;
}

static void packets_free(struct stream *s)
{
	struct packets *p = packets(s);

	if (p->rest)
		crypto_wipe(p->rest, PACKET_MAX);
	free(p->rest);
	if (!p->stream.disowned)
		close(p->stream.fd);
	free(p);
}

static const struct stream_ops packets_ops = {
	.read = packets_read,
	.write = packets_write,
	.pending = packets_pending,
	.shutdown = packets_shutdown,
	.abort = stream_abort_socket,
	.free = packets_free,
};

struct stream *stream_packets(int fd)
{
	struct packets *p = calloc(1, sizeof(*p));

	if (!p)
		return NULL;
	p->stream.ops = &packets_ops;
	p->stream.fd = fd;
	return &p->stream;
}

/* ---- from one stream to another ---- */

int stream_pass(struct stream *a, struct stream *b)
{
	uint8_t *buf = malloc(PACKET_MAX);
	ssize_t n = buf ? 1 : -ENOMEM;
	int r = 0;

	while (n > 0 && !r) {
		n = a->ops->read(a, buf, PACKET_MAX, -1);
		if (n > 0)
			r = stream_write_all(b, buf, (size_t)n);
	}
	if (n < 0)
		r = (int)n;
	else if (!r && b->ops->shutdown)
		r = b->ops->shutdown(b);

	if (buf)
		crypto_wipe(buf, PACKET_MAX);
	free(buf);
	if (r < 0) {
		a->ops->abort(a);
		b->ops->abort(b);
	}
	return r;
}
