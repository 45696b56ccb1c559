// SPDX-License-Identifier: Apache-2.0
/* What is up, for people. */
#include "iser_setup/seen.h"

#include <stdio.h>
#include <string.h>

#define SIZE_TEXT 32
#define ROW "    %-10s "

/* ", on node 1", or nothing when it is not known. */
static void show_node(int node, const char *before)
{
	if (node == NODE_UNKNOWN)
		printf("%sno node that is known", before);
	else
		printf("%snode %d", before, node);
}

static void show_nodes(const struct ids *nodes, const char *before)
{
	char text[IDS_MAX];

	if (!ids_count(nodes))
		printf("%sno node that is known", before);
	else
		printf("%snode%s %s", before, ids_count(nodes) > 1 ? "s" : "",
		       ids_format(text, sizeof(text), nodes));
}

/* ---- a target ---- */

static void show_portal(const struct seen *s, const struct lio_portal *p,
			const struct card_facts *c)
{
	char text[IDS_MAX];
	struct ids nodes;

	printf(ROW "%s port %u, %s", "portal", printable(p->address), p->port,
	       p->iser ? "iSER" : "TCP alone");
	if (!c->here) {
		puts("; this host does not have the address");
		return;
	}
	printf("; %s", printable(c->netdev));
	show_node(c->node, " of ");
	printf(", %s%s", *c->rdma ? "RDMA device " : "no RDMA device", printable(c->rdma));
	if (c->irqs) {
		nodes = seen_nodes(s->t, &c->irq_cpus);
		printf(", %u interrupts on CPUs %s", c->irqs,
		       ids_format(text, sizeof(text), &c->irq_cpus));
		show_nodes(&nodes, " of ");
	}
	putchar('\n');
}

static void show_initiators(const struct lio_target *t)
{
	for (size_t i = 0; i < t->n_acls; i++) {
		const struct lio_acl *a = &t->acls[i];
		const char *at = strstr(a->session, "Address ");

		printf(ROW "%s: %s", "initiator", printable(a->initiator),
		       a->logged_in ? "logged in" : "not logged in");
		if (at) {
			at += strlen("Address ");
			printf(" from %.*s", (int)strcspn(at, " ,"), at);
		}
		putchar('\n');
	}
	if (t->dynamic)
		printf(ROW "%u session%s of initiators that have no ACL\n", "initiators",
		       t->dynamic,
		       t->dynamic == 1 ? "" : "s");
}

static void show_pages(const struct file_pages *p)
{
	char size[SIZE_TEXT];

	printf(": pages");
	for (size_t i = 0; i < p->n_on; i++)
		printf("%s %s on node %d", i ? "," : "", format_size(size, sizeof(size),
								     p->on[i].bytes),
		       p->on[i].node);
	if (!p->n_on)
		printf(" none yet");
	if (p->holes)
		printf(", %s never written", format_size(size, sizeof(size), p->holes));
	if (p->swapped)
		printf(", %s in swap space", format_size(size, sizeof(size), p->swapped));
	if (p->sampled)
		printf(" (of a sample)");
}

static void show_where(const struct store_facts *f, int node)
{
	switch (f->where) {
	case STORE_PAGES:
		show_pages(&f->pages);
		break;
	case STORE_CACHED:
		show_nodes(&f->nodes, ": in the page cache, wherever that is; its device is of ");
		break;
	case STORE_DEVICE:
		show_nodes(&f->nodes, ": of ");
		break;
	case STORE_HIDDEN:
		printf(": where its pages are is not visible");
		if (node != NODE_UNKNOWN)
			printf("; made under node %d", node);
		break;
	case STORE_GONE:
		printf(": what it serves is not there any more by its name");
		break;
	case STORE_UNSEEN:
	case STORE_WHERES:
		printf(": where it is could not be seen");
		break;
	}
}

/* The node a planned store was made under. */
static int planned_node(const struct iser_target *t, const char *name)
{
	for (size_t i = 0; i < t->n_stores; i++)
		if (!strcmp(t->stores[i].name, name))
			return t->stores[i].node;
	return NODE_UNKNOWN;
}

