// SPDX-License-Identifier: Apache-2.0
/* The sink's first stage: what arrives by a path goes on a queue. */
#include "transport/transport.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

#define EVENTS 64
#define FINISH_MS 10000

struct receiver {
	struct receiver_config cfg;
	char name[16];
	pthread_t thread;
	atomic_bool stop;
	atomic_bool abort; /* do not close in good order: nobody listens */
	bool dry;          /* no channel is left, and all that came by them has been told */
	int last;          /* why the last channel went down */
	int error;         /* the first that is the path's; a channel's goes to down() */
};

static void handle(struct receiver *r, const struct path_event *ev)
{
	int rc;

	if (ev->kind == PATH_DOWN) {
		if (r->cfg.down)
			r->cfg.down(r->cfg.arg, ev->channel, ev->error);
		r->last = ev->error;
		return;
	}
	rc = ev->kind == PATH_RECEIVED ? bq_push(r->cfg.q, ev->block) : -EPROTO;
	if (rc < 0) {
		pool_put(ev->block);
		if (!r->error)
			r->error = rc;
	}
}

static void *receiver_main(void *arg)
{
	struct receiver *r = arg;
	struct path *p = r->cfg.path;
	struct path_event ev[EVENTS];

	place_self(&r->cfg.cpus);
	/* Once no channel is left, nothing can come and nobody waits for answers. */
	while (!atomic_load(&r->stop) && !r->error && !r->dry) {
		int i, n = p->ops->poll(p, ev, EVENTS, -1);

		if (n < 0)
			r->error = n;
		for (i = 0; i < n; i++)
			handle(r, &ev[i]);
		r->dry = n < EVENTS && !atomic_load(&p->alive);
		/* The last channel's reason is the path's. */
		if (r->dry && !r->error)
			r->error = r->last;
	}
	if (!r->error && !r->dry && !atomic_load(&r->abort)) {
		int rc = p->ops->finish(p, FINISH_MS);

		if (rc < 0)
			log_debug("%s: closing channels: %d", r->name, rc);
	}
	if (p->ops->leave)
		p->ops->leave(p);
	atomic_store(&p->left, true);
	return NULL;
}

struct receiver *receiver_start(const struct receiver_config *c, const char *name,
				struct err *e)
{
	struct receiver *r = calloc(1, sizeof(*r));
	int rc;

	if (!r) {
		err_sys(e, -ENOMEM, "starting %s", name);
		return NULL;
	}
	r->cfg = *c;
	snprintf(r->name, sizeof(r->name), "%s", name);
	rc = thread_start(&r->thread, name, receiver_main, r);
	if (rc < 0) {
		free(r);
		err_sys(e, rc, "starting %s", name);
		return NULL;
	}
	return r;
}

void receiver_stop(struct receiver *r)
{
	atomic_store(&r->stop, true);
	r->cfg.path->ops->wake(r->cfg.path);
}

void receiver_abort(struct receiver *r)
{
	atomic_store(&r->abort, true);
	receiver_stop(r);
}

int receiver_join(struct receiver *r)
{
	pthread_join(r->thread, NULL);
	return r->error;
}

void receiver_free(struct receiver *r)
{
	free(r);
}
