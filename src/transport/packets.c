// SPDX-License-Identifier: Apache-2.0
/* A byte stream between two processes of one host, in packets, each of which says what it is:
 * bytes, or the proper end. */
#include "transport/transport.h"

#include <errno.h>
#include <poll.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Bytes. What is more than the buffer of a socket cannot be sent at all; systems that are short of
 * memory give one 64 KiB, of which the kernel takes some for itself. */
#define PACKET_MAX ((size_t)32 << 10)
#define END_MS 10000                  /* for the other side to take the end */

enum packet { PACKET_BYTES = 1, PACKET_END };

struct packets {
	struct stream stream;
	int fd;
	bool disowned, ended;
	atomic_bool aborted;
	/* the reader's: of a packet that was more than was asked for */
	uint8_t *rest;
	size_t rest_pos, rest_end;
};

static struct packets *packets(struct stream *s)
{
	return (struct packets *)s;
}

/* Whoever was on the other side has gone, in whatever way. */
static int socket_error(int code)
{
	return code == ECONNRESET || code == ESHUTDOWN || code == ENOTCONN ? -EPIPE : -code;
}

/* One sendmsg or recvmsg when it can be done. */
static ssize_t once(struct packets *p, short event, struct msghdr *msg)
{
	ssize_t n;

	do {
		if (event == POLLIN)
			n = recvmsg_pair(p->fd, msg);
		else
			n = sendmsg(p->fd, msg, MSG_DONTWAIT | MSG_NOSIGNAL);
	} while (n < 0 && errno == EINTR);
	return n < 0 ? socket_error(errno) : n;
}

static ssize_t transmit(struct packets *p, short event, struct msghdr *msg, int timeout_ms)
{
	for (;;) {
		ssize_t n;
		int r;

		if (atomic_load(&p->aborted))
			return -ECANCELED;
		n = once(p, event, msg);
		if (n != -EAGAIN)
			return atomic_load(&p->aborted) ? -ECANCELED : n;
		r = poll_fd(p->fd, event, timeout_ms);
		if (r <= 0)
			return r < 0 ? r : -ETIMEDOUT;
	}
}

static ssize_t send_packet(struct packets *p, uint8_t type, const void *buf, size_t len,
			   int timeout_ms)
{
	struct iovec iov[2] = {
		{ .iov_base = &type, .iov_len = 1 },
		{ .iov_base = (void *)(uintptr_t)buf, .iov_len = len },
	};
	struct msghdr msg = { .msg_iov = iov, .msg_iovlen = 2 };
	ssize_t n = transmit(p, POLLOUT, &msg, timeout_ms);

	return n < 0 ? n : n - 1;
}

static ssize_t packets_write(struct stream *s, const void *buf, size_t len, int timeout_ms)
{
	return send_packet(packets(s), PACKET_BYTES, buf, len < PACKET_MAX ? len : PACKET_MAX,
			   timeout_ms);
}

/* A packet into buf, which has room for any. */
static ssize_t receive_packet(struct packets *p, void *buf, int timeout_ms)
{
	uint8_t type = 0;
	struct iovec iov[2] = {
		{ .iov_base = &type, .iov_len = 1 },
		{ .iov_base = buf, .iov_len = PACKET_MAX },
	};
	struct msghdr msg = { .msg_iov = iov, .msg_iovlen = 2 };
	ssize_t n = transmit(p, POLLIN, &msg, timeout_ms);

	if (n < 0)
		return n;
	if (n == 0)
		return -EPIPE; /* no end was said */
	if ((msg.msg_flags & MSG_TRUNC) || type < PACKET_BYTES || type > PACKET_END ||
	    (type == PACKET_BYTES && n == 1))
		return -EPROTO;
	p->ended = type == PACKET_END;
	return p->ended ? 0 : n - 1;
}

static ssize_t take_rest(struct packets *p, void *buf, size_t len)
{
	size_t n = p->rest_end - p->rest_pos;

	if (n > len)
		n = len;
	memcpy(buf, p->rest + p->rest_pos, n);
	p->rest_pos += n;
	return (ssize_t)n;
}

static ssize_t packets_read(struct stream *s, void *buf, size_t len, int timeout_ms)
{
	struct packets *p = packets(s);
	ssize_t n;

	if (p->rest_pos < p->rest_end)
		return take_rest(p, buf, len);
	if (p->ended)
		return 0;
	if (len >= PACKET_MAX)
		return receive_packet(p, buf, timeout_ms);
	if (!p->rest)
		p->rest = malloc(PACKET_MAX);
	if (!p->rest)
		return -ENOMEM;
	n = receive_packet(p, p->rest, timeout_ms);
	if (n <= 0)
		return n;
	p->rest_pos = 0;
	p->rest_end = (size_t)n;
	return take_rest(p, buf, len);
}

static size_t packets_pending(struct stream *s)
{
	return packets(s)->rest_end - packets(s)->rest_pos;
}

static int packets_shutdown(struct stream *s)
{
	ssize_t n = send_packet(packets(s), PACKET_END, NULL, 0, END_MS);

	return n < 0 ? (int)n : 0;
}

static void packets_abort(struct stream *s)
{
	atomic_store(&packets(s)->aborted, true);
	shutdown(packets(s)->fd, SHUT_RDWR); /* wakes poll(2) in both directions */
}

static void packets_disown(struct stream *s)
{
	packets(s)->disowned = true;
}

static void packets_free(struct stream *s)
{
	struct packets *p = packets(s);

	if (p->rest)
		crypto_wipe(p->rest, PACKET_MAX);
	free(p->rest);
	if (!p->disowned)
		close(p->fd);
	free(p);
}

static const struct stream_ops packets_ops = {
	.read = packets_read,
	.write = packets_write,
	.pending = packets_pending,
	.shutdown = packets_shutdown,
	.abort = packets_abort,
	.disown = packets_disown,
	.free = packets_free,
};

struct stream *stream_packets(int fd)
{
	struct packets *p = calloc(1, sizeof(*p));

	if (!p)
		return NULL;
	p->stream.ops = &packets_ops;
	p->fd = fd;
	return &p->stream;
}

/* ---- from one stream to another ---- */

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

static int pass(struct stream *a, struct stream *b, uint8_t *buf)
{
	ssize_t n;

	while ((n = a->ops->read(a, buf, PACKET_MAX, -1)) > 0) {
		int rc = stream_write_all(b, buf, (size_t)n);

		if (rc < 0)
			return rc;
	}
	if (n == 0 && b->ops->shutdown)
		n = b->ops->shutdown(b);
	return (int)n;
}

int stream_pass(struct stream *a, struct stream *b)
{
	uint8_t *buf = malloc(PACKET_MAX);
	int rc = buf ? pass(a, b, buf) : -ENOMEM;

	if (buf)
		crypto_wipe(buf, PACKET_MAX);
	free(buf);
	if (rc < 0) {
		a->ops->abort(a);
		b->ops->abort(b);
	}
	return rc;
}
