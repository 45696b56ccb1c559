// SPDX-License-Identifier: Apache-2.0
/* Makes symbolic and hard links that replace another file in one step. */
#include "transfer/sink.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

/* from_dfd < 0: a symbolic link to from. */
static int make_link(int from_dfd, const char *from, int dfd, const char *name)
{
	int r = from_dfd < 0 ? symlinkat(from, dfd, name) : linkat(from_dfd, from, dfd, name, 0);

	return r ? -errno : 0;
}

/* The temporary's name comes from the target's: a transfer that is killed before the rename
 * leaves files that the next one removes. */
static int put_link(int from_dfd, const char *from, struct dir *d, int dfd, const char *name,
		    bool keep_old)
{
	char temporary[PART_NAME_MAX];
	int r, held;

	if (part_is_ours(name))
		return -EINVAL;
	r = make_link(from_dfd, from, dfd, name);
	if (!r)
		part_clear(d, dfd, name);
	if (r != -EEXIST || keep_old)
		return r;
	held = part_hold(dfd, name, temporary);
	if (held < 0)
		return held;
	r = make_link(from_dfd, from, dfd, temporary);
	if (!r)
		r = FAULT("rename", 0);
	if (!r && renameat(dfd, temporary, dfd, name))
		r = -errno;
	/* A rename between two names of one file leaves both: part_release() removes one. */
	part_release(dfd, name, held, !r);
	return r;
}

int put_symlink(struct dir *d, int dfd, const char *name, const char *target, bool keep_old)
{
	return put_link(-1, target, d, dfd, name, keep_old);
}

int put_hardlink(int from_dfd, const char *from, struct dir *d, int dfd, const char *name,
		 bool keep_old)
{
	return put_link(from_dfd, from, d, dfd, name, keep_old);
}

const char *put_link_why(int r, bool keep_old)
{
	if (r == -EINVAL)
		return PART_NAME_WHY;
	if (r == -EBUSY)
		return "another transfer is writing it";
	return r == -EEXIST && keep_old ? "exists, and may not be replaced" : strerror(-r);
}
