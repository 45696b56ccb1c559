// SPDX-License-Identifier: Apache-2.0
/* The path's one thread: completions, events of the connections, sleep. */
#include "rdma/endpoint.h"

#include <arpa/inet.h>
#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#define COMPLETIONS 32
#define ROUND_NS 1000000000ull /* from one look at all channels to the next */

static struct rd_path *rd(struct path *path)
{
	return (struct rd_path *)path;
}

/* ---- completions ---- */

/* Why a work request failed, as an errno; opcode and lengths of such a completion mean
 * nothing. */
static int work_error(enum ibv_wc_status s)
{
	switch (s) {
	case IBV_WC_WR_FLUSH_ERR:
		return -ECONNRESET;
	case IBV_WC_RETRY_EXC_ERR:
		return -ETIMEDOUT;
	case IBV_WC_RNR_RETRY_EXC_ERR:
		return -ENOBUFS;
	case IBV_WC_REM_ACCESS_ERR:
	case IBV_WC_REM_INV_REQ_ERR:
	case IBV_WC_LOC_PROT_ERR:
		return -EACCES;
	default:
		return -EIO;
	}
}

static int received(struct rd_path *p, struct rd_channel *c, const struct ibv_wc *wc)
{
	uint32_t index = rd_work_index(wc->wr_id);
	bool imm = wc->wc_flags & IBV_WC_WITH_IMM;
	int r = FAULT("recv", wc->byte_len);

	if (r)
		return r;
	if (p->cfg.source)
		r = imm ? -EPROTO : rd_source_credits(p, c, rd_received_at(c, index), wc->byte_len);
	else if (p->read)
		r = imm ? -EPROTO : rd_sink_announced(p, c, rd_received_at(c, index), wc->byte_len);
	else
		r = imm ? rd_sink_written(p, c, ntohl(wc->imm_data), wc->byte_len) : -EPROTO;
	return r ? r : rd_repost(p, c, index);
}

/* A message has gone: what waited for its place goes on. */
static int message_sent(struct rd_path *p, struct rd_channel *c, uint32_t index)
{
	c->spare_messages |= 1u << index;
	if (p->cfg.source)
		return p->read ? rd_source_announce(p, c) : 0;
	return rd_sink_answer(p, c);
}

static int completed(struct rd_path *p, struct rd_channel *c, const struct ibv_wc *wc)
{
	uint32_t index = rd_work_index(wc->wr_id);

	switch (rd_work_kind(wc->wr_id)) {
	case RD_WORK_DATA:
		c->sends -= index; /* so many it stands for */
		return 0;
	case RD_WORK_MESSAGE:
		return message_sent(p, c, index);
	case RD_WORK_READ:
		return rd_sink_was_read(p, c, index);
	case RD_WORK_RECEIVE:
		return received(p, c, wc);
	case RD_WORK_PROBE:
		c->probing = false;
		return 0;
	}
	return 0;
}

static void handle_completion(struct rd_path *p, const struct ibv_wc *wc)
{
	struct rd_channel *c = &p->ch[rd_work_channel(wc->wr_id)];
	int r;

	if (c->state == RD_DOWN)
		return; /* left in the queue by a queue pair that is gone */
	if (wc->status == IBV_WC_SUCCESS) {
		c->heard = true;
		r = FAULT("cut", wc->byte_len) ? -ECONNRESET : completed(p, c, wc);
	} else {
		r = work_error(wc->status);
		if (wc->status != IBV_WC_WR_FLUSH_ERR)
			log_debug("channel %u: %s (vendor's code 0x%x)", c->index,
				  ibv_wc_status_str(wc->status), wc->vendor_err);
	}
	/* What is flushed after the two of us have said goodbye is the receives. */
	if (r)
		rd_channel_down(p, c, c->state == RD_CLOSING && r == -ECONNRESET ? 0 : r);
}

/* The completion queue is of no use any more: no channel is, and what was on them must not
 * be waited for. */
