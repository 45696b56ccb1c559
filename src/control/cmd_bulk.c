// SPDX-License-Identifier: Apache-2.0
/* BULK <n>: its n bytes are read whatever the answer is, so that the next command is
 * found. */
#include "control/session.h"

#include <errno.h>

enum {
	BODY_MS = 60 * 1000,   /* without a byte */
	LINGER_MS = 2000,
};

/* What comes is not kept: strangers get no memory. The 552 must not be lost in the reset
 * that closing on unread bytes makes. */
static int too_big(struct ftp_session *s)
{
	int rc = ftp_session_reply(s, 552, "A request has at most %u bytes", BULK_REQUEST_MAX);

	s->quit = true;
	if (rc == 0)
		ms_skip(s->ms, BULK_REQUEST_MAX, LINGER_MS);
	return rc;
}

static int refuse(struct ftp_session *s, size_t n, int code, const char *text)
{
	int rc = ms_skip(s->ms, n, BODY_MS);

	if (rc < 0)
		return err_sys(s->e, rc, "body of BULK");
	return ftp_session_reply(s, code, "%s", text);
}

int cmd_bulk(struct ftp_session *s, char *arg)
{
	CLEANUP_BUF struct buf *body = NULL;
	uint8_t *room;
	uint64_t n;
	int rc = parse_uint(arg, 0, UINT64_MAX, &n);

	if (rc == -EINVAL) {
		s->quit = true; /* where the next command begins cannot be known */
		return ftp_session_reply(s, 501, "Syntax: BULK <bytes>");
	}
	if (rc < 0 || n > BULK_REQUEST_MAX)
		return too_big(s);
	if (!s->logged_in)
		return refuse(s, n, 530, "Log in first, with USER and PASS");
	if (!s->c->bulk)
		return refuse(s, n, 502, "There is no bulk mode here");
	body = buf_new(n ? n : 1);
	if (!body || buf_reserve(body, n, &room) < 0)
		return refuse(s, n, 451, "Out of memory");
	rc = ms_read(s->ms, room, n, BODY_MS);
	if (rc < 0)
		return err_sys(s->e, rc, "body of BULK");
	return s->c->bulk(s->c->arg, s, body);
}
