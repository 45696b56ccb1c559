// SPDX-License-Identifier: Apache-2.0
/* The endpoint of an RDMA path: finds the device of an address, then connects or accepts the queue
 * pairs. One loop over rdma_cm's events drives all channels at once, so opening many takes as many
 * round trips as opening one. The end of the file is the transport that other folders use. */
#include "rdma/path.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <glob.h>
#include <netinet/in.h>
#include <poll.h>

#define RESOLVE_MS 5000
/* One less than the maximum: rdma_rxe treats 7 as "for ever". */
#define RETRIES 6
#define RNR_RETRIES 7    /* for ever; but receives never run short */
#define RXE_VENDOR 0xffffffu
#define RXE_MB_PER_SECOND 100u /* a low estimate: the rate on a slow processor */

/* ---- a channel's parameters ---- */

/* The smallest exponent n for which 4.096 µs × 2^n is at least four round trips plus the time in
 * queues: the answer takes one round trip, but a path under load is slower than when it was
 * measured. At least 0.54 s, so that RETRIES time-outs survive a replugged cable or a route change
 * in a switch, and a dead path is detected after 4 s; at most 17 s. A single lost packet is
 * detected by the packets that follow, without the time-out. */
uint8_t rd_ack_timeout(uint64_t rtt_ns, uint64_t queued_ns)
{
	uint8_t n = 17;

	while (n < 22 && ((4096ull << n) < queued_ns || (4096ull << n) - queued_ns < 4 * rtt_ns))
		n++;
	return n;
}

static void rd_set_options(struct rd_endpoint *ep, struct rdma_cm_id *id)
{
	const struct agreement *a = ep->cfg.agr;
	uint64_t queued_ns = 0;
	int r;

	/* A card sends packets of its queue pairs in turns. rdma_rxe makes 1024 packets of one
	 * queue pair before it serves the next, and the kernel queues them all. So the answer to a
	 * read waits behind all data in flight, and after an early time-out the same data is queued
	 * twice. */
	if (ep->attr.vendor_id == RXE_VENDOR)
		queued_ns = (uint64_t)a->inflight * a->block * 1000 / RXE_MB_PER_SECOND;
	r = ep->v->set_ack_timeout(id, rd_ack_timeout(ep->cfg.rtt_ns, queued_ns));
	if (r)
		log_debug("the ACK time-out keeps its default: %s", strerror(-r));

	if (ep->cfg.tos < 0)
		return;
	r = ep->v->set_tos(id, (uint8_t)ep->cfg.tos);
	if (r)
		net_tos_failed(ep->cfg.tos, r);
}

/* The reads that a queue pair may have in flight: the limits of the device and of the peer. */
static uint8_t rd_read_depth(int device, uint8_t peer)
{
	int most = peer < RD_READS_MAX ? peer : RD_READS_MAX;

	return (uint8_t)(device < 1 ? 0 : device < most ? device : most);
}

static int rd_make_param(struct rd_endpoint *ep, const struct rd_channel *c, bool server,
			 struct rdma_conn_param *param, uint8_t hello[HELLO_BYTES])
{
	*param = (struct rdma_conn_param){
		.private_data = hello,
		.private_data_len = HELLO_BYTES,
		.responder_resources = rd_read_depth(ep->attr.max_qp_rd_atom, UINT8_MAX),
		.initiator_depth = rd_read_depth(ep->attr.max_qp_init_rd_atom, UINT8_MAX),
		.retry_count = RETRIES,
		.rnr_retry_count = RNR_RETRIES,
	};
	return channel_hello_put(hello, server, ep->cfg.auth, (uint16_t)(ep->cfg.first + c->index),
				 ep->mr->rkey);
}

/* ---- client ---- */

static int rd_begin_resolving(struct rd_endpoint *ep, struct rd_channel *c)
{
	int r;

	if (!c->index) { /* the address was already resolved, to find the device */
		c->id = steal_ptr(&ep->id);
		c->id->context = c;
		c->state = RD_ROUTE;
		rd_set_options(ep, c->id);
		return ep->v->resolve_route(c->id, RESOLVE_MS);
	}

	r = ep->v->id_new(ep->events, &c->id, c);
	if (r)
		return r;
	c->state = RD_ADDRESS;
	/* Use the same local address, so that the device is the same. */
	return ep->v->resolve_addr(c->id, (struct sockaddr *)&ep->from,
				   (struct sockaddr *)&ep->to, RESOLVE_MS);
}

/* True: the device or the peer allows no read at all, so a READ sink would wait for ever. */
static bool rd_cannot_read(const struct rd_path *p, const struct rd_channel *c)
{
	return p->read && !p->cfg.source && !c->reads_max;
}

