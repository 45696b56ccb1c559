// SPDX-License-Identifier: Apache-2.0
/* A target per node: its back stores, the address on the node's card, who may log in. */
#include "iser_setup/planner.h"

#include "iser_setup/locate.h"
#include "iser_setup/names.h"
#include "iser_setup/planner_names.h"
#include "iser_setup/planner_portals.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct work {
	const struct spec *s;
	const struct planner_host *h;
	const struct spec_node *each; /* [node *], or NULL */
	struct cards cards;
	struct lines *notes;
	struct err *e;
	char *prefix;                 /* of IQNs */
	struct iser_plan *p;
};

static int no_memory(struct work *w)
{
	return err_set(w->e, -ENOMEM, "out of memory");
}

/* ---- which nodes ---- */

/* Which are there, for an error's text. */
static const char *nodes_there(const struct topo *t, char *out, size_t room)
{
	struct ids all = { 0 };

	for (unsigned i = 0; i < topo_nodes(t); i++)
		ids_add(&all, (unsigned)topo_node(t, i)->id);
	return ids_format(out, room, &all);
}

static int check_node(struct work *w, int node)
{
	char there[256];

	if (topo_find(w->h->topo, node))
		return 0;
	return err_set(w->e, -EINVAL, "there is no node %d here, but %s", node,
		       nodes_there(w->h->topo, there, sizeof(there)));
}

/* Is a store of [node *] on every node, or where its device is? */
static bool is_movable(const struct spec_store *s)
{
	return s->kind == ISER_TMPFS || s->kind == ISER_RAMDISK;
}

/* [node *] is for the nodes that were asked for, or all that have RDMA, or, where there is none at
 * all, a card. */
static bool is_for(const struct work *w, int node)
{
	if (ids_count(&w->s->only))
		return ids_has(&w->s->only, (unsigned)node);
	return cards_on(&w->cards, node, cards_any(&w->cards, true));
}

static bool has_movable(const struct spec_node *n)
{
	for (size_t i = 0; n && i < n->n_stores; i++)
		if (is_movable(&n->stores[i]))
			return true;
	return false;
}

static bool has_found(const struct spec_node *n, int node)
{
	for (size_t i = 0; n && i < n->n_stores; i++)
		if (!is_movable(&n->stores[i]) && n->stores[i].found == node)
			return true;
	return false;
}

static bool is_left_out(const struct work *w, int node)
{
	return ids_count(&w->s->only) && !ids_has(&w->s->only, (unsigned)node);
}

static bool has_target(const struct work *w, int node)
{
	if (is_left_out(w, node))
		return false;
	return spec_node(w->s, node) || has_found(w->each, node) ||
	       (has_movable(w->each) && is_for(w, node));
}

/* What is asked for and could not be on any node. */
static int check_nodes(struct work *w)
{
	const struct topo *t = w->h->topo;
	const struct ids *only = &w->s->only;

	for (int id = ids_next(only, 0); id >= 0; id = ids_next(only, (unsigned)id + 1))
		if (check_node(w, id))
			return w->e->code;
	for (size_t i = 0; i < w->s->n_nodes; i++)
		if (w->s->nodes[i].node != SPEC_EACH && check_node(w, w->s->nodes[i].node))
			return w->e->code;
	for (size_t i = 0; w->each && i < w->each->n_stores; i++) {
		const struct spec_store *s = &w->each->stores[i];

		if (is_movable(s))
			continue;
		if (s->kind == ISER_BLOCK && locate_absent(s->path, t, w->h->own))
			return err_set(w->e, -ENODEV, "%s: %s", printable(s->path),
				       locate_absent(s->path, t, w->h->own));
		if (!topo_find(t, s->found))
			return err_set(w->e, -EINVAL, "%s: its node is not known, or it has "
				       "several; put it under the one it is to be served by: "
				       "[node 0], %s = %s", printable(s->path), iser_kinds[s->kind],
				       printable(s->path));
		if (is_left_out(w, s->found))
			lines_add(w->notes, "%s is on node %d, which is not planned for",
				  printable(s->path), s->found);
	}
	return 0;
}

/* ---- back stores ---- */

/* What of a node's section, else of [node *], else of neither. */
static int said(int own, int all, int otherwise)
{
	if (own != SPEC_UNSAID)
		return own;
	return all != SPEC_UNSAID ? all : otherwise;
}

static int copy_attributes(struct work *w, const struct iser_attribute *from, size_t n,
			   struct iser_attribute **list, size_t *count)
{
	for (size_t i = 0; i < n; i++) {
		struct iser_attribute *a = NULL;

		/* The node's own comes later, and counts. */
		for (size_t k = 0; k < *count; k++)
			if (!strcmp((*list)[k].name, from[i].name))
				a = &(*list)[k];
		if (!a) {
			a = iser_plan_add(*list, *count);
			if (!a || !(a->name = strdup(from[i].name)))
				return no_memory(w);
		}
		a->value = from[i].value;
	}
	return 0;
}

