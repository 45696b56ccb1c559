// SPDX-License-Identifier: Apache-2.0
/* Machine listings: MLST and MLSD (RFC 3659 §7), the latter over a data connection or, as
 * agreed by OPTS INLINE MLSD, in the reply. */
#include "control/session.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
	BATCH_BYTES = 64 << 10,  /* of listing that leave at once */
	LINE_ROOM = 256 << 10,   /* the longest line: a name and a target, encoded */
};

/* ---- facts ---- */

static char type_of(mode_t mode)
{
	return S_ISREG(mode) ? 'f' : S_ISDIR(mode) ? 'd' : S_ISLNK(mode) ? 'l' : 'o';
}

/* f is a view: name and target are the caller's. */
static void fill_facts(const struct ftp_session *s, struct ftp_facts *f, const struct stat *st)
{
	f->type = type_of(st->st_mode);
	f->has_size = (s->facts & FACT_SIZE) && S_ISREG(st->st_mode);
	f->size = (uint64_t)st->st_size;
	f->has_mode = s->facts & FACT_MODE;
	f->mode = st->st_mode & 07777;
	f->has_mtime = s->facts & FACT_MODIFY;
	f->mtime_s = st->st_mtim.tv_sec;
	f->mtime_ns = (uint32_t)st->st_mtim.tv_nsec;
	f->has_owner = s->facts & (FACT_UID | FACT_GID);
	f->uid = st->st_uid;
	f->gid = st->st_gid;
}

/* One line without CRLF for the entry name of dirfd. */
static int put_entry(struct ftp_session *s, struct buf *out, int dirfd, const char *name,
		     const char *shown)
{
	struct ftp_facts f = { .name = (char *)shown };
	char target[PATH_MAX];
	struct stat st;
	ssize_t n;

	if (fstatat(dirfd, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return -errno;
	fill_facts(s, &f, &st);
	if (f.type == 'l') {
		n = readlinkat(dirfd, name, target, sizeof(target) - 1);
		if (n >= 0) {
			target[n] = '\0';
			f.target = target;
		}
	}
	return ftp_facts_format(out, &f, s->percent);
}

/* ---- MLST ---- */

static int facts_of_path(struct ftp_session *s, struct buf *out, const char *path)
{
	char name[256];
	CLEANUP_CLOSE int parent = root_open_parent(s->account.root, path, name);

	return parent < 0 ? parent : put_entry(s, out, parent, name, path);
}

int cmd_mlst(struct ftp_session *s, char *arg)
{
	CLEANUP_FREE char *path = session_arg_path(s, arg);
	CLEANUP_BUF struct buf *out = buf_new(LINE_ROOM);
	int rc = out ? 0 : -ENOMEM;

	if (!path)
		return 0;
	if (rc == 0)
		rc = facts_of_path(s, out, path);
	if (rc < 0)
		return session_reply_errno(s, rc, path);
	return ftp_session_reply(s, 250, "Here it is\n %.*s\nThat is all", (int)buf_len(out),
				 (const char *)buf_ptr(out));
}

/* ---- MLSD ---- */

struct listing {
	struct ftp_session *s;
	DIR *dir;
	struct buf *out;   /* lines not yet sent */
	struct buf *line;  /* the one that is being made */
};

static int flush(struct listing *l)
{
	int rc = 0;

	if (l->s->data)
		rc = data_write(l->s, buf_ptr(l->out), buf_len(l->out));
	else if (buf_len(l->out))
		rc = ms_write(l->s->ms, buf_ptr(l->out), buf_len(l->out));
	buf_reset(l->out);
	return rc;
}

/* In a reply a line begins with a space, so that none can look like the last one. */
static int put_line(struct listing *l)
{
	int rc = l->s->data ? 0 : buf_put(l->out, " ", 1);

	if (rc == 0)
		rc = buf_put(l->out, buf_ptr(l->line), buf_len(l->line));
	return rc == 0 ? buf_put(l->out, "\r\n", 2) : rc;
}

static int list_entry(struct listing *l, const char *name)
{
	int rc;

	buf_reset(l->line);
	rc = put_entry(l->s, l->line, dirfd(l->dir), name, name);
	/* Gone since, or a name that FTP's lines cannot hold. */
	if (rc == -ENOENT || rc == -EILSEQ)
		return 0;
	if (rc == 0)
		rc = put_line(l);
	return rc == 0 && buf_len(l->out) >= BATCH_BYTES ? flush(l) : rc;
}

static int list_entries(struct listing *l)
{
	struct dirent *de;
	int rc = 0;

	while (rc == 0) {
		errno = 0;
		de = readdir(l->dir);
		if (!de)
			return errno ? -errno : flush(l);
		if (strcmp(de->d_name, ".") && strcmp(de->d_name, ".."))
			rc = list_entry(l, de->d_name);
	}
	return rc;
}

static int list_over_data(struct listing *l, const char *path)
{
	int rc = data_open(l->s, "The listing");

	if (rc)
		return rc < 0 ? rc : 0;
	rc = list_entries(l);
	data_close(l->s, rc == 0);
	return data_reply(l->s, rc, path);
}

/* A 150 of many lines, and then 226 or what went wrong. */
static int list_inline(struct listing *l, const char *path)
{
	static const char head[] = "150-The listing\r\n";
	int rc = buf_put(l->out, head, sizeof(head) - 1);
	int sent;

	if (rc == 0)
		rc = list_entries(l);
	if (rc < 0 && buf_len(l->out))
		flush(l);
	sent = ftp_session_reply(l->s, 150, "The end");
	return sent < 0 ? sent : data_reply(l->s, rc, path);
}

static int open_listing(struct listing *l, const char *path)
{
	int fd;

	if (!l->out || !l->line)
		return -ENOMEM;
	fd = root_open(l->s->account.root, path, O_RDONLY | O_DIRECTORY | O_CLOEXEC, 0);
	if (fd < 0)
		return fd;
	l->dir = fdopendir(fd);
	if (!l->dir)
		close(fd);
	return l->dir ? 0 : -ENOMEM;
}

static int list(struct listing *l, const char *path)
{
	int rc = open_listing(l, path);

	if (rc < 0)
		rc = session_reply_errno(l->s, rc, path);
	else if (l->s->inline_list && l->s->lfd < 0)
		rc = list_inline(l, path);
	else
		rc = list_over_data(l, path);
	if (l->dir)
		closedir(l->dir);
	return rc;
}

int cmd_mlsd(struct ftp_session *s, char *arg)
{
	CLEANUP_FREE char *path = session_arg_path(s, arg);
	CLEANUP_BUF struct buf *out = buf_new(BATCH_BYTES + 2 * LINE_ROOM);
	CLEANUP_BUF struct buf *line = buf_new(LINE_ROOM);
	struct listing l = { .s = s, .out = out, .line = line };
	int rc = path ? list(&l, path) : 0;

	data_forget(s);
	return rc;
}
