// SPDX-License-Identifier: Apache-2.0
/* Both ends of an RDMA path over the fake fabric, run in turn by one thread; and a flow of blocks
 * between them that checks every byte and the fate of every block. */
#ifndef RFTP_TESTS_RDMA_ENDS_H
#define RFTP_TESTS_RDMA_ENDS_H

#include "rdma/path.h"
#include "tests/support/block.h"
#include "tests/support/fake-verbs.h"

#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ENDS_PORT 7400
#define ENDS_BLOCK BLOCK_MIN

enum { SERVER, CLIENT };

struct end {
	struct endpoint_config cfg;
	struct endpoint *ep;
	struct pool *pool;
	struct path *path;
	bool tried;                 /* to open the path */
	struct err e;               /* of the last failure */
};

struct ends {
	struct agreement agr;
	struct channel_auth auth;
	struct end end[2];
	bool put;                   /* the client is the source */
	int timeout_ms;             /* of open */
	uint16_t port;
};

static inline struct end *source_end(struct ends *x)
{
	return &x->end[x->put ? CLIENT : SERVER];
}

static inline struct end *sink_end(struct ends *x)
{
	return &x->end[x->put ? SERVER : CLIENT];
}

static inline struct rd_path *rd_path_of(struct end *n)
{
	return (struct rd_path *)n->path;
}

static inline void ends_auth(struct channel_auth *a)
{
	memset(a, 0, sizeof(*a));
	a->session = 0x1122334455667788u;
	memset(a->token, 7, sizeof(a->token));
	memset(a->client_nonce, 8, sizeof(a->client_nonce));
	memset(a->server_nonce, 9, sizeof(a->server_nonce));
}

/* Sets the agreement of both ends; the caller may change it before ends_open(). */
static inline void ends_init(struct ends *x, uint8_t op, uint16_t channels, uint32_t inflight)
{
	memset(x, 0, sizeof(*x));
	log_init("test", getenv("DBG") ? LOG_LV_DEBUG : LOG_LV_ERROR - 1, false);
	x->agr = (struct agreement){ .transport = TRANSPORT_RDMA, .op = op, .paths = 1,
				     .channels = channels, .block = ENDS_BLOCK,
				     .inflight = inflight, .sink_blocks = inflight,
				     .source_blocks = inflight + 3 };
	ends_auth(&x->auth);
	x->put = true;
	x->timeout_ms = 5000;
}

/* ---- one end, step by step ---- */

static inline int end_make(struct ends *x, struct end *n)
{
	n->e = (struct err)ERR_INIT;
	n->cfg = (struct endpoint_config){ .source = n == source_end(x), .agr = &x->agr,
					   .auth = &x->auth, .first = 5, .rtt_ns = 100000,
					   .tos = 8 };
	n->ep = rd_endpoint_new(&n->cfg, &fake_verbs, &n->e);
	return n->ep ? 0 : -1;
}

static inline int end_listen(struct ends *x)
{
	struct end *n = &x->end[SERVER];
	struct sockaddr_storage a;

	fake_address(1, &a);
	return n->ep->ops->listen(n->ep, &a, ENDS_PORT, ENDS_PORT + 3, &x->port, &n->e);
}

static inline int end_resolve(struct ends *x)
{
	struct end *n = &x->end[CLIENT];
	struct sockaddr_storage a;

	fake_address(1, &a);
	((struct sockaddr_in *)&a)->sin_port = htons(x->port);
	return n->ep->ops->resolve(n->ep, &a, sizeof(struct sockaddr_in), -1, x->timeout_ms,
				   &n->e);
}

static inline int end_pool(struct ends *x, struct end *n)
{
	const struct pool_config c = {
		.blocks = n->cfg.source ? x->agr.source_blocks : x->agr.sink_blocks,
		.payload = x->agr.block, .hooks = n->ep->ops->hooks(n->ep),
	};

	n->pool = pool_new(&c, &n->e);
	return n->pool ? 0 : -1;
}

static inline int end_open(struct ends *x, struct end *n)
{
	const struct path_config c = { .source = n->cfg.source, .pool = n->pool,
				       .payload = x->agr.block, .inflight = x->agr.inflight };

	n->tried = true;
	n->path = n->ep->ops->open(n->ep, &c, -1, x->timeout_ms, &n->e);
	return n->path ? 0 : -1;
}

static inline void end_free(struct end *n)
{
	if (n->path)
		n->path->ops->free(n->path);
	if (n->pool) {
		assert_int_equal(pool_free_blocks(n->pool), pool_blocks(n->pool));
		pool_free(n->pool);
	}
	if (n->ep)
		n->ep->ops->free(n->ep);
	n->path = NULL;
	n->pool = NULL;
	n->ep = NULL;
}

