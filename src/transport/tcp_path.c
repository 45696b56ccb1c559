// SPDX-License-Identifier: Apache-2.0
/* A path over TCP streams: one thread drives all its channels through one epoll set. */
#include "transport/tcp.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#define EVENTS 64
/* Answers are sent in batches of this share of the credits. Measured: a source with few credits
 * becomes idle when each of its answers is delayed. */
#define BATCH_SHARE 32u

static struct tcp_path *tcp_path(struct path *path)
{
	return (struct tcp_path *)path;
}

static bool tcp_runnable(const struct tcp_path *p, const struct tcp_channel *c)
{
	if (!c->up)
		return false;
	return p->cfg.source ? tcp_source_runnable(c) : tcp_sink_runnable(p, c);
}

/* ---- new channels ---- */

/* The send buffer of a stream within this host. The kernel would let it grow to megabytes, which
 * leave the cache before the other end reads them. Measured cost: a quarter of the CPU time of both
 * sides (bench/README.md). */
#define SEND_BUFFER_LOCAL (256 << 10)

/* True: both ends have the same address. */
static bool tcp_within_host(int fd)
{
	struct sockaddr_storage ours = { 0 }, theirs = { 0 };
	socklen_t n = sizeof(ours), m = sizeof(theirs);

	if (getsockname(fd, (struct sockaddr *)&ours, &n) ||
	    getpeername(fd, (struct sockaddr *)&theirs, &m) ||
	    (ours.ss_family != AF_INET && ours.ss_family != AF_INET6))
		return false;
	return address_equal(&ours, &theirs);
}

/* Below this rate the kernel paces the packets of a source, which would otherwise send its blocks
 * in bursts. A fast source sends many blocks per second, and the kernel's timers cost more CPU time
 * than they save (measured at 25 MB/s, bench/README.md). */
#define PACE_BELOW 12500000u /* bytes per second */

static bool tcp_set_congestion(int fd, const char *name)
{
	return setsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, name, (socklen_t)strlen(name)) == 0;
}

/* Apply the chosen congestion control; only the sending side has one. */
static void tcp_choose_congestion(struct tcp_path *p, int fd)
{
	if (!p->cfg.source || !p->congestion || tcp_set_congestion(fd, p->congestion))
		return;
	if (errno == ENOENT)
		log_warn("the kernel has not loaded congestion control %s, the system's is used: "
			 "modprobe tcp_%s", p->congestion, p->congestion);
	else
		log_warn("congestion control %s cannot be used, the system's is used: %s",
			 p->congestion, errno == EPERM ?
			 "it is not in net.ipv4.tcp_allowed_congestion_control" : strerror(errno));
	p->congestion = NULL;
}

/* Prepare a channel for fd. The caller keeps fd until tcp_channel_up(). 0 or a negative errno. */
static int tcp_channel_prepare(struct tcp_path *p, uint32_t i, int fd)
{
	struct tcp_channel *c = &p->ch[i];
	uint8_t **lists = p->cfg.source ? &c->in : &c->out;
	int bytes = SEND_BUFFER_LOCAL, r = set_nonblock(fd, true);

	if (r < 0)
		return r;

	/* Ignore failures: without these options the stream is only slower. */
	if (p->cfg.source && tcp_within_host(fd))
		(void)setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &bytes, sizeof(bytes));
	if (p->cfg.rate && p->cfg.rate < PACE_BELOW &&
	    setsockopt(fd, SOL_SOCKET, SO_MAX_PACING_RATE, &p->cfg.rate, sizeof(p->cfg.rate)))
		log_debug("the kernel does not pace this stream: %s", strerror(errno));
	tcp_choose_congestion(p, fd);

	c->index = i;
	c->readable = c->writable = true;
	*lists = malloc(CREDIT_LIST_BYTES);
	if (!*lists)
		return -ENOMEM;
	r = messages_open(&c->lists, p->sealed ? p->list_key : NULL, (uint16_t)(p->cfg.first + i));
	if (!r)
		r = sleeper_watch(&p->sleeper, fd, EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET,
				  (epoll_data_t){ .u64 = i });
	return r;
}

static void tcp_channel_up(struct tcp_path *p, uint32_t i, int fd)
{
	p->ch[i].fd = fd;
	p->ch[i].up = p->ch[i].used = true;
	watch_begin(&p->path, i);
	atomic_fetch_add(&p->path.alive, 1);
}

