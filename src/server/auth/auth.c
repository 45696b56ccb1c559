// SPDX-License-Identifier: Apache-2.0
/* Checks a login against the users file, PAM or the map of certificates, and makes its account. */
#include "server/auth/auth.h"
#include "crypto/crypto.h"
#include "server/session/session.h"

#include <grp.h>
#include <poll.h>
#include <pwd.h>

void auth_answer_clear(struct auth_answer *a)
{
	identity_clear(&a->as);
	crypto_wipe(a, sizeof(*a));
}

bool auth_is_anonymous(const char *user)
{
	return !strcmp(user, "anonymous") || !strcmp(user, "ftp");
}

/* ---- PAM ---- */

#ifdef HAVE_PAM

#include <security/pam_appl.h>

struct pam_talk {
	const char *password;
	bool given;
};

/* The password answers the first hidden question. FTP cannot ask the client for a second factor or
 * a new password. */
static int pam_answer(struct pam_talk *t, const struct pam_message *m, struct pam_response *r)
{
	switch (m->msg_style) {
	case PAM_ERROR_MSG:
	case PAM_TEXT_INFO:
		log_debug("PAM: %s", printable(m->msg ? m->msg : ""));
		return PAM_SUCCESS;
	case PAM_PROMPT_ECHO_OFF:
		if (!t->password || t->given || strlen(t->password) >= PAM_MAX_RESP_SIZE)
			return PAM_CONV_ERR;
		t->given = true;
		r->resp = strdup(t->password);
		return r->resp ? PAM_SUCCESS : PAM_BUF_ERR;
	default:
		return PAM_CONV_ERR;
	}
}

static int pam_converse(int n, const struct pam_message **m, struct pam_response **out, void *arg)
{
	struct pam_response *r;
	int rc = PAM_SUCCESS;

	*out = NULL;
	if (n <= 0 || n > PAM_MAX_NUM_MSG)
		return PAM_CONV_ERR;
	r = calloc((size_t)n, sizeof(*r));
	if (!r)
		return PAM_BUF_ERR;
	for (int i = 0; rc == PAM_SUCCESS && i < n; i++)
		rc = pam_answer(arg, m[i], &r[i]);
	if (rc == PAM_SUCCESS) {
		*out = r;
		return rc;
	}

	for (int i = 0; i < n; i++) {
		if (r[i].resp)
			crypto_wipe(r[i].resp, strlen(r[i].resp));
		free(r[i].resp);
	}
	free(r);
	return rc;
}

/* PAM must not delay failures: the monitor does, because it counts them per host. */
static void pam_no_delay(int status, unsigned usec, void *arg)
{
	(void)status;
	(void)usec;
	(void)arg;
}

static int pam_refusal(pam_handle_t *h, int status, const char *step, struct err *e)
{
	switch (status) {
	case PAM_NEW_AUTHTOK_REQD:
	case PAM_AUTHTOK_EXPIRED:
		return err_set(e, -EKEYEXPIRED, "The password has expired: change it first (FTP "
			       "cannot change it)");
	case PAM_AUTHINFO_UNAVAIL:
		return err_set(e, -EAGAIN, "PAM, %s: %s", step, pam_strerror(h, status));
	case PAM_ABORT:
	case PAM_BUF_ERR:
	case PAM_OPEN_ERR:
	case PAM_SERVICE_ERR:
	case PAM_SYMBOL_ERR:
	case PAM_SYSTEM_ERR:
		return err_set(e, -EIO, "PAM, %s: %s (see /etc/pam.d/" AUTH_PAM_SERVICE ")", step,
			       pam_strerror(h, status));
	default:
		return err_set(e, -EACCES, "PAM, %s: %s", step, pam_strerror(h, status));
	}
}

/* Modules such as pam_group add groups to the process: store them in u for the session, and restore
 * the process's own groups. Only root can do that. must: refuse the login if pam_setcred fails. */
