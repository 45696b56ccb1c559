// SPDX-License-Identifier: Apache-2.0
/* From a path to its filesystem, and from there to the nodes it is on. */
#include "numa/topo.h"

#include <ctype.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#define MOUNTINFO_MAX (8u << 20)

/* A block device by its number: the name that dev/block leads to. */
static struct ids number_nodes(const struct topo *t, dev_t dev)
{
	char path[PATH_MAX], to[PATH_MAX];
	struct ids none = { 0 };

	snprintf(path, sizeof(path), "%.*s/dev/block/%u:%u", PATH_MAX - 64, t->sys, major(dev),
		 minor(dev));
	return realpath(path, to) ? topo_block(t, strrchr(to, '/') + 1) : none;
}

/* "mpol=bind:0,2-3": whose list has commas as the options have. "mpol=local" has none. */
static struct ids policy_nodes(const char *options)
{
	const char *at = strstr(options, "mpol=");
	char list[256];
	struct ids s = { 0 };
	size_t n = 0;

	if (!at || (at > options && at[-1] != ','))
		return s;
	at += strcspn(at, ":, \n");
	if (*at++ != ':')
		return s;
	while (n < sizeof(list) - 1 && (isdigit((unsigned char)at[n]) ||
		(strchr(",-", at[n]) && isdigit((unsigned char)at[n + 1]))))
		n++;
	snprintf(list, sizeof(list), "%.*s", (int)n, at);
	ids_parse(list, &s);
	return s;
}

/* "/dev/mapper/vg-data": its device's nodes. */
static struct ids source_nodes(const struct topo *t, const char *source)
{
	struct ids none = { 0 };
	struct stat st;

	if (*source != '/' || stat(source, &st) || !S_ISBLK(st.st_mode))
		return none;
	return number_nodes(t, st.st_rdev);
}

/* A line: id, parent, major:minor, root, mount point, options, fields..., "-", type, source,
 * options of the filesystem. */
struct ids mount_nodes(const struct topo *t, const char *mountinfo, dev_t dev)
{
	struct ids none = { 0 };

	for (const char *line = mountinfo; *line; line += strcspn(line, "\n") + 1) {
		char one[4096], type[64], source[1024], options[2048];
		unsigned ma, mi;
		const char *rest;

		snprintf(one, sizeof(one), "%.*s", (int)strcspn(line, "\n"), line);
		rest = strstr(one, " - ");
		if (sscanf(one, "%*d %*d %u:%u", &ma, &mi) == 2 && makedev(ma, mi) == dev && rest &&
		    sscanf(rest, " - %63s %1023s %2047s", type, source, options) == 3)
			return strcmp(type, "tmpfs") ? source_nodes(t, source) :
						       policy_nodes(options);
		if (!line[strcspn(line, "\n")])
			break;
	}
	return none;
}

struct ids topo_path(const struct topo *t, const char *path)
{
	CLEANUP_FREE char *mountinfo = NULL;
	struct ids s = { 0 };
	struct stat st;

	if (stat(path, &st))
		return s;
	s = number_nodes(t, st.st_dev);
	/* A filesystem with a number of its own: tmpfs, btrfs, overlays. */
	if (!ids_count(&s) && !read_file("/proc/self/mountinfo", MOUNTINFO_MAX, &mountinfo, NULL))
		s = mount_nodes(t, mountinfo, st.st_dev);
	return s;
}
