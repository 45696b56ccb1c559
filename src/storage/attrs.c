// SPDX-License-Identifier: Apache-2.0
/* Owner, mode and times: of a file that is about to get its name, and by descriptor. */
#include "storage/part.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

/* ---- by descriptor ---- */

const char *fd_path(char out[FD_PATH_MAX], int fd)
{
	snprintf(out, FD_PATH_MAX, "/proc/self/fd/%d", fd);
	return out;
}

/* Some kernels set the mode of a link and still report an error, hence the look first. */
int fd_chmod(int fd, mode_t mode)
{
	char proc[FD_PATH_MAX];
	struct stat st;

	if (fstat(fd, &st))
		return -errno;
	if (S_ISLNK(st.st_mode))
		return -EOPNOTSUPP;
	return chmod(fd_path(proc, fd), mode) ? -errno : 0;
}

int fd_chown(int fd, uid_t uid, gid_t gid)
{
	return fchownat(fd, "", uid, gid, AT_EMPTY_PATH) ? -errno : 0;
}

/* By /proc: before Linux 5.8 utimensat takes no AT_EMPTY_PATH. */
int fd_utimens(int fd, const struct timespec t[2])
{
	char proc[FD_PATH_MAX];

	return utimensat(AT_FDCWD, fd_path(proc, fd), t, 0) ? -errno : 0;
}

/* ---- of a file that is about to get its name ---- */

mode_t mode_to_give(uint32_t wanted, bool owner_given, mode_t has)
{
	return (wanted & 0777) | ((owner_given && geteuid() == 0 ? wanted : has) & 07000);
}

/* attrs_set() fails unless the owner can be given. A new file has no special bits. */
mode_t attrs_mode(const struct part_spec *s, int64_t old)
{
	if (s->set_mode)
		return mode_to_give(s->meta.mode, s->set_owner, 0);
	/* new bytes do not inherit what the old ones were trusted with */
	if (old >= 0)
		return (mode_t)old & 0777;
	return s->meta.mode ? s->meta.mode & 0777 : 0666;
}

/* What fd's owner and mode are now. */
static int look(int fd, const struct part_spec *s, int64_t made, struct dir_made *now)
{
	struct stat st;

	if (made >= 0 && dir_made(s->dir, (uint32_t)made, now))
		return 0;
	if (fstat(fd, &st))
		return -errno;
	*now = (struct dir_made){ st.st_mode & 07777, st.st_uid, st.st_gid };
	if (made >= 0)
		dir_learn_made(s->dir, (uint32_t)made, now);
	return 0;
}

static int set_times(int fd, const struct meta *m)
{
	struct timespec t[2] = {
		{ .tv_sec = m->atime_s, .tv_nsec = m->atime_ns },
		{ .tv_sec = m->mtime_s, .tv_nsec = m->mtime_ns },
	};

	if (m->atime_s == 0 && m->atime_ns == 0)
		t[0].tv_nsec = UTIME_OMIT; /* not known */
	return futimens(fd, t) ? -errno : 0;
}

int attrs_set(int fd, const struct part_spec *s, int64_t mode, int64_t made)
{
	struct dir_made now;
	bool chowned = false;
	int r = look(fd, s, made, &now);

	if (r)
		return r;
	if (s->set_owner && (now.uid != s->meta.uid || now.gid != s->meta.gid)) {
		if (fchown(fd, s->meta.uid, s->meta.gid))
			return -errno;
		chowned = true;
	}
	/* after the data and the owner: writes and chown take setuid away */
	if (mode >= 0 && (now.mode != mode || (chowned && (mode & 07000))) &&
	    fchmod(fd, (mode_t)mode))
		return -errno;
	return s->set_times ? set_times(fd, &s->meta) : 0;
}