static int pam_take_groups(pam_handle_t *h, struct identity *u, bool must, struct err *e)
{
	gid_t *before, *after = NULL;
	int nbefore = getgroups(0, NULL), n = 0, rc;

	before = calloc((size_t)nbefore + 1, sizeof(*before));
	if (!before || getgroups(nbefore, before) != nbefore ||
	    setgroups((size_t)u->ngroups, u->groups) < 0) {
		free(before);
		return err_sys(e, errno ? -errno : -ENOMEM, "groups");
	}

	rc = pam_setcred(h, PAM_ESTABLISH_CRED | PAM_SILENT);
	n = getgroups(0, NULL);
	after = calloc((size_t)n + 1, sizeof(*after));
	if (after && getgroups(n, after) == n) {
		free(u->groups);
		u->groups = steal_ptr(&after);
		u->ngroups = n;
	}
	free(after);
	if (setgroups((size_t)nbefore, before) < 0)
		abort();
	free(before);

	if (rc == PAM_SUCCESS)
		return 0;
	if (must)
		return pam_refusal(h, rc, "credentials", e);
	log_debug("PAM, credentials: %s", pam_strerror(h, rc));
	return 0;
}

static int pam_check_user(pam_handle_t *h, const struct auth_ask *ask, struct identity *u,
			  struct err *e)
{
	void (*delay)(int, unsigned, void *) = pam_no_delay;
	const int flags = PAM_DISALLOW_NULL_AUTHTOK;
	const void *name = NULL, *fn;
	int rc;

	/* A module may base its decision on any of these items, so each must be set. */
	memcpy(&fn, &delay, sizeof(fn));
	rc = pam_set_item(h, PAM_TTY, AUTH_PAM_SERVICE);
	if (rc == PAM_SUCCESS && ask->peer)
		rc = pam_set_item(h, PAM_RHOST, ask->peer);
	if (rc == PAM_SUCCESS)
		rc = pam_set_item(h, PAM_FAIL_DELAY, fn);
	if (rc != PAM_SUCCESS)
		return pam_refusal(h, rc, "setting it up", e);

	if (ask->password)
		rc = pam_authenticate(h, flags);
	if (rc != PAM_SUCCESS)
		return pam_refusal(h, rc, "password", e);

	rc = pam_acct_mgmt(h, flags);
	if (rc != PAM_SUCCESS)
		return pam_refusal(h, rc, "account", e);

	/* Modules may have changed the user's name. */
	if (pam_get_item(h, PAM_USER, &name) != PAM_SUCCESS || !name)
		name = ask->user;
	rc = identity_of(name, u, e);
	if (rc == -ENOENT)
		e->code = rc = -EACCES;
	if (rc == 0 && geteuid() == 0)
		rc = pam_take_groups(h, u, ask->password, e);
	return rc;
}

int auth_pam_check(const struct auth_ask *ask, struct identity *u, struct err *e)
{
	struct pam_talk t = { .password = ask->password };
	struct pam_conv conv = { pam_converse, &t };
	pam_handle_t *h = NULL;
	int status, rc;

	memset(u, 0, sizeof(*u));

	/* Some modules build file names from user names. */
	if (!*ask->user || *ask->user == '-' || strpbrk(ask->user, "/:"))
		return err_set(e, -EACCES, "a user name may not be empty, begin with \"-\", or "
			       "contain \"/\" or \":\"");

	status = pam_start(AUTH_PAM_SERVICE, ask->user, &conv, &h);
	if (status != PAM_SUCCESS)
		return err_set(e, -EIO, "PAM cannot be used: %s", pam_strerror(h, status));

	rc = pam_check_user(h, ask, u, e);
	pam_end(h, PAM_SUCCESS);
	if (rc < 0)
		identity_clear(u);
	return rc;
}

#else

int auth_pam_check(const struct auth_ask *ask, struct identity *u, struct err *e)
{
	memset(u, 0, sizeof(*u));
	return err_set(e, -EOPNOTSUPP, "this build has no PAM");
}

