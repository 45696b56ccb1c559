// SPDX-License-Identifier: Apache-2.0
/* The receiving direction of a TCP path: blocks in, lists of credits out. */
#include "transport/tcp.h"

#include <sys/socket.h>
#include <sys/uio.h>

/* Most bytes of one readv: while a thread copies out of a socket, arriving packets wait in a
 * backlog, so the copies must be short. */
#define RECV_CHUNK (256u << 10)

/* ---- answers ---- */

void tcp_sink_release(struct path *path, struct block *b, uint32_t status)
{
	struct tcp_path *p = (struct tcp_path *)path;
	struct credit credit = { .number = b->number, .buffer = b->index, .status = status };
	uint32_t channel = b->channel;

	atomic_fetch_sub(&p->path.watch.ch[channel].held, 1);
	/* Free the block before the answer, which allows the source to send another. */
	pool_put(b);
	pthread_mutex_lock(&p->lock);
	credit_box_add(p->box, channel, &credit); /* -EPIPE: the channel died meanwhile */
	pthread_mutex_unlock(&p->lock);
	atomic_fetch_add(&p->due, 1);
	sleeper_kick(&p->sleeper);
}

void tcp_sink_refuse(struct path *path, struct block *b)
{
	struct tcp_path *p = (struct tcp_path *)path;
	struct tcp_channel *c = &p->ch[b->channel];

	atomic_fetch_sub(&p->path.watch.ch[b->channel].held, 1);
	pool_put(b);
	atomic_store(&c->damaged, true);
	atomic_store(&p->damage, true);
	sleeper_kick(&p->sleeper);
}

static int tcp_send_answers(struct tcp_path *p, struct tcp_channel *c)
{
	struct credit list[CREDITS_MAX];

	for (;;) {
		uint32_t n;
		ssize_t sent;
		int r;

		if (!c->out_len) {
			pthread_mutex_lock(&p->lock);
			n = credit_box_take(p->box, c->index, list, CREDITS_MAX);
			pthread_mutex_unlock(&p->lock);
			c->answers = n;
			c->out_sent = 0;
			r = n ? credit_list_put(&c->lists, c->out, list, n, &c->out_len) : 0;
			if (r || !n)
				return r;
		}

		r = FAULT("send", c->out_len - c->out_sent);
		if (r)
			return r;
		sent = send(c->fd, c->out + c->out_sent, c->out_len - c->out_sent,
			    MSG_NOSIGNAL | MSG_DONTWAIT);
		if (sent < 0) {
			c->writable = errno == EINTR;
			return errno == EAGAIN || errno == EINTR ? 0 : -errno;
		}
		c->out_sent += (size_t)sent;
		p->path.watch.ch[c->index].moved = true;
		if (c->out_sent < c->out_len) {
			c->writable = false;
			return 0;
		}
		c->out_len = 0;
	}
}

/* ---- blocks ---- */

static uint32_t tcp_body_bytes(const struct tcp_channel *c)
{
	return c->table + c->h.payload;
}

static void tcp_set_starved(struct tcp_path *p, struct tcp_channel *c, bool starved)
{
	if (c->starved == starved)
		return;
	c->starved = starved;
	atomic_fetch_add(&p->path.watch.ch[c->index].held, starved ? 1 : UINT32_MAX);
}

/* The head has arrived: check it and the source's credit, and take a free block for it. 1; 0: no
 * block is free; or a negative errno. The source had a credit, so a block is free, except when
 * blocks of a channel that the source knows to be dead are still in use. */
static int tcp_open_block(struct tcp_path *p, struct tcp_channel *c)
{
	struct block *b;
	int r = 0;

	if (!c->opened) {
		r = block_head_get(c->head, p->cfg.payload, &c->h);
		if (r < 0)
			return r;
		pthread_mutex_lock(&p->lock);
		r = credit_box_open(p->box, c->index);
		pthread_mutex_unlock(&p->lock);
		if (r < 0)
			return r;
		c->opened = true;
		c->table = (uint32_t)c->h.extents * BLOCK_WIRE_EXTENT;
	}

	b = pool_try_get(p->cfg.pool);
	tcp_set_starved(p, c, !b);
	if (!b) {
		p->stalled = true;
		return false;
	}

	memcpy(b->base, c->head, BLOCK_WIRE_HEAD);
	b->number = c->h.number;
	b->len = c->h.payload;
	b->channel = c->index;
	c->filling = b;
	c->got = 0;
	c->head_have = 0;
	c->opened = false;
	return true;
}

