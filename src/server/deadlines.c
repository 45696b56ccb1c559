// SPDX-License-Identifier: Apache-2.0
/* Ends fronts and gates that do not end by themselves. */
#include "server/deadlines.h"

#include <signal.h>

/* For a client to take what its session has said last, which the front waits for; ns. */
#define LINGER ((uint64_t)120 * 1000000000)
/* The same when all of the server waits for it: more than a front has for data (guard.c). */
#define LINGER_STOPPING ((uint64_t)40 * 1000000000)
/* For a front to say goodbye, beyond what it has; ns. */
#define GRACE ((uint64_t)10 * 1000000000)
/* The same when all of the server waits for it. */
#define GRACE_STOPPING ((uint64_t)3 * 1000000000)

static uint64_t later(uint64_t a, uint64_t b)
{
	return a > b ? a : b;
}

static uint64_t earlier(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

/* A front of ours begins its last login within login_timeout, and is to hear what becomes of it. */
void deadline_begin(struct conn *c, uint64_t login_timeout)
{
	c->front_until = now_ns() + login_timeout + GRACE;
	c->front_last = c->front_until + login_timeout;
}

/* until: of the front, unless that is more than it may have in all. */
static void give_front(struct conn *c, uint64_t until, uint64_t waited_ms)
{
	c->front_until = later(c->front_until,
			       earlier(until + GRACE, c->front_last + waited_ms * 1000000));
}

/* The front is to hear of the gate's end, so it has more. */
void deadline_check(struct conn *c, uint64_t waited_ms, uint64_t login_timeout)
{
	c->gate_until = now_ns() + login_timeout;
	give_front(c, c->gate_until, waited_ms);
}

void deadline_refused(struct conn *c, uint64_t waited_ms)
{
	if (c->front_until)
		give_front(c, now_ns(), waited_ms);
}

void deadline_checked(struct conn *c, bool in)
{
	c->gate_until = 0;
	c->front_until = in ? 0 : later(c->front_until, earlier(now_ns() + GRACE, c->front_last));
}

void deadline_over(struct conn *c, bool stopping)
{
	c->front_until = now_ns() + (stopping ? LINGER_STOPPING : LINGER);
	c->front_last = c->front_until;
	c->lingers = true;
}

void deadlines_stop(struct conns *t)
{
	uint64_t now = now_ns();

	for (unsigned i = 0; i < t->nslots; i++) {
		struct conn *c = &t->slots[i];

		if (!c->used || !c->front_until)
			continue;
		c->front_until = c->lingers ? earlier(c->front_until, now + LINGER_STOPPING) :
					      now + GRACE_STOPPING;
		c->front_last = c->front_until;
		if (c->gate_until)
			c->gate_until = now;
	}
}

/* ---- who is late ---- */

/* What the gate waits for may be a program of PAM's: it leads a group of its own. */
static void end_gate(struct conn *c)
{
	char text[80];

	log_error("the check of a login from %s has come to no end: ended",
		  srv_peer_text(&c->ends.peer, text));
	if (kill(-c->session.pid, SIGKILL) < 0)
		kill(c->session.pid, SIGKILL); /* it has not come so far */
	c->gate_until = 0;
}

static void end_front(struct conn *c)
{
	char text[80];

	log_warn("%s: its front has come to no end: ended", srv_peer_text(&c->ends.peer, text));
	kill(c->front.pid, SIGKILL);
	c->front_until = 0;
}

static uint64_t sooner(uint64_t a, uint64_t b)
{
	return b && b < a ? b : a;
}

/* A front that waits for its turn waits for this process. */
static bool front_counts(const struct conn *c)
{
	return c->front.pid && c->turn.state != TURN_WAITS;
}

int deadlines_look(struct conns *t)
{
	uint64_t now = now_ns(), next = UINT64_MAX;

	for (unsigned i = 0; i < t->nslots; i++) {
		struct conn *c = &t->slots[i];

		if (!c->used)
			continue;
		if (c->gate_until && c->gate_until <= now && c->session.pid)
			end_gate(c);
		if (front_counts(c) && c->front_until && c->front_until <= now)
			end_front(c);
		if (c->session.pid)
			next = sooner(next, c->gate_until);
		if (front_counts(c))
			next = sooner(next, c->front_until);
	}
	if (next == UINT64_MAX)
		return -1;
	/* Up, or it would be looked at again and again in the last ms. */
	return next <= now ? 0 : (int)((next - now) / 1000000 > 3600000 ? 3600000 :
				       (next - now + 999999) / 1000000);
}
