// SPDX-License-Identifier: Apache-2.0
/* Transfers of files over a data connection: REST, RETR, STOR, APPE, ABOR. */
#include "control/server/session.h"

#include <fcntl.h>
#include <inttypes.h>

enum {
	COPY_BYTES = 256 << 10,
	SENDFILE_BYTES = 1 << 20, /* between checks for ABOR */
};

/* ---- REST, ABOR ---- */

int cmd_rest(struct ftp_session *s, char *arg)
{
	if (parse_uint(arg, 0, INT64_MAX, &s->rest) < 0)
		return ftp_session_reply(s, 501, "Syntax: REST <offset>");
	return ftp_session_reply(s, 350, "The next transfer starts at %" PRIu64, s->rest);
}

/* During a transfer session_poll_control() sees ABOR instead. */
int cmd_abor(struct ftp_session *s, char *arg)
{
	data_forget(s);
	return ftp_session_reply(s, 226, "No transfer was running");
}

/* Get and reset REST's offset. 0; 1: refused with a reply; negative: the session ends. In TYPE A an
 * offset has no meaning unless all bytes before it are read (RFC 3659 §5.3). */
static int take_offset(struct ftp_session *s, uint64_t *rest)
{
	*rest = s->rest;
	s->rest = 0;
	if (!s->agreed.ascii || !*rest)
		return 0;
	data_forget(s);
	return session_replied(ftp_session_reply(s, 555, "REST is for TYPE I only"));
}

/* ---- a transfer ---- */

struct copy {
	const char *verb;
	const char *path;
	uint64_t bytes;
	uint64_t began;
	uint8_t *buf, *out;  /* COPY_BYTES, and twice as many for TYPE A */
	bool cr;             /* TYPE A: the last byte received was a CR */
};

/* bytes: 0 at the start only. */
static void copy_moved(struct ftp_session *s, struct copy *c, uint64_t bytes)
{
	c->bytes += bytes;
	if (s->c->moving)
		s->c->moving(s->c->arg, s, c->verb, c->path, c->bytes);
}

static int copy_begin(struct ftp_session *s, struct copy *c, const char *verb, const char *path)
{
	*c = (struct copy){ .verb = verb, .path = path, .began = now_ns() };
	copy_moved(s, c, 0);
	c->buf = malloc(COPY_BYTES);
	c->out = malloc(2 * COPY_BYTES + 1);
	return c->buf && c->out ? 0 : -ENOMEM;
}

/* Close the data connection, log the transfer, and reply. */
static int reply_beyond(struct ftp_session *s)
{
	return ftp_session_reply(s, 554, "REST is beyond the end");
}

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

/* Send the file by sendfile() if possible, otherwise through a buffer. */
static int send_file(struct ftp_session *s, struct copy *c, int fd, uint64_t from)
{
	ssize_t n = -EOPNOTSUPP;
	int rc = 0;

	posix_fadvise(fd, (off_t)from, 0, POSIX_FADV_SEQUENTIAL);
	while (!s->agreed.ascii &&
	       (n = data_sendfile(s, fd, from + c->bytes, SENDFILE_BYTES)) > 0)
		copy_moved(s, c, (uint64_t)n);
	if (n != -EOPNOTSUPP)
		return (int)n;
	while (rc == 0) {
		n = pread_full(fd, c->buf, COPY_BYTES, (off_t)(from + c->bytes));
		if (n <= 0)
			return (int)n;
		copy_moved(s, c, (uint64_t)n);
		if (s->agreed.ascii)
			rc = data_write(s, c->out, to_ascii(c->buf, (size_t)n, c->out));
		else
			rc = data_write(s, c->buf, (size_t)n);
	}
	return rc;
}

int cmd_retr(struct ftp_session *s, char *path)
{
	CLEANUP_CLOSE int fd = -1;
	struct stat st = { 0 };
	struct copy c;
	uint64_t from;
	int rc = take_offset(s, &from);

	if (rc)
		return rc;

	fd = root_open(s->account.root, path, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC, 0);
	if (fd < 0 || fstat(fd, &st) < 0 || !S_ISREG(st.st_mode) || from > (uint64_t)st.st_size) {
		data_forget(s);
		if (fd < 0)
			return session_reply_errno(s, fd, path);
		if (!S_ISREG(st.st_mode))
			return session_not_plain(s, 550, path);
		return reply_beyond(s);
	}

	rc = data_open(s, "The file");
	if (rc)
		return rc;

	rc = copy_begin(s, &c, "RETR", path);
	if (rc == 0)
		rc = send_file(s, &c, fd, from);
	return copy_end(s, &c, rc);
}

/* ---- the received file ---- */

/* A part, which becomes the file when it is complete; or, with REST or APPE, the file itself,
 * written from an offset on. */
struct upload {
	struct part *part;  /* NULL: in place */
	int dir_fd;         /* to sync the new name; -1 in place */
	int fd;             /* not owned if there is a part */
	uint64_t at;        /* offset of the next byte */
};

#define UPLOAD_APPEND UINT64_MAX /* as an offset: append at the end; create a missing file */

