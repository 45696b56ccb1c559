// SPDX-License-Identifier: Apache-2.0
/* The sink's direction: blocks arrive in granted buffers (WRITE) or are read when they have
 * been announced (READ); lists of credits go out. */
#include "rdma/path.h"

#include <errno.h>
#include <string.h>

/* ---- answers; under the path's lock ---- */

static void queue_answer(struct rd_path *p, struct rd_channel *c, const struct credit *k)
{
	/* Each answers a buffer of its own (WRITE) or an announced block, so there is room; but
	 * for a source that writes into buffers again before they are granted again. */
	if (c->nanswers == p->nanswers) {
		c->damaged = true;
		return;
	}
	c->answers[(c->first_answer + c->nanswers++) % p->nanswers] = *k;
}

/* Let the source have b, by a channel that is up. False: there is none. */
static bool grant(struct rd_path *p, struct block *b)
{
	struct rd_channel *best = NULL;
	struct credit k = { .number = CREDIT_GRANT, .buffer = b->index };

	for (uint32_t i = 0; i < p->path.nchannels; i++) {
		struct rd_channel *c = &p->ch[i];

		/* Those with the writers are granted again when they are released. */
		if (c->state == RD_UP && c->granted + c->working < c->receives &&
		    (!best || c->granted < best->granted))
			best = c;
	}
	if (!best)
		return false;
	b->channel = best->index;
	best->granted++;
	p->granted[b->index] = b;
	queue_answer(p, best, &k);
	return true;
}

int rd_sink_grant(struct rd_path *p)
{
	LOCK_GUARD(held, &p->lock);
	struct block *b;

	while (!p->read && (b = pool_try_get(p->cfg.pool))) {
		if (grant(p, b))
			continue;
		b->next = p->homeless; /* more buffers than receives */
		p->homeless = b;
	}
	atomic_fetch_add(&p->due, 1);
	return 0;
}

/* Buffers of channels that died go to those that live. */
static void grant_homeless(struct rd_path *p)
{
	while (p->homeless) {
		struct block *b = p->homeless, *next = b->next;

		b->next = NULL;
		if (!grant(p, b)) {
			b->next = next;
			return;
		}
		p->homeless = next;
	}
}

void rd_sink_release(struct path *path, struct block *b, uint32_t status)
{
	struct rd_path *p = (struct rd_path *)path;
	struct rd_channel *c = &p->ch[b->channel];
	struct credit k = { .number = b->number, .buffer = b->index, .status = status };

	atomic_fetch_sub(&p->path.watch.ch[c->index].held, 1);
	if (p->read) {
		k.buffer = b->sent_at; /* as it was announced */
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
		queue_answer(p, c, &k);
	} else if (!p->read) {
		block_reset(b);
		b->next = p->homeless;
		p->homeless = b;
		grant_homeless(p);
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
		b->next = p->homeless;
		p->homeless = b;
	}
	if (c->state == RD_DOWN)
		grant_homeless(p); /* else when it goes */
	pthread_mutex_unlock(&p->lock);
	if (p->read)
		pool_put(b);
	atomic_fetch_add(&p->due, 1);
	sleeper_kick(&p->sleeper);
}

static bool is_damaged(struct rd_path *p, struct rd_channel *c)
{
	LOCK_GUARD(held, &p->lock);

	return c->damaged;
}

static uint32_t take_answers(struct rd_path *p, struct rd_channel *c, struct credit *out,
			     uint32_t max)
{
	LOCK_GUARD(held, &p->lock);
	uint32_t n = 0;

	for (; n < max && c->nanswers; n++, c->nanswers--) {
		out[n] = c->answers[c->first_answer];
		c->first_answer = (c->first_answer + 1) % p->nanswers;
	}
	return n;
}

int rd_sink_answer(struct rd_path *p, struct rd_channel *c)
{
	if (is_damaged(p, c))
		return -EBADMSG;
	for (;;) {
		struct credit list[RD_CREDITS];
		uint32_t slot, n;
		uint8_t *m = rd_message_get(c, &slot);
		int r;

		if (!m)
			return 0; /* when one is free again */
		n = take_answers(p, c, list, RD_CREDITS);
		if (!n) {
			c->spare_messages |= 1u << slot;
			return 0;
		}
		for (uint32_t i = 0; i < n; i++)
			credit_put(m + MESSAGE_HEAD + i * CREDIT_BYTES, &list[i]);
		r = rd_message_send(p, c, slot, CREDIT_MAGIC, n, CREDIT_BYTES);
		if (r)
			return r;
	}
}

