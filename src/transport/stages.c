// SPDX-License-Identifier: Apache-2.0
/* The stages on both sides of a path, each a thread, and the pace of the senders. */
#include "transport/transport.h"

#include <limits.h>
#include <stdatomic.h>

#define EVENTS 64
#define FINISH_MS 10000
/* The transfer fails when the sink has refused this many blocks and accepted none in between. */
#define REFUSED_MAX 1000

/* ---- pace ---- */

#define NS 1000000000u
/* The burst after a pause: the bytes of 20 ms, but at least BURST_MIN or the bytes of 100 ms,
 * whichever is less. */
#define BURST_PER_SECOND 50
#define BURST_MIN (64u << 10)
#define BURST_MIN_PER_SECOND 10

void pace_init(struct pace *p)
{
	*p = (struct pace){ 0 };
	pthread_mutex_init(&p->lock, NULL);
}

void pace_destroy(struct pace *p)
{
	pthread_mutex_destroy(&p->lock);
}

void pace_start(struct pace *p, uint64_t rate, uint64_t now)
{
	uint64_t least = rate / BURST_MIN_PER_SECOND + 1;

	if (least > BURST_MIN)
		least = BURST_MIN;

	p->rate = rate;
	p->burst = rate / BURST_PER_SECOND;
	if (p->burst < least)
		p->burst = least;
	p->tokens = (int64_t)p->burst;
	p->at_ns = now;
	p->rest = 0;
}

uint64_t pace_wait_ns(struct pace *p, uint64_t now)
{
	unsigned __int128 gained, missing;

	if (!p->rate)
		return 0;

	LOCK_GUARD(held, &p->lock);
	if (now > p->at_ns) {
		gained = (unsigned __int128)p->rate * (now - p->at_ns) + p->rest;
		p->at_ns = now;
		p->rest = (uint64_t)(gained % NS);
		if (gained / NS >= (unsigned __int128)((int64_t)p->burst - p->tokens)) {
			p->tokens = (int64_t)p->burst;
			p->rest = 0;
		} else {
			p->tokens += (int64_t)(gained / NS);
		}
	}

	if (p->tokens > 0)
		return 0;
	missing = (unsigned __int128)(1 - p->tokens) * NS - p->rest;
	return (uint64_t)((missing + p->rate - 1) / p->rate);
}

void pace_take(struct pace *p, uint64_t bytes)
{
	if (!p->rate)
		return;
	LOCK_GUARD(held, &p->lock);
	p->tokens -= (int64_t)bytes;
}

/* ---- both stages ---- */

struct stage {
	struct stage_config cfg;
	char name[16];
	pthread_t thread;
	atomic_bool stop;
	atomic_bool abort; /* do not close in good order: the peer does not wait for it */
	int error;         /* the first error of the path */
};

/* Start a stage, the first member of a struct of size bytes. */
static struct stage *stage_start(const struct stage_config *c, size_t size, const char *name,
				 void *(*main)(void *), struct err *e)
{
	struct stage *s = calloc(1, size);
	int r;

	if (!s) {
		err_nomem(e);
		return NULL;
	}
	s->cfg = *c;
	snprintf(s->name, sizeof(s->name), "%s", name);
	r = thread_start(&s->thread, name, main, s);
	if (r == 0)
		return s;
	free(s);
	thread_failed(e, r);
	return NULL;
}

/* End a stage. orderly: the peer still takes part, so close the channels in good order. */
static void stage_leave(struct stage *s, bool orderly)
{
	struct path *p = s->cfg.path;
	int r = orderly && !s->error && !atomic_load(&s->abort) ? p->ops->finish(p, FINISH_MS) : 0;

	/* Everything is acknowledged: a failure to close the channels does not change the
	 * result. */
	if (r < 0)
		log_debug("%s: closing channels: %d", s->name, r);

	if (p->ops->leave)
		p->ops->leave(p);
	atomic_store(&p->left, true);
}

void stage_stop(struct stage *s)
{
	atomic_store(&s->stop, true);
	s->cfg.path->ops->wake(s->cfg.path);
}

void stage_abort(struct stage *s)
{
	atomic_store(&s->abort, true);
	stage_stop(s);
}