static int upload_begin_in_place(struct upload *u, struct ftp_session *s, const char *path,
				 uint64_t from)
{
	int flags = from == UPLOAD_APPEND ? O_CREAT | O_APPEND : 0;
	struct stat st;
	int rc = 0;

	u->fd = root_open(s->account.root, path,
			  O_WRONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC | flags,
			  0666 & ~s->account.umask);
	if (u->fd < 0)
		return u->fd;

	if (fstat(u->fd, &st) < 0)
		rc = -errno;
	else if (!S_ISREG(st.st_mode))
		rc = -EINVAL;
	else if (from == UPLOAD_APPEND)
		from = (uint64_t)st.st_size;
	else if (from > (uint64_t)st.st_size)
		rc = -ERANGE; /* it would leave a hole */
	else if (!s->account.can_change && from < (uint64_t)st.st_size)
		rc = -EPERM;  /* it would overwrite bytes */
	if (rc < 0)
		close(u->fd);
	u->at = from;
	return rc;
}

static int upload_begin_part(struct upload *u, struct ftp_session *s, const char *path)
{
	/* A file that replaces another one gets the mode of the replaced file. */
	struct part_spec spec = {
		.meta = { .type = FT_FILE, .mode = 0666 & ~s->account.umask },
		.sync = true,
		.keep_old = !s->account.can_change,
	};
	struct err e = ERR_INIT;
	char name[256];
	struct stat st;
	int parent, rc = root_stat(s->account.root, path, false, &st);

	/* Only a plain file or a link is replaced. */
	if (rc == 0 && !S_ISREG(st.st_mode) && !S_ISLNK(st.st_mode))
		rc = S_ISDIR(st.st_mode) ? -EISDIR : -EINVAL;
	if (rc < 0 && rc != -ENOENT)
		return rc;

	parent = root_open_parent(s->account.root, path, name);
	if (parent < 0)
		return parent;
	u->dir_fd = openat(parent, ".", O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (u->dir_fd < 0) {
		rc = -errno;
		close(parent);
		return rc;
	}

	root_rules_dirs(s->account.root, s->dirs);
	spec.dir = dir_top(s->dirs, parent, path);
	spec.name = name;
	if (spec.dir)
		u->part = part_begin(&spec, &e);
	dir_put(spec.dir);
	if (!u->part) {
		close(u->dir_fd);
		return spec.dir ? e.code : -ENOMEM;
	}
	u->fd = part_fd(u->part);
	return 0;
}

/* If rc is 0, sync and rename the file; otherwise discard the part. Returns the first error. */
static int upload_end(struct upload *u, int rc)
{
	struct err e = ERR_INIT;

	if (!u->part) {
		if (fsync(u->fd) < 0 && rc == 0)
			rc = -errno;
		if (close(u->fd) < 0 && rc == 0)
			rc = -errno;
		return rc;
	}

	if (rc == 0)
		rc = part_set_size(u->part, u->at);
	if (rc == 0)
		rc = part_sync(u->part, &e);
	if (rc == 0)
		rc = part_commit(u->part, &e);
	if (rc == 0)
		rc = sync_dir(u->dir_fd);
	if (rc < 0)
		part_abandon(u->part, false);
	part_free(u->part);
	close(u->dir_fd);
	return rc;
}

/* ---- STOR, APPE ---- */

/* The inverse of to_ascii(). A CR at the end is held back until the next byte arrives. */
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

static int copy_received(struct ftp_session *s, struct copy *c, struct upload *u, const void *p,
			 size_t n)
{
	int rc = pwrite_full(u->fd, p, n, (off_t)u->at);

	if (rc == 0) {
		u->at += n;
		copy_moved(s, c, n);
	}
	return rc;
}

/* Receive the file at path. from: the offset of the first byte, or UPLOAD_APPEND. */
static int stor_file(struct ftp_session *s, const char *verb, const char *path, uint64_t from)
{
	struct upload u = { .dir_fd = -1, .fd = -1 };
	ssize_t n = 0;
	struct copy c;
	int rc = from ? upload_begin_in_place(&u, s, path, from) : upload_begin_part(&u, s, path);

	if (rc < 0) {
		data_forget(s);
		return rc == -ERANGE ? reply_beyond(s) :
				       session_reply_errno(s, rc, path);
	}

	rc = data_open(s, "The file");
	if (rc) {
		upload_end(&u, -ECANCELED);
		return rc;
	}

	rc = copy_begin(s, &c, verb, path);
	while (rc == 0 && (n = data_read(s, c.buf, COPY_BYTES)) > 0) {
		if (s->agreed.ascii)
			rc = copy_received(s, &c, &u, c.out, from_ascii(&c, (size_t)n));
		else
			rc = copy_received(s, &c, &u, c.buf, (size_t)n);
	}
	if (rc == 0)
		rc = n == 0 && c.cr ? copy_received(s, &c, &u, "\r", 1) : (int)n;
	rc = upload_end(&u, rc);
	return copy_end(s, &c, rc);
}

int cmd_stor(struct ftp_session *s, char *path)
{
	uint64_t from;
	int rc = take_offset(s, &from);

	return rc ? rc : stor_file(s, "STOR", path, from);
}

int cmd_appe(struct ftp_session *s, char *path)
{
	s->rest = 0; /* APPE writes at the end of the file */
	return stor_file(s, "APPE", path, UPLOAD_APPEND);
}
