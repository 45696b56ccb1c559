// SPDX-License-Identifier: Apache-2.0
/* A path over TCP streams: one thread drives all its channels through one epoll set. */
#include "transport/tcp.h"

#include <errno.h>
#include <limits.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define EVENTS 64
/* Answers wait for others while they are fewer than this share of the credits: measured,
 * a source with few credits goes idle when each of its answers is held back. */
#define BATCH_SHARE 32u

static struct tcp_path *tcp(struct path *path)
{
	return (struct tcp_path *)path;
}

static int serve(struct tcp_path *p, struct tcp_channel *c, struct path_event *ev, int max)
{
	int r = FAULT("stall", 0);

	if (r < 0) {
		tcp_channel_down(p, c, r);
		return 0;
	}
	return p->cfg.source ? tcp_source_serve(p, c, ev, max) : tcp_sink_serve(p, c, ev, max);
}

static bool runnable(const struct tcp_path *p, const struct tcp_channel *c)
{
	if (!c->up)
		return false;
	return p->cfg.source ? tcp_source_runnable(p, c) : tcp_sink_runnable(p, c);
}

/* ---- new channels ---- */

/* Bytes that a stream within this host may have on the way. The kernel would let it grow to
 * megabytes, which leave the cache before the other end reads them: measured, a quarter of
 * the CPU time of both sides (bench/README.md). */
#define SEND_BUFFER_LOCAL (256 << 10)

/* Both ends have one address. */
static bool within_host(int fd)
{
	struct sockaddr_storage ours = { 0 }, theirs = { 0 };
	socklen_t n = sizeof(ours), m = sizeof(theirs);

	if (getsockname(fd, (struct sockaddr *)&ours, &n) ||
	    getpeername(fd, (struct sockaddr *)&theirs, &m) ||
	    ours.ss_family != theirs.ss_family)
		return false;
	if (ours.ss_family == AF_INET)
		return ((struct sockaddr_in *)&ours)->sin_addr.s_addr ==
		       ((struct sockaddr_in *)&theirs)->sin_addr.s_addr;
	return ours.ss_family == AF_INET6 &&
	       !memcmp(&((struct sockaddr_in6 *)&ours)->sin6_addr,
		       &((struct sockaddr_in6 *)&theirs)->sin6_addr, sizeof(struct in6_addr));
}

static void keep_in_cache(int fd)
{
	int bytes = SEND_BUFFER_LOCAL;

	/* Without it the stream is slower, no more. */
	if (within_host(fd))
		(void)setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &bytes, sizeof(bytes));
}

/* The kernel spaces the packets of a slow source, whose blocks would go in bursts. Not those of a fast
 * one: it sends many blocks in a second, and the kernel's timers cost more processor time than they
 * are worth (measured at 25 MB/s, bench/README.md). */
#define PACE_BELOW 12500000u /* bytes per second */

static void pace_stream(int fd, uint64_t rate)
{
	if (rate && rate < PACE_BELOW &&
	    setsockopt(fd, SOL_SOCKET, SO_MAX_PACING_RATE, &rate, sizeof(rate)))
		log_debug("the kernel paces no stream: %s", strerror(errno));
}

static bool set_congestion(int fd, const char *name)
{
	return setsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, name, (socklen_t)strlen(name)) == 0;
}

/* Apply the chosen congestion control; only the sending side has one. */
static void choose_congestion(struct tcp_path *p, int fd)
{
	if (!p->cfg.source || !p->congestion || set_congestion(fd, p->congestion))
		return;
	if (errno == ENOENT)
		log_warn("the kernel has not loaded congestion control %s, data goes by the system's: "
			 "modprobe tcp_%s", p->congestion, p->congestion);
	else
		log_warn("congestion control %s cannot be used, data goes by the system's: %s",
			 p->congestion, errno == EPERM ?
			 "it is not in net.ipv4.tcp_allowed_congestion_control" : strerror(errno));
	p->congestion = NULL;
}