static void lose_all(struct rd_path *p, int error)
{
	for (uint32_t i = 0; i < p->path.nchannels; i++)
		rd_channel_down(p, &p->ch[i], error);
}

/* How many completions there were. */
static int drain(struct rd_path *p)
{
	struct ibv_wc wc[COMPLETIONS];
	int n = p->gone ? 0 : p->v->poll(p->cq, COMPLETIONS, wc);

	if (n < 0)
		lose_all(p, n);
	if (n > 0)
		FAULT("stall", 0);
	for (int i = 0; i < n; i++)
		handle_completion(p, &wc[i]);
	if (n > 0 && p->spin.limit_ns)
		spin_found(&p->spin, now_ns());
	return n < 0 ? 0 : n;
}

/* ---- events of the connections ---- */

/* The peer leaves. In good order a source does so once all is answered. */
static int goodbye(struct rd_path *p, struct rd_channel *c)
{
	if (c->state == RD_CLOSING)
		return 0;
	if (p->cfg.source)
		return c->blocks ? -ECONNRESET : 0;
	return rd_sink_unanswered(p, c) || c->nannounced || c->reads ? -ECONNRESET : 0;
}

/* What the path itself has of its device. */
static void free_resources(struct rd_path *p)
{
	for (uint32_t i = 0; i < p->path.nchannels; i++)
		p->v->id_free(steal_ptr(&p->ch[i].id));
	p->v->cq_free(steal_ptr(&p->completions), steal_ptr(&p->cq));
	p->v->mr_free(steal_ptr(&p->message_mr));
}

/* The device is being removed, and whoever does it waits until nobody uses it: nothing of it
 * may be kept, though the path itself is, until the transfer ends. */
static void leave_device(struct rd_path *p)
{
	log_warn("RDMA by %s: the device is being removed", p->endpoint->name);
	p->gone = true;
	for (uint32_t i = 0; i < p->path.nchannels; i++)
		rd_channel_down(p, &p->ch[i], -ENODEV);
	sleeper_unwatch(&p->sleeper, p->async);
	free_resources(p);
	p->endpoint->gone = true;
	rd_leave_device(p->endpoint);
}

static void channel_event(struct rd_path *p, struct rd_channel *c, enum rdma_cm_event_type type)
{
	switch (type) {
	case RDMA_CM_EVENT_DISCONNECTED:
		/* What it brought before; no more than there was room for, for another channel
		 * may bring more all the time. */
		for (uint32_t n = 0; n <= p->cq_entries / COMPLETIONS && drain(p) > 0; n++)
			;
		rd_channel_down(p, c, goodbye(p, c));
		break;
	case RDMA_CM_EVENT_TIMEWAIT_EXIT:
	case RDMA_CM_EVENT_ADDR_CHANGE:
		break;
	default:
		log_debug("channel %u: %s", c->index, rdma_event_str(type));
	}
}

/* All channels are here. */
static void refuse(struct rd_path *p, struct rdma_cm_event *ev)
{
	struct rdma_cm_id *late = ev->id;

	p->v->reject(late, NULL, 0);
	p->v->event_done(ev);
	p->v->id_free(late);
}

static void handle_events(struct rd_path *p)
{
	struct rdma_cm_event *ev;

	while (!p->gone && !p->v->event_next(p->events, &ev)) {
		struct rd_channel *c = ev->id->context;
		enum rdma_cm_event_type type = ev->event;

		if (type == RDMA_CM_EVENT_CONNECT_REQUEST) {
			refuse(p, ev);
			continue;
		}
		p->v->event_done(ev);
		if (type == RDMA_CM_EVENT_DEVICE_REMOVAL)
			leave_device(p);
		else if (c)
			channel_event(p, c, type);
	}
}

/* ---- events of the device ---- */

/* Which of the port, when it says so. */
static void say_port(struct rd_path *p, const struct ibv_async_event *ev)
{
	if (ev->element.port_num != p->ch[0].id->port_num)
		return;
	if (ev->event_type == IBV_EVENT_PORT_ERR)
		log_warn("RDMA by %s: the link is down", p->endpoint->name);
	else
		log_info("RDMA by %s: the link is up", p->endpoint->name);
}

