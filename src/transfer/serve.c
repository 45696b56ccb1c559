// SPDX-License-Identifier: Apache-2.0
/* The server's side of a transfer: agrees, opens data listeners, and runs the sink
 * (put) or the source (get). */
#include "transfer/setup.h"

#include <netinet/in.h>
#include <sys/eventfd.h>

#define ACCEPT_MS 30000
#define PORTS_MANY 64 /* a port range for data of at least this size is large */

/* A transfer being set up. */
struct serving {
	struct transfer_config *c;
	struct xfer *x;
	struct transfer_item *items;
	char *cwd;         /* a source's relative items are below it */
	struct bulk_agree ag;
	int accepted;      /* the accepting thread's result; why has its text */
	struct err why;
	uint64_t taken;    /* bytes taken from c->budget */
};

/* Set the items: the request's sources, or its destination. */
static int name_files(struct serving *v, struct err *e)
{
	struct transfer_config *c = v->c;
	struct bulk_request *q = &c->request;
	bool many = q->op == BULK_GET;

	c->nitems = many ? q->nsources : 1;
	c->items = v->items = calloc(c->nitems ? c->nitems : 1, sizeof(*v->items));
	c->targets = many && (q->flags & BULK_F_INTO) ? (const char *const *)q->sources : NULL;
	c->cwd = v->cwd = v->x->source && q->base && *q->base ? setup_below(c->cwd, q->base) :
			  strdup(c->cwd ? c->cwd : "");
	if (!v->items || !v->cwd)
		return err_nomem(e);
	for (uint32_t i = 0; many && i < c->nitems; i++)
		v->items[i] = (struct transfer_item){
			.path = q->sources[i],
			.piece = q->pieces ? q->pieces[i] : (struct bulk_piece){ .dated = false },
		};
	if (q->op == BULK_PUT)
		v->items[0].path = q->base ? q->base : "";
	if (q->op == BULK_BENCH_PUT)
		v->items[0].kind = ITEM_NULL;
	if (q->op == BULK_BENCH_GET)
		v->items[0] = (struct transfer_item){ .kind = ITEM_ZERO, .size = q->bench_bytes };
	return 0;
}

/* ---- the agreement ---- */

/* Request the agreement's memory from the budget; if less is granted, agree again within it. */
static int agree_within_budget(struct serving *v, struct err *e)
{
	const struct transfer_budget *p = &v->c->budget;
	struct offer *o = &v->ag.offer;
	int r = p->take(p->arg, agreement_memory(&v->ag.agreement), &v->taken, e);

	if (r)
		return r;
	o->memory = v->taken;
	offer_locked(o, &v->c->tuning);
	return negotiate(&v->c->request.offer, o, &v->ag.agreement, e);
}

/* True: the port range for all cards, or for one card, is small. An open listener occupies one of
 * its ports. */
static bool has_few_ports(const struct transfer_config *c)
{
	const struct nic_rules *rules = &c->tuning.nic_rules;
	bool few = c->port_hi && c->port_hi - c->port_lo < PORTS_MANY;

	for (size_t i = 0; i < rules->n; i++) {
		const struct port_range *p = &rules->at[i].ports;

		few = few || (p->hi && p->hi - p->lo < PORTS_MANY);
	}
	return few;
}

static int serve_agree(struct serving *v, struct err *e)
{
	struct transfer_config *c = v->c;
	struct offer *o = &v->ag.offer;
	struct err why = ERR_INIT;
	int r;

	if (c->prot_min > o->prot_min)
		o->prot_min = c->prot_min;
	o->ack = ACK_VERIFIED;
	o->no_crc = true; /* only a bench asks for it */
	if (c->request.op == BULK_PUT || c->request.op == BULK_GET)
		o->no_crc = false;
	offer_fill(o, &c->tuning);
	if (has_few_ports(c))
		o->channels_more = 0;

	if (c->budget.take)
		o->locked = UINT64_MAX; /* not known yet */
	r = offer_nics(o, &c->tuning, &c->local, true, &why, e);
	if (r)
		return r;

	setup_storage(v->x);
	o->little = c->request.offer.little && !tuning_has_streams(&c->tuning) &&
		    (!v->x->source || setup_is_small(v->x));
	placement_offer(o, v->x->storage, v->x->source);
	if (why.code)
		log_at(why.code == -EPROTONOSUPPORT ? LOG_LV_WARN : LOG_LV_DEBUG, "no RDMA: %s",
		       why.text);

	offer_host(o->host, c->request.nonce);
	/* Do not reveal this host's identifier to a client on another host. */
	if (!offers_same_host(o, &c->request.offer))
		memset(o->host, 0, sizeof(o->host));

	r = negotiate(&c->request.offer, o, &v->ag.agreement, e);
	if (!r && c->budget.take)
		r = agree_within_budget(v, e);
	if (r)
		return r;

	v->ag.major = BULK_MAJOR;
	v->ag.minor = BULK_MINOR;
	crypto_random(&v->ag.session, sizeof(v->ag.session));
	crypto_random(v->ag.nonce, sizeof(v->ag.nonce));
	return setup_agreed(v->x, &v->ag, e);
}

