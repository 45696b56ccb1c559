// SPDX-License-Identifier: Apache-2.0
/* The sink's direction: blocks arrive in granted buffers (WRITE), or the sink reads announced
 * blocks (READ); lists of credits go out. */
#include "rdma/path.h"

/* ---- answers; with the path's lock ---- */

static void rd_queue_answer(struct rd_path *p, struct rd_channel *c, const struct credit *k)
{
	/* Each answer belongs to its own buffer (WRITE) or announced block, so there is room.
	 * Only a bad source writes into buffers before they are granted again. */
	if (c->nanswers == p->nanswers) {
		c->damaged = true;
		return;
	}
	c->answers[(c->first_answer + c->nanswers++) % p->nanswers] = *k;
}

/* Grant b to the source on a channel that is up. False: no such channel has a receive for it. */
static bool rd_grant(struct rd_path *p, struct block *b)
{
	struct rd_channel *best = NULL;
	struct credit k = { .number = CREDIT_GRANT, .buffer = b->index };

	for (uint32_t i = 0; i < p->path.nchannels; i++) {
		struct rd_channel *c = &p->ch[i];

		/* Count the blocks with the writers, too: their release grants them again, on the
		 * same channel. */
		if (c->state == RD_UP && c->granted + c->working < c->receives &&
		    (!best || c->granted < best->granted))
			best = c;
	}
	if (!best)
		return false;
	b->channel = best->index;
	best->granted++;
	p->granted[b->index] = b;
	rd_queue_answer(p, best, &k);
	return true;
}

/* Keep b until it can be granted on a channel that is up. */
static void rd_hold_homeless(struct rd_path *p, struct block *b)
{
	b->next = p->homeless;
	p->homeless = b;
}

void rd_sink_grant(struct rd_path *p)
{
	LOCK_GUARD(held, &p->lock);
	struct block *b;

	while (!p->read && (b = pool_try_get(p->cfg.pool))) {
		if (!rd_grant(p, b))
			rd_hold_homeless(p, b); /* more buffers than receives */
	}
	atomic_fetch_add(&p->due, 1);
}

/* Grant the buffers of dead channels on other channels. */
static void rd_grant_homeless(struct rd_path *p)
{
	while (p->homeless && rd_grant(p, p->homeless))
		p->homeless = p->homeless->next;
}

void rd_sink_release(struct path *path, struct block *b, uint32_t status)
{
	struct rd_path *p = (struct rd_path *)path;
	struct rd_channel *c = &p->ch[b->channel];
	struct credit k = { .number = b->number, .buffer = b->index, .status = status };

	atomic_fetch_sub(&p->path.watch.ch[c->index].held, 1);
	if (p->read) {
		k.buffer = b->sent_at; /* the source's buffer, as announced */
		pool_put(b);
	}

	pthread_mutex_lock(&p->lock);
	c->working--;
	if (c->state == RD_UP && !p->read) {
		p->granted[b->index] = b;
		c->granted++;
		block_reset(b);
	}

	if (c->state == RD_UP) {
		rd_queue_answer(p, c, &k);
	} else if (!p->read) {
		block_reset(b);
		rd_hold_homeless(p, b);
		rd_grant_homeless(p);
	}
	pthread_mutex_unlock(&p->lock);
	atomic_fetch_add(&p->due, 1);
	sleeper_kick(&p->sleeper);
}

void rd_sink_refuse(struct path *path, struct block *b)
{
	struct rd_path *p = (struct rd_path *)path;
	struct rd_channel *c = &p->ch[b->channel];

	atomic_fetch_sub(&p->path.watch.ch[c->index].held, 1);
	pthread_mutex_lock(&p->lock);
	c->working--;
	c->damaged = true;
	if (!p->read) {
		block_reset(b);
		rd_hold_homeless(p, b);
	}

	if (c->state == RD_DOWN)
		rd_grant_homeless(p); /* otherwise rd_sink_drop() does it */
	pthread_mutex_unlock(&p->lock);
	if (p->read)
		pool_put(b);
	atomic_fetch_add(&p->due, 1);
	sleeper_kick(&p->sleeper);
}

