// SPDX-License-Identifier: Apache-2.0
/* A plan, what LIO has and what is looked at besides, all as it should be; for tests of what is
 * judged. After cmocka.h. */
#ifndef RFTP_TESTS_ISER_SCENE_H
#define RFTP_TESTS_ISER_SCENE_H

#include "iser_setup/judge.h"

#include <string.h>

#define MIB (1ull << 20)
#define IQN "iqn.2026-01.org.test:node0"
#define OPEN_IQN "iqn.2026-01.org.test:node1"
#define INITIATOR "iqn.2026-01.org.test:front"

#define SERIAL(n) "\"serial\": \"5f0c8a30-0000-4000-8000-00000000000" #n "\""

static const char plan_text[] =
	"{\"rftp-iser-plan\": 1, \"name\": \"two\", \"cpus\": \"nodes\", \"targets\": ["
	" {\"node\": 0, \"iqn\": \"" IQN "\","
	"  \"portals\": [{\"address\": \"10.0.0.1\", \"netdev\": \"eth0\"}],"
	"  \"initiators\": [{\"name\": \"" INITIATOR "\","
	"   \"chap\": {\"user\": \"front\", \"secret-file\": \"/etc/front\"},"
	"   \"mutual-chap\": {\"user\": \"back\", \"secret-file\": \"/etc/back\"}}],"
	"  \"attributes\": {\"default_cmdsn_depth\": 64},"
	"  \"luns\": ["
	"   {\"lun\": 0, \"name\": \"mem\", \"kind\": \"tmpfs\", \"node\": 0, \"size\": 67108864,"
	"    \"path\": \"/ram0\", \"write-back\": true,"
	"    " SERIAL(1) ", \"attributes\": {\"emulate_tpu\": 1}},"
	"   {\"lun\": 1, \"name\": \"nvme\", \"kind\": \"block\", \"node\": 0,"
	"    \"path\": \"/dev/nvme0n1\", " SERIAL(2) "}]},"
	" {\"node\": 1, \"iqn\": \"" OPEN_IQN "\", \"open\": true,"
	"  \"portals\": [{\"address\": \"fd00::1\", \"port\": 3261, \"iser\": false}],"
	"  \"luns\": ["
	"   {\"lun\": 0, \"name\": \"file\", \"kind\": \"file\", \"node\": 1, \"size\": 1048576,"
	"    \"path\": \"/srv/disk\", " SERIAL(3) "},"
	"   {\"lun\": 1, \"name\": \"ram\", \"kind\": \"ramdisk\", \"node\": 1, \"size\": 1048576,"
	"    " SERIAL(4) "},"
	"   {\"lun\": 2, \"name\": \"rather\", \"kind\": \"tmpfs\", \"node\": 1, \"size\": 1048576,"
	"    \"policy\": \"prefer\", \"path\": \"/ram1\", " SERIAL(5) "}]}]}";

/* What is judged. */
struct scene {
	struct iser_plan *plan;
	struct lio *lio;
	struct facts *facts;
	bool unfinished;
};

static inline char *copy(const char *text)
{
	char *out = strdup(text);

	assert_non_null(out);
	return out;
}

static inline void set(char **text, const char *to)
{
	free(*text);
	*text = copy(to);
}

#define MORE(list, n) ({ void *one_ = iser_plan_add(list, n); assert_non_null(one_); one_; })

static inline void make_store(struct lio *l, const struct iser_store *s)
{
	struct lio_store *out = MORE(l->stores, l->n_stores);

	*out = (struct lio_store){
		.plugin = copy(iser_store_plugin(s)), .name = copy(s->name), .dir = copy("/d"),
		.path = iser_store_file(s), .serial = copy(s->serial),
		.size = s->size ? s->size : 1024 * MIB, .enabled = true,
		.write_back = s->write_back,
	};
	if (s->kind == ISER_TMPFS) {
		struct tmpfs_mount *m = MORE(l->mounts, l->n_mounts);

		*m = (struct tmpfs_mount){ .path = copy(s->path), .source = copy("tmpfs"),
					   .options = copy("rw") };
		ids_add(&m->nodes, (unsigned)s->node);
	}
}

static inline void make_acl(struct lio_target *out, const struct iser_target *t,
		     const struct iser_initiator *i)
{
	struct lio_acl *acl = MORE(out->acls, out->n_acls);

	*acl = (struct lio_acl){
		.initiator = copy(i->name), .user = copy(i->chap.user), .secret = copy("one"),
		.mutual_user = copy(i->mutual.user), .mutual_secret = copy("other"),
		.session = copy(""),
	};
	for (size_t k = 0; k < t->n_stores; k++) {
		const unsigned lun = t->stores[k].lun;
		struct lio_mapped *mapped = MORE(acl->mapped, acl->n_mapped);

		*mapped = (struct lio_mapped){ lun, lun, false };
	}
}

