// SPDX-License-Identifier: Apache-2.0
/* The server's end of FTP's data connections: the listener, who may connect to it, dialling, TLS
 * on it, and what the control connection says meanwhile. */
#include "control/session.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum {
	ACCEPT_MS = 30 * 1000,
	OPEN_MS = 60 * 1000,    /* after this no further connection is tried */
	ANOTHER_MS = 500,       /* for a further one to come */
	SLICE_MS = 250, /* between looks at the control connection while nothing moves */
};

/* ---- listening ---- */

/* What the client has reached us by. */
static int own_address(const struct ftp_session *s, struct sockaddr_storage *a)
{
	socklen_t len = sizeof(*a);

	memset(a, 0, sizeof(*a));
	if (s->c->local)
		*a = *s->c->local;
	else if (getsockname(s->fd, (struct sockaddr *)a, &len) < 0)
		return -errno;
	return 0;
}

/* Its address as text. */
static int local_address(const struct ftp_session *s, char out[INET6_ADDRSTRLEN], int *family)
{
	struct sockaddr_storage a;
	const void *addr = &((struct sockaddr_in6 *)&a)->sin6_addr;
	int rc = own_address(s, &a);

	if (rc < 0)
		return rc;
	if (a.ss_family == AF_INET)
		addr = &((struct sockaddr_in *)&a)->sin_addr;
	else if (a.ss_family != AF_INET6)
		return -EAFNOSUPPORT;
	*family = a.ss_family;
	return inet_ntop(a.ss_family, addr, out, INET6_ADDRSTRLEN) ? 0 : -errno;
}

int data_listen(struct ftp_session *s, uint16_t *port, struct err *e)
{
	char addr[INET6_ADDRSTRLEN];
	int family = AF_UNSPEC;
	int rc = local_address(s, addr, &family);

	if (rc < 0)
		return err_sys(e, rc, "address of the control connection");
	/* A link-local address needs its interface, which the text does not have. */
	if (!strncasecmp(addr, "fe80:", 5))
		addr[0] = '\0';
	data_forget(s);
	s->lfd = tcp_listen(s->c->data_addr && *s->c->data_addr ? s->c->data_addr : addr, family,
			    s->c->port_lo, s->c->port_hi, port, e);
	return s->lfd < 0 ? s->lfd : 0;
}

/* ---- accepting ---- */

/* The 16 bytes of an address, an IPv4 one mapped (RFC 4291 §2.5.5.2). */
static void address_bytes(const struct sockaddr_storage *a, uint8_t out[16])
{
	static const uint8_t mapped[12] = { [10] = 0xff, [11] = 0xff };

	memset(out, 0, 16);
	if (a->ss_family == AF_INET) {
		memcpy(out, mapped, sizeof(mapped));
		memcpy(out + 12, &((const struct sockaddr_in *)a)->sin_addr, 4);
	} else if (a->ss_family == AF_INET6) {
		memcpy(out, &((const struct sockaddr_in6 *)a)->sin6_addr, 16);
	}
}

bool same_host(const struct sockaddr_storage *a, const struct sockaddr_storage *b)
{
	uint8_t x[16], y[16];

	address_bytes(a, x);
	address_bytes(b, y);
	return !memcmp(x, y, sizeof(x));
}

/* One connection from the listener, if it is our client's: a descriptor; -EAGAIN. */
static int accept_one(struct ftp_session *s)
{
	struct sockaddr_storage from = { 0 };
	socklen_t len = sizeof(from);
	int fd = accept4(s->lfd, (struct sockaddr *)&from, &len, SOCK_CLOEXEC);

	if (fd < 0)
		return errno == EINTR || errno == ECONNABORTED ? -EAGAIN : -errno;
	if (same_host(&from, &s->peer))
		return fd;
	log_warn("%s: a stranger on the data port was turned away", s->peer_text);
	close(fd);
	return -EAGAIN;
}

/* A connection from an address of our own. */
static bool from_here(int fd)
{
	struct sockaddr_storage us = { 0 }, them = { 0 };
	socklen_t len = sizeof(us), their_len = sizeof(them);

	return getsockname(fd, (struct sockaddr *)&us, &len) == 0 &&
	       getpeername(fd, (struct sockaddr *)&them, &their_len) == 0 &&
	       same_host(&us, &them);
}