int rd_sink_answer(struct rd_path *p, struct rd_channel *c)
{
	for (;;) {
		uint32_t slot, n = 0;
		uint8_t *m = rd_message_get(c, &slot);
		bool damaged;
		int r;

		pthread_mutex_lock(&p->lock);
		damaged = c->damaged;
		for (; m && n < RD_CREDITS && c->nanswers; n++, c->nanswers--) {
			credit_put(m + MESSAGE_HEAD + n * CREDIT_BYTES,
				   &c->answers[c->first_answer]);
			c->first_answer = (c->first_answer + 1) % p->nanswers;
		}
		pthread_mutex_unlock(&p->lock);

		if (damaged)
			return -EBADMSG;
		if (!m)
			return 0; /* wait until a message is free again */

		if (!n) {
			c->spare_messages |= 1u << slot;
			return 0;
		}
		r = rd_message_send(p, c, slot, CREDIT_MAGIC, n, CREDIT_BYTES);
		if (r)
			return r;
	}
}

/* Received blocks of c without a sent answer. Grants do not count: when a source leaves, buffers of
 * its first closed channel are granted to the next one, which it is about to close, too. */
uint32_t rd_sink_unanswered(struct rd_path *p, struct rd_channel *c)
{
	LOCK_GUARD(held, &p->lock);
	uint32_t n = c->working + c->nanswers;

	for (uint32_t i = 0; !p->read && i < c->nanswers; i++)
		n -= c->answers[(c->first_answer + i) % p->nanswers].number == CREDIT_GRANT;
	return n;
}

/* ---- arrivals ---- */

/* A block has arrived on c in b, with head and table at its start. Check the head against the
 * received length; the next stage checks the contents. */
static int rd_block_arrived(struct rd_path *p, struct rd_channel *c, struct block *b,
			    uint32_t extents, uint32_t payload)
{
	struct block_head h;

	block_damage(b, payload);
	if (block_head_get(b->base, b->cap, &h) || h.extents != extents || h.payload != payload ||
	    (p->read && h.number != b->number))
		return -EBADMSG;

	b->number = h.number;
	b->len = h.payload;
	b->nextents = 0;
	b->channel = c->index;
	atomic_fetch_add(&p->path.watch.ch[c->index].held, 1);
	path_add_block(&p->path, PATH_RECEIVED, b, 0);
	path_count(&p->path, c->index, BLOCK_WIRE_HEAD + extents * BLOCK_WIRE_EXTENT + payload);
	return 0;
}

int rd_sink_written(struct rd_path *p, struct rd_channel *c, uint32_t imm, uint32_t bytes)
{
	uint32_t extents = imm >> 24, buffer = imm & 0xffffff;
	uint32_t head = BLOCK_WIRE_HEAD + extents * BLOCK_WIRE_EXTENT;
	struct block *b;
	int r;

	if (buffer >= pool_blocks(p->cfg.pool) || extents > BLOCK_WIRE_EXTENTS || bytes < head)
		return -EPROTO;

	pthread_mutex_lock(&p->lock);
	b = p->granted[buffer];
	/* If as many answers are due as there are buffers, the grant of this buffer cannot have
	 * been sent yet. */
	if (b && (b->channel != c->index || c->working + c->nanswers >= pool_blocks(p->cfg.pool)))
		b = NULL;
	if (b) {
		p->granted[buffer] = NULL;
		c->granted--;
		c->working++;
	}
	pthread_mutex_unlock(&p->lock);
	if (!b)
		return -EPROTO;

	memmove(b->base, b->base + BLOCK_HEAD - head, head);
	r = bytes - head > b->cap ? -EPROTO : rd_block_arrived(p, c, b, extents, bytes - head);
	if (r) {
		LOCK_GUARD(held, &p->lock);

		c->working--;
		rd_hold_homeless(p, b);
	}
	return r;
}

/* ---- READ ---- */

