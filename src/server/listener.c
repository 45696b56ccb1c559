// SPDX-License-Identifier: Apache-2.0
/* The listening sockets, and the addresses of clients. */
#include "server/handover.h"
#include "server/config/options.h"
#include "transport/transport.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>

enum { ACCEPT_PAUSE_MS = 100 }; /* the pause when the system has no free descriptor */

/* ---- hosts ---- */

void srv_host_key(const struct sockaddr_storage *a, uint8_t key[HOST_KEY_BYTES])
{
	static const uint8_t none[8];
	struct in6_addr x = address_as_v6(a);

	/* A host with one address of a /64 can use all its addresses. ::1 and IPv4 addresses begin
	 * with 64 zero bits, and stay distinct. */
	if (memcmp(&x, none, sizeof(none)))
		memset(&x.s6_addr[8], 0, 8);
	memcpy(key, &x, HOST_KEY_BYTES);
}

bool srv_same_host(const struct sockaddr_storage *a, const struct sockaddr_storage *b)
{
	uint8_t x[HOST_KEY_BYTES], y[HOST_KEY_BYTES];

	srv_host_key(a, x);
	srv_host_key(b, y);
	return !memcmp(x, y, HOST_KEY_BYTES);
}

/* ---- accepting ---- */

int listener_accept(struct listener *l, nfds_t i, struct ends *ends)
{
	socklen_t len = sizeof(ends->peer);
	int one = 1, fd;

	memset(ends, 0, sizeof(*ends));
	fd = accept4(l->fds[i].fd, (struct sockaddr *)&ends->peer, &len, SOCK_CLOEXEC);
	if (fd < 0) {
		if (errno == EMFILE || errno == ENFILE || errno == ENOMEM || errno == ENOBUFS) {
			log_error("cannot accept: %s", strerror(errno));
			poll(NULL, 0, ACCEPT_PAUSE_MS);
		}
		return -EAGAIN;
	}

	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
	setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &one, sizeof(one));
	len = sizeof(ends->local);
	if (getsockname(fd, (struct sockaddr *)&ends->local, &len) < 0) {
		close(fd);
		return -EAGAIN; /* the client has left */
	}

	/* A socket of a service manager may serve both IPv4 and IPv6. */
	address_unmap(&ends->peer);
	address_unmap(&ends->local);
	return fd;
}

/* ---- the set of sockets ---- */

/* The address of socket fd as text, with its port. Returns out. */
static const char *listener_text(int fd, char out[80])
{
	struct sockaddr_storage at = { .ss_family = AF_INET };
	socklen_t len = sizeof(at);

	getsockname(fd, (struct sockaddr *)&at, &len);
	return sockaddr_text(&at, out);
}

/* Is socket fd the one for setting a? One IPv6 address has several spellings. */
static bool listener_matches(int fd, const struct listen_addr *a)
{
	const struct addrinfo hints = { .ai_flags = AI_NUMERICHOST, .ai_socktype = SOCK_STREAM };
	struct sockaddr_storage at = { 0 }, want = { 0 };
	socklen_t len = sizeof(at);
	char is[80], wanted[80];
	struct addrinfo *ai;

	if (fd < 0 || getsockname(fd, (struct sockaddr *)&at, &len) < 0 ||
	    getaddrinfo(a->addr, NULL, &hints, &ai))
		return false;
	memcpy(&want, ai->ai_addr, ai->ai_addrlen);
	freeaddrinfo(ai);
	address_set_port(&want, a->port);
	if (!a->port)
		address_set_port(&at, 0);

	/* The text has no scope, which IPv4 addresses do not have either. */
	return at.ss_family == want.ss_family && !strcmp(sockaddr_text(&at, is),
							 sockaddr_text(&want, wanted)) &&
	       ((struct sockaddr_in6 *)&at)->sin6_scope_id ==
	       ((struct sockaddr_in6 *)&want)->sin6_scope_id;
}

/* The index of old's socket for setting i of o; old->nfds: there is none. A setting without a port
 * takes no socket that another setting names. */
static nfds_t listener_find(const struct listener *old, const struct srv_options *o, int i)
{
	for (nfds_t n = 0; n < old->nfds; n++) {
		bool named = false;

		for (int k = 0; !o->listen[i].port && k < o->nlisten; k++)
			named |= o->listen[k].port &&
				 listener_matches(old->fds[n].fd, &o->listen[k]);
		if (!named && listener_matches(old->fds[n].fd, &o->listen[i]))
			return n;
	}
	return old->nfds;
}

