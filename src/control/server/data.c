// SPDX-License-Identifier: Apache-2.0
/* The server's data connections: EPSV and EPRT (RFC 2428), PASV and PORT (RFC 959), the check of
 * the peer's address, TLS, and the control connection during a transfer. */
#include "control/server/session.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <strings.h>
#include <sys/socket.h>

enum {
	PORT_MIN = 1024,        /* RFC 2577 §3: lower ports belong to services */
	ACCEPT_MS = 30 * 1000,
	OPEN_MS = 60 * 1000,    /* after this time no further connection is tried */
	ANOTHER_MS = 500,       /* time for a further connection to arrive */
	SLICE_MS = 250,         /* between checks of the control connection while idle */
};

/* ---- addresses ---- */

static bool same_host(const struct sockaddr_storage *a, const struct sockaddr_storage *b)
{
	struct in6_addr x = address_as_v6(a), y = address_as_v6(b);

	return !memcmp(&x, &y, sizeof(x));
}

/* Returns false if a is neither an IPv4 address nor an IPv4-mapped one. */
static bool ipv4_of(const struct sockaddr_storage *a, uint8_t out[4])
{
	struct in6_addr x = address_as_v6(a);

	memcpy(out, &x.s6_addr[12], 4);
	return IN6_IS_ADDR_V4MAPPED(&x);
}

/* The protocol number of RFC 2428 §2 for the control connection. */
static const char *own_protocol(const struct ftp_session *s)
{
	uint8_t four[4];

	return ipv4_of(&s->peer, four) ? "1" : "2";
}

static int reply_protocol(struct ftp_session *s)
{
	return ftp_session_reply(s, 522, "Not this network protocol, use (%s)", own_protocol(s));
}

/* The address by which the client has reached this server. */
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

/* ---- EPSV, PASV: the client connects ---- */

/* May the client set up a data connection by the running command? 0; 1: refused with a reply;
 * negative: the session ends. */
static int check_setup(struct ftp_session *s)
{
	bool active = s->running->verb == FTP_PORT || s->running->verb == FTP_EPRT;

	if (!s->has_peer)
		return session_replied(ftp_session_reply(s, 502, "No data connections beside this "
							 "stream; OPTS INLINE MLSD and BULK need "
							 "none"));
	if (active && !s->c->active)
		return session_replied(ftp_session_reply(s, 502, "This server does not connect; "
							 "use EPSV or PASV"));

	/* After EPSV ALL the client has promised to use only EPSV (RFC 2428 §4). */
	if (s->epsv_all && s->running->verb != FTP_EPSV)
		return session_replied(ftp_session_reply(s, 501, "Nothing but EPSV after EPSV "
							 "ALL"));
	return 0;
}

/* Close the listener and forget the address: an EPSV, PASV, PORT or EPRT is valid for one data
 * connection. */
static void forget_setup(struct ftp_session *s)
{
	if (s->lfd >= 0)
		close(steal_fd(&s->lfd));
	s->dial.ss_family = AF_UNSPEC;
}

/* Listen for the next data connection. This replaces any earlier setup. */
static int data_listen(struct ftp_session *s, uint16_t *port, struct err *e)
{
	char addr[INET6_ADDRSTRLEN];
	struct sockaddr_storage a;
	int rc = own_address(s, &a);

	if (rc < 0)
		return err_sys(e, rc, "address of the control connection");
	address_host(&a, addr);

	/* A link-local address needs its interface, which the text does not contain. */
	if (!strncasecmp(addr, "fe80:", 5))
		addr[0] = '\0';
	data_forget(s);
	s->lfd = tcp_listen(s->c->data_addr && *s->c->data_addr ? s->c->data_addr : addr,
			    a.ss_family, s->c->port_lo, s->c->port_hi, port, e);
	return s->lfd < 0 ? s->lfd : 0;
}

static int reply_no_port(struct ftp_session *s, const struct err *e)
{
	log_warn("%s: no data port: %s", s->peer_text, e->text);
	return ftp_session_reply(s, 425, "No data port is available now");
}

