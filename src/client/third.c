// SPDX-License-Identifier: Apache-2.0
/* The source is asked for a key, the sink for a door that only this key opens; then the source
 * learns where the door is, and the two are listened to until both are through. */
#include "client/third.h"

#include "client/bulk.h"
#include "client/signals.h"

#include <errno.h>
#include <netdb.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#define JSON_EVERY_SECONDS 1.0
/* For a server to end by itself when the other has, and for both to take leave when they are
 * asked to. */
enum { ALONE_MS = 3000, LEAVE_MS = 5000 };

/* ---- what the two tell ---- */

/* What is slow: each knows its own side, and the network only together. */
static const char *slowest(const struct transfer_progress *source,
			   const struct transfer_progress *sink)
{
	if (source->bottleneck && strcmp(source->bottleneck, "network or sink"))
		return source->bottleneck;
	if (!source->bottleneck || !sink->bottleneck)
		return source->bottleneck;
	return strcmp(sink->bottleneck, "sink") ? "network" : "sink";
}

static void on_started(void *arg, const struct agreement *a)
{
	struct third *t = arg;
	LOCK_GUARD(guard, &t->lock);

	t->to.started(t->to.arg, a);
}

static void on_source(void *arg, const struct transfer_progress *p)
{
	struct third *t = arg;
	struct transfer_progress both = *p;
	LOCK_GUARD(guard, &t->lock);

	both.bottleneck = slowest(p, &t->at_sink);
	t->to.progress(t->to.arg, &both);
}

static const char *known_words(const char *words)
{
	static const char *const all[] = { "sink", "source or network", "rate" };

	for (size_t i = 0; words && i < sizeof(all) / sizeof(all[0]); i++)
		if (!strcmp(words, all[i]))
			return all[i];
	return NULL;
}

static void on_sink(void *arg, const struct transfer_progress *p)
{
	struct third *t = arg;
	json_t *obj;
	LOCK_GUARD(guard, &t->lock);

	t->at_sink = *p;
	t->at_sink.bottleneck = known_words(p->bottleneck);
	if (!t->o->json || p->seconds - t->sink_said < JSON_EVERY_SECONDS)
		return;
	t->sink_said = p->seconds;
	obj = event_progress(p);
	if (obj)
		json_object_set_new(obj, "at", json_string("sink"));
	json_emit(stdout, obj);
}

static void on_file_done(void *arg, const char *path, uint64_t bytes, bool skipped)
{
	struct third *t = arg;
	LOCK_GUARD(guard, &t->lock);

	t->to.file_done(t->to.arg, path, bytes, skipped);
}

/* The host that the source's text is about: the source is the client of the sink, which it calls
 * the server. */
static const char *host_meant(const struct third *t, const char **text)
{
	static const char by_sink[] = "on the server: ";

	if (strncmp(*text, by_sink, sizeof(by_sink) - 1))
		return t->source.host;
	*text += sizeof(by_sink) - 1;
	return t->sink.host;
}

static void on_file_failed(void *arg, const char *path, int code, const char *text)
{
	struct third *t = arg;
	struct err e = ERR_INIT;
	const char *host;
	LOCK_GUARD(guard, &t->lock);

	if (*text) {
		host = host_meant(t, &text);
		err_set(&e, code, "%s: %s", printable(host), text);
	}
	t->to.file_failed(t->to.arg, path, code, e.text);
}

/* ---- beginning and end ---- */

static int side_init(struct third_side *d, struct third *t, struct server *s,
		     const struct server *other)
{
	d->t = t;
	d->server = s;
	if (!server_same_text(s->place.host, other->place.host))
		d->host = strdup(s->place.host);
	else if (asprintf(&d->host, "%s port %u", s->place.host, place_port(&s->place)) < 0)
		d->host = NULL;
	d->result = calloc(1, sizeof(*d->result));
	d->reader.p = buf_new(BULK_FRAME_MAX);
	d->reader.ev = &d->events;
	return d->host && d->result && d->reader.p ? 0 : -ENOMEM;
}

static void side_clear(struct third_side *d)
{
	free(d->host);
	free(d->result);
	buf_free(d->reader.p);
}

int third_init(struct third *t, struct server *source, struct server *sink,
	       const struct options *o, struct report *r, struct err *e)
{
	int rc;

	memset(t, 0, sizeof(*t));
	t->o = o;
	t->to = report_events(r);
	t->done = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	pthread_mutex_init(&t->lock, NULL);
	rc = t->done < 0 ? -errno : side_init(&t->source, t, source, sink);
	if (!rc)
		rc = side_init(&t->sink, t, sink, source);
	t->source.events = (struct transfer_events){
		.started = on_started, .progress = on_source,
		.file_done = t->to.file_done ? on_file_done : NULL,
		.file_failed = on_file_failed, .arg = t,
	};
	if (o->retries && o->ack != ACK_RECEIVED)
		t->committed = committed_new();
	t->source.reader.committed = t->committed;
	/* What fails there the source tells, too. */
	t->sink.events = (struct transfer_events){ .progress = on_sink, .arg = t };
	return rc ? err_sys(e, rc, "copy") : 0;
}

