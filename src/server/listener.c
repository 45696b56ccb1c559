// SPDX-License-Identifier: Apache-2.0
/* The listening sockets: opening, accepting, closing. */
#include "server/activation.h"
#include "server/listener.h"
#include "transport/transport.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { PAUSE_MS = 100 }; /* when the system has no descriptors to give */

/* ---- accepting ---- */

static void set_options(int fd)
{
	int one = 1;

	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
	setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &one, sizeof(one));
}

/* A socket for both, which is not one of our own, gives IPv4's addresses within IPv6's. */
static void take_out_ipv4(struct sockaddr_storage *a)
{
	struct sockaddr_in6 six;
	struct sockaddr_in four = { .sin_family = AF_INET };

	memcpy(&six, a, sizeof(six));
	if (six.sin6_family != AF_INET6 || !IN6_IS_ADDR_V4MAPPED(&six.sin6_addr))
		return;
	four.sin_port = six.sin6_port;
	memcpy(&four.sin_addr, &six.sin6_addr.s6_addr[12], sizeof(four.sin_addr));
	memset(a, 0, sizeof(*a));
	memcpy(a, &four, sizeof(four));
}

int listener_accept(struct listener *l, nfds_t i, struct ends *ends)
{
	socklen_t len = sizeof(ends->peer);
	int fd;

	memset(ends, 0, sizeof(*ends));
	fd = accept4(l->fds[i].fd, (struct sockaddr *)&ends->peer, &len, SOCK_CLOEXEC);
	if (fd < 0) {
		if (errno == EMFILE || errno == ENFILE || errno == ENOMEM || errno == ENOBUFS) {
			log_error("cannot accept: %s", strerror(errno));
			poll(NULL, 0, PAUSE_MS);
		}
		return -EAGAIN;
	}
	set_options(fd);
	len = sizeof(ends->local);
	if (getsockname(fd, (struct sockaddr *)&ends->local, &len) < 0) {
		close(fd);
		return -EAGAIN; /* it has gone */
	}
	take_out_ipv4(&ends->peer);
	take_out_ipv4(&ends->local);
	return fd;
}

/* ---- the start and the end ---- */

/* -1: none of l's listens as a asks for. */
static int listening(const struct listener *l, const struct listen_addr *a)
{
	for (nfds_t i = 0; i < l->nfds; i++)
		if (l->fds[i].fd >= 0 && l->addrs[i].port == a->port &&
		    !strcmp(l->addrs[i].addr, a->addr))
			return (int)i;
	return -1;
}

static void keep(struct listener *l, const struct listen_addr *a, int fd, uint16_t port)
{
	l->fds[l->nfds] = (struct pollfd){ .fd = fd, .events = POLLIN };
	l->addrs[l->nfds] = *a;
	l->ports[l->nfds++] = port;
}

static const char *shown(const struct listen_addr *a, char out[80])
{
	snprintf(out, 80, strchr(a->addr, ':') ? "[%s]:%u" : "%s:%u", a->addr, a->port);
	return out;
}

/* The last one that is kept. */
static void say_listening(const struct listener *l, const char *how)
{
	struct listen_addr a = l->addrs[l->nfds - 1];
	char text[80];

	a.port = l->ports[l->nfds - 1];
	log_info("listening on %s%s", shown(&a, text), how);
}

static int listen_on(struct listener *l, const struct listen_addr *a, struct err *e)
{
	int family = strchr(a->addr, ':') ? AF_INET6 : AF_INET;
	uint16_t port;
	int fd = tcp_listen(a->addr, family, a->port, a->port, &port, e);

	if (fd < 0)
		return fd;
	/* Whoever was waiting may have gone when we come to accept. */
	set_nonblock(fd, true);
	keep(l, a, fd, port);
	say_listening(l, "");
	return 0;
}

static void close_all(const struct listener *l)
{
	for (nfds_t i = 0; i < l->nfds; i++)
		if (l->fds[i].fd >= 0)
			close(l->fds[i].fd);
}

/* Listen as o wants it. What listens already stays, without a gap: those of old, which are l's
 * afterwards when it succeeds, and old has the others. */
static int listen_all(struct listener *l, const struct srv_options *o, struct listener *old,
		      struct err *e)
{
	for (int i = 0; i < o->nlisten; i++) {
		int have = old ? listening(old, &o->listen[i]) : -1, rc = 0;

		if (have >= 0)
			keep(l, &o->listen[i], old->fds[have].fd, old->ports[have]);
		else
			rc = listen_on(l, &o->listen[i], e);
		if (have >= 0)
			old->fds[have].fd = -1;
		if (rc < 0 && o->listen[i].optional && l->nfds)
			log_info("%s", e->text);
		else if (rc < 0)
			return rc;
	}
	return 0;
}