void tcp_path_add(struct path *path, uint32_t i, int fd)
{
	struct tcp_path *p = tcp_path(path);

	atomic_store(&p->ch[i].arriving, fd);
	atomic_store(&p->arrivals, true);
	sleeper_kick(&p->sleeper);
}

/* Add new channels. Once the last channel is down, or the end has begun, they are closed
 * instead. */
static void tcp_take_arrivals(struct tcp_path *p)
{
	if (!atomic_load(&p->arrivals) || !atomic_exchange(&p->arrivals, false))
		return;

	for (uint32_t i = 0; i < p->path.nchannels; i++) {
		int fd = atomic_exchange(&p->ch[i].arriving, -1);

		if (fd < 0)
			continue;
		if (p->shut || !atomic_load(&p->path.alive) || p->ch[i].used ||
		    tcp_channel_prepare(p, i, fd))
			close(fd);
		else
			tcp_channel_up(p, i, fd);
	}
}

/* ---- the number of streams, and their congestion control ---- */

/* Sum the TCP_INFO of all streams; a closed stream counts with its last values. */
static void tcp_sample_streams(struct tcp_path *p, struct tcp_sample *s)
{
	*s = (struct tcp_sample){ .now_ns = p->looked_ns };
	for (uint32_t i = 0; i < p->path.nchannels; i++) {
		struct tcp_channel *c = &p->ch[i];
		const struct tcp_sample *t = &c->stream;

		if (!c->used)
			continue;
		if (c->up) {
			tcp_sample_stream(c->fd, p->cfg.source, &c->stream);
			if (p->cfg.source)
				tcp_source_publish_ahead(p, c);
			s->queue_ns += t->queue_ns;
			s->n++;
		}
		if (t->rtt_ns && (!s->rtt_ns || t->rtt_ns < s->rtt_ns))
			s->rtt_ns = t->rtt_ns;
		s->bytes += t->bytes;
		s->packets += t->packets;
		s->lost += t->lost;
		s->limited_ns += t->limited_ns;
	}
	s->queue_ns /= s->n ? s->n : 1;
	if (FAULT("lossy", 0) < 0)
		s->lost = s->packets;
}

/* Clients print these messages with -v, servers only at level debug. */
static enum log_level tcp_log_level(const struct tcp_path *p)
{
	return p->cfg.client ? LOG_LV_INFO : LOG_LV_DEBUG;
}

/* cubic and reno slow down with each loss, the more the longer the round trip; BBR follows the
 * delivery rate. On shorter paths, and with fewer losses, many cubic streams were faster than BBR
 * (bench/README.md). */
#define LOSS_TOLERANT "bbr"
#define LOSS_TOLERANT_RTT_NS 20000000u

static uint64_t tcp_next_sample(const struct tcp_path *p)
{
	return p->looked_ns + climb_interval_ns(p->climb.from.rtt_ns);
}

static bool tcp_samples(const struct tcp_path *p)
{
	return p->climb.on || (p->cfg.source && unacked_count(p->unacked));
}

/* The client opens more channels while they make the path faster; the source publishes its
 * progress within blocks, and switches a lossy path to BBR. */
static void tcp_tune_streams(struct tcp_path *p, uint64_t now)
{
	struct tcp_sample s;
	uint16_t n = p->climb.wanted;
	bool switched = true;

	if (!tcp_samples(p) || now < tcp_next_sample(p))
		return;
	p->looked_ns = now;
	tcp_sample_streams(p, &s);

	if (p->cfg.source && p->cfg.far && s.n && !p->congestion_tried &&
	    climb_loses_by_itself(&p->climb, &s) && s.rtt_ns >= LOSS_TOLERANT_RTT_NS) {
		p->congestion_tried = true;
		for (uint32_t i = 0; switched && i < p->path.nchannels; i++)
			if (p->ch[i].up)
				switched = tcp_set_congestion(p->ch[i].fd, LOSS_TOLERANT);
		if (switched) {
			p->congestion = LOSS_TOLERANT;
			log_at(tcp_log_level(p),
			       "packets are lost: congestion control " LOSS_TOLERANT);
		}
	}

	if (!p->climb.on)
		return;
	if (opener_refused(p->opener))
		p->climb.on = false;
	else if (climb_step(&p->climb, &s) > n)
		opener_want(p->opener, p->climb.wanted);
}

/* ---- channels that end ---- */

