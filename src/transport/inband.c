// SPDX-License-Identifier: Apache-2.0
/* A path through the message stream, for where no data port can be reached. Its own
 * thread writes; what comes in is handed over by the stream's reader. */
#include "transport/credit.h"
#include "transport/fault.h"
#include "transport/transport.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

struct inband {
	struct path path;
	struct path_config cfg;
	struct mstream *m;       /* not owned */

	pthread_mutex_t lock;    /* guards all below */
	pthread_cond_t news;
	bool woken;
	bool want_room;
	bool over;               /* the stream failed; told by PATH_DOWN */
	bool over_due;
	int over_error;
	struct unacked *unacked; /* source */
	struct credit_box *box;  /* sink */
	struct messages lists;   /* the source's reader checks, the sink's thread seals; never
				  * with a key: the stream has its own protection */
	/* Waiting to be told, in a ring of inflight places: the sink's blocks are in its
	 * books until they are released; the source's post counts them with those that
	 * are unacknowledged. */
	struct path_event *ring;
	uint32_t ring_first, ring_count;
};

static struct inband *inband(struct path *path)
{
	return (struct inband *)path;
}

/* ---- called with the lock held ---- */

static void tell(struct inband *p, const struct path_event *ev)
{
	p->ring[(p->ring_first + p->ring_count++) % p->cfg.inflight] = *ev;
	pthread_cond_signal(&p->news);
}

static void go_down(struct inband *p, int error)
{
	struct block *list;

	if (p->over)
		return;
	p->over = p->over_due = true;
	p->over_error = error;
	atomic_store(&p->path.alive, 0);
	if (p->cfg.source) {
		list = unacked_take_channel(p->unacked, 0);
		while (list) {
			struct path_event ev = { .kind = PATH_RETURNED, .block = list,
						 .error = -EPIPE };

			list = list->next;
			ev.block->next = NULL;
			tell(p, &ev);
		}
	} else {
		credit_box_close(p->box, 0);
	}
	pthread_cond_signal(&p->news);
}

static int take_events(struct inband *p, struct path_event *ev, int max)
{
	int n = 0;

	while (p->ring_count && n < max) {
		ev[n++] = p->ring[p->ring_first];
		p->ring_first = (p->ring_first + 1) % p->cfg.inflight;
		p->ring_count--;
	}
	if (p->over_due && n < max) {
		p->over_due = false;
		ev[n++] = (struct path_event){ .kind = PATH_DOWN, .error = p->over_error };
	}
	return n;
}

/* Source: one more block fits into the credits and, when it comes back, the ring. */
static bool has_room(const struct inband *p)
{
	return unacked_count(p->unacked) + p->ring_count < p->cfg.inflight;
}

/* A wake, or the room that post did not find. */
static bool other_news(struct inband *p)
{
	bool room = p->want_room && has_room(p);
	bool news = room || p->woken;

	if (room)
		p->want_room = false;
	p->woken = false;
	return news;
}

/* ---- the path's thread ---- */

static int inband_post(struct path *path, struct block *b)
{
	struct inband *p = inband(path);
	struct iovec iov[2] = {
		{ .iov_base = b->base,
		  .iov_len = BLOCK_WIRE_HEAD + (size_t)b->nextents * BLOCK_WIRE_EXTENT },
		{ .iov_base = block_payload(b), .iov_len = b->len },
	};
	int r;

	pthread_mutex_lock(&p->lock);
	r = p->over ? -EPIPE : has_room(p) ? unacked_add(p->unacked, b) : -EAGAIN;
	p->want_room = r == -EAGAIN;
	pthread_mutex_unlock(&p->lock);
	if (r < 0)
		return r;
	b->channel = 0;
	/* From here on the answer may come, so b must not be touched after the write. */
	__atomic_store_n(&path->channel_bytes[0],
			 path->channel_bytes[0] + iov[0].iov_len + iov[1].iov_len,
			 __ATOMIC_RELAXED);
	r = FAULT("send", b->len);
	if (!r)
		r = ms_write_framev(p->m, BULK_DATA, iov, 2);
	if (r < 0) {
		/* b comes back as RETURNED with the others. */
		pthread_mutex_lock(&p->lock);
		go_down(p, r);
		pthread_mutex_unlock(&p->lock);
	}
	return 0;
}