/* Prepare a channel for fd. The caller keeps fd until raise_channel(). 0 or a negative errno. */
static int take_channel(struct tcp_path *p, uint32_t i, int fd)
{
	struct tcp_channel *c = &p->ch[i];
	uint8_t **lists = p->cfg.source ? &c->in : &c->out;
	int r = set_nonblock(fd, true);

	if (r < 0)
		return r;
	if (p->cfg.source)
		keep_in_cache(fd);
	pace_stream(fd, p->cfg.rate);
	choose_congestion(p, fd);
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

static void raise_channel(struct tcp_path *p, uint32_t i, int fd)
{
	p->ch[i].fd = fd;
	p->ch[i].up = p->ch[i].used = true;
	watch_begin(&p->path, i);
	atomic_fetch_add(&p->path.alive, 1);
}

void tcp_path_add(struct path *path, uint32_t i, int fd)
{
	struct tcp_path *p = tcp(path);

	atomic_store(&p->ch[i].arriving, fd);
	atomic_store(&p->arrivals, true);
	sleeper_kick(&p->sleeper);
}

/* Add new channels. Once the last channel is down, or the end has begun, they are closed
 * instead. */
static void take_arrivals(struct tcp_path *p)
{
	if (!atomic_load(&p->arrivals) || !atomic_exchange(&p->arrivals, false))
		return;
	for (uint32_t i = 0; i < p->path.nchannels; i++) {
		int fd = atomic_exchange(&p->ch[i].arriving, -1);

		if (fd < 0)
			continue;
		if (p->shut || !atomic_load(&p->path.alive) || p->ch[i].used ||
		    take_channel(p, i, fd))
			close(fd);
		else
			raise_channel(p, i, fd);
	}
}

/* ---- the number of streams, and their congestion control ---- */

/* Sum the TCP_INFO of all streams; a closed stream counts with its last values. */
static void look_at_streams(struct tcp_path *p, struct climb_sample *s)
{
	*s = (struct climb_sample){ .now_ns = p->looked_ns };
	for (uint32_t i = 0; i < p->path.nchannels; i++) {
		struct tcp_channel *c = &p->ch[i];
		const struct tcp_stream *t = &c->stream;

		if (!c->used)
			continue;
		if (c->up) {
			tcp_stream_look(c->fd, p->cfg.source, &c->stream);
			if (p->cfg.source)
				tcp_source_tell_ahead(p, c);
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
static enum log_level said(const struct tcp_path *p)
{
	return p->cfg.client ? LOG_LV_INFO : LOG_LV_DEBUG;
}

/* "32 channels: 95 ms, 0.1 % retransmitted" */
static void say_streams(struct tcp_path *p)
{
	struct climb_sample s;
	uint32_t used = 0;

	look_at_streams(p, &s);
	for (uint32_t i = 0; i < p->path.nchannels; i++)
		used += p->ch[i].used;
	if (s.rtt_ns && s.packets)
		log_at(said(p), "%u channel%s: %.3g ms, %.2g %% %s", used, used == 1 ? "" : "s",
		       (double)s.rtt_ns / 1e6, 100.0 * (double)s.lost / (double)s.packets,
		       p->cfg.source ? "retransmitted" : "out of order");
}

/* cubic and reno slow down with each loss, the more the longer the round trip; BBR follows the
 * delivery rate. On shorter paths, and with fewer losses, many cubic streams were faster than BBR
 * (bench/README.md). */
#define LOSS_TOLERANT "bbr"
#define LOSS_TOLERANT_RTT_NS 20000000u

static void try_loss_tolerant(struct tcp_path *p)
{
	bool any = false;

	p->congestion_tried = true;
	for (uint32_t i = 0; i < p->path.nchannels; i++) {
		if (!p->ch[i].up)
			continue;
		if (!set_congestion(p->ch[i].fd, LOSS_TOLERANT))
			return;
		any = true;
	}
	if (any) {
		p->congestion = LOSS_TOLERANT;
		log_at(said(p), "packets are lost: congestion control " LOSS_TOLERANT);
	}
}

static uint64_t next_look(const struct tcp_path *p)
{
	return p->looked_ns + climb_interval_ns(p->climb.from.rtt_ns);
}

static bool looks(const struct tcp_path *p)
{
	return p->climb.on || (p->cfg.source && unacked_count(p->unacked));
}

/* The client opens more channels while they make the path faster; the source publishes its
 * progress within blocks, and switches a lossy path to BBR. */
static void look_after_streams(struct tcp_path *p, uint64_t now)
{
	struct climb_sample s;
	uint16_t n = p->climb.wanted;

	if (!looks(p) || now < next_look(p))
		return;
	p->looked_ns = now;
	look_at_streams(p, &s);
	if (p->cfg.source && p->cfg.far && !p->congestion_tried &&
	    climb_loses_by_itself(&p->climb, &s) && s.rtt_ns >= LOSS_TOLERANT_RTT_NS)
		try_loss_tolerant(p);
	if (!p->climb.on)
		return;
	if (opener_refused(p->opener))
		p->climb.on = false;
	else if (climb_step(&p->climb, &s) > n)
		opener_want(p->opener, p->climb.wanted);
}

/* ---- channels that end ---- */

/* With a reset, for the peer would take an end of the stream for good order when nothing
 * is under way. What is lost with it, blocks or answers, has been given up already. */
static void reset_connection(int fd)
{
	const struct linger now = { .l_onoff = 1 };

	(void)setsockopt(fd, SOL_SOCKET, SO_LINGER, &now, sizeof(now));
}

void tcp_channel_down(struct tcp_path *p, struct tcp_channel *c, int error)
{
	if (!c->up)
		return;
	if (p->cfg.far)
		tcp_stream_look(c->fd, p->cfg.source, &c->stream);
	c->up = false;
	atomic_fetch_sub(&p->path.alive, 1);
	if (error)
		reset_connection(c->fd);
	close(c->fd);        /* leaves the epoll set with it */
	c->fd = -1;
	if (p->cfg.source)
		tcp_source_drop(p, c);
	else
		tcp_sink_drop(p, c);
	c->down_error = error;
	c->down_due = true;
}

/* A channel that brought a block which was not sent so: what else comes by it, and where
 * in its stream we are, cannot be relied on. */
static void drop_damaged(struct tcp_path *p)
{
	uint32_t i;

	if (!atomic_load(&p->damage) || !atomic_exchange(&p->damage, false))
		return;
	p->stalled = false;      /* the refused block is free again */
	for (i = 0; i < p->path.nchannels; i++)
		if (atomic_load(&p->ch[i].damaged))
			tcp_channel_down(p, &p->ch[i], -EBADMSG);
}

/* A piece of a block has come, and it is not we who keep the rest waiting. */
static bool half_block(const struct tcp_channel *c)
{
	return c->up && (c->filling ? c->got < c->table + c->h.payload :
			 c->head_have && c->head_have < BLOCK_WIRE_HEAD);
}

/* The peer owes us something on c: an acknowledgement; or the rest of a block, or room for
 * our answers. */
static bool waits(const struct tcp_path *p, const struct tcp_channel *c)
{
	if (p->cfg.source)
		return c->up && c->outstanding;
	return half_block(c) || (c->up && (c->out_len || c->answers));
}

/* TCP alone does not tell: the other host, or one between, may answer for a process that
 * does nothing more. */
static void drop_stalled(struct tcp_path *p, uint64_t now)
{
	bool lost = watch_lost(&p->path);
	uint32_t i;

	if (!watch_due(&p->path, now) && !lost)
		return;
	for (i = 0; i < p->path.nchannels; i++) {
		int r = p->ch[i].up ? watch_look(&p->path, i, waits(p, &p->ch[i])) : 0;

		if (r)
			tcp_channel_down(p, &p->ch[i], r);
	}
}

/* timeout_ms, but not beyond the next look at channels that wait. */
static int until_look(const struct tcp_path *p, int timeout_ms, uint64_t now)
{
	int look = watch_ms(&p->path, now);
	uint32_t i;

	if (looks(p) && ms_between(now, next_look(p)) < look)
		look = ms_between(now, next_look(p)) + 1;
	if (timeout_ms >= 0 && timeout_ms <= look)
		return timeout_ms;
	if (looks(p))
		return look;
	for (i = 0; i < p->path.nchannels; i++)
		if (waits(p, &p->ch[i]))
			return look;
	return timeout_ms;
}

/* Blocks of dead channels first, so that who hears of the death has them all. */
static int tell_lost(struct tcp_path *p, struct path_event *ev, int max)
{
	int n = 0;
	uint32_t i;

	while (p->returned && n < max) {
		struct block *b = p->returned;

		p->returned = b->next;
		b->next = NULL;
		ev[n++] = (struct path_event){ .kind = PATH_RETURNED, .channel = b->channel,
					       .block = b, .error = -EPIPE };
	}
	for (i = 0; i < p->path.nchannels && n < max; i++) {
		struct tcp_channel *c = &p->ch[i];

		if (!c->down_due)
			continue;
		c->down_due = false;
		ev[n++] = (struct path_event){ .kind = PATH_DOWN, .channel = i,
					       .error = c->down_error };
	}
	return n;
}

static bool lost_to_tell(const struct tcp_path *p)
{
	uint32_t i;

	if (p->returned)
		return true;
	for (i = 0; i < p->path.nchannels; i++)
		if (p->ch[i].down_due)
			return true;
	return false;
}

/* ---- sleeping and waking ---- */

static void tcp_wake(struct path *path)
{
	sleeper_wake(&tcp(path)->sleeper);
}

static void note_ready(struct tcp_path *p, const struct epoll_event *e)
{
	struct tcp_channel *c;

	if (e->data.u64 == SLEEPER_WOKEN)
		return;
	c = &p->ch[e->data.u64];
	if (e->events & (EPOLLIN | EPOLLRDHUP | EPOLLHUP | EPOLLERR))
		c->readable = true;
	if (e->events & (EPOLLRDHUP | EPOLLHUP | EPOLLERR))
		c->hup = true;
	if (e->events & EPOLLOUT)
		c->writable = true;
}

/* Learn which channels are ready, sleeping at most timeout_ms for the first of them. */
static int wait_ready(struct tcp_path *p, int timeout_ms)
{
	struct epoll_event e[EVENTS];
	int i, n;

	if (timeout_ms && (!sleeper_lie_down(&p->sleeper) || atomic_load(&p->due) ||
			   atomic_load(&p->damage) || atomic_load(&p->arrivals)))
		timeout_ms = 0;
	n = sleeper_sleep(&p->sleeper, e, EVENTS, timeout_ms);
	if (n < 0)
		return n;
	for (i = 0; i < n; i++)
		note_ready(p, &e[i]);
	return 0;
}

static bool anything_runnable(const struct tcp_path *p)
{
	uint32_t i;

	for (i = 0; i < p->path.nchannels; i++)
		if (runnable(p, &p->ch[i]))
			return true;
	return false;
}

/* Answers go out in batches while data keeps coming, and at once before a sleep: a
 * source that waits for credits finds us without data, so it never waits for long. */
static void notice_answers(struct tcp_path *p, bool idle)
{
	unsigned due = atomic_load(&p->due);
	uint32_t i;

	if (!due || (!idle && due < p->batch))
		return;
	/* What is counted from here on may be in the box already: then the next look
	 * finds nothing, which harms nobody. */
	atomic_exchange(&p->due, 0);
	p->stalled = false;      /* blocks are free again */
	for (i = 0; i < p->path.nchannels; i++)
		p->ch[i].answers = p->ch[i].up;
}

static int serve_all(struct tcp_path *p, struct path_event *ev, int max)
{
	uint32_t i, k = p->turn;
	int n = 0;

	for (i = 0; i < p->path.nchannels && n < max; i++) {
		struct tcp_channel *c = &p->ch[k];

		if (runnable(p, c))
			n += serve(p, c, ev + n, max - n);
		if (++k == p->path.nchannels)
			k = 0;
	}
	p->turn = k;
	return n + tell_lost(p, ev + n, max - n);
}

static bool room_came(struct tcp_path *p)
{
	if (!p->want_room || !tcp_source_room(p))
		return false;
	p->want_room = false;
	return true;
}

/* One round: what is ready, served once. *over: the caller is to be told. */
static int one_round(struct tcp_path *p, struct path_event *ev, int max, int timeout_ms, bool *over)
{
	bool busy;
	int n, r;

	drop_damaged(p);
	take_arrivals(p);
	busy = anything_runnable(p);
	if (!p->cfg.source) {
		notice_answers(p, !busy);
		busy = busy || anything_runnable(p);
	}
	if (busy || lost_to_tell(p))
		timeout_ms = 0;
	r = wait_ready(p, timeout_ms);
	if (r < 0)
		return r;
	n = serve_all(p, ev, max);
	*over = n || room_came(p);
	if (sleeper_woken(&p->sleeper))
		*over = true;
	return n;
}

static int tcp_poll(struct path *path, struct path_event *ev, int max, int timeout_ms)
{
	struct tcp_path *p = tcp(path);
	/* One reading of the clock each round: in a guest it can be a system call. */
	uint64_t now = now_ns(), deadline = now + (uint64_t)(timeout_ms > 0 ? timeout_ms : 0) * 1000000;
	int left = timeout_ms;

	for (;;) {
		bool over = false;
		int n;

		drop_stalled(p, now);
		look_after_streams(p, now);
		n = one_round(p, ev, max, until_look(p, left, now), &over);
		if (n < 0 || over)
			return n;
		now = now_ns();
		if (timeout_ms > 0)
			left = ms_between(now, deadline);
		/* With no time left work that is ready is still done: a caller that
		 * never waits would get nowhere otherwise. */
		if (timeout_ms >= 0 && !left && !anything_runnable(p))
			return 0;
	}
}

/* ---- the end ---- */

/* Accept no more channels, and close those that the path's thread has not added yet: the peer
 * would wait for them. */
static void tcp_leave(struct path *path)
{
	struct tcp_path *p = tcp(path);

	p->climb.on = false;
	opener_free(steal_ptr(&p->opener));
	for (uint32_t i = 0; i < path->nchannels; i++) {
		int fd = atomic_exchange(&p->ch[i].arriving, -1);

		cleanup_close(&fd);
	}
}

/* Nothing that we owe is still in our memory. */
static bool all_flushed(struct tcp_path *p)
{
	LOCK_GUARD(held, &p->lock);
	uint32_t i;

	for (i = 0; i < p->path.nchannels; i++) {
		struct tcp_channel *c = &p->ch[i];

		if (c->up && (c->queued || c->out_len || c->answers ||
			      (p->box && credit_box_pending(p->box, i))))
			return false;
	}
	return atomic_load(&p->due) == 0;
}

static void shut_writing(struct tcp_path *p)
{
	uint32_t i;

	p->shut = true;
	for (i = 0; i < p->path.nchannels; i++)
		if (p->ch[i].up && shutdown(p->ch[i].fd, SHUT_WR) < 0)
			tcp_channel_down(p, &p->ch[i], -errno);
}

static void finish_event(struct path_event *ev, int *result)
{
	if (ev->kind == PATH_DOWN) {
		if (ev->error && !*result)
			*result = ev->error;
	} else {
		pool_put(ev->block);
	}
}

static int tcp_finish(struct path *path, int timeout_ms)
{
	struct tcp_path *p = tcp(path);
	uint64_t deadline = now_ns() + (uint64_t)(timeout_ms < 0 ? INT_MAX : timeout_ms) * 1000000;
	struct path_event ev[16];
	int result = 0;

	if (p->unacked && unacked_count(p->unacked))
		return -EBUSY;
	tcp_leave(path);
	while (atomic_load(&path->alive) || lost_to_tell(p)) {
		bool over;
		int i, n, left = ms_to(deadline);

		if (!left)
			return -ETIMEDOUT;
		if (!p->shut && all_flushed(p))
			shut_writing(p);
		n = one_round(p, ev, 16, left, &over);
		if (n < 0)
			return n;
		for (i = 0; i < n; i++)
			finish_event(&ev[i], &result);
	}
	return result;
}

static void tcp_free(struct path *path)
{
	struct tcp_path *p = tcp(path);
	struct path_event ev;
	uint32_t i;

	if (p->cfg.far)
		say_streams(p);
	tcp_leave(path);
	for (i = 0; i < path->nchannels; i++)
		tcp_channel_down(p, &p->ch[i], -ECANCELED);
	while (tell_lost(p, &ev, 1))
		if (ev.block)
			pool_put(ev.block);
	for (i = 0; i < path->nchannels; i++) {
		free(p->ch[i].in);
		free(p->ch[i].out);
		messages_close(&p->ch[i].lists);
	}
	crypto_wipe(p->list_key, sizeof(p->list_key));
	watch_free(path);
	sleeper_close(&p->sleeper);
	unacked_free(p->unacked);
	credit_box_free(p->box);
	pthread_mutex_destroy(&p->lock);
	free(path->channel_bytes);
	free(path->channel_ahead);
	free(p);
}

/* ---- the beginning ---- */

static const struct path_ops source_ops = {
	.name = "tcp",
	.post = tcp_source_post,
	.poll = tcp_poll,
	.wake = tcp_wake,
	.finish = tcp_finish,
	.leave = tcp_leave,
	.free = tcp_free,
};

static const struct path_ops sink_ops = {
	.name = "tcp",
	.poll = tcp_poll,
	.release = tcp_sink_release,
	.refuse = tcp_sink_refuse,
	.wake = tcp_wake,
	.finish = tcp_finish,
	.leave = tcp_leave,
	.free = tcp_free,
};

static int make_books(struct tcp_path *p, uint32_t n)
{
	p->path.channel_bytes = calloc(n, sizeof(*p->path.channel_bytes));
	p->path.channel_ahead = calloc(n, sizeof(*p->path.channel_ahead));
	if (!p->path.channel_bytes || !p->path.channel_ahead)
		return -ENOMEM;
	if (p->cfg.source)
		p->unacked = unacked_new(p->cfg.inflight);
	else
		p->box = credit_box_new(n, p->cfg.inflight);
	if (!p->unacked && !p->box)
		return -ENOMEM;
	return 0;
}

struct path *tcp_path_new(const struct path_config *c, const int *fds, uint32_t n, struct err *e)
{
	struct tcp_path *p;
	uint32_t i;
	int r;

	if (!n || n > CHANNELS_MAX || !c->inflight) {
		err_set(e, -EINVAL, "a TCP path of %u channels and %u blocks in flight", n,
			c->inflight);
		return NULL;
	}
	p = calloc(1, sizeof(*p) + n * sizeof(p->ch[0]));
	if (!p) {
		err_sys(e, -ENOMEM, "a TCP path of %u channels", n);
		return NULL;
	}
	for (i = 0; i < n; i++)
		atomic_init(&p->ch[i].arriving, -1);
	p->path.ops = c->source ? &source_ops : &sink_ops;
	p->path.nchannels = n;
	p->path.pool = c->pool;
	p->cfg = *c;
	p->congestion = c->congestion;
	p->congestion_tried = c->congestion;
	p->looked_ns = now_ns();
	p->path.watch.source = c->source;
	p->batch = c->inflight / BATCH_SHARE ? c->inflight / BATCH_SHARE : 1;
	pthread_mutex_init(&p->lock, NULL);
	r = sleeper_open(&p->sleeper);
	if (!r)
		r = watch_init(&p->path, c->stall_ms);
	if (!r)
		r = make_books(p, n);
	if (c->keys)
		memcpy(p->list_key, c->keys->from_sink, sizeof(p->list_key));
	p->sealed = c->keys;
	p->cfg.keys = NULL;
	for (i = 0; !r && i < n; i++)
		r = fds[i] < 0 ? 0 : take_channel(p, i, fds[i]);
	if (r < 0) {
		err_sys(e, r, "setting up a TCP path of %u channels", n);
		tcp_free(&p->path);
		return NULL;
	}
	/* From here on the descriptors are ours. */
	for (i = 0; i < n; i++)
		if (fds[i] >= 0)
			raise_channel(p, i, fds[i]);
	return &p->path;
}

void tcp_path_grow(struct path *path, struct opener *o, uint16_t first)
{
	struct tcp_path *p = tcp(path);
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
