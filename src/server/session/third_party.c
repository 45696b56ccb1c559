// SPDX-License-Identifier: Apache-2.0
/* Copies between two servers, controlled by a client of both.
 *
 * TAKE: this server is the sink. It opens a "door" (rftp-protocol(7)): for at most a minute, a
 * listener for one connection that proves a key and a token, and may do one put to one destination.
 * The put has the rights of the session that opened the door.
 *
 * GIVE: this server is the source, and connects to the sink. Our client sends the address of the
 * door and its token. The key for the door is made here and never leaves this process. */
#include "server/session/session.h"

#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/eventfd.h>

enum {
	OPEN_S = 60,           /* the longest time that a door is open */
	PROVE_MS = 10 * 1000,  /* time for a connection to prove key and token */
	ATTEMPTS = 64,         /* connections at a time; a further one ends the oldest */
	LINE_MS = 60 * 1000,
	SLICE_MS = 500,        /* between two checks of srv_stop */
	REQUESTS = 8,          /* BULK commands through one door; all but the last may fail without
				* a transfer */
	DOOR_MS = 60 * 1000,   /* time for our client to get the door from the sink */
	CONNECT_MS = 15 * 1000,
};

#define GIVE_MEMORY ((uint64_t)128 << 20) /* bytes */

/* ---- both roles ---- */

static bool has_pin(struct tls *tls, const char *pin)
{
	char *peer CLEANUP_FREE = tls_peer_pin(tls);

	return peer && strlen(peer) == strlen(pin) && crypto_equal(peer, pin, strlen(pin));
}

/* Make the message stream for BULK over tls, and export its key. Takes fd and tls, also on
 * failure. */
static int open_bulk_stream(int fd, struct tls *tls, uint8_t key[KEY_BYTES], struct mstream **ms)
{
	int rc = tls_export(tls, "EXPORTER-rftp-bulk-1", key, KEY_BYTES);
	struct stream *st = rc ? NULL : stream_tls(fd, tls);

	*ms = st ? ms_new(st) : NULL;
	if (*ms)
		return 0;
	if (st) {
		stream_free(st);
	} else {
		tls_free(tls);
		close(fd);
	}
	return rc ? rc : -ENOMEM;
}

#define ARRIVED "It is there"
#define NO_TLS_WHY "Without TLS nothing can be kept private"

/* Send our client the result, wait for its END frame, and reply. */
static int finish_copy(struct ftp_session *fs, struct relay *relay,
		       const struct transfer_result *res, int result, uint8_t where,
		       const struct err *e)
{
	int rc;

	relay_result(relay, res, result, where, e->text);
	rc = relay_end(relay);
	if (rc)
		return rc;
	return ftp_session_reply(fs, result ? 451 : 226, "%s", result ? e->text : ARRIVED);
}

static bool is_interrupted(const struct relay *relay)
{
	return poll_fd(relay->stop, POLLIN, 0) > 0;
}

/* ---- TAKE: connections to the door ---- */

struct door;

/* A connection that must prove the key and the token, and its thread. */
struct attempt {
	struct door *d;
	pthread_t thread;
	int fd;
	uint64_t since;        /* its start, as now_ns() */
	bool running;          /* the thread must be joined */
	atomic_bool over;      /* the thread is ending */
	bool accepted;         /* d->in is its connection; guarded by the door's lock */
};

struct door {
	struct session *s;
	struct ftp_session *fs;
	struct third_take t;
	struct relay relay;
	struct tls_ctx *tls;
	char *pin;             /* the pin of our key */
	uint8_t token[THIRD_TOKEN];
	int lfd;
	uint16_t port;
	int wake;              /* an eventfd: an attempt has ended */
	struct attempt attempts[ATTEMPTS];
	pthread_mutex_t lock;  /* guards the following members while there are attempts */
	struct mstream *in;    /* the accepted connection; NULL: none yet */
	uint8_t key[KEY_BYTES];
	struct sockaddr_storage local; /* our address of in */
	uint8_t where;         /* enum third_where, of a failure */
};

