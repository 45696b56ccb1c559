// SPDX-License-Identifier: Apache-2.0
/* rftp cp: a copy from one server directly to another. rftp asks the source for the pin of its key,
 * and the sink for a "door", a listening address that only this key opens. Then it sends the door
 * to the source, and two threads read the frames of both servers until both have ended. */
#include "client/bulk.h"
#include "client/names.h"
#include "client/signals.h"

#include <netdb.h>
#include <poll.h>
#include <pthread.h>
#include <sys/eventfd.h>

#define JSON_EVERY_SECONDS 1.0
/* ALONE_MS: time for a server to end by itself after the other one has ended. LEAVE_MS: time for
 * both to end after a request to stop. */
enum { ALONE_MS = 3000, LEAVE_MS = 5000 };

/* One of the two servers. */
struct cp_side {
	struct cp *cp;
	struct server *server;
	char *host;                      /* its name in messages; with the port if both servers are
					  * on one host */
	struct relay_reader reader;
	struct transfer_events events;
	struct third_result *result;
	pthread_t thread;
	bool asked;                      /* it sends frames, the last ones RESULT and END */
	bool told;                       /* RESULT has arrived; only END is missing */
	bool over;                       /* the stream is in line mode again, or closed */
	struct err lost;                 /* code 0: the connection is not lost */
};

struct cp {
	/* The command line. */
	const struct options *o;
	struct url from;                 /* of the first source */
	struct url to;
	struct names paths;              /* paths on the source */
	struct names listed;             /* of --files-from: names below the only element of
					  * paths */
	/* The copy. */
	struct cp_side source, sink;
	struct third_give give;          /* the request */
	struct committed *committed;     /* the committed files; NULL: not recorded */
	struct transfer_events to_report;
	struct attempts attempts;
	/* Guards the members below, the members told and over of both sides while their threads
	 * run, and the calls of to_report's functions. */
	pthread_mutex_t lock;
	double sink_event_at;            /* the time of the last event of the sink, in seconds */
	int done;                        /* an eventfd: a side has ended */
};

/* ---- words ---- */

static int cp_add_source(struct cp *c, const char *word, struct err *e)
{
	const struct url *from = &c->from;
	struct url p;
	int rc = url_of_rftpd(word, &p, e);

	if (rc)
		return rc;

	if (c->paths.n && (p.kind != from->kind || p.port != from->port ||
			   !server_same_text(p.host, from->host) ||
			   !server_same_text(p.user, from->user)))
		rc = err_set(e, -EINVAL, "%s is on another server than the word before it: copy "
			     "from one at a time", printable(word));
	else if (names_add(&c->paths, strdup(server_path(&p))))
		rc = err_nomem(e);
	if (rc || c->paths.n > 1)
		url_clear(&p);
	else
		c->from = p;
	return rc;
}

static int cp_read_words(const struct job *j, struct cp *c, struct err *e)
{
	const char *to = j->words[j->nwords - 1];
	int last = j->nwords - 1, rc;

	if (last < 1)
		return err_set(e, -EINVAL, "a source and a destination are needed, both URLs");

	for (int i = 0; i < last; i++)
		if (!word_is_remote(j->words[i]) && word_is_remote(to))
			return err_set(e, -EINVAL, PUT_COPIES_WHY, printable(j->words[i]));
	if (!word_is_remote(to) && word_is_remote(j->words[0]))
		return err_set(e, -EINVAL, GET_COPIES_WHY,
			       printable(j->words[0]));

	rc = url_of_rftpd(to, &c->to, e);
	for (int i = 0; rc == 0 && i < last; i++)
		rc = cp_add_source(c, j->words[i], e);
	if (rc)
		return rc;

	if (j->o.files_from && c->paths.n > 1)
		return err_set(e, -EINVAL, FILES_FROM_WHY);
	if (j->o.files_from)
		return names_read(j->o.files_from, j->o.null, &c->listed, e);
	if (c->paths.n > 1 && !names_directory(c->to.path))
		return err_set(e, -EINVAL, DEST_SEVERAL_WHY,
			       printable(to));
	return 0;
}

