// SPDX-License-Identifier: Apache-2.0
/* The source's last stage: filled blocks go out by their path and are seen acknowledged. */
#include "transport/transport.h"

#include <errno.h>
#include <limits.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

#define EVENTS 64
#define FINISH_MS 10000
/* So many blocks refused by the sink with none accepted in between: it will never. */
#define REFUSED_MAX 1000

struct sender {
	struct sender_config cfg;
	char name[16];
	pthread_t thread;
	atomic_bool abort;          /* any thread: end now */
	struct block *first, *last; /* to be sent before anything of the queue */
	uint32_t unacked;           /* with the path */
	uint32_t refused;
	bool drained;               /* the queue was closed and is empty */
	bool lost;                  /* the path does nothing any more */
	int error;                  /* the first */
};

/* In order of number: a sink that puts blocks in order holds what comes early, and its
 * buffers must not run out before the one it waits for has been sent. */
static void hold(struct sender *s, struct block *b)
{
	struct block **at = &s->first;

	if (s->last && s->last->number < b->number)
		at = &s->last->next;
	while (*at && (*at)->number < b->number)
		at = &(*at)->next;
	b->next = *at;
	*at = b;
	if (!b->next)
		s->last = b;
}

static struct block *unhold(struct sender *s)
{
	struct block *b = s->first;

	s->first = b->next;
	if (!s->first)
		s->last = NULL;
	b->next = NULL;
	return b;
}

static void fail(struct sender *s, int error)
{
	if (s->error)
		return;
	s->error = error;
	if (error != -ECANCELED && s->cfg.failed)
		s->cfg.failed(s->cfg.arg, error);
}

/* No channel of this path is left for b. */
static void give_back(struct sender *s, struct block *b)
{
	int r = s->cfg.returned ? s->cfg.returned(s->cfg.arg, b) : -EPIPE;

	if (r < 0) {
		pool_put(b);
		fail(s, r);
	}
}

/* A block to be sent: 0; -EAGAIN: none now; 1: none will come; or the queue's error. */
static int next_block(struct sender *s, struct block **b)
{
	int r;

	if (s->first) {
		*b = unhold(s);
		return 0;
	}
	if (s->drained)
		return 1;
	r = bq_try_pop(s->cfg.q, b);
	s->drained = r == 1;
	return r;
}

static int post(struct sender *s, struct block *b)
{
	struct path *p = s->cfg.path;
	uint32_t bytes = b->len;
	int r = s->lost ? -EPIPE : p->ops->post(p, b);

	if (r == 0) {
		s->unacked++;
		if (s->cfg.pace)
			pace_take(s->cfg.pace, bytes);
	} else if (r == -EAGAIN) {
		hold(s, b); /* no room now */
	} else if (r == -EPIPE) {
		give_back(s, b);
		r = 0;
	} else {
		pool_put(b);
		fail(s, r);
	}
	return r;
}

/* Post while there are blocks and room. Milliseconds to poll for then. */
static int post_all(struct sender *s)
{
	while (!s->error) {
		struct block *b;
		uint64_t wait = s->cfg.pace ? pace_wait_ns(s->cfg.pace, now_ns()) : 0;
		int r;

		if (wait && !s->lost)
			return wait / 1000000 < INT_MAX ? (int)(wait / 1000000) + 1 : INT_MAX;
		r = next_block(s, &b);
		if (r < 0 && r != -EAGAIN)
			fail(s, r);
		if (r)
			return -1;
		if (post(s, b) < 0)
			return -1;
	}
	return 0;
}

static void refused(struct sender *s, const struct path_event *ev)
{
	if (!ev->status)
		return;
	if (++s->refused == 1)
		log_debug("%s: block %llu is to be sent again: status %u", s->name,
			  (unsigned long long)ev->block->number, ev->status);
	if (s->refused == REFUSED_MAX) {
		log_error("%s: the sink refused %u blocks one after another, the last with "
			  "status %u; check memory and network cards of both hosts", s->name,
			  s->refused, ev->status);
		fail(s, -EIO);
	}
}

