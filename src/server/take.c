// SPDX-License-Identifier: Apache-2.0
/* TAKE: files come here from another server. A door is opened for it: a listener, for one
 * connection of who has a certain key and knows the token, to put something to one destination,
 * within a minute. What is served there is BULK, with the rights of the session that opened it. */
#include "server/session.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

enum {
	OPEN_S = 60,           /* the door is, at most */
	PROVE_MS = 10 * 1000,  /* for who knocks to show who he is */
	KNOCKS = 64,           /* at a time; then the first one has had its time */
	LINE_MS = 60 * 1000,
	SLICE_MS = 500,        /* how late the server's stop may be seen */
	ASKS = 8,              /* requests that may come to nothing */
};

struct door;

/* Somebody who has connected. */
struct knock {
	struct door *d;
	pthread_t thread;
	int fd;
	uint64_t since;        /* now_ns() */
	bool on;               /* there is a thread to be joined */
	/* Under the door's lock: */
	bool over;             /* it has nothing more to do */
	bool in;               /* it is the one */
};

struct door {
	struct session *s;
	struct ftp_session *fs;
	struct third_take t;
	struct relay relay;
	struct tls_ctx *tls;
	char *pin;             /* of our key */
	uint8_t token[THIRD_TOKEN];
	int lfd;
	uint16_t port;
	int wake;              /* an eventfd: a knock is over */
	struct knock knocks[KNOCKS];
	pthread_mutex_t lock;  /* of what follows, while there are knocks */
	struct mstream *in;    /* from who has proved it */
	uint8_t key[KEY_BYTES];
	struct sockaddr_storage local; /* our end of that */
	uint8_t where;         /* enum third_where, of a failure */
};

static uint32_t seconds(const struct door *d)
{
	return d->t.seconds && d->t.seconds < OPEN_S ? d->t.seconds : OPEN_S;
}

/* ---- who knocks ---- */

static bool is_the_one(const struct door *d, struct tls *tls)
{
	char *pin CLEANUP_FREE = tls_peer_pin(tls);

	return pin && strlen(pin) == strlen(d->t.pin) && crypto_equal(pin, d->t.pin, strlen(pin));
}

static int read_token(const struct door *d, struct mstream *ms)
{
	uint8_t token[THIRD_TOKEN];
	int rc = ms_read(ms, token, sizeof(token), PROVE_MS);

	if (!rc && !crypto_equal(token, d->token, sizeof(token)))
		rc = -EACCES;
	crypto_wipe(token, sizeof(token));
	return rc;
}

/* The first one comes in, and is the only one. */
static void let_in(struct knock *k, struct mstream *ms, const uint8_t key[KEY_BYTES])
{
	struct door *d = k->d;
	LOCK_GUARD(guard, &d->lock);

	if (d->in) {
		ms_free(ms);
		return;
	}
	k->in = true;
	d->in = ms;
	memcpy(d->key, key, KEY_BYTES);
	srv_local_address(k->fd, &d->local);
}

static bool came(struct door *d)
{
	LOCK_GUARD(guard, &d->lock);

	return d->in;
}

/* A duplicate of k's descriptor is the stream's, so that k's own can be shut from elsewhere
 * whatever becomes of it. */
static int prove(struct knock *k, struct err *e)
{
	int fd = fcntl(k->fd, F_DUPFD_CLOEXEC, 0);
	struct tls *tls = fd < 0 ? NULL : tls_start(k->d->tls, fd, NULL, NULL, PROVE_MS, e);
	struct stream *st = NULL;
	struct mstream *ms = NULL;
	uint8_t key[KEY_BYTES];
	int rc = tls ? 0 : e->code ? e->code : -ENOMEM;

	if (!rc && !is_the_one(k->d, tls))
		rc = err_set(e, -EKEYREJECTED, "it has another key");
	if (!rc)
		rc = tls_export(tls, "EXPORTER-rftp-bulk-1", key, sizeof(key));
	if (!rc)
		st = stream_tls(fd, tls);
	if (st)
		ms = ms_new(st);
	if (!ms) {
		if (st) {
			stream_free(st);
		} else {
			tls_free(tls);
			cleanup_close(&fd);
		}
		return rc ? rc : -ENOMEM;
	}
	rc = read_token(k->d, ms);
	if (!rc)
		let_in(k, ms, key);
	else
		ms_free(ms);
	crypto_wipe(key, sizeof(key));
	return rc;
}