/* ---- events of both servers, in their threads ---- */

static void cp_on_started(void *arg, const struct agreement *a)
{
	struct cp *c = arg;
	LOCK_GUARD(guard, &c->lock);

	c->to_report.started(c->to_report.arg, a);
}

/* Report progress. */
static void cp_on_source(void *arg, const struct transfer_progress *p)
{
	struct cp *c = arg;
	LOCK_GUARD(guard, &c->lock);

	c->to_report.progress(c->to_report.arg, p);
}

static void cp_on_sink(void *arg, const struct transfer_progress *p)
{
	struct cp *c = arg;
	json_t *obj;
	LOCK_GUARD(guard, &c->lock);

	if (!c->o->json || transfer_seconds(p) - c->sink_event_at < JSON_EVERY_SECONDS)
		return;
	c->sink_event_at = transfer_seconds(p);
	obj = event_progress(p);
	if (obj)
		json_object_set_new(obj, "at", json_string("sink"));
	json_emit(stdout, obj);
}

static void cp_on_file_done(void *arg, const struct file_report *f)
{
	struct cp *c = arg;
	LOCK_GUARD(guard, &c->lock);

	c->to_report.file_done(c->to_report.arg, f);
}

/* The host that a text of the source is about. The source calls the sink "the server": if *text
 * begins so, remove this prefix and return the sink's host. */
static const char *cp_host_meant(const struct cp *c, const char **text)
{
	static const char by_sink[] = "on the server: ";

	if (strncmp(*text, by_sink, sizeof(by_sink) - 1))
		return c->source.host;
	*text += sizeof(by_sink) - 1;
	return c->sink.host;
}

static void cp_on_file_failed(void *arg, const char *path, int code, const char *text)
{
	struct cp *c = arg;
	struct err e = ERR_INIT;
	const char *host;
	LOCK_GUARD(guard, &c->lock);

	if (*text) {
		host = cp_host_meant(c, &text);
		err_set(&e, code, "%s: %s", printable(host), text);
	}
	c->to_report.file_failed(c->to_report.arg, path, code, e.text);
}

/* ---- setup ---- */

static int cp_side_init(struct cp_side *d, struct cp *c, struct server *s,
			const struct server *other)
{
	d->cp = c;
	d->server = s;
	if (!server_same_text(s->url.host, other->url.host))
		d->host = strdup(s->url.host);
	else if (asprintf(&d->host, "%s port %u", s->url.host, url_port(&s->url)) < 0)
		d->host = NULL;
	d->result = calloc(1, sizeof(*d->result));
	d->reader.p = buf_new(BULK_FRAME_MAX);
	d->reader.ev = &d->events;
	return d->host && d->result && d->reader.p ? 0 : -ENOMEM;
}

static int cp_init(struct cp *c, struct server *from, struct server *to, struct report *r,
		   struct err *e)
{
	struct bulk_request *q = &c->give.request;
	const struct options *o = c->o;

	c->to_report = report_events(r);
	if (cp_side_init(&c->source, c, from, to) || cp_side_init(&c->sink, c, to, from))
		return err_nomem(e);
	c->done = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (c->done < 0)
		return err_sys(e, -errno, "copy");
	c->source.events = (struct transfer_events){
		.started = cp_on_started, .progress = cp_on_source,
		.file_done = c->to_report.file_done ? cp_on_file_done : NULL,
		.file_failed = cp_on_file_failed, .arg = c,
	};

	/* Of the sink only progress is used: the source reports the sink's failures, too. */
	c->sink.events = (struct transfer_events){ .progress = cp_on_sink, .arg = c };
	if (o->retries && o->ack != ACK_RECEIVED)
		c->committed = committed_new();
	c->source.reader.committed = c->committed;

