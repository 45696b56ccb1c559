// SPDX-License-Identifier: Apache-2.0
/* From an address to a path: finds the device, registers the pool on it, connects or accepts
 * the queue pairs. One loop over rdma_cm's events drives all channels at once, so that
 * opening many costs the round trips of one. */
#include "rdma/endpoint.h"

#include <arpa/inet.h>
#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define RESOLVE_MS 5000
/* One less than there are: rdma_rxe takes 7 for "for ever". */
#define RETRIES 6
#define RNR_RETRIES 7    /* for ever; but receives are never short */
#define RXE_VENDOR 0xffffffu
#define RXE_MB_PER_SECOND 100u /* what a slow processor makes of packets, or less */

/* ---- a channel's parameters ---- */

/* The first exponent with 4.096 µs × 2^n of at least four round trips and what is waited for
 * besides: the answer comes after one, and a path under load takes longer than when it was
 * measured. 0.54 s at least, so that RETRIES of them outlast a cable that is plugged anew and a
 * switch that finds another way, and a dead path is known after 4 s; 17 s at most. Packets lost
 * in the midst of others are missed at once, without it. */
uint8_t rd_ack_timeout(uint64_t rtt_ns, uint64_t queued_ns)
{
	uint8_t n = 17;

	while (n < 22 && ((4096ull << n) < queued_ns || (4096ull << n) - queued_ns < 4 * rtt_ns))
		n++;
	return n;
}

/* A card takes packets of its queue pairs by turns, but rdma_rxe makes 1024 of one before it
 * comes to the next, and the kernel queues them all: the answer to a read stands behind all that
 * is in flight. Asked for again by an early time-out, the same data stands there twice. */
static uint64_t queued_ns(const struct rd_endpoint *ep)
{
	const struct agreement *a = ep->cfg.agr;

	if (ep->attr.vendor_id != RXE_VENDOR)
		return 0;
	return (uint64_t)a->inflight * a->block * 1000 / RXE_MB_PER_SECOND;
}

static void set_options(struct rd_endpoint *ep, struct rdma_cm_id *id)
{
	uint8_t n = rd_ack_timeout(ep->cfg.rtt_ns, queued_ns(ep));
	int r = ep->v->set_ack_timeout(id, n);

	if (r)
		log_debug("the ACK time-out stays as it is: %s", strerror(-r));
	if (ep->cfg.tos < 0)
		return;
	r = ep->v->set_tos(id, (uint8_t)ep->cfg.tos);
	if (r)
		log_warn("type of service %d is not set: %s", ep->cfg.tos, strerror(-r));
}

static uint8_t read_depth(int device)
{
	return (uint8_t)(device < 1 ? 0 : device < RD_READS_MAX ? device : RD_READS_MAX);
}

static int fill_param(struct rd_endpoint *ep, const struct rd_channel *c, bool server,
		      struct rdma_conn_param *param, uint8_t hello[HELLO_BYTES])
{
	*param = (struct rdma_conn_param){
		.private_data = hello,
		.private_data_len = HELLO_BYTES,
		.responder_resources = read_depth(ep->attr.max_qp_rd_atom),
		.initiator_depth = read_depth(ep->attr.max_qp_init_rd_atom),
		.retry_count = RETRIES,
		.rnr_retry_count = RNR_RETRIES,
	};
	return channel_hello_put(hello, server, ep->cfg.auth, (uint16_t)(ep->cfg.first + c->index),
				 ep->mr->rkey);
}

static uint8_t min_u8(uint8_t a, uint8_t b)
{
	return a < b ? a : b;
}

/* ---- addresses ---- */

static const char *text_of(const struct sockaddr_storage *a, char out[64])
{
	const void *in = a->ss_family == AF_INET6 ?
		(const void *)&((const struct sockaddr_in6 *)a)->sin6_addr :
		(const void *)&((const struct sockaddr_in *)a)->sin_addr;

	return inet_ntop(a->ss_family, in, out, 64) ? out : "?";
}

/* ---- client ---- */

