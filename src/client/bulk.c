// SPDX-License-Identifier: Apache-2.0
/* Turns options into a request, and sees it through. */
#include "client/bulk.h"

#include "client/again.h"
#include "client/signals.h"
#include "rdma/rdma.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* So many bytes are better left to the data channels of a new connection than sent over the
 * control connection: about the second that the new one takes. */
#define ANEW_FROM (1ull << 30)

/* ---- options into numbers ---- */

/* Options that put a flag into the request (or take it out). */
static uint32_t request_flags(const struct options *o)
{
	const struct { bool on; uint32_t flag; } table[] = {
		{ o->recursive, BULK_F_RECURSIVE },
		{ !o->no_modes, BULK_F_MODES },
		{ !o->no_times, BULK_F_TIMES },
		{ o->owner, BULK_F_OWNER },
		{ o->xattrs, BULK_F_XATTRS },
		{ o->follow, BULK_F_FOLLOW },
		{ o->inplace, BULK_F_INPLACE },
		{ !o->no_resume, BULK_F_RESUME },
		{ o->dry_run, BULK_F_DRY_RUN },
	};
	uint32_t flags = BULK_F_HARDLINKS | BULK_F_SPARSE;

	for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++)
		if (table[i].on)
			flags |= table[i].flag;
	return flags;
}

static int check_transports(struct offer *f, struct err *e)
{
	const struct device_transport *rdma = VERBS_TRANSPORT;

	if (!rdma)
		f->transports &= (uint8_t)~TRANSPORT_RDMA;
	if (!f->transports)
		return err_set(e, -EINVAL, "--transport rdma: rftp was built without libibverbs");
	return 0;
}

static void fill_offer(const struct options *o, struct offer *f)
{
	static const uint8_t ops[] = {
		[USE_ANY_OP] = OP_WRITE | OP_READ, [USE_WRITE] = OP_WRITE, [USE_READ] = OP_READ,
	};
	static const uint8_t sets[] = {
		[USE_AUTO] = TRANSPORT_RDMA | TRANSPORT_TCP | TRANSPORT_INBAND,
		[USE_TCP] = TRANSPORT_TCP,
		[USE_RDMA] = TRANSPORT_RDMA,
	};

	f->transports = sets[o->transport];
	f->ops = ops[o->op];
	f->prot_min = (uint8_t)o->prot;
	f->ack = (uint8_t)o->ack;
	f->block = (uint32_t)o->block;
	f->channels = (uint16_t)o->channels;
	f->inflight = (uint32_t)o->inflight;
}

void bulk_request_of(const struct options *o, enum bulk_op op, struct bulk_request *q)
{
	q->op = (uint8_t)op;
	q->policy = (uint8_t)o->policy;
	q->flags = request_flags(o);
	q->rate = o->rate;
	fill_offer(o, &q->offer);
}

/* The mask rftp was started with, also for the second session of a process. */
mode_t bulk_umask(void)
{
	static mode_t mask;
	static bool known;
	mode_t now = umask(0);

	if (!known)
		mask = now;
	known = true;
	return mask;
}

static int fill_place(const struct options *o, struct transfer_tuning *t, struct err *e)
{
	static const enum page_choice pages[] = { PAGES_AUTO, PAGES_HUGE, PAGES_SMALL };
	int r = o->numa ? place_wish_parse(&t->place, o->numa, e) : 0;

	t->pages = pages[o->hugepages];
	t->place.cores = o->pin;
	t->balance_percent = (unsigned)o->balance;
	t->balance_ns = o->balance_ns;
	t->place.nics = o->nic_node;
	return r ? r : place_wish_check(&t->place, e);
}

static void fill_tuning(const struct options *o, struct transfer_tuning *t)
{
	transfer_tuning_default(t);
	t->io = (enum io_kind)o->io;
	t->direct = o->direct;
	t->sort = o->sort;
	t->readers = (unsigned)o->readers;
	t->writers = (unsigned)o->writers;
	t->memory = o->memory;
	t->rdma = VERBS_TRANSPORT;
	t->nics = o->nic;
	t->poll = (enum poll_mode)o->poll;
	t->stall_ms = (uint32_t)(o->stall / 1000000);
	t->congestion = o->congestion;
	if (option_given(o, "tos"))
		t->tos = (int)o->tos;
	/* Files are made with the very modes they should have; rftp's own ones have modes
	 * that need no mask. */
	t->umask = bulk_umask();
}

int bulk_init(struct bulk *b, struct server *s, struct report *r, enum bulk_op op,
	      struct err *e)
{
	const struct options *o = &s->o;
	struct bulk_request *q = &b->c.request;
	int rc;

	memset(b, 0, sizeof(*b));
	b->server = s;
	b->report = r;
	bulk_request_of(o, op, q);
	fill_tuning(o, &b->c.tuning);
	if (r)
		b->c.events = report_events(r);
	b->c.stop = signals_fd();
	b->c.inband_ok = o->transport == USE_AUTO;
	b->c.connect_timeout_ms = (int)(o->connect_timeout / 1000000);
	/* Without it, for want of memory, another attempt transfers all files again. */
	b->c.committed = o->retries && !bulk_is_bench(op) ? committed_new() : NULL;
	rc = fill_place(o, &b->c.tuning, e);
	return rc ? rc : check_transports(&q->offer, e);
}

void bulk_clear(struct bulk *b)
{
	committed_free(steal_ptr(&b->c.committed));
	bulk_request_clear(&b->c.request);
}

/* ---- one attempt ---- */

/* The key is of one connection: the next attempt exports its own. */
static void forget_key(struct bulk *b)
{
	b->c.master = NULL;
	crypto_wipe(b->key, sizeof(b->key));
}

