// SPDX-License-Identifier: Apache-2.0
/* How much memory a node has, and has to give. */
#include "numa/topo.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MEMINFO_MAX 65536

/* KiB behind each of keys, NULL at the end, in "Node 0 MemTotal:   131072 kB" among lines, or
 * "MemTotal:   131072 kB": bytes. */
static uint64_t sum_of(const char *lines, const char *const *keys)
{
	uint64_t sum = 0;

	for (; *keys; keys++) {
		const char *at = strstr(lines, *keys);

		if (at)
			sum += strtoull(at + strlen(*keys), NULL, 10) << 10;
	}
	return sum;
}

/* "hugepages-2048kB" in a node's directory: pages there are, and those that are free. */
static void add_huge(const struct topo *t, const char *dir, const char *kind,
		     struct node_memory *m)
{
	uint64_t size = strtoull(kind + strcspn(kind, "0123456789"), NULL, 10) << 10;

	m->huge += sys_number(t, dir, kind, "nr_hugepages") * size;
	m->huge_free += sys_number(t, dir, kind, "free_hugepages") * size;
}

static void find_huge(const struct topo *t, const char *dir, struct node_memory *m)
{
	CLEANUP_FREE char *path = NULL;
	struct dirent *e;
	DIR *d;

	if (asprintf(&path, "%s/%s", t->sys, dir) < 0) {
		path = NULL;
		return;
	}
	d = opendir(path);
	while (d && (e = readdir(d)))
		if (!strncmp(e->d_name, "hugepages-", 10))
			add_huge(t, dir, e->d_name, m);
	if (d)
		closedir(d);
}

/* The node's own, or of a kernel that knows no nodes the machine's. */
static int read_meminfo(const struct topo *t, int node, char **text)
{
	CLEANUP_FREE char *path = NULL;
	int r;

	if (asprintf(&path, "%s/devices/system/node/node%d/meminfo", t->sys, node) < 0) {
		path = NULL;
		return -ENOMEM;
	}
	r = read_file(path, MEMINFO_MAX, text, NULL);
	if (r == -ENOENT && t->n == 1 && sys_is_own(t))
		r = read_file("/proc/meminfo", MEMINFO_MAX, text, NULL);
	return r;
}

int topo_memory(const struct topo *t, int node, struct node_memory *m)
{
	static const char *const total[] = { "MemTotal:", NULL };
	static const char *const free_now[] = { "MemFree:", NULL };
	static const char *const room[] = { "MemFree:", "Active(file):", "Inactive(file):", NULL };
	CLEANUP_FREE char *text = NULL;
	char dir[64];

	*m = (struct node_memory){ 0 };
	if (!topo_find(t, node) || read_meminfo(t, node, &text))
		return -ENOENT;
	m->total = sum_of(text, total);
	m->free = sum_of(text, free_now);
	m->room = sum_of(text, room);
	snprintf(dir, sizeof(dir), "devices/system/node/node%d/hugepages", node);
	find_huge(t, dir, m);
	return 0;
}

uint64_t topo_huge_free(const struct topo *t, int node, uint64_t size)
{
	char dir[96];

	snprintf(dir, sizeof(dir), "node%d/hugepages/hugepages-%llukB", node,
		 (unsigned long long)(size >> 10));
	return sys_number(t, "devices/system/node", dir, "free_hugepages") * size;
}
