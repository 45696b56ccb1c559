// SPDX-License-Identifier: Apache-2.0
/* Who may log in, and by what proof. */
#include "iser_setup/maker.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static json_t *acl_request(const char *what, const char *iqn, const char *initiator)
{
	return json_pack("{s:s, s:s, s:s}", "do", what, "iqn", iqn, "initiator", initiator);
}

static json_t *auth_request(const char *iqn, const char *initiator, const char *user,
			    const char *secret, const char *mutual_user, const char *mutual)
{
	return json_pack("{s:s, s:s, s:s, s:s, s:s, s:s, s:s}", "do", "set-auth", "iqn", iqn,
			 "initiator", initiator, "user", user, "secret", secret, "mutual-user",
			 mutual_user, "mutual-secret", mutual);
}

static bool has_auth(const struct lio_acl *acl)
{
	return *acl->user || *acl->secret || *acl->mutual_user || *acl->mutual_secret;
}

/* A user without a secret, as who was ended between the two leaves him, is nobody. */
static json_t *auth_as_it_is(const char *iqn, const struct lio_acl *acl)
{
	bool one = *acl->user && *acl->secret, other = *acl->mutual_user && *acl->mutual_secret;

	return auth_request(iqn, acl->initiator, one ? acl->user : "", one ? acl->secret : "",
			    other ? acl->mutual_user : "", other ? acl->mutual_secret : "");
}

/* ---- away ---- */

void acl_take(struct maker *m, const struct lio_target *t, const struct lio_acl *acl)
{
	if (has_auth(acl))
		maker_undo(m, auth_as_it_is(t->iqn, acl));
	maker_add(m, acl_request("delete-acl", t->iqn, acl->initiator),
		  acl_request("create-acl", t->iqn, acl->initiator),
		  "let the initiator %s log in to the target %s no more",
		  printable(acl->initiator), t->iqn);
}

static const struct iser_initiator *wanted(const struct iser_target *t, const char *initiator)
{
	for (size_t i = 0; i < t->n_initiators; i++)
		if (!strcmp(t->initiators[i].name, initiator))
			return &t->initiators[i];
	return NULL;
}

bool acl_ours(const struct maker *m, const char *iqn, const char *initiator)
{
	for (size_t o = 0; o < ours_count(m); o++) {
		const struct iser_plan *p = ours(m, o);
		const struct iser_target *t = p ? iser_plan_target(p, iqn) : NULL;

		if (t && wanted(t, initiator))
			return true;
	}
	return false;
}

/* Is it given all LUNs that the plan wants, of those that are there? An apply that ended in the
 * midst of a request may have left one out. */
static bool is_whole(const struct iser_target *want, const struct lio_target *there,
		     const struct lio_acl *acl)
{
	for (size_t i = 0; i < want->n_stores; i++)
		if (lio_lun(there, want->stores[i].lun) && !lio_given(acl, want->stores[i].lun))
			return false;
	return true;
}

static bool goes(const struct maker *m, const struct iser_target *want,
		 const struct lio_target *there, const struct lio_acl *acl)
{
	if (!wanted(want, acl->initiator))
		return acl_ours(m, there->iqn, acl->initiator);
	return !is_whole(want, there, acl);
}

void acls_take(struct maker *m, const struct iser_target *want, const struct lio_target *there)
{
	for (size_t i = 0; i < there->n_acls; i++) {
		const struct lio_acl *acl = &there->acls[i];

		if (!goes(m, want, there, acl))
			continue;
		if (acl->logged_in && !m->a->force)
			maker_problem(m, "target %s: the initiator %s is logged in, and is to lose "
				      "its access; log it out first, or end its session with "
				      "--force", there->iqn, printable(acl->initiator));
		acl_take(m, there, acl);
	}
}

/* ---- made ---- */

static const char *text_of(const char *text)
{
	return text ? text : "";
}

static void set_auth(struct maker *m, const char *iqn, const struct iser_initiator *i,
		     const struct lio_acl *there)
{
	const struct iser_secret *s = iser_secret(m->a->secrets, iqn, i->name);
	const char *user = text_of(i->chap.user), *mutual_user = text_of(i->mutual.user);
	const char *secret = s && *user ? s->secret : "";
	const char *mutual = s && *mutual_user ? s->mutual : "";

	if (there ? !strcmp(user, there->user) && !strcmp(secret, there->secret) &&
		    !strcmp(mutual_user, there->mutual_user) &&
		    !strcmp(mutual, there->mutual_secret) : !*user)
		return;
	maker_add(m, auth_request(iqn, i->name, user, secret, mutual_user, mutual),
		  there ? auth_as_it_is(iqn, there) : NULL, "%s %s at the target %s%s",
		  *user ? "ask for the CHAP secret of" : "ask for no CHAP secret of",
		  printable(i->name), iqn, *mutual_user ? ", and give one in return" : "");
}

void acls_make(struct maker *m, const struct iser_target *want, const struct lio_target *there)
{
	for (size_t i = 0; i < want->n_initiators; i++) {
		const struct iser_initiator *one = &want->initiators[i];
		const struct lio_acl *acl = there ? lio_acl(there, one->name) : NULL;

		if (acl && goes(m, want, there, acl))
			acl = NULL;
		if (!acl)
			maker_add(m, acl_request("create-acl", want->iqn, one->name),
				  acl_request("delete-acl", want->iqn, one->name),
				  "let the initiator %s log in to the target %s",
				  printable(one->name), want->iqn);
		set_auth(m, want->iqn, one, acl);
	}
}
