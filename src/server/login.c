// SPDX-License-Identifier: Apache-2.0
/* Passwords against the users file; anonymous; who runs us. */
#include "server/login.h"
#include "server/session.h"
#include "server/users.h"

#include <errno.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

void login_clear(struct login *l)
{
	identity_clear(&l->as);
	free(l->root);
	free(l->home);
	memset(l, 0, sizeof(*l));
}

static int fill(struct login *l, const char *name, const char *root, const char *home,
		struct err *e)
{
	snprintf(l->name, sizeof(l->name), "%s", name);
	l->root = root ? strdup(root) : NULL;
	l->home = strdup(home);
	return l->home && (l->root || !root) ? 0 : err_sys(e, -ENOMEM, "login");
}

/* By ssh: his own rights, and his home where nothing is confined. */
int login_self(const struct server *sv, struct login *l, struct err *e)
{
	const char *root = sv->opt.root;
	struct passwd *pw = getpwuid(geteuid());
	const char *home = getenv("HOME");

	memset(l, 0, sizeof(*l));
	if (!home || *home != '/')
		home = pw && pw->pw_dir ? pw->pw_dir : "/";
	l->rights = RIGHTS_RW;
	return fill(l, pw ? pw->pw_name : "?", root, root ? "/" : home, e);
}

static int check_anonymous(const struct server *sv, struct login *l, struct err *e)
{
	const struct srv_options *o = &sv->opt;
	const struct srv_rules *r = &o->anonymous_rules;

	l->anonymous = true;
	l->rights = o->anonymous;
	return fill(l, "anonymous", r->root ? r->root : o->root, r->home ? r->home : "/", e);
}

/* What [user NAME] says goes over what the users file does. */
static int fill_user(const struct srv_options *o, const struct user *u, struct login *l,
		     struct err *e)
{
	const char *root = *u->root ? u->root : o->root;
	struct srv_rules r;

	srv_account_rules(o, u->name, NULL, 0, &r);
	if (r.root)
		root = r.root;
	if (!root)
		return err_set(e, -ENOENT, "user \"%s\" has no root, and there is no --root",
			       printable(u->name));
	l->rights = r.rights ? r.rights : u->rights;
	return fill(l, u->name, root, r.home ? r.home : u->home, e);
}

static int check_user(const struct server *sv, const char *name, const char *password,
		      struct login *l, struct err *e)
{
	struct user u;
	int rc;

	if (!sv->opt.users) {
		password_check(password, NULL); /* takes as long as with users */
		return -EACCES;
	}
	rc = users_check(sv->opt.users, name, password, &u, e);
	if (rc < 0)
		return rc;
	rc = fill_user(&sv->opt, &u, l, e);
	user_clear(&u);
	return rc;
}

static void log_login(const char *user, const char *peer_text, int rc, const struct err *e)
{
	const char *result = rc == 0 ? "ok" : rc == -EACCES ? "refused" : e->text;
	struct log_field fields[] = {
		LOG_NAME("event", "login"), LOG_NAME("user", user), LOG_NAME("peer", peer_text),
		LOG_NAME("result", result),
	};
	size_t n = sizeof(fields) / sizeof(fields[0]);

	if (rc == 0)
		log_event(LOG_LV_INFO, fields, n, "login of %s from %s", printable(user),
			  peer_text);
	else if (rc == -EACCES)
		log_event(LOG_LV_WARN, fields, n, "login of \"%s\" from %s refused",
			  printable(user), peer_text);
	else
		log_event(LOG_LV_ERROR, fields, n, "login of \"%s\" from %s: %s", printable(user),
			  peer_text, e->text);
}

int login_check(const struct server *sv, const char *peer_text, const char *user,
		const char *password, struct login *l, struct err *e)
{
	bool anonymous = sv->opt.anonymous &&
			 (!strcmp(user, "anonymous") || !strcmp(user, "ftp"));
	int rc;

	memset(l, 0, sizeof(*l));
	rc = anonymous ? check_anonymous(sv, l, e) : check_user(sv, user, password, l, e);
	/* None of them is a user of this system: they share the one for that. */
	if (rc == 0 && sv->separate)
		rc = identity_of(sv->opt.files_user, &l->as, e);
	log_login(rc == 0 ? l->name : user, peer_text, rc, e);
	if (rc < 0)
		login_clear(l);
	return rc;
}

void srv_set_rights(struct ftp_account *a, enum rights rights)
{
	a->can_write = rights > RIGHTS_RO;
	a->can_delete = rights == RIGHTS_RW;
	a->upload_only = rights == RIGHTS_UPLOAD;
}

int login_account(const struct login *l, struct ftp_account *a, struct err *e)
{
	memset(a, 0, sizeof(*a));
	memcpy(a->name, l->name, sizeof(a->name));
	srv_set_rights(a, l->rights);
	a->home = strdup(l->home);
	if (!a->home)
		return err_sys(e, -ENOMEM, "account");
	/* Without a root given it is who runs us, on his own files. */
	a->root = root_new(l->root ? l->root : "/", l->root != NULL, e);
	if (a->root)
		return 0;
	ftp_account_clear(a);
	return e->code;
}
