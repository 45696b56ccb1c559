// SPDX-License-Identifier: Apache-2.0
/* Which RDMA device a network interface is used by; the way back is topo_rdma's. */
#include "numa/topo.h"

#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

/* What ties a device to its interface, the better first. */
enum tie { TIE_CARD, TIE_PARENT, TIE_GID, TIE_NONE };

/* Of one name in a directory of sysfs. */
typedef bool has_name(const struct topo *t, const char *dir, const char *name, const char *ifname);

static bool any_in(const struct topo *t, const char *dir, const char *ifname, has_name *is)
{
	char path[PATH_MAX];
	struct dirent *e;
	bool found = false;
	DIR *d;

	if ((size_t)snprintf(path, sizeof(path), "%s/%s", t->sys, dir) >= sizeof(path))
		return false;
	d = opendir(path);
	while (d && !found && (e = readdir(d)))
		found = e->d_name[0] != '.' && is(t, dir, e->d_name, ifname);
	if (d)
		closedir(d);
	return found;
}

/* A GID that is not used has no interface, and cannot be read. */
static bool gid_is_by(const struct topo *t, const char *dir, const char *name, const char *ifname)
{
	char text[SYS_TEXT];

	return !sys_line(t, text, "%s/%s", dir, name) && !strcmp(text, ifname);
}

static bool port_has_gid(const struct topo *t, const char *dir, const char *name,
			 const char *ifname)
{
	char below[PATH_MAX];
	int n = snprintf(below, sizeof(below), "%s/%s/gid_attrs/ndevs", dir, name);

	return n > 0 && (size_t)n < sizeof(below) && any_in(t, below, ifname, gid_is_by);
}

static enum tie tie_of(const struct topo *t, const char *device, const char *ifname)
{
	char path[PATH_MAX], text[SYS_TEXT];
	struct stat st;
	int n = snprintf(path, sizeof(path), "%s/class/infiniband/%s/device/net/%s", t->sys, device,
			 ifname);

	if (n > 0 && (size_t)n < sizeof(path) && !stat(path, &st))
		return TIE_CARD;
	if (!sys_line(t, text, "class/infiniband/%s/parent", device) && !strcmp(text, ifname))
		return TIE_PARENT;
	snprintf(path, sizeof(path), "class/infiniband/%s/ports", device);
	return any_in(t, path, ifname, port_has_gid) ? TIE_GID : TIE_NONE;
}

int topo_netdev_rdma(const struct topo *t, const char *ifname, char device[RDMA_NAME])
{
	enum tie best = TIE_NONE;
	char path[PATH_MAX];
	struct dirent *e;
	DIR *d;

	device[0] = '\0';
	snprintf(path, sizeof(path), "%s/class/infiniband", t->sys);
	d = *ifname && *ifname != '.' && !strchr(ifname, '/') ? opendir(path) : NULL;
	while (d && (e = readdir(d))) {
		enum tie tie = e->d_name[0] == '.' || strlen(e->d_name) >= RDMA_NAME ? TIE_NONE :
			       tie_of(t, e->d_name, ifname);

		/* In whatever order they are listed, the answer is the same. */
		if (tie < best || (tie == best && tie != TIE_NONE &&
				   strverscmp(e->d_name, device) < 0)) {
			best = tie;
			snprintf(device, RDMA_NAME, "%s", e->d_name);
		}
	}
	if (d)
		closedir(d);
	return best == TIE_NONE ? -ENOENT : 0;
}
