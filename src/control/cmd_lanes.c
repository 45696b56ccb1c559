// SPDX-License-Identifier: Apache-2.0
/* LANE <n>: transfers at the same time in one session. Each lane has a thread that serves
 * BULK on it, as the session itself does on the control connection. */
#include "control/session.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* For a client that has all it wants to say that it is through. */
enum { END_MS = 30 * 1000 };

struct lane_server {
	struct ftp_session s;
	struct err e;
	pthread_t thread;
	bool on;
};

static void *serve_lane(void *arg)
{
	struct lane_server *v = arg;
	int rc = session_commands(&v->s);

	if (rc < 0 && rc != -EPIPE)
		log_info("%s, a lane: %s", v->s.peer_text,
			 *v->e.text ? v->e.text : strerror(-rc));
	ms_free(steal_ptr(&v->s.ms)); /* the client is told */
	return NULL;
}

/* What a lane sees of its session: who is logged in, and where. */
static void lane_init(struct lane_server *v, struct ftp_session *s, unsigned lanes,
		      struct stream *st)
{
	v->s.c = s->c;
	v->s.e = &v->e;
	v->s.ms = ms_new(st);
	v->s.fd = v->s.lfd = -1;
	v->s.whole = s;
	v->s.lanes = lanes;
	v->s.logged_in = true;
	v->s.account = s->account;
	v->s.cwd = s->cwd;
	memcpy(v->s.peer_text, s->peer_text, sizeof(v->s.peer_text));
	v->on = v->s.ms && !thread_start(&v->thread, "lane", serve_lane, v);
	if (v->on)
		return;
	log_error("%s: out of memory, or of threads, for a lane", s->peer_text);
	if (v->s.ms)
		ms_free(steal_ptr(&v->s.ms));
	else
		stream_free(st);
}

static void lane_wait(struct lane_server *v)
{
	if (v->on)
		pthread_join(v->thread, NULL);
	free(v->s.stash);
}

static int serve_lanes(struct ftp_session *s, unsigned n)
{
	CLEANUP_FREE struct lane_server *v = calloc(n, sizeof(*v));
	struct lanes *l;
	int rc;

	if (!v)
		return ftp_session_reply(s, 451, "Out of memory");
	rc = ftp_session_reply(s, 150, "%u lanes follow", n);
	if (rc < 0)
		return rc;
	l = lanes_new(s->ms, n, s->e);
	if (!l)
		return s->e->code; /* what the client sends now cannot be read */
	for (unsigned i = 0; i < n; i++)
		lane_init(&v[i], s, n, lanes_take(l, i));
	for (unsigned i = 0; i < n; i++)
		lane_wait(&v[i]);
	rc = lanes_end(l, END_MS);
	if (rc < 0)
		return err_sys(s->e, rc, "lanes");
	return ftp_session_reply(s, 226, "The lanes are over");
}

int cmd_lanes(struct ftp_session *s, char *arg)
{
	uint64_t n;

	if (!s->c->bulk)
		return ftp_session_reply(s, 502, "There is no bulk mode here");
	if (parse_uint(arg, 1, LANES_MAX, &n))
		return ftp_session_reply(s, 501, "Syntax: LANE <1 to %u>", LANES_MAX);
	return serve_lanes(s, (unsigned)n);
}
