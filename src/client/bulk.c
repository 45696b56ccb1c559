// SPDX-License-Identifier: Apache-2.0
/* Makes a bulk request from the options and runs it, again after a failure. */
#include "client/engine.h"

#include "rdma/rdma.h"

#include <poll.h>

/* Bytes. If all data channels are lost and at least this much remains, connecting again (about a
 * second) is faster than using the control connection. */
#define ANEW_FROM (1ull << 30)

enum { BACKOFF_MOST = 30 /* seconds */, REREADS_MOST = 3 };

/* ---- options into a request ---- */

int bulk_request_of(const struct options *o, enum bulk_op op, struct bulk_request *q)
{
	static const uint8_t ops[] = {
		[USE_ANY_OP] = OP_WRITE | OP_READ, [USE_WRITE] = OP_WRITE, [USE_READ] = OP_READ,
	};
	static const uint8_t transports[] = {
		[USE_AUTO] = TRANSPORT_RDMA | TRANSPORT_TCP | TRANSPORT_INBAND,
		[USE_TCP] = TRANSPORT_TCP,
		[USE_RDMA] = TRANSPORT_RDMA,
	};
	const struct { bool on; uint32_t flag; } flags[] = {
		{ true, BULK_F_HARDLINKS | BULK_F_SPARSE },
		{ o->recursive, BULK_F_RECURSIVE },
		{ !o->no_modes, BULK_F_MODES },
		{ !o->no_times, BULK_F_TIMES },
		{ o->owner || o->archive, BULK_F_OWNER },
		{ o->xattrs || o->archive, BULK_F_XATTRS },
		{ o->archive && !o->owner && !o->xattrs, BULK_F_ARCHIVE },
		{ o->follow, BULK_F_FOLLOW },
		{ o->inplace, BULK_F_INPLACE },
		{ !o->no_resume, BULK_F_RESUME },
		{ o->dry_run, BULK_F_DRY_RUN },
		{ o->files_from, BULK_F_INTO | BULK_F_MKDIRS | BULK_F_SEVERAL },
		{ o->policy == POLICY_CHECKSUM, BULK_F_CHECKSUM },
		{ (op == BULK_GET || o->delete) && filter_is_set(&o->filter), BULK_F_FILTER },
		{ o->sync, BULK_F_SYNC },
	};

	q->op = (uint8_t)op;
	q->policy = (uint8_t)o->policy;
	q->flags = 0;
	for (size_t i = 0; i < sizeof(flags) / sizeof(flags[0]); i++)
		q->flags |= flags[i].on ? flags[i].flag : 0;

	q->rate = o->rate;
	q->offer.transports = transports[o->transport];
	q->offer.ops = ops[o->op];
	q->offer.prot_min = (uint8_t)o->prot;
	q->offer.ack = (uint8_t)o->ack;
	q->offer.block = (uint32_t)o->block;
	q->offer.channels = (uint16_t)o->channels;
	q->offer.inflight = o->inflight;
	q->sync.flags = (uint8_t)((o->delete ? SYNC_DELETE : 0) | (o->force ? SYNC_FORCE : 0) |
				  (o->delete_excluded ? SYNC_EXCLUDED : 0));
	q->sync.most = o->max_delete == UINT32_MAX ? UINT64_MAX : o->max_delete;
	if (o->trash) {
		q->sync.trash = strdup(o->trash);
		if (!q->sync.trash)
			return -ENOMEM;
	}
	return filter_copy(&q->filter, &o->filter);
}

int bulk_add_sources(struct bulk_request *q, char *const *paths, size_t n)
{
	char **all = reallocarray(q->sources, q->nsources + n + 1, sizeof(*all));

	if (!all)
		return -ENOMEM;
	q->sources = all;
	for (size_t i = 0; i < n; i++) {
		all[q->nsources] = strdup(paths[i]);
		if (!all[q->nsources])
			return -ENOMEM;
		q->nsources++;
	}
	return 0;
}

static int bulk_connect(void *bulk, struct err *e)
{
	const struct bulk *b = bulk;

	return server_connect(b->server, e);
}

