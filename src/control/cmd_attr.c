// SPDX-License-Identifier: Apache-2.0
/* Modes and times are set: SITE CHMOD, SITE UTIME, MFMT, and MDTM as clients use it to set. */
#include "control/session.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>

/* ---- of a path ---- */

/* The root's rules say whether a link at the end is followed, not the kernel's. */
static int change_mode(struct root *root, const char *path, mode_t mode, bool *special)
{
	CLEANUP_CLOSE int fd = root_open(root, path, O_PATH | O_CLOEXEC, 0);
	struct stat st;

	if (fd < 0)
		return fd;
	if (fstat(fd, &st))
		return -errno;
	/* These bits can be taken away, but not given: FTP says nothing of owners. */
	*special = mode & 07000 & ~st.st_mode;
	return *special ? -EPERM : fd_chmod(fd, mode);
}

/* tv: access and modification. */
static int change_times(struct root *root, const char *path, const struct timespec tv[2])
{
	CLEANUP_CLOSE int fd = root_open(root, path, O_PATH | O_CLOEXEC, 0);

	return fd < 0 ? fd : fd_utimens(fd, tv);
}

/* ---- times in commands ---- */

/* YYYYMMDDhhmmss[.fraction], and where loose also without its seconds; len bytes of text. */
static bool take_time(const char *text, size_t len, bool loose, struct timespec *t)
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

/* "time path": the time, and where the path is; NULL when there are not both. */
static const char *time_and_path(const char *arg, bool loose, struct timespec *t)
{
	size_t len = strcspn(arg, " ");

	if (!arg[len] || !arg[len + 1] || !take_time(arg, len, loose, t))
		return NULL;
	return arg + len + 1;
}

/* With code 213 the reply tells the time (draft-somers-ftp-mfxx §3.1). */
static int set_times(struct ftp_session *s, const char *arg, const struct timespec tv[2], int code)
{
	CLEANUP_FREE char *path = session_change_path(s, arg);
	CLEANUP_FREE char *name = NULL;
	char text[32];
	int rc;

	if (!path)
		return 0;
	rc = change_times(s->account.root, path, tv);
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
	const char *path = time_and_path(arg, false, &tv[1]);

	return path ? set_times(s, path, tv, 213) :
		      ftp_session_reply(s, 501, "Syntax: MFMT YYYYMMDDhhmmss <path>");
}

/* A file may have a name like that. */
static bool is_there(struct ftp_session *s, const char *arg)
{
	CLEANUP_FREE char *path = ftp_session_path(s, arg);
	struct stat st;

	return path && root_stat(s->account.root, path, false, &st) == 0;
}

int session_mdtm_sets(struct ftp_session *s, const char *arg, bool *sets)
{
	struct timespec tv[2] = { { .tv_nsec = UTIME_OMIT } };
	const char *path = time_and_path(arg, false, &tv[1]);

	int rc;

	*sets = path && !is_there(s, arg);
	rc = *sets ? session_check(s, FTP_NEEDS_CHANGE) : 1;
	if (rc)
		return rc < 0 ? rc : 0;
	return set_times(s, path, tv, 213);
}

/* ---- SITE ---- */

static int site_chmod(struct ftp_session *s, char *arg)
{
	CLEANUP_FREE char *path = NULL;
	size_t len = strspn(arg, "01234567");
	bool special = false;
	int rc;

	if (len < 1 || len > 5 || arg[len] != ' ' || !arg[len + 1])
		return ftp_session_reply(s, 501, "Syntax: SITE CHMOD <octal mode> <path>");
	path = session_change_path(s, arg + len + 1);
	if (!path)
		return 0;
	rc = change_mode(s->account.root, path, (mode_t)strtoul(arg, NULL, 8) & 07777, &special);
	if (special)
		return session_reply_about(s, 550, path, "Permission denied: set-user-id, "
					   "set-group-id and sticky bits are not given");
	return rc < 0 ? session_reply_errno(s, rc, path) : ftp_session_reply(s, 200, "Done");
}

/* Cut "path atime mtime ctime UTC" behind the path; the last of them nobody can set. */
static bool cut_three_times(char *arg, struct timespec tv[2])
{
	struct timespec t[3];
	char *space = strrchr(arg, ' ');

	if (!space || strcasecmp(space, " UTC"))
		return false;
	for (int i = 2; i >= 0; i--) {
		char *end = space;

		for (space = end; space > arg && space[-1] != ' '; space--)
			;
		if (space-- == arg || !take_time(space + 1, (size_t)(end - space - 1), true, &t[i]))
			return false;
	}
	if (space == arg)
		return false;
	*space = '\0';
	tv[0] = t[0];
	tv[1] = t[1];
	return true;
}

/* Both ways in which clients say it: one time before the path, or three and their zone behind. */
static int site_utime(struct ftp_session *s, char *arg)
{
	struct timespec tv[2] = { { .tv_nsec = UTIME_OMIT } };
	const char *path = arg;

	if (!cut_three_times(arg, tv))
		path = time_and_path(arg, true, &tv[1]);
	return path ? set_times(s, path, tv, 200) :
		      ftp_session_reply(s, 501, "Syntax: SITE UTIME YYYYMMDDhhmm[ss] <path>, or "
					"SITE UTIME <path> <atime> <mtime> <ctime> UTC");
}

static int site_help(struct ftp_session *s, char *arg)
{
	return ftp_session_reply(s, 214, "Of SITE there are:\n CHMOD <octal mode> <path>\n"
				 " UTIME YYYYMMDDhhmm[ss] <path>\n"
				 " UTIME <path> <atime> <mtime> <ctime> UTC\n HELP\nThat is all");
}

int cmd_site(struct ftp_session *s, char *arg)
{
	static const struct {
		const char *name;
		enum ftp_needs needs;
		int (*run)(struct ftp_session *s, char *arg);
	} kinds[] = {
		{ "CHMOD", FTP_NEEDS_CHANGE, site_chmod },
		{ "UTIME", FTP_NEEDS_CHANGE, site_utime },
		{ "HELP", FTP_NEEDS_NOTHING, site_help },
	};
	size_t len = strcspn(arg, " ");

	for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
		int rc;

		if (strlen(kinds[i].name) != len || strncasecmp(kinds[i].name, arg, len) != 0)
			continue;
		rc = session_check(s, kinds[i].needs);
		if (rc)
			return rc < 0 ? rc : 0;
		return kinds[i].run(s, arg + len + (arg[len] == ' '));
	}
	return ftp_session_reply(s, 504, "Of SITE only CHMOD, UTIME and HELP are known");
}
