// SPDX-License-Identifier: Apache-2.0
/* The fake fabric's connections: ids and their events. */
#include "tests/support/fake-fabric.h"

#include <errno.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#define EVENT_TYPES (RDMA_CM_EVENT_TIMEWAIT_EXIT + 1)
#define RULES 8
/* The room for private data in a message: IBA 12.6, less the bytes that rdma_cm uses. */
#define REQUEST_DATA 56
#define REPLY_DATA 196
#define REJECT_DATA 148
/* Reject reasons, IBA table 109. */
#define NO_SERVICE 8
#define CONSUMER 28

/* ---- fates of events ---- */

struct rule {
	unsigned nth;            /* 0: an empty row */
	enum rdma_cm_event_type type, other;
	enum fake_fate fate;
	int status;
};

static struct {
	unsigned seen[EVENT_TYPES];
	struct rule rules[RULES];
} conn;

void fake_conn_forget(void)
{
	memset(&conn, 0, sizeof(conn));
}

static void add_rule(const struct rule *r)
{
	for (unsigned i = 0; i < RULES; i++) {
		if (conn.rules[i].nth)
			continue;
		conn.rules[i] = *r;
		conn.rules[i].nth += conn.seen[r->type];
		return;
	}
	fake_broken("more than %u rules for events", RULES);
}

void fake_event_fate(enum rdma_cm_event_type type, unsigned nth, enum fake_fate fate)
{
	add_rule(&(struct rule){ .nth = nth, .type = type, .fate = fate });
}

void fake_event_instead(enum rdma_cm_event_type type, unsigned nth,
			enum rdma_cm_event_type other, int status)
{
	add_rule(&(struct rule){ .nth = nth, .type = type, .other = other, .status = status,
				 .fate = FAKE_INSTEAD });
}

static const struct rule *rule_for(enum rdma_cm_event_type type)
{
	unsigned nth = ++conn.seen[type];

	for (unsigned i = 0; i < RULES; i++)
		if (conn.rules[i].nth == nth && conn.rules[i].type == type)
			return &conn.rules[i];
	return NULL;
}

/* ---- event channels ---- */

static struct fake_channel *channel_of(struct rdma_event_channel *ch)
{
	return FAKE_OF(ch, struct fake_channel, ch);
}

int fake_channel_new(struct rdma_event_channel **ch)
{
	LOCK_GUARD(held, &fake_lock);
	int r = fake_count(FAKE_CHANNEL_NEW);
	struct fake_channel *c;

	*ch = NULL;
	if (r)
		return r;
	c = fake_obj_new(OBJ_CHANNEL, sizeof(*c));
	c->ch.fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	FAKE_MUST(c->ch.fd >= 0, "no descriptor is left");
	*ch = &c->ch;
	return 0;
}

void fake_channel_free(struct rdma_event_channel *ch)
{
	LOCK_GUARD(held, &fake_lock);

	if (!ch)
		return;
	fake_obj_free(&channel_of(ch)->o);
	close(ch->fd);
}

static struct fake_event *event_of(struct rdma_cm_event *ev)
{
	return FAKE_OF(ev, struct fake_event, ev);
}

static void append(struct fake_channel *ch, struct fake_event *e)
{
	e->next = NULL;
	if (ch->first)
		ch->last->next = e;
	else
		ch->first = e;
	ch->last = e;
	fake_readable(ch->ch.fd, true);
}

/* Queues the event as the rules require. Returns false if a rule drops it. */
static bool deliver(struct fake_channel *ch, struct fake_event *e)
{
	const struct rule *r = rule_for(e->ev.event);
	struct fake_event *twin;

	if (r && r->fate == FAKE_DROP) {
		fake_obj_free(&e->o);
		return false;
	}
	if (r && r->fate == FAKE_LATE) {
		e->next = ch->late;
		ch->late = e;
		return true;
	}
	if (r && r->fate == FAKE_INSTEAD) {
		e->ev.event = r->other;
		e->ev.status = r->status;
	}
	append(ch, e);
	if (!r || r->fate != FAKE_TWICE)
		return true;
	twin = fake_obj_new(OBJ_EVENT, sizeof(*twin));
	twin->ev = e->ev;
	memcpy(twin->data, e->data, sizeof(e->data));
	append(ch, twin);
	return true;
}

static struct fake_event *new_event(struct fake_id *id, enum rdma_cm_event_type type, int status)
{
	struct fake_event *e = fake_obj_new(OBJ_EVENT, sizeof(*e));

	e->ev = (struct rdma_cm_event){ .id = &id->id, .event = type, .status = status };
	return e;
}