void third_clear(struct third *t)
{
	side_clear(&t->source);
	side_clear(&t->sink);
	third_give_clear(&t->give);
	committed_free(t->committed);
	cleanup_close(&t->done);
	pthread_mutex_destroy(&t->lock);
}

/* ---- asking ---- */

static int side_check(const struct third_side *d, struct err *e)
{
	if (!ftp_has_third(d->server->client))
		return err_set(e, -EPROTONOSUPPORT, "%s does not copy from server to server: it is "
			       "no rftpd, or one before that, or its --third-party is off",
			       printable(d->host));
	if (bulk_possible(d->server, d->t->give.request.flags, e))
		return e->code;
	/* Who listens on the line could put himself between the two. */
	if (!ftp_client_private(d->server->client) && d->t->o->prot > PROT_CLEAR)
		return err_set(e, -EPROTONOSUPPORT, "without TLS to %s there can be no --prot %s "
			       "between the servers: use --prot clear, or leave --plain away",
			       printable(d->host), prot_name((uint8_t)d->t->o->prot));
	return 0;
}

/* Say verb, and read frames until one of type, or a result. */
static int side_ask(struct third_side *d, enum ftp_verb verb, const struct buf *body,
		    uint8_t type, struct err *e)
{
	int rc = ftp_ask(d->server->client, verb, body, e);

	if (rc)
		return rc;
	d->asked = true;
	d->reader.ms = ftp_client_stream(d->server->client);
	d->reader.until = type;
	rc = relay_read(&d->reader, e);
	if (!rc && d->reader.type == type)
		return 0;
	return rc ? err_prefix(e, "%s", printable(d->host)) :
		    err_set(e, -EPROTO, "%s is through before it has begun", printable(d->host));
}

static int ask_source(struct third *t, char pin[THIRD_PIN_MAX + 1], struct err *e)
{
	struct buf *b CLEANUP_BUF = buf_new(THIRD_BODY_MAX);
	int rc = b ? third_give_put(b, &t->give) : -ENOMEM;

	if (rc == -ENOBUFS)
		return err_set(e, -E2BIG, "the list of names is longer than a request may be");
	if (rc)
		return err_sys(e, rc, "request");
	rc = side_ask(&t->source, FTP_GIVE, b, BULK_KEY, e);
	if (!rc && third_key_get(t->source.reader.p, pin))
		rc = err_set(e, -EPROTO, "%s sent a key that makes no sense",
			     printable(t->source.host));
	return rc;
}

static int ask_sink(struct third *t, const char *pin, struct third_door *door, struct err *e)
{
	struct buf *b CLEANUP_BUF = buf_new(THIRD_BODY_MAX);
	struct third_take take = { .base = t->give.request.base,
				   .prot_min = t->give.request.offer.prot_min,
				   .policy = t->give.request.policy,
				   .request_flags = t->give.request.flags };
	int rc;

	snprintf(take.pin, sizeof(take.pin), "%s", pin);
	rc = b ? third_take_put(b, &take) : -ENOMEM;
	if (rc)
		return err_sys(e, rc, "request");
	rc = side_ask(&t->sink, FTP_TAKE, b, BULK_DOOR, e);
	if (!rc && third_door_get(t->sink.reader.p, door))
		rc = err_set(e, -EPROTO, "%s sent a door that makes no sense",
			     printable(t->sink.host));
	return rc;
}

/* ---- where the sink is ---- */

static void add_address(struct third_door *d, const char *addr)
{
	if (!*addr || strlen(addr) > THIRD_HOST_MAX || d->naddrs == THIRD_ADDRESSES)
		return;
	for (const char *c = addr; *c; c++)
		if (*c <= ' ' || *c > '~') /* a name of this host's own file, perhaps */
			return;
	for (uint32_t i = 0; i < d->naddrs; i++)
		if (!strcmp(d->addrs[i], addr))
			return;
	snprintf(d->addrs[d->naddrs++], sizeof(d->addrs[0]), "%s", addr);
}

/* A name means the same to the source, as a rule, where an address may be of a network that it
 * is not on; what ssh calls a host may be a name of ours only. */
static void add_addresses(const struct third_side *d, struct third_door *door)
{
	const struct place *p = &d->server->place;
	socklen_t len;
	const struct sockaddr_storage *peer = ftp_client_peer(d->server->client, &len);
	char numeric[NI_MAXHOST] = "";

	if (len)
		getnameinfo((const struct sockaddr *)peer, len, numeric, sizeof(numeric), NULL, 0,
			    NI_NUMERICHOST);
	door->naddrs = 0;
	if (p->kind == PLACE_SSH)
		add_address(door, numeric);
	add_address(door, p->host);
	add_address(door, numeric);
}