static bool is_accepted(struct door *d)
{
	LOCK_GUARD(guard, &d->lock);

	return d->in;
}

/* Check key and token. The stream gets, and closes, a duplicate of a->fd: another thread may call
 * shutdown(2) on a->fd at any time, so a->fd must stay open. */
static int prove_attempt(struct attempt *a, struct err *e)
{
	struct door *d = a->d;
	socklen_t local_len = sizeof(d->local);
	int fd = fcntl(a->fd, F_DUPFD_CLOEXEC, 0);
	struct tls *tls = fd < 0 ? NULL : tls_start(d->tls, fd, NULL, NULL, PROVE_MS, e);
	uint8_t key[KEY_BYTES], token[THIRD_TOKEN];
	struct mstream *ms;
	int rc = 0;

	if (!tls)
		rc = e->code ? e->code : -ENOMEM;
	else if (!has_pin(tls, d->t.pin))
		rc = err_set(e, -EKEYREJECTED, "it has another key");
	if (rc) {
		tls_free(tls);
		cleanup_close(&fd);
		return rc;
	}

	rc = open_bulk_stream(fd, tls, key, &ms);
	if (rc)
		return rc;

	rc = ms_read(ms, token, sizeof(token), PROVE_MS);
	if (!rc && !crypto_equal(token, d->token, sizeof(token)))
		rc = -EACCES;

	pthread_mutex_lock(&d->lock);
	if (!rc && !d->in) { /* no other attempt has succeeded before */
		a->accepted = true;
		d->in = steal_ptr(&ms);
		memcpy(d->key, key, KEY_BYTES);
		if (getsockname(a->fd, (struct sockaddr *)&d->local, &local_len))
			memset(&d->local, 0, sizeof(d->local));
		address_unmap(&d->local);
	}
	pthread_mutex_unlock(&d->lock);
	ms_free(ms);
	crypto_wipe(token, sizeof(token));
	crypto_wipe(key, sizeof(key));
	return rc;
}

static void *attempt_main(void *arg)
{
	struct attempt *a = arg;
	struct err e = ERR_INIT;
	uint64_t one = 1;
	int rc = prove_attempt(a, &e);

	if (rc)
		log_warn("%s: refused a connection that is not the other server's: %s",
			 a->d->s->peer_text,
			 *e.text ? e.text : rc == -EACCES ? "a wrong token" : strerror(-rc));
	a->over = true;
	if (write(a->d->wake, &one, sizeof(one)) < 0)
		log_debug("eventfd: %s", strerror(errno));
	return NULL;
}

static void end_attempt(struct attempt *a)
{
	if (!a->running)
		return;
	pthread_join(a->thread, NULL);
	close(a->fd);
	a->running = a->accepted = false;
}

/* Returns a free slot. If there is none, end the oldest attempt, so that connections that prove
 * nothing cannot block the other server. */
static struct attempt *free_attempt(struct door *d)
{
	struct attempt *oldest = &d->attempts[0];

	for (int i = 0; i < ATTEMPTS; i++) {
		struct attempt *a = &d->attempts[i];

		if (a->running && a->over)
			end_attempt(a);
		if (!a->running)
			return a;
		if (a->since < oldest->since)
			oldest = a;
	}
	shutdown(oldest->fd, SHUT_RDWR);
	end_attempt(oldest);
	return oldest;
}

static void start_attempt(struct door *d)
{
	int fd = accept4(d->lfd, NULL, NULL, SOCK_CLOEXEC);
	struct attempt *a;

	if (fd < 0) { /* the connection is still pending: pause, so that this is not a busy loop */
		poll_fd(d->relay.stop, POLLIN, SLICE_MS);
		return;
	}

	a = free_attempt(d);
	if (is_accepted(d)) {
		close(fd);
		return;
	}

	a->d = d;
	a->fd = fd;
	a->since = now_ns();
	a->over = false;
	a->running = !thread_start(&a->thread, "attempt", attempt_main, a);
	if (!a->running)
		close(fd);
}