/* Send all answers there are; takes the lock for looking only. */
static void send_answers(struct inband *p)
{
	struct credit list[CREDITS_MAX];
	uint8_t frame[CREDIT_LIST_BYTES];

	for (;;) {
		uint32_t n;
		size_t size;
		int r;

		pthread_mutex_lock(&p->lock);
		n = p->over ? 0 : credit_box_take(p->box, 0, list, CREDITS_MAX);
		pthread_mutex_unlock(&p->lock);
		if (!n)
			return;
		r = credit_list_put(&p->lists, frame, list, n, &size);
		if (!r)
			r = ms_write_frame(p->m, BULK_CREDIT, frame, size);
		if (r < 0) {
			pthread_mutex_lock(&p->lock);
			go_down(p, r);
			pthread_mutex_unlock(&p->lock);
		}
	}
}

static int inband_poll(struct path *path, struct path_event *ev, int max, int timeout_ms)
{
	struct inband *p = inband(path);
	uint64_t end = ns_after(timeout_ms);
	int n, r = 0;

	for (;;) {
		if (p->box)
			send_answers(p);
		LOCK_GUARD(held, &p->lock);
		n = take_events(p, ev, max);
		if (other_news(p) || n)
			return n;
		if (!timeout_ms || r == -ETIMEDOUT)
			return 0;
		if (p->box && !p->over && credit_box_pending(p->box, 0))
			continue;
		r = cond_wait_until(&p->news, &p->lock, end);
	}
}

static int inband_finish(struct path *path, int timeout_ms)
{
	struct inband *p = inband(path);

	(void)timeout_ms;        /* the stream has its own */
	if (p->box)
		send_answers(p);
	LOCK_GUARD(held, &p->lock);
	if (p->unacked && unacked_count(p->unacked))
		return -EBUSY;
	return p->over ? p->over_error : 0;
}

/* ---- other threads ---- */

static void inband_wake(struct path *path)
{
	struct inband *p = inband(path);
	LOCK_GUARD(held, &p->lock);

	p->woken = true;
	pthread_cond_signal(&p->news);
}

static void inband_release(struct path *path, struct block *b, uint32_t status)
{
	struct inband *p = inband(path);
	struct credit credit = { .number = b->number, .buffer = b->index, .status = status };

	pool_put(b);
	LOCK_GUARD(held, &p->lock);
	credit_box_add(p->box, 0, &credit); /* -EPIPE: nobody waits any more */
	pthread_cond_signal(&p->news);
}

/* There is no other channel: the path is down with this one. */
static void inband_refuse(struct path *path, struct block *b)
{
	struct inband *p = inband(path);

	pool_put(b);
	LOCK_GUARD(held, &p->lock);
	go_down(p, -EBADMSG);
}

/* Check head and credit; *b: where to put the block. */
static int accept_block(struct inband *p, const uint8_t *frame, size_t len, struct block_head *h,
			struct block **b)
{
	size_t table;
	int r;

	*b = NULL;
	if (len < BLOCK_WIRE_HEAD)
		return -EBADMSG;
	r = block_head_get(frame, p->cfg.payload, h);
	if (r < 0)
		return r;
	table = (size_t)h->extents * BLOCK_WIRE_EXTENT;
	if (len != BLOCK_WIRE_HEAD + table + h->payload)
		return -EBADMSG;
	pthread_mutex_lock(&p->lock);
	r = p->over ? -EPIPE : credit_box_open(p->box, 0);
	pthread_mutex_unlock(&p->lock);
	if (r < 0)
		return r;
	/* The source had a credit, so there is a free block. */
	*b = pool_try_get(p->cfg.pool);
	return *b ? 0 : -EPROTO;
}