/* ---- listeners ---- */

/* The address to which path i's channels connect: that of the agreed card. For TCP on the card of
 * the control connection there is none: the listener uses the configured address, or any of the
 * family, and the client already knows an address of the server. */
static int listen_address(struct serving *v, uint32_t i, struct sockaddr_storage *ss)
{
	const struct transfer_config *c = v->c;
	const struct agreement *a = &v->ag.agreement;
	const struct nic_offer *nic = a->server_nic[i] == NIC_NONE ? NULL :
				      &v->ag.offer.nics[a->server_nic[i]];
	const char *addr = c->data_addr ? c->data_addr : "";

	if (nic && (a->transport == TRANSPORT_RDMA || !nic->control))
		addr = nic->addr;
	if (*addr && !address_parse(addr, ss))
		return -EINVAL;
	if (!*addr) {
		memset(ss, 0, sizeof(*ss));
		ss->ss_family = (sa_family_t)c->family;
	}
	/* A client that has reached this address, perhaps translated, uses the address that it
	 * knows. A client on another card, or behind a jump host (ssh -J), needs this one. */
	if (nic && addr == nic->addr && nic->control &&
	    c->request.offer.nics[a->client_nic[i]].control)
		addr = "";
	snprintf(v->ag.ports[i].addr, sizeof(v->ag.ports[i].addr), "%s", addr);
	return 0;
}

/* The port range for path i: the card's own, or that of all cards. */
static struct port_range ports_of(const struct serving *v, uint32_t i)
{
	const struct transfer_config *c = v->c;
	uint32_t nic = v->ag.agreement.server_nic[i];
	const struct nic_rule *r = nic == NIC_NONE ? NULL :
		nic_rule_of(&c->tuning.nic_rules, v->ag.offer.nics[nic].name);

	return r && r->ports.hi ? r->ports : (struct port_range){ c->port_lo, c->port_hi };
}

static int open_listeners(struct serving *v, struct err *e)
{
	struct xfer *x = v->x;
	int r;

	x->agr = v->ag.agreement;
	r = setup_placement(x, e);
	if (r || x->agr.transport == TRANSPORT_INBAND)
		return r;
	r = setup_endpoints(x, e);
	for (uint32_t i = 0; !r && i < x->npaths; i++) {
		struct port_range ports = ports_of(v, i);
		struct sockaddr_storage ss;

		if (listen_address(v, i, &ss))
			return err_set(e, -EINVAL, "\"%s\" is not a numeric address for data",
				       v->c->data_addr);
		r = x->ends[i]->ops->listen(x->ends[i], &ss, ports.lo, ports.hi,
					    &v->ag.ports[i].port, e);
		v->ag.nports = i + 1;
	}
	/* Create the pools before the client is told: if memory cannot be registered, another
	 * transport is used. */
	return r ? r : setup_pools(x, e);
}

/* The agreed transport is not available, for the reason in *e: agree on the next one that the
 * client offers. */
