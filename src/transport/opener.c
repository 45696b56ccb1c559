// SPDX-License-Identifier: Apache-2.0
/* The endpoint of a TCP path, and its opener. On a new connection both sides first prove that they
 * know the session's token. A path starts with some channels; a thread opens the others during the
 * transfer. */
#include "transport/tcp.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/eventfd.h>

/* Connections that have not proved the session: their number, and the time limit of each. */
#define PENDING_MAX 64
#define PENDING_MS 5000
/* When PENDING_MAX connections are pending, the oldest is closed after this time, so that many
 * silent connections delay a real channel only a little. */
#define PENDING_YIELD_MS 500
/* A channel goes down when its peer acknowledges nothing for this long; the others continue. */
#define USER_TIMEOUT_MS 120000
/* During a transfer the listener is closed after this many rejected connections. */
#define UNPROVEN_MAX 64
/* Pause after accept4 found no free descriptor or memory. */
#define NO_ROOM_US 50000
/* Time limit of a connection attempt during the transfer. */
#define DIAL_MS 10000

static void opener_socket_options(int fd)
{
	unsigned ms = USER_TIMEOUT_MS;

	socket_options(fd);
	(void)setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &ms, sizeof(ms));
}

/* A connection without a proof of the session yet. */
struct fresh {
	int fd;
	bool connected;          /* client: its hello is sent */
	uint16_t channel;        /* client: relative to the opener's first channel */
	uint64_t since;
	uint8_t hello[HELLO_BYTES]; /* the peer's */
	size_t have;
	char from[80];           /* server */
};

struct opener {
	struct opener_config cfg;
	int lfd;                 /* -1: a client */
	struct fresh fresh[CHANNELS_MAX]; /* a server uses PENDING_MAX of them */
	uint32_t nfresh;         /* the oldest first */
	int fds[CHANNELS_MAX];   /* open channels until opener_take(); -1 */
	bool used[CHANNELS_MAX]; /* open or being opened */
	uint16_t came;           /* channels that have opened */
	uint64_t came_ns;        /* when the last one opened */
	unsigned unproven;       /* connections that were rejected */

	/* During the transfer: */
	struct path *path;
	pthread_t thread;
	bool running;
	int wake;                /* an eventfd */
	atomic_bool over;
	_Atomic uint16_t wanted; /* channels altogether */
	atomic_bool refused;     /* no further attempts */
};

static uint64_t fresh_age_ms(const struct fresh *f)
{
	return (now_ns() - f->since) / 1000000;
}

static void opener_forget(struct opener *o, uint32_t i)
{
	struct fresh *f = &o->fresh[i];

	cleanup_close(&f->fd);
	o->nfresh--;
	memmove(f, f + 1, (o->nfresh - i) * sizeof(*f));
}

/* Fresh connection i has proved the session. */
static void opener_channel_came(struct opener *o, uint32_t i, uint16_t channel)
{
	int fd = steal_fd(&o->fresh[i].fd);

	opener_forget(o, i);
	o->used[channel] = true;
	o->came++;
	o->came_ns = now_ns();
	if (o->path)
		tcp_path_add(o->path, channel, fd);
	else
		o->fds[channel] = fd;
}

/* ---- client ---- */

/* Connect until n channels are open or being opened. 0 or a negative errno for channel *bad. */
static int opener_dial(struct opener *o, uint16_t n, uint16_t *bad)
{
	const struct opener_config *c = &o->cfg;
	const struct sockaddr *from = c->from.ss_family == AF_UNSPEC ? NULL :
				      (const struct sockaddr *)&c->from;

	for (uint16_t i = 0; i < c->n && o->came + o->nfresh < n; i++) {
		struct fresh *f = &o->fresh[o->nfresh];
		int r;

		if (o->used[i])
			continue;
		*bad = i;
		*f = (struct fresh){ .channel = i, .since = now_ns() };
		r = connect_begin((const struct sockaddr *)&c->to, c->to_len, from, &f->fd);
		if (r)
			return r;
		opener_socket_options(f->fd);
		if (c->tos >= 0)
			socket_tos(f->fd, c->tos);
		o->used[i] = true;
		o->nfresh++;
	}
	return 0;
}

/* Read the peer's hello. 1: complete; 0: not yet; -EPIPE: closed; or another negative errno. */
static int opener_receive(struct fresh *f)
{
	ssize_t n = recv(f->fd, f->hello + f->have, HELLO_BYTES - f->have, MSG_DONTWAIT);

	if (n < 0)
		return errno == EAGAIN || errno == EINTR ? 0 : -errno;
	f->have += (size_t)n;
	return n == 0 ? -EPIPE : f->have == HELLO_BYTES;
}

