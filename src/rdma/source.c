// SPDX-License-Identifier: Apache-2.0
/* The source's direction: blocks are written into granted buffers (WRITE) or announced
 * (READ); lists of credits come back. */
#include "rdma/path.h"

#include <arpa/inet.h>
#include <errno.h>
#include <string.h>

static uint64_t wire_bytes(const struct block *b)
{
	return rd_head_bytes(b) + b->len;
}

/* ---- taking blocks ---- */

/* The head that was made for b and b itself must agree. */
static bool head_fits(const struct block *b)
{
	struct block_head h;

	return !block_head_get(b->base, b->cap, &h) && h.extents == b->nextents &&
	       h.payload == b->len && h.number == b->number;
}

static bool has_room(const struct rd_path *p, const struct rd_channel *c)
{
	if (c->state != RD_UP)
		return false;
	/* Announcements wait in a list of ours; what they may be is what the sink has
	 * receives for. */
	return p->read ? c->blocks < p->cfg.inflight : c->ncredits && c->sends < c->sends_max;
}

static struct rd_channel *best_channel(struct rd_path *p)
{
	struct rd_channel *best = NULL;

	for (uint32_t i = 0; i < p->path.nchannels; i++) {
		struct rd_channel *c = &p->ch[i];

		if (has_room(p, c) && (!best || c->outstanding < best->outstanding))
			best = c;
	}
	return best;
}

bool rd_source_room(const struct rd_path *p)
{
	for (uint32_t i = 0; p->unacked < p->cfg.inflight && i < p->path.nchannels; i++)
		if (has_room(p, &p->ch[i]))
			return true;
	return false;
}

static void taken(struct rd_path *p, struct rd_channel *c, struct block *b, uint32_t buffer)
{
	p->at[buffer] = b;
	p->unacked++;
	b->channel = c->index;
	b->next = NULL;
	c->blocks++;
	c->outstanding += wire_bytes(b);
}

/* ---- WRITE ---- */

/* One completion for a quarter of the queue: each costs the device a write and us a read,
 * and the credits tell of the data anyway. */
static bool signal_due(struct rd_channel *c)
{
	return ++c->unsignaled >= (c->sends_max + 3) / 4;
}

static int write_block(struct rd_path *p, struct rd_channel *c, struct block *b)
{
	uint32_t head = rd_head_bytes(b), buffer = c->credits[c->ncredits - 1];
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

	/* Head and table right before the payload, which stays aligned. */
	rd_aim(&wr, c, buffer * (uint64_t)p->stride + BLOCK_HEAD - head, head + b->len);
	if (signal_due(c)) {
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
	taken(p, c, b, buffer);
	return 0;
}

/* ---- READ ---- */

/* The table next to the payload, so that one piece of memory is read. */
static void join_head(struct block *b)
{
	uint32_t head = rd_head_bytes(b);

	memmove(b->base + BLOCK_HEAD - head, b->base, head);
}

/* Where other transports, and we at the next try, want it. */
static void part_head(struct block *b)
{
	uint32_t head = rd_head_bytes(b);

	memmove(b->base, b->base + BLOCK_HEAD - head, head);
}

static int announce_block(struct rd_path *p, struct rd_channel *c, struct block *b)
{
	join_head(b);
	taken(p, c, b, b->index);
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
			return 0; /* when one is free again */
		while (c->announce && n < RD_ANNOUNCES) {
			struct block *b = c->announce;
			struct announce a = { .number = b->number, .buffer = b->index,
					      .head = rd_head_bytes(b), .payload = b->len };

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

	if (b->pool != p->cfg.pool || !head_fits(b))
		return -EINVAL;
	while (atomic_load(&path->alive)) {
		struct rd_channel *c = p->unacked < p->cfg.inflight ? best_channel(p) : NULL;
		uint64_t bytes = wire_bytes(b);
		int r;

		if (!c) {
			p->want_room = true;
			return -EAGAIN;
		}
		r = p->read ? announce_block(p, c, b) : write_block(p, c, b);
		if (!r) {
			rd_count(p, c, bytes);
			return 0;
		}
		rd_channel_down(p, c, r); /* takes b back into returned when it had it */
		if (p->read)
			return 0;
	}
	return -EPIPE;
}

static void tell(struct block *b, struct block ***end, uint32_t status)
{
	b->sent_at = status;
	b->next = NULL;
	**end = b;
	*end = &b->next;
}

static void give_back(struct rd_path *p, struct rd_channel *c, uint32_t buffer, uint32_t status,
		      bool answered)
{
	struct block *b = p->at[buffer];

	p->at[buffer] = NULL;
	p->unacked--;
	c->blocks--;
	c->outstanding -= wire_bytes(b);
	p->path.watch.ch[c->index].acked |= answered;
	if (answered && !status) {
		tell(b, &p->acked_end, 0);
		return;
	}
	if (p->read)
		part_head(b);
	tell(b, &p->returned_end, status);
}

static int take_answer(struct rd_path *p, struct rd_channel *c, const struct credit *k)
{
	struct block *b = p->at[k->buffer];

	if (!b || b->channel != c->index || b->number != k->number)
		return -EPROTO;
	give_back(p, c, k->buffer, k->status, true);
	return 0;
}

/* A buffer is given to c. When we know it to be another channel's, filled or not, that one is
 * dead at the sink: were it used on both, two blocks would be in one place. */
static int take_grant(struct rd_path *p, struct rd_channel *c, uint32_t buffer)
{
	uint32_t holder = p->holder[buffer];

	if (holder == c->index + 1)
		return -EPROTO;
	if (holder)
		rd_channel_down(p, &p->ch[holder - 1], -ECONNRESET);
	p->holder[buffer] = c->index + 1;
	return 0;
}

/* An answer over WRITE gives the buffer to the same channel again. There is room for what
 * each buffer is granted for once. */
static int take_credit(struct rd_path *p, struct rd_channel *c, const struct credit *k)
{
	int r = -EPROTO;

	if (k->buffer >= p->nat)
		return -EPROTO;
	if (k->number != CREDIT_GRANT)
		r = take_answer(p, c, k);
	else if (!p->read)
		r = take_grant(p, c, k->buffer);
	if (!r && !p->read)
		c->credits[c->ncredits++] = k->buffer;
	return r;
}

int rd_source_credits(struct rd_path *p, struct rd_channel *c, const uint8_t *m, uint32_t len)
{
	uint32_t n;
	int r = message_check(&c->incoming, m, len, CREDIT_MAGIC, CREDIT_BYTES, RD_CREDITS, &n);

	for (uint32_t i = 0; !r && i < n; i++) {
		struct credit k;

		credit_get(m + MESSAGE_HEAD + i * CREDIT_BYTES, &k);
		r = take_credit(p, c, &k);
	}
	return r;
}

void rd_source_drop(struct rd_path *p, struct rd_channel *c)
{
	c->announce = c->announce_last = NULL;
	c->ncredits = 0;
	for (uint32_t i = 0; i < p->nat; i++) {
		if (p->at[i] && p->at[i]->channel == c->index)
			give_back(p, c, i, 0, false);
		if (p->holder && p->holder[i] == c->index + 1)
			p->holder[i] = 0;
	}
}
