// SPDX-License-Identifier: Apache-2.0
/* Opens the channels of a TCP path. On each new connection both sides first prove that they know
 * the session's token. A path starts with some channels; a thread opens the others during the
 * transfer. */
#include "transport/tcp.h"

#include "transport/connect.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

/* Connections that have not proved themselves: so many at a time, so long each. */
#define PENDING_MAX 64
#define PENDING_MS 5000
/* When all places are taken the oldest yields after this, so that a crowd of silent
 * strangers costs an honest channel little. */
#define PENDING_YIELD_MS 500
/* A peer that answers nothing for so long takes its channel down; others go on. */
#define USER_TIMEOUT_MS 120000
/* During a transfer the listener is closed after this many rejected connections. */
#define UNPROVEN_MAX 64
/* Pause after accept4 found no free descriptor or memory. */
#define NO_ROOM_US 50000
/* Time limit of a connection attempt during the transfer. */
#define DIAL_MS 10000

static void channel_options(int fd)
{
	unsigned ms = USER_TIMEOUT_MS;

	socket_options(fd);
	(void)setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &ms, sizeof(ms));
}

/* A connection whose peer has not proved the session yet. */
struct fresh {
	int fd;
	bool connected;          /* client: its hello is on the way */
	uint16_t channel;        /* client: counted from the opener's first */
	uint64_t since;
	uint8_t hello[HELLO_BYTES]; /* the peer's */
	size_t have;
	char from[ADDRESS_TEXT]; /* server */
};

struct opener {
	struct opener_config cfg;
	int lfd;                 /* -1: we connect */
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

static uint64_t age_ms(const struct fresh *f)
{
	return (now_ns() - f->since) / 1000000;
}

static void forget(struct opener *o, uint32_t i)
{
	struct fresh *f = &o->fresh[i];

	cleanup_close(&f->fd);
	o->nfresh--;
	memmove(f, f + 1, (o->nfresh - i) * sizeof(*f));
}

/* Fresh connection i has proved itself. */
static void has_come(struct opener *o, uint32_t i, uint16_t channel)
{
	int fd = steal_fd(&o->fresh[i].fd);

	forget(o, i);
	o->used[channel] = true;
	o->came++;
	o->came_ns = now_ns();
	if (o->path)
		tcp_path_add(o->path, channel, fd);
	else
		o->fds[channel] = fd;
}

/* ---- client ---- */

static int dial(struct opener *o, uint16_t channel)
{
	const struct opener_config *c = &o->cfg;
	struct fresh *f = &o->fresh[o->nfresh];
	int r;

	*f = (struct fresh){ .fd = -1, .channel = channel, .since = now_ns() };
	r = connect_begin((const struct sockaddr *)&c->to, c->to_len,
			  c->from.ss_family == AF_UNSPEC ? NULL : (const struct sockaddr *)&c->from,
			  &f->fd);
	if (r)
		return r;
	channel_options(f->fd);
	if (c->tos >= 0)
		socket_tos(f->fd, c->tos);
	o->used[channel] = true;
	o->nfresh++;
	return 0;
}

/* Connect until n channels are open or being opened. *bad: the channel that failed. */
static int dial_up_to(struct opener *o, uint16_t n, uint16_t *bad)
{
	int r = 0;

	for (uint16_t i = 0; !r && i < o->cfg.n && o->came + o->nfresh < n; i++)
		if (!o->used[i]) {
			*bad = i;
			r = dial(o, i);
		}
	return r;
}

static int say_hello(const struct opener *o, struct fresh *f)
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
	return n == HELLO_BYTES ? 0 : -EIO; /* a fresh socket has room for it */
}

