// SPDX-License-Identifier: Apache-2.0
/* Targets with their LUNs, addresses and attributes. */
#include "iser_setup/maker.h"

#include "iser_setup/facts.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define WHO_MAX 300

/* ---- whose ---- */

/* In the first so many plans of ours. */
static const struct iser_target *in_first(const struct maker *m, const char *iqn, size_t plans)
{
	const struct iser_target *t = NULL;

	for (size_t o = 0; !t && o < plans; o++)
		t = ours(m, o) ? iser_plan_target(ours(m, o), iqn) : NULL;
	return t;
}

bool target_ours(const struct maker *m, const char *iqn, size_t plans)
{
	return in_first(m, iqn, plans);
}

/* LIO keeps the names of all who have logged in while a target was open, and goes on to let them in
 * until the target is deleted. */
static bool is_to_close(const struct maker *m, const struct iser_target *want,
			const struct lio_target *there)
{
	const char *name = fixed_attributes[FIXED_GENERATE];
	unsigned long long open;

	return !want->open && !m->a->look->attribute(there->dir, name, &open) && open;
}

/* With the portal group that ours have; NULL: it is not there, or not to stay, or only a part of
 * it is, which an apply that ended in the midst of a request has left. */
static const struct lio_target *whole_target(const struct maker *m, const struct iser_target *want)
{
	const struct lio_target *t = lio_target(m->a->now, want->iqn);

	return t && t->tag == LIO_TAG && !is_to_close(m, want, t) ? t : NULL;
}

/* A wildcard that is listened on takes the port of every address. targetcli writes [::0]. */
static bool takes_all(const char *address)
{
	return lio_same_address(address, "0.0.0.0") || lio_same_address(address, "::");
}

static void check_portals(struct maker *m, const struct iser_target *t)
{
	const struct lio *l = m->a->now;

	for (size_t p = 0; p < t->n_portals; p++)
		for (size_t i = 0; i < l->n_targets; i++)
			for (size_t k = 0; k < l->targets[i].n_portals; k++) {
				const struct lio_portal *there = &l->targets[i].portals[k];

				if (there->port == t->portals[p].port &&
				    takes_all(there->address) &&
				    !takes_all(t->portals[p].address) &&
				    !target_ours(m, l->targets[i].iqn, ours_count(m)))
					maker_problem(m, "portal %s, port %u: the target %s "
						      "listens on this port of all addresses; use "
						      "another port, or delete its portal %s with "
						      "targetcli",
						      t->portals[p].address, there->port,
						      printable(l->targets[i].iqn), there->address);
			}
}

static void check_luns(struct maker *m, const struct iser_target *t,
		       const struct lio_target *there)
{
	for (size_t i = 0; i < t->n_stores; i++) {
		const struct lio_lun *lun = lio_lun(there, t->stores[i].lun);

		if (lun && lun->store && !store_ours(m, lun->plugin, lun->store))
			maker_problem(m, "target %s: its LUN %u serves the back store %s, which "
				      "this plan did not make; use another number, or delete it "
				      "with targetcli", t->iqn, lun->lun, printable(lun->store));
	}
}

static bool other_has(const struct iser_state *other, const char *iqn)
{
	for (size_t i = 0; i < iser_state_plans(other); i++)
		if (iser_state_plan(other, i) && iser_plan_target(iser_state_plan(other, i), iqn))
			return true;
	return false;
}

void targets_decide(struct maker *m)
{
	const struct iser_plan *p = m->a->want;

	for (size_t i = 0; p && i < p->n_targets; i++) {
		const struct iser_target *t = &p->targets[i];
		const struct lio_target *there = lio_target(m->a->now, t->iqn);
		const char *owner = NULL;

		for (size_t o = 0; o < m->a->n_others; o++)
			if (other_has(&m->a->others[o], t->iqn))
				owner = m->a->others[o].name;
		if (owner)
			maker_problem(m, "target %s: the plan %s has it already; use another IQN",
				      t->iqn, owner);
		else if (there && !target_ours(m, t->iqn, ours_count(m)))
			maker_problem(m, "target %s: LIO has it already, and this plan did not "
				      "make it; use another IQN, or take it out with targetcli",
				      t->iqn);
		else if (there && there->tag == LIO_TAG)
			check_luns(m, t, there);
		else if (there && there->tag != LIO_NO_GROUP)
			maker_problem(m, "target %s: it has the portal group %u, which this plan "
				      "did not make; take it out with targetcli",
				      t->iqn, there->tag);
		check_portals(m, t);
	}
}

