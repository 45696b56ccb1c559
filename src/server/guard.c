// SPDX-License-Identifier: Apache-2.0
/* A data connection goes from the session to its front, which has TLS, and comes back as one of
 * a pair of sockets, between whose other one and the client the front passes bytes on. */
#include "server/guard.h"
#include "server/monitor.h"
#include "server/msg.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
	HANDSHAKE_MS = 30 * 1000,
	ANSWER_MS = HANDSHAKE_MS + 5 * 1000,
	AT_ONCE = 4,   /* FTP has one; another may be at its end still */
	LINGER_MS = 30 * 1000,
};

/* ---- the session ---- */

static int receive_answer(int line, int *passed, struct err *e)
{
	struct guard_answer a;
	int rc = msg_receive(line, &a, sizeof(a), passed, ANSWER_MS);

	/* One that comes later would be taken for the answer to the next. */
	if (rc == -ETIMEDOUT)
		shutdown(line, SHUT_RDWR);
	if (rc < 0)
		return err_sys(e, rc, "no answer from the process with TLS");
	a.why[sizeof(a.why) - 1] = '\0';
	if (a.code < 0)
		return err_set(e, a.code, "%s", a.why);
	return *passed < 0 ? err_set(e, -EPROTO, "the process with TLS gave nothing") : 0;
}

struct stream *guard_data(int line, int fd, struct err *e)
{
	struct guard_ask ask = { .what = GUARD_DATA };
	int ours CLEANUP_CLOSE = -1;
	struct stream *st = NULL;
	int rc = msg_send(line, &ask, sizeof(ask), fd, ANSWER_MS);

	if (rc < 0)
		err_sys(e, rc, "cannot ask the process with TLS");
	else
		rc = receive_answer(line, &ours, e);
	if (rc == 0) {
		st = stream_packets(ours);
		if (!st)
			err_sys(e, -ENOMEM, "data connection");
	}
	if (st) {
		ours = -1;
		close(fd);
	}
	return st;
}

/* ---- the front ---- */

struct guarded {
	struct front_guard *g;
	struct stream *client, *session;
	int session_fd;              /* session's, to see its end by */
	unsigned slot;
};

/* What one front has under TLS for its session. */
struct front_guard {
	int line;
	struct tls_ctx *tls;
	struct tls *control;         /* NULL: in clear, and then so is data */
	const char *peer_text;
	pthread_mutex_t lock;        /* guards all and count */
	pthread_cond_t fewer;
	struct guarded *all[AT_ONCE];
	unsigned count;
};

static void guarded_free(struct guarded *d)
{
	stream_free(d->client);
	stream_free(d->session);
	free(d);
}

static void forget(struct guarded *d)
{
	struct front_guard *g = d->g;
	LOCK_GUARD(guard, &g->lock);

	g->all[d->slot] = NULL;
	g->count--;
	guarded_free(d);
	pthread_cond_broadcast(&g->fewer);
}

static void *pass_up(void *arg)
{
	struct guarded *d = arg;

	stream_pass(d->client, d->session);
	return NULL;
}

static void *pass_both(void *arg)
{
	struct guarded *d = arg;
	pthread_t up;
	int rc = thread_start(&up, "data up", pass_up, d);

	if (rc < 0) {
		log_error("%s: data connection: %s", d->g->peer_text, strerror(-rc));
		forget(d);
		return NULL;
	}
	/* A client may leave its side open for ever: it is the session that has closed when it
	 * has all it wants. */
	if (stream_pass(d->session, d->client) == 0)
		poll_fd(d->session_fd, 0, -1);
	d->session->ops->abort(d->session);
	d->client->ops->abort(d->client);
	pthread_join(up, NULL);
	forget(d);
	return NULL;
}

static int find_slot(struct front_guard *g, struct guarded *d)
{
	LOCK_GUARD(guard, &g->lock);

	for (d->slot = 0; d->slot < AT_ONCE; d->slot++) {
		if (g->all[d->slot])
			continue;
		g->all[d->slot] = d;
		g->count++;
		return 0;
	}
	return -EBUSY;
}