static int opener_send_hello(const struct opener *o, struct fresh *f)
{
	uint8_t hello[HELLO_BYTES];
	ssize_t n;
	int r = connect_result(f->fd);

	if (!r)
		r = channel_hello_put(hello, false, o->cfg.auth,
				      (uint16_t)(o->cfg.first + f->channel), 0);
	if (r < 0)
		return r;
	n = send(f->fd, hello, sizeof(hello), MSG_NOSIGNAL);
	if (n < 0)
		return -errno;
	f->connected = true;
	return n == HELLO_BYTES ? 0 : -EIO; /* a new socket has room for the hello */
}

/* 1: the server has proved the session; 0: not yet; or a negative errno. */
static int opener_read_reply(const struct opener *o, struct fresh *f, const char **why)
{
	int r = opener_receive(f);
	uint16_t number;
	uint32_t key; /* without meaning here */

	if (r == -EPIPE) {
		*why = "the server closed the connection before its proof: it does not know "
		       "this session, or rejects our proof";
		return -ECONNRESET;
	}
	if (r <= 0)
		return r;
	*why = channel_hello_check(f->hello, true, o->cfg.auth, &number, &key);
	if (!*why && number != o->cfg.first + f->channel)
		*why = CHANNEL_WHY;
	return *why ? -EPROTO : 1;
}

/* ---- server ---- */

static void opener_reject(struct opener *o, uint32_t i, const char *why)
{
	log_warn("data channel from %s refused: %s", o->fresh[i].from, why);
	o->unproven++;
	opener_forget(o, i);
}

/* NULL with *channel, counted from the opener's first; or the reason to reject the connection. */
static const char *opener_admit(struct opener *o, struct fresh *f, uint16_t *channel)
{
	uint8_t reply[HELLO_BYTES];
	uint16_t number;
	uint32_t key; /* without meaning here */
	const char *why = channel_hello_check(f->hello, false, o->cfg.auth, &number, &key);

	if (why)
		return why;

	if (number < o->cfg.first || number - o->cfg.first >= o->cfg.n)
		return "its channel number does not belong to this path";
	*channel = (uint16_t)(number - o->cfg.first);
	if (o->used[*channel])
		return "its channel number has been used";
	if (channel_hello_put(reply, true, o->cfg.auth, number, 0) < 0)
		return "our proof cannot be computed";
	if (send(f->fd, reply, sizeof(reply), MSG_NOSIGNAL) != HELLO_BYTES)
		return "it closed the connection";
	return NULL;
}

/* Connection i is readable. */
static void opener_read_hello(struct opener *o, uint32_t i)
{
	struct fresh *f = &o->fresh[i];
	int r = opener_receive(f);
	uint16_t channel = 0;
	const char *why = NULL;

	if (r < 0)
		why = "it closed without a proof";
	else if (f->have >= 4 && get_be32(f->hello) != HELLO_MAGIC)
		why = PROTOCOL_WHY;
	else if (r > 0)
		why = opener_admit(o, f, &channel);
	if (why)
		opener_reject(o, i, why);
	else if (r > 0)
		opener_channel_came(o, i, channel);
}

static void opener_accept(struct opener *o)
{
	struct sockaddr_storage a;
	socklen_t len = sizeof(a);
	struct fresh *f = &o->fresh[o->nfresh];
	int fd = accept4(o->lfd, (struct sockaddr *)&a, &len, SOCK_NONBLOCK | SOCK_CLOEXEC);

	if (fd < 0) {
		/* Without a free descriptor or memory the connection stays in the backlog. */
		if (errno == EMFILE || errno == ENFILE || errno == ENOMEM || errno == ENOBUFS)
			usleep(NO_ROOM_US);
		return;
	}
	if (FAULT("accept", 0) < 0) {
		close(fd);
		return;
	}
	opener_socket_options(fd);
	*f = (struct fresh){ .fd = fd, .since = now_ns() };
	sockaddr_text(&a, f->from);
	o->nfresh++;
}

/* Close connections that are too old; the oldest is first. True if there is room for another. */
static bool opener_make_room(struct opener *o)
{
	while (o->nfresh && fresh_age_ms(&o->fresh[0]) >= PENDING_MS)
		opener_reject(o, 0, "it sent no proof of the session in time");
	if (o->nfresh == PENDING_MAX && fresh_age_ms(&o->fresh[0]) >= PENDING_YIELD_MS)
		opener_reject(o, 0, "it sent no proof of the session, and other connections wait");
	return o->nfresh < PENDING_MAX;
}

/* ---- both ---- */