/* ---- both ---- */

static inline void ends_server_turn(void *arg)
{
	struct ends *x = arg;

	fake.idle = NULL;
	end_open(x, &x->end[SERVER]);
}

/* Opens both ends as far as possible. Returns 0 when both have their path, or -1. */
static inline int ends_open(struct ends *x)
{
	struct end *server = &x->end[SERVER], *client = &x->end[CLIENT];

	if (end_make(x, server) || end_listen(x) || end_make(x, client) || end_resolve(x) ||
	    end_pool(x, server) || end_pool(x, client))
		return -1;
	fake.idle = ends_server_turn;
	fake.idle_arg = x;
	end_open(x, client);
	fake.idle = NULL;
	return server->path && client->path ? 0 : -1;
}

static inline void ends_free(struct ends *x)
{
	end_free(&x->end[CLIENT]);
	end_free(&x->end[SERVER]);
}

static inline void ends_open_ok(struct ends *x)
{
	if (ends_open(x))
		fail_msg("server: %s; client: %s", x->end[SERVER].e.text, x->end[CLIENT].e.text);
}

/* ---- blocks with content computed from their number ---- */

static inline uint32_t flow_extents(uint64_t number)
{
	return number % 13 == 5 ? 0 : number % 7 == 3 ? BLOCK_EXTENTS : 1 + number % 4;
}

static inline uint32_t flow_length(uint64_t number, uint32_t extent)
{
	uint32_t n = flow_extents(number);

	return n == 1 ? ENDS_BLOCK : (uint32_t)(number * 7919 + extent * 31) % (ENDS_BLOCK / n + 1);
}

static inline void flow_fill(struct block *b, uint64_t number)
{
	hand_block(b, number);
	for (uint32_t i = 0; i < flow_extents(number); i++)
		hand_block_add(b, number, i, (uint8_t)(number * 3 + i), flow_length(number, i));
	hand_block_end(b, 0);
}

/* Returns NULL, or the part of b that differs from its filled content. */
static inline const char *flow_check(const struct block *b)
{
	const uint8_t *at = block_payload(b);
	struct block_head h;

	if (block_head_get(b->base, ENDS_BLOCK, &h) || h.number != b->number)
		return "head";
	if (h.extents != flow_extents(h.number))
		return "extents";
	for (uint32_t i = 0; i < h.extents; i++) {
		uint64_t file, offset;
		uint32_t len;

		block_extent_get(b->base + BLOCK_WIRE_HEAD + i * BLOCK_WIRE_EXTENT, &file, &offset,
				 &len);
		if (file != h.number || offset != i || len != flow_length(h.number, i))
			return "table";
		for (uint32_t k = 0; k < len; k++, at++)
			if (*at != (uint8_t)(h.number * 3 + i))
				return "payload";
	}
	return at == block_payload(b) + b->len ? NULL : "length";
}

/* ---- a flow ---- */

#define FLOW_MAX 4096
#define FLOW_HELD 256
/* After this many idle turns the flow stands still. */
#define FLOW_QUIET 8

struct flow {
	struct ends *x;
	uint32_t numbers;            /* blocks in all */
	uint32_t slow;               /* blocks that the sink keeps before it releases one */
	uint32_t refuse_every;       /* refuse every n-th block once; 0: none */
	uint32_t next, acked, returned, received, orphans;
	uint32_t downs[2];           /* by source, sink */
	int error[2];                /* the last error */
	struct block *again;         /* returned blocks, posted again first */
	struct block *held[FLOW_HELD];
	uint32_t nheld;
	bool idle;                   /* nothing happened in this turn */
	uint8_t posted[FLOW_MAX], got[FLOW_MAX], done[FLOW_MAX];
};

static inline struct flow *flow_new(struct ends *x, uint32_t numbers)
{
	struct flow *f = calloc(1, sizeof(*f));

	assert_non_null(f);
	assert_true(numbers <= FLOW_MAX);
	f->x = x;
	f->numbers = numbers;
	return f;
}

static inline struct block *flow_next(struct flow *f)
{
	struct block *b = f->again;

	if (b) {
		f->again = b->next;
		b->next = NULL;
		return b;
	}
	if (f->next == f->numbers)
		return NULL;
	b = pool_try_get(source_end(f->x)->pool);
	if (b)
		flow_fill(b, f->next++);
	return b;
}

static inline void flow_keep(struct flow *f, struct block *b)
{
	b->next = f->again;
	f->again = b;
}