int stage_join(struct stage *s)
{
	pthread_join(s->thread, NULL);
	return s->error;
}

uint64_t stage_cpu_ns(const struct stage *s)
{
	return thread_cpu_ns(s->thread);
}

void stage_free(struct stage *s)
{
	free(s);
}

/* ---- sender ---- */

struct sender {
	struct stage stage;
	struct block *first, *last; /* to be sent before the blocks of the queue */
	uint32_t unacked;           /* blocks that the path owns */
	uint32_t refused;
	bool drained;               /* the queue is closed and empty */
	bool lost;                  /* the path is unusable */
};

/* Keep the blocks in order of number: a sink that writes in order keeps later blocks in buffers,
 * which must not run out before the missing block arrives. */
static void sender_hold(struct sender *s, struct block *b)
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

static struct block *sender_unhold(struct sender *s)
{
	struct block *b = s->first;

	s->first = b->next;
	if (!s->first)
		s->last = NULL;
	b->next = NULL;
	return b;
}

static void sender_fail(struct sender *s, int error)
{
	if (s->stage.error)
		return;
	s->stage.error = error;
	if (error != -ECANCELED && s->stage.cfg.failed)
		s->stage.cfg.failed(s->stage.cfg.arg, error);
}

/* This path has no channel left for b: hand it back. */
static void sender_give_back(struct sender *s, struct block *b)
{
	int r = s->stage.cfg.returned ? s->stage.cfg.returned(s->stage.cfg.arg, b) : -EPIPE;

	if (r < 0) {
		pool_put(b);
		sender_fail(s, r);
	}
}

static int sender_post(struct sender *s, struct block *b)
{
	struct path *p = s->stage.cfg.path;
	uint32_t bytes = b->len;
	int r = s->lost ? -EPIPE : p->ops->post(p, b);

	if (r == 0) {
		s->unacked++;
		if (s->stage.cfg.pace)
			pace_take(s->stage.cfg.pace, bytes);
	} else if (r == -EAGAIN) {
		sender_hold(s, b); /* no room now */
	} else if (r == -EPIPE) {
		sender_give_back(s, b);
		r = 0;
	} else {
		pool_put(b);
		sender_fail(s, r);
	}
	return r;
}

/* Post while there are blocks and room. Returns the time-out for the next poll in milliseconds. */
static int sender_post_all(struct sender *s)
{
	while (!s->stage.error) {
		struct block *b = NULL;
		uint64_t wait = s->stage.cfg.pace ? pace_wait_ns(s->stage.cfg.pace, now_ns()) : 0;
		int r;

		if (wait && !s->lost)
			return wait / 1000000 < INT_MAX ? (int)(wait / 1000000) + 1 : INT_MAX;
		if (s->first) {
			b = sender_unhold(s);
		} else if (s->drained) {
			return -1;
		} else {
			r = bq_try_pop(s->stage.cfg.q, &b);
			s->drained = r == 1;
			if (r < 0 && r != -EAGAIN)
				sender_fail(s, r);
			if (r)
				return -1;
		}

		if (sender_post(s, b) < 0)
			return -1;
	}
	return 0;
}

static void sender_refused(struct sender *s, const struct path_event *ev)
{
	if (!ev->status)
		return;
	if (++s->refused == 1)
		log_debug("%s: block %llu must be sent again: status %u", s->stage.name,
			  (unsigned long long)ev->block->number, ev->status);
	if (s->refused == REFUSED_MAX) {
		log_error("%s: the sink refused %u block%s one after another, the last with "
			  "status %u; check memory and network cards of both hosts", s->stage.name,
			  s->refused, plural(s->refused), ev->status);
		sender_fail(s, -EIO);
	}
}

static void sender_event(struct sender *s, const struct path_event *ev)
{
	switch (ev->kind) {
	case PATH_ACKED:
		s->unacked--;
		s->refused = 0;
		if (s->stage.cfg.acked)
			s->stage.cfg.acked(s->stage.cfg.arg, ev->block);
		pool_put(ev->block);
		break;
	case PATH_RETURNED:
		s->unacked--;
		sender_refused(s, ev);
		sender_hold(s, ev->block);
		break;
	case PATH_DOWN:
		if (s->stage.cfg.down)
			s->stage.cfg.down(s->stage.cfg.arg, ev->channel, ev->error);
		break;
	case PATH_RECEIVED:
		pool_put(ev->block);
		sender_fail(s, -EPROTO);
		break;
	}
}

