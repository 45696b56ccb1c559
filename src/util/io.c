// SPDX-License-Identifier: Apache-2.0
/* Whole reads and writes, and whole files. */
#include "util/io.h"

#include "util/base.h"

#include <fcntl.h>
#include <limits.h>
#include <linux/magic.h>
#include <poll.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/vfs.h>

void cleanup_close(int *fd)
{
	int saved = errno;

	/* Not repeated on EINTR: Linux has freed the number already, and another thread may use it
	 * by now. */
	if (*fd >= 0)
		close(*fd);
	*fd = -1;
	errno = saved;
}

/* ---- short reads and writes ---- */

int poll_fd(int fd, short events, int timeout_ms)
{
	struct pollfd p = { .fd = fd, .events = events };
	uint64_t end = ns_after(timeout_ms);
	int rc;

	while ((rc = poll(&p, 1, timeout_ms)) < 0 && errno == EINTR)
		if (timeout_ms > 0)
			timeout_ms = ms_to(end); /* signals must not extend it */
	return rc < 0 ? -errno : rc > 0;
}

ssize_t recvmsg_pair(int fd, struct msghdr *msg)
{
	ssize_t n = recvmsg(fd, msg, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);

	if (n < 0 && errno == ECONNRESET)
		n = recvmsg(fd, msg, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
	return n;
}

/* After a failed call: 0 when the caller must repeat it, or its negative errno. stdin and stdout
 * share their O_NONBLOCK with other processes, so every descriptor may turn out to be non-blocking;
 * on a blocking one EAGAIN means that a timeout passed (SO_RCVTIMEO), which is reported to the
 * caller. */
static int may_retry(int fd, short events)
{
	int rc, flags;

	if (errno == EINTR)
		return 0;
	if (errno != EAGAIN)
		return -errno;
	flags = fcntl(fd, F_GETFL);
	if (flags < 0 || !(flags & O_NONBLOCK))
		return -EAGAIN;
	rc = poll_fd(fd, events, -1);
	return rc < 0 ? rc : 0;
}

/* The loop of the four calls below. Only reads write to buf. at -1: use the descriptor's file
 * position. */
static ssize_t move_full(int fd, void *buf, size_t len, off_t at, bool out)
{
	size_t done = 0;
	ssize_t n;
	int rc;

	while (done < len) {
		char *p = (char *)buf + done;
		off_t from = at + (off_t)done;

		if (out)
			n = at < 0 ? write(fd, p, len - done) : pwrite(fd, p, len - done, from);
		else
			n = at < 0 ? read(fd, p, len - done) : pread(fd, p, len - done, from);
		if (n == 0 && !out)
			break;
		if (n >= 0)
			done += (size_t)n;
		else if ((rc = may_retry(fd, out ? POLLOUT : POLLIN)))
			return rc;
	}

	return (ssize_t)done;
}

ssize_t read_full(int fd, void *p, size_t len)
{
	return move_full(fd, p, len, -1, false);
}

ssize_t pread_full(int fd, void *p, size_t len, off_t at)
{
	return at < 0 ? -EINVAL : move_full(fd, p, len, at, false);
}

int write_full(int fd, const void *p, size_t len)
{
	ssize_t n = move_full(fd, (void *)(uintptr_t)p, len, -1, true);

	return n < 0 ? (int)n : 0;
}

int pwrite_full(int fd, const void *p, size_t len, off_t at)
{
	ssize_t n = at < 0 ? -EINVAL : move_full(fd, (void *)(uintptr_t)p, len, at, true);

	return n < 0 ? (int)n : 0;
}

/* ---- flags ---- */

int set_nonblock(int fd, bool on)
{
	int flags = fcntl(fd, F_GETFL), want;

	if (flags < 0)
		return -errno;
	want = on ? flags | O_NONBLOCK : flags & ~O_NONBLOCK;
	if (want != flags && fcntl(fd, F_SETFL, want) < 0)
		return -errno;
	return 0;
}

size_t line_trim(char *line, size_t n)
{
	n -= n && line[n - 1] == '\n';
	n -= n && line[n - 1] == '\r';
	line[n] = '\0';
	return n;
}

void hold_standard_fds(void)
{
	for (int fd = 0; fd < 3; fd++)
		/* open() takes the lowest free number, which is fd. 0 must not be readable, 1 and 2
		 * not writable. */
		if (fcntl(fd, F_GETFD) < 0 && open("/dev/null", fd ? O_RDONLY : O_WRONLY) < 0)
			return;
}

/* ---- whole files ---- */

/* Files may contain keys and password hashes, so wipe the memory. */
static void wipe_and_free_text(char *data, size_t size)
{
	if (data)
		explicit_bzero(data, size);
	free(data);
}

int read_file(const char *path, size_t max, char **out, size_t *len)
{
	CLEANUP_CLOSE int fd = open(path, O_RDONLY | O_CLOEXEC);
	size_t size = 0, used = 0, room;
	char *data = NULL, *next;
	ssize_t n = fd < 0 ? -errno : 0;

	*out = NULL;
	if (len)
		*len = 0;
	if (max > SIZE_MAX / 4)
		max = SIZE_MAX / 4; /* room for the doubling below */
	/* Read to the end and ignore the size from fstat(), which is 4096 in sysfs and 0 in /proc.
	 * One byte more than max detects a longer file; another byte holds the NUL. */
	while (n >= 0 && used == size) {
		room = size ? size * 2 : 4096;
		if (room > max + 1)
			room = max + 1;
		next = malloc(room + 1);
		if (next && used)
			memcpy(next, data, used);
		wipe_and_free_text(data, size);
		data = next;
		size = room;
		n = data ? read_full(fd, data + used, size - used) : -ENOMEM;
		used += n > 0 ? (size_t)n : 0;
		if (used > max)
			n = -EFBIG;
	}

	if (n < 0) {
		wipe_and_free_text(data, size);
		return (int)n;
	}
	data[used] = '\0';
	*out = data;
	if (len)
		*len = used;
	return 0;
}

/* mkdir() that accepts an existing directory. */
static int make_one_dir(const char *path, mode_t mode)
{
	struct stat st;

	if (mkdir(path, mode) == 0)
		return 0;
	if (errno != EEXIST || stat(path, &st) < 0)
		return -errno;
	return S_ISDIR(st.st_mode) ? 0 : -ENOTDIR;
}

int make_dirs(const char *path, mode_t mode)
{
	CLEANUP_FREE char *copy = strdup(path);
	char *slash;
	int rc;

	if (!copy)
		return -ENOMEM;
	for (slash = strchr(copy, '/'); slash; slash = strchr(slash + 1, '/')) {
		if (slash == copy)
			continue; /* the root exists */
		*slash = '\0';
		rc = make_one_dir(copy, mode);
		if (rc)
			return rc;
		*slash = '/';
	}

	return make_one_dir(copy, mode);
}

/* ---- files that a program writes for itself: logs, state, keys, port numbers, models; the
 * administrator chooses the names, other users may own or write directories in the path ---- */

enum { STEPS_MAX = 1000, TEMP_TRIES = 100 };

/* A file as directory and name, after all symbolic links in its path have been followed. */
struct found {
	int dir; /* O_PATH */
	char name[NAME_MAX + 1];
	bool magic; /* name is a procfs link to an open file, such as the target of /dev/stdout */
};

/* As fs.protected_symlinks (proc(5)), but in every directory: links of the directory's owner are
 * allowed, because the owner could replace the file anyway; links of other users are not. */
static int check_link(const struct found *p, const struct stat *link, struct err *e)
{
	struct stat dir;

	if (fstat(p->dir, &dir))
		return -errno;
	if (!link->st_uid || link->st_uid == geteuid() || link->st_uid == dir.st_uid)
		return 0;
	return err_set(e, -EPERM, "the symbolic link %s belongs to another user",
		       printable(p->name));
}

static int enter_dir(struct found *p, int fd)
{
	if (fd < 0)
		return -errno;
	close(p->dir);
	p->dir = fd;
	return 0;
}

/* Put the target of the link before the rest of the path. */
static int follow_own_link(struct found *p, int link, char **todo, const char *rest)
{
	char text[PATH_MAX], *longer;
	ssize_t n = readlinkat(link, "", text, sizeof(text) - 1);

	if (n < 0)
		return -errno;
	text[n] = '\0';
	if (asprintf(&longer, "%s%s", text, rest) < 0)
		return -ENOMEM;
	free(*todo);
	*todo = longer;
	return *text == '/' ? enter_dir(p, open("/", O_PATH | O_DIRECTORY | O_CLOEXEC)) : 0;
}

/* Take the next component of *todo. 1: it is the last one; 0: there are more. */
static int walk_component(struct found *p, char **todo, struct err *e)
{
	size_t lead = strspn(*todo, "/"), len = strcspn(*todo + lead, "/");
	char *rest = *todo + lead + len;
	CLEANUP_CLOSE int fd = -1;
	struct statfs fs;
	struct stat st;
	int r;

	if (!len || len > NAME_MAX)
		return len ? -ENAMETOOLONG : lead ? -EISDIR : -ENOENT;
	memcpy(p->name, *todo + lead, len);
	p->name[len] = '\0';
	p->magic = false;
	fd = openat(p->dir, p->name, O_PATH | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0)
		return errno == ENOENT && !*rest ? 1 : -errno;
	if (fstat(fd, &st))
		return -errno;
	if (S_ISLNK(st.st_mode)) {
		p->magic = !fstatfs(p->dir, &fs) && fs.f_type == PROC_SUPER_MAGIC;
		r = check_link(p, &st, e);
		if (r || !p->magic)
			return r ? r : follow_own_link(p, fd, todo, rest);
	}
	if (!*rest)
		return 1;
	memmove(*todo, rest, strlen(rest) + 1);
	return enter_dir(p, p->magic ? openat(p->dir, p->name, O_PATH | O_CLOEXEC) : steal_fd(&fd));
}

/* Fill p. 0: the caller closes p->dir; the file itself may be missing. Or a negative errno. */
static int find_file(struct found *p, const char *path, struct err *e)
{
	CLEANUP_FREE char *todo = strdup(path);
	int r = 0;

	p->dir = todo ? open(*path == '/' ? "/" : ".", O_PATH | O_DIRECTORY | O_CLOEXEC) : -1;
	if (p->dir < 0)
		return todo ? -errno : -ENOMEM;
	for (int i = 0; i < STEPS_MAX && r == 0; i++)
		r = walk_component(p, &todo, e);
	if (r == 1)
		return 0;
	close(steal_fd(&p->dir));
	return r < 0 ? r : -ELOOP;
}

#define NOT_REGULAR "it is neither a regular file nor a character device"

static int not_regular(const struct stat *st, struct err *e)
{
	if (S_ISDIR(st->st_mode))
		return -EISDIR;
	return err_set(e, -EINVAL, NOT_REGULAR);
}

/* Find path and call fn with it. Returns fn's result; the text of an error names path. */
static int with_file(const char *path, int (*fn)(const struct found *p, void *arg, struct err *e),
		     void *arg, struct err *e)
{
	struct err why = ERR_INIT;
	struct found p;
	int r = find_file(&p, path, &why);

	if (!r) {
		r = fn(&p, arg, &why);
		close(p.dir);
	}
	if (r < 0 && why.code)
		return err_set(e, r, "%s: " CANNOT_WRITE ": %s", printable(path), why.text);
	return r < 0 ? err_path(e, r, path, CANNOT_WRITE) : r;
}

/* ---- a file as a whole ---- */

struct contents {
	const void *data;
	size_t len;
	mode_t mode;
};

static int write_synced(int fd, const struct contents *c)
{
	int r = write_full(fd, c->data, c->len);

	/* EINVAL: a pipe or the like, which cannot be synced. */
	return r ? r : fsync(fd) && errno != EINVAL ? -errno : 0;
}

/* Create a file in p's directory; temp gets its name. Its descriptor or a negative errno. */
static int make_temporary(const struct found *p, char temp[NAME_MAX + 8])
{
	int fd = -1;

	errno = EEXIST;
	for (int i = 0; i < TEMP_TRIES && fd < 0 && errno == EEXIST; i++) {
		unsigned number;

		if (getentropy(&number, sizeof(number)))
			return -errno;
		snprintf(temp, NAME_MAX + 8, "%s.%06x", p->name, number & 0xffffff);
		fd = openat(p->dir, temp, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC,
			    0600);
	}

	return fd < 0 ? -errno : fd;
}

static int replace_file(const struct found *p, const struct contents *c)
{
	char temp[NAME_MAX + 8];
	CLEANUP_CLOSE int dir = -1;
	int r, fd = make_temporary(p, temp);

	if (fd < 0)
		return fd;
	r = fchmod(fd, c->mode) ? -errno : write_synced(fd, c);
	if (close(fd) && !r)
		r = -errno; /* NFS may report only now that the disk is full */
	if (!r && renameat(p->dir, temp, p->dir, p->name))
		r = -errno;
	if (r) {
		unlinkat(p->dir, temp, 0);
		return r;
	}

	/* The directory holds the new name, so sync it. EACCES: it is writable but not readable;
	 * EINVAL: its file system has no fsync for directories. */
	dir = openat(p->dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (dir < 0)
		return errno == EACCES ? 0 : -errno;
	return fsync(dir) && errno != EINVAL ? -errno : 0;
}

static int write_contents(const struct found *p, void *arg, struct err *e)
{
	int flags = O_WRONLY | O_NOCTTY | O_CLOEXEC | (p->magic ? O_APPEND : O_NOFOLLOW);
	CLEANUP_CLOSE int fd = -1;
	struct stat st;

	if (!p->magic) {
		if (fstatat(p->dir, p->name, &st, AT_SYMLINK_NOFOLLOW) || S_ISREG(st.st_mode))
			return replace_file(p, arg);
		if (!S_ISCHR(st.st_mode))
			return not_regular(&st, e);
	}
	fd = openat(p->dir, p->name, flags);
	return fd < 0 ? -errno : write_synced(fd, arg);
}

int write_file_atomic(const char *path, const void *data, size_t len, mode_t mode, struct err *e)
{
	struct contents c = { data, len, mode };

	return with_file(path, write_contents, &c, e);
}

int lock_file_open(const char *path, struct err *e)
{
	const char *slash = strrchr(path, '/');
	CLEANUP_FREE char *dir = slash ? strndup(path, (size_t)(slash - path) + 1) : strdup(".");
	CLEANUP_CLOSE int fd = dir ? open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;
	int r = !dir ? -ENOMEM : fd < 0 ? -errno : 0;

	while (!r && flock(fd, LOCK_EX)) {
		if (errno != EINTR)
			r = -errno;
	}
	return r ? err_sys(e, r, "cannot lock the directory of %s", printable(path)) : steal_fd(&fd);
}

/* ---- a file that grows ---- */

/* In a directory that all users may write, refuse another user's file, and a hard link that another
 * user has made to one of our files. */
static int check_growing(const struct found *p, int fd, struct err *e)
{
	struct stat st, dir;

	if (fstat(fd, &st) || fstat(p->dir, &dir))
		return -errno;
	if (!p->magic && !S_ISREG(st.st_mode) && !S_ISCHR(st.st_mode))
		return not_regular(&st, e);
	if (S_ISREG(st.st_mode) && (dir.st_mode & S_IWOTH) &&
	    (st.st_nlink > 1 || (st.st_uid != geteuid() && st.st_uid != dir.st_uid)))
		return err_set(e, -EPERM, "it belongs to another user or has several names, in a "
			       "directory that all users may write");
	return 0;
}

static int open_to_append(const struct found *p, void *arg, struct err *e)
{
	int flags = O_WRONLY | O_APPEND | O_NOCTTY | O_CLOEXEC | O_NONBLOCK;
	CLEANUP_CLOSE int fd = openat(p->dir, p->name,
				      flags | (p->magic ? 0 : O_CREAT | O_NOFOLLOW),
				      *(const mode_t *)arg);
	int r;

	if (fd < 0 && errno == ENXIO) /* a FIFO without a reader, or a socket */
		return err_set(e, -ENXIO, NOT_REGULAR);
	if (fd < 0)
		return -errno;
	r = check_growing(p, fd, e);
	if (!r)
		r = set_nonblock(fd, false);
	return r ? r : steal_fd(&fd);
}

int append_file_open(const char *path, mode_t mode, struct err *e)
{
	return with_file(path, open_to_append, &mode, e);
}

/* ---- a directory for such files ---- */

static int check_replaceable(const char *dir, const char *above, struct err *e)
{
	struct stat st;

	if (stat(above, &st))
		return err_sys(e, -errno, "%s", printable(above));
	if (st.st_uid && st.st_uid != geteuid())
		return err_set(e, -EPERM, "%s: user %u owns %s and could replace the files in it "
			       "(chown root %s)", printable(dir), (unsigned)st.st_uid,
			       printable(above), printable(above));
	/* In a sticky directory others cannot rename our files. */
	if ((st.st_mode & (S_IWGRP | S_IWOTH)) && (!(st.st_mode & S_ISVTX) || !strcmp(dir, above)))
		return err_set(e, -EPERM, "%s: others can write to %s and could replace the files "
			       "in it (chmod go-w %s)", printable(dir), printable(above),
			       printable(above));
	return 0;
}

int own_dir_check(const char *dir, struct err *e)
{
	CLEANUP_FREE char *real = realpath(dir, NULL);
	CLEANUP_FREE char *above = real ? strdup(real) : NULL;
	int r;

	if (!above)
		return err_sys(e, real ? -ENOMEM : -errno, "%s", printable(dir));
	for (;;) {
		char *slash = strrchr(above, '/');

		r = check_replaceable(real, *above ? above : "/", e);
		if (r || !slash)
			return r;
		*slash = '\0';
	}
}
