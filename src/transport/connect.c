// SPDX-License-Identifier: Apache-2.0
/* TCP connections: listening, and connecting to a name by whichever address answers. */
#include "transport/connect.h"

#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define ADDRESSES_MAX 16
/* RFC 8305 §5: the next address is tried when the last has not answered for so long. */
#define ATTEMPT_DELAY_MS 250
#define BACKLOG 4096

/* ---- words ---- */

const char *net_reason(int code)
{
	switch (-code) {
	case ECONNREFUSED:
		return "connection refused: nothing listens on that port";
	case ETIMEDOUT:
		return "no answer: the host is down, or a firewall drops the packets";
	case EHOSTUNREACH:
	case ENETUNREACH:
		return "no route to that host";
	case EACCES:
	case EPERM:
		return "a local firewall rule or policy forbids it";
	case EADDRNOTAVAIL:
		return "no local address can be used for it";
	case ECONNRESET:
	case EPIPE:
		return "the other side closed the connection";
	default:
		return strerror(-code);
	}
}

const char *address_text(const struct sockaddr_storage *a, socklen_t len, char out[ADDRESS_TEXT])
{
	char host[NI_MAXHOST], port[NI_MAXSERV];

	if (getnameinfo((const struct sockaddr *)a, len, host, sizeof(host), port, sizeof(port),
			NI_NUMERICHOST | NI_NUMERICSERV))
		snprintf(out, ADDRESS_TEXT, "an unknown address");
	else if (strchr(host, ':'))
		snprintf(out, ADDRESS_TEXT, "[%.63s]:%.7s", host, port);
	else
		snprintf(out, ADDRESS_TEXT, "%.63s:%.7s", host, port);
	return out;
}

/* ---- sockets ---- */

void socket_options(int fd)
{
	int yes = 1, idle = 30, interval = 10, probes = 6;

	/* Each is an improvement only: sockets of other families may refuse. */
	(void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof(yes));
	(void)setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &yes, sizeof(yes));
	(void)setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle, sizeof(idle));
	(void)setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &interval, sizeof(interval));
	(void)setsockopt(fd, IPPROTO_TCP, TCP_KEEPCNT, &probes, sizeof(probes));
}

void socket_tos(int fd, int tos)
{
	int family = AF_INET;
	socklen_t len = sizeof(family);
	int r;

	(void)getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &family, &len);
	r = setsockopt(fd, IPPROTO_IP, IP_TOS, &tos, sizeof(tos));
	/* An IPv6 socket has both: it may carry IPv4, too. */
	if (family == AF_INET6)
		r = setsockopt(fd, IPPROTO_IPV6, IPV6_TCLASS, &tos, sizeof(tos));
	if (r)
		log_warn("type of service %d is not set: %s", tos, strerror(errno));
}

