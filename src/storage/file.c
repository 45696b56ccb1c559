// SPDX-License-Identifier: Apache-2.0
/* Sets owner, mode and times by descriptor, also of a part before its commit; extended attributes;
 * data ranges and the disk address of a file. */
#include "storage/internal.h"

#include "proto/proto.h"

#include <fcntl.h>
#include <linux/fiemap.h>
#include <linux/fs.h>
#include <linux/limits.h>
#include <sys/ioctl.h>
#include <sys/xattr.h>

/* ---- by descriptor ---- */

const char *fd_path(char out[FD_PATH_MAX], int fd)
{
	snprintf(out, FD_PATH_MAX, "/proc/self/fd/%d", fd);
	return out;
}

/* Refuse a link first: some kernels change the mode of a link and still report an error. */
int fd_chmod(int fd, mode_t mode)
{
	char proc[FD_PATH_MAX];
	struct stat st;

	if (fstat(fd, &st))
		return -errno;
	if (S_ISLNK(st.st_mode))
		return -EOPNOTSUPP;
	return chmod(fd_path(proc, fd), mode) ? -errno : 0;
}

int fd_chown(int fd, uid_t uid, gid_t gid)
{
	return fchownat(fd, "", uid, gid, AT_EMPTY_PATH) ? -errno : 0;
}

/* Use /proc: before Linux 5.8 utimensat(2) does not know AT_EMPTY_PATH. */
int fd_utimens(int fd, const struct timespec t[2])
{
	char proc[FD_PATH_MAX];

	return utimensat(AT_FDCWD, fd_path(proc, fd), t, 0) ? -errno : 0;
}

/* ---- attributes of a part before its commit ---- */

mode_t mode_to_give(uint32_t wanted, bool owner_given, mode_t has)
{
	return (wanted & 0777) | ((owner_given && geteuid() == 0 ? wanted : has) & 07000);
}

/* With set_owner special bits are safe: attrs_set() fails if it cannot set the owner. The 0 below:
 * a new file has no special bits to keep. */
mode_t attrs_mode(const struct part_spec *s, int64_t old)
{
	if (s->set_mode)
		return mode_to_give(s->meta.mode, s->set_owner, 0);
	/* no special bits: the old file's trust does not extend to new contents */
	if (old >= 0)
		return (mode_t)old & 0777;
	return s->meta.mode ? s->meta.mode & 0777 : 0666;
}

int attrs_set(int fd, const struct part_spec *s, int64_t mode)
{
	const struct meta *m = &s->meta;
	struct timespec t[2] = {
		{ .tv_sec = m->atime_s, .tv_nsec = m->atime_ns },
		{ .tv_sec = m->mtime_s, .tv_nsec = m->mtime_ns },
	};
	struct stat now = { 0 };
	bool chowned = false;

	if ((s->set_owner || mode >= 0) && fstat(fd, &now))
		return -errno;
	if (s->set_owner && (now.st_uid != m->uid || now.st_gid != m->gid)) {
		if (fchown(fd, m->uid, m->gid))
			return -errno;
		chowned = true;
	}

	/* after the data and the owner: write(2) and chown(2) clear setuid */
	if (mode >= 0 && ((now.st_mode & 07777) != mode || (chowned && (mode & 07000))) &&
	    fchmod(fd, (mode_t)mode))
		return -errno;

	if (m->atime_s == 0 && m->atime_ns == 0)
		t[0].tv_nsec = UTIME_OMIT; /* not known */
	return s->set_times && futimens(fd, t) ? -errno : 0;
}

/* ---- extended attributes ---- */

static bool xattr_travels(const char *name)
{
	return !strncmp(name, "user.", 5) || !strcmp(name, "system.posix_acl_access") ||
	       !strcmp(name, "system.posix_acl_default");
}

int xattrs_get(int fd, struct buf *b)
{
	size_t before = buf_len(b);
	char path[FD_PATH_MAX], value[XATTR_SIZE_MAX], *names CLEANUP_FREE = NULL;
	ssize_t n;
	int r = 0;

	fd_path(path, fd); /* the f... calls refuse O_PATH descriptors */
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
		if (xattr_travels(p)) {
			ssize_t len = getxattr(path, p, value, sizeof(value));

			if (len >= 0)
				r = bulk_xattr_put(b, p, value, (size_t)len);
			else if (errno != ENODATA)
				r = -errno;
		}
	return r ? r : buf_len(b) - before > BULK_XATTRS_MAX ? -E2BIG : 0;
}

static int attrs_malformed(const char *shown, int code, struct err *e)
{
	return err_set(e, code, "%s: malformed extended attributes", printable(shown));
}

int xattrs_set(int fd, const uint8_t *x, uint32_t len, const char *shown, struct err *e)
{
	char path[FD_PATH_MAX], name[XATTR_NAME_MAX + 1];
	const uint8_t *value;
	const char *at;
	uint32_t pos = 0;
	size_t n, size;
	int r;

	fd_path(path, fd);
	while ((r = bulk_xattr_next(x, len, &pos, &at, &n, &value, &size)) == 1) {
		if (n > XATTR_NAME_MAX)
			return attrs_malformed(shown, -EBADMSG, e);
		memcpy(name, at, n);
		name[n] = '\0';
		/* Accept from a peer only attributes that this side would send. */
		if (!xattr_travels(name))
			return err_set(e, -EPERM, "%s: attribute %s is not copied between hosts",
				       printable(shown), printable(name));
		if (setxattr(path, name, value, size, 0))
			return err_sys(e, -errno, "%s: attribute %s", printable(shown),
				       printable(name));
	}

	return r ? attrs_malformed(shown, r, e) : 0;
}