static int accept_client(struct ftp_session *s)
{
	uint64_t end = now_ns() + (uint64_t)ACCEPT_MS * 1000000;
	int rc, fd;

	while (now_ns() < end) {
		rc = poll_fd(s->lfd, POLLIN, SLICE_MS);
		if (rc > 0) {
			fd = accept_one(s);
			if (fd != -EAGAIN)
				return fd;
		}
		if (rc == 0)
			rc = session_poll_control(s);
		if (rc < 0)
			return rc;
	}
	return -ETIMEDOUT;
}

/* ---- dialling ---- */

/* Until it is connected. A descriptor's error, for -EPIPE would be that of the control
 * connection. */
static int wait_connected(struct ftp_session *s, int fd)
{
	uint64_t end = now_ns() + (uint64_t)ACCEPT_MS * 1000000;
	socklen_t len = sizeof(int);
	int rc = 0, error = 0;

	while (rc == 0 && now_ns() < end) {
		rc = poll_fd(fd, POLLOUT, SLICE_MS);
		if (rc == 0)
			rc = session_poll_control(s);
	}
	if (rc <= 0)
		return rc < 0 ? rc : -ETIMEDOUT;
	if (getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &len) < 0 || error)
		return -ENOTCONN;
	return set_nonblock(fd, false);
}

