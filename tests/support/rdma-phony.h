// SPDX-License-Identifier: Apache-2.0
/* A peer of an RDMA path, scripted by the test: it uses the fake fabric directly, sends any
 * message, and grants remote access to all its memory. */
#ifndef RFTP_TESTS_RDMA_PHONY_H
#define RFTP_TESTS_RDMA_PHONY_H

#include "tests/support/rdma-ends.h"

#define PHONY_CHANNELS 8
#define PHONY_BLOCKS 40
#define PHONY_STRIDE (BLOCK_HEAD + ENDS_BLOCK)
/* After the blocks: messages to send, then received ones. */
#define PHONY_MESSAGES ((uint64_t)PHONY_BLOCKS * PHONY_STRIDE)
#define PHONY_RECEIVES 64
#define PHONY_SENDS 128 /* in flight per channel, each with its own memory */
#define PHONY_BYTES (PHONY_MESSAGES + PHONY_CHANNELS * (PHONY_RECEIVES + PHONY_SENDS) * 512)

struct phony {
	struct ends *x;
	bool server;
	struct rdma_event_channel *ch;
	struct rdma_cm_id *listener, *id[PHONY_CHANNELS];
	uint32_t n;                  /* ids */
	struct ibv_pd *pd;
	struct ibv_comp_channel *comp;
	struct ibv_cq *cq;
	struct ibv_mr *mr;
	uint8_t *mem;
	uint32_t key;                /* of the peer's pool, from its hello */
	uint32_t unanswered;         /* ids without an answer from the server */
	int last_status;             /* of the last reject */
	uint8_t depth;               /* of RDMA_READs: 16 */
	/* As a server: changes its reply; NULL: no change. */
	void (*forge)(struct phony *ph, uint8_t *hello, struct rdma_conn_param *param);
	bool refuses;
	enum ibv_wc_status failed;   /* of the first failed work request */
	struct messages said[PHONY_CHANNELS]; /* not encrypted */
	uint32_t sends[PHONY_CHANNELS];
};

static inline void phony_init(struct phony *ph, struct ends *x, bool server)
{
	memset(ph, 0, sizeof(*ph));
	ph->x = x;
	ph->server = server;
	ph->depth = 16;
	for (uint16_t i = 0; i < PHONY_CHANNELS; i++)
		assert_int_equal(messages_open(&ph->said[i], NULL, i), 0);
	ph->mem = calloc(1, PHONY_BYTES);
	assert_non_null(ph->mem);
	assert_int_equal(fake_verbs.channel_new(&ph->ch), 0);
}

/* Makes its resources on the device of the first id. */
static inline void phony_resources(struct phony *ph, struct ibv_context *ctx)
{
	if (ph->pd)
		return;
	assert_int_equal(fake_verbs.pd_new(ctx, &ph->pd), 0);
	assert_int_equal(fake_verbs.cq_new(ctx, 1 << 14, 0, &ph->comp, &ph->cq), 0);
	assert_int_equal(fake_verbs.mr_new(ph->pd, ph->mem, PHONY_BYTES, 0,
					   IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ |
					   IBV_ACCESS_REMOTE_WRITE, &ph->mr), 0);
}

static inline uint64_t phony_received_at(uint32_t channel, uint32_t slot)
{
	return PHONY_MESSAGES + 512 * (PHONY_CHANNELS * PHONY_SENDS + channel * PHONY_RECEIVES + slot);
}

static inline void phony_receive(struct phony *ph, uint32_t channel, uint32_t slot)
{
	struct ibv_sge sge = { phony_received_at(channel, slot), 512, ph->mr->lkey };
	struct ibv_recv_wr wr = { .wr_id = 1ull << 32 | channel << 8 | slot, .sg_list = &sge,
				  .num_sge = 1 };

	assert_int_equal(fake_verbs.post_recv(ph->id[channel], &wr), 0);
}

