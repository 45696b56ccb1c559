// SPDX-License-Identifier: Apache-2.0
/* The plan as a whole, its targets, and what all of them share. */
#include "iser_setup/judging.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *const judged_words[JUDGED_KINDS] = {
	[JUDGED_OK] = "ok", [JUDGED_WRONG] = "wrong", [JUDGED_UNSEEN] = "unseen",
};

/* ---- findings ---- */

void judging_about(struct judging *j, const char *fmt, ...)
{
	va_list args;

	va_start(args, fmt);
	vsnprintf(j->about, sizeof(j->about), fmt, args);
	va_end(args);
}

const char *judging_mend(struct judging *j, const char *fmt, ...)
{
	va_list args;

	va_start(args, fmt);
	vsnprintf(j->mend, sizeof(j->mend), fmt, args);
	va_end(args);
	return j->mend;
}

__attribute__((format(printf, 5, 0)))
static void add(struct judging *j, enum judged judged, const char *check, const char *mend,
		const char *fmt, va_list args)
{
	struct finding *one = iser_plan_add(j->f->v, j->f->n);

	if (!one) {
		j->f->lost = true;
		return;
	}
	*one = (struct finding){ .judged = judged, .check = check, .about = strdup(j->about),
				 .mend = mend ? strdup(mend) : NULL };
	if (vasprintf(&one->text, fmt, args) < 0)
		one->text = NULL;
	j->f->lost |= !one->text || !one->about || (mend && !one->mend);
	j->f->wrong += judged == JUDGED_WRONG;
	j->f->unseen += judged == JUDGED_UNSEEN;
}

void judging_ok(struct judging *j, const char *check, const char *fmt, ...)
{
	va_list args;

	va_start(args, fmt);
	add(j, JUDGED_OK, check, NULL, fmt, args);
	va_end(args);
}

void judging_wrong(struct judging *j, const char *check, const char *mend, const char *fmt, ...)
{
	va_list args;

	va_start(args, fmt);
	add(j, JUDGED_WRONG, check, mend, fmt, args);
	va_end(args);
}

void judging_unseen(struct judging *j, const char *check, const char *mend, const char *fmt, ...)
{
	va_list args;

	va_start(args, fmt);
	add(j, JUDGED_UNSEEN, check, mend, fmt, args);
	va_end(args);
}

void findings_clear(struct findings *f)
{
	for (size_t i = 0; i < f->n; i++) {
		free(f->v[i].about);
		free(f->v[i].text);
		free(f->v[i].mend);
	}
	free(f->v);
	*f = (struct findings){ 0 };
}

/* ---- attributes ---- */

void judging_attribute(struct judging *j, const char *name, const struct attribute_fact *now,
		       unsigned long long wanted)
{
	if (!now->known)
		judging_wrong(j, "attribute", "leave it out of the plan, or load a kernel that has "
			      "it", "%s: this kernel's LIO has no such attribute", printable(name));
	else if (now->value != wanted)
		judging_wrong(j, "attribute", AGAIN, "%s is %llu, and should be %llu",
			      printable(name), now->value, wanted);
	else
		judging_ok(j, "attribute", "%s is %llu", printable(name), wanted);
}

/* ---- a target ---- */

/* Each is a word of the plan's, or follows from one: what stands in the plan is named. */
static void judge_fixed(struct judging *j, const struct iser_target *t,
			const struct target_facts *f)
{
	const bool chap = t->n_initiators && t->initiators[0].chap.user;
	const struct {
		enum fixed_attribute which;
		const char *check;
		bool wanted;
		const char *good, *bad;
	} cases[] = {
		{ FIXED_AUTHENTICATION, "authentication", chap, chap ?
		  "initiators prove who they are by CHAP" : "no CHAP, as planned", chap ?
		  "authentication is off: an initiator need not prove who it is by CHAP" :
		  "authentication is on, and no CHAP was planned: no initiator can log in" },
		{ FIXED_GENERATE, "open", t->open, t->open ?
		  "open to any initiator, as planned" : "open to the initiators of the plan alone",
		  t->open ? "only initiators with an ACL may log in, and any should" :
		  "any initiator may log in (generate_node_acls is on)" },
		{ FIXED_PROTECT, "write-protect", !t->open, t->open ?
		  "any initiator may write" : "initiators without an ACL may not write", t->open ?
		  "initiators cannot write (demo_mode_write_protect is on)" :
		  "initiators without an ACL may write (demo_mode_write_protect is off)" },
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		const struct attribute_fact *now = &f->fixed[cases[i].which];

		if (!now->known)
			judging_unseen(j, cases[i].check, "verify as root", "%s cannot be read",
				       fixed_attributes[cases[i].which]);
		else if (!now->value != !cases[i].wanted)
			judging_wrong(j, cases[i].check, AGAIN, "%s", cases[i].bad);
		else
			judging_ok(j, cases[i].check, "%s", cases[i].good);
	}
	judging_attribute(j, fixed_attributes[FIXED_CACHE], &f->fixed[FIXED_CACHE], t->open);
}

