// SPDX-License-Identifier: Apache-2.0
/* Commands about names and what they stand for: directories, renaming, removing, sizes,
 * times, digests. */
#include "control/session.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

enum { HASH_BYTES = 1 << 20 };

/* ---- directories ---- */

/* "path" with its quotes doubled (RFC 959, appendix II). */
static int reply_257(struct ftp_session *s, const char *path, const char *text)
{
	CLEANUP_FREE char *name = session_name(s, path);
	CLEANUP_FREE char *quoted = name ? malloc(2 * strlen(name) + 1) : NULL;
	char *out = quoted;

	if (!quoted)
		return ftp_session_reply(s, 451, "Out of memory");
	for (const char *p = name; *p; p++) {
		if (*p == '"')
			*out++ = '"';
		*out++ = *p;
	}
	*out = '\0';
	return ftp_session_reply(s, 257, "\"%s\" %s", quoted, text);
}

int cmd_pwd(struct ftp_session *s, char *arg)
{
	return reply_257(s, s->cwd, "is where you are");
}

static int change_dir(struct ftp_session *s, char *path)
{
	size_t len = strlen(path);
	struct stat st;
	int rc = root_stat(s->account.root, path, true, &st);

	if (rc == 0 && !S_ISDIR(st.st_mode))
		rc = -ENOTDIR;
	if (rc < 0)
		return session_reply_errno(s, rc, path);
	if (len > 1 && path[len - 1] == '/')
		path[len - 1] = '\0';
	free(s->cwd);
	s->cwd = strdup(path);
	if (!s->cwd)
		return err_sys(s->e, -ENOMEM, "CWD");
	return ftp_session_reply(s, 250, "Done");
}

int cmd_cwd(struct ftp_session *s, char *arg)
{
	CLEANUP_FREE char *path = session_arg_path(s, arg);

	return path ? change_dir(s, path) : 0;
}

int cmd_cdup(struct ftp_session *s, char *arg)
{
	CLEANUP_FREE char *path = ftp_session_path(s, "..");

	return path ? change_dir(s, path) : ftp_session_reply(s, 451, "Out of memory");
}

int cmd_mkd(struct ftp_session *s, char *arg)
{
	CLEANUP_FREE char *path = session_change_path(s, arg);
	int rc;

	if (!path)
		return 0;
	rc = root_mkdir(s->account.root, path, 0777 & ~s->account.umask);
	return rc < 0 ? session_reply_errno(s, rc, path) : reply_257(s, path, "created");
}

/* ---- removing ---- */

static int remove_by(struct ftp_session *s, const char *path,
		     int (*remove_one)(struct root *r, const char *path))
{
	int rc;

	if (!path)
		return 0;
	rc = remove_one(s->account.root, path);
	return rc < 0 ? session_reply_errno(s, rc, path) : ftp_session_reply(s, 250, "Removed");
}

int cmd_rmd(struct ftp_session *s, char *arg)
{
	CLEANUP_FREE char *path = session_change_path(s, arg);

	return remove_by(s, path, root_rmdir);
}

int cmd_dele(struct ftp_session *s, char *arg)
{
	/* A part, too: root_unlink removes those that no writer holds. */
	CLEANUP_FREE char *path = session_arg_path(s, arg);

	return remove_by(s, path, root_unlink);
}

/* e's text tells which name could not be removed; it is the server's view of it. */
int cmd_rmda(struct ftp_session *s, char *arg)
{
	CLEANUP_FREE char *path = session_change_path(s, arg);
	struct err e = ERR_INIT;
	int rc;

	if (!path)
		return 0;
	if (!strcmp(path, "/"))
		return session_reply_errno(s, -EBUSY, path);
	rc = root_remove_tree(s->account.root, path, &e);
	if (rc < 0 && e.code == rc && *e.text)
		return ftp_session_reply(s, 550, "%s", e.text);
	return rc < 0 ? session_reply_errno(s, rc, path) : ftp_session_reply(s, 250, "Removed");
}

/* ---- renaming ---- */

int cmd_rnfr(struct ftp_session *s, char *arg)
{
	CLEANUP_FREE char *path = session_change_path(s, arg);
	struct stat st;
	int rc;

	if (!path)
		return 0;
	rc = root_stat(s->account.root, path, false, &st);
	if (rc < 0)
		return session_reply_errno(s, rc, path);
	s->rename_from = steal_ptr(&path);
	return ftp_session_reply(s, 350, "And the new name?");
}

