// SPDX-License-Identifier: Apache-2.0
/* Who is there: connections by address, by account, and all of their processes. */
#include "server/conns.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

int conns_room(struct conns *t, unsigned n)
{
	struct conn *slots;

	if (n <= t->nslots)
		return 0;
	slots = realloc(t->slots, n * sizeof(*slots));
	if (!slots)
		return -ENOMEM;
	memset(slots + t->nslots, 0, (n - t->nslots) * sizeof(*slots));
	t->slots = slots;
	t->nslots = n;
	return 0;
}

void conns_free(struct conns *t)
{
	free(t->slots);
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

static void hear(struct pollfd *fds, nfds_t *n, const struct proc *p)
{
	if (p->fd >= 0)
		fds[(*n)++] = (struct pollfd){ .fd = p->fd, .events = POLLIN };
}

nfds_t conns_gather(const struct conns *t, struct pollfd *fds)
{
	nfds_t n = 0;

	for (unsigned i = 0; i < t->nslots; i++) {
		if (!t->slots[i].used)
			continue;
		hear(fds, &n, &t->slots[i].front);
		hear(fds, &n, &t->slots[i].session);
	}
	return n;
}

void conns_stop_hearing(struct proc *p)
{
	cleanup_close(&p->fd);
}

void conns_leave(struct conns *t)
{
	for (unsigned i = 0; i < t->nslots; i++) {
		if (!t->slots[i].used)
			continue;
		conns_stop_hearing(&t->slots[i].front);
		conns_stop_hearing(&t->slots[i].session);
	}
}
