// SPDX-License-Identifier: Apache-2.0
/* What becomes of a login. */
#include "server/login.h"
#include "server/session.h"

#include <errno.h>
#include <pwd.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- who it is ---- */

/* Without the port: "192.0.2.1", "2001:db8::1". */
static void host_text(const char *peer_text, char out[80])
{
	bool six = *peer_text == '[';

	peer_text += six;
	snprintf(out, 80, "%.*s", (int)strcspn(peer_text, six ? "]" : ":"), peer_text);
}

static void log_login(const char *user, const char *peer_text, int rc,
		      const struct auth_answer *a, const struct err *e)
{
	bool refused = rc == -EACCES || rc == -EKEYEXPIRED;
	const char *result = rc == 0 ? "ok" : refused ? "refused" : e->text;
	struct log_field fields[] = {
		LOG_NAME("event", "login"), LOG_NAME("user", rc == 0 ? a->name : user),
		LOG_NAME("peer", peer_text),
		LOG_NAME("result", result),
	};
	size_t n = sizeof(fields) / sizeof(fields[0]);

	if (rc == 0)
		log_event(LOG_LV_INFO, fields, n, "login of %s from %s (%s)", printable(a->name),
			  peer_text, auth_method_name(a->method));
	else if (refused)
		log_event(LOG_LV_WARN, fields, n, "login of \"%s\" from %s refused: %s",
			  printable(user), peer_text, e->text);
	else
		log_event(LOG_LV_ERROR, fields, n, "login of \"%s\" from %s: %s", printable(user),
			  peer_text, e->text);
}

int login_check(const struct srv_options *o, const char *peer_text, const struct auth_ask *ask,
		struct auth_answer *a, struct err *e)
{
	struct auth_ask from = *ask;
	char host[80];
	int rc;

	host_text(peer_text, host);
	from.peer = host;
	rc = auth_check(o, &from, a, e);
	log_login(ask->user, peer_text, rc, a, e);
	return rc;
}

/* His own rights, and his home where nothing is confined. */
int login_self(const struct srv_options *o, struct auth_answer *a, struct err *e)
{
	struct passwd *pw = getpwuid(geteuid());
	const char *home = getenv("HOME");

	memset(a, 0, sizeof(*a));
	if (!home || *home != '/')
		home = pw && pw->pw_dir ? pw->pw_dir : "/";
	a->method = AUTH_SELF;
	a->rights = RIGHTS_RW;
	a->umask = o->umask;
	a->name = strdup(pw ? pw->pw_name : "?");
	a->root = o->root ? strdup(o->root) : NULL;
	a->home = strdup(o->root ? "/" : home);
	if (a->name && a->home && (a->root || !o->root))
		return 0;
	auth_answer_clear(a);
	return err_sys(e, -ENOMEM, "account");
}

/* ---- whose the session is ---- */

int login_become(const struct auth_answer *a, struct err *e)
{
	/* auth_check has seen to it that it is him otherwise. */
	return a->is_system && geteuid() == 0 ? identity_assume(&a->as, e) : 0;
}

/* The table of rftpd(8), "Rights". */
void srv_set_rights(struct ftp_account *a, enum rights rights)
{
	static const struct {
		bool see, create, change;
	} may[] = {
		[RIGHTS_NONE]     = { false, false, false },
		[RIGHTS_RO]       = { true,  false, false },
		[RIGHTS_RW]       = { true,  true,  true },
		[RIGHTS_NODELETE] = { true,  true,  false },
		[RIGHTS_UPLOAD]   = { false, true,  false },
	};

	a->can_see = may[rights].see;
	a->can_create = may[rights].create;
	a->can_change = may[rights].change;
}

int login_account(const struct auth_answer *a, struct ftp_account *account, struct err *e)
{
	memset(account, 0, sizeof(*account));
	snprintf(account->name, sizeof(account->name), "%s", a->name);
	srv_set_rights(account, a->rights);
	account->umask = a->umask;
	account->home = strdup(a->home);
	if (!account->home)
		return err_sys(e, -ENOMEM, "account");
	/* Without a root given it is who runs us, or has logged in, on his own files. */
	account->root = root_new(a->root ? a->root : "/", a->root != NULL, e);
	if (account->root && root_without_proc(account->root, e) == 0)
		return 0;
	ftp_account_clear(account);
	return e->code;
}

/* His password was right, so he is told; but not where it would have been. */
int login_enter(const struct auth_answer *a, const char *peer_text, struct ftp_account *account,
		struct err *e)
{
	int rc = login_account(a, account, e);

	/* To open a directory one must not be able to enter it. */
	if (rc == 0 && a->root && euidaccess(a->root, X_OK) < 0) {
		rc = err_sys(e, -errno, "enter");
		ftp_account_clear(account);
	}
	if (rc == 0)
		return 0;
	log_error("session of %s from %s: root %s: %s", printable(a->name), peer_text,
		  printable(a->root ? a->root : "/"), e->text);
	return err_set(e, -EKEYEXPIRED, "Your directory on this server cannot be entered");
}
