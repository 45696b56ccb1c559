// SPDX-License-Identifier: Apache-2.0
/* Opening data channels: each side proves over a fresh connection that it knows the
 * session's token, before anything else crosses it. */
#include "transport/connect.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Connections that have not proved themselves: so many at a time, so long each. */
#define PENDING_MAX 64
#define PENDING_MS 5000
/* When all places are taken the oldest yields after this, so that a crowd of silent
 * strangers costs an honest channel little. */
#define PENDING_YIELD_MS 500
/* A peer that answers nothing for so long takes its channel down; others go on. */
#define USER_TIMEOUT_MS 120000

static void channel_options(int fd)
{
	unsigned ms = USER_TIMEOUT_MS;

	socket_options(fd);
	(void)setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &ms, sizeof(ms));
}

static uint64_t deadline(int timeout_ms)
{
	/* "Never" is a month; nobody opens channels that long. */
	return now_ns() + (timeout_ms < 0 ? 30ull * 86400 * 1000 : (uint64_t)timeout_ms) * 1000000;
}

static void close_all(int *fds, uint32_t n)
{
	uint32_t i;

	for (i = 0; i < n; i++)
		if (fds[i] >= 0)
			close(steal_fd(&fds[i]));
}

/* ---- client ---- */

struct opening {
	bool connected, done;
	uint8_t reply[HELLO_BYTES];
	size_t have;
};

static int say_hello(int fd, const struct channel_auth *a, uint16_t channel)
{
	uint8_t hello[HELLO_BYTES];
	ssize_t n;
	int r = connect_result(fd);

	if (!r)
		r = channel_hello_put(hello, false, a, channel, 0);
	if (r < 0)
		return r;
	n = send(fd, hello, sizeof(hello), MSG_NOSIGNAL);
	if (n < 0)
		return -errno;
	return n == HELLO_BYTES ? 0 : -EIO; /* a fresh socket has room for it */
}

static int hear_reply(int fd, struct opening *o, const struct channel_auth *a, uint16_t channel,
		      const char **why)
{
	ssize_t n = recv(fd, o->reply + o->have, HELLO_BYTES - o->have, 0);
	uint16_t number;
	uint32_t key; /* means nothing here */

	if (n < 0)
		return errno == EAGAIN || errno == EINTR ? 0 : -errno;
	if (n == 0) {
		*why = "the server closed it before it proved itself: it does not know this "
		       "session, or takes us for a stranger";
		return -ECONNRESET;
	}
	o->have += (size_t)n;
	if (o->have < HELLO_BYTES)
		return 0;
	*why = channel_hello_check(o->reply, true, a, &number, &key);
	if (!*why && number != channel)
		*why = "it answers for another channel";
	if (*why)
		return -EPROTO;
	o->done = true;
	return 0;
}

static int opening_step(int fd, struct opening *o, const struct channel_auth *a, uint16_t channel,
			const char **why)
{
	int r;

	if (o->connected)
		return hear_reply(fd, o, a, channel, why);
	r = say_hello(fd, a, channel);
	o->connected = r == 0;
	return r;
}

/* Wait for all of them and let each take its next step. *bad: the one that failed. */
static int open_all(const struct channel_auth *a, uint16_t first, uint16_t n, const int *fds,
		    struct opening *o, int stop, int timeout_ms, uint16_t *bad, const char **why)
{
	CLEANUP_FREE struct pollfd *p = calloc(n + 1u, sizeof(*p));
	uint64_t end = deadline(timeout_ms);
	uint16_t i, left = n;

