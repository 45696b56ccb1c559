// SPDX-License-Identifier: Apache-2.0
/* Portals with the cards they are on, and initiators. */
#include "iser_setup/judging.h"

#include <stdio.h>
#include <string.h>

/* ---- portals ---- */

static void judge_card(struct judging *j, const struct iser_portal *p,
		       const struct card_facts *c, int node)
{
	if (!c->here) {
		judging_wrong(j, "address", p->netdev ? judging_mend(j, "ip address add %s/PREFIX "
			      "dev %s; or plan another address", p->address, p->netdev) :
			      "give the address to a card of the target's node, or plan another",
			      "this host does not have the address any more");
		return;
	}
	judging_ok(j, "address", "is %s's", printable(c->netdev));
	if (node != NODE_UNKNOWN && c->node != NODE_UNKNOWN && c->node != node)
		judging_wrong(j, "card-node", judging_mend(j, "move the address to a card of node "
			      "%d, or plan the target for node %d", node, c->node),
			      "%s is a card of node %d, and the target is for node %d",
			      printable(c->netdev), c->node, node);
	else if (c->node == NODE_UNKNOWN)
		judging_ok(j, "card-node", "of which node %s is, this host does not tell",
			   printable(c->netdev));
	else
		judging_ok(j, "card-node", "%s is a card of node %d", printable(c->netdev),
			   c->node);
	if (!p->iser)
		return;
	if (*c->rdma)
		judging_ok(j, "rdma", "%s is used by the RDMA device %s", printable(c->netdev),
			   printable(c->rdma));
	else
		judging_wrong(j, "rdma",
			      "load the card's RDMA driver (rdma link shows the devices)",
			      "no RDMA device uses %s: nobody can come by iSER",
			      printable(c->netdev));
}

static void judge_portal(struct judging *j, const struct iser_target *t,
			 const struct iser_portal *p, const struct card_facts *c,
			 const struct lio_target *there)
{
	const struct lio_portal *now = lio_portal(there, p->address, p->port);

	judging_about(j, "portal %s port %u of %s", p->address, p->port, t->iqn);
	if (!now) {
		judging_wrong(j, "portal", AGAIN, "is not there: the target is not listened for");
	} else {
		judging_ok(j, "portal", "is there");
		if (now->iser == p->iser)
			judging_ok(j, "iser", "iSER is %s", p->iser ? "on" : "off, as planned");
		else
			judging_wrong(j, "iser", AGAIN, p->iser ? "iSER is off: initiators can "
				      "come by TCP alone" : "iSER is on, and was planned off");
	}
	judge_card(j, p, c, t->node);
}

static bool portal_planned(const struct iser_target *t, const struct lio_target *there,
			   const struct lio_portal *now)
{
	for (size_t i = 0; i < t->n_portals; i++)
		if (lio_portal(there, t->portals[i].address, t->portals[i].port) == now)
			return true;
	return false;
}

void judge_portals(struct judging *j, const struct iser_target *t, const struct target_facts *f,
		   const struct lio_target *there)
{
	for (size_t i = 0; i < t->n_portals; i++)
		judge_portal(j, t, &t->portals[i], &f->cards[i], there);
	judging_about(j, "target %s", t->iqn);
	for (size_t i = 0; i < there->n_portals; i++) {
		const struct lio_portal *now = &there->portals[i];

		if (!portal_planned(t, there, now))
			judging_wrong(j, "portal-extra", judging_mend(j, "targetcli "
				      "/iscsi/%s/tpg%u/portals delete %s %u", t->iqn, there->tag,
				      printable(now->address), now->port), "has a portal %s port "
				      "%u, which is not planned", printable(now->address),
				      now->port);
	}
}

/* ---- initiators ---- */

