// SPDX-License-Identifier: Apache-2.0
/* The nodes of this machine: devices/system/node of sysfs. */
#include "numa/topo.h"

#include <limits.h>
#include <stdarg.h>

#define SYS "/sys"
#define NODES "devices/system/node"

/* ---- files ---- */

int sys_line(const struct topo *t, char text[SYS_TEXT], const char *fmt, ...)
{
	CLEANUP_FREE char *all = NULL, *path = NULL;
	char name[PATH_MAX];
	va_list ap;
	int n, r;

	text[0] = '\0';
	va_start(ap, fmt);
	n = vsnprintf(name, sizeof(name), fmt, ap);
	va_end(ap);
	if (n < 0 || (size_t)n >= sizeof(name))
		return -ENAMETOOLONG;
	if (name[0] != '/' && asprintf(&path, "%s/%s", t->sys, name) < 0) {
		path = NULL;
		return -ENOMEM;
	}
	r = read_file(path ? path : name, SYS_TEXT - 1, &all, NULL);
	if (!r)
		snprintf(text, SYS_TEXT, "%.*s", (int)strcspn(all, "\n"), all);
	return r;
}

uint64_t sys_number(const struct topo *t, const char *dir, const char *name, const char *file)
{
	char text[SYS_TEXT];
	uint64_t v;

	if (sys_line(t, text, "%s/%s/%s", dir, name, file) || parse_uint(text, 0, UINT64_MAX, &v))
		return 0;
	return v;
}

bool sys_is_own(const struct topo *t)
{
	return !strcmp(t->sys, SYS);
}

static int read_ids(const struct topo *t, const char *dir, const char *file, struct ids *s)
{
	char text[SYS_TEXT];
	int r = sys_line(t, text, "%s/%s", dir, file);

	memset(s, 0, sizeof(*s));
	return r ? r : ids_parse(text, s);
}

/* ---- a node ---- */

static int read_node(struct topo *t, struct node *n)
{
	char dir[64], text[SYS_TEXT], *p = text, *end;

	snprintf(dir, sizeof(dir), NODES "/node%d", n->id);
	read_ids(t, dir, "cpulist", &n->cpus);
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

/* ---- the machine ---- */

/* For a kernel without NUMA: one node with all CPUs, or with none if a container hides them. */
static int make_only_node(struct topo *t, struct err *e)
{
	t->n = 1;
	t->node = calloc(1, sizeof(*t->node));
	if (!t->node)
		return -ENOMEM;
	if (read_ids(t, "devices/system/cpu", "online", &t->node->cpus) && !sys_is_own(t))
		return err_set(e, -ENOENT, "%s is not a sysfs: there is neither " NODES "/online "
			       "nor devices/system/cpu/online in it", printable(t->sys));
	t->node->distance = calloc(1, sizeof(unsigned));
	if (!t->node->distance)
		return -ENOMEM;
	t->node->distance[0] = 10;
	return 0;
}

static int read_nodes(struct topo *t, struct err *e)
{
	struct ids online;
	int r = read_ids(t, NODES, "online", &online);

	if (r == -EINVAL || r == -ERANGE)
		return err_set(e, r, "%s/" NODES "/online is not a list of nodes up to %d",
			       printable(t->sys), IDS_MAX - 1);
	if (r || !ids_count(&online))
		return make_only_node(t, e);
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
	const char *named = getenv("RFTP_SYSFS");
	struct err why = ERR_INIT;
	int r = t ? 0 : -ENOMEM;

	if (!sysfs)
		sysfs = named && *named ? named : SYS;
	if (t) {
		t->proc = getenv("RFTP_PROC") ? getenv("RFTP_PROC") : "/proc";
		t->sys = realpath(sysfs, NULL);
		r = t->sys ? read_nodes(t, &why) : -errno;
	}
	if (!r)
		return t;
	topo_free(t);
	if (!why.code)
		err_sys(&why, r, "%s", *sysfs ? printable(sysfs) : "\"\"");
	if (e)
		*e = why;
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

struct ids topo_cpus(const struct topo *t, int id, const struct ids *allowed)
{
	const struct node *n = topo_find(t, id);
	struct ids cpus = n ? n->cpus : (struct ids){ 0 };

	ids_intersect(&cpus, allowed);
	return cpus;
}

unsigned topo_distance(const struct topo *t, int from, int to)
{
	const struct node *a = topo_find(t, from), *b = topo_find(t, to);

	return a && b ? a->distance[b - t->node] : DISTANCE_UNKNOWN;
}

/* ---- cores ---- */

#define CPU "devices/system/cpu/cpu%d"

static int cpu_after(const struct ids *cpus, int cpu)
{
	return ids_next(cpus, (unsigned)(cpu + 1));
}

/* The CPUs (hardware threads) of cpu's core. thread_siblings_list: kernels before 5.3. */
static struct ids core_of(const struct topo *t, int cpu)
{
	char text[SYS_TEXT];
	struct ids core;

	if ((!sys_line(t, text, CPU "/topology/core_cpus_list", cpu) ||
	     !sys_line(t, text, CPU "/topology/thread_siblings_list", cpu)) &&
	    !ids_parse(text, &core) && ids_has(&core, (unsigned)cpu))
		return core;
	memset(&core, 0, sizeof(core));
	ids_add(&core, (unsigned)cpu);
	return core;
}

struct ids topo_cores(const struct topo *t, const struct ids *cpus)
{
	struct ids firsts = { 0 }, seen = { 0 };

	for (int cpu = -1; (cpu = cpu_after(cpus, cpu)) >= 0;) {
		struct ids core;

		if (ids_has(&seen, (unsigned)cpu))
			continue;
		core = core_of(t, cpu);
		ids_add(&firsts, (unsigned)cpu);
		ids_unite(&seen, &core);
	}

	return firsts;
}

/* ---- memory ---- */

#define MEMINFO_MAX 65536

/* The sum, in bytes, of the values of keys (NULL at the end) in lines such as "Node 0 MemTotal:
 * 131072 kB" or "MemTotal: 131072 kB". */
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

/* Read the node's meminfo; on a kernel without NUMA the machine's. */
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

	*m = (struct node_memory){ 0 };
	if (!topo_find(t, node) || read_meminfo(t, node, &text))
		return -ENOENT;
	m->total = sum_of(text, total);
	m->free = sum_of(text, free_now);
	m->room = sum_of(text, room);
	return 0;
}

uint64_t topo_huge_free(const struct topo *t, int node, uint64_t size)
{
	char dir[96];

	snprintf(dir, sizeof(dir), "node%d/hugepages/hugepages-%llukB", node,
		 (unsigned long long)(size >> 10));
	return sys_number(t, "devices/system/node", dir, "free_hugepages") * size;
}
