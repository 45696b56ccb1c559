// SPDX-License-Identifier: Apache-2.0
/* Finds the class of the storage below a descriptor: from the type of the filesystem, or else from
 * the device's attributes in sysfs. Measures its rates. */
#include "storage/internal.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/sysmacros.h>
#include <sys/vfs.h>

/* ---- the filesystem ---- */

/* f_type, see statfs(2); some have no constant in <linux/magic.h>. */
static const struct {
	uint32_t magic;
	enum storage_class class;
} known[] = {
	{ 0x01021994, STORAGE_MEMORY },  /* tmpfs */
	{ 0x858458f6, STORAGE_MEMORY },  /* ramfs */
	{ 0x958458f6, STORAGE_MEMORY },  /* hugetlbfs */
	{ 0x00006969, STORAGE_NETWORK }, /* NFS */
	{ 0x0000517b, STORAGE_NETWORK }, /* SMB */
	{ 0xff534d42, STORAGE_NETWORK }, /* CIFS */
	{ 0xfe534d42, STORAGE_NETWORK }, /* SMB2 */
	{ 0x00c36400, STORAGE_NETWORK }, /* Ceph */
	{ 0x5346414f, STORAGE_NETWORK }, /* OpenAFS */
	{ 0x6b414653, STORAGE_NETWORK }, /* kAFS */
	{ 0x01021997, STORAGE_NETWORK }, /* 9p */
	{ 0x0bd00bd0, STORAGE_NETWORK }, /* Lustre */
	{ 0x47504653, STORAGE_NETWORK }, /* GPFS */
	{ 0x19830326, STORAGE_NETWORK }, /* BeeGFS */
	{ 0x7461636f, STORAGE_NETWORK }, /* OCFS2 */
	{ 0x01161970, STORAGE_NETWORK }, /* GFS2 */
};

/* The class by the type of fd's filesystem; STORAGE_UNKNOWN: the device decides. */
static enum storage_class class_by_magic(int fd)
{
	struct statfs fs;
	struct stat st;

	/* The file of a block device is on devtmpfs, which tells nothing about the device. */
	if (fstat(fd, &st) < 0 || S_ISBLK(st.st_mode) || fstatfs(fd, &fs) < 0)
		return STORAGE_UNKNOWN;
	for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++)
		if (known[i].magic == (uint32_t)fs.f_type)
			return known[i].class;
	return STORAGE_UNKNOWN;
}

/* ---- the device of a filesystem ---- */

#define FDINFO_MAX 4096u
#define MOUNTINFO_MAX (8u << 20)

/* The mount id of fd's file; 0: not known. */
static unsigned long long mount_of(int fd)
{
	CLEANUP_FREE char *info = NULL;
	unsigned long long id = 0;
	const char *at = NULL;
	char path[64];

	snprintf(path, sizeof(path), "/proc/self/fdinfo/%d", fd);
	if (!read_file(path, FDINFO_MAX, &info, NULL))
		at = strstr(info, "mnt_id:");
	return at && sscanf(at, "mnt_id: %llu", &id) == 1 ? id : 0;
}

bool mount_find(const char *mountinfo, unsigned long long id, struct mount_source *m)
{
	for (const char *line = mountinfo; *line; line += strcspn(line, "\n") + 1) {
		CLEANUP_FREE char *one = strndup(line, strcspn(line, "\n"));
		const char *rest = one ? strstr(one, " - ") : NULL;
		unsigned long long this;

		if (rest && sscanf(one, "%llu", &this) == 1 && this == id)
			return sscanf(rest, " - %63s %255s %1023s", m->type, m->source,
				      m->options) == 3;
		if (!line[strcspn(line, "\n")])
			break;
	}

	return false;
}

static bool mounted_from(int fd, struct mount_source *m)
{
	CLEANUP_FREE char *mountinfo = NULL;
	unsigned long long id = mount_of(fd);

	return id && !read_file("/proc/self/mountinfo", MOUNTINFO_MAX, &mountinfo, NULL) &&
	       mount_find(mountinfo, id, m);
}

/* The device of a filesystem with an anonymous st_dev (btrfs); 0: it has no device. */
static dev_t mounted_device(int fd)
{
	struct mount_source m;
	struct stat st;

	if (!mounted_from(fd, &m) || m.source[0] != '/' || stat(m.source, &st) < 0 ||
	    !S_ISBLK(st.st_mode))
		return 0;
	return st.st_rdev;
}

