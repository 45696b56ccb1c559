// SPDX-License-Identifier: Apache-2.0
/* Reads all of what status tells. */
#include "iser_setup/seen.h"

#include "iser_setup/card.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- plans ---- */

const struct iser_plan *seen_plan(const struct iser_state *s)
{
	return s->applied ? s->applied : s->applying;
}

static int open_state(struct seen *s, const char *dir, const char *name, struct err *e)
{
	struct seen_plan *p = iser_plan_add(s->plans, s->n_plans);

	if (!p)
		return err_set(e, -ENOMEM, "out of memory");
	return iser_state_open(&p->state, dir, name, NULL, e);
}

/* Those that have no plan are of no use. */
static void drop_last(struct seen *s)
{
	iser_state_close(&s->plans[--s->n_plans].state);
}

static int open_one(struct seen *s, const char *dir, const char *name, struct err *e)
{
	struct err why = ERR_INIT;
	int r = open_state(s, dir, name, &why);

	if (r)
		return err_set(e, r, "%s%s", why.text, r == -EACCES ? "; use sudo" : "");
	if (!seen_plan(&s->plans[s->n_plans - 1].state)) {
		drop_last(s);
		return err_set(e, -ENOENT, "%s: no plan of this name was applied here",
			       printable(name));
	}
	s->plans_known = false;
	return 0;
}

/* One that cannot be read is said, and does not hide the others. */
static int open_all(struct seen *s, const char *dir, struct err *e)
{
	char **names;
	size_t n;
	int r = iser_state_names(dir, &names, &n, e);

	s->plans_known = !r;
	if (r && r != -ENOMEM) {
		lines_add(&s->unseen, "which plans were applied: %s%s", e->text,
			  r == -EACCES ? "; root may see it" : "");
		*e = (struct err)ERR_INIT;
		r = 0;
	}
	for (size_t i = 0; i < n; i++) {
		struct err own = ERR_INIT;

		if (!r && open_state(s, dir, names[i], &own)) {
			lines_add(&s->unseen, "the plan %s: %s", names[i], own.text);
			s->plans_known = false;
			drop_last(s);
		} else if (!r && !seen_plan(&s->plans[s->n_plans - 1].state)) {
			drop_last(s);
		}
		free(names[i]);
	}
	free(names);
	return r;
}

int seen_plans(struct seen *s, const char *dir, const char *name, struct err *e)
{
	int r = name ? open_one(s, dir, name, e) : open_all(s, dir, e);

	for (size_t i = 0; i < s->n_plans; i++)
		s->plans[i].restarted = iser_state_restarted(&s->plans[i].state);
	return r;
}

/* ---- targets ---- */

static int look_at(struct seen *s, struct seen_target *x)
{
	const struct lio_target *t = x->there;
	int r = 0;

	x->cards = calloc(t->n_portals + 1, sizeof(*x->cards));
	x->stores = calloc(t->n_luns + 1, sizeof(*x->stores));
	if (!x->cards || !x->stores)
		return -ENOMEM;
	for (size_t i = 0; i < t->n_portals; i++)
		x->cards[i] = card_read(s->t, t->portals[i].address);
	for (size_t i = 0; !r && i < t->n_luns; i++) {
		const struct lio_store *store = seen_store(s, t, i);

		if (store)
			r = look_store(s->t, store, &x->stores[i]);
		if (!r && x->stores[i].why)
			lines_add(&s->unseen, "LUN %u of %s: %s", t->luns[i].lun, t->iqn,
				  x->stores[i].why);
	}
	return r;
}

static int add_target(struct seen *s, struct seen_plan *p, const struct iser_target *t)
{
	struct seen_target *x;

	for (size_t i = 0; i < p->n_targets; i++)
		if (!strcmp(p->targets[i].plan->iqn, t->iqn))
			return 0;
	x = iser_plan_add(p->targets, p->n_targets);
	if (!x)
		return -ENOMEM;
	x->plan = t;
	x->there = lio_target(s->lio, t->iqn);
	return x->there ? look_at(s, x) : 0;
}

/* A plan that was being applied may have made something, too. */
static int add_targets(struct seen *s, struct seen_plan *p)
{
	int r = 0;

	for (size_t i = 0; i < iser_state_plans(&p->state); i++) {
		const struct iser_plan *plan = iser_state_plan(&p->state, i);

		for (size_t k = 0; !r && plan && k < plan->n_targets; k++)
			r = add_target(s, p, &plan->targets[k]);
	}
	return r;
}

int seen_read(struct seen *s, const char *dir, const char *name, struct err *e)
{
	struct err threads = ERR_INIT;
	int r;

	*s = (struct seen){ .t = topo_read(NULL, e) };
	if (!s->t)
		return e->code;
	r = seen_plans(s, dir, name, e);
	if (r)
		return r;
	s->lio = lio_read(NULL, e);
	if (!s->lio)
		return e->code;
	for (size_t i = 0; !r && i < s->n_plans; i++)
		r = add_targets(s, &s->plans[i]);
	if (!r && lio_threads_read(host_dirs().proc, &s->threads, &threads))
		lines_add(&s->unseen, "LIO's threads: %s", threads.text);
	return r || s->unseen.lost ? err_set(e, -ENOMEM, "out of memory") : 0;
}

static void clear_plan(struct seen_plan *p)
{
	for (size_t i = 0; i < p->n_targets; i++) {
		struct seen_target *x = &p->targets[i];

		for (size_t k = 0; x->there && x->stores && k < x->there->n_luns; k++) {
			file_pages_clear(&x->stores[k].pages);
			free(x->stores[k].why);
		}
		free(x->cards);
		free(x->stores);
	}
	free(p->targets);
	iser_state_close(&p->state);
}

void seen_clear(struct seen *s)
{
	for (size_t i = 0; i < s->n_plans; i++)
		clear_plan(&s->plans[i]);
	free(s->plans);
	lio_threads_clear(&s->threads);
	lines_clear(&s->unseen);
	lio_free(s->lio);
	topo_free(s->t);
	*s = (struct seen){ 0 };
}

/* ---- what is shown ---- */

bool seen_ours(const struct seen *s, const char *iqn)
{
	for (size_t i = 0; i < s->n_plans; i++)
		for (size_t k = 0; k < s->plans[i].n_targets; k++)
			if (!strcmp(s->plans[i].targets[k].plan->iqn, iqn))
				return true;
	return false;
}

const struct lio_store *seen_store(const struct seen *s, const struct lio_target *t, size_t i)
{
	return t->luns[i].store ? lio_store(s->lio, t->luns[i].plugin, t->luns[i].store) : NULL;
}

const char *seen_kind(const struct lio_store *s, const struct store_facts *f)
{
	static const struct { const char *plugin, *kind; } kinds[] = {
		{ "iblock", "block device" }, { "rd_mcp", "ramdisk" }, { "fileio", "file" },
	};

	if (f->where == STORE_PAGES)
		return "tmpfs";
	for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++)
		if (!strcmp(s->plugin, kinds[i].plugin))
			return kinds[i].kind;
	return s->plugin;
}

struct ids seen_nodes(const struct topo *t, const struct ids *cpus)
{
	struct ids nodes = { 0 };

	for (unsigned i = 0; i < topo_nodes(t); i++) {
		struct ids both = topo_node(t, i)->cpus;

		ids_intersect(&both, cpus);
		if (ids_count(&both))
			ids_add(&nodes, (unsigned)topo_node(t, i)->id);
	}
	return nodes;
}
