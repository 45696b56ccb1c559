// SPDX-License-Identifier: Apache-2.0
/* The receiving direction of a TCP path: blocks in, lists of credits out. */
#include "transport/tcp.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>

/* Most bytes of one readv: while a thread copies out of a socket, what arrives for it
 * waits in a backlog, so the copies are kept short enough. */
#define RECV_CHUNK (256u << 10)

/* ---- answers ---- */

void tcp_sink_release(struct path *path, struct block *b, uint32_t status)
{
	struct tcp_path *p = (struct tcp_path *)path;
	struct credit credit = { .number = b->number, .buffer = b->index, .status = status };
	uint32_t channel = b->channel;

	atomic_fetch_sub(&p->path.watch.ch[channel].held, 1);
	/* Free before the source may know of it. */
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

/* Fill the out buffer with the answers that wait. 1; 0: there are none; or an error. */
static int next_list(struct tcp_path *p, struct tcp_channel *c)
{
	struct credit list[CREDITS_MAX];
	uint32_t n;
	int r;

	pthread_mutex_lock(&p->lock);
	n = credit_box_take(p->box, c->index, list, CREDITS_MAX);
	pthread_mutex_unlock(&p->lock);
	if (!n)
		return 0;
	c->out_sent = 0;
	r = credit_list_put(&c->lists, c->out, list, n, &c->out_len);
	return r ? r : 1;
}

static int send_answers(struct tcp_path *p, struct tcp_channel *c)
{
	for (;;) {
		int fault = c->out_len ? 1 : next_list(p, c);
		ssize_t r;

		if (fault <= 0) {
			c->answers = false;
			return fault;
		}
		fault = FAULT("send", c->out_len - c->out_sent);
		if (fault)
			return fault;
		r = send(c->fd, c->out + c->out_sent, c->out_len - c->out_sent,
			 MSG_NOSIGNAL | MSG_DONTWAIT);
		if (r < 0) {
			c->writable = errno == EINTR;
			return errno == EAGAIN || errno == EINTR ? 0 : -errno;
		}
		c->out_sent += (size_t)r;
		p->path.watch.ch[c->index].moved = true;
		if (c->out_sent < c->out_len) {
			c->writable = false;
			return 0;
		}
		c->out_len = 0;
	}
}

/* ---- blocks ---- */

static uint32_t body_bytes(const struct tcp_channel *c)
{
	return c->table + c->h.payload;
}

/* The head is whole: check it and the source's credit. */
static int open_block(struct tcp_path *p, struct tcp_channel *c)
{
	int r = block_head_get(c->head, p->cfg.payload, &c->h);

	if (r < 0)
		return r;
	pthread_mutex_lock(&p->lock);
	r = credit_box_open(p->box, c->index);
	pthread_mutex_unlock(&p->lock);
	if (r < 0)
		return r;
	c->opened = true;
	c->table = (uint32_t)c->h.extents * BLOCK_WIRE_EXTENT;
	return 0;
}

static void note_starved(struct tcp_path *p, struct tcp_channel *c, bool starved)
{
	if (c->starved == starved)
		return;
	c->starved = starved;
	atomic_fetch_add(&p->path.watch.ch[c->index].held, starved ? 1 : UINT32_MAX);
}

/* A free block for the head that is there. The source had a credit, so there is one; but
 * for blocks of a channel that it knows to be dead and that are still with us: then wait. */
static bool give_block(struct tcp_path *p, struct tcp_channel *c)
{
	struct block *b = pool_try_get(p->cfg.pool);

	if (!b) {
		p->stalled = true;
		note_starved(p, c, true);
		return false;
	}
	note_starved(p, c, false);
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

static int add_piece(struct iovec *iov, int n, void *base, size_t len, size_t *room)
{
	if (len > *room)
		len = *room;
	if (!len)
		return n;
	*room -= len;
	iov[n].iov_base = base;
	iov[n].iov_len = len;
	return n + 1;
}

/* Where the next bytes of the stream belong: rest of the table, rest of the payload,
 * and, so that it costs no call of its own, the head of the block behind. */
static int next_pieces(struct tcp_channel *c, struct iovec iov[3], size_t *room)
{
	uint32_t got = c->got, table_left = 0;
	int n = 0;

	if (c->filling) {
		uint8_t *base = c->filling->base;

		if (got < c->table) {
			table_left = c->table - got;
			n = add_piece(iov, n, base + BLOCK_WIRE_HEAD + got, table_left, room);
			got = c->table;
		}
		n = add_piece(iov, n, base + BLOCK_HEAD + (got - c->table), body_bytes(c) - got,
			      room);
	}
	return add_piece(iov, n, c->head + c->head_have, BLOCK_WIRE_HEAD - c->head_have, room);
}

static void account(struct tcp_path *p, struct tcp_channel *c, size_t bytes)
{
	if (c->filling) {
		uint32_t left = body_bytes(c) - c->got;

		if (left > bytes)
			left = (uint32_t)bytes;
		c->got += left;
		bytes -= left;
		tcp_set_ahead(p, c, c->got);
	}
	c->head_have += (uint32_t)bytes;
}

/* 0, 1 at the source's end of stream, or an error. */
static int read_some(struct tcp_path *p, struct tcp_channel *c)
{
	struct iovec iov[3];
	size_t room = RECV_CHUNK, want;
	int n, r;
	ssize_t got;

	n = next_pieces(c, iov, &room);
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
	/* Fewer bytes than asked: the socket is empty, and more makes an edge; but not
	 * when the end has been announced already. */
	if ((size_t)got < want)
		c->readable = c->hup;
	tcp_count(p, c, (size_t)got);
	p->path.watch.ch[c->index].moved = true;
	account(p, c, (size_t)got);
	return FAULT("cut", (uint64_t)got) ? -ECONNRESET : 0;
}

static void received(struct tcp_path *p, struct tcp_channel *c, struct path_event *ev)
{
	struct block *b = c->filling;

	atomic_fetch_add(&p->path.watch.ch[c->index].held, 1);
	c->filling = NULL;
	tcp_set_ahead(p, c, 0);
	fault_corrupt(b);
	*ev = (struct path_event){ .kind = PATH_RECEIVED, .channel = c->index, .block = b };
}

static bool whole(const struct tcp_channel *c)
{
	return c->filling && c->got == body_bytes(c);
}

/* Go on with what has been read, until bytes, a buffer or room in ev are missing. */
static int progress(struct tcp_path *p, struct tcp_channel *c, struct path_event *ev, int max,
		    int *events)
{
	for (;;) {
		int r;

		if (c->filling) {
			if (!whole(c) || *events == max)
				return 0;
			received(p, c, &ev[(*events)++]);
		}
		if (c->head_have < BLOCK_WIRE_HEAD)
			return 0;
		r = c->opened ? 0 : open_block(p, c);
		if (r < 0)
			return r;
		if (!give_block(p, c))
			return 0;
	}
}

/* The source may leave when it owes us no part of a block and we no answer. */
static int end_of_stream(struct tcp_path *p, struct tcp_channel *c)
{
	uint32_t unanswered;

	pthread_mutex_lock(&p->lock);
	unanswered = credit_box_unanswered(p->box, c->index);
	pthread_mutex_unlock(&p->lock);
	return unanswered || c->head_have || c->out_len ? -ECONNRESET : 0;
}

/* ---- rounds ---- */

bool tcp_sink_runnable(const struct tcp_path *p, const struct tcp_channel *c)
{
	if (c->writable && (c->out_len || c->answers))
		return true;
	if (c->opened)           /* a head without a buffer */
		return !p->stalled;
	return c->readable || whole(c);
}

/* 0, 1 at the end of the stream, or an error. */
static int receive(struct tcp_path *p, struct tcp_channel *c, struct path_event *ev, int max,
		   int *events)
{
	int r = progress(p, c, ev, max, events);

	if (r < 0 || !c->readable || c->opened || whole(c))
		return r;
	r = read_some(p, c);
	return r ? r : progress(p, c, ev, max, events);
}

int tcp_sink_serve(struct tcp_path *p, struct tcp_channel *c, struct path_event *ev, int max)
{
	int events = 0, r = 0;

	if (c->writable && (c->out_len || c->answers))
		r = send_answers(p, c);
	if (!r)
		r = receive(p, c, ev, max, &events);
	if (r)
		tcp_channel_down(p, c, r < 0 ? r : end_of_stream(p, c));
	return events;
}

void tcp_sink_drop(struct tcp_path *p, struct tcp_channel *c)
{
	if (c->filling)
		pool_put(c->filling);
	c->filling = NULL;
	tcp_set_ahead(p, c, 0);
	p->stalled = false;      /* what it was filling is free for others */
	note_starved(p, c, false);
	c->opened = c->answers = false;
	c->head_have = 0;
	c->out_len = 0;
	pthread_mutex_lock(&p->lock);
	credit_box_close(p->box, c->index);
	pthread_mutex_unlock(&p->lock);
}
