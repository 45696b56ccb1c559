// SPDX-License-Identifier: Apache-2.0
/* The path's one thread: completions, events of the connections and of the device, sleep. */
#include "rdma/path.h"

#include <arpa/inet.h>

#define COMPLETIONS 32
#define ROUND_NS 1000000000ull /* from one check of all channels to the next */

static struct rd_path *rd_path(struct path *path)
{
	return (struct rd_path *)path;
}

/* ---- spinning ---- */

/* A gap counts as at most this many times limit_ns, so that one long pause is soon forgotten. */
#define GAP_MOST 4
#define GAP_WEIGHT 8 /* the old mean counts 7 of 8 parts */

void spin_init(struct spin *s, enum poll_mode mode, unsigned cpus, unsigned threads)
{
	memset(s, 0, sizeof(*s));
	if (mode == POLL_ALWAYS)
		s->limit_ns = SPIN_ALWAYS_NS;
	/* When all processors are busy, a spinning thread delays the threads that produce the
	 * completions it waits for. */
	else if (mode == POLL_AUTO && cpus > threads)
		s->limit_ns = SPIN_NS;
	s->learns = mode == POLL_AUTO;
	s->sleeps = mode != POLL_ALWAYS;
}

void spin_found(struct spin *s, uint64_t now)
{
	uint64_t gap = s->quiet_since ? now - s->quiet_since : 0, most = GAP_MOST * s->limit_ns;

	if (s->learns && s->limit_ns) {
		s->gap_ns += ((gap < most ? gap : most) + GAP_WEIGHT - 1) / GAP_WEIGHT;
		s->gap_ns -= s->gap_ns / GAP_WEIGHT;
	}
	s->quiet_since = 0;
}

bool spin_on(struct spin *s, uint64_t now)
{
	if (!s->limit_ns)
		return false;
	if (!s->quiet_since)
		s->quiet_since = s->last_look = now;

	/* This much time between two polls means that the thread lost its processor. */
	if (s->learns && now - s->last_look > s->limit_ns)
		s->gap_ns = GAP_MOST * s->limit_ns;
	s->last_look = now;

	if (now - s->quiet_since < s->limit_ns)
		return !s->learns || s->gap_ns <= s->limit_ns;
	if (!s->sleeps)
		s->quiet_since = 0;
	return false;
}

/* ---- completions ---- */

/* The failure of a work request, as a negative errno. The opcode and lengths of such a completion
 * are not valid. */
static int rd_work_error(enum ibv_wc_status s)
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

static int rd_received(struct rd_path *p, struct rd_channel *c, const struct ibv_wc *wc)
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

static int rd_completed(struct rd_path *p, struct rd_channel *c, const struct ibv_wc *wc)
{
	uint32_t index = rd_work_index(wc->wr_id);

	switch (rd_work_kind(wc->wr_id)) {
	case RD_WORK_DATA:
		c->sends -= index; /* the sends that this completion confirms */
		return 0;
	case RD_WORK_MESSAGE:
		/* Its slot is free for a waiting message. */
		c->spare_messages |= 1u << index;
		if (!p->cfg.source)
			return rd_sink_answer(p, c);
		return p->read ? rd_source_announce(p, c) : 0;
	case RD_WORK_READ:
		return rd_sink_was_read(p, c, index);
	case RD_WORK_RECEIVE:
		return rd_received(p, c, wc);
	case RD_WORK_PROBE:
		c->probing = false;
		return 0;
	}
	return 0;
}

static void rd_handle_completion(struct rd_path *p, const struct ibv_wc *wc)
{
	struct rd_channel *c = &p->ch[rd_work_channel(wc->wr_id)];
	int r;

	if (c->state == RD_DOWN)
		return; /* left from a destroyed queue pair */
	if (wc->status == IBV_WC_SUCCESS) {
		c->heard = true;
		r = FAULT("cut", wc->byte_len) ? -ECONNRESET : rd_completed(p, c, wc);
	} else {
		r = rd_work_error(wc->status);
		if (wc->status != IBV_WC_WR_FLUSH_ERR)
			log_debug("channel %u: %s (vendor's code 0x%x)", c->index,
				  ibv_wc_status_str(wc->status), wc->vendor_err);
	}
	/* After both sides have disconnected only receives are flushed. */
	if (r)
		rd_channel_down(p, c, c->state == RD_CLOSING && r == -ECONNRESET ? 0 : r);
}