/* Who is logged in; NULL: nobody. */
static const char *user_of(const struct lio_target *t, char who[WHO_MAX])
{
	for (size_t i = 0; i < t->n_acls; i++)
		if (t->acls[i].logged_in) {
			snprintf(who, WHO_MAX, "the initiator %s is",
				 printable(t->acls[i].initiator));
			return who;
		}
	if (!t->dynamic)
		return NULL;
	snprintf(who, WHO_MAX, "%u initiators that it does not name are", t->dynamic);
	return who;
}

void target_disturbed(struct maker *m, const struct lio_target *t, const char *what)
{
	char room[WHO_MAX];
	const char *who = user_of(t, room);

	if (who && !m->a->force)
		maker_problem(m, "target %s: %s logged in, and %s; log out there first, or end "
			      "what is in use with --force", t->iqn, who, what);
}

/* ---- requests ---- */

static json_t *target_request(const char *what, const char *iqn)
{
	return json_pack("{s:s, s:s}", "do", what, "iqn", iqn);
}

static json_t *enable_request(const char *iqn, bool enabled)
{
	return json_pack("{s:s, s:s, s:b}", "do", "enable-target", "iqn", iqn, "enabled",
			 (int)enabled);
}

static json_t *create_lun(const char *iqn, unsigned lun, const char *plugin, const char *store)
{
	return json_pack("{s:s, s:s, s:i, s:s, s:s}", "do", "create-lun", "iqn", iqn, "lun",
			 (int)lun, "plugin", plugin, "store", store);
}

static json_t *delete_lun(const char *iqn, unsigned lun)
{
	return json_pack("{s:s, s:s, s:i}", "do", "delete-lun", "iqn", iqn, "lun", (int)lun);
}

static json_t *create_portal(const char *iqn, const char *address, unsigned port, bool iser)
{
	return json_pack("{s:s, s:s, s:s, s:i, s:b}", "do", "create-portal", "iqn", iqn, "address",
			 address, "port", (int)port, "iser", (int)iser);
}

static json_t *delete_portal(const char *iqn, const char *address, unsigned port)
{
	return json_pack("{s:s, s:s, s:s, s:i}", "do", "delete-portal", "iqn", iqn, "address",
			 address, "port", (int)port);
}

/* ---- attributes ---- */

/* What a plan decides by other words than attributes. */
static void fixed_of(const struct iser_target *t, struct iser_attribute out[FIXED_ATTRIBUTES])
{
	const unsigned long long values[FIXED_ATTRIBUTES] = {
		[FIXED_AUTHENTICATION] = t->n_initiators && t->initiators[0].chap.user,
		[FIXED_GENERATE] = t->open, [FIXED_PROTECT] = !t->open, [FIXED_CACHE] = t->open,
	};

	for (unsigned i = 0; i < FIXED_ATTRIBUTES; i++)
		out[i] = (struct iser_attribute){ .name = (char *)(uintptr_t)fixed_attributes[i],
						  .value = values[i] };
}

static void set_attributes(struct maker *m, const char *iqn, const struct iser_attribute *list,
			   size_t n, const struct lio_target *there)
{
	maker_set_attributes(m, target_request("set-target-attribute", iqn),
			     there ? there->dir : NULL, list, n, "target", iqn);
}

static void undo_attributes(struct maker *m, const struct iser_attribute *list, size_t n,
			    const struct lio_target *there)
{
	maker_undo_attributes(m, target_request("set-target-attribute", there->iqn), there->dir,
			      list, n);
}

/* ---- away ---- */

static void take_portal(struct maker *m, const struct lio_target *t, const struct lio_portal *p)
{
	maker_add(m, delete_portal(t->iqn, p->address, p->port),
		  create_portal(t->iqn, p->address, p->port, p->iser),
		  "delete the portal %s, port %u, of the target %s", printable(p->address),
		  p->port, t->iqn);
}

static void take_lun(struct maker *m, const struct lio_target *t, const struct lio_lun *lun)
{
	maker_add(m, delete_lun(t->iqn, lun->lun),
		  lun->store ? create_lun(t->iqn, lun->lun, lun->plugin, lun->store) : NULL,
		  "delete LUN %u of the target %s", lun->lun, t->iqn);
}