void tcp_channel_down(struct tcp_path *p, struct tcp_channel *c, int error)
{
	const struct linger now = { .l_onoff = 1 };

	if (!c->up)
		return;

	if (p->cfg.far)
		tcp_sample_stream(c->fd, p->cfg.source, &c->stream);
	c->up = false;
	atomic_fetch_sub(&p->path.alive, 1);
	/* Close with a reset: if nothing is outstanding, the peer would take a plain end of the
	 * stream for good order. The lost blocks and answers have been given up already. */
	if (error)
		(void)setsockopt(c->fd, SOL_SOCKET, SO_LINGER, &now, sizeof(now));
	close(c->fd);        /* this also removes it from the epoll set */
	c->fd = -1;
	if (p->cfg.source)
		tcp_source_drop(p, c);
	else
		tcp_sink_drop(p, c);
	path_add_down(&p->path, c->index, error);
}

/* True: the peer owes us something on c. Source: an acknowledgement. Sink: the rest of a block that
 * we have room for, or the reading of our answers. */
static bool tcp_waits(const struct tcp_path *p, const struct tcp_channel *c)
{
	if (p->cfg.source || !c->up)
		return c->up && c->outstanding;
	if (c->out_len || c->answers)
		return true;
	return c->filling ? c->got < c->table + c->h.payload :
			    c->head_have && c->head_have < BLOCK_WIRE_HEAD;
}

/* Take down channels with a block that failed its check: neither the next bytes nor the position in
 * the stream can be trusted. Also channels with a stalled peer: TCP alone does not detect it: the
 * host, or a proxy, may acknowledge data for a process that hangs. */
static void tcp_drop_bad_channels(struct tcp_path *p, uint64_t now)
{
	bool damage = atomic_load(&p->damage) && atomic_exchange(&p->damage, false);
	bool due = watch_due(&p->path, now);

	if (damage)
		p->stalled = false; /* the refused block is free again */
	for (uint32_t i = 0; (damage || due) && i < p->path.nchannels; i++) {
		struct tcp_channel *c = &p->ch[i];
		int r = damage && atomic_load(&c->damaged) ? -EBADMSG : 0;

		if (!r && due && c->up)
			r = watch_check(&p->path, i, tcp_waits(p, c));
		if (r)
			tcp_channel_down(p, c, r);
	}
}

/* Milliseconds to sleep: timeout_ms, or less if a sample or a check of a waiting channel is due. */
static int tcp_sleep_ms(const struct tcp_path *p, int timeout_ms, uint64_t now)
{
	int check = watch_ms(&p->path, now);
	bool samples = tcp_samples(p);

	if (samples && ms_between(now, tcp_next_sample(p)) < check)
		check = ms_between(now, tcp_next_sample(p)) + 1;
	if (timeout_ms >= 0 && timeout_ms <= check)
		return timeout_ms;
	if (samples)
		return check;
	for (uint32_t i = 0; i < p->path.nchannels; i++)
		if (tcp_waits(p, &p->ch[i]))
			return check;
	return timeout_ms;
}

/* ---- the poll ---- */

static void tcp_wake(struct path *path)
{
	sleeper_wake(&tcp_path(path)->sleeper);
}

/* Learn which channels are ready, sleeping at most timeout_ms for the first of them. */
static int tcp_wait_ready(struct tcp_path *p, int timeout_ms)
{
	struct epoll_event e[EVENTS];
	int n;

	if (timeout_ms && (!sleeper_lie_down(&p->sleeper) || atomic_load(&p->due) ||
			   atomic_load(&p->damage) || atomic_load(&p->arrivals)))
		timeout_ms = 0;
	n = sleeper_sleep(&p->sleeper, e, EVENTS, timeout_ms);
	for (int i = 0; i < n; i++) {
		struct tcp_channel *c;

		if (e[i].data.u64 == SLEEPER_WOKEN)
			continue;
		c = &p->ch[e[i].data.u64];
		if (e[i].events & (EPOLLIN | EPOLLRDHUP | EPOLLHUP | EPOLLERR))
			c->readable = true;
		if (e[i].events & (EPOLLRDHUP | EPOLLHUP | EPOLLERR))
			c->hup = true;
		if (e[i].events & EPOLLOUT)
			c->writable = true;
	}
	return n < 0 ? n : 0;
}

static bool tcp_any_runnable(const struct tcp_path *p)
{
	for (uint32_t i = 0; i < p->path.nchannels; i++)
		if (tcp_runnable(p, &p->ch[i]))
			return true;
	return false;
}

/* Send answers in batches while data keeps arriving, and at once before a sleep: a source that
 * waits for credits sends no data, so it never waits for long. */
