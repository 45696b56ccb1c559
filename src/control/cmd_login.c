// SPDX-License-Identifier: Apache-2.0
/* Who is it, and is the line safe: USER, PASS (RFC 959), AUTH, PBSZ, PROT (RFC 4217). */
#include "control/session.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

enum {
	FAILURES_MAX = 5,
	CERTIFICATES_MAX = 3,   /* users that one certificate may turn out not to be */
	HANDSHAKE_MS = 30 * 1000,
};

static int logged_in(struct ftp_session *s, int code)
{
	free(steal_ptr(&s->user));
	if (s->tls)
		tls_secret(s->tls, false);
	return session_welcome(s, code);
}

/* What is neither right nor wrong. */
static int not_now(struct ftp_session *s, int rc)
{
	if (rc == -EKEYEXPIRED)
		return ftp_session_reply(s, 530, "%s", s->e->text);
	ftp_session_reply(s, 421, "Nobody can log in now; try again later");
	return rc;
}

/* RFC 2228: 232 to USER where the exchange of AUTH has told who it is (RFC 4217, section 4). */
static int login_by_certificate(struct ftp_session *s, const char *user)
{
	bool may = s->tls && s->c->cert_login && s->certificate_asked < CERTIFICATES_MAX;
	int rc = -EACCES;

	if (may) {
		s->certificate_asked++;
		rc = s->c->cert_login(s->c->arg, user, s->tls, &s->account, s->e);
	}
	if (rc == 0)
		return logged_in(s, 232);
	if (rc != -EACCES)
		return not_now(s, rc);
	return ftp_session_reply(s, 331, "And the password?");
}

int cmd_user(struct ftp_session *s, char *arg)
{
	if (s->c->trusted)
		return ftp_session_reply(s, 230, "You are logged in already, as %s",
					 s->account.name);
	if (s->logged_in)
		return ftp_session_reply(s, 503, "You are logged in already");
	if (s->c->require_tls && !s->tls)
		return ftp_session_reply(s, 530, "AUTH TLS first: nobody logs in in clear here");
	free(s->user);
	s->user = strdup(arg);
	if (!s->user)
		return ftp_session_reply(s, 451, "Out of memory");
	return login_by_certificate(s, arg);
}

/* Each failure costs the guesser a second more than the one before. */
static int login_refused(struct ftp_session *s)
{
	if (++s->failures >= FAILURES_MAX) {
		s->quit = true;
		return ftp_session_reply(s, 421, "Too many wrong passwords");
	}
	session_pause(s, (int)s->failures * 1000);
	return ftp_session_reply(s, 530, "User or password is wrong");
}

int cmd_pass(struct ftp_session *s, char *arg)
{
	CLEANUP_FREE char *user = steal_ptr(&s->user);
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
	if (rc == -EACCES)
		return login_refused(s);
	return rc < 0 ? not_now(s, rc) : logged_in(s, 230);
}

/* The login's own time is not longer for a handshake that stands still. */
static int handshake_ms(const struct ftp_session *s)
{
	uint64_t now = now_ns(), left = s->login_by > now ? (s->login_by - now) / 1000000 : 0;

	return left < HANDSHAKE_MS ? (int)left + 1 : HANDSHAKE_MS;
}

static int start_tls(struct ftp_session *s)
{
	struct stream *st;
	struct tls *tls;
	int rc;

	tls = tls_start(s->c->tls, s->fd, NULL, NULL, handshake_ms(s), s->e);
	if (!tls)
		return s->e->code;
	st = stream_tls(s->fd, tls);
	if (!st) {
		tls_free(tls);
		return err_sys(s->e, -ENOMEM, "TLS");
	}
	rc = ms_replace(s->ms, st);
	if (rc < 0) {
		st->ops->disown(st); /* the old stream has the descriptor */
		stream_free(st);
		return err_set(s->e, rc, "refused: bytes were sent in clear behind AUTH TLS");
	}
	s->tls = tls;
	tls_secret(tls, true); /* until the password has come */
	/* What was said in clear may have been said by anyone (RFC 4217 §4). */
	free(steal_ptr(&s->user));
	s->percent = s->inline_list = false;
	return 0;
}

int cmd_auth(struct ftp_session *s, char *arg)
{
	int rc;

	if (strcasecmp(arg, "TLS") && strcasecmp(arg, "TLS-C"))
		return ftp_session_reply(s, 504, "Only AUTH TLS is known");
	if (!session_has_tls(s))
		return ftp_session_reply(s, 502, "There is no TLS on this stream");
	if (s->tls || s->logged_in)
		return ftp_session_reply(s, 503, "It is too late for AUTH");
	rc = ftp_session_reply(s, 234, "Go on with the TLS handshake");
	return rc < 0 ? rc : start_tls(s);
}

int cmd_pbsz(struct ftp_session *s, char *arg)
{
	if (!session_under_tls(s))
		return ftp_session_reply(s, 503, "AUTH TLS first");
	if (!*arg || strspn(arg, "0123456789") != strlen(arg))
		return ftp_session_reply(s, 501, "Syntax: PBSZ 0");
	s->pbsz = true;
	return ftp_session_reply(s, 200, "PBSZ=0");
}

int cmd_prot(struct ftp_session *s, char *arg)
{
	char level = (char)(*arg & ~0x20);

	if (!*arg || arg[1] || !strchr("CPSE", level))
		return ftp_session_reply(s, 504, "Levels are C and P");
	if (!s->pbsz)
		return ftp_session_reply(s, 503, "PBSZ first");
	if (level == 'S' || level == 'E')
		return ftp_session_reply(s, 536, "TLS has levels C and P only");
	s->prot_p = level == 'P';
	return ftp_session_reply(s, 200, s->prot_p ? "Data connections go over TLS" :
						     "Data connections go in clear");
}

int cmd_quit(struct ftp_session *s, char *arg)
{
	s->quit = true;
	return ftp_session_reply(s, 221, "Goodbye");
}
