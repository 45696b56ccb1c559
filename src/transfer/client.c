// SPDX-License-Identifier: Apache-2.0
/* The client's side of a transfer: asks, checks the agreement, opens the data channels,
 * and runs the source (put) or the sink (get). */
#include "transfer/leash.h"
#include "transfer/setup.h"
#include "transfer/sink.h"
#include "transfer/source.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define REPLY_MS 60000

/* A transfer that both sides have agreed on, while it is set up and run. */
struct agreed {
	struct transfer_client_config *c;
	struct bulk_agree *ag;
	int storage;        /* where our files are; not owned */
	struct placement *placement;
	struct xkeys keys;
	struct ends ends;
	uint64_t started;
};

static bool is_put(const struct bulk_request *r)
{
	return r->op == BULK_PUT || r->op == BULK_BENCH_PUT;
}

static int open_storage(const struct transfer_client_config *c)
{
	if (is_put(&c->request))
		return setup_source_storage(c->root, NULL, c->items, c->nitems);
	return setup_sink_storage(c->root, NULL, &c->items[0]);
}

/* The cards that we have; with them it is known whether there is RDMA. */
static int offer_nics(struct transfer_client_config *c, int storage, struct err *e)
{
	struct offer *o = &c->request.offer;
	struct sockaddr_storage local;
	struct err why = ERR_INIT;
	int r;

	memset(&local, 0, sizeof(local));
	if (c->peer_len)
		address_source(&c->peer, c->peer_len, &local);
	r = setup_nics(o, &c->tuning, &local, false, &why, e);
	if (r)
		return r;
	placement_offer(o, storage);
	if (!o->transports)
		return err_set(e, why.code, "no RDMA: %s", why.text);
	if (why.code == -EPROTONOSUPPORT)
		log_warn("no RDMA: %s; data goes by TCP", why.text);
	else if (why.code)
		log_info("no RDMA: %s", why.text);
	return 0;
}

/* 0: there is an answer to wait for. */
static int send_request(struct transfer_client_config *c, struct err *e)
{
	struct buf *b CLEANUP_BUF = buf_new(BULK_REQUEST_MAX);
	struct bulk_request *q = &c->request;
	char line[32];
	int r;

	q->major = BULK_MAJOR;
	q->minor = BULK_MINOR;
	crypto_random(q->nonce, sizeof(q->nonce));
	q->has_key = !c->master;
	if (q->has_key)
		crypto_random(q->key, sizeof(q->key));
	setup_host(q->offer.host, q->nonce);
	r = b ? bulk_request_put(b, q) : -ENOMEM;
	if (r == -ENOBUFS)
		return err_set(e, -E2BIG, "the list of names is longer than a request may be");
	if (r)
		return err_sys(e, r, "request");
	snprintf(line, sizeof(line), "BULK %zu\r\n", buf_len(b));
	r = ms_write(c->ms, line, strlen(line));
	if (!r)
		r = ms_write(c->ms, buf_ptr(b), buf_len(b));
	/* A server that took less than all of it may have said why, and what ended the stream is
	 * what its reader finds. */
	return r == -ETIMEDOUT ? err_sys(e, r, "control connection") : 0;
}

/* An errno for a refusal, so that the caller can tell its kinds apart. */
static int refusal(int code)
{
	switch (code) {
	case 530:
		return -EACCES;
	case 550:
	case 553:
		return -EPERM;
	case 552:
		return -E2BIG;
	case 421:
		return -ECONNREFUSED;
	default:
		return -EOPNOTSUPP;
	}
}

/* The code of the next reply, with its text in text; or a negative errno. */
static int read_reply(struct transfer_client_config *c, char text[512], struct err *e)
{
	struct ftp_reply rep = { 0 };
	char line[4096];
	int r = 0;

	while (!r) {
		ssize_t n = ms_read_line(c->ms, line, sizeof(line), REPLY_MS);

		r = n < 0 ? (int)n : ftp_reply_line(&rep, line);
	}
	if (r < 0)
		err_sys(e, r, "waiting for the server's answer");
	snprintf(text, 512, "%s", rep.text ? printable(rep.text) : "");
	r = r < 0 ? r : rep.code;
	ftp_reply_clear(&rep);
	return r;
}

static int read_go(struct transfer_client_config *c, struct err *e)
{
	char text[512];
	int code = c->closing_owed ? read_reply(c, text, e) : 0;

	c->closing_owed = false;
	if (code >= 0)
		code = read_reply(c, text, e);

	if (code < 0 || code == 150)
		return code < 0 ? code : 0;
	return err_set(e, refusal(code), "the server refuses: %d %s", code, text);
}