#endif

/* ---- the answer ---- */

static unsigned auth_umask(const struct srv_options *o, const struct srv_rules *r)
{
	return r->umask ? r->umask & ~(unsigned)UMASK_GIVEN : o->tuning.umask;
}

/* root NULL: unconfined. */
static int auth_fill(struct auth_answer *a, const char *name, const char *root, const char *home,
		     struct err *e)
{
	a->confined = root != NULL;
	if (strlen(name) >= sizeof(a->name) || strlen(home) >= sizeof(a->home) ||
	    (root && strlen(root) >= sizeof(a->root)))
		return err_sys(e, -ENAMETOOLONG, "account");

	strcpy(a->name, name);
	strcpy(a->home, home);
	strcpy(a->root, root ? root : "/");
	return 0;
}

/* Returns path as seen from root; NULL: path is not below root. */
static const char *auth_path_below(const char *root, const char *path)
{
	size_t n = strlen(root);

	while (n > 0 && root[n - 1] == '/')
		n--;
	if (strncmp(root, path, n) || (path[n] && path[n] != '/'))
		return NULL;
	return path[n] ? path + n : "/";
}

/* May a session run as u? Checked only after the password, so that the time of a refusal does not
 * reveal the answer. */
static int auth_may_become(const struct srv_options *o, const struct identity *u, struct err *e)
{
	if (u->uid == 0 && !o->allow_root)
		return err_set(e, -EACCES, "user %s is root, and root may not log in "
			       "(--allow-root)", printable(u->name));
	/* Such a session could send signals to the preauth processes, and read their memory. */
	if (o->preauth_uid && o->preauth_uid == u->uid)
		return err_set(e, -EACCES, "user %s is the user of the preauth processes (--user), "
			       "and may not log in", printable(u->name));
	if (geteuid() != 0 && geteuid() != u->uid)
		return err_set(e, -EPERM, "rftpd is not run by root: it cannot become user %s",
			       printable(u->name));
	return 0;
}

/* Find the sections of rftpd.conf for a system user, by its name and the names of its groups. */
static int auth_find_rules(const struct srv_options *o, const struct identity *u,
			   struct srv_rules *r, struct err *e)
{
	char **names CLEANUP_FREE = calloc((size_t)u->ngroups + 1, sizeof(*names));
	size_t n = 0;

	if (!names)
		return err_nomem(e);
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

/* Fill the rest of a for the system user in a->as. */
static int auth_fill_system(const struct srv_options *o, struct auth_answer *a, struct err *e)
{
	const char *root = o->root, *home;
	struct srv_rules r;
	int rc = auth_may_become(o, &a->as, e);

	if (rc == 0)
		rc = auth_find_rules(o, &a->as, &r, e);
	if (rc < 0)
		return rc;

	if (r.root)
		root = r.root;
	home = r.home ? r.home : root ? auth_path_below(root, a->as.home) : a->as.home;
	a->is_system = true;
	a->rights = r.rights ? r.rights : RIGHTS_RW;
	a->umask = auth_umask(o, &r);
	return auth_fill(a, a->as.name, root, home ? home : "/", e);
}

static int auth_fill_user(const struct srv_options *o, const struct user *u, struct auth_answer *a,
			  struct err *e)
{
	const char *root = *u->root ? u->root : o->root, *system;
	struct srv_rules r;
	int rc;

	/* [user NAME] takes precedence over the users file. */
	srv_account_rules(o, u->name, NULL, 0, &r);
	if (r.root)
		root = r.root;

	system = r.system_user ? r.system_user : u->system_user;
	a->rights = r.rights ? r.rights : u->rights;
	a->umask = auth_umask(o, &r);
	if (system) {
		a->is_system = true;
		rc = identity_of(system, &a->as, e);
		if (rc == 0)
			rc = auth_may_become(o, &a->as, e);
		if (rc < 0)
			return rc;
	}

