// SPDX-License-Identifier: Apache-2.0
/* A copy from one server directly to another. This host asks the source for the pin of its key, and
 * the sink for a "door", a listening address that only this key opens. Then it sends the door to
 * the source, and two threads read the frames of both servers until both have ended. */
#include "client/engine.h"

#include <netdb.h>
#include <poll.h>
#include <pthread.h>
#include <sys/eventfd.h>

/* ALONE_MS: time for a server to end by itself after the other one has ended. LEAVE_MS: time for
 * both to end after a request to stop. */
enum { ALONE_MS = 3000, LEAVE_MS = 5000 };

/* One of the two servers. */
struct third_side {
	struct third_copy *copy;
	struct server *server;
	char *host;                      /* its name in messages; with the port if both servers are
					  * on one host */
	struct relay_reader reader;
	struct transfer_events events;
	struct third_result *result;
	pthread_t thread;
	/* Guarded by the copy's lock while the threads run: told and over. */
	bool asked;                      /* it sends frames, the last ones RESULT and END */
	bool told;                       /* RESULT has arrived; only END is missing */
	bool over;                       /* the stream is in line mode again, or closed */
	struct err lost;                 /* code 0: the connection is not lost */
};

static struct third_side *source_of(const struct third_copy *c)
{
	return &c->sides[0];
}

static struct third_side *sink_of(const struct third_copy *c)
{
	return &c->sides[1];
}

static bool third_stopped(const struct third_copy *c)
{
	return c->attempts.env->stopped(c->attempts.env->arg);
}

/* ---- events of both servers, in their threads ---- */

static void third_on_started(void *arg, const struct agreement *a)
{
	struct third_copy *c = arg;
	LOCK_GUARD(guard, &c->lock);

	c->events.started(c->events.arg, a);
}

/* Report progress. */
static void third_on_source(void *arg, const struct transfer_progress *p)
{
	struct third_copy *c = arg;
	LOCK_GUARD(guard, &c->lock);

	c->events.progress(c->events.arg, p);
}

static void third_on_sink(void *arg, const struct transfer_progress *p)
{
	struct third_copy *c = arg;
	LOCK_GUARD(guard, &c->lock);

	if (c->sink_progress)
		c->sink_progress(c->sink_arg, p);
}

static void third_on_file_done(void *arg, const struct file_report *f)
{
	struct third_copy *c = arg;
	LOCK_GUARD(guard, &c->lock);

	c->events.file_done(c->events.arg, f);
}

/* The host that a text of the source is about. The source calls the sink "the server": if *text
 * begins so, remove this prefix and return the sink's host. */
static const char *third_host_meant(const struct third_copy *c, const char **text)
{
	static const char by_sink[] = "on the server: ";

	if (strncmp(*text, by_sink, sizeof(by_sink) - 1))
		return source_of(c)->host;
	*text += sizeof(by_sink) - 1;
	return sink_of(c)->host;
}

static void third_on_file_failed(void *arg, const char *path, int code, const char *text)
{
	struct third_copy *c = arg;
	struct err e = ERR_INIT;
	const char *host;
	LOCK_GUARD(guard, &c->lock);

	if (*text) {
		host = third_host_meant(c, &text);
		err_set(&e, code, "%s: %s", printable(host), text);
	}
	c->events.file_failed(c->events.arg, path, code, e.text);
}

/* ---- requests to both servers ---- */

/* The flags of the request that the source will send to the sink. */
static uint32_t third_sink_flags(const struct third_copy *c)
{
	struct bulk_request onward;

	bulk_request_onward(&c->give.request, &onward);
	return onward.flags;
}

static int side_check(const struct third_side *d, struct err *e)
{
	const struct ftp_client *client = d->server->client;
	int prot = d->copy->give.request.offer.prot_min;

	if (!client->give || !client->take)
		return err_set(e, -EPROTONOSUPPORT, "%s does not copy from server to server: it is "
			       "not rftpd, or is too old for it, or its --third-party is off",
			       printable(d->host));
	if (bulk_possible(d->server, d == sink_of(d->copy) ? third_sink_flags(d->copy) :
			  d->copy->give.request.flags, e))
		return e->code;

	/* An attacker on a connection in clear could replace the pins, and read the copied data. */
	if (!client->ssh && !client->tls && prot > PROT_CLEAR)
		return err_set(e, -EPROTONOSUPPORT, "without TLS to %s there can be no --prot %s "
			       "between the servers: use --prot clear, or leave --plain away",
			       printable(d->host), prot_name((uint8_t)prot));
	return 0;
}

