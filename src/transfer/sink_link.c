// SPDX-License-Identifier: Apache-2.0
/* Makes symbolic and hard links that replace what has their name in one step. */
#include "transfer/sink.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static void temporary(char name[64])
{
	uint64_t r[2];

	crypto_random(r, sizeof(r));
	snprintf(name, 64, PART_PREFIX "%016llx%016llx", (unsigned long long)r[0],
		 (unsigned long long)r[1]);
}

/* Give the temporary its name. A rename between two names of one file does nothing and
 * leaves both, hence the unlink. */
static int settle(int dfd, const char *tmp, const char *name)
{
	int r = renameat(dfd, tmp, dfd, name) ? -errno : 0;

	unlinkat(dfd, tmp, 0);
	return r;
}

int put_symlink(int dfd, const char *name, const char *target, bool keep_old)
{
	char tmp[64];

	if (part_is_ours(name))
		return -EINVAL;
	if (!symlinkat(target, dfd, name))
		return 0;
	if (errno != EEXIST || keep_old)
		return -errno;
	temporary(tmp);
	if (symlinkat(target, dfd, tmp))
		return -errno;
	return settle(dfd, tmp, name);
}

int put_hardlink(int from_dfd, const char *from, int dfd, const char *name, bool keep_old)
{
	char tmp[64];

	if (part_is_ours(name))
		return -EINVAL;
	if (!linkat(from_dfd, from, dfd, name, 0))
		return 0;
	if (errno != EEXIST || keep_old)
		return -errno;
	temporary(tmp);
	if (linkat(from_dfd, from, dfd, tmp, 0))
		return -errno;
	return settle(dfd, tmp, name);
}

const char *put_link_why(int r, bool keep_old)
{
	if (r == -EINVAL)
		return PART_NAME_WHY;
	return r == -EEXIST && keep_old ? "exists, and may not be replaced" : strerror(-r);
}