/* Piece by piece, so that each can be put back. */
static void take_target(struct maker *m, const struct iser_target *ours,
			const struct lio_target *t, const char *why)
{
	struct iser_attribute fixed[FIXED_ATTRIBUTES];

	target_disturbed(m, t, why);
	if (t->enabled)
		maker_add(m, enable_request(t->iqn, false), enable_request(t->iqn, true),
			  "disable the target %s", t->iqn);
	for (size_t i = 0; i < t->n_portals; i++)
		take_portal(m, t, &t->portals[i]);
	for (size_t i = 0; i < t->n_acls; i++)
		acl_take(m, t, &t->acls[i]);
	for (size_t i = 0; i < t->n_luns; i++)
		take_lun(m, t, &t->luns[i]);
	fixed_of(ours, fixed);
	undo_attributes(m, fixed, FIXED_ATTRIBUTES, t);
	undo_attributes(m, ours->attributes, ours->n_attributes, t);
	maker_add(m, target_request("delete-target", t->iqn),
		  target_request("create-target", t->iqn), "delete the target %s", t->iqn);
}

static const struct iser_portal *wanted_portal(const struct iser_target *t,
					       const struct lio_portal *p)
{
	for (size_t i = 0; i < t->n_portals; i++)
		if (lio_same_address(t->portals[i].address, p->address) &&
		    t->portals[i].port == p->port)
			return &t->portals[i];
	return NULL;
}

static bool portal_ours(const struct maker *m, const char *iqn, const struct lio_portal *p)
{
	for (size_t o = 0; o < ours_count(m); o++) {
		const struct iser_plan *plan = ours(m, o);
		const struct iser_target *t = plan ? iser_plan_target(plan, iqn) : NULL;

		if (t && wanted_portal(t, p))
			return true;
	}
	return false;
}

/* What others have put into a target goes with it. That is said, or, when it goes only to be made
 * anew, which whoever asked for it need not know, refused. */
static void tell_guest(struct maker *m, const char *iqn, bool anew, const char *guest)
{
	if (anew)
		maker_problem(m, "target %s: it is to be closed, and made anew for that, and %s, "
			      "which this plan did not make, would be gone; take that out with "
			      "targetcli", iqn, guest);
	else
		maker_note(m, "target %s: %s, which this plan did not make, goes with it", iqn,
			   guest);
}

static void tell_guests(struct maker *m, const struct lio_target *t, bool anew)
{
	char guest[WHO_MAX];

	for (size_t i = 0; i < t->n_luns; i++) {
		const struct lio_lun *lun = &t->luns[i];

		if (!lun->store || store_ours(m, lun->plugin, lun->store))
			continue;
		snprintf(guest, sizeof(guest), "its LUN %u, the back store %s", lun->lun,
			 printable(lun->store));
		tell_guest(m, t->iqn, anew, guest);
	}
	for (size_t i = 0; i < t->n_portals; i++) {
		const struct lio_portal *p = &t->portals[i];

		if (portal_ours(m, t->iqn, p))
			continue;
		snprintf(guest, sizeof(guest), "its portal %s, port %u", printable(p->address),
			 p->port);
		tell_guest(m, t->iqn, anew, guest);
	}
	for (size_t i = 0; i < t->n_acls; i++) {
		if (acl_ours(m, t->iqn, t->acls[i].initiator))
			continue;
		snprintf(guest, sizeof(guest), "the access of %s",
			 printable(t->acls[i].initiator));
		tell_guest(m, t->iqn, anew, guest);
	}
}

static const struct iser_store *wanted_lun(const struct iser_target *t, unsigned lun)
{
	for (size_t i = 0; i < t->n_stores; i++)
		if (t->stores[i].lun == lun)
			return &t->stores[i];
	return NULL;
}

static bool lun_stays(const struct maker *m, const struct iser_target *want,
		      const struct lio_lun *lun)
{
	const struct iser_store *s = wanted_lun(want, lun->lun);

	if (!lun->store)
		return !s;
	if (!store_ours(m, lun->plugin, lun->store))
		return true;
	return s && !strcmp(s->name, lun->store) &&
	       !strcmp(iser_store_plugin(s), lun->plugin) &&
	       !store_ends(m, lun->plugin, lun->store);
}

static void take_parts(struct maker *m, const struct iser_target *want,
		       const struct lio_target *there)
{
	bool told = false;

	for (size_t i = 0; i < there->n_portals; i++) {
		const struct lio_portal *p = &there->portals[i];
		const struct iser_portal *w = wanted_portal(want, p);

		if (w ? w->iser != p->iser : portal_ours(m, there->iqn, p))
			take_portal(m, there, p);
	}
	acls_take(m, want, there);
	for (size_t i = 0; i < there->n_luns; i++) {
		if (lun_stays(m, want, &there->luns[i]))
			continue;
		if (!told)
			target_disturbed(m, there, "a LUN of it is to go, if only for a moment");
		told = true;
		take_lun(m, there, &there->luns[i]);
	}
}