/* Send verb, and read frames until one of type arrives. A RESULT before that is an error. */
static int side_ask(struct third_side *d, enum ftp_verb verb, const struct buf *body,
		       uint8_t type, struct err *e)
{
	int rc = ftp_ask(d->server->client, verb, body, e);

	if (rc)
		return rc;

	d->asked = true;
	d->reader.ms = d->server->client->ms;
	d->reader.until = type;
	rc = relay_read(&d->reader, e);
	if (!rc && d->reader.type == type)
		return 0;
	return rc ? err_prefix(e, "%s", printable(d->host)) :
		    err_set(e, -EPROTO, "%s has ended before the copy began", printable(d->host));
}

/* Send the request to the source, which answers with the pin of its key. Send the pin to the sink,
 * which answers with its door. */
static int third_ask_both(struct third_copy *c, struct third_door *door, struct err *e)
{
	struct buf *give CLEANUP_BUF = buf_new(THIRD_BODY_MAX);
	struct buf *take CLEANUP_BUF = buf_new(THIRD_BODY_MAX);
	const struct bulk_request *q = &c->give.request;
	struct third_take t = { .base = q->base, .prot_min = q->offer.prot_min,
				.policy = q->policy, .request_flags = third_sink_flags(c),
				.sync = q->sync, .filter = q->filter };
	int rc = give && take ? third_give_put(give, &c->give) : -ENOMEM;

	if (rc == -ENOBUFS)
		return err_set(e, -E2BIG, BULK_LONG_WHY);
	if (rc)
		return err_sys(e, rc, "request");

	rc = side_ask(source_of(c), FTP_GIVE, give, BULK_KEY, e);
	if (rc)
		return rc;
	if (third_key_get(source_of(c)->reader.p, t.pin))
		return err_set(e, -EPROTO, "%s sent a malformed key",
			       printable(source_of(c)->host));

	rc = third_take_put(take, &t);
	if (rc)
		return err_sys(e, rc, "request");
	rc = side_ask(sink_of(c), FTP_TAKE, take, BULK_DOOR, e);
	if (!rc && third_door_get(sink_of(c)->reader.p, door))
		rc = err_set(e, -EPROTO, "%s sent a malformed door", printable(sink_of(c)->host));
	return rc;
}

static void third_add_address(struct third_door *d, const char *addr)
{
	if (!*addr || strlen(addr) > THIRD_HOST_MAX || d->naddrs == THIRD_ADDRESSES)
		return;
	for (const char *c = addr; *c; c++)
		if (*c <= ' ' || *c > '~') /* not a host name that the source can use */
			return;
	for (uint32_t i = 0; i < d->naddrs; i++)
		if (!strcmp(d->addrs[i], addr))
			return;
	snprintf(d->addrs[d->naddrs++], sizeof(d->addrs[0]), "%s", addr);
}

/* Send the door to the source. Prefer the sink's host name to its address: the name usually works
 * from the source as well, while the address may be in a network that the source cannot reach. A
 * host name for ssh may be known only to this host. */
static int third_tell_door(struct third_copy *c, struct third_door *door, struct err *e)
{
	struct buf *b CLEANUP_BUF = buf_new(BULK_FRAME_MAX);
	struct mstream *ms = source_of(c)->reader.ms;
	const struct url *p = &sink_of(c)->server->url;
	const struct ftp_client *sink = sink_of(c)->server->client;
	char numeric[NI_MAXHOST] = "";
	int rc;

	if (sink->peer_len)
		getnameinfo((const struct sockaddr *)&sink->peer, sink->peer_len, numeric,
			    sizeof(numeric), NULL, 0, NI_NUMERICHOST);
	door->naddrs = 0;
	if (p->kind == URL_SSH)
		third_add_address(door, numeric);
	third_add_address(door, p->host);
	third_add_address(door, numeric);

	rc = b ? third_door_put(b, door) : -ENOMEM;
	if (!rc && c->attempts.committed)
		rc = committed_send(c->attempts.committed, ms);
	if (!rc)
		rc = ms_write_frame(ms, BULK_DOOR, buf_ptr(b), buf_len(b));
	return rc ? err_sys(e, rc, "%s", printable(source_of(c)->host)) : 0;
}