/* What people may wonder about. */
static void say_agreement(const struct bulk_request *q, const struct bulk_agree *ag)
{
	const struct agreement *a = &ag->agreement;
	char ours[NIC_TEXT], theirs[NIC_TEXT];

	if (a->transport != TRANSPORT_RDMA &&
	    q->offer.transports & ag->offer.transports & TRANSPORT_RDMA)
		log_info("no RDMA: no device here and there in one network, nor on the way of the "
			 "control connection; name them with --nic on both sides");
	if (q->offer.transports & ~ag->offer.transports & TRANSPORT_RDMA)
		log_info("no RDMA: the server offers none; its log says why");
	for (uint32_t i = 0; i < a->paths; i++)
		if (a->client_nic[i] != NIC_NONE)
			log_info("path %u: %s - %s", i,
				 nic_text(&q->offer.nics[a->client_nic[i]], ours),
				 nic_text(&ag->offer.nics[a->server_nic[i]], theirs));
	log_info("files are on %s here, on %s there", storage_class_text(q->offer.storage),
		 storage_class_text(ag->offer.storage));
}

/* The server computed it; do we come to the same, and within our bounds? What is not sent is
 * ours. */
static int check_agreement(struct transfer_client_config *c, struct bulk_agree *ag,
			   struct err *e)
{
	struct agreement own;
	int r = negotiate(&c->request.offer, &ag->offer, &own, e);

	if (r)
		return r;
	if (!agreement_equal(&own, &ag->agreement))
		return err_set(e, -EPROTO,
			       "the server's agreement is not what both offers come to");
	r = agreement_check(&ag->agreement, &c->request.offer, e);
	if (r)
		return r;
	own.sink_keeps = ag->agreement.sink_keeps;
	ag->agreement = own;
	say_agreement(&c->request, ag);
	return 0;
}

/* May data go where the server says, at path i? */
static bool is_allowed(const struct transfer_client_config *c, const struct bulk_agree *ag,
		       uint32_t i)
{
	const struct agreement *a = &ag->agreement;
	const char *addr = ag->ports[i].addr;
	uint8_t ours = a->client_nic[i];

	if (!c->stranger || a->transport != TRANSPORT_TCP)
		return true;
	if (ag->ports[i].port < c->port_least)
		return false;
	return !*addr || (ours != NIC_NONE && nic_leads_to(&c->request.offer.nics[ours], addr));
}

static int data_address(struct transfer_client_config *c, const struct bulk_agree *ag,
			uint32_t i, struct sockaddr_storage *ss, socklen_t *len, struct err *e)
{
	uint16_t port;

	if (i >= ag->nports)
		return err_set(e, -EPROTO, "the server names no data port for path %u", i);
	if (!is_allowed(c, ag, i))
		return err_set(e, -EPROTO, "the server wants data at %s port %u, which it is not "
			       "to choose", *ag->ports[i].addr ? printable(ag->ports[i].addr) :
			       "its own address,", ag->ports[i].port);
	*ss = c->peer;
	*len = c->peer_len;
	if (ag->ports[i].addr[0])
		*len = address_parse(ag->ports[i].addr, ss);
	if (!*len && ag->ports[i].addr[0])
		return err_set(e, -EPROTO, "the server names \"%s\" as a data address",
			       printable(ag->ports[i].addr));
	if (!*len)
		return err_set(e, -EHOSTUNREACH, "there is no address to send data to");
	port = htons(ag->ports[i].port);
	if (ss->ss_family == AF_INET6)
		((struct sockaddr_in6 *)ss)->sin6_port = port;
	else
		((struct sockaddr_in *)ss)->sin_port = port;
	return 0;
}

/* The channels that all paths begin with, or none. Of the time for it the pools' making is no
 * part. */
