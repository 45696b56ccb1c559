// SPDX-License-Identifier: Apache-2.0
/* Open addressing with linear probing; what is removed leaves no mark behind. */
#include "transfer/inodes.h"

#include <stdbool.h>
#include <stdlib.h>

#define FIRST_ROOM 64
#define NO_DEV UINT32_MAX

/* ---- devices ---- */

static uint32_t find_dev(struct inodes *t, uint64_t dev)
{
	if (t->dev < t->ndevs && t->devs[t->dev] == dev)
		return t->dev;
	for (uint32_t i = 0; i < t->ndevs; i++)
		if (t->devs[i] == dev)
			return t->dev = i;
	return NO_DEV;
}

static uint32_t add_dev(struct inodes *t, uint64_t dev)
{
	if (!(t->ndevs & (t->ndevs - 1))) { /* a power of two: grow */
		size_t room = t->ndevs ? 2ul * t->ndevs : 1;
		uint64_t *devs = reallocarray(t->devs, room, sizeof(*devs));

		if (!devs)
			return NO_DEV;
		t->devs = devs;
	}
	t->devs[t->ndevs] = dev;
	return t->dev = t->ndevs++;
}

/* ---- slots ---- */

/* Where the search for an inode begins. */
static size_t home(const struct inodes *t, uint32_t dev, uint64_t ino)
{
	uint64_t h = (ino + ((uint64_t)dev << 32)) * 0x9e3779b97f4a7c15u;

	return (size_t)(h ^ h >> 32) & (t->room - 1);
}

static size_t next(const struct inodes *t, size_t at)
{
	return (at + 1) & (t->room - 1);
}

/* The slot of the inode, or the free one where it would go. */
static struct inode *slot_of(struct inodes *t, uint32_t dev, uint64_t ino)
{
	size_t at = home(t, dev, ino);

	while (t->v[at].id && (t->v[at].ino != ino || t->v[at].dev != dev))
		at = next(t, at);
	return &t->v[at];
}

static bool grow(struct inodes *t)
{
	struct inodes old = *t;

	t->room = old.room ? 2 * old.room : FIRST_ROOM;
	t->v = calloc(t->room, sizeof(*t->v));
	if (!t->v) {
		*t = old;
		return false;
	}
	for (size_t i = 0; i < old.room; i++)
		if (old.v[i].id)
			*slot_of(t, old.v[i].dev, old.v[i].ino) = old.v[i];
	free(old.v);
	return true;
}

struct inode *inodes_find(struct inodes *t, uint64_t dev, uint64_t ino)
{
	uint32_t d = t->n ? find_dev(t, dev) : NO_DEV;
	struct inode *i = d == NO_DEV ? NULL : slot_of(t, d, ino);

	return i && i->id ? i : NULL;
}

struct inode *inodes_add(struct inodes *t, uint64_t dev, uint64_t ino, uint64_t id)
{
	uint32_t d = find_dev(t, dev);
	struct inode *i;

	if (t->n >= t->room / 8 * 7 && !grow(t))
		return NULL;
	if (d == NO_DEV)
		d = add_dev(t, dev);
	if (d == NO_DEV)
		return NULL;
	i = slot_of(t, d, ino);
	*i = (struct inode){ .ino = ino, .dev = d, .id = id };
	t->n++;
	return i;
}

/* Those behind the gap come forward, unless it lies before where their search begins. */
void inodes_remove(struct inodes *t, struct inode *i)
{
	size_t gap = (size_t)(i - t->v), at = gap;

	t->n--;
	for (;;) {
		size_t from;

		t->v[gap].id = 0;
		do {
			at = next(t, at);
			if (!t->v[at].id)
				return;
			from = home(t, t->v[at].dev, t->v[at].ino);
		} while (((at - from) & (t->room - 1)) < ((at - gap) & (t->room - 1)));
		t->v[gap] = t->v[at];
		gap = at;
	}
}

void inodes_clear(struct inodes *t)
{
	free(t->v);
	free(t->devs);
	*t = (struct inodes){ 0 };
}
