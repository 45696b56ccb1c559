// SPDX-License-Identifier: Apache-2.0
/* The server's side of a transfer: agrees, opens data listeners, and runs the sink
 * (put) or the source (get). */
#include "transfer/leash.h"
#include "transfer/setup.h"
#include "transfer/sink.h"
#include "transfer/source.h"

#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#define ACCEPT_MS 30000
#define PORTS_MANY 64 /* of a range for data */

/* A transfer being set up. */
struct serving {
	struct transfer_server_config *c;
	struct bulk_agree ag;
	struct xkeys keys;
	int storage;       /* where our files are; negative: nowhere */
	struct placement *placement;
	struct ends ends;  /* they listen; their paths, when accepted */
	int stop;          /* eventfd: accept no more */
	struct leash leash;
	int accepted;      /* what became of it */
	struct err why;    /* of accepted */
	uint64_t taken;    /* bytes of c->purse */
	uint64_t started;
};

static bool is_put(const struct bulk_request *r)
{
	return r->op == BULK_PUT || r->op == BULK_BENCH_PUT;
}

/* ---- what is sent, or comes ---- */

/* The request's sources; below its base when it names one. */
static struct transfer_item *make_items(struct bulk_request *q, uint32_t *n)
{
	struct transfer_item *it;

	*n = q->op == BULK_BENCH_GET ? 1 : q->nsources;
	it = calloc(*n ? *n : 1, sizeof(*it));
	if (it && q->op == BULK_BENCH_GET)
		it[0] = (struct transfer_item){ .kind = ITEM_ZERO, .size = q->bench_bytes };
	for (uint32_t i = 0; it && q->op == BULK_GET && i < *n; i++)
		it[i] = (struct transfer_item){ .kind = ITEM_PATH, .path = q->sources[i] };
	return it;
}

static struct transfer_item sink_item(const struct bulk_request *q)
{
	struct transfer_item item = { .kind = ITEM_PATH, .path = q->base ? q->base : "" };

	if (q->op == BULK_BENCH_PUT)
		item.kind = ITEM_NULL;
	return item;
}

/* Where the files are, as setup_sink_storage() and setup_source_storage(). Says in our offer whether
 * they are little. */
static int open_storage(struct serving *v)
{
	struct transfer_server_config *c = v->c;
	struct bulk_request *q = c->request;
	struct transfer_item *items CLEANUP_FREE = NULL;
	struct transfer_item item = sink_item(q);
	char *cwd CLEANUP_FREE = NULL;
	uint32_t n;

	v->ag.offer.little = q->offer.little && !setup_tunes_streams(&c->tuning);
	if (is_put(q))
		return setup_sink_storage(c->root, c->cwd, &item);
	items = make_items(q, &n);
	cwd = setup_below(c->cwd, q->base ? q->base : "");
	if (!items || !cwd)
		return -1;
	v->ag.offer.little = v->ag.offer.little && setup_is_little(c->root, cwd, items, n);
	return setup_source_storage(c->root, cwd, items, n);
}

/* ---- what is agreed ---- */

/* What would be agreed on is what is asked for, and what is got decides. */
static int agree_within_purse(struct serving *v, struct err *e)
{
	const struct transfer_purse *p = &v->c->purse;
	struct offer *o = &v->ag.offer;
	int r = p->take(p->arg, agreement_memory(&v->ag.agreement), &v->taken, e);

	if (r)
		return r;
	o->memory = v->taken;
	setup_locked(o, &v->c->tuning);
	return negotiate(&v->c->request->offer, o, &v->ag.agreement, e);
}

/* A listener that stays open occupies a port of a small range, for all cards or for one. */
static bool has_few_ports(const struct transfer_server_config *c)
{
	const struct nic_rules *rules = &c->tuning.nic_rules;
	bool few = c->port_hi && c->port_hi - c->port_lo < PORTS_MANY;

	for (size_t i = 0; i < rules->n; i++) {
		const struct port_range *p = &rules->at[i].ports;

		few = few || (p->hi && p->hi - p->lo < PORTS_MANY);
	}
	return few;
}

