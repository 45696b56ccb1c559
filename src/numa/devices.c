// SPDX-License-Identifier: Apache-2.0
/* On which node a device is. What has one says it in numa_node, which sits on the PCI
 * function; everything else is found from there down, or stands on other devices. */
#include "numa/topo.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

/* Of devices that stand on others, which stand on others: a loop among them is an error of
 * somebody's, and must not be ours. */
#define DEPTH_MAX 8

static struct ids netdev_nodes(const struct topo *t, const char *ifname, int depth);
static struct ids block_nodes(const struct topo *t, const char *name, int depth);

/* ---- up the tree ---- */

/* Without links; "" when it is not there. */
static void real_path(const struct topo *t, char out[PATH_MAX], const char *dir, const char *name)
{
	char path[PATH_MAX];
	int n = snprintf(path, sizeof(path), "%s/%s/%s", t->sys, dir, name);

	out[0] = '\0';
	if (n > 0 && (size_t)n < sizeof(path) && !realpath(path, out))
		out[0] = '\0';
}

/* The first node on the way from the device at path up to the top. */
static struct ids nodes_above(const struct topo *t, const char *path)
{
	size_t top = strlen(t->sys);
	char at[PATH_MAX], text[SYS_TEXT];
	struct ids s = { 0 };
	uint64_t id;

	snprintf(at, sizeof(at), "%s", path);
	while (strlen(at) > top && !strncmp(at, t->sys, top)) {
		if (!sys_line(t, text, "%s/numa_node", at)) {
			/* -1: firmware did not say; a bridge above may. */
			if (!parse_uint(text, 0, IDS_MAX - 1, &id) && topo_find(t, (int)id)) {
				ids_add(&s, (unsigned)id);
				return s;
			}
		}
		*strrchr(at, '/') = '\0';
	}
	return s;
}

/* ---- what stands on others ---- */

typedef struct ids nodes_of(const struct topo *t, const char *name, int depth);

/* The nodes of all entries of a directory whose names begin with prefix, without it; with all_known
 * none, when one of them is not known. */
static struct ids nodes_of_each(const struct topo *t, const char *dir, const char *prefix,
				nodes_of *of, bool all_known, int depth)
{
	size_t skip = strlen(prefix);
	struct ids all = { 0 };
	bool known = true;
	struct dirent *e;
	DIR *d = opendir(dir);

	while (d && known && (e = readdir(d))) {
		struct ids one;

		if (e->d_name[0] == '.' || strncmp(e->d_name, prefix, skip))
			continue;
		one = of(t, e->d_name + skip, depth + 1);
		ids_unite(&all, &one);
		known = !all_known || ids_count(&one);
	}
	if (d)
		closedir(d);
	return known ? all : (struct ids){ 0 };
}

/* ---- network ---- */

static struct ids netdev_nodes(const struct topo *t, const char *ifname, int depth)
{
	char path[PATH_MAX];
	struct ids s = { 0 };

	real_path(t, path, "class/net", ifname);
	if (!*path || depth > DEPTH_MAX)
		return s;
	s = nodes_above(t, path);
	return ids_count(&s) ? s : nodes_of_each(t, path, "lower_", netdev_nodes, true, depth);
}

int topo_netdev(const struct topo *t, const char *ifname)
{
	struct ids s = netdev_nodes(t, ifname, 0);

	return ids_only(&s);
}

/* Virtual cards say -1, those without a link cannot be read. */
uint32_t topo_netdev_mbps(const struct topo *t, const char *ifname)
{
	uint64_t mbps = sys_number(t, "class/net", ifname, "speed");

	return mbps < UINT32_MAX ? (uint32_t)mbps : 0;
}

/* A soft one has no device below it, but a network interface: rxe names it in parent, any in
 * the attributes of its GIDs. */
int topo_rdma(const struct topo *t, const char *device)
{
	char path[PATH_MAX], text[SYS_TEXT];
	struct ids s = { 0 };

	real_path(t, path, "class/infiniband", device);
	if (!*path)
		return NODE_UNKNOWN;
	s = nodes_above(t, path);
	if (!ids_count(&s) &&
	    (!sys_line(t, text, "%s/parent", path) ||
	     !sys_line(t, text, "%s/ports/1/gid_attrs/ndevs/0", path))) {
		s = netdev_nodes(t, text, 0);
	}
	return ids_only(&s);
}

/* ---- parts of a path ---- */

/* The directory in path that is called prefix and a number: for "host" in ".../host3/session1"
 * it is "host3/session1". Those above sysfs, of a copy, may have any name. NULL: there is none. */
static const char *part_of(const struct topo *t, const char *path, const char *prefix)
{
	size_t n = strlen(prefix), top = strlen(t->sys);

	if (strncmp(path, t->sys, top))
		return NULL;
	for (const char *p = strchr(path + top, '/'); p; p = strchr(p + 1, '/'))
		if (!strncmp(p + 1, prefix, n) && isdigit((unsigned char)p[n + 1]))
			return p + 1;
	return NULL;
}

static int part_length(const char *part)
{
	return (int)strcspn(part, "/");
}

/* path up to the end of the part of it. */
static void path_to(char out[PATH_MAX], const char *path, const char *part)
{
	snprintf(out, PATH_MAX, "%.*s", (int)(part - path) + part_length(part), path);
}