int cmd_epsv(struct ftp_session *s, char *arg)
{
	struct err e = ERR_INIT;
	uint16_t port;
	int rc = check_setup(s);

	if (rc)
		return rc;
	if (!strcasecmp(arg, "ALL")) {
		s->epsv_all = true;
		return ftp_session_reply(s, 200, "Only EPSV from now on");
	}

	if (*arg && strcmp(arg, "1") && strcmp(arg, "2"))
		return ftp_session_reply(s, 501, "Syntax: EPSV [1|2|ALL]");
	if (*arg && strcmp(arg, own_protocol(s)))
		return reply_protocol(s);
	if (data_listen(s, &port, &e) < 0)
		return reply_no_port(s, &e);
	return ftp_session_reply(s, 229, "Entering Extended Passive Mode (|||%u|)", port);
}

int cmd_pasv(struct ftp_session *s, char *arg)
{
	struct sockaddr_storage at = { 0 };
	socklen_t len = sizeof(at);
	struct err e = ERR_INIT;
	uint8_t a[4];
	uint16_t port;
	int rc = check_setup(s);

	if (rc)
		return rc;
	if (!ipv4_of(&s->peer, a))
		return ftp_session_reply(s, 502, "PASV is for IPv4 only; use EPSV");

	if (data_listen(s, &port, &e) < 0)
		return reply_no_port(s, &e);

	/* Announce the address of the listener: the one that the client knows already, or the
	 * configured one. */
	if (getsockname(s->lfd, (struct sockaddr *)&at, &len) < 0 || !ipv4_of(&at, a)) {
		data_forget(s);
		return ftp_session_reply(s, 425, "No data port of IPv4 is available now");
	}
	return ftp_session_reply(s, 227, "Entering Passive Mode (%u,%u,%u,%u,%u,%u)", a[0], a[1],
				 a[2], a[3], port >> 8, port & 255);
}

/* ---- PORT, EPRT: the server connects ---- */

/* Accept only the client's own address, and no port of a service: otherwise a client could make the
 * server connect, and send files, to any host (RFC 2577 §3). */
static int set_dial(struct ftp_session *s, const struct sockaddr_storage *to, uint64_t port)
{
	if (!same_host(to, &s->peer))
		return ftp_session_reply(s, 504, "Data goes to your own address only");
	if (port < PORT_MIN)
		return ftp_session_reply(s, 504, "Data goes only to ports from %d on", PORT_MIN);

	data_forget(s);
	s->dial = s->peer; /* with its scope, which the text does not contain */
	address_set_port(&s->dial, (uint16_t)port);
	return ftp_session_reply(s, 200, "Port %u is set", (unsigned)port);
}

/* "h1,h2,h3,h4,p1,p2" */
static bool parse_port(char *arg, struct sockaddr_storage *to, uint64_t *port)
{
	struct sockaddr_in *in = (struct sockaddr_in *)to;
	uint8_t bytes[6];
	int n = 0;

	for (char *one; n < 6 && (one = strsep(&arg, ",")); n++) {
		uint64_t v;

		if (parse_uint(one, 0, 255, &v) < 0)
			return false;
		bytes[n] = (uint8_t)v;
	}
	if (n < 6 || arg)
		return false;
	memset(to, 0, sizeof(*to));
	in->sin_family = AF_INET;
	memcpy(&in->sin_addr, bytes, 4);
	*port = (uint64_t)(bytes[4] << 8 | bytes[5]);
	return true;
}

int cmd_port(struct ftp_session *s, char *arg)
{
	struct sockaddr_storage to;
	uint64_t port;
	int rc = check_setup(s);

	if (rc)
		return rc;
	if (!parse_port(arg, &to, &port))
		return ftp_session_reply(s, 501, "Syntax: PORT h1,h2,h3,h4,p1,p2");
	return set_dial(s, &to, port);
}

/* Cut the three fields between four equal delimiters. */
static bool split_eprt(char *arg, char *field[3])
{
	char d = *arg++;

	if (d < 33 || d > 126)
		return false;
	for (int i = 0; i < 3; i++) {
		field[i] = arg;
		arg = strchr(arg, d);
		if (!arg)
			return false;
		*arg++ = '\0';
	}
	return !*arg;
}

