// SPDX-License-Identifier: Apache-2.0
/* Where a file's pages are. Only what is mapped into this process can be asked for, and what is
 * mapped by touching it is allocated if it is a hole and read in if it is in swap space; so only
 * that is touched which is in memory already. Pages that were allocated beforehand and not written
 * since look like a hole, but for the number of blocks: when that is the whole file's, none of it
 * is one. */
#include "iser_setup/where.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#define TMPFS_MAGIC 0x01021994
#define WINDOW (2u << 20)  /* bytes looked at side by side: pages may take turns on nodes */
#define WINDOWS 512u       /* of a file, at most */
#define PAGE_LEAST 4096u
#define BLOCK 512u         /* st_blocks' */

#ifndef MADV_POPULATE_READ
#define MADV_POPULATE_READ 22
#endif

struct look {
	const struct topo *t;
	int fd;
	size_t page;
	bool allocated;    /* the file has no holes */
	uint64_t *on;      /* of each node, in topo_node's order: bytes of this window */
	uint64_t data;     /* of this window that is no hole */
	struct err *e;
};

/* ---- a piece without holes ---- */

/* Those of the pages that are in memory, as mincore told, into this process's page table. */
static int populate(const struct look *l, char *base, const unsigned char *there, size_t pages)
{
	for (size_t i = 0; i < pages;) {
		size_t first = i;

		while (i < pages && there[i] & 1)
			i++;
		/* -EFAULT: the file has become shorter meanwhile. */
		if (i > first && madvise(base + first * l->page, (i - first) * l->page,
					 MADV_POPULATE_READ) && errno != EFAULT)
			return err_sys(l->e, -errno, "pages cannot be looked at (that wants Linux "
				       "5.14)");
		while (i < pages && !(there[i] & 1))
			i++;
	}
	return 0;
}

static int count(struct look *l, const char *base, size_t bytes)
{
	for (unsigned i = 0; i < topo_nodes(l->t); i++) {
		struct place_count c;
		int r = place_count(base, bytes, topo_node(l->t, i)->id, &c);

		if (r)
			return err_sys(l->e, r, "where pages are is not told here");
		l->on[i] += c.there;
		if (!c.elsewhere && c.there)
			break;
	}
	return 0;
}

/* written: of what was not, all is in memory. */
static int look_at_piece(struct look *l, off_t from, size_t bytes, bool written)
{
	unsigned char there[WINDOW / PAGE_LEAST];
	size_t pages = (bytes + l->page - 1) / l->page;
	void *base = mmap(NULL, bytes, PROT_READ, MAP_SHARED, l->fd, from);
	int r;

	if (base == MAP_FAILED)
		return err_sys(l->e, -errno, "it cannot be mapped");
	memset(there, 1, sizeof(there));
	r = written && mincore(base, bytes, there) ? err_sys(l->e, -errno, "mincore") : 0;
	if (!r)
		r = populate(l, base, there, pages);
	if (!r)
		r = count(l, base, bytes);
	munmap(base, bytes);
	l->data += bytes;
	return r;
}

/* ---- a window ---- */

/* lseek's SEEK_DATA or SEEK_HOLE, but not beyond to. */
static off_t next(const struct look *l, off_t at, off_t to, int whence)
{
	off_t found = lseek(l->fd, at, whence);

	if (found < 0)
		return errno == ENXIO ? to : err_sys(l->e, -errno, "SEEK_DATA or SEEK_HOLE");
	return found < to ? found : to;
}

static int look_at_window(struct look *l, off_t from, off_t to)
{
	int r = 0;

	for (off_t at = from; !r && at < to;) {
		off_t data = next(l, at, to, SEEK_DATA);
		off_t hole = data < 0 || data == to ? data : next(l, data, to, SEEK_HOLE);

		if (hole < 0)
			return (int)hole;
		if (l->allocated && data > at)
			r = look_at_piece(l, at, (size_t)(data - at), false);
		if (!r && hole > data)
			r = look_at_piece(l, data, (size_t)(hole - data), true);
		at = hole;
	}
	return r;
}

