// SPDX-License-Identifier: Apache-2.0
/* The client's side of a transfer: sends the request, checks the agreement, opens the data
 * channels, and runs the source (put) or the sink (get). */
#include "transfer/setup.h"

#define REPLY_MS 60000

/* Offer this machine's network cards; they decide whether RDMA is offered. */
static int offer_cards(struct transfer_config *c, const struct xfer *x, struct err *e)
{
	struct offer *o = &c->request.offer;
	struct sockaddr_storage local;
	struct err why = ERR_INIT;
	int r;

	memset(&local, 0, sizeof(local));
	if (c->peer_len)
		address_source(&c->peer, c->peer_len, &local);
	r = offer_nics(o, &c->tuning, &local, false, &why, e);
	if (r)
		return r;
	placement_offer(o, x->storage, x->source);
	if (!o->transports)
		return err_set(e, why.code, "no RDMA: %s", why.text);
	if (why.code == -EPROTONOSUPPORT)
		log_warn("no RDMA: %s; data goes by TCP", why.text);
	else if (why.code)
		log_info("no RDMA: %s", why.text);
	return 0;
}

/* Send the request. 0: the server will answer; or a negative errno. */
static int send_request(struct transfer_config *c, struct err *e)
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
	offer_host(q->offer.host, q->nonce);

	r = b ? bulk_request_put(b, q) : -ENOMEM;
	if (r == -ENOBUFS)
		return err_set(e, -E2BIG, BULK_LONG_WHY);
	if (r)
		return err_sys(e, r, "request");

	snprintf(line, sizeof(line), "BULK %zu\r\n", buf_len(b));
	r = ms_write(c->ms, line, strlen(line));
	if (!r)
		r = ms_write(c->ms, buf_ptr(b), buf_len(b));
	/* After another write error the server may have sent the reason, so the caller reads its
	 * reply. If there is none, that read reports the end of the stream. */
	return r == -ETIMEDOUT ? err_sys(e, r, "control connection") : 0;
}

/* The errno for a refusing reply, so that the caller can distinguish the reasons. */
static int refusal_code(int code)
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
static int read_reply(struct transfer_config *c, char text[512], struct err *e)
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

static int read_go(struct transfer_config *c, struct err *e)
{
	char text[512];
	int code = c->closing_owed ? read_reply(c, text, e) : 0;

	c->closing_owed = false;
	if (code >= 0)
		code = read_reply(c, text, e);

	if (code < 0 || code == 150)
		return code < 0 ? code : 0;
	return err_set(e, refusal_code(code), "the server refuses: %d %s", code, text);
}