/* ---- until both have ended ---- */

static void *side_main(void *arg)
{
	struct third_side *d = arg;
	struct third_copy *c = d->copy;
	uint64_t one = 1;
	int rc;

	d->reader.until = BULK_RESULT;
	rc = d->reader.type == BULK_RESULT ? 0 : relay_read(&d->reader, &d->lost);
	if (!rc && third_result_get(d->reader.p, d->result))
		rc = err_set(&d->lost, -EPROTO, "its result is malformed");

	pthread_mutex_lock(&c->lock);
	d->told = !rc;
	pthread_mutex_unlock(&c->lock);
	if (!rc)
		rc = relay_leave(&d->reader, &d->lost);

	pthread_mutex_lock(&c->lock);
	d->over = true;
	pthread_mutex_unlock(&c->lock);
	if (write(c->done, &one, sizeof(one)) < 0)
		log_debug("eventfd: %s", strerror(errno));
	return NULL;
}

static bool side_over(struct third_side *d)
{
	LOCK_GUARD(guard, &d->copy->lock);

	return !d->asked || d->over;
}

static void side_stop(struct third_side *d)
{
	LOCK_GUARD(guard, &d->copy->lock);

	if (d->asked && !d->told && !d->over)
		relay_stop(d->reader.ms);
}

/* Wait until both have ended. ALONE_MS after one has ended, or at once after an interrupt, ask the
 * other to stop; LEAVE_MS later abort its connection. */
static void third_wait_both(struct third_copy *c)
{
	const struct engine_env *env = c->attempts.env;
	uint64_t end = UINT64_MAX, now, events;
	bool asked = false;

	while (!side_over(source_of(c)) || !side_over(sink_of(c))) {
		bool stop = third_stopped(c);

		if (stop && !asked)
			end = 0;
		else if (end == UINT64_MAX && (side_over(source_of(c)) || side_over(sink_of(c))))
			end = now_ns() + ALONE_MS * 1000000ull;
		now = now_ns();
		if (now < end) {
			struct pollfd p[] = { { .fd = c->done, .events = POLLIN },
					      { .fd = stop ? -1 : env->stop_fd(env->arg),
						.events = POLLIN } };

			poll(p, 2, end == UINT64_MAX ? -1 : (int)((end - now) / 1000000) + 1);
			(void)!read(c->done, &events, sizeof(events)); /* fails if there is no
									* event */
			continue;
		}

		if (asked) {
			if (!side_over(source_of(c)))
				ms_abort(source_of(c)->reader.ms);
			if (!side_over(sink_of(c)))
				ms_abort(sink_of(c)->reader.ms);
			end = UINT64_MAX;
		} else {
			side_stop(source_of(c));
			side_stop(sink_of(c));
			end = now + LEAVE_MS * 1000000ull;
		}
		asked = true;
	}
}

/* Read the frames of both sides. Each has a thread, so that neither waits for the other. */
static int third_read_both(struct third_copy *c, struct err *e)
{
	struct third_side *const sides[] = { source_of(c), sink_of(c) };
	bool on[2] = { false, false };
	int rc = 0;

	for (int i = 0; i < 2; i++) {
		if (!sides[i]->asked || sides[i]->over)
			continue;
		rc = thread_start(&sides[i]->thread, "listen", side_main, sides[i]);
		on[i] = !rc;
		if (rc) {
			thread_failed(e, rc);
			ms_abort(sides[i]->reader.ms);
			sides[i]->over = true;
		}
	}

	third_wait_both(c);
	for (int i = 0; i < 2; i++)
		if (on[i])
			pthread_join(sides[i]->thread, NULL);
	return rc;
}

/* Bring the stream back to line mode, or close an unusable connection. */
static void side_close(struct third_side *d)
{
	struct err e = ERR_INIT;

	if (d->asked && (d->lost.code || !d->told || ftp_closing(d->server->client, &e)))
		server_close(d->server);
}

/* ---- the outcome ---- */