static int open_channels(struct agreed *a, int stop, struct err *e)
{
	struct transfer_client_config *c = a->c;
	struct ends *d = &a->ends;
	struct ends_config ec = {
		.agr = &a->ag->agreement, .keys = &a->keys, .tuning = &c->tuning,
		.own = &c->request.offer, .placement = a->placement, .client = true,
		.source = is_put(&c->request), .rtt_ns = c->request.offer.rtt_ns,
		.rate = c->request.rate,
	};
	uint64_t deadline = now_ns() + (uint64_t)c->connect_timeout_ms * 1000000;
	int r = ends_new(d, &ec, e), left;

	for (uint32_t i = 0; !r && i < d->n; i++) {
		struct sockaddr_storage ss;
		socklen_t len = 0;

		d->failed = i;
		r = data_address(c, a->ag, i, &ss, &len, e);
		if (!r)
			r = d->ep[i]->ops->resolve(d->ep[i], &ss, len, stop, ms_to(deadline), e);
	}
	left = ms_to(deadline);
	if (!r)
		r = ends_pools(d, e);
	if (!r)
		r = ends_open(d, stop, left, e);
	if (r) {
		uint32_t failed = d->failed;

		ends_free(d);
		d->failed = failed;
	}
	return r;
}

/* By what else data may go when path failed could not be had; false: by nothing. */
static bool go_without(struct transfer_client_config *c, const struct agreement *a,
		       uint32_t failed, const char *why)
{
	struct offer *o = &c->request.offer;
	uint32_t nic = a->client_nic[failed];

	if (a->paths > 1) {
		log_warn("%s: data goes by the other network cards", why);
		memmove(&o->nics[nic], &o->nics[nic + 1], (--o->nnics - nic) * sizeof(o->nics[0]));
		return true;
	}
	if (a->transport != TRANSPORT_RDMA || !(o->transports & TRANSPORT_TCP))
		return false;
	log_warn("%s: data goes by TCP", why);
	o->transports &= (uint8_t)~TRANSPORT_RDMA;
	return true;
}

static int say_ready(struct mstream *ms, uint8_t transport, struct err *e)
{
	int r = ms_write_frame(ms, BULK_READY, &transport, 1);

	return r ? err_sys(e, r, "control connection") : 0;
}

/* To whoever wants nothing but RDMA, whatever of this host stands in its way is one thing;
 * what the network or the peer does has a meaning of its own. */
static int no_rdma(int code)
{
	static const int others[] = { -ECANCELED, -EPROTO, -EKEYREJECTED, -ECONNREFUSED,
				      -ECONNRESET, -ETIMEDOUT, -EHOSTUNREACH, -ENETUNREACH,
				      -ENETDOWN };

	for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++)
		if (code == others[i])
			return code;
	return -ENODEV;
}

/* Data channels as agreed; in-band, with a word, when there can be none: then d is empty. */
static int connect_data(struct agreed *a, int stop, struct err *e)
{
	struct transfer_client_config *c = a->c;
	const struct bulk_agree *ag = a->ag;
	bool inband = ag->agreement.transport == TRANSPORT_INBAND;
	struct err why = ERR_INIT;
	int r;

	if (inband && c->request.offer.transports & ~ag->offer.transports & TRANSPORT_TCP)
		log_warn("the server has no data port free: data goes over the control "
			 "connection, which is slower; give it more --data-ports");
	if (!inband) {
		r = open_channels(a, stop, &why);
		if (!r)
			return say_ready(c->ms, ag->agreement.transport, e);
		if (r == -ENOSPC) /* huge pages, on which somebody insists */
			return err_set(e, r, "%s", why.text);
		/* Whoever asked begins anew. */
		if (r != -ECANCELED && go_without(c, &ag->agreement, a->ends.failed, why.text))
			return err_set(e, -ENOLINK, "%s", why.text);
		if (!c->inband_ok || !(ag->offer.transports & TRANSPORT_INBAND) ||
		    r == -EPROTO || r == -EKEYREJECTED || r == -ECANCELED)
			return err_set(e, ag->agreement.transport == TRANSPORT_RDMA ? no_rdma(r) : r,
				       "%s", why.text);
		log_warn("no data channel (%s): data goes over the control connection, which "
			 "is slower; open the server's --data-ports", why.text);
	}
	return say_ready(c->ms, TRANSPORT_INBAND, e);
}

static void fill_xfer(struct xfer *x, const struct agreed *a)
{
	struct transfer_client_config *c = a->c;
	const struct bulk_agree *ag = a->ag;

	x->ms = c->ms;
	x->agr = ag->agreement;
	x->keys = a->keys;
	x->placement = a->placement;
	x->storage = a->storage;
	x->inband_ok = c->request.offer.transports & ag->offer.transports & TRANSPORT_INBAND;
	x->dir = is_put(&c->request) ? CLIENT_TO_SERVER : SERVER_TO_CLIENT;
	x->req = &c->request;
	x->tuning = &c->tuning;
	x->events = &c->events;
	/* With --ack received a file counts as done before it is committed. */
	x->committed = x->agr.ack == ACK_RECEIVED ? NULL : c->committed;
	x->stop = c->stop;
	x->same_host = setup_same_host(&c->request.offer, &ag->offer);
	x->client = true;
	x->anew_from = c->anew_from;
	x->started_ns = a->started;
}