/* Wait at most left ms (-1: for ever) for a connection or fd (-1: none), and serve the ready
 * connections. 0; 1: fd is readable; or a negative errno: the client's connection *bad failed, or
 * (*bad is UINT16_MAX) poll did. */
static int opener_step(struct opener *o, int fd, int left, uint16_t *bad, const char **why)
{
	struct pollfd p[2 + CHANNELS_MAX];
	bool room = o->lfd >= 0 && opener_make_room(o);
	uint64_t limit = o->nfresh == PENDING_MAX ? PENDING_YIELD_MS : PENDING_MS;
	uint32_t n = o->nfresh;
	int r;

	*bad = UINT16_MAX;
	p[0] = (struct pollfd){ .fd = fd, .events = POLLIN };
	p[1] = (struct pollfd){ .fd = room ? o->lfd : -1, .events = POLLIN };
	for (uint32_t i = 0; i < n; i++)
		p[2 + i] = (struct pollfd){
			.fd = o->fresh[i].fd,
			.events = o->lfd >= 0 || o->fresh[i].connected ? POLLIN : POLLOUT,
		};

	/* Sleep no longer than until opener_make_room() closes a connection. */
	if (o->lfd >= 0 && n) {
		int wait = ms_to(o->fresh[0].since + limit * 1000000);

		left = left < 0 || wait < left ? wait : left;
	}
	r = poll(p, 2 + n, left);
	if (r < 0)
		return errno == EINTR ? 0 : -errno;

	/* From the last to the first: a removal moves only the connections behind it. */
	for (uint32_t i = n; i-- > 0;) {
		struct fresh *f = &o->fresh[i];

		if (!p[2 + i].revents)
			continue;
		if (o->lfd >= 0) {
			opener_read_hello(o, i);
			continue;
		}
		*bad = f->channel;
		r = f->connected ? opener_read_reply(o, f, why) : opener_send_hello(o, f);
		if (r < 0)
			return r;
		if (r > 0)
			opener_channel_came(o, i, f->channel);
	}

	if (p[1].revents & (POLLERR | POLLNVAL))
		return -EBADF;
	if (p[1].revents)
		opener_accept(o);
	return p[0].revents != 0;
}

struct opener *opener_new(const struct opener_config *c, int lfd, struct err *e)
{
	struct opener *o = c->n <= CHANNELS_MAX ? calloc(1, sizeof(*o)) : NULL;

	if (!o) {
		err_sys(e, c->n > CHANNELS_MAX ? -EINVAL : -ENOMEM, "data channels");
		return NULL;
	}
	o->cfg = *c;
	o->lfd = lfd;
	o->wake = -1;
	memset(o->fds, -1, sizeof(o->fds));
	/* accept4 must not sleep when the peer has closed the connection again. */
	if (lfd >= 0)
		set_nonblock(lfd, true);
	return o;
}

static int opener_failed(const struct opener *o, int r, uint16_t want, uint16_t bad,
			 const char *why, int timeout_ms, struct err *e)
{
	char text[80];

	if (o->lfd < 0)
		return err_set(e, r, "data channel %u to %s: %s", o->cfg.first + bad,
			       sockaddr_text(&o->cfg.to, text), why ? why : net_reason(r));
	if (r == -ETIMEDOUT)
		return err_set(e, r, "only %u of %u data channel%s opened within %d ms; a firewall "
			       "may close the data ports", o->came, want, plural(want), timeout_ms);
	return err_sys(e, r, "waiting for %u data channel%s", want, plural(want));
}

/* Client: drop this channel, and try no others. */
static void opener_give_up(struct opener *o, uint16_t channel, const char *why)
{
	for (uint32_t i = o->nfresh; i-- > 0;)
		if (o->fresh[i].channel == channel)
			opener_forget(o, i);
	o->used[channel] = false;
	if (!atomic_exchange(&o->refused, true))
		log_at(o->path ? LOG_LV_INFO : LOG_LV_WARN,
		       "no more data channels can be opened: %s", why);
}

/* Client: the path can begin without the failed channel. A wrong proof is always fatal, and one
 * channel must remain. */
static bool opener_tolerates(const struct opener *o, int error)
{
	return o->cfg.patience_ms >= 0 && o->came + o->nfresh > 1 && error != -EPROTO &&
	       error != -ECANCELED && error != -ETIMEDOUT;
}