int inband_path_data(struct path *path, struct buf *payload)
{
	struct inband *p = inband(path);
	const uint8_t *frame = buf_ptr(payload);
	size_t len = buf_len(payload), head;
	struct block_head h;
	struct block *b;
	int r;

	if (!p->box)
		return -EPROTO;
	r = accept_block(p, frame, len, &h, &b);
	if (r < 0)
		return r;
	head = BLOCK_WIRE_HEAD + (size_t)h.extents * BLOCK_WIRE_EXTENT;
	memcpy(b->base, frame, head);
	memcpy(block_payload(b), frame + head, h.payload);
	b->number = h.number;
	b->len = h.payload;
	b->channel = 0;
	fault_corrupt(b);
	__atomic_fetch_add(&path->channel_bytes[0], len, __ATOMIC_RELAXED);

	struct path_event ev = { .kind = PATH_RECEIVED, .block = b };
	LOCK_GUARD(held, &p->lock);
	tell(p, &ev);
	return 0;
}

static int take_credit(struct inband *p, const uint8_t *list, uint32_t i)
{
	struct path_event ev = { .kind = PATH_ACKED };
	struct credit credit;

	credit_list_at(list, i, &credit);
	ev.block = unacked_take(p->unacked, credit.number);
	if (!ev.block)
		return -EPROTO;
	ev.status = credit.status;
	if (credit.status)
		ev.kind = PATH_RETURNED;
	tell(p, &ev);
	return 0;
}

int inband_path_credit(struct path *path, struct buf *payload)
{
	struct inband *p = inband(path);
	uint32_t i, n;
	size_t size;
	int r;

	if (!p->unacked)
		return -EPROTO;
	r = credit_list_peek(buf_ptr(payload), buf_len(payload), &n, &size);
	if (r < 0)
		return r;
	if (!r || size != buf_len(payload) ||
	    credit_list_check(&p->lists, buf_ptr(payload), size))
		return -EBADMSG;
	LOCK_GUARD(held, &p->lock);
	for (i = 0; i < n; i++) {
		r = take_credit(p, buf_ptr(payload), i);
		if (r < 0)
			return r;
	}
	return 0;
}

/* ---- making ---- */

static void inband_free(struct path *path)
{
	struct inband *p = inband(path);
	struct path_event ev;

	if (p->unacked || p->box)
		go_down(p, -ECANCELED);
	while (p->ring && take_events(p, &ev, 1))
		if (ev.block)
			pool_put(ev.block);
	unacked_free(p->unacked);
	credit_box_free(p->box);
	free(p->ring);
	free(path->channel_bytes);
	pthread_cond_destroy(&p->news);
	pthread_mutex_destroy(&p->lock);
	free(p);
}

static const struct path_ops source_ops = {
	.name = "inband",
	.post = inband_post,
	.poll = inband_poll,
	.wake = inband_wake,
	.finish = inband_finish,
	.free = inband_free,
};

static const struct path_ops sink_ops = {
	.name = "inband",
	.poll = inband_poll,
	.release = inband_release,
	.refuse = inband_refuse,
	.wake = inband_wake,
	.finish = inband_finish,
	.free = inband_free,
};

struct path *inband_path_new(const struct path_config *c, struct mstream *m, struct err *e)
{
	struct inband *p = calloc(1, sizeof(*p));

	if (!p || !c->inflight) {
		free(p);
		err_sys(e, p ? -EINVAL : -ENOMEM, "an in-band path");
		return NULL;
	}
	p->path.ops = c->source ? &source_ops : &sink_ops;
	p->path.nchannels = 1;
	p->path.watch.source = c->source;
	atomic_init(&p->path.alive, 1);
	p->path.pool = c->pool;
	p->cfg = *c;
	p->m = m;
	pthread_mutex_init(&p->lock, NULL);
	cond_init(&p->news);
	p->path.channel_bytes = calloc(1, sizeof(*p->path.channel_bytes));
	p->ring = calloc(c->inflight, sizeof(*p->ring));
	if (c->source)
		p->unacked = unacked_new(c->inflight);
	else
		p->box = credit_box_new(1, c->inflight);
	if (!p->path.channel_bytes || !p->ring || (!p->unacked && !p->box)) {
		inband_free(&p->path);
		err_sys(e, -ENOMEM, "an in-band path");
		return NULL;
	}
	return &p->path;
}