static int begin_resolving(struct rd_endpoint *ep, struct rd_path *p, struct rd_channel *c)
{
	int r;

	if (!c->index) { /* that was done to learn the device */
		c->id = ep->id;
		ep->id = NULL;
		c->id->context = c;
		c->state = RD_ROUTE;
		set_options(ep, c->id);
		return ep->v->resolve_route(c->id, RESOLVE_MS);
	}
	r = ep->v->id_new(ep->events, &c->id, c);
	if (r)
		return r;
	c->state = RD_ADDRESS;
	/* From the same address, so by the same device. */
	return ep->v->resolve_addr(c->id, (struct sockaddr *)&ep->from,
				   (struct sockaddr *)&ep->to, RESOLVE_MS);
}

static int connect_channel(struct rd_endpoint *ep, struct rd_path *p, struct rd_channel *c)
{
	struct rdma_conn_param param;
	uint8_t hello[HELLO_BYTES];
	int r = rd_channel_make(p, c, c->id);

	if (!r)
		r = fill_param(ep, c, false, &param, hello);
	if (!r)
		r = FAULT("connect", 0);
	c->state = RD_CONNECTING;
	return r ? r : ep->v->connect(c->id, &param);
}

/* A sink that reads, but not one block at a time, would wait for ever. */
static bool cannot_read(const struct rd_path *p, const struct rd_channel *c)
{
	return p->read && !p->cfg.source && !c->reads_max;
}

static int check_answer(struct rd_endpoint *ep, struct rd_path *p, struct rd_channel *c,
			const struct rdma_conn_param *param, struct err *e)
{
	const char *why = "it does not speak this protocol";
	uint16_t number = 0;

	if (param->private_data_len >= HELLO_BYTES)
		why = channel_hello_check(param->private_data, true, ep->cfg.auth, &number,
					  &c->peer_key);
	if (!why && number != ep->cfg.first + c->index)
		why = "it answers for another channel";
	if (why)
		return err_set(e, -EKEYREJECTED, "RDMA channel %u: %s", ep->cfg.first + c->index,
			       why);
	c->reads_max = min_u8(read_depth(ep->attr.max_qp_init_rd_atom), param->initiator_depth);
	if (cannot_read(p, c))
		return err_set(e, -EOPNOTSUPP, "RDMA channel %u: the server lets nobody read",
			       ep->cfg.first + c->index);
	return rd_channel_up(p, c);
}

static int client_event(struct rd_endpoint *ep, struct rd_path *p, struct rd_channel *c,
			const struct rdma_cm_event *ev, struct err *e)
{
	switch (ev->event) {
	case RDMA_CM_EVENT_ADDR_RESOLVED:
		if (ev->id->verbs != ep->ctx)
			return err_set(e, -EHOSTUNREACH, "the way to one address leads by two RDMA "
				       "devices: name one with --nic");
		set_options(ep, c->id);
		c->state = RD_ROUTE;
		return ep->v->resolve_route(c->id, RESOLVE_MS);
	case RDMA_CM_EVENT_ROUTE_RESOLVED:
		return connect_channel(ep, p, c);
	case RDMA_CM_EVENT_ESTABLISHED:
		return check_answer(ep, p, c, &ev->param.conn, e);
	case RDMA_CM_EVENT_REJECTED:
		/* 28: the peer's program said no; else nobody listens there. */
		return ev->status == 28 ?
			err_set(e, -EKEYREJECTED, "the server refused RDMA channel %u",
				ep->cfg.first + c->index) :
			-ECONNREFUSED;
	case RDMA_CM_EVENT_ADDR_ERROR:
	case RDMA_CM_EVENT_ROUTE_ERROR:
	case RDMA_CM_EVENT_UNREACHABLE:
	case RDMA_CM_EVENT_CONNECT_ERROR:
		return ev->status < 0 ? ev->status : -EHOSTUNREACH;
	case RDMA_CM_EVENT_DEVICE_REMOVAL:
		return -ENODEV;
	case RDMA_CM_EVENT_DISCONNECTED:
		return -ECONNRESET;
	default:
		return 0;
	}
}