static void judge_groups(struct judging *j, const struct iser_target *t)
{
	const struct lio *l = j->a->now;

	for (size_t i = 0; i < l->n_targets; i++)
		if (!strcmp(l->targets[i].iqn, t->iqn) && l->targets[i].tag != LIO_TAG &&
		    l->targets[i].tag != LIO_NO_GROUP)
			judging_wrong(j, "group-extra", judging_mend(j, "targetcli /iscsi/%s "
				      "delete %u", t->iqn, l->targets[i].tag), "has a portal group "
				      "%u, which is not planned", l->targets[i].tag);
}

static bool is_planned(const struct iser_target *t, unsigned lun)
{
	for (size_t i = 0; i < t->n_stores; i++)
		if (t->stores[i].lun == lun)
			return true;
	return false;
}

static void judge_extra_luns(struct judging *j, const struct iser_target *t,
			     const struct lio_target *there)
{
	judging_about(j, "target %s", t->iqn);
	for (size_t i = 0; i < there->n_luns; i++) {
		const struct lio_lun *lun = &there->luns[i];

		if (!is_planned(t, lun->lun))
			judging_wrong(j, "lun-extra", judging_mend(j, "targetcli "
				      "/iscsi/%s/tpg%u/luns delete lun%u", t->iqn, there->tag,
				      lun->lun), "serves a LUN %u that is not planned, of the "
				      "back store %s", lun->lun,
				      lun->store ? printable(lun->store) : "(gone)");
	}
}

static void judge_target(struct judging *j, const struct iser_target *t,
			 const struct target_facts *f)
{
	const struct lio_target *there = lio_target(j->a->now, t->iqn);

	if (there && there->tag != LIO_TAG)
		there = NULL;
	judging_about(j, "target %s", t->iqn);
	if (!there) {
		judging_wrong(j, "target", AGAIN, "is not there");
	} else {
		judging_ok(j, "target", "is there");
		if (there->enabled)
			judging_ok(j, "enabled", "is enabled");
		else
			judging_wrong(j, "enabled", AGAIN, "is disabled: nobody can log in");
		judge_fixed(j, t, f);
		for (size_t i = 0; i < t->n_attributes; i++)
			judging_attribute(j, t->attributes[i].name, &f->attributes[i],
					  t->attributes[i].value);
		judge_groups(j, t);
		judge_portals(j, t, f, there);
		judge_initiators(j, t, f, there);
	}
	for (size_t i = 0; i < t->n_stores; i++)
		judge_store(j, &t->stores[i], &f->stores[i], t, there);
	if (there)
		judge_extra_luns(j, t, there);
}

/* ---- all ---- */

static void judge_plan(struct judging *j)
{
	const struct judge_ask *a = j->a;

	judging_about(j, "plan %s", a->plan->name);
	if (a->unfinished)
		judging_wrong(j, "unfinished", AGAIN ", or remove it", "an apply of it was ended "
			      "in its midst, or goes on now");
	if (a->facts->restarted)
		judging_wrong(j, "restarted", AGAIN "; its tmpfs and ramdisks begin empty",
			      "this host was started again since it was applied: what tmpfs and "
			      "ramdisks held is gone");
	if (!a->now->there)
		judging_wrong(j, "lio", AGAIN ", which loads it", "the kernel's target (LIO) is "
			      "not loaded");
	else if (!a->now->iscsi)
		judging_wrong(j, "lio", AGAIN ", which loads it", "LIO's iSCSI "
			      "(iscsi_target_mod) is not loaded");
	else
		judging_ok(j, "lio", "LIO and its iSCSI are loaded");
}