/* Fill in the facts of the connection: its stream, peer, round-trip time and key. */
static int fill_stream(struct bulk *b, struct err *e)
{
	struct ftp_client *client = b->server->client;
	const struct sockaddr_storage *peer;
	int rc;

	b->c.ms = b->lane ? b->lane : ftp_client_stream(client);
	b->c.request.offer.rtt_ns = ftp_client_rtt_ns(client);
	b->c.peer_len = 0;
	peer = ftp_client_peer(client, &b->c.peer_len);
	if (peer)
		b->c.peer = *peer;
	rc = ftp_client_key(client, b->key);
	if (rc && rc != -ENOENT)
		return err_sys(e, rc, "no key can be had from the TLS connection");
	b->c.master = rc ? NULL : b->key;
	/* A key of our own is no secret on a stream that others can read. */
	if (rc && !ftp_client_secret(client) && b->c.request.offer.prot_min > PROT_CLEAR)
		return err_set(e, -EPROTONOSUPPORT, "without TLS there is no key for --prot %s: "
			       "use --prot clear, or leave --plain away",
			       prot_name(b->c.request.offer.prot_min));
	return 0;
}

/* What goes to standard output cannot be resumed, and whoever should read it may have
 * stopped to: there a signal ends the program. */
static bool ends_gracefully(const struct bulk *b)
{
	return !(b->once && b->c.request.op == BULK_GET);
}

int bulk_possible(const struct server *s, uint32_t flags, struct err *e)
{
	const struct bulk_version *v = ftp_bulk(s->client);

	if (!v->major)
		return err_set(e, -EPROTONOSUPPORT, "%s is no rftpd, or one without bulk mode",
			       printable(s->place.host));
	if (bulk_version_check(v, flags, e))
		return err_prefix(e, "%s", printable(s->place.host));
	return 0;
}

int bulk_once(struct bulk *b, struct transfer_result *r, struct err *e)
{
	bool graceful = ends_gracefully(b);
	int rc;

	rc = bulk_possible(b->server, b->c.request.flags, e);
	if (!rc)
		rc = fill_stream(b, e);
	if (rc) {
		forget_key(b);
		return rc;
	}
	if (graceful)
		signals_graceful(true);
	if (!b->lane)
		b->c.closing_owed = ftp_client_owe(b->server->client, false);
	b->c.closing_later = !b->lane && b->c.request.offer.rtt_ns >= FAR_RTT_NS;
	rc = transfer_client(&b->c, r, e);
	if (!b->lane)
		ftp_client_owe(b->server->client, b->c.closing_owed);
	if (graceful)
		signals_graceful(false);
	forget_key(b);
	/* The stream may still be in line mode, but with a connection that hiccups a new
	 * one is the safe way on. Of a lane it is not ours alone. */
	if (b->lane)
		return rc;
	if (exit_is_damaged(rc) || exit_is_lost(rc) || rc == -ENOMEM)
		server_close(b->server);
	return rc;
}

/* ---- again and again ---- */

/* Where this attempt has got to, another would go on. */
static bool may_come_again(const struct bulk *b, unsigned attempt)
{
	uint8_t op = b->c.request.op;

	return !b->once && attempt <= b->server->o.retries && !b->server->o.no_resume &&
	       (op == BULK_PUT || op == BULK_GET);
}

static enum exit_status finish(struct bulk *b, const struct transfer_result *r)
{
	report_result(b->report, r);
	return r->failed ? EXIT_SOME_FAILED : EXIT_DONE;
}

/* What reads our standard output may have enough, as head(1) has: nobody wants to hear of it. */
static bool reader_left(const struct bulk *b)
{
	struct pollfd p = { .fd = STDOUT_FILENO, .events = POLLOUT };

	return b->once && b->c.request.op == BULK_GET && !signals_stopped() &&
	       poll(&p, 1, 0) > 0 && (p.revents & POLLERR);
}

static enum exit_status give_up(struct bulk *b, bool resumable, struct err *e)
{
	if (report_begun(b->report) && reader_left(b))
		return exit_of(signals_stopped() ? -EINTR : e->code, true);
	return again_give_up(b->report, !b->once && resumable, e);
}

enum exit_status bulk_run(struct bulk *b)
{
	struct transfer_result r;
	bool reached = false, resumable = false, rereads;
	uint64_t retries = b->server->o.retries;

	report_begin(b->report);
	for (unsigned attempt = 1;; attempt++) {
		struct err e = ERR_INIT;
		int rc = server_connect(b->server, &e);

		rereads = !b->once && b->c.committed && again_rereads(attempt - 1, retries);
		report_rereads(b->report, rereads);
		if (rc == 0) {
			reached = true;
			memset(&r, 0, sizeof(r));
			b->c.anew_from = may_come_again(b, attempt) ? ANEW_FROM : 0;
			rc = bulk_once(b, &r, &e);
			if (r.wall_ns) /* otherwise it has not begun */
				resumable = r.resumable;
			if (exit_is_lost(rc))
				err_prefix(&e, "%s", printable(b->server->place.host));
		}
		if (rc == 0 && !(rereads && again_changed(&r, &e)))
			return finish(b, &r);
		/* While the server comes up again, it may be away; and so may an RDMA device
		 * that data has gone by before. */
		if (rc && (b->once || !again_worth(rc, attempt - 1, retries, reached,
					    !b->server->client || report_begun(b->report))))
			return give_up(b, resumable, &e);
		report_retry(b->report, attempt, again_wait(attempt), &e);
		again_recall(&b->c.request, b->c.committed);
		again_pause(again_wait(attempt));
	}
}