/* Failed before any frame of the role's: tell the peer, and say whether FTP's lines are
 * spoken again by the kind of error. */
static int run_nothing(struct mstream *ms, struct err *e)
{
	if (!setup_abort(ms, e->code, e->text) && e->code != -EPIPE && e->code != -ETIMEDOUT)
		e->code = -EPIPE;
	return e->code;
}

/* The error of a transfer after which the control stream cannot be used: one that a new connection
 * may mend, except a lack on this host and an interruption. */
static int stream_is_lost(int rc, struct err *e)
{
	static const int kept[] = { 0, -EINTR, -ENOMEM, -EPROTO, -ETIMEDOUT };

	for (size_t i = 0; i < sizeof(kept) / sizeof(kept[0]); i++)
		if (rc == kept[i])
			return rc;
	return e->code = -EPIPE;
}

static int run_source(struct agreed *a, struct transfer_result *r, struct err *e)
{
	struct transfer_client_config *c = a->c;
	struct source *s = calloc(1, sizeof(*s));
	bool in_line = true;
	int rc;

	if (!s)
		return err_set(e, -ENOMEM, "out of memory");
	source_init(s);
	fill_xfer(&s->x, a);
	s->root = c->root;
	s->items = c->items;
	s->nitems = c->nitems;
	s->targets = c->targets;
	rc = setup_paths(&s->x, true, &a->ends, e);
	rc = rc ? run_nothing(c->ms, e) : source_run(s, r, &in_line, e);
	rc = in_line ? rc : stream_is_lost(rc, e);
	source_destroy(s);
	free(s);
	return rc;
}

static int run_sink(struct agreed *a, struct transfer_result *r, struct err *e)
{
	struct transfer_client_config *c = a->c;
	struct sink *s = calloc(1, sizeof(*s));
	bool in_line = true;
	int rc;

	if (!s)
		return err_set(e, -ENOMEM, "out of memory");
	sink_init(s);
	fill_xfer(&s->x, a);
	s->root = c->root;
	s->item = &c->items[0];
	rc = setup_paths(&s->x, false, &a->ends, e);
	rc = rc ? run_nothing(c->ms, e) : sink_run(s, r, &in_line, e);
	rc = in_line ? rc : stream_is_lost(rc, e);
	sink_destroy(s);
	free(s);
	return rc;
}

static int read_agree(struct transfer_client_config *c, struct bulk_agree *ag, struct err *e)
{
	struct buf *p CLEANUP_BUF = buf_new(BULK_FRAME_MAX);
	bool aborted = false;
	int r = p ? setup_expect(c->ms, BULK_AGREE, p, &aborted, e) :
		    err_set(e, -ENOMEM, "out of memory");

	if (aborted) {
		setup_abort(c->ms, 0, "");
		return r;
	}
	if (r)
		return r;
	r = bulk_agree_get(p, ag, e);
	if (r && !e->code)
		err_sys(e, r, "the server's agreement");
	if (!r)
		r = check_agreement(c, ag, e);
	return r ? run_nothing(c->ms, e) : 0;
}

static struct placement *place(const struct agreed *a, struct err *e)
{
	struct transfer_client_config *c = a->c;
	struct placement_config pc = {
		.wish = &c->tuning.place, .pages = c->tuning.pages, .own = &c->request.offer,
		.agr = &a->ag->agreement, .client = true, .source = is_put(&c->request),
		.storage = a->storage,
	};

	return placement_new(&pc, e);
}

static int prepare(struct agreed *a, struct err *e)
{
	struct transfer_client_config *c = a->c;
	const struct bulk_agree *ag = a->ag;

	if (xkeys_init(&a->keys, c->master ? c->master : c->request.key, c->request.nonce,
		       ag->nonce, ag->session))
		return err_set(e, -EIO, "deriving keys");
	a->placement = place(a, e);
	return a->placement ? 0 : e->code;
}

