// SPDX-License-Identifier: Apache-2.0
/* Asks whoever knows: the users file, PAM, the map of certificates. */
#include "server/auth.h"
#include "crypto/crypto.h"
#include "server/auth_pam.h"
#include "server/certs.h"
#include "server/users.h"

#include <errno.h>
#include <grp.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void wipe_free(char *s)
{
	if (s)
		crypto_wipe(s, strlen(s));
	free(s);
}

void auth_answer_clear(struct auth_answer *a)
{
	wipe_free(a->name);
	wipe_free(a->root);
	wipe_free(a->home);
	identity_clear(&a->as);
	crypto_wipe(a, sizeof(*a));
}

const char *auth_method_name(enum auth_method m)
{
	static const char *const names[] = {
		[AUTH_ANONYMOUS] = "anonymous", [AUTH_USERS] = "users file",
		[AUTH_PAM] = "pam", [AUTH_CERTIFICATE] = "certificate",
		[AUTH_SELF] = "himself",
	};

	return names[m];
}

bool auth_is_anonymous(const char *user)
{
	return !strcmp(user, "anonymous") || !strcmp(user, "ftp");
}

/* ---- the answer ---- */

/* root NULL: unconfined. */
static unsigned umask_of(const struct srv_options *o, const struct srv_rules *r)
{
	return r->umask ? r->umask & ~(unsigned)UMASK_GIVEN : o->umask;
}

static int fill(struct auth_answer *a, const char *name, const char *root, const char *home,
		struct err *e)
{
	a->name = strdup(name);
	a->root = root ? strdup(root) : NULL;
	a->home = strdup(home);
	return a->name && a->home && (a->root || !root) ? 0 : err_sys(e, -ENOMEM, "account");
}

/* path as it is called below root, NULL: it is not below. */
static const char *below(const char *root, const char *path)
{
	size_t n = strlen(root);

	while (n > 0 && root[n - 1] == '/')
		n--;
	if (strncmp(root, path, n) || (path[n] && path[n] != '/'))
		return NULL;
	return path[n] ? path + n : "/";
}

/* Only now, when the password has been looked at as anybody's. */
static int may_be(const struct srv_options *o, const struct identity *u, struct err *e)
{
	if (u->uid == 0 && !o->allow_root)
		return err_set(e, -EACCES, "user %s is root, who may not log in",
			       printable(u->name));
	/* A session could send signals to the fronts, and read their memory. */
	if (o->front_uid && o->front_uid == u->uid)
		return err_set(e, -EACCES, "user %s is the one that talks to strangers (--user), "
			       "and may not log in", printable(u->name));
	if (geteuid() != 0 && geteuid() != u->uid)
		return err_set(e, -EPERM, "rftpd is not run by root: it cannot become user %s",
			       printable(u->name));
	return 0;
}

/* What rftpd.conf has for a user of the system, by his name and his groups'. */
static int rules_of(const struct srv_options *o, const struct identity *u, struct srv_rules *r,
		    struct err *e)
{
	char **names CLEANUP_FREE = calloc((size_t)u->ngroups + 1, sizeof(*names));
	size_t n = 0;

	if (!names)
		return err_sys(e, -ENOMEM, "groups");
	for (int i = 0; i < u->ngroups; i++) {
		const struct group *g = getgrgid(u->groups[i]);

		names[n] = g ? strdup(g->gr_name) : NULL;
		n += names[n] != NULL;
	}
	srv_account_rules(o, u->name, (const char *const *)names, n, r);
	for (size_t i = 0; i < n; i++)
		free(names[i]);
	return 0;
}

/* a->as is filled: his account is what the system lets him do. */
static int fill_system(const struct srv_options *o, struct auth_answer *a, struct err *e)
{
	const char *root = o->root, *home;
	struct srv_rules r;
	int rc = may_be(o, &a->as, e);

	if (rc == 0)
		rc = rules_of(o, &a->as, &r, e);
	if (rc < 0)
		return rc;
	if (r.root)
		root = r.root;
	home = r.home ? r.home : root ? below(root, a->as.home) : a->as.home;
	a->is_system = true;
	a->rights = r.rights ? r.rights : RIGHTS_RW;
	a->umask = umask_of(o, &r);
	return fill(a, a->as.name, root, home ? home : "/", e);
}

static int fill_user(const struct srv_options *o, const struct user *u, struct auth_answer *a,
		     struct err *e)
{
	const char *root = *u->root ? u->root : o->root, *system;
	struct srv_rules r;
	int rc;