int opener_first(struct opener *o, uint16_t want, int stop, int timeout_ms, struct err *e)
{
	uint64_t end = ns_after(timeout_ms);
	const char *why = NULL;
	uint16_t bad = 0;
	int r = o->lfd < 0 ? opener_dial(o, want, &bad) : 0;

	if (r && opener_tolerates(o, r)) {
		opener_give_up(o, bad, net_reason(r));
		r = 0;
	}

	while (!r && o->came < want) {
		int left = ms_to(end);

		if (o->came && o->cfg.patience_ms >= 0) {
			int patience = ms_to(o->came_ns + (uint64_t)o->cfg.patience_ms * 1000000);

			if (!patience || (o->lfd < 0 && !o->nfresh))
				break; /* begin without the missing ones */
			left = patience < left ? patience : left;
		}
		r = ms_to(end) ? opener_step(o, stop, left, &bad, &why) : -ETIMEDOUT;
		if (r > 0)
			r = -ECANCELED;
		if (r < 0 && bad != UINT16_MAX && opener_tolerates(o, r)) {
			opener_give_up(o, bad, why ? why : net_reason(r));
			why = NULL;
			r = 0;
		}
	}

	if (o->lfd < 0 && o->nfresh && (r == -ETIMEDOUT || bad == UINT16_MAX))
		bad = o->fresh[o->nfresh - 1].channel;
	atomic_store(&o->wanted, want);
	return r ? opener_failed(o, r, want, bad, why, timeout_ms, e) : 0;
}

int opener_take(struct opener *o, uint16_t channel)
{
	return steal_fd(&o->fds[channel]);
}

/* ---- during the transfer ---- */

/* False: poll failed, end the thread. */
static bool opener_client_round(struct opener *o)
{
	const char *why = NULL;
	uint16_t bad = 0;
	uint64_t drop;
	int left = o->nfresh ? ms_to(o->fresh[0].since + DIAL_MS * 1000000ull) : -1;
	int r = opener_step(o, o->wake, left, &bad, &why);

	if (r > 0)
		(void)!read(o->wake, &drop, sizeof(drop));
	if (r < 0 && bad == UINT16_MAX)
		return false;
	if (r < 0)
		opener_give_up(o, bad, why ? why : net_reason(r));
	if (o->nfresh && fresh_age_ms(&o->fresh[0]) >= DIAL_MS)
		opener_give_up(o, o->fresh[0].channel, net_reason(-ETIMEDOUT));
	if (!atomic_load(&o->over) && !atomic_load(&o->refused)) {
		r = opener_dial(o, atomic_load(&o->wanted), &bad);
		if (r)
			opener_give_up(o, bad, net_reason(r));
	}
	return true;
}

/* Milliseconds that the listener stays open without another channel; -1: as long as the path. */
static int opener_listen_ms(const struct opener *o)
{
	return o->cfg.listen_ms < 0 ? -1 :
	       ms_to(o->came_ns + (uint64_t)o->cfg.listen_ms * 1000000);
}

static void *opener_main(void *arg)
{
	struct opener *o = arg;
	const char *why;
	uint16_t bad;

	if (o->lfd < 0) {
		while (!atomic_load(&o->over) && opener_client_round(o))
			;
	} else {
		while (!atomic_load(&o->over) && o->came < o->cfg.n &&
		       o->unproven < UNPROVEN_MAX && opener_listen_ms(o) &&
		       opener_step(o, o->wake, opener_listen_ms(o), &bad, &why) >= 0)
			;
	}
	if (o->unproven >= UNPROVEN_MAX)
		log_warn("the data port is closed after %u connection%s without a proof",
			 o->unproven, plural(o->unproven));
	atomic_store(&o->refused, true);
	while (o->nfresh)
		opener_forget(o, 0);
	cleanup_close(&o->lfd);
	return NULL;
}

int opener_go_on(struct opener *o, struct path *path)
{
	int r;

	o->path = path;
	o->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	r = o->wake < 0 ? -errno : thread_start(&o->thread, "opener", opener_main, o);
	o->running = !r;
	if (r)
		cleanup_close(&o->lfd);
	return r;
}

void opener_want(struct opener *o, uint16_t n)
{
	atomic_store(&o->wanted, n);
	if (eventfd_write(o->wake, 1) < 0)
		log_debug("eventfd: %s", strerror(errno));
}

bool opener_refused(const struct opener *o)
{
	return atomic_load(&o->refused);
}

void opener_free(struct opener *o)
{
	if (!o)
		return;
	atomic_store(&o->over, true);
	if (o->running) {
		opener_want(o, 0);
		pthread_join(o->thread, NULL);
	}
	while (o->nfresh)
		opener_forget(o, 0);
	for (uint16_t i = 0; i < CHANNELS_MAX; i++)
		cleanup_close(&o->fds[i]);
	cleanup_close(&o->wake);
	cleanup_close(&o->lfd);
	free(o);
}