int connect_begin(const struct sockaddr *a, socklen_t len, const struct sockaddr *from, int *out)
{
	int fd, r;

	*out = -1;
	r = FAULT("connect", 0);
	if (r < 0)
		return r;
	fd = socket(a->sa_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return -errno;
	socket_options(fd);
	if ((from && bind(fd, from, len) < 0) || (connect(fd, a, len) < 0 && errno != EINPROGRESS)) {
		r = -errno;
		close(fd);
		return r;
	}
	*out = fd;
	return 0;
}

int connect_result(int fd)
{
	int code = 0;
	socklen_t len = sizeof(code);

	if (getsockopt(fd, SOL_SOCKET, SO_ERROR, &code, &len) < 0)
		return -errno;
	return -code;
}

/* ---- connecting to a name ---- */

/* The resolver's order, but families taking turns (RFC 8305 §4), so that a broken one
 * costs a single delay. */
static int interleave(struct addrinfo *list, struct addrinfo **out, int max)
{
	struct addrinfo *same = list, *other = list;
	int n = 0;

	while (n < max) {
		while (same && same->ai_family != list->ai_family)
			same = same->ai_next;
		if (same && n < max) {
			out[n++] = same;
			same = same->ai_next;
		}
		while (other && other->ai_family == list->ai_family)
			other = other->ai_next;
		if (other && n < max) {
			out[n++] = other;
			other = other->ai_next;
		}
		if (!same && !other)
			break;
	}
	return n;
}

struct race {
	struct addrinfo *to[ADDRESSES_MAX];
	struct pollfd fds[1 + ADDRESSES_MAX]; /* the wish to stop, then one for each address */
	int n;          /* addresses */
	int begun;      /* of them */
	int open;       /* of those: still connecting */
	int last_error;
};

static void race_begin_next(struct race *r)
{
	struct addrinfo *a = r->to[r->begun];
	struct pollfd *p = &r->fds[++r->begun];
	int error = connect_begin(a->ai_addr, a->ai_addrlen, NULL, &p->fd);

	p->events = POLLOUT;
	if (error < 0)
		r->last_error = error;
	else
		r->open++;
}

/* The first that is through, or -1. */
static int race_winner(struct race *r)
{
	int i, error;

	for (i = 1; i <= r->begun; i++) {
		if (r->fds[i].fd < 0 || !r->fds[i].revents)
			continue;
		error = connect_result(r->fds[i].fd);
		if (!error)
			return steal_fd(&r->fds[i].fd);
		r->last_error = error;
		r->open--;
		close(steal_fd(&r->fds[i].fd));
	}
	return -1;
}

static int race_run(struct race *r, int timeout_ms)
{
	uint64_t end = now_ns() + (uint64_t)timeout_ms * 1000000;
	int fd = -1;

	while (fd < 0 && (r->open || r->begun < r->n)) {
		int left = ms_to(end);

		if (timeout_ms < 0)
			left = INT32_MAX;
		if (!left) {
			r->last_error = -ETIMEDOUT;
			break;
		}
		if (r->begun < r->n) {
			race_begin_next(r);
			if (r->begun < r->n && left > ATTEMPT_DELAY_MS)
				left = ATTEMPT_DELAY_MS;
		}
		if (r->open && poll(r->fds, (nfds_t)r->begun + 1, left) > 0)
			fd = race_winner(r);
		if (fd < 0 && r->fds[0].revents) {
			r->last_error = -ECANCELED;
			break;
		}
	}
	for (; r->begun; r->begun--)
		if (r->fds[r->begun].fd >= 0)
			close(r->fds[r->begun].fd);
	return fd;
}

int tcp_connect(const char *host, uint16_t port, int stop, int timeout_ms, struct err *e)
{
	struct race race = { .last_error = -EHOSTUNREACH,
			     .fds[0] = { .fd = stop, .events = POLLIN } };
	struct addrinfo *list;
	int fd, r = resolve_name(host, port, stop, &list, e);

	if (r < 0)
		return r;
	race.n = interleave(list, race.to, ADDRESSES_MAX);
	fd = race_run(&race, timeout_ms);
	freeaddrinfo(list);
	if (fd < 0)
		return err_set(e, race.last_error, "cannot connect to %s port %u: %s",
			       printable(host), port, net_reason(race.last_error));
	r = set_nonblock(fd, false);
	if (r < 0) {
		close(fd);
		return err_sys(e, r, "the connection to %s port %u", printable(host), port);
	}
	return fd;
}

/* ---- listening ---- */

static int listen_at(const struct sockaddr *a, socklen_t len, bool dual)
{
	int fd, yes = 1, only = !dual, r;

	fd = socket(a->sa_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return -errno;
	/* A restarted server takes its port back although old connections linger. */
	(void)setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof(yes));
	if (a->sa_family == AF_INET6)
		(void)setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &only, sizeof(only));
	if (bind(fd, a, len) == 0 && listen(fd, BACKLOG) == 0)
		return fd;
	r = -errno;
	close(fd);
	return r;
}

static void set_port(struct sockaddr_storage *a, uint16_t port)
{
	if (a->ss_family == AF_INET6)
		((struct sockaddr_in6 *)a)->sin6_port = htons(port);
	else
		((struct sockaddr_in *)a)->sin_port = htons(port);
}