	/* An account that is not a system user is confined by its root only. */
	if (!root && !system)
		return err_set(e, -ENOENT, "user \"%s\" has no root, and there is no --root",
			       printable(u->name));
	return auth_fill(a, u->name, root, r.home ? r.home : u->home, e);
}

/* ---- the check ---- */

/* PAM is asked only about users that are not in the users file. Without a password the client's
 * certificate has proved the user. */
static int auth_known_user(const struct srv_options *o, const struct auth_ask *ask,
			   struct auth_answer *a, struct err *e)
{
	struct user u = { 0 };
	int rc = o->users ? users_find(o->users, ask->user, &u, e) : 0;

	a->method = AUTH_USERS;
	if (rc == 0 && o->pam) {
		a->method = AUTH_PAM;
		rc = auth_pam_check(ask, &a->as, e);
		return rc < 0 ? rc : auth_fill_system(o, a, e);
	}
	if (rc < 0)
		return rc;

	if (ask->password && !password_check(ask->password, u.hash)) /* equally slow without a
								      * hash */
		rc = u.name ? err_set(e, -EACCES, "the password is wrong") :
		     no_user(ask->user, -EACCES, e);
	else if (!u.name)
		rc = no_user(ask->user, -EACCES, e);
	else
		rc = auth_fill_user(o, &u, a, e);
	user_clear(&u);
	return rc;
}

static int auth_by_certificate(const struct srv_options *o, const struct auth_ask *ask,
			       struct auth_answer *a, struct err *e)
{
	int rc;

	if (!ask->pin || !o->certificates)
		return err_set(e, -EACCES, "there is no certificate");

	rc = certs_allow(o->certificates, ask->pin, ask->subject, ask->user, e);
	if (rc <= 0)
		return rc < 0 ? rc : err_set(e, -EACCES, "certificate %s (%s) is not this user's",
					     ask->pin,
					     printable(ask->subject ? ask->subject : "no subject"));
	rc = auth_known_user(o, ask, a, e);
	a->method = AUTH_CERTIFICATE;
	return rc;
}

int auth_check(const struct srv_options *o, const struct auth_ask *ask, struct auth_answer *a,
	       struct err *e)
{
	bool anonymous = o->anonymous && auth_is_anonymous(ask->user);
	const struct srv_rules *r = &o->anonymous_rules;
	int rc;

	memset(a, 0, sizeof(*a));
	if (anonymous && !ask->password) {
		rc = err_set(e, -EACCES, "anonymous needs no certificate");
	} else if (anonymous) {
		a->method = AUTH_ANONYMOUS;
		a->rights = o->anonymous;
		a->umask = auth_umask(o, r);
		rc = auth_fill(a, "anonymous", r->root ? r->root : o->root,
			       r->home ? r->home : "/", e);
	} else if (ask->password) {
		rc = auth_known_user(o, ask, a, e);
	} else {
		rc = auth_by_certificate(o, ask, a, e);
	}
	if (rc < 0)
		auth_answer_clear(a);
	return rc;
}

void auth_fill_up(uint64_t began)
{
	const uint64_t step = (uint64_t)AUTH_REFUSAL_MS * 1000000;
	uint64_t now, until = began + ((now_ns() - began) / step + 1) * step;

	while ((now = now_ns()) < until)
		poll(NULL, 0, (int)((until - now) / 1000000) + 1);
}

/* ---- logins ---- */

int login_check(const struct srv_options *o, const char *peer_text, const struct auth_ask *ask,
		struct auth_answer *a, struct err *e)
{
	static const char *const methods[] = {
		[AUTH_ANONYMOUS] = "anonymous", [AUTH_USERS] = "users file",
		[AUTH_PAM] = "pam", [AUTH_CERTIFICATE] = "certificate",
	};
	struct log_field fields[] = {
		LOG_NAME("event", "login"), LOG_NAME("user", ask->user),
		LOG_NAME("peer", peer_text), LOG_NAME("result", "ok"),
	};
	const size_t n = sizeof(fields) / sizeof(fields[0]);
	bool v6 = *peer_text == '[';
	struct auth_ask from = *ask;
	char host[80];
	int rc;

