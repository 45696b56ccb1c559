// SPDX-License-Identifier: Apache-2.0
/* Opens what is to be measured, or makes it. */
#include "numa/target.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/magic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/statvfs.h>
#include <unistd.h>

#define CHUNK (1u << 20)
#define ALIGNMENT 4096u /* enough for the buffer of any disk's direct I/O */

/* ---- its node ---- */

/* Of the disk that fd is or is on. */
static struct ids disk_nodes(const struct topo *t, int fd)
{
	struct ids none = { 0 };
	struct stat st;

	if (fstat(fd, &st))
		return none;
	return topo_device(t, S_ISBLK(st.st_mode) ? st.st_rdev : st.st_dev);
}

static int find_node(struct io_target *f, const struct target_wish *w, const struct topo *t,
		     struct err *e)
{
	struct ids nodes;

	f->node = w->node;
	if (f->node == NODE_UNKNOWN && topo_nodes(t) == 1)
		f->node = topo_node(t, 0)->id;
	if (f->node != NODE_UNKNOWN)
		return 0;
	nodes = disk_nodes(t, f->fd);
	f->node = ids_only(&nodes);
	return f->node != NODE_UNKNOWN ? 0 :
	       err_set(e, -ENODEV, "%s: %s; say with --device-node which to take for it",
		       printable(w->path), ids_count(&nodes) ?
		       "its disk is on several nodes" :
		       "which node its disk is on is not known");
}

/* ---- direct I/O ---- */

static bool in_memory(int fd)
{
	struct statfs s;

	return !fstatfs(fd, &s) && (s.f_type == TMPFS_MAGIC || s.f_type == RAMFS_MAGIC);
}

/* A read as fio's will be says whether it can be. */
static const char *try_direct(int fd, uint64_t block)
{
	void *buffer CLEANUP_FREE = NULL;
	int direct CLEANUP_CLOSE = -1;
	char name[40];

	if (in_memory(fd))
		return "the files of this filesystem are memory"; /* newer kernels only pretend */
	snprintf(name, sizeof(name), "/proc/self/fd/%d", fd);
	direct = open(name, O_RDONLY | O_CLOEXEC | O_DIRECT);
	if (direct < 0)
		return errno == EINVAL ? "this filesystem has none" : strerror(errno);
	if (posix_memalign(&buffer, ALIGNMENT, block))
		return "no memory for a block";
	if (pread(direct, buffer, block, 0) >= 0)
		return NULL;
	return errno == EINVAL ? "not in blocks of this size" : strerror(errno);
}

static void choose_direct(struct io_target *f, const struct target_wish *w)
{
	f->why_not_direct = w->buffered ? NULL : try_direct(f->fd, w->block);
	f->direct = !w->buffered && !f->why_not_direct;
}

/* ---- a file of our own ---- */

static void fill_chunk(uint64_t *chunk, uint64_t *state)
{
	/* No zeros to be left out, and nothing to compress. */
	for (size_t i = 0; i < CHUNK / sizeof(*chunk); i++)
		chunk[i] = random_next(state);
}

struct filler {
	const struct target_wish *w;
	const struct ids *cpus; /* of the device's node: memory that is a file comes from there */
	int fd;
	const struct stop *stop;
};

static int fill(const struct filler *f)
{
	CLEANUP_FREE uint64_t *chunk = malloc(CHUNK);
	uint64_t state = 0;
	int r = chunk ? 0 : -ENOMEM;

	if (f->cpus)
		place_thread(f->cpus); /* at worst it is filled from elsewhere */
	for (uint64_t at = 0; !r && at < f->w->bytes; at += CHUNK) {
		uint64_t left = f->w->bytes - at;

		fill_chunk(chunk, &state);
		r = pwrite_full(f->fd, chunk, left < CHUNK ? left : CHUNK, (off_t)at);
		if (!r && stop_asked(f->stop))
			r = -EINTR;
	}
	/* What is still being written must not be in the way of the first run. */
	return r ? r : fdatasync(f->fd) ? -errno : 0;
}

static void *fill_thread(void *arg)
{
	return (void *)(intptr_t)fill(arg);
}