static int await_other_server(struct door *d, struct err *e)
{
	uint64_t end = now_ns() + d->t.seconds * 1000000000ull, woken;

	while (!is_accepted(d)) {
		struct pollfd p[] = { { .fd = d->relay.stop, .events = POLLIN },
				      { .fd = d->wake, .events = POLLIN },
				      { .fd = d->lfd, .events = POLLIN } };

		if (srv_stop)
			return err_set(e, -ECONNREFUSED, "the server is stopping");
		if (now_ns() >= end)
			return err_set(e, -ETIMEDOUT, "the other server did not come to port %u "
				       "within %u s", d->port, d->t.seconds);
		if (poll(p, 3, SLICE_MS) <= 0)
			continue;
		if (p[0].revents)
			return err_set(e, -EINTR, "interrupted");
		(void)!read(d->wake, &woken, sizeof(woken)); /* fails if no attempt has ended */
		if (p[2].revents)
			start_attempt(d);
	}
	return 0;
}

static void close_door(struct door *d)
{
	cleanup_close(&d->lfd);
	for (int i = 0; i < ATTEMPTS; i++) {
		struct attempt *a = &d->attempts[i];

		pthread_mutex_lock(&d->lock);
		if (a->running && !a->accepted)
			shutdown(a->fd, SHUT_RDWR);
		pthread_mutex_unlock(&d->lock);
		end_attempt(a);
	}
}

/* ---- TAKE: the put ---- */

static int reply_other_server(struct door *d, int code, const char *text)
{
	char line[1200];
	int n = snprintf(line, sizeof(line), "%d %.1024s\r\n", code, text);

	return ms_write(d->in, line, (size_t)n);
}

/* The token allows only the put that our client has announced. */
static int check_put(const struct door *d, const struct bulk_request *r, struct err *e)
{
	if (r->op != BULK_PUT)
		return err_set(e, -EPERM, "The token is for putting something here");
	if (!r->base || strcmp(r->base, d->t.base))
		return err_set(e, -EPERM, "The token is for another destination");
	if (r->policy != d->t.policy || r->flags != d->t.request_flags)
		return err_set(e, -EPERM, "The token is for another kind of copy");
	if ((r->flags & BULK_F_SYNC) &&
	    (r->sync.flags != d->t.sync.flags || r->sync.most != d->t.sync.most ||
	     strcmp(r->sync.trash, d->t.sync.trash)))
		return err_set(e, -EPERM, "The token is for removing other names");
	if (r->has_key)
		return err_set(e, -EPERM, TLS_KEY_WHY);
	return 0;
}

static int take_files(struct door *d, struct bulk_request *r, struct transfer_result *res,
		      bool *in_line, struct err *e)
{
	struct transfer_config c;
	int rc = reply_other_server(d, 150, "Frames follow");

	*in_line = false;
	if (rc)
		return err_sys(e, rc, "connection of the other server");

	srv_transfer_config(d->s, d->fs, &c);
	c.ms = d->in;
	c.request = *r;
	c.request.filter = d->t.filter;
	c.master = d->key;
	c.local = d->local;
	c.family = d->local.ss_family;
	if (d->t.prot_min > c.prot_min)
		c.prot_min = d->t.prot_min;
	c.events = relay_events(&d->relay);
	c.stop = d->relay.stop;
	srv_report_begin(d->s, false, 0, d->t.base);
	rc = transfer_serve(&c, res, in_line, e);
	srv_log_result(d->s, d->fs, "take", d->t.base, res, rc, e);
	return rc;
}

