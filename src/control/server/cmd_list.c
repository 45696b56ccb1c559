// SPDX-License-Identifier: Apache-2.0
/* Listings. For programs: MLST and MLSD (RFC 3659 §7); MLSD lists over a data connection or, if
 * OPTS INLINE MLSD was agreed, in the reply. For people and old clients: LIST, NLST (RFC 959), and
 * STAT of a path, which is LIST in its reply. */
#include "control/server/session.h"

#include <ctype.h>
#include <dirent.h>
#include <fcntl.h>
#include <fnmatch.h>
#include <inttypes.h>
#include <limits.h>
#include <sys/stat.h>
#include <time.h>

enum {
	SORTED_MAX = 64 << 10,    /* names of a directory that are sorted together */
	MATCHES_MAX = 64 << 10,   /* names that a pattern may match */
	PATTERN_DEPTH = 64,       /* components of a pattern */
	IAC = 255,
	HALF_YEAR_S = 365 * 24 * 60 * 60 / 2,
	AHEAD_S = 60 * 60,        /* tolerated difference of clocks */
};

/* An entry to list, by its path below the root or its name in a directory, and the name that the
 * client sees. */
struct ls_name {
	char *path, *shown;
};

struct ls_names {
	struct ls_name *at;
	size_t n, room;
};

struct listing {
	struct ftp_session *s;
	struct buf *out;             /* lines not yet sent */
	bool reply;                  /* the lines go into a reply, not over a data connection */
	/* The following members are for LIST. */
	struct ls_options o;
	const char *path;            /* as the client gave it, decoded; "": none */
	int64_t now;
	bool content;                /* list the content of the directory found.at[0] */
	struct ls_names found;       /* the entries to list */
	struct ls_names pending;     /* directories to list, the last one next */
};

/* ---- sending ---- */

/* Send the lines. In a reply, Telnet's IAC must be doubled. */
static int listing_flush(struct listing *l)
{
	const uint8_t *p = buf_ptr(l->out), *end = p + buf_len(l->out);
	int rc = 0;

	if (!l->reply)
		rc = data_write(l->s, p, buf_len(l->out));
	while (l->reply && rc == 0 && p < end) {
		const uint8_t *iac = memchr(p, IAC, (size_t)(end - p));
		const uint8_t *to = iac ? iac + 1 : end;

		rc = ms_write(l->s->ms, p, (size_t)(to - p));
		if (rc == 0 && iac)
			rc = ms_write(l->s->ms, iac, 1);
		p = to;
	}
	buf_reset(l->out);
	return rc;
}

/* indent: in a reply, add a space, so that the line does not look like the reply's last line. */
static int listing_add_line(struct listing *l, const void *text, size_t len, bool indent)
{
	int rc = l->reply && indent ? buf_put(l->out, " ", 1) : 0;

	if (rc == 0)
		rc = buf_put(l->out, text, len);
	if (rc == 0)
		rc = buf_put(l->out, "\r\n", 2);
	return rc == 0 && buf_len(l->out) >= SESSION_BATCH ? listing_flush(l) : rc;
}

static int listing_open_dir(struct listing *l, const char *path, DIR **d)
{
	int fd = root_open(l->s->account.root, path, O_RDONLY | O_DIRECTORY | O_CLOEXEC, 0);

	*d = fd < 0 ? NULL : fdopendir(fd);
	if (fd >= 0 && !*d)
		close(fd);
	return fd < 0 ? fd : *d ? 0 : -ENOMEM;
}

/* ---- MLST, MLSD ---- */