/* ---- the endpoint ---- */

struct tcp_endpoint {
	struct endpoint ep;
	struct endpoint_config cfg;
	int lfd;                  /* server; -1 on the client */
	bool any_port;            /* the port is not from a configured range */
	struct sockaddr_storage to;
	socklen_t to_len;
};

static struct tcp_endpoint *tcp_endpoint_of(struct endpoint *ep)
{
	return (struct tcp_endpoint *)ep;
}

static int tcp_end_listen(struct endpoint *endpoint, const struct sockaddr_storage *a, uint16_t lo,
			  uint16_t hi, uint16_t *port, struct err *e)
{
	struct tcp_endpoint *ep = tcp_endpoint_of(endpoint);
	char addr[INET6_ADDRSTRLEN] = "";

	if (a->ss_family != AF_UNSPEC)
		address_host(a, addr);
	ep->lfd = tcp_listen(addr, a->ss_family, lo, hi, port, e);
	if (ep->lfd < 0)
		return ep->lfd;
	ep->any_port = !hi;
	if (ep->cfg.tos >= 0)
		socket_tos(ep->lfd, ep->cfg.tos); /* accepted sockets inherit it */
	return 0;
}

static int tcp_end_resolve(struct endpoint *ep, const struct sockaddr_storage *a, socklen_t len,
			   int stop, int timeout_ms, struct err *e)
{
	tcp_endpoint_of(ep)->to = *a;
	tcp_endpoint_of(ep)->to_len = len;
	return 0;
}

static const struct pool_hooks *tcp_end_hooks(struct endpoint *ep)
{
	return NULL;
}

/* If more channels may open during the transfer, its start waits for a late channel one round trip,
 * within these limits: a lost SYN is sent again only after a second. */
#define PATIENCE_MS 100
#define PATIENCE_MOST_MS 2000
/* A listener on a port of a configured range closes this long after the last channel, to free the
 * port for other transfers. */
#define LISTEN_MS 20000

static struct path *tcp_end_open(struct endpoint *endpoint, const struct path_config *c,
				 int stop, int timeout_ms, struct err *e)
{
	struct tcp_endpoint *ep = tcp_endpoint_of(endpoint);
	const struct agreement *a = ep->cfg.agr;
	bool client = ep->lfd < 0, all = true;
	uint64_t rtt_ms = ep->cfg.rtt_ns / 1000000;
	struct opener_config oc = {
		.auth = ep->cfg.auth, .first = ep->cfg.first, .n = a->channels,
		.patience_ms = a->channels == a->channels_first ? -1 :
			       rtt_ms > PATIENCE_MOST_MS ? PATIENCE_MOST_MS :
			       rtt_ms < PATIENCE_MS ? PATIENCE_MS : (int)rtt_ms,
		.listen_ms = ep->any_port ? -1 : LISTEN_MS,
		.to = ep->to, .to_len = ep->to_len, .from = ep->cfg.from, .tos = ep->cfg.tos,
	};
	int fds[CHANNELS_MAX];
	struct opener *o = opener_new(&oc, ep->lfd, e);
	struct path *p = NULL;

	if (!o)
		return NULL;

	ep->lfd = -1;
	if (!opener_first(o, a->channels_first, stop, timeout_ms, e)) {
		for (uint16_t i = 0; i < a->channels; i++) {
			fds[i] = opener_take(o, i);
			all = all && fds[i] >= 0;
		}
		p = tcp_path_new(c, fds, a->channels, e);
		for (uint16_t i = 0; !p && i < a->channels; i++)
			cleanup_close(&fds[i]);
	}
	if (p && !all)
		tcp_path_grow(p, o, client ? a->channels_first : 0);
	else
		opener_free(o); /* all channels are open: the listener closes */
	return p;
}

static void tcp_end_free(struct endpoint *ep)
{
	cleanup_close(&tcp_endpoint_of(ep)->lfd);
	free(ep);
}

static const struct endpoint_ops tcp_endpoint_ops = {
	.listen = tcp_end_listen,
	.resolve = tcp_end_resolve,
	.hooks = tcp_end_hooks,
	.open = tcp_end_open,
	.free = tcp_end_free,
};

struct endpoint *tcp_endpoint(const struct endpoint_config *c, struct err *e)
{
	struct tcp_endpoint *ep = calloc(1, sizeof(*ep));

	if (!ep) {
		err_nomem(e);
		return NULL;
	}
	ep->ep.ops = &tcp_endpoint_ops;
	ep->cfg = *c;
	ep->lfd = -1;
	return &ep->ep;
}