/* ---- iSCSI and iSER ---- */

/* "3:0" is session 3's: the card that its packets go out by. While it is down it has no address
 * but the one it is to be connected to again. */
static struct ids connection_nodes(const struct topo *t, const char *name, int depth)
{
	static const char *const addresses[] = { "address", "persistent_address" };
	char text[SYS_TEXT], ifname[IF_NAMESIZE];
	struct ids none = { 0 };

	for (size_t i = 0; i < sizeof(addresses) / sizeof(addresses[0]); i++)
		if (!sys_line(t, text, "class/iscsi_connection/connection%s/%s", name,
			      addresses[i]) && !route_netdev(text, ifname))
			return netdev_nodes(t, ifname, depth);
	return none;
}

/* The disk is where the initiator's card is. Initiators are seldom told to use a certain one: the
 * routes decide then, and netdev is "default" or whatever else is none. */
static struct ids iscsi_nodes(const struct topo *t, const char *path, int depth)
{
	const char *host = part_of(t, path, "host"), *session = part_of(t, path, "session");
	char text[SYS_TEXT], found[PATH_MAX];
	struct ids none = { 0 };

	if (!host || !session)
		return none;
	sys_line(t, text, "class/iscsi_host/%.*s/netdev", part_length(host), host);
	real_path(t, found, "class/net", text);
	if (*text && *found)
		return netdev_nodes(t, text, depth + 1);
	if (!sys_is_own(t))
		return none;
	path_to(found, path, session);
	return nodes_of_each(t, found, "connection", connection_nodes, true, depth);
}

/* ---- NVMe ---- */

static struct ids nvme_nodes(const struct topo *t, const char *name, int depth)
{
	char path[PATH_MAX], controller[32];
	struct ids none = { 0 };

	(void)depth;
	snprintf(controller, sizeof(controller), "nvme%.*s", (int)strspn(name, "0123456789"), name);
	if (name[strspn(name, "0123456789")])
		return none; /* a namespace, no controller */
	real_path(t, path, "class/nvme", controller);
	return *path ? nodes_above(t, path) : none;
}

/* With several paths: the disk belongs to a subsystem, which links to its controllers. */
static struct ids subsystem_nodes(const struct topo *t, const char *path, int depth)
{
	const char *subsystem = part_of(t, path, "nvme-subsys");
	char dir[PATH_MAX];
	struct ids none = { 0 };

	if (!subsystem)
		return none;
	path_to(dir, path, subsystem);
	return nodes_of_each(t, dir, "nvme", nvme_nodes, false, depth);
}

/* ---- disks ---- */

/* A partition knows its disk by being in its directory. */
static void disk_of(char path[PATH_MAX])
{
	char part[PATH_MAX + 16];
	struct stat st;

	snprintf(part, sizeof(part), "%s/partition", path);
	if (!stat(part, &st))
		*strrchr(path, '/') = '\0';
}

static struct ids number_nodes(const struct topo *t, dev_t dev, int depth)
{
	char path[PATH_MAX], number[32];
	struct ids none = { 0 };

	snprintf(number, sizeof(number), "%u:%u", major(dev), minor(dev));
	real_path(t, path, "dev/block", number);
	return *path ? block_nodes(t, strrchr(path, '/') + 1, depth) : none;
}

/* On a filesystem that has a device of its own; what others are on, no driver asks. */
static struct ids loop_nodes(const struct topo *t, const char *path, int depth)
{
	char text[SYS_TEXT];
	struct ids none = { 0 };
	struct stat st;

	/* Of a copy it would be a file of ours that has the same name. */
	if (!sys_is_own(t) || sys_line(t, text, "%s/loop/backing_file", path) || stat(text, &st))
		return none;
	return number_nodes(t, st.st_dev, depth + 1);
}

static struct ids block_nodes(const struct topo *t, const char *name, int depth)
{
	char path[PATH_MAX], slaves[PATH_MAX + 8];
	struct ids s = { 0 };

	real_path(t, path, "class/block", name);
	if (!*path || depth > DEPTH_MAX)
		return s;
	disk_of(path);
	s = nodes_above(t, path);
	if (!ids_count(&s))
		s = iscsi_nodes(t, path, depth);
	if (!ids_count(&s))
		s = subsystem_nodes(t, path, depth);
	snprintf(slaves, sizeof(slaves), "%s/slaves", path);
	if (!ids_count(&s))
		s = nodes_of_each(t, slaves, "", block_nodes, true, depth);
	return ids_count(&s) ? s : loop_nodes(t, path, depth);
}

struct ids topo_block(const struct topo *t, const char *name)
{
	return block_nodes(t, name, 0);
}

struct ids topo_device(const struct topo *t, dev_t dev)
{
	return number_nodes(t, dev, 0);
}

bool topo_has_block(const struct topo *t, const char *name)
{
	char path[PATH_MAX];

	real_path(t, path, "class/block", name);
	return *path;
}

/* ---- tmpfs ---- */

/* "bind:0,2-3": the list has commas as the options have. "local" has none. */
struct ids tmpfs_nodes(const char *options)
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
		((at[n] == ',' || at[n] == '-') && isdigit((unsigned char)at[n + 1]))))
		n++;
	snprintf(list, sizeof(list), "%.*s", (int)n, at);
	ids_parse(list, &s);
	return s;
}
