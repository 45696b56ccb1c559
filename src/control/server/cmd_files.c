// SPDX-License-Identifier: Apache-2.0
/* Commands about names and attributes of files: directories, renaming, removing, sizes, times,
 * modes, digests. */
#include "control/server/session.h"

#include <fcntl.h>
#include <inttypes.h>
#include <strings.h>
#include <sys/stat.h>

enum { HASH_BYTES = 1 << 20 };

/* ---- directories ---- */

/* Reply 257 with "path", its quotes doubled (RFC 959, appendix II). */
static int reply_257(struct ftp_session *s, const char *path, const char *text)
{
	CLEANUP_FREE char *name = session_name(s, path);
	CLEANUP_FREE char *quoted = name ? malloc(2 * strlen(name) + 1) : NULL;
	char *out = quoted;

	if (!quoted)
		return ftp_session_reply(s, 451, NO_MEMORY);
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

int cmd_cwd(struct ftp_session *s, char *path)
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
		return err_nomem(s->e);
	return ftp_session_reply(s, 250, "Done");
}

int cmd_cdup(struct ftp_session *s, char *arg)
{
	CLEANUP_FREE char *path = ftp_session_path(s, "..");

	return path ? cmd_cwd(s, path) : ftp_session_reply(s, 451, NO_MEMORY);
}

int cmd_mkd(struct ftp_session *s, char *path)
{
	int rc = root_mkdir(s->account.root, path, 0777 & ~s->account.umask);

	return rc < 0 ? session_reply_errno(s, rc, path) : reply_257(s, path, "created");
}

/* ---- removing ---- */

static int reply_removed(struct ftp_session *s, int rc, const char *path)
{
	return rc < 0 ? session_reply_errno(s, rc, path) : ftp_session_reply(s, 250, "Removed");
}

int cmd_rmd(struct ftp_session *s, char *path)
{
	return reply_removed(s, root_rmdir(s->account.root, path), path);
}

int cmd_dele(struct ftp_session *s, char *path)
{
	return reply_removed(s, root_unlink(s->account.root, path), path);
}

int cmd_rmda(struct ftp_session *s, char *path)
{
	struct err e = ERR_INIT;
	int rc;

	if (!strcmp(path, "/"))
		return session_reply_errno(s, -EBUSY, path);
	rc = root_remove_tree(s->account.root, path, &e);

	/* The text names the entry that could not be removed, relative to the account's root. */
	if (rc < 0 && e.code == rc && *e.text)
		return ftp_session_reply(s, 550, "%s", e.text);
	return reply_removed(s, rc, path);
}

/* ---- renaming ---- */

int cmd_rnfr(struct ftp_session *s, char *path)
{
	struct stat st;
	int rc = root_stat(s->account.root, path, false, &st);

	if (rc < 0)
		return session_reply_errno(s, rc, path);
	s->rename_from = strdup(path);
	if (!s->rename_from)
		return ftp_session_reply(s, 451, NO_MEMORY);
	return ftp_session_reply(s, 350, "Send the new name by RNTO");
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

	/* RNFR has found the old name, so the new name has caused the error. */
	return rc < 0 ? session_reply_errno(s, rc, to) : ftp_session_reply(s, 250, "Renamed");
}

/* ---- sizes and modes ---- */

int cmd_size(struct ftp_session *s, char *path)
{
	struct stat st;
	int rc;

	/* RFC 3659 §4: the number of bytes to be transferred, which TYPE A does not know. */
	if (s->agreed.ascii)
		return ftp_session_reply(s, 550, "SIZE is for TYPE I only");
	rc = root_stat(s->account.root, path, true, &st);
	if (rc < 0)
		return session_reply_errno(s, rc, path);
	if (!S_ISREG(st.st_mode))
		return session_not_plain(s, 550, path);
	return ftp_session_reply(s, 213, "%" PRIu64, (uint64_t)st.st_size);
}