static inline void phony_queue_pair(struct phony *ph, uint32_t channel)
{
	struct ibv_qp_init_attr attr = {
		.send_cq = ph->cq, .recv_cq = ph->cq, .qp_type = IBV_QPT_RC,
		.cap = { .max_send_wr = 512, .max_recv_wr = PHONY_RECEIVES, .max_send_sge = 1,
			 .max_recv_sge = 1 },
	};

	assert_int_equal(fake_verbs.qp_new(ph->id[channel], ph->pd, &attr), 0);
	for (uint32_t i = 0; i < PHONY_RECEIVES; i++)
		phony_receive(ph, channel, i);
}

static inline void phony_hello(struct phony *ph, uint16_t number, uint8_t hello[HELLO_BYTES])
{
	channel_hello_put(hello, ph->server, &ph->x->auth, number, ph->mr->rkey);
}

/* ---- as a client ---- */

static inline struct rdma_cm_event *phony_event(struct phony *ph, enum rdma_cm_event_type type)
{
	struct rdma_cm_event *ev;

	assert_int_equal(fake_verbs.event_next(ph->ch, &ev), 0);
	assert_int_equal(ev->event, type);
	return ev;
}

/* Makes a new id, ready to connect. */
static inline uint32_t phony_id(struct phony *ph)
{
	struct sockaddr_storage from, to;
	uint32_t i = ph->n++;

	fake_address(2, &from);
	fake_address(1, &to);
	((struct sockaddr_in *)&to)->sin_port = htons(ph->x->port);
	assert_true(i < PHONY_CHANNELS);
	assert_int_equal(fake_verbs.id_new(ph->ch, &ph->id[i], NULL), 0);
	assert_int_equal(fake_verbs.resolve_addr(ph->id[i], (struct sockaddr *)&from,
						 (struct sockaddr *)&to, 100), 0);
	fake_verbs.event_done(phony_event(ph, RDMA_CM_EVENT_ADDR_RESOLVED));
	assert_int_equal(fake_verbs.resolve_route(ph->id[i], 100), 0);
	fake_verbs.event_done(phony_event(ph, RDMA_CM_EVENT_ROUTE_RESOLVED));
	phony_resources(ph, ph->id[i]->verbs);
	phony_queue_pair(ph, i);
	return i;
}

static inline void phony_connect(struct phony *ph, uint32_t i, const void *data, uint8_t len)
{
	struct rdma_conn_param param = { .private_data = data, .private_data_len = len,
					 .responder_resources = ph->depth,
					 .initiator_depth = 16, .retry_count = 7,
					 .rnr_retry_count = 7 };

	assert_int_equal(fake_verbs.connect(ph->id[i], &param), 0);
	ph->unanswered++;
}

/* Handles the pending events. */
static inline void phony_answers(struct phony *ph)
{
	struct rdma_cm_event *ev;
	uint16_t number;

	while (!fake_verbs.event_next(ph->ch, &ev)) {
		if (ev->event == RDMA_CM_EVENT_REJECTED) {
			ph->last_status = ev->status;
			ph->unanswered--;
		} else if (ev->event == RDMA_CM_EVENT_ESTABLISHED && !ph->server) {
			ph->unanswered--;
			assert_null(channel_hello_check(ev->param.conn.private_data, true,
							&ph->x->auth, &number, &ph->key));
		}
		fake_verbs.event_done(ev);
	}
}

/* Connects n channels to the server, which opens its path meanwhile. */
static inline void phony_to_server(struct phony *ph, struct ends *x)
{
	struct end *n = &x->end[SERVER];

	if (end_make(x, n) || end_listen(x) || end_pool(x, n))
		fail_msg("%s", n->e.text);
	phony_init(ph, x, false);
	for (uint16_t i = 0; i < x->agr.channels; i++) {
		uint8_t hello[HELLO_BYTES];

		phony_id(ph);
		phony_hello(ph, (uint16_t)(5 + i), hello);
		phony_connect(ph, i, hello, HELLO_BYTES);
	}
	if (end_open(x, n))
		fail_msg("%s", n->e.text);
	phony_answers(ph);
	assert_int_equal(ph->unanswered, 0);
}

/* ---- as a server ---- */

