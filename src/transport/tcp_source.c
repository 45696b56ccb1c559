// SPDX-License-Identifier: Apache-2.0
/* The sending direction of a TCP path: blocks out, lists of credits in. */
#include "transport/tcp.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>

/* Most bytes of one sendmsg: enough to make the system call cheap, little enough that
 * all channels and the credits get their turn. */
#define SEND_CHUNK (512u << 10)

enum { UNSENT, SENT }; /* block.sent_at */

static size_t head_bytes(const struct block *b)
{
	return BLOCK_WIRE_HEAD + (size_t)b->nextents * BLOCK_WIRE_EXTENT;
}

static size_t wire_bytes(const struct block *b)
{
	return head_bytes(b) + b->len;
}

/* ---- taking blocks ---- */

/* The head that was made for b and b itself must agree, or the sink would lose the
 * thread of the stream. */
static bool head_fits(const struct block *b)
{
	struct block_head h;

	return !block_head_get(b->base, b->cap, &h) && h.extents == b->nextents &&
	       h.payload == b->len && h.number == b->number;
}

/* A socket that takes bytes now goes before one that does not; then the one with the
 * least in front of it. */
static struct tcp_channel *best_channel(struct tcp_path *p)
{
	struct tcp_channel *best = NULL;
	uint32_t i;

	for (i = 0; i < p->path.nchannels; i++) {
		struct tcp_channel *c = &p->ch[i];

		if (!c->up || c->queued == TCP_QUEUE)
			continue;
		if (!best || (c->writable && !best->writable) ||
		    (c->writable == best->writable && c->outstanding < best->outstanding))
			best = c;
	}
	return best;
}

bool tcp_source_room(const struct tcp_path *p)
{
	uint32_t i;

	if (unacked_count(p->unacked) >= p->cfg.inflight)
		return false;
	for (i = 0; i < p->path.nchannels; i++)
		if (p->ch[i].up && p->ch[i].queued < TCP_QUEUE)
			return true;
	return false;
}

int tcp_source_post(struct path *path, struct block *b)
{
	struct tcp_path *p = (struct tcp_path *)path;
	struct tcp_channel *c;
	int r;

	if (!atomic_load(&path->alive))
		return -EPIPE;
	if (!head_fits(b))
		return -EINVAL;
	c = best_channel(p);
	r = c ? unacked_add(p->unacked, b) : -EAGAIN;
	if (r < 0) {
		p->want_room = r == -EAGAIN;
		return r;
	}
	b->channel = c->index;
	b->sent_at = UNSENT;
	b->next = NULL;
	c->queue[c->queued++] = b;
	c->outstanding += wire_bytes(b);
	return 0;
}

/* ---- sending ---- */

/* Add [p, p+len) without its first *skip bytes, and no more than *room. */
static void add_piece(struct iovec *iov, int *n, uint8_t *p, size_t len, size_t *skip, size_t *room)
{
	size_t from = *skip < len ? *skip : len;

	*skip -= from;
	len -= from;
	if (len > *room)
		len = *room;
	if (!len)
		return;
	*room -= len;
	iov[*n].iov_base = p + from;
	iov[*n].iov_len = len;
	(*n)++;
}

/* Bytes have been written: blocks that are gone leave the queue, but stay unacked. */
static void advance(struct tcp_channel *c, size_t bytes)
{
	while (bytes) {
		size_t left = wire_bytes(c->queue[0]) - c->sent;

		if (bytes < left) {
			c->sent += bytes;
			return;
		}
		bytes -= left;
		c->queue[0]->sent_at = SENT;
		c->sent = 0;
		c->queued--;
		memmove(&c->queue[0], &c->queue[1], c->queued * sizeof(c->queue[0]));
	}
}

static int send_some(struct tcp_path *p, struct tcp_channel *c)
{
	struct iovec iov[2 * TCP_QUEUE];
	struct msghdr m = { .msg_iov = iov };
	size_t skip = c->sent, room = SEND_CHUNK;
	int n = 0, fault;
	ssize_t r;
	uint32_t i;

	for (i = 0; i < c->queued; i++) {
		struct block *b = c->queue[i];

		add_piece(iov, &n, b->base, head_bytes(b), &skip, &room);
		add_piece(iov, &n, block_payload(b), b->len, &skip, &room);
	}
	m.msg_iovlen = (size_t)n;
	fault = FAULT("send", SEND_CHUNK - room);
	if (fault)
		return fault;
	r = sendmsg(c->fd, &m, MSG_NOSIGNAL | MSG_DONTWAIT);
	if (r < 0) {
		c->writable = errno == EINTR;
		return errno == EAGAIN || errno == EINTR ? 0 : -errno;
	}
	/* Fewer bytes than asked: the buffer is full, and room makes an edge. */
	if ((size_t)r < SEND_CHUNK - room)
		c->writable = false;
	tcp_count(p, c, (size_t)r);
	advance(c, (size_t)r);
	return FAULT("cut", (uint64_t)r) ? -ECONNRESET : 0;
}

