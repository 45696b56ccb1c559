// SPDX-License-Identifier: Apache-2.0
/* The client's login: all that there is to say goes out in one piece, since its answers
 * change nothing, and costs one round trip. */
#include "control/client.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>

enum {
	ATTEMPTS = 3,
	PAUSE_MS = 10 * 1000, /* what a server may take to refuse a password */
};

enum step { STEP_USER, STEP_PASS, STEP_FEAT, STEP_NAMES, STEP_INLINE, STEP_PBSZ, STEP_PROT,
	    STEP_TYPE, STEPS };

struct login {
	const char *user;
	const char *password;
	bool named;               /* else the user is known already: by ssh, or the certificate */
	int code[STEPS];          /* replies; 0: not sent */
	char *refusal;            /* text of the reply that refused the login */
};

/* ---- sending ---- */

static int put_line(struct buf *b, const char *verb, const char *arg)
{
	int rc = buf_put(b, verb, strlen(verb));

	if (rc == 0 && arg)
		rc = buf_put(b, arg, strlen(arg));
	return rc ? rc : buf_put(b, "\r\n", 2);
}

static bool wanted(const struct ftp_client *c, const struct login *l, enum step s)
{
	switch (s) {
	case STEP_USER:
	case STEP_PASS:
		return l->named;
	case STEP_PBSZ:
	case STEP_PROT:
		return c->tls;
	default:
		return true;
	}
}

static int put_steps(const struct ftp_client *c, const struct login *l, struct buf *b)
{
	const struct { const char *verb, *arg; } lines[STEPS] = {
		[STEP_USER] = { "USER ", l->user },
		[STEP_PASS] = { "PASS ", l->password },
		[STEP_FEAT] = { "FEAT", NULL },
		[STEP_NAMES] = { "OPTS NAMES PERCENT", NULL },
		[STEP_INLINE] = { "OPTS INLINE MLSD", NULL },
		[STEP_PBSZ] = { "PBSZ 0", NULL },
		[STEP_PROT] = { "PROT P", NULL },
		[STEP_TYPE] = { "TYPE I", NULL },
	};
	int rc = 0;

	for (int s = 0; rc == 0 && s < STEPS; s++)
		if (wanted(c, l, (enum step)s))
			rc = put_line(b, lines[s].verb, lines[s].arg);
	return rc;
}

static int send_steps(struct ftp_client *c, const struct login *l, struct err *e)
{
	CLEANUP_BUF struct buf *b = buf_new(FTP_LINE_MAX);
	int rc = b ? put_steps(c, l, b) : -ENOMEM;

	if (rc == 0)
		rc = ms_write(c->ms, buf_ptr(b), buf_len(b));
	return rc < 0 ? err_sys(e, rc, "login at %s", c->host) : 0;
}

/* ---- reading ---- */

static bool is_feature(const char *line, const char *name)
{
	size_t n = strlen(name);

	return !strncasecmp(line, name, n) && (!line[n] || line[n] == ' ');
}

/* A server without a list of features announces "BULK 1". */
static void take_bulk(struct ftp_client *c, const char *value)
{
	if (bulk_version_parse(value, &c->bulk) < 0)
		c->bulk = (struct bulk_version){ .major = 1 };
}

static void take_features(struct ftp_client *c)
{
	char *rest = c->reply.text, *line;

	while ((line = strsep(&rest, "\n"))) {
		line += strspn(line, " ");
		if (is_feature(line, "BULK"))
			take_bulk(c, line + strlen("BULK"));
		c->lanes |= is_feature(line, "LANE");
		c->give |= is_feature(line, "GIVE");
		c->take |= is_feature(line, "TAKE");
	}
}

static void keep_refusal(struct login *l, const struct ftp_reply *r)
{
	if (l->refusal || r->code / 100 < 4)
		return;
	l->refusal = r->text ? strdup(r->text) : NULL;
}

static int read_steps(struct ftp_client *c, struct login *l, struct err *e)
{
	for (int s = 0; s < STEPS; s++) {
		if (!wanted(c, l, (enum step)s))
			continue;
		l->code[s] = client_final_reply(c, c->timeout_ms + PAUSE_MS, e);
		if (l->code[s] < 0)
			return l->code[s];
		if (s == STEP_USER || s == STEP_PASS)
			keep_refusal(l, &c->reply);
		if (s == STEP_FEAT && l->code[s] / 100 == 2)
			take_features(c);
		if (l->code[s] == 421)
			return client_refused(c, e);
	}
	c->percent = l->code[STEP_NAMES] / 100 == 2;
	c->inline_list = l->code[STEP_INLINE] / 100 == 2;
	c->prot_p = l->code[STEP_PROT] / 100 == 2;
	return 0;
}

/* Servers that are not ours may drop what comes before they have answered. Only this is said here:
 * the rest is client_learn()'s. */
static int one_by_one(struct ftp_client *c, struct login *l, struct err *e)
{
	int rc = client_send_word(c, "USER", l->user, NULL, e);

	memset(l->code, 0, sizeof(l->code));
	free(steal_ptr(&l->refusal));
	if (rc == 0)
		rc = l->code[STEP_USER] = client_final_reply(c, c->timeout_ms + PAUSE_MS, e);
	if (rc == 421)
		return client_refused(c, e);
	if (rc > 0)
		keep_refusal(l, &c->reply);
	if (rc != 331)
		return rc < 0 ? rc : 0;
	rc = client_send_word(c, "PASS", l->password, NULL, e);
	if (rc == 0)
		rc = l->code[STEP_PASS] = client_final_reply(c, c->timeout_ms + PAUSE_MS, e);
	if (rc == 421)
		return client_refused(c, e);
	if (rc > 0)
		keep_refusal(l, &c->reply);
	return rc < 0 ? rc : 0;
}

