// SPDX-License-Identifier: Apache-2.0
/* Commands of the client: sending them, reading replies, the errno of a refusal, and listings by
 * MLSD (RFC 3659 §7) in the reply. */
#include "control/client/client.h"

#include <strings.h>

enum { REPLY_MS = 10 * 60 * 1000, THIRD_MS = 60 * 1000, PRELIMINARY_MOST = 1000 };

/* ---- replies ---- */

int ftp_lost(const char *host, int rc, struct err *e)
{
	switch (rc) {
	case -EPIPE:
		return err_set(e, rc, "%s closed the connection", host);
	case -EMSGSIZE:
		return err_set(e, -EPROTO, "%s sent a reply that is too long", host);
	case -ETIMEDOUT:
		return err_set(e, rc, "%s did not answer in time", host);
	default:
		return err_sys(e, rc, "connection to %s", host);
	}
}

int ftp_bad_name(const char *host, const char *name, struct err *e)
{
	return err_set(e, -EILSEQ, "%s: %s cannot take a name that contains a line end",
		       printable(name), host);
}

/* The connection is lost because of rc, a negative errno. Returns rc with text. */
static int client_lost(struct ftp_client *c, int rc, struct err *e)
{
	c->lost = true;
	if (rc == -EBADMSG)
		return err_set(e, -EPROTO, "%s sent an invalid FTP reply: \"%s\"", c->host,
			       printable(c->line));
	return ftp_lost(c->host, rc, e);
}

/* end: the time limit for all lines together; 0: none. Returns the code, or a negative errno. */
static int read_one_reply(struct ftp_client *c, uint64_t end, struct err *e)
{
	int rc = 0;

	ftp_reply_clear(&c->reply);
	while (rc == 0) {
		ssize_t n = ms_read_line(c->ms, c->line, sizeof(c->line), end ? ms_to(end) : -1);

		rc = n < 0 ? (int)n : ftp_reply_line(&c->reply, c->line);
	}
	if (rc < 0)
		return client_lost(c, rc, e);
	if (c->reply.code == 421)
		c->lost = true;
	return c->reply.code;
}

int client_read_owed(struct ftp_client *c, uint64_t end, struct err *e)
{
	int rc = c->owed ? read_one_reply(c, end, e) : 0;

	c->owed = false;
	return rc < 0 || c->lost ? rc : 0;
}

/* Read one reply, also a preliminary one; end as for client_read_owed(). */
static int read_until(struct ftp_client *c, uint64_t end, struct err *e)
{
	int rc = client_read_owed(c, end, e);

	return rc ? rc : read_one_reply(c, end, e);
}

int client_final_reply(struct ftp_client *c, int timeout_ms, struct err *e)
{
	uint64_t end = timeout_ms < 0 ? 0 : ns_after(timeout_ms);

	for (int i = 0; i < PRELIMINARY_MOST; i++) {
		int code = read_until(c, end, e);

		if (code < 100 || code >= 200)
			return code;
	}
	c->lost = true;
	return err_set(e, -EPROTO, "%s sends replies without end", c->host);
}

/* ---- refusals ---- */

/* Errors that rftpd and other servers report by the English text of strerror(). */
static const int reasons[] = {
	ENOENT, EACCES, EEXIST, ENOTDIR, EISDIR, ENOTEMPTY, ENOSPC, EROFS, EDQUOT, EFBIG, EXDEV,
	ELOOP, ENAMETOOLONG, EBUSY, EPERM, EINVAL, EIO, ENODATA,
};

/* Used if the text has none of the reasons above. */
static const struct {
	int code, error;
} codes[] = {
	{ 421, ECONNABORTED }, { 425, EPIPE }, { 426, EPIPE }, { 450, EBUSY }, { 451, EIO },
	{ 452, ENOSPC }, { 500, ENOSYS }, { 501, EINVAL }, { 502, ENOSYS }, { 504, EOPNOTSUPP },
	{ 522, EACCES }, { 530, EACCES }, { 532, EACCES }, { 534, EACCES }, { 550, ENOENT },
	{ 552, ENOSPC }, { 553, EINVAL },
};

static int reply_errno(int code, const char *text)
{
	for (size_t i = 0; i < sizeof(reasons) / sizeof(reasons[0]); i++)
		if (strcasestr(text, strerrordesc_np(reasons[i])))
			return -reasons[i];
	for (size_t i = 0; i < sizeof(codes) / sizeof(codes[0]); i++)
		if (codes[i].code == code)
			return -codes[i].error;
	return -EPROTO;
}

