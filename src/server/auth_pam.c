// SPDX-License-Identifier: Apache-2.0
/* Asks PAM. Which modules decide is the administrator's matter; here is only the dialogue. */
#include "server/auth_pam.h"

#include <errno.h>
#include <grp.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#ifdef HAVE_PAM

#include "crypto/crypto.h"

#include <security/pam_appl.h>

bool auth_pam_available(void)
{
	return true;
}

/* ---- what modules ask ---- */

struct talk {
	const char *password;
	bool given;
};

static void drop_replies(struct pam_response *r, int n)
{
	for (int i = 0; i < n; i++) {
		if (r[i].resp)
			crypto_wipe(r[i].resp, strlen(r[i].resp));
		free(r[i].resp);
	}
	free(r);
}

/* The one question that there is an answer to is the first hidden one: for the password. A second
 * factor, or a new password, FTP has no way to ask for. */
static int answer(struct talk *t, const struct pam_message *m, struct pam_response *r)
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

static int converse(int n, const struct pam_message **m, struct pam_response **out, void *arg)
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
		rc = answer(arg, m[i], &r[i]);
	if (rc == PAM_SUCCESS)
		*out = r;
	else
		drop_replies(r, n);
	return rc;
}

/* The server delays failures itself, where that can be counted per host. */
static void no_delay(int status, unsigned usec, void *arg)
{
	(void)status;
	(void)usec;
	(void)arg;
}

/* ---- what it says ---- */

static int refusal(pam_handle_t *h, int status, const char *what, struct err *e)
{
	switch (status) {
	case PAM_NEW_AUTHTOK_REQD:
	case PAM_AUTHTOK_EXPIRED:
		return err_set(e, -EKEYEXPIRED, "The password has expired: change it first, where "
			       "that can be done");
	case PAM_AUTHINFO_UNAVAIL:
		return err_set(e, -EAGAIN, "PAM, %s: %s", what, pam_strerror(h, status));
	case PAM_ABORT:
	case PAM_BUF_ERR:
	case PAM_OPEN_ERR:
	case PAM_SERVICE_ERR:
	case PAM_SYMBOL_ERR:
	case PAM_SYSTEM_ERR:
		return err_set(e, -EIO, "PAM, %s: %s (see /etc/pam.d/" AUTH_PAM_SERVICE ")", what,
			       pam_strerror(h, status));
	default:
		return err_set(e, -EACCES, "PAM, %s: %s", what, pam_strerror(h, status));
	}
}

/* A setting that a module did not get could be what it decides by. */
static int describe(pam_handle_t *h, const struct auth_ask *ask)
{
	void (*delay)(int, unsigned, void *) = no_delay;
	int rc = pam_set_item(h, PAM_TTY, AUTH_PAM_SERVICE);
	const void *fn;

	memcpy(&fn, &delay, sizeof(fn));
	if (rc == PAM_SUCCESS && ask->peer)
		rc = pam_set_item(h, PAM_RHOST, ask->peer);
	if (rc == PAM_SUCCESS)
		rc = pam_set_item(h, PAM_FAIL_DELAY, fn);
	return rc;
}

/* Groups that modules add (pam_group) are those of the process afterwards: they are taken down for
 * later, and those of before come back. Who is not root has none to give. */
static int take_groups(pam_handle_t *h, struct identity *u, bool must, struct err *e)
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
		return refusal(h, rc, "credentials", e);
	log_debug("PAM, credentials: %s", pam_strerror(h, rc));
	return 0;
}

/* The name that the modules have made of it. */
static int find_user(pam_handle_t *h, const char *asked, struct identity *u, struct err *e)
{
	const void *name = NULL;
	int rc;

	if (pam_get_item(h, PAM_USER, &name) != PAM_SUCCESS || !name)
		name = asked;
	rc = identity_of(name, u, e);
	if (rc == -ENOENT)
		e->code = rc = -EACCES;
	return rc;
}

static int check(pam_handle_t *h, const struct auth_ask *ask, struct identity *u, struct err *e)
{
	const int flags = PAM_DISALLOW_NULL_AUTHTOK;
	int rc = describe(h, ask);

	if (rc != PAM_SUCCESS)
		return refusal(h, rc, "setting it up", e);
	if (ask->password)
		rc = pam_authenticate(h, flags);
	if (rc != PAM_SUCCESS)
		return refusal(h, rc, "password", e);
	rc = pam_acct_mgmt(h, flags);
	if (rc != PAM_SUCCESS)
		return refusal(h, rc, "account", e);
	rc = find_user(h, ask->user, u, e);
	if (rc == 0 && geteuid() == 0)
		rc = take_groups(h, u, ask->password, e);
	return rc;
}

int auth_pam_check(const struct auth_ask *ask, struct identity *u, struct err *e)
{
	struct talk t = { .password = ask->password };
	struct pam_conv conv = { converse, &t };
	pam_handle_t *h = NULL;
	int status, rc;

	memset(u, 0, sizeof(*u));
	/* No user's name; modules make names of files of it. */
	if (!*ask->user || *ask->user == '-' || strpbrk(ask->user, "/:"))
		return err_set(e, -EACCES, "no user can have such a name");
	status = pam_start(AUTH_PAM_SERVICE, ask->user, &conv, &h);
	if (status != PAM_SUCCESS)
		return err_set(e, -EIO, "PAM cannot be used: %s", pam_strerror(h, status));
	rc = check(h, ask, u, e);
	pam_end(h, PAM_SUCCESS);
	if (rc < 0)
		identity_clear(u);
	return rc;
}

#else

bool auth_pam_available(void)
{
	return false;
}

int auth_pam_check(const struct auth_ask *ask, struct identity *u, struct err *e)
{
	memset(u, 0, sizeof(*u));
	return err_set(e, -EOPNOTSUPP, "this build has no PAM");
}

#endif
