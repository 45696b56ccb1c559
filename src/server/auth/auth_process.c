// SPDX-License-Identifier: Apache-2.0
/* The auth process: a child checks the login; then this process becomes the user and serves the
 * session. Until then it runs as root, and reads no byte that a client sent. The child ends after
 * the check, so passwords, the users file and the data of PAM's modules are never in a session's
 * memory. A certificate comes from the client: a child of that child, without rights, reads it. */
#include "server/auth/auth.h"
#include "server/server.h"
#include "server/monitor/monitor.h"
#include "server/session/session.h"

#include <limits.h>
#include <sys/resource.h>

enum {
	AUTH_ASK_MS = 60 * 1000,
	CHECK_BEYOND_S = 5,
};

/* The result of a login, from the checking child. */
struct check_result {
	bool by_certificate;
	struct auth_answer answer;  /* without answer.as.groups */
	gid_t groups[IDENTITY_GROUPS];
};

struct auth_process {
	const struct server *sv;
	const struct ends *ends;
	const char *user;        /* the user that the monitor counts: no other may log in */
	int line;                /* connects to the preauth process */
	struct channel *monitor;
	char peer_text[80];
	unsigned limit_s;        /* time limit of the check */
	struct check_result *result;
	bool by_certificate;
	struct auth_answer answer;
	struct session_limits limits;
};

/* ---- the certificate check, in a child without rights ---- */

struct cert_task {
	const struct server *sv;
	const struct cert_proof *proof;
	struct cert_result *result;
};

/* Drop all rights before reading the first byte. */
static int cert_check_child(void *arg, struct err *e)
{
	struct tls_proven shown = { .pin = NULL };
	const struct cert_task *t = arg;
	struct cert_result *r = t->result;
	struct state state;
	int rc = state_open_sealed(&state, NULL, t->sv->sealed, e);

	close(t->sv->sealed);
	if (rc == 0)
		rc = preauth_drop_rights(t->sv, e);
	if (rc == 0)
		rc = tls_proof_check(state.tls, t->proof->bytes, t->proof->len, state.pin, &shown,
				     e);
	if (shown.pin && strlen(shown.pin) < sizeof(r->pin))
		strcpy(r->pin, shown.pin);
	if (shown.subject && strlen(shown.subject) < sizeof(r->subject))
		strcpy(r->subject, shown.subject);
	tls_proven_clear(&shown);
	return rc;
}

/* Is text a string of printable ASCII? tls_peer_subject() escapes all other bytes. */
static bool cert_text_is_valid(const char *text, size_t room)
{
	if (!memchr(text, '\0', room))
		return false;
	while (*text >= ' ' && *text <= '~')
		text++;
	return !*text;
}

int cert_result_check(const struct cert_result *r)
{
	if (!cert_text_is_valid(r->pin, sizeof(r->pin)) ||
	    !cert_text_is_valid(r->subject, sizeof(r->subject)))
		return -EPROTO;
	return (*r->pin ? tls_is_pin(r->pin) : !*r->subject) ? 0 : -EPROTO;
}

/* Check the proof p: find the key and the subject of the client's certificate. 0; or an error of
 * tls_proof_check() or child_call(), with printable text. r may be filled even after an error, for
 * the log. */
static int cert_check(const struct server *sv, const struct cert_proof *p, unsigned limit_s,
		      struct cert_result *r, struct err *e)
{
	struct cert_task t = { sv, p, r };
	struct err why = ERR_INIT;
	int rc, wrong;

	rc = p->len > sizeof(p->bytes) ? err_set(&why, -EPROTO, "the proof is too long") :
	     child_call(cert_check_child, &t, limit_s, &sv->sealed, r, sizeof(*r), &why);
	wrong = cert_result_check(r);
	if (wrong)
		memset(r, 0, sizeof(*r));
	if (rc < 0)
		return err_set(e, rc, "%s", printable(why.text));
	return wrong || !*r->pin ?
	       err_sys(e, -EPROTO, "the result of the certificate check") : 0;
}

/* ---- the check of a login, in a child ---- */

/* -EACCES: the client has not proved that it owns the certificate. */
static int check_certificate(const struct auth_process *a, struct cert_result *shown, struct err *e)
{
	CLEANUP_FREE struct cert_proof *p = calloc(1, sizeof(*p));
	int rc;

	if (!a->sv->opt.certificates)
		return err_set(e, -EPROTO, "a certificate, but certificates are not configured");
	rc = p ? msg_receive(a->line, p, sizeof(*p), NULL, AUTH_ASK_MS) : -ENOMEM;
	if (rc < 0)
		return err_sys(e, rc, "no proof of a certificate from the preauth process");
	rc = cert_check(a->sv, p, a->limit_s, shown, e);
	if (rc == -EBADMSG || rc == -EKEYREJECTED || rc == -EKEYEXPIRED) {
		certificate_refused(a->user, a->peer_text, shown->pin, e->text);
		rc = e->code = -EACCES;
	}
	return rc;
}