/* Log the reasons for this agreement. */
static void say_agreement(const struct bulk_request *q, const struct bulk_agree *ag)
{
	const struct agreement *a = &ag->agreement;
	char ours[NIC_TEXT], theirs[NIC_TEXT];

	if (a->transport != TRANSPORT_RDMA &&
	    q->offer.transports & ag->offer.transports & TRANSPORT_RDMA)
		log_info("no RDMA: no device here shares a network with one of the server, nor "
			 "does the control connection use one on both sides; name them with "
			 "--nic on both sides");
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

/* Compute the agreement from both offers, which keeps it within this side's bounds. Check that the
 * server's is the same. Members that are not sent are taken from this computation. */
static int check_agreement(struct transfer_config *c, struct bulk_agree *ag,
			   struct err *e)
{
	struct agreement own;
	int r = negotiate(&c->request.offer, &ag->offer, &own, e);

	if (r)
		return r;
	if (!agreement_equal(&own, &ag->agreement))
		return err_set(e, -EPROTO,
			       "the server's agreement does not follow from both offers");
	own.sink_keeps = ag->agreement.sink_keeps;
	ag->agreement = own;
	say_agreement(&c->request, ag);
	return 0;
}

/* May the data of path i go to the address and port that the server names? */
static bool is_allowed_address(const struct transfer_config *c, const struct bulk_agree *ag,
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

static int data_address(struct transfer_config *c, const struct bulk_agree *ag,
			uint32_t i, struct sockaddr_storage *ss, socklen_t *len, struct err *e)
{
	if (i >= ag->nports)
		return err_set(e, -EPROTO, "the server names no data port for path %u", i);
	if (!is_allowed_address(c, ag, i))
		return err_set(e, -EPROTO, "the server wants data at %s port %u, which it may not "
			       "choose", *ag->ports[i].addr ? printable(ag->ports[i].addr) :
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

	address_set_port(ss, ag->ports[i].port);
	return 0;
}

/* Open the first channels of all paths, or none. The time limit does not include allocating the
 * pools. */
static int client_open_channels(struct xfer *x, const struct bulk_agree *ag, struct err *e)
{
	struct transfer_config *c = x->c;
	uint64_t deadline = now_ns() + (uint64_t)c->connect_timeout_ms * 1000000;
	int r = setup_endpoints(x, e), left;

	for (uint32_t i = 0; !r && i < x->npaths; i++) {
		struct sockaddr_storage ss;
		socklen_t len = 0;

		x->path_failed = i;
		r = data_address(c, ag, i, &ss, &len, e);
		if (!r)
			r = x->ends[i]->ops->resolve(x->ends[i], &ss, len, x->watch.fd,
						     ms_to(deadline), e);
	}
	left = ms_to(deadline);
	if (!r)
		r = setup_pools(x, e);
	if (!r)
		r = setup_channels(x, left, e);
	if (r)
		xfer_free_paths(x);
	return r;
}

/* The path with number failed could not be set up: offer the other cards, or TCP. False: none is
 * left. */
static bool go_without(struct transfer_config *c, const struct agreement *a,
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

/* The error code for a client that accepts only RDMA: all faults of this host become "no device";
 * faults of the network and the peer keep their code. */
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

/* Open the agreed data channels. If none can be opened, the transfer is in-band, with a warning,
 * and x has no paths. */
static int connect_data(struct xfer *x, const struct bulk_agree *ag, struct err *e)
{
	struct transfer_config *c = x->c;
	uint8_t transport = ag->agreement.transport;
	struct err why = ERR_INIT;
	int r = 0;

	if (transport != TRANSPORT_INBAND)
		r = client_open_channels(x, ag, &why);
	else if (c->request.offer.transports & ~ag->offer.transports & TRANSPORT_TCP)
		log_warn("the server has no data port free: data goes over the control "
			 "connection, which is slower; give it more --data-ports");

	if (r == -ENOSPC) /* the user insists on huge pages */
		return err_set(e, r, "%s", why.text);
	if (r) {
		/* The caller asks the server again. */
		if (r != -ECANCELED && go_without(c, &ag->agreement, x->path_failed, why.text))
			return err_set(e, -ENOLINK, "%s", why.text);
		if (!c->inband_ok || !(ag->offer.transports & TRANSPORT_INBAND) ||
		    r == -EPROTO || r == -EKEYREJECTED || r == -ECANCELED)
			return err_set(e, transport == TRANSPORT_RDMA ? no_rdma(r) : r,
				       "%s", why.text);
		log_warn("no data channel (%s): data goes over the control connection, which "
			 "is slower; open the server's --data-ports", why.text);
		transport = TRANSPORT_INBAND;
	}

	r = ms_write_frame(c->ms, BULK_READY, &transport, 1);
	return r ? err_sys(e, r, "control connection") : 0;
}

/* The setup has failed before the source or sink sent a frame: tell the peer. Returns e->code;
 * -EPIPE: the stream is not back in line mode. */
static int abort_setup(struct mstream *ms, struct err *e)
{
	if (!setup_abort(ms, e->code, e->text) && e->code != -EPIPE && e->code != -ETIMEDOUT)
		e->code = -EPIPE;
	return e->code;
}

/* The error of a transfer that leaves the control stream unusable: a code with which the caller
 * tries a new connection, except when this host lacks a resource or the user stopped it. */
static int stream_is_lost(int rc, struct err *e)
{
	static const int kept[] = { 0, -EINTR, -ENOMEM, -EPROTO, -ETIMEDOUT };

	for (size_t i = 0; i < sizeof(kept) / sizeof(kept[0]); i++)
		if (rc == kept[i])
			return rc;
	return e->code = -EPIPE;
}

static int read_agree(struct transfer_config *c, struct bulk_agree *ag, struct err *e)
{
	struct buf *p CLEANUP_BUF = buf_new(BULK_FRAME_MAX);
	bool aborted = false;
	int r = p ? setup_expect(c->ms, BULK_AGREE, p, &aborted, e) :
		    err_nomem(e);

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
	return r ? abort_setup(c->ms, e) : 0;
}

/* One request and its transfer. -ENOLINK: the request offers fewer transports or cards now; send it
 * again. */
static int client_converse(struct xfer *x, struct transfer_result *r, struct err *e)
{
	struct bulk_agree *ag CLEANUP_FREE = calloc(1, sizeof(*ag));
	struct transfer_config *c = x->c;
	struct err late = ERR_INIT;
	char text[512];
	bool in_line;
	int rc, code;

	if (!ag)
		return err_nomem(e);
	x->started_ns = now_ns();
	rc = send_request(c, e);
	if (!rc)
		rc = read_go(c, e);
	if (rc)
		return rc;

	rc = read_agree(c, ag, e);
	if (!rc) {
		rc = setup_agreed(x, ag, e);
		if (!rc)
			rc = setup_placement(x, e);
		if (!rc)
			rc = connect_data(x, ag, e);
		if (rc) {
			rc = abort_setup(c->ms, e);
		} else {
			rc = setup_run(x, r, &in_line, e);
			if (!in_line)
				rc = stream_is_lost(rc, e);
		}
	}

	if (!rc && c->closing_later)
		c->closing_owed = true;
	/* After an unreadable frame the position in the stream is not known. */
	if (c->closing_owed || rc == -EPIPE || rc == -EPROTO || rc == -ETIMEDOUT ||
	    rc == -EMSGSIZE || rc == -EBADMSG)
		return rc;
	/* The server's closing reply. The result is already known from its summary. */
	code = read_reply(c, text, &late);
	return rc || code > 0 ? rc : err_set(e, code, "%s", late.text);
}

/* True: the transfer is so small that it goes in-band. Not if an option asks for data channels. For
 * a get the server looks at the files. */
static bool client_is_small(const struct transfer_config *c, const struct xfer *x)
{
	const struct offer *o = &c->request.offer;

	if (!c->inband_ok || o->rtt_ns < FAR_RTT_NS || o->channels || o->block || o->inflight ||
	    c->tuning.nics || tuning_has_streams(&c->tuning))
		return false;
	return c->request.op == BULK_GET || (c->request.op == BULK_PUT && setup_is_small(x));
}

int transfer_client(struct transfer_config *c, struct transfer_result *r, struct err *e)
{
	struct offer *o = &c->request.offer;
	uint8_t wanted = o->transports;
	struct xfer *x = setup_new(c, true, o, e);
	bool aborted;
	int rc;

	memset(r, 0, sizeof(*r));
	if (!x)
		return e->code;
	if (!x->source)
		c->nitems = 1;

	setup_storage(x);
	offer_fill(o, &c->tuning);
	o->little = client_is_small(c, x);
	rc = offer_cards(c, x, e);

	/* Repeat only if the offer has become smaller: a server can send -ENOLINK, too, and then a
	 * repetition changes nothing. */
	while (!rc) {
		uint8_t transports = o->transports;
		uint32_t nnics = o->nnics;

		rc = client_converse(x, r, e);
		if (rc != -ENOLINK || (o->transports == transports && o->nnics == nnics))
			break;
		*e = (struct err)ERR_INIT;
		rc = 0;
	}
	o->transports = wanted; /* the next transfer offers everything again */
	return setup_end(x, rc, &aborted, e);
}