/* Other paths of this process have the same device, and its events come to one of us only: so
 * nothing may depend on them that rdma_cm, or a flushed queue pair, does not tell each. */
static void handle_async(struct rd_path *p)
{
	struct ibv_async_event ev;

	while (!p->gone && !p->v->async_event(p->ctx, &ev)) {
		switch (ev.event_type) {
		case IBV_EVENT_DEVICE_FATAL:
			leave_device(p);
			break;
		case IBV_EVENT_PORT_ERR:
		case IBV_EVENT_PORT_ACTIVE:
			say_port(p, &ev);
			break;
		default:
			log_debug("RDMA by %s: %s", p->endpoint->name,
				  ibv_event_type_str(ev.event_type));
		}
	}
}

/* ---- telling the stage ---- */

static int tell_blocks(struct block **list, struct block ***end, enum path_event_kind kind,
		       struct path_event *ev, int max)
{
	int n = 0;

	while (*list && n < max) {
		struct block *b = *list;

		*list = b->next;
		b->next = NULL;
		ev[n++] = (struct path_event){ .kind = kind, .channel = b->channel, .block = b };
		if (kind == PATH_RETURNED) {
			ev[n - 1].status = b->sent_at;
			ev[n - 1].error = b->sent_at ? 0 : -EPIPE;
		}
	}
	if (!*list)
		*end = list;
	return n;
}

/* Blocks before the death of their channel, so that who hears of it has them all. */
static int tell(struct rd_path *p, struct path_event *ev, int max)
{
	int n = tell_blocks(&p->acked, &p->acked_end, PATH_ACKED, ev, max);

	n += tell_blocks(&p->returned, &p->returned_end, PATH_RETURNED, ev + n, max - n);
	n += tell_blocks(&p->received, &p->received_end, PATH_RECEIVED, ev + n, max - n);
	for (uint32_t i = 0; i < p->path.nchannels && n < max; i++) {
		struct rd_channel *c = &p->ch[i];

		if (!c->down_due)
			continue;
		c->down_due = false;
		ev[n++] = (struct path_event){ .kind = PATH_DOWN, .channel = i,
					       .error = c->down_error };
	}
	return n;
}

/* ---- sleeping and waking ---- */

static void rd_wake(struct path *path)
{
	sleeper_wake(&rd(path)->sleeper);
}

/* The queue has failed: that is to be told. */
static bool any_down_due(const struct rd_path *p)
{
	bool due = false;

	for (uint32_t i = 0; i < p->path.nchannels; i++)
		due |= p->ch[i].down_due;
	return due;
}

/* Sleep until something completes or happens, or timeout_ms pass. */
static int sleep_on(struct rd_path *p, int timeout_ms)
{
	struct epoll_event e[4];
	int n, r = !p->gone && atomic_load(&p->path.alive) ? p->v->cq_arm(p->cq) : 0;

	if (r) {
		handle_events(p); /* they know why, if the device is gone */
		lose_all(p, r);
		return 0;
	}
	/* What completed before it was armed makes no event. */
	if (drain(p))
		return 0;
	if (!p->spin.sleeps || any_down_due(p) || !sleeper_lie_down(&p->sleeper) ||
	    atomic_load(&p->due))
		timeout_ms = 0;
	n = sleeper_sleep(&p->sleeper, e, 4, timeout_ms);
	for (int i = 0; i < n && !p->gone; i++) {
		if (e[i].data.ptr == p->completions)
			p->v->cq_woken(p->completions);
		else if (e[i].data.ptr == p->events)
			handle_events(p);
		else if (e[i].data.ptr == p->ctx)
			handle_async(p);
	}
	return n < 0 ? n : 0;
}