int cmd_rnto(struct ftp_session *s, char *arg)
{
	CLEANUP_FREE char *from = steal_ptr(&s->rename_from);
	CLEANUP_FREE char *to = NULL;
	int rc;

	if (!from)
		return ftp_session_reply(s, 503, "RNFR first");
	to = session_change_path(s, arg);
	if (!to)
		return 0;
	rc = root_rename(s->account.root, from, to);
	/* RNFR has found the old name: it is the new one that cannot be. */
	return rc < 0 ? session_reply_errno(s, rc, to) : ftp_session_reply(s, 250, "Renamed");
}

/* ---- attributes ---- */

int cmd_size(struct ftp_session *s, char *arg)
{
	CLEANUP_FREE char *path = session_arg_path(s, arg);
	struct stat st;
	int rc;

	if (!path)
		return 0;
	/* RFC 3659 §4: the bytes that would cross the wire, unknown in TYPE A. */
	if (s->ascii)
		return ftp_session_reply(s, 550, "SIZE is for TYPE I only");
	rc = root_stat(s->account.root, path, true, &st);
	if (rc < 0)
		return session_reply_errno(s, rc, path);
	if (!S_ISREG(st.st_mode))
		return session_reply_about(s, 550, path, "Not a plain file");
	return ftp_session_reply(s, 213, "%" PRIu64, (uint64_t)st.st_size);
}

int cmd_mdtm(struct ftp_session *s, char *arg)
{
	CLEANUP_FREE char *path = NULL;
	struct stat st;
	char text[32];
	bool sets;
	int rc = session_mdtm_sets(s, arg, &sets);

	if (rc < 0 || sets)
		return rc;
	path = session_arg_path(s, arg);
	if (!path)
		return 0;
	rc = root_stat(s->account.root, path, true, &st);
	if (rc < 0)
		return session_reply_errno(s, rc, path);
	ftp_time_format(text, st.st_mtim.tv_sec, (uint32_t)st.st_mtim.tv_nsec);
	return ftp_session_reply(s, 213, "%s", text);
}

/* ---- HASH ---- */

/* Digest of all of fd. -ECANCELED: ABOR came. */
static int hash_file(struct ftp_session *s, int fd, struct digest *d, uint64_t *size)
{
	CLEANUP_FREE char *buf = malloc(HASH_BYTES);
	ssize_t n = 0;
	int rc = buf ? 0 : -ENOMEM;

	*size = 0;
	posix_fadvise(fd, 0, 0, POSIX_FADV_SEQUENTIAL);
	while (rc == 0) {
		n = pread_full(fd, buf, HASH_BYTES, (off_t)*size);
		if (n <= 0)
			return (int)n;
		*size += (uint64_t)n;
		rc = digest_update(d, buf, (size_t)n);
		if (rc == 0)
			rc = session_poll_control(s);
	}
	return rc;
}

/* draft-bryan-ftpext-hash: name, range with its last byte included, digest, path. */
static int reply_hash(struct ftp_session *s, const char *path, uint64_t size, const char *hex)
{
	CLEANUP_FREE char *name = session_name(s, path);

	return ftp_session_reply(s, 213, "%s 0-%" PRIu64 " %s %s", s->hash,
				 size ? size - 1 : 0, hex, name ? name : "");
}

int cmd_hash(struct ftp_session *s, char *arg)
{
	CLEANUP_FREE char *path = session_arg_path(s, arg);
	CLEANUP_CLOSE int fd = -1;
	char hex[2 * DIGEST_MAX + 1];
	struct digest *d;
	struct stat st;
	uint64_t size;
	int rc;

	if (!path)
		return 0;
	fd = root_open(s->account.root, path, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC, 0);
	if (fd < 0)
		return session_reply_errno(s, fd, path);
	if (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode))
		return session_reply_about(s, 553, path, "Not a plain file");
	d = digest_new(s->hash);
	rc = d ? hash_file(s, fd, d, &size) : -ENOMEM;
	if (rc == 0)
		rc = digest_final_hex(d, hex);
	digest_free(d);
	if (rc < 0)
		return data_reply(s, rc, path);
	return reply_hash(s, path, size, hex);
}