int cmd_eprt(struct ftp_session *s, char *arg)
{
	struct sockaddr_storage to;
	char *field[3];
	uint64_t port;
	int rc = check_setup(s);

	if (rc)
		return rc;
	if (!split_eprt(arg, field) || parse_uint(field[2], 1, UINT16_MAX, &port) < 0)
		return ftp_session_reply(s, 501, "Syntax: EPRT |<1|2>|<address>|<port>|");
	if (strcmp(field[0], own_protocol(s)))
		return reply_protocol(s);

	/* Only a numeric address is allowed. */
	if (!address_parse(field[1], &to) ||
	    to.ss_family != (*field[0] == '1' ? AF_INET : AF_INET6))
		return ftp_session_reply(s, 501, "This is not an address of this protocol");
	return set_dial(s, &to, port);
}

/* ---- accepting and connecting ---- */

/* Accept one connection. Returns its descriptor if it is from the client's host; otherwise
 * -EAGAIN. */
static int accept_one(struct ftp_session *s)
{
	struct sockaddr_storage from = { 0 };
	socklen_t len = sizeof(from);
	int fd = accept4(s->lfd, (struct sockaddr *)&from, &len, SOCK_CLOEXEC);

	if (fd < 0)
		return errno == EINTR || errno == ECONNABORTED ? -EAGAIN : -errno;
	if (same_host(&from, &s->peer))
		return fd;
	log_warn("%s: refused a connection of another host to the data port", s->peer_text);
	close(fd);
	return -EAGAIN;
}

static int accept_client(struct ftp_session *s)
{
	uint64_t end = ns_after(ACCEPT_MS);
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

/* Connect from the address that the client has connected to: clients accept no other peer. Errors
 * of the connection become -ENOTCONN, because -EPIPE means the control connection. */
static int dial_client(struct ftp_session *s)
{
	CLEANUP_CLOSE int fd = socket(s->dial.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK,
				      0);
	uint64_t end = ns_after(ACCEPT_MS);
	struct sockaddr_storage from;
	socklen_t len = sizeof(int);
	int rc = 0, error = 0;

	if (fd < 0)
		return -errno;

	if (own_address(s, &from) == 0 && from.ss_family == s->dial.ss_family) {
		address_set_port(&from, 0);
		if (bind(fd, (struct sockaddr *)&from, sizeof(from)) < 0)
			log_debug("%s: bind: %s", s->peer_text, strerror(errno));
	}
	if (connect(fd, (struct sockaddr *)&s->dial, sizeof(s->dial)) < 0 && errno != EINPROGRESS)
		return -ENOTCONN;

	while (rc == 0 && now_ns() < end) {
		rc = poll_fd(fd, POLLOUT, SLICE_MS);
		if (rc == 0)
			rc = session_poll_control(s);
	}
	if (rc <= 0)
		return rc < 0 ? rc : -ETIMEDOUT;
	if (getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &len) < 0 || error)
		return -ENOTCONN;
	rc = set_nonblock(fd, false);
	return rc < 0 ? rc : steal_fd(&fd);
}

/* ---- opening ---- */

/* Make fd the data connection s->data, under TLS with PROT P. Closes fd on failure. */
static int start_data(struct ftp_session *s, int fd)
{
	struct sockaddr_storage us = { 0 }, them = { 0 };
	socklen_t len = sizeof(us), their_len = sizeof(them);
	struct err e = ERR_INIT;
	struct tls *tls;
	int one = 1;

	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));

	s->data_is_local = getsockname(fd, (struct sockaddr *)&us, &len) == 0 &&
			   getpeername(fd, (struct sockaddr *)&them, &their_len) == 0 &&
			   same_host(&us, &them);
	if (!s->agreed.prot_p) {
		s->data = stream_plain(fd, fd);
	} else if (!s->tls) {
		s->data = s->c->guard(s->c->arg, fd, &e);
	} else {
		/* Given the control connection's TLS session, tls_start() sends no tickets: a
		 * client that closes after an upload would leave them unread, and unread bytes
		 * reset the connection. */
		tls = tls_start(s->c->tls, fd, NULL, s->tls, SESSION_HANDSHAKE_MS, &e);
		s->data = tls ? stream_tls(fd, tls) : NULL;
		if (tls && !s->data) {
			tls_free(tls);
			err_nomem(&e);
		}
	}
	if (s->data)
		return 0;

	close(fd);
	if (!s->agreed.prot_p)
		return -ENOMEM;
	log_warn("%s: data connection: %s%s", s->peer_text, e.text, e.code == -EKEYREJECTED ?
		 " (\"tls-data any\" in rftpd.conf accepts such clients)" : "");
	return e.code;
}

