// SPDX-License-Identifier: Apache-2.0
/* One channel: its queue pair, its messages, its end. */
#include "rdma/path.h"

#define INLINE_BYTES 64u
#define SENDS_LEAST 32u
/* min_rnr_timer 1: 0.01 ms. rdma_cm sets 0, which means 655 ms. Receives never run short, but a bug
 * of the peer should not look like a slow network. */
#define RNR_TIMER 1

/* ---- receives ---- */

int rd_repost(struct rd_path *p, struct rd_channel *c, uint32_t index)
{
	struct ibv_sge sge = {
		.addr = (uintptr_t)rd_received_at(c, index),
		.length = RD_MESSAGE,
		.lkey = p->message_mr ? p->message_mr->lkey : 0,
	};
	struct ibv_recv_wr wr = {
		.wr_id = rd_work_id(RD_WORK_RECEIVE, c->index, index),
		.sg_list = &sge,
		/* The immediate of an RDMA_WRITE has no bytes of its own. */
		.num_sge = p->cfg.source || p->read ? 1 : 0,
	};

	return p->v->post_recv(c->id, &wr);
}

/* ---- messages ---- */

/* Apply the faults of messages to m, the message of wr. 1: it is lost, do not send it; 0; or a
 * negative errno. */
static int rd_message_fault(struct rd_path *p, struct rd_channel *c, uint8_t *m,
			    const struct ibv_send_wr *wr)
{
	struct ibv_send_wr twin = *wr;
	uint32_t len = wr->sg_list->length;

	if (FAULT("flip-message", len))
		m[MESSAGE_HEAD] ^= 0x20;
	if (FAULT("lose-message", len))
		return 1;
	twin.send_flags &= ~(unsigned)IBV_SEND_SIGNALED;
	return FAULT("repeat-message", len) ? p->v->post_send(c->id, &twin) : 0;
}

uint8_t *rd_message_get(struct rd_channel *c, uint32_t *index)
{
	if (!c->spare_messages)
		return NULL;
	*index = (uint32_t)__builtin_ctz(c->spare_messages);
	c->spare_messages &= ~(1u << *index);
	return c->messages + (size_t)*index * RD_MESSAGE;
}

int rd_message_send(struct rd_path *p, struct rd_channel *c, uint32_t index, uint32_t magic,
		    uint32_t count, uint32_t item)
{
	uint8_t *m = c->messages + (size_t)index * RD_MESSAGE;
	uint32_t len = MESSAGE_HEAD + count * item + MESSAGE_TAG;
	struct ibv_sge sge = {
		.addr = (uintptr_t)m,
		.length = len,
		.lkey = p->message_mr->lkey,
	};
	struct ibv_send_wr wr = {
		.wr_id = rd_work_id(RD_WORK_MESSAGE, c->index, index),
		.sg_list = &sge,
		.num_sge = 1,
		.opcode = IBV_WR_SEND,
		.send_flags = IBV_SEND_SIGNALED,
	};
	int r = FAULT("send", len);

	if (!r)
		r = message_seal(&c->outgoing, m, magic, count, count * item);
	if (!r && len <= c->inline_max)
		wr.send_flags |= IBV_SEND_INLINE;
	if (!r)
		r = rd_message_fault(p, c, m, &wr);
	if (r == 1) {
		c->spare_messages |= 1u << index;
		return 0;
	}
	return r ? r : p->v->post_send(c->id, &wr);
}

/* ---- the peer's memory ---- */

#define NOWHERE (1ull << 44)

void rd_aim(struct ibv_send_wr *wr, const struct rd_channel *c, uint64_t at, uint32_t bytes)
{
	wr->wr.rdma.remote_addr = at + (FAULT("wrong-place", bytes) ? NOWHERE : 0);
	wr->wr.rdma.rkey = c->peer_key ^ (FAULT("wrong-key", bytes) ? 1u : 0);
}

/* ---- signs of life ---- */

/* A write of no bytes needs no memory on either side and uses no receive, so it is allowed at any
 * time; but the peer's device must acknowledge it. */
