// SPDX-License-Identifier: Apache-2.0
/* Listings for people and for clients without MLSD: LIST, NLST (RFC 959), and STAT of a path, which
 * is LIST in its reply. */
#include "control/ls.h"
#include "control/session.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum {
	BATCH_BYTES = 64 << 10,   /* of listing that leave at once */
	LINE_ROOM = 256 << 10,    /* the longest line: a name and a target, encoded */
	SORTED_MAX = 64 << 10,    /* names of a directory that are sorted at once */
	MATCHES_MAX = 64 << 10,   /* names that a pattern may stand for */
	PATTERN_DEPTH = 64,       /* its components */
	IAC = 255,
};

/* Of strings that it owns. */
struct names {
	char **name;
	size_t n, room;
};

struct ls {
	struct ftp_session *s;
	struct ls_options o;
	const char *path;         /* as the client gave it, decoded; "" for none */
	int64_t now;
	struct buf *out;          /* lines not yet sent */
	bool reply;               /* they go into a reply */
	struct names found;       /* paths from the root to what is listed */
	struct names shown;       /* and as the client would name them */
	struct names pending;     /* -R: directories to come, the next one last; from the root */
	struct names pending_shown;
};

/* ---- names ---- */

static void names_clear(struct names *v)
{
	for (size_t i = 0; i < v->n; i++)
		free(v->name[i]);
	free(v->name);
	*v = (struct names){ 0 };
}

/* Takes name over, also when it fails; NULL is memory that was not there. */
static int names_add(struct names *v, char *name)
{
	if (name && v->n == v->room) {
		size_t room = v->room ? 2 * v->room : 64;
		char **more = reallocarray(v->name, room, sizeof(*more));

		if (!more) {
			free(name);
			return -ENOMEM;
		}
		v->name = more;
		v->room = room;
	}
	if (!name)
		return -ENOMEM;
	v->name[v->n++] = name;
	return 0;
}

