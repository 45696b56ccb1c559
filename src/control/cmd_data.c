// SPDX-License-Identifier: Apache-2.0
/* Files over a data connection: REST, RETR, STOR, APPE, ABOR. */
#include "control/session.h"
#include "control/upload.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

enum {
	COPY_BYTES = 256 << 10,
	SENDFILE_BYTES = 1 << 20, /* between looks for ABOR */
};

/* ---- REST, ABOR ---- */

int cmd_rest(struct ftp_session *s, char *arg)
{
	if (parse_uint(arg, 0, INT64_MAX, &s->rest) < 0)
		return ftp_session_reply(s, 501, "Syntax: REST <offset>");
	return ftp_session_reply(s, 350, "From %" PRIu64 " on", s->rest);
}

/* While a transfer runs, session_poll_control sees it. */
int cmd_abor(struct ftp_session *s, char *arg)
{
	data_forget(s);
	return ftp_session_reply(s, 226, "Nothing was under way");
}

/* ---- a transfer's account ---- */

struct copy {
	const char *verb;
	char *path;
	uint64_t bytes;
	uint64_t began;
	uint8_t *buf, *out;  /* COPY_BYTES, and twice that for TYPE A */
	bool cr;             /* TYPE A: the last byte received was a CR */
};

static int copy_begin(struct copy *c, const char *verb, char *path)
{
	*c = (struct copy){ .verb = verb, .path = path, .began = now_ns() };
	c->buf = malloc(COPY_BYTES);
	c->out = malloc(2 * COPY_BYTES + 1);
	return c->buf && c->out ? 0 : -ENOMEM;
}

/* Close, log, reply. */
static int copy_end(struct ftp_session *s, struct copy *c, int rc)
{
	data_close(s, rc == 0);
	free(c->buf);
	free(c->out);
	if (s->c->transferred)
		s->c->transferred(s->c->arg, s, c->verb, c->path, c->bytes,
				  (double)(now_ns() - c->began) / 1e9, rc);
	return data_reply(s, rc, c->path);
}

/* 0 with REST's offset, which is used up; 1: it cannot be, the reply has been given. What an
 * offset is in TYPE A nobody can tell without all that is before it (RFC 3659 §5.3). */
static int take_rest(struct ftp_session *s, uint64_t *rest)
{
	int rc;

	*rest = s->rest;
	s->rest = 0;
	if (!s->ascii || !*rest)
		return 0;
	data_forget(s);
	rc = ftp_session_reply(s, 555, "REST is for TYPE I only");
	return rc < 0 ? rc : 1;
}

/* ---- RETR ---- */

/* TYPE A: lines end in CRLF on the wire (RFC 959 §3.1.1.1). */
static size_t to_ascii(const uint8_t *in, size_t n, uint8_t *out)
{
	uint8_t *o = out;

	for (size_t i = 0; i < n; i++) {
		if (in[i] == '\n')
			*o++ = '\r';
		*o++ = in[i];
	}
	return (size_t)(o - out);
}

/* From the page cache to the socket; -EOPNOTSUPP: it does not go that way (any more). */
static int send_uncopied(struct ftp_session *s, struct copy *c, int fd, uint64_t from)
{
	for (;;) {
		ssize_t n = data_sendfile(s, fd, from + c->bytes, SENDFILE_BYTES);

		if (n <= 0)
			return (int)n;
		c->bytes += (uint64_t)n;
	}
}

static int send_copied(struct ftp_session *s, struct copy *c, int fd, uint64_t from)
{
	int rc = 0;

	while (rc == 0) {
		ssize_t n = pread_full(fd, c->buf, COPY_BYTES, (off_t)(from + c->bytes));

		if (n <= 0)
			return (int)n;
		c->bytes += (uint64_t)n;
		if (s->ascii)
			rc = data_write(s, c->out, to_ascii(c->buf, (size_t)n, c->out));
		else
			rc = data_write(s, c->buf, (size_t)n);
	}
	return rc;
}

static int send_file(struct ftp_session *s, struct copy *c, int fd, uint64_t from)
{
	int rc;

	posix_fadvise(fd, (off_t)from, 0, POSIX_FADV_SEQUENTIAL);
	rc = s->ascii ? -EOPNOTSUPP : send_uncopied(s, c, fd, from);
	return rc == -EOPNOTSUPP ? send_copied(s, c, fd, from) : rc;
}