static int run(struct agreed *a, struct leash *l, struct transfer_result *r, struct err *e)
{
	struct transfer_client_config *c = a->c;
	int rc = prepare(a, e);

	if (!rc)
		rc = connect_data(a, l->fd, e);
	if (rc)
		return run_nothing(c->ms, e);
	if (!a->ends.n)
		setup_inband(&a->ag->agreement);
	if (bulk_is_bench(c->request.op))
		a->started = now_ns();
	leash_begun(l);
	if (c->events.started)
		c->events.started(c->events.arg, &a->ag->agreement);
	return is_put(&c->request) ? run_source(a, r, e) : run_sink(a, r, e);
}

static int run_agreed(struct transfer_client_config *c, struct bulk_agree *ag, int storage,
		      struct leash *l, uint64_t started, struct transfer_result *r,
		      struct err *e)
{
	struct agreed a = { .c = c, .ag = ag, .storage = storage, .started = started };
	int rc = run(&a, l, r, e);

	ends_free(&a.ends); /* what nobody took */
	placement_free(a.placement);
	xkeys_wipe(&a.keys);
	return rc;
}

/* The server's last line. What it says of the transfer is known from its summary. */
static int read_closing(struct transfer_client_config *c, int rc, struct err *e)
{
	struct err late = ERR_INIT;
	char text[512];
	int code = read_reply(c, text, &late);

	if (rc || code > 0)
		return rc;
	return err_set(e, code, "%s", late.text);
}

static bool stream_is_gone(int rc)
{
	/* A frame that could not be read leaves us nowhere in the stream. */
	return rc == -EPIPE || rc == -EPROTO || rc == -ETIMEDOUT || rc == -EMSGSIZE ||
	       rc == -EBADMSG;
}

static int converse(struct transfer_client_config *c, int storage, struct leash *l,
		    struct transfer_result *r, struct err *e)
{
	struct bulk_agree *ag CLEANUP_FREE = calloc(1, sizeof(*ag));
	uint64_t started = now_ns();
	int rc;

	if (!ag)
		return err_set(e, -ENOMEM, "out of memory");
	rc = send_request(c, e);
	if (!rc)
		rc = read_go(c, e);
	if (rc)
		return rc;
	rc = read_agree(c, ag, e);
	if (!rc)
		rc = run_agreed(c, ag, storage, l, started, r, e);
	if (!rc && c->closing_later)
		c->closing_owed = true;
	return stream_is_gone(rc) || c->closing_owed ? rc : read_closing(c, rc, e);
}

/* With what is left, as long as there is less from one time to the next: the code alone may
 * be the server's. */
static int converse_until_agreed(struct transfer_client_config *c, int storage,
				 struct leash *l, struct transfer_result *r, struct err *e)
{
	const struct offer *o = &c->request.offer;

	for (;;) {
		uint8_t transports = o->transports;
		uint32_t nnics = o->nnics;
		int rc = converse(c, storage, l, r, e);

		if (rc != -ENOLINK || (o->transports == transports && o->nnics == nnics))
			return rc;
		*e = (struct err)ERR_INIT;
	}
}

/* An option that asks for certain data channels gets them, also for few and small files. For a get the
 * server looks at the files. */
static bool is_little(const struct transfer_client_config *c)
{
	const struct offer *o = &c->request.offer;

	if (!c->inband_ok || o->rtt_ns < FAR_RTT_NS || o->channels || o->block || o->inflight ||
	    c->tuning.nics || setup_tunes_streams(&c->tuning))
		return false;
	return c->request.op == BULK_GET || (c->request.op == BULK_PUT &&
	       setup_is_little(c->root, NULL, c->items, c->nitems));
}

int transfer_client(struct transfer_client_config *c, struct transfer_result *r,
		    struct err *e)
{
	uint8_t wanted = c->request.offer.transports;
	int storage CLEANUP_CLOSE = open_storage(c);
	struct leash l;
	int rc;

	memset(r, 0, sizeof(*r));
	setup_offer(&c->request.offer, &c->tuning);
	c->request.offer.little = is_little(c);
	rc = leash_start(&l, c->stop, c->ms, e);
	if (!rc)
		rc = offer_nics(c, storage, e);
	if (!rc)
		rc = converse_until_agreed(c, storage, &l, r, e);
	c->request.offer.transports = wanted; /* the next time may be better */
	crypto_wipe(c->request.key, sizeof(c->request.key));
	/* What failed because it was woken has that one reason. */
	if (leash_end(&l) && rc)
		rc = err_set(e, -EINTR, "interrupted");
	return rc;
}