static int agree(struct serving *v, struct err *e)
{
	struct transfer_server_config *c = v->c;
	struct offer *o = &v->ag.offer;
	struct err why = ERR_INIT;
	int r;

	if (c->prot_min > o->prot_min)
		o->prot_min = c->prot_min;
	o->ack = ACK_VERIFIED;
	o->no_crc = true; /* only a bench asks for it */
	if (c->request->op == BULK_PUT || c->request->op == BULK_GET)
		o->no_crc = false;
	setup_offer(o, &c->tuning);
	if (has_few_ports(c))
		o->channels_more = 0;
	if (c->purse.take)
		o->locked = UINT64_MAX; /* until it is known */
	r = setup_nics(o, &c->tuning, &c->local, true, &why, e);
	if (r)
		return r;
	v->storage = open_storage(v);
	placement_offer(o, v->storage);
	if (why.code)
		log_at(why.code == -EPROTONOSUPPORT ? LOG_LV_WARN : LOG_LV_DEBUG, "no RDMA: %s",
		       why.text);
	setup_host(o->host, c->request->nonce);
	/* Who is elsewhere need not be able to tell us from others. */
	if (!setup_same_host(o, &c->request->offer))
		memset(o->host, 0, sizeof(o->host));
	r = negotiate(&c->request->offer, o, &v->ag.agreement, e);
	if (!r && c->purse.take)
		r = agree_within_purse(v, e);
	if (r)
		return r;
	v->ag.major = BULK_MAJOR;
	v->ag.minor = BULK_MINOR;
	crypto_random(&v->ag.session, sizeof(v->ag.session));
	crypto_random(v->ag.nonce, sizeof(v->ag.nonce));
	r = xkeys_init(&v->keys, c->master ? c->master : c->request->key, c->request->nonce,
		       v->ag.nonce, v->ag.session);
	return r ? err_sys(e, r, "deriving keys") : 0;
}

/* Anew when something else is agreed. */
static int place(struct serving *v, struct err *e)
{
	struct transfer_server_config *c = v->c;
	struct placement_config pc = {
		.wish = &c->tuning.place, .pages = c->tuning.pages, .own = &v->ag.offer,
		.agr = &v->ag.agreement, .source = !is_put(c->request), .storage = v->storage,
	};

	placement_free(v->placement);
	v->placement = placement_new(&pc, e);
	return v->placement ? 0 : e->code;
}

/* ---- listeners ---- */

/* Where path i's channels come to: at the card that it is to go by. The control connection's
 * own needs no name, by TCP: what was said, or any address of the family; the client knows how
 * to reach us. */
static int listen_address(struct serving *v, uint32_t i, struct sockaddr_storage *ss)
{
	const struct transfer_server_config *c = v->c;
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
	/* The client has come that way, maybe to another name of it. One that comes by another
	 * card, or has a host in between, as with ssh's -J, knows only what it is told. */
	if (nic && addr == nic->addr && nic->control &&
	    c->request->offer.nics[a->client_nic[i]].control)
		addr = "";
	snprintf(v->ag.ports[i].addr, sizeof(v->ag.ports[i].addr), "%s", addr);
	return 0;
}

/* Where data of path i may come to: the card's own ports, or all's. */
static struct port_range ports_of(const struct serving *v, uint32_t i)
{
	const struct transfer_server_config *c = v->c;
	uint32_t nic = v->ag.agreement.server_nic[i];
	const struct nic_rule *r = nic == NIC_NONE ? NULL :
		nic_rule_of(&c->tuning.nic_rules, v->ag.offer.nics[nic].name);

	return r && r->ports.hi ? r->ports : (struct port_range){ c->port_lo, c->port_hi };
}

static int open_listener(struct serving *v, uint32_t i, struct err *e)
{
	struct transfer_server_config *c = v->c;
	struct endpoint *ep = v->ends.ep[i];
	struct port_range ports = ports_of(v, i);
	struct sockaddr_storage ss;
	int r;

	if (listen_address(v, i, &ss))
		return err_set(e, -EINVAL, "\"%s\" is not a numeric address for data",
			       c->data_addr);
	r = ep->ops->listen(ep, &ss, ports.lo, ports.hi, &v->ag.ports[i].port, e);
	v->ag.nports = i + 1;
	return r;
}

static int open_listeners(struct serving *v, struct err *e)
{
	struct transfer_server_config *c = v->c;
	struct ends_config ec = { .agr = &v->ag.agreement, .keys = &v->keys,
				  .tuning = &c->tuning, .own = &v->ag.offer,
				  .source = !is_put(c->request),
				  .rtt_ns = c->request->offer.rtt_ns,
				  .rate = c->request->rate };
	int r;

	r = place(v, e);
	if (r || v->ag.agreement.transport == TRANSPORT_INBAND)
		return r;
	ec.placement = v->placement;
	r = ends_new(&v->ends, &ec, e);
	for (uint32_t i = 0; !r && i < v->ends.n; i++)
		r = open_listener(v, i, e);
	/* Before the client is told: memory that cannot be registered is a reason for another
	 * transport. */
	return r ? r : ends_pools(&v->ends, e);
}