/* Find the attribute with this name of n bytes; value NULL: with any value. */
static bool xattr_is_in(const char *name, size_t n, const uint8_t *value, size_t size,
			const uint8_t *x, uint32_t len)
{
	uint32_t pos = 0;
	const uint8_t *v;
	const char *at;
	size_t at_n, v_size;

	while (bulk_xattr_next(x, len, &pos, &at, &at_n, &v, &v_size) == 1)
		if (at_n == n && !memcmp(at, name, n))
			return !value || (v_size == size && !memcmp(v, value, size));
	return false;
}

int xattrs_differ(int fd, const uint8_t *x, uint32_t len)
{
	struct buf *has CLEANUP_BUF = buf_new(2 * BULK_XATTRS_MAX);
	int r = has ? xattrs_get(fd, has) : -ENOMEM;
	uint32_t pos = 0;
	const uint8_t *value;
	const char *at;
	size_t n, size;

	if (r || buf_len(has) != len)
		return r ? r : 1;
	while (bulk_xattr_next(x, len, &pos, &at, &n, &value, &size) == 1)
		if (!xattr_is_in(at, n, value, size, buf_ptr(has), len))
			return 1;
	return 0;
}

int xattrs_correct(int fd, const uint8_t *x, uint32_t len, const char *shown, struct err *e)
{
	struct buf *has CLEANUP_BUF = buf_new(2 * BULK_XATTRS_MAX);
	char path[FD_PATH_MAX], name[XATTR_NAME_MAX + 1];
	uint32_t pos = 0;
	const uint8_t *value;
	const char *at;
	size_t n, size;
	int r = has ? xattrs_get(fd, has) : -ENOMEM;

	if (r)
		return err_sys(e, r, "%s: attributes", printable(shown));
	/* Set them first: without its ACL a file may be open to more accounts. */
	r = xattrs_set(fd, x, len, shown, e);
	fd_path(path, fd);
	while (!r && bulk_xattr_next(buf_ptr(has), (uint32_t)buf_len(has), &pos, &at, &n, &value,
			       &size) == 1) {
		memcpy(name, at, n);
		name[n] = '\0';
		if (!xattr_is_in(at, n, NULL, 0, x, len) && removexattr(path, name) && errno != ENODATA)
			r = err_sys(e, -errno, "%s: attribute %s", printable(shown),
				    printable(name));
	}
	return r;
}

/* ---- the data of a sparse file ---- */

/* The first data (SEEK_DATA) or hole (SEEK_HOLE) from at on, at most size; or a negative errno. */
static int64_t next_boundary(int fd, uint64_t at, int whence, uint64_t size)
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
		int64_t from = next_boundary(fd, at, SEEK_DATA, size), to;
		int r;

		if (from < 0) /* the filesystem cannot tell: the rest counts as data */
			return fn(arg, at, size - at);
		if ((uint64_t)from >= size)
			return 0;
		to = next_boundary(fd, (uint64_t)from, SEEK_HOLE, size);
		if (to <= from) /* a hole punched meanwhile, or a wrong result: do not loop */
			to = (int64_t)size;
		r = fn(arg, (uint64_t)from, (uint64_t)(to - from));
		if (r)
			return r;
		at = (uint64_t)to;
	}

	return 0;
}

/* ---- the address of a file on its disk ---- */

/* The first extent between from and from + len. False: none, or the filesystem does not report it.
 * No FIEMAP_FLAG_SYNC: data that is not yet on the disk is in memory, so a read of it does not move
 * the disk's heads. */
static bool first_extent(int fd, uint64_t from, uint64_t len, struct fiemap_extent *x)
{
	union {
		struct fiemap map;
		uint8_t room[sizeof(struct fiemap) + sizeof(struct fiemap_extent)];
	} q = { .room = { 0 } };

	q.map.fm_start = from;
	q.map.fm_length = len;
	q.map.fm_extent_count = 1;
	if (ioctl(fd, FS_IOC_FIEMAP, &q.map) < 0 || !q.map.fm_mapped_extents)
		return false;
	*x = q.map.fm_extents[0];
	return !(x->fe_flags & FIEMAP_EXTENT_UNKNOWN);
}

uint64_t file_address(int fd)
{
	struct fiemap_extent x;

	return first_extent(fd, 0, FIEMAP_MAX_OFFSET, &x) ? x.fe_physical : ADDRESS_UNKNOWN;
}

uint64_t file_address_at(int fd, uint64_t offset)
{
	struct fiemap_extent x;

	if (!first_extent(fd, offset, 1, &x) || x.fe_flags & FIEMAP_EXTENT_UNWRITTEN ||
	    x.fe_logical > offset)
		return ADDRESS_UNKNOWN;
	return x.fe_physical + (offset - x.fe_logical);
}