/* origin: text after the address. */
static void listener_add(struct listener *l, int fd, const char *origin)
{
	char text[80];

	l->fds[l->nfds++] = (struct pollfd){ .fd = fd, .events = POLLIN };
	if (origin)
		log_info("listening on %s%s", listener_text(fd, text), origin);
}

static int listener_open_one(struct listener *l, const struct listen_addr *a, struct err *e)
{
	int family = strchr(a->addr, ':') ? AF_INET6 : AF_INET;
	uint16_t port;
	int fd = tcp_listen(a->addr, family, a->port, a->port, &port, e);

	if (fd < 0)
		return fd;

	/* A blocking accept(2) could hang if the client disconnects after poll(2). */
	set_nonblock(fd, true);
	listener_add(l, fd, "");
	return 0;
}

static void listener_close_all(const struct listener *l)
{
	for (nfds_t i = 0; i < l->nfds; i++)
		if (l->fds[i].fd >= 0)
			close(l->fds[i].fd);
}

/* Fill the empty l with the sockets that o asks for. Sockets that old has already are moved from
 * old to l on success. After an error l is empty, and old is unchanged. */
static int listener_open_all(struct listener *l, const struct srv_options *o, struct listener *old,
			     struct err *e)
{
	bool reused[LISTEN_MAX] = { false };

	for (int i = 0; i < o->nlisten; i++) {
		nfds_t have = listener_find(old, o, i);
		int rc = 0;

		if (have < old->nfds) {
			reused[l->nfds] = true;
			listener_add(l, steal_fd(&old->fds[have].fd), NULL);
		} else {
			rc = listener_open_one(l, &o->listen[i], e);
		}
		if (rc == 0)
			continue;
		if (o->listen[i].optional && l->nfds) {
			log_info("%s", e->text);
			continue;
		}
		for (nfds_t k = 0; k < l->nfds; k++)
			if (!reused[k])
				close(l->fds[k].fd);
		l->nfds = 0;
		return rc;
	}
	return 0;
}

int listener_write_ports(const struct listener *l, const char *file, struct err *e)
{
	char text[LISTEN_MAX * 8], address[80];
	size_t n = 0;

	if (!file)
		return 0;
	for (nfds_t i = 0; i < l->nfds; i++)
		n += (size_t)snprintf(text + n, sizeof(text) - n, "%s\n",
				      strrchr(listener_text(l->fds[i].fd, address), ':') + 1);
	return write_file_atomic(file, text, n, 0644, e) ? err_prefix(e, "port file") : 0;
}

void listener_close(struct listener *l)
{
	listener_close_all(l);
	l->nfds = 0;
}

/* ---- sockets that were open at the start ---- */

static void warn_listen_unused(const struct srv_options *o)
{
	char where[512];

	if (srv_option_given(o, "listen"))
		log_warn("%s: not used, because listening sockets were given (LISTEN_FDS)",
			 srv_option_where(o, "listen", where));
}

int listener_open(struct listener *l, const struct srv_options *o, const struct activation *a,
		  struct err *e)
{
	struct listener previous = { .nfds = 0 };
	int rc;

	l->given = a->nfds && !a->own;
	if (l->given)
		warn_listen_unused(o);
	for (int i = 0; i < a->nfds; i++)
		listener_add(l->given ? l : &previous, a->fds[i],
			     l->given ? ", as it was given" : NULL);

	/* Sockets of the previous rftpd that o does not ask for are closed. */
	rc = l->given ? 0 : listener_open_all(l, o, &previous, e);
	if (rc < 0)
		return rc;
	listener_close_all(&previous);
	return 0;
}

/* ---- other settings ---- */

int listener_change(struct listener *l, const struct srv_options *o, struct err *e)
{
	struct listener old = *l, new = { .nfds = 0 };
	int rc;

	if (l->given) {
		warn_listen_unused(o);
		return 0;
	}

	rc = listener_open_all(&new, o, &old, e);
	if (rc < 0)
		return rc;
	listener_close_all(&old);
	*l = new;
	return 0;
}