static void *knock_main(void *arg)
{
	struct knock *k = arg;
	struct err e = ERR_INIT;
	uint64_t one = 1;
	int rc = prove(k, &e);

	if (rc)
		log_warn("%s: a stranger at the door for another server: %s", k->d->s->peer_text,
			 *e.text ? e.text : rc == -EACCES ? "a wrong token" : strerror(-rc));
	pthread_mutex_lock(&k->d->lock);
	k->over = true;
	pthread_mutex_unlock(&k->d->lock);
	if (write(k->d->wake, &one, sizeof(one)) < 0)
		log_debug("eventfd: %s", strerror(errno));
	return NULL;
}

static void knock_end(struct knock *k)
{
	if (!k->on)
		return;
	pthread_join(k->thread, NULL);
	close(k->fd);
	*k = (struct knock){ 0 };
}

static bool is_over(struct knock *k)
{
	LOCK_GUARD(guard, &k->d->lock);

	return k->over;
}

/* A free place, if need be that of whoever has been at it for longest: those who only connect
 * keep nobody out. */
static struct knock *make_place(struct door *d)
{
	struct knock *first = &d->knocks[0];

	for (int i = 0; i < KNOCKS; i++) {
		struct knock *k = &d->knocks[i];

		if (k->on && is_over(k))
			knock_end(k);
		if (!k->on)
			return k;
		if (k->since < first->since)
			first = k;
	}
	shutdown(first->fd, SHUT_RDWR);
	knock_end(first);
	return first;
}

static void answer(struct door *d)
{
	int fd = accept4(d->lfd, NULL, NULL, SOCK_CLOEXEC);
	struct knock *k;

	if (fd < 0) { /* who came is still there: not at once again */
		poll_fd(d->relay.stop, POLLIN, SLICE_MS);
		return;
	}
	k = make_place(d);
	if (came(d)) {
		close(fd);
		return;
	}
	*k = (struct knock){ .d = d, .fd = fd, .since = now_ns() };
	k->on = !thread_start(&k->thread, "knock", knock_main, k);
	if (!k->on)
		close(fd);
}

static void forget_wake(const struct door *d)
{
	uint64_t n;

	(void)!read(d->wake, &n, sizeof(n)); /* there may be none */
}

/* Until the one is in. */
static int wait_for_it(struct door *d, struct err *e)
{
	uint64_t end = now_ns() + seconds(d) * 1000000000ull;

	while (!came(d)) {
		struct pollfd p[] = { { .fd = d->relay.stop, .events = POLLIN },
				      { .fd = d->wake, .events = POLLIN },
				      { .fd = d->lfd, .events = POLLIN } };

		if (srv_stop)
			return err_set(e, -ECONNREFUSED, "the server is about to end");
		if (now_ns() >= end)
			return err_set(e, -ETIMEDOUT, "the other server did not come to port %u "
				       "within %u s", d->port, seconds(d));
		if (poll(p, 3, SLICE_MS) <= 0)
			continue;
		if (p[0].revents)
			return err_set(e, -EINTR, "interrupted");
		forget_wake(d);
		if (p[2].revents)
			answer(d);
	}
	return 0;
}

/* Nobody else is waited for. */
static void shut(struct door *d)
{
	cleanup_close(&d->lfd);
	for (int i = 0; i < KNOCKS; i++) {
		struct knock *k = &d->knocks[i];

		pthread_mutex_lock(&d->lock);
		if (k->on && !k->in)
			shutdown(k->fd, SHUT_RDWR);
		pthread_mutex_unlock(&d->lock);
		knock_end(k);
	}
}

/* ---- what it puts ---- */

static int say(struct door *d, int code, const char *text)
{
	char line[1200];
	int n = snprintf(line, sizeof(line), "%d %.1024s\r\n", code, text);

	return ms_write(d->in, line, (size_t)n);
}