static inline void phony_listen(struct phony *ph)
{
	struct sockaddr_storage a;

	fake_address(1, &a);
	((struct sockaddr_in *)&a)->sin_port = htons(ENDS_PORT);
	assert_int_equal(fake_verbs.id_new(ph->ch, &ph->listener, NULL), 0);
	assert_int_equal(fake_verbs.bind(ph->listener, (struct sockaddr *)&a), 0);
	assert_int_equal(fake_verbs.listen(ph->listener, 8), 0);
	ph->x->port = ENDS_PORT;
}

static inline void phony_accept(struct phony *ph, const struct rdma_cm_event *ev)
{
	struct rdma_conn_param param = { .private_data_len = HELLO_BYTES,
					 .responder_resources = ph->depth,
					 .initiator_depth = 16 };
	uint8_t hello[256] = { 0 };
	uint16_t number;
	uint32_t i;

	assert_null(channel_hello_check(ev->param.conn.private_data, false, &ph->x->auth,
					&number, &ph->key));
	i = number - 5u;
	assert_true(i < PHONY_CHANNELS && !ph->id[i]);
	ph->id[i] = ev->id;
	ph->n++;
	phony_resources(ph, ev->id->verbs);
	if (ph->refuses) {
		assert_int_equal(fake_verbs.reject(ev->id, "no", 2), 0);
		return;
	}
	phony_queue_pair(ph, i);
	phony_hello(ph, number, hello);
	param.private_data = hello;
	if (ph->forge)
		ph->forge(ph, hello, &param);
	assert_int_equal(fake_verbs.accept(ev->id, &param), 0);
}

static inline void phony_turn(void *arg)
{
	struct phony *ph = arg;
	struct rdma_cm_event *ev;

	fake.idle = NULL;
	while (!fake_verbs.event_next(ph->ch, &ev)) {
		if (ev->event == RDMA_CM_EVENT_CONNECT_REQUEST)
			phony_accept(ph, ev);
		fake_verbs.event_done(ev);
	}
}

/* The client connects to this server. Returns the result of the client's open. */
static inline int phony_from_client(struct phony *ph, struct ends *x)
{
	struct end *n = &x->end[CLIENT];

	phony_listen(ph);
	if (end_make(x, n) || end_resolve(x) || end_pool(x, n))
		fail_msg("%s", n->e.text);
	fake.idle = phony_turn;
	fake.idle_arg = ph;
	return end_open(x, n);
}

/* ---- messages and blocks ---- */

/* Takes all completions, and reposts the receives. Tests read received messages in its memory. */
static inline void phony_drain(struct phony *ph)
{
	struct ibv_wc wc;

	while (fake_verbs.poll(ph->cq, 1, &wc) == 1) {
		uint32_t channel = (uint32_t)wc.wr_id >> 8, slot = wc.wr_id & 0xff;

		if (wc.status)
			ph->failed = ph->failed ? ph->failed : wc.status;
		else if (wc.wr_id >> 32)
			phony_receive(ph, channel, slot);
	}
}

/* Posts a work request, unless the queue is full because the peer does not take messages. */
static inline void phony_post(struct phony *ph, uint32_t channel, struct ibv_send_wr *wr)
{
	int r;

	wr->send_flags |= IBV_SEND_SIGNALED;
	r = fake_verbs.post_send(ph->id[channel], wr);
	assert_true(!r || (r == -ENOMEM && fake.may_starve));
	phony_drain(ph);
}

static inline void phony_send(struct phony *ph, uint32_t channel, const void *data, uint32_t len)
{
	uint32_t slot = channel * PHONY_SENDS + ph->sends[channel]++ % PHONY_SENDS;
	uint64_t at = PHONY_MESSAGES + 512 * slot;
	struct ibv_sge sge = { at, len, ph->mr->lkey };
	struct ibv_send_wr wr = { .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND };

	memcpy(ph->mem + at, data, len);
	phony_post(ph, channel, &wr);
}

