// SPDX-License-Identifier: Apache-2.0
/* The nodes of this machine: devices/system/node of sysfs. */
#include "numa/topo.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define NODES "devices/system/node"

/* ---- files ---- */

__attribute__((format(printf, 3, 0)))
static int read_at(const struct topo *t, char text[SYS_TEXT], const char *fmt, va_list ap)
{
	char name[PATH_MAX], path[PATH_MAX];
	int n = vsnprintf(name, sizeof(name), fmt, ap), fd CLEANUP_CLOSE = -1;
	ssize_t got;

	text[0] = '\0';
	if (n >= 0 && (size_t)n < sizeof(name))
		n = snprintf(path, sizeof(path), "%s%s%s", name[0] == '/' ? "" : t->sys,
			     name[0] == '/' ? "" : "/", name);
	if (n < 0 || (size_t)n >= sizeof(path))
		return -ENAMETOOLONG;
	fd = open(path, O_RDONLY | O_CLOEXEC);
	got = fd < 0 ? -errno : read_full(fd, text, SYS_TEXT - 1);
	text[got < 0 ? 0 : got] = '\0';
	return got < 0 ? (int)got : 0;
}

int sys_text(const struct topo *t, char text[SYS_TEXT], const char *fmt, ...)
{
	va_list ap;
	int r;

	va_start(ap, fmt);
	r = read_at(t, text, fmt, ap);
	va_end(ap);
	return r;
}

int sys_line(const struct topo *t, char text[SYS_TEXT], const char *fmt, ...)
{
	va_list ap;
	int r;

	va_start(ap, fmt);
	r = read_at(t, text, fmt, ap);
	va_end(ap);
	text[strcspn(text, "\n")] = '\0';
	return r;
}

static int read_ids(const struct topo *t, const char *dir, const char *file, struct ids *s)
{
	char text[SYS_TEXT];
	int r = sys_line(t, text, "%s/%s", dir, file);

	memset(s, 0, sizeof(*s));
	return r ? r : ids_parse(text, s);
}

/* ---- a node ---- */

/* "Node 0 MemTotal:       131072 kB" among its lines: the number behind key; 0: none. */
static uint64_t number_at(const char *text, const char *key)
{
	const char *at = strstr(text, key);

	return at ? strtoull(at + strlen(key), NULL, 10) : 0;
}

/* The default huge page's size is the machine's, not a node's. */
static uint64_t huge_bytes(void)
{
	CLEANUP_FREE char *text = NULL;

	return read_file("/proc/meminfo", 1 << 16, &text, NULL) ? 0 :
	       number_at(text, "Hugepagesize:") << 10;
}

static void read_memory(const struct topo *t, struct node *n, const char *dir)
{
	char text[SYS_TEXT];

	sys_text(t, text, "%s/meminfo", dir);
	n->memory = number_at(text, "MemTotal:") << 10;
	n->memory_free = number_at(text, "MemFree:") << 10;
	n->huge = number_at(text, "HugePages_Total:") * huge_bytes();
	n->huge_free = number_at(text, "HugePages_Free:") * huge_bytes();
}

static int read_distances(const struct topo *t, struct node *n, const char *dir)
{
	char text[SYS_TEXT], *p = text, *end;

	n->distance = calloc(t->n, sizeof(*n->distance));
	if (!n->distance)
		return -ENOMEM;
	sys_line(t, text, "%s/distance", dir);
	for (unsigned i = 0; i < t->n; i++, p = end) {
		n->distance[i] = (unsigned)strtoul(p, &end, 10);
		if (end == p)
			break;
	}
	return 0;
}

static int read_node(const struct topo *t, struct node *n)
{
	char dir[64];

	snprintf(dir, sizeof(dir), NODES "/node%d", n->id);
	read_ids(t, dir, "cpulist", &n->cpus);
	read_memory(t, n, dir);
	return read_distances(t, n, dir);
}

/* ---- the machine ---- */

/* A kernel that knows no nodes. */
static int make_only_node(struct topo *t)
{
	t->n = 1;
	t->node = calloc(1, sizeof(*t->node));
	if (!t->node)
		return -ENOMEM;
	read_ids(t, "devices/system/cpu", "online", &t->node->cpus);
	t->node->memory = (uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE);
	t->node->memory_free = (uint64_t)sysconf(_SC_AVPHYS_PAGES) *
			       (uint64_t)sysconf(_SC_PAGESIZE);
	t->node->distance = calloc(1, sizeof(unsigned));
	if (!t->node->distance)
		return -ENOMEM;
	t->node->distance[0] = 10;
	return 0;
}

static int read_nodes(struct topo *t)
{
	struct ids online;
	int r = read_ids(t, NODES, "online", &online);

	if (r || !ids_count(&online))
		return make_only_node(t);
	t->n = ids_count(&online);
	t->node = calloc(t->n, sizeof(*t->node));
	if (!t->node)
		return -ENOMEM;
	for (unsigned i = 0, id = 0; i < t->n; i++, id++) {
		id = (unsigned)ids_next(&online, id);
		t->node[i].id = (int)id;
	}
	for (unsigned i = 0; !r && i < t->n; i++)
		r = read_node(t, &t->node[i]);
	return r;
}

struct topo *topo_read(const char *sysfs, struct err *e)
{
	struct topo *t = calloc(1, sizeof(*t));
	int r = t ? 0 : -ENOMEM;

	if (!sysfs)
		sysfs = getenv("RFTP_SYSFS");
	if (!sysfs || !*sysfs)
		sysfs = "/sys";
	if (t) {
		t->sys = realpath(sysfs, NULL);
		r = t->sys ? read_nodes(t) : -errno;
	}
	if (!r)
		return t;
	topo_free(t);
	err_sys(e, r, "%s", printable(sysfs));
	return NULL;
}

void topo_free(struct topo *t)
{
	if (!t)
		return;
	for (unsigned i = 0; t->node && i < t->n; i++)
		free(t->node[i].distance);
	free(t->node);
	free(t->sys);
	free(t);
}

unsigned topo_nodes(const struct topo *t)
{
	return t->n;
}

const struct node *topo_node(const struct topo *t, unsigned i)
{
	return &t->node[i];
}

const struct node *topo_find(const struct topo *t, int id)
{
	for (unsigned i = 0; i < t->n; i++)
		if (t->node[i].id == id)
			return &t->node[i];
	return NULL;
}

unsigned topo_distance(const struct topo *t, int from, int to)
{
	const struct node *a = topo_find(t, from), *b = topo_find(t, to);

	return a && b ? a->distance[b - t->node] : DISTANCE_UNKNOWN;
}
