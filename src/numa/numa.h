// SPDX-License-Identifier: Apache-2.0
/* numa: where the parts of this machine are. Its nodes, and on which of them network
 * interfaces, RDMA devices, disks and files are, as sysfs tells (Documentation/ABI in the
 * kernel's source: stable/sysfs-devices-node, testing/sysfs-bus-pci). */
#ifndef RFTP_NUMA_H
#define RFTP_NUMA_H

#include "util/util.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* ---- sets of CPUs and of nodes ---- */

#define IDS_MAX 8192 /* the kernel's most CPUs; nodes are at most 1024 */

struct ids {
	uint64_t word[IDS_MAX / 64];
};

static inline bool ids_has(const struct ids *s, unsigned id)
{
	return id < IDS_MAX && s->word[id / 64] >> id % 64 & 1;
}

static inline void ids_add(struct ids *s, unsigned id)
{
	if (id < IDS_MAX)
		s->word[id / 64] |= 1ull << id % 64;
}

unsigned ids_count(const struct ids *s);
/* The least member that is not below from; -1: there is none. */
int ids_next(const struct ids *s, unsigned from);
/* Its only member; -1 when it has none or several. */
int ids_only(const struct ids *s);
void ids_unite(struct ids *s, const struct ids *other);
void ids_intersect(struct ids *s, const struct ids *other);
/* "0-3,8,10-11" as in sysfs; white space at the end is harmless. 0; -EINVAL; -ERANGE. */
int ids_parse(const char *text, struct ids *s);
/* The same the other way; "" when empty, "..." at the end when room does not suffice. out. */
char *ids_format(char *out, size_t room, const struct ids *s);

/* ---- the machine ---- */

#define NODE_UNKNOWN (-1) /* no preference */
#define DISTANCE_UNKNOWN 0

struct node {
	int id;               /* the kernel's number; they may have gaps */
	struct ids cpus;      /* online; empty for a node that is memory only */
	unsigned *distance;   /* to each node, in the order of topo_node(); 10 is itself */
};

/* What was found when it was read; nothing in it changes. Any thread. */
struct topo;

/* sysfs: NULL for RFTP_SYSFS of the environment or else /sys. A kernel without NUMA is one
 * node, 0, with all CPUs. NULL with text. */
struct topo *topo_read(const char *sysfs, struct err *e);
void topo_free(struct topo *t);
unsigned topo_nodes(const struct topo *t);
const struct node *topo_node(const struct topo *t, unsigned i); /* i < topo_nodes */
/* By the kernel's number; NULL: there is no such node. */
const struct node *topo_find(const struct topo *t, int id);
/* From node to node, by their numbers; DISTANCE_UNKNOWN when either is not there. */
unsigned topo_distance(const struct topo *t, int from, int to);

/* Bytes. */
struct node_memory {
	uint64_t total, free;
	uint64_t room;            /* what it could give: free, or the page cache's */
	uint64_t huge, huge_free; /* in huge pages that were set aside, of any size */
};

/* Now, not when t was read. 0; or -ENOENT: it is not known. */
int topo_memory(const struct topo *t, int node, struct node_memory *m);

/* ---- what is where ---- */

/* The node of a network interface, or of an RDMA device; NODE_UNKNOWN when the firmware does
 * not tell, or when it has none, as a tunnel. What stands on others (a bond, a VLAN, a bridge,
 * a soft-RoCE device) is where all of those are. */
int topo_netdev(const struct topo *t, const char *ifname);
int topo_rdma(const struct topo *t, const char *device);
/* A network interface's speed in Mbit/s; 0: not known, or no link. */
uint32_t topo_netdev_mbps(const struct topo *t, const char *ifname);
/* The nodes of a block device, by its name in class/block, or its number: a partition has its
 * disk's; RAID, LVM and multipath those of all their members, iSCSI and iSER that of the
 * initiator's card, a loop device those of what its file is on. Empty: not known. */
struct ids topo_block(const struct topo *t, const char *name);
struct ids topo_device(const struct topo *t, dev_t dev);
/* Those that a tmpfs takes its memory from, as the options of its mount tell, "size=1g,mpol=
 * bind:0,2" (tmpfs(5)). Empty: they do not. */
struct ids tmpfs_nodes(const char *options);

/* ---- placement ---- */

/* Without libnuma in the build, or in a container that forbids it, all of these are -ENOSYS or
 * -EPERM, and nothing is changed. */

/* Pages of [base, base + bytes) that have not been touched yet come from node: strict, from
 * nowhere else, so that the kernel rather ends the process than take another node's when it is
 * full; otherwise from others then, too. base is page-aligned. -EINVAL: there is no such node,
 * or this process may have no memory of it. */
int place_memory(void *base, size_t bytes, int node, bool strict);
struct place_count {
	size_t there;       /* bytes on the node */
	size_t elsewhere;
	size_t untouched;   /* no page yet */
};

/* Where the pages of a region are; of more than 1 GiB every so many-th is looked at, and
 * stands for those behind it. */
int place_count(const void *base, size_t bytes, int node, struct place_count *c);

/* The CPUs that this thread may run on, or may not run beyond from now on: of cpus those that
 * it is allowed (cpuset, affinity). -EINVAL: none of them is; it stays as it is. */
int place_cpus(struct ids *cpus);
int place_thread(const struct ids *cpus);

#endif
