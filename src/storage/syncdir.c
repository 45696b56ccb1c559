// SPDX-License-Identifier: Apache-2.0
/* Brings the names in a directory to stable storage. */
#include "storage/storage.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

/* Only who may read a directory gets a descriptor that can be synced. Others have its whole
 * filesystem synced, by way of a file without a name; or, where there is none, all. */
static int sync_around(int dfd)
{
	int fd CLEANUP_CLOSE = openat(dfd, ".", O_TMPFILE | O_WRONLY | O_CLOEXEC, 0600);

	if (fd < 0) {
		sync();
		return 0;
	}
	return syncfs(fd) ? -errno : 0;
}

/* EINVAL: a filesystem without fsync for directories. */
static int sync_fd(int fd)
{
	return fsync(fd) && errno != EINVAL ? -errno : 0;
}

int sync_dir(int dfd)
{
	int fd CLEANUP_CLOSE = -1;
	int r = FAULT("sync", 0);

	if (r)
		return r;
	r = sync_fd(dfd);
	if (r != -EBADF)
		return r;
	fd = openat(dfd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC); /* it is O_PATH */
	if (fd >= 0)
		return sync_fd(fd);
	return errno == EACCES ? sync_around(dfd) : -errno;
}