dev_t device_of(int fd)
{
	struct stat st;

	if (fstat(fd, &st) < 0)
		return 0;
	if (S_ISBLK(st.st_mode))
		return st.st_rdev;
	return major(st.st_dev) ? st.st_dev : mounted_device(fd);
}

/* ---- sysfs ---- */

#define SYSFS "/sys"    /* tests use a copy */
enum { STACK_DEPTH = 8 }; /* a partition on LVM on RAID on partitions needs 3 */

/* Open a file in dev, a device's directory in sysfs. A partition's directory is below that of
 * its disk, which has the queue and the slaves. */
static int disk_open(int dev, const char *name)
{
	char above[64];
	int fd = openat(dev, name, O_RDONLY | O_CLOEXEC);

	snprintf(above, sizeof(above), "../%s", name);
	return fd < 0 ? openat(dev, above, O_RDONLY | O_CLOEXEC) : fd;
}

/* The number in the file queue/<name> of the block device; -1: not known. */
static long queue_at(int dev, const char *name)
{
	char file[48], text[32] = "", *end;
	int fd CLEANUP_CLOSE = -1;
	long v;

	snprintf(file, sizeof(file), "queue/%s", name);
	fd = disk_open(dev, file);
	if (fd < 0 || pread_full(fd, text, sizeof(text) - 1, 0) < 0)
		return -1;
	v = strtol(text, &end, 10);
	return end == text ? -1 : v;
}

/* 1: the block device, or one of its components, rotates; 0: no; -1: not known. */
static int rotates_at(int dev, unsigned depth)
{
	int any = -1, fd = depth ? disk_open(dev, "slaves") : -1;
	DIR *d = fd < 0 ? NULL : fdopendir(fd);
	const struct dirent *de;

	if (!d && fd >= 0)
		close(fd);
	while (d && any < 1 && (de = readdir(d))) {
		int one CLEANUP_CLOSE = openat(dirfd(d), de->d_name, O_PATH | O_CLOEXEC);
		int r = de->d_name[0] == '.' || one < 0 ? -1 : rotates_at(one, depth - 1);

		any = r > any ? r : any;
	}
	if (d)
		closedir(d);
	return any < 0 ? (int)queue_at(dev, "rotational") : any;
}

/* An O_PATH descriptor of dev's directory in sysfs; negative: there is none. */
static int device_open(const char *sysfs, dev_t dev)
{
	char path[512];

	snprintf(path, sizeof(path), "%s/dev/block/%u:%u", sysfs, major(dev), minor(dev));
	return dev ? open(path, O_PATH | O_CLOEXEC) : -1;
}

long queue_number(const char *sysfs, dev_t dev, const char *name)
{
	int fd CLEANUP_CLOSE = device_open(sysfs, dev);

	return fd < 0 ? -1 : queue_at(fd, name);
}

int device_rotates(const char *sysfs, dev_t dev)
{
	int fd CLEANUP_CLOSE = device_open(sysfs, dev);

	return fd < 0 ? -1 : rotates_at(fd, STACK_DEPTH);
}

/* ---- the class ---- */

const char *storage_class_text(unsigned class)
{
	static const char *const texts[] = {
		[STORAGE_MEMORY] = "memory", [STORAGE_SSD] = "an SSD",
		[STORAGE_ROTATING] = "a rotating disk", [STORAGE_NETWORK] = "a network filesystem",
	};

	return class && class < sizeof(texts) / sizeof(texts[0]) ? texts[class] :
	       "storage of unknown kind";
}

enum storage_class storage_class_of(int fd)
{
	enum storage_class class = class_by_magic(fd);
	int rotates;

	if (class != STORAGE_UNKNOWN)
		return class;
	rotates = device_rotates(SYSFS, device_of(fd));
	return rotates < 0 ? STORAGE_UNKNOWN : rotates ? STORAGE_ROTATING : STORAGE_SSD;
}

/* ---- a disk that only says that it rotates ---- */

/* The heads of a disk need some 8 ms to a distant place. The disks of hypervisors, of LIO and of RAID
 * controllers often say that they rotate, and need a tenth of that, or less. */
enum { PLACES = 16, PLACES_LEAST = 4, DEPTH_MOST = 16 };
#define SEEK_NS 1500000u        /* no disk that rotates is as fast at most places */
#define SEEKS_NS 200000000u     /* time for all places */
#define APART (8u << 20)        /* bytes from place to place: more than a disk reads ahead in a seek */

