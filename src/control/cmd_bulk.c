// SPDX-License-Identifier: Apache-2.0
/* Commands with a request of n bytes behind them: BULK, GIVE, TAKE. They are read whatever the
 * answer is, so that the next command is found. */
#include "control/session.h"

#include <errno.h>

enum {
	BODY_MS = 60 * 1000,   /* without a byte */
	LINGER_MS = 2000,
};

typedef int body_handler(void *arg, struct ftp_session *s, struct buf *body);

/* What comes is not kept: strangers get no memory. The 552 must not be lost in the reset
 * that closing on unread bytes makes. */
static int too_big(struct ftp_session *s, size_t most)
{
	int rc = ftp_session_reply(s, 552, "A request has at most %zu bytes", most);

	s->quit = true;
	if (rc == 0)
		ms_skip(s->ms, most, LINGER_MS);
	return rc;
}

static int body_lost(struct ftp_session *s, enum ftp_verb v, int rc)
{
	return err_sys(s->e, rc, "body of %s", ftp_command_of(v)->name);
}

static int refuse(struct ftp_session *s, enum ftp_verb v, size_t n, int code, const char *text)
{
	int rc = ms_skip(s->ms, n, BODY_MS);

	return rc < 0 ? body_lost(s, v, rc) : ftp_session_reply(s, code, "%s", text);
}

static int with_body(struct ftp_session *s, enum ftp_verb v, const char *arg, size_t most,
		     body_handler *fn)
{
	CLEANUP_BUF struct buf *body = NULL;
	uint8_t *room;
	uint64_t n;
	int rc = parse_uint(arg, 0, UINT64_MAX, &n);

	if (rc == -EINVAL) {
		s->quit = true; /* where the next command begins cannot be known */
		return ftp_session_reply(s, 501, "Syntax: %s", ftp_command_of(v)->syntax);
	}
	if (rc < 0 || n > most)
		return too_big(s, most);
	if (!s->logged_in)
		return refuse(s, v, n, 530, "Log in first, with USER and PASS");
	if (!fn)
		return refuse(s, v, n, 502, v == FTP_BULK ? "There is no bulk mode here" :
			      "There are no copies from server to server here");
	body = buf_new(n ? n : 1);
	if (!body || buf_reserve(body, n, &room) < 0)
		return refuse(s, v, n, 451, "Out of memory");
	rc = ms_read(s->ms, room, n, BODY_MS);
	return rc < 0 ? body_lost(s, v, rc) : fn(s->c->arg, s, body);
}

int cmd_bulk(struct ftp_session *s, char *arg)
{
	return with_body(s, FTP_BULK, arg, BULK_REQUEST_MAX, s->c->bulk);
}

int cmd_give(struct ftp_session *s, char *arg)
{
	return with_body(s, FTP_GIVE, arg, THIRD_BODY_MAX, s->c->give);
}

int cmd_take(struct ftp_session *s, char *arg)
{
	return with_body(s, FTP_TAKE, arg, THIRD_BODY_MAX, s->c->take);
}