/* Take all channels down without waiting for anything on them. */
static void rd_all_down(struct rd_path *p, int error)
{
	for (uint32_t i = 0; i < p->path.nchannels; i++)
		rd_channel_down(p, &p->ch[i], error);
}

/* Handle completions. Returns their number. */
static int rd_drain(struct rd_path *p)
{
	struct ibv_wc wc[COMPLETIONS];
	int n = p->gone ? 0 : p->v->poll(p->cq, COMPLETIONS, wc);

	if (n < 0)
		rd_all_down(p, n);
	if (n > 0)
		(void)FAULT("stall", 0);
	for (int i = 0; i < n; i++)
		rd_handle_completion(p, &wc[i]);

	if (n > 0 && p->spin.limit_ns)
		spin_found(&p->spin, now_ns());
	return n < 0 ? 0 : n;
}

/* ---- events of the connections ---- */

/* Free the path's own resources on its device. */
static void rd_free_resources(struct rd_path *p)
{
	for (uint32_t i = 0; i < p->path.nchannels; i++)
		p->v->id_free(steal_ptr(&p->ch[i].id));
	p->v->cq_free(steal_ptr(&p->completions), steal_ptr(&p->cq));
	p->v->mr_free(steal_ptr(&p->message_mr));
}

/* The device is being removed, and the kernel waits until it is unused: free all resources on it.
 * The path itself stays until the transfer ends. */
static void rd_path_leave_device(struct rd_path *p)
{
	log_warn("RDMA by %s: the device is being removed", p->endpoint->name);
	p->gone = true;
	rd_all_down(p, -ENODEV);
	sleeper_unwatch(&p->sleeper, p->async);
	rd_free_resources(p);
	p->endpoint->gone = true;
	rd_leave_device(p->endpoint);
}

static void rd_channel_event(struct rd_path *p, struct rd_channel *c, enum rdma_cm_event_type type)
{
	bool owed;

	switch (type) {
	case RDMA_CM_EVENT_DISCONNECTED:
		/* Handle earlier completions first, but at most a full queue: other channels may
		 * produce completions all the time. */
		for (uint32_t n = 0; n <= p->cq_entries / COMPLETIONS && rd_drain(p) > 0; n++)
			;
		/* The end is in good order if all blocks are answered, or both disconnected. */
		owed = p->cfg.source ? c->blocks :
		       rd_sink_unanswered(p, c) || c->nannounced || c->reads;
		rd_channel_down(p, c, owed && c->state != RD_CLOSING ? -ECONNRESET : 0);
		break;
	case RDMA_CM_EVENT_TIMEWAIT_EXIT:
	case RDMA_CM_EVENT_ADDR_CHANGE:
		break;
	default:
		log_debug("channel %u: %s", c->index, rdma_event_str(type));
	}
}

/* A connection request after all channels are open. */
static void rd_reject_late(struct rd_path *p, struct rdma_cm_event *ev)
{
	struct rdma_cm_id *late = ev->id;

	p->v->reject(late, NULL, 0);
	p->v->event_done(ev);
	p->v->id_free(late);
}

static void rd_handle_events(struct rd_path *p)
{
	struct rdma_cm_event *ev;

	while (!p->gone && !p->v->event_next(p->events, &ev)) {
		struct rd_channel *c = ev->id->context;
		enum rdma_cm_event_type type = ev->event;

		if (type == RDMA_CM_EVENT_CONNECT_REQUEST) {
			rd_reject_late(p, ev);
			continue;
		}
		p->v->event_done(ev);
		if (type == RDMA_CM_EVENT_DEVICE_REMOVAL)
			rd_path_leave_device(p);
		else if (c)
			rd_channel_event(p, c, type);
	}
}

/* ---- events of the device ---- */

/* Paths of this process that share the device share its events, and each event reaches only one of
 * them. So nothing may depend on an event that rdma_cm, or a flushed queue pair, does not report to
 * each path as well. */
