// SPDX-License-Identifier: Apache-2.0
/* Which channels of a path make no progress although they should. */
#include "transport/transport.h"

#include <errno.h>
#include <stdlib.h>

#define LOOKS 8u /* in the time of the limit */

int watch_init(struct path *path, uint32_t stall_ms)
{
	struct watch *w = &path->watch;

	w->limit_ns = (stall_ms ? stall_ms : STALL_MS) * 1000000ull;
	w->ch = calloc(path->nchannels, sizeof(*w->ch));
	return w->ch ? 0 : -ENOMEM;
}

void watch_free(struct path *path)
{
	free(path->watch.ch);
}

uint64_t path_ahead(const struct path *p)
{
	uint64_t bytes = 0;

	for (uint32_t i = 0; p->channel_ahead && i < p->nchannels; i++)
		bytes += __atomic_load_n(&p->channel_ahead[i], __ATOMIC_RELAXED);
	return bytes;
}

void watch_begin(struct path *path, uint32_t channel)
{
	struct channel_watch *c = &path->watch.ch[channel];

	c->moved_ns = c->acked_ns = path->watch.awake_ns;
}

static uint64_t interval(const struct watch *w)
{
	uint64_t ns = w->limit_ns / LOOKS;

	return ns < 1000000000 ? ns : 1000000000;
}

bool watch_due(struct path *path, uint64_t now)
{
	struct watch *w = &path->watch;
	uint64_t gone = now - w->looked_ns;

	if (gone < interval(w))
		return false;
	/* A process that was stopped finds its clock far ahead, and what came meanwhile unread. */
	w->awake_ns += gone < 2 * interval(w) ? gone : 2 * interval(w);
	w->looked_ns = now;
	return true;
}

int watch_ms(const struct path *path, uint64_t now)
{
	return ms_between(now, path->watch.looked_ns + interval(&path->watch)) + 1;
}

int watch_look(struct path *path, uint32_t channel, bool waits)
{
	struct watch *w = &path->watch;
	struct channel_watch *c = &w->ch[channel];
	uint64_t reported = atomic_load(&c->reported);
	bool held = path->watch.source && atomic_load(&c->held);

	if (atomic_load(&c->lost))
		return CHANNEL_GIVEN_UP;
	if (!waits || c->acked)
		c->acked_ns = w->awake_ns;
	if (!waits || c->acked || c->moved || held || reported != c->seen)
		c->moved_ns = w->awake_ns;
	c->seen = reported;
	c->acked = c->moved = false;
	if (w->awake_ns - c->moved_ns > w->limit_ns)
		return -ETIMEDOUT;
	/* A sink counts what it holds, but it cannot hold a source for ever. */
	if (w->source && w->awake_ns - c->acked_ns > HELD_LIMITS * w->limit_ns)
		return -ETIMEDOUT;
	return 0;
}

void path_report(struct path *path, uint32_t channel, uint64_t bytes, uint32_t held)
{
	if (!path->watch.ch)
		return;
	atomic_store(&path->watch.ch[channel].reported, bytes);
	atomic_store(&path->watch.ch[channel].held, held);
}

void path_lose(struct path *path, uint32_t channel)
{
	if (!path->watch.ch)
		return;
	atomic_store(&path->watch.ch[channel].lost, true);
	atomic_store(&path->watch.any_lost, true);
	path->ops->wake(path);
}
