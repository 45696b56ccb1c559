// SPDX-License-Identifier: Apache-2.0
/* Login and protection: USER, PASS, QUIT (RFC 959), AUTH, PBSZ, PROT (RFC 4217); and the move of a
 * session to another process after the login. */
#include "control/server/session.h"

#include <poll.h>
#include <strings.h>

enum {
	FAILURES_MAX = 5,
	CERTIFICATES_MAX = 3,   /* users that one certificate may be checked against */
	PAUSE_MS = 500,         /* between checks for the server's stop */
};

/* ---- after login ---- */

int session_login_done(struct ftp_session *s)
{
	s->cwd = ftp_path_resolve("/", "/", s->account.home);
	if (!s->cwd)
		return err_nomem(s->e);
	s->logged_in = true;
	if (s->c->logged_in)
		s->c->logged_in(s->c->arg, s);
	return 0;
}

/* The login has succeeded and the account is filled: reply with code, and continue the session here
 * or in another process. */
static int login_welcome(struct ftp_session *s, int code)
{
	struct ftp_handed h;
	int rc;

	free(steal_ptr(&s->user));
	if (s->tls)
		tls_secret(s->tls, false);
	rc = session_login_done(s);
	if (rc == 0)
		rc = ftp_session_reply(s, code, "Welcome, %s", s->account.name);
	if (rc < 0 || !s->c->handover)
		return rc;

	s->quit = true;
	h = s->agreed;
	rc = s->tls ? ftp_session_key(s, h.key) : 0;
	if (rc == 0)
		rc = s->c->handover(s->c->arg, s, &h, s->e);
	crypto_wipe(&h, sizeof(h));
	return rc;
}

/* ---- USER, PASS ---- */

/* Reply to a login that failed for another reason than wrong credentials. */
static int login_failed(struct ftp_session *s, int rc)
{
	if (rc == -EKEYEXPIRED)
		return ftp_session_reply(s, 530, "%s", s->e->text);
	ftp_session_reply(s, 421, "Logins are not possible now; try again later");
	return rc;
}

#define LOGGED_IN "You are logged in already"

int cmd_user(struct ftp_session *s, char *arg)
{
	int rc = -EACCES;

	if (s->c->trusted)
		return ftp_session_reply(s, 230, LOGGED_IN ", as %s",
					 s->account.name);
	if (s->logged_in)
		return ftp_session_reply(s, 503, LOGGED_IN);
	if (s->c->require_tls && !s->tls) {
		/* The reply cannot name the settings of each client. */
		if (!s->clear_refused)
			log_info("%s: refused a login without TLS (lftp: set ftp:ssl-allow-anonymous yes; "
				 "curl: --ssl-reqd; or rftpd --plain)", s->peer_text);
		s->clear_refused = true;
		return ftp_session_reply(s, 530, "AUTH TLS first: no logins in clear here");
	}

	free(s->user);
	s->user = strdup(arg);
	if (!s->user)
		return ftp_session_reply(s, 451, NO_MEMORY);

	/* RFC 2228: 232 if the client's certificate has proved the user (RFC 4217 §4). */
	if (s->tls && s->c->cert_login && s->certificate_asked < CERTIFICATES_MAX) {
		s->certificate_asked++;
		rc = s->c->cert_login(s->c->arg, arg, s->tls, &s->account, s->e);
	}
	if (rc == 0)
		return login_welcome(s, 232);
	return rc == -EACCES ? ftp_session_reply(s, 331, "Send the password") :
			       login_failed(s, rc);
}