static void rd_handle_async(struct rd_path *p)
{
	struct ibv_async_event ev;

	while (!p->gone && !p->v->async_event(p->ctx, &ev)) {
		switch (ev.event_type) {
		case IBV_EVENT_DEVICE_FATAL:
			rd_path_leave_device(p);
			break;
		case IBV_EVENT_PORT_ERR:
		case IBV_EVENT_PORT_ACTIVE:
			if (ev.element.port_num != p->ch[0].id->port_num)
				break;
			if (ev.event_type == IBV_EVENT_PORT_ERR)
				log_warn("RDMA by %s: the link is down", p->endpoint->name);
			else
				log_info("RDMA by %s: the link is up", p->endpoint->name);
			break;
		default:
			log_debug("RDMA by %s: %s", p->endpoint->name,
				  ibv_event_type_str(ev.event_type));
		}
	}
}

/* ---- sleeping and waking ---- */

static void rd_wake(struct path *path)
{
	sleeper_wake(&rd_path(path)->sleeper);
}

/* Sleep until a completion or an event, at most left ms (-1: any time), and not beyond the next
 * check of the channels. */
static int rd_sleep(struct rd_path *p, int left)
{
	uint64_t now = now_ns();
	int most = ms_between(now, p->round_at), check = watch_ms(&p->path, now);
	struct epoll_event e[4];
	int n, r = !p->gone && atomic_load(&p->path.alive) ? p->v->cq_arm(p->cq) : 0;

	if (r) {
		rd_handle_events(p); /* they report a removal of the device */
		rd_all_down(p, r);
		return 0;
	}
	/* A completion before the queue was armed causes no event. */
	if (rd_drain(p))
		return 0;

	if (p->cfg.source && check < most)
		most = check;
	if (left < 0 || left > most)
		left = most;

	if (!p->spin.sleeps || path_has_events(&p->path) || !sleeper_lie_down(&p->sleeper) ||
	    atomic_load(&p->due))
		left = 0;
	n = sleeper_sleep(&p->sleeper, e, 4, left);
	for (int i = 0; i < n && !p->gone; i++) {
		if (e[i].data.ptr == p->completions)
			p->v->cq_woken(p->completions);
		else if (e[i].data.ptr == p->events)
			rd_handle_events(p);
		else if (e[i].data.ptr == p->ctx)
			rd_handle_async(p);
	}
	return n < 0 ? n : 0;
}

/* Send the answers that are due, and begin reads that waited for a block. */
static void rd_serve_due(struct rd_path *p)
{
	bool stalled;

	if (!atomic_exchange(&p->due, 0))
		return;

	stalled = p->stalled;
	p->stalled = false; /* unless a read finds no block again */
	for (uint32_t i = 0; i < p->path.nchannels; i++) {
		struct rd_channel *c = &p->ch[i];
		int r = c->state == RD_UP ? rd_sink_answer(p, c) : 0;

		if (!r && c->state == RD_UP && stalled)
			r = rd_sink_read(p, c);
		if (r)
			rd_channel_down(p, c, r);
	}
}

/* Once a second: handle events other than completions, which a thread that never sleeps would miss;
 * and probe channels without a completion since the last round. A side that waits for the peer has
 * no posted work that could fail, and would wait for ever on a broken route. */
static void rd_make_round(struct rd_path *p)
{
	uint64_t now = now_ns();

	if (now < p->round_at)
		return;
	p->round_at = now + ROUND_NS;
	rd_handle_events(p);
	rd_handle_async(p);

	for (uint32_t i = 0; i < p->path.nchannels; i++) {
		struct rd_channel *c = &p->ch[i];
		/* A sink's queue pair works until the source has disconnected. */
		bool works = c->state == RD_UP || (c->state == RD_CLOSING && !p->cfg.source);
		int r = works && !c->heard && !c->probing ? rd_probe(p, c) : 0;

		c->heard = false;
		if (r)
			rd_channel_down(p, c, r);
	}
}

/* The device confirms that a block has arrived, but not that the sink's program works: drop
 * channels on which it does nothing. If a WRITE channel has neither blocks nor credits, the sink
 * has all its buffers and owes their grants; this matters once no other channel has room. */