int rd_probe(struct rd_path *p, struct rd_channel *c)
{
	struct ibv_send_wr wr = {
		.wr_id = rd_work_id(RD_WORK_PROBE, c->index, 0),
		.opcode = IBV_WR_RDMA_WRITE,
		.send_flags = IBV_SEND_SIGNALED,
		.wr.rdma.rkey = c->peer_key,
	};

	c->probing = true;
	return p->v->post_send(c->id, &wr);
}

/* ---- beginning ---- */

/* max_qp_wr may hold only for smaller requests than ours, so try fewer sends. A device without
 * inline sends returns the same error. */
static int rd_make_queue_pair(struct rd_path *p, struct rd_channel *c, struct rdma_cm_id *id,
			      struct ibv_qp_init_attr *attr)
{
	struct ibv_qp_cap cap = attr->cap;
	uint32_t sends = c->sends_max;
	int r;

	for (;;) {
		cap.max_send_wr = sends + RD_OTHERS_OUT;
		for (cap.max_inline_data = INLINE_BYTES;; cap.max_inline_data = 0) {
			attr->cap = cap;
			r = p->v->qp_new(id, p->pd, attr);
			if ((r != -EINVAL && r != -ENOMEM) || !cap.max_inline_data)
				break;
		}
		if ((r != -EINVAL && r != -ENOMEM) || sends / 2 < SENDS_LEAST)
			break;
		sends /= 2;
	}
	if (!r && sends < c->sends_max)
		log_debug("channel %u: a send queue of %u, not %u", c->index, sends, c->sends_max);
	c->sends_max = sends;
	return r;
}

int rd_channel_make(struct rd_path *p, struct rd_channel *c, struct rdma_cm_id *id)
{
	struct ibv_qp_init_attr attr = {
		.send_cq = p->cq,
		.recv_cq = p->cq,
		.cap = {
			.max_recv_wr = c->receives,
			.max_send_sge = 2,
			.max_recv_sge = 1,
		},
		.qp_type = IBV_QPT_RC,
	};
	int r = rd_make_queue_pair(p, c, id, &attr);

	if (r)
		return r;

	c->inline_max = attr.cap.max_inline_data;
	c->id = id;
	for (uint32_t i = 0; !r && i < c->receives; i++)
		r = rd_repost(p, c, i);
	if (r)
		p->v->qp_free(id);
	return r;
}

int rd_channel_up(struct rd_path *p, struct rd_channel *c)
{
	int r;

	if (c->state != RD_CONNECTING)
		return 0; /* a repeated event */

	r = p->v->qp_rnr_timer(c->id, RNR_TIMER);
	/* Some devices refuse the change in this state; then only the time-out is longer. */
	if (r)
		log_debug("channel %u keeps the RNR timer of rdma_cm: %s", c->index, strerror(-r));

	pthread_mutex_lock(&p->lock);
	c->state = RD_UP;
	pthread_mutex_unlock(&p->lock);
	c->counted = c->heard = true;
	atomic_fetch_add(&p->path.alive, 1);
	return 0;
}

/* ---- end ---- */

void rd_channel_down(struct rd_path *p, struct rd_channel *c, int error)
{
	if (c->state == RD_DOWN)
		return;
	if (c->state != RD_NEW)
		log_debug("%s channel %u goes down: %s", p->cfg.source ? "source's" : "sink's",
			  c->index, error ? strerror(-error) : "in good order");

	pthread_mutex_lock(&p->lock);
	c->state = RD_DOWN;
	pthread_mutex_unlock(&p->lock);

	if (c->id && c->id->qp) {
		/* The peer sees the end of the connection. Once the queue pair is destroyed, the
		 * device no longer accesses our blocks. rd_handle_completion() drops completions
		 * that are left in the queue. */
		p->v->qp_error(c->id);
		p->v->disconnect(c->id);
		p->v->qp_free(c->id);
	}
	if (!c->counted)
		return;

	atomic_fetch_sub(&p->path.alive, 1);
	if (p->cfg.source)
		rd_source_drop(p, c);
	else
		rd_sink_drop(p, c);
	path_add_down(&p->path, c->index, error);
}