	q->major = BULK_MAJOR;
	q->minor = BULK_MINOR;
	if (bulk_request_of(o, BULK_PUT, q))
		return err_nomem(e);
	if (filter_is_set(&q->filter))
		q->flags |= BULK_F_FILTER;
	bulk_request_sums(q, r, true);

	/* Also for retries: another attempt skips the committed files, so it needs the event of
	 * each file. */
	c->give.flags = c->to_report.file_done || o->retries ? THIRD_F_EACH_FILE : 0;
	c->give.connect_ms = (uint32_t)(o->connect_timeout / 1000000);
	if (c->give.connect_ms > THIRD_CONNECT_MS_MAX)
		c->give.connect_ms = THIRD_CONNECT_MS_MAX;

	q->base = strdup(c->to.path);
	if (!q->base || bulk_add_sources(q, c->paths.all, c->paths.n) ||
	    bulk_add_sources(q, c->listed.all, c->listed.n))
		return err_nomem(e);
	if (c->paths.n > 1)
		q->flags |= BULK_F_SEVERAL;
	return 0;
}

static void cp_clear(struct cp *c)
{
	struct cp_side *const sides[] = { &c->source, &c->sink };

	for (int i = 0; i < 2; i++) {
		free(sides[i]->host);
		free(sides[i]->result);
		buf_free(sides[i]->reader.p);
	}
	third_give_clear(&c->give);
	committed_free(c->committed);
	cleanup_close(&c->done);
	url_clear(&c->from);
	url_clear(&c->to);
	names_clear(&c->paths);
	names_clear(&c->listed);
	pthread_mutex_destroy(&c->lock);
}

/* ---- requests to both servers ---- */

/* The flags of the request that the source will send to the sink. */
static uint32_t cp_sink_flags(const struct cp *c)
{
	struct bulk_request onward;

	bulk_request_onward(&c->give.request, &onward);
	return onward.flags;
}

static int cp_side_check(const struct cp_side *d, struct err *e)
{
	const struct ftp_client *client = d->server->client;
	int prot = d->cp->o->prot;

	if (!client->give || !client->take)
		return err_set(e, -EPROTONOSUPPORT, "%s does not copy from server to server: it is "
			       "not rftpd, or is too old for it, or its --third-party is off",
			       printable(d->host));
	if (bulk_possible(d->server, d == &d->cp->sink ? cp_sink_flags(d->cp) :
			  d->cp->give.request.flags, e))
		return e->code;

	/* An attacker on a connection in clear could replace the pins, and read the copied data. */
	if (!client->ssh && !client->tls && prot > PROT_CLEAR)
		return err_set(e, -EPROTONOSUPPORT, "without TLS to %s there can be no --prot %s "
			       "between the servers: use --prot clear, or leave --plain away",
			       printable(d->host), prot_name((uint8_t)prot));
	return 0;
}