static bool side_blames(const struct third_side *d, enum third_where where)
{
	return d->told && d->result->code && d->result->where == where;
}

/* Set e to the error of the side that is nearest to the cause. */
static int third_explain(const struct third_copy *c, struct err *e)
{
	const struct third_side *a = source_of(c), *b = sink_of(c);
	const char *text = a->result->text, *host = third_host_meant(c, &text);

	if (side_blames(a, THIRD_HERE))
		return err_set(e, a->result->code, "%s: %s", printable(host), text);
	if (side_blames(b, THIRD_HERE))
		return err_set(e, b->result->code, "%s: %s", printable(b->host), b->result->text);
	if (side_blames(a, THIRD_REACH))
		return err_set(e, a->result->code, "%s cannot reach %s: %s", printable(a->host),
			       printable(b->host), a->result->text);
	if (a->lost.code)
		return err_set(e, a->lost.code, "%s: %s", printable(a->host), a->lost.text);
	if (b->lost.code && !(a->told && !a->result->code))
		return err_set(e, b->lost.code, "%s: %s", printable(b->host), b->lost.text);
	if (side_blames(a, THIRD_OTHER))
		return err_set(e, a->result->code, "%s, talking to %s: %s", printable(a->host),
			       printable(b->host), a->result->text);
	if (side_blames(b, THIRD_REACH) || side_blames(b, THIRD_OTHER))
		return err_set(e, b->result->code, "%s, talking to %s: %s", printable(b->host),
			       printable(a->host), b->result->text);
	if (side_blames(a, THIRD_CLIENT) || side_blames(b, THIRD_CLIENT))
		return err_set(e, -EINTR, "interrupted");
	return err_set(e, -EPROTO, "%s and %s ended without a result", printable(a->host),
		       printable(b->host));
}

/* ---- attempts ---- */

/* An interrupt ends the wait for a server's answer. */
static void third_abort_both(void *arg)
{
	const struct third_copy *c = arg;

	ms_abort(source_of(c)->server->client->ms);
	ms_abort(sink_of(c)->server->client->ms);
}

/* Make one attempt; both servers are connected. 0 with *r, or a negative errno with a text that
 * names the host. An unusable connection is closed. */
static int third_once(void *arg, unsigned attempt, struct transfer_result *r, struct err *e)
{
	struct third_copy *c = arg;
	const struct engine_env *env = c->attempts.env;
	struct third_side *const sides[] = { source_of(c), sink_of(c) };
	const struct third_result *source = source_of(c)->result, *sink = sink_of(c)->result;
	struct third_door door = { 0 };
	struct err why = ERR_INIT;
	struct sentry stop;
	int rc;

	(void)attempt;
	source_of(c)->events = (struct transfer_events){
		.started = third_on_started, .progress = third_on_source,
		.file_done = c->events.file_done ? third_on_file_done : NULL,
		.file_failed = third_on_file_failed, .arg = c,
	};
	/* Of the sink only progress is used: the source reports the sink's failures, too. */
	sink_of(c)->events = (struct transfer_events){ .progress = third_on_sink, .arg = c };

	/* Also for retries: another attempt skips the committed files, so it needs the event of
	 * each file. */
	c->give.flags = c->events.file_done || c->attempts.retries ? THIRD_F_EACH_FILE : 0;
	for (int i = 0; i < 2; i++) {
		sides[i]->asked = sides[i]->told = sides[i]->over = false;
		sides[i]->lost = (struct err)ERR_INIT;
		sides[i]->reader.type = 0;
		memset(sides[i]->result, 0, sizeof(*sides[i]->result));
		rc = side_check(sides[i], e);
		if (rc)
			return rc;
	}

	env->stoppable(env->arg, true);
	rc = sentry_start(&stop, "stop", env->stop_fd(env->arg), third_abort_both, c, e);
	if (!rc)
		rc = third_ask_both(c, &door, e);
	if (!rc)
		rc = third_tell_door(c, &door, e);
	sentry_end(&stop);
	crypto_wipe(&door, sizeof(door));
	if (rc) { /* stop a side that has begun, without delay */
		side_stop(source_of(c));
		side_stop(sink_of(c));
	}

	if (third_read_both(c, &why) && !rc)
		rc = err_set(e, why.code, "%s", why.text);
	side_close(source_of(c));
	side_close(sink_of(c));
	env->stoppable(env->arg, false);

	if (rc && third_stopped(c)) {
		server_close(source_of(c)->server);
		server_close(sink_of(c)->server);
		return err_set(e, -EINTR, "interrupted");
	}

	/* Report a refusal as the cause; that the other side was stopped afterwards is only a
	 * symptom. */
	if (rc && !side_blames(source_of(c), THIRD_HERE) && !side_blames(sink_of(c), THIRD_HERE))
		return rc;

	if (source_of(c)->told && !source->code) {
		/* The sink has confirmed all files to the source, so a lost connection from us to
		 * the sink does not matter. */
		if (sink_of(c)->lost.code)
			log_warn("%s: %s (after the copy was complete)",
				 printable(sink_of(c)->host), sink_of(c)->lost.text);
		*r = source->of;
		return 0;
	}

	/* At least the side that still answers knows whether the sink keeps a part. */
	r->wall_ns = source->of.wall_ns ? source->of.wall_ns : sink->of.wall_ns;
	r->resumable = source->of.resumable || sink->of.resumable;
	return third_stopped(c) ? err_set(e, -EINTR, "interrupted") : third_explain(c, e);
}

