// SPDX-License-Identifier: Apache-2.0
/* A path through the message stream, for networks where no data port can be reached. The path's
 * thread writes; the thread that reads the stream hands over the arriving frames. */
#include "transport/credit.h"
#include "transport/transport.h"

#include <pthread.h>
#include <stdatomic.h>

struct inband {
	struct path path;
	struct path_config cfg;
	struct mstream *m;       /* not owned */

	pthread_mutex_t lock;    /* guards path.events and all below */
	pthread_cond_t news;
	bool woken;
	bool over;               /* the stream failed; PATH_DOWN reports it */
	int over_error;
	struct unacked *unacked; /* source */
	struct credit_box *box;  /* sink */
	struct messages lists;   /* credit lists: the source's reader checks, the sink's path seals
				  * them; no key, because the stream has its own protection */
};

static struct inband *inband(struct path *path)
{
	return (struct inband *)path;
}

/* The stream has failed; call it with the lock held. */
static void inband_down(struct inband *p, int error)
{
	if (p->over)
		return;
	p->over = true;
	p->over_error = error;
	atomic_store(&p->path.alive, 0);
	if (p->cfg.source)
		unacked_return(p->unacked, &p->path, 0);
	else
		credit_box_close(p->box, 0);
	path_add_down(&p->path, 0, error);
	pthread_cond_signal(&p->news);
}

static void inband_down_locked(struct inband *p, int error)
{
	LOCK_GUARD(held, &p->lock);

	inband_down(p, error);
}

/* Source: do the credits allow one more block? Call it with the lock held. */
static bool inband_has_room(const struct inband *p)
{
	return unacked_count(p->unacked) + p->path.events.nblocks < p->cfg.inflight;
}

/* ---- the path's thread ---- */

static int inband_post(struct path *path, struct block *b)
{
	struct inband *p = inband(path);
	struct iovec iov[2] = {
		{ .iov_base = b->base, .iov_len = block_wire_head(b) },
		{ .iov_base = block_payload(b), .iov_len = b->len },
	};
	int r;

	b->channel = 0; /* inband_down() returns the blocks of this channel */
	pthread_mutex_lock(&p->lock);
	r = p->over ? -EPIPE : inband_has_room(p) ? unacked_add(p->unacked, b) : -EAGAIN;
	path->want_room = r == -EAGAIN;
	pthread_mutex_unlock(&p->lock);
	if (r < 0)
		return r;

	/* The answer may come during the write, so b must not be touched after it. */
	path_count(path, 0, iov[0].iov_len + iov[1].iov_len);
	r = FAULT("send", b->len);
	if (!r)
		r = ms_write_framev(p->m, BULK_DATA, iov, 2);
	if (r < 0)
		inband_down_locked(p, r); /* returns b with the others */
	return 0;
}

/* Send all pending answers; call it without the lock. */
static void inband_send_answers(struct inband *p)
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
		if (r < 0)
			inband_down_locked(p, r);
	}
}

static int inband_poll(struct path *path, struct path_event *ev, int max, int timeout_ms)
{
	struct inband *p = inband(path);
	uint64_t end = ns_after(timeout_ms);
	int n, r = 0;

	for (;;) {
		bool news;

		if (p->box)
			inband_send_answers(p);
		LOCK_GUARD(held, &p->lock);
		n = path_take_events(path, ev, max);
		news = p->woken;
		p->woken = false;
		if (path->want_room && inband_has_room(p)) {
			path->want_room = false;
			news = true;
		}
		if (news || n)
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

	(void)timeout_ms;        /* the stream has its own limit */
	if (p->box)
		inband_send_answers(p);
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
	credit_box_add(p->box, 0, &credit); /* -EPIPE: the path is down */
	pthread_cond_signal(&p->news);
}

/* This is the only channel, so the path goes down with it. */
static void inband_refuse(struct path *path, struct block *b)
{
	pool_put(b);
	inband_down_locked(inband(path), -EBADMSG);
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
	if (len < BLOCK_WIRE_HEAD)
		return -EBADMSG;
	r = block_head_get(frame, p->cfg.payload, &h);
	if (r < 0)
		return r;
	head = BLOCK_WIRE_HEAD + (size_t)h.extents * BLOCK_WIRE_EXTENT;
	if (len != head + h.payload)
		return -EBADMSG;

	pthread_mutex_lock(&p->lock);
	r = p->over ? -EPIPE : credit_box_open(p->box, 0);
	pthread_mutex_unlock(&p->lock);
	if (r < 0)
		return r;

	/* The source had a credit, so there is a free block. */
	b = pool_try_get(p->cfg.pool);
	if (!b)
		return -EPROTO;

	memcpy(b->base, frame, head);
	memcpy(block_payload(b), frame + head, h.payload);
	b->number = h.number;
	b->len = h.payload;
	b->channel = 0;
	if (block_damage(b, b->len))
		b->number ^= 1;
	__atomic_fetch_add(&path->channel_bytes[0], len, __ATOMIC_RELAXED);

	LOCK_GUARD(held, &p->lock);
	path_add_block(path, PATH_RECEIVED, b, 0);
	pthread_cond_signal(&p->news);
	return 0;
}

int inband_path_credit(struct path *path, struct buf *payload)
{
	struct inband *p = inband(path);
	uint32_t n;
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
	for (uint32_t i = 0; i < n; i++) {
		struct credit credit;
		struct block *b;

		credit_list_at(buf_ptr(payload), i, &credit);
		b = unacked_take(p->unacked, credit.number);
		if (!b)
			return -EPROTO;
		path_add_block(path, credit.status ? PATH_RETURNED : PATH_ACKED, b, credit.status);
		pthread_cond_signal(&p->news);
	}
	return 0;
}

/* ---- making ---- */

static void inband_free(struct path *path)
{
	struct inband *p = inband(path);

	if (p->unacked || p->box)
		inband_down(p, -ECANCELED);
	path_destroy(path);
	unacked_free(p->unacked);
	credit_box_free(p->box);
	pthread_cond_destroy(&p->news);
	pthread_mutex_destroy(&p->lock);
	free(p);
}

static const struct path_ops inband_ops = {
	.name = "inband",
	.post = inband_post,
	.poll = inband_poll,
	.release = inband_release,
	.refuse = inband_refuse,
	.wake = inband_wake,
	.finish = inband_finish,
	.free = inband_free,
};

struct path *inband_path_new(const struct path_config *c, struct mstream *m, struct err *e)
{
	struct inband *p = c->inflight ? calloc(1, sizeof(*p)) : NULL;
	int r;

	if (!p) {
		err_sys(e, c->inflight ? -ENOMEM : -EINVAL, "an in-band path");
		return NULL;
	}
	atomic_init(&p->path.alive, 1);
	p->cfg = *c;
	p->m = m;
	pthread_mutex_init(&p->lock, NULL);
	cond_init(&p->news);

	r = path_init(&p->path, &inband_ops, c, 1, false);
	if (!r && c->source)
		p->unacked = unacked_new(c->inflight);
	else if (!r)
		p->box = credit_box_new(1, c->inflight);
	if (!p->unacked && !p->box) {
		inband_free(&p->path);
		err_nomem(e);
		return NULL;
	}
	return &p->path;
}