/* Serve one BULK command. *again: it had no effect, and the other server may send another one. */
static int serve_put(struct door *d, struct buf *body, struct transfer_result *res, bool *again,
		     struct err *e)
{
	struct bulk_request r = { 0 };
	bool in_line = true;
	int rc = bulk_request_get(body, &r, e);

	if (!rc)
		rc = check_put(d, &r, e);
	if (rc) {
		reply_other_server(d, 550, *e->text ? e->text : MALFORMED_WHY);
		d->where = THIRD_OTHER;
	} else if (srv_expand_homes(d->fs, &r)) {
		rc = err_nomem(e);
		reply_other_server(d, 451, e->text);
	} else {
		rc = take_files(d, &r, res, &in_line, e);
		if (in_line)
			reply_other_server(d, rc ? 451 : 226, rc ? e->text : ARRIVED);
		*again = rc && in_line;
	}
	bulk_request_clear(&r);
	return rc;
}

static void abort_door(void *arg)
{
	const struct door *d = arg;

	ms_abort(d->in);
}

/* Read the body of the next BULK command; stop if our client interrupts. 0 with *body, which the
 * caller frees; -EPIPE: the other server has closed the connection; or another negative errno. */
static int read_bulk(struct door *d, struct buf **body, struct err *e)
{
	char line[FTP_LINE_MAX];
	const struct ftp_command *cmd;
	struct sentry stop;
	uint8_t *room;
	uint64_t n;
	char *arg;
	ssize_t len;
	int rc = sentry_start(&stop, "stop", d->relay.stop, abort_door, d, e);

	if (!rc) {
		len = ms_read_line(d->in, line, sizeof(line), LINE_MS);
		rc = len < 0 ? (int)len : 0;
	}
	if (!rc && (ftp_command_parse(line, &cmd, &arg) || cmd->verb != FTP_BULK ||
		    parse_uint(arg, 0, BULK_REQUEST_MAX, &n)))
		rc = -EPROTO;
	if (!rc) {
		*body = buf_new(n ? n : 1);
		rc = *body && !buf_reserve(*body, n, &room) ? 0 : -ENOMEM;
	}
	if (!rc)
		rc = ms_read(d->in, room, n, LINE_MS);
	sentry_end(&stop);
	return rc;
}

static int serve_other_server(struct door *d, struct transfer_result *res, struct err *e)
{
	bool again = true;
	int rc = 0;

	for (int i = 0; again && i < REQUESTS; i++) {
		struct err why = ERR_INIT;
		struct buf *body CLEANUP_BUF = NULL;
		int got = read_bulk(d, &body, &why);

		if (got && i)
			return rc; /* e has the error of the previous request */
		if (got) {
			d->where = THIRD_OTHER;
			return err_sys(e, got, "waiting for the other server's request");
		}
		*e = (struct err)ERR_INIT;
		again = false;
		rc = serve_put(d, body, res, &again, e);
	}
	return rc;
}

/* ---- TAKE: the client ---- */

static int open_door(struct door *d, struct err *e)
{
	const struct srv_options *o = &d->s->sv->opt;

	d->tls = tls_pinned_new(true, &d->pin, e);
	if (!d->tls)
		return e->code;

	crypto_random(d->token, sizeof(d->token));
	d->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (d->wake < 0)
		return err_sys(e, -errno, "eventfd");

	d->lfd = tcp_listen("", AF_UNSPEC, o->data_ports.lo, o->data_ports.hi, &d->port, e);
	if (d->lfd >= 0 && d->port < THIRD_PORT_LEAST)
		return err_set(e, -EPERM, "Another server connects to no port below %u, but the "
			       "--data-ports here are lower", THIRD_PORT_LEAST);
	return d->lfd < 0 ? d->lfd : 0;
}