/* Credits that answer no block are owed to nobody: when a source leaves, the buffers of its
 * first channel are granted to the next, which it is about to leave, too. */
uint32_t rd_sink_unanswered(struct rd_path *p, struct rd_channel *c)
{
	LOCK_GUARD(held, &p->lock);
	uint32_t n = c->working + c->nanswers;

	/* A grant, which comes with WRITE only, answers nothing. */
	for (uint32_t i = 0; !p->read && i < c->nanswers; i++)
		n -= c->answers[(c->first_answer + i) % p->nanswers].number == CREDIT_GRANT;
	return n;
}

/* ---- arrivals ---- */

#define NUMBER_END 15 /* of a head: the last byte of its number */

/* A fault may have it that the block is not what was sent. */
static void damage(struct block *b, uint32_t payload)
{
	if (FAULT("corrupt", payload) && payload)
		block_payload(b)[payload / 2] ^= 0x20;
	if (FAULT("corrupt-head", payload))
		b->base[NUMBER_END] ^= 1;
}

/* The block of c is in b, head and table at its begin: does the head say what the
 * transport said? What it holds is checked, and believed, by the next stage. */
static int arrived(struct rd_path *p, struct rd_channel *c, struct block *b, uint32_t extents,
		   uint32_t payload)
{
	struct block_head h;

	damage(b, payload);
	if (block_head_get(b->base, b->cap, &h) || h.extents != extents || h.payload != payload ||
	    (p->read && h.number != b->number))
		return -EBADMSG;
	b->number = h.number;
	b->len = h.payload;
	b->nextents = 0;
	b->channel = c->index;
	b->next = NULL;
	atomic_fetch_add(&p->path.watch.ch[c->index].held, 1);
	*p->received_end = b;
	p->received_end = &b->next;
	rd_count(p, c, BLOCK_WIRE_HEAD + extents * BLOCK_WIRE_EXTENT + payload);
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
	/* With as many answers due as there are buffers, its own grant has not gone yet. */
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
	r = bytes - head > b->cap ? -EPROTO : arrived(p, c, b, extents, bytes - head);
	if (r) {
		LOCK_GUARD(held, &p->lock);

		c->working--;
		b->next = p->homeless;
		p->homeless = b;
	}
	return r;
}

/* ---- READ ---- */

static uint32_t owed(struct rd_path *p, struct rd_channel *c)
{
	return rd_sink_unanswered(p, c) + c->nannounced + c->reads;
}

static int note_announced(struct rd_path *p, struct rd_channel *c, const struct announce *a)
{
	struct announce *slot;

	if (a->payload > p->cfg.payload || a->head < BLOCK_WIRE_HEAD ||
	    (a->head - BLOCK_WIRE_HEAD) % BLOCK_WIRE_EXTENT ||
	    a->head > BLOCK_WIRE_HEAD + BLOCK_WIRE_EXTENTS * BLOCK_WIRE_EXTENT ||
	    a->buffer >= p->source_blocks || owed(p, c) >= p->cfg.inflight)
		return -EPROTO;
	slot = &c->announced[(c->first_announced + c->nannounced++) % p->cfg.inflight];
	*slot = *a;
	return 0;
}

int rd_sink_announced(struct rd_path *p, struct rd_channel *c, const uint8_t *m, uint32_t len)
{
	uint32_t n;
	int r = message_check(&c->incoming, m, len, ANNOUNCE_MAGIC, ANNOUNCE_BYTES, RD_ANNOUNCES,
			      &n);

	for (uint32_t i = 0; !r && i < n; i++) {
		struct announce a;

		announce_get(m + MESSAGE_HEAD + i * ANNOUNCE_BYTES, &a);
		r = note_announced(p, c, &a);
	}
	return r ? r : rd_sink_read(p, c);
}

static int read_block(struct rd_path *p, struct rd_channel *c, const struct announce *a,
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
	/* Until it has arrived: what was announced. */
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
			/* Blocks that a dead channel brought are still with us. */
			p->stalled = true;
			return 0;
		}
		r = read_block(p, c, a, b);
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
	r = arrived(p, c, b, b->nextents, b->len);
	if (r)
		return r; /* b is given back with the channel */
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
		if (p->read) {
			pool_put(b);
			continue;
		}
		b->next = p->homeless;
		p->homeless = b;
	}
	c->granted = c->reads = c->nannounced = c->nanswers = 0;
	grant_homeless(p);
	atomic_fetch_add(&p->due, 1);
}