int bulk_prepare(struct bulk *b, struct server *s, enum bulk_op op, struct err *e)
{
	static const enum page_choice pages[] = { PAGES_AUTO, PAGES_HUGE, PAGES_SMALL };
	const struct device_transport *rdma = VERBS_TRANSPORT;
	struct transfer_tuning *t = &b->c.tuning;
	struct offer *f = &b->c.request.offer;
	const struct options *o = &s->o;
	int rc;

	memset(b, 0, sizeof(*b));
	b->server = s;
	rc = bulk_request_of(o, op, &b->c.request);
	if (rc)
		err_sys(e, rc, "request");
	b->c.stop = -1;
	b->c.inband_ok = o->transport == USE_AUTO;
	b->c.connect_timeout_ms = (int)(o->connect_timeout / 1000000);

	/* NULL (out of memory) only means that another attempt transfers all files again. */
	b->c.committed = o->retries && !bulk_is_bench(op) ? committed_new() : NULL;
	b->attempts = (struct attempts){
		.connect = bulk_connect, .once = bulk_once, .arg = b, .env = s->env,
		.retries = bulk_is_bench(op) ? 0 : o->retries, .request = &b->c.request,
		.committed = b->c.committed, .rereads = true,
	};

	transfer_tuning_default(t);
	t->io = (enum io_kind)o->io;
	t->direct = o->direct;
	t->sort = o->sort;
	t->readers = o->readers;
	t->writers = o->writers;
	t->memory = o->memory;
	t->rdma = rdma;
	t->nics = o->nic;
	t->poll = (enum poll_mode)o->poll;
	t->stall_ms = (uint32_t)(o->stall / 1000000);
	t->congestion = o->congestion;
	t->tos = o->tos;

	t->umask = s->env->umask(s->env->arg);
	t->pages = pages[o->hugepages];
	t->balance_percent = o->balance;
	t->balance_ns = o->balance_ns;
	if (!rc && o->numa)
		rc = place_wish_parse(&t->place, o->numa, e);
	t->place.cores = o->pin;
	t->place.nics = o->nic_node;
	if (!rc)
		rc = place_wish_check(&t->place, e);

	if (!rdma)
		f->transports &= (uint8_t)~TRANSPORT_RDMA;
	if (!rc && !f->transports)
		rc = err_set(e, -EINVAL, "--transport rdma: " NO_RDMA);
	return rc;
}

void bulk_clear(struct bulk *b)
{
	committed_free(steal_ptr(&b->c.committed));
	bulk_request_clear(&b->c.request);
}

/* ---- one attempt ---- */

int bulk_possible(const struct server *s, uint32_t flags, struct err *e)
{
	const struct bulk_version *v = &s->client->bulk;

	if (!v->major)
		return err_set(e, -EPROTONOSUPPORT, "%s is not rftpd, or has no bulk mode",
			       printable(s->url.host));
	if (bulk_version_check(v, flags, e))
		return err_prefix(e, "%s", printable(s->url.host));
	return 0;
}

int bulk_once(void *bulk, unsigned attempt, struct transfer_result *r, struct err *e)
{
	struct bulk *b = bulk;
	const struct attempts *a = &b->attempts;
	const struct engine_env *env = b->server->env;
	struct ftp_client *client = b->server->client;
	struct offer *f = &b->c.request.offer;
	/* Output to standard output cannot be resumed, and its reader may have stopped reading, so
	 * there a signal ends the program at once. */
	bool graceful = !a->to_stdout;
	int rc = bulk_possible(b->server, b->c.request.flags, e);

	if (rc)
		return rc;
	b->c.ms = client->ms;
	f->rtt_ns = client->rtt_ns;
	b->c.peer_len = client->peer_len;
	b->c.peer = client->peer;

	rc = ftp_client_key(client, b->key);
	if (rc && rc != -ENOENT)
		return err_sys(e, rc, "cannot export a key from the TLS connection");
	b->c.master = rc ? NULL : b->key;

	/* Without TLS rftp would send a key of its own, and an eavesdropper could read it. */
	if (rc && !client->ssh && f->prot_min > PROT_CLEAR)
		return err_set(e, -EPROTONOSUPPORT, "without TLS there is no key for --prot %s: "
			       "use --prot clear, or leave --plain away", prot_name(f->prot_min));

	if (graceful)
		env->stoppable(env->arg, true);
	b->c.stop = env->stop_fd(env->arg);
	b->c.anew_from = !a->pipe && attempt <= a->retries && !b->server->o.no_resume ?
			 ANEW_FROM : 0;
	b->c.closing_owed = client->owed;
	client->owed = false;
	b->c.closing_later = f->rtt_ns >= FAR_RTT_NS;
	rc = transfer_client(&b->c, r, e);
	client->owed = b->c.closing_owed;
	if (graceful)
		env->stoppable(env->arg, false);

	/* The stream may have stopped within a frame: only a new connection is safe. */
	if (error_is_damaged(rc) || error_is_lost(rc) || rc == -ENOMEM)
		server_close(b->server);

	/* The key belongs to one connection: the next attempt exports its own. */
	b->c.master = NULL;
	crypto_wipe(b->key, sizeof(b->key));
	return error_is_lost(rc) && a->watch ?
	       err_prefix(e, "%s", printable(b->server->url.host)) : rc;
}