/* What the token is good for. */
static int check_request(const struct door *d, const struct bulk_request *r, struct err *e)
{
	if (r->op != BULK_PUT)
		return err_set(e, -EPERM, "The token is for putting something here");
	if (!r->base || strcmp(r->base, d->t.base))
		return err_set(e, -EPERM, "The token is for another destination");
	if (r->policy != d->t.policy || r->flags != d->t.request_flags)
		return err_set(e, -EPERM, "The token is for another kind of copy");
	if (r->has_key)
		return err_set(e, -EPERM, "Under TLS the key is exported, not sent");
	return 0;
}

static int serve_put(struct door *d, struct bulk_request *r, struct transfer_result *res,
		     bool *in_line, struct err *e)
{
	struct transfer_server_config c;
	int rc = say(d, 150, "Frames follow");

	*in_line = false;
	if (rc)
		return err_sys(e, rc, "connection of the other server");
	srv_transfer_config(d->s, d->fs, &c);
	c.ms = d->in;
	c.request = r;
	c.master = d->key;
	c.local = d->local;
	c.family = d->local.ss_family;
	if (d->t.prot_min > c.prot_min)
		c.prot_min = d->t.prot_min;
	c.events = relay_events(&d->relay);
	c.stop = d->relay.stop;
	rc = transfer_serve(&c, res, in_line, e);
	srv_log_transfer(d->s, ftp_session_account(d->fs)->name, "take", d->t.base, res->bytes,
			 (double)res->wall_ns / 1e9,
			 rc ? e->text : res->failed ? "some files failed" : "ok");
	return rc;
}

/* One BULK. *again: nothing has come of it, and the other may ask for something else. */
static int serve_bulk(struct door *d, struct buf *body, struct transfer_result *res, bool *again,
		      struct err *e)
{
	struct bulk_request r = { 0 };
	bool in_line = true;
	int rc = bulk_request_get(body, &r, e);

	if (!rc)
		rc = check_request(d, &r, e);
	if (rc) {
		say(d, 550, *e->text ? e->text : "The request is malformed");
		d->where = THIRD_OTHER;
	} else if (srv_expand_homes(d->fs, &r)) {
		rc = err_sys(e, -ENOMEM, "request");
		say(d, 451, e->text);
	} else {
		rc = serve_put(d, &r, res, &in_line, e);
		if (in_line)
			say(d, rc ? 451 : 226, rc ? e->text : "It is there");
		*again = rc && in_line;
	}
	bulk_request_clear(&r);
	return rc;
}

/* The next BULK's body. 0; -EPIPE: the other has left. */
static int read_bulk(struct door *d, struct buf **body)
{
	char line[FTP_LINE_MAX];
	const struct ftp_command *cmd;
	uint8_t *room;
	uint64_t n;
	char *arg;
	ssize_t len = ms_read_line(d->in, line, sizeof(line), LINE_MS);

	if (len < 0)
		return (int)len;
	if (ftp_command_parse(line, &cmd, &arg) || cmd->verb != FTP_BULK ||
	    parse_uint(arg, 0, BULK_REQUEST_MAX, &n))
		return -EPROTO;
	*body = buf_new(n ? n : 1);
	if (!*body || buf_reserve(*body, n, &room))
		return -ENOMEM;
	return ms_read(d->in, room, n, LINE_MS);
}

static void abort_in(void *arg)
{
	const struct door *d = arg;

	ms_abort(d->in);
}

/* As long as the client is there. */
static int await_bulk(struct door *d, struct buf **body, struct err *e)
{
	struct sentry stop;
	int rc = sentry_start(&stop, "stop", d->relay.stop, abort_in, d, e);

	if (!rc)
		rc = read_bulk(d, body);
	sentry_end(&stop);
	return rc;
}

static int serve_it(struct door *d, struct transfer_result *res, struct err *e)
{
	bool again = true;
	int rc = 0;

	for (int i = 0; again && i < ASKS; i++) {
		struct err why = ERR_INIT;
		struct buf *body CLEANUP_BUF = NULL;
		int got = await_bulk(d, &body, &why);

		if (got && i)
			return rc; /* what it came to has been said */
		if (got) {
			d->where = THIRD_OTHER;
			return err_sys(e, got, "waiting for the other server's request");
		}
		*e = (struct err)ERR_INIT;
		again = false;
		rc = serve_bulk(d, body, res, &again, e);
	}
	return rc;
}