	/* What [user NAME] says goes over what the users file does. */
	srv_account_rules(o, u->name, NULL, 0, &r);
	if (r.root)
		root = r.root;
	system = r.system_user ? r.system_user : u->system_user;
	a->rights = r.rights ? r.rights : u->rights;
	a->umask = umask_of(o, &r);
	if (system) {
		a->is_system = true;
		rc = identity_of(system, &a->as, e);
		if (rc == 0)
			rc = may_be(o, &a->as, e);
		if (rc < 0)
			return rc;
	}
	/* Somebody of whom only we know has no rights of his own that would confine him. */
	if (!root && !system)
		return err_set(e, -ENOENT, "user \"%s\" has no root, and there is no --root",
			       printable(u->name));
	return fill(a, u->name, root, r.home ? r.home : u->home, e);
}

/* ---- by whom ---- */

static int by_nobody(const struct srv_options *o, struct auth_answer *a, struct err *e)
{
	const struct srv_rules *r = &o->anonymous_rules;

	a->method = AUTH_ANONYMOUS;
	a->rights = o->anonymous;
	a->umask = umask_of(o, r);
	return fill(a, "anonymous", r->root ? r->root : o->root, r->home ? r->home : "/", e);
}

static int by_pam(const struct srv_options *o, const struct auth_ask *ask, struct auth_answer *a,
		  struct err *e)
{
	int rc = auth_pam_check(ask, &a->as, e);

	a->method = AUTH_PAM;
	return rc < 0 ? rc : fill_system(o, a, e);
}

/* Whom the users file has is its alone: a password of the system is none for him. */
static int by_password(const struct srv_options *o, const struct auth_ask *ask,
		       struct auth_answer *a, struct err *e)
{
	struct user u = { 0 };
	int rc = 0;

	a->method = AUTH_USERS;
	if (o->users)
		rc = users_find(o->users, ask->user, &u, e);
	if (rc == 0 && o->pam)
		return by_pam(o, ask, a, e);
	if (rc < 0)
		return rc;
	if (password_check(ask->password, u.hash)) /* without a hash it takes as long */
		rc = fill_user(o, &u, a, e);
	else
		rc = err_set(e, -EACCES, u.name ? "the password is wrong" : "there is no such user");
	user_clear(&u);
	return rc;
}

static int by_certificate(const struct srv_options *o, const struct auth_ask *ask,
			  struct auth_answer *a, struct err *e)
{
	struct user u = { 0 };
	int rc;

	if (!ask->pin || !o->certificates)
		return err_set(e, -EACCES, "there is no certificate");
	rc = certs_allow(o->certificates, ask->pin, ask->subject, ask->user, e);
	if (rc <= 0)
		return rc < 0 ? rc : err_set(e, -EACCES, "certificate %s (%s) is not his", ask->pin,
					     printable(ask->subject ? ask->subject : "no subject"));
	rc = o->users ? users_find(o->users, ask->user, &u, e) : 0;
	if (rc > 0)
		rc = fill_user(o, &u, a, e);
	else if (rc == 0 && o->pam)
		rc = by_pam(o, ask, a, e);
	else if (rc == 0)
		rc = err_set(e, -EACCES, "certificate %s is that of a user who is not there",
			     ask->pin);
	user_clear(&u);
	a->method = AUTH_CERTIFICATE;
	return rc;
}

static int ask_who(const struct srv_options *o, const struct auth_ask *ask, struct auth_answer *a,
		   struct err *e)
{
	bool anonymous = o->anonymous && auth_is_anonymous(ask->user);

	if (!ask->password)
		return anonymous ? err_set(e, -EACCES, "anonymous needs no certificate") :
				   by_certificate(o, ask, a, e);
	return anonymous ? by_nobody(o, a, e) : by_password(o, ask, a, e);
}

/* ---- the time it takes ---- */

void auth_fill_up(uint64_t began)
{
	const uint64_t step = (uint64_t)AUTH_REFUSAL_MS * 1000000;
	uint64_t gone, until = began + ((now_ns() - began) / step + 1) * step;

	while ((gone = now_ns()) < until)
		poll(NULL, 0, (int)((until - gone) / 1000000) + 1);
}

int auth_check(const struct srv_options *o, const struct auth_ask *ask, struct auth_answer *a,
	       struct err *e)
{
	int rc;

	memset(a, 0, sizeof(*a));
	rc = ask_who(o, ask, a, e);
	if (rc < 0)
		auth_answer_clear(a);
	return rc;
}