/* ---- server ---- */

static const char *check_request(struct rd_endpoint *ep, struct rd_path *p,
				 const struct rdma_cm_event *ev, struct rd_channel **c)
{
	const struct rdma_conn_param *param = &ev->param.conn;
	const char *why = "it does not speak this protocol";
	uint16_t number = 0;
	uint32_t key = 0;

	if (ev->id->verbs != ep->ctx)
		return "it came by another device";
	if (param->private_data_len >= HELLO_BYTES)
		why = channel_hello_check(param->private_data, false, ep->cfg.auth, &number, &key);
	if (why)
		return why;
	if (number < ep->cfg.first || (uint32_t)(number - ep->cfg.first) >= p->path.nchannels)
		return "it is a channel of another path";
	*c = &p->ch[number - ep->cfg.first];
	if ((*c)->state != RD_NEW)
		return "that channel is open";
	(*c)->peer_key = key;
	(*c)->reads_max = min_u8(read_depth(ep->attr.max_qp_init_rd_atom),
				 param->initiator_depth);
	return cannot_read(p, *c) ? "it lets nobody read" : NULL;
}

static int accept_channel(struct rd_endpoint *ep, struct rd_path *p, struct rdma_cm_event *ev)
{
	struct rdma_conn_param param;
	uint8_t hello[HELLO_BYTES];
	struct rd_channel *c = NULL;
	const char *why = FAULT("accept", 0) ? "of a fault" : check_request(ep, p, ev, &c);
	char text[64];
	int r;

	if (why) {
		log_warn("an RDMA connection from %s was refused: %s",
			 text_of(&ev->id->route.addr.dst_storage, text), why);
		ep->v->reject(ev->id, NULL, 0);
		ep->refused = ev->id; /* freed once its event is done */
		return 0;
	}
	ev->id->context = c;
	c->id = ev->id;
	c->state = RD_CONNECTING;
	set_options(ep, ev->id);
	r = rd_channel_make(p, c, ev->id);
	if (!r)
		r = fill_param(ep, c, true, &param, hello);
	if (r)
		return r;
	param.responder_resources = min_u8(param.responder_resources,
					   ev->param.conn.responder_resources);
	param.initiator_depth = min_u8(param.initiator_depth, ev->param.conn.initiator_depth);
	return ep->v->accept(ev->id, &param);
}

static int server_event(struct rd_endpoint *ep, struct rd_path *p, struct rd_channel *c,
			struct rdma_cm_event *ev)
{
	switch (ev->event) {
	case RDMA_CM_EVENT_CONNECT_REQUEST:
		return accept_channel(ep, p, ev);
	case RDMA_CM_EVENT_ESTABLISHED:
		return c ? rd_channel_up(p, c) : 0;
	case RDMA_CM_EVENT_CONNECT_ERROR:
	case RDMA_CM_EVENT_UNREACHABLE:
	case RDMA_CM_EVENT_DISCONNECTED:
		return -ECONNRESET;
	case RDMA_CM_EVENT_DEVICE_REMOVAL:
		return -ENODEV;
	default:
		return 0;
	}
}

/* ---- the loop ---- */

/* One event: 0; -EAGAIN: there is none now; or why it fails, e set or not. */
static int next_event(struct rd_endpoint *ep, struct rd_path *p, struct err *e)
{
	struct rdma_cm_event *ev;
	struct rd_channel *c;
	int r = ep->v->event_next(ep->events, &ev);

	if (r)
		return r;
	c = ev->id->context;
	ep->gone |= ev->event == RDMA_CM_EVENT_DEVICE_REMOVAL;
	if (ep->server)
		r = server_event(ep, p, c, ev);
	else
		r = c ? client_event(ep, p, c, ev, e) : 0;
	ep->v->event_done(ev);
	if (ep->refused)
		ep->v->id_free(steal_ptr(&ep->refused));
	return r;
}

