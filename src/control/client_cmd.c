// SPDX-License-Identifier: Apache-2.0
/* Commands of the client half: sending them, reading replies, and what a refusal means. */
#include "control/client.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

enum { REPLY_MS = 10 * 60 * 1000, PRELIMINARY_MOST = 1000 };

/* ---- replies ---- */

int client_lost(struct ftp_client *c, int rc, struct err *e)
{
	c->lost = true;
	switch (rc) {
	case -EPIPE:
		return err_set(e, rc, "%s closed the connection", c->host);
	case -EBADMSG:
		return err_set(e, -EPROTO, "%s sent what is no FTP reply: \"%s\"", c->host,
			       printable(c->line));
	case -EMSGSIZE:
		return err_set(e, -EPROTO, "%s sent a reply that is too long", c->host);
	case -ETIMEDOUT:
		return err_set(e, rc, "%s did not answer in time", c->host);
	default:
		return err_sys(e, rc, "connection to %s", c->host);
	}
}

/* Until end; 0: for ever. Lines of one reply, too, may dribble. */
static int read_one(struct ftp_client *c, uint64_t end, struct err *e)
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
	int rc = c->owed ? read_one(c, end, e) : 0;

	c->owed = false;
	return rc < 0 || c->lost ? rc : 0;
}

static int read_until(struct ftp_client *c, uint64_t end, struct err *e)
{
	int rc = client_read_owed(c, end, e);

	return rc ? rc : read_one(c, end, e);
}

