// SPDX-License-Identifier: Apache-2.0
/* TCP connections: listening, looking names up, and connecting to the first address that
 * answers. */
#include "transport/tcp.h"

#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <sys/eventfd.h>

#define ADDRESSES_MAX 16
/* RFC 8305 §5: the wait for an address before the next one is tried. */
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

int net_connect_failed(const char *host, uint16_t port, int code, struct err *e)
{
	return err_set(e, code, "cannot connect to %s port %u: %s", printable(host), port,
		       net_reason(code));
}

/* ---- sockets ---- */

void net_tos_failed(int tos, int code)
{
	log_warn("type of service %d is not set: %s", tos, strerror(-code));
}

void socket_options(int fd)
{
	int yes = 1, idle = 30, interval = 10, probes = 6;

	/* Ignore failures: sockets of other families may refuse these options. */
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
	/* An IPv6 socket may carry IPv4, too. */
	if (family == AF_INET6)
		r = setsockopt(fd, IPPROTO_IPV6, IPV6_TCLASS, &tos, sizeof(tos));
	if (r)
		net_tos_failed(tos, -errno);
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

	if ((from && bind(fd, from, len) < 0) ||
	    (connect(fd, a, len) < 0 && errno != EINPROGRESS)) {
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

/* ---- looking names up ---- */

/* A name look-up, shared by the thread that performs it and the thread that waits for it. */
struct lookup {
	atomic_int users;          /* the last one frees the look-up */
	int done;                  /* eventfd: readable when the result is ready */
	char *host;
	char service[8];
	struct addrinfo *list;
	int code, error;           /* EAI_..., and errno for EAI_SYSTEM */
};

static void lookup_put(struct lookup *l)
{
	if (atomic_fetch_sub(&l->users, 1) > 1)
		return;
	if (l->list)
		freeaddrinfo(l->list);
	cleanup_close(&l->done);
	free(l->host);
	free(l);
}

static void *lookup_main(void *arg)
{
	struct addrinfo hints = { .ai_socktype = SOCK_STREAM, .ai_flags = AI_ADDRCONFIG };
	struct lookup *l = arg;
	uint64_t one = 1;

	l->code = getaddrinfo(l->host, l->service, &hints, &l->list);
	if (l->code == EAI_NONAME || l->code == EAI_ADDRFAMILY) {
		/* AI_ADDRCONFIG hides loopback addresses on hosts without others. */
		hints.ai_flags = 0;
		l->code = getaddrinfo(l->host, l->service, &hints, &l->list);
	}
	l->error = errno;
	if (l->code)
		l->list = NULL;

	/* Not eventfd_write(), which ThreadSanitizer does not see. */
	if (write(l->done, &one, sizeof(one)) < 0)
		log_debug("eventfd: %s", strerror(errno));
	lookup_put(l);
	return NULL;
}

/* The addresses of host, for freeaddrinfo(). -ECANCELED: stop (a descriptor or -1) was readable
 * first; or another negative errno; with text. The resolver cannot be interrupted, so it runs in a
 * thread; a cancelled look-up abandons that thread. */
static int lookup_name(const char *host, uint16_t port, int stop, struct addrinfo **list,
		       struct err *e)
{
	struct lookup *l = calloc(1, sizeof(*l));
	struct pollfd p[] = { { .events = POLLIN }, { .fd = stop, .events = POLLIN } };
	pthread_t thread;
	int n, rc = -ENOMEM;
	uint64_t ready;

	if (!l)
		return err_sys(e, rc, "looking up %s", printable(host));
	atomic_store(&l->users, 2);
	p[0].fd = l->done = eventfd(0, EFD_CLOEXEC);
	l->host = strdup(host);
	snprintf(l->service, sizeof(l->service), "%u", port);

	if (l->done >= 0 && l->host)
		rc = thread_start(&thread, "lookup", lookup_main, l);
	if (rc == 0) {
		pthread_detach(thread);
		do {
			n = poll(p, 2, -1);
		} while (n < 0 && errno == EINTR);
		rc = n < 0 ? -errno : !p[0].revents ? -ECANCELED :
		     read(l->done, &ready, sizeof(ready)) < 0 ? -errno : 0;
	} else {
		lookup_put(l); /* instead of the thread, which did not start */
	}

	if (rc < 0)
		err_sys(e, rc, "looking up %s", printable(host));
	else if (l->code == EAI_SYSTEM)
		rc = err_sys(e, -l->error, "looking up %s", printable(host));
	else if (l->code)
		rc = err_set(e, l->code == EAI_AGAIN ? -EAGAIN : -EHOSTUNREACH,
			     "host %s is not known: %s; check its spelling and the name server",
			     printable(host), gai_strerror(l->code));
	else
		*list = steal_ptr(&l->list);
	lookup_put(l);
	return rc;
}

/* ---- connecting to a name ---- */

/* Keep the resolver's order, but alternate the families (RFC 8305 §4): a broken family then costs
 * one delay. Returns the number of addresses. */
static int race_interleave(struct addrinfo *list, struct addrinfo **out, int max)
{
	struct addrinfo *family[2][ADDRESSES_MAX];
	int have[2] = { 0 }, n = 0;

	for (struct addrinfo *a = list; a; a = a->ai_next) {
		int other = a->ai_family != list->ai_family;

		if (have[other] < max)
			family[other][have[other]++] = a;
	}
	for (int i = 0; n < max && (i < have[0] || i < have[1]); i++) {
		if (i < have[0])
			out[n++] = family[0][i];
		if (i < have[1] && n < max)
			out[n++] = family[1][i];
	}
	return n;
}

struct race {
	struct addrinfo *to[ADDRESSES_MAX];
	struct pollfd fds[1 + ADDRESSES_MAX]; /* stop, then one for each address */
	int n;          /* addresses */
	int winner;     /* the index of the address that answered */
	int begun;      /* attempts */
	int open;       /* attempts that have not ended */
	int last_error;
};

/* The first connection that succeeded, or -1. */
static int race_winner(struct race *r)
{
	for (int i = 1; i <= r->begun; i++) {
		int error;

		if (r->fds[i].fd < 0 || !r->fds[i].revents)
			continue;
		error = connect_result(r->fds[i].fd);
		if (!error) {
			r->winner = i - 1;
			return steal_fd(&r->fds[i].fd);
		}
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
			struct addrinfo *a = r->to[r->begun];
			struct pollfd *p = &r->fds[++r->begun];
			int error = connect_begin(a->ai_addr, a->ai_addrlen, NULL, &p->fd);

			p->events = POLLOUT;
			if (error < 0)
				r->last_error = error;
			else
				r->open++;
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

static int by_address(const void *a, const void *b)
{
	const struct addrinfo *x = *(struct addrinfo *const *)a, *y = *(struct addrinfo *const *)b;
	size_t n = x->ai_addrlen < y->ai_addrlen ? x->ai_addrlen : y->ai_addrlen;

	return x->ai_family != y->ai_family ? x->ai_family - y->ai_family :
	       memcmp(x->ai_addr, y->ai_addr, n);
}

/* Begin with the address of this turn. */
static void race_turn(struct race *r, unsigned turn)
{
	struct addrinfo *sorted[ADDRESSES_MAX];

	qsort(r->to, (size_t)r->n, sizeof(*r->to), by_address);
	memcpy(sorted, r->to, sizeof(sorted));
	for (int i = 0; i < r->n; i++)
		r->to[i] = sorted[((unsigned)i + turn - 1) % (unsigned)r->n];
}

int tcp_connect(const char *host, uint16_t port, int stop, int timeout_ms, struct err *e)
{
	return tcp_connect_turn(host, port, 0, stop, timeout_ms, e);
}

int tcp_connect_turn(const char *host, uint16_t port, unsigned turn, int stop, int timeout_ms,
		     struct err *e)
{
	char text[INET6_ADDRSTRLEN];
	struct race race = { .last_error = -EHOSTUNREACH,
			     .fds[0] = { .fd = stop, .events = POLLIN } };
	struct addrinfo *list = NULL;
	int fd, r = lookup_name(host, port, stop, &list, e);

	if (r < 0)
		return r;

	race.n = race_interleave(list, race.to, ADDRESSES_MAX);
	if (turn && race.n)
		race_turn(&race, turn);
	fd = race_run(&race, timeout_ms);
	if (fd >= 0 && turn && race.winner &&
	    !getnameinfo(race.to[0]->ai_addr, race.to[0]->ai_addrlen, text, sizeof(text), NULL, 0,
			 NI_NUMERICHOST))
		log_warn("%s: %s does not answer: another address of this name is used",
			 printable(host), text);
	freeaddrinfo(list);
	if (fd < 0)
		return net_connect_failed(host, port, race.last_error, e);

	r = set_nonblock(fd, false);
	if (r < 0) {
		close(fd);
		return err_sys(e, r, "the connection to %s port %u", printable(host), port);
	}
	return fd;
}

/* ---- listening ---- */

/* Listen on the first free port of [lo, hi]. */
static int tcp_listen_in(struct sockaddr_storage *a, socklen_t len, uint16_t lo, uint16_t hi,
			 bool dual)
{
	int yes = 1, only = !dual, r = -EADDRINUSE;

	for (uint32_t port = lo; port <= hi && r == -EADDRINUSE; port++) {
		int fd = socket(a->ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0);

		if (fd < 0)
			return -errno;
		/* A restarted server can bind its port although old connections linger. */
		(void)setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof(yes));
		if (a->ss_family == AF_INET6)
			(void)setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &only, sizeof(only));
		address_set_port(a, (uint16_t)port);
		if (!bind(fd, (struct sockaddr *)a, len) && !listen(fd, BACKLOG))
			return fd;
		r = -errno;
		close(fd);
	}
	return r;
}

static int tcp_listen_failed(struct err *e, int code, const char *addr, uint16_t lo, uint16_t hi)
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

/* The length of *a; 0: text is not a numeric address of the family. */
static socklen_t tcp_numeric_address(const char *text, int family, struct sockaddr_storage *a)
{
	struct addrinfo hints = { .ai_family = family, .ai_socktype = SOCK_STREAM,
				  .ai_flags = AI_NUMERICHOST | AI_PASSIVE };
	struct addrinfo *list;
	socklen_t len;

	if (getaddrinfo(text, "0", &hints, &list))
		return 0;
	len = list->ai_addrlen;
	memcpy(a, list->ai_addr, len);
	freeaddrinfo(list);
	return len;
}

int tcp_listen(const char *addr, int family, uint16_t lo, uint16_t hi, uint16_t *port,
	       struct err *e)
{
	struct sockaddr_storage a = { .ss_family = AF_INET6 }; /* any */
	socklen_t len = sizeof(struct sockaddr_in6);
	bool dual = !*addr && family == AF_UNSPEC;
	int fd;

	*port = 0;
	if (hi < lo)
		return err_set(e, -EINVAL, "ports %u-%u: the first is above the last", lo, hi);

	if (*addr)
		len = tcp_numeric_address(addr, family, &a);
	else if (family != AF_UNSPEC)
		a.ss_family = (sa_family_t)family;
	if (!len)
		return err_set(e, -EINVAL, "%s is not a numeric address of the wanted family",
			       printable(addr));

	/* One socket for both families, or IPv4 alone on hosts without IPv6. */
	fd = tcp_listen_in(&a, len, lo, hi, dual);
	if (dual && (fd == -EAFNOSUPPORT || fd == -EADDRNOTAVAIL)) {
		a = (struct sockaddr_storage){ .ss_family = AF_INET };
		fd = tcp_listen_in(&a, len, lo, hi, false);
	}
	if (fd < 0)
		return tcp_listen_failed(e, fd, addr, lo, hi);

	len = sizeof(a);
	if (getsockname(fd, (struct sockaddr *)&a, &len) < 0) {
		close(fd);
		return err_sys(e, -errno, "the listener's port");
	}
	*port = ntohs(a.ss_family == AF_INET6 ? ((struct sockaddr_in6 *)&a)->sin6_port :
		      ((struct sockaddr_in *)&a)->sin_port);
	return fd;
}