static int rd_check_answer(struct rd_endpoint *ep, struct rd_path *p, struct rd_channel *c,
			   const struct rdma_conn_param *param, struct err *e)
{
	const char *why = PROTOCOL_WHY;
	uint16_t number = 0;

	if (param->private_data_len >= HELLO_BYTES)
		why = channel_hello_check(param->private_data, true, ep->cfg.auth, &number,
					  &c->peer_key);
	if (!why && number != ep->cfg.first + c->index)
		why = CHANNEL_WHY;
	if (why)
		return err_set(e, -EKEYREJECTED, "RDMA channel %u: %s", ep->cfg.first + c->index,
			       why);

	c->reads_max = rd_read_depth(ep->attr.max_qp_init_rd_atom, param->initiator_depth);
	if (rd_cannot_read(p, c))
		return err_set(e, -EOPNOTSUPP, "RDMA channel %u: the server allows no RDMA_READ",
			       ep->cfg.first + c->index);
	return rd_channel_up(p, c);
}

static int rd_client_event(struct rd_endpoint *ep, struct rd_path *p, struct rd_channel *c,
			   const struct rdma_cm_event *ev, struct err *e)
{
	struct rdma_conn_param param;
	uint8_t hello[HELLO_BYTES];
	int r;

	switch (ev->event) {
	case RDMA_CM_EVENT_ADDR_RESOLVED:
		if (ev->id->verbs != ep->ctx)
			return err_set(e, -EHOSTUNREACH, "the routes to one address use two RDMA "
				       "devices: name one with --nic");
		rd_set_options(ep, c->id);
		c->state = RD_ROUTE;
		return ep->v->resolve_route(c->id, RESOLVE_MS);
	case RDMA_CM_EVENT_ROUTE_RESOLVED:
		r = rd_channel_make(p, c, c->id);
		if (!r)
			r = rd_make_param(ep, c, false, &param, hello);
		if (!r)
			r = FAULT("connect", 0);
		c->state = RD_CONNECTING;
		return r ? r : ep->v->connect(c->id, &param);
	case RDMA_CM_EVENT_ESTABLISHED:
		return rd_check_answer(ep, p, c, &ev->param.conn, e);
	case RDMA_CM_EVENT_REJECTED:
		/* 28: the peer's program rejected the connection; otherwise no program listens
		 * there. */
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

static const char *rd_check_request(struct rd_endpoint *ep, struct rd_path *p,
				    const struct rdma_cm_event *ev, struct rd_channel **c)
{
	const struct rdma_conn_param *param = &ev->param.conn;
	const char *why = PROTOCOL_WHY;
	uint16_t number = 0;
	uint32_t key = 0;

	if (ev->id->verbs != ep->ctx)
		return "it arrived on another device";
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
	(*c)->reads_max = rd_read_depth(ep->attr.max_qp_init_rd_atom, param->initiator_depth);
	return rd_cannot_read(p, *c) ? "it allows no RDMA_READ" : NULL;
}

static int rd_accept_channel(struct rd_endpoint *ep, struct rd_path *p, struct rdma_cm_event *ev)
{
	struct rdma_conn_param param;
	uint8_t hello[HELLO_BYTES];
	struct rd_channel *c = NULL;
	const char *why = FAULT("accept", 0) ? "a fault is injected" :
			  rd_check_request(ep, p, ev, &c);
	char text[INET6_ADDRSTRLEN];
	int r;

	if (why) {
		log_warn("an RDMA connection from %s was refused: %s",
			 address_host(&ev->id->route.addr.dst_storage, text), why);
		ep->v->reject(ev->id, NULL, 0);
		ep->refused = ev->id; /* freed once its event is done */
		return 0;
	}

	ev->id->context = c;
	c->id = ev->id;
	c->state = RD_CONNECTING;

	rd_set_options(ep, ev->id);
	r = rd_channel_make(p, c, ev->id);
	if (!r)
		r = rd_make_param(ep, c, true, &param, hello);
	if (r)
		return r;

	param.responder_resources = rd_read_depth(ep->attr.max_qp_rd_atom,
						  ev->param.conn.responder_resources);
	param.initiator_depth = rd_read_depth(ep->attr.max_qp_init_rd_atom,
					      ev->param.conn.initiator_depth);
	return ep->v->accept(ev->id, &param);
}

static int rd_server_event(struct rd_endpoint *ep, struct rd_path *p, struct rd_channel *c,
			   struct rdma_cm_event *ev)
{
	switch (ev->event) {
	case RDMA_CM_EVENT_CONNECT_REQUEST:
		return rd_accept_channel(ep, p, ev);
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

/* Handle one event. 0; -EAGAIN: there is none now; or a negative errno, with or without text. */
static int rd_next_event(struct rd_endpoint *ep, struct rd_path *p, struct err *e)
{
	struct rdma_cm_event *ev;
	struct rd_channel *c;
	int r = ep->v->event_next(ep->events, &ev);

	if (r)
		return r;

	c = ev->id->context;
	ep->gone |= ev->event == RDMA_CM_EVENT_DEVICE_REMOVAL;
	if (ep->server)
		r = rd_server_event(ep, p, c, ev);
	else
		r = c ? rd_client_event(ep, p, c, ev, e) : 0;

	ep->v->event_done(ev);
	if (ep->refused)
		ep->v->id_free(steal_ptr(&ep->refused));
	return r;
}

/* Sleep until there is an event: 0, or a negative errno. */
static int rd_await_event(struct rd_endpoint *ep, int stop, uint64_t deadline)
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

static int rd_open_channels(struct rd_endpoint *ep, struct rd_path *p, int stop, int timeout_ms,
			    struct err *e)
{
	uint64_t deadline = ns_after(timeout_ms);
	int r = 0;

	for (uint32_t i = 0; !ep->server && !r && i < p->path.nchannels; i++)
		r = rd_begin_resolving(ep, &p->ch[i]);

	while (!r && atomic_load(&p->path.alive) < p->path.nchannels) {
		struct pollfd fd = { .fd = stop, .events = POLLIN };

		/* Check stop here, too: many foreign connections can cause events without a
		 * pause. */
		if (poll(&fd, 1, 0) > 0)
			return -ECANCELED;
		if (now_ns() >= deadline)
			return -ETIMEDOUT;
		r = rd_next_event(ep, p, e);
		if (r == -EAGAIN)
			r = rd_await_event(ep, stop, deadline);
	}
	return r;
}

static struct path *rd_open(struct endpoint *endpoint, const struct path_config *c, int stop,
		     int timeout_ms, struct err *e)
{
	struct rd_endpoint *ep = (struct rd_endpoint *)endpoint;
	struct rd_path *p = rd_path_new(ep, c, e);
	int r = p ? rd_open_channels(ep, p, stop, timeout_ms, e) : e->code;

	/* Later connection requests are rejected at once. */
	ep->v->id_free(steal_ptr(&ep->id));
	if (!p)
		return NULL;
	if (!r) {
		if (!c->source)
			rd_sink_grant(p);
		rd_log_route(ep, &p->ch[0]);
		return &p->path;
	}
	if (!e->code)
		err_set(e, r, "RDMA connections on %s: %s", ep->name,
			r == -ETIMEDOUT ? "not all were made in time (or a firewall drops RoCE's "
			"packets, UDP port 4791)" : strerror(-r));
	rd_path_free(&p->path);
	return NULL;
}

/* ---- the device ---- */

/* True: files match this name pattern, but this user may use none of them. */
static bool rd_is_forbidden(const char *pattern)
{
	bool forbidden = false;
	glob_t g;

	if (glob(pattern, GLOB_NOSORT, NULL, &g))
		return false;
	for (size_t i = 0; i < g.gl_pathc; i++) {
		forbidden = faccessat(AT_FDCWD, g.gl_pathv[i], R_OK | W_OK, AT_EACCESS) < 0;
		if (!forbidden)
			break;
	}
	globfree(&g);
	return forbidden;
}

static int rd_listen(struct endpoint *endpoint, const struct sockaddr_storage *a, uint16_t lo,
		     uint16_t hi, uint16_t *port, struct err *e)
{
	struct rd_endpoint *ep = (struct rd_endpoint *)endpoint;
	struct sockaddr_storage own = *a;
	char text[INET6_ADDRSTRLEN];
	int r = -EADDRINUSE;

	for (uint32_t n = lo; r == -EADDRINUSE && n <= hi; n++) {
		address_set_port(&own, (uint16_t)n);
		r = ep->v->id_new(ep->events, &ep->id, NULL);
		if (r)
			break;
		r = ep->v->bind(ep->id, (const struct sockaddr *)&own);
		if (!r && !ep->id->verbs)
			r = -ENODEV; /* no single device has the address */
		if (!r)
			r = ep->v->listen(ep->id, 64);
		if (r)
			ep->v->id_free(steal_ptr(&ep->id));
	}

	if (r == -ENODEV || r == -EADDRNOTAVAIL)
		return err_set(e, -ENODEV, "no RDMA device has the address %s",
			       address_host(a, text));
	if (r)
		return err_set(e, r, "listening for RDMA on %s, ports %u to %u: %s",
			       address_host(a, text), lo, hi, strerror(-r));
	ep->server = true;
	*port = ep->v->port(ep->id);
	return rd_use_device(ep, e);
}

static int rd_resolve(struct endpoint *endpoint, const struct sockaddr_storage *a, socklen_t len,
		      int stop, int timeout_ms, struct err *e)
{
	struct rd_endpoint *ep = (struct rd_endpoint *)endpoint;
	uint64_t deadline = ns_after(timeout_ms);
	struct ibv_context *device = NULL;
	struct rdma_cm_event *ev;
	char text[INET6_ADDRSTRLEN];
	const char *why;
	int r = ep->v->id_new(ep->events, &ep->id, NULL);

	memcpy(&ep->to, a, len);
	/* The configured local address, if any, determines the device. */
	if (!r && ep->cfg.from.ss_family != AF_UNSPEC) {
		r = ep->v->bind(ep->id, (const struct sockaddr *)&ep->cfg.from);
		device = ep->id->verbs;
		if (!r && !device)
			r = -ENODEV;
	}

	if (!r)
		r = ep->v->resolve_addr(ep->id, NULL, (const struct sockaddr *)a, RESOLVE_MS);

	while (!r) {
		r = ep->v->event_next(ep->events, &ev);
		if (r != -EAGAIN)
			break;
		r = rd_await_event(ep, stop, deadline);
	}
	if (!r) {
		if (ev->event != RDMA_CM_EVENT_ADDR_RESOLVED)
			r = ev->status < 0 ? ev->status : -EHOSTUNREACH;
		ep->v->event_done(ev);
	}

	if (!r && !ep->id->verbs)
		r = -ENODEV;
	/* When several cards share a network, the kernel may choose another card. */
	if (!r && device && ep->id->verbs != device)
		r = -EXDEV;
	why = strerror(-r);
	if (r == -ENODEV)
		why = rd_is_forbidden("/dev/infiniband/uverbs*") ?
		      "/dev/infiniband/uverbs* may not be used by this user" :
		      "the route there does not use an RDMA device";
	else if (r == -EXDEV)
		why = "the route there uses another RDMA device than the one with our address: "
		      "give each network card its own routes";
	if (r)
		return err_set(e, r, "no route by RDMA to %s: %s", address_host(a, text), why);

	memcpy(&ep->from, &ep->id->route.addr.src_storage, sizeof(ep->from));
	address_set_port(&ep->from, 0);
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

static const struct endpoint_ops rd_endpoint_ops = {
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
		ep->ep.ops = &rd_endpoint_ops;
		ep->cfg = *c;
		ep->v = v;
		r = v->channel_new(&ep->events);
	}
	if (!r)
		return &ep->ep;
	free(ep);

	if (rd_is_forbidden("/dev/infiniband/rdma_cm"))
		err_set(e, -EACCES, "/dev/infiniband/rdma_cm may not be used by this user");
	else if (r == -ENOENT || r == -ENODEV || r == -ENOSYS)
		err_set(e, r, "this kernel has no RDMA connections: load rdma_ucm (and, without an "
			"RDMA card, see scripts/softroce)");
	else
		err_sys(e, r, "RDMA connections");
	return NULL;
}

/* ---- the device of an address ---- */

/* Read sysfs: rdma_cm would open the device, and some drivers cannot remove an open device, even if
 * it is not used. */
int rd_device_of(const char *sysfs, const struct sockaddr_storage *a, const char *ifname,
		 char name[NIC_DEVICE_NAME], struct err *why)
{
	/* RoCE: the GID is the address; an IPv4 address is mapped to IPv6. */
	const struct in6_addr gid = address_as_v6(a);
	struct topo *t = topo_read(sysfs, NULL);
	char text[48] = "";
	int r = -ENODEV;

	for (int i = 0; i < 16; i += 2)
		sprintf(text + strlen(text), "%s%02x%02x", i ? ":" : "", gid.s6_addr[i],
			gid.s6_addr[i + 1]);

	name[0] = '\0';
	if (t)
		r = topo_netdev_rdma(t, ifname, text, name);
	topo_free(t);
	if (r == -ENODEV)
		return err_set(why, r, "there is no RDMA device here (without a card, see "
			       "scripts/softroce)");
	return !r;
}

static int verbs_device(const struct sockaddr_storage *a, const char *ifname,
		 char name[NIC_DEVICE_NAME], struct err *why)
{
	return rd_device_of("/sys", a, ifname, name, why);
}

/* ---- the transport that other folders see ---- */

static struct endpoint *verbs_endpoint(const struct endpoint_config *c, struct err *e)
{
	return rd_endpoint_new(c, &verbs_real, e);
}

const struct device_transport verbs_transport = {
	.endpoint = verbs_endpoint,
	.device = verbs_device,
};