/* 1: it has proved itself; 0: not yet; or a negative errno. */
static int hear_reply(const struct opener *o, struct fresh *f, const char **why)
{
	ssize_t n = recv(f->fd, f->hello + f->have, HELLO_BYTES - f->have, MSG_DONTWAIT);
	uint16_t number;
	uint32_t key; /* means nothing here */

	if (n < 0)
		return errno == EAGAIN || errno == EINTR ? 0 : -errno;
	if (n == 0) {
		*why = "the server closed it before it proved itself: it does not know this "
		       "session, or rejects our proof";
		return -ECONNRESET;
	}
	f->have += (size_t)n;
	if (f->have < HELLO_BYTES)
		return 0;
	*why = channel_hello_check(f->hello, true, o->cfg.auth, &number, &key);
	if (!*why && number != o->cfg.first + f->channel)
		*why = "it answers for another channel";
	return *why ? -EPROTO : 1;
}

/* Connection i is readable or writable. 0, or the error that ends it. */
static int hear_server(struct opener *o, uint32_t i, const char **why)
{
	struct fresh *f = &o->fresh[i];
	int r = f->connected ? hear_reply(o, f, why) : say_hello(o, f);

	if (r > 0)
		has_come(o, i, f->channel);
	return r < 0 ? r : 0;
}

/* ---- server ---- */

static void turn_away(struct opener *o, uint32_t i, const char *why)
{
	if (why) {
		log_warn("data channel from %s refused: %s", o->fresh[i].from, why);
		o->unproven++;
	}
	forget(o, i);
}

/* NULL with *channel, counted from the first; or the reason for rejecting it. */
static const char *admit(struct opener *o, struct fresh *f, uint16_t *channel)
{
	uint8_t reply[HELLO_BYTES];
	uint16_t number;
	uint32_t key; /* means nothing here */
	const char *why = channel_hello_check(f->hello, false, o->cfg.auth, &number, &key);

	if (why)
		return why;
	if (number < o->cfg.first || number - o->cfg.first >= o->cfg.n)
		return "its channel number is not of this path";
	*channel = (uint16_t)(number - o->cfg.first);
	if (o->used[*channel])
		return "its channel number has been used";
	if (channel_hello_put(reply, true, o->cfg.auth, number, 0) < 0)
		return "our proof cannot be computed";
	if (send(f->fd, reply, sizeof(reply), MSG_NOSIGNAL) != HELLO_BYTES)
		return "it went away";
	return NULL;
}

/* Connection i is readable. */
static void hear_guest(struct opener *o, uint32_t i)
{
	struct fresh *f = &o->fresh[i];
	ssize_t n = recv(f->fd, f->hello + f->have, HELLO_BYTES - f->have, MSG_DONTWAIT);
	uint16_t channel = 0;
	const char *why;

	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (n <= 0) {
		turn_away(o, i, "it closed without a proof");
		return;
	}
	f->have += (size_t)n;
	if (f->have >= 4 && get_be32(f->hello) != HELLO_MAGIC) {
		turn_away(o, i, "it does not speak this protocol");
	} else if (f->have == HELLO_BYTES) {
		why = admit(o, f, &channel);
		if (why)
			turn_away(o, i, why);
		else
			has_come(o, i, channel);
	}
}

static void let_in(struct opener *o)
{
	struct sockaddr_storage a;
	socklen_t len = sizeof(a);
	struct fresh *f = &o->fresh[o->nfresh];
	int fd = accept4(o->lfd, (struct sockaddr *)&a, &len, SOCK_NONBLOCK | SOCK_CLOEXEC);

	if (fd < 0) {
		/* Out of descriptors or memory the connection stays in the backlog. */
		if (errno == EMFILE || errno == ENFILE || errno == ENOMEM || errno == ENOBUFS)
			usleep(NO_ROOM_US);
		return;
	}
	if (FAULT("accept", 0) < 0) {
		close(fd);
		return;
	}
	channel_options(fd);
	*f = (struct fresh){ .fd = fd, .since = now_ns() };
	address_text(&a, len, f->from);
	o->nfresh++;
}

/* Close connections that are too old; the oldest is first. True if there is room for another. */
static bool make_room(struct opener *o)
{
	while (o->nfresh && age_ms(&o->fresh[0]) >= PENDING_MS)
		turn_away(o, 0, "it proved nothing in time");
	if (o->nfresh == PENDING_MAX && age_ms(&o->fresh[0]) >= PENDING_YIELD_MS)
		turn_away(o, 0, "it proved nothing, and others wait");
	return o->nfresh < PENDING_MAX;
}