static void rd_drop_stalled(struct rd_path *p)
{
	if (!watch_due(&p->path, now_ns()))
		return;
	for (uint32_t i = 0; i < p->path.nchannels; i++) {
		struct rd_channel *c = &p->ch[i];
		bool waits = p->cfg.source &&
			     (c->blocks || (!p->read && !c->ncredits && p->path.want_room));
		int r = c->state == RD_UP ? watch_check(&p->path, i, waits) : 0;

		if (r)
			rd_channel_down(p, c, r);
	}
}

/* Poll without sleeping. True: poll must return, with *n events. */
static bool rd_look(struct rd_path *p, struct path_event *ev, int max, int *n)
{
	rd_drain(p);
	if (!p->cfg.source)
		rd_serve_due(p);
	*n = path_take_events(&p->path, ev, max);
	if (*n)
		return true;
	if (p->path.want_room && rd_source_room(p)) {
		p->path.want_room = false;
		return true;
	}
	return sleeper_woken(&p->sleeper);
}

static int rd_poll(struct path *path, struct path_event *ev, int max, int timeout_ms)
{
	struct rd_path *p = rd_path(path);
	uint64_t deadline = timeout_ms > 0 ? now_ns() + (uint64_t)timeout_ms * 1000000 : 0;
	int left = timeout_ms;

	for (;;) {
		int n, r;

		rd_make_round(p);
		rd_drop_stalled(p);
		if (rd_look(p, ev, max, &n))
			return n;
		if (timeout_ms > 0)
			left = ms_to(deadline);
		if (left && p->spin.limit_ns && spin_on(&p->spin, now_ns()))
			continue;
		r = rd_sleep(p, left);
		if (r < 0)
			return r;
		if (!left)
			return rd_look(p, ev, max, &n) ? n : 0;
	}
}

/* ---- the end ---- */

/* Close the channels on which all blocks or answers are sent and answered: the source disconnects,
 * and the sink waits for that. */
static void rd_say_goodbye(struct rd_path *p)
{
	for (uint32_t i = 0; i < p->path.nchannels; i++) {
		struct rd_channel *c = &p->ch[i];

		if (c->state != RD_UP || c->spare_messages != (1u << RD_MESSAGES_OUT) - 1 ||
		    (p->cfg.source ? c->blocks : rd_sink_unanswered(p, c)))
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
	struct rd_path *p = rd_path(path);
	uint64_t deadline = ns_after(timeout_ms);
	struct path_event ev[16];
	int result = 0;

	if (p->cfg.source && p->unacked)
		return -EBUSY;

	while (atomic_load(&path->alive)) {
		int n, left = ms_to(deadline);

		if (!left)
			return -ETIMEDOUT;
		rd_say_goodbye(p);
		n = rd_poll(path, ev, 16, left < 50 ? left : 50);
		if (n < 0)
			return n;
		path_drop_events(ev, n, &result);
	}
	return result;
}

static void rd_tend(struct path *path)
{
	struct rd_path *p = rd_path(path);

	rd_handle_events(p);
	rd_handle_async(p);
}

void rd_path_free(struct path *path)
{
	struct rd_path *p = rd_path(path);
	struct rdma_cm_event *ev;

	/* A device may have been removed after the path's thread ended. */
	while (!p->gone && !p->v->event_next(p->events, &ev)) {
		p->endpoint->gone |= ev->event == RDMA_CM_EVENT_DEVICE_REMOVAL;
		if (ev->event == RDMA_CM_EVENT_CONNECT_REQUEST)
			rd_reject_late(p, ev);
		else
			p->v->event_done(ev);
	}

	rd_all_down(p, -ECANCELED);
	while (p->homeless) {
		struct block *b = p->homeless;

		p->homeless = b->next;
		b->next = NULL;
		pool_put(b);
	}

	path_destroy(path);
	rd_free_resources(p);
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
	free(p);
}

const struct path_ops rd_ops = {
	.name = "rdma",
	.post = rd_source_post,
	.poll = rd_poll,
	.release = rd_sink_release,
	.refuse = rd_sink_refuse,
	.wake = rd_wake,
	.finish = rd_finish,
	.tend = rd_tend,
	.free = rd_path_free,
};