/* The start of a data connection has failed with rc. Try the next one: another process on the
 * client's host may have connected before the client. */
static int start_another(struct ftp_session *s, int rc)
{
	uint64_t end = s->began + OPEN_MS * 1000000ull;

	while ((rc == -EKEYREJECTED || rc == -EPROTO || rc == -EBADMSG || rc == -ETIMEDOUT ||
		rc == -EPIPE || rc == -ECONNRESET) && s->lfd >= 0 && now_ns() < end &&
	       poll_fd(s->lfd, POLLIN, ANOTHER_MS) > 0) {
		int fd = accept_one(s);

		if (fd >= 0)
			rc = start_data(s, fd);
	}
	return rc;
}

static int reply_no_data(struct ftp_session *s, int rc)
{
	if (rc == -EPIPE)
		return session_client_gone(s);
	return session_replied(
		rc == -ECANCELED ? data_reply(s, rc, "") :
		rc == -EKEYREJECTED ?
		ftp_session_reply(s, 522, "A data connection must resume the TLS session of the "
				  "control connection (see tls-data in rftpd.conf)") :
		ftp_session_reply(s, 425, "No data connection was made"));
}

int data_open(struct ftp_session *s, const char *what)
{
	int fd, rc;

	if (s->c->require_prot && !s->agreed.prot_p)
		return session_replied(ftp_session_reply(s, 521, "PROT P is required for data"));
	if (s->lfd < 0 && s->dial.ss_family == AF_UNSPEC)
		return reply_no_data(s, -ENOTCONN);

	s->moved = 0;
	s->began = now_ns();
	fd = s->lfd < 0 ? dial_client(s) : accept_client(s);
	rc = fd < 0 ? fd : ftp_session_reply(s, 150, "%s comes over %s", what,
					     s->agreed.prot_p ? "TLS" : "TCP");
	if (rc < 0) {
		forget_setup(s);
		if (fd < 0)
			return reply_no_data(s, fd);
		close(fd);
		return rc;
	}

	/* Start TLS only now: clients begin the handshake after they have read the 150. */
	rc = start_data(s, fd);
	if (rc < 0)
		rc = start_another(s, rc);
	forget_setup(s);
	return rc < 0 ? reply_no_data(s, rc == -EPIPE ? -ENOTCONN : rc) : 0;
}

/* ---- bytes ---- */

/* Called after each SLICE_MS without a byte. 0: continue to wait; -ETIMEDOUT; or a result of
 * session_poll_control(). */
static int check_idle(struct ftp_session *s, uint64_t since)
{
	if (now_ns() - since > (uint64_t)session_idle_ms(s) * 1000000)
		return -ETIMEDOUT;
	return session_poll_control(s);
}

/* Read from the data connection into p; if p is NULL, send from the file fd instead. */
static ssize_t move_some(struct ftp_session *s, void *p, size_t len, int fd, uint64_t from)
{
	const struct stream_ops *ops = s->data->ops;
	uint64_t since = now_ns();
	int rc = session_poll_control(s);

	while (rc == 0) {
		ssize_t n = p ? ops->read(s->data, p, len, SLICE_MS) :
				ops->sendfile(s->data, fd, from, len, SLICE_MS);

		if (n > 0)
			s->moved += (uint64_t)n;
		if (n != -ETIMEDOUT)
			return n;
		rc = check_idle(s, since);
	}
	return rc;
}

ssize_t data_read(struct ftp_session *s, void *p, size_t len)
{
	return move_some(s, p, len, -1, 0);
}

ssize_t data_sendfile(struct ftp_session *s, int fd, uint64_t from, size_t len)
{
	/* Within one host sendfile() is slower: the receiver copies from scattered pages that are
	 * in no CPU cache, which costs more than the saved copy (bench/README.md). */
	if (!s->data->ops->sendfile || s->data_is_local)
		return -EOPNOTSUPP;
	return move_some(s, NULL, len, fd, from);
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
			rc = n == -ETIMEDOUT ? check_idle(s, since) : (int)n;
		}
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
		s->data->ops->abort(s->data); /* without close_notify: the data is incomplete */
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
		return ftp_session_reply(s, 426, "No data moved on the data connection in time");
	case -EPROTO:
		return ftp_session_reply(s, 426, "TLS failed on the data connection");
	default:
		return session_reply_errno(s, rc, path);
	}
}