static inline void make_target(struct lio *l, const struct iser_target *t)
{
	struct lio_target *out = MORE(l->targets, l->n_targets);

	*out = (struct lio_target){ .iqn = copy(t->iqn), .tag = LIO_TAG, .dir = copy("/t"),
				    .enabled = true };
	for (size_t i = 0; i < t->n_portals; i++) {
		struct lio_portal *p = MORE(out->portals, out->n_portals);

		*p = (struct lio_portal){ .address = copy(t->portals[i].address),
					  .port = t->portals[i].port, .iser = t->portals[i].iser };
	}
	for (size_t i = 0; i < t->n_stores; i++) {
		struct lio_lun *lun = MORE(out->luns, out->n_luns);

		*lun = (struct lio_lun){ .lun = t->stores[i].lun, .store = copy(t->stores[i].name),
					 .plugin = copy(iser_store_plugin(&t->stores[i])) };
		make_store(l, &t->stores[i]);
	}
	for (size_t i = 0; i < t->n_initiators; i++)
		make_acl(out, t, &t->initiators[i]);
}

static inline void add_pages(struct file_pages *p, int node, uint64_t bytes)
{
	struct node_bytes *on = MORE(p->on, p->n_on);

	*on = (struct node_bytes){ .node = node, .bytes = bytes };
}

static inline void make_store_facts(struct store_facts *f, const struct iser_store *s)
{
	static const enum store_where wheres[ISER_KINDS] = {
		[ISER_TMPFS] = STORE_PAGES, [ISER_FILE] = STORE_CACHED,
		[ISER_BLOCK] = STORE_DEVICE, [ISER_RAMDISK] = STORE_HIDDEN,
	};

	f->where = wheres[s->kind];
	if (f->where == STORE_PAGES)
		add_pages(&f->pages, s->node, s->size);
	else if (f->where != STORE_HIDDEN)
		ids_add(&f->nodes, (unsigned)s->node);
	for (size_t i = 0; i < s->n_attributes; i++)
		f->attributes[i] = (struct attribute_fact){ true, s->attributes[i].value };
}

static inline void make_facts(struct target_facts *f, const struct iser_target *t)
{
	const bool fixed[FIXED_ATTRIBUTES] = {
		[FIXED_AUTHENTICATION] = t->n_initiators, [FIXED_GENERATE] = t->open,
		[FIXED_PROTECT] = !t->open, [FIXED_CACHE] = t->open,
	};

	for (size_t i = 0; i < t->n_portals; i++) {
		struct card_facts *c = &f->cards[i];

		*c = (struct card_facts){ .here = true, .node = t->node };
		snprintf(c->netdev, sizeof(c->netdev), "eth%d", t->node);
		snprintf(c->rdma, sizeof(c->rdma), "mlx5_%d", t->node);
	}
	for (size_t i = 0; i < t->n_stores; i++)
		make_store_facts(&f->stores[i], &t->stores[i]);
	for (size_t i = 0; i < t->n_attributes; i++)
		f->attributes[i] = (struct attribute_fact){ true, t->attributes[i].value };
	for (size_t i = 0; i < FIXED_ATTRIBUTES; i++)
		f->fixed[i] = (struct attribute_fact){ true, fixed[i] };
}

static inline void add_thread(struct facts *f, const char *name, const char *cpus)
{
	struct lio_thread *t = MORE(f->threads.v, f->threads.n);

	t->pid = 77;
	snprintf(t->name, sizeof(t->name), "%s", name);
	assert_int_equal(ids_parse(cpus, &t->cpus), 0);
}

static inline struct scene scene_new(void)
{
	struct err e = ERR_INIT;
	struct scene s = { .plan = iser_plan_parse("plan", plan_text, &e) };
	struct irq_fact *irq;

	if (!s.plan)
		fail_msg("%s", e.text);
	s.facts = facts_new(s.plan);
	s.lio = calloc(1, sizeof(*s.lio));
	assert_true(s.facts && s.lio);
	s.lio->there = s.lio->iscsi = s.facts->cpus_asked = true;
	s.lio->cpus = copy("0-3,8");
	assert_int_equal(ids_parse("0-3,8", &s.facts->cpus), 0);
	irq = MORE(s.facts->irqs, s.facts->n_irqs);
	*irq = (struct irq_fact){ .irq = 45, .netdev = copy("eth0"), .known = true };
	ids_add(&irq->set, 1);
	ids_add(&irq->now, 1);
	add_thread(s.facts, "iscsi_ttx", "8");
	add_thread(s.facts, "iscsi_trx", "0-63"); /* the kernel lets it run anywhere */
	for (size_t i = 0; i < s.plan->n_targets; i++) {
		make_target(s.lio, &s.plan->targets[i]);
		make_facts(&s.facts->targets[i], &s.plan->targets[i]);
	}
	return s;
}

static inline void scene_free(struct scene *s)
{
	facts_free(s->facts, s->plan);
	lio_free(s->lio);
	iser_plan_free(s->plan);
}

#endif