int ftp_reply_refused(const char *host, int code, const char *text, struct err *e)
{
	return err_set(e, reply_errno(code, text ? text : ""), "%s answers %d %s", host, code,
		       printable(text ? text : ""));
}

int client_refused(const struct ftp_client *c, struct err *e)
{
	const char *text = c->reply.text ? c->reply.text : "";
	CLEANUP_FREE char *decoded = NULL;

	/* Paths in it are percent-encoded if agreed. */
	if (c->percent && !percent_decode(text, &decoded))
		text = decoded;
	return ftp_reply_refused(c->host, c->reply.code, text, e);
}

/* ---- sending ---- */

/* Returns the part of arg that is a path; NULL: none. */
static const char *command_path(enum ftp_verb v, const char *arg)
{
	static const enum ftp_verb verbs[] = {
		FTP_CWD, FTP_RETR, FTP_STOR, FTP_SIZE, FTP_MDTM, FTP_HASH, FTP_MLSD, FTP_MLST,
		FTP_MKD, FTP_RMD, FTP_RMDA, FTP_DELE, FTP_RNFR, FTP_RNTO, FTP_AVBL,
	};
	/* After the mode. */
	const char *blank = arg && v == FTP_SITE && !strncasecmp(arg, "CHMOD ", 6) ?
			    strchr(arg + 6, ' ') : NULL;

	/* After size, time, set and ranges. */
	if (arg && v == FTP_SITE && !strncasecmp(arg, SITE_JOIN, strlen(SITE_JOIN))) {
		blank = arg + strlen(SITE_JOIN) - 1;
		for (int i = 0; i < 5 && blank; i++)
			blank = strchr(blank + 1, ' ');
	}

	for (size_t i = 0; i < sizeof(verbs) / sizeof(verbs[0]); i++)
		if (verbs[i] == v)
			return arg;
	return blank ? blank + 1 : NULL;
}

/* Append "VERB arg\r\n". */
static int put_command(const struct ftp_client *c, struct buf *b, enum ftp_verb v, const char *arg)
{
	const char *name = ftp_command_of(v)->name;
	const char *path = c->percent ? command_path(v, arg) : NULL;
	CLEANUP_FREE char *encoded = path ? percent_encode(path) : NULL;
	int rc = buf_put(b, name, strlen(name));

	if (path && !encoded)
		return -ENOMEM;
	if (!path && arg && strpbrk(arg, "\r\n"))
		return -EILSEQ;

	if (rc == 0 && arg && *arg)
		rc = buf_put(b, " ", 1);
	if (rc == 0 && arg)
		rc = buf_put(b, arg, path ? (size_t)(path - arg) : strlen(arg));
	if (rc == 0 && path)
		rc = buf_put(b, encoded, strlen(encoded));
	return rc ? rc : buf_put(b, "\r\n", 2);
}

int client_send(struct ftp_client *c, enum ftp_verb v, const char *arg, struct err *e)
{
	CLEANUP_BUF struct buf *b = buf_new(FTP_LINE_MAX - 1);
	int rc = b ? put_command(c, b, v, arg) : -ENOMEM;

	if (c->lost)
		return ftp_lost(c->host, -EPIPE, e);
	if (rc == -EILSEQ)
		return ftp_bad_name(c->host, arg, e);
	if (rc == -ENOBUFS)
		return err_set(e, -ENAMETOOLONG, "%s: too long for a command", printable(arg));

	if (rc == 0)
		rc = ms_write(c->ms, buf_ptr(b), buf_len(b));
	return rc == -ENOMEM ? err_sys(e, rc, "command") : rc < 0 ? client_lost(c, rc, e) : 0;
}

int ftp_simple(struct ftp_client *c, enum ftp_verb v, const char *arg, char **text,
	       struct err *e)
{
	bool unlimited;
	int code;

	if (text)
		*text = NULL;
	code = client_begin(c, e);
	if (code < 0)
		return code;

	/* Digests, removals of trees and SITE JOIN have no time limit. */
	unlimited = v == FTP_HASH || v == FTP_RMDA ||
		    (v == FTP_SITE && arg && !strncasecmp(arg, SITE_JOIN, strlen(SITE_JOIN)));
	code = client_send(c, v, arg, e);
	if (code == 0)
		code = client_final_reply(c, unlimited ? -1 : REPLY_MS, e);
	code = client_end(c, code, e);
	if (code < 0)
		return code;

	/* 350 is the success of RNFR and REST. */
	if (code / 100 != 2 && !(code == 350 && (v == FTP_RNFR || v == FTP_REST)))
		return client_refused(c, e);