static int fill_on_node(const struct io_target *f, const struct target_wish *w,
			const struct topo *t, const struct stop *stop)
{
	const struct node *n = topo_find(t, f->node);
	struct filler filler = { w, n ? &n->cpus : NULL, f->fd, stop };
	pthread_t thread;
	void *result;
	int r = thread_start(&thread, "fill", fill_thread, &filler);

	if (r)
		return r;
	pthread_join(thread, &result);
	return (int)(intptr_t)result;
}

/* Rather than to take what others need before it turns out to be too little. A filesystem that
 * does not count tells of no blocks at all. */
static int check_room(int fd, const struct target_wish *w, struct err *e)
{
	char size[32], room[32];
	struct statvfs s;
	uint64_t left;

	if (fstatvfs(fd, &s) || !s.f_blocks)
		return 0;
	left = (uint64_t)s.f_bavail * s.f_frsize;
	return left >= w->bytes ? 0 :
	       err_set(e, -ENOSPC, "%s: a file of %s (--size) does not fit: %s are free",
		       printable(w->path), format_size(size, sizeof(size), w->bytes),
		       format_size(room, sizeof(room), left));
}

static int make_file(struct io_target *f, const struct target_wish *w, const struct topo *t,
		     const struct stop *stop, struct err *e)
{
	char name[PATH_MAX], size[32];
	int r;

	r = snprintf(name, sizeof(name), "%s/.rftp-numa-XXXXXX", w->path);
	if (r < 0 || (size_t)r >= sizeof(name))
		return err_sys(e, -ENAMETOOLONG, "%s", printable(w->path));
	f->fd = mkostemp(name, O_CLOEXEC);
	if (f->fd < 0)
		return err_sys(e, -errno, "%s: no file can be made in it", printable(w->path));
	/* Signals that would end us are held back by now. */
	if (unlink(name))
		return err_sys(e, -errno, "%s: cannot be removed", printable(name));
	r = find_node(f, w, t, e);
	if (!r)
		r = check_room(f->fd, w, e);
	if (r)
		return r;
	r = fill_on_node(f, w, t, stop);
	f->bytes = w->bytes;
	if (r == -EINTR)
		return err_set(e, r, "stopped by a signal");
	return r ? err_sys(e, r, "%s: a file of %s (--size) cannot be written there",
			   printable(w->path), format_size(size, sizeof(size), w->bytes)) : 0;
}

/* ---- what there is ---- */

static int open_there(struct io_target *f, const struct target_wish *w, bool disk,
		      const struct topo *t, struct err *e)
{
	off_t end;

	if (w->write)
		return err_set(e, -EPERM, "%s: %s is only read, for writing would destroy what is "
			       "in it; name a directory on it", printable(w->path),
			       disk ? "a disk" : "a file that there is");
	f->fd = open(w->path, O_RDONLY | O_CLOEXEC);
	end = f->fd < 0 ? -1 : lseek(f->fd, 0, SEEK_END);
	if (end < 0)
		return err_sys(e, -errno, "%s", printable(w->path));
	f->bytes = (uint64_t)end < w->bytes ? (uint64_t)end : w->bytes;
	return find_node(f, w, t, e);
}

int target_open(struct io_target *f, const struct target_wish *w, const struct topo *t,
		const struct stop *stop, struct err *e)
{
	struct stat st;
	int r;

	*f = (struct io_target){ .fd = -1, .node = NODE_UNKNOWN };
	if (stat(w->path, &st))
		return err_sys(e, -errno, "%s", printable(w->path));
	if (S_ISDIR(st.st_mode))
		r = make_file(f, w, t, stop, e);
	else if (S_ISREG(st.st_mode) || S_ISBLK(st.st_mode))
		r = open_there(f, w, S_ISBLK(st.st_mode), t, e);
	else
		r = err_set(e, -EINVAL, "%s: neither a directory nor a file nor a disk",
			    printable(w->path));
	if (r)
		return r;
	choose_direct(f, w);
	return 0;
}

void target_drop_cache(const struct io_target *f)
{
	/* Only what has been written down can be dropped. */
	if (!fdatasync(f->fd))
		posix_fadvise(f->fd, 0, 0, POSIX_FADV_DONTNEED);
}

void target_close(struct io_target *f)
{
	cleanup_close(&f->fd);
}
