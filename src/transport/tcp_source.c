// SPDX-License-Identifier: Apache-2.0
/* The sending direction of a TCP path: blocks out, lists of credits in. */
#include "transport/tcp.h"

#include <sys/socket.h>

/* Most bytes of one sendmsg: enough to make the system call cheap, few enough that all channels and
 * the credits are served in turn. */
#define SEND_CHUNK (512u << 10)

enum { UNSENT, SENT }; /* block.sent_at */

/* ---- taking blocks ---- */

/* The channel for the next block: one with a writable socket, then the one with the fewest
 * outstanding bytes. NULL: no credit or no room is left. A block counts against the credits until
 * the stage takes its event. */
static struct tcp_channel *tcp_best_channel(struct tcp_path *p)
{
	struct tcp_channel *best = NULL;

	if (unacked_count(p->unacked) + p->path.events.nblocks >= p->cfg.inflight)
		return NULL;
	for (uint32_t i = 0; i < p->path.nchannels; i++) {
		struct tcp_channel *c = &p->ch[i];

		if (!c->up || c->queued == TCP_QUEUE)
			continue;
		if (!best || (c->writable && !best->writable) ||
		    (c->writable == best->writable && c->outstanding < best->outstanding))
			best = c;
	}
	return best;
}

bool tcp_source_room(struct tcp_path *p)
{
	return tcp_best_channel(p);
}

int tcp_source_post(struct path *path, struct block *b)
{
	struct tcp_path *p = (struct tcp_path *)path;
	struct tcp_channel *c;
	int r;

	if (!atomic_load(&path->alive))
		return -EPIPE;
	/* A head that does not match b would make the sink lose its position in the stream. */
	if (!block_head_agrees(b))
		return -EINVAL;

	c = tcp_best_channel(p);
	r = c ? unacked_add(p->unacked, b) : -EAGAIN;
	if (r < 0) {
		path->want_room = r == -EAGAIN;
		return r;
	}

	b->channel = c->index;
	b->sent_at = UNSENT;
	c->queue[c->queued++] = b;
	c->outstanding += block_wire_bytes(b);
	return 0;
}

/* ---- sending ---- */

static int tcp_send_blocks(struct tcp_path *p, struct tcp_channel *c)
{
	struct iovec iov[2 * TCP_QUEUE];
	struct msghdr m = { .msg_iov = iov };
	size_t skip = c->sent, room = SEND_CHUNK;
	int n = 0, fault;
	size_t bytes;
	ssize_t r;

	for (uint32_t i = 0; i < c->queued; i++) {
		struct block *b = c->queue[i];

		tcp_add_piece(iov, &n, b->base, block_wire_head(b), &skip, &room);
		tcp_add_piece(iov, &n, block_payload(b), b->len, &skip, &room);
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

	bytes = (size_t)r;
	/* Fewer bytes than requested: the buffer is full; room in it causes an edge (epoll). */
	if (bytes < SEND_CHUNK - room)
		c->writable = false;
	path_count(&p->path, c->index, bytes);
	/* Completely written blocks leave the queue, but stay unacknowledged. */
	for (c->sent += bytes; c->queued && c->sent >= block_wire_bytes(c->queue[0]);) {
		c->sent -= block_wire_bytes(c->queue[0]);
		c->queue[0]->sent_at = SENT;
		c->queued--;
		memmove(&c->queue[0], &c->queue[1], c->queued * sizeof(c->queue[0]));
	}
	return FAULT("cut", bytes) ? -ECONNRESET : 0;
}

void tcp_source_publish_ahead(struct tcp_path *p, struct tcp_channel *c)
{
	uint64_t ahead = c->stream.bytes > c->answered ? c->stream.bytes - c->answered : 0;

	tcp_set_ahead(p, c, ahead < c->outstanding ? ahead : c->outstanding);
}

/* ---- credits ---- */

/* Use the whole lists in c->in. */
static int tcp_take_credits(struct tcp_path *p, struct tcp_channel *c)
{
	for (;;) {
		uint32_t n;
		size_t size;
		int r = credit_list_peek(c->in, c->in_have, &n, &size);

		if (r <= 0)
			return r;
		if (credit_list_check(&c->lists, c->in, size))
			return -EBADMSG;
		for (uint32_t i = 0; i < n; i++) {
			struct credit credit;
			struct block *b;

			credit_list_at(c->in, i, &credit);
			b = unacked_find(p->unacked, credit.number);
			/* The block was not sent, not on this channel, or not completely: a wrong
			 * answer. */
			if (!b || b->channel != c->index || b->sent_at != SENT)
				return -EPROTO;
			unacked_take(p->unacked, credit.number);
			c->outstanding -= block_wire_bytes(b);
			c->answered += block_wire_bytes(b);
			path_add_block(&p->path, credit.status ? PATH_RETURNED : PATH_ACKED, b,
				       credit.status);
		}
		tcp_source_publish_ahead(p, c);
		p->path.watch.ch[c->index].acked = true;
		c->in_have -= size;
		memmove(c->in, c->in + size, c->in_have);
	}
}

/* 0; 1: the sink has ended the stream; or a negative errno. */
static int tcp_read_credits(struct tcp_path *p, struct tcp_channel *c)
{
	size_t room = CREDIT_LIST_BYTES - c->in_have;
	int r = FAULT("recv", room);
	ssize_t got;

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
	return tcp_take_credits(p, c);
}

/* ---- rounds ---- */

bool tcp_source_runnable(const struct tcp_channel *c)
{
	return c->readable || (c->writable && c->queued);
}

void tcp_source_serve(struct tcp_path *p, struct tcp_channel *c)
{
	int r = c->readable ? tcp_read_credits(p, c) : 0;

	/* The end is in good order only if the sink owed no answer. */
	if (r == 1) {
		tcp_channel_down(p, c, c->outstanding || c->in_have ? -ECONNRESET : 0);
		return;
	}

	if (!r && c->writable && c->queued)
		r = tcp_send_blocks(p, c);
	if (r < 0)
		tcp_channel_down(p, c, r);
}

void tcp_source_drop(struct tcp_path *p, struct tcp_channel *c)
{
	c->queued = 0;
	c->outstanding = 0;
	tcp_set_ahead(p, c, 0);
	unacked_return(p->unacked, &p->path, c->index);
}