struct seeks {
	dev_t dev;
	uint64_t until;         /* now_ns() */
	uint64_t last;          /* address of the place before */
	uint64_t ns[PLACES];    /* time of each read */
	unsigned n;
};

static bool seeks_done(const struct seeks *s)
{
	return s->n == PLACES || now_ns() >= s->until;
}

/* Read places of a file. fd is O_DIRECT. */
static void seek_in_file(struct seeks *s, int fd, uint64_t size)
{
	uint64_t step = size / PLACES > APART ? size / PLACES & ~(uint64_t)(DIRECT_ALIGN - 1) : APART;
	CLEANUP_FREE void *page = aligned_alloc(DIRECT_ALIGN, DIRECT_ALIGN);

	for (uint64_t off = 0; page && off < size && !seeks_done(s); off += step) {
		uint64_t at = file_address_at(fd, off), start;

		if (at == ADDRESS_UNKNOWN ||
		    (at > s->last ? at - s->last : s->last - at) < APART)
			continue;
		start = now_ns();
		if (pread(fd, page, DIRECT_ALIGN, (off_t)off) <= 0)
			return;
		s->ns[s->n++] = now_ns() - start;
		s->last = at;
	}
}

/* Read places of the files below the directory fd, which is closed. */
static void seek_in_dir(struct seeks *s, int fd, unsigned depth)
{
	DIR *d = fd < 0 ? NULL : fdopendir(fd);
	const struct dirent *de;

	if (!d && fd >= 0)
		close(fd);
	while (d && !seeks_done(s) && (de = readdir(d))) {
		int flags = O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_NOATIME;
		bool directory = de->d_type == DT_DIR;
		int one CLEANUP_CLOSE = -1;
		struct stat st;

		if (!strcmp(de->d_name, ".") || !strcmp(de->d_name, "..") ||
		    !(directory ? depth < DEPTH_MOST : de->d_type == DT_REG))
			continue;
		flags |= directory ? O_DIRECTORY : O_DIRECT;
		one = openat(dirfd(d), de->d_name, flags);
		if (one < 0 && errno == EPERM) /* the file of another user */
			one = openat(dirfd(d), de->d_name, flags & ~O_NOATIME);
		if (one < 0 || fstat(one, &st) || st.st_dev != s->dev)
			continue;
		if (S_ISDIR(st.st_mode))
			seek_in_dir(s, steal_fd(&one), depth + 1);
		else if (S_ISREG(st.st_mode))
			seek_in_file(s, one, (uint64_t)st.st_size);
	}
	if (d)
		closedir(d);
}

static int compare_ns(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return (x > y) - (x < y);
}

/* 0: reads of distant places are faster than heads can move; 1: they are not; -1: not known. */
static int needs_seeks(int fd)
{
	struct seeks s = { .until = now_ns() + SEEKS_NS, .last = ADDRESS_UNKNOWN };
	struct stat st;
	int own;

	if (fstat(fd, &st))
		return -1;
	s.dev = st.st_dev;
	own = S_ISDIR(st.st_mode) ? fd_reopen(fd, O_RDONLY | O_DIRECTORY) :
	      S_ISREG(st.st_mode) ? fd_reopen(fd, O_RDONLY | O_DIRECT) : -1;
	if (S_ISDIR(st.st_mode)) {
		seek_in_dir(&s, own, 0);
	} else if (own >= 0) {
		seek_in_file(&s, own, (uint64_t)st.st_size);
		close(own);
	}
	if (s.n < PLACES_LEAST)
		return -1;
	qsort(s.ns, s.n, sizeof(s.ns[0]), compare_ns);
	log_debug("the disk says that it rotates; reads of %u distant places took %llu us, as a median",
		  s.n, (unsigned long long)s.ns[s.n / 2] / 1000);
	return s.ns[s.n / 2] >= SEEK_NS;
}

enum storage_class storage_class_of_source(int fd)
{
	static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
	static bool measured;
	static int seeks;
	static dev_t device;
	enum storage_class class = storage_class_of(fd);
	struct stat st;

	if (class != STORAGE_ROTATING || fstat(fd, &st))
		return class;
	LOCK_GUARD(guard, &lock);
	if (!measured || device != st.st_dev) {
		seeks = needs_seeks(fd);
		device = st.st_dev;
		measured = true;
	}
	return seeks ? STORAGE_ROTATING : STORAGE_SSD;
}

struct ids storage_nodes(const struct topo *t, int fd)
{
	struct ids none = { 0 };
	struct mount_source m;
	dev_t dev = device_of(fd);