	if (!p)
		return -ENOMEM;
	p[n] = (struct pollfd){ .fd = stop, .events = POLLIN };
	while (left) {
		int r;

		for (i = 0; i < n; i++) {
			p[i].fd = o[i].done ? -1 : fds[i];
			p[i].events = o[i].connected ? POLLIN : POLLOUT;
			if (!o[i].done)
				*bad = i;
		}
		r = poll(p, n + 1u, ms_to(end));
		if (r == 0)
			return -ETIMEDOUT;
		if (r > 0 && p[n].revents)
			return -ECANCELED;
		if (r < 0 && errno != EINTR)
			return -errno;
		for (i = 0; r > 0 && i < n; i++) {
			int step;

			if (p[i].fd < 0 || !p[i].revents)
				continue;
			*bad = i;
			step = opening_step(fds[i], &o[i], a, (uint16_t)(first + i), why);
			if (step < 0)
				return step;
			left -= o[i].done;
		}
	}
	return 0;
}

int tcp_channels_connect(const struct sockaddr_storage *addr, socklen_t len,
			 const struct sockaddr_storage *from, const struct channel_auth *a,
			 uint16_t first, uint16_t n, int *fds, int stop, int timeout_ms,
			 struct err *e)
{
	CLEANUP_FREE struct opening *o = calloc(n, sizeof(*o));
	char text[ADDRESS_TEXT];
	const char *why = NULL;
	uint16_t i, bad = 0;
	int r = o ? 0 : -ENOMEM;

	memset(fds, -1, n * sizeof(*fds));
	for (i = 0; !r && i < n; i++) {
		bad = i;
		r = connect_begin((const struct sockaddr *)addr, len,
				  (const struct sockaddr *)from, &fds[i]);
		if (!r)
			channel_options(fds[i]);
	}
	if (!r)
		r = open_all(a, first, n, fds, o, stop, timeout_ms, &bad, &why);
	if (!r)
		return 0;
	close_all(fds, n);
	return err_set(e, r, "data channel %u to %s: %s", first + bad,
		       address_text(addr, len, text), why ? why : net_reason(r));
}

/* ---- server ---- */

struct guest {
	int fd;
	uint64_t since;
	uint8_t hello[HELLO_BYTES];
	size_t have;
	char from[ADDRESS_TEXT];
};

struct door {
	const struct channel_auth *auth;
	uint16_t first, n, left;
	int *fds;
	struct guest guests[PENDING_MAX];
	uint32_t nguests;       /* the oldest first */
};

static void guest_leaves(struct door *d, uint32_t i, const char *why)
{
	struct guest *g = &d->guests[i];

	if (why)
		log_warn("data channel from %s refused: %s", g->from, why);
	if (g->fd >= 0)
		close(g->fd);
	d->nguests--;
	memmove(g, g + 1, (d->nguests - i) * sizeof(*g));
}

static const char *admit(struct door *d, struct guest *g)
{
	uint8_t reply[HELLO_BYTES];
	uint16_t channel;
	uint32_t key; /* means nothing here */
	const char *why = channel_hello_check(g->hello, false, d->auth, &channel, &key);

	if (why)
		return why;
	if (channel < d->first || channel - d->first >= d->n)
		return "its channel number is not of this path";
	if (d->fds[channel - d->first] >= 0)
		return "its channel number has been used";
	if (channel_hello_put(reply, true, d->auth, channel, 0) < 0)
		return "our proof cannot be computed";
	if (send(g->fd, reply, sizeof(reply), MSG_NOSIGNAL) != HELLO_BYTES)
		return "it went away";
	d->fds[channel - d->first] = steal_fd(&g->fd);
	d->left--;
	return NULL;
}

/* Guest i has something to say. */
static void hear_guest(struct door *d, uint32_t i)
{
	struct guest *g = &d->guests[i];
	ssize_t n = recv(g->fd, g->hello + g->have, HELLO_BYTES - g->have, MSG_DONTWAIT);

	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (n <= 0) {
		guest_leaves(d, i, "it closed without a proof");
		return;
	}
	g->have += (size_t)n;
	if (g->have >= 4 && get_be32(g->hello) != HELLO_MAGIC)
		guest_leaves(d, i, "it does not speak this protocol");
	else if (g->have == HELLO_BYTES)
		guest_leaves(d, i, admit(d, g));
}

