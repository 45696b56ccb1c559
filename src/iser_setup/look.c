// SPDX-License-Identifier: Apache-2.0
/* What this host tells of the things in a plan. */
#include "iser_setup/look.h"

#include "iser_setup/card.h"
#include "iser_setup/cpus.h"
#include "iser_setup/secrets.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* ---- back stores ---- */

static int look_at_file(const struct topo *t, const char *path, const struct stat *st,
			struct store_facts *f)
{
	struct err e = ERR_INIT;
	int r = file_pages_read(t, path, &f->pages, &e);

	if (!r) {
		f->where = STORE_PAGES;
	} else if (r == -ENOTSUP) {
		f->where = STORE_CACHED;
		f->nodes = topo_device(t, st->st_dev);
	} else {
		f->why = strdup(e.text);
		return f->why ? 0 : -ENOMEM;
	}
	return 0;
}

int look_store(const struct topo *t, const struct lio_store *s, struct store_facts *f)
{
	struct stat st;

	f->where = STORE_UNSEEN;
	if (!strncmp(s->plugin, "rd_", 3)) {
		f->where = STORE_HIDDEN;
		return 0;
	}
	if (stat(s->path, &st)) {
		f->where = errno == ENOENT ? STORE_GONE : STORE_UNSEEN;
		return asprintf(&f->why, "%s: %s", printable(s->path), strerror(errno)) < 0 ?
		       -ENOMEM : 0;
	}
	/* Devices are given other names when the host or a card was started again. */
	if (s->device && (!S_ISBLK(st.st_mode) || st.st_rdev != s->device)) {
		f->where = STORE_GONE;
		return asprintf(&f->why, "%s: is another device now than LIO has",
				printable(s->path)) < 0 ? -ENOMEM : 0;
	}
	if (S_ISBLK(st.st_mode)) {
		f->where = STORE_DEVICE;
		f->nodes = topo_device(t, st.st_rdev);
		return 0;
	}
	return look_at_file(t, s->path, &st, f);
}

/* ---- attributes ---- */

/* dir: NULL: there is nothing that could have it. */
static struct attribute_fact look_attribute(const char *dir, const char *name)
{
	struct attribute_fact f = { 0 };

	f.known = dir && !lio_attribute(dir, name, &f.value);
	return f;
}

/* ---- secrets ---- */

static enum secret_fact compare(const char *file, const char *lio)
{
	return !file || !*file ? SECRET_UNREAD : strcmp(file, lio) ? SECRET_DIFFERS : SECRET_SAME;
}

static void look_initiator(const struct iser_secrets *all, const struct iser_target *t,
			   const struct iser_initiator *i, const struct lio_target *there,
			   struct initiator_facts *f)
{
	const struct iser_secret *s = iser_secret(all, t->iqn, i->name);
	const struct lio_acl *acl = there ? lio_acl(there, i->name) : NULL;

	if (!acl)
		return;
	f->chap = compare(s ? s->secret : NULL, acl->secret);
	f->mutual = compare(s ? s->mutual : NULL, acl->mutual_secret);
}

/* ---- a target ---- */

static int look_target(const struct look_ask *a, const struct iser_secrets *secrets,
		       const struct iser_target *t, struct target_facts *f)
{
	const struct lio_target *there = lio_target(a->now, t->iqn);
	const char *dir = there ? there->dir : NULL;
	int r = 0;

	for (size_t i = 0; i < t->n_portals; i++)
		f->cards[i] = card_read(a->t, t->portals[i].address);
	for (size_t i = 0; i < t->n_attributes; i++)
		f->attributes[i] = look_attribute(dir, t->attributes[i].name);
	for (size_t i = 0; i < FIXED_ATTRIBUTES; i++)
		f->fixed[i] = look_attribute(dir, fixed_attributes[i]);
	for (size_t i = 0; i < t->n_initiators; i++)
		look_initiator(secrets, t, &t->initiators[i], there, &f->initiators[i]);
	for (size_t i = 0; !r && i < t->n_stores; i++) {
		const struct iser_store *s = &t->stores[i];
		const struct lio_store *now = lio_store(a->now, iser_store_plugin(s), s->name);

		for (size_t k = 0; k < s->n_attributes; k++)
			f->stores[i].attributes[k] = look_attribute(now ? now->dir : NULL,
								    s->attributes[k].name);
		if (now)
			r = look_store(a->t, now, &f->stores[i]);
	}
	return r;
}

/* ---- what targets share ---- */

static void look_cpus(const struct look_ask *a, struct facts *f)
{
	const struct host_dirs dirs = host_dirs();
	const struct iser_cpus_ask ask = {
		.want = a->plan, .state = a->state, .others = a->others, .n_others = a->n_others,
		.now = a->now->cpus, .t = a->t, .proc = dirs.proc, .sysfs = dirs.sysfs,
	};
	CLEANUP_FREE char *before = NULL, *list = iser_cpus_list(&ask, &before);

	f->cpus_asked = list && !ids_parse(list, &f->cpus);
}

/* Those of an earlier boot have other numbers now; those that were tried in vain have no set. */
static int look_irqs(const struct look_ask *a, struct facts *f)
{
	for (size_t i = 0; !f->restarted && i < a->state->n_irqs; i++) {
		const struct iser_irq *irq = &a->state->irqs[i];
		struct irq_fact *one = *irq->set ? iser_plan_add(f->irqs, f->n_irqs) : NULL;

		if (!*irq->set)
			continue;
		if (!one)
			return -ENOMEM;
		one->irq = irq->irq;
		one->netdev = strdup(irq->netdev);
		if (!one->netdev)
			return -ENOMEM;
		one->known = !card_irq(irq->irq, &one->now) && !ids_parse(irq->set, &one->set);
	}
	return 0;
}

struct facts *facts_read(const struct look_ask *a)
{
	struct facts *f = facts_new(a->plan);
	struct iser_secrets secrets = { 0 };
	struct lines why = { 0 };
	int r;

	if (!f)
		return NULL;
	f->restarted = iser_state_restarted(a->state);
	look_cpus(a, f);
	r = look_irqs(a, f);
	if (!r && lio_threads_read(host_dirs().proc, &f->threads, NULL) == -ENOMEM)
		r = -ENOMEM;
	if (!r)
		r = iser_secrets_read(a->plan, &secrets, &why);
	for (size_t i = 0; !r && i < a->plan->n_targets; i++)
		r = look_target(a, &secrets, &a->plan->targets[i], &f->targets[i]);
	iser_secrets_clear(&secrets);
	lines_clear(&why);
	if (!r)
		return f;
	facts_free(f, a->plan);
	return NULL;
}
