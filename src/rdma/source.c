// SPDX-License-Identifier: Apache-2.0
/* The source's direction: blocks are written into granted buffers (WRITE) or announced (READ);
 * lists of credits arrive. */
#include "rdma/path.h"

#include <arpa/inet.h>

/* ---- taking blocks ---- */

static bool rd_channel_has_room(const struct rd_path *p, const struct rd_channel *c)
{
	if (c->state != RD_UP)
		return false;
	/* Announcements wait in a list of their own; the sink has a receive for each block in
	 * flight. */
	return p->read ? c->blocks < p->cfg.inflight : c->ncredits && c->sends < c->sends_max;
}

/* The channel for the next block; NULL: no credit or no room is left. */
static struct rd_channel *rd_best_channel(struct rd_path *p)
{
	struct rd_channel *best = NULL;

	for (uint32_t i = 0; p->unacked < p->cfg.inflight && i < p->path.nchannels; i++) {
		struct rd_channel *c = &p->ch[i];

		if (rd_channel_has_room(p, c) && (!best || c->outstanding < best->outstanding))
			best = c;
	}
	return best;
}

bool rd_source_room(struct rd_path *p)
{
	return rd_best_channel(p);
}

static void rd_source_taken(struct rd_path *p, struct rd_channel *c, struct block *b,
			    uint32_t buffer)
{
	p->at[buffer] = b;
	p->unacked++;
	b->channel = c->index;
	b->next = NULL;
	c->blocks++;
	c->outstanding += block_wire_bytes(b);
}

/* ---- WRITE ---- */

static int rd_write_block(struct rd_path *p, struct rd_channel *c, struct block *b)
{
	uint32_t head = block_wire_head(b), buffer = c->credits[c->ncredits - 1];
	struct ibv_sge sge[2] = {
		{ rd_block_at(p, b), head, p->mr->lkey },
		{ rd_block_at(p, b) + BLOCK_HEAD, b->len, p->mr->lkey },
	};
	struct ibv_send_wr wr = {
		.wr_id = rd_work_id(RD_WORK_DATA, c->index, 0),
		.sg_list = sge,
		.num_sge = b->len ? 2 : 1,
		.opcode = IBV_WR_RDMA_WRITE_WITH_IMM,
		.imm_data = htonl(b->nextents << 24 | buffer),
	};
	int r;

	/* Write head and table right before the payload, so that the payload stays aligned. */
	rd_aim(&wr, c, buffer * (uint64_t)p->stride + BLOCK_HEAD - head, head + b->len);
	/* Request one completion for each quarter of the queue: each costs the device a write and
	 * us a read, and the credits confirm the data anyway. */
	if (++c->unsignaled >= (c->sends_max + 3) / 4) {
		wr.send_flags = IBV_SEND_SIGNALED;
		wr.wr_id = rd_work_id(RD_WORK_DATA, c->index, c->unsignaled);
		c->unsignaled = 0;
	}

	r = FAULT("send", b->len);
	if (!r)
		r = p->v->post_send(c->id, &wr);
	if (r)
		return r;

	c->ncredits--;
	c->sends++;
	rd_source_taken(p, c, b, buffer);
	return 0;
}

/* ---- READ ---- */

static int rd_announce_block(struct rd_path *p, struct rd_channel *c, struct block *b)
{
	uint32_t head = block_wire_head(b);

	/* Move head and table next to the payload: then the sink reads one piece of memory. */
	memmove(b->base + BLOCK_HEAD - head, b->base, head);
	rd_source_taken(p, c, b, b->index);
	if (c->announce)
		c->announce_last->next = b;
	else
		c->announce = b;
	c->announce_last = b;
	return rd_source_announce(p, c);
}

int rd_source_announce(struct rd_path *p, struct rd_channel *c)
{
	while (c->announce) {
		uint32_t slot, n = 0;
		uint8_t *m = rd_message_get(c, &slot);
		int r;

		if (!m)
			return 0; /* wait until a message is free again */
		while (c->announce && n < RD_ANNOUNCES) {
			struct block *b = c->announce;
			struct announce a = { .number = b->number, .buffer = b->index,
					      .head = block_wire_head(b), .payload = b->len };

			announce_put(m + MESSAGE_HEAD + n++ * ANNOUNCE_BYTES, &a);
			c->announce = b->next;
			b->next = NULL;
		}
		r = rd_message_send(p, c, slot, ANNOUNCE_MAGIC, n, ANNOUNCE_BYTES);
		if (r)
			return r;
	}
	return 0;
}