/* ---- another attempt ---- */

bool again_worth(int code, uint64_t done, uint64_t retries, bool reached, bool away)
{
	bool unreachable = code == -ECONNREFUSED || code == -EHOSTUNREACH ||
			   code == -ENETUNREACH || code == -ENETDOWN || code == -ENODEV;

	if (done >= retries)
		return false;

	/* One more attempt shows whether the connection was damaged once or the server does not
	 * speak TLS. */
	if (code == -EBADMSG && !done)
		return true;
	return reached && (error_is_lost(code) || error_is_damaged(code) || (unreachable && away));
}

unsigned again_wait(unsigned attempt)
{
	return attempt > 5 ? BACKOFF_MOST : attempt < 1 ? 0 : 1u << (attempt - 1);
}

/* Let the next attempt skip the files that are committed. */
static void attempts_recall(struct attempts *a)
{
	if (!a->committed)
		return;
	committed_recall(a->committed);
	a->request->flags |= BULK_F_AGAIN;
}

/* Wait before the next attempt; a request to stop ends it. */
static void attempts_pause(const struct attempts *a, unsigned seconds)
{
	struct pollfd stop = { .fd = a->env->stop_fd(a->env->arg), .events = POLLIN };

	poll(&stop, 1, (int)seconds * 1000);
}

int attempts_make(struct attempts *a, struct transfer_result *r, struct err *e)
{
	const struct attempt_watch *watch = a->watch;
	bool reached = false, passed = false;

	a->resumable = false;
	for (unsigned attempt = 1;; attempt++) {
		bool connected, rereads;
		int rc;

		*e = (struct err)ERR_INIT;
		*r = (struct transfer_result){ 0 };
		rc = a->connect(a->arg, e);
		connected = !rc;
		/* Maybe only the attributes of a file changed while it was read: another attempt
		 * compares it with the sink's part. */
		rereads = connected && a->committed && a->rereads && !a->pipe &&
			  attempt <= REREADS_MOST && attempt <= a->retries;

		watch->rereads(a->watch_arg, rereads);
		if (connected) {
			reached = true;
			rc = a->once(a->arg, attempt, r, e);
			if (r->wall_ns) /* otherwise the transfer has not begun */
				a->resumable = r->resumable && !a->pipe;
		}
		if (!rc && rereads && r->touched) {
			err_set(e, -EAGAIN, "%llu file%s " FILE_CHANGED_WHY,
				(unsigned long long)r->touched, r->touched == 1 ? "" : "s");
		} else if (!rc && r->in_the_way && !passed &&
			   !(a->request->flags & BULK_F_DRY_RUN)) {
			/* Names that were in the way have been removed, unless that failed: now the
			 * entries that need these names arrive, or fail. */
			passed = true;
			a->request->sync.flags |= SYNC_LAST;
			watch->pass(a->watch_arg, r);
			attempts_recall(a);
			continue;
		} else if (!rc) {
			return 0;
		} else if (a->pipe || a->env->stopped(a->env->arg) ||
			   !again_worth(rc, attempt - 1, a->retries, reached,
					!connected || watch->begun(a->watch_arg))) {
			return e->code;
		}

		watch->retry(a->watch_arg, attempt, again_wait(attempt), e);
		attempts_recall(a);
		attempts_pause(a, again_wait(attempt));
	}
}