void fake_event(struct fake_id *id, enum rdma_cm_event_type type, int status)
{
	deliver(id->ch, new_event(id, type, status));
}

/* Makes an event with the other side's private data, in a message with this room. Returns NULL if
 * the event is dropped. */
static struct fake_event *event_with(struct fake_id *id, enum rdma_cm_event_type type, int status,
				     const struct rdma_conn_param *param, size_t room)
{
	struct fake_event *e = new_event(id, type, status);

	e->ev.param.conn = *param;
	if (param->private_data_len)
		memcpy(e->data, param->private_data, param->private_data_len);
	e->ev.param.conn.private_data = e->data;
	e->ev.param.conn.private_data_len =
		fake.exact_data ? param->private_data_len : (uint8_t)room;
	/* The kernel swaps these two, so that they are from the reader's point of view. */
	e->ev.param.conn.responder_resources = param->initiator_depth;
	e->ev.param.conn.initiator_depth = param->responder_resources;
	return deliver(id->ch, e) ? e : NULL;
}

void fake_late_events(void)
{
	LOCK_GUARD(held, &fake_lock);

	for (struct fake_obj *o = fake_objs(); o; o = o->next) {
		struct fake_channel *ch = (struct fake_channel *)o;

		while (o->kind == OBJ_CHANNEL && ch->late) {
			struct fake_event *e = ch->late;

			ch->late = e->next;
			append(ch, e);
		}
	}
}

static struct rdma_cm_event *take_event(struct fake_channel *ch)
{
	struct fake_event *e = ch->first;
	struct fake_id *id;

	FAKE_MUST(ch->o.live, "events are asked of a channel that is freed");
	if (!e)
		return NULL;
	ch->first = e->next;
	if (!ch->first)
		fake_readable(ch->ch.fd, false);
	id = fake_id_of(e->ev.id);
	id->given = true;
	id->o.users++;
	if (e->ev.listen_id)
		fake_id_of(e->ev.listen_id)->o.users++;
	return &e->ev;
}

int fake_event_next(struct rdma_event_channel *ch, struct rdma_cm_event **ev)
{
	LOCK_GUARD(held, &fake_lock);
	int r = fake_count(FAKE_EVENT_NEXT);

	*ev = NULL;
	if (r)
		return r;
	*ev = take_event(channel_of(ch));
	if (!*ev && fake.idle) {
		fake.idle(fake.idle_arg);
		*ev = take_event(channel_of(ch));
	}
	return *ev ? 0 : -EAGAIN;
}

void fake_event_done(struct rdma_cm_event *ev)
{
	LOCK_GUARD(held, &fake_lock);

	fake_id_of(ev->id)->o.users--;
	if (ev->listen_id)
		fake_id_of(ev->listen_id)->o.users--;
	fake_obj_free(&event_of(ev)->o);
	/* Poison the event: no code may read it any more. */
	memset(ev, 0xa5, sizeof(*ev));
}

/* ---- ids ---- */

struct fake_id *fake_id_of(struct rdma_cm_id *id)
{
	struct fake_id *i = FAKE_OF(id, struct fake_id, id);

	FAKE_MUST(i->o.live, "an id is used that is freed");
	return i;
}

static struct fake_id *make_id(struct fake_channel *ch, void *context)
{
	struct fake_id *i = fake_obj_new(OBJ_ID, sizeof(*i));

	i->ch = ch;
	i->id.channel = &ch->ch;
	i->id.context = context;
	i->id.ps = RDMA_PS_TCP;
	ch->o.users++;
	return i;
}

static void use_device(struct fake_id *i, struct fake_device *d)
{
	i->dev = d;
	i->id.verbs = &d->ctx;
	i->id.port_num = 1;
}

int fake_id_new(struct rdma_event_channel *ch, struct rdma_cm_id **id, void *context)
{
	LOCK_GUARD(held, &fake_lock);
	int r = fake_count(FAKE_ID_NEW);

	*id = NULL;
	if (r)
		return r;
	*id = &make_id(channel_of(ch), context)->id;
	return 0;
}

/* Tells the other side that the connection is over. */
static void part(struct fake_id *i)
{
	struct fake_id *peer = i->peer;

	i->peer = NULL;
	if (!peer)
		return;
	peer->peer = NULL;
	if (peer->state == ID_CONNECTED) {
		peer->state = ID_DISCONNECTED;
		fake_event(peer, RDMA_CM_EVENT_DISCONNECTED, 0);
	} else if (peer->state == ID_CONNECTING) {
		fake_event(peer, RDMA_CM_EVENT_REJECTED, NO_SERVICE);
	}
}