	if (dev)
		return topo_device(t, dev);
	return mounted_from(fd, &m) && !strcmp(m.type, "tmpfs") ? tmpfs_nodes(m.options) : none;
}

/* ---- direct I/O ---- */

#define BOUNCE_MAX (1u << 20) /* a multiple of every alignment */

uint32_t direct_alignment(int fd)
{
	enum storage_class class = class_by_magic(fd);
	struct stat st;
	long align = -1; /* not known */

	if (fstat(fd, &st) < 0 || !(S_ISREG(st.st_mode) || S_ISBLK(st.st_mode)))
		return 0;
	if (class == STORAGE_MEMORY || class == STORAGE_NETWORK)
		return 0;
#ifdef STATX_DIOALIGN /* Linux 6.1 */
	struct statx sx;

	if (!statx(fd, "", AT_EMPTY_PATH, STATX_DIOALIGN, &sx) && (sx.stx_mask & STATX_DIOALIGN))
		align = sx.stx_dio_mem_align > sx.stx_dio_offset_align ?
			sx.stx_dio_mem_align : sx.stx_dio_offset_align;
#endif
	if (align < 0)
		align = queue_number(SYSFS, device_of(fd), "logical_block_size");
	if (align <= 0)
		return 0;
	return align > (long)DIRECT_ALIGN ? (uint32_t)align : DIRECT_ALIGN;
}

/* ---- rates ---- */

enum { RATE_DEPTH = 8, RATE_BYTES = 4 << 20 };
#define RATE_DIRECT_MOST (4ull << 30)
#define RATE_CACHED_MOST (256ull << 20)
#define FREE_PART 10u           /* use at most one part of so many of the free space */