	if (text) {
		*text = c->reply.text ? steal_ptr(&c->reply.text) : strdup("");
		ftp_reply_clear(&c->reply);
		if (!*text)
			return err_nomem(e);
	}
	return code;
}

/* ---- MLST ---- */

int ftp_stat(struct ftp_client *c, const char *path, struct ftp_facts *f, struct err *e)
{
	int rc = ftp_simple(c, FTP_MLST, path, NULL, e);

	memset(f, 0, sizeof(*f));
	if (rc < 0 || !ftp_facts_of_reply(&c->reply, c->percent, f))
		return rc < 0 ? rc : 0;
	ftp_facts_clear(f);
	return err_set(e, -EPROTO, "%s sent a malformed answer to MLST: \"%s\"", c->host,
		       printable(c->reply.text ? c->reply.text : ""));
}

/* ---- GIVE and TAKE: copies between two servers ---- */

int ftp_ask(struct ftp_client *c, enum ftp_verb v, const struct buf *body, struct err *e)
{
	char arg[24];
	int rc;

	snprintf(arg, sizeof(arg), "%zu", buf_len(body));
	rc = client_send(c, v, arg, e);
	if (rc)
		return rc;

	rc = ms_write(c->ms, buf_ptr(body), buf_len(body));
	if (rc)
		return client_lost(c, rc, e);

	rc = read_until(c, ns_after(THIRD_MS), e);
	if (rc < 0)
		return rc;
	return rc == 150 ? 0 : client_refused(c, e);
}

int ftp_closing(struct ftp_client *c, struct err *e)
{
	int rc = client_begin(c, e);

	if (rc < 0)
		return rc;
	rc = client_end(c, client_final_reply(c, THIRD_MS, e), e);
	return rc < 0 ? rc : 0;
}

/* ---- listings ---- */

enum {
	LIST_MS = 10 * 60 * 1000,      /* of silence */
	LIST_ALL_MS = 60 * 60 * 1000,  /* for all lines */
};

/* Read the closing reply after a listing. rc: the result of its transfer. */
static int list_finish(struct ftp_client *c, int rc, struct err *e)
{
	struct err ignored = ERR_INIT;
	int code = client_final_reply(c, LIST_MS, rc ? &ignored : e);

	if (rc || code < 0)
		return rc ? rc : code;
	return code / 100 == 2 ? 0 : client_refused(c, e);
}

/* Read the lines between "150-" and "150 "; each starts with a space. */
static int list_by_reply(struct ftp_client *c, const char *path, struct listing_text *l, struct err *e)
{
	const uint64_t end = ns_after(LIST_ALL_MS);
	int rc = client_send(c, FTP_MLSD, path, e);
	ssize_t n;

	if (rc == 0)
		rc = client_read_owed(c, ns_after(LIST_MS), e);
	if (rc)
		return rc < 0 ? rc : client_refused(c, e);

	n = ms_read_line(c->ms, c->line, sizeof(c->line), LIST_MS);
	if (n >= 0 && strncmp(c->line, "150-", 4)) {
		/* A refusal has one line. */
		ftp_reply_clear(&c->reply);
		rc = ftp_reply_line(&c->reply, c->line);
		if (rc == 1)
			return client_refused(c, e);
		n = -EPROTO;
	}

	while (n >= 0) {
		n = ms_read_line(c->ms, c->line, sizeof(c->line), LIST_MS);
		if (n >= 0 && !strncmp(c->line, "150 ", 4))
			return list_finish(c, 0, e);
		if (now_ns() > end)
			n = -ETIMEDOUT;
		if (n < 0)
			break;

		c->line[n++] = '\n';
		rc = listing_add(l, c->line + (c->line[0] == ' '),
				 (size_t)n - (c->line[0] == ' '), e);
		if (rc) {
			c->lost = true;
			return rc;
		}
	}
	c->lost = true;
	return err_sys(e, (int)n, "listing from %s", c->host);
}

int ftp_list(struct ftp_client *c, const char *path, struct facts_list *list, struct err *e)
{
	struct listing_text l = { .host = c->host };
	int rc = client_begin(c, e);

	if (rc < 0)
		return rc;

	/* Every rftpd has agreed to it. */
	rc = c->inline_list ? list_by_reply(c, path, &l, e) :
	     err_set(e, -EPROTONOSUPPORT, "%s cannot list in its reply (OPTS INLINE MLSD), as "
		     "rftpd can: for another FTP server write ftp:// or ftps://", c->host);
	rc = client_end(c, rc, e);
	if (rc == 0)
		rc = listing_parse(&l, c->percent ? LISTING_PERCENT : LISTING_FACTS, list, e);
	buf_free(l.text);
	return rc;
}
