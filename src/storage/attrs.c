// SPDX-License-Identifier: Apache-2.0
/* Owner, mode and times of a file that is about to get its name. */
#include "storage/part.h"

#include <errno.h>
#include <unistd.h>

mode_t attrs_mode(const struct part_spec *s, int64_t old)
{
	if (s->set_mode)
		return s->meta.mode & 07777;
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