static bool sender_done(const struct sender *s)
{
	return s->stage.error || (s->drained && !s->first && !s->unacked);
}

/* The path is lost: hand one block to other paths. */
static void sender_pass_on(struct sender *s)
{
	struct block *b = NULL;
	int r;

	if (s->first) {
		sender_give_back(s, sender_unhold(s));
		return;
	}
	r = bq_pop(s->stage.cfg.q, &b);
	if (r == 0)
		sender_give_back(s, b);
	else if (r < 0)
		sender_fail(s, r);
	s->drained = r == 1;
}

static void *sender_main(void *arg)
{
	struct sender *s = arg;
	struct path *p = s->stage.cfg.path;
	struct path_event ev[EVENTS];

	place_self(&s->stage.cfg.cpus);
	while (!sender_done(s)) {
		int n, timeout_ms;

		if (atomic_load(&s->stage.abort)) {
			sender_fail(s, -ECANCELED);
			break;
		}
		if (s->lost) {
			sender_pass_on(s);
			continue;
		}
		timeout_ms = sender_post_all(s);
		if (sender_done(s))
			break;

		n = p->ops->poll(p, ev, EVENTS, timeout_ms);
		if (n < 0) {
			log_debug("%s: the path is lost: %d", s->stage.name, n);
			s->lost = true;
			/* The blocks that the path still owns cannot return. */
			if (s->unacked)
				sender_fail(s, n);
		}
		for (int i = 0; i < n; i++)
			sender_event(s, &ev[i]);
	}

	while (s->first)
		pool_put(sender_unhold(s));
	/* After a failure, the sink keeps its channels open until it reads our END: do not wait. */
	stage_leave(&s->stage, !s->lost);
	return NULL;
}

/* The notify function of the queue. The queue may outlive the sender, but not the path. */
static void sender_wake_path(void *arg)
{
	struct path *p = arg;

	p->ops->wake(p);
}

struct stage *sender_start(const struct stage_config *c, const char *name, struct err *e)
{
	bq_set_notify(c->q, sender_wake_path, c->path);
	return stage_start(c, sizeof(struct sender), name, sender_main, e);
}

/* ---- receiver ---- */

struct receiver {
	struct stage stage; /* down() reports errors of channels, stage.error does not */
	bool dry;           /* no channel is left, and its events have been handled */
	int last;           /* the error of the last channel that went down */
};

static void receiver_event(struct receiver *r, const struct path_event *ev)
{
	int rc;

	if (ev->kind == PATH_DOWN) {
		if (r->stage.cfg.down)
			r->stage.cfg.down(r->stage.cfg.arg, ev->channel, ev->error);
		r->last = ev->error;
		return;
	}

	rc = ev->kind == PATH_RECEIVED ? bq_push(r->stage.cfg.q, ev->block) : -EPROTO;
	if (rc < 0) {
		pool_put(ev->block);
		if (!r->stage.error)
			r->stage.error = rc;
	}
}

static void *receiver_main(void *arg)
{
	struct receiver *r = arg;
	struct stage *s = &r->stage;
	struct path *p = s->cfg.path;
	struct path_event ev[EVENTS];

	place_self(&s->cfg.cpus);
	/* Once no channel is left, no block can arrive, and the peer waits for no answer. */
	while (!atomic_load(&s->stop) && !s->error && !r->dry) {
		int n = p->ops->poll(p, ev, EVENTS, -1);

		if (n < 0)
			s->error = n;
		for (int i = 0; i < n; i++)
			receiver_event(r, &ev[i]);

		/* The error of the last channel becomes the error of the path. */
		r->dry = n < EVENTS && !atomic_load(&p->alive);
		if (r->dry && !s->error)
			s->error = r->last;
	}
	stage_leave(s, !r->dry);
	return NULL;
}

struct stage *receiver_start(const struct stage_config *c, const char *name, struct err *e)
{
	return stage_start(c, sizeof(struct receiver), name, receiver_main, e);
}