/* Answers that are due, and reads that waited for a buffer. */
static void serve_due(struct rd_path *p)
{
	bool stalled;

	if (!atomic_exchange(&p->due, 0))
		return;
	stalled = p->stalled;
	p->stalled = false; /* unless one finds no buffer again */
	for (uint32_t i = 0; i < p->path.nchannels; i++) {
		struct rd_channel *c = &p->ch[i];
		int r = c->state == RD_UP ? rd_sink_answer(p, c) : 0;

		if (!r && c->state == RD_UP && stalled)
			r = rd_sink_read(p, c);
		if (r)
			rd_channel_down(p, c, r);
	}
}

static bool room_came(struct rd_path *p)
{
	if (!p->want_room || !rd_source_room(p))
		return false;
	p->want_room = false;
	return true;
}

/* A queue pair that could be used: a sink's until the source has left. */
static bool works(const struct rd_path *p, const struct rd_channel *c)
{
	return c->state == RD_UP || (c->state == RD_CLOSING && !p->cfg.source);
}

/* Probe channels on which nothing has completed since the last round: a side that waits for
 * the other has nothing posted that could fail, and would wait for ever on a way that is cut. */
static void probe_silent(struct rd_path *p)
{
	for (uint32_t i = 0; i < p->path.nchannels; i++) {
		struct rd_channel *c = &p->ch[i];
		int r = 0;

		if (works(p, c) && !c->heard && !c->probing)
			r = rd_probe(p, c);
		c->heard = false;
		if (r)
			rd_channel_down(p, c, r);
	}
}

/* Once a second what is not in the completion queue; who never sleeps would miss it. */
static void make_round(struct rd_path *p)
{
	uint64_t now = now_ns();

	if (now < p->round_at)
		return;
	p->round_at = now + ROUND_NS;
	handle_events(p);
	handle_async(p);
	probe_silent(p);
}

/* A source's device tells that a block has arrived, but not that the sink's program answers it. Of a
 * channel with no block and, over WRITE, no credit, the sink has all buffers free: their grants are
 * due, which matters once no other channel has room. */
static bool waits(const struct rd_path *p, const struct rd_channel *c)
{
	return p->cfg.source && (c->blocks || (!p->read && !c->ncredits && p->want_room));
}

static void drop_stalled(struct rd_path *p)
{
	bool lost = watch_lost(&p->path);

	if (!watch_due(&p->path, now_ns()) && !lost)
		return;
	for (uint32_t i = 0; i < p->path.nchannels; i++) {
		struct rd_channel *c = &p->ch[i];
		int r = c->state == RD_UP ? watch_look(&p->path, i, waits(p, c)) : 0;

		if (r)
			rd_channel_down(p, c, r);
	}
}

/* Milliseconds to sleep where left are (-1: any time): no longer than to the next round. */
static int nap(const struct rd_path *p, int left)
{
	uint64_t now = now_ns();
	int most = ms_between(now, p->round_at), look = watch_ms(&p->path, now);

	if (p->cfg.source && look < most)
		most = look;
	return left < 0 || left > most ? most : left;
}

/* Look without sleeping. True: the caller is to be told, *n events of it. */
static bool look(struct rd_path *p, struct path_event *ev, int max, int *n)
{
	drain(p);
	if (!p->cfg.source)
		serve_due(p);
	*n = tell(p, ev, max);
	if (*n || room_came(p))
		return true;
	return sleeper_woken(&p->sleeper);
}

static int rd_poll(struct path *path, struct path_event *ev, int max, int timeout_ms)
{
	struct rd_path *p = rd(path);
	uint64_t deadline = timeout_ms > 0 ? now_ns() + (uint64_t)timeout_ms * 1000000 : 0;
	int left = timeout_ms;

	for (;;) {
		int n, r;

		make_round(p);
		drop_stalled(p);
		if (look(p, ev, max, &n))
			return n;
		if (timeout_ms > 0)
			left = ms_to(deadline);
		if (left && p->spin.limit_ns && spin_on(&p->spin, now_ns()))
			continue;
		r = sleep_on(p, nap(p, left));
		if (r < 0)
			return r;
		if (!left)
			return look(p, ev, max, &n) ? n : 0;
	}
}

/* ---- the end ---- */