static int agree_again(struct serving *v, struct err *e)
{
	const struct offer *theirs = &v->c->request.offer;
	uint8_t *ours = &v->ag.offer.transports;
	struct err why = *e;

	if (e->code == -ENOSPC) /* the administrator insists on huge pages */
		return e->code;

	*ours &= (uint8_t)~v->ag.agreement.transport;
	if (!(theirs->transports & *ours)) {
		if (v->ag.agreement.transport == TRANSPORT_RDMA)
			e->code = -ENODEV; /* also for lack of memory: the client needs one code */
		return e->code;
	}
	log_warn("%s: data goes %s", why.text, theirs->transports & *ours & TRANSPORT_TCP ?
		 "by TCP" : "over the control connection");
	*e = (struct err)ERR_INIT;
	xfer_free_paths(v->x);
	v->ag.nports = 0;
	return negotiate(theirs, &v->ag.offer, &v->ag.agreement, e);
}

static int send_agree(struct serving *v, struct err *e)
{
	struct buf *b CLEANUP_BUF = buf_new(BULK_FRAME_MAX);
	int r;

	v->ag.agreement.sink_keeps = v->x->agr.sink_keeps = !v->x->source && v->c->keep_old;
	r = b ? bulk_agree_put(b, &v->ag) : -ENOMEM;

	if (!r)
		r = ms_write_frame(v->c->ms, BULK_AGREE, buf_ptr(b), buf_len(b));
	return r ? err_sys(e, r, "control connection") : 0;
}

static void *accept_main(void *arg)
{
	struct serving *v = arg;

	v->accepted = setup_channels(v->x, ACCEPT_MS, &v->why);
	return NULL;
}

/* Accept channels until the client's READY tells which transport it could open. In-band nothing is
 * accepted and the transfer begins at once; READY is read like any other frame. */
static int accept_channels(struct serving *v, bool *aborted, struct err *e)
{
	struct buf *p CLEANUP_BUF = buf_new(BULK_FRAME_MAX);
	uint8_t transport = 0;
	bool inband;
	pthread_t t;
	int r;

	if (v->ag.agreement.transport == TRANSPORT_INBAND)
		return 0;
	r = thread_start(&t, "accept", accept_main, v);
	if (r)
		return thread_failed(e, r);

	r = p ? setup_expect(v->c->ms, BULK_READY, p, aborted, e) :
		err_nomem(e);
	if (!r && (buf_get_u8(p, &transport) ||
		   (transport != v->ag.agreement.transport && transport != TRANSPORT_INBAND)))
		r = err_set(e, -EPROTO, "the client begins with a transport that was not agreed");

	inband = transport == TRANSPORT_INBAND;
	if ((r || inband) && eventfd_write(v->x->watch.fd, 1) < 0) /* accept no more */
		log_debug("eventfd: %s", strerror(errno));
	pthread_join(t, NULL);
	if (!r && !inband && v->accepted)
		r = err_set(e, v->accepted, "%s", v->why.text);
	if (r || inband)
		xfer_free_paths(v->x);
	return r;
}

static int serve_client(struct serving *v, struct transfer_result *r, bool *in_line,
			struct err *e)
{
	bool aborted = false;
	int rc = name_files(v, e);

	if (!rc)
		rc = serve_agree(v, e);
	if (!rc && v->c->request.op == BULK_PUT && !v->c->can_write)
		rc = err_set(e, -EROFS, "you may not write here");
	while (!rc && open_listeners(v, e))
		if (agree_again(v, e))
			rc = e->code;

	if (!rc)
		rc = send_agree(v, e);
	if (!rc)
		rc = accept_channels(v, &aborted, e);
	if (!rc)
		return setup_run(v->x, r, in_line, e);
	*in_line = setup_abort(v->c->ms, aborted ? 0 : rc, e->text);
	return rc;
}

int transfer_serve(struct transfer_config *c, struct transfer_result *r, bool *in_line,
		   struct err *e)
{
	struct serving *v = calloc(1, sizeof(*v));
	bool aborted;
	int rc;

	memset(r, 0, sizeof(*r));
	*in_line = false;
	if (!v)
		return err_nomem(e);
	v->c = c;
	v->x = setup_new(c, false, &v->ag.offer, e);
	rc = v->x ? serve_client(v, r, in_line, e) : e->code;
	if (v->x)
		rc = setup_end(v->x, rc, &aborted, e);
	if (v->x && aborted && rc)
		*in_line = false;

	free(v->items);
	free(v->cwd);
	if (v->taken)
		c->budget.give_back(c->budget.arg, v->taken);
	free(v);
	return rc;
}
