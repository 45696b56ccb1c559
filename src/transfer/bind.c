// SPDX-License-Identifier: Apache-2.0
/* From the card's node alone, page cache there making room, as long as there is enough: asked for
 * less strictly, the kernel takes another node's free page first. But whoever asks strictly for
 * what there is not makes it end processes; so memory is had a step at a time, and only while
 * there is room. */
#include "transfer/bind.h"

#include <errno.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>

#define STEP (64ull << 20)
/* What a node keeps: the kernel's reserve, and what others take meanwhile. */
#define NODE_SPARE (64ull << 20)
#define NODE_SPARE_SHARE 64

static bool has_room(const struct bind_wish *w, int node, size_t bytes)
{
	struct node_memory m;

	return !topo_memory(w->topo, node, &m) &&
	       m.room >= bytes + NODE_SPARE + m.total / NODE_SPARE_SHARE;
}

static int fill(const struct bind_wish *w, int node, uint8_t *base, size_t bytes, bool huge)
{
	int r = 0;

	for (size_t at = 0; !r && at < bytes; at += STEP) {
		size_t len = bytes - at < STEP ? bytes - at : STEP;

		/* Huge pages were set aside, and counted. */
		r = huge || has_room(w, node, len) ? place_fault_in(base + at, len) : -ENOSPC;
	}
	return r;
}

/* All of it on node, or none: 0, or why not. */
static int bind_to(const struct bind_wish *w, int node, void *base, size_t bytes, bool huge)
{
	int r = place_memory(base, bytes, node, true);

	if (r)
		return r;
	r = fill(w, node, base, bytes, huge);
	if (!r)
		return 0;
	place_anywhere(base, bytes);
	(void)madvise(base, bytes, MADV_DONTNEED); /* what came meanwhile goes back */
	return r;
}

/* On another node whose memory the card uses as well. */
static bool bind_near(const struct bind_wish *w, void *base, size_t bytes)
{
	struct ids near = model_near(w->model, w->node, w->op);
	char text[32];

	for (int n = ids_next(&near, 0); n >= 0; n = ids_next(&near, (unsigned)n + 1)) {
		if (n == w->node || !has_room(w, n, bytes) || bind_to(w, n, base, bytes, false))
			continue;
		log_warn("node %d has not %s to spare: blocks are on node %d, which is as near",
			 w->node, format_size(text, sizeof(text), bytes), n);
		return true;
	}
	return false;
}

/* Nothing can be placed here at all, in a container that forbids it say: once is enough. */
static void say_forbidden(int why)
{
	static atomic_bool said;

	if (!atomic_exchange(&said, true))
		log_info("memory cannot be put on NUMA nodes here: %s", strerror(-why));
}

static int bind_loosely(const struct bind_wish *w, void *base, size_t bytes)
{
	int r = place_memory(base, bytes, w->node, false);

	if (r == -EINVAL)
		log_warn("memory cannot be put on node %d: it may not be used here (cpuset); it "
			 "comes from any", w->node);
	else if (r)
		say_forbidden(r);
	return r;
}

int bind_pool(void *arg, void *base, size_t bytes, bool huge)
{
	const struct bind_wish *w = arg;
	char text[32];
	int r = w->now && (huge || has_room(w, w->node, bytes)) ?
		bind_to(w, w->node, base, bytes, huge) : -ENOSPC;

	if (!r)
		return 0;
	if (r == -ENOSPC && w->now && !huge && bind_near(w, base, bytes))
		return 0;
	if (!bind_loosely(w, base, bytes) && w->now)
		log_warn("node %d has not %s to spare: some of the blocks may be on others",
			 w->node, format_size(text, sizeof(text), bytes));
	return 0;
}
