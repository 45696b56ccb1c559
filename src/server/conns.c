// SPDX-License-Identifier: Apache-2.0
/* Who is there: connections by address, by account, and all of their processes. */
#include "server/conns.h"
#include "server/forsake.h"
#include "server/pages.h"

#include <errno.h>
#include <string.h>

static void free_slots(struct conns *t)
{
	pages_free(t->slots, t->nslots * sizeof(*t->slots));
}

int conns_room(struct conns *t, unsigned n)
{
	struct conn *slots;

	if (n <= t->nslots)
		return 0;
	slots = pages_new(n * sizeof(*slots));
	if (!slots)
		return -ENOMEM;
	if (t->nslots)
		memcpy(slots, t->slots, t->nslots * sizeof(*slots));
	free_slots(t);
	t->slots = slots;
	t->nslots = n;
	return 0;
}

void conns_free(struct conns *t)
{
	free_slots(t);
	*t = (struct conns){ 0 };
}

struct conn *conns_unused(const struct conns *t)
{
	for (unsigned i = 0; i < t->nslots; i++)
		if (!t->slots[i].used)
			return &t->slots[i];
	return NULL;
}

unsigned conns_of(const struct conns *t, const struct sockaddr_storage *peer)
{
	unsigned n = 0;

	for (unsigned i = 0; i < t->nslots; i++)
		n += t->slots[i].used && srv_same_host(&t->slots[i].ends.peer, peer);
	return n;
}

unsigned conns_as(const struct conns *t, const char *account)
{
	unsigned n = 0;

	for (unsigned i = 0; i < t->nslots; i++)
		n += t->slots[i].used && !strcmp(t->slots[i].account, account);
	return n;
}

void conns_signal(const struct conns *t, int sig)
{
	for (unsigned i = 0; i < t->nslots; i++) {
		const struct conn *c = &t->slots[i];

		if (c->used && c->front.pid)
			kill(c->front.pid, sig);
		if (c->used && c->session.pid)
			kill(c->session.pid, sig);
	}
}

static void hear(struct pollfd *fds, nfds_t *n, const struct proc *p, uint64_t now_ms, int *rest)
{
	int ms = p->pid ? (int)lines_rest(&p->log, now_ms) : 0;

	if (ms && (*rest < 0 || ms < *rest))
		*rest = ms;
	if (ms)
		return;
	if (p->fd >= 0)
		fds[(*n)++] = (struct pollfd){ .fd = p->fd, .events = POLLIN };
	if (p->log.fd >= 0)
		fds[(*n)++] = (struct pollfd){ .fd = p->log.fd, .events = POLLIN };
}

nfds_t conns_gather(const struct conns *t, struct pollfd *fds, int *rest)
{
	uint64_t now_ms = now_ns() / 1000000;
	nfds_t n = 0;

	*rest = -1;
	for (unsigned i = 0; i < t->nslots; i++) {
		if (!t->slots[i].used)
			continue;
		hear(fds, &n, &t->slots[i].front, now_ms, rest);
		hear(fds, &n, &t->slots[i].session, now_ms, rest);
	}
	return n;
}

/* Whose fd is, whichever it is of his. */
static struct conn *conn_with(struct conns *t, int fd)
{
	for (unsigned i = 0; i < t->nslots; i++) {
		struct conn *c = &t->slots[i];

		if (c->used && (c->front.fd == fd || c->front.log.fd == fd ||
				c->session.fd == fd || c->session.log.fd == fd))
			return c;
	}
	return NULL;
}

void conns_stop_hearing(struct proc *p)
{
	forsake(&p->fd);
}

/* The monitor has them still. */
static void leave(struct proc *p)
{
	cleanup_close(&p->fd);
	cleanup_close(&p->log.fd);
}

void conns_leave(struct conns *t)
{
	for (unsigned i = 0; i < t->nslots; i++) {
		if (!t->slots[i].used)
			continue;
		leave(&t->slots[i].front);
		leave(&t->slots[i].session);
	}
}

/* ---- what they say ---- */

void conns_disown(struct conn *c, struct proc *p, int rc)
{
	char text[80];

	log_error("%s of %s: %s: ended", p == &c->front ? "front" : "session",
		  srv_peer_text(&c->ends.peer, text),
		  rc == -EPROTO ? "what it asks for is nothing that it may" : strerror(-rc));
	kill(p->pid, SIGKILL);
	conns_stop_hearing(p);
}

static void relay(struct conn *c, struct proc *p)
{
	char text[80];
	int rc = p->pid && p->log.fd >= 0 ?
		 lines_hear(&p->log, p->pid, srv_peer_text(&c->ends.peer, text)) : 0;

	if (rc < 0)
		conns_disown(c, p, rc);
}

/* What somebody says before he asks for something is read before it is answered. */
void conns_relay(struct conns *t, const struct pollfd *fds, nfds_t n)
{
	for (nfds_t i = 0; i < n; i++) {
		struct conn *c = fds[i].revents ? conn_with(t, fds[i].fd) : NULL;

		if (!c)
			continue;
		relay(c, &c->front);
		relay(c, &c->session);
	}
}