/* Sleep for an event: 0, or a negative errno. */
static int await_event(struct rd_endpoint *ep, int stop, uint64_t deadline)
{
	struct pollfd fds[2] = { { .fd = ep->events->fd, .events = POLLIN },
				 { .fd = stop, .events = POLLIN } };
	int n = poll(fds, 2, ms_to(deadline));

	if (n < 0)
		return errno == EINTR ? 0 : -errno;
	if (!n)
		return -ETIMEDOUT;
	return fds[1].revents ? -ECANCELED : 0;
}

/* Strangers that knock without a pause must not keep us. 0, or why it is over. */
static int is_over(int stop, uint64_t deadline)
{
	struct pollfd fd = { .fd = stop, .events = POLLIN };

	if (poll(&fd, 1, 0) > 0)
		return -ECANCELED;
	return now_ns() < deadline ? 0 : -ETIMEDOUT;
}

static int open_channels(struct rd_endpoint *ep, struct rd_path *p, int stop, int timeout_ms,
			 struct err *e)
{
	uint64_t deadline = now_ns() + (uint64_t)timeout_ms * 1000000;
	int r = 0;

	for (uint32_t i = 0; !ep->server && !r && i < p->path.nchannels; i++)
		r = begin_resolving(ep, p, &p->ch[i]);
	while (!r && atomic_load(&p->path.alive) < p->path.nchannels) {
		r = is_over(stop, deadline);
		if (!r)
			r = next_event(ep, p, e);
		if (r == -EAGAIN)
			r = await_event(ep, stop, deadline);
	}
	return r;
}

static struct path *rd_open(struct endpoint *endpoint, const struct path_config *c, int stop,
		     int timeout_ms, struct err *e)
{
	struct rd_endpoint *ep = (struct rd_endpoint *)endpoint;
	struct rd_path *p = rd_path_new(ep, c, e);
	int r = p ? open_channels(ep, p, stop, timeout_ms, e) : e->code;

	/* All have come, or none is welcome any more: who else does hears so at once. */
	ep->v->id_free(steal_ptr(&ep->id));
	if (!p)
		return NULL;
	if (!r && !c->source)
		r = rd_sink_grant(p);
	if (!r) {
		rd_say_way(ep, &p->ch[0]);
		return &p->path;
	}
	if (!e->code)
		err_set(e, r, "RDMA connections on %s: %s", ep->name,
			r == -ETIMEDOUT ? "not all were there in time (or a firewall drops RoCE's "
			"packets, UDP port 4791)" : strerror(-r));
	rd_path_free(&p->path);
	return NULL;
}

/* ---- where it begins ---- */

static void set_port(struct sockaddr_storage *a, uint16_t port)
{
	if (a->ss_family == AF_INET6)
		((struct sockaddr_in6 *)a)->sin6_port = htons(port);
	else
		((struct sockaddr_in *)a)->sin_port = htons(port);
}

static int try_port(struct rd_endpoint *ep, const struct sockaddr_storage *a)
{
	int r = ep->v->id_new(ep->events, &ep->id, NULL);

	if (r)
		return r;
	r = ep->v->bind(ep->id, (const struct sockaddr *)a);
	if (!r && !ep->id->verbs)
		r = -ENODEV; /* an address that is no one device's */
	if (!r)
		r = ep->v->listen(ep->id, 64);
	if (r)
		ep->v->id_free(steal_ptr(&ep->id));
	return r;
}

static int rd_listen(struct endpoint *endpoint, const struct sockaddr_storage *a, uint16_t lo,
		     uint16_t hi, uint16_t *port, struct err *e)
{
	struct rd_endpoint *ep = (struct rd_endpoint *)endpoint;
	struct sockaddr_storage own = *a;
	char text[64];
	int r = -EADDRINUSE;

	for (uint32_t n = lo; r == -EADDRINUSE && n <= hi; n++) {
		set_port(&own, (uint16_t)n);
		r = try_port(ep, &own);
	}
	if (r == -ENODEV || r == -EADDRNOTAVAIL)
		return err_set(e, -ENODEV, "no RDMA device has the address %s", text_of(a, text));
	if (r)
		return err_set(e, r, "listening for RDMA on %s, ports %u to %u: %s",
			       text_of(a, text), lo, hi, strerror(-r));
	ep->server = true;
	*port = ep->v->port(ep->id);
	return rd_use_device(ep, e);
}