int cmd_pass(struct ftp_session *s, char *arg)
{
	CLEANUP_FREE char *user = steal_ptr(&s->user);
	uint64_t end;
	int rc;

	if (s->c->trusted)
		return ftp_session_reply(s, 230, "No password is needed");
	if (!user && s->logged_in)
		return ftp_session_reply(s, 202, "No password is needed any more");
	if (!user)
		return ftp_session_reply(s, 503, "USER first");

	rc = s->c->login(s->c->arg, user, arg, &s->account, s->e);
	crypto_wipe(arg, strlen(arg));
	ms_wipe(s->ms);
	if (rc != -EACCES)
		return rc < 0 ? login_failed(s, rc) : login_welcome(s, 230);

	if (++s->failures >= FAILURES_MAX) {
		s->quit = true;
		return ftp_session_reply(s, 421, "Too many wrong passwords");
	}

	/* Each failure delays the reply by one second more than the one before. */
	end = ns_after((int)s->failures * 1000);
	while (!session_stopping(s) && now_ns() < end)
		poll(NULL, 0, PAUSE_MS);
	return ftp_session_reply(s, 530, "User or password is wrong");
}

int cmd_quit(struct ftp_session *s, char *arg)
{
	s->quit = true;
	return ftp_session_reply(s, 221, "Goodbye");
}

/* ---- AUTH, PBSZ, PROT ---- */

int cmd_auth(struct ftp_session *s, char *arg)
{
	/* The time limit of the login includes the handshake. */
	uint64_t now = now_ns(), left = s->login_by > now ? (s->login_by - now) / 1000000 : 0;
	int ms = left < SESSION_HANDSHAKE_MS ? (int)left + 1 : SESSION_HANDSHAKE_MS;
	struct stream *st;
	struct tls *tls;
	int rc;

	if (strcasecmp(arg, "TLS") && strcasecmp(arg, "TLS-C"))
		return ftp_session_reply(s, 504, "Only AUTH TLS is known");
	if (!session_has_tls(s))
		return ftp_session_reply(s, 502, "There is no TLS on this stream");
	if (s->tls || s->logged_in)
		return ftp_session_reply(s, 503, "It is too late for AUTH");

	rc = ftp_session_reply(s, 234, "Start the TLS handshake");
	if (rc < 0)
		return rc;

	tls = tls_start(s->c->tls, s->fd, NULL, NULL, ms, s->e);
	if (!tls)
		return s->e->code;
	st = stream_tls(s->fd, tls);
	if (!st) {
		tls_free(tls);
		return err_nomem(s->e);
	}
	rc = ms_replace(s->ms, st);
	if (rc < 0) {
		st->disowned = true; /* the old stream has the descriptor */
		stream_free(st);
		return err_set(s->e, rc, "refused: bytes were sent in clear after AUTH TLS");
	}
	s->tls = tls;
	s->agreed.tls = true;
	tls_secret(tls, true); /* wipe received bytes until the password has arrived */
	/* Forget the settings made in clear: an attacker may have sent these commands (RFC 4217
	 * §4). */
	free(steal_ptr(&s->user));
	s->agreed.percent = s->agreed.inline_list = false;
	return 0;
}

int cmd_pbsz(struct ftp_session *s, char *arg)
{
	if (!s->agreed.tls)
		return ftp_session_reply(s, 503, "AUTH TLS first");
	if (!*arg || strspn(arg, "0123456789") != strlen(arg))
		return ftp_session_reply(s, 501, "Syntax: PBSZ 0");
	s->agreed.pbsz = true;
	return ftp_session_reply(s, 200, "PBSZ=0");
}

int cmd_prot(struct ftp_session *s, char *arg)
{
	char level = (char)(*arg & ~0x20);

	if (!*arg || arg[1] || !strchr("CPSE", level))
		return ftp_session_reply(s, 504, "Levels are C and P");
	if (!s->agreed.pbsz)
		return ftp_session_reply(s, 503, "PBSZ first");
	if (level == 'S' || level == 'E')
		return ftp_session_reply(s, 536, "TLS has levels C and P only");
	s->agreed.prot_p = level == 'P';
	return ftp_session_reply(s, 200, s->agreed.prot_p ? "Data connections use TLS" :
							    "Data connections are in clear");
}