/* Send the door to our client, then wait for the other server's put and serve it. */
static int serve_take(struct door *d, struct transfer_result *res)
{
	struct third_door t = { .port = d->port, .seconds = d->t.seconds };
	struct buf *b CLEANUP_BUF = buf_new(BULK_FRAME_MAX);
	struct mstream *client = ftp_session_stream(d->fs);
	struct err e = ERR_INIT;
	int result, rc = ftp_session_reply(d->fs, 150, "Frames follow");

	snprintf(t.pin, sizeof(t.pin), "%s", d->pin);
	memcpy(t.token, d->token, sizeof(t.token));
	if (!rc)
		rc = b ? third_door_put(b, &t) : -ENOMEM;
	if (!rc)
		rc = ms_write_frame(client, BULK_DOOR, buf_ptr(b), buf_len(b));
	crypto_wipe(&t, sizeof(t));
	if (rc)
		return rc;

	d->where = THIRD_HERE;
	result = relay_start(&d->relay, client, false, &e);
	if (!result) {
		result = await_other_server(d, &e);
		close_door(d);
		d->where = result ? THIRD_REACH : THIRD_HERE;
		if (!result) {
			result = serve_other_server(d, res, &e);
			if (result == -EPIPE || result == -ETIMEDOUT || result == -ECONNRESET)
				d->where = THIRD_OTHER;
		}
		if (result == -EINTR || (result && is_interrupted(&d->relay))) {
			d->where = THIRD_CLIENT;
			result = err_set(&e, -EINTR, "interrupted");
		}
	}
	ms_free(steal_ptr(&d->in));
	return finish_copy(d->fs, &d->relay, res, result, d->where, &e);
}

int srv_take(void *arg, struct ftp_session *fs, struct buf *body)
{
	const char *why = ftp_account_refuses(ftp_session_account(fs), FTP_NEEDS_CREATE);
	struct transfer_result *res CLEANUP_FREE = calloc(1, sizeof(*res));
	struct door *d CLEANUP_FREE = calloc(1, sizeof(*d));
	struct err e = ERR_INIT;
	int rc;

	if (!res || !d)
		return ftp_session_reply(fs, 451, NO_MEMORY);

	d->s = arg;
	d->fs = fs;
	d->lfd = d->wake = -1;
	rc = third_take_get(body, &d->t, &e);
	if (rc)
		return srv_refuse_malformed(d->s, fs, rc, &e);

	pthread_mutex_init(&d->lock, NULL);
	if (!d->t.seconds || d->t.seconds > OPEN_S)
		d->t.seconds = OPEN_S;
	if (!why && (d->t.sync.flags & SYNC_DELETE))
		why = ftp_account_refuses(ftp_session_account(fs), FTP_NEEDS_CHANGE);
	if (why)
		rc = ftp_session_reply(fs, 550, "%s", why);
	/* Without TLS an attacker between us and our client could replace the pins. */
	else if (!ftp_session_secret(fs) && d->t.prot_min > PROT_CLEAR)
		rc = ftp_session_reply(fs, 522, NO_TLS_WHY);
	else if (open_door(d, &e))
		rc = ftp_session_reply(fs, 451, "%s", e.text);
	else
		rc = serve_take(d, res);

	cleanup_close(&d->lfd);
	cleanup_close(&d->wake);
	tls_ctx_free(d->tls);
	free(d->pin);
	third_take_clear(&d->t);
	pthread_mutex_destroy(&d->lock);
	crypto_wipe(d->token, sizeof(d->token));
	crypto_wipe(d->key, sizeof(d->key));
	return rc;
}

/* ---- GIVE: the sources ---- */

struct give {
	struct session *s;
	struct ftp_session *fs;
	struct third_give g;
	struct third_door door;
	struct relay relay;
	struct committed *committed; /* files that earlier attempts have transferred; sent by the
				      * client */
	struct tls_ctx *tls;
	char *pin;                   /* the pin of our key */
	struct transfer_item *items;
	char **paths;                /* the paths of items */
	uint32_t nitems;
	struct mstream *ms;          /* to the sink */
	struct sockaddr_storage sink;
	socklen_t sink_len;
	uint8_t key[KEY_BYTES];
	uint8_t where;               /* enum third_where, of a failure */
};

