// SPDX-License-Identifier: Apache-2.0
/* Puts memory and threads where they belong, and looks where they are. */
#include "numa/topo.h"

#include <errno.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#ifdef HAVE_NUMA
#include <numaif.h>
#endif

#define NODES_MAX (NODE_MOST + 1u)
#define LOOK_AT 262144u  /* pages of a region, at most */
#define CHUNK 1024u      /* pages asked for at once */

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif

/* ---- memory ---- */

#ifdef HAVE_NUMA

int place_memory(void *base, size_t bytes, int node, bool strict)
{
	unsigned long mask[NODES_MAX / (8 * sizeof(long))] = { 0 };
	const unsigned bits = 8 * sizeof(long);

	if (node < 0 || (unsigned)node >= NODES_MAX)
		return -EINVAL;
	mask[(unsigned)node / bits] = 1ul << (unsigned)node % bits;
	/* The kernel takes one bit less than it is told there are. */
	return mbind(base, bytes, strict ? MPOL_BIND : MPOL_PREFERRED, mask, NODES_MAX + 1, 0) ?
	       -errno : 0;
}

void place_anywhere(void *base, size_t bytes)
{
	(void)mbind(base, bytes, MPOL_DEFAULT, NULL, 0, 0);
}

void place_prefer(int node, struct place_policy *old)
{
	struct place_policy p = { .mode = MPOL_PREFERRED };
	const unsigned bits = 8 * sizeof(long);

	old->mode = -1;
	if (node < 0 || (unsigned)node >= NODES_MAX ||
	    get_mempolicy(&old->mode, old->nodes, NODES_MAX + 1, NULL, 0)) {
		old->mode = -1;
		return;
	}
	p.nodes[(unsigned)node / bits] = 1ul << (unsigned)node % bits;
	(void)set_mempolicy(p.mode, p.nodes, NODES_MAX + 1);
}

void place_back(const struct place_policy *old)
{
	if (old->mode >= 0)
		(void)set_mempolicy(old->mode, old->nodes, NODES_MAX + 1);
}

static void count(struct place_count *c, int status, int node, size_t bytes)
{
	if (status == node)
		c->there += bytes;
	else if (status >= 0)
		c->elsewhere += bytes;
	else
		c->untouched += bytes; /* -ENOENT, or the zero page */
}

int place_count(const void *base, size_t bytes, int node, struct place_count *c)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE), pages = (bytes + page - 1) / page;
	size_t step = (pages + LOOK_AT - 1) / LOOK_AT;
	void *at[CHUNK];
	int status[CHUNK];

	*c = (struct place_count){ 0 };
	for (size_t i = 0; i < pages;) {
		size_t first = i, n = 0;

		for (; n < CHUNK && i < pages; i += step)
			at[n++] = (char *)(uintptr_t)base + i * page;
		/* Without a list of nodes nothing is moved. */
		if (move_pages(0, n, at, NULL, status, 0))
			return -errno;
		for (size_t k = 0; k < n; k++) {
			size_t from = (first + k * step) * page, len = step * page;

			count(c, status[k], node, len < bytes - from ? len : bytes - from);
		}
	}
	return 0;
}

#else

int place_memory(void *base, size_t bytes, int node, bool strict)
{
	(void)base;
	(void)bytes;
	(void)node;
	(void)strict;
	return -ENOSYS;
}

void place_anywhere(void *base, size_t bytes)
{
	(void)base;
	(void)bytes;
}

void place_prefer(int node, struct place_policy *old)
{
	(void)node;
	old->mode = -1;
}

void place_back(const struct place_policy *old)
{
	(void)old;
}

int place_count(const void *base, size_t bytes, int node, struct place_count *c)
{
	(void)base;
	(void)bytes;
	(void)node;
	*c = (struct place_count){ 0 };
	return -ENOSYS;
}

#endif

int place_may_have(int node)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE);
	void *p = mmap(NULL, page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	int r = p == MAP_FAILED ? -errno : place_memory(p, page, node, true);

	if (p != MAP_FAILED)
		munmap(p, page);
	return r;
}

int place_fault_in(void *base, size_t bytes)
{
	return madvise(base, bytes, MADV_POPULATE_WRITE) ? -errno : 0;
}

/* ---- threads ---- */

_Static_assert(sizeof(struct ids) * 8 == IDS_MAX, "a set is a bit for each");

/* The kernel's masks are of longs, sets of 64 bits: the same on 64-bit machines, and on
 * little-endian ones. */
int place_cpus(struct ids *cpus)
{
	memset(cpus, 0, sizeof(*cpus));
	return sched_getaffinity(0, sizeof(*cpus), (cpu_set_t *)cpus) < 0 ? -errno : 0;
}

int place_thread(const struct ids *cpus)
{
	struct ids allowed;
	int r = place_cpus(&allowed);

	if (r)
		return r;
	ids_intersect(&allowed, cpus);
	if (!ids_count(&allowed))
		return -EINVAL;
	return sched_setaffinity(0, sizeof(allowed), (const cpu_set_t *)&allowed) < 0 ? -errno : 0;
}

void place_self(const struct ids *cpus)
{
	char text[64];
	int r = ids_count(cpus) ? place_thread(cpus) : 0;

	if (r)
		log_warn("a thread cannot be put on CPUs %s: %s",
			 ids_format(text, sizeof(text), cpus), strerror(-r));
}