static void show_lun(const struct seen *s, const struct seen_target *x, size_t i)
{
	const struct lio_lun *lun = &x->there->luns[i];
	const struct lio_store *store = seen_store(s, x->there, i);
	char size[SIZE_TEXT], row[24];

	snprintf(row, sizeof(row), "LUN %u", lun->lun);
	if (!store) {
		printf(ROW "its back store is gone\n", row);
		return;
	}
	printf(ROW "%s, %s%s%s, %s", row, printable(store->name), seen_kind(store, &x->stores[i]),
	       *store->path ? " " : "", printable(store->path),
	       format_size(size, sizeof(size), store->size));
	if (!strcmp(store->plugin, "fileio"))
		printf(", write-%s", store->write_back ? "back" : "through");
	show_where(&x->stores[i], planned_node(x->plan, store->name));
	putchar('\n');
}

static void show_target(const struct seen *s, const struct seen_target *x)
{
	const struct lio_target *t = x->there;

	printf("target %s", x->plan->iqn);
	if (x->plan->node != NODE_UNKNOWN)
		printf(" for node %d", x->plan->node);
	if (!t) {
		puts(": is not there");
		return;
	}
	puts(t->enabled ? ": enabled" : ": disabled");
	for (size_t i = 0; i < t->n_portals; i++)
		show_portal(s, &t->portals[i], &x->cards[i]);
	show_initiators(t);
	for (size_t i = 0; i < t->n_luns; i++)
		show_lun(s, x, i);
}

static void show_plan(const struct seen *s, const struct seen_plan *p)
{
	printf("plan %s: %s%s%s\n", p->state.name,
	       p->state.applied ? "applied" : "not applied to its end",
	       p->state.applying && p->state.applied ? "; another apply was not ended" : "",
	       p->restarted ? ", before this host was started again: what tmpfs and ramdisks held "
	       "is gone" : "");
	for (size_t i = 0; i < p->n_targets; i++)
		show_target(s, &p->targets[i]);
}

/* ---- threads ---- */

/* Those of one name, from the first; how many. */
static size_t show_threads_of(const struct seen *s, size_t first)
{
	const struct lio_thread *v = s->threads.v;
	struct ids cpus = { 0 }, last = { 0 }, nodes;
	char may[IDS_MAX], ran[IDS_MAX];
	size_t n = 0;

	for (; first + n < s->threads.n && !strcmp(v[first + n].name, v[first].name); n++) {
		ids_unite(&cpus, &v[first + n].cpus);
		ids_add(&last, v[first + n].last);
	}
	nodes = seen_nodes(s->t, &cpus);
	printf("    %-17s %zu %s%s may run on CPUs %s", v[first].name, n,
	       v[first].worker ? "worker" : "thread", n == 1 ? "" : "s",
	       ids_format(may, sizeof(may), &cpus));
	show_nodes(&nodes, " of ");
	printf(", last on %s\n", ids_format(ran, sizeof(ran), &last));
	return n;
}

static void show_threads(const struct seen *s)
{
	if (!s->lio->iscsi)
		return;
	printf("threads of all iSCSI targets of this host, CPUs allowed: %s\n",
	       s->lio->cpus ? s->lio->cpus : "any; this kernel has no cpus_allowed_list");
	for (size_t i = 0; i < s->threads.n;)
		i += show_threads_of(s, i);
}

/* ---- the rest ---- */

static unsigned sessions(const struct lio_target *t)
{
	unsigned n = t->dynamic;

	for (size_t i = 0; i < t->n_acls; i++)
		n += t->acls[i].logged_in;
	return n;
}

static void show_others(const struct seen *s)
{
	for (size_t i = 0; i < s->lio->n_targets; i++) {
		const struct lio_target *t = &s->lio->targets[i];

		if (!seen_ours(s, t->iqn))
			printf("%s: target %s, %s, %zu portals, %zu LUNs, %u sessions\n",
			       s->plans_known ? "not ours" : "whose is not known",
			       printable(t->iqn), t->enabled ? "enabled" : "disabled",
			       t->n_portals, t->n_luns, sessions(t));
	}
}

void status_show(const struct seen *s, bool all)
{
	for (size_t i = 0; i < s->n_plans; i++)
		show_plan(s, &s->plans[i]);
	if (all && !s->n_plans && s->plans_known)
		puts("no plan was applied here");
	if (!s->lio->there)
		puts("the kernel's target (LIO) is not loaded");
	show_threads(s);
	if (all)
		show_others(s);
	for (size_t i = 0; i < s->unseen.n; i++)
		printf("not seen: %s\n", s->unseen.v[i]);
}
