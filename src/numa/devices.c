// SPDX-License-Identifier: Apache-2.0
/* Finds the node of a device. A PCI function has a file numa_node. All other devices are below a
 * PCI function, or are stacked on other devices. */
#include "numa/topo.h"

#include <ctype.h>
#include <dirent.h>
#include <limits.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

/* The maximum number of levels of stacked devices; ends the search if sysfs has a loop. */
#define DEPTH_MAX 8

static struct ids netdev_nodes(const struct topo *t, const char *ifname, int depth);
static struct ids block_nodes(const struct topo *t, const char *name, int depth);

/* ---- up the tree ---- */

/* out gets the path without symbolic links; "": it does not exist. */
static void real_path(const struct topo *t, char out[PATH_MAX], const char *dir, const char *name)
{
	char path[PATH_MAX];
	int n = snprintf(path, sizeof(path), "%s/%s/%s", t->sys, dir, name);

	out[0] = '\0';
	if (n > 0 && (size_t)n < sizeof(path) && !realpath(path, out))
		out[0] = '\0';
}

/* The node of the device at path, or of the nearest device above it that has one. */
static struct ids nodes_above(const struct topo *t, const char *path)
{
	size_t top = strlen(t->sys);
	char at[PATH_MAX], text[SYS_TEXT];
	struct ids s = { 0 };
	uint64_t id;

	snprintf(at, sizeof(at), "%s", path);
	while (strlen(at) > top && !strncmp(at, t->sys, top)) {
		if (!sys_line(t, text, "%s/numa_node", at)) {
			/* -1: the firmware does not report the node, but it may report the node of
			 * a bridge above. */
			if (!parse_uint(text, 0, IDS_MAX - 1, &id) && topo_find(t, (int)id)) {
				ids_add(&s, (unsigned)id);
				return s;
			}
		}
		*strrchr(at, '/') = '\0';
	}

	return s;
}

/* ---- stacked devices ---- */

typedef struct ids nodes_of(const struct topo *t, const char *name, int depth);

/* The nodes of all entries of a directory that are named prefix and a device's name. With all_known
 * the result is empty if the nodes of one device are not known. */
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

/* Virtual cards report -1; the file of a card without a link cannot be read. */
uint32_t topo_netdev_mbps(const struct topo *t, const char *ifname)
{
	uint64_t mbps = sys_number(t, "class/net", ifname, "speed");

	return mbps < UINT32_MAX ? (uint32_t)mbps : 0;
}

/* A software RDMA device uses a network interface, not a PCI device. rxe names the interface in the
 * file parent; all drivers name it in the attributes of their GIDs. */
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

/* Find the component of path that is named prefix and a number: "host" finds "host3/session1" in
 * ".../host3/session1". Directories above a copied sysfs are ignored. NULL: there is none. */
static const char *partition_of(const struct topo *t, const char *path, const char *prefix)
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

/* Copy path up to the end of part, which points into path. */
static void path_to(char out[PATH_MAX], const char *path, const char *part)
{
	snprintf(out, PATH_MAX, "%.*s", (int)(part - path) + part_length(part), path);
}

/* ---- iSCSI and iSER ---- */

/* The nodes of the card that sends the packets of a connection; "3:0" belongs to session 3. A
 * connection that is down has only the persistent address, to which it will reconnect. */
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

/* An iSCSI disk is on the node of the initiator's card. Few initiators are configured for one card.
 * For all others the routes select the card, and netdev is "default" or another word that is not a
 * device. */
static struct ids iscsi_nodes(const struct topo *t, const char *path, int depth)
{
	const char *session = partition_of(t, path, "session");
	const char *host = partition_of(t, path, "host");
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
		return none; /* a namespace, not a controller */
	real_path(t, path, "class/nvme", controller);
	return *path ? nodes_above(t, path) : none;
}

/* NVMe multipath: the disk belongs to a subsystem, which links to its controllers. */
static struct ids subsystem_nodes(const struct topo *t, const char *path, int depth)
{
	const char *subsystem = partition_of(t, path, "nvme-subsys");
	char dir[PATH_MAX];
	struct ids none = { 0 };

	if (!subsystem)
		return none;
	path_to(dir, path, subsystem);
	return nodes_of_each(t, dir, "nvme", nvme_nodes, false, depth);
}

/* ---- disks ---- */