static int site_chmod(struct ftp_session *s, char *arg)
{
	CLEANUP_FREE char *path = NULL;
	CLEANUP_CLOSE int fd = -1;
	size_t len = strspn(arg, "01234567");
	struct stat st;
	mode_t mode;
	int rc;

	if (len < 1 || len > 5 || arg[len] != ' ' || !arg[len + 1])
		return ftp_session_reply(s, 501, "Syntax: SITE CHMOD <octal mode> <path>");

	path = session_change_path(s, arg + len + 1);
	if (!path)
		return 0;

	mode = (mode_t)strtoul(arg, NULL, 8) & 07777;

	/* The root's rules decide whether a link at the end is followed, not the kernel's. */
	fd = root_open(s->account.root, path, O_PATH | O_CLOEXEC, 0);
	rc = fd < 0 ? fd : fstat(fd, &st) ? -errno : 0;

	/* These bits can be removed, but not set: FTP has no command about owners. */
	if (rc == 0 && mode & 07000 & ~st.st_mode)
		return session_reply_about(s, 550, path, "Permission denied: set-user-id, "
					   "set-group-id and sticky bits cannot be set");
	if (rc == 0)
		rc = fd_chmod(fd, mode);
	return rc < 0 ? session_reply_errno(s, rc, path) : ftp_session_reply(s, 200, "Done");
}

/* ---- times ---- */

/* Parse len bytes of text: YYYYMMDDhhmmss[.fraction]; if loose, the seconds may be missing. */
static bool parse_time(const char *text, size_t len, bool loose, struct timespec *t)
{
	char copy[32];
	int64_t sec;
	uint32_t ns;

	if (len < 12 || len > 24 || (len < 14 && !(loose && len == 12)))
		return false;
	snprintf(copy, sizeof(copy), "%.*s%s", (int)len, text, len == 12 ? "00" : "");
	if (ftp_time_parse(copy, &sec, &ns) < 0)
		return false;
	*t = (struct timespec){ .tv_sec = sec, .tv_nsec = (long)ns };
	return true;
}

/* Parse "TIME PATH". Returns the path; NULL if the time is malformed or the path is missing. */
static const char *parse_time_and_path(const char *arg, bool loose, struct timespec *t)
{
	size_t len = strcspn(arg, " ");

	if (!arg[len] || !arg[len + 1] || !parse_time(arg, len, loose, t))
		return NULL;
	return arg + len + 1;
}

/* tv: the times of access and modification. With code 213 the reply contains the time
 * (draft-somers-ftp-mfxx §3.1). */
static int set_path_times(struct ftp_session *s, const char *arg, const struct timespec tv[2],
			  int code)
{
	CLEANUP_FREE char *path = session_change_path(s, arg);
	CLEANUP_FREE char *name = NULL;
	CLEANUP_CLOSE int fd = -1;
	char text[32];
	int rc;

	if (!path)
		return 0;

	fd = root_open(s->account.root, path, O_PATH | O_CLOEXEC, 0);
	rc = fd < 0 ? fd : fd_utimens(fd, tv);
	if (rc < 0)
		return session_reply_errno(s, rc, path);

	if (code != 213)
		return ftp_session_reply(s, code, "Done");
	name = session_name(s, path);
	ftp_time_format(text, tv[1].tv_sec, (uint32_t)tv[1].tv_nsec);
	return ftp_session_reply(s, code, "Modify=%s; %s", text, name ? name : "");
}

int cmd_mfmt(struct ftp_session *s, char *arg)
{
	struct timespec tv[2] = { { .tv_nsec = UTIME_OMIT } };
	const char *path = parse_time_and_path(arg, false, &tv[1]);

	return path ? set_path_times(s, path, tv, 213) :
		      ftp_session_reply(s, 501, "Syntax: MFMT YYYYMMDDhhmmss <path>");
}

/* "MDTM TIME PATH" sets the time, for clients older than MFMT, unless the whole argument is the
 * name of an existing file. */
int cmd_mdtm(struct ftp_session *s, char *arg)
{
	CLEANUP_FREE char *path = ftp_session_path(s, arg);
	struct timespec tv[2] = { { .tv_nsec = UTIME_OMIT } };
	const char *target = parse_time_and_path(arg, false, &tv[1]);
	struct stat st;
	char text[32];
	int rc;

	if (target && !(path && root_stat(s->account.root, path, false, &st) == 0)) {
		rc = session_check(s, FTP_NEEDS_CHANGE);
		return rc ? rc : set_path_times(s, target, tv, 213);
	}

	free(path);
	path = session_arg_path(s, arg);
	if (!path)
		return 0;
	rc = root_stat(s->account.root, path, true, &st);
	if (rc < 0)
		return session_reply_errno(s, rc, path);
	ftp_time_format(text, st.st_mtim.tv_sec, (uint32_t)st.st_mtim.tv_nsec);
	return ftp_session_reply(s, 213, "%s", text);
}