/* Send verb, and read frames until one of type arrives. A RESULT before that is an error. */
static int cp_side_ask(struct cp_side *d, enum ftp_verb verb, const struct buf *body,
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
static int cp_ask_both(struct cp *c, struct third_door *door, struct err *e)
{
	struct buf *give CLEANUP_BUF = buf_new(THIRD_BODY_MAX);
	struct buf *take CLEANUP_BUF = buf_new(THIRD_BODY_MAX);
	const struct bulk_request *q = &c->give.request;
	struct third_take t = { .base = q->base, .prot_min = q->offer.prot_min,
				.policy = q->policy, .request_flags = cp_sink_flags(c),
				.sync = q->sync, .filter = q->filter };
	int rc = give && take ? third_give_put(give, &c->give) : -ENOMEM;

	if (rc == -ENOBUFS)
		return err_set(e, -E2BIG, BULK_LONG_WHY);
	if (rc)
		return err_sys(e, rc, "request");

	rc = cp_side_ask(&c->source, FTP_GIVE, give, BULK_KEY, e);
	if (rc)
		return rc;
	if (third_key_get(c->source.reader.p, t.pin))
		return err_set(e, -EPROTO, "%s sent a malformed key", printable(c->source.host));

	rc = third_take_put(take, &t);
	if (rc)
		return err_sys(e, rc, "request");
	rc = cp_side_ask(&c->sink, FTP_TAKE, take, BULK_DOOR, e);
	if (!rc && third_door_get(c->sink.reader.p, door))
		rc = err_set(e, -EPROTO, "%s sent a malformed door", printable(c->sink.host));
	return rc;
}

static void cp_add_address(struct third_door *d, const char *addr)
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
static int cp_tell_door(struct cp *c, struct third_door *door, struct err *e)
{
	struct buf *b CLEANUP_BUF = buf_new(BULK_FRAME_MAX);
	struct mstream *ms = c->source.reader.ms;
	const struct url *p = &c->sink.server->url;
	const struct ftp_client *sink = c->sink.server->client;
	char numeric[NI_MAXHOST] = "";
	int rc;

	if (sink->peer_len)
		getnameinfo((const struct sockaddr *)&sink->peer, sink->peer_len, numeric,
			    sizeof(numeric), NULL, 0, NI_NUMERICHOST);
	door->naddrs = 0;
	if (p->kind == URL_SSH)
		cp_add_address(door, numeric);
	cp_add_address(door, p->host);
	cp_add_address(door, numeric);

	rc = b ? third_door_put(b, door) : -ENOMEM;
	if (!rc && c->committed)
		rc = committed_send(c->committed, ms);
	if (!rc)
		rc = ms_write_frame(ms, BULK_DOOR, buf_ptr(b), buf_len(b));
	return rc ? err_sys(e, rc, "%s", printable(c->source.host)) : 0;
}

/* ---- until both have ended ---- */

static void *cp_side_main(void *arg)
{
	struct cp_side *d = arg;
	struct cp *c = d->cp;
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

static bool cp_side_over(struct cp_side *d)
{
	LOCK_GUARD(guard, &d->cp->lock);

	return !d->asked || d->over;
}

static void cp_side_stop(struct cp_side *d)
{
	LOCK_GUARD(guard, &d->cp->lock);

	if (d->asked && !d->told && !d->over)
		relay_stop(d->reader.ms);
}

/* Wait until both have ended. ALONE_MS after one has ended, or at once after an interrupt, ask the
 * other to stop; LEAVE_MS later abort its connection. */
static void cp_wait_both(struct cp *c)
{
	uint64_t end = UINT64_MAX, now, events;
	bool asked = false;

	while (!cp_side_over(&c->source) || !cp_side_over(&c->sink)) {
		bool stop = signals_stopped();

		if (stop && !asked)
			end = 0;
		else if (end == UINT64_MAX && (cp_side_over(&c->source) || cp_side_over(&c->sink)))
			end = now_ns() + ALONE_MS * 1000000ull;
		now = now_ns();
		if (now < end) {
			struct pollfd p[] = { { .fd = c->done, .events = POLLIN },
					      { .fd = stop ? -1 : signals_fd(), .events = POLLIN } };

			poll(p, 2, end == UINT64_MAX ? -1 : (int)((end - now) / 1000000) + 1);
			(void)!read(c->done, &events, sizeof(events)); /* fails if there is no
									* event */
			continue;
		}

		if (asked) {
			if (!cp_side_over(&c->source))
				ms_abort(c->source.reader.ms);
			if (!cp_side_over(&c->sink))
				ms_abort(c->sink.reader.ms);
			end = UINT64_MAX;
		} else {
			cp_side_stop(&c->source);
			cp_side_stop(&c->sink);
			end = now + LEAVE_MS * 1000000ull;
		}
		asked = true;
	}
}

/* Read the frames of both sides. Each has a thread, so that neither waits for the other. */
static int cp_read_both(struct cp *c, struct err *e)
{
	struct cp_side *const sides[] = { &c->source, &c->sink };
	bool on[2] = { false, false };
	int rc = 0;

	for (int i = 0; i < 2; i++) {
		if (!sides[i]->asked || sides[i]->over)
			continue;
		rc = thread_start(&sides[i]->thread, "listen", cp_side_main, sides[i]);
		on[i] = !rc;
		if (rc) {
			thread_failed(e, rc);
			ms_abort(sides[i]->reader.ms);
			sides[i]->over = true;
		}
	}

	cp_wait_both(c);
	for (int i = 0; i < 2; i++)
		if (on[i])
			pthread_join(sides[i]->thread, NULL);
	return rc;
}

/* Bring the stream back to line mode, or close an unusable connection. */
static void cp_side_close(struct cp_side *d)
{
	struct err e = ERR_INIT;

	if (d->asked && (d->lost.code || !d->told || ftp_closing(d->server->client, &e)))
		server_close(d->server);
}

/* ---- the outcome ---- */

static bool cp_side_blames(const struct cp_side *d, enum third_where where)
{
	return d->told && d->result->code && d->result->where == where;
}

/* Set e to the error of the side that is nearest to the cause. */
static int cp_explain(const struct cp *c, struct err *e)
{
	const struct cp_side *a = &c->source, *b = &c->sink;
	const char *text = a->result->text, *host = cp_host_meant(c, &text);

	if (cp_side_blames(a, THIRD_HERE))
		return err_set(e, a->result->code, "%s: %s", printable(host), text);
	if (cp_side_blames(b, THIRD_HERE))
		return err_set(e, b->result->code, "%s: %s", printable(b->host), b->result->text);
	if (cp_side_blames(a, THIRD_REACH))
		return err_set(e, a->result->code, "%s cannot reach %s: %s", printable(a->host),
			       printable(b->host), a->result->text);
	if (a->lost.code)
		return err_set(e, a->lost.code, "%s: %s", printable(a->host), a->lost.text);
	if (b->lost.code && !(a->told && !a->result->code))
		return err_set(e, b->lost.code, "%s: %s", printable(b->host), b->lost.text);
	if (cp_side_blames(a, THIRD_OTHER))
		return err_set(e, a->result->code, "%s, talking to %s: %s", printable(a->host),
			       printable(b->host), a->result->text);
	if (cp_side_blames(b, THIRD_REACH) || cp_side_blames(b, THIRD_OTHER))
		return err_set(e, b->result->code, "%s, talking to %s: %s", printable(b->host),
			       printable(a->host), b->result->text);
	if (cp_side_blames(a, THIRD_CLIENT) || cp_side_blames(b, THIRD_CLIENT))
		return err_set(e, -EINTR, "interrupted");
	return err_set(e, -EPROTO, "%s and %s ended without a result", printable(a->host),
		       printable(b->host));
}

/* ---- attempts ---- */

/* An interrupt ends the wait for a server's answer. */
static void cp_abort_both(void *arg)
{
	const struct cp *c = arg;

	ms_abort(c->source.server->client->ms);
	ms_abort(c->sink.server->client->ms);
}

/* Make one attempt; both servers are connected. 0 with *r, or a negative errno with a text that
 * names the host. An unusable connection is closed. */
static int cp_once(void *arg, unsigned attempt, struct transfer_result *r, struct err *e)
{
	struct cp *c = arg;
	struct cp_side *const sides[] = { &c->source, &c->sink };
	const struct third_result *source = c->source.result, *sink = c->sink.result;
	struct third_door door = { 0 };
	struct err why = ERR_INIT;
	struct sentry stop;
	int rc;

	(void)attempt;
	c->sink_event_at = 0;
	for (int i = 0; i < 2; i++) {
		sides[i]->asked = sides[i]->told = sides[i]->over = false;
		sides[i]->lost = (struct err)ERR_INIT;
		sides[i]->reader.type = 0;
		memset(sides[i]->result, 0, sizeof(*sides[i]->result));
		rc = cp_side_check(sides[i], e);
		if (rc)
			return rc;
	}

	signals_graceful(true);
	rc = sentry_start(&stop, "stop", signals_fd(), cp_abort_both, c, e);
	if (!rc)
		rc = cp_ask_both(c, &door, e);
	if (!rc)
		rc = cp_tell_door(c, &door, e);
	sentry_end(&stop);
	crypto_wipe(&door, sizeof(door));
	if (rc) { /* stop a side that has begun, without delay */
		cp_side_stop(&c->source);
		cp_side_stop(&c->sink);
	}

	if (cp_read_both(c, &why) && !rc)
		rc = err_set(e, why.code, "%s", why.text);
	cp_side_close(&c->source);
	cp_side_close(&c->sink);
	signals_graceful(false);

	if (rc && signals_stopped()) {
		server_close(c->source.server);
		server_close(c->sink.server);
		return err_set(e, -EINTR, "interrupted");
	}

	/* Report a refusal as the cause; that the other side was stopped afterwards is only a
	 * symptom. */
	if (rc && !cp_side_blames(&c->source, THIRD_HERE) && !cp_side_blames(&c->sink, THIRD_HERE))
		return rc;

	if (c->source.told && !source->code) {
		/* The sink has confirmed all files to the source, so a lost connection from us to
		 * the sink does not matter. */
		if (c->sink.lost.code)
			log_warn("%s: %s (after the copy was complete)",
				 printable(c->sink.host), c->sink.lost.text);
		*r = source->of;
		return 0;
	}

	/* At least the side that still answers knows whether the sink keeps a part. */
	r->wall_ns = source->of.wall_ns ? source->of.wall_ns : sink->of.wall_ns;
	r->resumable = source->of.resumable || sink->of.resumable;
	return signals_stopped() ? err_set(e, -EINTR, "interrupted") : cp_explain(c, e);
}

static int cp_connect(void *arg, struct err *e)
{
	struct cp *c = arg;
	struct cp_side *const sides[] = { &c->source, &c->sink };

	for (int i = 0; i < 2; i++) {
		int rc = server_connect(sides[i]->server, e);

		if (exit_is_lost(rc))
			return err_prefix(e, "%s", printable(sides[i]->host));
		if (rc)
			return rc;
	}

	/* A source older than version 2.1 does not report which files changed. */
	c->attempts.rereads = c->source.server->client->bulk.minor >= 1;
	return 0;
}

enum exit_status rftp_cp(struct job *j)
{
	struct cp c = { .o = &j->o, .lock = PTHREAD_MUTEX_INITIALIZER, .done = -1 };
	struct server *from = NULL, *to = NULL;
	enum exit_status status = EXIT_SOME_FAILED;
	struct report *r = NULL;
	struct err e = ERR_INIT;

	if (cp_read_words(j, &c, &e)) {
		status = usage_error(j, "%s", e.text);
	} else if (j->o.files_from && !c.listed.n) {
		status = EXIT_DONE;
	} else if (!(from = server_take(j, &c.from, &e)) || !(to = server_take(j, &c.to, &e))) {
		status = usage_error(j, "%s", e.text);
	} else if ((r = report_new(&j->o)) &&
		   (report_manifest(r, c.paths.n == 1 ? c.paths.all[0] : NULL, c.to.path, &e) ||
		    cp_init(&c, from, to, r, &e))) {
		report_error(r, &e);
		status = e.code == -EINVAL ? EXIT_USAGE : exit_of(e.code, false);
	} else if (r) {
		c.attempts = (struct attempts){
			.connect = cp_connect, .once = cp_once, .arg = &c, .report = r,
			.retries = j->o.retries, .request = &c.give.request,
			.committed = c.committed,
		};

		status = attempts_run(&c.attempts, &e);
	}

	if (r)
		status = report_end(r, status);
	server_give(j, to);
	server_give(j, from);
	cp_clear(&c);
	return status;
}