/* ---- the conversation ---- */

static int run(struct door *d, struct transfer_result *res, struct err *e)
{
	int rc = wait_for_it(d, e);

	shut(d);
	d->where = THIRD_REACH;
	if (!rc) {
		d->where = THIRD_HERE;
		rc = serve_it(d, res, e);
		if (rc == -EPIPE || rc == -ETIMEDOUT || rc == -ECONNRESET)
			d->where = THIRD_OTHER;
	}
	if (rc == -EINTR || (rc && poll_fd(d->relay.stop, POLLIN, 0) > 0)) {
		d->where = THIRD_CLIENT;
		rc = err_set(e, -EINTR, "interrupted");
	}
	return rc;
}

static int say_door(struct door *d)
{
	struct buf *b CLEANUP_BUF = buf_new(BULK_FRAME_MAX);
	struct third_door t = { .port = d->port, .seconds = seconds(d) };
	int rc = ftp_session_reply(d->fs, 150, "Frames follow");

	snprintf(t.pin, sizeof(t.pin), "%s", d->pin);
	memcpy(t.token, d->token, sizeof(t.token));
	if (!rc)
		rc = b ? third_door_put(b, &t) : -ENOMEM;
	if (!rc)
		rc = ms_write_frame(ftp_session_stream(d->fs), BULK_DOOR, buf_ptr(b), buf_len(b));
	crypto_wipe(&t, sizeof(t));
	return rc;
}

static int converse(struct door *d, struct transfer_result *res)
{
	struct err e = ERR_INIT;
	int rc = say_door(d), done;

	if (rc)
		return rc;
	d->where = THIRD_HERE;
	done = relay_start(&d->relay, ftp_session_stream(d->fs), false, &e);
	if (!done)
		done = run(d, res, &e);
	ms_free(steal_ptr(&d->in));
	relay_result(&d->relay, res, done, d->where, e.text);
	rc = relay_end(&d->relay);
	if (rc)
		return rc;
	return ftp_session_reply(d->fs, done ? 451 : 226, "%s", done ? e.text : "It is there");
}

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
		return err_set(e, -EPERM, "Another server connects to no port below %u: the "
			       "--data-ports here are", THIRD_PORT_LEAST);
	return d->lfd < 0 ? d->lfd : 0;
}

static void door_clear(struct door *d)
{
	cleanup_close(&d->lfd);
	cleanup_close(&d->wake);
	tls_ctx_free(d->tls);
	free(d->pin);
	third_take_clear(&d->t);
	pthread_mutex_destroy(&d->lock);
	crypto_wipe(d->token, sizeof(d->token));
	crypto_wipe(d->key, sizeof(d->key));
}

static int serve(struct door *d, struct transfer_result *res)
{
	const char *why = ftp_account_refuses(ftp_session_account(d->fs), FTP_NEEDS_CREATE);
	struct err e = ERR_INIT;

	if (why)
		return ftp_session_reply(d->fs, 550, "%s", why);
	/* Who listens on the line may change the pins. */
	if (!ftp_session_secret(d->fs) && d->t.prot_min > PROT_CLEAR)
		return ftp_session_reply(d->fs, 522, "Without TLS nothing can be kept private");
	if (open_door(d, &e))
		return ftp_session_reply(d->fs, 451, "%s", e.text);
	return converse(d, res);
}

int srv_take(void *arg, struct ftp_session *fs, struct buf *body)
{
	struct transfer_result *res CLEANUP_FREE = calloc(1, sizeof(*res));
	struct door *d CLEANUP_FREE = calloc(1, sizeof(*d));
	struct session *s = arg;
	struct err e = ERR_INIT;
	int rc;

	if (!res || !d)
		return ftp_session_reply(fs, 451, "Out of memory");
	d->s = s;
	d->fs = fs;
	d->lfd = d->wake = -1;
	rc = third_take_get(body, &d->t, &e);
	if (rc) {
		log_warn("bad request from %s: %s", s->peer_text, e.text);
		return ftp_session_reply(fs, rc == -EPROTONOSUPPORT ? 504 : 501, "%s", e.text);
	}
	pthread_mutex_init(&d->lock, NULL);
	rc = serve(d, res);
	door_clear(d);
	return rc;
}