/* Nothing that we owe is still with us. */
static bool all_flushed(struct rd_path *p, struct rd_channel *c)
{
	if (c->spare_messages != (1u << RD_MESSAGES_OUT) - 1)
		return false;
	return p->cfg.source ? !c->blocks : !rd_sink_unanswered(p, c);
}

/* The source says goodbye; the sink waits for it. */
static void say_goodbye(struct rd_path *p)
{
	for (uint32_t i = 0; i < p->path.nchannels; i++) {
		struct rd_channel *c = &p->ch[i];

		if (c->state != RD_UP || !all_flushed(p, c))
			continue;
		pthread_mutex_lock(&p->lock);
		c->state = RD_CLOSING;
		pthread_mutex_unlock(&p->lock);
		if (p->cfg.source && p->v->disconnect(c->id))
			rd_channel_down(p, c, 0);
	}
}

static int rd_finish(struct path *path, int timeout_ms)
{
	struct rd_path *p = rd(path);
	uint64_t deadline = now_ns() + (uint64_t)(timeout_ms < 0 ? INT_MAX : timeout_ms) * 1000000;
	struct path_event ev[16];
	int result = 0;

	if (p->cfg.source && p->unacked)
		return -EBUSY;
	while (atomic_load(&path->alive)) {
		int n, left = ms_to(deadline);

		if (!left)
			return -ETIMEDOUT;
		say_goodbye(p);
		n = rd_poll(path, ev, 16, left < 50 ? left : 50);
		if (n < 0)
			return n;
		for (int i = 0; i < n; i++) {
			if (ev[i].kind != PATH_DOWN)
				pool_put(ev[i].block);
			else if (ev[i].error && !result)
				result = ev[i].error;
		}
	}
	return result;
}

static void put_list(struct block *b)
{
	while (b) {
		struct block *next = b->next;

		b->next = NULL;
		pool_put(b);
		b = next;
	}
}

/* It may have come after the path's thread has ended. */
static void look_for_removal(struct rd_path *p)
{
	struct rdma_cm_event *ev;

	while (!p->gone && !p->v->event_next(p->events, &ev)) {
		p->endpoint->gone |= ev->event == RDMA_CM_EVENT_DEVICE_REMOVAL;
		if (ev->event == RDMA_CM_EVENT_CONNECT_REQUEST)
			refuse(p, ev);
		else
			p->v->event_done(ev);
	}
}

static void rd_tend(struct path *path)
{
	struct rd_path *p = rd(path);

	handle_events(p);
	handle_async(p);
}

void rd_path_free(struct path *path)
{
	struct rd_path *p = rd(path);

	look_for_removal(p);
	for (uint32_t i = 0; i < path->nchannels; i++)
		rd_channel_down(p, &p->ch[i], -ECANCELED);
	put_list(p->acked);
	put_list(p->returned);
	put_list(p->received);
	put_list(p->homeless);
	free_resources(p);
	for (uint32_t i = 0; i < path->nchannels; i++) {
		free(p->ch[i].credits);
		free(p->ch[i].announced);
		free(p->ch[i].answers);
		messages_close(&p->ch[i].outgoing);
		messages_close(&p->ch[i].incoming);
	}
	free(p->message_memory);
	sleeper_close(&p->sleeper);
	pthread_mutex_destroy(&p->lock);
	free(p->at);
	free(p->holder);
	free(p->granted);
	free(p->reading);
	watch_free(path);
	free(path->channel_bytes);
	free(p);
}

const struct path_ops rd_source_ops = {
	.name = "rdma",
	.post = rd_source_post,
	.poll = rd_poll,
	.wake = rd_wake,
	.finish = rd_finish,
	.tend = rd_tend,
	.free = rd_path_free,
};

const struct path_ops rd_sink_ops = {
	.name = "rdma",
	.poll = rd_poll,
	.release = rd_sink_release,
	.refuse = rd_sink_refuse,
	.wake = rd_wake,
	.finish = rd_finish,
	.tend = rd_tend,
	.free = rd_path_free,
};