static inline void flow_post(struct flow *f)
{
	struct path *p = source_end(f->x)->path;
	struct block *b;

	while ((b = flow_next(f))) {
		uint64_t number = b->number;
		int r = p->ops->post(p, b);

		if (r) {
			assert_true(r == -EAGAIN || r == -EPIPE);
			if (r == -EPIPE)
				assert_int_equal(p->alive, 0);
			flow_keep(f, b);
			return;
		}
		assert_int_equal(f->posted[number], 0);
		f->posted[number] = 1;
		f->idle = false;
	}
}

static inline void flow_down(struct flow *f, int side, const struct path_event *ev)
{
	f->downs[side]++;
	if (ev->error)
		f->error[side] = ev->error;
}

/* A posted block comes back exactly once: acknowledged, or returned for another send. */
static inline void flow_source_event(struct flow *f, const struct path_event *ev)
{
	struct block *b = ev->block;

	f->idle = false;
	if (ev->kind == PATH_DOWN) {
		flow_down(f, 0, ev);
		return;
	}
	assert_int_equal(f->posted[b->number], 1);
	f->posted[b->number] = 0;
	if (ev->kind == PATH_ACKED) {
		assert_int_equal(f->done[b->number]++, 0);
		assert_true(f->got[b->number] > 0);
		f->acked++;
		pool_put(b);
		return;
	}
	assert_int_equal(ev->kind, PATH_RETURNED);
	assert_null(flow_check(b)); /* it is unchanged */
	f->returned++;
	flow_keep(f, b);
}

static inline void flow_release_one(struct flow *f, uint32_t i)
{
	struct path *p = sink_end(f->x)->path;
	struct block *b = f->held[i];
	bool refuse = f->refuse_every && b->number % f->refuse_every == 0 &&
		      f->got[b->number] == 1;

	f->held[i] = f->held[--f->nheld];
	p->ops->release(p, b, refuse ? EBADMSG : 0);
	f->idle = false;
}

static inline void flow_sink_event(struct flow *f, const struct path_event *ev)
{
	f->idle = false;
	if (ev->kind == PATH_DOWN) {
		flow_down(f, 1, ev);
		return;
	}
	assert_int_equal(ev->kind, PATH_RECEIVED);
	assert_null(flow_check(ev->block));
	f->got[ev->block->number]++;
	f->received++;
	assert_true(f->nheld < FLOW_HELD);
	f->held[f->nheld++] = ev->block;
}

static inline void flow_poll_source(struct flow *f)
{
	struct path *p = source_end(f->x)->path;
	struct path_event ev[5];
	int n = p->ops->poll(p, ev, 5, 0);

	assert_true(n >= 0);
	for (int i = 0; i < n; i++)
		flow_source_event(f, &ev[i]);
}

static inline void flow_poll_sink(struct flow *f)
{
	struct path *p = sink_end(f->x)->path;
	struct path_event ev[3];
	int n = p->ops->poll(p, ev, 3, 0);

	assert_true(n >= 0);
	for (int i = 0; i < n; i++)
		flow_sink_event(f, &ev[i]);
}

/* One turn of each side. When nothing else happens, the sink releases one of its blocks. */
static inline void flow_turn(struct flow *f)
{
	f->idle = true;
	flow_post(f);
	flow_poll_source(f);
	flow_poll_sink(f);
	while (f->nheld > f->slow || (f->nheld && f->idle))
		flow_release_one(f, f->received % f->nheld);
}

/* Runs turns until the flow stands still. */
static inline void flow_run(struct flow *f)
{
	uint32_t quiet = 0;

	while (quiet < FLOW_QUIET) {
		flow_turn(f);
		quiet = f->idle ? quiet + 1 : 0;
	}
}

static inline void flow_run_all(struct flow *f)
{
	flow_run(f);
	assert_int_equal(f->acked, f->numbers);
	for (uint32_t i = 0; i < f->numbers; i++) {
		assert_int_equal(f->done[i], 1);
		assert_true(f->got[i] >= 1);
	}
}

/* Returns all blocks to their pools, acknowledged or not. */
static inline void flow_free(struct flow *f)
{
	while (f->nheld)
		flow_release_one(f, 0);
	while (f->again) {
		struct block *b = f->again;

		f->again = b->next;
		b->next = NULL;
		pool_put(b);
	}
	free(f);
}

/* Finishes both paths in good order, the source first. */
static inline void flow_finish(struct flow *f)
{
	struct path *from = source_end(f->x)->path, *to = sink_end(f->x)->path;

	assert_int_equal(from->ops->finish(from, 2000), 0);
	assert_int_equal(to->ops->finish(to, 2000), 0);
	assert_int_equal(from->alive + to->alive, 0);
}

#endif