/* Nothing is to be had of what was agreed; *e says why. What else the client can do is
 * agreed then. */
static int agree_again(struct serving *v, struct err *e)
{
	const struct offer *theirs = &v->c->request->offer;
	uint8_t *ours = &v->ag.offer.transports;
	struct err why = *e;

	if (e->code == -ENOSPC) /* huge pages, on which somebody insists */
		return e->code;
	*ours &= (uint8_t)~v->ag.agreement.transport;
	if (!(theirs->transports & *ours)) {
		if (v->ag.agreement.transport == TRANSPORT_RDMA)
			e->code = -ENODEV; /* be it memory: for the client it is one thing */
		return e->code;
	}
	log_warn("%s: data goes %s", why.text, theirs->transports & *ours & TRANSPORT_TCP ?
		 "by TCP" : "over the control connection");
	*e = (struct err)ERR_INIT;
	ends_free(&v->ends);
	v->ag.nports = 0;
	return negotiate(theirs, &v->ag.offer, &v->ag.agreement, e);
}

static int listen_and_agree(struct serving *v, struct err *e)
{
	int r;

	while ((r = open_listeners(v, e)))
		if (agree_again(v, e))
			return e->code;
	return 0;
}

static int send_agree(struct serving *v, struct err *e)
{
	struct buf *b CLEANUP_BUF = buf_new(BULK_FRAME_MAX);
	int r;

	v->ag.agreement.sink_keeps = is_put(v->c->request) && v->c->keep_old;
	r = b ? bulk_agree_put(b, &v->ag) : -ENOMEM;

	if (!r)
		r = ms_write_frame(v->c->ms, BULK_AGREE, buf_ptr(b), buf_len(b));
	return r ? err_sys(e, r, "control connection") : 0;
}

static void *accept_main(void *arg)
{
	struct serving *v = arg;

	v->accepted = ends_open(&v->ends, v->stop, ACCEPT_MS, &v->why);
	return NULL;
}

/* What the client could open: *transport. */
static int read_ready(struct serving *v, uint8_t *transport, bool *aborted, struct err *e)
{
	struct buf *p CLEANUP_BUF = buf_new(BULK_FRAME_MAX);
	int r = p ? setup_expect(v->c->ms, BULK_READY, p, aborted, e) :
		    err_set(e, -ENOMEM, "out of memory");

	if (r)
		return r;
	r = buf_get_u8(p, transport);
	if (r || (*transport != v->ag.agreement.transport && *transport != TRANSPORT_INBAND))
		return err_set(e, -EPROTO, "the client begins with a transport that was not agreed");
	return 0;
}

/* Accept while the client says how it fares. In-band there is nothing to accept, and the transfer
 * begins at once: READY is read like any other frame. */
static int accept_channels(struct serving *v, bool *inband, bool *aborted, struct err *e)
{
	uint64_t one = 1;
	uint8_t transport = 0;
	pthread_t t;
	int r;

	*inband = v->ag.agreement.transport == TRANSPORT_INBAND;
	if (*inband)
		return 0;
	r = thread_start(&t, "accept", accept_main, v);
	if (r)
		return err_sys(e, r, "cannot start a thread");
	r = read_ready(v, &transport, aborted, e);
	*inband = transport == TRANSPORT_INBAND;
	if ((r || *inband) && write(v->stop, &one, sizeof(one)) < 0)
		log_debug("eventfd: %s", strerror(errno));
	pthread_join(t, NULL);
	if (!r && !*inband && v->accepted)
		r = err_set(e, v->accepted, "%s", v->why.text);
	if (r || *inband)
		ends_free(&v->ends);
	return r;
}

static void fill_xfer(struct xfer *x, struct serving *v)
{
	x->ms = v->c->ms;
	x->agr = v->ag.agreement;
	x->keys = v->keys;
	x->placement = v->placement;
	x->storage = v->storage;
	x->inband_ok = v->c->request->offer.transports & v->ag.offer.transports &
		       TRANSPORT_INBAND;
	x->dir = is_put(v->c->request) ? CLIENT_TO_SERVER : SERVER_TO_CLIENT;
	x->req = v->c->request;
	x->tuning = &v->c->tuning;
	x->events = &v->c->events;
	x->stop = v->c->stop;
	x->same_host = setup_same_host(&v->c->request->offer, &v->ag.offer);
	x->started_ns = v->started;
}

