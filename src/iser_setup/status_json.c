// SPDX-License-Identifier: Apache-2.0
/* What is up, for programs; rftp-iser(8) describes it. An object that lacks memory is NULL, and so
 * is what it would be part of. */
#include "iser_setup/seen.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

static bool put(json_t *obj, const char *key, json_t *value)
{
	return !json_object_set_new(obj, key, value);
}

static bool put_ids(json_t *obj, const char *key, const struct ids *s)
{
	char text[IDS_MAX];

	return put(obj, key, json_string(ids_format(text, sizeof(text), s)));
}

/* null: not known. */
static bool put_node(json_t *obj, int node)
{
	return put(obj, "node", node == NODE_UNKNOWN ? json_null() : json_integer(node));
}

static json_t *whole(json_t *obj, bool well)
{
	if (well)
		return obj;
	json_decref(obj);
	return NULL;
}

/* ---- a target ---- */

static json_t *portal_json(const struct seen *s, const struct lio_portal *p,
			   const struct card_facts *c)
{
	json_t *o = json_pack("{s:o, s:i, s:b, s:b}", "address", json_name(p->address), "port",
			      (int)p->port, "iser", (int)p->iser, "here", (int)c->here);
	struct ids nodes = seen_nodes(s->t, &c->irq_cpus);

	if (!c->here)
		return o;
	return whole(o, put(o, "netdev", json_name(c->netdev)) && put_node(o, c->node) &&
			put(o, "rdma", *c->rdma ? json_name(c->rdma) : json_null()) &&
			put(o, "interrupts", json_integer(c->irqs)) &&
			put_ids(o, "interrupt_cpus", &c->irq_cpus) &&
			put_ids(o, "interrupt_nodes", &nodes));
}

static json_t *initiator_json(const struct lio_acl *a)
{
	return json_pack("{s:o, s:b, s:o}", "name", json_name(a->initiator), "logged_in",
			 (int)a->logged_in, "session", json_name(a->session));
}

static json_t *pages_json(const struct file_pages *p)
{
	json_t *on = json_object();
	char node[16];

	for (size_t i = 0; i < p->n_on; i++) {
		snprintf(node, sizeof(node), "%d", p->on[i].node);
		if (!put(on, node, json_integer((json_int_t)p->on[i].bytes))) {
			json_decref(on);
			return NULL;
		}
	}
	return json_pack("{s:o, s:I, s:I, s:b}", "nodes", on, "never_written",
			 (json_int_t)p->holes, "swapped", (json_int_t)p->swapped, "sampled",
			 (int)p->sampled);
}

static bool put_where(json_t *o, const struct store_facts *f)
{
	if (!put(o, "where", json_string(store_wheres[f->where])))
		return false;
	if (f->where == STORE_PAGES)
		return put(o, "pages", pages_json(&f->pages));
	if (f->where == STORE_DEVICE || f->where == STORE_CACHED)
		return put_ids(o, "device_nodes", &f->nodes);
	return !f->why || put(o, "why", json_name(f->why));
}

static json_t *lun_json(const struct seen *s, const struct seen_target *x, size_t i)
{
	const struct lio_store *store = seen_store(s, x->there, i);
	json_t *o = json_pack("{s:i}", "lun", (int)x->there->luns[i].lun);

	if (!store)
		return whole(o, put(o, "store", json_null()));
	return whole(o, put(o, "store", json_name(store->name)) &&
			put(o, "plugin", json_name(store->plugin)) &&
			put(o, "kind", json_string(seen_kind(store, &x->stores[i]))) &&
			put(o, "path", json_name(store->path)) &&
			put(o, "serial", json_name(store->serial)) &&
			put(o, "bytes", json_integer((json_int_t)store->size)) &&
			put(o, "write_back", strcmp(store->plugin, "fileio") ? json_null() :
			    json_boolean(store->write_back)) &&
			put_where(o, &x->stores[i]));
}

/* Of one kind of a target's parts. */
typedef json_t *part_json(const struct seen *s, const struct seen_target *x, size_t i);

static json_t *nth_portal(const struct seen *s, const struct seen_target *x, size_t i)
{
	return portal_json(s, &x->there->portals[i], &x->cards[i]);
}

static json_t *nth_initiator(const struct seen *s, const struct seen_target *x, size_t i)
{
	(void)s;
	return initiator_json(&x->there->acls[i]);
}