static int write_ports(const struct listener *l, const char *file, struct err *e)
{
	char text[LISTEN_MAX * 8];
	size_t n = 0;

	if (!file)
		return 0;
	for (nfds_t i = 0; i < l->nfds; i++)
		n += (size_t)snprintf(text + n, sizeof(text) - n, "%u\n", l->ports[i]);
	return write_file_atomic(file, text, n, 0644, e) ? err_prefix(e, "port file") : 0;
}

/* ---- sockets that were open before us ---- */

static int name_socket(int fd, struct listen_addr *a)
{
	struct sockaddr_storage ss;
	socklen_t len = sizeof(ss);
	int rc;

	memset(a, 0, sizeof(*a));
	if (getsockname(fd, (struct sockaddr *)&ss, &len) < 0)
		return -errno;
	rc = getnameinfo((struct sockaddr *)&ss, len, a->addr, sizeof(a->addr), NULL, 0,
			 NI_NUMERICHOST);
	a->port = ntohs(ss.ss_family == AF_INET6 ? ((struct sockaddr_in6 *)&ss)->sin6_port :
						   ((struct sockaddr_in *)&ss)->sin_port);
	return rc ? -EINVAL : 0;
}

/* However an address was written. */
static bool same_address(const char *x, const char *y)
{
	struct in6_addr a = { 0 }, b = { 0 };

	if (!strcmp(x, y))
		return true;
	return inet_pton(AF_INET6, x, &a) == 1 && inet_pton(AF_INET6, y, &b) == 1 &&
	       !memcmp(&a, &b, sizeof(a));
}

/* As o asks for it, where it does: then it goes on. */
static void name_as_asked(struct listen_addr *a, const struct srv_options *o,
			  const struct listener *l)
{
	for (int i = 0; i < o->nlisten; i++)
		if (same_address(o->listen[i].addr, a->addr) &&
		    (o->listen[i].port == a->port || !o->listen[i].port) &&
		    listening(l, &o->listen[i]) < 0) {
			*a = o->listen[i];
			return;
		}
}

static int keep_given(struct listener *l, const struct srv_options *o, const struct activation *a,
		      struct err *e)
{
	for (int i = 0; i < a->nfds; i++) {
		struct listen_addr addr;
		int rc = name_socket(a->fds[i], &addr);
		uint16_t port = addr.port;

		if (rc < 0)
			return err_sys(e, rc, "descriptor %d", a->fds[i]);
		if (a->own)
			name_as_asked(&addr, o, l);
		keep(l, &addr, a->fds[i], port);
		if (!a->own)
			say_listening(l, ", as it was given");
	}
	return 0;
}

static void say_listen_unused(const struct srv_options *o)
{
	char where[512];

	if (srv_option_given(o, "listen"))
		log_warn("%s: not used, for sockets to listen on were given (LISTEN_FDS)",
			 srv_option_where(o, "listen", where));
}

/* Those of the rftpd before us that o asks for no more are closed. */
static int listen_after(struct listener *l, const struct srv_options *o,
			const struct activation *a, struct err *e)
{
	struct listener was = { .nfds = 0 };
	int rc = keep_given(&was, o, a, e);

	if (rc == 0)
		rc = listen_all(l, o, &was, e);
	if (rc == 0)
		close_all(&was);
	return rc;
}

int listener_open(struct listener *l, const struct srv_options *o, const struct activation *a,
		  struct err *e)
{
	int rc;

	l->given = a->nfds && !a->own;
	if (l->given)
		say_listen_unused(o);
	if (l->given)
		rc = keep_given(l, o, a, e);
	else
		rc = listen_after(l, o, a, e);
	return rc < 0 ? rc : write_ports(l, o->port_file, e);
}

void listener_close(struct listener *l)
{
	close_all(l);
	l->nfds = 0;
}

/* ---- settings anew ---- */

/* Those of new that are not l's as well. */
static void close_others(const struct listener *new, const struct listener *l)
{
	for (nfds_t i = 0; i < new->nfds; i++) {
		bool kept = false;

		for (nfds_t k = 0; k < l->nfds; k++)
			kept = kept || l->fds[k].fd == new->fds[i].fd;
		if (!kept)
			close(new->fds[i].fd);
	}
}

int listener_change(struct listener *l, const struct srv_options *o, struct err *e)
{
	struct listener was = *l, new = { .nfds = 0 };
	int rc;

	if (l->given) {
		say_listen_unused(o);
		return 0;
	}
	rc = listen_all(&new, o, &was, e);
	if (rc < 0) {
		close_others(&new, l);
		return rc;
	}
	close_all(&was);
	*l = new;
	if (write_ports(l, o->port_file, e) < 0)
		log_error("%s", e->text);
	return 0;
}