/* So many of span bytes when there are bytes of those looked at. */
static uint64_t stands_for(uint64_t bytes, uint64_t looked_at, uint64_t span)
{
	return bytes / looked_at * span + bytes % looked_at * span / looked_at;
}

/* What a window of looked_at bytes that stands for span has shown. */
static void add(struct file_pages *p, const struct look *l, uint64_t looked_at, uint64_t span)
{
	uint64_t on_nodes = 0;

	for (size_t i = 0; i < p->n_on; i++) {
		p->on[i].bytes += stands_for(l->on[i], looked_at, span);
		on_nodes += l->on[i];
	}
	p->holes += stands_for(looked_at - l->data, looked_at, span);
	p->swapped += stands_for(l->data - on_nodes, looked_at, span);
}

static int look_at_all(struct look *l, uint64_t size, struct file_pages *p)
{
	uint64_t windows = (size + WINDOW - 1) / WINDOW;
	uint64_t stride = (windows + WINDOWS - 1) / WINDOWS * WINDOW;
	int r = 0;

	p->sampled = stride > WINDOW;
	for (uint64_t from = 0; !r && from < size; from += stride) {
		uint64_t left = size - from, looked_at = left < WINDOW ? left : WINDOW;

		memset(l->on, 0, p->n_on * sizeof(*l->on));
		l->data = 0;
		r = look_at_window(l, (off_t)from, (off_t)(from + looked_at));
		if (!r)
			add(p, l, looked_at, left < stride ? left : stride);
	}
	return r;
}

/* ---- the file ---- */

/* It never waits, as for a FIFO. */
static int open_file(const char *path, uint64_t *size, bool *allocated, struct err *e)
{
	CLEANUP_CLOSE int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	struct statfs fs;
	struct stat st;

	if (fd < 0 || fstat(fd, &st) || fstatfs(fd, &fs))
		return err_sys(e, -errno, "%s", printable(path));
	if (!S_ISREG(st.st_mode) || fs.f_type != TMPFS_MAGIC)
		return err_set(e, -ENOTSUP, "%s: is no file in a tmpfs", printable(path));
	*size = (uint64_t)st.st_size;
	*allocated = (uint64_t)st.st_blocks * BLOCK >= *size;
	return steal_fd(&fd);
}

static void drop_empty(struct file_pages *p)
{
	size_t n = 0;

	for (size_t i = 0; i < p->n_on; i++)
		if (p->on[i].bytes)
			p->on[n++] = p->on[i];
	p->n_on = n;
}

int file_pages_read(const struct topo *t, const char *path, struct file_pages *p, struct err *e)
{
	CLEANUP_FREE uint64_t *on = calloc(topo_nodes(t), sizeof(*on));
	struct err own = ERR_INIT;
	CLEANUP_CLOSE int fd = -1;
	struct look l = { .t = t, .page = (size_t)sysconf(_SC_PAGESIZE), .on = on,
			  .e = e ? e : &own };
	uint64_t size = 0;

	*p = (struct file_pages){ .on = calloc(topo_nodes(t), sizeof(*p->on)) };
	if (!on || !p->on)
		return err_set(e, -ENOMEM, "out of memory");
	fd = open_file(path, &size, &l.allocated, e);
	if (fd < 0)
		return fd;
	l.fd = fd;
	p->n_on = topo_nodes(t);
	for (unsigned i = 0; i < topo_nodes(t); i++)
		p->on[i].node = topo_node(t, i)->id;
	if (look_at_all(&l, size, p))
		return err_prefix(l.e, "%s", printable(path));
	drop_empty(p);
	return 0;
}

void file_pages_clear(struct file_pages *p)
{
	free(p->on);
	*p = (struct file_pages){ 0 };
}

uint64_t file_pages_on(const struct file_pages *p, int node)
{
	for (size_t i = 0; i < p->n_on; i++)
		if (p->on[i].node == node)
			return p->on[i].bytes;
	return 0;
}

uint64_t file_pages_elsewhere(const struct file_pages *p, int node)
{
	uint64_t bytes = 0;

	for (size_t i = 0; i < p->n_on; i++)
		if (p->on[i].node != node)
			bytes += p->on[i].bytes;
	return bytes;
}