/* Nobody joins it: forget() tells of its end. */
static int start_passing(struct guarded *d)
{
	pthread_t t;
	int rc = find_slot(d->g, d);

	if (rc < 0) {
		guarded_free(d);
		return rc;
	}
	rc = thread_start(&t, "data", pass_both, d);
	if (rc == 0)
		pthread_detach(t);
	else
		forget(d);
	return rc;
}

/* The client's side of a new connection; takes fd over. */
static struct stream *shake_hands(struct front_guard *g, int fd, struct err *e)
{
	/* Without tickets, which would lie unread when an uploader closes: see handed.c. */
	struct tls *tls = tls_start(g->tls, fd, NULL, g->control, HANDSHAKE_MS, e);
	struct stream *st = tls ? stream_tls(fd, tls) : NULL;

	if (st)
		return st;
	if (tls)
		err_sys(e, -ENOMEM, "TLS");
	tls_free(tls);
	close(fd);
	return NULL;
}

/* Put fd, which it takes over, under TLS. 0 and the session's end, or a negative errno. */
static int guard_one(struct front_guard *g, int fd, int *theirs, struct err *e)
{
	struct guarded *d = calloc(1, sizeof(*d));
	int pair[2], rc;

	if (!d || msg_pair(pair) < 0) {
		free(d);
		close(fd);
		return err_sys(e, -ENOMEM, "data connection");
	}
	*theirs = pair[1];
	d->g = g;
	d->session_fd = pair[0];
	d->client = shake_hands(g, fd, e);
	d->session = d->client ? stream_packets(pair[0]) : NULL;
	if (!d->session) {
		rc = d->client ? err_sys(e, -ENOMEM, "data connection") : e->code;
		close(pair[0]);
		guarded_free(d);
		return rc;
	}
	rc = start_passing(d);
	return rc < 0 ? err_sys(e, rc, "data connection") : 0;
}

static int answer(struct front_guard *g, int fd)
{
	struct guard_answer a = { 0 };
	int theirs CLEANUP_CLOSE = -1;
	struct err e = ERR_INIT;

	a.code = guard_one(g, fd, &theirs, &e);
	snprintf(a.why, sizeof(a.why), "%.*s", (int)sizeof(a.why) - 1, a.code ? e.text : "");
	return msg_send(g->line, &a, sizeof(a), a.code ? -1 : theirs, ANSWER_MS);
}

/* The session has gone. What it has said to the client is passed on as long as the client
 * takes it. */
static void finish(struct front_guard *g)
{
	uint64_t end = now_ns() + (uint64_t)LINGER_MS * 1000000;
	LOCK_GUARD(guard, &g->lock);

	while (g->count && cond_wait_until(&g->fewer, &g->lock, end) == 0)
		;
	for (unsigned i = 0; i < AT_ONCE; i++)
		if (g->all[i])
			g->all[i]->client->ops->abort(g->all[i]->client);
	while (g->count)
		pthread_cond_wait(&g->fewer, &g->lock);
}

void guard_serve(int line, struct tls_ctx *tls, struct tls *control, const char *peer_text)
{
	struct front_guard g = { .line = line, .tls = tls, .control = control,
				 .peer_text = peer_text };
	struct guard_ask ask;
	int fd, rc;

	pthread_mutex_init(&g.lock, NULL);
	cond_init(&g.fewer);
	while ((rc = msg_receive(line, &ask, sizeof(ask), &fd, -1)) == 0) {
		if (fd < 0 || ask.what != GUARD_DATA || !control)
			rc = -EPROTO;
		if (rc < 0 && fd >= 0)
			close(fd);
		if (rc == 0)
			rc = answer(&g, fd);
		if (rc < 0)
			break;
	}
	if (rc != -EPIPE)
		log_error("%s: the session asks for what it cannot have: %s", peer_text,
			  strerror(-rc));
	finish(&g);
	pthread_cond_destroy(&g.fewer);
	pthread_mutex_destroy(&g.lock);
}
