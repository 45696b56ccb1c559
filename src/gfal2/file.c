// SPDX-License-Identifier: Apache-2.0
/* Opened files. A thread runs the transfer, and the caller's bytes go through a socket pair. Files
 * are written in order; reads may seek, which begins another transfer. All transfers of
 * a file that is read must find the version that was opened. */
#include "gfal2/plugin.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

/* A reader may seek at any time, so the first transfer is short; each further one without a seek is
 * twice as long. */
#define FIRST_RANGE (4u << 20)
#define MOST_RANGE (1u << 30)
#define DRAIN_MOST (1u << 20) /* a seek forward that is cheaper to read than to seek */

struct file {
	struct plugin *plugin;
	struct link *link;
	char *path;
	unsigned flags;              /* of rftp_put_fd() */
	bool writes;
	struct rftp_stat stat;       /* of a file that is read, when it was opened */
	uint64_t at;                 /* the present position */
	/* The transfer. */
	bool runs;
	int ours, theirs;            /* the ends of the socket pair */
	pthread_t thread;
	uint64_t from, length;       /* of a get */
	uint64_t taken;              /* bytes of it that were read here */
	uint64_t next_length;
	int rc;                      /* its result, once the thread has ended */
};

static void *file_main(void *arg)
{
	struct file *f = arg;

	if (f->writes)
		f->rc = rftp_put_fd(f->link->r, f->theirs, f->path, f->flags);
	else
		f->rc = rftp_get_range(f->link->r, f->path, &f->stat, f->from, f->length,
				       f->theirs);
	shutdown(f->theirs, SHUT_RDWR); /* wakes the other end */
	return NULL;
}

static int file_start(struct file *f)
{
	sigset_t all, old;
	int fds[2], rc;

	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds))
		return -errno;
	f->ours = fds[0];
	f->theirs = fds[1];
	f->rc = 0;
	f->taken = 0;
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	rc = pthread_create(&f->thread, NULL, file_main, f);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	f->runs = !rc;
	if (rc) {
		close(f->ours);
		close(f->theirs);
	}
	return -rc;
}

/* Wait for the end of the transfer. Returns its result; also again, until the next one begins. */
static int file_join(struct file *f)
{
	if (!f->runs)
		return f->rc;
	pthread_join(f->thread, NULL);
	close(f->ours);
	close(f->theirs);
	f->runs = false;
	return f->rc;
}

/* Set *err; while a transfer runs, the text of the handle is not ours. Returns -1. */
static int file_failed(const struct file *f, int rc, const char *function, GError **err)
{
	if (!f->runs && *rftp_error(f->link->r))
		return link_failed(f->link->r, rc, function, err);
	gfal2_set_error(err, plugin_domain(), -rc, function, "%s: %s", f->path, g_strerror(-rc));
	return -1;
}

static void file_free(struct file *f)
{
	link_give(f->plugin, f->link);
	g_free(f->path);
	g_free(f);
}

/* ---- open and close ---- */

static int file_prepare(struct file *f, int flags)
{
	int rc;

	if (f->writes) {
		rc = destination_check(f->link, f->path);
		return rc ? rc : file_start(f);
	}
	rc = rftp_stat(f->link->r, f->path, &f->stat);
	if (rc)
		return rc;
	return (flags & O_DIRECTORY) || (f->stat.mode & 0170000) == 0040000 ? -EISDIR : 0;
}

gfal_file_handle plugin_open(plugin_handle data, const char *url, int flags, mode_t mode,
			     GError **err)
{
	struct plugin *p = data;
	struct file *f;
	int rc;

	(void)mode; /* the server's umask decides */
	if ((flags & O_ACCMODE) == O_RDWR || (flags & O_APPEND)) {
		gfal2_set_error(err, plugin_domain(), ENOTSUP, __func__,
				"a file is read, or written from its beginning");
		return NULL;
	}
	f = g_new0(struct file, 1);
	f->plugin = p;
	f->link = link_take(p, url, 0, err);
	if (!f->link) {
		g_free(f);
		return NULL;
	}
	f->path = g_strdup(rftp_path(f->link->r));
	f->writes = (flags & O_ACCMODE) == O_WRONLY;
	f->flags = flags & O_EXCL ? RFTP_EXCLUSIVE : 0;
	f->next_length = FIRST_RANGE;
	rc = file_prepare(f, flags);
	if (!rc)
		return gfal_file_handle_new2(RFTP_PLUGIN_NAME, f, NULL, url);
	file_failed(f, rc, __func__, err);
	file_free(f);
	return NULL;
}