static int by_bytes(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

static void names_sort(struct names *v)
{
	if (v->n > 1)
		qsort(v->name, v->n, sizeof(*v->name), by_bytes);
}

static char *joined(const char *dir, const char *name)
{
	size_t len = strlen(dir);
	char *out;

	if (asprintf(&out, "%s%s%s", dir, len && dir[len - 1] != '/' ? "/" : "", name) < 0)
		return NULL;
	return out;
}

/* Up to most names of d that pattern, if any, matches. 1: there may be more; 0: that was all. */
static int read_names(struct ls *l, DIR *d, const char *pattern, size_t most, struct names *v)
{
	struct dirent *de;
	int rc = 0;

	while (rc == 0 && v->n < most) {
		errno = 0;
		de = readdir(d);
		if (!de)
			return -errno;
		rc = l->reply ? 0 : session_poll_control(l->s);
		if (rc == 0 && strcmp(de->d_name, ".") && strcmp(de->d_name, "..") &&
		    (!pattern || ls_match(pattern, de->d_name)))
			rc = names_add(v, strdup(de->d_name));
	}
	return rc < 0 ? rc : 1;
}

static int open_dir(struct ls *l, const char *path, DIR **d)
{
	int fd = root_open(l->s->account.root, path, O_RDONLY | O_DIRECTORY | O_CLOEXEC, 0);

	*d = fd < 0 ? NULL : fdopendir(fd);
	if (fd >= 0 && !*d)
		close(fd);
	return fd < 0 ? fd : *d ? 0 : -ENOMEM;
}

/* ---- lines ---- */

/* With Telnet's IAC doubled, as in all replies. */
static int write_reply(struct ls *l)
{
	const uint8_t *p = buf_ptr(l->out), *end = p + buf_len(l->out);
	int rc = 0;

	while (rc == 0 && p < end) {
		const uint8_t *iac = memchr(p, IAC, (size_t)(end - p));
		const uint8_t *to = iac ? iac + 1 : end;

		rc = ms_write(l->s->ms, p, (size_t)(to - p));
		if (rc == 0 && iac)
			rc = ms_write(l->s->ms, iac, 1);
		p = to;
	}
	return rc;
}

static int flush(struct ls *l)
{
	int rc;

	if (l->reply)
		rc = write_reply(l);
	else
		rc = data_write(l->s, buf_ptr(l->out), buf_len(l->out));
	buf_reset(l->out);
	return rc;
}

/* "head name -> target", encoded when that is agreed. A name that has a line's end in it is left
 * out otherwise; such a target is. In a reply no line may look like the last. */
static int put_line(struct ls *l, const char *head, const char *name, const char *target,
		    const char *tail)
{
	CLEANUP_FREE char *coded = l->s->percent ? percent_encode(name) : NULL;
	CLEANUP_FREE char *coded_target = l->s->percent && target ? percent_encode(target) : NULL;
	CLEANUP_FREE char *line = NULL;
	int n;

	if (l->s->percent && (!coded || (target && !coded_target)))
		return -ENOMEM;
	if (!l->s->percent && strpbrk(name, "\r\n"))
		return 0;
	if (!l->s->percent && target && strpbrk(target, "\r\n"))
		target = NULL;
	n = asprintf(&line, "%s%s%s%s%s%s\r\n",
		     l->reply && !*head && *name >= '0' && *name <= '9' ? " " : "", head,
		     coded ? coded : name, target ? " -> " : "",
		     !target ? "" : coded_target ? coded_target : target, tail);
	if (n < 0) {
		line = NULL;
		return -ENOMEM;
	}
	n = buf_put(l->out, line, (size_t)n);
	return n == 0 && buf_len(l->out) >= BATCH_BYTES ? flush(l) : n;
}

/* The line of name in dirfd, under the name shown. */
static int put_entry(struct ls *l, int dirfd, const char *name, const char *shown)
{
	char head[LS_LINE] = "", target[PATH_MAX];
	bool link = false;
	struct stat st;
	ssize_t n;

	if (fstatat(dirfd, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return errno == ENOENT ? 0 : -errno; /* gone since */
	if (!l->o.names) {
		ls_line(head, &st, l->now);
		n = S_ISLNK(st.st_mode) ? readlinkat(dirfd, name, target, sizeof(target) - 1) : -1;
		link = n > 0;
		target[link ? n : 0] = '\0';
	}
	return put_line(l, head, shown, link ? target : NULL, "");
}

/* ---- a directory ---- */

/* "..", too, as "." is: what is above the root is nobody's business. */
static int put_dots(struct ls *l, int dirfd)
{
	int rc = put_entry(l, dirfd, ".", ".");

	return rc ? rc : put_entry(l, dirfd, ".", "..");
}

static bool is_dir(int dirfd, const char *name)
{
	struct stat st;

	return fstatat(dirfd, name, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISDIR(st.st_mode);
}

/* The directories among v, so that the first will be the next. */
static int keep_dirs(struct ls *l, int dirfd, const char *path, const char *shown,
		     const struct names *v)
{
	int rc = 0;

	for (size_t i = v->n; rc == 0 && i-- > 0;) {
		if (!is_dir(dirfd, v->name[i]))
			continue;
		rc = names_add(&l->pending, joined(path, v->name[i]));
		if (rc == 0)
			rc = names_add(&l->pending_shown, joined(shown, v->name[i]));
	}
	return rc;
}

/* A batch of names in dirfd, which is path and called shown by the client: that stands before
 * names that are alone, so that they can be said in the next command as they are (RFC 1123
 * §4.1.2.7). */
static int put_names(struct ls *l, int dirfd, const char *path, const char *shown, struct names *v)
{
	int rc = 0;

	names_sort(v);
	for (size_t i = 0; rc == 0 && i < v->n; i++) {
		CLEANUP_FREE char *full = l->o.names ? joined(shown, v->name[i]) : NULL;

		if (l->o.names && !full)
			return -ENOMEM;
		rc = put_entry(l, dirfd, v->name[i], full ? full : v->name[i]);
	}
	return rc == 0 && l->o.recursive ? keep_dirs(l, dirfd, path, shown, v) : rc;
}

static int put_dir(struct ls *l, DIR *d, const char *path, const char *shown)
{
	int rc = l->o.all && !l->o.names ? put_dots(l, dirfd(d)) : 0;
	int more = 1;

	while (rc == 0 && more > 0) {
		struct names batch = { 0 };

		more = read_names(l, d, NULL, SORTED_MAX, &batch);
		rc = more < 0 ? more : put_names(l, dirfd(d), path, shown, &batch);
		names_clear(&batch);
	}
	return rc;
}

/* A directory that -R has come by; one that cannot be opened is passed over, as ls does. */
static int put_pending(struct ls *l)
{
	CLEANUP_FREE char *path = l->pending.name[--l->pending.n];
	CLEANUP_FREE char *shown = l->pending_shown.name[--l->pending_shown.n];
	DIR *d;
	int rc = open_dir(l, path, &d);

	if (rc < 0)
		return rc == -ENOMEM ? rc : 0;
	if (!l->o.names) { /* which say themselves where they are */
		rc = buf_put(l->out, "\r\n", 2);
		if (rc == 0)
			rc = put_line(l, "", shown, NULL, ":");
	}
	if (rc == 0)
		rc = put_dir(l, d, path, shown);
	closedir(d);
	return rc;
}

/* ---- what is to be listed ---- */

/* pattern below the directory dir, which the client calls shown. */
static int match_below(struct ls *l, const char *dir, const char *shown, char *pattern, int depth);

static int match_name(struct ls *l, const char *dir, const char *shown, const char *name,
		      char *rest, int depth)
{
	CLEANUP_FREE char *path = joined(dir, name);
	CLEANUP_FREE char *full = joined(shown, name);
	struct stat st;

	if (!path || !full)
		return -ENOMEM;
	if (root_stat(l->s->account.root, path, rest, &st) < 0)
		return 0;
	if (rest)
		return S_ISDIR(st.st_mode) ? match_below(l, path, full, rest, depth + 1) : 0;
	if (l->found.n == MATCHES_MAX)
		return -E2BIG;
	if (names_add(&l->found, steal_ptr(&path)) < 0)
		return -ENOMEM;
	return names_add(&l->shown, steal_ptr(&full));
}

static int match_dir(struct ls *l, const char *dir, const char *shown, const char *pattern,
		     char *rest, int depth)
{
	struct names v = { 0 };
	DIR *d;
	int rc = open_dir(l, dir, &d);

	if (rc < 0)
		return rc == -ENOMEM ? rc : 0;
	rc = read_names(l, d, pattern, MATCHES_MAX, &v);
	if (rc > 0)
		rc = -E2BIG;
	closedir(d);
	names_sort(&v);
	for (size_t i = 0; rc == 0 && i < v.n; i++)
		rc = match_name(l, dir, shown, v.name[i], rest, depth);
	names_clear(&v);
	return rc;
}

static int match_below(struct ls *l, const char *dir, const char *shown, char *pattern, int depth)
{
	char *slash = strchr(pattern, '/');
	char *rest = slash ? slash + strspn(slash, "/") : NULL;
	int rc;

	if (depth == PATTERN_DEPTH)
		return -E2BIG;
	if (rest && !*rest)
		rest = NULL;
	if (slash)
		*slash = '\0';
	if (ls_is_pattern(pattern))
		rc = match_dir(l, dir, shown, pattern, rest, depth);
	else if (!strcmp(pattern, "..")) /* which could be matched again and again */
		rc = 0;
	else
		rc = match_name(l, dir, shown, pattern, rest, depth);
	if (slash)
		*slash = '/'; /* for the next directory */
	return rc;
}

/* All that the pattern in l->path stands for. What is before its first component with a "*" is
 * a directory like any. */
static int match_all(struct ls *l)
{
	size_t len = strcspn(l->path, "*?[");
	CLEANUP_FREE char *shown = NULL;
	CLEANUP_FREE char *pattern = NULL;
	CLEANUP_FREE char *dir = NULL;
	int rc;

	while (len && l->path[len - 1] != '/')
		len--;
	shown = strndup(l->path, len);
	pattern = strdup(l->path + len);
	dir = shown ? ftp_session_path(l->s, shown) : NULL;
	if (!dir || !pattern)
		return -ENOMEM;
	rc = match_below(l, dir, shown, pattern, 0);
	return rc < 0 ? rc : l->found.n ? 0 : -ENOENT;
}

/* 0 with l->found and l->shown. A name that is there is no pattern. */
static int find(struct ls *l, bool *matched)
{
	CLEANUP_FREE char *path = ftp_session_path(l->s, l->path);
	struct stat st;
	int rc = path ? root_stat(l->s->account.root, path, false, &st) : -ENOMEM;

	*matched = rc == -ENOENT && !l->s->percent && ls_is_pattern(l->path);
	if (*matched)
		return match_all(l);
	if (rc == 0)
		rc = names_add(&l->found, steal_ptr(&path));
	return rc ? rc : names_add(&l->shown, strdup(l->path));
}

static bool wants_content(struct ls *l, bool matched)
{
	struct stat st;

	return !matched && !l->o.itself &&
	       root_stat(l->s->account.root, l->found.name[0], true, &st) == 0 &&
	       S_ISDIR(st.st_mode);
}

static int put_content(struct ls *l)
{
	const char *shown = strcmp(l->path, ".") ? l->path : "";
	DIR *d;
	int rc = open_dir(l, l->found.name[0], &d);

	if (rc < 0)
		return rc;
	rc = put_dir(l, d, l->found.name[0], shown);
	closedir(d);
	while (rc == 0 && l->pending.n)
		rc = put_pending(l);
	return rc;
}

static int put_found(struct ls *l)
{
	int rc = 0;

	for (size_t i = 0; rc == 0 && i < l->found.n; i++) {
		char name[256];
		CLEANUP_CLOSE int parent = root_open_parent(l->s->account.root, l->found.name[i],
							    name);
		const char *shown = *l->shown.name[i] ? l->shown.name[i] : ".";

		if (parent >= 0)
			rc = put_entry(l, parent, name, shown);
	}
	return rc;
}

static int put_all(struct ls *l, bool content)
{
	int rc = content ? put_content(l) : put_found(l);

	return rc == 0 ? flush(l) : rc;
}

/* ---- commands ---- */

static int list_over_data(struct ls *l, bool content)
{
	int rc = data_open(l->s, "The listing");

	if (rc)
		return rc < 0 ? rc : 0;
	rc = put_all(l, content);
	data_close(l->s, rc == 0);
	return data_reply(l->s, rc, l->found.name[0]);
}

/* RFC 959 §4.1.3: 212 for a directory, 213 for a file. */
static int list_in_reply(struct ls *l, bool content)
{
	CLEANUP_FREE char *name = session_name(l->s, l->found.name[0]);
	CLEANUP_FREE char *head = NULL;
	int code = content ? 212 : 213;
	int n = asprintf(&head, "%d-%s is\r\n", code, name ? name : "");
	int rc = n < 0 ? -ENOMEM : buf_put(l->out, head, (size_t)n);

	if (n < 0) {
		head = NULL;
		return session_reply_errno(l->s, rc, l->path);
	}
	if (rc == 0)
		rc = put_all(l, content);
	if (rc < 0 && buf_len(l->out))
		flush(l);
	return ftp_session_reply(l->s, code, "%s", rc < 0 ? root_why(rc) : "That is all");
}

static int list(struct ls *l, char *arg)
{
	CLEANUP_FREE char *decoded = NULL;
	bool matched = false;
	int rc;

	l->path = ls_options_take(arg, &l->o);
	if (l->s->percent && percent_decode(l->path, &decoded) < 0)
		return ftp_session_reply(l->s, 501, "A name with a broken percent-encoding");
	if (decoded)
		l->path = decoded;
	l->now = (int64_t)time(NULL);
	rc = l->out ? find(l, &matched) : -ENOMEM;
	if (rc == -ECANCELED)
		return data_reply(l->s, rc, l->path);
	if (rc == -EPIPE)
		return err_set(l->s->e, rc, "the client went away");
	if (rc < 0)
		return session_reply_errno(l->s, rc, l->path);
	return l->reply ? list_in_reply(l, wants_content(l, matched)) :
			  list_over_data(l, wants_content(l, matched));
}

static int list_with(struct ftp_session *s, char *arg, bool names, bool reply)
{
	CLEANUP_BUF struct buf *out = buf_new(BATCH_BYTES + 2 * LINE_ROOM);
	struct ls l = { .s = s, .o.names = names, .out = out, .reply = reply };
	int rc = list(&l, arg);

	names_clear(&l.found);
	names_clear(&l.shown);
	names_clear(&l.pending);
	names_clear(&l.pending_shown);
	return rc;
}

static int list_and_forget(struct ftp_session *s, char *arg, bool names)
{
	int rc;

	s->rest = 0;
	rc = list_with(s, arg, names, false);
	data_forget(s);
	return rc;
}

int cmd_list(struct ftp_session *s, char *arg)
{
	return list_and_forget(s, arg, false);
}

int cmd_nlst(struct ftp_session *s, char *arg)
{
	return list_and_forget(s, arg, true);
}

int session_stat_path(struct ftp_session *s, char *arg)
{
	return list_with(s, arg, false, true);
}