/* A file for the measurement: it has no name, or loses it at once. */
static int rate_file(int dirfd)
{
	int fd = openat(dirfd, ".", O_RDWR | O_TMPFILE | O_CLOEXEC, 0600);
	char name[PART_NAME_MAX], seed[64];

	if (fd >= 0 || (errno != EOPNOTSUPP && errno != EISDIR && errno != ENOENT))
		return fd < 0 ? -errno : fd;
	snprintf(seed, sizeof(seed), "measure %d %llu", (int)getpid(), (unsigned long long)now_ns());
	part_name(name, seed);
	fd = openat(dirfd, name, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (fd < 0)
		return -errno;
	unlinkat(dirfd, name, 0);
	return fd;
}

/* Write or read *bytes from the start of fd, in blocks; stop after ns. 0 with *bytes done and
 * *rate, or a negative errno. */
static int rate_run(struct io *io, int fd, bool write, uint8_t *data, uint64_t ns, uint64_t *bytes,
		    uint64_t *rate)
{
	struct io_op ops[RATE_DEPTH] = { 0 }, *done[RATE_DEPTH], *idle[RATE_DEPTH];
	unsigned depth = min_u64(io_depth(io), RATE_DEPTH), nidle = 0;
	uint64_t start = now_ns(), next = 0, moved = 0, most = *bytes;
	int rc = 0, n;

	for (; nidle < depth; nidle++) {
		ops[nidle] = (struct io_op){ .write = write, .fd = fd, .len = RATE_BYTES,
					     .data = data + (size_t)nidle * RATE_BYTES };
		idle[nidle] = &ops[nidle];
	}
	while (!rc || io_inflight(io)) {
		while (!rc && nidle && next + RATE_BYTES <= most && now_ns() - start < ns) {
			struct io_op *op = idle[nidle - 1];

			op->offset = next;
			rc = io_submit(io, op);
			if (rc)
				break;
			nidle--;
			next += RATE_BYTES;
		}
		if (!io_inflight(io))
			break;
		n = io_reap(io, done, RATE_DEPTH, 1);
		if (n < 0)
			return n;
		for (int i = 0; i < n; i++) {
			if (done[i]->result >= 0)
				moved += (uint64_t)done[i]->result;
			else if (!rc)
				rc = (int)done[i]->result;
			idle[nidle++] = done[i];
		}
	}
	if (!rc && write && fdatasync(fd))
		rc = -errno;
	*bytes = moved;
	*rate = rc || !moved ? 0 : (uint64_t)((double)moved * 1e9 / (double)(now_ns() - start + 1));
	return rc;
}

/* Bytes per second; 0: not measured. */
struct rates {
	uint64_t write, read;
	bool direct;            /* past the page cache */
};

static int rates_measure(int fd, uint64_t ns, struct rates *r)
{
	CLEANUP_FREE uint8_t *data = aligned_alloc(RATE_BYTES, (size_t)RATE_DEPTH * RATE_BYTES);
	int file CLEANUP_CLOSE = rate_file(fd);
	uint64_t seed = now_ns(), bytes;
	struct err e = ERR_INIT;
	struct statfs room;
	struct io *io;
	int rc;

	if (file < 0)
		return file;
	if (!data)
		return -ENOMEM;
	if (fstatfs(file, &room))
		return -errno;
	io = io_new(IO_AUTO, RATE_DEPTH, NULL, 0, NULL, &e);
	if (!io)
		return e.code;

	/* Numbers that a filesystem cannot compress. */
	for (size_t i = 0; i < (size_t)RATE_DEPTH * RATE_BYTES; i += sizeof(seed)) {
		uint64_t v = random_next(&seed);

		memcpy(data + i, &v, sizeof(v));
	}
	r->direct = direct_alignment(file) && !fcntl(file, F_SETFL, O_DIRECT);
	bytes = min_u64(r->direct ? RATE_DIRECT_MOST : RATE_CACHED_MOST,
			(uint64_t)room.f_bavail * (uint64_t)room.f_bsize / FREE_PART);
	rc = bytes < RATE_BYTES ? -ENOSPC : rate_run(io, file, true, data, ns, &bytes, &r->write);
	if (!rc && !r->direct)
		posix_fadvise(file, 0, 0, POSIX_FADV_DONTNEED);
	if (!rc)
		rc = rate_run(io, file, false, data, ns, &bytes, &r->read);
	io_free(io);
	return rc;
}

json_t *storage_fact(int fd, const char *path, uint64_t ns, const char *why)
{
	struct rates r = { 0 };
	int rc = fd < 0 || why ? fd : rates_measure(fd, ns, &r);
	json_t *o = json_pack("{s:s, s:s, s:I, s:I, s:b}", "fact", "storage", "kind",
			      storage_class_text(fd < 0 ? STORAGE_UNKNOWN : storage_class_of(fd)),
			      "write", (json_int_t)r.write, "read", (json_int_t)r.read, "direct",
			      r.direct);

	json_set_name(o, "path", path);
	if (rc < 0 || why)
		json_set_name(o, "error", rc < 0 ? root_why(rc) : why);
	return o;
}

int fd_reopen(int fd, int flags)
{
	char path[FD_PATH_MAX];
	int r = open(fd_path(path, fd), flags | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);

	return r < 0 ? -errno : r;
}

/* ---- reading from the medium ---- */

/* Read the aligned part directly into out and the rest through a bounce buffer. fd is O_DIRECT. */
static int read_direct(int fd, uint64_t offset, uint8_t *out, size_t len, uint32_t align)
{
	CLEANUP_FREE uint8_t *bounce = NULL;

	while (len > 0) {
		size_t skip = offset % align, n = len - len % align;
		bool straight = !skip && (uintptr_t)out % align == 0 && n;
		ssize_t got;

		if (!straight) {
			n = BOUNCE_MAX - skip < len ? BOUNCE_MAX - skip : len;
			if (!bounce)
				bounce = aligned_alloc(align, BOUNCE_MAX);
			if (!bounce)
				return -ENOMEM;
		}
		do {
			got = pread(fd, straight ? out : bounce, (skip + n + align - 1) / align *
				    align, (off_t)(offset - skip));
		} while (got < 0 && errno == EINTR);
		if (got < 0)
			return -errno;
		if ((size_t)got <= skip)
			return -ENODATA;
		if ((size_t)got - skip < n)
			n = (size_t)got - skip;
		if (!straight)
			memcpy(out, bounce + skip, n);
		offset += n;
		out += n;
		len -= n;
	}

	return 0;
}

/* Write back and drop the cached pages of the range, then read it through fd. */
static int read_dropped(int fd, uint64_t offset, void *out, size_t len)
{
	ssize_t got;
	int r;

	/* EBADF, EROFS, EINVAL: this descriptor needs no sync. */
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
		direct = fd_reopen(fd, O_RDONLY | O_DIRECT);
	if (direct >= 0) {
		r = read_direct(direct, offset, out, len, align);
		if (r != -EINVAL)
			return r;
	}

	/* A writer's descriptor may be write-only. */
	plain = fd_reopen(fd, O_RDONLY);
	return read_dropped(plain >= 0 ? plain : fd, offset, out, len);
}