static int pipelined(struct ftp_client *c, struct login *l, struct err *e)
{
	int rc = send_steps(c, l, e);

	memset(l->code, 0, sizeof(l->code));
	free(steal_ptr(&l->refusal));
	return rc ? rc : read_steps(c, l, e);
}

/* One attempt. 0; -EACCES: refused, text in e; other errors end it. */
static int attempt(struct ftp_client *c, struct login *l, struct err *e)
{
	uint64_t began = now_ns();
	int rc = c->foreign ? one_by_one(c, l, e) : pipelined(c, l, e);

	if (rc < 0)
		return rc;
	/* By ssh there is no better measure: nothing slow is among those commands. */
	if (c->ssh)
		c->rtt_ns = now_ns() - began;
	if (!l->named || l->code[STEP_USER] / 100 == 2 || l->code[STEP_PASS] / 100 == 2)
		return 0;
	if (l->code[STEP_USER] == 332 || l->code[STEP_PASS] == 332)
		return err_set(e, -EACCES, "%s wants an account (ACCT) besides, which rftp does "
			       "not have", c->host);
	return err_set(e, -EACCES, "%s refuses the login of %s: %s", c->host,
		       printable(l->user), printable(l->refusal ? l->refusal : ""));
}

/* ---- who we are ---- */

static bool is_anonymous(const char *user)
{
	return !strcmp(user, "anonymous") || !strcmp(user, "ftp");
}

static int may_send_password(const struct ftp_client *c, const struct ftp_client_config *cfg,
			     const char *user, struct err *e)
{
	if (c->tls || cfg->plain_password)
		return 0;
	return err_set(e, -EACCES, "the password of %s is not sent to %s in clear%s",
		       printable(user), c->host,
		       c->foreign ? "; --plain-password allows it" : "");
}

static int try_password(struct ftp_client *c, struct login *l, char *password, struct err *e)
{
	int rc;

	l->password = password;
	rc = strpbrk(password, "\r\n") ?
	     err_set(e, -EILSEQ, "the password has a line's end in it") : attempt(c, l, e);
	crypto_wipe(password, strlen(password));
	free(password);
	return rc;
}

static int no_password(const struct ftp_client *c, const struct ftp_client_config *cfg,
		       const struct login *l, struct err *e)
{
	const char *given = cfg->netrc, *user = printable(l->user);
	bool v6 = strchr(c->host, ':'); /* the file has it in brackets */
	char port[16] = "", advice[ERR_TEXT] = "";
	struct stat st;

	if (c->port != (c->foreign ? FTP_CONTROL_PORT : RFTP_PORT))
		snprintf(port, sizeof(port), ":%u", c->port);
	if (!given || stat(given, &st) || S_ISREG(st.st_mode))
		snprintf(advice, sizeof(advice),
			 "put \"machine %s%s%s%s login %s password ...\" into %s, or ",
			 v6 ? "[" : "", c->host, v6 ? "]" : "", port, user,
			 given ? printable(given) : "~/.netrc");
	return err_set(e, -EACCES, "%sthere is no password for %s at %s: %sbe at a terminal to be "
		       "asked", cfg->certfile ? "the certificate is not enough, and " : "", user,
		       c->host, advice);
}

static int login_with_password(struct ftp_client *c, const struct ftp_client_config *cfg,
			       struct login *l, struct err *e)
{
	int rc = may_send_password(c, cfg, l->user, e);

	if (rc < 0)
		return rc;
	for (int i = 0; i < ATTEMPTS; i++) {
		char *password = cfg->password ?
				 cfg->password(cfg->arg, l->user, c->host, i) : NULL;

		if (!password)
			return i ? rc : no_password(c, cfg, l, e);
		rc = try_password(c, l, password, e);
		/* A refused name is not a matter of passwords. */
		if (rc != -EACCES || l->code[STEP_USER] / 100 != 3)
			return rc;
	}
	return rc;
}

/* Is our certificate enough, that no password must be asked for? 1: it is (232), nothing but USER
 * has been said; 0: a password is wanted; or a negative errno. */
static int by_certificate(struct ftp_client *c, const struct ftp_client_config *cfg,
			  struct login *l, struct err *e)
{
	int code;

	if (!cfg->certfile || !c->tls)
		return 0;
	code = client_send_word(c, "USER", l->user, NULL, e);
	if (code == 0)
		code = client_final_reply(c, c->timeout_ms + PAUSE_MS, e);
	if (code == 421)
		return client_refused(c, e);
	if (code / 100 == 2)
		return 1;
	if (code < 0 || code / 100 == 3)
		return code < 0 ? code : 0;
	return err_set(e, -EACCES, "%s refuses the login of %s: %s", c->host, printable(l->user),
		       printable(c->reply.text ? c->reply.text : ""));
}

static int login_as_named(struct ftp_client *c, const struct ftp_client_config *cfg,
			  struct login *l, struct err *e)
{
	int rc = by_certificate(c, cfg, l, e);

	if (rc == 0)
		return login_with_password(c, cfg, l, e);
	if (rc < 0)
		return rc;
	l->named = false;
	return c->foreign ? 0 : attempt(c, l, e);
}

int client_login(struct ftp_client *c, const struct ftp_client_config *cfg, struct err *e)
{
	struct login l = {
		.user = cfg->place->user ? cfg->place->user : "anonymous",
		.password = "rftp@",
		.named = !c->ssh,
	};
	int rc;

	if (strpbrk(l.user, "\r\n"))
		return err_set(e, -EILSEQ, "the user's name has a line's end in it");
	if (c->ssh || is_anonymous(l.user))
		rc = attempt(c, &l, e);
	else
		rc = login_as_named(c, cfg, &l, e);
	free(l.refusal);
	return rc;
}