/* Parse "path atime mtime ctime UTC" and cut it after the path. ctime cannot be set. */
static bool parse_three_times(char *arg, struct timespec tv[2])
{
	struct timespec t[3];
	char *space = strrchr(arg, ' ');

	if (!space || strcasecmp(space, " UTC"))
		return false;
	for (int i = 2; i >= 0; i--) {
		char *end = space;

		for (space = end; space > arg && space[-1] != ' '; space--)
			;
		if (space-- == arg ||
		    !parse_time(space + 1, (size_t)(end - space - 1), true, &t[i]))
			return false;
	}
	if (space == arg)
		return false;
	*space = '\0';
	tv[0] = t[0];
	tv[1] = t[1];
	return true;
}

/* Clients send one time before the path, or three and their zone after it. */
static int site_utime(struct ftp_session *s, char *arg)
{
	struct timespec tv[2] = { { .tv_nsec = UTIME_OMIT } };
	const char *path = arg;

	if (!parse_three_times(arg, tv))
		path = parse_time_and_path(arg, true, &tv[1]);
	return path ? set_path_times(s, path, tv, 200) :
		      ftp_session_reply(s, 501, "Syntax: SITE UTIME YYYYMMDDhhmm[ss] <path>, or "
					"SITE UTIME <path> <atime> <mtime> <ctime> UTC");
}

/* ---- SITE ---- */

static int site_help(struct ftp_session *s, char *arg)
{
	return ftp_session_reply(s, 214, "SITE commands:\n CHMOD <octal mode> <path>\n"
				 " UTIME YYYYMMDDhhmm[ss] <path>\n"
				 " UTIME <path> <atime> <mtime> <ctime> UTC\n STATUS\n"
				 " FACTS [<path>]\n JOIN <size> <seconds> <nanoseconds> <set> "
				 "{<length>:<CRC32C>,...|-} <path>\n HELP\nEnd");
}

/* The running transfers of this user. */
static int site_status(struct ftp_session *s, char *arg)
{
	return s->c->status(s->c->arg, s);
}

/* The facts of this machine, and with a path the rates of the storage there. */
static int site_facts(struct ftp_session *s, char *arg)
{
	CLEANUP_FREE char *path = *arg ? ftp_session_path(s, arg) : NULL;

	if (*arg && !path)
		return ftp_session_reply(s, 451, "%s", NO_MEMORY);
	return s->c->facts(s->c->arg, s, path);
}

/* "LENGTH:CRC32C,...", in hex, of ranges that follow each other. Their number, or -EINVAL. */
static int parse_ranges(char *text, struct part_range ranges[RANGES_MOST])
{
	uint64_t at = 0;
	int n = 0;

	for (char *item; (item = strsep(&text, ",")); n++) {
		int used = 0;

		if (n == RANGES_MOST ||
		    sscanf(item, "%" SCNx64 ":%" SCNx32 "%n", &ranges[n].length, &ranges[n].sum,
			   &used) != 2 || item[used] || !ranges[n].length ||
		    ranges[n].length > INT64_MAX - at)
			return -EINVAL;
		ranges[n].offset = at;
		at += ranges[n].length;
	}
	return n;
}

static int join_poll(void *session)
{
	return session_poll_control(session);
}

/* "SIZE SECONDS NANOSECONDS SET RANGES PATH": a file that was sent in ranges is complete. With
 * "-" for the ranges, it is given up. */