int client_read_reply(struct ftp_client *c, int timeout_ms, struct err *e)
{
	return read_until(c, timeout_ms < 0 ? 0 : ns_after(timeout_ms), e);
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

/* As strerror() has them in English, which is what servers send, ours among them. */
static const struct {
	int code;
	const char *words;
} reasons[] = {
	{ ENOENT, "No such file or directory" },
	{ EACCES, "Permission denied" },
	{ EEXIST, "File exists" },
	{ ENOTDIR, "Not a directory" },
	{ EISDIR, "Is a directory" },
	{ ENOTEMPTY, "Directory not empty" },
	{ ENOSPC, "No space left on device" },
	{ EROFS, "Read-only file system" },
	{ EDQUOT, "Disk quota exceeded" },
	{ EFBIG, "File too large" },
	{ EXDEV, "Invalid cross-device link" },
	{ ELOOP, "Too many levels of symbolic links" },
	{ ENAMETOOLONG, "File name too long" },
	{ EBUSY, "Device or resource busy" },
	{ EPERM, "Operation not permitted" },
	{ EINVAL, "Invalid argument" },
	{ EIO, "Input/output error" },
};

static int reply_errno(int code, const char *text)
{
	for (size_t i = 0; i < sizeof(reasons) / sizeof(reasons[0]); i++)
		if (strcasestr(text, reasons[i].words))
			return -reasons[i].code;
	switch (code) {
	case 421:
		return -ECONNABORTED;
	case 425:
	case 426:
		return -EPIPE;
	case 450:
		return -EBUSY;
	case 451:
		return -EIO;
	case 452:
	case 552:
		return -ENOSPC;
	case 500:
	case 502:
		return -ENOSYS;
	case 501:
	case 553:
		return -EINVAL;
	case 504:
		return -EOPNOTSUPP;
	case 522:
	case 530:
	case 532:
	case 534:
		return -EACCES;
	case 550:
		return -ENOENT;
	default:
		return -EPROTO;
	}
}

int client_refused(const struct ftp_client *c, struct err *e)
{
	const char *text = c->reply.text ? c->reply.text : "";
	CLEANUP_FREE char *decoded = NULL;

	/* Its paths are as it was agreed on; text that is not encoded stays as it is. */
	if (c->percent && !percent_decode(text, &decoded))
		text = decoded;
	return err_set(e, reply_errno(c->reply.code, text), "%s answers %d %s", c->host,
		       c->reply.code, printable(text));
}

/* ---- sending ---- */

static bool takes_path(enum ftp_verb v)
{
	switch (v) {
	case FTP_CWD:
	case FTP_RETR:
	case FTP_STOR:
	case FTP_SIZE:
	case FTP_MDTM:
	case FTP_HASH:
	case FTP_MLSD:
	case FTP_MLST:
	case FTP_MKD:
	case FTP_RMD:
	case FTP_RMDA:
	case FTP_DELE:
	case FTP_RNFR:
	case FTP_RNTO:
		return true;
	default:
		return false;
	}
}

/* "CHMOD 644 path": the mode is not part of the path. */
static const char *path_of_site(const char *arg)
{
	const char *space;

	if (strncasecmp(arg, "CHMOD ", 6))
		return NULL;
	space = strchr(arg + 6, ' ');
	return space ? space + 1 : NULL;
}

/* A path that begins with "~" is the home's for the server; percent-encoded or not. */
static int put_arg(const struct ftp_client *c, struct buf *b, const char *arg, const char *path)
{
	CLEANUP_FREE char *encoded = NULL;
	int rc;

	if (path && c->home && strpbrk(path, "\r\n"))
		return -EILSEQ;
	if (!path || (!c->percent && !c->home))
		return strpbrk(arg, "\r\n") ? -EILSEQ : buf_put(b, arg, strlen(arg));
	encoded = c->home ? client_absolute(c, path) : percent_encode(path);
	if (!encoded)
		return -ENOMEM;
	rc = buf_put(b, arg, (size_t)(path - arg));
	return rc ? rc : buf_put(b, encoded, strlen(encoded));
}

static int put_command(const struct ftp_client *c, struct buf *b, const char *name,
		       const char *arg, const char *path)
{
	int rc = buf_put(b, name, strlen(name));

	if (rc == 0 && arg && *arg)
		rc = buf_put(b, " ", 1);
	if (rc == 0 && arg && *arg)
		rc = put_arg(c, b, arg, path);
	return rc ? rc : buf_put(b, "\r\n", 2);
}

int client_send_word(struct ftp_client *c, const char *verb, const char *arg, const char *path,
		     struct err *e)
{
	CLEANUP_BUF struct buf *b = buf_new(FTP_LINE_MAX - 1);
	int rc = b ? put_command(c, b, verb, arg, path) : -ENOMEM;

	if (c->lost)
		return err_set(e, -EPIPE, "the connection to %s is lost", c->host);
	if (rc == -EILSEQ)
		return err_set(e, rc, "%s: %s cannot take a name with a line's end in it",
			       printable(arg), c->host);
	if (rc == -ENOBUFS)
		return err_set(e, -ENAMETOOLONG, "%s: too long for a command", printable(arg));
	if (rc == 0)
		rc = ms_write(c->ms, buf_ptr(b), buf_len(b));
	return rc == -ENOMEM ? err_sys(e, rc, "command") : rc < 0 ? client_lost(c, rc, e) : 0;
}

int client_send(struct ftp_client *c, enum ftp_verb v, const char *arg, struct err *e)
{
	const char *path = !arg ? NULL : takes_path(v) ? arg :
			   v == FTP_SITE ? path_of_site(arg) : NULL;

	return client_send_word(c, ftp_command_of(v)->name, arg, path, e);
}

int client_word(struct ftp_client *c, const char *verb, const char *arg, bool path, struct err *e)
{
	int rc = client_send_word(c, verb, arg, path ? arg : NULL, e);

	return rc < 0 ? rc : client_final_reply(c, REPLY_MS, e);
}

/* Digests and removals of trees take as long as they take. */
static int reply_timeout(enum ftp_verb v)
{
	return v == FTP_HASH || v == FTP_RMDA ? -1 : REPLY_MS;
}

static int hand_text(struct ftp_client *c, char **text)
{
	if (!text)
		return 0;
	*text = c->reply.text ? steal_ptr(&c->reply.text) : strdup("");
	ftp_reply_clear(&c->reply);
	return *text ? 0 : -ENOMEM;
}

int ftp_command(struct ftp_client *c, enum ftp_verb v, const char *arg, char **text,
		struct err *e)
{
	int code, rc;

	if (text)
		*text = NULL;
	rc = client_begin(c, e);
	if (rc < 0)
		return rc;
	code = client_send(c, v, arg, e);
	if (code == 0)
		code = client_final_reply(c, reply_timeout(v), e);
	code = client_end(c, code, e);
	if (code > 0 && hand_text(c, text) < 0)
		return err_sys(e, -ENOMEM, "reply");
	return code;
}

int ftp_simple(struct ftp_client *c, enum ftp_verb v, const char *arg, char **text,
	       struct err *e)
{
	int code = ftp_command(c, v, arg, NULL, e);

	if (text)
		*text = NULL;
	if (code < 0)
		return code;
	/* 350 is what RNFR and REST get when all is well. */
	if (code / 100 != 2 && !(code == 350 && (v == FTP_RNFR || v == FTP_REST)))
		return client_refused(c, e);
	return hand_text(c, text) < 0 ? err_sys(e, -ENOMEM, "reply") : code;
}

/* ---- MLST ---- */

/* The one line between the first and the last (RFC 3659 §7.2). */
static int facts_of_reply(struct ftp_client *c, struct ftp_facts *f)
{
	char *line = c->reply.text ? strchr(c->reply.text, '\n') : NULL;
	char *end = line ? strchr(line + 1, '\n') : NULL;

	if (!end)
		return -EBADMSG;
	*end = '\0';
	return ftp_facts_parse(line + 1, c->percent, f);
}

int ftp_stat(struct ftp_client *c, const char *path, struct ftp_facts *f, struct err *e)
{
	int rc, code;

	memset(f, 0, sizeof(*f));
	if (c->foreign && !(c->has & FTP_HAS_MLST))
		return client_stat(c, path, f, e);
	rc = ftp_simple(c, FTP_MLST, path, NULL, e);
	code = c->reply.code;
	if (rc < 0 && c->foreign && !c->lost && client_not_known(code)) {
		c->has &= ~(unsigned)FTP_HAS_MLST;
		client_say_old(c, "MLST", code);
		e->code = 0;
		return client_stat(c, path, f, e);
	}
	if (rc < 0)
		return rc;
	rc = facts_of_reply(c, f);
	return rc < 0 ? err_set(e, -EPROTO, "%s answers MLST with nonsense: \"%s\"", c->host,
				printable(c->reply.text ? c->reply.text : "")) : 0;
}