/* Sends the next message on this channel, with its items in m and the claimed number said. */
static inline void phony_message(struct phony *ph, uint32_t channel, uint8_t *m, uint32_t magic,
				 uint32_t said, uint32_t bytes)
{
	assert_int_equal(message_seal(&ph->said[channel], m, magic, said, bytes), 0);
	phony_send(ph, channel, m, MESSAGE_HEAD + bytes + MESSAGE_TAG);
}

static inline void phony_credits(struct phony *ph, uint32_t channel, const struct credit *c,
				 uint32_t n)
{
	uint8_t m[512];

	for (uint32_t i = 0; i < n; i++)
		credit_put(m + MESSAGE_HEAD + i * CREDIT_BYTES, &c[i]);
	phony_message(ph, channel, m, CREDIT_MAGIC, n, n * CREDIT_BYTES);
}

static inline void phony_grant(struct phony *ph, uint32_t channel, uint32_t buffer)
{
	phony_credits(ph, channel, &(struct credit){ .number = CREDIT_GRANT, .buffer = buffer }, 1);
}

static inline void phony_announce(struct phony *ph, uint32_t channel, const struct announce *a,
				  uint32_t n)
{
	uint8_t m[512];

	for (uint32_t i = 0; i < n; i++)
		announce_put(m + MESSAGE_HEAD + i * ANNOUNCE_BYTES, &a[i]);
	phony_message(ph, channel, m, ANNOUNCE_MAGIC, n, n * ANNOUNCE_BYTES);
}

/* Makes a block in its buffer: head and table, then a payload that repeats one byte. */
static inline uint32_t phony_block(struct phony *ph, uint32_t buffer, uint64_t number,
				   uint32_t extents, uint32_t payload)
{
	uint32_t head = BLOCK_WIRE_HEAD + extents * BLOCK_WIRE_EXTENT;
	uint8_t *at = ph->mem + (size_t)buffer * PHONY_STRIDE + BLOCK_HEAD - head;
	const struct block_head h = { .number = number, .extents = (uint16_t)extents,
				      .payload = payload };

	memset(at, 0, head);
	block_head_put(at, &h);
	memset(at + head, (uint8_t)number, payload);
	return head + payload;
}

/* Writes bytes of its buffer, from the head on, to this address in the peer's pool. */
static inline void phony_write(struct phony *ph, uint32_t channel, uint32_t from, uint32_t extents,
			       uint32_t bytes, uint64_t to, uint32_t imm)
{
	uint32_t head = BLOCK_WIRE_HEAD + extents * BLOCK_WIRE_EXTENT;
	struct ibv_sge sge = { (uint64_t)from * PHONY_STRIDE + BLOCK_HEAD - head, bytes,
			       ph->mr->lkey };
	struct ibv_send_wr wr = { .sg_list = &sge, .num_sge = bytes ? 1 : 0,
				  .opcode = IBV_WR_RDMA_WRITE_WITH_IMM, .imm_data = htonl(imm),
				  .wr.rdma = { .remote_addr = to, .rkey = ph->key } };

	phony_post(ph, channel, &wr);
}

/* Writes a correct block to the sink's buffer. */
static inline void phony_put(struct phony *ph, uint32_t channel, uint64_t number, uint32_t buffer,
			     uint32_t payload)
{
	uint32_t bytes = phony_block(ph, 0, number, 1, payload);

	phony_write(ph, channel, 0, 1, bytes, (uint64_t)buffer * PHONY_STRIDE + BLOCK_HEAD -
		    BLOCK_WIRE_HEAD - BLOCK_WIRE_EXTENT, 1u << 24 | buffer);
}

static inline void phony_free(struct phony *ph)
{
	for (uint32_t i = 0; i < PHONY_CHANNELS; i++) {
		if (ph->id[i])
			fake_verbs.qp_free(ph->id[i]);
		fake_verbs.id_free(ph->id[i]);
	}
	fake_verbs.id_free(ph->listener);
	fake_verbs.mr_free(ph->mr);
	fake_verbs.cq_free(ph->comp, ph->cq);
	fake_verbs.pd_free(ph->pd);
	fake_verbs.channel_free(ph->ch);
	free(ph->mem);
}

#endif