static int set_attributes(struct work *w, const struct spec_node *own, struct iser_store *s)
{
	char name[] = "is_nonrot";
	const struct iser_attribute still = { .name = name, .value = 1 };

	/* LIO says of any file or RAM that it turns, and who uses such a disk reads it in order. */
	if (iser_store_forgets(s) &&
	    copy_attributes(w, &still, 1, &s->attributes, &s->n_attributes))
		return w->e->code;
	if (w->each && copy_attributes(w, w->each->lun_attributes, w->each->n_lun_attributes,
				       &s->attributes, &s->n_attributes))
		return w->e->code;
	return own ? copy_attributes(w, own->lun_attributes, own->n_lun_attributes, &s->attributes,
				     &s->n_attributes) : 0;
}

static int name_store(struct work *w, const struct iser_target *t, struct iser_store *s)
{
	if (asprintf(&s->name, "%s-node%d-disk%u", w->p->name, t->node, s->lun) < 0) {
		s->name = NULL; /* asprintf leaves it undefined */
		return no_memory(w);
	}
	s->serial = planner_serial(t->iqn, s->name);
	if (s->kind == ISER_TMPFS &&
	    asprintf(&s->path, "%s/%s", w->s->mounts ? w->s->mounts : PLANNER_MOUNTS, s->name) < 0)
		s->path = NULL;
	return s->serial && (s->path || s->kind == ISER_RAMDISK) ? 0 : no_memory(w);
}

static int add_store(struct work *w, struct iser_target *t, const struct spec_node *own,
		     const struct spec_store *from)
{
	const int each_policy = w->each ? w->each->policy : SPEC_UNSAID;
	const int each_write = w->each ? w->each->write_back : SPEC_UNSAID;
	struct iser_store *s = iser_plan_add(t->stores, t->n_stores);

	if (!s)
		return no_memory(w);
	s->lun = (unsigned)(t->n_stores - 1);
	s->kind = from->kind;
	s->size = from->size;
	s->node = is_movable(from) || from->found == NODE_UNKNOWN ? t->node : from->found;
	s->policy = (enum iser_policy)said(own ? own->policy : SPEC_UNSAID, each_policy, ISER_BIND);
	/* Of a device it is its own matter, and RAM has nothing to write through to. */
	if (from->kind == ISER_TMPFS || from->kind == ISER_FILE)
		s->write_back = said(own ? own->write_back : SPEC_UNSAID, each_write, 0);
	if (from->path && !(s->path = strdup(from->path)))
		return no_memory(w);
	return name_store(w, t, s) ? w->e->code : set_attributes(w, own, s);
}

static int add_stores(struct work *w, struct iser_target *t, const struct spec_node *own)
{
	for (size_t i = 0; w->each && i < w->each->n_stores; i++) {
		const struct spec_store *s = &w->each->stores[i];

		if ((is_movable(s) || s->found == t->node) && add_store(w, t, own, s))
			return w->e->code;
	}
	for (size_t i = 0; own && i < own->n_stores; i++)
		if (add_store(w, t, own, &own->stores[i]))
			return w->e->code;
	return t->n_stores ? 0 : err_set(w->e, -EINVAL, "node %d is to be a target, but has no "
					 "storage: give it a tmpfs, a file, a block device or a "
					 "ramdisk", t->node);
}

/* ---- who may log in ---- */

/* A file that was named, or the one that is to be made. */
static char *secret_file(struct work *w, const struct spec_initiator *from, bool mutual)
{
	const char *secret = mutual ? from->mutual_secret : from->chap_secret;

	return strcmp(secret, SPEC_GENERATE) ? strdup(secret) :
	       planner_secret(w->s, w->p->name, from->name, mutual);
}

static int fill_initiator(struct work *w, const struct spec_initiator *from,
			  struct iser_initiator *to)
{
	to->name = strdup(from->name);
	if (from->chap_secret) {
		to->chap.user = strdup(from->chap_user ? from->chap_user : from->name);
		to->chap.secret_file = secret_file(w, from, false);
	}
	if (from->mutual_secret) {
		to->mutual.user = strdup(from->mutual_user ? from->mutual_user : w->p->name);
		to->mutual.secret_file = secret_file(w, from, true);
	}
	if (!to->name || (from->chap_secret && !(to->chap.user && to->chap.secret_file)) ||
	    (from->mutual_secret && !(to->mutual.user && to->mutual.secret_file)))
		return no_memory(w);
	return 0;
}

static int check_user(struct work *w, const struct spec_initiator *i)
{
	if (i->chap_user && !i->chap_secret)
		return err_set(w->e, -EINVAL, "%s has a chap-user without a chap-secret", i->name);
	if (i->mutual_user && !i->mutual_secret)
		return err_set(w->e, -EINVAL, "%s has a mutual-user without a mutual-secret",
			       i->name);
	return 0;
}