static int tell_door(struct third *t, struct third_door *door, struct err *e)
{
	struct buf *b CLEANUP_BUF = buf_new(BULK_FRAME_MAX);
	int rc;

	add_addresses(&t->sink, door);
	rc = b ? third_door_put(b, door) : -ENOMEM;
	if (!rc && t->committed)
		rc = committed_send(t->committed, t->source.reader.ms);
	if (!rc)
		rc = ms_write_frame(t->source.reader.ms, BULK_DOOR, buf_ptr(b), buf_len(b));
	return rc ? err_sys(e, rc, "%s", printable(t->source.host)) : 0;
}

/* ---- until both are through ---- */

static void *listen_main(void *arg)
{
	struct third_side *d = arg;
	struct third *t = d->t;
	uint64_t one = 1;
	int rc;

	d->reader.until = BULK_RESULT;
	rc = d->reader.type == BULK_RESULT ? 0 : relay_read(&d->reader, &d->lost);
	if (!rc && third_result_get(d->reader.p, d->result))
		rc = err_set(&d->lost, -EPROTO, "its result makes no sense");
	pthread_mutex_lock(&t->lock);
	d->told = !rc;
	pthread_mutex_unlock(&t->lock);
	if (!rc)
		rc = relay_leave(&d->reader, &d->lost);
	pthread_mutex_lock(&t->lock);
	d->over = true;
	pthread_mutex_unlock(&t->lock);
	if (write(t->done, &one, sizeof(one)) < 0)
		log_debug("eventfd: %s", strerror(errno));
	return NULL;
}

static bool is_over(struct third_side *d)
{
	LOCK_GUARD(guard, &d->t->lock);

	return !d->asked || d->over;
}

/* Sleep until something is over, or the user wants to stop, or the time end. */
static void third_sleep(struct third *t, bool stopping, uint64_t end)
{
	struct pollfd p[] = { { .fd = t->done, .events = POLLIN },
			      { .fd = stopping ? -1 : signals_fd(), .events = POLLIN } };
	uint64_t now = now_ns(), n;
	int ms = end == UINT64_MAX ? -1 : now < end ? (int)((end - now) / 1000000) + 1 : 0;

	poll(p, 2, ms);
	(void)!read(t->done, &n, sizeof(n)); /* there may be none */
}

static void ask_stop(struct third_side *d)
{
	LOCK_GUARD(guard, &d->t->lock);

	if (d->asked && !d->told && !d->over)
		relay_stop(d->reader.ms);
}

static void abort_side(struct third_side *d)
{
	if (!is_over(d))
		ms_abort(d->reader.ms);
}

/* When one is over, or the user stops both, there is a time for the other; then it is asked to
 * stop, and at last left. */
static void wait_both(struct third *t)
{
	uint64_t end = UINT64_MAX;
	bool asked = false;

	while (!is_over(&t->source) || !is_over(&t->sink)) {
		bool stop = signals_stopped();

		if (stop && !asked)
			end = 0;
		else if (end == UINT64_MAX && (is_over(&t->source) || is_over(&t->sink)))
			end = now_ns() + ALONE_MS * 1000000ull;
		if (now_ns() < end) {
			third_sleep(t, stop, end);
			continue;
		}
		if (asked) {
			abort_side(&t->source);
			abort_side(&t->sink);
			end = UINT64_MAX;
		} else {
			ask_stop(&t->source);
			ask_stop(&t->sink);
			end = now_ns() + LEAVE_MS * 1000000ull;
		}
		asked = true;
	}
}

/* Both are listened to by threads of their own, for neither may have to wait for the other. */
static int listen_both(struct third *t, struct err *e)
{
	struct third_side *const sides[] = { &t->source, &t->sink };
	bool on[2] = { false, false };
	int rc = 0;

	for (int i = 0; i < 2; i++) {
		if (!sides[i]->asked || sides[i]->over)
			continue;
		rc = thread_start(&sides[i]->thread, "listen", listen_main, sides[i]);
		on[i] = !rc;
		if (rc) {
			err_sys(e, rc, "cannot start a thread");
			ms_abort(sides[i]->reader.ms);
			sides[i]->over = true;
		}
	}
	wait_both(t);
	for (int i = 0; i < 2; i++)
		if (on[i])
			pthread_join(sides[i]->thread, NULL);
	return rc;
}

/* FTP's lines again, or the connection is of no more use. */
static void side_close(struct third_side *d)
{
	struct err e = ERR_INIT;

	if (!d->asked)
		return;
	if (d->lost.code || !d->told || ftp_closing(d->server->client, &e))
		server_close(d->server);
}