/* Milliseconds until make_room may change something. */
static int next_change(const struct opener *o, int left)
{
	uint64_t limit = o->nfresh == PENDING_MAX ? PENDING_YIELD_MS : PENDING_MS;
	uint64_t age;

	if (o->lfd < 0 || !o->nfresh)
		return left;
	age = age_ms(&o->fresh[0]);
	if (age >= limit)
		return 0;
	return left < 0 || limit - age + 1 < (uint64_t)left ? (int)(limit - age + 1) : left;
}

/* ---- both ---- */

/* Wait at most left ms (-1: for ever) for a connection or fd (-1: none), and serve the
 * connections that are ready. 0; 1: fd is readable; or a negative errno: a client's connection
 * *bad failed, or (*bad is UINT16_MAX) poll did. */
static int step(struct opener *o, int fd, int left, uint16_t *bad, const char **why)
{
	struct pollfd p[2 + CHANNELS_MAX];
	bool room = o->lfd >= 0 && make_room(o);
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
	r = poll(p, 2 + n, next_change(o, left));
	if (r < 0)
		return errno == EINTR ? 0 : -errno;
	/* From the last to the first: leaving moves only those behind. */
	for (uint32_t i = n; i-- > 0;) {
		if (!p[2 + i].revents)
			continue;
		if (o->lfd >= 0) {
			hear_guest(o, i);
			continue;
		}
		*bad = o->fresh[i].channel;
		r = hear_server(o, i, why);
		if (r)
			return r;
	}
	if (p[1].revents & (POLLERR | POLLNVAL))
		return -EBADF;
	if (p[1].revents)
		let_in(o);
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
	/* accept4 must not sleep when a connection has gone again. */
	if (lfd >= 0)
		set_nonblock(lfd, true);
	return o;
}

static int failed(const struct opener *o, int r, uint16_t want, uint16_t bad, const char *why,
		  int timeout_ms, struct err *e)
{
	char text[ADDRESS_TEXT];

	if (o->lfd < 0)
		return err_set(e, r, "data channel %u to %s: %s", o->cfg.first + bad,
			       address_text(&o->cfg.to, o->cfg.to_len, text),
			       why ? why : net_reason(r));
	if (r == -ETIMEDOUT)
		return err_set(e, r, "only %u of %u data channels came within %d ms; a firewall "
			       "may close the data ports", o->came, want, timeout_ms);
	return err_sys(e, r, "waiting for %u data channels", want);
}

/* Patience is over: begin without the missing channels. */
static bool begins_without(const struct opener *o)
{
	return o->came && o->cfg.patience_ms >= 0 &&
	       now_ns() - o->came_ns >= (uint64_t)o->cfg.patience_ms * 1000000;
}

/* Client: drop this channel, and try no others. */
static void give_up(struct opener *o, uint16_t channel, const char *why)
{
	for (uint32_t i = o->nfresh; i-- > 0;)
		if (o->fresh[i].channel == channel)
			forget(o, i);
	o->used[channel] = false;
	if (!atomic_exchange(&o->refused, true))
		log_at(o->path ? LOG_LV_INFO : LOG_LV_WARN, "no more data channels can be had: %s",
		       why);
}

/* Client: the path can begin without the failed channel. A wrong proof is always fatal, and one
 * channel must remain. */
static bool may_do_without(const struct opener *o, int error)
{
	return o->cfg.patience_ms >= 0 && o->came + o->nfresh > 1 && error != -EPROTO &&
	       error != -ECANCELED && error != -ETIMEDOUT;
}