static void tcp_notice_answers(struct tcp_path *p, bool idle)
{
	unsigned due = atomic_load(&p->due);

	if (!due || (!idle && due < p->batch))
		return;
	/* The box may already hold answers that are counted only after this line. Then the next
	 * call finds none, which is harmless. */
	atomic_exchange(&p->due, 0);
	p->stalled = false;      /* blocks are free again */
	for (uint32_t i = 0; i < p->path.nchannels; i++)
		p->ch[i].answers = p->ch[i].up;
}

/* One round: serve each ready channel once. *over: poll must return. The number of events. */
static int tcp_round(struct tcp_path *p, struct path_event *ev, int max, int timeout_ms,
		     bool *over)
{
	bool busy;
	int n, r;

	tcp_take_arrivals(p);
	busy = tcp_any_runnable(p);
	if (!p->cfg.source) {
		tcp_notice_answers(p, !busy);
		busy = busy || tcp_any_runnable(p);
	}

	r = tcp_wait_ready(p, busy || path_has_events(&p->path) ? 0 : timeout_ms);
	if (r < 0)
		return r;
	/* Serve no further channels once there are max events. */
	for (uint32_t i = 0; i < p->path.nchannels && p->path.events.nblocks < (uint32_t)max; i++) {
		struct tcp_channel *c = &p->ch[p->turn];

		p->turn = p->turn + 1 == p->path.nchannels ? 0 : p->turn + 1;
		if (!tcp_runnable(p, c))
			continue;
		r = FAULT("stall", 0);
		if (r < 0)
			tcp_channel_down(p, c, r);
		else if (p->cfg.source)
			tcp_source_serve(p, c);
		else
			tcp_sink_serve(p, c);
	}

	n = path_take_events(&p->path, ev, max);
	*over = n > 0;
	if (p->path.want_room && tcp_source_room(p)) {
		p->path.want_room = false;
		*over = true;
	}
	if (sleeper_woken(&p->sleeper))
		*over = true;
	return n;
}

static int tcp_poll(struct path *path, struct path_event *ev, int max, int timeout_ms)
{
	struct tcp_path *p = tcp_path(path);
	/* One reading of the clock each round: in a guest it can be a system call. */
	uint64_t now = now_ns(), deadline = now + (timeout_ms > 0 ? timeout_ms * 1000000ull : 0);
	int left = timeout_ms;

	for (;;) {
		bool over = false;
		int n;

		tcp_drop_bad_channels(p, now);
		tcp_tune_streams(p, now);
		n = tcp_round(p, ev, max, tcp_sleep_ms(p, left, now), &over);
		if (n < 0 || over)
			return n;
		now = now_ns();
		if (timeout_ms > 0)
			left = ms_between(now, deadline);
		/* With no time left, ready channels are still served: a caller that never waits
		 * would make no progress otherwise. */
		if (timeout_ms >= 0 && !left && !tcp_any_runnable(p))
			return 0;
	}
}

/* ---- the end ---- */

/* Accept no more channels, and close those that the path's thread has not added yet: otherwise the
 * peer would wait for them. */
static void tcp_leave(struct path *path)
{
	struct tcp_path *p = tcp_path(path);

	p->climb.on = false;
	opener_free(steal_ptr(&p->opener));
	for (uint32_t i = 0; i < path->nchannels; i++) {
		int fd = atomic_exchange(&p->ch[i].arriving, -1);

		cleanup_close(&fd);
	}
}

/* All our blocks or answers have been sent. */
static bool tcp_all_flushed(struct tcp_path *p)
{
	LOCK_GUARD(held, &p->lock);

	for (uint32_t i = 0; i < p->path.nchannels; i++) {
		struct tcp_channel *c = &p->ch[i];

		if (c->up && (c->queued || c->out_len || c->answers ||
			      (p->box && credit_box_pending(p->box, i))))
			return false;
	}
	return atomic_load(&p->due) == 0;
}

static int tcp_finish(struct path *path, int timeout_ms)
{
	struct tcp_path *p = tcp_path(path);
	uint64_t deadline = ns_after(timeout_ms);
	struct path_event ev[16];
	int result = 0;

	if (p->unacked && unacked_count(p->unacked))
		return -EBUSY;

	tcp_leave(path);
	while (atomic_load(&path->alive) || path_has_events(path)) {
		bool over;
		int n, left = ms_to(deadline);

		if (!left)
			return -ETIMEDOUT;
		if (!p->shut && tcp_all_flushed(p)) {
			p->shut = true;
			for (uint32_t i = 0; i < path->nchannels; i++)
				if (p->ch[i].up && shutdown(p->ch[i].fd, SHUT_WR) < 0)
					tcp_channel_down(p, &p->ch[i], -errno);
		}
		tcp_drop_bad_channels(p, now_ns());
		n = tcp_round(p, ev, 16, left, &over);
		if (n < 0)
			return n;
		path_drop_events(ev, n, &result);
	}
	return result;
}