static int check_credentials(const struct auth_process *a, struct auth_answer *answer,
			     struct err *e)
{
	CLEANUP_FREE struct cert_result *shown = calloc(1, sizeof(*shown));
	struct credentials c;
	int rc = shown ? msg_receive(a->line, &c, sizeof(c), NULL, AUTH_ASK_MS) : -ENOMEM;

	if (rc < 0)
		return err_sys(e, rc, "no credentials from the preauth process");
	a->result->by_certificate = c.by_certificate != 0;
	if (!memchr(c.user, '\0', sizeof(c.user)) || strcmp(c.user, a->user) ||
	    !memchr(c.password, '\0', sizeof(c.password)) || c.by_certificate > 1)
		rc = err_set(e, -EPROTO, "malformed credentials, or those of another user");
	else if (c.by_certificate)
		rc = check_certificate(a, shown, e);

	close(a->sv->sealed); /* PAM's modules must not get the server's key */
	if (rc == 0) {
		struct auth_ask ask = {
			.user = c.user,
			.password = c.by_certificate ? NULL : c.password,
			.pin = *shown->pin ? shown->pin : NULL,
			.subject = *shown->subject ? shown->subject : NULL,
		};

		rc = login_check(&a->sv->opt, a->peer_text, &ask, answer, e);
	}

	/* Accounts that only rftpd knows share one system user. */
	if (rc == 0 && !answer->is_system)
		rc = identity_of(a->sv->opt.files_user, &answer->as, e);
	crypto_wipe(&c, sizeof(c));
	return rc;
}

static int check_child(void *arg, struct err *e)
{
	struct auth_answer answer = { .name = "" };
	const struct auth_process *a = arg;
	int rc = check_credentials(a, &answer, e);

	if (rc == 0) {
		a->result->answer = answer;
		memcpy(a->result->groups, answer.as.groups,
		       (size_t)answer.as.ngroups * sizeof(gid_t));
	}
	auth_answer_clear(&answer);
	return rc;
}

static int check_read_result(const struct check_result *r, struct auth_answer *answer,
			     struct err *e)
{
	*answer = r->answer;
	answer->as.groups = NULL;
	if (!memchr(answer->name, '\0', sizeof(answer->name)) ||
	    !memchr(answer->root, '\0', sizeof(answer->root)) ||
	    !memchr(answer->home, '\0', sizeof(answer->home)) ||
	    !memchr(answer->as.name, '\0', sizeof(answer->as.name)) ||
	    !memchr(answer->as.home, '\0', sizeof(answer->as.home)) ||
	    answer->method > AUTH_SELF || answer->rights > RIGHTS_UPLOAD ||
	    answer->as.ngroups < 0 || answer->as.ngroups > IDENTITY_GROUPS)
		return err_sys(e, -ECHILD, "account");

	answer->as.groups = calloc((size_t)answer->as.ngroups + 1, sizeof(gid_t));
	if (!answer->as.groups)
		return err_nomem(e);

	memcpy(answer->as.groups, r->groups, (size_t)answer->as.ngroups * sizeof(gid_t));
	return 0;
}

/* ---- the auth process ---- */

/* Have the login checked by a child. 0: a->answer is filled, with an identity for every kind of
 * account. Otherwise an error of auth_check(); -ECHILD: the child gave no result; -EPROTO: the
 * request was malformed; with text. */
static int auth_process_check(struct auth_process *a, struct err *e)
{
	uint64_t s = a->sv->opt.login_timeout / 1000000000 + CHECK_BEYOND_S;
	int rc;

	/* Later than the monitor's deadline, because the monitor kills PAM's programs, too. */
	a->limit_s = s < INT_MAX ? (unsigned)s : INT_MAX;
	a->result = calloc(1, sizeof(*a->result));
	rc = a->result ? child_call(check_child, a, a->limit_s, NULL, a->result,
				    sizeof(*a->result), e) :
			 err_nomem(e);
	close(a->sv->sealed); /* the session must not get the server's key */
	a->by_certificate = a->result && a->result->by_certificate;
	if (rc == 0)
		rc = check_read_result(a->result, &a->answer, e);
	free(steal_ptr(&a->result));
	return rc;
}