static int run_nothing(struct serving *v, bool *in_line, struct err *e)
{
	*in_line = setup_abort(v->c->ms, e->code, e->text);
	return e->code;
}

static int serve_sink(struct serving *v, struct transfer_result *r, bool *in_line,
		      struct err *e)
{
	struct sink *s = calloc(1, sizeof(*s));
	struct bulk_request *q = v->c->request;
	struct transfer_item item = sink_item(q);
	int rc;

	if (!s)
		return err_set(e, -ENOMEM, "out of memory");
	sink_init(s);
	fill_xfer(&s->x, v);
	s->root = v->c->root;
	s->cwd = v->c->cwd;
	s->keep_old = v->c->keep_old;
	s->item = &item;
	rc = setup_paths(&s->x, false, &v->ends, e);
	rc = rc ? run_nothing(v, in_line, e) : sink_run(s, r, in_line, e);
	sink_destroy(s);
	free(s);
	return rc;
}

static int serve_source(struct serving *v, struct transfer_result *r, bool *in_line,
			struct err *e)
{
	struct source *s = calloc(1, sizeof(*s));
	struct bulk_request *q = v->c->request;
	uint32_t n;
	struct transfer_item *items CLEANUP_FREE = make_items(q, &n);
	char *cwd CLEANUP_FREE = setup_below(v->c->cwd, q->base ? q->base : "");
	int rc;

	if (!s || !items || !cwd) {
		free(s);
		return err_set(e, -ENOMEM, "out of memory");
	}
	source_init(s);
	fill_xfer(&s->x, v);
	s->root = v->c->root;
	s->cwd = cwd;
	s->items = items;
	s->nitems = n;
	if (q->op == BULK_GET && (q->flags & BULK_F_INTO))
		s->targets = (const char *const *)q->sources;
	rc = setup_paths(&s->x, true, &v->ends, e);
	rc = rc ? run_nothing(v, in_line, e) : source_run(s, r, in_line, e);
	source_destroy(s);
	free(s);
	return rc;
}

static int serve(struct serving *v, struct transfer_result *r, bool *in_line, struct err *e)
{
	bool inband = false, aborted = false;
	int rc = agree(v, e);

	if (!rc && is_put(v->c->request) && v->c->request->op == BULK_PUT && !v->c->can_write)
		rc = err_set(e, -EROFS, "you may not write here");
	if (!rc)
		rc = listen_and_agree(v, e);
	if (!rc)
		rc = send_agree(v, e);
	if (!rc)
		rc = accept_channels(v, &inband, &aborted, e);
	if (rc) {
		*in_line = setup_abort(v->c->ms, aborted ? 0 : rc, e->text);
		return rc;
	}
	if (bulk_is_bench(v->c->request->op))
		v->started = now_ns();
	if (inband)
		setup_inband(&v->ag.agreement);
	leash_begun(&v->leash);
	if (v->c->events.started)
		v->c->events.started(v->c->events.arg, &v->ag.agreement);
	if (is_put(v->c->request))
		return serve_sink(v, r, in_line, e);
	return serve_source(v, r, in_line, e);
}

int transfer_serve(struct transfer_server_config *c, struct transfer_result *r,
		   bool *in_line, struct err *e)
{
	struct serving *v = calloc(1, sizeof(*v));
	int rc;

	memset(r, 0, sizeof(*r));
	*in_line = false;
	if (!v)
		return err_set(e, -ENOMEM, "out of memory");
	v->c = c;
	v->storage = -1;
	v->started = now_ns();
	v->stop = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	rc = v->stop < 0 ? err_sys(e, -errno, "eventfd") : leash_start(&v->leash, c->stop, c->ms, e);
	if (!rc)
		rc = serve(v, r, in_line, e);
	if (v->stop >= 0 && leash_end(&v->leash) && rc) {
		*in_line = false;
		rc = err_set(e, -EINTR, "interrupted");
	}
	ends_free(&v->ends);
	placement_free(v->placement);
	cleanup_close(&v->stop);
	cleanup_close(&v->storage);
	xkeys_wipe(&v->keys);
	if (v->taken)
		c->purse.give_back(c->purse.arg, v->taken);
	free(v);
	return rc;
}