static void tcp_free(struct path *path)
{
	struct tcp_path *p = tcp_path(path);
	struct tcp_sample s = { 0 };
	uint32_t used = 0;

	if (p->cfg.far)
		tcp_sample_streams(p, &s);
	for (uint32_t i = 0; i < path->nchannels; i++)
		used += p->ch[i].used;

	/* "32 channels: 95 ms, 0.1 % retransmitted" */
	if (s.rtt_ns && s.packets)
		log_at(tcp_log_level(p), "%u channel%s: %.3g ms, %.2g %% %s", used,
		       used == 1 ? "" : "s", (double)s.rtt_ns / 1e6,
		       100.0 * (double)s.lost / (double)s.packets,
		       p->cfg.source ? "retransmitted" : "out of order");
	tcp_leave(path);
	for (uint32_t i = 0; i < path->nchannels; i++) {
		tcp_channel_down(p, &p->ch[i], -ECANCELED);
		free(p->ch[i].in);
		free(p->ch[i].out);
		messages_close(&p->ch[i].lists);
	}
	path_destroy(path);
	crypto_wipe(p->list_key, sizeof(p->list_key));
	sleeper_close(&p->sleeper);
	unacked_free(p->unacked);
	credit_box_free(p->box);
	pthread_mutex_destroy(&p->lock);
	free(p);
}

/* ---- the beginning ---- */

static const struct path_ops tcp_ops = {
	.name = "tcp",
	.post = tcp_source_post,
	.poll = tcp_poll,
	.release = tcp_sink_release,
	.refuse = tcp_sink_refuse,
	.wake = tcp_wake,
	.finish = tcp_finish,
	.leave = tcp_leave,
	.free = tcp_free,
};

struct path *tcp_path_new(const struct path_config *c, const int *fds, uint32_t n, struct err *e)
{
	struct tcp_path *p;
	int r;

	if (!n || n > CHANNELS_MAX || !c->inflight) {
		err_set(e, -EINVAL, "a TCP path with %u for channels and %u for blocks in flight",
			n, c->inflight);
		return NULL;
	}
	p = calloc(1, sizeof(*p) + n * sizeof(p->ch[0]));
	if (!p) {
		err_nomem(e);
		return NULL;
	}

	for (uint32_t i = 0; i < n; i++)
		atomic_init(&p->ch[i].arriving, -1);
	p->cfg = *c;
	p->congestion = c->congestion;
	p->congestion_tried = c->congestion;
	p->looked_ns = now_ns();
	p->batch = c->inflight / BATCH_SHARE ? c->inflight / BATCH_SHARE : 1;
	pthread_mutex_init(&p->lock, NULL);

	r = sleeper_open(&p->sleeper);
	if (path_init(&p->path, &tcp_ops, c, n, true))
		r = -ENOMEM;
	p->path.channel_ahead = calloc(n, sizeof(*p->path.channel_ahead));
	if (c->source)
		p->unacked = unacked_new(c->inflight);
	else
		p->box = credit_box_new(n, c->inflight);
	if (!p->path.channel_ahead || (!p->unacked && !p->box))
		r = -ENOMEM;

	if (c->keys)
		memcpy(p->list_key, c->keys->from_sink, sizeof(p->list_key));
	p->sealed = c->keys;
	p->cfg.keys = NULL;

	for (uint32_t i = 0; !r && i < n; i++)
		r = fds[i] < 0 ? 0 : tcp_channel_prepare(p, i, fds[i]);

	if (r < 0) {
		err_sys(e, r, "setting up a TCP path of %u channel%s", n, plural(n));
		tcp_free(&p->path);
		return NULL;
	}
	/* From here on the path owns the descriptors. */
	for (uint32_t i = 0; i < n; i++)
		if (fds[i] >= 0)
			tcp_channel_up(p, i, fds[i]);
	return &p->path;
}

void tcp_path_grow(struct path *path, struct opener *o, uint16_t first)
{
	struct tcp_path *p = tcp_path(path);
	int r;

	p->opener = o;
	if (first)
		climb_init(&p->climb, first, (uint16_t)path->nchannels);
	r = opener_go_on(o, path);
	if (r) {
		log_warn("no more data channels: %s", strerror(-r));
		p->climb.on = false;
	}
}