/* Is this a copy with --files-from: the first source is a directory, and the others are names in
 * it? */
static bool is_list(const struct give *v)
{
	return v->g.request.flags & BULK_F_INTO;
}

static int make_items(struct give *v, struct err *e)
{
	char *const *words = v->g.request.sources;
	uint32_t n = v->g.request.nsources - (is_list(v) ? 1 : 0);

	v->items = calloc(n ? n : 1, sizeof(*v->items));
	v->paths = calloc(n ? n : 1, sizeof(*v->paths));
	if (!v->items || !v->paths)
		return err_nomem(e);

	for (v->nitems = 0; v->nitems < n; v->nitems++) {
		char *joined = NULL, *path = NULL;

		if (!is_list(v))
			path = ftp_session_path(v->fs, words[v->nitems]);
		else if (asprintf(&joined, "%s/%s", words[0], words[v->nitems + 1]) < 0)
			joined = NULL;
		else
			path = ftp_session_path(v->fs, joined);
		free(joined);
		if (!path)
			return err_nomem(e);
		v->paths[v->nitems] = path;
		v->items[v->nitems] = (struct transfer_item){ .kind = ITEM_PATH, .path = path };
	}
	return 0;
}

/* ---- GIVE: the connection to the sink ---- */

static void shut_fd(void *arg)
{
	shutdown(*(const int *)arg, SHUT_RDWR);
}

/* Connect to the door over fd, which is taken: TLS, then prove key and token. 0, or a negative
 * errno with text. */
static int enter_door(struct give *v, int fd, const char *addr, int ms, struct err *e)
{
	struct sentry stop;
	struct tls *tls = NULL;
	int rc = 0;

	if (!sentry_start(&stop, "stop", v->relay.stop, shut_fd, &fd, e))
		tls = tls_start(v->tls, fd, NULL, NULL, ms, e);
	sentry_end(&stop);
	if (!tls)
		rc = err_prefix(e, "%s port %u", addr, v->door.port);
	else if (!has_pin(tls, v->door.pin))
		rc = err_set(e, -EKEYREJECTED, "%s port %u has another key than the other server",
			     addr, v->door.port);
	if (rc) {
		tls_free(tls);
		close(fd);
		return rc;
	}

	v->sink_len = sizeof(v->sink);
	if (getpeername(fd, (struct sockaddr *)&v->sink, &v->sink_len))
		v->sink_len = 0;
	v->g.request.offer.rtt_ns = tcp_rtt_ns(fd);
	rc = open_bulk_stream(fd, tls, v->key, &v->ms);
	if (!rc) {
		rc = ms_write(v->ms, v->door.token, sizeof(v->door.token));
		if (rc)
			ms_free(steal_ptr(&v->ms));
	}
	return rc ? err_sys(e, rc, "connection to %s", addr) : 0;
}

static int reach_door(struct give *v, struct err *e)
{
	int ms = v->g.connect_ms ? (int)v->g.connect_ms : CONNECT_MS;
	int rc = err_set(e, -EHOSTUNREACH, "no address of the other server is known");

	for (uint32_t i = 0; rc && !is_interrupted(&v->relay) && i < v->door.naddrs; i++) {
		int fd;

		*e = (struct err)ERR_INIT;
		fd = tcp_connect(v->door.addrs[i], v->door.port, v->relay.stop, ms, e);
		rc = fd < 0 ? fd : enter_door(v, fd, v->door.addrs[i], ms, e);
		if (rc)
			log_info("%s: %s", v->s->peer_text, e->text);
	}
	return rc;
}

/* ---- GIVE: the transfer ---- */

