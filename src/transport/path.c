// SPDX-License-Identifier: Apache-2.0
/* The parts that the paths of all transports share: their events, the check for channels that
 * make no progress, the sleep of their thread. */
#include "transport/transport.h"

#include <sys/eventfd.h>

int path_init(struct path *p, const struct path_ops *ops, const struct path_config *c,
	      uint32_t nchannels, bool watched)
{
	p->ops = ops;
	p->nchannels = nchannels;
	p->pool = c->pool;
	p->watch.source = c->source;
	p->watch.limit_ns = (c->stall_ms ? c->stall_ms : STALL_MS) * 1000000ull;
	for (int k = 0; k < PATH_DOWN; k++)
		p->events.blocks[k].end = &p->events.blocks[k].first;

	p->channel_bytes = calloc(nchannels, sizeof(*p->channel_bytes));
	p->events.downs = calloc(nchannels, sizeof(*p->events.downs));
	if (watched)
		p->watch.ch = calloc(nchannels, sizeof(*p->watch.ch));
	if (!p->channel_bytes || !p->events.downs || (watched && !p->watch.ch))
		return -ENOMEM;

	for (uint32_t i = 0; i < nchannels; i++)
		p->events.downs[i] = PATH_NOT_DOWN;
	return 0;
}

void path_destroy(struct path *p)
{
	struct path_event ev;

	while (p->events.nblocks && path_take_events(p, &ev, 1))
		pool_put(ev.block);
	free(p->events.downs);
	free(p->watch.ch);
	free(p->channel_bytes);
	free(p->channel_ahead);
}

/* ---- events ---- */

void path_add_block(struct path *p, enum path_event_kind kind, struct block *b, uint32_t status)
{
	b->next = NULL;
	if (kind == PATH_RETURNED)
		b->sent_at = status;
	*p->events.blocks[kind].end = b;
	p->events.blocks[kind].end = &b->next;
	p->events.nblocks++;
}

void path_add_down(struct path *p, uint32_t channel, int error)
{
	if (p->events.downs[channel] != PATH_NOT_DOWN)
		return; /* the first cause stays */
	p->events.downs[channel] = error;
	p->events.ndowns++;
}

int path_take_events(struct path *p, struct path_event *ev, int max)
{
	struct path_events *all = &p->events;
	int n = 0;

	for (enum path_event_kind k = PATH_RECEIVED; all->nblocks && k < PATH_DOWN; k++) {
		while (all->blocks[k].first && n < max) {
			struct block *b = all->blocks[k].first;
			uint32_t status = k == PATH_RETURNED ? b->sent_at : 0;

			all->blocks[k].first = b->next;
			all->nblocks--;
			b->next = NULL;
			ev[n++] = (struct path_event){
				.kind = k, .channel = b->channel, .block = b, .status = status,
				.error = k == PATH_RETURNED && !status ? -EPIPE : 0,
			};
		}
		if (!all->blocks[k].first)
			all->blocks[k].end = &all->blocks[k].first;
	}

	for (uint32_t i = 0; all->ndowns && n < max; i++) {
		if (all->downs[i] == PATH_NOT_DOWN)
			continue;
		ev[n++] = (struct path_event){ .kind = PATH_DOWN, .channel = i,
					       .error = all->downs[i] };
		all->downs[i] = PATH_NOT_DOWN;
		all->ndowns--;
	}
	return n;
}

void path_drop_events(const struct path_event *ev, int n, int *result)
{
	for (int i = 0; i < n; i++) {
		if (ev[i].kind != PATH_DOWN)
			pool_put(ev[i].block);
		else if (ev[i].error && !*result)
			*result = ev[i].error;
	}
}

bool block_head_agrees(const struct block *b)
{
	struct block_head h;

	return !block_head_get(b->base, b->cap, &h) && h.extents == b->nextents &&
	       h.payload == b->len && h.number == b->number;
}

uint64_t path_ahead(const struct path *p)
{
	uint64_t bytes = 0;

	for (uint32_t i = 0; p->channel_ahead && i < p->nchannels; i++)
		bytes += __atomic_load_n(&p->channel_ahead[i], __ATOMIC_RELAXED);
	return bytes;
}

/* ---- progress ---- */

#define CHECKS 8u /* checks within the time limit */

void watch_begin(struct path *path, uint32_t channel)
{
	struct channel_watch *c = &path->watch.ch[channel];

	c->moved_ns = c->acked_ns = path->watch.awake_ns;
}

