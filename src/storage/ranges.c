// SPDX-License-Identifier: Apache-2.0
/* The data of a sparse file, range by range. */
#include "storage/storage.h"

#include <errno.h>
#include <unistd.h>

/* The next byte of data (SEEK_DATA) or hole (SEEK_HOLE) from at on, at most size. */
static int64_t next(int fd, uint64_t at, int whence, uint64_t size)
{
	off_t to = lseek(fd, (off_t)at, whence);

	if (to < 0)
		return errno == ENXIO ? (int64_t)size : -errno; /* ENXIO: none up to the end */
	return (uint64_t)to > size ? (int64_t)size : (int64_t)to;
}

int data_ranges(int fd, uint64_t size, int (*fn)(void *arg, uint64_t off, uint64_t len),
		void *arg)
{
	uint64_t at = 0;

	if (size > INT64_MAX)
		return -EFBIG;
	while (at < size) {
		int64_t from = next(fd, at, SEEK_DATA, size), to;
		int r;

		if (from < 0) /* the filesystem cannot tell: all that is left is data */
			return fn(arg, at, size - at);
		if ((uint64_t)from >= size)
			return 0;
		to = next(fd, (uint64_t)from, SEEK_HOLE, size);
		if (to <= from) /* punched meanwhile; or nonsense that would not end */
			to = (int64_t)size;
		r = fn(arg, (uint64_t)from, (uint64_t)(to - from));
		if (r)
			return r;
		at = (uint64_t)to;
	}
	return 0;
}