/* ---- the outcome ---- */

static bool complains(const struct third_side *d, enum third_where where)
{
	return d->told && d->result->code && d->result->where == where;
}

static int say(struct err *e, int code, const char *host, const char *what, const char *other,
	       const char *text)
{
	return err_set(e, code, "%s%s%s: %s", printable(host), what, other ? printable(other) : "",
		       text);
}

/* Who knows best what went wrong. */
static int explain(const struct third *t, struct err *e)
{
	const struct third_side *a = &t->source, *b = &t->sink;
	const char *text = a->result->text, *host = host_meant(t, &text);

	if (complains(a, THIRD_HERE))
		return say(e, a->result->code, host, "", NULL, text);
	if (complains(b, THIRD_HERE))
		return say(e, b->result->code, b->host, "", NULL, b->result->text);
	if (complains(a, THIRD_REACH))
		return say(e, a->result->code, a->host, " cannot reach ", b->host,
			   a->result->text);
	if (a->lost.code)
		return say(e, a->lost.code, a->host, "", NULL, a->lost.text);
	if (b->lost.code && !(a->told && !a->result->code))
		return say(e, b->lost.code, b->host, "", NULL, b->lost.text);
	if (complains(a, THIRD_OTHER))
		return say(e, a->result->code, a->host, ", talking to ", b->host,
			   a->result->text);
	if (complains(b, THIRD_REACH) || complains(b, THIRD_OTHER))
		return say(e, b->result->code, b->host, ", talking to ", a->host,
			   b->result->text);
	if (complains(a, THIRD_CLIENT) || complains(b, THIRD_CLIENT))
		return err_set(e, -EINTR, "interrupted");
	return 0;
}

static int outcome(const struct third *t, struct transfer_result *r, struct err *e)
{
	if (t->source.told && !t->source.result->code) {
		/* The sink has told the source that all is there, whatever it could tell us. */
		if (t->sink.lost.code)
			log_warn("%s: %s, at the end", printable(t->sink.host), t->sink.lost.text);
		relay_take(t->source.result, r);
		return 0;
	}
	/* The end that lives knows whether the sink keeps a part. */
	r->wall_ns = t->source.result->wall_ns ? t->source.result->wall_ns : t->sink.result->wall_ns;
	r->resumable = t->source.result->resumable || t->sink.result->resumable;
	if (signals_stopped())
		return err_set(e, -EINTR, "interrupted");
	if (explain(t, e))
		return e->code;
	return err_set(e, -EPROTO, "%s and %s end without a result", printable(t->source.host),
		       printable(t->sink.host));
}

static void side_begin(struct third_side *d)
{
	d->asked = d->told = d->over = false;
	d->lost = (struct err)ERR_INIT;
	d->reader.type = 0;
	memset(d->result, 0, sizeof(*d->result));
}

/* A server that does not answer is not waited for when the user wants to stop. */
static void abort_both(void *arg)
{
	const struct third *t = arg;

	ms_abort(ftp_client_stream(t->source.server->client));
	ms_abort(ftp_client_stream(t->sink.server->client));
}

static int begin(struct third *t, struct err *e)
{
	char pin[THIRD_PIN_MAX + 1];
	struct third_door door = { 0 };
	struct sentry stop;
	int rc = sentry_start(&stop, "stop", signals_fd(), abort_both, t, e);

	if (!rc)
		rc = ask_source(t, pin, e);
	if (!rc)
		rc = ask_sink(t, pin, &door, e);
	if (!rc)
		rc = tell_door(t, &door, e);
	sentry_end(&stop);
	crypto_wipe(&door, sizeof(door));
	return rc;
}

int third_once(struct third *t, struct transfer_result *r, struct err *e)
{
	struct err why = ERR_INIT;
	int rc;

	side_begin(&t->source);
	side_begin(&t->sink);
	memset(&t->at_sink, 0, sizeof(t->at_sink));
	t->sink_said = 0;
	rc = side_check(&t->source, e);
	if (!rc)
		rc = side_check(&t->sink, e);
	if (rc)
		return rc;
	signals_graceful(true);
	rc = begin(t, e);
	if (rc) { /* what has begun ends at once */
		ask_stop(&t->source);
		ask_stop(&t->sink);
	}
	if (listen_both(t, &why) && !rc)
		rc = err_set(e, why.code, "%s", why.text);
	side_close(&t->source);
	side_close(&t->sink);
	signals_graceful(false);
	if (rc && signals_stopped()) {
		server_close(t->source.server);
		server_close(t->sink.server);
		return err_set(e, -EINTR, "interrupted");
	}
	/* What was refused tells more than that the other was stopped then. */
	if (rc && !complains(&t->source, THIRD_HERE) && !complains(&t->sink, THIRD_HERE))
		return rc;
	return outcome(t, r, e);
}
