// SPDX-License-Identifier: Apache-2.0
/* Finds what sysfs lists in its classes. */
#include "numa/parts.h"

#include "numa/topo.h"

#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static bool is_disk(const struct topo *t, const char *name)
{
	static const char *const none[] = { "loop", "ram", "zram" };
	char text[SYS_TEXT];

	for (size_t i = 0; i < sizeof(none) / sizeof(none[0]); i++)
		if (!strncmp(name, none[i], strlen(none[i])))
			return false;
	/* hidden: one path of several to an NVMe disk, which is listed itself. */
	return sys_line(t, text, "class/block/%s/partition", name) &&
	       sys_number(t, "class/block", name, "size") &&
	       !sys_number(t, "class/block", name, "hidden");
}

static bool fill(const struct topo *t, struct part *p)
{
	int node = NODE_UNKNOWN;

	switch (p->kind) {
	case PART_NETWORK:
		p->size = topo_netdev_mbps(t, p->name);
		node = topo_netdev(t, p->name);
		break;
	case PART_RDMA:
		node = topo_rdma(t, p->name);
		break;
	default:
		if (!is_disk(t, p->name))
			return false;
		p->size = sys_number(t, "class/block", p->name, "size") * 512;
		p->nodes = topo_block(t, p->name);
		break;
	}
	if (node != NODE_UNKNOWN)
		ids_add(&p->nodes, (unsigned)node);
	return true;
}

static int add(const struct topo *t, struct parts *p, enum part_kind kind, const char *name)
{
	struct part *v = reallocarray(p->v, p->n + 1, sizeof(*v));

	if (!v)
		return -ENOMEM;
	p->v = v;
	v[p->n] = (struct part){ .kind = kind };
	snprintf(v[p->n].name, sizeof(v[p->n].name), "%.63s", name);
	if (fill(t, &v[p->n]))
		p->n++;
	return 0;
}

/* Of the class itself, as bonding_masters in class/net; devices are directories. */
static bool is_attribute(DIR *d, const char *name)
{
	struct stat st;

	return !fstatat(dirfd(d), name, &st, 0) && S_ISREG(st.st_mode);
}

static int find_kind(const struct topo *t, struct parts *p, enum part_kind kind,
		     const char *class)
{
	char path[PATH_MAX];
	struct dirent *e;
	DIR *d;
	int r = 0;

	snprintf(path, sizeof(path), "%.*s/class/%s", PATH_MAX - 64, t->sys, class);
	d = opendir(path);
	while (!r && d && (e = readdir(d)))
		if (e->d_name[0] != '.' && !is_attribute(d, e->d_name))
			r = add(t, p, kind, e->d_name);
	if (d)
		closedir(d);
	return r;
}

static int compare(const void *a, const void *b)
{
	const struct part *x = a, *y = b;

	return x->kind != y->kind ? (int)x->kind - (int)y->kind : strverscmp(x->name, y->name);
}

int parts_find(const struct topo *t, struct parts *p)
{
	static const char *const classes[PART_KINDS] = {
		[PART_NETWORK] = "net", [PART_RDMA] = "infiniband", [PART_DISK] = "block",
	};
	int r = 0;

	*p = (struct parts){ 0 };
	for (int k = 0; !r && k < PART_KINDS; k++)
		r = find_kind(t, p, (enum part_kind)k, classes[k]);
	if (p->n)
		qsort(p->v, p->n, sizeof(*p->v), compare);
	return r;
}

void parts_free(struct parts *p)
{
	free(p->v);
	*p = (struct parts){ 0 };
}