/* way: "" or "mutual "; what is LIO's user, and how its secret fits. */
static void judge_chap(struct judging *j, const struct iser_chap *c, const char *way,
		       const char *user, const char *secret, enum secret_fact fact)
{
	if (!c->user) {
		if (*user || *secret)
			judging_wrong(j, "chap", AGAIN, "has %sCHAP, which was not planned", way);
		return;
	}
	if (strcmp(c->user, user))
		judging_wrong(j, "chap", AGAIN, "%sCHAP: the user is \"%s\", and should be \"%s\"",
			      way,
			      printable(user), printable(c->user));
	else if (!*secret)
		judging_wrong(j, "chap", AGAIN, "%sCHAP: it has no secret", way);
	else if (fact == SECRET_DIFFERS)
		judging_wrong(j, "chap", AGAIN, "%sCHAP: the secret is not that of %s", way,
			      printable(c->secret_file));
	else if (fact == SECRET_UNREAD)
		judging_unseen(j, "chap", "verify as root, and see that the file is there for root "
			       "alone", "%sCHAP: %s cannot be read: is the secret the same?", way,
			       printable(c->secret_file));
	else
		judging_ok(j, "chap", "%sCHAP: user and secret are those of the plan", way);
}

/* A LUN that is seen as another is another disk to who uses it. */
static size_t judge_seen(struct judging *j, const struct iser_target *t,
			 const struct lio_target *there, const struct lio_acl *acl)
{
	size_t wrong = 0;

	for (size_t i = 0; i < acl->n_mapped; i++) {
		const struct lio_mapped *m = &acl->mapped[i];
		const char *mend = judging_mend(j, "targetcli /iscsi/%s/tpg%u/acls/%s delete "
			"mapped_lun%u; then " AGAIN, t->iqn, there->tag,
			printable(acl->initiator), m->as);

		if (m->as != m->lun)
			judging_wrong(j, "acl-lun", mend, "sees LUN %u as LUN %u", m->lun, m->as);
		else if (m->read_only)
			judging_wrong(j, "acl-lun", mend, "may not write to LUN %u", m->lun);
		wrong += m->as != m->lun || m->read_only;
	}
	return wrong;
}

/* Those that LIO has; others are judged where they are missed. */
static void judge_given(struct judging *j, const struct iser_target *t,
			const struct lio_target *there, const struct lio_acl *acl)
{
	size_t missed = judge_seen(j, t, there, acl);

	for (size_t i = 0; i < t->n_stores; i++) {
		if (!lio_lun(there, t->stores[i].lun) || lio_given(acl, t->stores[i].lun))
			continue;
		missed++;
		judging_wrong(j, "acl-lun", AGAIN, "is not given LUN %u", t->stores[i].lun);
	}
	if (!missed)
		judging_ok(j, "acl-lun", "is given all LUNs");
}

static void judge_initiator(struct judging *j, const struct iser_target *t,
			    const struct iser_initiator *i, const struct initiator_facts *f,
			    const struct lio_target *there)
{
	const struct lio_acl *acl = lio_acl(there, i->name);

	judging_about(j, "initiator %s at %s", i->name, t->iqn);
	if (!acl) {
		judging_wrong(j, "acl", AGAIN, "has no ACL: it cannot log in");
		return;
	}
	judging_ok(j, "acl", acl->logged_in ? "is logged in" : "may log in");
	judge_chap(j, &i->chap, "", acl->user, acl->secret, f->chap);
	judge_chap(j, &i->mutual, "mutual ", acl->mutual_user, acl->mutual_secret, f->mutual);
	judge_given(j, t, there, acl);
}

static bool initiator_planned(const struct iser_target *t, const char *name)
{
	for (size_t i = 0; i < t->n_initiators; i++)
		if (!strcmp(t->initiators[i].name, name))
			return true;
	return false;
}

void judge_initiators(struct judging *j, const struct iser_target *t,
		      const struct target_facts *f, const struct lio_target *there)
{
	for (size_t i = 0; i < t->n_initiators; i++)
		judge_initiator(j, t, &t->initiators[i], &f->initiators[i], there);
	judging_about(j, "target %s", t->iqn);
	for (size_t i = 0; i < there->n_acls; i++)
		if (!initiator_planned(t, there->acls[i].initiator))
			judging_wrong(j, "acl-extra", judging_mend(j, "targetcli "
				      "/iscsi/%s/tpg%u/acls delete %s", t->iqn, there->tag,
				      printable(there->acls[i].initiator)), "lets the initiator "
				      "%s in, which is not planned",
				      printable(there->acls[i].initiator));
}
