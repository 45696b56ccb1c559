// SPDX-License-Identifier: Apache-2.0
/* Reads and sets extended attributes. */
#include "transfer/xattrs.h"

#include "proto/proto.h"

#include <errno.h>
#include <linux/limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/xattr.h>

/* By way of /proc, because the f... calls refuse O_PATH descriptors. */
static void proc_path(char path[64], int fd)
{
	snprintf(path, 64, "/proc/self/fd/%d", fd);
}

static bool travels(const char *name)
{
	return !strncmp(name, "user.", 5) || !strcmp(name, "system.posix_acl_access") ||
	       !strcmp(name, "system.posix_acl_default");
}

static int get_one(const char *path, const char *name, struct buf *b)
{
	char value[XATTR_SIZE_MAX];
	ssize_t n = getxattr(path, name, value, sizeof(value));

	if (n < 0)
		return errno == ENODATA ? 0 : -errno;
	return bulk_xattr_put(b, name, value, (size_t)n);
}

int xattrs_get(int fd, struct buf *b)
{
	size_t before = buf_len(b);
	char path[64], *names CLEANUP_FREE = NULL;
	ssize_t n;
	int r = 0;

	proc_path(path, fd);
	n = listxattr(path, NULL, 0);
	if (n <= 0)
		return n == 0 || errno == EOPNOTSUPP ? 0 : -errno;
	names = malloc((size_t)n);
	if (!names)
		return -ENOMEM;
	n = listxattr(path, names, (size_t)n);
	if (n < 0)
		return -errno;
	for (char *p = names; p < names + n && !r; p += strlen(p) + 1)
		if (travels(p))
			r = get_one(path, p, b);
	return r ? r : buf_len(b) - before > BULK_XATTRS_MAX ? -E2BIG : 0;
}

int xattrs_set(int fd, const uint8_t *x, uint32_t len, const char *shown, struct err *e)
{
	char path[64], name[XATTR_NAME_MAX + 1];
	const uint8_t *value;
	const char *at;
	uint32_t pos = 0;
	size_t n, size;
	int r;

	proc_path(path, fd);
	while ((r = bulk_xattr_next(x, len, &pos, &at, &n, &value, &size)) == 1) {
		if (n > XATTR_NAME_MAX)
			return err_set(e, -EBADMSG, "%s: malformed extended attributes",
				       printable(shown));
		memcpy(name, at, n);
		name[n] = '\0';
		/* A peer may ask for no more than we would send. */
		if (!travels(name))
			return err_set(e, -EPERM, "%s: attribute %s does not travel",
				       printable(shown), printable(name));
		if (setxattr(path, name, value, size, 0))
			return err_sys(e, -errno, "%s: attribute %s", printable(shown),
				       printable(name));
	}
	return r ? err_set(e, r, "%s: malformed extended attributes", printable(shown)) : 0;
}