static struct ids number_nodes(const struct topo *t, dev_t dev, int depth)
{
	char path[PATH_MAX], number[32];
	struct ids none = { 0 };

	snprintf(number, sizeof(number), "%u:%u", major(dev), minor(dev));
	real_path(t, path, "dev/block", number);
	return *path ? block_nodes(t, strrchr(path, '/') + 1, depth) : none;
}

/* Only for a backing file on a filesystem with a block device; the kernel does not report the
 * devices of other filesystems. */
static struct ids loop_nodes(const struct topo *t, const char *path, int depth)
{
	char text[SYS_TEXT];
	struct ids none = { 0 };
	struct stat st;

	/* In a copied sysfs the name belongs to the other machine, not to a local file. */
	if (!sys_is_own(t) || sys_line(t, text, "%s/loop/backing_file", path) || stat(text, &st))
		return none;
	return number_nodes(t, st.st_dev, depth + 1);
}

static struct ids block_nodes(const struct topo *t, const char *name, int depth)
{
	char path[PATH_MAX], below[PATH_MAX + 16];
	struct ids s = { 0 };
	struct stat st;

	real_path(t, path, "class/block", name);
	if (!*path || depth > DEPTH_MAX)
		return s;
	snprintf(below, sizeof(below), "%s/partition", path);
	if (!stat(below, &st)) /* the directory of a partition is below the directory of its disk */
		*strrchr(path, '/') = '\0';
	s = nodes_above(t, path);
	if (!ids_count(&s))
		s = iscsi_nodes(t, path, depth);
	if (!ids_count(&s))
		s = subsystem_nodes(t, path, depth);
	snprintf(below, sizeof(below), "%s/slaves", path);
	if (!ids_count(&s))
		s = nodes_of_each(t, below, "", block_nodes, true, depth);
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

/* "bind:0,2-3": the list contains commas, which also separate the options. "local" has no list. */
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

/* ---- RDMA devices ---- */

#define EMPTY_GIDS 8 /* so many empty GIDs in a row end the search of the table */

/* How an RDMA device belongs to an interface, the strongest relation first. */
enum tie { TIE_ADDRESS, TIE_CARD, TIE_PARENT, TIE_GID, TIE_NONE };

/* True: the entry name in the sysfs directory dir belongs to an interface or a GID. */
typedef bool has_name(const struct topo *t, const char *dir, const char *name, const char *wanted);

static bool any_in(const struct topo *t, const char *dir, const char *wanted, has_name *is)
{
	char path[PATH_MAX];
	struct dirent *e;
	bool found = false;
	DIR *d;

	if ((size_t)snprintf(path, sizeof(path), "%s/%s", t->sys, dir) >= sizeof(path))
		return false;
	d = opendir(path);
	while (d && !found && (e = readdir(d)))
		found = e->d_name[0] != '.' && is(t, dir, e->d_name, wanted);
	if (d)
		closedir(d);
	return found;
}

/* An unused GID has no interface: its file cannot be read. */
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

static bool port_has_address(const struct topo *t, const char *dir, const char *name,
			     const char *gid)
{
	char text[SYS_TEXT];
	unsigned empty = 0;

	for (unsigned i = 0; empty < EMPTY_GIDS; i++) {
		if (sys_line(t, text, "%s/%s/gids/%u", dir, name, i))
			return false;
		empty = text[strspn(text, "0:")] ? 0 : empty + 1;
		if (!empty && !strcmp(text, gid))
			return true;
	}
	return false;
}

static enum tie tie_of(const struct topo *t, const char *device, const char *ifname,
		       const char *gid)
{
	char path[PATH_MAX], ports[RDMA_NAME + 32], text[SYS_TEXT];
	struct stat st;
	int n = snprintf(path, sizeof(path), "%s/class/infiniband/%s/device/net/%s", t->sys, device,
			 ifname);

	snprintf(ports, sizeof(ports), "class/infiniband/%s/ports", device);
	if (gid && any_in(t, ports, gid, port_has_address))
		return TIE_ADDRESS;
	if (!*ifname || *ifname == '.' || strchr(ifname, '/'))
		return TIE_NONE;
	if (n > 0 && (size_t)n < sizeof(path) && !stat(path, &st))
		return TIE_CARD;
	if (gid)
		return TIE_NONE;
	if (!sys_line(t, text, "class/infiniband/%s/parent", device) && !strcmp(text, ifname))
		return TIE_PARENT;
	return any_in(t, ports, ifname, port_has_gid) ? TIE_GID : TIE_NONE;
}

int topo_netdev_rdma(const struct topo *t, const char *ifname, const char *gid,
		     char device[RDMA_NAME])
{
	enum tie best = TIE_NONE;
	char path[PATH_MAX];
	struct dirent *e;
	bool any = false;
	DIR *d;

	device[0] = '\0';
	snprintf(path, sizeof(path), "%s/class/infiniband", t->sys);
	d = opendir(path);
	while (d && (e = readdir(d))) {
		enum tie tie;

		if (e->d_name[0] == '.' || strlen(e->d_name) >= RDMA_NAME)
			continue;
		any = true;
		tie = tie_of(t, e->d_name, ifname, gid);

		/* Among equals take the first name: the order of readdir() must not matter. */
		if (tie < best || (tie == best && tie != TIE_NONE &&
				   strverscmp(e->d_name, device) < 0)) {
			best = tie;
			snprintf(device, RDMA_NAME, "%s", e->d_name);
		}
	}

	if (d)
		closedir(d);
	return best != TIE_NONE ? 0 : any ? -ENOENT : -ENODEV;
}

/* ---- interrupts ---- */

#define INTERRUPTS_MAX (16u << 20)
#define VECTORS_MAX IDS_MAX

static bool handled_on(const struct topo *t, unsigned irq, const struct ids *cpus)
{
	char text[SYS_TEXT];
	struct ids on;

	if (sys_line(t, text, "%s/irq/%u/effective_affinity_list", t->proc, irq) &&
	    sys_line(t, text, "%s/irq/%u/smp_affinity_list", t->proc, irq))
		return false;
	if (ids_parse(text, &on))
		return false;
	ids_intersect(&on, cpus);
	return ids_count(&on);
}

/* " 45: 0 12 PCI-MSI mlx5_comp3@pci:0000:03:00.0": interrupt 45 belongs to vector 3. */
static bool parse_line(const char *line, size_t len, const char *pci, unsigned *irq,
		       unsigned *vector)
{
	char one[256], function[64];
	const char *last;
	char *end;

	*irq = (unsigned)strtoul(line, &end, 10);
	if (end == line || *end != ':')
		return false;
	/* Search from the end: before the name there is a counter for each CPU. */
	last = memrchr(line, ' ', len);
	snprintf(one, sizeof(one), "%.*s", last ? (int)(line + len - last - 1) : 0,
		 last ? last + 1 : "");
	return sscanf(one, "mlx5_comp%u@pci:%63s", vector, function) == 2 &&
	       !strcmp(function, pci) && *vector < VECTORS_MAX;
}

static struct ids near_vectors(const struct topo *t, const char *device, const struct ids *cpus)
{
	CLEANUP_FREE char *all = NULL, *path = NULL;
	struct ids near = { 0 };
	char real[PATH_MAX], name[80];
	const char *pci;