static uint64_t watch_interval(const struct watch *w)
{
	uint64_t ns = w->limit_ns / CHECKS;

	return ns < 1000000000 ? ns : 1000000000;
}

bool watch_due(struct path *path, uint64_t now)
{
	struct watch *w = &path->watch;
	bool lost = atomic_load(&w->any_lost) && atomic_exchange(&w->any_lost, false);
	uint64_t gone = now - w->looked_ns, interval = watch_interval(w);

	if (gone < interval)
		return lost;
	/* After a stop (SIGSTOP) the clock is far ahead and the sockets are full of unread data:
	 * count at most two intervals. */
	w->awake_ns += gone < 2 * interval ? gone : 2 * interval;
	w->looked_ns = now;
	return true;
}

int watch_ms(const struct path *path, uint64_t now)
{
	return ms_between(now, path->watch.looked_ns + watch_interval(&path->watch)) + 1;
}

int watch_check(struct path *path, uint32_t channel, bool waits)
{
	struct watch *w = &path->watch;
	struct channel_watch *c = &w->ch[channel];
	uint64_t reported = atomic_load(&c->reported);
	bool held = w->source && atomic_load(&c->held);

	if (atomic_load(&c->lost))
		return CHANNEL_GIVEN_UP;

	if (!waits || c->acked)
		c->acked_ns = w->awake_ns;
	if (!waits || c->acked || c->moved || held || reported != c->seen)
		c->moved_ns = w->awake_ns;

	c->seen = reported;
	c->acked = c->moved = false;
	if (w->awake_ns - c->moved_ns > w->limit_ns)
		return -ETIMEDOUT;
	/* A sink that holds blocks may delay a source, but not for ever. */
	if (w->source && w->awake_ns - c->acked_ns > HELD_LIMITS * w->limit_ns)
		return -ETIMEDOUT;
	return 0;
}

void path_report(struct path *path, uint32_t channel, uint64_t bytes, uint32_t held)
{
	if (!path->watch.ch)
		return;
	atomic_store(&path->watch.ch[channel].reported, bytes);
	atomic_store(&path->watch.ch[channel].held, held);
}

void path_lose(struct path *path, uint32_t channel)
{
	if (!path->watch.ch)
		return;
	atomic_store(&path->watch.ch[channel].lost, true);
	atomic_store(&path->watch.any_lost, true);
	path->ops->wake(path);
}

/* ---- sleep ---- */

int sleeper_open(struct sleeper *s)
{
	atomic_init(&s->sleeping, false);
	atomic_init(&s->woken, false);
	s->efd = -1;
	s->ep = epoll_create1(EPOLL_CLOEXEC);
	if (s->ep < 0)
		return -errno;
	s->efd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (s->efd < 0)
		return -errno;
	return sleeper_watch(s, s->efd, EPOLLIN | EPOLLET, (epoll_data_t){ .u64 = SLEEPER_WOKEN });
}

void sleeper_close(struct sleeper *s)
{
	cleanup_close(&s->ep);
	cleanup_close(&s->efd);
}

int sleeper_watch(struct sleeper *s, int fd, uint32_t events, epoll_data_t data)
{
	struct epoll_event e = { .events = events, .data = data };

	return epoll_ctl(s->ep, EPOLL_CTL_ADD, fd, &e) < 0 ? -errno : 0;
}

void sleeper_unwatch(struct sleeper *s, int fd)
{
	epoll_ctl(s->ep, EPOLL_CTL_DEL, fd, NULL);
}

void sleeper_kick(struct sleeper *s)
{
	uint64_t one = 1;

	if (!atomic_exchange(&s->sleeping, false))
		return;
	/* The write cannot fail, unless the counter overflows. The counter is never read; each
	 * write causes a new edge. */
	if (write(s->efd, &one, sizeof(one)) < 0)
		return;
}

void sleeper_wake(struct sleeper *s)
{
	atomic_store(&s->woken, true);
	sleeper_kick(s);
}

bool sleeper_woken(struct sleeper *s)
{
	return atomic_load(&s->woken) && atomic_exchange(&s->woken, false);
}

bool sleeper_lie_down(struct sleeper *s)
{
	atomic_store(&s->sleeping, true);
	return !atomic_load(&s->woken);
}

int sleeper_sleep(struct sleeper *s, struct epoll_event *e, int max, int timeout_ms)
{
	int n = epoll_wait(s->ep, e, max, timeout_ms);

	atomic_store(&s->sleeping, false);
	if (n < 0)
		return errno == EINTR ? 0 : -errno;
	return n;
}
