// SPDX-License-Identifier: Apache-2.0
/* Facts in memory. */
#include "iser_setup/facts.h"

#include <stdlib.h>

const char *const store_wheres[STORE_WHERES] = {
	[STORE_UNSEEN] = "unseen", [STORE_PAGES] = "pages", [STORE_CACHED] = "page cache",
	[STORE_DEVICE] = "device", [STORE_HIDDEN] = "hidden", [STORE_GONE] = "gone",
};

const char *const fixed_attributes[FIXED_ATTRIBUTES] = {
	[FIXED_AUTHENTICATION] = "authentication", [FIXED_GENERATE] = "generate_node_acls",
	[FIXED_PROTECT] = "demo_mode_write_protect", [FIXED_CACHE] = "cache_dynamic_acls",
};

/* calloc(0) may be NULL, which would look like a failure. */
static void *room(size_t n, size_t each)
{
	return calloc(n + 1, each);
}

static bool begin_target(struct target_facts *f, const struct iser_target *t)
{
	f->cards = room(t->n_portals, sizeof(*f->cards));
	f->stores = room(t->n_stores, sizeof(*f->stores));
	f->initiators = room(t->n_initiators, sizeof(*f->initiators));
	f->attributes = room(t->n_attributes, sizeof(*f->attributes));
	if (!f->cards || !f->stores || !f->initiators || !f->attributes)
		return false;
	for (size_t i = 0; i < t->n_portals; i++)
		f->cards[i].node = NODE_UNKNOWN;
	for (size_t i = 0; i < t->n_stores; i++) {
		struct store_facts *s = &f->stores[i];

		s->attributes = room(t->stores[i].n_attributes, sizeof(*s->attributes));
		if (!s->attributes)
			return false;
	}
	return true;
}

struct facts *facts_new(const struct iser_plan *p)
{
	struct facts *f = calloc(1, sizeof(*f));

	if (!f)
		return NULL;
	f->targets = room(p->n_targets, sizeof(*f->targets));
	for (size_t i = 0; f->targets && i < p->n_targets; i++)
		if (!begin_target(&f->targets[i], &p->targets[i])) {
			facts_free(f, p);
			return NULL;
		}
	if (f->targets)
		return f;
	free(f);
	return NULL;
}

static void end_target(struct target_facts *f, const struct iser_target *t)
{
	for (size_t i = 0; f->stores && i < t->n_stores; i++) {
		file_pages_clear(&f->stores[i].pages);
		free(f->stores[i].why);
		free(f->stores[i].attributes);
	}
	free(f->cards);
	free(f->stores);
	free(f->initiators);
	free(f->attributes);
}

void facts_free(struct facts *f, const struct iser_plan *p)
{
	if (!f)
		return;
	for (size_t i = 0; i < p->n_targets; i++)
		end_target(&f->targets[i], &p->targets[i]);
	for (size_t i = 0; i < f->n_irqs; i++)
		free(f->irqs[i].netdev);
	free(f->irqs);
	lio_threads_clear(&f->threads);
	free(f->targets);
	free(f);
}