void tcp_source_tell_ahead(struct tcp_path *p, struct tcp_channel *c)
{
	uint64_t ahead = c->stream.bytes > c->answered ? c->stream.bytes - c->answered : 0;

	tcp_set_ahead(p, c, ahead < c->outstanding ? ahead : c->outstanding);
}

/* ---- credits ---- */

static int one_credit(struct tcp_path *p, struct tcp_channel *c, uint32_t i, struct path_event *ev)
{
	struct credit credit;
	struct block *b;

	credit_list_at(c->in, i, &credit);
	b = unacked_find(p->unacked, credit.number);
	/* An answer to a block that was not sent, or not here, or not yet. */
	if (!b || b->channel != c->index || b->sent_at != SENT)
		return -EPROTO;
	unacked_take(p->unacked, credit.number);
	c->outstanding -= wire_bytes(b);
	c->answered += wire_bytes(b);
	tcp_source_tell_ahead(p, c);
	p->path.watch.ch[c->index].acked = true;
	*ev = (struct path_event){ .kind = credit.status ? PATH_RETURNED : PATH_ACKED,
				   .channel = c->index, .block = b, .status = credit.status };
	return 0;
}

/* Deal with whole lists in c->in, as far as max events go. */
static int take_credits(struct tcp_path *p, struct tcp_channel *c, struct path_event *ev, int max,
			int *events)
{
	for (;;) {
		uint32_t n;
		size_t size;
		int r = credit_list_peek(c->in, c->in_have, &n, &size);

		if (r > 0 && !c->in_checked)
			r = credit_list_check(&c->lists, c->in, size) ? -EBADMSG : 1;
		if (r <= 0)
			return r;
		c->in_checked = true;
		while (c->in_next < n && *events < max) {
			r = one_credit(p, c, c->in_next, &ev[*events]);
			if (r < 0)
				return r;
			c->in_next++;
			(*events)++;
		}
		if (c->in_next < n)
			return 0;
		c->in_next = 0;
		c->in_checked = false;
		c->in_have -= size;
		memmove(c->in, c->in + size, c->in_have);
	}
}

/* 0, 1 at the sink's end of stream, or an error. */
static int read_credits(struct tcp_path *p, struct tcp_channel *c, struct path_event *ev, int max,
			int *events)
{
	size_t room = CREDIT_LIST_BYTES - c->in_have;
	int r = take_credits(p, c, ev, max, events);
	ssize_t got;

	/* A list that waits for room in ev: do not read on before. */
	if (r < 0 || *events == max || !c->readable)
		return r;
	room = CREDIT_LIST_BYTES - c->in_have;
	r = FAULT("recv", room);
	if (r < 0)
		return r;
	got = recv(c->fd, c->in + c->in_have, room, MSG_DONTWAIT);
	if (got < 0) {
		c->readable = errno == EINTR;
		return errno == EAGAIN || errno == EINTR ? 0 : -errno;
	}
	if (!got)
		return 1;
	if ((size_t)got < room)
		c->readable = c->hup;
	c->in_have += (size_t)got;
	return take_credits(p, c, ev, max, events);
}

/* ---- rounds ---- */

/* A whole list that did not fit into the last caller's events. */
static bool credits_wait(const struct tcp_channel *c)
{
	uint32_t n;
	size_t size;

	return c->in_have && credit_list_peek(c->in, c->in_have, &n, &size) != 0;
}

bool tcp_source_runnable(const struct tcp_path *p, const struct tcp_channel *c)
{
	return c->readable || (c->writable && c->queued) || credits_wait(c);
}

int tcp_source_serve(struct tcp_path *p, struct tcp_channel *c, struct path_event *ev, int max)
{
	int events = 0, r = 0;

	if (c->readable || c->in_have)
		r = read_credits(p, c, ev, max, &events);
	if (r == 1) {
		/* In good order only when it owed us nothing. */
		tcp_channel_down(p, c, c->outstanding || c->in_have ? -ECONNRESET : 0);
		return events;
	}
	if (!r && c->writable && c->queued)
		r = send_some(p, c);
	if (r < 0)
		tcp_channel_down(p, c, r);
	return events;
}

void tcp_source_drop(struct tcp_path *p, struct tcp_channel *c)
{
	struct block *list = unacked_take_channel(p->unacked, c->index);

	c->queued = 0;
	c->outstanding = 0;
	tcp_set_ahead(p, c, 0);
	while (list) {
		struct block *b = list;

		list = b->next;
		b->next = p->returned;
		p->returned = b;
	}
}
