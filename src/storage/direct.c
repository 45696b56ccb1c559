// SPDX-License-Identifier: Apache-2.0
/* Direct I/O: where it may pay, what it must be aligned to, and what goes through the
 * page cache all the same. */
#include "storage/device.h"
#include "storage/engine.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Less is often legal (the device's sector) and always slow: the filesystem then reads
 * the rest of its block. Blocks and runs are multiples of it anyway. */
#define DIRECT_ALIGN 4096u
#define BOUNCE_MAX (1u << 20)

/* ---- alignment ---- */

/* As the filesystem tells it (Linux 6.1): 1 with *align, 0 being "no direct I/O here";
 * or 0: it does not tell. */
static int told_alignment(int fd, uint32_t *align)
{
#ifdef STATX_DIOALIGN
	struct statx sx;

	if (statx(fd, "", AT_EMPTY_PATH, STATX_DIOALIGN, &sx) < 0 ||
	    !(sx.stx_mask & STATX_DIOALIGN))
		return 0;
	*align = sx.stx_dio_mem_align > sx.stx_dio_offset_align ?
		 sx.stx_dio_mem_align : sx.stx_dio_offset_align;
	return 1;
#else
	(void)fd;
	(void)align;
	return 0;
#endif
}

uint32_t direct_alignment(int fd)
{
	enum storage_class class = class_by_magic(fd);
	uint32_t align = 0;
	struct stat st;
	long sector;

	if (fstat(fd, &st) < 0 || !(S_ISREG(st.st_mode) || S_ISBLK(st.st_mode)))
		return 0;
	if (class == STORAGE_MEMORY || class == STORAGE_NETWORK)
		return 0;
	if (told_alignment(fd, &align)) {
		if (align == 0)
			return 0;
	} else {
		sector = queue_number(SYSFS, device_of(fd), "logical_block_size");
		if (sector <= 0)
			return 0;
		align = (uint32_t)sector;
	}
	return align > DIRECT_ALIGN ? align : DIRECT_ALIGN;
}

/* ---- what is not aligned ---- */

/* fd's file opened once more. */
static int reopen(int fd, int flags)
{
	char path[64];
	int r;

	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	r = open(path, flags | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
	return r < 0 ? -errno : r;
}

uint32_t direct_part(const struct io_op *op, uint32_t done)
{
	uintptr_t p = (uintptr_t)op->data + done;
	uint64_t at = op->offset + done;
	int flags = fcntl(op->fd, F_GETFL);

	if (flags < 0 || !(flags & O_DIRECT) || p % DIRECT_ALIGN || at % DIRECT_ALIGN)
		return 0;
	return (op->len - done) & ~(DIRECT_ALIGN - 1);
}

int64_t direct_rest(const struct io_op *op, uint32_t done)
{
	int flags = fcntl(op->fd, F_GETFL);
	struct io_op plain = *op;
	int64_t r;

	if (flags < 0 || !(flags & O_DIRECT))
		return -EINVAL;
	plain.fd = reopen(op->fd, op->write ? O_WRONLY : O_RDONLY);
	if (plain.fd >= 0) {
		r = posix_rest(&plain, done);
		close(plain.fd);
		return r;
	}
	/* No /proc, or no right to open what was handed to us open: then the flag goes, for
	 * good. Putting it back would race with other threads that do the same. */
	if (fcntl(op->fd, F_SETFL, flags & ~O_DIRECT) < 0)
		return -errno;
	return posix_rest(op, done);
}

/* ---- reading from the medium ---- */

/* len bytes at offset through a bounce buffer of size bytes, all aligned. */
static int read_bounced(int fd, uint64_t offset, uint8_t *out, size_t len, uint8_t *bounce,
			size_t size, uint32_t align)
{
	uint64_t from;
	size_t skip, n;
	ssize_t got;

	while (len > 0) {
		from = offset - offset % align;
		skip = (size_t)(offset - from);
		n = size - skip < len ? size - skip : len;
		do {
			got = pread(fd, bounce, (skip + n + align - 1) / align * align,
				    (off_t)from);
		} while (got < 0 && errno == EINTR);
		if (got < 0)
			return -errno;
		if ((size_t)got <= skip)
			return -ENODATA;
		if ((size_t)got - skip < n)
			n = (size_t)got - skip;
		memcpy(out, bounce + skip, n);
		offset += n;
		out += n;
		len -= n;
	}
	return 0;
}

/* As much as is aligned straight into out, the rest by way of a bounce buffer. fd is
 * O_DIRECT. */
static int read_direct(int fd, uint64_t offset, uint8_t *out, size_t len, uint32_t align)
{
	CLEANUP_FREE uint8_t *bounce = NULL;
	size_t size = BOUNCE_MAX, whole = 0;
	ssize_t got;

	if ((uintptr_t)out % align == 0 && offset % align == 0) {
		whole = len - len % align;
		got = pread_full(fd, out, whole, (off_t)offset);
		if (got < 0)
			return (int)got;
		if ((size_t)got < whole)
			return -ENODATA;
	}
	if (whole == len)
		return 0;
	if (size > len - whole + 2 * (size_t)align)
		size = (len - whole + 2 * (size_t)align) / align * align;
	bounce = aligned_alloc(align, size);
	if (!bounce)
		return -ENOMEM;
	return read_bounced(fd, offset + whole, out + whole, len - whole, bounce, size, align);
}

/* The file's own descriptor after its cached pages have been written and dropped. */
static int read_dropped(int fd, uint64_t offset, void *out, size_t len)
{
	ssize_t got;
	int r;

	/* EBADF, EROFS, EINVAL: there is nothing to sync. */
	if (fdatasync(fd) < 0 && errno != EBADF && errno != EROFS && errno != EINVAL)
		return -errno;
	r = posix_fadvise(fd, (off_t)offset, (off_t)len, POSIX_FADV_DONTNEED);
	if (r)
		log_debug("posix_fadvise: %s", strerror(r));
	got = pread_full(fd, out, len, (off_t)offset);
	if (got < 0)
		return (int)got;
	return (size_t)got < len ? -ENODATA : 0;
}

int read_past_cache(int fd, uint64_t offset, void *out, size_t len)
{
	uint32_t align = direct_alignment(fd);
	CLEANUP_CLOSE int direct = -1;
	CLEANUP_CLOSE int plain = -1;
	int r = FAULT("read", len);

	if (r < 0)
		return r;
	if (align)
		direct = reopen(fd, O_RDONLY | O_DIRECT);
	if (direct >= 0) {
		r = read_direct(direct, offset, out, len, align);
		if (r != -EINVAL)
			return r;
	}
	/* A writer's descriptor may not be one to read from. */
	plain = reopen(fd, O_RDONLY);
	return read_dropped(plain >= 0 ? plain : fd, offset, out, len);
}
