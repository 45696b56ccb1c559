// SPDX-License-Identifier: Apache-2.0
/* The destination has room for what is sent, and is seldom memory, as /tmp may be. */
#include "transfer/spill.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

int spill_open(int dfd)
{
	const char *base = getenv("TMPDIR");
	char name[4096];
	int fd = openat(dfd, ".", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);

	if (fd >= 0)
		return fd;
	snprintf(name, sizeof(name), "%s/rftp-XXXXXX", base && *base ? base : "/var/tmp");
	fd = mkostemp(name, O_CLOEXEC);
	if (fd < 0)
		return -errno;
	unlink(name);
	return fd;
}
