// SPDX-License-Identifier: Apache-2.0
/* Makes the holes of a sparse file where there may be other bytes. */
#include "transfer/sink.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>

static int write_zeros(int fd, uint64_t at, uint64_t end)
{
	static const uint8_t zeros[65536];
	int r = 0;

	while (at < end && !r) {
		size_t n = end - at < sizeof(zeros) ? (size_t)(end - at) : sizeof(zeros);

		r = pwrite_full(fd, zeros, n, (off_t)at);
		at += n;
	}
	return r;
}

/* From at to end, where the file, which goes up to now, has anything. */
static int make_hole(int fd, uint64_t at, uint64_t end, uint64_t now)
{
	if (end > now)
		end = now;
	if (at >= end)
		return 0;
	if (!fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t)at,
		       (off_t)(end - at)))
		return 0;
	return errno == EOPNOTSUPP || errno == ENOSYS ? write_zeros(fd, at, end) : -errno;
}

int make_holes(int fd, uint64_t size, const uint8_t *ranges, uint32_t n)
{
	uint64_t at = 0;
	struct stat st;
	int r = fstat(fd, &st) ? -errno : 0;

	for (uint32_t i = 0; i < n && !r; i++) {
		struct bulk_range g = bulk_range_at(ranges, i);

		r = make_hole(fd, at, g.offset, (uint64_t)st.st_size);
		at = g.offset + g.length;
	}
	return r ? r : make_hole(fd, at, size, (uint64_t)st.st_size);
}