static int bound_port(int fd, uint16_t *port)
{
	struct sockaddr_storage a;
	socklen_t len = sizeof(a);

	if (getsockname(fd, (struct sockaddr *)&a, &len) < 0)
		return -errno;
	*port = ntohs(a.ss_family == AF_INET6 ? ((struct sockaddr_in6 *)&a)->sin6_port :
		      ((struct sockaddr_in *)&a)->sin_port);
	return 0;
}

/* The first port of [lo, hi] that is free. */
static int listen_in(struct sockaddr_storage *a, socklen_t len, uint16_t lo, uint16_t hi, bool dual)
{
	uint32_t port;
	int fd = -EADDRINUSE;

	for (port = lo; port <= hi; port++) {
		set_port(a, (uint16_t)port);
		fd = listen_at((struct sockaddr *)a, len, dual);
		if (fd >= 0 || fd != -EADDRINUSE)
			break;
	}
	return fd;
}

static int any_address(int family, struct sockaddr_storage *a, socklen_t *len)
{
	memset(a, 0, sizeof(*a));
	a->ss_family = (sa_family_t)family;
	if (family == AF_INET6) {
		((struct sockaddr_in6 *)a)->sin6_addr = in6addr_any;
		*len = sizeof(struct sockaddr_in6);
	} else {
		*len = sizeof(struct sockaddr_in);
	}
	return 0;
}

static int numeric_address(const char *text, int family, struct sockaddr_storage *a, socklen_t *len)
{
	struct addrinfo hints = { .ai_family = family, .ai_socktype = SOCK_STREAM,
				  .ai_flags = AI_NUMERICHOST | AI_PASSIVE };
	struct addrinfo *list;

	if (getaddrinfo(text, "0", &hints, &list))
		return -EINVAL;
	memcpy(a, list->ai_addr, list->ai_addrlen);
	*len = list->ai_addrlen;
	freeaddrinfo(list);
	return 0;
}

static int listen_failed(struct err *e, int code, const char *addr, uint16_t lo, uint16_t hi)
{
	const char *where = *addr ? printable(addr) : "any address";

	if (code == -EADDRINUSE && lo != hi)
		return err_set(e, code, "all ports %u-%u of %s are in use", lo, hi, where);
	if (code == -EACCES && lo < 1024)
		return err_set(e, code, "port %u of %s: ports below 1024 need privilege", lo,
			       where);
	if (code == -EADDRNOTAVAIL)
		return err_set(e, code, "%s is not an address of this host", where);
	return err_sys(e, code, "listening on %s port %u", where, lo);
}

int tcp_listen(const char *addr, int family, uint16_t lo, uint16_t hi, uint16_t *port,
	       struct err *e)
{
	struct sockaddr_storage a;
	socklen_t len;
	int fd;

	*port = 0;
	if (hi < lo)
		return err_set(e, -EINVAL, "ports %u-%u: the first is above the last", lo, hi);
	if (*addr) {
		if (numeric_address(addr, family, &a, &len) < 0)
			return err_set(e, -EINVAL, "%s is not a numeric address of the "
				       "wanted family", printable(addr));
		fd = listen_in(&a, len, lo, hi, false);
	} else {
		/* One socket for both families, or IPv4 where there is no IPv6. */
		any_address(family == AF_UNSPEC ? AF_INET6 : family, &a, &len);
		fd = listen_in(&a, len, lo, hi, family == AF_UNSPEC);
		if (family == AF_UNSPEC && (fd == -EAFNOSUPPORT || fd == -EADDRNOTAVAIL)) {
			any_address(AF_INET, &a, &len);
			fd = listen_in(&a, len, lo, hi, false);
		}
	}
	if (fd < 0)
		return listen_failed(e, fd, addr, lo, hi);
	if (bound_port(fd, port) < 0) {
		close(fd);
		return err_sys(e, -errno, "the listener's port");
	}
	return fd;
}