/* A descriptor of the plain file at path, with the offset within; or the reply has been
 * given: 1 - the descriptor is in *fd only on 0. */
static int open_source(struct ftp_session *s, const char *path, uint64_t from, int *fd)
{
	struct stat st;
	int rc;

	*fd = root_open(s->account.root, path, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC, 0);
	if (*fd < 0)
		rc = session_reply_errno(s, *fd, path);
	else if (fstat(*fd, &st) < 0 || !S_ISREG(st.st_mode))
		rc = session_reply_about(s, 550, path, "Not a plain file");
	else if (from > (uint64_t)st.st_size)
		rc = ftp_session_reply(s, 554, "REST is beyond the end");
	else
		return 0;
	data_forget(s);
	return rc < 0 ? rc : 1;
}

int cmd_retr(struct ftp_session *s, char *arg)
{
	CLEANUP_FREE char *path = session_arg_path(s, arg);
	CLEANUP_CLOSE int fd = -1;
	uint64_t from = 0;
	struct copy c;
	int rc = path ? take_rest(s, &from) : 1;

	if (rc == 0)
		rc = open_source(s, path, from, &fd);
	if (rc == 0)
		rc = data_open(s, "The file");
	if (rc)
		return rc < 0 ? rc : 0;
	rc = copy_begin(&c, "RETR", path);
	if (rc == 0)
		rc = send_file(s, &c, fd, from);
	return copy_end(s, &c, rc);
}

/* ---- STOR, APPE ---- */

/* The inverse of to_ascii; a CR at the end waits for what follows. */
static size_t from_ascii(struct copy *c, size_t n)
{
	uint8_t *o = c->out;

	for (size_t i = 0; i < n; i++) {
		if (c->cr && c->buf[i] != '\n')
			*o++ = '\r';
		c->cr = c->buf[i] == '\r';
		if (!c->cr)
			*o++ = c->buf[i];
	}
	return (size_t)(o - c->out);
}

static int put_bytes(struct copy *c, struct upload *u, const void *p, size_t n)
{
	int rc = upload_write(u, p, n);

	if (rc == 0)
		c->bytes += n;
	return rc;
}

static int receive_file(struct ftp_session *s, struct copy *c, struct upload *u)
{
	int rc = 0;

	while (rc == 0) {
		ssize_t n = data_read(s, c->buf, COPY_BYTES);

		if (n < 0)
			return (int)n;
		if (n == 0)
			return c->cr ? put_bytes(c, u, "\r", 1) : 0;
		if (s->ascii)
			rc = put_bytes(c, u, c->out, from_ascii(c, (size_t)n));
		else
			rc = put_bytes(c, u, c->buf, (size_t)n);
	}
	return rc;
}

/* The file at path, from an offset on or UPLOAD_APPEND. */
static int receive(struct ftp_session *s, const char *verb, char *path, uint64_t from)
{
	const struct upload_spec spec = {
		.root = s->account.root, .dirs = s->dirs, .path = path, .from = from,
		.mode = 0666 & ~s->account.umask, .keep_old = !s->account.can_change,
	};
	struct upload u;
	struct copy c;
	int rc = upload_begin(&u, &spec);

	if (rc < 0) {
		data_forget(s);
		return rc == -ERANGE ? ftp_session_reply(s, 554, "REST is beyond the end") :
				       session_reply_errno(s, rc, path);
	}
	rc = data_open(s, "The file");
	if (rc) {
		upload_end(&u, -ECANCELED);
		return rc < 0 ? rc : 0;
	}
	rc = copy_begin(&c, verb, path);
	if (rc == 0)
		rc = receive_file(s, &c, &u);
	rc = upload_end(&u, rc);
	return copy_end(s, &c, rc);
}

int cmd_stor(struct ftp_session *s, char *arg)
{
	CLEANUP_FREE char *path = session_change_path(s, arg);
	uint64_t from = 0;
	int rc = path ? take_rest(s, &from) : 1;

	if (rc)
		return rc < 0 ? rc : 0;
	return receive(s, "STOR", path, from);
}

int cmd_appe(struct ftp_session *s, char *arg)
{
	CLEANUP_FREE char *path = session_change_path(s, arg);

	s->rest = 0; /* the end of the file is where it goes */
	return path ? receive(s, "APPE", path, UPLOAD_APPEND) : 0;
}