static int add_initiators(struct work *w, struct iser_target *t)
{
	t->open = w->s->open;
	for (size_t i = 0; i < w->s->n_initiators; i++) {
		struct iser_initiator *to = iser_plan_add(t->initiators, t->n_initiators);

		if (!to)
			return no_memory(w);
		if (check_user(w, &w->s->initiators[i]) ||
		    fill_initiator(w, &w->s->initiators[i], to))
			return w->e->code;
	}
	return 0;
}

static int check_who(struct work *w)
{
	if (w->s->open && w->s->n_initiators)
		return err_set(w->e, -EINVAL, "the targets are to be open to anyone, and there are "
			       "initiators: which is it?");
	if (!w->s->open && !w->s->n_initiators)
		return err_set(w->e, -EINVAL, "who may log in? Say --initiator with an IQN "
			       "(/etc/iscsi/initiatorname.iscsi has a host's), or --open for "
			       "anyone");
	return 0;
}

/* ---- targets ---- */

static int add_target(struct work *w, int node)
{
	const struct spec_node *own = spec_node(w->s, node);
	struct iser_target *t = iser_plan_add(w->p->targets, w->p->n_targets);
	const struct planner_portals ask = { w->h->topo, w->h->addresses, &w->cards, w->s->tcp };

	if (!t)
		return no_memory(w);
	t->node = node;
	t->iqn = planner_iqn(w->prefix, w->p->name, node);
	if (!t->iqn)
		return no_memory(w);
	if (add_stores(w, t, own) || planner_portals(&ask, own, t, w->e) || add_initiators(w, t))
		return w->e->code;
	if (w->each && copy_attributes(w, w->each->target_attributes,
				       w->each->n_target_attributes, &t->attributes,
				       &t->n_attributes))
		return w->e->code;
	return own ? copy_attributes(w, own->target_attributes, own->n_target_attributes,
				     &t->attributes, &t->n_attributes) : 0;
}

/* [node *] wants memory of all, and gets that of some: a link may only be down. */
static void note_left_out(struct work *w)
{
	struct ids out = { 0 };
	char list[256];

	if (!has_movable(w->each) || ids_count(&w->s->only))
		return;
	for (unsigned i = 0; i < topo_nodes(w->h->topo); i++)
		if (!has_target(w, topo_node(w->h->topo, i)->id))
			ids_add(&out, (unsigned)topo_node(w->h->topo, i)->id);
	if (ids_count(&out))
		lines_add(w->notes, "left out: node %s, where no %s has an address; --node names "
			  "those that are to be served all the same",
			  ids_format(list, sizeof(list), &out),
			  cards_any(&w->cards, true) ? "RDMA card" : "card");
}

static int no_target(struct work *w)
{
	if (!w->s->n_nodes)
		return err_set(w->e, -EINVAL, "what is to be served? Say --tmpfs, --file, --block "
			       "or --ramdisk, or name a file that does");
	if (!cards_any(&w->cards, true) && !w->s->tcp)
		return err_set(w->e, -EINVAL, "no network interface that has an address has an "
			       "RDMA "
			       "device; rdma link add makes a soft one, --tcp plans plain iSCSI");
	return err_set(w->e, -EINVAL, "no node has what is asked for: a network card that is known "
		       "to be on it, or storage; --node says which to plan for");
}

static int make(struct work *w)
{
	int r;

	w->p->name = planner_name(w->s, w->h);
	if (!w->p->name)
		return no_memory(w);
	if (iser_plan_name_wrong(w->p->name))
		return err_set(w->e, -EINVAL, "this host's name as the plan's, \"%s\", %s; --name "
			       "says another", printable(w->p->name),
			       iser_plan_name_wrong(w->p->name));
	w->p->cpus = w->s->cpus;
	w->prefix = planner_iqn_prefix(w->s, w->h, w->e);
	if (!w->prefix)
		return w->e->code ? w->e->code : no_memory(w);
	r = cards_find(w->h->topo, w->h->addresses, &w->cards);
	if (r)
		return no_memory(w);
	if (check_who(w) || check_nodes(w))
		return w->e->code;
	for (unsigned i = 0; i < topo_nodes(w->h->topo); i++)
		if (has_target(w, topo_node(w->h->topo, i)->id) &&
		    add_target(w, topo_node(w->h->topo, i)->id))
			return w->e->code;
	if (!w->p->n_targets)
		return no_target(w);
	note_left_out(w);
	return iser_plan_check(w->p, w->e);
}

struct iser_plan *planner_plan(const struct spec *s, const struct planner_host *h,
			       struct lines *notes, struct err *e)
{
	struct err own = ERR_INIT;
	struct work w = { .s = s, .h = h, .each = spec_node(s, SPEC_EACH), .notes = notes,
			  .e = e ? e : &own, .p = iser_plan_new() };
	int r = w.p ? make(&w) : no_memory(&w);

	cards_clear(&w.cards);
	free(w.prefix);
	if (!r) {
		iser_plan_doubts(w.p, h, notes);
		return w.p;
	}
	iser_plan_free(w.p);
	return NULL;
}