static void handle(struct sender *s, const struct path_event *ev)
{
	switch (ev->kind) {
	case PATH_ACKED:
		s->unacked--;
		s->refused = 0;
		if (s->cfg.acked)
			s->cfg.acked(s->cfg.arg, ev->block);
		pool_put(ev->block);
		break;
	case PATH_RETURNED:
		s->unacked--;
		refused(s, ev);
		hold(s, ev->block);
		break;
	case PATH_DOWN:
		if (s->cfg.down)
			s->cfg.down(s->cfg.arg, ev->channel, ev->error);
		break;
	case PATH_RECEIVED:
		pool_put(ev->block);
		fail(s, -EPROTO);
		break;
	}
}

static bool done(const struct sender *s)
{
	return s->error || (s->drained && !s->first && !s->unacked);
}

static void poll_path(struct sender *s, int timeout_ms)
{
	struct path *p = s->cfg.path;
	struct path_event ev[EVENTS];
	int i, n = p->ops->poll(p, ev, EVENTS, timeout_ms);

	if (n < 0) {
		log_debug("%s: the path is lost: %d", s->name, n);
		s->lost = true;
		/* Nothing that it still held can come back. */
		if (s->unacked)
			fail(s, n);
	}
	for (i = 0; i < n; i++)
		handle(s, &ev[i]);
}

/* With a path that is lost all there is to do is to hand blocks to others. */
static void pass_on(struct sender *s)
{
	struct block *b = NULL;
	int r;

	if (s->first) {
		give_back(s, unhold(s));
		return;
	}
	r = bq_pop(s->cfg.q, &b);
	if (r == 0)
		give_back(s, b);
	else if (r < 0)
		fail(s, r);
	s->drained = r == 1;
}

static void *sender_main(void *arg)
{
	struct sender *s = arg;
	struct path *p = s->cfg.path;

	place_self(&s->cfg.cpus);
	while (!done(s)) {
		int timeout_ms;

		if (atomic_load(&s->abort)) {
			fail(s, -ECANCELED);
			break;
		}
		if (s->lost) {
			pass_on(s);
			continue;
		}
		timeout_ms = post_all(s);
		if (!done(s))
			poll_path(s, timeout_ms);
	}
	while (s->first)
		pool_put(unhold(s));
	/* Of a transfer that fails the sink closes nothing before it has heard our END. */
	if (!s->error && !s->lost && !atomic_load(&s->abort)) {
		int r = p->ops->finish(p, FINISH_MS);

		/* All is acknowledged; how the channels close changes nothing. */
		if (r < 0)
			log_debug("%s: closing channels: %d", s->name, r);
	}
	if (p->ops->leave)
		p->ops->leave(p);
	atomic_store(&p->left, true);
	return NULL;
}

/* For the queue, which may outlive the sender, but not the path. */
static void wake_path(void *arg)
{
	struct path *p = arg;

	p->ops->wake(p);
}

struct sender *sender_start(const struct sender_config *c, const char *name, struct err *e)
{
	struct sender *s = calloc(1, sizeof(*s));
	int r;

	if (!s) {
		err_sys(e, -ENOMEM, "starting %s", name);
		return NULL;
	}
	s->cfg = *c;
	snprintf(s->name, sizeof(s->name), "%s", name);
	bq_set_notify(c->q, wake_path, c->path);
	r = thread_start(&s->thread, name, sender_main, s);
	if (r < 0) {
		free(s);
		err_sys(e, r, "starting %s", name);
		return NULL;
	}
	return s;
}

void sender_abort(struct sender *s)
{
	atomic_store(&s->abort, true);
	s->cfg.path->ops->wake(s->cfg.path);
}

int sender_join(struct sender *s)
{
	pthread_join(s->thread, NULL);
	return s->error;
}

void sender_free(struct sender *s)
{
	free(s);
}