static void let_in(struct door *d, int lfd)
{
	struct sockaddr_storage a;
	socklen_t len = sizeof(a);
	struct guest *g = &d->guests[d->nguests];
	int fd = accept4(lfd, (struct sockaddr *)&a, &len, SOCK_NONBLOCK | SOCK_CLOEXEC);

	if (fd < 0)
		return;          /* it went again, or will be there next time */
	if (FAULT("accept", 0) < 0) {
		close(fd);
		return;
	}
	channel_options(fd);
	memset(g, 0, sizeof(*g));
	g->fd = fd;
	g->since = now_ns();
	address_text(&a, len, g->from);
	d->nguests++;
}

static uint64_t age_ms(const struct guest *g)
{
	return (now_ns() - g->since) / 1000000;
}

/* Those who have waited too long leave; they came in order, so they go in order. True
 * when another may come in. */
static bool make_room(struct door *d)
{
	while (d->nguests && age_ms(&d->guests[0]) >= PENDING_MS)
		guest_leaves(d, 0, "it proved nothing in time");
	if (d->nguests == PENDING_MAX && age_ms(&d->guests[0]) >= PENDING_YIELD_MS)
		guest_leaves(d, 0, "it proved nothing, and others wait");
	return d->nguests < PENDING_MAX;
}

/* Milliseconds until make_room may change something. */
static int next_change(const struct door *d, int left)
{
	uint64_t limit = d->nguests == PENDING_MAX ? PENDING_YIELD_MS : PENDING_MS;
	uint64_t age;

	if (!d->nguests)
		return left;
	age = age_ms(&d->guests[0]);
	if (age >= limit)
		return 0;
	return limit - age + 1 < (uint64_t)left ? (int)(limit - age + 1) : left;
}

static int door_round(struct door *d, int lfd, int stop, int left)
{
	struct pollfd p[2 + PENDING_MAX];
	bool room = make_room(d);
	uint32_t i, n = d->nguests;
	int r;

	p[0] = (struct pollfd){ .fd = stop, .events = POLLIN };
	p[1] = (struct pollfd){ .fd = room ? lfd : -1, .events = POLLIN };
	for (i = 0; i < n; i++)
		p[2 + i] = (struct pollfd){ .fd = d->guests[i].fd, .events = POLLIN };
	r = poll(p, 2 + n, next_change(d, left));
	if (r < 0)
		return errno == EINTR ? 0 : -errno;
	if (p[0].revents)
		return -ECANCELED;
	/* From the last to the first: leaving moves only those behind. */
	for (i = n; i-- > 0;)
		if (p[2 + i].revents)
			hear_guest(d, i);
	if (p[1].revents & (POLLERR | POLLNVAL))
		return -EBADF;
	if (p[1].revents)
		let_in(d, lfd);
	return 0;
}

int tcp_channels_accept(int lfd, const struct channel_auth *a, uint16_t first, uint16_t n,
			int *fds, int stop, int timeout_ms, struct err *e)
{
	CLEANUP_FREE struct door *d = calloc(1, sizeof(*d));
	uint64_t end = deadline(timeout_ms);
	int r = d ? 0 : -ENOMEM;

	memset(fds, -1, n * sizeof(*fds));
	if (d)
		*d = (struct door){ .auth = a, .first = first, .n = n, .left = n, .fds = fds };
	/* accept4 must not sleep when a connection has gone again. */
	if (!r)
		r = set_nonblock(lfd, true);
	while (!r && d->left) {
		int left = ms_to(end);

		r = left ? door_round(d, lfd, stop, left) : -ETIMEDOUT;
	}
	while (d && d->nguests)
		guest_leaves(d, 0, NULL);
	if (!r)
		return 0;
	close_all(fds, n);
	if (r == -ETIMEDOUT)
		return err_set(e, r, "only %u of %u data channels came within %d ms; a firewall "
			       "may close the data ports", n - d->left, n, timeout_ms);
	return err_sys(e, r, "waiting for %u data channels", n);
}