/* 0; 1: the source has ended the stream; or a negative errno. */
static int tcp_read_blocks(struct tcp_path *p, struct tcp_channel *c)
{
	struct iovec iov[3];
	size_t skip = c->got, none = 0, room = RECV_CHUNK, want, bytes;
	int n = 0, r;
	ssize_t got;

	/* One call reads the rest of the table, the rest of the payload, and the head of the next
	 * block. */
	if (c->filling) {
		tcp_add_piece(iov, &n, c->filling->base + BLOCK_WIRE_HEAD, c->table, &skip, &room);
		tcp_add_piece(iov, &n, block_payload(c->filling), c->h.payload, &skip, &room);
	}
	tcp_add_piece(iov, &n, c->head + c->head_have, BLOCK_WIRE_HEAD - c->head_have, &none,
		      &room);

	want = RECV_CHUNK - room;
	r = FAULT("recv", want);
	if (r < 0)
		return r;
	got = n == 1 ? recv(c->fd, iov[0].iov_base, want, MSG_DONTWAIT) : readv(c->fd, iov, n);
	if (got < 0) {
		c->readable = errno == EINTR;
		return errno == EAGAIN || errno == EINTR ? 0 : -errno;
	}

	if (!got)
		return 1;
	/* Fewer bytes than requested: the socket is empty; epoll reports an edge for new data, but
	 * none after the end (hup). */
	if ((size_t)got < want)
		c->readable = c->hup;
	path_count(&p->path, c->index, (size_t)got);
	p->path.watch.ch[c->index].moved = true;

	bytes = (size_t)got;
	if (c->filling) {
		uint32_t left = tcp_body_bytes(c) - c->got;

		if (left > bytes)
			left = (uint32_t)bytes;
		c->got += left;
		bytes -= left;
		tcp_set_ahead(p, c, c->got);
	}
	c->head_have += (uint32_t)bytes;
	return FAULT("cut", (uint64_t)got) ? -ECONNRESET : 0;
}

static bool tcp_block_whole(const struct tcp_channel *c)
{
	return c->filling && c->got == tcp_body_bytes(c);
}

/* Use the bytes that have been read, until bytes or a free block are missing. */
static int tcp_progress(struct tcp_path *p, struct tcp_channel *c)
{
	for (;;) {
		int r;

		if (c->filling) {
			struct block *b = c->filling;

			if (!tcp_block_whole(c))
				return 0;
			atomic_fetch_add(&p->path.watch.ch[c->index].held, 1);
			c->filling = NULL;
			tcp_set_ahead(p, c, 0);
			if (block_damage(b, b->len))
				b->number ^= 1;
			path_add_block(&p->path, PATH_RECEIVED, b, 0);
		}
		r = c->head_have < BLOCK_WIRE_HEAD ? 0 : tcp_open_block(p, c);
		if (r <= 0)
			return r;
	}
}

/* ---- rounds ---- */

bool tcp_sink_runnable(const struct tcp_path *p, const struct tcp_channel *c)
{
	if (c->writable && (c->out_len || c->answers))
		return true;
	if (c->opened)           /* a head without a block */
		return !p->stalled;
	return c->readable || tcp_block_whole(c);
}

void tcp_sink_serve(struct tcp_path *p, struct tcp_channel *c)
{
	uint32_t unanswered;
	int r = 0;

	if (c->writable && (c->out_len || c->answers))
		r = tcp_send_answers(p, c);
	if (!r)
		r = tcp_progress(p, c);
	if (!r && c->readable && !c->opened) {
		r = tcp_read_blocks(p, c);
		if (!r)
			r = tcp_progress(p, c);
	}
	if (r == 1) {
		/* The end is in good order if no block is incomplete and no answer is due. */
		pthread_mutex_lock(&p->lock);
		unanswered = credit_box_unanswered(p->box, c->index);
		pthread_mutex_unlock(&p->lock);
		r = unanswered || c->head_have || c->out_len ? -ECONNRESET : 0;
		tcp_channel_down(p, c, r);
	} else if (r) {
		tcp_channel_down(p, c, r);
	}
}

void tcp_sink_drop(struct tcp_path *p, struct tcp_channel *c)
{
	if (c->filling)
		pool_put(c->filling);
	c->filling = NULL;
	tcp_set_ahead(p, c, 0);
	p->stalled = false;      /* its block is free for others */
	tcp_set_starved(p, c, false);
	c->opened = c->answers = false;
	c->head_have = 0;
	c->out_len = 0;
	pthread_mutex_lock(&p->lock);
	credit_box_close(p->box, c->index);
	pthread_mutex_unlock(&p->lock);
}