static bool within(const struct ids *some, const struct ids *all)
{
	struct ids both = *some;

	ids_intersect(&both, all);
	return !memcmp(&both, some, sizeof(both));
}

/* Of a connection's two threads the kernel confines the one that sends, when it next runs; the
 * other one sleeps as long as an iSER session lasts. */
static void judge_threads(struct judging *j, const struct ids *list)
{
	const struct lio_threads *l = &j->a->facts->threads;
	char cpus[IDS_MAX];
	size_t inside = 0;

	for (size_t i = 0; i < l->n; i++) {
		const struct lio_thread *t = &l->v[i];

		if (strcmp(t->name, THREAD_TX))
			continue;
		if (within(&t->cpus, list))
			inside++;
		else
			judging_wrong(j, "thread", "it moves when its session next has something "
				      "to do; if not, log that initiator out and in again",
				      THREAD_TX " %d may run on CPUs %s, outside of "
				      "cpus_allowed_list", t->pid,
				      ids_format(cpus, sizeof(cpus), &t->cpus));
	}
	if (inside)
		judging_ok(j, "thread", THREAD_TX " of %zu connection%s within it", inside,
			   inside == 1 ? " is" : "s are");
}

static void judge_cpus(struct judging *j)
{
	const struct facts *f = j->a->facts;
	const char *now = j->a->now->cpus;
	char text[IDS_MAX];
	struct ids is;

	if (!j->a->now->iscsi || j->a->plan->cpus != ISER_CPUS_NODES)
		return;
	judging_about(j, "threads of all iSCSI targets of this host");
	if (!now)
		judging_ok(j, "cpus", "run anywhere: this kernel has no cpus_allowed_list");
	else if (!f->cpus_asked)
		judging_ok(j, "cpus", "run on CPUs %s: a node of the plan's has none", now);
	else if (ids_parse(now, &is) || memcmp(&is, &f->cpus, sizeof(is)))
		judging_wrong(j, "cpus", AGAIN, "cpus_allowed_list is %s, and should be %s",
			      printable(now), ids_format(text, sizeof(text), &f->cpus));
	else {
		judging_ok(j, "cpus", "run on CPUs %s (cpus_allowed_list)", now);
		judge_threads(j, &is);
	}
}

static void judge_irqs(struct judging *j)
{
	const struct facts *f = j->a->facts;
	char set[IDS_MAX], now[IDS_MAX];

	for (size_t i = 0; i < f->n_irqs; i++) {
		const struct irq_fact *q = &f->irqs[i];

		judging_about(j, "interrupt %u of %s", q->irq, printable(q->netdev));
		if (!q->known)
			judging_wrong(j, "interrupt", AGAIN, "is not there any more, or cannot be "
				      "looked at");
		else if (memcmp(&q->set, &q->now, sizeof(q->set)))
			judging_wrong(j, "interrupt", AGAIN "; irqbalance, if it runs, has to "
				      "leave it alone (IRQBALANCE_BANNED_INTERRUPTS, --banirq)",
				      "is handled on CPUs %s, and was put on %s",
				      ids_format(now, sizeof(now), &q->now),
				      ids_format(set, sizeof(set), &q->set));
		else
			judging_ok(j, "interrupt", "is handled on CPUs %s",
				   ids_format(now, sizeof(now), &q->now));
	}
}

int judge(const struct judge_ask *a, struct findings *f)
{
	struct judging j = { .a = a, .f = f };

	*f = (struct findings){ 0 };
	judge_plan(&j);
	judge_cpus(&j);
	judge_irqs(&j);
	for (size_t i = 0; i < a->plan->n_targets; i++)
		judge_target(&j, &a->plan->targets[i], &a->facts->targets[i]);
	return f->lost ? -ENOMEM : 0;
}