/* ---- both ---- */

int rd_source_post(struct path *path, struct block *b)
{
	struct rd_path *p = (struct rd_path *)path;

	if (b->pool != p->cfg.pool || !block_head_agrees(b))
		return -EINVAL;
	while (atomic_load(&path->alive)) {
		struct rd_channel *c = rd_best_channel(p);
		uint64_t bytes = block_wire_bytes(b);
		int r;

		if (!c) {
			path->want_room = true;
			return -EAGAIN;
		}
		r = p->read ? rd_announce_block(p, c, b) : rd_write_block(p, c, b);
		if (!r) {
			path_count(path, c->index, bytes);
			return 0;
		}
		rd_channel_down(p, c, r); /* returns b if the channel owns it */
		if (p->read)
			return 0;
	}
	return -EPIPE;
}

static void rd_source_give_back(struct rd_path *p, struct rd_channel *c, uint32_t buffer,
				uint32_t status, bool answered)
{
	struct block *b = p->at[buffer];
	uint32_t head = block_wire_head(b);

	p->at[buffer] = NULL;
	p->unacked--;
	c->blocks--;
	c->outstanding -= block_wire_bytes(b);
	p->path.watch.ch[c->index].acked |= answered;
	if (answered && !status) {
		path_add_block(&p->path, PATH_ACKED, b, 0);
		return;
	}

	/* Other transports, and the next attempt, expect the head at the start of the block. */
	if (p->read)
		memmove(b->base, b->base + BLOCK_HEAD - head, head);
	path_add_block(&p->path, PATH_RETURNED, b, status);
}

/* Handle a credit: it acknowledges a block, or grants a buffer. Over WRITE an acknowledgement also
 * grants the buffer to the same channel again. The stack has room for one grant of each buffer. */
static int rd_take_credit(struct rd_path *p, struct rd_channel *c, const struct credit *k)
{
	struct block *b = k->buffer < p->nat ? p->at[k->buffer] : NULL;
	bool grants = k->number == CREDIT_GRANT;
	uint32_t holder;

	if (k->buffer >= p->nat || (grants && p->read))
		return -EPROTO;

	if (!grants) {
		if (!b || b->channel != c->index || b->number != k->number)
			return -EPROTO;
		rd_source_give_back(p, c, k->buffer, k->status, true);
	} else {
		/* If another channel of ours holds this buffer, filled or not, that channel is dead
		 * at the sink. It must go down: otherwise both would write to the buffer. */
		holder = p->holder[k->buffer];
		if (holder == c->index + 1)
			return -EPROTO;
		if (holder)
			rd_channel_down(p, &p->ch[holder - 1], -ECONNRESET);
		p->holder[k->buffer] = c->index + 1;
	}
	if (!p->read)
		c->credits[c->ncredits++] = k->buffer;
	return 0;
}

int rd_source_credits(struct rd_path *p, struct rd_channel *c, const uint8_t *m, uint32_t len)
{
	uint32_t n;
	int r = message_check(&c->incoming, m, len, CREDIT_MAGIC, CREDIT_BYTES, RD_CREDITS, &n);

	for (uint32_t i = 0; !r && i < n; i++) {
		struct credit k;

		credit_get(m + MESSAGE_HEAD + i * CREDIT_BYTES, &k);
		r = rd_take_credit(p, c, &k);
	}
	return r;
}

void rd_source_drop(struct rd_path *p, struct rd_channel *c)
{
	c->announce = c->announce_last = NULL;
	c->ncredits = 0;
	for (uint32_t i = 0; i < p->nat; i++) {
		if (p->at[i] && p->at[i]->channel == c->index)
			rd_source_give_back(p, c, i, 0, false);
		if (p->holder && p->holder[i] == c->index + 1)
			p->holder[i] = 0;
	}
}