/* Drops requests to a destroyed listener that its user has not seen. */
static void drop_request(struct fake_event *e)
{
	struct fake_id *i = fake_id_of(e->ev.id);

	if (e->ev.event != RDMA_CM_EVENT_CONNECT_REQUEST || i->given)
		return;
	part(i);
	i->ch->o.users--;
	fake_obj_free(&i->o);
}

static void drop_events(struct fake_event **at, const struct fake_id *i)
{
	while (*at) {
		struct fake_event *e = *at;

		if (e->ev.id != &i->id && e->ev.listen_id != &i->id) {
			at = &e->next;
			continue;
		}
		*at = e->next;
		if (e->ev.listen_id == &i->id)
			drop_request(e);
		fake_obj_free(&e->o);
	}
}

void fake_id_free(struct rdma_cm_id *id)
{
	LOCK_GUARD(held, &fake_lock);
	struct fake_channel *ch;
	struct fake_id *i;

	if (!id)
		return;
	i = fake_id_of(id);
	ch = i->ch;
	FAKE_MUST(!i->qp, "an id is freed before its queue pair");
	part(i);
	drop_events(&ch->first, i);
	drop_events(&ch->late, i);
	for (ch->last = ch->first; ch->last && ch->last->next;)
		ch->last = ch->last->next;
	if (!ch->first)
		fake_readable(ch->ch.fd, false);
	fake_obj_free(&i->o);
	ch->o.users--;
}

static uint16_t port_in(const struct sockaddr *a)
{
	return ntohs(((const struct sockaddr_in *)(const void *)a)->sin_port);
}

static struct fake_id *listener(const struct fake_device *d, uint16_t port)
{
	for (struct fake_obj *o = fake_objs(); o; o = o->next) {
		struct fake_id *i = (struct fake_id *)o;

		if (o->kind == OBJ_ID && o->live && i->dev == d && i->port == port)
			return i;
	}
	return NULL;
}

/* The wildcard address leaves the device open, as in librdmacm. */
int fake_bind(struct rdma_cm_id *id, const struct sockaddr *addr)
{
	LOCK_GUARD(held, &fake_lock);
	struct fake_device *d = fake_device_at(addr);
	struct fake_id *i = fake_id_of(id);
	int r = fake_count(FAKE_BIND);
	uint16_t port = port_in(addr);

	if (r)
		return r;
	if (!d && ((const struct sockaddr_in *)(const void *)addr)->sin_addr.s_addr)
		return -EADDRNOTAVAIL;
	if (d && listener(d, port))
		return -EADDRINUSE;
	for (uint16_t any = 49152; d && !port && any; any++)
		port = listener(d, any) ? 0 : any;
	i->port = port;
	if (d)
		use_device(i, d);
	return 0;
}

int fake_listen(struct rdma_cm_id *id, int backlog)
{
	LOCK_GUARD(held, &fake_lock);
	int r = fake_count(FAKE_LISTEN);

	if (!r)
		fake_id_of(id)->state = ID_LISTENING;
	return r;
}

uint16_t fake_port(struct rdma_cm_id *id)
{
	LOCK_GUARD(held, &fake_lock);

	return fake_id_of(id)->port;
}

int fake_resolve_addr(struct rdma_cm_id *id, const struct sockaddr *src,
		      const struct sockaddr *dst, int ms)
{
	LOCK_GUARD(held, &fake_lock);
	struct fake_device *d = src ? fake_device_at(src) : fake_device(fake.route);
	struct fake_id *i = fake_id_of(id);
	int r = fake_count(FAKE_RESOLVE_ADDR);

	if (r)
		return r;
	FAKE_MUST(i->state == ID_NEW, "an id's address is resolved twice");
	i->state = ID_ADDRESS;
	memcpy(&i->to, dst, sizeof(struct sockaddr_in));
	if (!d || !fake_device_at(dst)) {
		fake_event(i, RDMA_CM_EVENT_ADDR_ERROR, -ENODEV);
		return 0;
	}
	use_device(i, d);
	fake_address((unsigned)(d - fake_device(1)) + 1, &i->id.route.addr.src_storage);
	fake_event(i, RDMA_CM_EVENT_ADDR_RESOLVED, 0);
	return 0;
}

int fake_resolve_route(struct rdma_cm_id *id, int ms)
{
	LOCK_GUARD(held, &fake_lock);
	struct fake_id *i = fake_id_of(id);
	int r = fake_count(FAKE_RESOLVE_ROUTE);

	if (r)
		return r;
	if (i->state != ID_ADDRESS || i->dev->gone)
		return -EINVAL;
	i->state = ID_ROUTE;
	fake_event(i, RDMA_CM_EVENT_ROUTE_RESOLVED, 0);
	return 0;
}