static int configure_give(struct give *v, struct transfer_config *c, struct err *e)
{
	const struct srv_options *o = &v->s->sv->opt;
	struct bulk_request *q = &v->g.request;
	struct offer *offer = &c->request.offer;

	*c = (struct transfer_config){
		.ms = v->ms, .master = v->key, .peer = v->sink, .peer_len = v->sink_len,
		.inband_ok = q->offer.transports & TRANSPORT_INBAND,
		.items = v->items, .nitems = v->nitems,
		.root = ftp_session_account(v->fs)->root, .committed = v->committed,
		.stranger = true, .port_least = THIRD_PORT_LEAST,
		.events = relay_events(&v->relay), .stop = v->relay.stop,
		.connect_timeout_ms = v->g.connect_ms ? (int)v->g.connect_ms : CONNECT_MS,
		.tuning = o->tuning, .watch = srv_on_progress, .watch_arg = v->s,
	};
	bulk_request_onward(q, &c->request);
	if (is_list(v))
		c->targets = (const char *const *)(q->sources + 1);

	/* Reduce the client's offer to the features that this server has and allows. */
	if (offer->prot_min < o->prot_min)
		offer->prot_min = (uint8_t)o->prot_min;
	if (!o->tuning.rdma)
		offer->transports &= (uint8_t)~TRANSPORT_RDMA;
	if (!offer->transports)
		return err_set(e, -ENODEV, NO_RDMA);
	return 0;
}

static int give_files(struct give *v, struct transfer_result *res, struct err *e)
{
	struct transfer_config c;
	uint64_t got = 0;
	int rc = reach_door(v, e);

	v->where = THIRD_REACH;
	if (!rc) {
		v->where = THIRD_HERE;
		rc = configure_give(v, &c, e);
	}

	/* The memory that a transfer needs is known only after the agreement, when it is too late
	 * to ask the budget. So request an amount that is enough for most agreements. */
	if (!rc && v->s->counted)
		rc = share_take(v->s, GIVE_MEMORY, &got, e);
	if (!rc) {
		if (got)
			c.tuning.memory = got;
		rc = transfer_client(&c, res, e);
		/* Has the sink, or the connection to it, caused the error? */
		if (rc == -EPIPE || rc == -ETIMEDOUT || rc == -EPROTO || rc == -EBADMSG ||
		    rc == -EMSGSIZE || rc == -EPERM || rc == -ECONNRESET || rc == -EOPNOTSUPP)
			v->where = THIRD_OTHER;
	}
	if (got)
		share_give_back(v->s, got);

	/* After an interrupt, connecting may fail with any error. */
	if (rc == -EINTR || (rc && v->where == THIRD_REACH && is_interrupted(&v->relay))) {
		v->where = THIRD_CLIENT;
		rc = err_set(e, -EINTR, "interrupted");
	}
	return rc;
}

/* ---- GIVE: the client ---- */

/* Receive the door from our client. 0; -ECANCELED: the client cancels the copy; another negative
 * errno: the client has disconnected, or its frames are malformed. */
static int read_door(struct give *v)
{
	struct buf *p CLEANUP_BUF = buf_new(BULK_FRAME_MAX);
	uint8_t type = 0;
	uint64_t end = now_ns() + DOOR_MS * 1000000ull;
	int rc;

	v->committed = committed_new();
	rc = p && v->committed ? 0 : -ENOMEM;
	while (!rc) {
		rc = ms_read_frame(ftp_session_stream(v->fs), &type, p, BULK_FRAME_MAX, SLICE_MS);
		if (!rc && type == BULK_COMMITTED)
			rc = committed_take(v->committed, p);
		else if (!rc && type != BULK_BEAT && type < BULK_SKIPPED)
			break;
		if (now_ns() >= end || srv_stop)
			rc = -ETIMEDOUT;
		else if (rc == -ETIMEDOUT)
			rc = 0;
	}

	if (rc || type == BULK_ABORT)
		return rc ? rc : -ECANCELED;
	committed_recall(v->committed);
	return type == BULK_DOOR ? third_door_get(p, &v->door) : -EPROTO;
}

