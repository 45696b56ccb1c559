// SPDX-License-Identifier: Apache-2.0
/* Whole reads and writes, and whole files. */
#include "util/io.h"

#include "util/cleanup.h"
#include "util/clock.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

/* ---- short reads and writes ---- */

int poll_fd(int fd, short events, int timeout_ms)
{
	struct pollfd p = { .fd = fd, .events = events };
	uint64_t end = timeout_ms > 0 ? now_ns() + (uint64_t)timeout_ms * 1000000 : 0;
	int rc;

	while ((rc = poll(&p, 1, timeout_ms)) < 0 && errno == EINTR)
		if (timeout_ms > 0)
			timeout_ms = ms_to(end); /* signals must not stretch it */
	return rc < 0 ? -errno : rc > 0;
}

ssize_t recvmsg_pair(int fd, struct msghdr *msg)
{
	ssize_t n = recvmsg(fd, msg, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);

	if (n < 0 && errno == ECONNRESET)
		n = recvmsg(fd, msg, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
	return n;
}

/* After a failed call: 0 when it is to be made again, or its negative errno.
 * stdin and stdout share their O_NONBLOCK with other processes, so every
 * descriptor may turn out to be non-blocking; on a blocking one EAGAIN means that a
 * timeout passed (SO_RCVTIMEO), which the caller wants to know. */
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

ssize_t read_full(int fd, void *p, size_t len)
{
	size_t done = 0;
	ssize_t n;
	int rc;

	while (done < len) {
		n = read(fd, (char *)p + done, len - done);
		if (n == 0)
			break;
		if (n > 0)
			done += (size_t)n;
		else if ((rc = may_retry(fd, POLLIN)))
			return rc;
	}
	return (ssize_t)done;
}

int write_full(int fd, const void *p, size_t len)
{
	size_t done = 0;
	ssize_t n;
	int rc;

	while (done < len) {
		n = write(fd, (const char *)p + done, len - done);
		if (n >= 0)
			done += (size_t)n;
		else if ((rc = may_retry(fd, POLLOUT)))
			return rc;
	}
	return 0;
}

ssize_t pread_full(int fd, void *p, size_t len, off_t at)
{
	size_t done = 0;
	ssize_t n;
	int rc;

	while (done < len) {
		n = pread(fd, (char *)p + done, len - done, at + (off_t)done);
		if (n == 0)
			break;
		if (n > 0)
			done += (size_t)n;
		else if ((rc = may_retry(fd, POLLIN)))
			return rc;
	}
	return (ssize_t)done;
}

int pwrite_full(int fd, const void *p, size_t len, off_t at)
{
	size_t done = 0;
	ssize_t n;
	int rc;

	while (done < len) {
		n = pwrite(fd, (const char *)p + done, len - done, at + (off_t)done);
		if (n >= 0)
			done += (size_t)n;
		else if ((rc = may_retry(fd, POLLOUT)))
			return rc;
	}
	return 0;
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

/* ---- whole files ---- */

struct reading {
	char *data;
	size_t room;    /* and a byte for the NUL */
};

/* Passwords' hashes and keys are read here, too: nothing of them stays behind. */
static void wipe_reading(struct reading *r)
{
	if (r->data)
		explicit_bzero(r->data, r->room + 1);
	free(r->data);
}

static int more_room(struct reading *r, size_t used, size_t room)
{
	struct reading next = { .data = malloc(room + 1), .room = room };

	if (!next.data)
		return -ENOMEM;
	if (used)
		memcpy(next.data, r->data, used);
	wipe_reading(r);
	*r = next;
	return 0;
}

static int read_on(int fd, size_t max, struct reading *r, size_t *len)
{
	size_t size = 0, used = 0;
	ssize_t n;
	int rc;

	do {
		size = size ? size * 2 : 4096;
		if (size > max + 1)
			size = max + 1;
		rc = more_room(r, used, size);
		if (rc < 0)
			return rc;
		n = read_full(fd, r->data + used, size - used);
		if (n < 0)
			return (int)n;
		used += (size_t)n;
		if (used > max)
			return -EFBIG;
	} while (used == size);
	r->data[used] = '\0';
	*len = used;
	return 0;
}

/* Read fd to its end, however long fstat() says it is: sysfs says 4096 and /proc
 * says 0. One byte more than max is asked for, to know that there is one. */
static int read_all(int fd, size_t max, char **out, size_t *len)
{
	struct reading r = { NULL, 0 };
	int rc = read_on(fd, max, &r, len);

	if (rc < 0)
		wipe_reading(&r);
	else
		*out = r.data;
	return rc;
}

int read_file(const char *path, size_t max, char **out, size_t *len)
{
	CLEANUP_CLOSE int fd = open(path, O_RDONLY | O_CLOEXEC);
	size_t ignored;

	*out = NULL;
	if (!len)
		len = &ignored;
	*len = 0;
	if (fd < 0)
		return -errno;
	if (max > SIZE_MAX / 4)
		max = SIZE_MAX / 4; /* room for the doubling above */
	return read_all(fd, max, out, len);
}

/* mkdir() that is content with a directory that is there. */
static int make_dir(const char *path, mode_t mode)
{
	struct stat st;

	if (mkdir(path, mode) == 0)
		return 0;
	if (errno != EEXIST)
		return -errno;
	if (stat(path, &st) < 0)
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
			continue; /* the root is there */
		*slash = '\0';
		rc = make_dir(copy, mode);
		if (rc)
			return rc;
		*slash = '/';
	}
	return make_dir(copy, mode);
}

unsigned raise_fd_limit(void)
{
	struct rlimit r;

	if (getrlimit(RLIMIT_NOFILE, &r))
		return 256; /* what every system gives */
	if (r.rlim_cur < r.rlim_max) {
		rlim_t soft = r.rlim_cur;

		r.rlim_cur = r.rlim_max;
		if (setrlimit(RLIMIT_NOFILE, &r))
			r.rlim_cur = soft;
	}
	return r.rlim_cur > 1u << 20 ? 1u << 20 : (unsigned)r.rlim_cur;
}

void close_fds(unsigned first, unsigned last)
{
	unsigned most;

	if (first > last || close_range(first, last, 0) == 0)
		return;
	most = raise_fd_limit();
	for (unsigned fd = first; fd <= last && fd < most; fd++)
		close((int)fd);
}

/* Whoever has CAP_IPC_LOCK is not limited. */
static bool may_lock_all(void)
{
	struct __user_cap_header_struct head = { .version = _LINUX_CAPABILITY_VERSION_3 };
	struct __user_cap_data_struct data[2] = { { 0 } };

	return !syscall(SYS_capget, &head, data) &&
	       data[0].effective & 1u << CAP_IPC_LOCK;
}

uint64_t raise_lock_limit(void)
{
	struct rlimit r;

	if (may_lock_all() || getrlimit(RLIMIT_MEMLOCK, &r))
		return UINT64_MAX;
	if (r.rlim_cur < r.rlim_max) {
		rlim_t soft = r.rlim_cur;

		r.rlim_cur = r.rlim_max;
		if (setrlimit(RLIMIT_MEMLOCK, &r))
			r.rlim_cur = soft;
	}
	return r.rlim_cur == RLIM_INFINITY ? UINT64_MAX : r.rlim_cur;
}

const char *lock_advice(char text[LOCK_ADVICE], uint64_t kib)
{
	unsigned long long n = kib;

	snprintf(text, LOCK_ADVICE, "set \"ulimit -l %llu\", a line \"* - memlock %llu\" in "
		 "/etc/security/limits.d/, or LimitMEMLOCK= in the service's unit", n, n);
	return text;
}

void hold_standard_fds(void)
{
	for (int fd = 0; fd < 3; fd++)
		/* The lowest that is free is fd. 0 cannot be read from, 1 and 2 not written to. */
		if (fcntl(fd, F_GETFD) < 0 && open("/dev/null", fd ? O_RDONLY : O_WRONLY) < 0)
			return;
}