static json_t *parts_json(const struct seen *s, const struct seen_target *x, size_t n,
			  part_json *part)
{
	json_t *list = json_array();

	for (size_t i = 0; i < n; i++)
		if (json_array_append_new(list, part(s, x, i))) {
			json_decref(list);
			return NULL;
		}
	return list;
}

static json_t *target_json(const struct seen *s, const struct seen_target *x)
{
	json_t *o = json_pack("{s:o, s:b}", "iqn", json_name(x->plan->iqn), "there", !!x->there);
	const struct lio_target *t = x->there;

	if (!put_node(o, x->plan->node) || !t)
		return whole(o, !t);
	return whole(o, put(o, "enabled", json_boolean(t->enabled)) &&
			put(o, "portals", parts_json(s, x, t->n_portals, nth_portal)) &&
			put(o, "initiators", parts_json(s, x, t->n_acls, nth_initiator)) &&
			put(o, "sessions_without_acl", json_integer(t->dynamic)) &&
			put(o, "luns", parts_json(s, x, t->n_luns, lun_json)));
}

/* ---- all ---- */

static json_t *plan_json(const struct seen *s, const struct seen_plan *p)
{
	json_t *targets = json_array();

	for (size_t i = 0; i < p->n_targets; i++)
		if (json_array_append_new(targets, target_json(s, &p->targets[i]))) {
			json_decref(targets);
			return NULL;
		}
	return json_pack("{s:s, s:b, s:b, s:b, s:o}", "name", p->state.name, "applied",
			 !!p->state.applied, "applying", !!p->state.applying, "restarted",
			 (int)p->restarted, "targets", targets);
}

static json_t *plans_json(const struct seen *s)
{
	json_t *list = json_array();

	for (size_t i = 0; i < s->n_plans; i++)
		if (json_array_append_new(list, plan_json(s, &s->plans[i]))) {
			json_decref(list);
			return NULL;
		}
	return list;
}

static json_t *threads_json(const struct seen *s)
{
	json_t *list = json_array();
	char cpus[IDS_MAX], nodes[IDS_MAX];

	for (size_t i = 0; i < s->threads.n; i++) {
		const struct lio_thread *t = &s->threads.v[i];
		struct ids on = seen_nodes(s->t, &t->cpus);

		if (json_array_append_new(list, json_pack("{s:s, s:i, s:b, s:s, s:s, s:i}", "name",
			t->name, "pid", t->pid, "worker", (int)t->worker, "cpus",
			ids_format(cpus, sizeof(cpus), &t->cpus), "nodes",
			ids_format(nodes, sizeof(nodes), &on), "last_cpu", (int)t->last))) {
			json_decref(list);
			return NULL;
		}
	}
	return list;
}

static json_t *others_json(const struct seen *s)
{
	json_t *list = json_array();

	for (size_t i = 0; i < s->lio->n_targets; i++) {
		const struct lio_target *t = &s->lio->targets[i];
		unsigned sessions = t->dynamic;

		for (size_t k = 0; k < t->n_acls; k++)
			sessions += t->acls[k].logged_in;
		if (!seen_ours(s, t->iqn) && json_array_append_new(list, json_pack(
			"{s:o, s:b, s:I, s:I, s:i}", "iqn", json_name(t->iqn), "enabled",
			(int)t->enabled, "portals", (json_int_t)t->n_portals, "luns",
			(json_int_t)t->n_luns, "sessions", (int)sessions))) {
			json_decref(list);
			return NULL;
		}
	}
	return list;
}

int status_emit(const struct seen *s, bool all)
{
	json_t *o = json_pack("{s:b, s:b}", "lio", (int)s->lio->there, "iscsi",
			      (int)s->lio->iscsi);

	o = whole(o, put(o, "plans", plans_json(s)) &&
		     put(o, "cpus_allowed_list", s->lio->cpus ? json_string(s->lio->cpus) :
			 json_null()) &&
		     put(o, "threads", threads_json(s)) &&
		     (!all || (put(o, "others", others_json(s)) &&
			       put(o, "others_certain", json_boolean(s->plans_known)))) &&
		     put(o, "unseen", lines_json(&s->unseen)));
	return o ? json_emit(stdout, o) : -ENOMEM;
}
