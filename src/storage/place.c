// SPDX-License-Identifier: Apache-2.0
/* Where a file lies on its disk. */
#include "storage/storage.h"

#include <linux/fiemap.h>
#include <linux/fs.h>
#include <sys/ioctl.h>

uint64_t file_address(int fd)
{
	/* Not FIEMAP_FLAG_SYNC: what is not on the disk yet is still in memory, and costs
	 * no movement of heads. */
	union {
		struct fiemap map;
		uint8_t room[sizeof(struct fiemap) + sizeof(struct fiemap_extent)];
	} q = { .room = { 0 } };
	const struct fiemap_extent *first = q.map.fm_extents;

	q.map.fm_length = FIEMAP_MAX_OFFSET;
	q.map.fm_extent_count = 1;
	if (ioctl(fd, FS_IOC_FIEMAP, &q.map) < 0)
		return ADDRESS_UNKNOWN;
	if (!q.map.fm_mapped_extents || first->fe_flags & FIEMAP_EXTENT_UNKNOWN)
		return ADDRESS_UNKNOWN;
	return first->fe_physical;
}
