// SPDX-License-Identifier: Apache-2.0
/* The socket under TLS: OpenSSL's own socket BIO would raise SIGPIPE when the peer is
 * gone, would leave writes half done, and forgets what the peer said. That no call sleeps is said
 * with each: O_NONBLOCK is the socket's, which another process may have, too, and change. */
#include "crypto/tls_priv.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>

/* One tls_write, and as much again for alerts and answers to KeyUpdates: a peer that
 * asks for those without reading them must not fill our memory. */
#define OUT_MAX ((size_t)256 << 10)
#define IN_ROOM ((size_t)64 << 10)

static bool again(int error)
{
	return error == EAGAIN || error == EINTR; /* EWOULDBLOCK is EAGAIN on Linux */
}

/* ---- out ---- */

static bool make_room(struct wire *w, size_t len)
{
	size_t need = w->out_end + len, room = 2 * w->out_room;
	uint8_t *bigger;

	if (need <= w->out_room)
		return true;
	if (need > OUT_MAX)
		return false;
	if (room < need)
		room = need;
	bigger = realloc(w->out, room);
	if (!bigger)
		return false;
	w->out = bigger;
	w->out_room = room;
	return true;
}

static int wire_write(BIO *b, const char *p, size_t len, size_t *done)
{
	struct wire *w = BIO_get_data(b);

	BIO_clear_retry_flags(b);
	if (w->send_error)
		return 0;
	if (!make_room(w, len)) {
		w->send_error = ENOBUFS;
		return 0;
	}
	memcpy(w->out + w->out_end, p, len);
	w->out_end += len;
	*done = len;
	return 1;
}

static void drop_out(struct wire *w)
{
	free(w->out);
	w->out = NULL;
	w->out_at = w->out_end = w->out_room = 0;
}

int wire_flush(struct wire *w)
{
	while (w->out_at < w->out_end) {
		ssize_t n = send(w->fd, w->out + w->out_at, w->out_end - w->out_at,
				 MSG_NOSIGNAL | MSG_DONTWAIT);

		if (n >= 0) {
			w->out_at += (size_t)n;
		} else if (errno != EINTR) {
			if (again(errno))
				return -EAGAIN;
			w->send_error = errno;
			break;
		}
	}
	drop_out(w);
	return -w->send_error;
}

/* ---- in ---- */

static void drop_in(struct wire *w)
{
	free(w->in);
	w->in = NULL;
	w->in_at = w->in_end = 0;
}

static void keep_first(struct wire *w, const void *p, size_t n)
{
	size_t room = sizeof(w->first) - w->nfirst;

	if (n > room)
		n = room;
	memcpy(w->first + w->nfirst, p, n);
	w->nfirst += n;
}

/* More into the empty buffer: as recv(2), with -errno. */
static ssize_t receive(struct wire *w)
{
	ssize_t n;

	w->in = malloc(IN_ROOM);
	if (!w->in)
		return -ENOMEM;
	n = recv(w->fd, w->in, IN_ROOM, MSG_DONTWAIT);
	if (n <= 0) {
		n = n < 0 ? -errno : 0;
		drop_in(w);
		return n;
	}
	keep_first(w, w->in, (size_t)n);
	w->in_end = (size_t)n;
	return n;
}

static size_t take(struct wire *w, char *p, size_t len)
{
	size_t n = w->in_end - w->in_at;

	if (n > len)
		n = len;
	memcpy(p, w->in + w->in_at, n);
	w->in_at += n;
	if (w->in_at == w->in_end)
		drop_in(w);
	return n;
}

/* The end is told by w->ended only, not by BIO_eof: OpenSSL would answer that with an
 * alert and refuse to write on. */
static int wire_read(BIO *b, char *p, size_t len, size_t *done)
{
	struct wire *w = BIO_get_data(b);
	ssize_t n = w->in ? 1 : receive(w);

	BIO_clear_retry_flags(b);
	if (n > 0) {
		*done = take(w, p, len);
		return 1;
	}
	if (n == 0)
		w->ended = true;
	else if (again((int)-n))
		BIO_set_retry_read(b);
	else
		w->recv_error = (int)-n;
	return 0;
}

void wire_clear(struct wire *w)
{
	drop_in(w);
	drop_out(w);
}

/* ---- the BIO ---- */

static long wire_ctrl(BIO *b, int cmd, long num, void *ptr)
{
	(void)b;
	(void)num;
	(void)ptr;
	return cmd == BIO_CTRL_FLUSH; /* done after each call, by wire_flush() */
}

static BIO_METHOD *method;
static pthread_once_t method_made = PTHREAD_ONCE_INIT;

static void make_method(void)
{
	BIO_METHOD *m = BIO_meth_new(BIO_get_new_index() | BIO_TYPE_SOURCE_SINK, "socket");

	if (m && BIO_meth_set_write_ex(m, wire_write) && BIO_meth_set_read_ex(m, wire_read) &&
	    BIO_meth_set_ctrl(m, wire_ctrl))
		method = m;
	else
		BIO_meth_free(m);
}

BIO *wire_bio(struct wire *w)
{
	BIO *b;

	pthread_once(&method_made, make_method);
	b = method ? BIO_new(method) : NULL;
	if (!b)
		return NULL;
	BIO_set_data(b, w);
	BIO_set_init(b, 1);
	return b;
}