static int site_join(struct ftp_session *s, char *arg)
{
	struct part_range *ranges CLEANUP_FREE = calloc(RANGES_MOST, sizeof(*ranges));
	struct part_spec spec = { .set_times = true, .keep_old = !s->account.can_change };
	struct part_ranges g = { .v = ranges, .unseen = !s->account.can_see, .poll = join_poll,
				 .arg = s };
	CLEANUP_FREE char *path = NULL;
	struct err e = ERR_INIT;
	int used = 0, n = -EINVAL, rc;
	char set[33], *name;

	spec.meta = (struct meta){ .type = FT_FILE };
	if (!ranges)
		return ftp_session_reply(s, 451, NO_MEMORY);
	if (sscanf(arg, "%" SCNu64 " %" SCNd64 " %" SCNu32 " %32s %n", &spec.meta.size,
		   &spec.meta.mtime_s, &spec.meta.mtime_ns, set, &used) == 4 && used &&
	    spec.meta.size <= INT64_MAX && spec.meta.mtime_ns < 1000000000 &&
	    !parse_hex(set, spec.set.id, sizeof(spec.set.id))) {
		arg += used;
		name = strchr(arg, ' ');
		if (name)
			*name++ = '\0';
		n = !name ? -EINVAL : strcmp(arg, "-") ? parse_ranges(arg, ranges) : 0;
	}
	if (n < 0)
		return ftp_session_reply(s, 501, "Syntax: SITE JOIN <size> <seconds> <nanoseconds> "
					 "<set> {<length>:<CRC32C>,...|-} <path>");

	spec.meta.atime_s = spec.meta.mtime_s;
	spec.meta.atime_ns = spec.meta.mtime_ns;
	path = session_change_path(s, name);
	if (!path)
		return 0;
	g.n = (size_t)n;
	rc = root_join(s->account.root, s->dirs, path, &spec, &g, &e);
	if (rc == -ECANCELED)
		return data_reply(s, rc, path);
	if (rc < 0 && *e.text)
		return ftp_session_reply(s, rc == -EBUSY ? 450 : 550, "%s", e.text);
	return rc < 0 ? session_reply_errno(s, rc, path) : ftp_session_reply(s, 200, "Done");
}

int cmd_site(struct ftp_session *s, char *arg)
{
	static const struct {
		const char *name;
		enum ftp_needs needs;
		ftp_handler *run;
	} commands[] = {
		{ "CHMOD", FTP_NEEDS_CHANGE, site_chmod },
		{ "UTIME", FTP_NEEDS_CHANGE, site_utime },
		{ "STATUS", FTP_NEEDS_NOTHING, site_status },
		{ "FACTS", FTP_NEEDS_NOTHING, site_facts },
		{ "JOIN", FTP_NEEDS_CREATE, site_join },
		{ "HELP", FTP_NEEDS_NOTHING, site_help },
	};
	size_t len = strcspn(arg, " ");

	for (size_t i = 0; i < sizeof(commands) / sizeof(commands[0]); i++) {
		int rc;

		if (strlen(commands[i].name) != len || strncasecmp(commands[i].name, arg, len))
			continue;
		rc = session_check(s, commands[i].needs);
		return rc ? rc : commands[i].run(s, arg + len + (arg[len] == ' '));
	}
	return ftp_session_reply(s, 504, "SITE knows only CHMOD, UTIME, STATUS, FACTS, JOIN and "
				 "HELP");
}

/* ---- HASH ---- */

int cmd_hash(struct ftp_session *s, char *path)
{
	CLEANUP_CLOSE int fd = root_open(s->account.root, path,
					 O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC, 0);
	const char *algorithm = digest_names()[s->agreed.hash];
	CLEANUP_FREE char *buf = malloc(HASH_BYTES);
	CLEANUP_FREE char *name = NULL;
	char hex[2 * DIGEST_MAX + 1];
	uint64_t size = 0;
	struct digest *d;
	struct stat st;
	ssize_t n = 0;
	int rc;

	if (fd < 0)
		return session_reply_errno(s, fd, path);
	if (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode))
		return session_not_plain(s, 553, path);

	d = digest_new(algorithm);
	rc = d && buf ? 0 : -ENOMEM;
	posix_fadvise(fd, 0, 0, POSIX_FADV_SEQUENTIAL);
	while (rc == 0 && (n = pread_full(fd, buf, HASH_BYTES, (off_t)size)) > 0) {
		size += (uint64_t)n;
		rc = digest_update(d, buf, (size_t)n);
		if (rc == 0)
			rc = session_poll_control(s); /* -ECANCELED: ABOR arrived */
	}

	if (rc == 0)
		rc = n < 0 ? (int)n : digest_final_hex(d, hex);
	digest_free(d);
	if (rc < 0)
		return data_reply(s, rc, path);

	/* draft-bryan-ftpext-hash: name, range with its last byte included, digest, path. */
	name = session_name(s, path);
	return ftp_session_reply(s, 213, "%s 0-%" PRIu64 " %s %s", algorithm,
				 size ? size - 1 : 0, hex, name ? name : "");
}