/* From the address that the client has reached us by: it lets in no other. */
static int dial_client(struct ftp_session *s)
{
	struct sockaddr_storage from;
	int rc, fd = socket(s->dial.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	if (fd < 0)
		return -errno;
	if (own_address(s, &from) == 0 && from.ss_family == s->dial.ss_family) {
		if (from.ss_family == AF_INET)
			((struct sockaddr_in *)&from)->sin_port = 0;
		else
			((struct sockaddr_in6 *)&from)->sin6_port = 0;
		if (bind(fd, (struct sockaddr *)&from, sizeof(from)) < 0)
			log_debug("%s: bind: %s", s->peer_text, strerror(errno));
	}
	rc = connect(fd, (struct sockaddr *)&s->dial, sizeof(s->dial));
	rc = rc == 0 || errno == EINPROGRESS ? wait_connected(s, fd) : -ENOTCONN;
	if (rc == 0)
		return fd;
	close(fd);
	return rc;
}

/* A PASV or PORT serves one data connection. */
static void forget_setup(struct ftp_session *s)
{
	if (s->lfd >= 0)
		close(steal_fd(&s->lfd));
	s->dial.ss_family = AF_UNSPEC;
}

/* ---- opening ---- */

/* fd becomes s->data, by TLS when that is agreed, or is closed. */
static int start_data(struct ftp_session *s, int fd)
{
	struct err e = ERR_INIT;
	int one = 1, rc;

	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
	s->data_stays = from_here(fd);
	if (!s->prot_p) {
		s->data = stream_plain(fd, fd);
		if (!s->data)
			close(fd);
		return s->data ? 0 : -ENOMEM;
	}
	rc = session_guard_data(s, fd, &e);
	if (rc < 0)
		log_warn("%s: data connection: %s%s", s->peer_text, e.text,
			 rc == -EKEYREJECTED ? " (\"tls-data any\" in rftpd.conf lets such "
					       "clients in)" : "");
	if (rc < 0)
		close(fd);
	return rc;
}

static bool is_of_peer(int rc)
{
	return rc == -EKEYREJECTED || rc == -EPROTO || rc == -EBADMSG || rc == -ETIMEDOUT ||
	       rc == -EPIPE || rc == -ECONNRESET;
}

/* Another process of the client's host may have been faster than the client: the next connection, after
 * one whose peer failed with rc; the client's own may be a moment later. */
static int start_another(struct ftp_session *s, int rc)
{
	uint64_t end = s->began + OPEN_MS * 1000000ull;
	int fd;

	while (is_of_peer(rc) && s->lfd >= 0 && now_ns() < end &&
	       poll_fd(s->lfd, POLLIN, ANOTHER_MS) > 0) {
		fd = accept_one(s);
		if (fd >= 0)
			rc = start_data(s, fd);
	}
	return rc;
}

static int no_data_reply(struct ftp_session *s, int rc)
{
	rc = rc == -ECANCELED ? data_reply(s, rc, "") :
	     rc == -EPIPE ? err_set(s->e, rc, "the client went away") :
	     rc == -EKEYREJECTED ?
	     ftp_session_reply(s, 522, "A data connection must resume the TLS session of the control "
			       "connection (see tls-data in rftpd.conf)") :
	     ftp_session_reply(s, 425, "No data connection was made");
	return rc < 0 ? rc : 1;
}

int data_open(struct ftp_session *s, const char *what)
{
	int fd, rc;

	if (s->c->require_prot && !s->prot_p) {
		rc = ftp_session_reply(s, 521, "Data goes by PROT P here, or not at all");
		return rc < 0 ? rc : 1;
	}
	if (s->lfd < 0 && s->dial.ss_family == AF_UNSPEC)
		return no_data_reply(s, -ENOTCONN);
	s->moved = 0;
	s->began = now_ns();
	fd = s->lfd < 0 ? dial_client(s) : accept_client(s);
	rc = fd < 0 ? fd : ftp_session_reply(s, 150, "%s comes over %s", what,
					     s->prot_p ? "TLS" : "TCP");
	if (rc < 0) {
		forget_setup(s);
		if (fd < 0)
			return no_data_reply(s, fd);
		close(fd);
		return rc;
	}
	/* Only now: clients begin the handshake when they have seen the 150. */
	rc = start_data(s, fd);
	if (rc < 0)
		rc = start_another(s, rc);
	forget_setup(s);
	return rc < 0 ? no_data_reply(s, rc == -EPIPE ? -ENOTCONN : rc) : 0;
}

/* ---- bytes ---- */

/* After SLICE_MS without a byte: shall we go on? */
static int go_on(struct ftp_session *s, uint64_t since)
{
	if (now_ns() - since > (uint64_t)session_idle_ms(s) * 1000000)
		return -ETIMEDOUT;
	return session_poll_control(s);
}

ssize_t data_read(struct ftp_session *s, void *p, size_t len)
{
	uint64_t since = now_ns();
	int rc = session_poll_control(s);
	ssize_t n;

	while (rc == 0) {
		n = s->data->ops->read(s->data, p, len, SLICE_MS);
		if (n > 0)
			s->moved += (uint64_t)n;
		if (n != -ETIMEDOUT)
			return n;
		rc = go_on(s, since);
	}
	return rc;
}

int data_write(struct ftp_session *s, const void *p, size_t len)
{
	uint64_t since = now_ns();
	const uint8_t *next = p;
	int rc = session_poll_control(s);
	ssize_t n;

	while (rc == 0 && len > 0) {
		n = s->data->ops->write(s->data, next, len, SLICE_MS);
		if (n > 0) {
			next += n;
			len -= (size_t)n;
			s->moved += (uint64_t)n;
			since = now_ns();
		} else {
			rc = n == -ETIMEDOUT ? go_on(s, since) : (int)n;
		}
	}
	return rc;
}

ssize_t data_sendfile(struct ftp_session *s, int fd, uint64_t from, size_t len)
{
	uint64_t since = now_ns();
	ssize_t n;
	int rc;

	/* Within one host a receiver has to copy from pages that lie scattered and in no
	 * cache: that costs more than the copy of ours that is saved (bench/README.md). */
	if (!s->data->ops->sendfile || s->data_stays)
		return -EOPNOTSUPP;
	/* Not before: an ABOR that is seen must be told. */
	rc = session_poll_control(s);
	while (rc == 0) {
		n = s->data->ops->sendfile(s->data, fd, from, len, SLICE_MS);
		if (n > 0)
			s->moved += (uint64_t)n;
		if (n != -ETIMEDOUT)
			return n;
		rc = go_on(s, since);
	}
	return rc;
}

/* ---- the end ---- */

void data_close(struct ftp_session *s, bool ok)
{
	if (!s->data)
		return;
	if (ok && s->data->ops->shutdown)
		s->data->ops->shutdown(s->data);
	else
		s->data->ops->abort(s->data); /* no close_notify: what was sent is not whole */
	stream_free(steal_ptr(&s->data));
}

void data_forget(struct ftp_session *s)
{
	data_close(s, false);
	forget_setup(s);
}

int data_reply(struct ftp_session *s, int rc, const char *path)
{
	switch (rc) {
	case 0:
		return ftp_session_reply(s, 226, "Done");
	case -ECANCELED: /* the command and ABOR have a reply each (RFC 959 §4.1.3) */
		rc = ftp_session_reply(s, 426, "Aborted");
		return rc < 0 ? rc : ftp_session_reply(s, 226, "ABOR done");
	case -EPIPE:
	case -ECONNRESET:
		return ftp_session_reply(s, 426, "The data connection was cut");
	case -ETIMEDOUT:
		return ftp_session_reply(s, 426, "Nothing moved on the data connection");
	case -EPROTO:
		return ftp_session_reply(s, 426, "The data connection's TLS is broken");
	default:
		return session_reply_errno(s, rc, path);
	}
}
