// SPDX-License-Identifier: Apache-2.0
/* The file consists of cells of a few sizes; those that are given back are chained by size
 * and used again, so that it grows with what is remembered at once and not with what ever
 * was. Native byte order: nobody else reads it. */
#include "transfer/places.h"
#include "transfer/spill.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define FIRST_BYTES 64u
#define LAST_BYTES (FIRST_BYTES << (PLACES_SIZES - 1))

struct cell {
	uint64_t next;           /* of those that are free */
	uint64_t dev, ino;       /* of the directory */
	uint16_t bytes;          /* of the path below the top, behind the head, with its NUL */
	uint8_t top, size;
};

void places_init(struct places *p)
{
	*p = (struct places){ .fd = -1, .end = FIRST_BYTES }; /* 0 is no cell */
	pthread_mutex_init(&p->lock, NULL);
}

void places_destroy(struct places *p)
{
	cleanup_close(&p->fd);
	for (unsigned i = 0; i < p->ntops; i++)
		dir_put(p->tops[i]);
	pthread_mutex_destroy(&p->lock);
}

/* ---- the file, with lock held ---- */

static bool open_file(struct places *p, int dfd)
{
	if (p->fd >= 0 || p->none)
		return !p->none;
	p->fd = spill_open(dfd);
	p->none = p->fd < 0;
	return !p->none;
}

/* Which of the tops; PLACES_TOPS: there are too many. */
static unsigned top_index(struct places *p, struct dir *top)
{
	unsigned i = 0;

	while (i < p->ntops && p->tops[i] != top)
		i++;
	if (i == p->ntops && i < PLACES_TOPS)
		p->tops[p->ntops++] = dir_ref(top);
	return i;
}

/* A cell of a size; 0: the file cannot be read. */
static uint64_t new_cell(struct places *p, unsigned size)
{
	uint64_t at = p->freed[size];
	struct cell c;

	if (!at) {
		at = p->end;
		p->end += FIRST_BYTES << size;
		return at;
	}
	if (pread_full(p->fd, &c, sizeof(c), (off_t)at) != sizeof(c))
		return 0;
	p->freed[size] = c.next;
	return at;
}

static void free_cell(struct places *p, uint64_t at, unsigned size)
{
	struct cell c = { .next = p->freed[size], .size = (uint8_t)size };

	if (!pwrite_full(p->fd, &c, sizeof(c), (off_t)at))
		p->freed[size] = at;
}

/* ---- what it is for ---- */

static uint64_t write_cell(struct places *p, struct dir *top, uint8_t *bytes, size_t len)
{
	LOCK_GUARD(guard, &p->lock);
	struct cell *c = (struct cell *)bytes;
	unsigned top_nr = top_index(p, top), size = 0;
	uint64_t at;

	if (top_nr == PLACES_TOPS)
		return 0;
	while (FIRST_BYTES << size < len)
		size++;
	at = new_cell(p, size);
	if (!at)
		return 0;
	c->top = (uint8_t)top_nr;
	c->size = (uint8_t)size;
	if (pwrite_full(p->fd, bytes, len, (off_t)at)) {
		free_cell(p, at, size);
		return 0;
	}
	return at | 1;
}

uint64_t places_put(struct places *p, struct dir *dir, const char *name)
{
	union {
		struct cell c;
		uint8_t bytes[LAST_BYTES];
	} u = { .c = { 0 } };
	struct dir *top;
	char *path CLEANUP_FREE = dir_below(dir, name, &top);
	size_t len = path ? strlen(path) + 1 : 0;
	struct stat st;
	int dfd;
	bool good;

	if (!path || sizeof(u.c) + len > sizeof(u.bytes))
		return 0;
	dfd = dir_pin(dir);
	if (dfd < 0)
		return 0;
	pthread_mutex_lock(&p->lock);
	good = open_file(p, dfd);
	pthread_mutex_unlock(&p->lock);
	good = good && !fstat(dfd, &st);
	dir_unpin(dir);
	if (!good)
		return 0;
	u.c.dev = st.st_dev;
	u.c.ino = st.st_ino;
	u.c.bytes = (uint16_t)len;
	memcpy(u.bytes + sizeof(u.c), path, len);
	return write_cell(p, top, u.bytes, sizeof(u.c) + len);
}

/* The path and where it begins. */
static int read_cell(struct places *p, uint64_t at, struct cell *c, char path[LAST_BYTES],
		     struct dir **top)
{
	LOCK_GUARD(guard, &p->lock);

	if (pread_full(p->fd, c, sizeof(*c), (off_t)at) != sizeof(*c) || !c->bytes ||
	    c->bytes > LAST_BYTES || c->top >= p->ntops ||
	    pread_full(p->fd, path, c->bytes, (off_t)(at + sizeof(*c))) != c->bytes)
		return -EIO;
	path[c->bytes - 1] = '\0';
	*top = p->tops[c->top];
	return 0;
}

/* Names are made and moved by others, too: what has the directory's must be that one. */
static int check_dir(struct dir *d, const struct cell *c)
{
	int dfd = dir_pin(d);
	struct stat st;
	bool same;

	if (dfd < 0)
		return dfd;
	same = !fstat(dfd, &st) && st.st_dev == c->dev && st.st_ino == c->ino;
	dir_unpin(d);
	return same ? 0 : -ESTALE;
}

int places_get(struct places *p, uint64_t at, struct dir **dir, char **name)
{
	char path[LAST_BYTES], *last;
	struct dir *top;
	struct cell c;
	int r = read_cell(p, at & ~1ull, &c, path, &top);

	*dir = NULL;
	*name = NULL;
	if (r)
		return r;
	last = strrchr(path, '/');
	*name = strdup(last ? last + 1 : path);
	if (last)
		*last = '\0';
	*dir = dir_at(top, last ? path : "");
	r = *name && *dir ? check_dir(*dir, &c) : -ENOMEM;
	if (!r)
		return 0;
	dir_put(steal_ptr(dir));
	free(steal_ptr(name));
	return r;
}

void places_drop(struct places *p, uint64_t at)
{
	LOCK_GUARD(guard, &p->lock);
	struct cell c;

	at &= ~1ull;
	if (pread_full(p->fd, &c, sizeof(c), (off_t)at) == sizeof(c) && c.size < PLACES_SIZES)
		free_cell(p, at, c.size);
}