/* The device that has the address which we connect from, if there is one that we must. */
static int bind_source(struct rd_endpoint *ep, struct ibv_context **device)
{
	int r;

	*device = NULL;
	if (ep->cfg.from.ss_family == AF_UNSPEC)
		return 0;
	r = ep->v->bind(ep->id, (const struct sockaddr *)&ep->cfg.from);
	*device = ep->id->verbs;
	return !r && !*device ? -ENODEV : r;
}

static int await_resolved(struct rd_endpoint *ep, int stop, uint64_t deadline)
{
	struct rdma_cm_event *ev;
	int r;

	while ((r = ep->v->event_next(ep->events, &ev)) == -EAGAIN)
		if ((r = await_event(ep, stop, deadline)))
			break;
	if (r)
		return r;
	r = ev->event == RDMA_CM_EVENT_ADDR_RESOLVED ? 0 :
	    ev->status < 0 ? ev->status : -EHOSTUNREACH;
	ep->v->event_done(ev);
	return r;
}

static const char *why_no_way(int r)
{
	switch (r) {
	case -ENODEV:
		return rd_devices_forbidden() ?
			"/dev/infiniband/uverbs* may not be used by this user" :
			"the way there does not lead by an RDMA device";
	case -EXDEV:
		return "the way there leads by another RDMA device than the one with the address "
		       "to come from: give each network card routes of its own";
	default:
		return strerror(-r);
	}
}

static int rd_resolve(struct endpoint *endpoint, const struct sockaddr_storage *a, socklen_t len,
		      int stop, int timeout_ms, struct err *e)
{
	struct rd_endpoint *ep = (struct rd_endpoint *)endpoint;
	uint64_t deadline = now_ns() + (uint64_t)timeout_ms * 1000000;
	struct ibv_context *device = NULL;
	char text[64];
	int r = ep->v->id_new(ep->events, &ep->id, NULL);

	memcpy(&ep->to, a, len);
	if (!r)
		r = bind_source(ep, &device);
	if (!r)
		r = ep->v->resolve_addr(ep->id, NULL, (const struct sockaddr *)a, RESOLVE_MS);
	if (!r)
		r = await_resolved(ep, stop, deadline);
	if (!r && !ep->id->verbs)
		r = -ENODEV;
	/* Where several cards share a network the kernel may choose another. */
	if (!r && device && ep->id->verbs != device)
		r = -EXDEV;
	if (r)
		return err_set(e, r, "no way by RDMA to %s: %s", text_of(a, text), why_no_way(r));
	memcpy(&ep->from, &ep->id->route.addr.src_storage, sizeof(ep->from));
	set_port(&ep->from, 0);
	return rd_use_device(ep, e);
}

static void rd_endpoint_free(struct endpoint *endpoint)
{
	struct rd_endpoint *ep = (struct rd_endpoint *)endpoint;

	if (!ep)
		return;
	rd_leave_device(ep);
	free(ep);
}

static const struct endpoint_ops endpoint_ops = {
	.name = "rdma",
	.listen = rd_listen,
	.resolve = rd_resolve,
	.hooks = rd_hooks,
	.open = rd_open,
	.free = rd_endpoint_free,
};

struct endpoint *rd_endpoint_new(const struct endpoint_config *c, const struct verbs *v,
				 struct err *e)
{
	struct rd_endpoint *ep = calloc(1, sizeof(*ep));
	int r = ep ? 0 : -ENOMEM;

	if (!r) {
		ep->ep.ops = &endpoint_ops;
		ep->cfg = *c;
		ep->v = v;
		r = v->channel_new(&ep->events);
	}
	if (!r)
		return &ep->ep;
	free(ep);
	rd_no_events(r, e);
	return NULL;
}