void targets_take(struct maker *m)
{
	const struct iser_plan *want = m->a->want;

	for (size_t o = 0; o < ours_count(m); o++) {
		const struct iser_plan *p = ours(m, o);

		for (size_t i = 0; p && i < p->n_targets; i++) {
			const struct iser_target *t = &p->targets[i];
			const struct lio_target *there = lio_target(m->a->now, t->iqn);

			/* Once, whichever plans name it. */
			if (there && !target_ours(m, t->iqn, o) &&
			    !(want && iser_plan_target(want, t->iqn))) {
				tell_guests(m, there, false);
				take_target(m, t, there, "it is to go");
			}
		}
	}
	for (size_t i = 0; want && i < want->n_targets; i++) {
		const struct iser_target *t = &want->targets[i];
		const struct lio_target *there = lio_target(m->a->now, t->iqn);
		const struct iser_target *old = in_first(m, t->iqn, ours_count(m));

		if (there && there->tag == LIO_TAG && is_to_close(m, t, there)) {
			tell_guests(m, there, true);
			take_target(m, old ? old : t, there, "it is to be closed, and made anew "
				    "for that");
		} else if (there && there->tag == LIO_TAG) {
			take_parts(m, t, there);
		} else if (there && there->tag == LIO_NO_GROUP) {
			maker_add(m, target_request("delete-target", there->iqn), NULL,
				  "delete the target %s, which is not whole", there->iqn);
		}
	}
}

/* ---- made ---- */

static void make_luns(struct maker *m, const struct iser_target *t,
		      const struct lio_target *there)
{
	for (size_t i = 0; i < t->n_stores; i++) {
		const struct iser_store *s = &t->stores[i];
		const struct lio_lun *lun = there ? lio_lun(there, s->lun) : NULL;

		if (!lun || !lun_stays(m, t, lun))
			maker_add(m, create_lun(t->iqn, s->lun, iser_store_plugin(s), s->name),
				  delete_lun(t->iqn, s->lun),
				  "create LUN %u of the target %s: the back store %s", s->lun,
				  t->iqn, s->name);
	}
}

static void make_portals(struct maker *m, const struct iser_target *t,
			 const struct lio_target *there)
{
	for (size_t i = 0; i < t->n_portals; i++) {
		const struct iser_portal *p = &t->portals[i];
		const struct lio_portal *now = there ? lio_portal(there, p->address, p->port) :
					       NULL;

		if (!now || now->iser != p->iser)
			maker_add(m, create_portal(t->iqn, p->address, p->port, p->iser),
				  delete_portal(t->iqn, p->address, p->port),
				  "create the portal %s, port %u, of the target %s, %s", p->address,
				  p->port, t->iqn, p->iser ? "for iSER" : "without iSER");
	}
}

static void make_target(struct maker *m, const struct iser_target *t,
			const struct lio_target *there)
{
	const struct iser_plan *applied = m->a->state->applied;
	const struct iser_target *old = applied ? iser_plan_target(applied, t->iqn) : NULL;
	struct iser_attribute fixed[FIXED_ATTRIBUTES];

	if (!there)
		maker_add(m, target_request("create-target", t->iqn),
			  target_request("delete-target", t->iqn), "create the target %s", t->iqn);
	fixed_of(t, fixed);
	set_attributes(m, t->iqn, fixed, FIXED_ATTRIBUTES, there);
	set_attributes(m, t->iqn, t->attributes, t->n_attributes, there);
	if (there && old)
		maker_note_dropped(m, "target", t->iqn, old->attributes, old->n_attributes,
				   t->attributes, t->n_attributes);
	make_luns(m, t, there);
	acls_make(m, t, there);
	make_portals(m, t, there);
	if (!there || !there->enabled)
		maker_add(m, enable_request(t->iqn, true), enable_request(t->iqn, false),
			  "enable the target %s", t->iqn);
}

void targets_make(struct maker *m)
{
	const struct iser_plan *p = m->a->want;

	for (size_t i = 0; p && i < p->n_targets; i++)
		make_target(m, &p->targets[i], whole_target(m, &p->targets[i]));
}