static int third_connect(void *arg, struct err *e)
{
	struct third_copy *c = arg;
	struct third_side *const sides[] = { source_of(c), sink_of(c) };

	for (int i = 0; i < 2; i++) {
		int rc = server_connect(sides[i]->server, e);

		if (error_is_lost(rc))
			return err_prefix(e, "%s", printable(sides[i]->host));
		if (rc)
			return rc;
	}

	/* A source older than version 2.1 does not report which files changed. */
	c->attempts.rereads = source_of(c)->server->client->bulk.minor >= 1;
	return 0;
}

/* ---- setup ---- */

static int side_init(struct third_side *d, struct third_copy *c, struct server *s,
		     const struct server *other)
{
	d->copy = c;
	d->server = s;
	if (!same_text(s->url.host, other->url.host))
		d->host = strdup(s->url.host);
	else if (asprintf(&d->host, "%s port %u", s->url.host, url_port(&s->url)) < 0)
		d->host = NULL;
	d->result = calloc(1, sizeof(*d->result));
	d->reader.p = buf_new(BULK_FRAME_MAX);
	d->reader.ev = &d->events;
	return d->host && d->result && d->reader.p ? 0 : -ENOMEM;
}

int third_copy_init(struct third_copy *c, struct server *from, struct server *to,
		    const struct options *o, struct err *e)
{
	struct bulk_request *q = &c->give.request;

	memset(c, 0, sizeof(*c));
	pthread_mutex_init(&c->lock, NULL);
	c->done = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	c->sides = calloc(2, sizeof(*c->sides));
	c->attempts = (struct attempts){
		.connect = third_connect, .once = third_once, .arg = c, .env = from->env,
		.retries = o->retries, .request = q,
	};
	if (c->done < 0)
		return err_sys(e, -errno, "copy");
	if (!c->sides || side_init(source_of(c), c, from, to) ||
	    side_init(sink_of(c), c, to, from))
		return err_nomem(e);
	if (o->retries && o->ack != ACK_RECEIVED)
		c->attempts.committed = committed_new();
	source_of(c)->reader.committed = c->attempts.committed;

	q->major = BULK_MAJOR;
	q->minor = BULK_MINOR;
	if (bulk_request_of(o, BULK_PUT, q))
		return err_nomem(e);
	if (filter_is_set(&q->filter))
		q->flags |= BULK_F_FILTER;
	c->give.connect_ms = (uint32_t)(o->connect_timeout / 1000000);
	if (c->give.connect_ms > THIRD_CONNECT_MS_MAX)
		c->give.connect_ms = THIRD_CONNECT_MS_MAX;
	return 0;
}

void third_copy_clear(struct third_copy *c)
{
	for (int i = 0; c->sides && i < 2; i++) {
		free(c->sides[i].host);
		free(c->sides[i].result);
		buf_free(c->sides[i].reader.p);
	}
	free(c->sides);
	third_give_clear(&c->give);
	committed_free(c->attempts.committed);
	cleanup_close(&c->done);
	pthread_mutex_destroy(&c->lock);
}