int fake_set_tos(struct rdma_cm_id *id, uint8_t tos)
{
	LOCK_GUARD(held, &fake_lock);

	fake_id_of(id);
	return fake_count(FAKE_SET_TOS);
}

int fake_set_ack_timeout(struct rdma_cm_id *id, uint8_t exponent)
{
	LOCK_GUARD(held, &fake_lock);

	fake_id_of(id);
	FAKE_MUST(exponent < 32, "an ACK time-out of 2^%u", exponent);
	fake.ack_timeout = exponent;
	return fake_count(FAKE_SET_ACK_TIMEOUT);
}

/* ---- connecting ---- */

int fake_connect(struct rdma_cm_id *id, struct rdma_conn_param *param)
{
	LOCK_GUARD(held, &fake_lock);
	struct fake_id *i = fake_id_of(id), *l, *req;
	int r = fake_count(FAKE_CONNECT);
	struct fake_event *e;

	if (r)
		return r;
	if (i->state != ID_ROUTE || !i->qp || param->private_data_len > REQUEST_DATA ||
	    param->retry_count > 7 || param->rnr_retry_count > 7)
		return -EINVAL;
	i->state = ID_CONNECTING;
	i->offer = *param;
	l = listener(fake_device_at((struct sockaddr *)&i->to),
		     port_in((struct sockaddr *)&i->to));
	if (!l || l->state != ID_LISTENING) {
		fake_event(i, RDMA_CM_EVENT_REJECTED, NO_SERVICE);
		return 0;
	}
	req = make_id(l->ch, l->id.context);
	req->state = ID_REQUESTED;
	use_device(req, fake.request_by ? fake_device(fake.request_by) : l->dev);
	req->peer = i;
	i->peer = req;
	e = event_with(req, RDMA_CM_EVENT_CONNECT_REQUEST, 0, param, REQUEST_DATA);
	if (e) {
		e->ev.listen_id = &l->id;
		return 0;
	}
	req->peer = i->peer = NULL;
	l->ch->o.users--;
	fake_obj_free(&req->o);
	return 0;
}

static void establish(struct fake_id *i)
{
	i->state = ID_CONNECTED;
	fake_qp_ready(i->qp);
}

int fake_accept(struct rdma_cm_id *id, struct rdma_conn_param *param)
{
	LOCK_GUARD(held, &fake_lock);
	struct fake_id *i = fake_id_of(id), *peer = i->peer;
	int r = fake_count(FAKE_ACCEPT);

	if (r)
		return r;
	if (i->state != ID_REQUESTED || !i->qp || param->private_data_len > REPLY_DATA)
		return -EINVAL;
	establish(i);
	if (!peer || !peer->qp) {
		fake_event(i, RDMA_CM_EVENT_UNREACHABLE, -ETIMEDOUT);
		return 0;
	}
	establish(peer);
	event_with(peer, RDMA_CM_EVENT_ESTABLISHED, 0, param, REPLY_DATA);
	fake_event(i, RDMA_CM_EVENT_ESTABLISHED, 0);
	fake_progress();
	return 0;
}

int fake_reject(struct rdma_cm_id *id, const void *data, uint8_t len)
{
	LOCK_GUARD(held, &fake_lock);
	struct rdma_conn_param param = { .private_data = data, .private_data_len = len };
	struct fake_id *i = fake_id_of(id);
	int r = fake_count(FAKE_REJECT);

	if (r)
		return r;
	if (i->state != ID_REQUESTED || len > REJECT_DATA)
		return -EINVAL;
	i->state = ID_DISCONNECTED;
	if (i->peer) {
		event_with(i->peer, RDMA_CM_EVENT_REJECTED, CONSUMER, &param, REJECT_DATA);
		i->peer->peer = NULL;
		i->peer = NULL;
	}
	return 0;
}

/* Our queue pair fails at once; the peer's fails when the peer disconnects it. */
int fake_disconnect(struct rdma_cm_id *id)
{
	LOCK_GUARD(held, &fake_lock);
	struct fake_id *i = fake_id_of(id);
	int r = fake_count(FAKE_DISCONNECT);

	if (r)
		return r;
	if (i->state != ID_CONNECTED && i->state != ID_DISCONNECTED)
		return -EINVAL;
	if (i->qp)
		fake_qp_fail(i->qp);
	if (i->state == ID_CONNECTED) {
		i->state = ID_DISCONNECTED;
		fake_event(i, RDMA_CM_EVENT_DISCONNECTED, 0);
		part(i);
		fake_event(i, RDMA_CM_EVENT_TIMEWAIT_EXIT, 0);
	}
	return 0;
}