int plugin_close(plugin_handle data, gfal_file_handle fh, GError **err)
{
	struct file *f = gfal_file_handle_get_fdesc(fh);
	int rc;

	(void)data;
	/* The end of a put. An unfinished get fails, which is no error of the caller. */
	if (f->runs)
		shutdown(f->ours, f->writes ? SHUT_WR : SHUT_RDWR);
	rc = file_join(f);
	if (rc && f->writes)
		rc = link_failed(f->link->r, rc, __func__, err);
	else
		rc = 0;
	file_free(f);
	gfal_file_handle_delete(fh);
	return rc;
}

/* ---- read ---- */

static ssize_t receive(int fd, void *buf, size_t count)
{
	ssize_t n;

	do {
		n = recv(fd, buf, count, 0);
	} while (n < 0 && errno == EINTR);
	return n;
}

/* Let the running get continue at f->at, or end it. */
static void file_move(struct file *f)
{
	char waste[65536];

	while (f->runs && f->at > f->from + f->taken && f->at - f->from - f->taken <= DRAIN_MOST &&
	       f->at < f->from + f->length) {
		uint64_t want = f->at - f->from - f->taken;
		ssize_t n = receive(f->ours, waste, want < sizeof(waste) ? want : sizeof(waste));

		if (n <= 0)
			break;
		f->taken += (uint64_t)n;
	}
	if (!f->runs || f->at == f->from + f->taken)
		return;
	shutdown(f->ours, SHUT_RDWR);
	file_join(f);
	f->next_length = FIRST_RANGE;
}

/* Begin a get at f->at. */
static int file_get(struct file *f, size_t count)
{
	uint64_t left = f->stat.size - f->at;

	f->from = f->at;
	f->length = f->next_length > count ? f->next_length : count;
	if (f->length > left)
		f->length = left;
	if (f->next_length < MOST_RANGE)
		f->next_length *= 2;
	return file_start(f);
}

ssize_t plugin_read(plugin_handle data, gfal_file_handle fh, void *buf, size_t count, GError **err)
{
	struct file *f = gfal_file_handle_get_fdesc(fh);
	size_t have = 0;
	int rc = f->writes ? -EBADF : 0;

	(void)data;
	if (!rc)
		file_move(f);
	while (!rc && have < count && f->at < f->stat.size) {
		ssize_t n;

		if (!f->runs)
			rc = file_get(f, count - have);
		if (rc)
			break;
		n = receive(f->ours, (char *)buf + have, count - have);
		if (n > 0) {
			have += (size_t)n;
			f->at += (uint64_t)n;
			f->taken += (uint64_t)n;
			continue;
		}
		/* The end of this get: all of it has come, or it has failed. */
		rc = file_join(f);
		if (!rc && f->taken < f->length)
			rc = -EIO;
	}
	if (f->runs && f->taken == f->length)
		rc = file_join(f);
	/* After its last byte, a get fails if the file changed meanwhile: its bytes may be of two
	 * versions. */
	if (rc && f->taken == f->length) {
		f->at -= have;
		have = 0;
	}
	if (!rc || have)
		return (ssize_t)have;
	return file_failed(f, rc, __func__, err);
}

/* ---- write ---- */

ssize_t plugin_write(plugin_handle data, gfal_file_handle fh, const void *buf, size_t count,
		     GError **err)
{
	struct file *f = gfal_file_handle_get_fdesc(fh);
	size_t have = 0;
	int rc = !f->writes ? -EBADF : !f->runs ? -EPIPE : 0;

	(void)data;
	while (!rc && have < count) {
		ssize_t n = send(f->ours, (const char *)buf + have, count - have, MSG_NOSIGNAL);

		if (n > 0)
			have += (size_t)n;
		else if (errno != EINTR)
			rc = -errno;
	}
	f->at += have;
	if (!rc)
		return (ssize_t)have;
	if (f->writes && f->runs) { /* its reason */
		int why = file_join(f);

		rc = why ? why : rc;
	}
	return file_failed(f, rc, __func__, err);
}

off_t plugin_lseek(plugin_handle data, gfal_file_handle fh, off_t offset, int whence, GError **err)
{
	struct file *f = gfal_file_handle_get_fdesc(fh);
	off_t base = whence == SEEK_SET ? 0 : whence == SEEK_CUR ? (off_t)f->at :
		     (off_t)f->stat.size;

	(void)data;
	if (whence != SEEK_SET && whence != SEEK_CUR && whence != SEEK_END) {
		gfal2_set_error(err, plugin_domain(), EINVAL, __func__, "whence is %d", whence);
		return -1;
	}
	if (offset < -base || (f->writes && base + offset != (off_t)f->at)) {
		gfal2_set_error(err, plugin_domain(), f->writes ? ENOTSUP : EINVAL, __func__, "%s",
				f->writes ? "a file is written in order" : "before the beginning");
		return -1;
	}
	f->at = (uint64_t)(base + offset);
	return base + offset;
}
