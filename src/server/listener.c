// SPDX-License-Identifier: Apache-2.0
/* The listening sockets: opening, accepting, closing. */
#include "server/listener.h"
#include "transport/transport.h"

#include <errno.h>
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
	log_info(family == AF_INET6 ? "listening on [%s]:%u" : "listening on %s:%u", a->addr,
		 port);
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
	int rc;

	if (!file)
		return 0;
	for (nfds_t i = 0; i < l->nfds; i++)
		n += (size_t)snprintf(text + n, sizeof(text) - n, "%u\n", l->ports[i]);
	rc = write_file_atomic(file, text, n, 0644);
	return rc < 0 ? err_sys(e, rc, "port file %s", printable(file)) : 0;
}

int listener_open(struct listener *l, const struct srv_options *o, struct err *e)
{
	int rc = listen_all(l, o, NULL, e);

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
	int rc = listen_all(&new, o, &was, e);

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