int rd_sink_announced(struct rd_path *p, struct rd_channel *c, const uint8_t *m, uint32_t len)
{
	uint32_t n;
	int r = message_check(&c->incoming, m, len, ANNOUNCE_MAGIC, ANNOUNCE_BYTES, RD_ANNOUNCES,
			      &n);

	if (r)
		return r;
	for (uint32_t i = 0; i < n; i++) {
		struct announce a;

		announce_get(m + MESSAGE_HEAD + i * ANNOUNCE_BYTES, &a);
		if (a.payload > p->cfg.payload || a.head < BLOCK_WIRE_HEAD ||
		    (a.head - BLOCK_WIRE_HEAD) % BLOCK_WIRE_EXTENT ||
		    a.head > BLOCK_WIRE_HEAD + BLOCK_WIRE_EXTENTS * BLOCK_WIRE_EXTENT ||
		    a.buffer >= p->source_blocks ||
		    rd_sink_unanswered(p, c) + c->nannounced + c->reads >= p->cfg.inflight)
			return -EPROTO;
		c->announced[(c->first_announced + c->nannounced++) % p->cfg.inflight] = a;
	}
	return rd_sink_read(p, c);
}

static int rd_read_block(struct rd_path *p, struct rd_channel *c, const struct announce *a,
			 struct block *b)
{
	struct ibv_sge sge[2] = {
		{ rd_block_at(p, b), a->head, p->mr->lkey },
		{ rd_block_at(p, b) + BLOCK_HEAD, a->payload, p->mr->lkey },
	};
	struct ibv_send_wr wr = {
		.wr_id = rd_work_id(RD_WORK_READ, c->index, b->index),
		.sg_list = sge,
		.num_sge = a->payload ? 2 : 1,
		.opcode = IBV_WR_RDMA_READ,
		.send_flags = IBV_SEND_SIGNALED,
	};

	rd_aim(&wr, c, a->buffer * (uint64_t)p->stride + BLOCK_HEAD - a->head,
	       a->head + a->payload);
	/* The announced values, until the block has arrived and its head is checked. */
	b->number = a->number;
	b->len = a->payload;
	b->nextents = (a->head - BLOCK_WIRE_HEAD) / BLOCK_WIRE_EXTENT;
	b->sent_at = a->buffer;
	b->channel = c->index;
	return p->v->post_send(c->id, &wr);
}

int rd_sink_read(struct rd_path *p, struct rd_channel *c)
{
	while (c->nannounced && c->reads < c->reads_max && c->reads < c->sends_max) {
		struct announce *a = &c->announced[c->first_announced];
		struct block *b = pool_try_get(p->cfg.pool);
		int r;

		if (!b) {
			/* Blocks of a dead channel are still in use. */
			p->stalled = true;
			return 0;
		}
		r = rd_read_block(p, c, a, b);
		if (r) {
			pool_put(b);
			return r;
		}
		p->reading[b->index] = b;
		c->reads++;
		c->nannounced--;
		c->first_announced = (c->first_announced + 1) % p->cfg.inflight;
	}
	return 0;
}

int rd_sink_was_read(struct rd_path *p, struct rd_channel *c, uint32_t index)
{
	struct block *b = index < pool_blocks(p->cfg.pool) ? p->reading[index] : NULL;
	int r;

	if (!b || b->channel != c->index)
		return -EPROTO;
	r = rd_block_arrived(p, c, b, b->nextents, b->len);
	if (r)
		return r; /* rd_sink_drop() frees b */
	p->reading[index] = NULL;
	c->reads--;
	pthread_mutex_lock(&p->lock);
	c->working++;
	pthread_mutex_unlock(&p->lock);
	return rd_sink_read(p, c);
}

/* ---- a channel's end ---- */

void rd_sink_drop(struct rd_path *p, struct rd_channel *c)
{
	LOCK_GUARD(held, &p->lock);
	struct block **map = p->read ? p->reading : p->granted;

	for (uint32_t i = 0; i < pool_blocks(p->cfg.pool); i++) {
		struct block *b = map[i];

		if (!b || b->channel != c->index)
			continue;
		map[i] = NULL;
		if (p->read)
			pool_put(b);
		else
			rd_hold_homeless(p, b);
	}
	c->granted = c->reads = c->nannounced = c->nanswers = 0;
	rd_grant_homeless(p);
	atomic_fetch_add(&p->due, 1);
}