/* Send the reply 150, then exchange frames until the client has ended the copy. */
static int give_to_door(struct give *v, struct transfer_result *res)
{
	struct buf *b CLEANUP_BUF = buf_new(BULK_FRAME_MAX);
	struct mstream *client = ftp_session_stream(v->fs);
	struct err e = ERR_INIT;
	int result, rc = ftp_session_reply(v->fs, 150, "Frames follow");

	if (!rc)
		rc = b ? third_key_put(b, v->pin) : -ENOMEM;
	if (!rc)
		rc = ms_write_frame(client, BULK_KEY, buf_ptr(b), buf_len(b));
	if (!rc)
		rc = read_door(v);
	if (rc && rc != -ECANCELED) {
		log_warn("%s: a copy to another server ends before it begins: %s",
			 v->s->peer_text, strerror(-rc));
		return rc;
	}

	srv_report_begin(v->s, true, 0, v->nitems ? v->items[0].path : "");
	result = relay_start(&v->relay, client, v->g.flags & THIRD_F_EACH_FILE, &e);
	v->where = THIRD_HERE;
	if (!result && rc == -ECANCELED) {
		v->where = THIRD_CLIENT;
		result = err_set(&e, -EINTR, "interrupted");
	} else if (!result) {
		result = give_files(v, res, &e);
	}
	ms_free(steal_ptr(&v->ms));
	srv_log_result(v->s, v->fs, "give", v->nitems ? v->items[0].path : "", res, result, &e);
	return finish_copy(v->fs, &v->relay, res, result, v->where, &e);
}

static int serve_give(struct give *v, struct transfer_result *res)
{
	const char *why = ftp_account_refuses(ftp_session_account(v->fs), FTP_NEEDS_SEE);
	struct err e = ERR_INIT;

	if (v->s->method == AUTH_ANONYMOUS && v->s->sv->opt.third_party != THIRD_PARTY_ALL)
		return ftp_session_reply(v->fs, 550, "Permission denied: anonymous may not copy to "
					 "another server (use rftp get, then rftp put; or "
					 "rftpd --third-party all)");
	if (why)
		return ftp_session_reply(v->fs, 550, "%s", why);

	/* Without TLS an attacker between us and our client could read the token and replace the
	 * pins. */
	if (!ftp_session_secret(v->fs) && v->g.request.offer.prot_min > PROT_CLEAR)
		return ftp_session_reply(v->fs, 522, NO_TLS_WHY);
	if (make_items(v, &e))
		return ftp_session_reply(v->fs, 451, "%s", e.text);

	v->tls = tls_pinned_new(false, &v->pin, &e);
	if (!v->tls)
		return ftp_session_reply(v->fs, 451, "%s", e.text);
	return give_to_door(v, res);
}

int srv_give(void *arg, struct ftp_session *fs, struct buf *body)
{
	struct transfer_result *res CLEANUP_FREE = calloc(1, sizeof(*res));
	struct give v = { .s = arg, .fs = fs };
	struct err e = ERR_INIT;
	int rc = third_give_get(body, &v.g, &e);

	if (rc)
		return srv_refuse_malformed(v.s, fs, rc, &e);
	rc = res ? serve_give(&v, res) : ftp_session_reply(fs, 451, NO_MEMORY);

	committed_free(v.committed);
	tls_ctx_free(v.tls);
	free(v.pin);
	for (uint32_t i = 0; v.paths && i < v.nitems; i++)
		free(v.paths[i]);
	free(v.paths);
	free(v.items);
	third_give_clear(&v.g);
	crypto_wipe(v.key, sizeof(v.key));
	crypto_wipe(&v.door, sizeof(v.door));
	return rc;
}