	/* The address without the port: "192.0.2.1", "2001:db8::1". */
	snprintf(host, sizeof(host), "%.*s", (int)strcspn(peer_text + v6, v6 ? "]" : ":"),
		 peer_text + v6);
	from.peer = host;
	rc = auth_check(o, &from, a, e);

	if (rc == 0) {
		fields[1].name = a->name;
		log_event(LOG_LV_INFO, fields, n, "login of %s from %s (%s)", printable(a->name),
			  peer_text, methods[a->method]);
	} else if (rc == -EACCES || rc == -EKEYEXPIRED) {
		fields[3].name = "refused";
		log_event(LOG_LV_WARN, fields, n, "login of \"%s\" from %s refused: %s",
			  printable(ask->user), peer_text, e->text);
	} else {
		fields[3].name = e->text;
		log_event(LOG_LV_ERROR, fields, n, "login of \"%s\" from %s: %s",
			  printable(ask->user), peer_text, e->text);
	}
	return rc;
}

int login_self(const struct srv_options *o, struct auth_answer *a, struct err *e)
{
	struct passwd *pw = getpwuid(geteuid());
	const char *home = getenv("HOME");

	memset(a, 0, sizeof(*a));
	if (!home || *home != '/')
		home = pw && pw->pw_dir ? pw->pw_dir : "/";
	a->method = AUTH_SELF;
	a->rights = RIGHTS_RW;
	a->umask = o->tuning.umask;
	return auth_fill(a, pw ? pw->pw_name : "?", o->root, o->root ? "/" : home, e);
}

int login_become(const struct auth_answer *a, struct err *e)
{
	/* If this process is not root's, auth_may_become() has accepted only this process's own
	 * user. */
	return a->is_system && geteuid() == 0 ? identity_assume(&a->as, e) : 0;
}

int login_enter(const struct auth_answer *a, const char *peer_text, struct ftp_account *account,
		struct err *e)
{
	/* As the table in rftpd(8), "Rights". */
	static const struct {
		bool see, create, change;
	} may[] = {
		[RIGHTS_NONE]     = { false, false, false },
		[RIGHTS_RO]       = { true,  false, false },
		[RIGHTS_RW]       = { true,  true,  true },
		[RIGHTS_NODELETE] = { true,  true,  false },
		[RIGHTS_UPLOAD]   = { false, true,  false },
	};
	int rc = 0;

	*account = (struct ftp_account){
		.home = strdup(a->home), .umask = a->umask, .can_see = may[a->rights].see,
		.can_create = may[a->rights].create, .can_change = may[a->rights].change,
	};
	snprintf(account->name, sizeof(account->name), "%.*s",
		 (int)sizeof(account->name) - 1, a->name);
	if (!account->home)
		rc = err_nomem(e);

	/* An account without a root of its own is limited only by its system user's permissions. */
	if (rc == 0)
		account->root = root_new(a->root, a->confined, e);
	if (rc == 0 && (!account->root || root_without_proc(account->root, e) < 0))
		rc = e->code;

	/* A directory can be opened without execute permission, so check that, too. */
	if (rc == 0 && a->confined && euidaccess(a->root, X_OK) < 0)
		rc = err_sys(e, -errno, "enter");
	if (rc == 0)
		return 0;
	ftp_account_clear(account);
	log_error("session of %s from %s: root %s: %s", printable(a->name), peer_text,
		  printable(a->root), e->text);

	/* The password was right, so the client may learn the reason, but not the path. */
	return err_set(e, -EKEYEXPIRED, "Your directory on this server cannot be entered");
}
