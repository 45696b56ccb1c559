// SPDX-License-Identifier: Apache-2.0
/* By names in sysfs and, on this machine, by what paths lead to. */
#include "iser_setup/locate.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* A link, /dev/disk/by-id/..., leads to the device of whose name sysfs knows. */
static int device_node(const struct topo *t, const char *path, bool own)
{
	char real[PATH_MAX];
	struct ids s;

	if (!own || !realpath(path, real))
		snprintf(real, sizeof(real), "%s", path);
	s = topo_block(t, strrchr(real, '/') + 1);
	return ids_only(&s);
}

/* Of the nearest directory above that is there, for the file may be still to be made. */
static int file_node(const struct topo *t, const char *path)
{
	CLEANUP_FREE char *at = strdup(path);
	struct stat st;
	struct ids s;

	while (at && *at && stat(at, &st))
		*strrchr(at, '/') = '\0';
	if (!at || stat(*at ? at : "/", &st))
		return NODE_UNKNOWN;
	s = topo_device(t, st.st_dev);
	return ids_only(&s);
}

int locate_node(enum iser_kind kind, const char *path, const struct topo *t, bool own)
{
	int found = NODE_UNKNOWN;

	if (kind == ISER_BLOCK)
		found = device_node(t, path, own);
	else if (kind == ISER_FILE && own)
		found = file_node(t, path);
	/* Where there is one node only, firmware seldom says so. */
	return found == NODE_UNKNOWN && topo_nodes(t) == 1 ? topo_node(t, 0)->id : found;
}

const char *locate_absent(const char *path, const struct topo *t, bool own)
{
	const char *name = path + strlen("/dev/");
	struct stat st;

	if (own && stat(path, &st))
		return strerror(errno);
	if (own)
		return S_ISBLK(st.st_mode) ? NULL : "no block device";
	/* udev's links, and what it puts into directories, are known there only. */
	return strchr(name, '/') || topo_has_block(t, name) ? NULL :
	       "no block device is called so there";
}