	snprintf(name, sizeof(name), "%.64s/device", device);
	real_path(t, real, "class/infiniband", name);
	pci = strrchr(real, '/'); /* "/0000:03:00.0", unless the device is not on PCI */
	if (!pci || !strchr(pci, ':') || asprintf(&path, "%s/interrupts", t->proc) < 0) {
		path = NULL;
		return near;
	}
	if (read_file(path, INTERRUPTS_MAX, &all, NULL))
		return near;
	for (const char *line = all; *line; line += strspn(line, "\n")) {
		size_t len = strcspn(line, "\n");
		unsigned irq, vector;

		if (parse_line(line, len, pci + 1, &irq, &vector) && handled_on(t, irq, cpus))
			ids_add(&near, vector);
		line += len;
	}

	return near;
}

unsigned topo_vector(const struct topo *t, const char *device, const struct ids *cpus,
		     unsigned vectors, unsigned nth)
{
	struct ids near = near_vectors(t, device, cpus);
	unsigned n = ids_count(&near), local = ids_count(cpus);
	int v = ids_next(&near, 0);

	if (vectors < 2)
		return 0;
	for (unsigned skip = n ? nth % n : 0; skip; skip--)
		v = ids_next(&near, (unsigned)v + 1);
	if (v >= 0 && (unsigned)v < vectors)
		return (unsigned)v;
	return nth % (local && local < vectors ? local : vectors);
}