/* Append one line without CRLF for the entry name of dirfd. */
static int put_facts(struct ftp_session *s, struct buf *out, int dirfd, const char *name,
		     const char *shown)
{
	unsigned on = s->agreed.facts;
	char target[PATH_MAX];
	struct ftp_facts f;
	struct stat st;
	ssize_t n;

	if (fstatat(dirfd, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return -errno;
	f = (struct ftp_facts){
		.type = S_ISREG(st.st_mode) ? 'f' : S_ISDIR(st.st_mode) ? 'd' :
			S_ISLNK(st.st_mode) ? 'l' : 'o',
		.name = (char *)shown,
		.has_size = (on & FACT_SIZE) && S_ISREG(st.st_mode),
		.size = (uint64_t)st.st_size,
		.has_mode = on & FACT_MODE,
		.mode = st.st_mode & 07777,
		.has_mtime = on & FACT_MODIFY,
		.mtime_s = st.st_mtim.tv_sec,
		.mtime_ns = (uint32_t)st.st_mtim.tv_nsec,
		.has_owner = on & (FACT_UID | FACT_GID),
		.uid = st.st_uid,
		.gid = st.st_gid,
	};

	if (f.type == 'l') {
		n = readlinkat(dirfd, name, target, sizeof(target) - 1);
		if (n >= 0) {
			target[n] = '\0';
			f.target = target;
		}
	}
	return ftp_facts_format(out, &f, s->agreed.percent);
}

int cmd_mlst(struct ftp_session *s, char *path)
{
	CLEANUP_BUF struct buf *out = buf_new(SESSION_LINE_MAX);
	char name[256];
	CLEANUP_CLOSE int parent = root_open_parent(s->account.root, path, name);
	int rc = !out ? -ENOMEM : parent < 0 ? parent : put_facts(s, out, parent, name, path);

	if (rc < 0)
		return session_reply_errno(s, rc, path);
	return ftp_session_reply(s, 250, "Facts:\n %.*s\nEnd", (int)buf_len(out),
				 (const char *)buf_ptr(out));
}

static int list_dir_facts(struct listing *l, DIR *dir)
{
	CLEANUP_BUF struct buf *line = buf_new(SESSION_LINE_MAX);
	struct dirent *de;
	int rc = line ? 0 : -ENOMEM;

	while (rc == 0) {
		errno = 0;
		de = readdir(dir);
		if (!de)
			return errno ? -errno : listing_flush(l);
		if (!strcmp(de->d_name, ".") || !strcmp(de->d_name, ".."))
			continue;
		buf_reset(line);
		rc = put_facts(l->s, line, dirfd(dir), de->d_name, de->d_name);
		/* Skip entries that were removed meanwhile, and names that cannot be sent in a
		 * line. */
		if (rc == -ENOENT || rc == -EILSEQ)
			rc = 0;
		else if (rc == 0)
			rc = listing_add_line(l, buf_ptr(line), buf_len(line), true);
	}
	return rc;
}

int cmd_mlsd(struct ftp_session *s, char *path)
{
	static const char head[] = "150-The listing";
	CLEANUP_BUF struct buf *out = buf_new(SESSION_BATCH + 2 * SESSION_LINE_MAX);
	struct listing l = { .s = s, .out = out, .reply = s->agreed.inline_list && s->lfd < 0 };
	DIR *dir = NULL;
	int rc = out ? listing_open_dir(&l, path, &dir) : -ENOMEM, sent;

	if (rc < 0) {
		rc = session_reply_errno(s, rc, path);
	} else if (l.reply) {
		/* The reply is a 150 of many lines, then 226 or the error. */
		rc = listing_add_line(&l, head, sizeof(head) - 1, false);
		if (rc == 0)
			rc = list_dir_facts(&l, dir);
		if (rc < 0 && buf_len(out))
			listing_flush(&l);
		sent = ftp_session_reply(s, 150, "The end");
		rc = sent < 0 ? sent : data_reply(s, rc, path);
	} else {
		rc = data_open(s, "The listing");
		if (rc == 0) {
			rc = list_dir_facts(&l, dir);
			data_close(s, rc == 0);
			rc = data_reply(s, rc, path);
		}
	}
	if (dir)
		closedir(dir);
	data_forget(s);
	return rc;
}

/* ---- LIST: options ---- */

char *ls_options_take(char *arg, struct ls_options *o)
{
	while (*arg == '-') {
		size_t n = 1;

		while (isalnum((unsigned char)arg[n]))
			n++;
		if (n == 1 || (arg[n] && arg[n] != ' '))
			break;
		/* Others, such as sort orders and columns, do not matter to parsers of listings. */
		for (size_t i = 1; i < n; i++) {
			o->all |= arg[i] == 'a';
			o->itself |= arg[i] == 'd';
			o->recursive |= arg[i] == 'R';
			if (arg[i] == '1' || arg[i] == 'l')
				o->names = arg[i] == '1';
		}
		arg += n + (arg[n] == ' ');
	}

	/* "--" ends the options, for names that look like options. */
	if (!strncmp(arg, "--", 2) && (arg[2] == ' ' || !arg[2]))
		arg += 2 + (arg[2] == ' ');
	return arg;
}

/* ---- LIST: texts of patterns ---- */

bool ls_is_pattern(const char *text)
{
	return strpbrk(text, "*?[");
}

bool ls_match(const char *pattern, const char *name)
{
	size_t n = strlen(pattern), backslashes = 0;
	char whole[LS_PATTERN_MOST + 2];

	if (n > LS_PATTERN_MOST)
		return false;
	/* A backslash at the end stands for itself; fnmatch(3) would match nothing. */
	while (backslashes < n && pattern[n - 1 - backslashes] == '\\')
		backslashes++;
	snprintf(whole, sizeof(whole), "%s%s", pattern, backslashes % 2 ? "\\" : "");
	return !fnmatch(whole, name, FNM_PERIOD);
}

/* ---- LIST: texts of lines ---- */

void ls_line(char out[LS_LINE], const struct stat *st, int64_t now)
{
	static const char letters[] = "rwxrwxrwx", types[] = "-pc-d-b---l-s---";
	const time_t t = st->st_mtim.tv_sec;
	const mode_t mode = st->st_mode;
	char text[11] = "", when[32];
	struct tm tm = { 0 };

	text[0] = types[(mode & S_IFMT) >> 12];
	for (unsigned i = 0; i < 9; i++)
		text[1 + i] = mode & (0400u >> i) ? letters[i] : '-';
	if (mode & S_ISUID)
		text[3] = mode & S_IXUSR ? 's' : 'S';
	if (mode & S_ISGID)
		text[6] = mode & S_IXGRP ? 's' : 'S';
	if (mode & S_ISVTX)
		text[9] = mode & S_IXOTH ? 't' : 'T';

	gmtime_r(&t, &tm);
	strftime(when, sizeof(when), t > now - HALF_YEAR_S && t < now + AHEAD_S ? "%b %e %H:%M" :
									  "%b %e  %Y", &tm);
	snprintf(out, LS_LINE, "%s %4ju %-8u %-8u %12jd %s ", text, (uintmax_t)st->st_nlink,
		 st->st_uid, st->st_gid, (intmax_t)st->st_size, when);
}

/* ---- LIST: names ---- */

static void ls_names_clear(struct ls_names *v)
{
	for (size_t i = 0; i < v->n; i++) {
		free(v->at[i].path);
		free(v->at[i].shown);
	}
	free(v->at);
	*v = (struct ls_names){ 0 };
}

/* Append an entry. Takes both strings, also on failure. A NULL string is a failed allocation. 0 or
 * -ENOMEM. */
static int ls_names_add(struct ls_names *v, char *path, char *shown)
{
	if (!path || !shown || !array_has_room(v->at, v->n, v->room)) {
		free(path);
		free(shown);
		return -ENOMEM;
	}
	v->at[v->n++] = (struct ls_name){ path, shown };
	return 0;
}

static int by_bytes(const void *a, const void *b)
{
	return strcmp(((const struct ls_name *)a)->path, ((const struct ls_name *)b)->path);
}

/* Append to v at most most names from d that match pattern (NULL: all), sorted. shown: the client's
 * name for d, which it sees before each name; NULL: the client sees the name alone. 1: there may be
 * more; 0: d is at its end; or a negative errno. */
static int ls_names_read(struct listing *l, DIR *d, const char *pattern, const char *shown,
			 size_t most, struct ls_names *v)
{
	int rc = 0, more = 1;

	while (rc == 0 && more && v->n < most) {
		const struct dirent *de;

		errno = 0;
		de = readdir(d);
		more = de != NULL;
		if (!de)
			rc = -errno;
		else
			rc = l->reply ? 0 : session_poll_control(l->s);
		if (rc == 0 && de && strcmp(de->d_name, ".") && strcmp(de->d_name, "..") &&
		    (!pattern || ls_match(pattern, de->d_name)))
			rc = ls_names_add(v, strdup(de->d_name),
					  shown ? name_below(shown, de->d_name) :
						  strdup(de->d_name));
	}
	if (v->n > 1)
		qsort(v->at, v->n, sizeof(*v->at), by_bytes);
	return rc < 0 ? rc : more;
}

/* ---- LIST: lines ---- */

/* Append the line "head name -> target tail", with names encoded if agreed. Without encoding, a
 * name with a line end is skipped, and a target with one is left out. */
static int ls_put_line(struct listing *l, const char *head, const char *name, const char *target,
		       const char *tail)
{
	bool percent = l->s->agreed.percent;
	CLEANUP_FREE char *coded = percent ? percent_encode(name) : NULL;
	CLEANUP_FREE char *coded_target = percent && target ? percent_encode(target) : NULL;
	CLEANUP_FREE char *line = NULL;
	int n;

	if (percent && (!coded || (target && !coded_target)))
		return -ENOMEM;

	if (!percent && strpbrk(name, "\r\n"))
		return 0;
	if (!percent && target && strpbrk(target, "\r\n"))
		target = NULL;

	n = asprintf(&line, "%s%s%s%s%s", head, coded ? coded : name, target ? " -> " : "",
		     !target ? "" : coded_target ? coded_target : target, tail);
	if (n < 0) {
		line = NULL;
		return -ENOMEM;
	}
	return listing_add_line(l, line, (size_t)n, !*head && *name >= '0' && *name <= '9');
}

/* Append the line for entry name of dirfd, under the name shown. */
static int ls_put_entry(struct listing *l, int dirfd, const char *name, const char *shown)
{
	char head[LS_LINE] = "", target[PATH_MAX];
	bool link = false;
	struct stat st;
	ssize_t n;

	if (fstatat(dirfd, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return errno == ENOENT ? 0 : -errno; /* removed meanwhile */
	if (!l->o.names) {
		ls_line(head, &st, l->now);
		n = S_ISLNK(st.st_mode) ? readlinkat(dirfd, name, target, sizeof(target) - 1) : -1;
		link = n > 0;
		target[link ? n : 0] = '\0';
	}
	return ls_put_line(l, head, shown, link ? target : NULL, "");
}

/* -R: add the directories in v to pending, so that the first one is listed next. */
static int ls_keep_dirs(struct listing *l, int dirfd, const char *path, const char *shown,
			const struct ls_names *v)
{
	struct stat st;
	int rc = 0;

	for (size_t i = v->n; rc == 0 && i-- > 0;) {
		const char *name = v->at[i].path;

		if (!fstatat(dirfd, name, &st, AT_SYMLINK_NOFOLLOW) && S_ISDIR(st.st_mode))
			rc = ls_names_add(&l->pending, name_below(path, name),
					  name_below(shown, name));
	}
	return rc;
}

/* List directory d at path. shown: the client's name for it, which NLST puts before each name, so
 * that the client can use the result in commands (RFC 1123 §4.1.2.7). */
static int ls_put_dir(struct listing *l, DIR *d, const char *path, const char *shown)
{
	bool dots = l->o.all && !l->o.names;
	int rc = dots ? ls_put_entry(l, dirfd(d), ".", ".") : 0;
	int more = 1;

	/* ".." has the attributes of ".": the directory above the root must not be visible. */
	if (rc == 0 && dots)
		rc = ls_put_entry(l, dirfd(d), ".", "..");
	while (rc == 0 && more > 0) {
		struct ls_names v = { 0 };

		more = ls_names_read(l, d, NULL, l->o.names ? shown : NULL, SORTED_MAX, &v);
		rc = more < 0 ? more : 0;
		for (size_t i = 0; rc == 0 && i < v.n; i++)
			rc = ls_put_entry(l, dirfd(d), v.at[i].path, v.at[i].shown);
		if (rc == 0 && l->o.recursive)
			rc = ls_keep_dirs(l, dirfd(d), path, shown, &v);
		ls_names_clear(&v);
	}
	return rc;
}

/* ---- LIST: patterns ---- */

/* Append name in dir to next, if it exists. full: the client's name for it, which is taken. more:
 * it must be a directory. */
static int match_add(struct listing *l, const char *dir, const char *name, char *full, bool more,
		     struct ls_names *next)
{
	CLEANUP_FREE char *path = name_below(dir, name);
	CLEANUP_FREE char *shown = full;
	struct stat st;

	if (!path || !shown)
		return -ENOMEM;
	if (root_stat(l->s->account.root, path, more, &st) < 0 || (more && !S_ISDIR(st.st_mode)))
		return 0;
	if (next->n == MATCHES_MAX)
		return -E2BIG;
	return ls_names_add(next, steal_ptr(&path), steal_ptr(&shown));
}

/* Append the names in directory d that match word, one component of a pattern. A directory that
 * cannot be read has no matches. */
static int match_component(struct listing *l, const struct ls_name *d, const char *word, bool more,
			   struct ls_names *next)
{
	struct ls_names v = { 0 };
	DIR *dir;
	int rc;

	if (!strcmp(word, "..")) /* skipped, because it could match without end */
		return 0;
	if (!ls_is_pattern(word))
		return match_add(l, d->path, word, name_below(d->shown, word), more, next);

	rc = listing_open_dir(l, d->path, &dir);
	if (rc < 0)
		return rc == -ENOMEM ? rc : 0;
	rc = ls_names_read(l, dir, word, d->shown, MATCHES_MAX, &v);
	if (rc > 0)
		rc = -E2BIG;
	closedir(dir);
	for (size_t i = 0; rc == 0 && i < v.n; i++)
		rc = match_add(l, d->path, v.at[i].path, steal_ptr(&v.at[i].shown), more, next);
	ls_names_clear(&v);
	return rc;
}

/* Fill l->found with all paths that the pattern l->path matches, component by component. The text
 * before its first component with a wildcard is an ordinary directory. */
static int match_all(struct listing *l)
{
	size_t len = strcspn(l->path, "*?[");
	CLEANUP_FREE char *pattern = NULL;
	char *rest, *word, *shown;
	int rc;

	while (len && l->path[len - 1] != '/')
		len--;
	pattern = strdup(l->path + len);
	shown = strndup(l->path, len);
	rc = ls_names_add(&l->found, shown ? ftp_session_path(l->s, shown) : NULL, shown);
	if (!pattern)
		return -ENOMEM;

	rest = pattern;
	for (int depth = 0; rc == 0 && rest && *rest; depth++) {
		struct ls_names next = { 0 };

		word = strsep(&rest, "/");
		if (rest)
			rest += strspn(rest, "/");
		if (depth == PATTERN_DEPTH)
			rc = -E2BIG;
		for (size_t i = 0; rc == 0 && i < l->found.n; i++)
			rc = match_component(l, &l->found.at[i], word, rest && *rest, &next);
		ls_names_clear(&l->found);
		l->found = next;
	}
	return rc < 0 ? rc : l->found.n ? 0 : -ENOENT;
}

/* Fill l->found and l->content. An existing name is not treated as a pattern. */
static int ls_find(struct listing *l)
{
	struct root *root = l->s->account.root;
	CLEANUP_FREE char *path = ftp_session_path(l->s, l->path);
	struct stat st;
	int rc = path ? root_stat(root, path, false, &st) : -ENOMEM;

	if (rc == -ENOENT && !l->s->agreed.percent && ls_is_pattern(l->path))
		return match_all(l);
	if (rc < 0)
		return rc;
	l->content = !l->o.itself && root_stat(root, path, true, &st) == 0 && S_ISDIR(st.st_mode);
	return ls_names_add(&l->found, steal_ptr(&path), strdup(l->path));
}

/* ---- LIST, NLST, STAT ---- */

/* List the content of the directory in found, and with -R of the directories below it. A directory
 * below that cannot be opened is skipped, as in ls. */
static int ls_put_content(struct listing *l)
{
	bool below = false;
	int rc = ls_names_add(&l->pending, strdup(l->found.at[0].path),
			      strdup(strcmp(l->path, ".") ? l->path : ""));

	for (; rc == 0 && l->pending.n; below = true) {
		struct ls_name *last = &l->pending.at[--l->pending.n];
		CLEANUP_FREE char *path = last->path;
		CLEANUP_FREE char *shown = last->shown;
		DIR *d;

		rc = listing_open_dir(l, path, &d);
		if (rc < 0) {
			rc = below && rc != -ENOMEM ? 0 : rc;
			continue;
		}
		if (below && !l->o.names) { /* in NLST each name contains its directory */
			rc = buf_put(l->out, "\r\n", 2);
			if (rc == 0)
				rc = ls_put_line(l, "", shown, NULL, ":");
		}
		if (rc == 0)
			rc = ls_put_dir(l, d, path, shown);
		closedir(d);
	}
	return rc;
}

static int ls_put_all(struct listing *l)
{
	int rc = l->content ? ls_put_content(l) : 0;

	for (size_t i = 0; rc == 0 && !l->content && i < l->found.n; i++) {
		const struct ls_name *n = &l->found.at[i];
		char name[256];
		CLEANUP_CLOSE int parent = root_open_parent(l->s->account.root, n->path, name);

		if (parent >= 0)
			rc = ls_put_entry(l, parent, name, *n->shown ? n->shown : ".");
	}
	return rc == 0 ? listing_flush(l) : rc;
}

/* RFC 959 §4.1.3: 212 for a directory, 213 for a file. */
static int ls_in_reply(struct listing *l)
{
	CLEANUP_FREE char *name = session_name(l->s, l->found.at[0].path);
	CLEANUP_FREE char *head = NULL;
	int code = l->content ? 212 : 213;
	int n = asprintf(&head, "%d-%s is\r\n", code, name ? name : "");
	int rc = n < 0 ? -ENOMEM : buf_put(l->out, head, (size_t)n);

	if (n < 0) {
		head = NULL;
		return session_reply_errno(l->s, rc, l->path);
	}
	if (rc == 0)
		rc = ls_put_all(l);
	if (rc < 0 && buf_len(l->out))
		listing_flush(l);
	return ftp_session_reply(l->s, code, "%s", rc < 0 ? root_why(rc) : "End");
}

static int ls_run(struct listing *l, char *arg)
{
	CLEANUP_FREE char *decoded = NULL;
	int rc;

	l->path = ls_options_take(arg, &l->o);
	rc = session_decode(l->s, l->path, &decoded);
	if (rc)
		return rc;

	if (decoded)
		l->path = decoded;
	l->now = (int64_t)time(NULL);
	rc = l->out ? ls_find(l) : -ENOMEM;
	if (rc == -ECANCELED)
		return data_reply(l->s, rc, l->path);
	if (rc == -EPIPE)
		return session_client_gone(l->s);
	if (rc < 0)
		return session_reply_errno(l->s, rc, l->path);
	if (l->reply)
		return ls_in_reply(l);

	rc = data_open(l->s, "The listing");
	if (rc)
		return rc;
	rc = ls_put_all(l);
	data_close(l->s, rc == 0);
	return data_reply(l->s, rc, l->found.at[0].path);
}

static int ls_command(struct ftp_session *s, char *arg, bool names, bool reply)
{
	CLEANUP_BUF struct buf *out = buf_new(SESSION_BATCH + 2 * SESSION_LINE_MAX);
	struct listing l = { .s = s, .o.names = names, .out = out, .reply = reply };
	int rc;

	if (!reply)
		s->rest = 0;
	rc = ls_run(&l, arg);
	if (!reply)
		data_forget(s);
	ls_names_clear(&l.found);
	ls_names_clear(&l.pending);
	return rc;
}

int cmd_list(struct ftp_session *s, char *arg)
{
	return ls_command(s, arg, false, false);
}

int cmd_nlst(struct ftp_session *s, char *arg)
{
	return ls_command(s, arg, true, false);
}

int session_stat_path(struct ftp_session *s, char *arg)
{
	return ls_command(s, arg, false, true);
}