/* Tell the monitor the result of the check, code, and receive the session's limits. */
static int auth_process_report(struct auth_process *a, int code, struct err *e)
{
	struct check_report r = { .code = code };
	int rc;

	if (code == -EACCES && a->by_certificate)
		r.code = -EKEYREJECTED;
	snprintf(r.name, sizeof(r.name), "%.*s", (int)sizeof(r.name) - 1,
		 code ? "" : a->answer.name);

	rc = channel_send(a->monitor, REQUEST_REPORT, &r, sizeof(r), AUTH_ASK_MS);
	if (rc == 0)
		rc = msg_receive(a->monitor->down, &a->limits, sizeof(a->limits), NULL,
				 AUTH_ASK_MS);

	if (rc < 0)
		return monitor_silent(e, rc);
	return a->limits.code < 0 ? err_sys(e, a->limits.code, "login") : 0;
}

/* Serve the session. Takes fd, the control connection, and account. */
static int auth_process_serve(struct auth_process *a, struct ftp_account *account, int fd,
			      struct err *e)
{
	struct ftp_handed handed;
	struct session s = {
		.sv = a->sv, .ends = a->ends, .handed = &handed, .account = account,
		.line = a->line, .memory = a->limits.memory, .monitor = a->monitor,
		.counted = a->limits.counted,
		.method = a->answer.method,
	};
	int rc = msg_receive(a->line, &handed, sizeof(handed), NULL, AUTH_ASK_MS);

	if (rc == 0)
		rc = ftp_handed_check(&handed);
	if (rc < 0)
		err_sys(e, rc, "no valid session from the preauth process");

	if (rc == 0)
		rc = srv_jail(a->sv, jail_session, e);
	if (rc == 0) {
		srv_session_handed(&s, fd);
	} else {
		close(fd);
		ftp_account_clear(account);
	}
	crypto_wipe(&handed, sizeof(handed));
	return rc;
}

static int auth_process_log_in(struct auth_process *a, struct err *e)
{
	struct ftp_account account = { .name = "" };
	const struct rlimit none = { 0, 0 };
	struct login_result r = { .code = 0 };
	int pair[2] = { -1, -1 };
	uint64_t began = now_ns();
	int rc = auth_process_check(a, e), told;
	struct err why = *e;

	told = auth_process_report(a, rc, e);

	/* Delay only failed passwords: a certificate cannot be guessed. */
	if (rc == -EACCES && !a->by_certificate)
		auth_fill_up(began);
	if (rc == 0)
		rc = told;
	if (rc == 0 && setrlimit(RLIMIT_CORE, &none) < 0)
		rc = err_sys(e, -errno, "limits of a session");
	if (rc == 0)
		rc = locked_limit(0, a->limits.lock, e);
	if (rc == 0)
		rc = identity_assume(&a->answer.as, e);

	/* With the user's own permissions: the user must be able to enter the root. */
	if (rc == 0)
		rc = login_enter(&a->answer, a->peer_text, &account, &why);
	if (rc == 0)
		rc = msg_pair(pair);

	r.code = rc;
	snprintf(r.name, sizeof(r.name), "%.*s", (int)sizeof(r.name) - 1,
		 rc ? "" : a->answer.name);
	snprintf(r.why, sizeof(r.why), "%.*s", (int)sizeof(r.why) - 1,
		 rc == -EKEYEXPIRED ? why.text : "");
	told = msg_send(a->line, &r, sizeof(r), pair[1], AUTH_ASK_MS);
	cleanup_close(&pair[1]);
	if (rc == 0 && told < 0)
		rc = err_sys(e, told, "the preauth process has ended");
	if (rc == 0)
		return auth_process_serve(a, &account, pair[0], e);
	ftp_account_clear(&account);
	cleanup_close(&pair[0]);
	return rc;
}

int auth_process_run(const struct server *sv, int line, struct channel *monitor,
		     const struct ends *ends, const char *user)
{
	struct auth_process a = { .sv = sv, .ends = ends, .user = user, .line = line,
				  .monitor = monitor };
	struct err e = ERR_INIT;
	int rc;

	sockaddr_text(&ends->peer, a.peer_text);
	rc = auth_process_log_in(&a, &e);
	if (rc < 0 && rc != -EACCES && rc != -EKEYEXPIRED)
		log_error("%s: %s", a.peer_text, *e.text ? e.text : strerror(-rc));
	auth_answer_clear(&a.answer);
	return EXIT_SUCCESS;
}