int opener_first(struct opener *o, uint16_t want, int stop, int timeout_ms, struct err *e)
{
	/* -1 means a month. */
	uint64_t end = now_ns() + (timeout_ms < 0 ? 30ull * 86400 * 1000 : (uint64_t)timeout_ms) *
		       1000000;
	const char *why = NULL;
	uint16_t bad = 0;
	int r = o->lfd < 0 ? dial_up_to(o, want, &bad) : 0;

	if (r && may_do_without(o, r)) {
		give_up(o, bad, net_reason(r));
		r = 0;
	}
	while (!r && o->came < want && !begins_without(o)) {
		uint64_t begin = o->came_ns + (uint64_t)o->cfg.patience_ms * 1000000;
		int left = ms_to(o->came && o->cfg.patience_ms >= 0 && begin < end ? begin : end);

		if (o->lfd < 0 && !o->nfresh && o->came)
			break; /* the others failed */
		if (!ms_to(end))
			r = -ETIMEDOUT;
		else
			r = step(o, stop, left, &bad, &why);
		if (r > 0)
			r = -ECANCELED;
		if (r < 0 && bad != UINT16_MAX && may_do_without(o, r)) {
			give_up(o, bad, why ? why : net_reason(r));
			why = NULL;
			r = 0;
		}
	}
	if (o->lfd < 0 && o->nfresh && (r == -ETIMEDOUT || bad == UINT16_MAX))
		bad = o->fresh[o->nfresh - 1].channel;
	atomic_store(&o->wanted, want);
	return r ? failed(o, r, want, bad, why, timeout_ms, e) : 0;
}

int opener_take(struct opener *o, uint16_t channel)
{
	return steal_fd(&o->fds[channel]);
}

/* ---- during the transfer ---- */

/* False: poll failed, end the thread. */
static bool client_round(struct opener *o)
{
	const char *why = NULL;
	uint16_t bad = 0;
	uint64_t drop;
	int left = o->nfresh ? ms_to(o->fresh[0].since + DIAL_MS * 1000000ull) : -1;
	int r = step(o, o->wake, left, &bad, &why);

	if (r > 0)
		(void)!read(o->wake, &drop, sizeof(drop));
	if (r < 0 && bad == UINT16_MAX)
		return false;
	if (r < 0)
		give_up(o, bad, why ? why : net_reason(r));
	if (o->nfresh && age_ms(&o->fresh[0]) >= DIAL_MS)
		give_up(o, o->fresh[0].channel, net_reason(-ETIMEDOUT));
	if (!atomic_load(&o->over) && !atomic_load(&o->refused)) {
		r = dial_up_to(o, atomic_load(&o->wanted), &bad);
		if (r)
			give_up(o, bad, net_reason(r));
	}
	return true;
}

/* Milliseconds that the listener stays open without another channel; -1: as long as the path. */
static int listen_left(const struct opener *o)
{
	return o->cfg.listen_ms < 0 ? -1 :
	       ms_to(o->came_ns + (uint64_t)o->cfg.listen_ms * 1000000);
}

static bool listens_on(struct opener *o)
{
	if (o->unproven >= UNPROVEN_MAX)
		log_warn("the data port is closed after %u connections without a proof", o->unproven);
	return o->came < o->cfg.n && o->unproven < UNPROVEN_MAX &&
	       listen_left(o) != 0;
}

static void *opener_main(void *arg)
{
	struct opener *o = arg;
	const char *why;
	uint16_t bad;

	while (!atomic_load(&o->over)) {
		if (o->lfd < 0 ? !client_round(o) :
		    !listens_on(o) ||
		    step(o, o->wake, listen_left(o), &bad, &why) < 0)
			break;
	}
	atomic_store(&o->refused, true);
	while (o->nfresh)
		forget(o, 0);
	cleanup_close(&o->lfd);
	return NULL;
}

int opener_go_on(struct opener *o, struct path *path)
{
	int r;

	o->path = path;
	o->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (o->wake < 0) {
		r = -errno;
		cleanup_close(&o->lfd);
		return r;
	}
	r = thread_start(&o->thread, "opener", opener_main, o);
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
		forget(o, 0);
	for (uint16_t i = 0; i < CHANNELS_MAX; i++)
		cleanup_close(&o->fds[i]);
	cleanup_close(&o->wake);
	cleanup_close(&o->lfd);
	free(o);
}
